"""The seeds of a run side by side.

results of seeds -> results of the run
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from electralab.finetuning.scores import Scores, summarise_seeds
from electralab.finetuning.tasks import Task
from electralab.training.metrics import Record, read_metrics

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


def rank_seeds(task: Task, results: Sequence[Record]) -> list[Record]:
    """Best first, by the task's first metric; of equals the one that ran first."""
    return sorted(results, key=lambda result: -result["dev"][task.metrics[0]])


def summarise(task: Task, results: Sequence[Record], splits: Sequence[str]) -> Record:
    """For each labelled split the median over the seeds, metric by metric, and the whole spread."""
    spread = {
        split: {
            metric: asdict(summarise_seeds([result[split][metric] for result in results]))
            for metric in results[0][split]
        }
        for split in splits
    }
    best = rank_seeds(task, results)[0]
    return {
        "task": task.name,
        "metric": task.metrics[0],
        **{split: {metric: of["median"] for metric, of in metrics.items()} for split, metrics in spread.items()},
        "spread": spread,
        "best_seed": best["seed"],
        "report": best["report"],
        # A seed that was finished before there were others has the dev report alone.
        "reports": best.get("reports") or {"dev": best["report"]},
        "seeds": [{"seed": result["seed"], **{split: result[split] for split in splits}} for result in results],
        "steps": best["step"],
        "tokens_per_seed": best["tokens"],
        "seconds": sum(result["seconds"] for result in results),
    }


def add_scores(summary: Record, split: str, scores: Mapping[int, Scores]) -> None:
    """Those of one more split, by seed, to a summary that was made without it; nothing where there are none."""
    if not scores:
        return
    spread = {
        metric: asdict(summarise_seeds([of_seed[metric] for of_seed in scores.values()]))
        for metric in next(iter(scores.values()))
    }
    summary["spread"][split] = spread
    summary[split] = {metric: of["median"] for metric, of in spread.items()}
    for of_seed in summary["seeds"]:
        of_seed[split] = scores[of_seed["seed"]]


def read_curves(folders: Sequence[tuple[int, Path]], metric: str) -> tuple[Curves, Curves]:
    """By seed: training losses and dev scores against the step."""
    losses: Curves = {}
    scores: Curves = {}
    for seed, folder in folders:
        records = read_metrics(folder / "metrics.jsonl")
        losses[seed] = [(record["step"], record["loss"]) for record in records if record["loss"] is not None]
        scores[seed] = [(record["step"], record[f"dev_{metric}"]) for record in records if f"dev_{metric}" in record]
    return losses, scores


@dataclass(frozen=True, slots=True)
class Improvement:
    """A run that ended while it still became better."""

    epochs: float
    """That it had."""
    suggested_epochs: int
    before: float
    """The dev score before the last part of the run, and at its end."""
    after: float

    def tell(self, metric: str) -> str:
        name = metric.replace("_", " ")
        return (
            f"still improving at the end (dev {name} {self.before:.4f}, then {self.after:.4f}, the loss falling): "
            f"try --epochs {self.suggested_epochs}; this was {self.epochs:.3g}"
        )


def find_improvement(losses: Curves, scores: Curves, total_steps: int, epochs: float) -> Improvement | None:
    """Nothing unless more than half of the seeds still improved: the loss fell, the dev score rose above all before.

    A loss that falls while the score stands still is learning by heart.
    """
    found = [
        ends for seed in scores if (ends := _find_rise(scores[seed])) and _is_falling(losses.get(seed, []), total_steps)
    ]
    if 2 * len(found) <= len(scores):
        return None
    before, after = (fmean(values) for values in zip(*found, strict=True))
    return Improvement(epochs, math.ceil(_MORE_EPOCHS * epochs), before, after)


def _find_rise(points: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    *earlier, last = (value for _, value in sorted(points)) if points else (0.0,)
    is_better = bool(earlier) and last >= max(earlier) + _GAIN
    return (earlier[-1], last) if is_better and last < _CEILING else None


def _is_falling(points: Sequence[tuple[int, float]], total_steps: int) -> bool:
    """From the middle third of the run to the last one."""
    middle = [loss for step, loss in points if total_steps < 3 * step <= 2 * total_steps]
    last = [loss for step, loss in points if 3 * step > 2 * total_steps]
    return bool(middle and last) and fmean(last) < fmean(middle)
