"""What smaller variants of a model gain and cost, read from the table that compressing it wrote.

tradeoff.json -> speed-up, loss and efficiency of each variant
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Finding, Skipped, exact, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.model import AnalysisModel
from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.statistics import Interval

RESULTS = "tradeoff.json"
_NORMAL = 1.96


@dataclass(frozen=True, slots=True)
class VariantTradeoff:
    name: str
    size: float
    """Bytes over those of the baseline."""
    speedup: float
    loss: Interval
    """In points; its interval by the floor of the table, which is the spread of a score."""


def list_variants(table: Mapping[str, Any]) -> list[VariantTradeoff]:
    """All but the baseline.

    >>> whole, half = ({"name": name, "bytes": n, "speedup": 1.0, "loss": 0.0} for name, n in (("a", 4), ("b", 2)))
    >>> table = {"variants": [whole, half], "baseline": "a", "floor": {"points": 0.5}}
    >>> [(variant.name, variant.size) for variant in list_variants(table)]
    [('b', 0.5)]
    """
    (baseline,) = (row for row in table["variants"] if row["name"] == table["baseline"])
    # The spread of two scores on the same examples; that they depend on each other would make it narrower.
    spread = _NORMAL * 2**0.5 * _noise_floor(table)
    return [
        VariantTradeoff(
            str(row["name"]),
            row["bytes"] / baseline["bytes"],
            float(row["speedup"]),
            Interval(float(row["loss"]), row["loss"] - spread, row["loss"] + spread),
        )
        for row in table["variants"]
        if row is not baseline
    ]


def _noise_floor(table: Mapping[str, Any]) -> float:
    """Without any spread, as of a single example, a loss of 0 could not be divided by."""
    return max(float(table["floor"]["points"]), 1e-9)


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if model.control_of is None:
        yield from skip_on_error("speedup", "compression trade-off", _findings, model, data.settings.tradeoff)


def _findings(model: AnalysisModel, folder: str) -> Iterator[Finding]:
    advice = f"run 'electra compress {model.folder}' and give its folder as --tradeoff"
    if not folder:
        raise InputError(f"{model.name}: has not been compressed; {advice}")
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise InputError(f"{folder}: holds no {RESULTS}; {advice}")
    table = read_json(path)
    compressed = Path(str(table.get("model", "")))
    if compressed.resolve() != model.folder.resolve() and compressed.name != model.folder.name:
        raise InputError(f"{path}: is about {compressed}, not about {model.name}; {advice}")
    try:
        return iter(list(_variant_findings(table)))
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{folder}/{RESULTS}: not a trade-off; run 'electra compress' again") from None


def _variant_findings(table: Mapping[str, Any]) -> Iterator[Finding]:
    floor, control = _noise_floor(table), "the model as it is"
    note = f"interval of the loss by the floor of the table: {table['floor']['origin']}"
    for variant in list_variants(table):
        name, loss, same = variant.name, variant.loss, exact(1.0)
        meaning = "bytes over those of the baseline"
        yield Finding(f"size.{name}", f"{name}, size", "share", meaning, exact(variant.size), same, control)
        meaning = f"latency of {table['baseline']} over its own, a batch of {table['speedup_batch']}"
        speedup, once = exact(variant.speedup), "timed once: no interval"
        yield Finding(f"speedup.{name}", f"{name}, speed-up", "×", meaning, speedup, same, control, once)
        meaning = f"points of {table['metric']} below {table['baseline']}"
        yield Finding(f"loss.{name}", f"{name}, loss", "points", meaning, loss, exact(0.0), control, note)
        meaning = "speed-up / loss, where a loss below the floor counts as the floor"
        low, value, high = (variant.speedup / max(points, floor) for points in (loss.high, loss.value, loss.low))
        efficiency = Interval(value, low, high)
        beside = exact(1 / floor)
        yield Finding(
            f"efficiency.{name}", f"{name}, efficiency", "×/point", meaning, efficiency, beside, control, note
        )


MEASURE = Measure(
    "tradeoff",
    "M42",
    "compression trade-off",
    "What do smaller variants of the model gain and cost?",
    measure,
    reads=("tradeoff",),
)
