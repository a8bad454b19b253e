"""Whether a token's state stays when its row is moved along the positions.

AnalysisModel, rows -> similarity after an offset, and after turning the row around
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from electralab.analysis.arrays import BoolArray, Indices, IntArray, Matrix, count_at, normalise, require_count
from electralab.analysis.finding import Controlled, Finding, Resampler, exact, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import trace_batch, trim
from electralab.errors import InputError
from electralab.statistics import Interval, subsample

_LEAST = 8


class Invariance(NamedTuple):
    similarity: Controlled
    """The mean cosine of a token with itself moved. Control: with other tokens moved."""
    corrected: Interval
    """(similarity - control) / (1 - control): 1 unmoved, 0 no more alike than unrelated tokens."""
    recognised: Controlled
    """The share of tokens that are nearest to themselves among all moved ones. Control: tokens dealt at random."""


def rotate_row(ids: IntArray, offset: int, *, special_ids: IntArray) -> IntArray:
    """The tokens of a row one after another around a circle, special ones staying where they are.

    >>> rotate_row(np.array([2, 7, 8, 9, 3]), 1, special_ids=np.array([2, 3]))
    array([2, 9, 7, 8, 3])
    """
    turned = ids.copy()
    is_word = ~np.isin(ids, special_ids)
    turned[is_word] = np.roll(ids[is_word], offset)
    return turned


def measure_invariance(
    states: Matrix, moved: Matrix, draws: Resampler, *, groups: IntArray | None = None
) -> Invariance:
    """Row i of both (N, D) is the same token; `groups` are the rows of text they stand in."""
    assert states.shape == moved.shape, "every token is there before and after"
    require_count("invariance", len(states), 3, "tokens", states, moved)
    here, there = normalise(states), normalise(moved)
    own, everything = (here * there).sum(axis=1), np.arange(len(here))
    is_nearest = (here @ there.T).argmax(axis=1) == everything
    # What recognising by a random assignment gives: about 1 in N.
    is_chance = draws.rng.permutation(len(here)) == everything

    def mismatch(indices: Indices) -> float:
        # A token drawn twice is not unrelated to its copy.
        counts = count_at(indices, len(own))
        pairs = counts.sum() ** 2 - (counts**2).sum()
        crossed = (counts @ here) @ (counts @ there) - (counts**2) @ own
        return float(crossed / pairs) if pairs else float("nan")

    def correct(indices: Indices) -> float:
        unrelated = mismatch(indices)
        return (float(own[indices].mean()) - unrelated) / (1 - unrelated) if unrelated < 1 else float("nan")

    return Invariance(
        Controlled(draws.mean(own, groups), draws.interval(mismatch, len(own), groups)),
        draws.interval(correct, len(own), groups),
        Controlled(draws.mean(is_nearest, groups), draws.mean(is_chance, groups)),
    )


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """Does a state stay as it is when its row is moved?"""
    tokenizer, config = model.tokenizer, model.encoder.config
    with skip_on_error("offset_similarity", "offset similarity") as skipped:
        # The first half of a row, alone and with padding before it.
        if config.is_causal:
            raise InputError(
                f"{model.name}: is causal, and padding before a row would leave its first positions nothing to see; "
                "look at the rotation"
            )
        rows = _take_rows(model, data)
        offset = min(rows.shape[1], model.sequence_length) // 2
        halves = rows[:, :offset]
        is_word = tokenizer.is_ordinary[halves]
        before = _token_states(model, data, halves, is_word)
        moved = np.concatenate([np.full_like(halves, tokenizer.special.pad), halves], axis=1)
        after = _token_states(model, data, moved, np.concatenate([np.zeros_like(is_word), is_word], axis=1))
        note = f"moved by {offset} positions"
        if config.is_modern:
            note += "; its positions are relative, so that this holds by construction"
        yield from _findings(before, after, np.nonzero(is_word)[0], data, "offset", note)
    yield from skipped
    with skip_on_error("rotation_sameness", "rotation similarity") as skipped:
        # The tokens of a row around a circle by half of it: each keeps its neighbours but at the seam.
        rows, special = _take_rows(model, data), np.flatnonzero(~tokenizer.is_ordinary)
        half = rows.shape[1] // 2
        turned = np.stack([rotate_row(row, half, special_ids=special) for row in rows])
        is_word = tokenizer.is_ordinary[rows]
        before = _token_states(model, data, rows, is_word)
        after = _token_states(model, data, turned, tokenizer.is_ordinary[turned])
        # Where the token that stood at each place went, row by row.
        counts = is_word.sum(axis=1)
        starts = np.cumsum(counts) - counts
        order = np.concatenate([start + np.roll(np.arange(n), -half) for start, n in zip(starts, counts, strict=True)])
        note = f"turned by {half} positions; what stands at the seam has new neighbours"
        back = [states[order] for states in after]
        yield from _findings(before, back, np.nonzero(is_word)[0], data, "rotation", note)
    yield from skipped


def _findings(
    before: list[Matrix], after: list[Matrix], row_ids: IntArray, data: AnalysisData, how: str, note: str
) -> Iterator[Finding]:
    settings = data.settings
    chosen = subsample(len(row_ids), settings.vectors, settings.seed)
    for layer, (here, there) in enumerate(zip(before, after, strict=True)):
        draws = settings.resampler("invariance", how, str(layer))
        result = measure_invariance(here[chosen], there[chosen], draws, groups=row_ids[chosen])
        article = "an" if how == "offset" else "a"
        meaning = f"mean cosine of a token's state with its state after {article} {how} of the row"
        id, name, control = f"{how}_similarity", f"{how} similarity", "with other tokens of the moved rows"
        yield Finding(id, name, "cosine", meaning, *result.similarity, control, note, layer)
        meaning = "(cosine - control) / (1 - control): 1 the same, 0 no more alike than other tokens"
        id, name, control = f"{how}_sameness", f"{how} sameness", "tokens no more alike than others: 0"
        yield Finding(id, name, "share", meaning, result.corrected, exact(0.0), control, note, layer)
        meaning = "share of tokens that are nearest to themselves among all moved ones"
        id, name, control = f"{how}_recognised", f"{how} recognised", "tokens dealt at random"
        yield Finding(id, name, "share", meaning, *result.recognised, control, layer=layer)


def _take_rows(model: AnalysisModel, data: AnalysisData) -> IntArray:
    """Full rows, few enough that their tokens are not many times what is asked for."""
    ids = data.read_rows(model).ids
    is_full = (ids != model.tokenizer.special.pad).all(axis=1)
    # Where the text is too short to fill a row, rows are cut to the shortest.
    full = ids[is_full] if is_full.any() else ids[:, : min(len(trim(row, model)) for row in ids)]
    if full.shape[1] < _LEAST:
        raise InputError(f"{data.data}: its rows have fewer than {_LEAST} tokens; give longer text")
    return full[: max(4, 2 * data.settings.vectors // full.shape[1])]


def _token_states(model: AnalysisModel, data: AnalysisData, ids: IntArray, is_taken: BoolArray) -> list[Matrix]:
    """States of the tokens taken, row by row. (N, D) at every layer"""
    size = max(1, data.conditions.batch_tokens // ids.shape[1])
    parts: list[list[Matrix]] = []
    for start in range(0, len(ids), size):
        data.conditions.check()
        batch, taken = ids[start : start + size], is_taken[start : start + size]
        layers = trace_batch(model, batch, batch == model.tokenizer.special.pad)
        parts.append([states[taken] for states in layers])
    return [np.concatenate(layer) for layer in zip(*parts, strict=True)]


MEASURE = Measure("M36", "translation invariance", measure, answers=("invariance.rotation_sameness",))
