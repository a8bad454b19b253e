"""Ray Train as the launcher: each of its workers is a rank of one run.

python examples/cluster/ray_train.py DATA RUN --workers 2 --steps 1000 [--gpus]

Ray starts the processes, tells each its number, and starts them again when one fails (`max_failures`); all else is
electralab's: batches, checkpoints in RUN, resuming. DATA and RUN lie on storage that all nodes see.
"""

import argparse
import os
import socket
from pathlib import Path
from typing import Any

import torch.distributed as dist
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import electralab


def train(job: dict[str, Any]) -> None:
    """Run by every worker."""
    # Ray has joined the workers in a group of its own. electralab forms its own, at a port that the first one chooses.
    with socket.socket() as free:
        free.bind(("", 0))
        port = [free.getsockname()[1]]
    dist.broadcast_object_list(port, src=0)
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = str(port[0])
    electralab.pretrain(
        job["data"], job["out"], config="tiny", steps=job["steps"], settings={"batch": {"slices": job["workers"]}}
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--gpus", action="store_true")
    arguments = parser.parse_args()
    job = {name: getattr(arguments, name) for name in ("workers", "steps")}
    job |= {name: str(Path(getattr(arguments, name)).resolve()) for name in ("data", "out")}
    trainer = TorchTrainer(
        train,
        train_loop_config=job,
        scaling_config=ScalingConfig(num_workers=arguments.workers, use_gpu=arguments.gpus),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
