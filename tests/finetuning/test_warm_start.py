"""What a seed begins with: the encoder as it was, a fresh head, and the tokenizer that both read with."""

import shutil
from pathlib import Path

import pytest
import torch
from little_tasks import save_origin
from little_words import word_tokenizer

from electralab.config import ConfigLayer, SettingsTree
from electralab.errors import DamagedArtifact, InputError
from electralab.finetuning.settings import resolve_finetune
from electralab.finetuning.task import Pretrained, build_network, load_pretrained
from electralab.finetuning.task_model import LoadedTaskModel, TaskModelConfig, load_model, save_model
from electralab.model.task_model import TaskModel
from electralab.tasks.catalog import find_task
from electralab.tasks.kind import Example, Split
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.regression import RegressionExample
from electralab.tasks.load import TaskData
from electralab.tasks.squad import QAExample
from electralab.tokens.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_origin(tmp_path_factory.mktemp("starting") / "model", dropout=0.1)


@pytest.fixture(scope="module")
def origin(folder: Path) -> Pretrained:
    return load_pretrained(folder, None)


def build(
    origin: Pretrained, task: str, *examples: Example, seed: int = 0, **values: SettingsTree | float
) -> TaskModel:
    labels = ("no", "yes") if task == "classify" else ()
    train = Split("train", "train.csv", examples, True, {}, len(examples), ())
    data = TaskData(find_task(task), labels, train, (), (), "", ())
    config = resolve_finetune(data.task, origin.encoder.config, [ConfigLayer("command line", dict(values))])
    return build_network(origin, data, config, seed)


TEXT = ClassificationExample("0", ("cat",), "yes")


