"""What a pre-training step consists of: the step's rows, asked about, answered, weighed.

step -> parts of its loss
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from electralab.errors import UsageError
from electralab.objective.examples import Row
from electralab.objective.losses import Counts, add_counts
from electralab.objective.metrics import BatchMetrics, loss_metrics
from electralab.objective.objective import Objective, StepInfo
from electralab.objective.procedures import discriminator_progress, step_in_stage
from electralab.pretraining.balance import diagnose, drop_numbers
from electralab.pretraining.heldout import exhibit_heldout, judge_heldout, measure_baselines
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.state import update_flops
from electralab.randomness import Rng
from electralab.runtime import autocast
from electralab.tokens.batches import batch_at, heldout_batches
from electralab.tokens.shards import PreparedData
from electralab.training.metrics import Record
from electralab.training.schedule import learning_rate_factor
from electralab.training.session import Judgement

# Held-out rows are masked as if at this step, which training never reaches.
_HELDOUT_STEP = -1
_EXHIBITED_ROWS = 8
_SAMPLED_RATES = 200
# In the record of a step: what was told about it for the first time.
WARNINGS = "warnings"


@dataclass(slots=True)
class StepTally:
    """What a finished step was about, for the log."""

    tokens: int
    flops: int
    observation: BatchMetrics


class PretrainTask:
    def __init__(
        self,
        objective: Objective[Any],
        data: PreparedData,
        config: PretrainConfig,
        total_steps: int,
        device: torch.device,
    ) -> None:
        self.objective = objective
        self.data = data
        self.config = config
        self.device = device
        self.total_steps = total_steps
        if config.batch.halved_share and (data.packing != "contiguous" or data.sequence_length % 2):
            raise UsageError(
                f"batch.halved_share: {data.path} has rows of {data.sequence_length} tokens packed as {data.packing}, "
                "which cannot be read as two halves; leave it at 0, or prepare contiguous rows of an even length"
            )
        self._micro_size = config.batch.micro_size or config.batch.size
        self.tally = StepTally(0, 0, BatchMetrics())
        self.exhibited: list[Row] = []
        """Of the last judgement, inside which a stop loses nothing."""
        self.told: set[str] = set()
        """Warnings of the run so far, without their numbers: each is told once."""

    def parts(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches, each as its share of the step's loss; the tally is complete after the last."""
        rng = Rng(self.config.seed, step)
        moment = StepInfo(step, self.total_steps)
        rows = self.config.batch
        batch = batch_at(
            self.data,
            rows.rows_before(step, self.total_steps),
            rows.rows_at(step, self.total_steps),
            seed=self.config.seed,
            is_halved=rows.is_halved(step, self.total_steps),
        )
        share = self.config.masking.share_at(moment.progress)
        self.objective.begin(moment)
        questions = self.objective.pose(batch, self._micro_size, share, rng)
        counts = add_counts(self.objective.count_targets(question) for question in questions)
        tokens = sum(self.objective.count_tokens(question) for question in questions)
        flops = flops_at(self.objective, self.config, self.data, moment)
        self.tally = StepTally(tokens, flops, BatchMetrics())
        for number, question in enumerate(questions):
            torch.manual_seed(rng.torch_seed("dropout", number))
            with autocast(self.device, self.config.runtime.precision):
                answer = self.objective.answer(question.to(self.device), moment)
            yield answer.losses.weigh(counts, self.objective.weights)
            self.tally.observation += answer.observation + loss_metrics(answer.losses, _own(counts, number))

    def rate_at(self, step: int) -> float:
        """The factor of the learning rate: every stage has a whole schedule, as if it were a run of its own."""
        place = step_in_stage(self.config.procedure, StepInfo(step, self.total_steps))
        return learning_rate_factor(place.step, place.total_steps, self.config.schedule.at_length(place.total_steps))

    def count_tokens(self) -> int:
        return self.tally.tokens

    def count_flops(self) -> int:
        return self.tally.flops

    def describe(self) -> Record:
        return self.tally.observation.describe("auc", "recall", "replaced_share")

    def judge(self, record: Record) -> Judgement:
        scores, self.exhibited = self.judge_heldout(), self.exhibit()
        progress = discriminator_progress(self.config.procedure, record["step"] / self.total_steps)
        advice = diagnose(
            scores,
            progress,
            baselines=self._frequencies,
            record=record,
            config=self.config,
            highest_rate=self.highest_rate(record["step"]),
        )
        fresh = [text for text in advice if drop_numbers(text) not in self.told]
        judged = {f"heldout_{name}": value for name, value in scores.items()}
        return Judgement(judged | ({WARNINGS: fresh} if fresh else {}), fresh)

    def highest_rate(self, step: int) -> float:
        """The highest learning rate up to a step; of a long run, of steps spread over it."""
        steps = range(1, step + 1, max(1, step // _SAMPLED_RATES))
        return self.config.optimizer.learning_rate * max(map(self.rate_at, (*steps, step)))

    @cached_property
    def _frequencies(self) -> Record:
        return measure_baselines(self.data, self.objective, self.heldout(), {})

    def judge_heldout(self) -> Record:
        return judge_heldout(self.objective, self.heldout())

    def exhibit(self) -> list[Row]:
        """A few held-out rows, to be looked at."""
        return exhibit_heldout(self.objective, self.heldout(_EXHIBITED_ROWS), self.data.tokenizer)

    def heldout(self, limit: int = 0) -> Sequence[Any]:
        """Questions about held-out rows, or training rows where none are held out, that never change.

        As many rows as the settings say, or `limit`.
        """
        limit = limit or self.config.evaluation.rows
        rows = self.data.heldout if len(self.data.heldout) else self.data.train
        (batch,) = heldout_batches(self.data, rows, limit=limit, batch_size=len(rows))
        questions = self.objective.pose(
            batch, self._micro_size, self.config.masking.mask_share, Rng(self.config.seed, _HELDOUT_STEP)
        )
        return [question.to(self.device) for question in questions]


def _own(counts: Counts, number: int) -> Counts:
    """The whole step's count goes with its first part, so that the parts' sums add up to the step's mean."""
    return counts if number == 0 else dict.fromkeys(counts, 0)


def flops_at(objective: Objective[Any], config: PretrainConfig, data: PreparedData, moment: StepInfo) -> int:
    """Forward, backward and update."""
    share = config.masking.share_at(moment.progress)
    update = update_flops(objective.networks, config.optimizer)
    rows, length = config.batch.rows_at(moment.step, moment.total_steps), data.sequence_length
    if config.batch.is_halved(moment.step, moment.total_steps):
        rows, length = 2 * rows, length // 2
    return objective.count_flops(moment, rows, length, share) + update


def mean_step_flops(objective: Objective[Any], config: PretrainConfig, data: PreparedData) -> float:
    """Over a run: mask share and rows may change along it, and some procedures have steps of different kinds."""
    options = config.procedure_options
    count = 100 * (options.discriminator_updates + options.generator_updates)
    steps = [flops_at(objective, config, data, StepInfo(step, count)) for step in range(1, count + 1)]
    return reduce(add, steps) / count
