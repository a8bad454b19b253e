"""Where in a row the loss pulls: how long its gradient is at the vector that enters the network at each token.

network, batch -> Flow -> pull, reached share, effective share
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electralab.analysis.finding import (
    TIMES,
    Estimate,
    Flags,
    Floats,
    Places,
    bootstrap_estimate,
    require,
    require_finite,
    tally,
)
from electralab.errors import InputError
from electralab.model.electra import Discriminator, Guesser
from electralab.model.encoder import Trace
from electralab.model.towers import TwoTower
from electralab.objective.causal import ask_next
from electralab.objective.corruption import CorruptedBatch
from electralab.objective.losses import guess_loss, verdict_loss
from electralab.objective.masking import MaskedBatch
from electralab.tokens.batches import Batch

REACHED = 0.1
"""A token is reached where it is pulled at by this share of its row's mean, or more."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Every token of some rows that is not padding. (N,) each"""

    pulls: Floats
    """|dL/dx| over the mean of the row: 1 everywhere where all tokens are pulled at alike, whatever the loss."""
    rows: Places
    is_masked: Flags
    is_replaced: Flags
    has_loss: Flags

    @property
    def row_count(self) -> int:
        return int(self.rows.max()) + 1 if len(self.rows) else 0


def trace_verdicts(discriminator: Discriminator, corrupted: CorruptedBatch, *, only_masked: bool = False) -> Flow:
    """Of replaced-token detection: every token has a loss, or masked ones only where it was taught so."""
    masked = corrupted.masked
    batch, trace = masked.batch, Trace()
    with torch.enable_grad():
        verdicts = discriminator(corrupted.input_ids, batch.segment_ids, batch.attention_pad, trace)
        loss = verdict_loss(verdicts, corrupted, only_masked=only_masked)
    is_masked = _mark(masked.positions, batch)
    has_loss = is_masked if only_masked else torch.ones_like(is_masked)
    return _read_flow(loss, trace, batch, is_masked, corrupted.is_replaced, has_loss)


def trace_guesses(generator: Guesser, masked: MaskedBatch) -> Flow:
    """Of naming what is hidden: masked tokens alone have a loss. Of a causal network, which reads all and guesses
    each next token, a token has a loss where a guess is made from it."""
    if isinstance(generator, TwoTower):
        raise InputError("gradient flow: a two-tower generator reads each row twice; give a model with one encoder")
    batch, trace = masked.batch, Trace()
    nothing = torch.zeros_like(batch.is_pad)
    if generator.config.is_causal:
        asked = ask_next(batch)
        input_ids, positions, target_ids = batch.original_ids, asked.positions, asked.target_ids
        is_masked, has_loss = nothing, _mark(positions - 1, batch)
    else:
        input_ids, positions, target_ids = masked.input_ids, masked.positions, masked.target_ids
        is_masked = has_loss = _mark(positions, batch)
    with torch.enable_grad():
        guesses = generator(input_ids, batch.segment_ids, batch.attention_pad, positions, trace=trace)
        loss = guess_loss(guesses, target_ids)
    return _read_flow(loss, trace, batch, is_masked, nothing, has_loss)


def _mark(positions: Tensor, batch: Batch) -> Tensor:
    """(M,) flat positions -> (B, T) True there"""
    return torch.zeros_like(batch.is_pad).flatten().index_fill(0, positions, True).view_as(batch.is_pad)


def _read_flow(
    loss: Tensor, trace: Trace, batch: Batch, is_masked: Tensor, is_replaced: Tensor, has_loss: Tensor
) -> Flow:
    (gradient,) = torch.autograd.grad(loss, trace["embeddings"])  # (B, T, D)
    is_token = ~batch.is_pad
    norms = gradient.double().norm(dim=-1).masked_fill(batch.is_pad, 0.0)  # (B, T)
    means = norms.sum(dim=1, keepdim=True) / is_token.sum(dim=1, keepdim=True).clamp(min=1)
    if not bool((means > 0).all()):
        raise InputError("gradient flow: a row has no gradient, or none that is finite; see whether the model diverged")

    def select(values: Tensor) -> np.ndarray:
        return values[is_token].cpu().numpy()

    rows = torch.arange(len(norms), device=norms.device)[:, None].expand_as(norms)
    return Flow(select(norms / means), select(rows), select(is_masked), select(is_replaced), select(has_loss))


def join_flows(flows: Sequence[Flow]) -> Flow:
    """Of one batch after the other; rows are counted on."""
    firsts = np.cumsum([0, *(flow.row_count for flow in flows)])[:-1]
    return Flow(
        np.concatenate([flow.pulls for flow in flows]),
        np.concatenate([flow.rows + first for flow, first in zip(flows, firsts, strict=True)]),
        *(np.concatenate([getattr(flow, name) for flow in flows]) for name in ("is_masked", "is_replaced", "has_loss")),
    )


def measure_pull(flow: Flow, is_asked: Flags, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """The mean pull at the tokens asked about, 1 being that of the average token."""
    require("gradient flow", int(is_asked.sum()), 2, "tokens of the kind asked about")
    sums, counts = (tally(flow.rows, flow.row_count, weights) for weights in (flow.pulls * is_asked, is_asked))
    return _average_rows(flow, sums, counts, rng, times)


def measure_reached(flow: Flow, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """The share of tokens that the loss pulls at by at least a tenth of the row's mean."""
    sums, counts = tally(flow.rows, flow.row_count, flow.pulls >= REACHED), tally(flow.rows, flow.row_count)
    return _average_rows(flow, sums, counts, rng, times)


def measure_effective(flow: Flow, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """Over how many tokens the pull is spread, as a share of the row: (sum |g|)^2 / (T sum |g|^2), the mean over rows.

    1 where all are pulled at alike, k/T where k of T are and the others not at all.
    """
    counts = tally(flow.rows, flow.row_count)
    shares = counts / tally(flow.rows, flow.row_count, flow.pulls**2)  # the pulls of T tokens add up to T
    return _average_rows(flow, shares, np.ones_like(shares), rng, times)


def _average_rows(flow: Flow, sums: Floats, counts: Floats, rng: np.random.Generator, times: int) -> Estimate:
    require("gradient flow", flow.row_count, 2, "rows")
    require_finite("gradient flow", flow.pulls)

    def average(places: Places) -> float:
        count = float(counts[places].sum())
        return float(sums[places].sum()) / count if count else float("nan")

    return bootstrap_estimate(average, len(sums), times, rng)
