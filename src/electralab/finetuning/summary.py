"""The seeds of a run side by side.

results of seeds -> results of the run
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from electralab.finetuning.scores import summarise_seeds
from electralab.finetuning.tasks import Task
from electralab.training.metrics import Record, read_metrics

Curves = dict[int, list[tuple[int, float]]]


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
        "seeds": [{"seed": result["seed"], **{split: result[split] for split in splits}} for result in results],
        "steps": best["step"],
        "tokens_per_seed": best["tokens"],
        "seconds": sum(result["seconds"] for result in results),
    }


def read_curves(folders: Sequence[tuple[int, Path]], metric: str) -> tuple[Curves, Curves]:
    """By seed: training losses and dev scores against the step."""
    losses: Curves = {}
    scores: Curves = {}
    for seed, folder in folders:
        records = read_metrics(folder / "metrics.jsonl")
        losses[seed] = [(record["step"], record["loss"]) for record in records if record["loss"] is not None]
        scores[seed] = [(record["step"], record[f"dev_{metric}"]) for record in records if f"dev_{metric}" in record]
    return losses, scores
