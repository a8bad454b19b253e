"""Which tokens the generator must predict, and what it sees in their place.

Batch -> MaskedBatch
"""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from electralab.config import Alias, Settings
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer

# Shares of the selected positions shown as [MASK], as they are, and as a random token.
APPEARANCES: dict[str, tuple[float, float, float]] = {
    "mask": (1.0, 0.0, 0.0),
    "mask-keep": (0.85, 0.15, 0.0),
    "mask-keep-random": (0.8, 0.1, 0.1),
}

# SpanBERT's: lengths 1 to 10, each less likely by a fifth than the one before; 3.8 on average.
_SPAN_STOP = 0.2
_LONGEST_SPAN = 10

# Masks that never change are drawn as if at this step, which training never reaches.
_FIXED_STEP = 0

Flags = NDArray[np.bool_]


class MaskingConfig(Settings):
    mask_share: float = Field(0.15, gt=0, lt=1)
    final_mask_share: float | None = Field(None, gt=0, lt=1)
    """Where the mask share ends, linearly over the run; unset means that it stays."""
    selection: Literal["fixed", "bernoulli"] = "fixed"
    unit: Literal["token", "word", "span"] = "token"
    """What is hidden together: single tokens, all pieces of a word, or runs of one to ten tokens."""
    appearance: Literal["mask", "mask-keep", "mask-keep-random"] = "mask"
    fixed_masks: Annotated[bool, Alias("static_masks")] = False
    """A row is masked in the same way whenever it comes, as in BERT."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.selection == "bernoulli" and self.unit != "token":
            raise ValueError(
                f"selection 'bernoulli' draws every token by itself and cannot hide a {self.unit}; "
                f"set unit to 'token' or selection to 'fixed'"
            )
        if self.fixed_masks and self.final_mask_share not in (None, self.mask_share):
            raise ValueError("fixed_masks cannot follow a changing mask share; unset fixed_masks or final_mask_share")
        return self

    def share_at(self, progress: float) -> float:
        final = self.mask_share if self.final_mask_share is None else self.final_mask_share
        return self.mask_share + (final - self.mask_share) * progress


@dataclass(frozen=True, slots=True)
class TokenInputs:
    """What a network reads, and the tokens that it is to predict."""

    batch: Batch
    input_ids: Tensor  # (B, T)
    positions: Tensor  # (M,) of what is predicted, into the flattened (B * T)
    target_ids: Tensor  # (M,)
    is_hidden: Tensor  # (M,) False where the network sees the target after all

    def to(self, device: torch.device) -> Self:
        moved: dict[str, Any] = {field.name: getattr(self, field.name).to(device) for field in fields(self)}
        return replace(self, **moved)


@dataclass(frozen=True, slots=True)
class MaskedBatch(TokenInputs):
    """What the generator reads: `input_ids` hide `target_ids` at `positions`."""

    sampling_uniforms: Tensor  # (M,) by which each position's replacement is sampled
    selection_uniforms: Tensor  # (M, N) by which N tokens are sampled that were not there, for an auxiliary task
    sequence_uniforms: Tensor  # (B,) by which a row is cropped, for another


@dataclass(frozen=True, slots=True)
class MaskVocabulary:
    """The ids that masking needs to know; the rest of a vocabulary is none of its business."""

    mask_id: int
    ordinary_ids: NDArray[np.int64]  # ids that may be put into a row
    continues_word: Flags  # (V,) ids that go on with the word of the id before


def mask_vocabulary(tokenizer: Tokenizer) -> MaskVocabulary:
    return MaskVocabulary(tokenizer.special.mask, np.flatnonzero(tokenizer.is_ordinary), tokenizer.continues_word)


def mask_tokens(
    batch: Batch,
    vocabulary: MaskVocabulary,
    config: MaskingConfig,
    share: float,
    rng: Rng,
    num_negatives: int = 0,
) -> MaskedBatch:
    """`num_negatives` tokens that were not there are to be sampled at every position."""
    length = batch.original_ids.shape[1]
    original_ids = batch.original_ids.numpy().ravel()
    rows, mask_rng = batch.row_numbers, rng
    if config.fixed_masks:
        rows, mask_rng = batch.dataset_rows, Rng(rng.seed, _FIXED_STEP)

    positions = np.flatnonzero(_select(batch, vocabulary, config, share, mask_rng, rows))
    show_mask, show_kept, _ = APPEARANCES[config.appearance]
    uniforms = mask_rng.uniforms("appearance", rows, length).ravel()[positions]
    is_random = uniforms >= show_mask + show_kept
    random_uniforms = mask_rng.uniforms("random token", rows, length).ravel()[positions]
    random_ids = vocabulary.ordinary_ids[(random_uniforms * len(vocabulary.ordinary_ids)).astype(np.int64)]

    shown = np.where(uniforms < show_mask, vocabulary.mask_id, np.where(is_random, random_ids, original_ids[positions]))
    input_ids = original_ids.copy()
    input_ids[positions] = shown
    sampling_uniforms = rng.uniforms("sample", batch.row_numbers, length).ravel()[positions]
    selection_uniforms = rng.uniforms("selection", batch.row_numbers, length * num_negatives)
    selection_uniforms = selection_uniforms.reshape(original_ids.size, num_negatives)[positions]
    return MaskedBatch(
        batch=batch,
        input_ids=torch.from_numpy(input_ids.reshape(-1, length)),
        positions=torch.from_numpy(positions),
        target_ids=torch.from_numpy(original_ids[positions]),
        is_hidden=torch.from_numpy(uniforms < show_mask),
        sampling_uniforms=torch.from_numpy(sampling_uniforms.astype(np.float32)),
        selection_uniforms=torch.from_numpy(selection_uniforms.astype(np.float32)),
        sequence_uniforms=torch.from_numpy(rng.uniforms("sequence", batch.row_numbers, 1)[:, 0].astype(np.float32)),
    )


def _select(
    batch: Batch, vocabulary: MaskVocabulary, config: MaskingConfig, share: float, rng: Rng, rows: NDArray[np.int64]
) -> Flags:
    """(B, T) what is to be masked; the uniform of a position, or of the unit that begins there, decides."""
    is_ordinary = batch.is_ordinary.numpy()
    length = is_ordinary.shape[1]
    uniforms = rng.uniforms("select", rows, length)
    if config.selection == "bernoulli":
        return is_ordinary & (uniforms < share)
    # Exactly round(share * n) of each row's n ordinary tokens, at least one.
    counts = is_ordinary.sum(axis=1)
    wanted = np.minimum(counts, np.maximum(1, np.floor(share * counts + 0.5).astype(np.int64)))
    uniforms = np.where(is_ordinary, uniforms, 2.0)  # above all others: what is not ordinary sorts last
    if config.unit == "word":
        return _select_words(is_ordinary, vocabulary.continues_word[batch.original_ids.numpy()], uniforms, wanted)
    if config.unit == "span":
        return _select_spans(is_ordinary, uniforms, _span_lengths(rng.uniforms("span", rows, length)), wanted)
    ranks = uniforms.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    selected: Flags = ranks < wanted[:, None]
    return selected


def _select_words(
    is_ordinary: Flags, continues: Flags, uniforms: NDArray[np.float64], wanted: NDArray[np.int64]
) -> Flags:
    """Whole words in the order of their uniforms until the count is reached.

    The word that would pass it is left out if it passes by more than was still missing; the first word never is.
    """
    row_count, length = is_ordinary.shape
    is_start = is_ordinary.copy()
    is_start[:, 1:] &= ~(continues[:, 1:] & is_ordinary[:, :-1])
    columns = np.arange(length)
    starts = np.maximum.accumulate(np.where(is_start, columns, 0), axis=1)  # (B, T) where a token's word begins
    starts += np.arange(row_count)[:, None] * length
    sizes = np.bincount(starts[is_ordinary], minlength=row_count * length).reshape(row_count, length)

    order = np.argsort(np.where(is_start, uniforms, 2.0), axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(sizes, order, axis=1), axis=1)
    before = np.pad(reached[:, :-1], ((0, 0), (1, 0)))
    missing = wanted[:, None] - before
    is_drawn = (missing > 0) & ((reached - wanted[:, None] <= missing) | (columns == 0))
    is_chosen = np.zeros_like(is_ordinary)
    np.put_along_axis(is_chosen, order, is_drawn, axis=1)
    chosen: Flags = is_chosen.ravel()[starts] & is_ordinary
    return chosen


def _span_lengths(uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Geometric lengths up to the longest, by inverting their distribution, which is cut there and made to sum to 1."""
    longer = 1.0 - uniforms * (1.0 - (1.0 - _SPAN_STOP) ** _LONGEST_SPAN)
    lengths: NDArray[np.int64] = 1 + np.floor(np.log(longer) / np.log(1.0 - _SPAN_STOP)).astype(np.int64)
    return lengths.clip(max=_LONGEST_SPAN)


