"""What the shell and Python both offer: each verb resolves its settings, runs its stage and returns its result.

words or keyword arguments -> settings -> stage -> result
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from electralab.config import Layer, Tree, read_toml, resolve
from electralab.display import Display
from electralab.errors import UsageError
from electralab.stopping import listen_for_stop

if TYPE_CHECKING:
    from electralab.evaluation.outcome import Suite
    from electralab.exporting.portable import Format
    from electralab.serving.loaded import Loaded

Result = dict[str, Any]


def prepare(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    config: str | None = None,
    settings: Tree | None = None,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Text, in any language -> tokenizer and packed rows in `out`; returns the report."""
    from electralab.tokens.prepare import PrepareConfig, read_report
    from electralab.tokens.prepare import prepare as run_prepare

    names = [str(name) for name in inputs]
    resolved = resolve(PrepareConfig, _layers(config, settings))
    if dry_run:
        from electralab.runtime import default_threads
        from electralab.tokens.plan import plan_prepare

        plan = plan_prepare(names, resolved, cores=default_threads())
        return {"out": str(out), **asdict(plan), "sources": [str(source.path) for source in plan.sources]}
    display = display or Display()
    with listen_for_stop() as stop:
        display.follow_prepare(run_prepare(names, Path(out), resolved, stop))
    return read_report(Path(out))


