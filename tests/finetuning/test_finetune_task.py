"""What a step of fine-tuning is: its rows, its micro-batches, its dropout, each a function of seed and step."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from little_networks import make_encoder, make_encoder_config
from little_tasks import make_request, save_origin, tune, write_animals
from little_words import word_tokenizer

import electralab
from electralab.config import ConfigLayer, SettingsTree, parse_overrides
from electralab.display import Display
from electralab.errors import DamagedArtifact, InputError
from electralab.finetuning.settings import FinetuneConfig, resolve_finetune
from electralab.finetuning.task import FinetuneTask, Pretrained, build_network, count_steps, load_pretrained
from electralab.finetuning.task_model import LoadedTaskModel, TaskModelConfig, load_model, save_model
from electralab.model.electra import Generator
from electralab.model.folders.folder import load_encoder, save_network
from electralab.model.folders.hf_config import UNTRAINED_SEGMENTS
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import HeadConfig, TaskModel, build_task_model
from electralab.model.weights import init_weights
from electralab.records.run import StepRecord
from electralab.serving.model import Model
from electralab.tasks.catalog import find_task
from electralab.tasks.features import Feature
from electralab.tasks.kind import Example, Split
from electralab.tasks.kinds import KINDS
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.qa import QAExample
from electralab.tasks.kinds.regression import RegressionExample
from electralab.tasks.load import TaskData
from electralab.tokens.tokenizer import Tokenizer


def settings(**values: Any) -> FinetuneConfig:
    tree: SettingsTree = {"batch": {"size": 4, "slices": 1}, **values}
    return resolve_finetune(find_task("classify"), make_encoder_config(), [ConfigLayer("command line", tree)])


def make_features(count: int = 10) -> list[Feature]:
    rng = np.random.default_rng(2)
    lengths = rng.integers(3, 12, count)
    return [
        Feature(row, rng.integers(5, 50, length), np.zeros(length, dtype=np.int64), np.array([row % 2]))
        for row, length in enumerate(lengths)
    ]


def make_work(
    features: Sequence[Feature], *, dropout: float = 0.0, seed: int = 0, score: Any = dict, **values: Any
) -> FinetuneTask:
    encoder = make_encoder(dropout=dropout, attention_dropout=dropout)
    network = build_task_model(encoder, HeadConfig(kind="classify", labels=("no", "yes"), dropout=dropout), seed=1)
    return FinetuneTask(network, KINDS["classify"], features, settings(**values), seed, 0, torch.device("cpu"), score)


def losses(work: FinetuneTask, *steps: int) -> list[list[float]]:
    return [[part.item() for part in work.micro_losses(step)] for step in steps]


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ({"epochs": 3}, 9),
        ({"epochs": 0.5}, 2),
        ({"epochs": 0.001}, 1),
        ({"epochs": 3, "steps": 5}, 5),
        ({"min_steps": 100}, 100),
        ({"epochs": 50, "min_steps": 100}, 150),
        ({"steps": 5, "min_steps": 100}, 5),
    ],
)
def test_epochs_or_steps_say_how_long_a_run_is(values: SettingsTree, steps: int) -> None:
    assert count_steps(settings(**values), rows=10) == steps


def test_an_epoch_of_steps_sees_every_row_once() -> None:
    features = make_features()
    work = make_work(features)
    tokens = []
    for step in (1, 2, 3):
        list(work.micro_losses(step))
        tokens.append(work.stats.tokens)
    assert sum(tokens) == sum(len(feature.ids) for feature in features)


def test_micro_batches_add_up_to_the_loss_of_the_step() -> None:
    features = make_features()
    whole = losses(make_work(features), 1, 2, 5)
    assert [len(of_step) for of_step in whole] == [1, 1, 1]
    for cut, count in (({"micro_size": 3}, 2), ({"slices": 4}, 4)):
        parts = losses(make_work(features, batch={"size": 4, **cut}), 1, 2, 5)
        assert max(len(of_step) for of_step in parts) == count
        assert [sum(of_step) for of_step in parts] == pytest.approx([sum(of_step) for of_step in whole], rel=1e-5)


def test_a_step_is_the_same_whatever_came_before_it() -> None:
    features = make_features()
    walked = losses(make_work(features, dropout=0.5), 1, 2, 3, 4, 5)
    assert losses(make_work(features, dropout=0.5), 5, 3) == [walked[4], walked[2]]
    assert losses(make_work(features, dropout=0.5, seed=1), 5) != [walked[4]]


def test_scores_go_by_the_name_of_dev() -> None:
    judgement = make_work(make_features(), score=lambda: {"accuracy": 0.5}).evaluate(StepRecord(step=3, values={}))
    assert (judgement.scores, judgement.warnings) == ({"dev_accuracy": 0.5}, [])


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


WORDS = ["cat", "dog", "cow", "sun", "sea", "sky"]
SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4", "--evaluation.rows", "4"),
    *("--evaluation.times", "1", "--model.sharing", "embeddings", "--generator.num-heads", "1"),
)
ELECTRA = (*SMALL, "--model.backbone", "electra")


class Listener(Display):
    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []

    def say(self, text: str, style: str = "") -> None:  # noqa: ARG002
        self.said.append(text)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With data packed both ways, a table of pairs and one of single texts, and `run`, of rows of one segment."""
    home = tmp_path_factory.mktemp("segments")
    lines = [f"the {a} sees the {b}\nand the {b} sees the {a}" for a in WORDS for b in WORDS]
    (home / "text.txt").write_text("\n\n".join(lines))
    for kind in ("contiguous", "pairs"):
        settings = {"tokenizer": {"vocab_size": 64}, "packing": {"sequence_length": 16, "kind": kind}}
        electralab.prepare([home / "text.txt"], home / kind, settings=settings, display=Display(quiet=True))
    pairs = [f"the {a},the {b},{'same' if a == b else 'other'}" for a in WORDS for b in WORDS]
    (home / "pairs.csv").write_text("\n".join(["text_a,text_b,label", *pairs]) + "\n")
    texts = [f"the {word} {number},{'yes' if number % 2 else 'no'}" for word in WORDS for number in range(8)]
    (home / "texts.csv").write_text("\n".join(["text,label", *texts]) + "\n")
    pretrain(home, "contiguous", "run")
    return home


