"""What an analysis says, on disk: a part for each (model, measure), and all parts together.

Part... -> analysis.json, points.json, README.md
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from electralab.analysis.drawing import Cloud, Drawing
from electralab.analysis.finding import Estimate, Finding, Missing
from electralab.artifacts import read_json, write_file, write_json
from electralab.errors import DamagedArtifact, InputError

VERSION = 1
RESULTS, POINTS, PARTS = "analysis.json", "points.json", "parts"
Record = dict[str, Any]


@dataclass(slots=True)
class Part:
    """All that one measure says of one model, as it is written."""

    identity: str
    findings: list[Record] = field(default_factory=list)
    missing: list[Record] = field(default_factory=list)
    drawings: list[Record] = field(default_factory=list)
    points: list[Record] = field(default_factory=list)

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))


def read_part(path: Path, out: Path, identity: str) -> Part | None:
    """None where it is not there, is of other inputs, or lacks a picture: then it is measured again."""
    try:
        part = Part(**read_json(path)) if path.is_file() else None
    except (InputError, DamagedArtifact, TypeError):
        return None
    if part is None or part.identity != identity:
        return None
    return part if all((out / one["file"]).is_file() for one in part.drawings) else None


def describe_finding(model: str, finding: Finding) -> Record:
    control = None
    if finding.control is not None:
        control = _describe(finding.control) | {"meaning": finding.control_meaning}
    return {
        "model": model,
        "name": finding.name,
        "claim": finding.claim,
        "layer": finding.layer,
        "unit": finding.unit,
        "meaning": finding.meaning,
        **_describe(finding.estimate),
        "control": control,
        "note": finding.note,
        "series": finding.series,
        "part": finding.part,
    }


def describe_missing(model: str, missing: Missing) -> Record:
    return {"model": model, "name": missing.name, "claim": missing.claim, "reason": missing.reason}


def describe_drawing(model: str, drawing: Drawing, file: str) -> Record:
    return {
        "claim": drawing.claim,
        "model": model,
        "title": drawing.title,
        "file": file,
        "meaning": drawing.meaning,
    }


def describe_cloud(model: str, cloud: Cloud) -> Record:
    return {
        "model": model,
        "claim": cloud.claim,
        "title": cloud.title,
        "meaning": cloud.meaning,
        "points": [[round(float(x), 4) for x in point] for point in cloud.coordinates],
        "categories": list(cloud.categories),
        "words": list(cloud.words),
    }


def _describe(estimate: Estimate) -> Record:
    """JSON has no NaN: an interval that cannot be had is null."""
    return {name: value if math.isfinite(value) else None for name, value in asdict(estimate).items()}


def join_parts(seed: int, models: Sequence[Record], parts: Iterable[Part]) -> Record:
    kept = list(parts)
    return {
        "version": VERSION,
        "seed": seed,
        "models": list(models),
        "findings": [one for part in kept for one in part.findings],
        "missing": [one for part in kept for one in part.missing],
        "drawings": [one for part in kept for one in part.drawings],
    }


def write_results(out: Path, results: Record, parts: Sequence[Part]) -> None:
    write_json(out / POINTS, {"version": VERSION, "clouds": [one for part in parts for one in part.points]})
    write_file(out / "README.md", "\n".join(_tell(results)) + "\n")
    write_json(out / RESULTS, results)


def read_results(out: Path) -> Record:
    """Refused where they could not be told."""
    results = read_json(out / RESULTS, "run the command again")
    try:
        list(_tell(results))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedArtifact(f"{out / RESULTS}: not an analysis; run 'electra analyze' again") from None
    return dict(results)


def _tell(results: Record) -> Iterator[str]:
    names = [model["name"] for model in results["models"] if model["control_of"] is None]
    yield f"# Analysis of {', '.join(names)}\n"
    yield (
        f"Seed {results['seed']}. Each figure with its 95 % interval, beside what the same measure says of something "
        "that cannot hold the answer, and of the same network before training. Layer 0 enters the first layer.\n"
    )
    for claim, pairs in pair_twins(results).items():
        yield from _tell_claim(claim, pairs, results)
    if results["missing"]:
        yield "## What could not be measured\n"
        yield from (f"- {one['claim']} {one['name']} ({one['model']}): {one['reason']}" for one in results["missing"])


def pair_twins(results: Record) -> dict[str, list[tuple[Record, Record | None]]]:
    """Claim -> findings of models, each with the same finding of its untrained twin."""
    twins = {model["name"]: model["control_of"] for model in results["models"] if model["control_of"]}
    found = results["findings"]
    drawn = {
        (twins[one["model"]], one["claim"], one["name"], one["layer"]): one for one in found if one["model"] in twins
    }
    pairs: dict[str, list[tuple[Record, Record | None]]] = {}
    for one in found:
        if one["model"] not in twins:
            twin = drawn.get((one["model"], one["claim"], one["name"], one["layer"]))
            pairs.setdefault(one["claim"], []).append((one, twin))
    return pairs


def _tell_claim(claim: str, pairs: list[tuple[Record, Record | None]], results: Record) -> Iterator[str]:
    yield f"## {claim}\n"
    yield "| measure | model | layer | value | control | untrained | unit |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for one, twin in sorted(pairs, key=lambda pair: pair[0]["name"]):
        layer = "" if one["layer"] is None else one["layer"]
        values = (say(one), say(one["control"]), say(twin))
        yield f"| {one['name']} | {one['model']} | {layer} | {' | '.join(values)} | {one['unit']} |"
    yield ""
    told = {one["name"]: one for one, _ in pairs}
    for name, one in told.items():
        control = f" Control: {one['control']['meaning']}." if one["control"] else ""
        note = f" {one['note'][:1].upper()}{one['note'][1:]}." if one["note"] else ""
        yield f"- *{name}*: {one['meaning']}.{control}{note}"
    yield ""
    for picture in (one for one in results["drawings"] if one["claim"] == claim):
        yield f"![{picture['title']}]({picture['file']})\n"
        yield f"{picture['meaning']}\n"


def say(one: Record | None) -> str:
    if one is None or one["value"] is None:
        return "–"
    if one["low"] is None or one["high"] is None:
        return f"{one['value']:.3g}"
    # Sums of floating-point numbers that should be 0 are not.
    value = one["value"] if abs(one["value"]) > 1e-3 * (one["high"] - one["low"]) else 0.0
    return f"{value:.3g} ({one['low']:.3g} to {one['high']:.3g})"
