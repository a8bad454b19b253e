"""A model at work on the rows of an analysis, masked at the same positions with the same uniforms for every model.

AnalysisModel, AnalysisData -> MaskedBatch..., ElectraOutput... -> PairOutputs
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F

from electralab.analysis.arrays import BoolArray, FloatArray, IntArray
from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Finding
from electralab.analysis.model import AnalysisModel, reinitialise
from electralab.errors import InputError
from electralab.evaluation.heldout import HeldoutConfig, mask_rows
from electralab.model.electra import Electra
from electralab.objective.corruption import SamplingConfig, special_token_bias
from electralab.objective.electra import ElectraOutput, electra_forward, generator_forward
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import RtdScores

UNTRAINED = "the same network before training, on the same rows"


def masked_batches(model: AnalysisModel, data: AnalysisData) -> list[MaskedBatch]:
    config = HeldoutConfig(mask_share=data.settings.mask_share)
    return mask_rows(data.read_rows(model), model.tokenizer, config, data.conditions)


def run_pair(model: AnalysisModel, data: AnalysisData, purpose: str) -> Iterator[ElectraOutput]:
    """Each batch through the model's own generator and discriminator."""
    discriminator, generator = model.require_discriminator(purpose), model.require_generator(purpose)
    # "none": sharing was settled when the networks were loaded; both are whole.
    pair = Electra(generator, discriminator, "none").eval()
    prohibition = special_token_bias(model.tokenizer, model.device, generator.config.vocab_size)
    for masked in masked_batches(model, data):
        data.conditions.check()
        with torch.no_grad():
            yield electra_forward(pair, masked, prohibition, SamplingConfig())


@dataclass(frozen=True, slots=True)
class LmLosses:
    """What naming masked tokens costs a generator. (M,) each"""

    losses: FloatArray  # nats
    target_ids: IntArray
    rows: IntArray


def mlm_losses(model: AnalysisModel, data: AnalysisData, purpose: str) -> LmLosses:
    generator = model.require_generator(purpose)
    parts = []
    for masked in masked_batches(model, data):
        data.conditions.check()
        with torch.inference_mode():
            logits = generator_forward(generator, masked)
        losses = F.cross_entropy(logits.float(), masked.target_ids, reduction="none")
        parts.append((losses.double().cpu().numpy(), masked.target_ids.cpu().numpy(), target_rows(masked)))
    if not parts:
        raise InputError(f"{data.data}: holds no row to ask about; give more text")
    return LmLosses(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def target_rows(masked: MaskedBatch) -> IntArray:
    """(M,) the row number of each masked position."""
    return np.asarray(masked.batch.row_numbers[masked.positions.cpu().numpy() // masked.input_ids.shape[1]])


@dataclass(frozen=True, slots=True)
class PairOutputs:
    """All ordinary tokens (N,), and all masked ones (M,); [CLS] and [SEP], never replaced, would flatter the
    discriminator."""

    rows: IntArray  # (N,)
    logits: FloatArray  # (N,) of the discriminator, above 0 means "replaced"
    is_replaced: BoolArray  # (N,)
    is_masked: BoolArray  # (N,)
    confidences: FloatArray  # (N,) ln p_G of a replacement, NaN of other tokens
    target_rows: IntArray  # (M,)
    is_hit: BoolArray  # (M,) whether the likeliest token is the original
    entropies: FloatArray  # (M,) nats
    losses: FloatArray  # (M,) nats
    target_ids: IntArray  # (M,)

    @property
    def rtd_scores(self) -> RtdScores:
        return RtdScores(self.logits.astype(np.float32), self.is_replaced)

    @classmethod
    @torch.no_grad()
    def from_batch(cls, trial: ElectraOutput) -> "PairOutputs":
        masked, corrupted = trial.masked, trial.corrupted
        log_probs = torch.log_softmax(trial.generator_logits.float(), dim=-1)  # (M, V)
        # A probability of 0 has no logarithm, and 0 times minus infinity is no number.
        entropies = -(log_probs.exp() * log_probs.clamp(min=-1e4)).sum(dim=-1)
        drawn = log_probs.gather(1, corrupted.input_ids.flatten()[masked.positions][:, None]).squeeze(1)
        is_new = corrupted.is_replaced.flatten()[masked.positions]
        confidences = torch.full(corrupted.is_replaced.shape, torch.nan, device=drawn.device).flatten()
        confidences[masked.positions] = torch.where(is_new, drawn, torch.nan)
        is_masked = torch.zeros_like(corrupted.is_replaced).flatten().index_fill(0, masked.positions, True)
        is_ordinary = masked.batch.is_ordinary.cpu().numpy().ravel()
        return cls(
            np.repeat(masked.batch.row_numbers, masked.input_ids.shape[1])[is_ordinary],
            trial.discriminator_logits.float().flatten().double().cpu().numpy()[is_ordinary],
            corrupted.is_replaced.flatten().cpu().numpy()[is_ordinary],
            is_masked.cpu().numpy()[is_ordinary],
            confidences.double().cpu().numpy()[is_ordinary],
            target_rows(masked),
            (trial.generator_logits.argmax(dim=-1) == masked.target_ids).cpu().numpy(),
            entropies.double().cpu().numpy(),
            -log_probs.gather(1, masked.target_ids[:, None]).squeeze(1).double().cpu().numpy(),
            masked.target_ids.cpu().numpy(),
        )

    @classmethod
    def concat(cls, parts: Iterable["PairOutputs"]) -> "PairOutputs":
        batches = list(parts)
        return cls(*(np.concatenate([getattr(batch, field.name) for batch in batches]) for field in fields(cls)))


def with_untrained_control(
    model: AnalysisModel, data: AnalysisData, compute: Callable[[AnalysisModel], Iterable[Finding]]
) -> Iterator[Finding]:
    """Each finding with that of the untrained network as its control; an untrained one has none."""
    # The model first, whole: its control may fail only where it did not.
    findings = list(compute(model))
    is_alone = model.control_of is not None or not data.settings.untrained
    untrained = () if is_alone else compute(reinitialise(model, data.settings.seed))
    controls = {(finding.id, finding.layer): finding.estimate for finding in untrained}
    for finding in findings:
        control = controls.get((finding.id, finding.layer))
        yield replace(finding, control=control, control_meaning=UNTRAINED if control else "")
