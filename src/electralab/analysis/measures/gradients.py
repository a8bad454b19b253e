"""At which tokens the loss pulls: how long its gradient is at the vector that enters the network at each token.

AnalysisModel, batches -> GradientFlow -> pull at kinds of tokens, share of tokens reached, effective share
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from electralab.analysis.arrays import BoolArray, FloatArray, Indices, count_at, require_count
from electralab.analysis.finding import Finding, Resampler, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import masked_batches, run_pair, with_untrained_control
from electralab.errors import InputError
from electralab.model.electra import Discriminator, TokenModel, TwoTower
from electralab.model.encoder import FIRST_STATES, HiddenStates
from electralab.objective.corruption import CorruptedBatch
from electralab.objective.language_models import shift_targets
from electralab.objective.losses import lm_loss, rtd_loss
from electralab.objective.masking import MaskedBatch
from electralab.tokens.batches import Batch

# A token is reached where it is pulled at by this share of its row's mean, or more.
REACHED = 0.1


@dataclass(frozen=True, slots=True)
class GradientFlow:
    """Every token of some rows that is not padding. (N,) each"""

    grad_norms: FloatArray
    """|dL/dx| over the mean of the row: 1 everywhere where all tokens are pulled at alike, whatever the loss."""
    rows: Indices
    is_masked: BoolArray
    is_replaced: BoolArray

    @property
    def num_rows(self) -> int:
        return int(self.rows.max()) + 1 if len(self.rows) else 0

    @classmethod
    def concat(cls, flows: Sequence["GradientFlow"]) -> "GradientFlow":
        """One batch after the other; rows are counted on."""
        firsts = np.cumsum([0, *(flow.num_rows for flow in flows)])[:-1]
        return cls(
            np.concatenate([flow.grad_norms for flow in flows]),
            np.concatenate([flow.rows + first for flow, first in zip(flows, firsts, strict=True)]),
            np.concatenate([flow.is_masked for flow in flows]),
            np.concatenate([flow.is_replaced for flow in flows]),
        )


def rtd_gradients(
    discriminator: Discriminator, corrupted: CorruptedBatch, *, only_masked: bool = False
) -> GradientFlow:
    """Of replaced-token detection: every token has a loss, or masked ones only where it was trained so."""
    batch, trace = corrupted.masked.batch, HiddenStates()
    with torch.enable_grad():
        logits = discriminator(corrupted.input_ids, batch.segment_ids, batch.attention_pad, trace)
        loss = rtd_loss(logits, corrupted, only_masked=only_masked)
    is_masked = torch.zeros_like(batch.is_pad)
    is_masked.view(-1)[corrupted.masked.positions] = True
    return _read_flow(loss, trace, batch, is_masked, corrupted.is_replaced)


def lm_gradients(generator: TokenModel, masked: MaskedBatch) -> GradientFlow:
    """Of naming what is masked; of a causal network, which reads all, of predicting each next token."""
    if isinstance(generator, TwoTower):
        raise InputError("gradient flow: a two-tower generator reads each row twice; give a model with one encoder")
    batch, trace = masked.batch, HiddenStates()
    is_masked, nothing = torch.zeros_like(batch.is_pad), torch.zeros_like(batch.is_pad)
    if generator.config.is_causal:
        shifted = shift_targets(batch)
        input_ids, positions, target_ids = batch.original_ids, shifted.positions, shifted.target_ids
    else:
        input_ids, positions, target_ids = masked.input_ids, masked.positions, masked.target_ids
        is_masked.view(-1)[positions] = True
    with torch.enable_grad():
        logits = generator(input_ids, batch.segment_ids, batch.attention_pad, positions, hidden_states=trace)
        loss = lm_loss(logits, target_ids)
    return _read_flow(loss, trace, batch, is_masked, nothing)


def _read_flow(loss: Tensor, trace: HiddenStates, batch: Batch, is_masked: Tensor, is_replaced: Tensor) -> GradientFlow:
    # At the embeddings, the one place that every loss reaches through all layers.
    (gradient,) = torch.autograd.grad(loss, trace[FIRST_STATES])  # (B, T, D)
    is_token = ~batch.is_pad
    # In double: squares of small gradients vanish in single precision.
    norms = gradient.double().norm(dim=-1).masked_fill(batch.is_pad, 0.0)  # (B, T)
    means = norms.sum(dim=1, keepdim=True) / is_token.sum(dim=1, keepdim=True).clamp(min=1)
    if not bool((means > 0).all()):
        raise InputError("gradient flow: a row has no gradient, or none that is finite; see whether the model diverged")
    rows = torch.arange(len(norms), device=norms.device)[:, None].expand_as(norms)
    columns = (norms / means, rows, is_masked, is_replaced)
    return GradientFlow(*(column[is_token].cpu().numpy() for column in columns))


def flow_findings(flow: GradientFlow, draws: Resampler) -> Iterator[Finding]:
    """Over how much of a row the loss pulls, and how much at the kinds of tokens that there are.

    >>> flow = GradientFlow(np.array([1.5, 0.5] * 3), np.repeat(np.arange(3), 2), *[np.array([True, False] * 3)] * 2)
    >>> findings = flow_findings(flow, Resampler(np.random.default_rng(0)))
    >>> {finding.id: round(finding.estimate.value, 6) for finding in findings}
    {'effective_tokens': 0.8, 'tokens_reached': 1.0, 'pull_masked': 1.5, 'pull_unmasked': 0.5, 'pull_replaced': 1.5}
    """
    require_count("gradient flow", flow.num_rows, 2, "rows", flow.grad_norms)
    counts = count_at(flow.rows, flow.num_rows)
    # 1 where all T tokens of a row are pulled at alike, k/T where k are and the others not at all. The relative norms
    # of T tokens add up to T, so that (sum |g|)^2 / T is T.
    shares = counts / count_at(flow.rows, flow.num_rows, flow.grad_norms**2)
    meaning = "(sum |g|)² / (T sum |g|²) of a row: over how much of it the gradient is spread"
    estimate = draws.ratio(shares, np.ones_like(shares))
    yield Finding("effective_tokens", "effective tokens", "share", meaning, estimate)
    meaning = "tokens at which the gradient is a tenth of the row's mean or more"
    estimate = draws.ratio(count_at(flow.rows, flow.num_rows, flow.grad_norms >= REACHED), counts)
    yield Finding("tokens_reached", "tokens reached", "share", meaning, estimate)
    kinds = {
        "masked": (flow.is_masked, "at the tokens that were masked"),
        "unmasked": (~flow.is_masked, "at tokens that nobody touched"),
        "replaced": (flow.is_replaced, "at tokens that the generator replaced"),
        "restored": (flow.is_masked & ~flow.is_replaced, "at masked tokens that it guessed rightly"),
    }
    if not flow.is_replaced.any():  # nothing was put in the place of what is masked
        del kinds["replaced"], kinds["restored"]
    for kind, (is_selected, where) in kinds.items() if flow.is_masked.any() else ():
        if int(is_selected.sum()) > 1:
            sums = count_at(flow.rows, flow.num_rows, flow.grad_norms * is_selected)
            pull = draws.ratio(sums, count_at(flow.rows, flow.num_rows, is_selected))
            meaning = f"|dL/dx| {where}, over the row's mean"
            yield Finding(f"pull_{kind}", f"pull at {kind} tokens", "× mean", meaning, pull)


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """At which tokens does the loss pull?"""
    purpose = "gradient flow"
    if model.is_pair:
        with skip_on_error("effective_tokens", purpose) as skipped:
            # The rows of the untrained network are those that the trained generator corrupted.
            corrupted = [output.corrupted for output in run_pair(model, data, purpose)]

            def detect(network: AnalysisModel) -> Iterator[Finding]:
                discriminator, only_masked = network.require_discriminator(purpose), model.kind == "electra-15"
                flows = [rtd_gradients(discriminator, batch, only_masked=only_masked) for batch in corrupted]
                return flow_findings(GradientFlow.concat(flows), data.settings.resampler("gradients"))

            yield from with_untrained_control(model, data, detect)
        yield from skipped
    # Of a pair, naming tokens is what the second network is trained by.
    prefix, suffix = ("generator_", ", generator") if model.is_pair else ("", "")
    with skip_on_error(f"{prefix}effective_tokens", f"{purpose}{suffix}") as skipped:
        batches = list(masked_batches(model, data))

        def guess(network: AnalysisModel) -> Iterator[Finding]:
            generator = network.require_generator(purpose)
            flow = GradientFlow.concat([lm_gradients(generator, masked) for masked in batches])
            for finding in flow_findings(flow, data.settings.resampler("gradients")):
                yield replace(finding, id=f"{prefix}{finding.id}", name=f"{finding.name}{suffix}")

        yield from with_untrained_control(model, data, guess)
    yield from skipped


MEASURE = Measure("M31", "gradient flow", measure)
