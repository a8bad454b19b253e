"""Runs one after the other on the same ranks: starting processes takes longer than all that these runs do.

torchrun … rank_runs.py FOLDER, with the prepared data FOLDER/data and FOLDER/cases.json:
[{"out": run, "from": another run or "", "parallel": mode, "words": settings}, …]; a case with "raises" has an error on
the last rank in the middle of the run. Each rank notes which part of the held-out rows it was asked about.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from little_pretraining import make_request
from little_runs import forget_after
from torch import Tensor

from electralab.events import run_to_end
from electralab.pretraining.stage import pretrain
from electralab.pretraining.task import PretrainTask
from electralab.stopping import StopSignal

HALF = 3
"""The step that a run is resumed from."""


def fail(*_: object) -> Iterator[Tensor]:
    raise ValueError("planted")


def main(folder: Path) -> None:
    is_first = os.environ["RANK"] == "0"
    evaluate_part = PretrainTask.evaluate_part

    def note_part(task: PretrainTask, first: int, stride: int) -> Any:
        with (folder / f"evaluated by {os.environ['RANK']}").open("a") as file:
            file.write(f"{first} of {stride}\n")
        return evaluate_part(task, first, stride)

    PretrainTask.evaluate_part = note_part  # type: ignore[method-assign, assignment]
    for case in json.loads((folder / "cases.json").read_text()):
        run = folder / case["out"]
        if is_first and case["from"]:
            shutil.copytree(folder / case["from"], run)
            forget_after(run, HALF)
        if "raises" in case and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            PretrainTask.micro_losses = fail  # type: ignore[method-assign, assignment]
        options = {"parallel": case["parallel"], "steps": 2 * HALF, "save_every": HALF}
        options["sharded_checkpoints"] = "sharded" in case
        run_to_end(pretrain(make_request(folder / "data", run, tuple(case["words"]), **options), StopSignal()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
