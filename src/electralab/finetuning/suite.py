"""GLUE: one model tuned on every task, and the scores as one table.

FinetuneRequest, Task... -> Event... -> table
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from electralab.artifacts import MANIFEST, lock_folder
from electralab.errors import InputError, UsageError
from electralab.events import Event, Note, Result
from electralab.finetuning.folders import find_files, has_files
from electralab.finetuning.predicting import AX
from electralab.finetuning.scores import summarise_seeds
from electralab.finetuning.stage import RESULTS, FinetuneRequest, finetune
from electralab.finetuning.submission_zips import write_submission_zips
from electralab.finetuning.tasks import GLUE, TASKS, Task, find_task
from electralab.records.glue import GlueAverage, GlueResults, GlueTask, SubmissionZip
from electralab.records.tuned import Spread, TunedResults
from electralab.stopping import StopSignal
from electralab.training.metrics import Record, format_scores

# Dev scores of the released ELECTRA-Small on OpenWebText: what 14 million parameters and four days of a GPU give.
PAPER = {
    "cola": 0.568,
    "sst2": 0.883,
    "mrpc": 0.874,
    "stsb": 0.868,
    "qqp": 0.883,
    "mnli": 0.789,
    "qnli": 0.879,
    "rte": 0.685,
}
# Adversarial to fine-tuning: its dev rows are training rows with another answer, so papers leave it out of the average.
_NOT_AVERAGED = "wnli"


def choose_tasks(data_dir: Path, names: Sequence[str]) -> list[Task]:
    """The tasks asked for, which must all be there, or every one whose files are."""
    if not data_dir.is_dir():
        raise InputError(f"{data_dir}: no such folder; give the one with CoLA, SST-2, MRPC, … in it")
    if names:
        tasks = list({task.name: task for task in map(find_task, names)}.values())
        for task in tasks:
            if task.name not in GLUE:
                raise UsageError(f"--tasks: {task.name} is not a task of GLUE; choose among {', '.join(GLUE)}")
            find_files(task, data_dir)
        return tasks
    found = [find_task(name) for name in GLUE if name != _NOT_AVERAGED and has_files(find_task(name), data_dir)]
    if not found:
        raise InputError(f"{data_dir}: holds none of GLUE's tasks; give the folder with CoLA, SST-2, MRPC, … in it")
    return found


def run_suite(request: FinetuneRequest, tasks: Sequence[Task], stop: StopSignal) -> Iterator[Event[Record]]:
    """Each task is a run in a folder of its own, so the same request again goes on with the task that was stopped."""
    _refuse_foreign(request.run_dir)
    with lock_folder(request.run_dir):
        for number, task in enumerate(tasks, start=1):
            yield Note(f"{task.display} ({number} of {len(tasks)})", "heading")
            of_task = replace(request, task=task, run_dir=request.run_dir / task.name)
            yield from (event for event in finetune(of_task, stop) if not isinstance(event, Result))
            results = _read_results(request.run_dir)
            tabulate(results, write_submission_zips(request.run_dir)).write(request.run_dir)
            yield Note(f"{task.display}: median {format_scores(results[task.name].scores['dev'])}", "good")
        yield Result(GlueResults.read(request.run_dir).to_json())


def _read_results(run_dir: Path) -> dict[str, TunedResults]:
    """Of every task that was ever finished in this folder, in the usual order."""
    return {name: TunedResults.read(run_dir / name) for name in GLUE if (run_dir / name / RESULTS).is_file()}


def _refuse_foreign(run_dir: Path) -> None:
    held = next((name for name in (MANIFEST, "config.json", "run.json") if (run_dir / name).exists()), None)
    if held:
        raise UsageError(f"{run_dir}: holds data, a model or a single run (it has {held}); choose another --out")


def tabulate(results: dict[str, TunedResults], submissions: dict[str, SubmissionZip]) -> GlueResults:
    """Per task the spread of its first metric over the seeds; averaged over the tasks, of medians and seed by seed."""
    tasks = {name: _take_metric(of.metric, of.spread["dev"]) for name, of in results.items()}
    averaged = [name for name in results if name != _NOT_AVERAGED]
    by_seed = [
        {seed.seed: seed.scores["dev"][results[name].metric] for seed in results[name].seeds} for name in averaged
    ]
    # Tasks may have been given different numbers of seeds: those that all have are averaged.
    shared = sorted(set.intersection(*map(set, by_seed))) if by_seed else []
    average = summarise_seeds([float(np.mean([of[seed] for of in by_seed])) for seed in shared]) if shared else None
    papers = [PAPER[name] for name in averaged]
    diagnostic = results["mnli"].spread.get(AX) if "mnli" in results else None
    return GlueResults(
        suite="glue",
        tasks=tasks,
        average=GlueAverage(
            median=float(np.mean([tasks[name].median for name in averaged])) if averaged else None,
            mean=average.mean if average else None,
            sd=average.sd if average else None,
            n=average.n if average else None,
            paper=float(np.mean(papers)) if papers else None,
        ),
        paper={name: PAPER.get(name) for name in results},
        **({"diagnostics": {AX: _take_metric(TASKS[AX].metrics[0], diagnostic)}} if diagnostic else {}),
        **({"submissions": submissions} if submissions else {}),
    )


def _take_metric(metric: str, spread: dict[str, Spread]) -> GlueTask:
    return GlueTask(metric=metric, **spread[metric].model_dump())
