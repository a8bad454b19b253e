"""The steps of a study that train no network, each a process as the others are: what a linear model says, what it and a
network say together, who is right where the linear model is not, and which settings of fine-tuning are best.

    python -m electralab.experiments.derived baseline|blend|hard|choose WORDS --json -> the answer of a step

All but the last read and write predictions as fine-tuning does: FOLDER/seed-K/predictions/dev.jsonl.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import ConfigDict

from electralab.artifacts import write_file
from electralab.config import Settings, read_toml
from electralab.errors import ElectraError, InputError
from electralab.finetuning.task_model import list_seeds
from electralab.records.record import Record
from electralab.records.study import ScoreAnswer, StepResult, TuningChoice, TuningTrial
from electralab.records.tuned import PredictionRow, read_rows, to_json_lines
from electralab.runtime import use_threads
from electralab.tasks import blending
from electralab.tasks.catalog import find_task
from electralab.tasks.kind import Example, Split, Task
from electralab.tasks.load import TaskDataConfig, read_task

Rows = Sequence[PredictionRow]
HELDOUT_SHARE, HELDOUT_LEAST = 0.15, 300
"""Of the training rows, and at least so many while they are less than a third: by these a blend is weighted."""
ROWS = "rows.jsonl"
"""The training rows of a score, all that its limit leaves; a network to be blended learns from a part of them."""


class DerivedSettings(Settings):
    """What a step without a network takes of a score's settings."""

    model_config = ConfigDict(extra="ignore")
    data: TaskDataConfig = TaskDataConfig()
    train_rows: int = 0


class DerivedAnswer(Record):
    """As `finetune` answers: the median over the seeds of each metric."""

    task: str
    metric: str
    dev: dict[str, float]
    rows: int = 0
    """That a blend was weighted by, or that are hard."""


def heldout_share(rows: int) -> float:
    # Never more than three tenths, however few rows there are: both have to learn from the rest.
    return round(min(max(HELDOUT_SHARE, HELDOUT_LEAST / rows), 0.3), 4)


def score_baseline(task: Task, data: Path, settings: DerivedSettings, out: Path) -> DerivedAnswer:
    """The linear model of the task: fitted to all rows it answers dev, to a part of them the rest of them."""
    whole = read_task(task, data, settings.data, settings.train_rows)
    names = whole.train.columns
    columns = [column for part, column in names.items() if part.startswith("text")] + [names["label"]]
    lines: list[dict[str, object]] = [
        dict(zip(columns, (*row.texts, blending.read_truth(row)), strict=True))
        for row in blending.pooled_examples(whole.train.examples)
    ]
    write_file(out / ROWS, to_json_lines(lines))
    share = heldout_share(len(lines))
    part = read_task(task, out / ROWS, settings.data.model_copy(update={"dev_share": share, "id": ""}))
    predictions = out / "seed-0" / "predictions"
    dev = _answer(whole.train, whole.devs[0])
    write_file(predictions / "heldout.jsonl", to_json_lines(_answer(part.train, part.devs[0])))
    write_file(predictions / "dev.jsonl", to_json_lines(dev))
    return _tell(task, [dev])


def _answer(train: Split[Example], asked: Split[Example]) -> list[PredictionRow]:
    model = blending.fit_linear(blending.pooled_examples(train.examples))
    return blending.answer_linear(model, blending.pooled_examples(asked.examples))


def blend(task: Task, network: Path, heldout: Path, baseline: Path, out: Path) -> DerivedAnswer:
    """Weights come from training rows that neither the network nor the linear model has learned from; they are then
    given to what both, having learned from all rows, say of dev. For each seed of fine-tuning."""
    linear, linear_dev = (read_predictions(baseline, name)[0] for name in ("heldout", "dev"))
    labels = blending.list_labels(linear)
    tuned = read_predictions(heldout, "dev")[0]
    _require_same_rows(tuned, linear, heldout)
    weights = blending.fit_blend(labels, [tuned, linear])
    answers = []
    for place, rows in enumerate(read_predictions(network, "dev")):
        _require_same_rows(rows, linear_dev, network)
        answers.append(blending.answer_blend(weights, labels, [rows, linear_dev]))
        write_file(out / f"seed-{place}" / "predictions" / "dev.jsonl", to_json_lines(answers[-1]))
    return _tell(task, answers).model_copy(update={"rows": len(tuned)})


