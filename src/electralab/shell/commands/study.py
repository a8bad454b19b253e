"""`electra study`, `electralab.study`: settings compared at equal compute, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, as_path, open_display
from electralab.shell.commands.pretrain import format_folder
from electralab.shell.parser import Parser, names, positive, positive_int, whole_numbers

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.study import StudyPlan, StudyResults

SUMMARY = "compare settings at equal compute, seed by seed; the same command again goes on"
EXAMPLE = "electra study head-to-head --corpus data/mine --data benchmarks/ --out studies/mine --flops 4e13"

_STUDIES = (
    "a TOML file, or one that comes along: paper-objectives, generator-size, weight-tying, training-procedure, "
    "mask-share, head-to-head, sample-efficiency, model-size, discriminator-options, claims, family, cpu-hour, "
    "cpu-hour-search"
)
_BUDGET = "of each arm, instead of the study's budget"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    # Its dest is `config`, which lets dotted settings through: those of a study are the words of its file.
    add("config", metavar="STUDY", help=_STUDIES)
    add("--corpus", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    add("--data", metavar="DIR", help="the folder in which the data of the scores lies")
    add("--out", required=True, metavar="DIR", help="the folder of the study")
    spend = parser.add_mutually_exclusive_group().add_argument
    spend("--flops", type=positive, metavar="X", help=_BUDGET)
    spend("--tokens", type=positive, metavar="N", help=_BUDGET)
    spend("--steps", type=positive_int, metavar="N", help=_BUDGET)
    add("--seeds", type=whole_numbers, metavar="S,S", help="of pre-training, instead of the study's")
    add("--only", type=names, metavar="ARM,ARM", help="run these arms only, the others later")
    add_job_flags(parser)


def add_job_flags(parser: Parser) -> None:
    """How cells are run; `claims` has the same."""
    parser.add_argument("--jobs", type=positive_int, metavar="N", help="cells side by side (cores / threads)")
    parser.add_argument("--threads", type=positive_int, metavar="N", help="of each cell")


def study(
    study: str,
    corpus: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    settings: GivenSettings | None = None,
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

    # Before PyTorch is loaded for nothing.
    budget = {name: amount for name, amount in (("flops", flops), ("tokens", tokens), ("steps", steps)) if amount}
    if budget and "budget" in (settings or {}):
        raise UsageError(f"study: the budget is given as --{next(iter(budget))} and as --budget; keep one")
    display = open_display(display)
    from electralab.experiments import stage
    from electralab.experiments.plan import StudyRequest

    asked = ({"budget": budget} if budget else {}) | ({"seeds": list(seeds)} if seeds else {})
    request = StudyRequest(
        study=study,
        corpus=Path(corpus),
        data_dir=as_path(data),
        out=Path(out),
        settings={**(settings or {}), **asked},
        only=tuple(only),
        jobs=jobs,
        threads=threads,
    )
    return stage.describe_plan(request) if dry_run else display.run(lambda stop: stage.run_study(request, stop))


def run(call: Call) -> None:
    from electralab.errors import StudyFailed
    from electralab.records.study import StudyPlan
    from electralab.reporting.study_page import study_tables

    flags = call.flags
    result = study(
        flags.config,
        flags.corpus,
        flags.out,
        data=flags.data,
        settings=call.settings,
        flops=flags.flops,
        tokens=flags.tokens,
        steps=flags.steps,
        seeds=flags.seeds,
        only=flags.only,
        jobs=flags.jobs,
        threads=flags.threads,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, StudyPlan):
        show_plan(call, result, flags.out)
        return
    call.print(*study_tables(result), *format_folder(flags.out), f"report  {flags.out}/report.md")
    call.answer(result, out=flags.out)
    # A study whose cells failed has its table all the same, and ends with their names.
    if failed := [f"{cell.arm} seed {cell.seed} ({cell.error})" for cell in result.cells if cell.error]:
        count = f"{len(failed)} of {len(result.cells)} cells failed"
        raise StudyFailed(f"{result.name}: {count}: {'; '.join(failed)}; the same command runs them again")


def show_plan(call: Call, plan: StudyPlan, out: str) -> None:
    """A plan is shown whole, and ends as the run would where data is missing."""
    from electralab.errors import InputError
    from electralab.reporting import format as f

    kind = "FLOPs" if plan.budget.kind == "flops" else plan.budget.kind
    arms, seeds = f.format_number_of(len(plan.arms), "arm"), f.format_number_of(len(plan.seeds), "seed")
    runs, time = f.format_number_of(plan.cells_left, "run"), f.format_time(plan.estimated_minutes)
    lines = []
    for name, arm in plan.arms.items():
        parts = [] if arm.start in ("baseline", "blend") else [arm.objective]
        parts = [*([] if arm.start == "pretrained" else [arm.start]), *parts]
        parts += [f"{f.format_count(arm.parameters)} parameters"] if arm.parameters else []
        if arm.steps:
            parts += [f.format_number_of(arm.steps, "step"), f"{f.format_count(arm.tokens)} tokens"]
        name = f"{name} (baseline)" if name == plan.baseline else name
        lines.append(f"{name}: {', '.join(parts)}; {f.format_time(arm.estimated_minutes)} a seed")
    call.print_plan(
        f"would run the study {plan.study} in {out}: {arms}, {seeds}, {f.format_flops(plan.budget.amount)} {kind} "
        f"each, scored by {', '.join(plan.scores) or 'held-out scores only'}",
        *lines,
        f"{runs} left, {plan.jobs} at a time: {time}",
    )
    call.answer(plan)
    if plan.refusal:
        raise InputError(plan.refusal)