def are_equal(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_the_encoder_is_the_origins_and_the_head_the_seeds(origin: Pretrained) -> None:
    first, again, other = (build(origin, "classify", TEXT, seed=seed) for seed in (0, 0, 1))
    assert are_equal(first.encoder, origin.encoder)
    assert are_equal(first.head, again.head)
    assert not are_equal(first.head, other.head)


def test_seeds_do_not_share_their_weights(origin: Pretrained) -> None:
    first, second = (build(origin, "classify", TEXT) for _ in range(2))
    with torch.no_grad():
        next(first.encoder.parameters()).add_(1.0)
    assert are_equal(second.encoder, origin.encoder)


def test_the_encoders_dropout_can_be_another(origin: Pretrained) -> None:
    assert build(origin, "classify", TEXT).config.dropout == 0.1
    network = build(origin, "classify", TEXT, encoder_dropout=0.4)
    assert network.config.dropout == network.encoder.config.dropout == 0.4
    assert are_equal(network.encoder, origin.encoder)


def test_from_scratch_nothing_that_was_learned_is_left(origin: Pretrained) -> None:
    first, again, other = (build(origin, "classify", TEXT, seed=seed, from_scratch=True) for seed in (1, 1, 2))
    assert are_equal(first, again)
    assert not are_equal(first.encoder, other.encoder)
    assert not are_equal(first.encoder, origin.encoder)


def test_the_heads_dropout_and_style_are_settings(origin: Pretrained) -> None:
    head = build(origin, "classify", TEXT, head={"style": "huggingface", "dropout": 0.3}).head_config
    assert (head.style, head.dropout, head.labels) == ("huggingface", 0.3, ("no", "yes"))


@pytest.mark.parametrize("style", ["released", "huggingface"])
def test_regression_begins_at_the_mean(origin: Pretrained, style: str) -> None:
    scores = [RegressionExample(str(score), ("cat",), score) for score in (40.0, 50.0, 60.0)]
    network = build(origin, "regress", *scores, head={"style": style}).eval()
    ids = torch.tensor([[2, 8, 3]])
    assert network(ids, torch.zeros_like(ids), None).item() == pytest.approx(50.0, abs=1.0)
    assert network.head_config.unit == pytest.approx(8.165, abs=1e-3)


def test_the_unit_of_a_regression_is_folded_into_its_saved_weights(origin: Pretrained, tmp_path: Path) -> None:
    scores = [RegressionExample(str(score), ("cat",), score) for score in (4000.0, 5000.0, 6000.0)]
    network = build(origin, "regress", *scores).eval()
    torch.nn.init.normal_(network.head.output.weight)
    card = TaskModelConfig(task="regress", num_texts=1, sequence_length=24)
    save_model(tmp_path / "model", LoadedTaskModel(network, origin.tokenizer, card))
    loaded = load_model(tmp_path / "model").network
    ids = torch.tensor([[2, 8, 3]])
    assert (loaded.head_config.origin, loaded.head_config.unit) == (0.0, 1.0)
    said, expected = (one(ids, torch.zeros_like(ids), None).item() for one in (loaded, network))
    assert said == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("is_impossible", [True, False])
def test_only_questions_without_answers_need_a_head_for_doubt(origin: Pretrained, is_impossible: bool) -> None:
    question = QAExample("0", "who", "cat", (), is_impossible=is_impossible)
    network = build(origin, "qa", question)
    assert network.head_config.has_answerability == is_impossible
    assert (network.head.answerable is not None) == is_impossible


# From another tuned model


def tune_elsewhere(origin: Pretrained, folder: Path) -> TaskModel:
    network = build(origin, "classify", TEXT)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    card = TaskModelConfig(task="classify", num_texts=1, sequence_length=24)
    save_model(folder, LoadedTaskModel(network, origin.tokenizer, card))
    return network


def test_a_tuned_model_can_lend_its_encoder(folder: Path, origin: Pretrained, tmp_path: Path) -> None:
    tuned = tune_elsewhere(origin, tmp_path / "export/model")
    lent = load_pretrained(folder, tmp_path)
    assert are_equal(lent.encoder, tuned.encoder)
    assert lent.identity != origin.identity


def test_a_model_that_reads_other_words_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(word_tokenizer().to_json().replace('"mat"', '"hat"'))
    other = save_origin(tmp_path / "other", tokenizer=Tokenizer.load(tmp_path))
    with pytest.raises(InputError, match="has another tokenizer than") as caught:
        load_pretrained(folder, other)
    assert str(caught.value).startswith(f"{other}: ")


def test_an_encoder_without_entries_for_its_tokenizer_is_refused(tmp_path: Path) -> None:
    small = save_origin(tmp_path / "small")
    bigger = word_tokenizer().to_json().replace('"]": 22', '"]": 22,\n      "##more": 23')
    assert "##more" in bigger
    (small / "tokenizer.json").write_text(bigger)
    with pytest.raises(InputError, match=r"its tokenizer has 24 entries, its model 23; the folder mixes files"):
        load_pretrained(small, None)


def test_an_origin_is_known_by_its_content_not_by_its_place(folder: Path, origin: Pretrained, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert load_pretrained(tmp_path / "elsewhere", None).identity == origin.identity
    other = save_origin(tmp_path / "other", hidden_size=16)
    assert load_pretrained(other, None).identity != origin.identity


def test_a_saved_model_says_what_it_is_for(origin: Pretrained, tmp_path: Path) -> None:
    tuned = tune_elsewhere(origin, tmp_path / "model")
    loaded = load_model(tmp_path)
    assert loaded.config == TaskModelConfig(task="classify", num_texts=1, sequence_length=24)
    assert are_equal(loaded.network, tuned)
    assert loaded.network.head_config.labels == ("no", "yes")


def test_without_a_card_a_model_is_for_its_heads_kind(origin: Pretrained, tmp_path: Path) -> None:
    tune_elsewhere(origin, tmp_path / "model")
    for name in ("task.json", "manifest.json"):
        (tmp_path / "model" / name).unlink()
    assert load_model(tmp_path / "model").config == TaskModelConfig(task="classify", num_texts=0, sequence_length=24)


def test_a_card_that_is_none_is_named(origin: Pretrained, tmp_path: Path) -> None:
    tune_elsewhere(origin, tmp_path / "model")
    (tmp_path / "model/manifest.json").unlink()
    for text in ('{"task": "classify"}', "[]"):
        (tmp_path / "model/task.json").write_text(text)
        with pytest.raises(DamagedArtifact, match=r"task\.json: not what a task is") as caught:
            load_model(tmp_path / "model")
        assert "\n" not in str(caught.value)
