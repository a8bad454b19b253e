"""`electra study`: settings compared at equal compute, seed by seed."""

from typing import TYPE_CHECKING, Any

from electralab import api
from electralab.shell.parser import Parser, names, positive, positive_int, whole_numbers

if TYPE_CHECKING:
    from electralab.records.study import StudyPlan
    from electralab.shell.call import Call

SUMMARY = "compare settings at equal compute, seed by seed; the same command again goes on"
EXAMPLE = "electra study head-to-head --corpus data/mine --data benchmarks/ --out studies/mine --flops 4e13"
FUNCTION = api.study


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "config",
        metavar="STUDY",
        help="a TOML file, or one that comes along: paper-objectives, generator-size, weight-tying, "
        "training-procedure, mask-share, head-to-head, sample-efficiency, model-size, discriminator-options, claims, "
        "family",
    )
    add("--corpus", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    add("--data", metavar="DIR", help="the folder in which the data of the scores lies")
    add("--out", required=True, metavar="DIR", help="the folder of the study")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--flops", type=positive, metavar="X", help="of each arm, instead of the study's budget")
    budget.add_argument("--tokens", type=positive, metavar="N", help="of each arm, instead of the study's budget")
    budget.add_argument("--steps", type=positive_int, metavar="N", help="of each arm, instead of the study's budget")
    add("--seeds", type=whole_numbers, metavar="S,S", help="of pre-training, instead of the study's")
    add("--only", type=names, metavar="ARM,ARM", help="run these arms only, the others later")
    add_job_flags(parser)


def add_job_flags(parser: Parser) -> None:
    """How cells are run; `claims` has the same."""
    parser.add_argument("--jobs", type=positive_int, metavar="N", help="cells side by side (cores / threads)")
    parser.add_argument("--threads", type=positive_int, metavar="N", help="of each cell")


def run(call: "Call") -> dict[str, Any]:
    from electralab.errors import StudyFailed
    from electralab.records.study import StudyPlan
    from electralab.reporting.study_page import study_tables
    from electralab.shell.call import print_json
    from electralab.shell.commands.pretrain import format_folder

    flags = call.flags
    result = api.study(
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
        return result.to_json()
    call.print(*study_tables(result))
    call.print_lines([*format_folder(flags.out), f"report  {flags.out}/report.md"])
    answer = {"out": flags.out, **result.to_json()}
    # A study whose cells failed has its table all the same, and ends with their names.
    if failed := [f"{cell.arm} seed {cell.seed} ({cell.error})" for cell in result.cells if cell.error]:
        if flags.json:
            print_json(answer)
        count = f"{len(failed)} of {len(result.cells)} cells failed"
        raise StudyFailed(f"{result.name}: {count}: {'; '.join(failed)}; the same command runs them again")
    return answer


def show_plan(call: "Call", plan: "StudyPlan", out: str) -> None:
    """A plan is shown whole, and ends as the run would where data is missing."""
    from electralab.errors import InputError
    from electralab.shell.call import print_json

    call.print_plan(format_plan(plan, out))
    if plan.refusal:
        if call.flags.json:
            print_json(plan)
        raise InputError(plan.refusal)


def format_plan(plan: "StudyPlan", out: str) -> list[str]:
    from electralab.reporting.format import format_count, format_flops, format_number_of, format_time

    budget = f"{format_flops(plan.budget.amount)} {'FLOPs' if plan.budget.kind == 'flops' else plan.budget.kind}"
    scores = ", ".join(plan.scores) or "held-out scores only"
    return [
        f"would run the study {plan.study} in {out}: {format_number_of(len(plan.arms), 'arm')}, "
        f"{format_number_of(len(plan.seeds), 'seed')}, {budget} each, scored by {scores}",
        *(
            f"{name}{' (baseline)' if name == plan.baseline else ''}: {arm.objective}, "
            f"{format_count(arm.parameters)} parameters, {format_number_of(arm.steps, 'step')}, "
            f"{format_count(arm.tokens)} tokens; {format_time(arm.estimated_minutes)} a seed"
            for name, arm in plan.arms.items()
        ),
        f"{format_number_of(plan.cells_left, 'run')} left, {plan.jobs} at a time: "
        f"{format_time(plan.estimated_minutes)}",
    ]
