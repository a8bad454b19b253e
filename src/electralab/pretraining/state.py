"""Step 0 of a run, and its steps from there.

settings, data -> TrainingState -> StepReport...
"""

from collections.abc import Iterator

import torch

from electralab.model.electra import Electra, build_electra, parameter_depths
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.task import PretrainTask
from electralab.stopping import StopSignal
from electralab.tokens.shards import PreparedData
from electralab.training.checkpoint import Progress, TrainingState
from electralab.training.loop import LossScale, StepReport, train
from electralab.training.optimizer import Optimizer, group_parameters
from electralab.training.schedule import learning_rate_factor


def build_state(config: PretrainConfig, data: PreparedData, device: torch.device) -> TrainingState:
    """Step 0 of a run: a pure function of its settings."""
    model = build_electra(
        config.model,
        config.generator,
        vocab_size=data.tokenizer.vocab_size,
        sequence_length=data.sequence_length,
        seed=config.seed,
    ).to(device)
    if config.runtime.compile:
        model.generator.compile()
        model.discriminator.compile()
    groups = group_parameters(
        model.named_parameters(), parameter_depths(model), hidden_matrices(model), config.optimizer
    )
    scale = LossScale(2.0**16, is_adaptive=True) if config.runtime.precision == "fp16" else LossScale()
    return TrainingState(model, Optimizer(groups, config.optimizer), scale, Progress(), None)


def hidden_matrices(model: Electra) -> frozenset[str]:
    """What Muon may orthogonalise: the matrices inside the layers, not tables, projections of tables, or heads."""
    return frozenset(name for name, p in model.named_parameters() if p.ndim == 2 and ".layers." in name)


def pair_of(state: TrainingState) -> Electra:
    assert isinstance(state.model, Electra)
    return state.model


def take_steps(
    state: TrainingState, task: PretrainTask, config: PretrainConfig, total_steps: int, stop: StopSignal
) -> Iterator[StepReport]:
    return train(
        state.model,
        state.optimizer,
        task.parts,
        lambda step: learning_rate_factor(step, total_steps, config.schedule),
        first_step=state.progress.step + 1,
        last_step=total_steps,
        clip_norm=config.optimizer.clip_norm,
        scale=state.scale,
        stop=stop,
    )
