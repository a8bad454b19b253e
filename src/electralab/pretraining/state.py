"""Step 0 of a run.

settings, data -> Objective, TrainingState
"""

from collections.abc import Iterable
from typing import Any

from torch import nn

from electralab.model.electra import parameter_depths
from electralab.model.encoder import Encoder
from electralab.objective.objective import Objective
from electralab.pretraining.settings import PretrainConfig
from electralab.training.checkpoint import Progress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.muon import orthogonalise_flops
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters


def build_state(objective: Objective[Any], config: PretrainConfig) -> TrainingState:
    networks = objective.networks
    if config.runtime.compile:
        compile_encoders(networks)
    learning = [(name, parameter) for name, parameter in networks.named_parameters() if parameter.requires_grad]
    groups = group_parameters(
        learning,
        parameter_depths(networks),
        hidden_matrices(networks),
        config.optimizer,
        find_rate_factors([name for name, _ in learning], config.optimizer),
    )
    scale = LossScale(2.0**16, is_adaptive=True) if config.runtime.precision == "fp16" else LossScale()
    return TrainingState(networks, Optimizer(groups, config.optimizer), scale, Progress(), None)


def find_rate_factors(names: Iterable[str], config: OptimizerConfig) -> dict[str, float]:
    """Of parameters that learn at a rate of their own; what both networks share goes by the discriminator's name."""
    factors: dict[str, float] = {}
    for name in names:
        rate = 0.0
        if ".embeddings.tokens." in name:
            rate = config.table_learning_rate
        elif ".head." in name or name.startswith(("heads.", "head.")):
            rate = config.head_learning_rate
        factor = rate / config.learning_rate if rate else 1.0
        factors[name] = factor * (config.generator_rate_factor if name.startswith("generator.") else 1.0)
    return factors


def update_flops(networks: nn.Module, config: OptimizerConfig) -> int:
    """The matrix products of one update: Muon's, since AdamW has none."""
    if config.kind != "muon":
        return 0
    matrices = [networks.get_parameter(name) for name in hidden_matrices(networks)]
    shapes = [(matrix.shape[0], matrix.shape[1]) for matrix in matrices if matrix.requires_grad]
    return sum(orthogonalise_flops(rows, columns, config.muon_iterations) for rows, columns in shapes)


def compile_encoders(networks: nn.Module) -> None:
    for module in networks.modules():
        if isinstance(module, Encoder):
            module.compile()


def hidden_matrices(networks: nn.Module) -> frozenset[str]:
    """What Muon may orthogonalise: the matrices inside the layers, not tables, projections of tables, or heads."""
    return frozenset(name for name, p in networks.named_parameters() if p.ndim == 2 and ".layers." in name)
