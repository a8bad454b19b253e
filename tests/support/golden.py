"""Numbers that are frozen: written once by `make golden`, held to the last bit on a like machine, nearly elsewhere.

A file of them has a line for each name, its values behind a tab: losses of a small run by step; of every objective,
procedure, sharing, auxiliary task and kind of generator hashes of first and last weights and of held-out scores, then
five losses; every analysis measure on one tiny model and a tuned one of it, with the value, the control and intervals.
"""

import argparse
import contextlib
import hashlib
import json
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import snapshots
import torch
from electra_process import Shell, Words
from golden_folders import NETWORKS, make_folders, unpack
from little_runs import metrics_of, prepare_little, train
from torch.nn import functional

from electralab.corpus.samples import write_bundled_text
from electralab.objective.registry import build_objective
from electralab.pretraining.settings import PretrainConfig
from electralab.tokens.shards import open_data

FOLDER = Path(__file__).parents[1] / "golden"
OBJECTIVE_LOSSES, FINDINGS = (FOLDER / f"{name}.txt" for name in ("objectives", "findings"))
# By the words of the run: steps that are not cut, and as the preset cuts them.
WHOLE: Words = ("--batch.slices", 1)
LOSSES: dict[Path, Words] = {
    FOLDER / "tiny-losses.txt": WHOLE,
    FOLDER / "sliced-losses.txt": (),
    FOLDER / "hour-losses.txt": ("--config", "hour", "--generator.num-heads", 1),
}

Lines = Mapping[str, Sequence[str]]


def describe_machine() -> dict[str, str]:
    """What decides the last bits. Processors of one capability may get different kernels: only their sums tell."""
    version, cpu = torch.__version__.split("+")[0], torch.backends.cpu.get_cpu_capability()
    return {"torch": version, "cpu": cpu, "threads": "1", "kernels": hash_kernels()}


