"""What a model is compressed for: rows with a loss to learn from, rows to be scored on, rows to be timed on.

network, rows -> logits, losses, VariantScore
"""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from electralab.exporting.samples import Sample
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import Role, Storage
from electralab.model.task_model import SpanLogits, TaskModel
from electralab.records.compression import VariantScore
from electralab.tokens.tokenizer import Tokenizer

Network = Discriminator | TaskModel
Logits = Tensor | SpanLogits
Indices = NDArray[np.int64]
NetworkInputs = tuple[Tensor, Tensor, Tensor | None]


def evenly_spaced(count: int, limit: int) -> Indices:
    """At most `limit` indices, evenly over all `count`.

    >>> evenly_spaced(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, count - 1, min(limit, count)).astype(np.int64))


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
    def data_hash(self) -> str:
        """The same for the same rows."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the rows."""
        ...

    @property
    def lengths(self) -> Indices:
        """In tokens, of every row to learn from."""
        ...

    def make_inputs(self, rows: Indices, step: int) -> Any:
        """A batch of rows to learn from; what is random in it is a pure function of the step."""
        ...

    def forward(self, network: Network, inputs: Any) -> Logits: ...

    def count_targets(self, inputs: Any) -> int: ...

    def loss(self, logits: Logits, inputs: Any) -> Tensor:
        """Against the truth, summed over the targets."""
        ...

    def distillation_loss(self, logits: Logits, teacher_logits: Logits, inputs: Any, temperature: float) -> Tensor:
        """Against what another network says, summed over the targets."""
        ...

    def score(self, network: Network, draws: int) -> VariantScore:
        """With its deviation, if the examples are to be drawn again."""
        ...

    def timing_inputs(self, size: int) -> NetworkInputs:
        """So many of the rows that a network is scored on."""
        ...

    def list_samples(self, count: int) -> list[Sample]:
        """At most so many rows to learn from."""
        ...

    def save(self, folder: Path, network: Network, storage: Storage) -> None:
        """Into a folder that the caller owns, all that makes it a model."""
        ...
