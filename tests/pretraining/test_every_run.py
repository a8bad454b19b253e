"""Runs of every kind, seconds long: three steps and three are six, the exports are what the docs promise.

What they export is what other libraries load, and what others start from.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from little_pretraining import SMALL, read_log, train
from safetensors import safe_open
from torch import Tensor

import electralab
from electralab.config import parse_overrides
from electralab.display import Display
from electralab.errors import UsageError
from electralab.events import Result
from electralab.model.electra import CopyMLM, TwoStream
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import load_any, load_encoder, locate_encoder
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.warm_start import load_pretrained
from electralab.tokens.batches import batch_at
from electralab.tokens.shards import open_data

DOCS = Path(__file__).parents[2] / "docs/objectives/README.md"
LITTLE = (*SMALL, "--model.embedding-size", "8", "--model.dropout", "0.1", "--batch.micro-size", "3")
TWO_LAYERS = ("--model.num-layers", "2", "--model.global-every", "2")
OLD = ("--model.backbone", "electra")
TASKS = ("correction", "selection", "contrast", "sequence")
WITH_TASKS = tuple(word for name in TASKS for word in (f"--loss.{name}-weight", "1"))
COOLING = ("--sampling.temperature", "2", "--sampling.final-temperature", "1")
RUNS: dict[str, tuple[str, ...]] = {
    "electra": ("--objective", "electra"),
    "more tasks": WITH_TASKS,
    "permutation": ("--objective", "permutation", *TWO_LAYERS, "--model.local-attention", "4"),
    "replace-mlm": ("--objective", "replace-mlm", *TWO_LAYERS),
    "all-tokens-mlm": ("--objective", "all-tokens-mlm", *TWO_LAYERS),
    "electra-15": ("--objective", "electra-15", *TWO_LAYERS),
    "bert": ("--objective", "bert", *TWO_LAYERS),
    "albert": ("--objective", "mlm", "--sentence-task", "sentence-order", "--model.share-layers", "true", *TWO_LAYERS),
    "old electra": ("--objective", "electra", *OLD),
    "causal": ("--objective", "causal"),
    "old causal": ("--objective", "causal", *OLD),
    "mlm": ("--objective", "mlm"),
    "old mlm": ("--objective", "mlm", *OLD),
    "causal generator": ("--generator.kind", "causal"),
    "old causal generator": ("--generator.kind", "causal", *OLD),
    "two towers": ("--generator.kind", "two-tower"),
    "unigram": ("--generator.kind", "unigram"),
    "uniform": ("--generator.kind", "uniform"),
    "frozen": ("--generator.kind", "frozen", "--generator.path", "TRAINED", *COOLING),
    "sharing nothing": ("--model.sharing", "none"),
    "sharing tokens": ("--model.sharing", "token"),
    "disentangled": ("--model.sharing", "disentangled"),
    "sharing layers": ("--model.share-layers", "true", "--model.num-layers", "2"),
    "discrepancy": ("--model.discrepancy-attention", "true", "--model.sharing", "embeddings"),
    "adaptive norm": ("--model.adaptive-norm", "true", "--model.sharing", "embeddings"),
    "one adaptive encoder": ("--model.adaptive-norm", "true", "--model.sharing", "everything"),
    "normalised queries": ("--model.qk-norm", "true", "--model.sharing", "embeddings"),
    "lower layers": ("--model.sharing", "lower-layers", "--model.num-layers", "2", "--generator.depth-share", "0.5"),
    "head adds cls": ("--model.verdict-adds-cls", "true"),
    "named without gate": ("--loss.correction-weight", "1", "--loss.correction-gate", "false"),
    "rates by group": (
        *("--optimizer.kind", "muon", "--optimizer.muon-iterations", "3", "--optimizer.table-learning-rate", "5e-3"),
        *("--optimizer.head-learning-rate", "1e-3", "--optimizer.generator-rate-factor", "2"),
        *("--model.sharing", "embeddings"),
    ),
    "averaged": ("--optimizer.average-decay", "0.9"),
    "growing batches of halved rows": (
        *("--batch.first-size", "1", "--batch.ramp-share", "0.9", "--batch.halved-share", "0.5"),
    ),
    "new second stage": ("--procedure", "two-stage", "--procedure-options.init-from-generator", "false"),
    "literal minimax": ("--procedure", "minimax-literal"),
    "words": ("--masking.unit", "word"),
    "spans": ("--masking.unit", "span"),
    "shrinking mask": ("--masking.mask-share", "0.4", "--masking.final-mask-share", "0.1"),
    "top k": ("--sampling.top-k", "5"),
    "top p": ("--sampling.top-p", "0.5"),
    "argmax": ("--sampling.method", "argmax"),
    "never the original": ("--sampling.allow-original", "false"),
    "cooling": COOLING,
}
# What is logged of every step, and of held-out rows at the end.
LOGGED: dict[str, set[str]] = {
    "more tasks": {f"{name}_loss" for name in TASKS},
    "permutation": {"permuted_loss", "permuted_accuracy", "permuted_entropy"},
    "replace-mlm": {"generator_loss", "masked_loss"},
    "all-tokens-mlm": {"generator_loss", "tokens_loss", "masked_loss"},
    "electra-15": {"generator_loss", "discriminator_loss"},
    "bert": {"masked_loss", "sentence_loss", "sentence_accuracy"},
    "albert": {"masked_loss", "sentence_loss", "sentence_accuracy"},
}
# Where the prose below the table says something else of a folder than the table.
OWN = "a folder of our own"
EXCEPTIONS: dict[str, dict[str, str | None]] = {
    "causal generator": {"generator": "ModernBertDecoderForCausalLM"},
    "old causal generator": {"generator": "ElectraForCausalLM"},
    "two towers": {"generator": OWN},
    "unigram": {"generator": None},
    "uniform": {"generator": None},
    "discrepancy": {"discriminator": OWN},
    "adaptive norm": {"discriminator": OWN},
    "one adaptive encoder": {"discriminator": OWN, "generator": OWN},
    "normalised queries": {"discriminator": OWN, "generator": OWN},
    "head adds cls": {"discriminator": OWN},
}


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    train(data, run, (*LITTLE, *RUNS["mlm"]), steps=1)
    return run / "export/model"


def find_words(name: str, trained: Path) -> tuple[str, ...]:
    return tuple(str(trained) if word == "TRAINED" else word for word in RUNS[name])


def read_promises(objective: str, backbone: str) -> dict[str, str | None]:
    """The folders of an export and the classes that load them, by the table of the docs."""
    promises: dict[str, str | None] = {}
    names: list[str] = []
    table = DOCS.read_text().split("## Which class loads the result")[1].strip().split("\n\n")[0]
    for line in table.splitlines()[2:]:
        named, folders, *classes = (cell.strip() for cell in line.strip("|").split("|"))
        names = [name.strip(" `") for name in named.split(",")] if named else names
        if objective in names:
            cell = classes[0 if backbone == "electra" or classes[1] == "the same" else 1].strip("`").split(" (")[0]
            promises |= {folder.strip(" `"): cell for folder in folders.split(",")}
    return promises


@pytest.mark.parametrize("name", RUNS)
def test_three_steps_and_three_are_six_and_leave_what_the_docs_promise(
    name: str, data: Path, trained: Path, tmp_path: Path
) -> None:
    words = (*LITTLE, "--evaluation.times", "2", *find_words(name, trained))
    whole, half = tmp_path / "whole", tmp_path / "half"
    train(data, whole, words)
    # A twin that knows only the first three: what came after is taken away, as if it had never been.
    shutil.copytree(whole, half)
    for later in ("checkpoints/step-6", "export"):
        shutil.rmtree(half / later)
    (half / "results.json").unlink()
    train(data, half, words)

    for file in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = (run / "checkpoints/step-6" / file for run in (whole, half))
        assert ours.read_bytes() == theirs.read_bytes()
    records = read_log(half)
    assert [record["step"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records == read_log(whole)
    for logged in LOGGED.get(name, set()):
        assert all(math.isfinite(record[logged]) for record in records)
        assert math.isfinite(records[-1][f"heldout_{logged}"])
    before, after = (whole / f"checkpoints/step-{step}/model.safetensors" for step in (3, 6))
    assert before.read_bytes() != after.read_bytes()

    results = json.loads((half / "results.json").read_text())
    assert results["step"] == 6
    assert results["heldout"]
    assert all(math.isfinite(score) for scores in ("heldout", "baselines") for score in results[scores].values())

    objective = words[words.index("--objective") + 1] if "--objective" in words else "electra"
    promises = read_promises(objective, "electra" if words[-2:] == OLD else "modern") | EXCEPTIONS.get(name, {})
    found = {folder.name: describe(folder) for folder in (half / "export").iterdir()}
    assert found == {folder: kind for folder, kind in promises.items() if kind is not None}
    for folder in (half / "export").iterdir():
        assert json.loads((folder / "config.json").read_text())["electralab_objective"] == objective


def describe(folder: Path) -> str:
    """The class of `transformers` that its config names; loaded by ours on the way."""
    load_any(folder)
    config = json.loads((folder / "config.json").read_text())
    assert ("electralab_network" in config) == config["model_type"].startswith("electralab-")
    return OWN if "electralab_network" in config else str(config["architectures"][0])


def test_a_frozen_generator_leaves_a_run_as_it_came(data: Path, trained: Path, tmp_path: Path) -> None:
    words = (*LITTLE, *find_words("frozen", trained), "--optimizer.weight-decay", "0.5")
    train(data, tmp_path / "run", words, steps=3)
    before, after = load_any(trained).state_dict(), load_any(tmp_path / "run/export/generator").state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())


def names_in(path: Path) -> list[str]:
    with safe_open(path, framework="pt") as weights:
        return sorted(weights.keys())


def test_heads_are_kept_by_checkpoints_and_left_out_of_exports(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "plain", LITTLE, steps=1)
    train(data, tmp_path / "more", (*LITTLE, *WITH_TASKS), steps=1)
    (record,) = read_log(tmp_path / "plain")
    assert not any(f"{name}_loss" in key for key in record for name in TASKS)
    for export in ("export/discriminator", "export/generator"):
        plain, more = (tmp_path / name / export for name in ("plain", "more"))
        assert names_in(plain / "model.safetensors") == names_in(more / "model.safetensors")
        assert (plain / "config.json").read_bytes() == (more / "config.json").read_bytes()
    kept = {name: set(names_in(tmp_path / name / "checkpoints/step-1/model.safetensors")) for name in ("plain", "more")}
    assert {name.split(".")[1] for name in kept["more"] - kept["plain"]} == {"correction", "selection"}
    assert kept["plain"] <= kept["more"]


@pytest.mark.parametrize(("before", "after"), [((), WITH_TASKS), (WITH_TASKS, ())])
def test_a_task_can_begin_or_end_where_a_run_goes_on_from_another(
    data: Path, tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    train(data, tmp_path / "first", (*LITTLE, *before), steps=1)
    train(data, tmp_path / "second", (*LITTLE, *after), steps=1, init_from=tmp_path / "first")
    (record,) = read_log(tmp_path / "second")
    assert ("correction_loss" in record) == bool(after)


def test_one_row_at_a_time_leaves_no_rows_to_tell_apart() -> None:
    words = ["--loss.sequence-weight", "1", "--batch.micro-size", "1"]
    with pytest.raises(UsageError, match=r"loss.sequence_weight tells rows apart.*batch.micro_size"):
        resolve_pretrain([parse_overrides(words)])


def test_a_finished_run_leaves_both_streams_and_others_can_start_from_it(data: Path, tmp_path: Path) -> None:
    words = (*LITTLE, *RUNS["permutation"])
    train(data, tmp_path / "first", words, steps=2)
    folder = locate_encoder(tmp_path / "first")
    assert folder == tmp_path / "first/export/model"
    streams = load_any(folder)
    assert isinstance(streams, TwoStream)
    assert type(load_encoder(folder)) is Encoder

    # From the checkpoint, from the exported network, and as the encoder of another objective.
    train(data, tmp_path / "second", words, steps=1, init_from=tmp_path / "first")
    train(data, tmp_path / "third", words, steps=1, init_from=folder)
    weights = [load_any(tmp_path / name / "export/model").state_dict() for name in ("second", "third")]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    train(data, tmp_path / "masked", (*words, "--objective", "mlm"), steps=1, init_from=folder)


ARMS = ("replace-mlm", "all-tokens-mlm", "electra-15", "bert", "albert")
WIDE = (*SMALL, "--batch.micro-size", "3")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    for arm in ARMS:
        train(data, folder / arm, (*WIDE, *RUNS[arm]), steps=2)
    return {arm: folder / arm for arm in ARMS}


def ids() -> Tensor:
    return torch.randint(5, 30, (3, 16), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("arm", ["replace-mlm", "bert", "albert"])
@torch.no_grad()
def test_transformers_guesses_as_we_do(arm: str, whole: dict[str, Path]) -> None:
    folder = whole[arm] / "export/model"
    assert load_encoder(folder).config.share_layers == (arm == "albert")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    ours = load_any(folder)
    said = ours(ids(), torch.zeros_like(ids()), None, torch.arange(48))
    torch.testing.assert_close(theirs(ids()).logits.flatten(0, 1), said, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_copying_model_is_a_folder_of_our_own_beside_a_plain_generator(whole: dict[str, Path]) -> None:
    folder = whole["all-tokens-mlm"] / "export"
    model = load_any(folder / "model")
    assert isinstance(model, CopyMLM)
    log_probs = model(ids(), torch.zeros_like(ids()), None, torch.arange(48))
    torch.testing.assert_close(log_probs.exp().sum(dim=-1), torch.ones(48))
    transformers.AutoModelForMaskedLM.from_pretrained(folder / "generator")
    with pytest.raises(ValueError, match="electralab-"):
        transformers.AutoModel.from_pretrained(folder / "model")


def build(data: Path, arm: str, *more: str) -> Objective[Any]:
    config = resolve_pretrain([parse_overrides([*WIDE, *RUNS[arm], *more])])
    return build_objective(config, open_data(data), 7, torch.device("cpu"))


@pytest.mark.parametrize("arm", ["replace-mlm", "all-tokens-mlm"])
def test_training_starts_from_both_exported_networks_each_in_its_place(
    arm: str, whole: dict[str, Path], data: Path
) -> None:
    """Of the table that both share the narrower generator's export knows less, and the model's holds."""
    objective = build(data, arm)
    load_pretrained(whole[arm] / "export", objective, open_data(data))
    for role, network in objective.exports().items():
        source = load_any(whole[arm] / "export" / role)
        for name, parameter in source.named_parameters():
            if role == "generator" and ".embeddings." in name:
                continue
            assert torch.allclose(network.get_parameter(name), parameter, atol=1e-6), f"{role}.{name}"


def test_training_starts_from_the_encoder_of_a_discriminator(whole: dict[str, Path], data: Path) -> None:
    objective = build(data, "all-tokens-mlm", "--generator.width-share", "1")
    load_pretrained(whole["electra-15"] / "export", objective, open_data(data))
    theirs = load_encoder(whole["electra-15"] / "export/discriminator")
    ours = objective.exports()["model"].get_submodule("encoder")
    for name, parameter in theirs.named_parameters():
        assert torch.allclose(ours.get_parameter(name), parameter, atol=1e-6), name


def test_bert_hides_the_same_tokens_of_a_row_in_every_epoch() -> None:
    config = resolve_pretrain([parse_overrides(["--objective", "bert"])])
    assert config.masking.fixed_masks
    assert config.masking.appearance == "mask-keep-random"
    assert config.sentence_task == "next-sentence"
    assert resolve_pretrain([parse_overrides(["--objective", "bert", "--sentence-task", "none"])]).masking.fixed_masks


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of 1 to 5 events in rows that have room for 14."""
    folder = tmp_path_factory.mktemp("sessions")
    lists = [[f"event {(number + step) % 7}" for step in range(1 + number % 5)] for number in range(60)]
    (folder / "log.jsonl").write_text("".join(json.dumps(symbols) + "\n" for symbols in lists))
    settings = {"symbols": True, "packing": {"sequence_length": 16}, "heldout_share": 0.2}
    electralab.prepare([folder / "log.jsonl"], folder / "data", settings=settings, display=Display(quiet=True))
    return folder / "data"


