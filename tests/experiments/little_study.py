"""A finished study of two arms and two seeds, whose scores can be added up by hand."""

from pathlib import Path
from typing import Any

from electralab.config import ConfigLayer
from electralab.experiments.cells import Cell, Step
from electralab.experiments.plan import Plan
from electralab.experiments.scores import Score
from electralab.experiments.settings import resolve_arms, resolve_study
from electralab.experiments.stage import gather, summarise_study
from electralab.records.run import PretrainPlan, snapshot_step
from electralab.records.study import StudyEnvironment, StudyResults
from electralab.tasks.catalog import find_task

STUDY: dict[str, Any] = {
    "name": "little",
    "baseline": "plain",
    "seeds": [0, 1],
    "budget": {"steps": 100},
    "arms": {"plain": {}, "better": {"masking": {"mask_share": 0.3}}},
    "scores": [{"suite": "blimp"}, {"task": "cola"}],
    "snapshots": {"at": [0.5], "scores": ["blimp"]},
}
# By arm and seed: BLiMP at half and at the end, CoLA.
VALUES = {
    ("plain", 0): (0.50, 0.60, 0.10),
    ("plain", 1): (0.52, 0.62, 0.20),
    ("better", 0): (0.58, 0.68, 0.20),
    ("better", 1): (0.64, 0.74, 0.30),
}
FLOPS = {"plain": 1000, "better": 2000, "again": 2000}


def plan_little(folder: Path, **changes: Any) -> Plan:
    study = resolve_study(ConfigLayer("little.toml", STUDY | changes), {})
    arms = resolve_arms(study, "little.toml")
    scores = tuple(Score(config, folder, find_task(config.task) if config.task else None) for config in study.scores)
    names = ("pretrain", *(score.name for score in scores), *(["blimp@0.5"] if study.snapshots.at else []))
    steps = tuple(Step(name, (name,), {}, 10.0) for name in names)
    cells = tuple(
        Cell(arm.name, seed, folder / "cells" / arm.name / f"seed-{seed}", steps)
        for seed in study.seeds
        for arm in arms
    )
    plans = {
        arm.name: PretrainPlan(
            settings={},
            steps=100,
            resumes_at=1,
            rows=10,
            epochs=1.0,
            tokens=500,
            parameters=77,
            flops=FLOPS[arm.name],
            estimated_minutes=1.0,
            estimated_memory_mb=1,
            notes=(),
        )
        for arm in arms
    }
    return Plan(study, tuple(arms), scores, cells, tuple(study.arms), plans, 2, StudyEnvironment(threads=1))


def finish(cell: Cell, *names: str) -> None:
    """Write down what the named steps of a cell found, all without names."""
    half, end, cola = VALUES["plain" if cell.arm == "plain" else "better", cell.seed]
    flops = FLOPS[cell.arm]
    at_half = {"step": snapshot_step(0.5, 100), "tokens": 250, "flops": flops / 2}
    results = {
        "pretrain": {"step": 100, "tokens": 500, "flops": flops, "seconds": 3.0, "snapshots": [at_half]},
        "blimp": blimp(end),
        "blimp@0.5": blimp(half),
        "cola": {"task": "cola", "metric": "mcc", "dev": {"mcc": cola, "accuracy": 0.5}},
    }
    for step in cell.steps:
        if not names or step.name in names:
            cell.write(step, 20.0, results[step.name])


def results_of(folder: Path, *arms: str, **changes: Any) -> StudyResults:
    """With these arms finished, all without names."""
    plan = plan_little(folder, **changes)
    for cell in plan.cells:
        if not arms or cell.arm in arms:
            finish(cell)
    return summarise(plan)


def summarise(plan: Plan, errors: dict[str, str] | None = None) -> StudyResults:
    """What the finished steps on the disk say together, as whoever reads results.json has it."""
    return StudyResults.model_validate(summarise_study(plan, gather(plan, errors or {})).to_json())


def blimp(value: float) -> dict[str, Any]:
    """Three paradigms around a mean."""
    uids = {"easy": value + 0.1, "middle": value, "hard": value - 0.1}
    scores = {"discriminator": value, "discriminator_interval": [value, value], "generator": 0.1}
    return {"scores": scores, "groups": {"uid": {uid: {"discriminator": score} for uid, score in uids.items()}}}
