"""Verbs that look: scores of a model, comparisons of many, any artifact as a dictionary."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from electralab.config import SettingsTree, config_layers, resolve
from electralab.display import Display
from electralab.errors import UsageError
from electralab.stopping import handle_signals
from electralab.verbs.page import advise, leave_page, page_at_end

if TYPE_CHECKING:
    from electralab.evaluation.outcome import Suite

Result = dict[str, Any]


def evaluate(
    model: str | Path,
    suite: str,
    data: str | Path,
    *,
    generator: str | Path | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Scores of a model as it is: minimal pairs, replaced tokens, masked tokens, similarity, linear probes."""
    display = display or Display()
    display.tell_loading()
    from electralab.evaluation.stage import EvaluateConfig
    from electralab.evaluation.stage import evaluate as run_evaluate
    from electralab.runtime import use_threads

    resolved = resolve(EvaluateConfig, config_layers(config, settings))
    if dry_run:
        from electralab.model.folders.folder import locate_encoder

        found = {"model": str(locate_encoder(Path(model))), "suite": suite, "data": str(data)}
        return {**found, "generator": generator, "task": task, "settings": resolved.model_dump(mode="json")}
    use_threads(threads)
    with handle_signals() as stop:
        steps = run_evaluate(
            Path(model),
            cast("Suite", suite),
            Path(data),
            resolved,
            generator=Path(generator) if generator else None,
            task=task,
            stop=stop,
        )
        return asdict(display.follow(steps))