def pretrain(
    data: str | Path,
    out: str | Path,
    *,
    config: str | None = None,
    settings: Tree | None = None,
    steps: int | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    minutes: float | None = None,
    init_from: str | Path | None = None,
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 20,
    keep: int = 2,
    snapshots: Sequence[float] = (),
    extend: bool = False,
    allow_inexact: bool = False,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Prepared data -> a run folder; the same call again resumes, and on a finished run returns its results."""
    from electralab.exporting.card import write_card
    from electralab.pretraining.identity import Budget, BudgetKind, choose_budget
    from electralab.pretraining.plan import plan_pretrain
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.pretraining.stage import PretrainRequest
    from electralab.pretraining.stage import pretrain as run_pretrain

    layers = [*([read_settings(config)] if config else []), Layer("command line", settings or {})]
    resolved = resolve_pretrain(layers)
    asked: dict[BudgetKind, float | None] = {"steps": steps, "tokens": tokens, "flops": flops, "minutes": minutes}
    request = PretrainRequest(
        data_dir=Path(data),
        run_dir=Path(out),
        config=resolved,
        budget=choose_budget("pretrain", asked, Budget("steps", float(resolved.steps))),
        init_from=Path(init_from) if init_from else None,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        extend=extend,
        allow_inexact=allow_inexact,
        snapshots=tuple(snapshots),
    )
    if dry_run:
        return asdict(plan_pretrain(request))
    display = display or Display()
    with listen_for_stop() as stop:
        results = display.follow_pretrain(run_pretrain(request, stop))
    write_card(Path(out))
    return results


def flops(
    *,
    config: str | None = None,
    settings: Tree | None = None,
    data: str | Path | None = None,
    vocab_size: int | None = None,
    sequence_length: int | None = None,
    steps: int | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    table: bool = False,
    threads: int = 0,
    dry_run: bool = False,
) -> Result:
    """What a run would cost: parameters, FLOPs in two conventions, memory, time; `table`: those of the paper."""
    from electralab.pretraining.identity import Budget, BudgetKind, choose_budget
    from electralab.pretraining.paper import price_paper
    from electralab.pretraining.price import choose_rows, price_run
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.runtime import use_threads

    layers = [*([read_settings(config)] if config else []), Layer("command line", settings or {})]
    resolved = resolve_pretrain(layers)
    asked: dict[BudgetKind, float | None] = {"steps": steps, "tokens": tokens, "flops": flops}
    budget = choose_budget("flops", asked, Budget("steps", float(resolved.steps)))
    if table and (config or settings or any((data, vocab_size, sequence_length, steps, tokens, flops))):
        raise UsageError("flops: --table is of the paper's runs, whatever else is given; give it alone")
    rows = choose_rows(resolved, data, vocab_size, sequence_length)
    if dry_run:
        return {"settings": resolved.model_dump(mode="json"), "budget": str(budget)}
    use_threads(threads)
    return price_paper() if table else price_run(resolved, budget, rows)


def finetune(
    model: str | Path,
    task: str,
    data: str | Path,
    out: str | Path,
    *,
    config: str | None = None,
    settings: Tree | None = None,
    seeds: int = 1,
    init_from: str | Path | None = None,
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 0,
    keep: int = 1,
    allow_inexact: bool = False,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """A pre-trained model and labelled files -> a run folder with a tuned model; the same call again resumes."""
    from electralab.exporting.tuned_card import write_tuned_card
    from electralab.finetuning.plan import plan_finetune
    from electralab.finetuning.stage import FinetuneRequest
    from electralab.finetuning.stage import finetune as run_finetune
    from electralab.finetuning.tasks import find_task

    request = FinetuneRequest(
        model=Path(model),
        task=find_task(task),
        data_dir=Path(data),
        run_dir=Path(out),
        layers=_layers(config, settings),
        seeds=seeds,
        init_from=Path(init_from) if init_from else None,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        allow_inexact=allow_inexact,
    )
    if dry_run:
        return plan_finetune(request)
    display = display or Display()
    with listen_for_stop() as stop:
        results = display.follow_finetune(run_finetune(request, stop))
    write_tuned_card(Path(out))
    return results


def glue(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    tasks: Sequence[str] = (),
    config: str | None = None,
    settings: Tree | None = None,
    seeds: int = 1,
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 0,
    allow_inexact: bool = False,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """A model tuned on every task of GLUE, and the scores as one table; the same call again goes on."""
    from electralab.exporting.tuned_card import write_tuned_card
    from electralab.finetuning.plan import plan_finetune
    from electralab.finetuning.stage import FinetuneRequest
    from electralab.finetuning.suite import choose_tasks, run_suite

    chosen = choose_tasks(Path(data), tasks)
    request = FinetuneRequest(
        model=Path(model),
        task=chosen[0],
        data_dir=Path(data),
        run_dir=Path(out),
        layers=_layers(config, settings),
        seeds=seeds,
        init_from=None,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=0,
        allow_inexact=allow_inexact,
    )
    if dry_run:
        return {
            "tasks": {
                task.name: plan_finetune(replace(request, task=task, run_dir=Path(out) / task.name)) for task in chosen
            }
        }
    display = display or Display()
    with listen_for_stop() as stop:
        results = display.follow_glue(run_suite(request, chosen, stop))
    for task in chosen:
        write_tuned_card(Path(out) / task.name)
    return results


def evaluate(
    model: str | Path,
    suite: str,
    data: str | Path,
    *,
    generator: str | Path | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: Tree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Scores of a model as it is: minimal pairs, replaced tokens, masked tokens, similarity, linear probes."""
    from electralab.evaluation.stage import EvaluateConfig
    from electralab.evaluation.stage import evaluate as run_evaluate
    from electralab.runtime import use_threads

    resolved = resolve(EvaluateConfig, _layers(config, settings))
    if dry_run:
        from electralab.model.folder import locate_encoder

        found = {"model": str(locate_encoder(Path(model))), "suite": suite, "data": str(data)}
        return {**found, "generator": generator, "task": task, "settings": resolved.model_dump(mode="json")}
    use_threads(threads)
    display = display or Display()
    with listen_for_stop() as stop:
        steps = run_evaluate(
            Path(model),
            cast("Suite", suite),
            Path(data),
            resolved,
            generator=Path(generator) if generator else None,
            task=task,
            stop=stop,
        )
        return asdict(display.follow_evaluate(steps))


def run_study(
    study: str,
    corpus: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    settings: Tree | None = None,
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
    from electralab.study.cells import StudyRequest
    from electralab.study.stage import describe_plan
    from electralab.study.stage import run_study as run

    budget = {name: amount for name, amount in (("flops", flops), ("tokens", tokens), ("steps", steps)) if amount}
    if budget and "budget" in (settings or {}):
        raise UsageError(f"study: the budget is given as --{next(iter(budget))} and as --budget; keep one")
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
        return describe_plan(request)
    display = display or Display()
    with listen_for_stop() as stop:
        return display.follow_study(run(request, stop))


def compress(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    generator: str | Path | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: Tree | None = None,
    target_speedup: float | None = None,
    max_loss: float | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Smaller and faster variants of a model, and what each costs; the same call again goes on.

    With `target_speedup` or `max_loss` one of them becomes the model of `out`; "picked" is None where none fits.
    """
    from electralab.compression.settings import CompressConfig
    from electralab.compression.stage import CompressRequest, plan_compress
    from electralab.compression.stage import compress as run_compress

    request = CompressRequest(
        model=Path(model),
        data=Path(data),
        out=Path(out),
        config=resolve(CompressConfig, _layers(config, settings)),
        generator=Path(generator) if generator else None,
        task=task,
        target_speedup=target_speedup,
        max_loss=max_loss,
        threads=threads,
    )
    if dry_run:
        return plan_compress(request)
    display = display or Display()
    with listen_for_stop() as stop:
        return display.follow_compress(run_compress(request, stop))


def predict(
    model: str | Path,
    source: str | Path,
    out: str | Path | None = None,
    *,
    ensemble: bool = False,
    config: str | None = None,
    settings: Tree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """A tuned model's answer for every row of a file, in order; a bad row has none, and says why."""
    from electralab.artifacts import write_file
    from electralab.runtime import use_threads
    from electralab.serving.predictor import PredictConfig, Predictor, check_out, format_rows, insert_bad

    resolved = resolve(PredictConfig, _layers(config, settings))
    if out:
        check_out(Path(out))
    use_threads(threads)
    predictor = Predictor.load(Path(model), resolved, is_ensemble=ensemble)
    split = predictor.read(str(source))
    if dry_run:
        counts = {"rows": split.rows, "bad_rows": len(split.bad_rows), "columns": split.columns}
        return {"model": str(model), "task": predictor.kind, **counts, "settings": resolved.model_dump(mode="json")}
    display = display or Display()
    display.tell_bad_rows(split)
    with listen_for_stop() as stop:
        chunks = display.follow_predict(predictor.predict_examples(split.examples, stop), len(split.examples))
    rows = insert_bad([row for chunk in chunks for row in chunk.rows], split)
    if out:
        write_file(Path(out), format_rows(rows, Path(out).suffix))
    return {"predictions": rows, "bad_rows": len(split.bad_rows), "cut": sum(chunk.cut for chunk in chunks)}


def load(path: str | Path) -> "Loaded":
    """A model to ask from Python: `.detect`, `.fill`, `.play`, `.embed`, `.predict`, whatever its `.can` names."""
    from electralab.serving.loaded import Loaded

    return Loaded(Path(path))


def _layers(config: str | None, settings: Tree | None) -> tuple[Layer, ...]:
    return (*([read_toml(Path(config))] if config else []), Layer("command line", settings or {}))


def detect(
    model: str | Path,
    texts: Iterable[str],
    *,
    config: str | None = None,
    settings: Tree | None = None,
) -> list[Result]:
    """For each text its tokens with character spans and p_replaced; a model of symbols takes JSON lists."""
    from electralab.serving.detector import DetectConfig, Detector

    detector = Detector.load(Path(model), resolve(DetectConfig, _layers(config, settings)))
    return [asdict(found) for found in detector.detect_many(list(texts))]


def serve(
    models: Sequence[str | Path],
    *,
    config: str | None = None,
    settings: Tree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    on_ready: Callable[[str], None] = print,
) -> Result:
    """Answers over HTTP until a signal to stop; `on_ready` is told the address. A model is a path or NAME=PATH."""
    from electralab.runtime import use_threads
    from electralab.serving.server import ServeConfig, plan_serve
    from electralab.serving.server import serve as run_server

    resolved = resolve(ServeConfig, _layers(config, settings))
    words = [str(model) for model in models]
    if dry_run:
        return plan_serve(words, resolved)
    use_threads(threads)
    return run_server(words, resolved, on_ready)


def proofread(
    texts: Mapping[str, str],
    *,
    model: str | Path = "runs/quickstart",
    measure: bool = False,
    damage_share: float = 0.05,
    seed: int = 0,
    html: str | Path | None = None,
    config: str | None = None,
    settings: Tree | None = None,
    threads: int = 0,
) -> Result:
    """Documents by name -> the words that look wrong, with suggestions; or how much of planted damage is found."""
    from electralab.artifacts import write_file
    from electralab.runtime import use_threads
    from electralab.serving.loaded import Loaded
    from electralab.serving.proof_page import compose_page
    from electralab.serving.proof_scores import score_proofreading
    from electralab.serving.proofreader import ProofreadConfig

    resolved = resolve(ProofreadConfig, _layers(config, settings))
    use_threads(threads)
    proofreader = Loaded(Path(model), resolved.windows).proofreader(resolved)
    if measure:
        scores = score_proofreading(proofreader, list(texts.values()), share=damage_share, seed=seed)
        return {
            "model": str(model),
            "threshold": resolved.threshold,
            "scores": {k: asdict(v) for k, v in scores.items()},
        }
    proofs = [proofreader.proofread(text, source) for source, text in texts.items()]
    if html:
        write_file(Path(html), compose_page(proofs))
    return {"model": str(model), "threshold": resolved.threshold, "proofs": [asdict(proof) for proof in proofs]}


def export(
    model: str | Path,
    out: str | Path,
    *,
    format: str = "hf",
    data: str | Path | None = None,
    license: str = "",
    config: str | None = None,
    settings: Tree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """A model as a folder for `transformers` or as ONNX graphs, tried against the model before it is written."""
    from electralab.exporting.portable import ExportConfig, export_model, plan_export
    from electralab.runtime import use_threads

    resolved = resolve(ExportConfig, _layers(config, settings))
    form, text = cast("Format", format), Path(data) if data else None
    if dry_run:
        return plan_export(Path(model), Path(out), form, resolved, data=text, licence=license)
    use_threads(threads)
    display = display or Display()
    with listen_for_stop() as stop:
        steps = export_model(Path(model), Path(out), form, resolved, data=text, licence=license, stop=stop)
        exported = display.follow_export(steps)
    return {"out": str(out), "format": format, "networks": {one.role: asdict(one) for one in exported}}


def show(path: str | Path, *, row: int | None = None, model: str | Path | None = None) -> Result:
    """Any artifact as a plain dictionary; the shell prints the same in human form."""
    from electralab.inspection import view

    return view(Path(path), row=row, model=Path(model) if model else None)


def import_model(old: str | Path, out: str | Path) -> Result:
    """A legacy pickled or TensorFlow checkpoint -> a model folder of safetensors."""
    from electralab.model.legacy import import_legacy

    return {"models": [str(folder) for folder in import_legacy(Path(old), Path(out))]}
