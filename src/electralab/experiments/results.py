"""All that a study found: cells, the table of arms, comparisons with the baseline, curves over compute.

Plan, records -> results
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from electralab.experiments.cells import Cell, Plan
from electralab.experiments.records import read_cell, read_scores
from electralab.experiments.scores import Measured
from electralab.experiments.settings import Arm
from electralab.experiments.statistics import (
    bootstrap_differences,
    compare_paired,
    correct_holm,
    estimate_mean,
    find_crossing,
    pair_groups,
)
from electralab.pretraining.exports import snapshot_step

AVERAGE = "average"
Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one cell."""

    cell: Cell
    progress: Mapping[str, Any]
    """Of pre-training: step, tokens, flops, seconds; empty before its end."""
    seconds: float
    measured: Mapping[str, Measured]
    error: str

    @property
    def status(self) -> str:
        if self.error:
            return "failed"
        names = {step.name for step in self.cell.steps} - {"pretrain"}
        return "finished" if self.progress and names <= set(self.measured) else "unfinished"


def gather(plan: Plan, errors: Mapping[str, str]) -> list[Finding]:
    """From the disk, so that what earlier sittings finished is there too; `errors` by the name of the cell."""
    findings = []
    for cell in plan.cells:
        records = read_cell(cell)
        progress = records["pretrain"].result if "pretrain" in records else {}
        seconds = sum(record.seconds for record in records.values())
        measured, wrong = read_scores(records, plan.scores)
        findings.append(Finding(cell, progress, seconds, measured, errors.get(cell.name, wrong)))
    return findings


def summarise_study(plan: Plan, findings: Sequence[Finding]) -> Results:
    study = plan.study
    values = _Values(plan, findings)
    return {
        "name": study.name,
        "title": study.title or study.name,
        "baseline": study.baseline,
        "budget": study.budget.model_dump(exclude_none=True),
        "seeds": list(study.seeds),
        "x": values.x,
        "provenance": plan.provenance,
        "scores": {score.name: values.metric(score.name) for score in plan.scores},
        "averaged": values.averaged,
        "arms": {arm.name: arm.config.model_dump(mode="json", exclude={"steps", "seed"}) for arm in plan.arms},
        "cells": [_describe_cell(finding, plan) for finding in findings],
        "table": [{"line": arm.line} | _row(values, arm.name) for arm in plan.arms],
        "comparisons": _compare(values),
        "curves": {name: values.curves(name) for name in values.names},
        "reach": {name: _reach(values, name) for name in values.names},
        "notes": list(_gather_notes(values)),
    }


def _describe_cell(finding: Finding, plan: Plan) -> Results:
    cell, progress = finding.cell, finding.progress
    return {
        "arm": cell.arm,
        "seed": cell.seed,
        "status": finding.status,
        "error": finding.error,
        "scores": {name: one.value for name, one in finding.measured.items()},
        "steps": progress.get("step"),
        "tokens": progress.get("tokens"),
        "flops": progress.get("flops"),
        "parameters": plan.pretraining[cell.arm].parameters,
        "pretraining_seconds": progress.get("seconds"),
        "seconds": finding.seconds,
    }


class _Values:
    """Scores by arm, seed and share of the run."""

    def __init__(self, plan: Plan, findings: Sequence[Finding]) -> None:
        self.plan = plan
        self.baseline = plan.study.baseline
        self.scores = [score.name for score in plan.scores]
        # Of those that all arms have, or averages would be of different things.
        self.averaged = [score.name for score in plan.scores if not score.config.arms]
        self.names = [*self.scores, *([AVERAGE] if len(self.averaged) > 1 else [])]
        self.findings = findings
        self.shares = sorted(plan.study.snapshots.at)
        # What arms have equal parts of is what their curves go along.
        self.x: Literal["flops", "tokens"] = "tokens" if plan.study.budget.tokens is not None else "flops"

    def metric(self, score: str) -> str:
        """Where arms are measured by different ones, as language models of different kinds are, none is named."""
        found = {of.measured[score].metric for of in self.findings if score in of.measured}
        return found.pop() if len(found) == 1 else ""

    def of(self, arm: str, score: str, share: float = 1.0) -> dict[int, float]:
        """By seed. An average is there only where all scores of its cell are."""
        found = {}
        for finding in self.findings:
            if finding.cell.arm == arm:
                names = [name_at(name, share) for name in (self.averaged if score == AVERAGE else [score])]
                if all(name in finding.measured for name in names):
                    found[finding.cell.seed] = float(np.mean([finding.measured[name].value for name in names]))
        return found

    def groups(self, arm: str, score: str, seeds: Sequence[int]) -> list[Mapping[str, float]]:
        found = [of.measured[score].groups for of in self.findings if of.cell.arm == arm and of.cell.seed in seeds]
        return [groups for groups in found if groups]

    def mean_of(self, arm: str, key: str, share: float = 1.0) -> float | None:
        """Of what pre-training says of itself, at its end or at a snapshot."""
        runs = [self._progress_at(of.progress, share) for of in self.findings if of.cell.arm == arm]
        found = [progress[key] for progress in runs if key in progress]
        return float(np.mean(found)) if found else None

    def _progress_at(self, progress: Mapping[str, Any], share: float) -> Mapping[str, Any]:
        if share == 1.0 or not progress:
            return progress
        step = snapshot_step(share, progress["step"])
        return next((at for at in progress.get("snapshots", []) if at["step"] == step), {})

    def curves(self, score: str) -> Results:
        """By line, from little to much."""
        lines = dict.fromkeys(arm.line for arm in self.plan.arms)
        return {line: sorted(self._points(line, score), key=lambda point: point[self.x]) for line in lines}

    def _points(self, line: str, score: str) -> Iterator[Results]:
        arms = [arm.name for arm in self.plan.arms if arm.line == line]
        for arm in arms:
            # Where runs of several lengths make the line, it is of runs that came to their end.
            for share in (*(self.shares if len(arms) == 1 else []), 1.0):
                values = list(self.of(arm, score, share).values())
                flops, tokens = self.mean_of(arm, "flops", share), self.mean_of(arm, "tokens", share)
                if values and flops is not None and tokens is not None:
                    at = {"arm": arm, "share": share, "flops": flops, "tokens": tokens}
                    yield at | {"values": values} | asdict(estimate_mean(values))


