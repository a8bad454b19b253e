"""What every kind of pre-training has in common: a batch becomes inputs, a forward pass gives losses and metrics.

Batch -> Inputs... -> ObjectiveOutput -> Losses

One file for each family of named objectives; `registry.py` is the table of their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from electralab.model.electra import CopyMLM, Discriminator, Generator, TwoStream, TwoTower
from electralab.objective.losses import Counts, Losses
from electralab.objective.metrics import BatchMetrics, ExampleRows
from electralab.randomness import Rng
from electralab.tokens.batches import Batch

# How many predictions of a micro-batch the metrics of a logged step are computed from.
METRICS_SAMPLE = 64

Network = Generator | Discriminator | TwoTower | TwoStream | CopyMLM


@dataclass(frozen=True, slots=True)
class StepInfo:
    """Where in a run a step is; steps count from 1."""

    step: int
    total_steps: int

    @property
    def progress(self) -> float:
        return (self.step - 1) / self.total_steps


@dataclass(frozen=True, slots=True)
class ObjectiveOutput:
    losses: Losses
    metrics: BatchMetrics


class TokenInputs(Protocol):
    """What the inputs of every objective know: their batch, and the tokens that are to be predicted."""

    @property
    def batch(self) -> Batch: ...

    @property
    def target_ids(self) -> Tensor: ...

    def to(self, device: torch.device) -> "TokenInputs": ...


Inputs = TypeVar("Inputs", bound=TokenInputs)


class Objective(Generic[Inputs]):
    """The base of all objectives. A new one says how inputs are made, what is learned from them, and what it costs."""

    networks: nn.Module
    """All that learns; its children are named for what they are: discriminator, generator, model."""
    weights: Mapping[str, float]
    """The weight of each loss by its name, in what is minimised."""
    lm_loss_name: str
    """The loss that is a cross-entropy of predicted tokens, for which token frequencies alone give a baseline."""

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[Inputs]:
        """A step's rows, at most `micro_size` in each of the inputs, on the CPU."""
        raise NotImplementedError

    def count_targets(self, inputs: Inputs) -> Counts:
        raise NotImplementedError

    def count_tokens(self, inputs: Inputs) -> int:
        """How many tokens are read, padding left out."""
        return inputs.batch.token_count

    def on_step_start(self, step: StepInfo) -> None:
        """Called before a step's first inputs; doing it twice changes nothing. Most objectives have nothing to do."""

    def training_step(self, inputs: Inputs, step: StepInfo) -> ObjectiveOutput:
        """Forward, to learn from."""
        raise NotImplementedError

    def evaluation_step(self, inputs: Inputs) -> ObjectiveOutput:
        """Forward, to evaluate all networks by, wherever in the run."""
        raise NotImplementedError

    def examples(self, inputs: Inputs) -> ExampleRows | None:
        """Rows with what was predicted of them, to be looked at; None where nothing is hidden."""
        raise NotImplementedError

    def lm_targets(self, inputs: Inputs) -> Sequence[int]:
        """The targets of the loss `lm_loss_name`."""
        return inputs.target_ids.tolist()

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        """The cost of one step by our convention: matrix products only, backward twice the forward."""
        raise NotImplementedError

    def exports(self) -> Mapping[str, Network]:
        """The networks that a finished run leaves, by the names of their folders."""
        raise NotImplementedError
