"""The one table that says what a folder is, by the files that only such a folder has.

folder -> FolderKind

`show`, `report`, MODEL arguments and the refusal of a folder that "holds something else" all ask here. Nothing is
trusted: a damaged file still says what its folder is, and whoever reads it then says what is wrong with it.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from electralab.artifacts import MANIFEST, storage_errors
from electralab.errors import InputError, UsageError, shorten, suggest

# fmt: off
KindName = Literal[
    "data", "run", "fine-tuning run", "fit", "GLUE run", "study", "trade-off", "analysis", "checkpoint", "model",
    "fitted model", "seed",
    "networks", "snapshot", "export", "snapshots", "checkpoints", "tokenizer",
]
# fmt: on
"""As `--json` and the page name them."""

KNOWN = "a data folder, run, study, trade-off, analysis, checkpoint, model, export or metrics.jsonl"
"""What can be shown, for sentences about what cannot."""

MODELS = Path(__file__).parents[1] / "models"
"""Models that come with the package, by the names of their folders: runs without checkpoints."""

ROLES = ("discriminator", "generator", "model")
"""The networks of a run, by the names of their folders."""


@dataclass(frozen=True, slots=True)
class FolderKind:
    name: KindName
    noun: str
    """As a sentence says it: "holds a run"."""
    is_at: Callable[[Path], bool]
    verb: str = ""
    """Which writes it."""
    begun_mark: str = ""
    """What lies in the folder while the work is not finished, where the finished folder has other files."""
    is_alone: bool = False
    """It does not share its folder: work does not begin where other files lie."""


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda folder: all((folder / name).is_file() for name in names)


def _read_value(path: Path, key: str) -> Any:
    """A value of a JSON object; None where the file is missing, damaged or something else."""
    try:
        value = json.loads(path.read_bytes())
    # Deeply nested JSON, which anybody may put into a folder, ends in a RecursionError.
    except (OSError, ValueError, RecursionError):
        return None
    return value.get(key) if isinstance(value, dict) else None


def _has_networks(folder: Path) -> bool:
    return any((folder / role / "config.json").is_file() for role in ROLES)


# In the order in which they are asked: the more particular first.
KINDS: tuple[FolderKind, ...] = (
    FolderKind("study", "a study", _has("study.toml"), "study", is_alone=True),
    FolderKind("trade-off", "variants of a model", _has("tradeoff.json"), "compress", "compress.json"),
    FolderKind(
        "fine-tuning run",
        "a fine-tuning run",
        # The log of a seed is there before anything else that only such a run has.
        lambda folder: (
            _read_value(folder / "run.json", "kind") == "finetune" or any(folder.glob("seed-*/metrics.jsonl"))
        ),
        "finetune",
    ),
    FolderKind(
        "fit",
        "a run of fit",
        lambda folder: _read_value(folder / "run.json", "kind") == "fit",
        "fit",
        "text.jsonl",
        # A run has a README.md of its own.
        is_alone=True,
    ),
    FolderKind("run", "a run", _has("run.json"), "pretrain"),
    FolderKind(
        "GLUE run", "runs of GLUE", lambda folder: _read_value(folder / "results.json", "suite") == "glue", "glue"
    ),
    FolderKind("analysis", "an analysis", _has("analysis.json"), "analyze", "parts"),
    FolderKind("checkpoint", "a checkpoint", _has("state.json")),
    FolderKind(
        "data",
        "prepared data",
        lambda folder: (folder / "shards").is_dir() and (folder / MANIFEST).is_file(),
        "prepare",
        ".build",
        is_alone=True,
    ),
    FolderKind("model", "a model", _has("config.json")),
    FolderKind("fitted model", "a fitted model", _has("fitted.json")),
    FolderKind("seed", "a seed", lambda folder: folder.name.startswith("seed-") and _has("metrics.jsonl")(folder)),
    # A run whose run.json was lost still has curves to report.
    FolderKind("run", "a run", _has("metrics.jsonl"), "pretrain"),
    FolderKind("snapshot", "a snapshot", lambda folder: _has_networks(folder) and _has("progress.json")(folder)),
    FolderKind(
        "export",
        "an export",
        lambda folder: _has_networks(folder) and _read_value(folder / MANIFEST, "form") is not None,
        "export",
    ),
    FolderKind("networks", "networks", _has_networks),
    FolderKind("snapshots", "snapshots", lambda folder: any(folder.glob("step-*/progress.json"))),
    FolderKind("checkpoints", "checkpoints", lambda folder: any(folder.glob("step-*/state.json"))),
    FolderKind("tokenizer", "a tokenizer", _has("tokenizer.json")),
)
BY_NAME: dict[KindName, FolderKind] = {kind.name: kind for kind in reversed(KINDS)}
assert set(BY_NAME) == set(get_args(KindName))


def find_kind(folder: Path) -> FolderKind | None:
    """What the folder is; None where it is nothing of ours, or not finished."""
    return next((kind for kind in KINDS if kind.is_at(folder)), None)


def list_models() -> dict[str, Path]:
    """The models that come with the package, by their names."""
    return {manifest.parent.name: manifest.parent for manifest in sorted(MODELS.glob(f"*/{MANIFEST}"))}


def find_model(name: str | Path) -> Path:
    """What a MODEL argument means: the folder, or where there is none the model of that name in the package.

    >>> find_model("runs/mine").as_posix()
    'runs/mine'
    """
    path, known = Path(name), list_models()
    if os.path.exists(path) or path.name != str(name):  # noqa: PTH110  it takes names that are no paths
        return path
    if path.name in known:
        return known[path.name]
    if nearest := suggest(path.name, known, ""):
        raise InputError(f"{name}: no such file or folder; {nearest}")
    return path


def refuse_bundled(path: Path) -> None:
    """What comes with the package stays as it is: another user, or the next installation, has the same."""
    if path.resolve().is_relative_to(MODELS.resolve()):
        raise UsageError(
            f"{path.name}: comes with electralab and is not changed; copy it first (cp -r {path} my-model) and give "
            "my-model"
        )


def require_empty_or(name: KindName, out: Path) -> None:
    """Refuse a folder that holds something else, before anything is read or written.

    Other files may lie beside a run; prepared data and studies begin in a folder of their own.
    """
    wanted = BY_NAME[name]
    with storage_errors(out):
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out}: is a file, and not a folder for {wanted.noun}; choose another --out")
        held = find_kind(out)
        others = sorted(path.name for path in out.iterdir() if path.name != ".lock") if out.is_dir() else []
    if held is not None and held.name != name:
        raise UsageError(f"{out}: holds {held.noun}, not {wanted.noun}; choose another --out")
    is_begun = wanted.begun_mark in others if wanted.begun_mark else False
    if wanted.is_alone and held is None and not is_begun and any(not other.startswith(".") for other in others):
        first = next(other for other in others if not other.startswith("."))
        raise UsageError(
            f"{out}: holds something else than {wanted.noun} (it has {shorten(first)}); choose another --out"
        )


def explain_unknown(folder: Path) -> str:
    """Why a folder is none of these, by what lies in it: the second half of a sentence that begins with its path."""
    for kind in KINDS:
        if kind.begun_mark and (folder / kind.begun_mark).exists():
            return f"is not finished yet; run the same 'electra {kind.verb}' again"
    if inner := sorted(child.name for child in folder.glob("*/") if find_kind(child)):
        names = ", ".join(inner[:5]) + (", …" if len(inner) > 5 else "")
        return f"is not an artifact itself; give one of the folders in it ({shorten(names)})"
    return f"not an artifact of electralab; give {KNOWN}"
