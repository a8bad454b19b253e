"""What Python offers, named as the verbs of the shell are: settings are resolved, a stage is run, a record returned.

arguments -> settings -> stage -> record

Only the standard library is imported before a function is called: the shell takes the defaults of its flags from these
signatures, and `electra --help` must be quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from electralab.config import SettingsTree
    from electralab.display import Display
    from electralab.exporting.export import Format
    from electralab.records.answers import Detection, ProofreadMeasure, ProofreadResult, ServePlan, ServeResult
    from electralab.records.compression import CompressPlan, Tradeoff
    from electralab.records.evaluation import EvaluationPlan, EvaluationResult, Suite
    from electralab.records.export import ExportPlan, ExportResult
    from electralab.records.findings import Analysis, AnalysisPlan, ClaimsPlan, ClaimsResult
    from electralab.records.prepared import PreparedReport, PreparePlan
    from electralab.records.run import CostEstimate, FlopsPlan, PaperTable, PretrainPlan, PretrainResults
    from electralab.records.study import StudyPlan, StudyResults
    from electralab.records.tuned import FinetunePlan, GluePlan, GlueResults, PredictPlan, PredictResult, TunedResults
    from electralab.reporting.page import ReportPlan, ReportWritten
    from electralab.serving.model import Model


def prepare(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
    dry_run: bool = False,
    display: Display | None = None,
) -> PreparedReport | PreparePlan:
    """Text, in any language -> tokenizer and packed rows in `out`; returns the report.

    >>> report = electralab.prepare(["speeches.txt"], "data", settings={"tokenizer": {"vocab_size": 150}})
    >>> report.counts.documents
    40
    """
    from electralab.config import config_layers, resolve
    from electralab.runtime import default_threads
    from electralab.stopping import handle_signals
    from electralab.tokens import prepare as stage

    names = [str(name) for name in inputs]
    resolved = resolve(stage.PrepareConfig, config_layers(config, settings))
    if dry_run:
        return stage.plan_prepare(names, Path(out), resolved, cores=default_threads())
    with handle_signals() as stop:
        return _choose_display(display).follow(stage.prepare(names, Path(out), resolved, stop))


def pretrain(
    data: str | Path,
    out: str | Path,
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
    steps: int | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    minutes: float | None = None,
    init_from: str | Path | None = None,
    init_generator: str | Path | None = None,
    match_tokens: bool = False,
    branch_from: str | Path | None = None,
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 20,
    keep: int = 2,
    snapshots: Sequence[float] = (),
    extend: bool = False,
    allow_inexact: bool = False,
    dry_run: bool = False,
    display: Display | None = None,
) -> PretrainResults | PretrainPlan:
    """Prepared data -> a run folder; the same call again resumes, and on a finished run returns its results.

    >>> results = electralab.pretrain("data", "run", config="tiny", steps=2, threads=1)
    >>> results.step, sorted(results.heldout)[:2]
    (2, ['auc', 'auc_middling'])
    """
    display = _choose_display(display)
    display.tell_loading()
    from electralab.config import ConfigLayer
    from electralab.pretraining import stage
    from electralab.pretraining.cost import choose_budget
    from electralab.pretraining.settings import read_settings, settle_settings
    from electralab.pretraining.warm_start import find_max_positions
    from electralab.records.run import Budget
    from electralab.stopping import handle_signals

    layers = [*([read_settings(config)] if config else []), ConfigLayer("command line", settings or {})]
    settled = settle_settings(layers, Path(out), find_max_positions(Path(init_from)) if init_from else 0)
    asked = {"steps": steps, "tokens": tokens, "flops": flops, "minutes": minutes}
    request = stage.PretrainRequest(
        data_dir=Path(data),
        run_dir=Path(out),
        config=settled.config,
        budget=choose_budget("pretrain", asked, Budget("steps", float(settled.config.steps))),  # type: ignore[arg-type]
        init_from=_path(init_from),
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        extend=extend,
        allow_inexact=allow_inexact,
        snapshots=tuple(snapshots),
        init_generator=_path(init_generator),
        match_tokens=match_tokens,
        branch_from=_path(branch_from),
        preset=settled.preset,
        notes=settled.notes,
    )
    if dry_run:
        return stage.plan_pretrain(request)
    with handle_signals() as stop:
        return display.follow(stage.pretrain(request, stop))


def flops(
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
    data: str | Path | None = None,
    vocab_size: int | None = None,
    sequence_length: int | None = None,
    steps: int | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    table: bool = False,
    threads: int = 0,
    dry_run: bool = False,
) -> CostEstimate | PaperTable | FlopsPlan:
    """What a run would cost: parameters, FLOPs in two conventions, memory, time; `table`: those of the paper.

    >>> electralab.flops(config="tiny", vocab_size=100, sequence_length=16, steps=10).tokens
    1280
    """
    from electralab.config import ConfigLayer
    from electralab.errors import UsageError
    from electralab.pretraining.cost import choose_budget, choose_rows, estimate_run, paper_runs
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.records.run import Budget, FlopsPlan
    from electralab.runtime import use_threads

    layers = [*([read_settings(config)] if config else []), ConfigLayer("command line", settings or {})]
    resolved = resolve_pretrain(layers)
    asked = {"steps": steps, "tokens": tokens, "flops": flops}
    budget = choose_budget("flops", asked, Budget("steps", float(resolved.steps)))  # type: ignore[arg-type]
    if table and (config or settings or any((data, vocab_size, sequence_length, steps, tokens, flops))):
        raise UsageError("flops: --table is of the paper's runs, whatever else is given; give it alone")
    rows = choose_rows(resolved, data, vocab_size, sequence_length)
    if dry_run:
        return FlopsPlan(settings=resolved.model_dump(mode="json"), budget=str(budget))
    use_threads(threads)
    return paper_runs() if table else estimate_run(resolved, budget, rows)


def finetune(
    model: str | Path,
    task: str,
    data: str | Path,
    out: str | Path,
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
    seeds: int = 1,
    init_from: str | Path | None = None,
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 0,
    keep: int = 1,
    allow_inexact: bool = False,
    baseline: bool = True,
    dry_run: bool = False,
    display: Display | None = None,
) -> TunedResults | FinetunePlan:
    """A pre-trained model and labelled files -> a run folder with a tuned model; the same call again resumes.

    >>> electralab.finetune("run", "classify", "messages.csv", "tuned", settings={"steps": 2}, threads=1).task
    'classify'
    """
    display = _choose_display(display)
    display.tell_loading()
    from electralab.config import config_layers
    from electralab.finetuning import stage
    from electralab.stopping import handle_signals
    from electralab.tasks.catalog import find_task

    request = stage.FinetuneRequest(
        model=Path(model),
        task=find_task(task),
        data_dir=Path(data),
        run_dir=Path(out),
        layers=config_layers(config, settings),
        seeds=seeds,
        init_from=_path(init_from),
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        allow_inexact=allow_inexact,
        has_baselines=baseline,
    )
    if dry_run:
        return stage.plan_finetune(request)
    with handle_signals() as stop:
        return display.follow(stage.finetune(request, stop))


def glue(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    tasks: Sequence[str] = (),
    config: str | None = None,
    settings: SettingsTree | None = None,
    seeds: int = 1,
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 0,
    allow_inexact: bool = False,
    baseline: bool = True,
    dry_run: bool = False,
    display: Display | None = None,
) -> GlueResults | GluePlan:
    """A model tuned on every task of GLUE, and the scores as one table; the same call again goes on.

    >>> electralab.glue("run", "glue", "runs/glue", tasks=["cola"], dry_run=True).tasks["cola"].labels
    ('0', '1')
    """
    display = _choose_display(display)
    display.tell_loading()
    from dataclasses import replace

    from electralab.config import config_layers
    from electralab.finetuning.glue import choose_tasks, run_suite
    from electralab.finetuning.stage import FinetuneRequest, plan_finetune
    from electralab.records.tuned import GluePlan
    from electralab.stopping import handle_signals

    chosen = choose_tasks(Path(data), tasks)
    request = FinetuneRequest(
        model=Path(model),
        task=chosen[0],
        data_dir=Path(data),
        run_dir=Path(out),
        layers=config_layers(config, settings),
        seeds=seeds,
        init_from=None,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=0,
        allow_inexact=allow_inexact,
        has_baselines=baseline,
    )
    if dry_run:
        requests = {task.name: replace(request, task=task, run_dir=Path(out) / task.name) for task in chosen}
        return GluePlan(tasks={name: plan_finetune(task_request) for name, task_request in requests.items()})
    with handle_signals() as stop:
        return display.follow(run_suite(request, chosen, stop))


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
) -> EvaluationResult | EvaluationPlan:
    """Scores of a model as it is: minimal pairs, replaced tokens, masked tokens, similarity, linear probes.

    >>> electralab.evaluate("run", "rtd", "data", threads=1).suite
    'rtd'
    """
    display = _choose_display(display)
    display.tell_loading()
    from typing import cast

    from electralab.config import config_layers, resolve
    from electralab.evaluation import stage
    from electralab.model.folders.folder import locate_encoder
    from electralab.records.evaluation import EvaluationPlan
    from electralab.runtime import use_threads
    from electralab.stopping import handle_signals

    resolved = resolve(stage.EvaluateConfig, config_layers(config, settings))
    chosen = cast("Suite", suite)
    if dry_run:
        return EvaluationPlan(
            model=str(locate_encoder(Path(model))),
            suite=suite,
            data=str(data),
            generator=str(generator) if generator else None,
            task=task,
            settings=resolved.model_dump(mode="json"),
        )
    use_threads(threads)
    with handle_signals() as stop:
        events = stage.evaluate(
            Path(model), chosen, Path(data), resolved, generator=_path(generator), task=task, stop=stop
        )
        return display.follow(events)


def study(
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
) -> StudyResults | StudyPlan:
    """Arms of settings, pre-trained at equal compute and scored, seed by seed; the same call again goes on.

    A cell that fails says why under `cells` of the result, and is run again by the same call.

    >>> electralab.study("head-to-head", "data", "study", data="benchmarks", flops=1e9, dry_run=True).baseline
    'mlm'
    """
    from electralab.errors import UsageError

    budget = {name: amount for name, amount in (("flops", flops), ("tokens", tokens), ("steps", steps)) if amount}
    if budget and "budget" in (settings or {}):
        raise UsageError(f"study: the budget is given as --{next(iter(budget))} and as --budget; keep one")
    display = _choose_display(display)
    display.tell_loading()
    from electralab.experiments import stage
    from electralab.experiments.plan import StudyRequest
    from electralab.stopping import handle_signals

    asked = ({"budget": budget} if budget else {}) | ({"seeds": list(seeds)} if seeds else {})
    request = StudyRequest(
        study=study,
        corpus=Path(corpus),
        data_dir=_path(data),
        out=Path(out),
        settings={**(settings or {}), **asked},
        only=tuple(only),
        jobs=jobs,
        threads=threads,
    )
    if dry_run:
        return stage.describe_plan(request)
    with handle_signals() as stop:
        return display.follow(stage.run_study(request, stop))


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
) -> Analysis | AnalysisPlan:
    """What models learned, each beside an untrained control: information, geometry, context, invariance and more.

    What cannot be measured says why under `missing`; the same call again goes on where the last one stopped.

    >>> electralab.analyze(["run"], "data", "analysis", dry_run=True).models
    {'run': 'run'}
    """
    display = _choose_display(display)
    display.tell_loading()
    from electralab.analysis import stage
    from electralab.analysis.settings import AnalysisSettings
    from electralab.config import config_layers, resolve
    from electralab.runtime import use_threads
    from electralab.stopping import handle_signals

    resolved = resolve(AnalysisSettings, config_layers(config, settings))
    request = stage.AnalysisRequest(tuple(map(Path, models)), Path(data), Path(out), resolved, tuple(only))
    if dry_run:
        return stage.plan_analysis(request)
    use_threads(threads)
    with handle_signals() as stop:
        return display.follow(stage.analyze(request, stop))


def claims(
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
) -> ClaimsResult | ClaimsPlan | StudyPlan:
    """What trained models say about each claim of the notes: holds, does not hold, or undecided at this scale.

    With `corpus` the models of the study are trained where they are not there yet; without it, only those that are
    there are judged. `settings` are those of the analysis. `runs` may also be a claims.json, whose figures are then
    judged again by the rules of now.

    >>> electralab.claims("studies/claims", corpus="data", data="benchmarks", dry_run=True).study
    'claims'
    """
    display = _choose_display(display)
    display.tell_loading()
    from electralab.analysis.claims import stage
    from electralab.analysis.claims.table import required_measures, select_claims
    from electralab.errors import UsageError
    from electralab.events import Result
    from electralab.records.findings import Analysis, AnalysisPlan, ClaimsPlan
    from electralab.records.study import StudyPlan
    from electralab.reporting.page import with_page

    runs, chosen = Path(runs), select_claims(only)
    if runs.is_file():
        if corpus is not None:
            raise UsageError(f"claims: {runs} is a file, to be judged again as it is; leave out --corpus")
        return stage.decide_again(runs, chosen)
    if corpus is not None:
        trained = run_study(  # the parameter takes the name of the verb here
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
        if isinstance(trained, StudyPlan):
            return trained
    results = stage.read_runs(runs)
    models, tuned = stage.list_models(runs, results), stage.list_tuned(runs, results)
    given = {**(settings or {}), **({"domains": list(domains)} if domains else {})}
    text, named, analyses = corpus or stage.find_corpus(runs), stage.name_arms(models), []

    def measure(paths: Iterable[Path], folder: str, measures: Sequence[str], given: SettingsTree) -> None:
        analysis = analyze(
            list(paths),
            text,
            runs / folder,
            only=measures,
            config=config,
            settings=given,
            threads=threads,
            dry_run=dry_run,
            display=display,
        )
        analyses.append(analysis)

    if measures := required_measures(chosen):
        measure(models, stage.ANALYSIS, measures, given)
    measures = required_measures(chosen, of_tuned=True)
    if tuned is not None and measures:
        named |= stage.name_arms(tuned.models)
        measure(tuned.models, stage.TUNED, measures, given | {"examples": str(tuned.data), "untrained": False})
    if dry_run:
        plans = [plan for plan in analyses if isinstance(plan, AnalysisPlan)]
        return ClaimsPlan(study=results.name, claims=tuple(claim.number for claim in chosen), analyses=tuple(plans))
    sources = stage.Sources(tuple(domains), _path(tradeoff))
    measured = [analysis for analysis in analyses if isinstance(analysis, Analysis)]
    decided = stage.decide_claims(chosen, runs, results, models, named, measured, sources)
    return display.follow(with_page(runs, [Result(decided)]))


def report(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    data: str | Path | None = None,
    watch: bool = False,
    port: int = 8010,
    dry_run: bool = False,
    on_ready: Callable[[str], None] = print,
) -> ReportWritten | ReportPlan:
    """One page about a run, study, trade-off or analysis, or about several side by side; or served while it trains.

    With `data`, the folder of prepared text, the first run is shown at work on a few of its held-out rows.

    >>> electralab.report(["run"], "page.html").out
    'page.html'
    """
    from electralab.inspection import exhibit_rows
    from electralab.records.run import ExampleRow
    from electralab.reporting.live import watch_report
    from electralab.reporting.page import plan_report, write_report
    from electralab.stopping import handle_signals

    paths = [Path(run) for run in runs]
    if dry_run:
        return plan_report(paths, None if watch else Path(out))
    from electralab.pretraining.balance import advise

    if watch:
        with handle_signals() as stop:
            watch_report(paths, port, stop, on_ready, advise)
    examples = [ExampleRow.model_validate(row) for row in exhibit_rows(Path(data), paths[0])] if data else []
    return write_report(paths, Path(out), advise, examples)


def show(path: str | Path, *, row: int | None = None, model: str | Path | None = None) -> dict[str, Any]:
    """Any artifact as a plain dictionary that says what it is, after its files were compared with their hashes.

    >>> electralab.show("run")["kind"]
    'run'
    """
    from electralab.inspection import view

    return view(Path(path), row=row, model=_path(model))


def load(path: str | Path) -> Model:
    """A model to ask from Python: `.detect`, `.fill`, `.play`, `.embed`, `.predict`, whatever its `.can` names.

    >>> electralab.load("run").can
    ('detect', 'fill', 'play', 'embed')
    """
    from electralab.serving.model import Model

    return Model(Path(path))


def detect(
    model: str | Path, texts: Iterable[str], *, config: str | None = None, settings: SettingsTree | None = None
) -> list[Detection]:
    """For each text its tokens with character spans and p_replaced, and which of them are the most suspicious.

    A model of symbols takes JSON lists. `warning` says where the model's held-out scores speak against its verdicts.

    >>> (detection,) = electralab.detect("run", ["we the people"])
    >>> [token.text for token in detection.tokens]
    ['we', 'the', 'people']
    """
    from electralab.config import config_layers, resolve
    from electralab.serving.inputs import WindowConfig
    from electralab.serving.model import Model

    loaded = Model(Path(model), resolve(WindowConfig, config_layers(config, settings)))
    return loaded.detector.detect_many(list(texts))


def predict(
    model: str | Path,
    source: str | Path,
    out: str | Path | None = None,
    *,
    ensemble: bool = False,
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> PredictResult | PredictPlan:
    """A tuned model's answer for every row of a file, in order; a bad row has none, and says why.

    >>> electralab.predict("tuned", "messages.csv", threads=1).bad_rows
    0
    """
    from electralab.artifacts import write_file
    from electralab.config import config_layers, resolve
    from electralab.records.tuned import PredictPlan, PredictResult
    from electralab.runtime import use_threads
    from electralab.serving.model import Model
    from electralab.serving.predictor import PredictConfig, check_output_path, format_rows, merge_bad_rows
    from electralab.stopping import handle_signals
    from electralab.tasks.kind import format_bad_rows

    resolved = resolve(PredictConfig, config_layers(config, settings))
    if out:
        check_output_path(Path(out))
    use_threads(threads)
    predictor = Model(Path(model)).make_predictor(resolved, is_ensemble=ensemble)
    split = predictor.read(str(source))
    if dry_run:
        return PredictPlan(
            model=str(model),
            task=predictor.kind.name,
            rows=split.rows,
            bad_rows=len(split.bad_rows),
            columns=dict(split.columns),
            settings=resolved.model_dump(mode="json"),
        )
    display = _choose_display(display)
    for text in (*split.notes, *format_bad_rows(split)):
        display.say(text, style="yellow")
    with handle_signals() as stop:
        answered = display.follow(predictor.predict_examples(split.examples, stop))
    rows = merge_bad_rows(answered, split)
    if out:
        write_file(Path(out), format_rows(rows, Path(out).suffix))
    cut = sum(bool(row.cut) for row in answered)
    return PredictResult(predictions=tuple(rows), bad_rows=len(split.bad_rows), cut=cut)


def proofread(
    texts: Mapping[str, str],
    *,
    model: str | Path = "runs/quickstart",
    measure: bool = False,
    damage_share: float = 0.05,
    seed: int = 0,
    html: str | Path | None = None,
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
) -> ProofreadResult | ProofreadMeasure:
    """Documents by name -> the words that look wrong, with suggestions; or how much of planted damage is found.

    >>> electralab.proofread({"letter": "we the people of the states"}, model="run", threads=1).proofs[0].words
    6
    """
    from electralab.artifacts import write_file
    from electralab.config import config_layers, resolve
    from electralab.errors import UsageError
    from electralab.records.answers import ProofreadMeasure, ProofreadResult
    from electralab.runtime import use_threads
    from electralab.serving.model import Model
    from electralab.serving.pages import render_proofs
    from electralab.serving.proofreader import ProofreadConfig, score_proofreading

    if measure and html:
        raise UsageError("proofread: --measure has scores and no page; leave out --html or --measure")
    resolved = resolve(ProofreadConfig, config_layers(config, settings))
    use_threads(threads)
    proofreader = Model(Path(model), resolved.windows).make_proofreader(resolved)
    if measure:
        scores = score_proofreading(proofreader, list(texts.values()), share=damage_share, seed=seed)
        return ProofreadMeasure(model=str(model), threshold=resolved.threshold, scores=dict(scores))
    proofs = tuple(proofreader.proofread(text, source) for source, text in texts.items())
    heldout = proofreader.detector.heldout
    warning = heldout.warning if heldout else None
    if html:
        write_file(Path(html), render_proofs(proofs, warning))
    return ProofreadResult(model=str(model), threshold=resolved.threshold, warning=warning, proofs=proofs)


def serve(
    models: Sequence[str | Path],
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    on_ready: Callable[[str], None] = print,
) -> ServeResult | ServePlan:
    """Answers over HTTP until a signal to stop; `on_ready` is told the address. A model is a path or NAME=PATH.

    >>> electralab.serve(["run"], dry_run=True).models[0].name
    'run'
    """
    from electralab.config import config_layers, resolve
    from electralab.runtime import use_threads
    from electralab.serving import server

    resolved = resolve(server.ServeConfig, config_layers(config, settings))
    words = [str(model) for model in models]
    if dry_run:
        return server.plan_serve(words, resolved)
    use_threads(threads)
    return server.serve(words, resolved, on_ready)


def export(
    model: str | Path,
    out: str | Path,
    *,
    format: str = "hf",
    data: str | Path | None = None,
    license: str = "",
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> ExportResult | ExportPlan:
    """A model as a folder for `transformers` or as ONNX graphs, tried against the model before it is written.

    >>> electralab.export("run", "exported", threads=1).format
    'hf'
    """
    display = _choose_display(display)
    display.tell_loading()
    from typing import cast

    from electralab.config import config_layers, resolve
    from electralab.exporting.export import ExportConfig, export_model, plan_export
    from electralab.runtime import use_threads
    from electralab.stopping import handle_signals

    resolved = resolve(ExportConfig, config_layers(config, settings))
    form = cast("Format", format)
    if dry_run:
        return plan_export(Path(model), Path(out), form, resolved, data=_path(data), license=license)
    use_threads(threads)
    with handle_signals() as stop:
        events = export_model(Path(model), Path(out), form, resolved, data=_path(data), license=license, stop=stop)
        return display.follow(events)


def compress(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    generator: str | Path | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: SettingsTree | None = None,
    target_speedup: float | None = None,
    max_loss: float | None = None,
    license: str = "",
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Tradeoff | CompressPlan:
    """Smaller and faster variants of a model, and what each costs; the same call again goes on.

    With `target_speedup` or `max_loss` one of them becomes the model of `out`; "picked" is None where none fits.

    >>> electralab.compress("run", "data", "small", dry_run=True).metric
    'auc'
    """
    display = _choose_display(display)
    display.tell_loading()
    from electralab.compression import stage
    from electralab.compression.settings import CompressConfig
    from electralab.config import config_layers, resolve
    from electralab.stopping import handle_signals

    request = stage.CompressRequest(
        model=Path(model),
        data=Path(data),
        out=Path(out),
        config=resolve(CompressConfig, (stage.saved_reading_config(Path(model)), *config_layers(config, settings))),
        generator=_path(generator),
        task=task,
        target_speedup=target_speedup,
        max_loss=max_loss,
        license=license,
        threads=threads,
    )
    if dry_run:
        return stage.plan_compress(request)
    with handle_signals() as stop:
        return display.follow(stage.compress(request, stop))


def import_model(old: str | Path, out: str | Path) -> dict[str, list[str]]:
    """A legacy pickled or TensorFlow checkpoint -> a model folder of safetensors."""
    from electralab.model.folders.legacy import import_legacy

    return {"models": [str(folder) for folder in import_legacy(Path(old), Path(out))]}


run_study = study
judge_claims = claims
"""Names of before, for scripts that use them."""


def _path(name: str | Path | None) -> Path | None:
    return Path(name) if name else None


def _choose_display(display: Display | None) -> Display:
    from electralab.display import Display

    return display or Display()
