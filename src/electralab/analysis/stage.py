"""Models side by side, measure by measure; what is finished is kept.

AnalysisRequest -> Event... -> results
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from electralab import __version__
from electralab.analysis.curves import draw_claims
from electralab.analysis.drawing import Cloud, Drawing, save_figure
from electralab.analysis.finding import Finding, Missing
from electralab.analysis.material import Material, gather_material
from electralab.analysis.measures.analogies import measure_analogies
from electralab.analysis.measures.balance import measure_balance
from electralab.analysis.measures.complexity import measure_complexity
from electralab.analysis.measures.compute import measure_compute
from electralab.analysis.measures.contextuality import measure_contextuality
from electralab.analysis.measures.equivariance import measure_equivariance
from electralab.analysis.measures.geometry import measure_geometry
from electralab.analysis.measures.gradients import measure_gradients
from electralab.analysis.measures.heads import measure_heads
from electralab.analysis.measures.information import measure_information
from electralab.analysis.measures.invariance import measure_invariance
from electralab.analysis.measures.reach import measure_reach
from electralab.analysis.measures.replacements import measure_replacements
from electralab.analysis.measures.robustness import measure_damage
from electralab.analysis.measures.scaling import measure_scaling
from electralab.analysis.measures.tradeoff import measure_tradeoff
from electralab.analysis.measures.transfer import measure_transfer
from electralab.analysis.naming import name_models, slug
from electralab.analysis.record import (
    PARTS,
    VERSION,
    Part,
    describe_cloud,
    describe_drawing,
    describe_finding,
    describe_missing,
    join_parts,
    read_part,
    write_results,
)
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen, draw_untrained, open_specimen
from electralab.artifacts import MANIFEST, lock_folder, sha256_file, sha256_json
from electralab.errors import InputError, UsageError
from electralab.events import Event, Note, Progress, Result, format_minutes
from electralab.finetuning.identity import identify_model
from electralab.model.folder import locate_networks
from electralab.runtime import choose_device
from electralab.stopping import StopSignal

Measure = Callable[[Specimen, Material, AnalysisSettings], Iterator[Finding | Missing | Drawing | Cloud]]
Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inquiry:
    title: str
    measure: Measure
    reads: tuple[str, ...] = ()
    """Settings that name files beside the data."""
    version: int = 1
    """Raised where it measures more, or otherwise, than before: parts of earlier versions are then measured again."""


MEASURES: dict[str, Inquiry] = {
    "M30": Inquiry("information", measure_information),
    "M31": Inquiry("gradient flow", measure_gradients),
    "M32": Inquiry("balance", measure_balance),
    "M33": Inquiry("geometry", measure_geometry),
    "M34": Inquiry("analogies", measure_analogies),
    "M35": Inquiry("contextualisation", measure_contextuality),
    "M36": Inquiry("translation invariance", measure_invariance),
    "M37": Inquiry("equivariance", measure_equivariance),
    "M38": Inquiry("long-range sensitivity", measure_reach, version=2),
    "M39": Inquiry("FLOPs", measure_compute),
    "M40": Inquiry("scaling law", measure_scaling, ("runs",)),
    "M42": Inquiry("compression trade-off", measure_tradeoff, ("tradeoff",)),
    "M43": Inquiry("Rademacher complexity", measure_complexity),
    "M44": Inquiry("domain transfer", measure_transfer, ("domains",)),
    "M46": Inquiry("replacements", measure_replacements, version=2),
    "M47": Inquiry("robustness", measure_damage, ("examples",)),
    "heads": Inquiry("attention heads", measure_heads),
}
"""By the claim it serves."""
# Which tokens verdicts are scored on: parts of an analysis that were measured on others are measured again.
_SCORED = "ordinary tokens"
_BESIDE = {name for inquiry in MEASURES.values() for name in inquiry.reads}


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    models: tuple[Path, ...]
    data: Path
    out: Path
    settings: AnalysisSettings
    only: tuple[str, ...] = ()
    """Claims; none means all."""


def analyze(request: AnalysisRequest, stop: StopSignal) -> Iterator[Event[Results]]:
    """Measure every model and its untrained twin. The same request again goes on where the last one stopped."""
    claims = choose_claims(request.only)
    refuse_foreign(request.out)
    settings, out = request.settings, request.out
    material = gather_material(request.data, settings, stop.check)
    specimens = open_specimens(request.models, settings)
    with lock_folder(out):
        work = [(one, claim) for claim in claims for one in specimens]
        models = [_describe_model(one) for one in specimens]
        parts: list[Part] = []
        started, measured = monotonic(), 0
        for done, (specimen, claim) in enumerate(work):
            stop.check()
            inquiry = MEASURES[claim]
            yield Progress("analyzing", done, len(work), f"{claim} {inquiry.title}: {specimen.name}")
            identity = _identify(specimen, claim, material)
            path = out / PARTS / f"{slug(specimen.name)}-{claim}.json"
            part = read_part(path, out, identity)
            is_reused = part is not None
            if part is None:
                part = _measure(specimen, claim, material, out, identity)
                part.write(path)
            parts.append(part)
            # What was kept from before took no time, and says nothing of how long the rest takes.
            measured += not is_reused
            left = (monotonic() - started) / max(measured, 1) * (len(work) - done - 1)
            how = "kept from before" if is_reused else f"{len(part.findings)} figures"
            count = f"{done + 1} of {len(work)}"
            yield Note(f"{claim} {specimen.name}: {how} ({count})  eta {format_minutes(left / 60)}")
            for skipped in part.missing:
                yield Note(f"  missing: {skipped['name']}: {skipped['reason']}", "warning")
            values = {"model": specimen.name, "claim": claim, "is_reused": is_reused}
            yield Progress("analyzing", done + 1, len(work), values=values)
            if not is_reused:
                write_results(out, join_parts(settings.seed, models, parts), parts)
        results = join_parts(settings.seed, models, parts)
        results["drawings"] = (
            draw_claims(out, results, {claim: MEASURES[claim].title for claim in claims}) + results["drawings"]
        )
        write_results(out, results, parts)
    yield Result(results)


def plan_analysis(request: AnalysisRequest) -> Results:
    """What would be measured; nothing is written."""
    claims = choose_claims(request.only)
    refuse_foreign(request.out)
    gather_material(request.data, request.settings)
    return {
        "models": {name: str(path) for name, path in zip(name_models(request.models), request.models, strict=True)},
        "networks": [str(folder) for path in request.models for folder in locate_networks(path)],
        "data": str(request.data),
        "out": str(request.out),
        "measures": {claim: MEASURES[claim].title for claim in claims},
        "settings": request.settings.model_dump(mode="json"),
    }


def choose_claims(only: Sequence[str]) -> list[str]:
    """In the order of the table."""
    known = {claim.lower(): claim for claim in MEASURES}
    for asked in only:
        if asked.lower() not in known:
            raise UsageError(f"--only: no measure for {asked!r}; known are {', '.join(MEASURES)}")
    chosen = {known[asked.lower()] for asked in only}
    return [claim for claim in MEASURES if not chosen or claim in chosen]


def refuse_foreign(out: Path) -> None:
    names = (MANIFEST, "config.json", "run.json", "study.toml", "tradeoff.json")
    if any((out / name).exists() for name in names):
        raise UsageError(f"{out}: holds data, a model, a run or a study, not an analysis; choose another --out")


def open_specimens(models: Sequence[Path], settings: AnalysisSettings) -> list[Specimen]:
    """Each model with its untrained twin after it."""
    if not models:
        raise UsageError("analyze: no model; give one or several")
    device = choose_device(settings.device)
    found = [open_specimen(path, name, device) for path, name in zip(models, name_models(models), strict=True)]
    if not settings.untrained:
        return found
    return [one for specimen in found for one in (specimen, draw_untrained(specimen, settings.seed))]


def _measure(specimen: Specimen, claim: str, material: Material, out: Path, identity: str) -> Part:
    part = Part(identity)
    inquiry = MEASURES[claim]
    try:
        for found in inquiry.measure(specimen, material, material.settings):
            material.conditions.check()
            match found:
                case Finding():
                    part.findings.append(describe_finding(specimen.name, found))
                case Missing():
                    part.missing.append(describe_missing(specimen.name, found))
                case Cloud():
                    part.points.append(describe_cloud(specimen.name, found))
                case Drawing():
                    file = save_figure(out, f"{slug(specimen.name)}-{found.name}", found.figure)
                    part.drawings.append(describe_drawing(specimen.name, found, file))
    except InputError as error:
        part.missing.append(describe_missing(specimen.name, Missing(inquiry.title, claim, str(error))))
    return part


def _identify(specimen: Specimen, claim: str, material: Material) -> str:
    """Of all that a part depends on; where the model lies and how it is batched are not among it."""
    idle = {"device", "batch_tokens", "reading", "tagged", "pairs", "analogies", "senses", "classes", *_BESIDE}
    settings = material.settings.model_dump(mode="json", exclude=idle)
    model = identify_model(*specimen.networks)
    beside = [_hash_files(getattr(material.settings, name)) for name in MEASURES[claim].reads]
    log = [*_hash_files(str(specimen.folder / "metrics.jsonl")), *_list_snapshots(specimen.folder)]
    asked = material.identify(specimen)
    version = MEASURES[claim].version
    measure = [__version__, VERSION, _SCORED, claim, *([version] if version > 1 else [])]
    return sha256_json([measure, specimen.name, model, specimen.kind, asked, settings, beside, log])


def _list_snapshots(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("snapshots/*"))


def _hash_files(given: str | tuple[str, ...]) -> list[str]:
    """Of files, and of what lies in folders or, deeper down, is data or the result of a run."""
    paths = [Path(one) for one in ((given,) if isinstance(given, str) else given) if one]
    deep = ("*", "*/*.tsv", "*/*.txt", "*/*.csv", "*/*.jsonl", "**/results.json")
    found = {file for path in paths for file in (path, *(file for glob in deep for file in path.glob(glob)))}
    return [sha256_file(file) for file in sorted(found) if file.is_file()]


def _describe_model(specimen: Specimen) -> dict[str, Any]:
    return {
        "name": specimen.name,
        "folder": str(specimen.folder),
        "kind": specimen.kind,
        "control_of": specimen.control_of,
    }
