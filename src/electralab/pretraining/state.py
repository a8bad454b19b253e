"""Step 0 of a run.

settings, data -> Objective, TrainingState
"""

from typing import Any

from torch import nn

from electralab.model.electra import parameter_depths
from electralab.model.encoder import Encoder
from electralab.objective.objective import Objective
from electralab.pretraining.settings import PretrainConfig
from electralab.training.checkpoint import Progress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.optimizer import Optimizer, group_parameters


def build_state(objective: Objective[Any], config: PretrainConfig) -> TrainingState:
    networks = objective.networks
    if config.runtime.compile:
        compile_encoders(networks)
    learning = [(name, parameter) for name, parameter in networks.named_parameters() if parameter.requires_grad]
    groups = group_parameters(learning, parameter_depths(networks), hidden_matrices(networks), config.optimizer)
    scale = LossScale(2.0**16, is_adaptive=True) if config.runtime.precision == "fp16" else LossScale()
    return TrainingState(networks, Optimizer(groups, config.optimizer), scale, Progress(), None)


def compile_encoders(networks: nn.Module) -> None:
    for module in networks.modules():
        if isinstance(module, Encoder):
            module.compile()


def hidden_matrices(networks: nn.Module) -> frozenset[str]:
    """What Muon may orthogonalise: the matrices inside the layers, not tables, projections of tables, or heads."""
    return frozenset(name for name, p in networks.named_parameters() if p.ndim == 2 and ".layers." in name)
