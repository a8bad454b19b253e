"""Verbs that teach: text -> rows -> a pre-trained model -> a tuned one, and what that would cost."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from electralab.config import ConfigLayer, SettingsTree, config_layers, resolve
from electralab.display import Display
from electralab.errors import UsageError
from electralab.stopping import handle_signals
from electralab.verbs.page import page_at_end

Result = dict[str, Any]


def prepare(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Text, in any language -> tokenizer and packed rows in `out`; returns the report."""
    from electralab.tokens.prepare import PrepareConfig, plan_prepare
    from electralab.tokens.prepare import prepare as run_prepare

    names = [str(name) for name in inputs]
    resolved = resolve(PrepareConfig, config_layers(config, settings))
    if dry_run:
        from electralab.runtime import default_threads

        return plan_prepare(names, Path(out), resolved, cores=default_threads()).to_json()
    display = display or Display()
    with handle_signals() as stop:
        return display.follow(run_prepare(names, Path(out), resolved, stop)).to_json()


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
) -> Result:
    """Prepared data -> a run folder; the same call again resumes, and on a finished run returns its results."""
    display = display or Display()
    display.tell_loading()
    from electralab.pretraining.identity import Budget, BudgetKind, choose_budget
    from electralab.pretraining.plan import plan_pretrain
    from electralab.pretraining.resuming import settle_settings
    from electralab.pretraining.settings import read_settings
    from electralab.pretraining.stage import PretrainRequest
    from electralab.pretraining.stage import pretrain as run_pretrain
    from electralab.reporting.cards import write_run_card

    layers = [*([read_settings(config)] if config else []), ConfigLayer("command line", settings or {})]
    settled = settle_settings(layers, Path(out), Path(init_from) if init_from else None)
    resolved = settled.config
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
        init_generator=Path(init_generator) if init_generator else None,
        match_tokens=match_tokens,
        branch_from=Path(branch_from) if branch_from else None,
        preset=settled.preset,
        notes=settled.notes,
    )
    if dry_run:
        return asdict(plan_pretrain(request))
    with handle_signals() as stop, page_at_end(Path(out), display):
        results = display.follow(run_pretrain(request, stop))
    write_run_card(Path(out))
    return results


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
) -> Result:
    """What a run would cost: parameters, FLOPs in two conventions, memory, time; `table`: those of the paper."""
    from electralab.pretraining.identity import Budget, BudgetKind, choose_budget
    from electralab.pretraining.paper import price_paper
    from electralab.pretraining.price import choose_rows, price_run
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.runtime import use_threads

    layers = [*([read_settings(config)] if config else []), ConfigLayer("command line", settings or {})]
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
) -> Result:
    """A pre-trained model and labelled files -> a run folder with a tuned model; the same call again resumes."""
    display = display or Display()
    display.tell_loading()
    from electralab.finetuning.stage import FinetuneRequest, plan_finetune
    from electralab.finetuning.stage import finetune as run_finetune
    from electralab.reporting.cards import write_tuned_card
    from electralab.tasks.catalog import find_task

    request = FinetuneRequest(
        model=Path(model),
        task=find_task(task),
        data_dir=Path(data),
        run_dir=Path(out),
        layers=config_layers(config, settings),
        seeds=seeds,
        init_from=Path(init_from) if init_from else None,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        allow_inexact=allow_inexact,
        has_baselines=baseline,
    )
    if dry_run:
        return plan_finetune(request).to_json()
    with handle_signals() as stop, page_at_end(Path(out), display):
        results = display.follow(run_finetune(request, stop))
    write_tuned_card(Path(out))
    return results


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
) -> Result:
    """A model tuned on every task of GLUE, and the scores as one table; the same call again goes on."""
    display = display or Display()
    display.tell_loading()
    from electralab.finetuning.glue import choose_tasks, run_suite
    from electralab.finetuning.stage import FinetuneRequest, plan_finetune
    from electralab.reporting.cards import write_tuned_card

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
        return {
            "tasks": {
                task.name: plan_finetune(replace(request, task=task, run_dir=Path(out) / task.name)).to_json()
                for task in chosen
            }
        }
    with handle_signals() as stop, page_at_end(Path(out), display):
        results = display.follow(run_suite(request, chosen, stop))
    for task in chosen:
        write_tuned_card(Path(out) / task.name)
    return results
