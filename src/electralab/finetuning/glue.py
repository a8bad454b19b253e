"""GLUE: one model tuned on every task, the scores as one table, and zips as GLUE's server takes them.

FinetuneRequest, Task... -> Event..., GlueResults
RUN/TASK/submission/CoLA.tsv... -> RUN/submission-best-seed.zip, RUN/submission-ensemble.zip
"""

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from electralab.artifacts import lock_folder, write_file
from electralab.errors import InputError, UsageError
from electralab.events import Event, Note, Result
from electralab.finetuning.results import AX, BEST_SEED, ENSEMBLE, summarise_seeds
from electralab.finetuning.stage import FinetuneRequest, share_tuning, tune_seeds
from electralab.records.kinds import require_empty_or
from electralab.records.tuned import GlueAverage, GlueResults, GlueTask, Spread, SubmissionZip, TunedResults
from electralab.reporting.page import with_page
from electralab.stopping import StopSignal
from electralab.tasks.catalog import GLUE, TASKS, find_task
from electralab.tasks.kind import Task
from electralab.tasks.load import find_files, has_files
from electralab.training.metrics import format_scores

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

_ZIPS = {"best_seed": (BEST_SEED, "submission-best-seed.zip"), "ensemble": (ENSEMBLE, "submission-ensemble.zip")}

# By the name that the server expects, the task whose run writes the file.
_TASK_OF = {file: name for name in GLUE for file in TASKS[name].submissions.values()} | {
    TASKS[AX].submissions["test"]: "mnli"
}

# The earliest that the format knows.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


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
    present = [TASKS[name] for name in GLUE if name != _NOT_AVERAGED and has_files(TASKS[name], data_dir)]
    if not present:
        raise InputError(f"{data_dir}: holds none of GLUE's tasks; give the folder with CoLA, SST-2, MRPC, … in it")
    return present


def run_suite(request: FinetuneRequest, tasks: Sequence[Task], stop: StopSignal) -> Iterator[Event[GlueResults]]:
    """Each task is a run in a folder of its own, so the same request again goes on with the task that was stopped."""
    yield from share_tuning(with_page(request.run_dir, _tune_tasks(request, tasks, stop)), request, stop)


def _tune_tasks(request: FinetuneRequest, tasks: Sequence[Task], stop: StopSignal) -> Iterator[Event[GlueResults]]:
    require_empty_or("GLUE run", request.run_dir)
    with lock_folder(request.run_dir):
        for number, task in enumerate(tasks, start=1):
            yield Note(f"{task.display} ({number} of {len(tasks)})", "heading")
            task_request = replace(request, task=task, run_dir=request.run_dir / task.name)
            yield from (event for event in tune_seeds(task_request, stop) if not isinstance(event, Result))
            # Of every task that was ever finished in this folder, in the usual order.
            folders = {name: request.run_dir / name for name in GLUE}
            results = {
                name: TunedResults.read(folder)
                for name, folder in folders.items()
                if (folder / TunedResults.FILE).is_file()
            }
            tabulate(results, write_submission_zips(request.run_dir)).write(request.run_dir)
            yield Note(f"{task.display}: median {format_scores(results[task.name].dev)}", "good")
        yield Result(GlueResults.read(request.run_dir))


def tabulate(results: dict[str, TunedResults], submissions: dict[str, SubmissionZip]) -> GlueResults:
    """Per task the spread of its first metric over the seeds; averaged over the tasks, of medians and seed by seed."""
    tasks = {name: _take_metric(result.metric, result.spread["dev"]) for name, result in results.items()}
    averaged = [name for name in results if name != _NOT_AVERAGED]
    by_seed = [{seed.seed: seed.dev[results[name].metric] for seed in results[name].seeds} for name in averaged]
    # Tasks may have been given different numbers of seeds: those that all have are averaged.
    shared = sorted(set.intersection(*map(set, by_seed))) if by_seed else []
    average = (
        summarise_seeds([float(np.mean([scores[seed] for scores in by_seed])) for seed in shared]) if shared else None
    )
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


def write_submission_zips(run_dir: Path) -> dict[str, SubmissionZip]:
    """By what predicted them, `best_seed` or `ensemble`; none where no task has submission files."""
    written = {}
    for name, (folder, file) in _ZIPS.items():
        paths = {wanted: run_dir / task / folder / wanted for wanted, task in _TASK_OF.items()}
        files = {wanted: path.read_bytes() for wanted, path in paths.items() if path.is_file()}
        if not files:
            continue
        # The same bytes for the same files: no times, and stored, because what deflate writes depends on its version.
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for wanted, content in files.items():
                entry = zipfile.ZipInfo(wanted, _NO_TIME)
                entry.create_system = 3  # Unix on every system, so that the permissions are read as such
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, content)
        write_file(run_dir / file, packed.getvalue())
        missing = tuple(wanted for wanted in paths if wanted not in files)
        written[name] = SubmissionZip(file=file, holds=tuple(files), missing=missing)
    return written