def test_a_batch_of_short_rows_knows_its_padding(sessions: Path) -> None:
    data = open_data(sessions)
    batch = batch_at(data, 0, 32, seed=0)
    sizes = (~batch.is_pad).sum(1)
    assert batch.has_padding
    assert set((sizes - 2).tolist()) <= {1, 2, 3, 4, 5}
    assert batch.original_ids.shape == (32, int(sizes.max()))  # and no wider, though rows have room for 16
    assert (batch.is_ordinary.sum(1) == sizes - 2).all()
    assert not (batch.is_ordinary & batch.is_pad).any()


@pytest.mark.parametrize(
    "words",
    [
        ("--objective", "electra"),
        ("--objective", "electra", "--model.backbone", "electra"),
        ("--objective", "electra", "--masking.unit", "span"),
        ("--objective", "electra", "--generator.kind", "two-tower"),
        ("--objective", "electra", "--generator.kind", "causal"),
        ("--objective", "electric"),
        ("--objective", "replace-mlm"),
        ("--objective", "all-tokens-mlm"),
        ("--objective", "mlm"),
        ("--objective", "causal"),
        ("--objective", "permutation"),
    ],
    ids=lambda words: " ".join(words[1:]),
)
def test_every_objective_learns_from_short_rows(sessions: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    words = (*SMALL, "--batch.size", "6", "--batch.micro-size", "4", "--model.dropout", "0", *words)
    events = train(sessions, tmp_path / "run", words, steps=3)
    assert isinstance(events[-1], Result)
    logged = read_log(tmp_path / "run")
    losses = {name: value for record in logged for name, value in record.items() if name.endswith("loss")}
    assert losses
    assert all(value is not None and math.isfinite(value) for value in losses.values()), losses
