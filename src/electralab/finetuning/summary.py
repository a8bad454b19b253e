"""The seeds of a run side by side.

results of seeds -> results of the run
"""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from electralab.finetuning.scores import summarise_seeds
from electralab.records.tuned import Improvement, Scores, SeedResults, Spread
from electralab.training.metrics import read_metrics

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


def rank_seeds(metric: str, seeds: Sequence[SeedResults]) -> list[SeedResults]:
    """Best first, by the task's first metric; of equals the one that ran first."""
    return sorted(seeds, key=lambda seed: -seed.scores["dev"][metric])


def spread_scores(by_seed: Sequence[Scores]) -> dict[str, Spread]:
    return {metric: summarise_seeds([scores[metric] for scores in by_seed]) for metric in by_seed[0]}


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
    found = [
        ends for seed in scores if (ends := _find_rise(scores[seed])) and _is_falling(losses.get(seed, []), total_steps)
    ]
    if 2 * len(found) <= len(scores):
        return None
    before, after = (fmean(values) for values in zip(*found, strict=True))
    return Improvement(epochs=epochs, suggested_epochs=math.ceil(_MORE_EPOCHS * epochs), before=before, after=after)


def _find_rise(points: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    *earlier, last = (value for _, value in sorted(points)) if points else (0.0,)
    is_better = bool(earlier) and last >= max(earlier) + _GAIN
    return (earlier[-1], last) if is_better and last < _CEILING else None


def _is_falling(points: Sequence[tuple[int, float]], total_steps: int) -> bool:
    """From the middle third of the run to the last one."""
    middle = [loss for step, loss in points if total_steps < 3 * step <= 2 * total_steps]
    last = [loss for step, loss in points if 3 * step > 2 * total_steps]
    return bool(middle and last) and fmean(last) < fmean(middle)
