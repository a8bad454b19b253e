"""Step 0 of a run.

settings, data -> TrainingState
"""

import torch

from electralab.model.electra import Electra, build_electra, parameter_depths
from electralab.pretraining.settings import PretrainConfig
from electralab.tokens.shards import PreparedData
from electralab.training.checkpoint import Progress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.optimizer import Optimizer, group_parameters


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