def _select_spans(
    is_ordinary: Flags, uniforms: NDArray[np.float64], lengths: NDArray[np.int64], wanted: NDArray[np.int64]
) -> Flags:
    """One span per row and round, from the free token with the least uniform, until the count is reached exactly.

    A span ends before a special token or padding and passes over what is hidden already; the last one is cut.
    """
    length = is_ordinary.shape[1]
    padded = np.pad(is_ordinary, ((0, 0), (0, _LONGEST_SPAN)))  # a window may look past the end of a row
    chosen = np.zeros_like(padded)
    free_uniforms = uniforms.copy()
    missing, rows = wanted.copy(), np.flatnonzero(wanted)
    while rows.size:
        starts = free_uniforms[rows].argmin(axis=1)
        window = (rows[:, None], starts[:, None] + np.arange(_LONGEST_SPAN))
        is_inside = np.logical_and.accumulate(padded[window], axis=1)
        is_inside &= np.arange(_LONGEST_SPAN) < lengths[rows, starts][:, None]
        is_new = is_inside & ~chosen[window]
        is_new &= np.cumsum(is_new, axis=1) <= missing[rows, None]
        chosen[window] |= is_new
        free_uniforms[rows] = np.where(chosen[rows, :length], 2.0, free_uniforms[rows])
        missing[rows] -= is_new.sum(axis=1)
        rows = rows[missing[rows] > 0]
    return chosen[:, :length]
