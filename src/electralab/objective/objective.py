"""What every kind of pre-training has in common: it poses questions about text and learns from the answers.

Batch -> Question... -> Answer -> Losses

One file for each family of named objectives implements this; `named.py` is the table of their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import nn

from electralab.model.electra import Discriminator, Generator
from electralab.model.token_models import CopyMLM, TwoStream, TwoTower
from electralab.objective.examples import ExampleRows
from electralab.objective.losses import Counts, Losses
from electralab.objective.metrics import BatchMetrics
from electralab.randomness import Rng
from electralab.tokens.batches import Batch

# How many guesses of a part of a step are looked at closely for the log.
METRICS_SAMPLE = 64


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
    observation: BatchMetrics


Q = TypeVar("Q")
Network = Generator | Discriminator | TwoTower | TwoStream | CopyMLM


class Objective(Protocol[Q]):
    @property
    def networks(self) -> nn.Module:
        """All that learns; its children are named for what they are: discriminator, generator, model."""
        ...

    weights: Mapping[str, float]
    """Of each loss by its name, in what is minimised."""
    guessed: str
    """The loss that is a cross-entropy of guessed tokens, which frequencies alone give a baseline for."""

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[Q]:
        """The questions about a step's rows, at most `micro_size` rows each, on the CPU."""
        ...

    def count_targets(self, question: Q) -> Counts: ...

    def count_tokens(self, question: Q) -> int:
        """That are read, padding left out."""
        ...

    def begin(self, moment: StepInfo) -> None:
        """Called before a step's first question; doing it twice changes nothing."""
        ...

    def answer(self, question: Q, moment: StepInfo) -> ObjectiveOutput:
        """Forward, to learn from."""
        ...

    def examine(self, question: Q) -> ObjectiveOutput:
        """Forward, to judge all networks by, whatever the moment."""
        ...

    def exhibit(self, question: Q) -> ExampleRows | None:
        """What is said of its rows, to be looked at; None where nothing is hidden."""
        ...

    def guessed_ids(self, question: Q) -> Sequence[int]:
        """The targets of the loss `guessed`."""
        ...

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        """Of one step, by our convention: matrix products only, backward twice the forward."""
        ...

    def exports(self) -> Mapping[str, Network]:
        """The networks that a finished run leaves, by the names of their folders."""
        ...
