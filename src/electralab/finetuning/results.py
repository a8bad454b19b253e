"""What the seeds of a run say together, beside its baselines, and the files that GLUE's server takes.

scores of seeds -> Spread; metrics.jsonl of seeds -> curves -> Improvement; PredictionRow... -> CoLA.tsv
"""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np

from electralab.artifacts import write_file
from electralab.errors import InputError, UsageError
from electralab.events import Update, run_to_end, warn
from electralab.finetuning.task_model import LoadedTaskModel, load_model, load_models, predict_examples
from electralab.records.run import METRICS, read_metrics
from electralab.records.tuned import Baseline, Improvement, PredictionRow, Scores, Spread, to_json_lines
from electralab.stopping import StopSignal
from electralab.tasks.catalog import TASKS
from electralab.tasks.kind import Example, Split, Task
from electralab.tasks.kinds.classification import ClassPrediction
from electralab.tasks.load import TaskData, TaskDataConfig, read_tests, task_folders

BEST_SEED = "submission"
"""The folder, in the run of a task, of what its best seed predicts."""
ENSEMBLE = "submission-ensemble"
"""The folder of what all its seeds predict together."""
AX = "ax"
"""GLUE's diagnostic rows, which nobody trains on: a model tuned on MNLI answers them."""
_BATCH_TOKENS = 8192

Curves = dict[int, list[tuple[int, float]]]
"""By seed: (step, value)"""

# So much of a score gained is more than the luck of a moment.
_GAIN = 0.01
# Nothing is left to gain above it.
_CEILING = 0.995
_MORE_EPOCHS = 3


def summarise_seeds(values: Sequence[float]) -> Spread:
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    middle, mean = float(np.median(values)), float(np.mean(values))
    return Spread(n=len(values), median=middle, mean=mean, sd=sd, best=float(max(values)))


def spread_scores(by_seed: Sequence[Scores]) -> dict[str, Spread]:
    """Each metric over the seeds."""
    return {metric: summarise_seeds([scores[metric] for scores in by_seed]) for metric in by_seed[0]}


def score_baselines(data: TaskData) -> Iterator[Baseline]:
    """Simple methods in the task's own scores, one after the other as each is fitted."""
    task, labelled = data.task, [split for split in (*data.devs, *data.tests) if split.is_labelled]
    for method in task.kind.baselines(data.train.examples):
        scores = {
            split.name: task.kind.score(task, split.examples, method.predict(split.examples), data.labels).scores
            for split in labelled
        }
        yield Baseline(name=method.name, what=method.what, rows=method.rows, scores=scores)


def compare_baselines(metric: str, split: str, score: float, baselines: Sequence[Baseline]) -> str:
    """Whether tuning was worth it, in a sentence; nothing where no baseline has this score."""
    known = [baseline for baseline in baselines if metric in baseline.scores.get(split, {})]
    if not known:
        return ""
    best = max(known, key=lambda baseline: baseline.scores[split][metric])
    theirs, named = best.scores[split][metric], metric.replace("_", " ")
    if theirs > score:
        return (
            f"a baseline wins: {best.what} has {split} {named} {theirs:.4f}, the tuned model {score:.4f}; use it, "
            "train longer, or pre-train on more text"
        )
    if theirs == score:
        return f"a baseline is as good: {best.what} also has {split} {named} {theirs:.4f}"
    return f"better than its baselines: {split} {named} {score:.4f}, against {theirs:.4f} of {best.what}"


def read_curves(folders: Mapping[int, Path], metric: str) -> tuple[Curves, Curves]:
    """By seed: training losses and dev scores against the step."""
    records = {seed: read_metrics(folder / METRICS) for seed, folder in folders.items()}
    losses, scores = (
        {
            seed: [(record.step, value) for record in log if (value := record.values.get(name)) is not None]
            for seed, log in records.items()
        }
        for name in ("loss", f"dev_{metric}")
    )
    return losses, scores


def explain_improvement(improvement: Improvement, metric: str) -> str:
    return (
        f"still improving at the end (dev {metric.replace('_', ' ')} {improvement.before:.4f}, then "
        f"{improvement.after:.4f}, the loss falling): try --epochs {improvement.suggested_epochs}; "
        f"this was {improvement.epochs:.3g}"
    )


