"""The paper's settings for the task and the size, unless others are given."""

from pathlib import Path
from typing import Any, Literal

import pytest
from little_networks import make_encoder_config

from electralab import runtime
from electralab.config import ConfigLayer, SettingsTree
from electralab.errors import DamagedArtifact, IdentityMismatch, UsageError
from electralab.finetuning.settings import FinetuneConfig, check_resumable, read_identity, resolve_finetune
from electralab.finetuning.task_model import identify_model
from electralab.records.tuned import TunedRun
from electralab.tasks.catalog import TASKS, find_task


def settings(
    task: str, *values: SettingsTree, hidden_size: int = 256, num_layers: int = 12, sequence_length: int = 512
) -> FinetuneConfig:
    encoder = make_encoder_config(hidden_size=hidden_size, num_layers=num_layers, sequence_length=sequence_length)
    return resolve_finetune(find_task(task), encoder, [ConfigLayer("command line", tree) for tree in values])


@pytest.mark.parametrize(("hidden_size", "rate", "decay"), [(256, 3e-4, 0.8), (768, 1e-4, 0.8), (1024, 5e-5, 0.9)])
def test_the_size_decides_how_fast_is_learned(hidden_size: int, rate: float, decay: float) -> None:
    optimizer = settings("sst2", hidden_size=hidden_size).optimizer
    assert (optimizer.learning_rate, optimizer.layer_decay, optimizer.weight_decay) == (rate, decay, 0.0)


@pytest.mark.parametrize("hidden_size", [128, 192, 256])
def test_small_encoders_learn_fast_and_in_every_layer_alike(hidden_size: int) -> None:
    optimizer = settings("sst2", hidden_size=hidden_size, num_layers=6).optimizer
    assert (optimizer.learning_rate, optimizer.layer_decay) == (1e-3, 1.0)
    anew = settings("sst2", {"from_scratch": True}, hidden_size=hidden_size, num_layers=6).optimizer
    assert (anew.learning_rate, anew.layer_decay) == (1e-3, 1.0)


def test_a_run_goes_on_with_the_defaults_it_began_with() -> None:
    encoder = make_encoder_config(hidden_size=128)
    begun: SettingsTree = {"epochs": 3.0, "min_steps": 150, "optimizer": {"learning_rate": 5e-4, "layer_decay": 0.9}}
    kept = resolve_finetune(find_task("sst2"), encoder, [], begun)
    assert (kept.min_steps, kept.optimizer.learning_rate, kept.optimizer.layer_decay) == (150, 5e-4, 0.9)


@pytest.mark.parametrize(
    ("task", "backbone", "pooling"),
    [
        ("sst2", "modern", "mean"),
        ("stsb", "modern", "mean"),
        ("sst2", "electra", "first"),
        ("chunking", "modern", "first"),
    ],
)
def test_encoders_of_our_own_answer_by_the_mean_of_all_tokens(
    task: str, backbone: Literal["modern", "electra"], pooling: str
) -> None:
    config, given = (
        make_encoder_config(backbone=backbone),
        ConfigLayer("command line", {"head": {"pooling": "first"}}),
    )
    assert resolve_finetune(find_task(task), config, []).head.pooling == pooling
    assert resolve_finetune(find_task(task), config, [given]).head.pooling == "first"
    causal = config.model_copy(update={"is_causal": True})
    assert resolve_finetune(find_task(task), causal, []).head.pooling == "first"
    # A run keeps what it began with, one from before there was a choice the first token.
    for begun, kept in (({"head": {"pooling": "mean"}}, "mean"), ({"head": {}}, "first"), ({}, "first")):
        assert resolve_finetune(find_task(task), config, [], begun).head.pooling == kept


def test_a_precision_that_was_chosen_once_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, auto = (
        make_encoder_config(hidden_size=128),
        ConfigLayer("command line", {"runtime": {"precision": "auto"}}),
    )
    monkeypatch.setattr(runtime, "probe_precision", lambda *_: "bf16")
    begun = resolve_finetune(find_task("sst2"), encoder, [auto]).model_dump(mode="json")
    assert begun["runtime"]["precision"] == "bf16"
    monkeypatch.setattr(runtime, "probe_precision", lambda *_: "fp32")
    assert resolve_finetune(find_task("sst2"), encoder, [auto], begun).runtime.precision == "bf16"


EPOCHS = {"rte": 10, "stsb": 10, "squad1": 2, "squad2": 2, "qa": 2}
LENGTHS = {"squad1": 512, "squad2": 512, "qa": 512, "chunking": 256}


@pytest.mark.parametrize("task", list(TASKS))
def test_the_task_decides_how_long_and_how_often(task: str) -> None:
    config = settings(task)
    assert config.epochs == EPOCHS.get(task, 3)
    assert config.sequence_length == LENGTHS.get(task, 128)
    assert config.double_pairs == (task in ("mrpc", "stsb"))
    assert config.batch.size == 32
    assert config.schedule.warmup_share == 0.1


