"""What every kind of pre-training has in common: a batch becomes inputs, a forward pass gives losses and metrics.

Batch -> TokenInputs... -> ObjectiveOutput

One file for each family of named objectives; `registry.py` is the table of their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import nn

from electralab.model.electra import CopyMLM, Discriminator, Generator, TwoStream, TwoTower
from electralab.objective.losses import Counts, Losses
from electralab.objective.masking import TokenInputs, mask_tokens, mask_vocabulary
from electralab.objective.metrics import BatchMetrics, ExampleRows
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer

# How many predictions of a micro-batch the metrics of a logged step are computed from.
METRICS_SAMPLE = 64

Network = Generator | Discriminator | TwoTower | TwoStream | CopyMLM
Inputs = TypeVar("Inputs", bound=TokenInputs)


@dataclass(frozen=True, slots=True)
class StepInfo:
    """Where in a run a step is; steps count from 1."""

    step: int
    total_steps: int
    """As planned: what changes along the run is laid out over them."""
    span: tuple[float, float] | None = None
    """How many of the planned steps are done before and after it, if the run has another length than planned."""

    @property
    def begin(self) -> float:
        return self.step - 1 if self.span is None else self.span[0]

    @property
    def end(self) -> float:
        return self.step if self.span is None else self.span[1]

    @property
    def progress(self) -> float:
        return self.begin / self.total_steps


@dataclass(frozen=True, slots=True)
class ObjectiveOutput:
    losses: Losses
    metrics: BatchMetrics


class Objective(Generic[Inputs]):
    """The base of all objectives. A new one says how inputs are made, what is learned from them, and what it costs."""

    networks: nn.Module
    """All that learns; its children are named for what they are: discriminator, generator, model."""
    weights: Mapping[str, float]
    """The weight of each loss by its name, in what is minimised."""
    lm_loss_name: str
    """The loss that is a cross-entropy of predicted tokens, for which token frequencies alone give a baseline."""
    num_negatives = 0
    """How many tokens that were not there are sampled at every masked position."""

    def __init__(self, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self.config, self.vocabulary = config, mask_vocabulary(tokenizer)

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[Inputs]:
        """A step's rows, at most `micro_size` in each of the inputs, on the CPU."""
        return [self.make_micro_inputs(micro, mask_share, rng) for micro in batch.split(micro_size)]

    def make_micro_inputs(self, batch: Batch, mask_share: float, rng: Rng) -> Inputs:
        """Most objectives mask; one with other inputs says how they are made."""
        masking = self.config.masking
        masked: Any = mask_tokens(batch, self.vocabulary, masking, mask_share, rng, self.num_negatives)
        return masked  # type: ignore[no-any-return]

    def count_targets(self, inputs: Inputs) -> Counts:
        raise NotImplementedError

    def on_step_start(self, step: StepInfo) -> None:
        """Called before a step's first inputs; doing it twice changes nothing. Most objectives have nothing to do."""

    def compute(self, inputs: Inputs, progress: float, sample: int | None) -> ObjectiveOutput:
        """Forward at this progress of the run. Metrics that cost much are those of the first `sample` predictions; of
        all, and with those that only an evaluation can afford, where `sample` is None."""
        raise NotImplementedError

    def training_step(self, inputs: Inputs, step: StepInfo) -> ObjectiveOutput:
        """Forward, to learn from: without the loss of a network that has nothing to learn."""
        output = self.compute(inputs, step.progress, METRICS_SAMPLE)
        return ObjectiveOutput(output.losses.learnable, output.metrics)

    def evaluation_step(self, inputs: Inputs) -> ObjectiveOutput:
        """Forward, to evaluate all networks by, wherever in the run."""
        return self.compute(inputs, 0.0, None)

    def examples(self, inputs: Inputs) -> ExampleRows | None:
        """Rows with what was predicted of them, to be looked at; None where nothing is hidden."""
        raise NotImplementedError

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        """The cost of one step by our convention: matrix products only, backward twice the forward."""
        raise NotImplementedError

    def exports(self) -> Mapping[str, Network]:
        """The networks that a finished run leaves, by the names of their folders."""
        raise NotImplementedError
