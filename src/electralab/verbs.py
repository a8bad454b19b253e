"""What the shell and Python both offer: each verb resolves its settings, runs its stage and returns its result.

words or keyword arguments -> settings -> stage -> result
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from electralab.config import Layer, Tree, read_toml, resolve
from electralab.display import Display
from electralab.errors import InputError, UsageError
from electralab.stopping import listen_for_stop

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
    layers = [read_toml(Path(config))] if config else []
    resolved = resolve(PrepareConfig, [*layers, Layer("command line", settings or {})])
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
    extend: bool = False,
    allow_inexact: bool = False,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Prepared data -> a run folder; the same call again resumes, and on a finished run returns its results."""
    from electralab.export.card import write_card
    from electralab.pretraining.identity import Budget, BudgetKind
    from electralab.pretraining.plan import plan_pretrain
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.pretraining.stage import PretrainRequest
    from electralab.pretraining.stage import pretrain as run_pretrain

    layers = [*([read_settings(config)] if config else []), Layer("command line", settings or {})]
    resolved = resolve_pretrain(layers)
    asked: dict[BudgetKind, float | None] = {"steps": steps, "tokens": tokens, "flops": flops, "minutes": minutes}
    budgets = [Budget(kind, float(amount)) for kind, amount in asked.items() if amount is not None]
    if len(budgets) > 1:
        raise UsageError(f"pretrain: {budgets[0]} and {budgets[1]} are both given; give one budget")
    request = PretrainRequest(
        data_dir=Path(data),
        run_dir=Path(out),
        config=resolved,
        budget=budgets[0] if budgets else Budget("steps", float(resolved.steps)),
        init_from=Path(init_from) if init_from else None,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        extend=extend,
        allow_inexact=allow_inexact,
    )
    if dry_run:
        return asdict(plan_pretrain(request))
    display = display or Display()
    with listen_for_stop() as stop:
        results = display.follow_pretrain(run_pretrain(request, stop))
    write_card(Path(out))
    return results


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
    log_every: int = 20,
    keep: int = 1,
    allow_inexact: bool = False,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """A pre-trained model and labelled files -> a run folder with a tuned model; the same call again resumes."""
    from electralab.finetuning.plan import plan_finetune
    from electralab.finetuning.stage import FinetuneRequest
    from electralab.finetuning.stage import finetune as run_finetune
    from electralab.finetuning.tasks import find_task

    layers = [*([read_toml(Path(config))] if config else []), Layer("command line", settings or {})]
    request = FinetuneRequest(
        model=Path(model),
        task=find_task(task),
        data_dir=Path(data),
        run_dir=Path(out),
        layers=tuple(layers),
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
        return display.follow_finetune(run_finetune(request, stop))


def detect(
    model: str | Path,
    texts: Iterable[str],
    *,
    config: str | None = None,
    settings: Tree | None = None,
) -> list[Result]:
    """For each text its tokens with character spans and p_replaced; a model of symbols takes JSON lists."""
    from electralab.serving.detector import DetectConfig, Detector

    layers = [*([read_toml(Path(config))] if config else []), Layer("command line", settings or {})]
    detector = Detector.load(Path(model), resolve(DetectConfig, layers))
    return [_detect_one(detector, text) for text in texts]


def _detect_one(detector: Any, text: str) -> Result:
    if not detector.tokenizer.is_symbols:
        return asdict(detector.detect(text))
    try:
        symbols = json.loads(text)
    except (ValueError, RecursionError):
        symbols = None
    if not isinstance(symbols, list) or not all(isinstance(s, str | int) and not isinstance(s, bool) for s in symbols):
        raise InputError(f"a model of symbols takes a JSON list of strings or integers, got {text[:40]!r}")
    return asdict(detector.detect_symbols(symbols))


def show(path: str | Path, *, row: int | None = None, model: str | Path | None = None) -> Result:
    """Any artifact as a plain dictionary; the shell prints the same in human form."""
    from electralab.inspection import view

    return view(Path(path), row=row, model=Path(model) if model else None)


def import_model(old: str | Path, out: str | Path) -> Result:
    """A legacy pickled or TensorFlow checkpoint -> a model folder of safetensors."""
    from electralab.model.legacy import import_legacy

    return {"models": [str(folder) for folder in import_legacy(Path(old), Path(out))]}
