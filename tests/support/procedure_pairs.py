"""Pairs of any procedure on rows that count, as small as can be, and steps of training without anything around them."""

from collections.abc import Callable
from typing import Any, cast

import torch
from little_pairs import CPU, VOCAB, CountingTokenizer, counting_rows
from torch import Tensor, nn

from electralab.model.electra import Discriminator, Electra, Generator, TwoTower
from electralab.model.settings import GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.electra import ElectraObjective
from electralab.objective.losses import LossConfig, add_counts
from electralab.objective.objective import StepInfo
from electralab.objective.procedures import PROCEDURES
from electralab.objective.settings import ObjectiveConfig, ProcedureConfig
from electralab.randomness import Rng
from electralab.tokens.tokenizer import Tokenizer

TINY: dict[str, Any] = {
    **{"backbone": "modern", "embedding_size": 32, "hidden_size": 32, "num_layers": 2, "num_heads": 2},
    **{"feedforward_size": 48, "dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.1},
}


def make(
    procedure: str, *, sharing: str = "none", width: float = 1.0, length: int = 16, **settings: Any
) -> ElectraObjective:
    """Options of the procedure by their names; `kind`, `objective`, `model` and `loss` where they matter."""
    options = {name: settings.pop(name) for name in list(settings) if name in ProcedureConfig.model_fields}
    kind = settings.pop("kind", "transformer")
    config = ObjectiveConfig(
        objective=settings.pop("objective", "electra"),
        procedure=cast(Any, procedure),
        procedure_options=ProcedureConfig(**options),
        model=ModelConfig(**TINY | settings.pop("model", {}), sharing=cast(Any, sharing)),
        generator=GeneratorConfig(kind=kind, width_share=width),
        loss=LossConfig(**{"discriminator_weight": 5.0} | settings.pop("loss", {})),
        **settings,
    )
    return assemble(config, PROCEDURES[config.procedure], length)


def assemble(config: ObjectiveConfig, kind: Callable[..., ElectraObjective], length: int = 16) -> ElectraObjective:
    guessing, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=length)
    generator = TwoTower(guessing) if config.generator.kind == "two-tower" else Generator(guessing)
    pair = Electra(generator, Discriminator(judging), config.model.sharing)
    objective = kind(pair, config, cast(Tokenizer, CountingTokenizer()), CPU)
    init_weights(pair, 1)
    return objective


def questions(objective: ElectraObjective, step: int, rows: int = 8) -> list[Any]:
    return list(objective.make_inputs(counting_rows(rows, seed=step), rows, 0.2, Rng(0, step)))


def step_loss(objective: ElectraObjective, moment: StepInfo, rows: int = 8) -> Tensor:
    objective.on_step_start(moment)
    asked = questions(objective, moment.step, rows)
    counts = add_counts(objective.count_targets(question) for question in asked)
    losses = [objective.training_step(question, moment).losses.weigh(counts, objective.weights) for question in asked]
    return torch.stack(losses).sum()


def learning(objective: ElectraObjective, moment: StepInfo) -> set[str]:
    """The parameters that a step gives a gradient, by the first word of their names, or first two of the heads."""
    objective.networks.zero_grad(set_to_none=True)
    step_loss(objective, moment).backward()  # type: ignore[no-untyped-call]
    named = objective.networks.named_parameters()
    found = {name for name, parameter in named if parameter.grad is not None}
    return {name.split(".")[0] if not name.startswith("heads") else name.split(".")[1] for name in found}


def train(objective: ElectraObjective, steps: int, *, rate: float = 3e-3, first: int = 1, total: int = 0) -> None:
    optimizer = torch.optim.AdamW(objective.networks.parameters(), lr=rate)
    for step in range(first, first + steps):
        optimizer.zero_grad(set_to_none=True)
        step_loss(objective, StepInfo(step, total or steps), rows=16).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def judge(objective: ElectraObjective) -> dict[str, float]:
    with torch.no_grad():
        (question,) = questions(objective, -1 % 1000, rows=23)
        return objective.evaluation_step(question).metrics.describe("auc")


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
