"""The stage: a study file -> a folder of cells, and what they say together.

StudyRequest -> Event... -> StudyResults
"""

import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log
from typing import Any

import numpy as np
import tomli_w

from electralab.artifacts import lock_folder, write_file
from electralab.config import read_toml, to_toml
from electralab.errors import InputError, UsageError
from electralab.events import Event, Note, Progress, Result, format_minutes
from electralab.experiments.cells import Cell, read_scores, run_cells
from electralab.experiments.plan import Plan, StudyRequest, plan_study
from electralab.experiments.scores import Measured
from electralab.records import study as study_records
from electralab.records.kinds import require_empty_or
from electralab.records.run import RunProgress, snapshot_step
from electralab.records.study import AVERAGE, HEADLINE, Comparison, CurvePoint, PretrainAnswer, StudyResults
from electralab.reporting.cards import write_study_report
from electralab.reporting.page import with_page
from electralab.statistics import correct_holm, mean_interval, paired_bootstrap, paired_t
from electralab.stopping import StopSignal

END = 1.0
"""The fraction of a run at its end; a snapshot has less."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """What is known of one cell."""

    cell: Cell
    progress: PretrainAnswer | None
    """Of pre-training; None before its end, and where there is none."""
    seconds: float
    measured: Mapping[str, Measured]
    error: str
    is_complete: bool
    """Every step has its result."""


def gather(plan: Plan, errors: Mapping[str, str]) -> list[CellResult]:
    """From the disk, so that what earlier sittings finished is there too; `errors` by the name of the cell."""
    results = []
    # The one step that makes the folder of random weights is no pre-training to speak of.
    trained = {arm.name for arm in plan.arms if arm.start in ("pretrained", "branch")}
    for cell in plan.cells:
        steps = cell.finished()
        is_trained = "pretrain" in steps and cell.arm in trained
        progress = PretrainAnswer.model_validate(steps["pretrain"].result) if is_trained else None
        seconds = sum((step.seconds for step in steps.values()), 0.0)
        measured, wrong = read_scores(steps, plan.scores)
        error, is_complete = errors.get(cell.name, wrong), len(steps) == len(cell.steps)
        results.append(CellResult(cell, progress, seconds, measured, error, is_complete))
    return results


def summarise_study(plan: Plan, cells: Sequence[CellResult]) -> StudyResults:
    study, values = plan.study, _Values(plan, cells)
    metrics = {
        score.name: {cell.measured[score.name].metric for cell in cells if score.name in cell.measured}
        for score in plan.scores
    }
    # The settings of fine-tuning that were chosen for an arm, as far as they are.
    folders = {cell.arm: step.choice for cell in plan.cells for step in cell.steps if step.choice}
    choices = {
        arm.name: study_records.TuningChoice.read(folder)
        for arm in plan.arms
        if arm.is_tuned and (folder := folders.get(arm.name)) and (folder / study_records.TuningChoice.FILE).is_file()
    }
    by_line: dict[str, list[str]] = {}
    for arm in plan.arms:
        by_line.setdefault(arm.line, []).append(arm.name)
    curves = {name: {line: values.curve(arms, name) for line, arms in by_line.items()} for name in values.names}
    summaries = []
    for result in cells:
        progress = result.progress
        summaries.append(
            study_records.CellSummary(
                arm=result.cell.arm,
                seed=result.cell.seed,
                status="failed" if result.error else "finished" if result.is_complete else "unfinished",
                error=result.error,
                scores={name: score.value for name, score in result.measured.items()},
                steps=progress and progress.step,
                tokens=progress and progress.tokens,
                flops=progress and progress.flops,
                parameters=plan.count_parameters(result.cell.arm),
                pretraining_seconds=progress and progress.seconds,
                seconds=result.seconds,
            )
        )
    table = []
    for arm in plan.arms:
        seeds = {name: list(values.by_seed(arm.name, name).values()) for name in values.names}
        row = study_records.ArmRow(
            line=arm.line,
            arm=arm.name,
            steps=values.mean_progress(arm.name, "step"),
            tokens=values.mean_progress(arm.name, "tokens"),
            flops=values.mean_progress(arm.name, "flops"),
            parameters=plan.count_parameters(arm.name),
            pretraining_seconds=values.mean_progress(arm.name, "seconds"),
            scores={name: mean_over_seeds(scores) if scores else None for name, scores in seeds.items()},
        )
        table.append(row)
    return StudyResults(
        name=study.name,
        title=study.title or study.name,
        baseline=study.baseline,
        budget=study_records.SharedBudget(**study.budget.model_dump(exclude_none=True)),
        seeds=study.seeds,
        x=values.x,
        provenance=plan.environment,
        # Where arms are measured by different metrics, as language models of different kinds are, none is named.
        scores={name: next(iter(known)) if len(known) == 1 else "" for name, known in metrics.items()},
        averaged=tuple(values.averaged),
        **({"headline": study.headline} if study.headline else {}),
        **({"tuning": choices} if choices else {}),
        arms={
            arm.name: arm.config.model_dump(mode="json", exclude={"steps", "seed"}) if arm.is_tuned else {}
            for arm in plan.arms
        },
        cells=tuple(summaries),
        table=tuple(table),
        comparisons=tuple(_compare(values)),
        curves=curves,
        reach={name: _compute_to_target(values, curves[name]) for name in values.names},
        notes=tuple(_gather_notes(cells)),
    )


class _Values:
    """Scores by arm, seed and fraction of the run."""

    def __init__(self, plan: Plan, cells: Sequence[CellResult]) -> None:
        self.plan, self.cells = plan, cells
        # Of those that all arms have, or averages would be of different things.
        self.averaged = [score.name for score in plan.scores if not score.config.arms]
        headline, names = plan.study.headline, [score.name for score in plan.scores]
        self.summary = HEADLINE if headline else AVERAGE
        self.summarised = list(headline) or self.averaged
        self.names = [HEADLINE, *names] if headline else [*names, *([AVERAGE] if len(self.averaged) > 1 else [])]
        # What arms have equal parts of is what their curves go along.
        self.x: study_records.Amount = "tokens" if plan.study.budget.tokens is not None else "flops"

    def of_arm(self, arm: str) -> list[CellResult]:
        return [result for result in self.cells if result.cell.arm == arm]

    def by_seed(self, arm: str, score: str, fraction: float = END) -> dict[int, float]:
        """An average is there only where all scores of its cell are."""
        values = {}
        for result in self.of_arm(arm):
            scores = self.summarised if score == self.summary else [score]
            names = scores if fraction == END else [f"{name}@{fraction:g}" for name in scores]
            if all(name in result.measured for name in names):
                values[result.cell.seed] = float(np.mean([result.measured[name].value for name in names]))
        return values

    def mean_progress(self, arm: str, field: str, fraction: float = END) -> float | None:
        """Over the seeds, of what pre-training says of itself at its end, or at a snapshot."""
        runs: list[RunProgress] = []
        for result in self.of_arm(arm):
            if result.progress is not None:
                step = snapshot_step(fraction, result.progress.step)
                marks = [result.progress] if fraction == END else result.progress.snapshots
                runs += [mark for mark in marks if fraction == END or mark.step == step][:1]
        return float(np.mean([getattr(progress, field) for progress in runs])) if runs else None

    def curve(self, arms: Sequence[str], score: str) -> tuple[CurvePoint, ...]:
        """Of the arms of one line, from little to much."""
        points = []
        for arm in arms:
            # Where runs of several lengths make the line, it is of runs that came to their end.
            for fraction in (*(sorted(self.plan.study.snapshots.at) if len(arms) == 1 else []), END):
                values = list(self.by_seed(arm, score, fraction).values())
                flops, tokens = (self.mean_progress(arm, field, fraction) for field in ("flops", "tokens"))
                if values and flops is not None and tokens is not None:
                    facts: dict[str, Any] = {"flops": flops, "tokens": tokens, **dict(mean_over_seeds(values))}
                    points.append(CurvePoint(arm=arm, share=fraction, values=tuple(values), **facts))
        return tuple(sorted(points, key=lambda point: getattr(point, self.x)))


def mean_over_seeds(values: Sequence[float]) -> study_records.SeedMean:
    interval, is_spread = mean_interval(values), len(values) > 1
    return study_records.SeedMean(
        n=len(values),
        mean=interval.value,
        sd=float(np.std(values, ddof=1)) if is_spread else None,
        low=interval.low if is_spread else None,
        high=interval.high if is_spread else None,
    )


def _compare(values: _Values) -> list[Comparison]:
    """Every arm with the one it is compared with, by the seeds, and by paradigms where a score has them; by a headline
    every two arms; then Holm."""
    summary, arms = values.summary, values.plan.arms
    compared = [(arm.name, arm.versus, name) for arm in arms for name in values.names if arm.name != arm.versus]
    if summary == HEADLINE:
        known = {frozenset(pair) for *pair, _ in compared}
        pairs = combinations([arm.name for arm in arms], 2)
        compared += [(arm, versus, HEADLINE) for arm, versus in pairs if frozenset((arm, versus)) not in known]
    rows: list[Comparison] = []
    for arm, versus, name in compared:
        ours, theirs = values.by_seed(arm, name), values.by_seed(versus, name)
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            continue
        differences = [ours[seed] - theirs[seed] for seed in seeds]
        facts: dict[str, Any] = {"arm": arm, "versus": versus, "score": name, "p_holm": None}
        family = name if name == summary else "seeds"
        means = dict(mean_over_seeds(differences))
        rows.append(Comparison(**means, **facts, family=family, test="paired t", over="seeds", p=paired_t(differences)))
        if name == summary:
            continue
        # Of each paradigm that all runs were scored on: the mean over the seeds of ours less that of theirs.
        our_groups, their_groups = (
            [
                groups
                for result in values.of_arm(other)
                if result.cell.seed in seeds and (groups := result.measured[name].groups)
            ]
            for other in (arm, versus)
        )
        differences = pair_groups(our_groups, their_groups) if our_groups and their_groups else []
        if len(differences) > 1:
            drawn = paired_bootstrap(differences)
            facts |= {"n": len(differences), "mean": drawn.mean.value, "sd": None, "p": drawn.p}
            facts |= {"low": drawn.mean.low, "high": drawn.mean.high, "family": "paradigms"}
            rows.append(Comparison(**facts, test="paired bootstrap", over="paradigms"))
    # In families: tests over seeds and over paradigms ask different questions, and a summary repeats its scores.
    for family in ("seeds", "paradigms", summary):
        places = [place for place, row in enumerate(rows) if row.family == family]
        for place, p in zip(places, correct_holm([rows[place].p for place in places]), strict=True):
            rows[place] = rows[place].model_copy(update={"p_holm": p})
    return rows


def pair_groups(ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]) -> list[float]:
    shared = set.intersection(*(set(groups) for groups in (*ours, *theirs)))
    return [
        float(np.mean([groups[name] for groups in ours]) - np.mean([groups[name] for groups in theirs]))
        for name in sorted(shared)
    ]


def _compute_to_target(values: _Values, curves: Mapping[str, Sequence[CurvePoint]]) -> study_records.ComputeToTarget:
    """Per line where the mean over its seeds reaches the baseline's final one, in FLOPs or tokens; and as a share."""
    x, baseline = values.x, values.plan.study.baseline
    final = [point for points in curves.values() for point in points if point.arm == baseline]
    if not final or final[-1].share != END:
        return study_records.ComputeToTarget()
    target, spent = final[-1].mean, float(getattr(final[-1], x))
    lines = {}
    for line, curve in curves.items():
        points = [(float(getattr(point, x)), point.mean) for point in curve]
        if points:
            amount = find_crossing(points, target)
            share = None if amount is None else amount / spent
            is_bound = amount == points[0][0] and points[0][1] > target
            lines[line] = study_records.ReachedTarget(**{x: amount}, share=share, is_upper_bound=is_bound)
    return study_records.ComputeToTarget(target=target, **{x: spent}, lines=lines)