def find_improvement(losses: Curves, scores: Curves, total_steps: int, epochs: float) -> Improvement | None:
    """Nothing unless more than half of the seeds still improved: the loss fell, the dev score rose above all before.

    A loss that falls while the score stands still is learning by heart.
    """
    rises = []
    for seed, points in scores.items():
        *earlier, last = (value for _, value in sorted(points)) if points else (0.0,)
        is_better = bool(earlier) and max(earlier) + _GAIN <= last < _CEILING
        # From the middle third of the run to the last one.
        middle = [loss for step, loss in losses.get(seed, []) if total_steps < 3 * step <= 2 * total_steps]
        end = [loss for step, loss in losses.get(seed, []) if 3 * step > 2 * total_steps]
        if is_better and middle and end and fmean(end) < fmean(middle):
            rises.append((earlier[-1], last))
    if 2 * len(rises) <= len(scores):
        return None
    before, after = (fmean(values) for values in zip(*rises, strict=True))
    suggested = math.ceil(_MORE_EPOCHS * epochs)
    return Improvement(epochs=epochs, suggested_epochs=suggested, before=before, after=after)


def require_whole(split: Split[Example]) -> None:
    """A row that could not be read would be missing, and at an end nobody would notice."""
    for bad in split.bad_rows:
        raise InputError(
            f"{split.path}: row {bad.row} {bad.reason}, and GLUE's server takes whole test files only; correct the row"
        )


def write_submission(path: Path, task: Task, rows: Sequence[PredictionRow]) -> None:
    """A line `index<TAB>prediction` for each row of the test file, numbered from 0 in the order of numeric ids.

    Labels are those the server knows; STS-B's numbers lie in 0..5.
    """
    if not task.submissions:
        raise UsageError(f"--task: {task.display} has no place on GLUE's server; submissions are for GLUE's tasks only")
    # Ids that are no numbers have no order but that of the file.
    if all(row.id.isdecimal() for row in rows):
        rows = sorted(rows, key=lambda row: int(row.id))
        for before, after in pairwise(rows):
            # A gap is a row that could not be read, and would shift all that follow it.
            if int(after.id) != int(before.id) + 1:
                raise InputError(
                    f"{path}: the row after {before.id} is {after.id}, GLUE's server takes whole test files only; "
                    "correct the rows that could not be read"
                )
    lines = ["index\tprediction\n"]
    for index, row in enumerate(rows):
        if task.kind.has_numbers and isinstance(row.prediction, float):
            lines.append(f"{index}\t{min(max(row.prediction, 0.0), 5.0):.3f}\n")
        elif row.prediction in task.labels:
            lines.append(f"{index}\t{row.prediction}\n")
        else:
            raise InputError(
                f"{path}: {task.display} has no label {row.prediction!r}, GLUE's server takes "
                f"{', '.join(task.labels)}; tune the model on {task.name}"
            )
    write_file(path, "".join(lines))


def run_diagnostics(
    mnli_dir: Path, data_dir: Path, seeds: Sequence[int], stop: StopSignal
) -> Generator[Update, None, dict[int, Scores]]:
    """GLUE's diagnostic rows, where they lie beside MNLI's: predictions, submission files and, by seed, the scores
    where the rows have labels. Bad rows must not cost the run its results."""
    task, scores = TASKS[AX], {}

    def predict(models: Sequence[LoadedTaskModel], split: Split[Example]) -> list[PredictionRow]:
        return run_to_end(predict_examples(models, split.examples, batch_tokens=_BATCH_TOKENS, stop=stop))

    try:
        splits = read_tests(task, data_dir, task.labels, TaskDataConfig()) if task_folders(task, data_dir) else ()
        for split in [split for split in splits if split.is_labelled][:1]:
            for seed in seeds:
                rows = predict([load_model(mnli_dir / f"seed-{seed}")], split)
                predictions = [ClassPrediction(str(row.prediction), {}) for row in rows]
                scores[seed] = task.kind.score(task, split.examples, predictions, task.labels).scores
        for split in splits[:1]:  # those to submit come first
            require_whole(split)
            for folder, is_ensemble in ((BEST_SEED, False), (ENSEMBLE, True))[: 1 + (len(seeds) > 1)]:
                rows = predict(load_models(mnli_dir, is_ensemble=is_ensemble), split)
                if not is_ensemble:
                    write_file(mnli_dir / "predictions" / "diagnostic.jsonl", to_json_lines(rows))
                write_submission(mnli_dir / folder / task.submissions["test"], task, rows)
    except InputError as error:
        yield warn(str(error))
    return scores
