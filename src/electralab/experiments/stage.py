"""The stage: a study file -> a folder of cells, and what they say together.

StudyRequest -> Event... -> StudyResults
"""

import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import tomli_w

from electralab.artifacts import lock_folder, write_file
from electralab.config import read_toml, to_toml
from electralab.errors import InputError, UsageError
from electralab.events import Event, Note, Progress, Result, format_minutes
from electralab.experiments.cells import StepFailed, StepFinished, StepStarted, run_cells
from electralab.experiments.plan import Plan, StudyRequest, plan_study
from electralab.experiments.results import gather, summarise_study
from electralab.records.kinds import require_empty_or
from electralab.records.study import PlannedArm, SharedBudget, StudyEnvironment, StudyPlan, StudyResults
from electralab.reporting.cards import write_study_report
from electralab.reporting.page import with_page
from electralab.stopping import StopSignal

PROGRAM = (sys.executable, "-m")


@dataclass(frozen=True, slots=True)
class RemainingTime:
    cells: int
    steps: int
    minutes: float


def estimate_rest(plan: Plan, failed: Container[str] = ()) -> RemainingTime:
    """Chains are shared out as they come; what steps took so far tells how far the estimates of their kind are off."""
    chains = []
    spent: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell in plan.cells:
        finished = cell.finished()
        for step in cell.steps:
            if step.name in finished:
                spent[step.kind].append((step.seconds, finished[step.name].seconds))
        if cell.arm in plan.chosen and cell.name not in failed:
            chains.append([step for step in cell.steps if step.name not in finished])

    def ratio(pairs: Sequence[tuple[float, float]]) -> float:
        """Of seconds taken to seconds estimated; 1 before anything is known."""
        estimated, taken = (sum(side) for side in zip(*pairs, strict=True)) if pairs else (1.0, 1.0)
        return taken / estimated

    overall = ratio([pair for pairs in spent.values() for pair in pairs])
    ratios = {kind: ratio(pairs) for kind, pairs in spent.items()}
    chains = [chain for chain in chains if chain]
    ends = [0.0] * plan.jobs
    for chain in chains:
        ends[ends.index(min(ends))] += sum(step.seconds * ratios.get(step.kind, overall) for step in chain)
    return RemainingTime(len(chains), sum(map(len, chains)), round(max(ends) / 60, 2))


def run_study(
    request: StudyRequest, stop: StopSignal, program: Sequence[str] = PROGRAM
) -> Iterator[Event[StudyResults]]:
    """The same request again goes on with the steps that are not finished, failed ones included."""
    yield from with_page(request.out, _run_cells(request, stop, program))


def _run_cells(request: StudyRequest, stop: StopSignal, program: Sequence[str]) -> Iterator[Event[StudyResults]]:
    plan = _make_plan(request)
    if plan.refusal:
        raise InputError(plan.refusal)
    with lock_folder(request.out):
        rest = estimate_rest(plan)  # reads what there is, and refuses what is another study's
        total = rest.steps
        # What the children read, and what they are run with.
        plan.environment.write(request.out)
        write_file(request.out / "study.toml", to_toml(plan.study))
        for arm in plan.arms:
            if arm.is_tuned:
                write_file(request.out / "arms" / f"{arm.name}.toml", to_toml(arm.config))
        for score in plan.scores:
            write_file(request.out / "scores" / f"{score.name}.toml", tomli_w.dumps(score.config.settings))
        yield Note(
            f"{plan.study.name}: {len(plan.arms)} arms x {len(plan.study.seeds)} seeds, {total} commands in "
            f"{rest.cells} cells left, {plan.jobs} at a time, about {format_minutes(rest.minutes)}",
            "strong",
        )
        yield Progress("studying", 0, total)
        errors: dict[str, str] = {}
        chosen = [cell for cell in plan.cells if cell.arm in plan.chosen]
        try:
            for event in run_cells(chosen, plan.jobs, request.threads, stop, program):
                name = f"{event.cell.name}: {event.step.name}"
                match event:
                    case StepStarted():
                        yield Note(f"{name} begins", "dim")
                        continue
                    case StepFailed():
                        errors[event.cell.name] = f"{event.step.name}: {event.reason}"
                        yield Note(f"{name} failed: {event.reason}", "error")
                    case StepFinished():
                        event.cell.write_scores(plan.scores)
                        yield Note(f"{name} took {format_minutes(event.seconds / 60)}")
                summarise_study(plan, gather(plan, errors)).write(request.out)
                rest = estimate_rest(plan, errors)
                left = f"{rest.steps} commands in {rest.cells} cells left, eta {format_minutes(rest.minutes)}"
                yield Progress("studying", total - rest.steps, total, left, f"  {left}")
        finally:
            # Also at a stop: what is there by then can be read.
            results = summarise_study(plan, gather(plan, errors))
            results.write(request.out)
            write_study_report(request.out, results)
        yield Result(results)


def describe_plan(request: StudyRequest) -> StudyPlan:
    """What would be run, about how long it would take, and what is missing for it: the run itself would be refused."""
    plan = _make_plan(request)
    rest = estimate_rest(plan)
    arms = {}
    for arm in plan.arms:
        run = plan.pretraining.get(arm.name) if arm.start != "random" else None
        first = next(cell for cell in plan.cells if cell.arm == arm.name)
        arms[arm.name] = PlannedArm(
            **({"start": arm.start} if arm.start != "pretrained" else {}),
            objective=arm.config.objective,
            steps=run.steps if run else 0,
            tokens=run.tokens if run else 0,
            flops=run.flops if run else 0,
            parameters=plan.count_parameters(arm.name),
            estimated_minutes=round(sum(step.seconds for step in first.steps) / 60, 1),
        )
    return StudyPlan(
        study=plan.study.name,
        baseline=plan.study.baseline,
        budget=SharedBudget(**plan.study.budget.model_dump(exclude_none=True)),
        seeds=plan.study.seeds,
        scores={score.name: str(score.data) for score in plan.scores},
        missing=plan.missing,
        refusal=plan.refusal,
        arms=arms,
        jobs=plan.jobs,
        cells_left=rest.cells,
        steps_left=rest.steps,
        estimated_minutes=rest.minutes,
    )


def _make_plan(request: StudyRequest) -> Plan:
    """With all that may be refused before anything is run."""
    out, threads = request.out, request.threads
    require_empty_or("study", out)
    plan = plan_study(request)
    # A study may change and go on; under another name it is another, and would mix its arms in.
    held = read_toml(out / "study.toml").values.get("name") if (out / "study.toml").is_file() else plan.study.name
    if held != plan.study.name:
        raise UsageError(f"{out}: holds the study {held!r}, not {plan.study.name!r}; choose another --out")
    # How sums are split decides their last bits: cells of one study are computed alike.
    was = StudyEnvironment.read(out).threads or threads if (out / StudyEnvironment.FILE).is_file() else threads
    if was != threads:
        raise UsageError(
            f"{out}: its cells are run with {was} threads each, not {threads}, which would change their last bits; "
            f"give --threads {was}, or choose another --out"
        )
    if not plan.study.scores:
        raise UsageError(f"study {plan.study.name}: has no scores; add at least one [[scores]]")
    return plan