def find_crossing(points: Sequence[tuple[float, float]], target: float) -> float | None:
    """The compute at which a curve of (compute, score) first reaches a score, linear over log compute; None if never.

    Where the first point is above it already, that point's compute: what is known is "at most this".
    """
    before: tuple[float, float] | None = None
    for compute, score in sorted(points):
        if score >= target:
            if before is None or score == before[1]:
                return compute
            part = (target - before[1]) / (score - before[1])
            return exp(log(before[0]) + part * (log(compute) - log(before[0])))
        before = compute, score
    return None


def _gather_notes(cells: Sequence[CellResult]) -> Iterator[str]:
    """What a reader must know: where arms were not asked the same, then what the evaluations say, each once."""
    arms_by_note: dict[str, dict[str, None]] = defaultdict(dict)
    identities: dict[tuple[str, int], set[str]] = defaultdict(set)
    for result in cells:
        for name, score in result.measured.items():
            if score.identity:
                identities[name, result.cell.seed].add(score.identity)
            for note in score.notes:
                arms_by_note[f"{name.partition('@')[0]}: {note}"][result.cell.arm] = None
    for name in dict.fromkeys(name for (name, _), different in identities.items() if len(different) > 1):
        yield f"{name}: the arms were not asked the same (their results differ in identity): do not compare them by it"
    arms = {result.cell.arm for result in cells if result.measured}
    for note, noted in arms_by_note.items():
        yield note if set(noted) == arms else f"{note} ({', '.join(noted)})"


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
                if event.state == "started":
                    yield Note(f"{name} begins", "dim")
                    continue
                if event.state == "failed":
                    errors[event.cell.name] = f"{event.step.name}: {event.reason}"
                    yield Note(f"{name} failed: {event.reason}", "error")
                else:
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