def run_study(
    study: str,
    corpus: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    settings: SettingsTree | None = None,
    flops: float | None = None,
    tokens: float | None = None,
    steps: int | None = None,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    jobs: int = 0,
    threads: int = 1,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Arms of settings, pre-trained at equal compute and scored, seed by seed; the same call again goes on.

    A cell that fails says why under `cells` of the result, and is run again by the same call.
    """
    budget = {name: amount for name, amount in (("flops", flops), ("tokens", tokens), ("steps", steps)) if amount}
    if budget and "budget" in (settings or {}):
        raise UsageError(f"study: the budget is given as --{next(iter(budget))} and as --budget; keep one")
    display = display or Display()
    display.tell_loading()
    from electralab.experiments.plan import StudyRequest
    from electralab.experiments.stage import describe_plan
    from electralab.experiments.stage import run_study as run

    asked = ({"budget": budget} if budget else {}) | ({"seeds": list(seeds)} if seeds else {})
    request = StudyRequest(
        study=study,
        corpus=Path(corpus),
        data_dir=Path(data) if data else None,
        out=Path(out),
        settings={**(settings or {}), **asked},
        only=tuple(only),
        jobs=jobs,
        threads=threads,
    )
    if dry_run:
        return describe_plan(request).to_json()
    with handle_signals() as stop, page_at_end(Path(out), display):
        return display.follow(run(request, stop)).to_json()


def analyze(
    models: Sequence[str | Path],
    data: str | Path,
    out: str | Path,
    *,
    only: Sequence[str] = (),
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """What models learned, each beside its untrained twin: information, geometry, context, invariance and more.

    What cannot be measured says why under `missing`; the same call again goes on where the last one stopped.
    """
    display = display or Display()
    display.tell_loading()
    from electralab.analysis.settings import AnalysisSettings
    from electralab.analysis.stage import AnalysisRequest, plan_analysis
    from electralab.analysis.stage import analyze as run_analyze
    from electralab.runtime import use_threads

    resolved = resolve(AnalysisSettings, config_layers(config, settings))
    request = AnalysisRequest(tuple(map(Path, models)), Path(data), Path(out), resolved, tuple(only))
    if dry_run:
        return plan_analysis(request).to_json()
    use_threads(threads)
    with handle_signals() as stop:
        return display.follow(run_analyze(request, stop)).to_json()


def judge_claims(
    runs: str | Path,
    *,
    corpus: str | Path | None = None,
    data: str | Path | None = None,
    study: str = "claims",
    only: Sequence[str] = (),
    flops: float | None = None,
    seeds: Sequence[int] | None = None,
    domains: Sequence[str] = (),
    tradeoff: str | Path | None = None,
    config: str | None = None,
    settings: SettingsTree | None = None,
    jobs: int = 0,
    threads: int = 1,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """What trained models say about each claim of the notes: holds, does not hold, or undecided at this scale.

    With `corpus` the models of the study are trained where they are not there yet; without it, only those that are
    there are judged. `settings` are those of the analysis. `runs` may also be a claims.json, whose figures are then
    judged again by the rules of now.
    """
    display = display or Display()
    display.tell_loading()
    from electralab.analysis.claims import stage
    from electralab.analysis.claims.table import required_measures, select_claims
    from electralab.records.findings import Analysis

    runs, claims = Path(runs), select_claims(only)
    if runs.is_file():
        if corpus is not None:
            raise UsageError(f"claims: {runs} is a file, to be judged again as it is; leave out --corpus")
        return stage.decide_again(runs, claims).to_json()
    if corpus is not None:
        trained = run_study(
            study,
            corpus,
            runs,
            data=data,
            flops=flops,
            seeds=seeds,
            jobs=jobs,
            threads=threads,
            dry_run=dry_run,
            display=display,
        )
        if dry_run:
            return trained
    found = stage.read_runs(runs)
    models, tuned = stage.list_models(runs, found), stage.list_tuned(runs, found)
    options: Any = {"threads": threads, "dry_run": dry_run, "display": display}
    given = {**(settings or {}), **({"domains": list(domains)} if domains else {})}
    text, named, analyses = corpus or stage.find_corpus(runs), stage.name_arms(models), []
    if measures := required_measures(claims):
        folder = runs / stage.ANALYSIS
        analyses += [analyze(list(models), text, folder, only=measures, config=config, settings=given, **options)]
    measures = required_measures(claims, of_tuned=True)
    if tuned is not None and measures:
        given |= {"examples": str(tuned.data), "untrained": False}
        folder, named = runs / stage.TUNED, named | stage.name_arms(tuned.models)
        analyses += [analyze(list(tuned.models), text, folder, only=measures, config=config, settings=given, **options)]
    if dry_run:
        return {"study": found.name, "claims": [claim.number for claim in claims], "analyses": analyses}
    sources = stage.Sources(tuple(domains), Path(tradeoff) if tradeoff else None)
    records = [Analysis.model_validate(result) for result in analyses]
    decided = stage.decide_claims(claims, runs, found, models, named, records, sources)
    leave_page(runs, display)
    return decided.to_json()


def report(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    data: str | Path | None = None,
    watch: bool = False,
    port: int = 8010,
    dry_run: bool = False,
    on_ready: Callable[[str], None] = print,
) -> Result:
    """One page about a run, study, trade-off or analysis, or about several side by side; or served while it trains.

    With `data`, the folder of prepared text, the first run is shown at work on a few of its held-out rows.
    """
    from electralab.inspection import exhibit_rows
    from electralab.records.run import ExampleRow
    from electralab.reporting.live import watch_report
    from electralab.reporting.page import plan_report, write_report

    paths = [Path(run) for run in runs]
    if dry_run:
        return plan_report(paths, None if watch else Path(out)).to_json()
    if watch:
        with handle_signals() as stop:
            watch_report(paths, port, stop, on_ready, advise)
    examples = [ExampleRow.model_validate(row) for row in exhibit_rows(Path(data), paths[0])] if data else []
    return write_report(paths, Path(out), advise, examples).to_json()


def show(path: str | Path, *, row: int | None = None, model: str | Path | None = None) -> Result:
    """Any artifact as a plain dictionary; the shell prints the same in human form."""
    from electralab.inspection import view

    return view(Path(path), row=row, model=Path(model) if model else None)
