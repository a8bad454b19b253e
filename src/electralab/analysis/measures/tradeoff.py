"""M42: what smaller variants of a model gain and cost, read from the table that compressing it wrote.

tradeoff.json -> speed-up, loss and efficiency of each variant
"""

from collections.abc import Iterator
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


def _tell_variants(table: Table) -> Iterator[Finding]:
    (baseline,) = (one for one in table["variants"] if one["name"] == table["baseline"])
    # Without any spread, as of a single example, a loss of 0 could not be divided by.
    floor = max(float(table["floor"]["points"]), 1e-9)
    # Of two scores on the same examples; that they hang together would make it narrower.
    spread = _NORMAL * 2**0.5 * floor
    note = f"interval of the loss by the floor of the table: {table['floor']['origin']}"
    for one in table["variants"]:
        if one is baseline:
            continue
        name, loss, speedup = one["name"], float(one["loss"]), float(one["speedup"])
        size = one["bytes"] / baseline["bytes"]
        yield _tell_one(f"{name}, size", "share", "bytes over those of the baseline", _exact(size), 1.0)
        meaning = f"latency of {table['baseline']} over its own, a batch of {table['speedup_batch']}"
        yield _tell_one(f"{name}, speed-up", "×", meaning, _exact(speedup), 1.0, "timed once: no interval")
        meaning = f"points of {table['metric']} below {table['baseline']}"
        yield _tell_one(f"{name}, loss", "points", meaning, Estimate(loss, loss - spread, loss + spread), 0.0, note)
        meaning = "speed-up / loss, where a loss below the floor counts as the floor"
        low, value, high = (speedup / max(points, floor) for points in (loss + spread, loss, loss - spread))
        yield _tell_one(f"{name}, efficiency", "×/point", meaning, Estimate(value, low, high), 1 / floor, note)


def _tell_one(name: str, unit: str, meaning: str, estimate: Estimate, baseline: float, note: str = "") -> Finding:
    return Finding(name, CLAIM, unit, meaning, estimate, _exact(baseline), "the model as it is", note)


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value)