def describe_plan(request: StudyRequest) -> study_records.StudyPlan:
    """What would be run, about how long it would take, and what is missing for it: the run itself would be refused."""
    plan = _make_plan(request)
    rest = estimate_rest(plan)
    arms = {}
    for arm in plan.arms:
        run = plan.pretraining.get(arm.name) if arm.start != "random" else None
        first = next(cell for cell in plan.cells if cell.arm == arm.name)
        arms[arm.name] = study_records.PlannedArm(
            **({"start": arm.start} if arm.start != "pretrained" else {}),
            objective=arm.config.objective,
            steps=run.steps if run else 0,
            tokens=run.tokens if run else 0,
            flops=run.flops if run else 0,
            parameters=plan.count_parameters(arm.name),
            estimated_minutes=round(sum(step.seconds for step in first.steps) / 60, 1),
        )
    return study_records.StudyPlan(
        study=plan.study.name,
        baseline=plan.study.baseline,
        budget=study_records.SharedBudget(**plan.study.budget.model_dump(exclude_none=True)),
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
    was = (
        study_records.StudyEnvironment.read(out).threads or threads
        if (out / study_records.StudyEnvironment.FILE).is_file()
        else threads
    )
    if was != threads:
        raise UsageError(
            f"{out}: its cells are run with {was} threads each, not {threads}, which would change their last bits; "
            f"give --threads {was}, or choose another --out"
        )
    if not plan.study.scores:
        raise UsageError(f"study {plan.study.name}: has no scores; add at least one [[scores]]")
    return plan
