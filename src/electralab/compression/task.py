"""What a model is compressed for: rows with a loss to learn from, rows to be scored on, rows to be timed on.

network, rows -> answers, losses, Score
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from electralab.exporting.samples import Sample
from electralab.model.electra import Discriminator
from electralab.model.folder import Role, Storage
from electralab.model.tuned import SpanLogits, Tuned
from electralab.tokens.tokenizer import Tokenizer

Network = Discriminator | Tuned
Answer = Tensor | SpanLogits
Places = NDArray[np.int64]
Inputs = tuple[Tensor, Tensor, Tensor | None]


def evenly_spaced(count: int, limit: int) -> Places:
    """At most `limit` of them, evenly over all."""
    return np.unique(np.linspace(0, count - 1, min(limit, count)).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Score:
    value: float
    """A fraction, the more the better."""
    deviation: float | None
    """The standard deviation of the value over examples drawn again."""
    count: int
    """Examples that it is a score of."""
    draws: int
    """How often they were drawn again; 0: not at all, and the deviation is not known."""


class CompressionTask(Protocol):
    @property
    def role(self) -> Role:
        """The name of the model's folder in a run."""
        ...

    @property
    def network(self) -> Network:
        """The model as it came."""
        ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def metric(self) -> str: ...

    @property
    def seed_deviation(self) -> float | None:
        """Of the metric over the seeds of the model's run, where there are several that saw the same rows."""
        ...

    @property
    def identity(self) -> str:
        """The same for the same rows."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the rows."""
        ...

    @property
    def lengths(self) -> Places:
        """In tokens, of every row to learn from."""
        ...

    def pose(self, places: Places, step: int) -> Any:
        """Rows to learn from as a question; chance in it is a pure function of the step."""
        ...

    def answer(self, network: Network, question: Any) -> Answer: ...

    def count_targets(self, question: Any) -> int: ...

    def loss(self, answer: Answer, question: Any) -> Tensor:
        """Against the truth, summed over the targets."""
        ...

    def soft_loss(self, answer: Answer, wanted: Answer, question: Any, temperature: float) -> Tensor:
        """Against what another network says, summed over the targets."""
        ...

    def score(self, network: Network, draws: int) -> Score:
        """With its deviation, if the examples are to be drawn again."""
        ...

    def inputs(self, size: int) -> Inputs:
        """What a network is timed on: so many rows that it is scored on."""
        ...

    def list_samples(self, count: int) -> list[Sample]:
        """At most so many rows to learn from."""
        ...

    def save(self, folder: Path, network: Network, storage: Storage) -> None:
        """Into a folder that the caller owns, all that makes it a model."""
        ...