def name_at(score: str, share: float) -> str:
    return score if share == 1.0 else f"{score}@{share:g}"


def _row(values: _Values, arm: str) -> Results:
    return {
        "arm": arm,
        **{
            key: values.mean_of(arm, name)
            for key, name in (("steps", "step"), ("tokens", "tokens"), ("flops", "flops"))
        },
        "parameters": values.plan.pretraining[arm].parameters,
        "pretraining_seconds": values.mean_of(arm, "seconds"),
        "scores": {
            name: asdict(estimate_mean(list(found.values()))) if (found := values.of(arm, name)) else None
            for name in values.names
        },
    }


def _compare(values: _Values) -> list[Results]:
    """Every arm with the one it is held against: by the seeds, and by groups where a score has them; then Holm."""
    rows = []
    for arm in values.plan.arms:
        for name in values.names if arm.name != arm.versus else []:
            ours, theirs = values.of(arm.name, name), values.of(arm.versus, name)
            seeds = sorted(ours.keys() & theirs.keys())
            if not seeds:
                continue
            differences = [ours[seed] - theirs[seed] for seed in seeds]
            of = {"arm": arm.name, "versus": arm.versus, "score": name, **asdict(estimate_mean(differences))}
            rows.append(of | {"test": "paired t", "over": "seeds", "p": compare_paired(differences)})
            if name != AVERAGE:
                rows += _compare_groups(values, arm, name, seeds, of)
    return _correct(rows)


def _correct(rows: Sequence[Results]) -> list[Results]:
    """In families: tests over seeds and over paradigms ask different questions, and an average repeats its scores."""
    corrected: dict[int, float | None] = {}
    families = [AVERAGE if row["score"] == AVERAGE else row["over"] for row in rows]
    for family in set(families):
        places = [place for place, of in enumerate(families) if of == family]
        corrected |= zip(places, correct_holm([rows[place]["p"] for place in places]), strict=True)
    return [row | {"family": families[place], "p_holm": corrected[place]} for place, row in enumerate(rows)]


def _compare_groups(values: _Values, arm: Arm, score: str, seeds: Sequence[int], of: Results) -> list[Results]:
    ours, theirs = values.groups(arm.name, score, seeds), values.groups(arm.versus, score, seeds)
    differences = pair_groups(ours, theirs) if ours and theirs else []
    if len(differences) < 2:
        return []
    drawn = bootstrap_differences(differences)
    interval = {"n": len(differences), "low": drawn.low, "high": drawn.high, "sd": None}
    return [
        of
        | interval
        | {"mean": float(np.mean(differences)), "test": "paired bootstrap", "over": "paradigms", "p": drawn.p}
    ]


def _reach(values: _Values, score: str) -> Results:
    """Per line where the mean over its seeds reaches the baseline's final one, in FLOPs or tokens; and as a share."""
    curves = values.curves(score)
    final = [point for points in curves.values() for point in points if point["arm"] == values.baseline]
    if not final or final[-1]["share"] != 1.0:
        return {}
    target, spent = final[-1]["mean"], final[-1][values.x]
    reached: Results = {}
    for line, curve in curves.items():
        points = [(point[values.x], point["mean"]) for point in curve]
        amount = find_crossing(points, target)
        if not points:
            continue
        is_bound = amount == points[0][0] and points[0][1] > target
        share = None if amount is None else amount / spent
        reached[line] = {values.x: amount, "share": share, "is_upper_bound": is_bound}
    return {"target": target, values.x: spent, "lines": reached}


def _gather_notes(values: _Values) -> Iterator[str]:
    """What a reader must know: where arms were not asked the same, then what the evaluations say, each once."""
    told: dict[str, dict[str, None]] = defaultdict(dict)
    asked: dict[tuple[str, int], set[str]] = defaultdict(set)
    for finding in values.findings:
        for name, one in finding.measured.items():
            if one.identity:
                asked[name, finding.cell.seed].add(one.identity)
            for note in one.notes:
                told[f"{name.partition('@')[0]}: {note}"][finding.cell.arm] = None
    for name in dict.fromkeys(name for (name, _), identities in asked.items() if len(identities) > 1):
        yield f"{name}: the arms were not asked the same (their results differ in identity): do not compare them by it"
    arms = {finding.cell.arm for finding in values.findings if finding.measured}
    for note, of in told.items():
        yield note if set(of) == arms else f"{note} ({', '.join(of)})"
