"""Runs one after the other on the same ranks: starting processes takes longer than all that these runs do.

torchrun … rank_runs.py FOLDER, with the prepared data FOLDER/data and FOLDER/cases.json:
[{"out": run, "from": another run or "", "parallel": mode, "words": settings}, …]; a case without "words" tunes the
model FOLDER/origin on FOLDER/animals, with "seeds" so many that are finished already. With "raises" the last rank has
an error in the middle of the run, with "lost" a slice of that step has a loss that is not a number. Each rank notes
which part of what it was asked about.
"""

import json
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import little_tasks
from little_pretraining import make_request
from little_runs import forget_after
from torch import Tensor

from electralab.events import run_to_end
from electralab.finetuning.stage import FinetuneRequest, finetune
from electralab.finetuning.task import FinetuneTask
from electralab.pretraining.stage import pretrain
from electralab.pretraining.task import PretrainTask
from electralab.stopping import StopSignal

LAST_SLICE = 3
HALF = 3
"""The step that a run is resumed from."""
TUNING = {
    "steps": 2 * HALF,
    "batch": {"size": 7, "slices": 4},
    "encoder_dropout": 0.1,
    "optimizer": {"learning_rate": 1e-3, "average_decay": 0.9},
    "evaluation": {"times": 2, "rows": 10, "batch_tokens": 30},
}


def make_tuning(folder: Path, run: Path, **changes: Any) -> FinetuneRequest:
    fields = {"save_every": HALF, "keep": 5, "log_every": 1, "has_baselines": False} | changes
    return little_tasks.make_request(folder / "origin", "classify", folder / "animals", run, TUNING, **fields)


def fail(*_: object) -> Iterator[Tensor]:
    raise ValueError("planted")


def lose_slice(step: int) -> Callable[..., Iterator[Tensor]]:
    """Micro losses of which that of one slice of this step is not a number."""
    micro_losses = PretrainTask.micro_losses

    def lose_last(task: PretrainTask, at: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
        claimed: list[int] = []

        def follow(count: int) -> Iterator[int]:
            for number in choose(count):
                claimed.append(number)
                yield number

        for loss in micro_losses(task, at, follow):
            yield loss * (math.nan if (at, claimed[-1]) == (step, LAST_SLICE) else 1.0)

    return lose_last


def note_parts(folder: Path, task: Any) -> None:
    evaluate_part = task.evaluate_part

    def note_part(self: Any, first: int, stride: int, *what: str) -> Any:
        with (folder / f"evaluated by {os.environ['RANK']}").open("a") as file:
            file.write(" ".join([*what, f"{first} of {stride}\n"]))
        return evaluate_part(self, first, stride, *what)

    task.evaluate_part = note_part


def main(folder: Path) -> None:
    is_first = os.environ["RANK"] == "0"
    note_parts(folder, PretrainTask)
    note_parts(folder, FinetuneTask)
    for case in json.loads((folder / "cases.json").read_text()):
        run = folder / case["out"]
        if is_first and case["from"]:
            shutil.copytree(folder / case["from"], run)
            forget_after(run, HALF)
            if "words" not in case and "seeds" not in case:
                forget_after(run / "seed-0", HALF)
        if "raises" in case:  # as on the command line, where a launcher's signal lets a rank say how it ended
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "raises" in case and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            PretrainTask.micro_losses = fail  # type: ignore[method-assign, assignment]
        if "lost" in case:
            PretrainTask.micro_losses = lose_slice(case["lost"])  # type: ignore[method-assign]
        if "words" not in case:
            seeds = case.get("seeds", 1)
            run_to_end(finetune(make_tuning(folder, run, parallel=case["parallel"], seeds=seeds), StopSignal()))
            continue
        options = {"parallel": case["parallel"], "steps": 2 * HALF, "save_every": HALF}
        options["sharded_checkpoints"] = "sharded" in case
        run_to_end(pretrain(make_request(folder / "data", run, tuple(case["words"]), **options), StopSignal()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
