"""Does the exported network answer like the one it was made of?

two networks, rows -> Fidelity
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.errors import ElectraError
from electralab.exporting.graphs import Exportable
from electralab.model.electra import Generator
from electralab.model.tuned import SpanLogits, Tuned

Row = NDArray[np.int64]

# Rows that go through the networks together: few enough that long ones fit, and padding is tried as well.
_BATCH = 8
_GUESSED = 4


@dataclass(frozen=True, slots=True)
class Fidelity:
    rows: int
    answers: int
    """Tokens, masked tokens or texts that both were asked about."""
    largest_difference: float
    """Of two logits."""
    mean_probability_difference: float
    largest_probability_difference: float
    agreement: float
    """The share of the answers whose likeliest class, or verdict at one half, is the same."""


def compare_networks(ours: Exportable, theirs: Exportable, rows: Sequence[Row], pad_id: int, mask_id: int) -> Fidelity:
    differences, chances, agreements = [], [], []
    for batch in _batch(rows, pad_id, mask_id, is_guessing=isinstance(ours, Generator)):
        first, second = _answer(ours, batch), _answer(theirs, batch)  # (N, C) each
        differences.append((first - second).abs().max())
        one, other = _to_chances(first), _to_chances(second)
        chances.append((one - other).abs().amax(dim=-1))  # (N,)
        agreements.append((one > 0.5) == (other > 0.5) if one.shape[1] == 1 else one.argmax(-1) == other.argmax(-1))
    shifts, same = torch.cat(chances), torch.cat([part.flatten() for part in agreements])
    return Fidelity(
        rows=len(rows),
        answers=len(shifts),
        largest_difference=float(torch.stack(differences).max()),
        mean_probability_difference=float(shifts.mean()),
        largest_probability_difference=float(shifts.max()),
        agreement=float(same.double().mean()),
    )


def require_equal(fidelity: Fidelity, limit: float, where: str) -> None:
    if not fidelity.largest_difference <= limit:
        raise ElectraError(
            f"{where}: the exported network's answers differ by {fidelity.largest_difference:.2g} from those of the "
            f"model, more than {limit:g}; nothing was written, report this with the model's config.json"
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    input_ids: Tensor  # (B, T)
    is_pad: Tensor | None
    positions: Tensor
    """(M,) flat: which guesses are asked for."""


def _batch(rows: Sequence[Row], pad_id: int, mask_id: int, *, is_guessing: bool) -> Iterator[_Batch]:
    for start in range(0, len(rows), _BATCH):
        chosen = rows[start : start + _BATCH]
        ids = np.full((len(chosen), max(map(len, chosen))), pad_id, dtype=np.int64)
        positions = []
        for place, row in enumerate(chosen):
            ids[place, : len(row)] = row
            # Never the first token: a causal network guesses nothing there.
            columns = np.unique(np.linspace(1, len(row) - 1, min(_GUESSED, len(row) - 1)).astype(np.int64))
            positions += [place * ids.shape[1] + int(column) for column in columns]
            if is_guessing:
                ids[place, columns] = mask_id
        lengths = torch.tensor([len(row) for row in chosen])
        is_pad = torch.arange(ids.shape[1]) >= lengths[:, None]
        yield _Batch(torch.from_numpy(ids), is_pad if is_pad.any() else None, torch.tensor(positions))


@torch.inference_mode()
def _answer(network: Exportable, batch: _Batch) -> Tensor:
    """The logits of every answer, padding left out. (N, C)"""
    segments = torch.zeros_like(batch.input_ids)
    if isinstance(network, Generator):
        guesses: Tensor = network(batch.input_ids, segments, batch.is_pad, batch.positions)
        return guesses
    said = network(batch.input_ids, segments, batch.is_pad)
    is_token = torch.ones_like(batch.input_ids, dtype=torch.bool) if batch.is_pad is None else ~batch.is_pad
    if isinstance(said, SpanLogits):
        spans = torch.cat([said.start[is_token], said.end[is_token]])
        extra = [] if said.answerable is None else [said.answerable]
        return torch.cat([spans, *extra])[:, None]
    assert isinstance(said, Tensor)
    if isinstance(network, Tuned) and network.head_config.is_pooled:
        return said
    tokens = said[is_token]
    return tokens if tokens.ndim == 2 else tokens[:, None]


def _to_chances(logits: Tensor) -> Tensor:
    return logits.double().sigmoid() if logits.shape[1] == 1 else logits.double().softmax(dim=-1)
