"""How many steps a budget of steps, tokens, FLOPs or minutes buys.

Budget -> steps
"""

import time

import torch

from electralab.objective.registry import build_objective
from electralab.pretraining.identity import Budget
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.state import build_state
from electralab.pretraining.task import PretrainTask, mean_step_flops
from electralab.stopping import StopSignal
from electralab.tokens.shards import PreparedData
from electralab.training.session import take_steps

_PROBE_SECONDS = 5.0


def count_steps(
    budget: Budget, config: PretrainConfig, data: PreparedData, device: torch.device, stop: StopSignal
) -> int:
    match budget.kind:
        case "steps":
            steps = budget.amount
        case "tokens":
            steps = budget.amount / (config.batch.mean_rows * data.sequence_length)
        case "flops":
            objective = build_objective(config, data, config.seed, device)
            steps = budget.amount / mean_step_flops(objective, config, data)
        case "minutes":
            steps = budget.amount * 60 / _probe(config, data, device, stop)
    return max(1, int(steps))


def _probe(config: PretrainConfig, data: PreparedData, device: torch.device, stop: StopSignal) -> float:
    """Seconds per step, measured on a model that is thrown away, with the evaluations' share added.

    The lower quartile: what else the machine does in these seconds should not decide how long a run is. Per operation,
    since the steps of a run may differ and its first ones are not like all.
    """
    objective = build_objective(config, data, config.seed, device)
    state = build_state(objective, config)
    task = PretrainTask(objective, data, config, 1_000_000, device)
    reports = take_steps(state, task, config.optimizer, task.rate_at, 1_000_000, stop)
    next(reports)  # the first step pays for warming up
    marks, paces = [time.perf_counter()], []
    while len(marks) < 4 or marks[-1] - marks[0] < _PROBE_SECONDS:
        next(reports)
        marks.append(time.perf_counter())
        paces.append((marks[-1] - marks[-2]) / task.count_flops())
    return sorted(paces)[len(paces) // 4] * mean_step_flops(objective, config, data) * 1.05
