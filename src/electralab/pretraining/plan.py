"""`--dry-run`: what a run would be, take and need, without starting it; what the run would refuse is refused.

PretrainRequest -> PretrainPlan
"""

from dataclasses import dataclass
from typing import Any

import torch

from electralab.objective.registry import build_objective
from electralab.pretraining.account import estimate_memory
from electralab.pretraining.budget import count_steps
from electralab.pretraining.identity import read_identity
from electralab.pretraining.stage import PretrainRequest, refuse_foreign, settle_identity, start_networks
from electralab.pretraining.task import mean_step_flops
from electralab.runtime import choose_device, default_threads, estimate_speed
from electralab.stopping import StopSignal
from electralab.tokens.shards import open_data
from electralab.training.checkpoint import list_checkpoints


@dataclass(frozen=True, slots=True)
class PretrainPlan:
    settings: dict[str, Any]
    steps: int
    resumes_at: int
    rows: int
    epochs: float
    tokens: int
    parameters: int
    flops: int
    estimated_minutes: float
    estimated_memory_mb: int
    notes: tuple[str, ...] = ()
    """What the run would say before its first step."""


def plan_pretrain(request: PretrainRequest) -> PretrainPlan:
    data = open_data(request.data_dir)
    refuse_foreign(request.run_dir)
    config = request.config
    stored = read_identity(request.run_dir)
    threads = request.threads or (stored.threads if stored else default_threads())
    torch.set_num_threads(threads)
    device = choose_device(config.runtime.device)
    objective = build_objective(config, data, config.seed, device)
    flops = mean_step_flops(objective, config, data)
    seconds_per_step = flops / estimate_speed()

    def estimate_steps() -> int:
        """Of minutes without the run's own probe; whether they are too few to extend a run, only that can tell."""
        if request.budget.kind != "minutes":
            return count_steps(request.budget, config, data, device, StopSignal())
        least = stored.total_steps if stored and request.extend else 1
        return max(least, int(request.budget.amount * 60 / seconds_per_step))

    steps = settle_identity(request, data, stored, threads, estimate_steps).total_steps
    notes = (*request.notes, *start_networks(request, objective, data))
    latest = list_checkpoints(request.run_dir / "checkpoints")
    parameters = sum(parameter.numel() for parameter in objective.networks.parameters())
    rows = round(steps * config.batch.mean_rows)
    return PretrainPlan(
        settings=config.model_dump(mode="json"),
        steps=steps,
        resumes_at=int(latest[0].name.removeprefix("step-")) + 1 if latest else 1,
        rows=len(data.train),
        epochs=round(rows / len(data.train), 2),
        tokens=rows * data.sequence_length,
        parameters=parameters,
        flops=round(steps * flops),
        estimated_minutes=round(steps * seconds_per_step / 60, 1),
        estimated_memory_mb=estimate_memory(objective, config, data.sequence_length) >> 20,
        notes=notes,
    )
