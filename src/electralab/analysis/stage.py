"""Models side by side, measure by measure; what is finished is kept.

AnalysisRequest -> Event... -> Analysis
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pydantic import ValidationError

from electralab import __version__
from electralab.analysis import data as analysis_data
from electralab.analysis.data import AnalysisSettings, load_analysis_data, load_analysis_model, reinitialise
from electralab.analysis.finding import Finding, Skipped, write_ends
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, list_measures
from electralab.artifacts import lock_folder, read_json, sha256_file, sha256_json, write_file, write_json
from electralab.errors import DamagedArtifact, InputError, UsageError
from electralab.events import Event, Note, Progress, Result, format_minutes
from electralab.finetuning.task_model import identify_model
from electralab.model.folders.folder import locate_networks
from electralab.records import findings as records
from electralab.records.findings import Analysis, AnalysisPlan, MeasureResult
from electralab.records.kinds import require_empty_or
from electralab.reporting.cards import render_analysis_report
from electralab.reporting.plots import Projection, plot_claims, save_figure
from electralab.runtime import choose_device
from electralab.stopping import StopSignal

# Which tokens the discriminator is scored on: what was measured on others is measured again.
_SCORED = "ordinary tokens"
# Settings that change no figure, or are in the fingerprint by what they name.
_IDLE_SETTINGS = {"device", "batch_tokens", "reading", "tagged", "pairs", "analogies", "senses", "classes"}


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    models: tuple[Path, ...]
    data: Path
    out: Path
    settings: AnalysisSettings
    only: tuple[str, ...] = ()
    """Claims; none means all."""


def analyze(request: AnalysisRequest, stop: StopSignal) -> Iterator[Event[Analysis]]:
    """Measure every model and its untrained control. The same request again goes on where the last one stopped."""
    measures = select_measures(request.only)
    require_empty_or("analysis", request.out)
    settings, out = request.settings, request.out
    data = load_analysis_data(request.data, settings, stop.check)
    if not request.models:
        raise UsageError("analyze: no model; give one or several")
    names, device = analysis_data.name_models(request.models), choose_device(settings.device)
    models = [load_analysis_model(path, name, device) for path, name in zip(request.models, names, strict=True)]
    if settings.untrained:
        # Each model with its untrained control after it.
        models = [network for model in models for network in (model, reinitialise(model, settings.seed))]
    about = Analysis(
        seed=settings.seed,
        models=tuple(
            records.AnalyzedModel(name=row.name, folder=str(row.folder), kind=row.kind, control_of=row.control_of)
            for row in models
        ),
        measures=tuple(
            records.MeasureInfo(id=row.id, claim=row.claim, title=row.title, question=question, answers=row.answers)
            for row in measures
            if (question := row.run.__doc__)
        ),
    )
    with lock_folder(out):
        # Measure by measure: a stop leaves figures that can be compared over all models.
        work = [(model, measure) for measure in measures for model in models]
        results: list[MeasureResult] = []
        started, num_measured = monotonic(), 0
        for done, (model, measure) in enumerate(work):
            stop.check()
            claim = measure.claim
            yield Progress("analyzing", done, len(work), f"{claim} {measure.title}: {model.name}")
            identity = _fingerprint(model, measure, data)
            # One file for each model and measure, so that a stop loses one of them at most.
            path = out / "parts" / f"{analysis_data.slug(model.name)}-{claim}.json"
            result = _read_result(path, out, identity)
            is_reused = result is not None
            if result is None:
                result = run_measure(model, measure, data, out, identity)
                write_json(path, result.to_json())
            results.append(result)
            # What was kept from before took no time, and says nothing of how long the rest takes.
            num_measured += not is_reused
            left = (monotonic() - started) / max(num_measured, 1) * (len(work) - done - 1)
            how = "kept from before" if is_reused else f"{len(result.findings)} figures"
            count = f"{done + 1} of {len(work)}"
            yield Note(f"{claim} {model.name}: {how} ({count})  eta {format_minutes(left / 60)}")
            for skipped in result.missing:
                yield Note(f"  missing: {skipped.name}: {skipped.reason}", "warning")
            values = {"model": model.name, "claim": claim, "is_reused": is_reused}
            yield Progress("analyzing", done + 1, len(work), values=values)
            if not is_reused:
                _write_analysis(out, about, results)
        # Pictures of claims hold all models side by side, so that they are drawn when all are measured.
        titles = {measure.claim: measure.title for measure in measures}
        analysis = _write_analysis(out, about, results)
        analysis = _write_analysis(out, about, results, plot_claims(out, analysis, titles))
    yield Result(analysis)


def plan_analysis(request: AnalysisRequest) -> AnalysisPlan:
    """What would be measured; nothing is written."""
    measures = select_measures(request.only)
    require_empty_or("analysis", request.out)
    load_analysis_data(request.data, request.settings)
    return AnalysisPlan(
        models={
            name: str(path)
            for name, path in zip(analysis_data.name_models(request.models), request.models, strict=True)
        },
        networks=tuple(str(folder) for path in request.models for folder in locate_networks(path)),
        data=str(request.data),
        out=str(request.out),
        measures={measure.claim: measure.title for measure in measures},
        settings=request.settings.model_dump(mode="json"),
    )


def select_measures(only: Sequence[str]) -> list[Measure]:
    """By claim or id, in the order of claims; none means all."""
    measures = list_measures()
    known = {name.lower(): claim for claim, measure in measures.items() for name in (claim, measure.id)}
    for name in only:
        if name.lower() not in known:
            raise UsageError(f"--only: no measure for {name!r}; known are {', '.join(measures)}")
    chosen = {known[name.lower()] for name in only}
    return [measure for claim, measure in measures.items() if not chosen or claim in chosen]


def run_measure(model: AnalysisModel, measure: Measure, data: AnalysisData, out: Path, identity: str) -> MeasureResult:
    """All that a measure gives of one model, as it is written; its figures are drawn into `out`."""
    # What every record begins with.
    owner = {"model": model.name, "claim": measure.claim}
    findings, missing, pictures, clouds = [], [], [], []
    try:
        for output in measure.run(model, data):
            data.conditions.check()
            match output:
                case Finding(id=id, name=name):
                    control = None
                    if output.control is not None:
                        control = records.ControlRecord(**write_ends(output.control), meaning=output.control_meaning)
                    texts = {field: getattr(output, field) for field in ("unit", "meaning", "note", "series", "part")}
                    figure = {"id": f"{measure.id}.{id}", "name": name, "layer": output.layer, "control": control}
                    findings.append(records.FindingRecord(**owner, **figure, **write_ends(output.estimate), **texts))
                case Skipped():
                    missing.append(output)
                case Projection(title=title, meaning=meaning, categories=categories, words=words):
                    # Four digits are more than a screen shows, and the file is read by a page.
                    points = tuple(tuple(round(float(x), 4) for x in point) for point in output.coordinates)
                    texts = {"title": title, "meaning": meaning, "categories": categories, "words": words}
                    clouds.append(records.PointCloud(**owner, points=points, **texts))
                case _:
                    file = save_figure(out, f"{analysis_data.slug(model.name)}-{output.name}", output)
                    texts = {"title": output.title, "meaning": output.meaning}
                    pictures.append(records.PictureRecord(**owner, file=file, **texts))
    except InputError as error:
        # What no part of the measure could be taken for; the other measures go on.
        missing.append(Skipped("", measure.title, str(error)))
    return MeasureResult(
        identity=identity,
        findings=tuple(findings),
        missing=tuple(
            records.SkippedRecord(**owner, name=gap.name, reason=gap.reason, id=f"{measure.id}.{gap.id}")
            for gap in missing
        ),
        drawings=tuple(pictures),
        points=tuple(clouds),
    )


def _read_result(path: Path, out: Path, identity: str) -> MeasureResult | None:
    """None where it is not there, is of other inputs, or lacks a picture: then it is measured again."""
    if not path.is_file():
        return None
    try:
        result = MeasureResult.model_validate(read_json(path))
    except (InputError, DamagedArtifact, ValidationError):
        return None
    is_whole = all((out / picture.file).is_file() for picture in result.drawings)
    return result if result.identity == identity and is_whole else None


def _fingerprint(model: AnalysisModel, measure: Measure, data: AnalysisData) -> str:
    """A hash of all that a result depends on; where the model lies and how it is batched are not among it."""

    def hash_files(*paths: Path) -> list[str]:
        # Of files, and of what lies in folders or, deeper down, is data or the result of a run.
        globs = ("*", "*/*.tsv", "*/*.txt", "*/*.csv", "*/*.jsonl", "**/results.json")
        files = {file for path in paths for file in (path, *(file for glob in globs for file in path.glob(glob)))}
        return [sha256_file(file) for file in sorted(files) if file.is_file()]

    beside = {name for other in list_measures().values() for name in other.reads}
    settings = data.settings.model_dump(mode="json", exclude=_IDLE_SETTINGS | beside)
    # Left out for version 1, so that what was measured before there were versions stays valid.
    version = [measure.version] if measure.version > 1 else []
    measured = [__version__, Analysis.newest_version(), _SCORED, measure.claim, *version]
    named = [getattr(data.settings, name) for name in measure.reads]
    given = [(names,) if isinstance(names, str) else names for names in named]
    files = [hash_files(*(Path(name) for name in names if name)) for names in given]
    # The log and the snapshots of a run say something to some measures, and grow while it goes on.
    snapshots = sorted(path.name for path in model.folder.glob("snapshots/*"))
    log = [*hash_files(model.folder / "metrics.jsonl"), *snapshots]
    network = identify_model(*model.networks)
    return sha256_json([measured, model.name, network, model.kind, data.fingerprint(model), settings, files, log])


def _write_analysis(
    out: Path, about: Analysis, results: Sequence[MeasureResult], pictures: Sequence[records.PictureRecord] = ()
) -> Analysis:
    findings, missing, drawings, clouds = (
        tuple(row for result in results for row in getattr(result, name))
        for name in ("findings", "missing", "drawings", "points")
    )
    records.PointClouds(clouds=clouds).write(out)
    update = {"findings": findings, "missing": missing, "drawings": (*pictures, *drawings)}
    analysis = about.model_copy(update=update)
    write_file(out / "README.md", render_analysis_report(analysis))
    analysis.write(out)
    return analysis
