"""All that a study found: cells, the table of arms, comparisons with the baseline, curves over compute.

Plan, results of steps -> StudyResults
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

import numpy as np

from electralab.config import SettingsTree
from electralab.experiments.cells import Cell, read_scores
from electralab.experiments.plan import Plan
from electralab.experiments.scores import Measured
from electralab.experiments.settings import Arm
from electralab.records.run import RunProgress, snapshot_step
from electralab.records.study import (
    AVERAGE,
    Amount,
    ArmRow,
    CellSummary,
    Comparison,
    ComputeToTarget,
    CurvePoint,
    PretrainAnswer,
    ReachedTarget,
    SeedMean,
    SharedBudget,
    StudyResults,
)
from electralab.statistics import correct_holm, mean_interval, paired_bootstrap, paired_t

END = 1.0
"""The fraction of a run at its end; a snapshot has less."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """What is known of one cell."""

    cell: Cell
    progress: PretrainAnswer | None
    """Of pre-training; None before its end."""
    seconds: float
    measured: Mapping[str, Measured]
    error: str

    @property
    def status(self) -> Literal["finished", "unfinished", "failed"]:
        if self.error:
            return "failed"
        names = {step.name for step in self.cell.steps} - {"pretrain"}
        return "finished" if self.progress and names <= set(self.measured) else "unfinished"

    def progress_at(self, fraction: float) -> RunProgress | None:
        """Where the run was at its end, or at a snapshot."""
        if self.progress is None or fraction == END:
            return self.progress
        step = snapshot_step(fraction, self.progress.step)
        return next((snapshot for snapshot in self.progress.snapshots if snapshot.step == step), None)


def gather(plan: Plan, errors: Mapping[str, str]) -> list[CellResult]:
    """From the disk, so that what earlier sittings finished is there too; `errors` by the name of the cell."""
    results = []
    for cell in plan.cells:
        steps = cell.finished()
        progress = PretrainAnswer.model_validate(steps["pretrain"].result) if "pretrain" in steps else None
        seconds = sum((step.seconds for step in steps.values()), 0.0)
        measured, wrong = read_scores(steps, plan.scores)
        results.append(CellResult(cell, progress, seconds, measured, errors.get(cell.name, wrong)))
    return results


def summarise_study(plan: Plan, cells: Sequence[CellResult]) -> StudyResults:
    study, values = plan.study, _Values(plan, cells)
    curves = {name: values.curves(name) for name in values.names}
    return StudyResults(
        name=study.name,
        title=study.title or study.name,
        baseline=study.baseline,
        budget=SharedBudget(**study.budget.model_dump(exclude_none=True)),
        seeds=study.seeds,
        x=values.x,
        provenance=plan.environment,
        scores={score.name: values.metric(score.name) for score in plan.scores},
        averaged=tuple(values.averaged),
        arms={arm.name: arm.config.model_dump(mode="json", exclude={"steps", "seed"}) for arm in plan.arms},
        cells=tuple(_summarise_cell(result, plan) for result in cells),
        table=tuple(_arm_row(values, arm) for arm in plan.arms),
        comparisons=tuple(_compare(values)),
        curves=curves,
        reach={name: _compute_to_target(values, curves[name]) for name in values.names},
        notes=tuple(_gather_notes(cells)),
    )


def _summarise_cell(result: CellResult, plan: Plan) -> CellSummary:
    progress = result.progress
    return CellSummary(
        arm=result.cell.arm,
        seed=result.cell.seed,
        status=result.status,
        error=result.error,
        scores={name: score.value for name, score in result.measured.items()},
        steps=progress and progress.step,
        tokens=progress and progress.tokens,
        flops=progress and progress.flops,
        parameters=plan.pretraining[result.cell.arm].parameters,
        pretraining_seconds=progress and progress.seconds,
        seconds=result.seconds,
    )


class _Values:
    """Scores by arm, seed and fraction of the run."""

    def __init__(self, plan: Plan, cells: Sequence[CellResult]) -> None:
        self.plan = plan
        # Of those that all arms have, or averages would be of different things.
        self.averaged = [score.name for score in plan.scores if not score.config.arms]
        self.names = [*(score.name for score in plan.scores), *([AVERAGE] if len(self.averaged) > 1 else [])]
        self.cells = cells
        # What arms have equal parts of is what their curves go along.
        self.x: Amount = "tokens" if plan.study.budget.tokens is not None else "flops"

    def of_arm(self, arm: str) -> list[CellResult]:
        return [result for result in self.cells if result.cell.arm == arm]

    def metric(self, score: str) -> str:
        """Where arms are measured by different ones, as language models of different kinds are, none is named."""
        metrics = {result.measured[score].metric for result in self.cells if score in result.measured}
        return metrics.pop() if len(metrics) == 1 else ""

    def by_seed(self, arm: str, score: str, fraction: float = END) -> dict[int, float]:
        """An average is there only where all scores of its cell are."""
        values = {}
        for result in self.of_arm(arm):
            scores = self.averaged if score == AVERAGE else [score]
            names = scores if fraction == END else [f"{name}@{fraction:g}" for name in scores]
            if all(name in result.measured for name in names):
                values[result.cell.seed] = float(np.mean([result.measured[name].value for name in names]))
        return values

    def mean_progress(self, arm: str, field: str, fraction: float = END) -> float | None:
        """Over the seeds, of what pre-training says of itself."""
        runs = [progress for result in self.of_arm(arm) if (progress := result.progress_at(fraction)) is not None]
        return float(np.mean([getattr(progress, field) for progress in runs])) if runs else None

    def curves(self, score: str) -> dict[str, tuple[CurvePoint, ...]]:
        """By line, from little to much."""
        lines = dict.fromkeys(arm.line for arm in self.plan.arms)
        x = self.x
        return {line: tuple(sorted(self._points(line, score), key=lambda point: getattr(point, x))) for line in lines}

    def _points(self, line: str, score: str) -> Iterator[CurvePoint]:
        arms = [arm.name for arm in self.plan.arms if arm.line == line]
        for arm in arms:
            # Where runs of several lengths make the line, it is of runs that came to their end.
            for fraction in (*(sorted(self.plan.study.snapshots.at) if len(arms) == 1 else []), END):
                values = list(self.by_seed(arm, score, fraction).values())
                flops, tokens = (self.mean_progress(arm, field, fraction) for field in ("flops", "tokens"))
                if values and flops is not None and tokens is not None:
                    mean = dict(mean_over_seeds(values))
                    yield CurvePoint(arm=arm, share=fraction, flops=flops, tokens=tokens, values=tuple(values), **mean)


def mean_over_seeds(values: Sequence[float]) -> SeedMean:
    n, interval = len(values), mean_interval(values)
    if n < 2:
        return SeedMean(n=n, mean=interval.value, sd=None, low=None, high=None)
    sd = float(np.std(values, ddof=1))
    return SeedMean(n=n, mean=interval.value, sd=sd, low=interval.low, high=interval.high)


def _arm_row(values: _Values, arm: Arm) -> ArmRow:
    seeds = {name: list(values.by_seed(arm.name, name).values()) for name in values.names}
    return ArmRow(
        line=arm.line,
        arm=arm.name,
        steps=values.mean_progress(arm.name, "step"),
        tokens=values.mean_progress(arm.name, "tokens"),
        flops=values.mean_progress(arm.name, "flops"),
        parameters=values.plan.pretraining[arm.name].parameters,
        pretraining_seconds=values.mean_progress(arm.name, "seconds"),
        scores={name: mean_over_seeds(scores) if scores else None for name, scores in seeds.items()},
    )


def _compare(values: _Values) -> list[Comparison]:
    """Every arm with the one it is compared with: by the seeds, and by paradigms where a score has them; then Holm."""
    rows: list[Comparison] = []
    for arm in values.plan.arms:
        for name in values.names if arm.name != arm.versus else []:
            ours, theirs = values.by_seed(arm.name, name), values.by_seed(arm.versus, name)
            seeds = sorted(ours.keys() & theirs.keys())
            if not seeds:
                continue
            differences = [ours[seed] - theirs[seed] for seed in seeds]
            row = Comparison(
                **dict(mean_over_seeds(differences)),
                **{
                    "arm": arm.name,
                    "versus": arm.versus,
                    "score": name,
                    "family": AVERAGE if name == AVERAGE else "seeds",
                },
                test="paired t",
                over="seeds",
                p=paired_t(differences),
                p_holm=None,
            )
            rows.append(row)
            if name != AVERAGE and len(differences := _paradigm_differences(values, arm, name, seeds)) > 1:
                drawn = paired_bootstrap(differences)
                interval = drawn.mean
                change: SettingsTree = {
                    **{"n": len(differences), "mean": interval.value, "sd": None, "low": interval.low},
                    **{"high": interval.high, "test": "paired bootstrap", "over": "paradigms"},
                    **{"family": "paradigms", "p": drawn.p},
                }
                rows.append(row.model_copy(update=change))
    # In families: tests over seeds and over paradigms ask different questions, and an average repeats its scores.
    for family in ("seeds", "paradigms", AVERAGE):
        places = [place for place, row in enumerate(rows) if row.family == family]
        for place, p in zip(places, correct_holm([rows[place].p for place in places]), strict=True):
            rows[place] = rows[place].model_copy(update={"p_holm": p})
    return rows


def _paradigm_differences(values: _Values, arm: Arm, score: str, seeds: Sequence[int]) -> list[float]:
    """Of each paradigm that all runs were scored on: the mean over the seeds of ours less that of theirs."""
    ours, theirs = (
        [
            groups
            for result in values.of_arm(name)
            if result.cell.seed in seeds and (groups := result.measured[score].groups)
        ]
        for name in (arm.name, arm.versus)
    )
    return pair_groups(ours, theirs) if ours and theirs else []


def pair_groups(ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]) -> list[float]:
    shared = set.intersection(*(set(groups) for groups in (*ours, *theirs)))
    return [
        float(np.mean([groups[name] for groups in ours]) - np.mean([groups[name] for groups in theirs]))
        for name in sorted(shared)
    ]


def _compute_to_target(values: _Values, curves: Mapping[str, Sequence[CurvePoint]]) -> ComputeToTarget:
    """Per line where the mean over its seeds reaches the baseline's final one, in FLOPs or tokens; and as a share."""
    x, baseline = values.x, values.plan.study.baseline
    final = [point for points in curves.values() for point in points if point.arm == baseline]
    if not final or final[-1].share != END:
        return ComputeToTarget()
    target, spent = final[-1].mean, float(getattr(final[-1], x))
    lines = {}
    for line, curve in curves.items():
        points = [(float(getattr(point, x)), point.mean) for point in curve]
        if not points:
            continue
        amount = find_crossing(points, target)
        lines[line] = ReachedTarget(
            **{x: amount},
            share=None if amount is None else amount / spent,
            is_upper_bound=amount == points[0][0] and points[0][1] > target,
        )
    return ComputeToTarget(target=target, **{x: spent}, lines=lines)


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