def pretrain(home: Path, data: str, run: str, words: tuple[str, ...] = ELECTRA, **options: Any) -> Path:
    settings = parse_overrides(list(words)).values
    asked: dict[str, Any] = {"steps": 4, "threads": 1, "settings": settings, "display": Display(quiet=True)} | options
    electralab.pretrain(home / data, home / run, **asked)
    return home / run


def tune_once(model: Path, task: str, data: Path, out: Path, *words: str, **options: Any) -> list[str]:
    listener = Listener()
    settings = parse_overrides(["--steps", "1", "--optimizer.learning-rate", "1e-30", *words]).values
    electralab.finetune(model, task, data, out, settings=settings, threads=1, display=listener, **options)
    return [text for text in listener.said if "was never trained" in text]


def segments(home: Path) -> torch.Tensor:
    found = load_encoder(home).embeddings.segments
    assert found is not None
    return found.weight.detach()


def is_marked(run: Path) -> bool:
    return UNTRAINED_SEGMENTS in json.loads((run / "export/discriminator/config.json").read_text())


def test_a_run_says_of_its_networks_what_no_row_has_trained(home: Path) -> None:
    assert is_marked(home / "run")
    assert not is_marked(pretrain(home, "pairs", "of-pairs"))
    assert not is_marked(pretrain(home, "contiguous", "modern", SMALL))
    # What was trained once stays so; what was not still is not.
    assert not is_marked(pretrain(home, "contiguous", "from-pairs", init_from=home / "of-pairs", match_tokens=True))
    assert is_marked(pretrain(home, "contiguous", "further", init_from=home / "run"))


def test_a_task_of_pairs_begins_the_second_segment_as_the_first_and_says_so(home: Path) -> None:
    before = segments(home / "run/export/discriminator")
    assert not torch.equal(before[0], before[1])
    (note,) = tune_once(home / "run", "pair", home / "pairs.csv", home / "tuned-pairs")
    assert note.startswith(f"{home / 'run'}: was pre-trained on rows of one segment, so the segment of a pair's secon")
    after = segments(home / "tuned-pairs/export/model")
    assert torch.equal(after, before[0].expand_as(after))
    assert not load_pretrained(home / "tuned-pairs", None).has_untrained_segments


def test_a_task_of_single_texts_leaves_it_and_passes_on_that_it_is_untrained(home: Path) -> None:
    before = segments(home / "run/export/discriminator")
    assert tune_once(home / "run", "classify", home / "texts.csv", home / "tuned-texts") == []
    assert torch.equal(segments(home / "tuned-texts/export/model"), before)
    second = home / "second"
    (_,) = tune_once(home / "run", "pair", home / "pairs.csv", second, init_from=home / "tuned-texts")
    assert torch.equal(*segments(second / "export/model"))


def test_a_segment_that_was_trained_and_a_start_from_scratch_are_left_alone(home: Path) -> None:
    trained = pretrain(home, "pairs", "trained")
    assert tune_once(trained, "pair", home / "pairs.csv", home / "tuned-trained") == []
    assert torch.equal(segments(home / "tuned-trained/export/model"), segments(trained / "export/discriminator"))
    assert tune_once(home / "run", "pair", home / "pairs.csv", home / "scratch", "--from-scratch", "true") == []
    assert not torch.equal(*segments(home / "scratch/export/model"))


def test_an_export_for_others_still_says_it(home: Path) -> None:
    electralab.export(home / "run", home / "exported", format="hf", display=Display(quiet=True))
    assert load_pretrained(home / "exported", None).has_untrained_segments


def save_causal_run(folder: Path, backbone: str) -> Path:
    """As pre-training would leave it: one network, in export/model."""
    tokenizer = word_tokenizer()
    special = tokenizer.special
    config = EncoderConfig(
        backbone="modern" if backbone == "modern" else "electra",
        vocab_size=tokenizer.vocab_size,
        sequence_length=24,
        embedding_size=32,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        feedforward_size=64,
        dropout=0.0,
        attention_dropout=0.0,
        norm_eps=1e-5,
        is_causal=True,
    )
    generator = Generator(config)
    init_weights(generator, 1)
    target = folder / "export" / "model"
    target.mkdir(parents=True)
    save_network(target, generator, pad_id=special.pad, cls_id=special.cls, sep_id=special.sep, objective="causal")
    tokenizer.save(target)
    return folder


@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_causal_run_is_tuned_and_its_model_answers_as_it_was_judged(backbone: str, tmp_path: Path) -> None:
    model = save_causal_run(tmp_path / "pretrained", backbone)
    assert load_pretrained(model, None).encoder.config.is_causal
    data = write_animals(tmp_path / "data")
    results = tune(make_request(model, "classify", data, tmp_path / "tuned"))
    assert results["dev"] == {"accuracy": 1.0, "macro_f1": 1.0}
    assert load_model(tmp_path / "tuned").network.head_config.pooling == "last"
    cat, dog = Model(tmp_path / "tuned").predict(["the cat sat", "a dog on the mat"])
    assert (cat["prediction"], dog["prediction"]) == ("yes", "no")
