"""The stage: a study file -> a folder of cells, and what they say together; the caller only draws what is yielded.

StudyRequest -> Event... -> results
"""

import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from electralab.artifacts import MANIFEST, lock_folder, read_json, write_file, write_json
from electralab.config import read_toml, to_toml
from electralab.errors import InputError, UsageError
from electralab.events import Event, Note, Progress, Result, format_minutes
from electralab.experiments.cells import Cell, Plan, StudyRequest, plan_study, refuse_missing, require_runnable
from electralab.experiments.records import read_cell, write_scores
from electralab.experiments.report import write_report
from electralab.experiments.results import Results, gather, summarise_study
from electralab.experiments.running import StepFailed, StepFinished, StepStarted, run_cells
from electralab.stopping import StopSignal

PROGRAM = (sys.executable, "-m", "electralab")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of what is left to do."""

    cells: int
    steps: int
    minutes: float


def estimate_rest(plan: Plan, failed: Container[str] = ()) -> Estimate:
    """Chains are shared out as they come; what steps took so far tells how far the estimates of their kind are off."""
    chains = []
    spent: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell in plan.cells:
        records = read_cell(cell)
        for step in cell.steps:
            if step.name in records:
                spent[step.kind].append((step.seconds, records[step.name].seconds))
        if cell.arm in plan.chosen and cell.name not in failed:
            chains.append([step for step in cell.steps if step.name not in records])
    overall = _ratio([pair for pairs in spent.values() for pair in pairs])
    ratios = {kind: _ratio(pairs) for kind, pairs in spent.items()}
    chains = [chain for chain in chains if chain]
    ends = [0.0] * plan.jobs
    for chain in chains:
        ends[ends.index(min(ends))] += sum(step.seconds * ratios.get(step.kind, overall) for step in chain)
    return Estimate(len(chains), sum(map(len, chains)), round(max(ends) / 60, 2))


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Of seconds taken to seconds thought; 1 before anything is known."""
    thought, took = (sum(side) for side in zip(*pairs, strict=True)) if pairs else (1.0, 1.0)
    return took / thought


def run_study(request: StudyRequest, stop: StopSignal, program: Sequence[str] = PROGRAM) -> Iterator[Event[Results]]:
    """The same request again goes on with the steps that are not finished, failed ones included."""
    plan = _make_plan(request)
    if refusal := refuse_missing(plan):
        raise InputError(refusal)
    with lock_folder(request.out):
        estimate = estimate_rest(plan)  # reads what there is, and refuses what is another study's
        _write_settings(request.out, plan)
        yield Note(
            f"{plan.study.name}: {len(plan.arms)} arms x {len(plan.study.seeds)} seeds, {estimate.steps} commands in "
            f"{estimate.cells} cells left, {plan.jobs} at a time, about {format_minutes(estimate.minutes)}",
            "strong",
        )
        yield Progress("studying", 0, estimate.steps)
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
                        write_scores(event.cell, plan.scores)
                        yield Note(f"{name} took {format_minutes(event.record.seconds / 60)}")
                write_json(request.out / "results.json", summarise_study(plan, gather(plan, errors)))
                rest = estimate_rest(plan, errors)
                left = f"{rest.steps} commands in {rest.cells} cells left, eta {format_minutes(rest.minutes)}"
                yield Progress("studying", estimate.steps - rest.steps, estimate.steps, left, f"  {left}")
        finally:
            # Also at a stop: what is there by then can be read.
            results = summarise_study(plan, gather(plan, errors))
            write_json(request.out / "results.json", results)
            write_report(request.out, results)
        yield Result(results)


def _make_plan(request: StudyRequest) -> Plan:
    """With all that may be refused before anything is run."""
    _refuse_foreign(request.out)
    plan = plan_study(request)
    _refuse_another(request.out, plan.study.name)
    _refuse_threads(request.out, request.threads)
    require_runnable(plan)
    return plan


def describe_plan(request: StudyRequest) -> Results:
    """What would be run, about how long it would take, and what is missing for it: the run itself would be refused."""
    plan = _make_plan(request)
    rest = estimate_rest(plan)
    arms = {
        arm.name: {
            "objective": arm.config.objective,
            **{key: getattr(plan.pretraining[arm.name], key) for key in ("steps", "tokens", "flops", "parameters")},
            "estimated_minutes": round(sum(step.seconds for step in _first_cell(plan, arm.name).steps) / 60, 1),
        }
        for arm in plan.arms
    }
    return {
        "study": plan.study.name,
        "baseline": plan.study.baseline,
        "budget": plan.study.budget.model_dump(exclude_none=True),
        "seeds": list(plan.study.seeds),
        "scores": {score.name: str(score.data) for score in plan.scores},
        "missing": list(plan.missing),
        "refusal": refuse_missing(plan),
        "arms": arms,
        "jobs": plan.jobs,
        "cells_left": rest.cells,
        "steps_left": rest.steps,
        "estimated_minutes": rest.minutes,
    }


def _first_cell(plan: Plan, arm: str) -> Cell:
    return next(cell for cell in plan.cells if cell.arm == arm)


def _refuse_foreign(out: Path) -> None:
    for name in (MANIFEST, "config.json", "run.json"):
        if (out / name).exists():
            raise UsageError(f"{out}: holds data, a model or a run (it has {name}); choose another --out")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: is a file where the folder of the study is to be; choose another --out")
    held = sorted(path.name for path in out.glob("[!.]*")) if out.is_dir() else []
    if held and "study.toml" not in held:
        raise UsageError(f"{out}: holds something else than a study (it has {held[0]}); choose another --out")


def _refuse_another(out: Path, name: str) -> None:
    """A study may change and go on; under another name it is another, and would mix its arms in."""
    path = out / "study.toml"
    held = read_toml(path).values.get("name") if path.is_file() else name
    if held != name:
        raise UsageError(f"{out}: holds the study {held!r}, not {name!r}; choose another --out")


def _refuse_threads(out: Path, threads: int) -> None:
    """How sums are split decides their last bits: cells of one study are computed alike."""
    path = out / "environment.json"
    stored = read_json(path, "delete the file") if path.is_file() else {}
    was = stored.get("threads", threads) if isinstance(stored, dict) else threads
    if was != threads:
        raise UsageError(
            f"{out}: its cells are run with {was} threads each, not {threads}, which would change their last bits; "
            f"give --threads {was}, or choose another --out"
        )


def _write_settings(out: Path, plan: Plan) -> None:
    """What the children read, and what they are run with."""
    write_json(out / "environment.json", plan.provenance)
    files = {Path("study.toml"): to_toml(plan.study)}
    files |= {Path("arms") / f"{arm.name}.toml": to_toml(arm.config) for arm in plan.arms}
    files |= {Path("scores") / f"{score.name}.toml": tomli_w.dumps(score.config.settings) for score in plan.scores}
    for path, content in files.items():
        write_file(out / path, content)
