"""First weights and five losses of every objective, procedure, sharing, auxiliary task and kind of generator.

A run is a line: its name, hashes of its first and last weights and of its held-out scores, then the loss of each step.
"""

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import torch
from electra_process import Shell
from golden_folders import NETWORKS, Words
from little_runs import metrics_of

from electralab.objective.registry import build_objective
from electralab.pretraining.settings import PretrainConfig
from electralab.tokens.shards import open_data

PATH = Path(__file__).parents[1] / "golden" / "objectives.txt"
STEPS = 5
RUN: Words = (*NETWORKS, "--batch.size", 4, "--evaluation.rows", 8, "--evaluation.times", 0, "--threads", 1)

OBJECTIVES = (
    *("electra", "electra-15", "electric", "replace-mlm", "all-tokens-mlm"),
    *("mlm", "bert", "causal", "permutation", "albert"),
)
PROCEDURES = ("two-stage", "adversarial", "minimax", "minimax-literal")
SHARINGS = ("none", "token", "embeddings", "lower-layers", "everything", "disentangled")
AUXILIARIES = ("correction", "selection", "contrast", "sequence")
KINDS = ("causal", "two-tower", "unigram", "uniform")
OPTIONS: dict[str, Words] = {
    "no-gate": ("--loss.correction-weight", 1, "--loss.correction-gate", "false"),
    "all-auxiliaries": tuple(word for name in AUXILIARIES for word in (f"--loss.{name}-weight", 1)),
    "sentence-order": ("--objective", "mlm", "--sentence-task", "sentence-order"),
    "frozen": ("--generator.kind", "frozen", "--generator.path", "electra-modern"),
    "discrepancy-attention": ("--model.discrepancy-attention", "true"),
    "adaptive-norm": ("--model.adaptive-norm", "true"),
    "verdict-adds-cls": ("--model.verdict-adds-cls", "true"),
    "linear-head": ("--model.backbone", "electra", "--model.verdict-head", "linear"),
    "qk-norm": ("--model.qk-norm", "true"),
    "share-layers": ("--model.share-layers", "true"),
    "local-attention": ("--model.local-attention", 4),
    "zero-init": ("--model.zero-init-outputs", "true"),
    "dropout": ("--model.dropout", "0.1", "--model.attention-dropout", "0.1"),
    "argmax": ("--sampling.method", "argmax"),
    "top-k": ("--sampling.top-k", 5, "--sampling.top-p", "0.9"),
    "not-the-original": ("--sampling.allow-original", "false"),
    "micro-batches": ("--batch.micro-size", 3),
    "muon": ("--optimizer.kind", "muon"),
    "init-generator-anew": (
        *("--procedure", "two-stage", "--procedure-options.init-from-generator", "false"),
        *("--generator.width-share", "0.5"),
    ),
}


def list_runs() -> Iterator[tuple[str, Words]]:
    for objective in OBJECTIVES:
        for backbone in ("electra", "modern"):
            yield f"{objective}-{backbone}", ("--objective", objective, "--model.backbone", backbone)
    for procedure in PROCEDURES:
        yield procedure, ("--procedure", procedure)
    for sharing in SHARINGS:
        sizes: Words = ("--generator.width-share", 1, "--generator.num-heads", 2) if sharing == "everything" else ()
        halved: Words = ("--generator.depth-share", "0.5") if sharing == "lower-layers" else ()
        yield f"sharing-{sharing}", ("--model.sharing", sharing, *sizes, *halved)
    for name in AUXILIARIES:
        yield name, (f"--loss.{name}-weight", 1)
    for kind in KINDS:
        yield f"generator-{kind}", ("--generator.kind", kind)
    yield from OPTIONS.items()


def _hash(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:12]


def hash_first_weights(data: Path, run: Path) -> str:
    """Of every parameter by its name, as the run's settings and seed give them."""
    config = PretrainConfig.model_validate(tomllib.loads((run / "config.toml").read_text()))
    with contextlib.chdir(run.parent):  # a frozen generator's path is relative to it
        networks = build_objective(config, open_data(data), config.seed, torch.device("cpu")).networks
    parts = [f"{name} {_hash(value.detach().numpy().tobytes())}" for name, value in networks.named_parameters()]
    return _hash("\n".join(sorted(parts)))


def measure_objectives(shell: Shell) -> dict[str, list[str]]:
    """A folder with `data` in it -> the line of each run, by its name."""
    lines: dict[str, list[str]] = {}
    for name, words in list_runs():
        budget = ("--steps", STEPS, "--log-every", 1, "--save-every", 0)
        shell.must("pretrain", "--data", "data", "--out", name, *RUN, *words, *budget)
        run = shell.folder / name
        results = json.loads((run / "results.json").read_text())
        last = (run / "checkpoints" / f"step-{STEPS}" / "model.safetensors").read_bytes()
        hashes = [hash_first_weights(shell.folder / "data", run), _hash(last), _hash(json.dumps(results["heldout"]))]
        lines[name] = [*hashes, *(repr(record["loss"]) for record in metrics_of(run))]
    return lines
