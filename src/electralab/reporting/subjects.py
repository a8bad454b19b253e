"""Folders as they lie on disk, read without trust: what is missing or damaged is noted, and the rest is read.

path -> Subject
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, Literal

from electralab.artifacts import read_json, real_path
from electralab.errors import DamagedArtifact, InputError
from electralab.reporting.format import is_number
from electralab.reporting.predictions import Predictions, read_predictions

Kind = Literal["run", "fine-tuning run", "GLUE run", "study", "trade-off", "analysis"]
Record = dict[str, Any]
Tree = dict[str, Any]

_SHAPES: dict[str, Any] = {
    **dict.fromkeys(
        ("heldout", "baselines", "spread", "test", "report", "ensemble", "tasks", "average", "paper", "verdict"), dict
    ),
    **dict.fromkeys(("reports", "data", "diagnostics"), dict),
    **dict.fromkeys(("arms", "budget", "scores", "curves", "provenance"), dict),
    **dict.fromkeys(("cells", "table", "comparisons", "notes", "variants", "seeds", "warnings"), list),
    **dict.fromkeys(("step", "seconds", "skipped_steps"), int | float),
}
ANALYSIS, POINTS = "analysis.json", "points.json"
_PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
_EXAMPLE_KEYS = ("pieces", "is_masked", "guesses", "corrupted", "is_replaced", "p_replaced")
# A page with larger pictures would be slow to open.
_MOST_BYTES = 3_000_000


@dataclass(slots=True)
class Troubles:
    """What could not be read, in the order it was met."""

    said: list[str] = field(default_factory=list)

    def read(self, path: Path, *, is_needed: bool = True) -> Tree:
        """A JSON object; empty, with a word about it, where there is none."""
        if not path.is_file():
            if is_needed:
                self.said.append(f"{path.name}: not there (yet); what it would say is left out")
            return {}
        try:
            value = read_json(path)
        except (InputError, DamagedArtifact) as error:
            self.said.append(str(error))
            return {}
        if not isinstance(value, dict):
            self.said.append(f"{path}: holds no JSON object; what it would say is left out")
            return {}
        return value


@dataclass(frozen=True, slots=True)
class Subject:
    kind: Kind
    name: str
    path: Path
    identity: Tree = field(default_factory=dict)
    environment: Tree = field(default_factory=dict)
    results: Tree = field(default_factory=dict)
    logs: dict[str, list[Record]] = field(default_factory=dict)
    """Of each seed, or of the run under an empty name."""
    evaluations: dict[str, Tree] = field(default_factory=dict)
    analysis: Tree = field(default_factory=dict)
    """What `electra analyze` found: models, findings, missing, drawings."""
    claims: list[Tree] = field(default_factory=list)
    """What `electra claims` says of each."""
    clouds: list[Tree] = field(default_factory=list)
    """Points in space, with categories and words."""
    pictures: dict[str, str] = field(default_factory=dict)
    """name -> data: address"""
    examples: list[Tree] = field(default_factory=list)
    predictions: Predictions | None = None
    """Of a tuned model, where the truth is known."""
    parameters: dict[str, int] = field(default_factory=dict)
    troubles: tuple[str, ...] = ()

    @property
    def settings(self) -> Tree:
        found = self.identity.get("settings", {})
        return found if isinstance(found, dict) else {}

    @property
    def data_path(self) -> str:
        """Where its data lay; of runs that did not write it down, as their command has it; else empty."""
        if isinstance(found := self.environment.get("data"), str):
            return found
        command = self.environment.get("command")
        words = [word for given in command for word in str(given).split("=", 1)] if isinstance(command, list) else []
        return next((after for word, after in pairwise(words) if word == "--data"), "")


def find_kind(path: Path) -> Kind:
    if not path.exists():
        raise InputError(f"{path}: no such folder; give a run, study, trade-off or analysis")
    kind = recognise(path)
    if kind is None:
        raise InputError(f"{path}: nothing to report on; give the folder of a run, study, trade-off or analysis")
    return kind


def recognise(path: Path) -> Kind | None:
    """By the files that only such a folder has; damaged ones count."""
    if (path / "study.toml").is_file():
        return "study"
    if (path / "tradeoff.json").is_file():
        return "trade-off"
    if any(path.glob("seed-*/metrics.jsonl")):
        return "fine-tuning run"
    if (path / "run.json").is_file():
        identity = Troubles().read(path / "run.json")
        return "fine-tuning run" if identity.get("kind") == "finetune" else "run"
    if (path / "metrics.jsonl").is_file():
        return "run"
    if Troubles().read(path / "results.json").get("suite") == "glue":
        return "GLUE run"
    if (path / ANALYSIS).is_file():
        return "analysis"
    return None


def read_subject(path: Path, name: str = "") -> Subject:
    kind, troubles = find_kind(path), Troubles()
    is_trained = kind in ("run", "fine-tuning run")
    results = "tradeoff.json" if kind == "trade-off" else "results.json"
    logs = {}
    if kind == "run":
        logs = {"": read_log(path / "metrics.jsonl", troubles)}
    elif kind == "fine-tuning run":
        folders = sorted(path.glob("seed-*"), key=lambda one: (len(one.name), one.name))
        logs = {folder.name: read_log(folder / "metrics.jsonl", troubles) for folder in folders}
    identity = troubles.read(path / "run.json") if is_trained else {}
    analysis = _read_analysis(path, troubles)
    is_needed = kind == "run" and not _is_going(identity, logs[""])
    found = _read_results(path / results, troubles, is_needed=is_needed)
    return Subject(
        kind,
        name or real_path(path).name,
        path,
        identity=identity,
        environment=troubles.read(path / "environment.json", is_needed=is_trained),
        results=found,
        logs=logs,
        evaluations=_read_evaluations(path),
        analysis=analysis,
        claims=_read_claims(path, troubles),
        clouds=_read_clouds(path, troubles),
        pictures=read_pictures(path, analysis, troubles),
        examples=_read_examples(path, troubles),
        predictions=_read_predictions(path, found) if kind == "fine-tuning run" else None,
        parameters=_count_parameters(path) if is_trained else {},
        troubles=tuple(troubles.said),
    )


def choose_split(splits: Iterable[str]) -> str:
    """The labelled split that says most: a test, which nothing was chosen by, before dev."""
    return next((split for split in splits if split.startswith("test")), "dev")


def _read_predictions(path: Path, results: Tree) -> Predictions | None:
    """Those of the best seed, once there is one."""
    if not isinstance(seed := results.get("best_seed"), int):
        return None
    split = choose_split(results.get("spread") or ())
    return read_predictions(path / f"seed-{seed}" / "predictions" / f"{split}.jsonl", split)


def _is_going(identity: Tree, records: Sequence[Record]) -> bool:
    """There is more to train: results come with the last step."""
    total = identity.get("total_steps")
    return is_number(total) and (records[-1]["step"] if records else 0) < total


def _read_results(path: Path, troubles: Troubles, *, is_needed: bool) -> Tree:
    """Parts that are not of the shape they should have are left out."""
    results = troubles.read(path, is_needed=is_needed)
    wrong = [key for key, kind in _SHAPES.items() if key in results and not isinstance(results[key], (kind, NoneType))]
    if wrong:
        troubles.said.append(f"{path}: {', '.join(wrong)} cannot be read; what it would say is left out")
    return {key: value for key, value in results.items() if key not in wrong and value is not None}


def name_subjects(paths: Sequence[Path]) -> list[str]:
    """By what differs in their paths: cells/mlm/run and cells/causal/run are 'mlm' and 'causal'."""
    parts = [real_path(path).parts for path in paths]
    if len(paths) == 1:
        # A cell of a study keeps its run in a folder of that name.
        is_cell = parts[0][-1] == "run" and len(parts[0]) > 2 and parts[0][-2].startswith("seed-")
        return ["/".join(parts[0][-3:-1]) if is_cell else parts[0][-1]]
    shortest = min(map(len, parts))
    start = next((i for i in range(shortest) if len({one[i] for one in parts}) > 1), shortest - 1)
    ends = zip(*(reversed(one[start:]) for one in parts), strict=False)
    end = next((i for i, ones in enumerate(ends) if len(set(ones)) > 1), 0)
    names = ["/".join(one[start : len(one) - end]) or one[-1] for one in parts]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def read_log(path: Path, troubles: Troubles) -> list[Record]:
    """Every whole record; a last line that is still being written is not one, any other that cannot be read is said."""
    if not path.is_file():
        troubles.said.append(f"{path.parent.name}/{path.name}: not there (yet); its curves are left out")
        return []
    records, damaged = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        record = _parse(line)
        if record is not None:
            records.append(record)
        elif line.strip():
            damaged.append(number)
    if damaged:
        where = f"line {damaged[0]}" if len(damaged) == 1 else f"{len(damaged)} lines, the first is {damaged[0]},"
        troubles.said.append(f"{path}: {where} cannot be read; the curves are drawn without")
    return records


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None


def _read_evaluations(path: Path) -> dict[str, Tree]:
    """What `electra evaluate --out` wrote into the folder."""
    files = sorted([*path.glob("*.json"), *path.glob("evaluations/*.json")])
    read = {file.stem: Troubles().read(file) for file in files if file.stat().st_size < _MOST_BYTES}
    return {name: one for name, one in read.items() if "suite" in one and isinstance(one.get("scores"), dict)}


def _find_file(path: Path, name: str) -> Path:
    """Of an analysis by itself, or in the folder `analysis` of a run."""
    return path / name if (path / name).is_file() else path / "analysis" / name


def _read_analysis(path: Path, troubles: Troubles) -> Tree:
    file = _find_file(path, ANALYSIS)
    found = troubles.read(file, is_needed=False)
    wrong = [key for key in ("findings", "missing", "drawings") if not isinstance(found.get(key, []), list)]
    if wrong:
        troubles.said.append(f"{file}: {', '.join(wrong)} cannot be read; what it would say is left out")
    return {key: value for key, value in found.items() if key not in wrong}


def _read_claims(path: Path, troubles: Troubles) -> list[Tree]:
    found = troubles.read(path / "claims.json", is_needed=False).get("claims", [])
    keys = {"number", "sentence", "measure", "unit", "verdict", "why", "values"}
    kept = [one for one in found if isinstance(one, dict) and keys <= one.keys()] if isinstance(found, list) else []
    if not isinstance(found, list) or len(kept) < len(found):
        troubles.said.append(f"{path / 'claims.json'}: not all of it are claims; 'electra claims' writes it again")
    return kept


def _read_clouds(path: Path, troubles: Troubles) -> list[Tree]:
    file = _find_file(path, POINTS)
    found = troubles.read(file, is_needed=False).get("clouds", [])
    kept = [one for one in found if _is_cloud(one)] if isinstance(found, list) else []
    if not isinstance(found, list) or len(kept) < len(found):
        troubles.said.append(f"{file}: not all of it are points; the others are shown")
    return kept


def _is_cloud(one: Any) -> bool:
    keys = ("points", "categories", "words")
    if not isinstance(one, dict) or not all(isinstance(one.get(key), list) for key in keys):
        return False
    is_solid = all(
        isinstance(point, list) and len(point) == 3 and all(map(is_number, point)) for point in one["points"]
    )
    return is_solid and len({len(one[key]) for key in keys}) == 1


def read_pictures(path: Path, analysis: Tree, troubles: Troubles) -> dict[str, str]:
    """As data: addresses; of a picture in two formats the smaller file.

    Of an analysis those that it names: others are left from an earlier one, of other models.
    """
    drawn = {Path(str(one.get("file", ""))).stem for one in analysis.get("drawings", []) if isinstance(one, dict)}
    files: dict[str, Path] = {}
    for file in sorted([*path.glob("*.*"), *path.glob("analysis/*.*")]):
        if drawn and file.stem not in drawn and (file.parent / ANALYSIS).is_file():
            continue
        known = files.get(file.stem)
        if file.suffix in _PICTURES and (known is None or file.stat().st_size < known.stat().st_size):
            files[file.stem] = file
    found = {}
    for name, file in files.items():
        if file.stat().st_size > _MOST_BYTES:
            troubles.said.append(f"{file.name}: too large to stand in the page; open it by itself")
        else:
            found[name] = f"data:{_PICTURES[file.suffix]};base64,{b64encode(file.read_bytes()).decode()}"
    return found


def _read_examples(path: Path, troubles: Troubles) -> list[Tree]:
    rows = troubles.read(path / "examples.json", is_needed=False).get("rows", [])
    kept = [row for row in rows if is_example(row)] if isinstance(rows, list) else []
    if not isinstance(rows, list) or len(kept) < len(rows):
        troubles.said.append(f"{path / 'examples.json'}: not all of its rows are examples; the others are shown")
    return kept


def is_example(row: Any) -> bool:
    """At each place of the row: always what stood there and whether it was hidden, the rest where it is known."""
    if not isinstance(row, dict) or not {"pieces", "is_masked"} <= row.keys():
        return False
    columns = [row[key] for key in _EXAMPLE_KEYS if key in row]
    return all(isinstance(one, list) for one in columns) and len({len(one) for one in columns}) == 1


def _count_parameters(path: Path) -> dict[str, int]:
    """Of each exported network, from the heads of its files alone."""
    found = {}
    for file in sorted(path.glob("export/*/model.safetensors")):
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            head = _parse_head(opened.read(size)) if size < _MOST_BYTES else {}
        shapes = [one["shape"] for name, one in head.items() if name != "__metadata__" and "shape" in one]
        found[file.parent.name] = sum(_volume(shape) for shape in shapes)
    return {name: count for name, count in found.items() if count}


def _parse_head(text: bytes) -> Tree:
    try:
        head = json.loads(text)
    except ValueError:
        return {}
    return head if isinstance(head, dict) else {}


def _volume(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
