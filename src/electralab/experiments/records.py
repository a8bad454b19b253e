"""What a cell keeps on the disk: the result of each step as it is finished, and what it was the result of.

Cell <-> NAME.json for every step
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electralab.artifacts import read_json, write_file, write_json
from electralab.config import differences
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError
from electralab.experiments.cells import Cell, Step
from electralab.experiments.scores import Measured, Score, read_result
from electralab.pretraining.settings import complete_settings


@dataclass(frozen=True, slots=True)
class Record:
    seconds: float
    result: dict[str, Any]


def write_record(cell: Cell, step: Step, record: Record) -> None:
    content = {"identity": step.identity, "seconds": record.seconds, "result": record.result}
    write_json(_path(cell, step), content)
    _spent_path(cell, step).unlink(missing_ok=True)


def add_seconds(cell: Cell, step: Step, seconds: float) -> float:
    """To those that earlier sittings spent on the step: one that was stopped goes on where it was."""
    path = _spent_path(cell, step)
    spent = seconds + (float(path.read_text()) if path.is_file() else 0.0)
    write_file(path, f"{spent}\n")
    return spent


def read_record(cell: Cell, step: Step) -> Record | None:
    """None where the step is not finished; a result of other settings is refused."""
    path = _path(cell, step)
    if not path.is_file():
        return None
    stored = read_json(path, "delete it to run the step again")
    try:
        record = Record(float(stored["seconds"]), dict(stored["result"]))
        found = next(differences(_complete(stored["identity"], step.identity), step.identity), None)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise DamagedArtifact(f"{path}: not the result of a step; delete it to run the step again") from None
    if found:
        name, was, now = found
        raise IdentityMismatch(
            f"{path}: {name} was {was!r}, now {now!r}; give the same study, or choose another --out for a new one"
        )
    return record


def _complete(stored: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """With what has come since: files that were not hashed are taken for those of now, settings have their defaults."""
    stored = {key: asked[key] for key in ("files", "generator") if key in asked} | stored
    if "budget" not in stored:
        return stored
    settings = complete_settings(stored["settings"])
    return stored | {"settings": {name: settings[name] for name in settings if name in asked["settings"]}}


def read_cell(cell: Cell) -> dict[str, Record]:
    """The finished steps by name."""
    found = {step.name: read_record(cell, step) for step in cell.steps}
    return {name: record for name, record in found.items() if record is not None}


def read_scores(records: Mapping[str, Record], scores: tuple[Score, ...]) -> tuple[dict[str, Measured], str]:
    """What is measured, and what is wrong with the first result that does not say its score."""
    by_name = {score.name: score for score in scores}
    measured: dict[str, Measured] = {}
    wrong = ""
    for name, record in records.items():
        score = by_name.get(name.partition("@")[0])
        try:
            if score is not None:
                measured[name] = read_result(score, record.result)
        except InputError as error:
            wrong = wrong or f"{name}: {error}; delete {name}.json of the cell to run it again"
    return measured, wrong


def write_scores(cell: Cell, scores: tuple[Score, ...]) -> None:
    """All that is measured of a cell so far, in one small file."""
    measured, _ = read_scores(read_cell(cell), scores)
    write_json(cell.folder / "scores.json", {name: one.value for name, one in measured.items()})


def _path(cell: Cell, step: Step) -> Path:
    return cell.folder / f"{step.name}.json"


def _spent_path(cell: Cell, step: Step) -> Path:
    return cell.folder / "logs" / f"{step.name}.seconds"
