"""M42: what smaller variants of a model gain and cost, read from the table that compressing it wrote.

tradeoff.json -> speed-up, loss and efficiency of each variant
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from electralab.analysis.finding import Estimate, Finding, Missing, attempt
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.artifacts import read_json
from electralab.errors import InputError

CLAIM = "M42"
RESULTS = "tradeoff.json"
_NORMAL = 1.96
Table = dict[str, Any]


def measure_tradeoff(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    del material
    if specimen.control_of is None:
        yield from attempt("compression trade-off", CLAIM, partial(_tell, specimen, settings.tradeoff))


def _tell(specimen: Specimen, folder: str) -> Iterator[Finding]:
    table = _read(specimen, folder)
    try:
        yield from list(_tell_variants(table))
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{folder}/{RESULTS}: not a trade-off; run 'electra compress' again") from None


def _read(specimen: Specimen, folder: str) -> Table:
    advice = f"run 'electra compress {specimen.folder}' and give its folder as --tradeoff"
    if not folder:
        raise InputError(f"{specimen.name}: has not been compressed; {advice}")
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise InputError(f"{folder}: holds no {RESULTS}; {advice}")
    table: Table = read_json(path)
    model = Path(str(table.get("model", "")))
    if model.resolve() != specimen.folder.resolve() and model.name != specimen.folder.name:
        raise InputError(f"{path}: is about {model}, not about {specimen.name}; {advice}")
    return table


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    size: float
    """Bytes over those of the baseline."""
    speedup: float
    loss: Estimate
    """In points; its interval by the floor of the table, which is the spread of a score."""


def list_variants(table: Table) -> list[Variant]:
    """All but the baseline."""
    (baseline,) = (one for one in table["variants"] if one["name"] == table["baseline"])
    # Of two scores on the same examples; that they hang together would make it narrower.
    spread = _NORMAL * 2**0.5 * _find_floor(table)
    return [
        Variant(
            str(one["name"]),
            one["bytes"] / baseline["bytes"],
            float(one["speedup"]),
            Estimate(float(one["loss"]), one["loss"] - spread, one["loss"] + spread),
        )
        for one in table["variants"]
        if one is not baseline
    ]


def _find_floor(table: Table) -> float:
    """Without any spread, as of a single example, a loss of 0 could not be divided by."""
    return max(float(table["floor"]["points"]), 1e-9)


def _tell_variants(table: Table) -> Iterator[Finding]:
    floor = _find_floor(table)
    note = f"interval of the loss by the floor of the table: {table['floor']['origin']}"
    for one in list_variants(table):
        name, loss = one.name, one.loss
        yield _tell_one(f"{name}, size", "share", "bytes over those of the baseline", _exact(one.size), 1.0)
        meaning = f"latency of {table['baseline']} over its own, a batch of {table['speedup_batch']}"
        yield _tell_one(f"{name}, speed-up", "×", meaning, _exact(one.speedup), 1.0, "timed once: no interval")
        meaning = f"points of {table['metric']} below {table['baseline']}"
        yield _tell_one(f"{name}, loss", "points", meaning, loss, 0.0, note)
        meaning = "speed-up / loss, where a loss below the floor counts as the floor"
        low, value, high = (one.speedup / max(points, floor) for points in (loss.high, loss.value, loss.low))
        yield _tell_one(f"{name}, efficiency", "×/point", meaning, Estimate(value, low, high), 1 / floor, note)


def _tell_one(name: str, unit: str, meaning: str, estimate: Estimate, baseline: float, note: str = "") -> Finding:
    return Finding(name, CLAIM, unit, meaning, estimate, _exact(baseline), "the model as it is", note)


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value)