def score_hard_half(task: Task, answers: Path, baseline: Path) -> DerivedAnswer:
    """The score on the half of the rows whose true class the linear model gives the least share: those it gets wrong,
    then those it is least sure of. The same rows for whoever is asked about the same data."""
    linear = read_predictions(baseline, "dev")[0]
    shares = [blending.read_share(row, str(row.truth)) for row in linear]
    hard = sorted(np.argsort(shares, kind="stable")[: (len(linear) + 1) // 2])
    halves = []
    for rows in read_predictions(answers, "dev"):
        _require_same_rows(rows, linear, answers)
        halves.append([rows[place] for place in hard])
    return _tell(task, halves).model_copy(update={"rows": len(hard)})


def read_predictions(folder: Path, split: str) -> list[list[PredictionRow]]:
    """Seed by seed, what was said of a split."""
    seeds = [list(read_rows(seed / "predictions" / f"{split}.jsonl")) for seed in list_seeds(folder)]
    if not seeds or not all(seeds):
        raise InputError(
            f"{folder}: has no predictions of {split}; delete the folder and its .json to run the step again"
        )
    return seeds


def _require_same_rows(ours: Rows, theirs: Rows, where: Path) -> None:
    if [(row.texts, row.truth) for row in ours] != [(row.texts, row.truth) for row in theirs]:
        raise InputError(f"{where}: answers other rows than the linear model; delete both folders to run them again")


def _tell(task: Task, seeds: Sequence[Rows]) -> DerivedAnswer:
    scores = []
    for rows in seeds:
        # F1 is that of the second class: in the order of the task, or sorted as the network's are.
        known = sorted({str(row.truth) for row in rows} | set(blending.list_labels(rows)))
        labels = [] if task.kind.has_numbers else list(task.labels) or known
        scores.append(blending.score_rows(task.metrics, labels, rows))
    dev = {metric: float(np.median([by_metric[metric] for by_metric in scores])) for metric in task.metrics}
    return DerivedAnswer(task=task.name, metric=task.metrics[0], dev=dev)


def choose_tuning(steps: Sequence[Path], out: Path) -> TuningChoice:
    """The settings with the best mean over the sets; of equals those that stand first in the grid."""
    by_settings: dict[str, dict[str, float]] = {}
    for path in steps:
        step = StepResult.read(path)
        if step is None:
            raise InputError(f"{path}: is not there; delete tuning.json beside it to choose again")
        scores = by_settings.setdefault(json.dumps(step.identity["tuning"]), {})
        answer = ScoreAnswer.model_validate(step.result)
        score = (answer.dev or {})[answer.metric]
        assert isinstance(score, int | float)
        scores[path.name.removeprefix("tune-").partition("@")[0]] = score
    trials = [
        TuningTrial(settings=json.loads(settings), scores=scores, mean=float(np.mean(list(scores.values()))))
        for settings, scores in by_settings.items()
    ]
    choice = TuningChoice(settings=max(trials, key=lambda trial: trial.mean).settings, trials=tuple(trials))
    choice.write(out)
    return choice


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="electralab.experiments.derived")
    parser.add_argument("what", choices=("baseline", "blend", "hard", "choose"))
    parser.add_argument("steps", nargs="*", type=Path)
    parser.add_argument("--task", default="")
    for flag in ("data", "config", "network", "heldout", "baseline", "out"):
        parser.add_argument(f"--{flag}", type=Path, default=Path())
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args(words)
    use_threads(flags.threads)
    answer: DerivedAnswer | TuningChoice
    try:
        if flags.what == "choose":
            answer = choose_tuning(flags.steps, flags.out)
        elif flags.what == "baseline":
            given = read_toml(flags.config).values if flags.config.is_file() else {}
            settings = DerivedSettings.model_validate(given)
            answer = score_baseline(find_task(flags.task), flags.data, settings, flags.out)
        elif flags.what == "blend":
            answer = blend(find_task(flags.task), flags.network, flags.heldout, flags.baseline, flags.out)
        else:
            answer = score_hard_half(find_task(flags.task), flags.network, flags.baseline)
    except ElectraError as error:
        sys.stderr.write(f"electra: {error}\n")
        return 1
    sys.stdout.write(json.dumps(answer.to_json()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