@lru_cache(maxsize=1)
def hash_kernels() -> str:
    """The bits of products, an attention and a norm of the shapes of small runs, forward and backward."""
    draw = torch.Generator().manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    sums = hashlib.sha256()
    for rows, inner, columns in ((8, 32, 128), (24, 128, 600), (128, 128, 384), (256, 512, 128), (1024, 64, 64)):
        inputs = torch.randn(rows, inner, generator=draw, requires_grad=True)
        weights = torch.randn(columns, inner, generator=draw, requires_grad=True)
        states = functional.gelu(functional.linear(inputs, weights))
        queries = states.view(1, 2, rows, columns // 2)
        normed = functional.layer_norm(
            functional.scaled_dot_product_attention(queries, queries, queries), [columns // 2]
        )
        loss = functional.log_softmax(normed.reshape(rows, columns), dim=-1)[:, 0].sum()
        for tensor in (states, normed, *torch.autograd.grad(loss, (inputs, weights))):
            sums.update(tensor.detach().numpy().tobytes())
    torch.set_num_threads(threads)
    return sums.hexdigest()[:12]


def write_lines(path: Path, lines: Lines) -> None:
    head = [f"# {name} {value}" for name, value in describe_machine().items()]
    rows = [f"{name}\t{' '.join(values)}" for name, values in lines.items()]
    path.write_text("\n".join([*head, *rows, ""]))


def read_lines(path: Path) -> tuple[bool, dict[str, list[str]]]:
    """Whether they were written on a machine like this one, and each name with its values."""
    text = path.read_text().splitlines()
    head = dict(line.split()[1:3] for line in text if line.startswith("# "))
    rows = (line.split("\t") for line in text if not line.startswith("# "))
    return head == describe_machine(), {name: values.split() for name, values in rows}


def assert_near(values: Sequence[str], golden: Sequence[str], rel: float, name: str) -> None:
    """Numbers that are near each other; what is no number is the same."""
    assert len(values) == len(golden), name
    for value, wanted in zip(values, golden, strict=True):
        try:
            number = float(wanted)
        except ValueError:
            assert value == wanted, name
        else:
            assert float(value) == pytest.approx(number, rel=rel, abs=rel, nan_ok=True), name


def measure_losses(shell: Shell, path: Path) -> dict[str, list[str]]:
    if not (shell.folder / "data").is_dir():
        prepare_little(shell)
    shell.must(*train(path.stem, "--steps", 12, *LOSSES[path]))
    keys = ("loss", "generator_loss", "discriminator_loss")
    return {str(record["step"]): [repr(record[key]) for key in keys] for record in metrics_of(shell.folder / path.stem)}


STEPS = 5
RUN: Words = (*NETWORKS, *WHOLE, "--batch.size", 4, "--evaluation.rows", 8, "--evaluation.times", 0, "--threads", 1)

OBJECTIVES = (
    *("electra", "electra-15", "electric", "replace-mlm", "all-tokens-mlm"),
    *("mlm", "bert", "causal", "permutation", "albert"),
)
PROCEDURES = ("two-stage", "adversarial", "minimax", "minimax-literal")
SHARINGS = ("none", "token", "embeddings", "lower-layers", "everything", "disentangled")
AUXILIARIES = ("correction", "selection", "contrast", "sequence")
GENERATORS = ("causal", "two-tower", "unigram", "uniform")
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
    for kind in GENERATORS:
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


_SPEECHES = ("1946-Truman-1", "1981-Carter-1", "1912-Taft-1", "1885-Cleveland-1", "2026-Trump-1", "1830-Jackson-1")
_KEY = ("model", "claim", "name", "layer", "series", "part")
_RUN: Words = (
    *("--model.num-layers", 2, "--model.embedding-size", 8, "--model.num-heads", 2, "--model.feedforward-size", 16),
    *("--batch.size", 8, "--evaluation.rows", 16, "--evaluation.times", 5, "--threads", 1, "--steps", 12),
    *("--snapshots", "0.25,0.5", *WHOLE),
)


def measure_findings(shell: Shell) -> dict[str, list[str]]:
    """English text, five sizes of run, a tuned and a compressed one, then all measures."""
    folder = shell.folder
    write_bundled_text(folder / "text")
    (folder / "domains").mkdir()
    for name in _SPEECHES:
        (folder / "domains" / f"{name}.txt").write_text((folder / "text" / f"{name}.txt").read_text()[:12_000])
    people, things = ("Anna", "Ben", "Clara"), (("horse", "yes"), ("letter", "no"))
    rows = [f"{people[i % 3]} sees the {things[i % 2][0]}.,{things[i % 2][1]}\n" for i in range(32)]
    (folder / "table").mkdir()
    for split in ("train", "dev"):
        (folder / "table" / f"{split}.csv").write_text("text,label\n" + "".join(rows))
    texts = [f"text/{name}.txt" for name in _SPEECHES[:2]]
    shell.must("prepare", *texts, "--out", "data", "--vocab-size", 2000, "--sequence-length", 32)
    for width in (8, 12, 16, 20, 24):
        shell.must("pretrain", "--data", "data", "--out", f"sizes/w{width}", "--model.hidden-size", width, *_RUN)
    quick: Words = ("--epochs", 1, "--batch-size", 8, "--sequence-length", 16, "--threads", 1, "--no-baseline")
    shell.must("finetune", "sizes/w16", "--task", "classify", "--data", "table", "--out", "tuned", *quick, *WHOLE)
    sparing: Words = ("--recovery-steps", 0, "--importance.rows", 8, "--measure.rounds", 1, "--measure.bootstrap", 5)
    shell.must(
        *("compress", "sizes/w16", "--data", "data", "--out", "small", "--prune", "0.5", "--threads", 1),
        *(*sparing, "--verdicts.limit", 8),
    )
    domains = ",".join(f"domains/{name}.txt" for name in _SPEECHES)
    # What compression costs is told in seconds too, which are no one's golden numbers: claim M42 is held elsewhere.
    ended = shell.must(
        *("analyze", "sizes/w16", "tuned", "--data", "data", "--out", "analysis", "--domains", domains),
        *("--tradeoff", "small", "--runs", "sizes", "--classes", "table/dev.csv", "--examples", "table"),
        *("--rows", 32, "--vectors", 100, "--points", 20, "--times", 5, "--threads", 1, "--json"),
    )
    return _list_findings(ended.json)


def _list_findings(analysis: dict[str, Any]) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for finding in analysis["findings"]:
        if finding["claim"] == "M42":
            continue
        name = " | ".join("" if finding[key] is None else str(finding[key]) for key in _KEY)
        control = finding["control"] or {}
        figures = [finding.get(key) for key in ("value", "low", "high")]
        figures += [control.get(key) for key in ("value", "low", "high")]
        assert name not in lines, name
        lines[name] = [repr(figure) for figure in figures]
    for missing in analysis["missing"]:
        lines[f"missing: {missing['model']} | {missing['claim']} | {missing['name']}"] = []
    return lines


KINDS = ("losses", "objectives", "findings", "snapshots")


def write(kind: str, shell: Shell) -> None:
    match kind:
        case "losses":
            for path in LOSSES:
                write_lines(path, measure_losses(shell, path))
        case "objectives":
            unpack(shell.folder)
            write_lines(OBJECTIVE_LOSSES, measure_objectives(shell))
        case "findings":
            write_lines(FINDINGS, measure_findings(shell))
        case _:
            snapshots.FOLDER.mkdir(exist_ok=True)
            for name, sections in snapshots.take_snapshots(shell, make_folders(shell.folder)).items():
                (snapshots.FOLDER / f"{name}.txt").write_text(snapshots.write_snapshot(sections))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Write what is frozen again, after a change that is meant to change it."
    )
    parser.add_argument("kinds", nargs="*", help=f"{', '.join(KINDS)}; all of them, if none is named")
    for chosen in parser.parse_args().kinds or KINDS:
        with tempfile.TemporaryDirectory() as name:
            write(chosen, Shell(Path(name).resolve()))
