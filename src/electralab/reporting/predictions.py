"""What a tuned model said of labelled examples, and where it was most wrong.

predictions/dev.jsonl -> Predictions
"""

import heapq
import json
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electralab.reporting.format import is_number

Row = dict[str, Any]
Kind = Literal["classify", "regress", "label", "qa"]

_MOST_SHOWN = 12
_MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Predictions:
    """Of the best seed, on the labelled split that says most."""

    split: str
    kind: Kind
    count: int
    wrong: int
    """Numbers are never quite right: of those all."""
    worst: tuple[Row, ...]
    """The surest mistakes first, or the largest."""
    points: tuple[tuple[float, float], ...] = ()
    """Of numbers: truth and prediction, of some examples evenly apart."""


def read_predictions(path: Path, split: str) -> Predictions | None:
    """Nothing where no row has the truth beside the prediction; a row of another shape is left out."""
    count = wrong = 0
    kind: Kind = "classify"
    worst: list[tuple[float, int, Row]] = []
    points: list[tuple[float, float]] = []
    for row in _read_rows(path):
        error = _measure_error(row)
        if error is None:
            continue
        kind, count, wrong = _find_kind(row), count + 1, wrong + (error > 0)
        if kind == "regress":
            points.append((float(row["truth"]), float(row["prediction"])))
        if error > 0:
            # Of equals the first: no two have the same place, so rows are never compared.
            (heapq.heappush if len(worst) < _MOST_SHOWN else heapq.heappushpop)(worst, (error, -count, row))
    if not count:
        return None
    rows = tuple(row for _, _, row in sorted(worst, key=lambda of: of[:2], reverse=True))
    return Predictions(split, kind, count, wrong, rows, tuple(points[:: -(-len(points) // _MOST_POINTS) or 1]))


def _read_rows(path: Path) -> Iterator[Row]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and "truth" in row and "prediction" in row:
                yield row


def _find_kind(row: Row) -> Kind:
    if "words" in row:
        return "label"
    if "question" in row:
        return "qa"
    return "regress" if is_number(row["truth"]) else "classify"


def _measure_error(row: Row) -> float | None:
    """0 for what is right; None for what is not as it is written."""
    truth, said = row["truth"], row["prediction"]
    match _find_kind(row):
        case "regress":
            return abs(truth - said) if is_number(said) else None
        case "classify":
            chances = row.get("probabilities")
            chance = chances.get(said) if isinstance(chances, dict) else None
            return 0.0 if said == truth else (chance if is_number(chance) else 0.0) + 1e-9
        case "label":
            if not (isinstance(truth, list) and isinstance(said, list) and len(truth) == len(said)):
                return None
            return float(sum(tag != other for tag, other in zip(truth, said, strict=True)))
        case "qa":
            if not isinstance(truth, list) or not isinstance(said, str):
                return None
            return 0.0 if _plain(said) in {_plain(str(text)) for text in truth or [""]} else 1.0


def _plain(text: str) -> str:
    """Without case, punctuation and articles, as SQuAD compares answers."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())
