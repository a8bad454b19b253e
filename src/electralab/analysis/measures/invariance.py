"""M36: whether a token's state stays when its row is moved along the positions.

Specimen, rows -> similarity after an offset, and after turning the row around
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from electralab.analysis.finding import Contrast, Estimate, Finding, Flags, Labels, Missing, Vectors, attempt
from electralab.analysis.invariance import measure_invariance as measure_moved
from electralab.analysis.invariance import rotate_row
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.vectors import trace_batch, trim
from electralab.errors import InputError
from electralab.evaluation.resampling import choose_some

CLAIM = "M36"
_LEAST = 8
_CONTROL = "with other tokens of the moved rows"


def measure_invariance(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    yield from attempt("offset similarity", CLAIM, partial(_tell_offset, specimen, material, settings))
    yield from attempt("rotation similarity", CLAIM, partial(_tell_rotation, specimen, material, settings))


def _tell_offset(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    """The first half of a row, alone and with padding before it."""
    if specimen.encoder.config.is_causal:
        raise InputError(
            f"{specimen.name}: is causal, and padding before a row would leave its first positions nothing to see; "
            "look at the rotation"
        )
    rows = _take_rows(specimen, material)
    offset = min(rows.shape[1], specimen.sequence_length) // 2
    heads = rows[:, :offset]
    blank = np.full_like(heads, specimen.tokenizer.special.pad)
    moved = np.concatenate([blank, heads], axis=1)
    is_word = specimen.tokenizer.is_ordinary[heads]
    before = _look(specimen, material, heads, is_word)
    after = _look(specimen, material, moved, np.concatenate([np.zeros_like(is_word), is_word], axis=1))
    note = f"moved by {offset} positions"
    if specimen.encoder.config.is_modern:
        note += "; its positions are relative, so that this holds by construction"
    yield from _tell(before, after, np.nonzero(is_word)[0], settings, "offset", note)


def _tell_rotation(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    """The tokens of a row around a circle by half of it: each keeps its neighbours but at the seam."""
    rows = _take_rows(specimen, material)
    special = np.flatnonzero(~specimen.tokenizer.is_ordinary)
    half = rows.shape[1] // 2
    turned = np.stack([rotate_row(row, half, special_ids=special) for row in rows])
    before, after = (_look(specimen, material, ids, specimen.tokenizer.is_ordinary[ids]) for ids in (rows, turned))
    is_word = specimen.tokenizer.is_ordinary[rows]
    # Where the token that stood at each place went.
    order = np.concatenate(
        [start + np.roll(np.arange(count), -half) for start, count in _stretches(is_word.sum(axis=1))]
    )
    back = [states[order] for states in after]
    note = f"turned by {half} positions; what stands at the seam has new neighbours"
    yield from _tell(before, back, np.nonzero(is_word)[0], settings, "rotation", note)


def _stretches(counts: Labels) -> Iterator[tuple[int, int]]:
    starts = np.cumsum(counts) - counts
    return ((int(start), int(count)) for start, count in zip(starts, counts, strict=True))


def _tell(
    before: list[Vectors], after: list[Vectors], owners: Labels, settings: AnalysisSettings, how: str, note: str
) -> Iterator[Finding]:
    chosen = choose_some(len(owners), settings.vectors, settings.seed)
    for layer, (here, there) in enumerate(zip(before, after, strict=True)):
        rng = settings.make_rng("invariance", how, str(layer))
        found = measure_moved(here[chosen], there[chosen], rng, groups=owners[chosen], times=settings.times)
        meaning = (
            f"mean cosine of a token's state with its state after {'an' if how == 'offset' else 'a'} {how} of the row"
        )
        yield found.similarity.tell(f"{how} similarity", CLAIM, "cosine", meaning, _CONTROL, note, layer)
        chance = Contrast(found.corrected, Estimate(0.0, 0.0, 0.0))
        meaning = "(cosine - control) / (1 - control): 1 the same, 0 no more alike than other tokens"
        yield chance.tell(
            f"{how} sameness", CLAIM, "share", meaning, "tokens no more alike than others: 0", note, layer
        )
        meaning = "share of tokens that are nearest to themselves among all moved ones"
        control = "tokens dealt at random"
        yield found.recognised.tell(f"{how} recognised", CLAIM, "share", meaning, control, layer=layer)


def _take_rows(specimen: Specimen, material: Material) -> Labels:
    """Full rows, few enough that their tokens are not many times what is asked for."""
    rows = material.read_rows(specimen)
    is_full = (rows.ids != specimen.tokenizer.special.pad).all(axis=1)
    full = rows.ids[is_full] if is_full.any() else _cut_shortest(rows.ids, specimen)
    if full.shape[1] < _LEAST:
        raise InputError(f"{material.data}: its rows have fewer than {_LEAST} tokens; give longer text")
    return full[: max(4, 2 * material.settings.vectors // full.shape[1])]


def _cut_shortest(ids: Labels, specimen: Specimen) -> Labels:
    """Rows of text too short to fill one."""
    return ids[:, : min(len(trim(row, specimen)) for row in ids)]


def _look(specimen: Specimen, material: Material, ids: Labels, is_taken: Flags) -> list[Vectors]:
    """States of the tokens taken, row by row. (N, D) at every layer"""
    size = max(1, material.conditions.batch_tokens // ids.shape[1])
    parts: list[list[Vectors]] = []
    for start in range(0, len(ids), size):
        material.conditions.check()
        batch, taken = ids[start : start + size], is_taken[start : start + size]
        layers = trace_batch(specimen, batch, batch == specimen.tokenizer.special.pad)
        parts.append([states[taken] for states in layers])
    return [np.concatenate(layer) for layer in zip(*parts, strict=True)]
