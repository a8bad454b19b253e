"""What a pre-training step consists of: the step's rows, masked, tried on both networks, weighed.

step -> parts of its loss
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from electralab.model.electra import Electra
from electralab.model.flops import step_flops
from electralab.model.settings import derive_encoders
from electralab.objective.electra import count_targets, hold_trial, mask_vocabulary, sampling_prohibition
from electralab.objective.losses import Targets
from electralab.objective.masking import MaskedBatch, mask_tokens
from electralab.objective.verdicts import Verdicts, join_verdicts, read_verdicts
from electralab.pretraining.heldout import HeldoutScores, diagnose, judge_heldout
from electralab.pretraining.settings import PretrainConfig
from electralab.randomness import Rng
from electralab.runtime import autocast
from electralab.tokens.batches import Batch, batch_at, heldout_batches
from electralab.tokens.shards import PreparedData
from electralab.training.metrics import Record
from electralab.training.session import Judgement

# Held-out rows are masked as if at this step, which training never reaches.
_HELDOUT_STEP = -1


@dataclass(slots=True)
class StepTally:
    """What a finished step was about, for the log."""

    targets: Targets
    generator_loss: float
    discriminator_loss: float
    verdicts: list[Verdicts]


class PretrainTask:
    def __init__(
        self, model: Electra, data: PreparedData, config: PretrainConfig, total_steps: int, device: torch.device
    ) -> None:
        self.model = model
        self.data = data
        self.config = config
        self.device = device
        self.total_steps = total_steps
        self._flops = flops_per_step(config, data)
        self.prohibition = sampling_prohibition(data.tokenizer, device)
        self._vocabulary = mask_vocabulary(data.tokenizer)
        self._micro_size = config.batch.micro_size or config.batch.size
        self.tally = StepTally(Targets(0, 0), 0.0, 0.0, [])

    def parts(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches, each as its share of the step's loss; the tally is complete after the last."""
        rng = Rng(self.config.seed, step)
        batch = batch_at(self.data, step, batch_size=self.config.batch.size, seed=self.config.seed)
        share = self.config.masking.share_at((step - 1) / self.total_steps)
        masked_parts = [self._mask(micro, share, rng) for micro in batch.split(self._micro_size)]
        targets = count_targets(masked_parts)
        self.tally = StepTally(targets, 0.0, 0.0, [])
        for number, masked in enumerate(masked_parts):
            torch.manual_seed(rng.torch_seed("dropout", number))
            with autocast(self.device, self.config.runtime.precision):
                trial = hold_trial(self.model, masked, self.prohibition, self.config.sampling)
            yield trial.losses.weigh(targets, self.config.loss)
            self.tally.generator_loss += trial.losses.generator_sum.item() / max(targets.generator, 1)
            self.tally.discriminator_loss += trial.losses.discriminator_sum.item() / max(targets.discriminator, 1)
            self.tally.verdicts.append(read_verdicts(trial))

    def count_tokens(self) -> int:
        return self.tally.targets.discriminator

    def count_flops(self) -> int:
        return self._flops

    def describe(self) -> Record:
        verdicts = join_verdicts(self.tally.verdicts)
        return {
            "generator_loss": self.tally.generator_loss,
            "discriminator_loss": self.tally.discriminator_loss,
            "auc": verdicts.auc,
            "recall": verdicts.recall,
            "replaced_share": verdicts.replaced_share,
        }

    def judge(self, step: int) -> Judgement:
        scores = self.judge_heldout()
        record = {f"heldout_{name}": value for name, value in asdict(scores).items()}
        return Judgement(record, diagnose(scores, step / self.total_steps))

    def judge_heldout(self) -> HeldoutScores:
        return judge_heldout(self.model, self.heldout(), self.prohibition, self.config.sampling)

    def heldout(self) -> list[MaskedBatch]:
        """The held-out rows, or training rows where none are held out, with masks that never change."""
        rows = self.data.heldout if len(self.data.heldout) else self.data.train
        batches = heldout_batches(self.data, rows, limit=self.config.evaluation.rows, batch_size=self._micro_size)
        rng = Rng(self.config.seed, _HELDOUT_STEP)
        return [self._mask(batch, self.config.masking.mask_share, rng) for batch in batches]

    def _mask(self, batch: Batch, share: float, rng: Rng) -> MaskedBatch:
        return mask_tokens(batch, self._vocabulary, self.config.masking, share, rng).to(self.device)


def flops_per_step(config: PretrainConfig, data: PreparedData) -> int:
    """By our convention: matrix products only, backward twice the forward."""
    generator, discriminator = derive_encoders(
        config.model, config.generator, vocab_size=data.tokenizer.vocab_size, sequence_length=data.sequence_length
    )
    ordinary = data.sequence_length - 2
    masked = config.batch.size * max(1, round(config.masking.mask_share * ordinary))
    return step_flops(generator, discriminator, config.batch.size, data.sequence_length, masked)
