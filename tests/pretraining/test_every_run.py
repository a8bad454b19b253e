"""Runs of every kind, seconds long: three steps and three are six, the exports are what the docs promise."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from little_pretraining import make_request, prepare_sentences

from electralab.model.folders.folder import load_any
from electralab.pretraining.stage import pretrain
from electralab.stopping import StopSignal

DOCS = Path(__file__).parents[2] / "docs/objectives/README.md"
SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "8"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--model.dropout", "0.1"),
    *("--batch.size", "4", "--batch.micro-size", "3", "--evaluation.rows", "4", "--evaluation.times", "2"),
)
OLD = ("--model.backbone", "electra")
COOLING = ("--sampling.temperature", "2", "--sampling.final-temperature", "1")
RUNS: dict[str, tuple[str, ...]] = {
    "electra": ("--objective", "electra"),
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
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("every"))


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    train(data, run, RUNS["mlm"], steps=1)
    return run / "export/model"


def train(data: Path, run: Path, words: tuple[str, ...], steps: int = 6) -> None:
    for _ in pretrain(make_request(data, run, (*SMALL, *words), steps=steps), StopSignal()):
        pass


def read_metrics(run: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in record.items() if key not in ("seconds", "tokens_per_second")}
        for record in records
    ]


def read_promises(objective: str, backbone: str) -> dict[str, str | None]:
    """The folders of an export and the classes that load them, by the table of the docs."""
    promises: dict[str, str | None] = {}
    names: list[str] = []
    table = DOCS.read_text().split("## Which class loads the result")[1].strip().split("\n\n")[0]
    for line in table.splitlines()[2:]:
        named, folders, *classes = (cell.strip() for cell in line.strip("|").split("|"))
        names = [name.strip(" `") for name in named.split(",")] if named else names
        if objective in names:
            found = classes[0 if backbone == "electra" else 1].strip("`")
            promises |= {folder.strip(" `"): found for folder in folders.split(",")}
    return promises


@pytest.mark.parametrize("name", RUNS)
def test_three_steps_and_three_are_six_and_leave_what_the_docs_promise(
    name: str, data: Path, trained: Path, tmp_path: Path
) -> None:
    words = tuple(str(trained) if word == "TRAINED" else word for word in RUNS[name])
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
    records = read_metrics(half)
    assert [record["step"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records == read_metrics(whole)
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
    words = tuple(str(trained) if word == "TRAINED" else word for word in RUNS["frozen"])
    train(data, tmp_path / "run", (*words, "--optimizer.weight-decay", "0.5"), steps=3)
    before, after = load_any(trained).state_dict(), load_any(tmp_path / "run/export/generator").state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())
