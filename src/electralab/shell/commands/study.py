"""`electra study`, `electralab.study`: settings compared at equal compute, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, as_path, names, open_display, positive, positive_int, whole_numbers
from electralab.shell.commands.pretrain import format_folder

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.study import StudyPlan, StudyResults

SUMMARY = "compare settings at equal compute, over seeds; the same command resumes"
EXAMPLE = "electra study head-to-head --corpus data/mine --data benchmarks/ --out studies/mine --flops 4e13"

_STUDIES = (
    "a TOML file, or one of the package: paper-objectives, generator-size, weight-tying, training-procedure, "
    "mask-share, head-to-head, sample-efficiency, model-size, discriminator-options, claims, family, cpu-hour, "
    "cpu-hour-search"
)
_BUDGET = "budget of each arm, instead of the study's"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    # Its dest is `config`, which lets dotted settings through: those of a study are the words of its file.
    add("config", metavar="STUDY", help=_STUDIES)
    add("--corpus", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    add("--data", metavar="DIR", help="the folder with the data of the scores")
    add("--out", required=True, metavar="DIR", help="the folder of the study")
    spend = parser.add_mutually_exclusive_group().add_argument
    spend("--flops", type=positive, metavar="X", help=_BUDGET)
    spend("--tokens", type=positive, metavar="N", help=_BUDGET)
    spend("--steps", type=positive_int, metavar="N", help=_BUDGET)
    add("--seeds", type=whole_numbers, metavar="S,S", help="seeds of pre-training, instead of the study's")
    add("--only", type=names, metavar="ARM,ARM", help="run these arms only, the others later")
    add_job_flags(parser)


def add_job_flags(parser: Parser) -> None:
    """How cells are run; `claims` has the same."""
    parser.add_argument("--jobs", type=positive_int, metavar="N", help="cells at the same time (cores / threads)")
    parser.add_argument("--threads", type=positive_int, metavar="N", help="CPU threads of each cell")


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
    from electralab.errors import InputError, StudyFailed
    from electralab.records.study import StudyPlan
    from electralab.reporting.study_page import study_tables

    out, result = call.flags.out, call.ask(study, study=call.flags.config)
    if not call.prints_plan(result):
        call.print(*study_tables(result), *format_folder(out), f"report  {out}/report.md")
    call.answer(result, out=out)
    # Both are shown whole, and end with what is wrong: a plan for which data is missing, a study whose cells failed.
    if isinstance(result, StudyPlan):
        if result.refusal:
            raise InputError(result.refusal)
    elif failed := [f"{cell.arm} seed {cell.seed} ({cell.error})" for cell in result.cells if cell.error]:
        count = f"{len(failed)} of {len(result.cells)} cells failed"
        raise StudyFailed(f"{result.name}: {count}: {'; '.join(failed)}; the same command runs them again")