def test_what_knows_nothing_learns_alike_in_all_layers() -> None:
    assert settings("rte", {"from_scratch": True}).optimizer.layer_decay == 1.0
    assert settings("rte", {"from_scratch": True, "optimizer": {"layer_decay": 0.7}}).optimizer.layer_decay == 0.7


def test_what_is_given_wins_and_leaves_the_rest() -> None:
    given: SettingsTree = {"epochs": 0.5, "optimizer": {"learning_rate": 1e-3}, "head": {"style": "huggingface"}}
    config = settings("rte", {"epochs": 7}, given)
    assert (config.epochs, config.head.style) == (0.5, "huggingface")
    assert (config.optimizer.learning_rate, config.optimizer.layer_decay) == (1e-3, 0.8)


@pytest.mark.parametrize(
    ("values", "fewest"),
    [({"epochs": 3}, 0), ({"steps": 7}, 0), ({"min_steps": 9}, 9), ({"epochs": 3, "min_steps": 9}, 9)],
)
def test_few_rows_have_a_floor_of_steps_unless_their_length_is_given(values: SettingsTree, fewest: int) -> None:
    assert settings("classify").min_steps > 100
    assert settings("classify", values).min_steps == fewest


def test_a_run_that_began_before_there_was_a_floor_keeps_what_it_began_with() -> None:
    encoder = make_encoder_config(hidden_size=128)
    begun: SettingsTree = {"epochs": 3.0, "optimizer": {"learning_rate": 7e-4, "layer_decay": 0.65, "beta2": 0.999}}
    kept = resolve_finetune(find_task("classify"), encoder, [ConfigLayer("command line", {})], begun)
    assert (kept.min_steps, kept.optimizer.learning_rate, kept.optimizer.layer_decay) == (0, 7e-4, 0.65)
    given = ConfigLayer("command line", {"optimizer": {"learning_rate": 1e-3}})
    assert resolve_finetune(find_task("classify"), encoder, [given], begun).optimizer.learning_rate == 1e-3


def test_rows_are_no_longer_than_the_encoders() -> None:
    assert settings("squad1", sequence_length=128).sequence_length == 128
    assert settings("sst2", {"sequence_length": 400}, sequence_length=64).sequence_length == 64


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"epochs": 0}, "epochs"),
        ({"optimizer": {"learning_rates": 1}}, "did you mean 'learning_rate'"),
        ({"encoder_dropout": 1.5}, "encoder_dropout"),
        ({"sequence_length": 4}, "sequence_length"),
    ],
)
def test_a_wrong_setting_is_named(values: SettingsTree, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settings("sst2", values)


BEGUN = TunedRun(
    kind="finetune",
    task="cola",
    data="d" * 64,
    model="a" * 64,
    settings={"epochs": 3.0, "batch": {"size": 32}},
    threads=2,
)


def changed(**changes: Any) -> TunedRun:
    return BEGUN.model_copy(update=changes)


def test_what_was_written_is_read_and_another_runs_identity_is_refused(tmp_path: Path) -> None:
    assert read_identity(tmp_path) is None
    BEGUN.write(tmp_path)
    assert read_identity(tmp_path) == BEGUN
    foreign = "not the identity of a fine-tuning run"
    for text, sentence in (
        *((text, foreign) for text in ('{"kind": "pretrain"}', "[]", "{}")),
        ('{"kind": "finetune", "task": "cola"}', r"run\.json: not as electralab writes it \(data: Field required\)"),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(DamagedArtifact, match=sentence):
            read_identity(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "rte"}, "runs/a: was a run of cola, now rte; choose another --out for a new run"),
        ({"data": "e" * 64}, "runs/a: began with another data (dddddddd…, now eeeeeeee…); give the same or choose"),
        ({"model": "b" * 64}, "runs/a: began with another model (aaaaaaaa…, now bbbbbbbb…); give the same or choose"),
        ({"settings": {"epochs": 3.0, "batch": {"size": 8}}}, "runs/a: batch.size was 32, now 8; give the same"),
        ({"threads": 1}, "runs/a: ran with --threads 2, now 1, which changes sums; give the same number, or"),
    ],
)
def test_the_first_difference_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(IdentityMismatch) as caught:
        check_resumable(Path("runs/a"), BEGUN, changed(**changes), allow_inexact=False)
    assert str(caught.value).startswith(said)


def test_other_threads_are_allowed_on_request_and_nothing_else() -> None:
    check_resumable(Path("runs/a"), BEGUN, changed(threads=1), allow_inexact=True)
    with pytest.raises(IdentityMismatch):
        check_resumable(Path("runs/a"), BEGUN, changed(task="rte"), allow_inexact=True)


def test_a_model_is_its_weights_and_its_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "vocab.txt").write_text("[PAD]")
    before = identify_model(tmp_path)
    (tmp_path / "README.md").write_text("a card")
    assert identify_model(tmp_path) == before
    (tmp_path / "vocab.txt").write_text("[UNK]")
    assert identify_model(tmp_path) != before


def test_shards_count_as_weights(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"model-0000{number}-of-00002.safetensors").write_bytes(b"weights %d" % number)
    before = identify_model(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(b"others")
    assert identify_model(tmp_path) != before
