"""The seeds of a run side by side, beside its baselines, and whether more training would raise the scores.

scores of seeds -> Spread; metrics.jsonl of seeds -> curves -> Improvement
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from electralab.records.run import read_metrics
from electralab.records.tuned import Baseline, Improvement, Scores, Spread
from electralab.tasks.kind import Split, Task

Curves = dict[int, list[tuple[int, float]]]
"""By seed: (step, value)"""

# So much of a score gained is more than the luck of a moment.
_GAIN = 0.01
# Nothing is left to gain above it.
_CEILING = 0.995
_MORE_EPOCHS = 3


def list_seeds(run_dir: Path) -> list[Path]:
    """The folders of a run's seeds, in order."""
    folders = [path for path in run_dir.glob("seed-*") if path.name.removeprefix("seed-").isdecimal()]
    return sorted(folders, key=lambda path: int(path.name.removeprefix("seed-")))


def summarise_seeds(values: Sequence[float]) -> Spread:
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    middle, mean = float(np.median(values)), float(np.mean(values))
    return Spread(n=len(values), median=middle, mean=mean, sd=sd, best=float(max(values)))


def spread_scores(by_seed: Sequence[Scores]) -> dict[str, Spread]:
    """Each metric over the seeds."""
    return {metric: summarise_seeds([scores[metric] for scores in by_seed]) for metric in by_seed[0]}


def score_baselines(
    task: Task, labels: Sequence[str], train: Sequence[Any], splits: Sequence[Split]
) -> Iterator[Baseline]:
    """Simple methods in the task's own scores, one after the other as each is fitted."""
    labelled = [split for split in splits if split.is_labelled]
    for method in task.kind.baselines(train, labelled):
        scores = {
            split.name: task.kind.score(task, split.examples, method.predictions[split.name], labels).scores
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


def read_curves(folders: Sequence[tuple[int, Path]], metric: str) -> tuple[Curves, Curves]:
    """By seed: training losses and dev scores against the step."""
    losses: Curves = {}
    scores: Curves = {}
    for seed, folder in folders:
        records = read_metrics(folder / "metrics.jsonl")
        losses[seed] = [(record["step"], record["loss"]) for record in records if record["loss"] is not None]
        scores[seed] = [(record["step"], record[f"dev_{metric}"]) for record in records if f"dev_{metric}" in record]
    return losses, scores


def explain_improvement(improvement: Improvement, metric: str) -> str:
    name = metric.replace("_", " ")
    return (
        f"still improving at the end (dev {name} {improvement.before:.4f}, then {improvement.after:.4f}, the loss "
        f"falling): try --epochs {improvement.suggested_epochs}; this was {improvement.epochs:.3g}"
    )


def find_improvement(losses: Curves, scores: Curves, total_steps: int, epochs: float) -> Improvement | None:
    """Nothing unless more than half of the seeds still improved: the loss fell, the dev score rose above all before.

    A loss that falls while the score stands still is learning by heart.
    """
    rises = [
        ends for seed in scores if (ends := _find_rise(scores[seed])) and _is_falling(losses.get(seed, []), total_steps)
    ]
    if 2 * len(rises) <= len(scores):
        return None
    before, after = (fmean(values) for values in zip(*rises, strict=True))
    suggested = math.ceil(_MORE_EPOCHS * epochs)
    return Improvement(epochs=epochs, suggested_epochs=suggested, before=before, after=after)


def _find_rise(points: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    *earlier, last = (value for _, value in sorted(points)) if points else (0.0,)
    is_better = bool(earlier) and last >= max(earlier) + _GAIN
    return (earlier[-1], last) if is_better and last < _CEILING else None


def _is_falling(points: Sequence[tuple[int, float]], total_steps: int) -> bool:
    """From the middle third of the run to the last one."""
    middle = [loss for step, loss in points if total_steps < 3 * step <= 2 * total_steps]
    last = [loss for step, loss in points if 3 * step > 2 * total_steps]
    return bool(middle and last) and fmean(last) < fmean(middle)
