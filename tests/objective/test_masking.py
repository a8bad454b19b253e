"""Two segments per row: which pairs are wrong, and what a network could learn from their lengths."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from toy import CLS, CONTINUES, MASK, PAD, SEP, UNK, VOCABULARY, ToyTokenizer, full_rows, toy_batch

from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens, mask_vocabulary
from electralab.randomness import Rng
from electralab.tokens.batches import Batch, make_batch


def test_fixed_selection_masks_exactly_the_rounded_share_of_ordinary_tokens() -> None:
    batch = full_rows(50, length=22)  # 20 ordinary tokens each
    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.15, Rng(0, 1))
    rows = masked.positions // 22
    assert np.bincount(rows.numpy(), minlength=50).tolist() == [3] * 50


def test_positions_are_drawn_without_replacement() -> None:
    masked = mask_tokens(full_rows(200), VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    assert len(set(masked.positions.tolist())) == len(masked.positions) == 200 * 3


def test_at_least_one_token_of_a_short_row_is_masked() -> None:
    masked = mask_tokens(toy_batch([CLS, 5, 6, SEP, PAD, PAD]), VOCABULARY, MaskingConfig(), 0.01, Rng(0, 1))
    assert len(masked.positions) == 1


def test_a_row_without_ordinary_tokens_is_left_alone() -> None:
    masked = mask_tokens(toy_batch([CLS, UNK, SEP, PAD], [CLS, 5, 6, SEP]), VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    assert all(position >= 4 for position in masked.positions.tolist())


@given(st.integers(0, 10_000), st.sampled_from(["fixed", "bernoulli"]), st.floats(0.05, 0.9))
def test_special_tokens_and_padding_are_never_masked(seed: int, selection: str, share: float) -> None:
    batch = toy_batch([CLS, 5, 6, SEP, 7, UNK, 8, SEP], [CLS, 9, 9, 9, SEP, PAD, PAD, PAD])
    config = MaskingConfig.model_validate({"selection": selection})
    masked = mask_tokens(batch, VOCABULARY, config, share, Rng(seed, 1))
    assert (masked.target_ids >= 5).all()
    untouched = torch.ones(16, dtype=torch.bool)
    untouched[masked.positions] = False
    assert torch.equal(masked.input_ids.flatten()[untouched], batch.original_ids.flatten()[untouched])


def test_every_position_is_drawn_equally_often() -> None:
    masked = mask_tokens(full_rows(6000), VOCABULARY, MaskingConfig(), 0.34, Rng(0, 1))  # 2 of 6
    counts = np.bincount(masked.positions.numpy() % 8, minlength=8)
    assert counts[0] == counts[7] == 0
    assert abs(counts[1:7] / 6000 - 1 / 3).max() < 0.03


def test_bernoulli_selection_varies_in_number_around_the_share() -> None:
    masked = mask_tokens(full_rows(2000), VOCABULARY, MaskingConfig(selection="bernoulli"), 0.25, Rng(0, 1))
    per_row = np.bincount(masked.positions.numpy() // 8, minlength=2000)
    assert per_row.min() == 0
    assert abs(per_row.mean() - 6 * 0.25) < 0.1


@pytest.mark.parametrize(
    ("appearance", "hidden", "kept"), [("mask", 1.0, 0.0), ("mask-keep", 0.85, 0.15), ("mask-keep-random", 0.8, 0.12)]
)
def test_appearance_shares_are_those_of_its_name(appearance: str, hidden: float, kept: float) -> None:
    config = MaskingConfig.model_validate({"appearance": appearance})
    masked = mask_tokens(full_rows(3000), VOCABULARY, config, 0.5, Rng(0, 1))
    shown = masked.input_ids.flatten()[masked.positions]
    assert (shown == MASK).float().mean().item() == pytest.approx(hidden, abs=0.02)
    assert torch.equal(masked.is_hidden, shown == MASK)
    # A random token is the original by luck in one of five draws.
    assert (shown == masked.target_ids).float().mean().item() == pytest.approx(kept, abs=0.02)
    assert bool(((shown == MASK) | (shown >= 5)).all())


def test_masks_do_not_depend_on_how_a_batch_is_split() -> None:
    batch = full_rows(6)
    whole = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.3, Rng(3, 7))
    parts = [mask_tokens(part, VOCABULARY, MaskingConfig(), 0.3, Rng(3, 7)) for part in batch.split(2)]
    assert torch.equal(whole.input_ids, torch.cat([part.input_ids for part in parts]))
    assert torch.equal(whole.sampling_uniforms, torch.cat([part.sampling_uniforms for part in parts]))


def test_masks_differ_between_steps_and_seeds() -> None:
    batch = full_rows(6)
    drawn = [
        mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.3, rng).positions for rng in (Rng(0, 1), Rng(0, 2), Rng(1, 1))
    ]
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_mask_share_moves_linearly_to_its_final_value() -> None:
    config = MaskingConfig(mask_share=0.3, final_mask_share=0.1)
    assert [round(config.share_at(x), 3) for x in (0.0, 0.5, 1.0)] == [0.3, 0.2, 0.1]


# -------------------- Two segments per row: which pairs are wrong, and what a network could learn from their len

WORDS = MaskingConfig(unit="word")
SPANS = MaskingConfig(unit="span")


def is_masked(masked: MaskedBatch) -> NDArray[np.bool_]:
    flags = np.zeros(masked.input_ids.shape, dtype=np.bool_)
    flags.ravel()[masked.positions.numpy()] = True
    return flags


@st.composite
def any_rows(draw: st.DrawFn) -> Batch:
    """Words of one or more pieces, unknown ones, joined documents, padding."""
    length = draw(st.integers(4, 30))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        body = draw(st.lists(st.sampled_from([5, 6, 7, 8, 8, 9, 9, UNK, SEP]), min_size=1, max_size=length - 2))
        rows.append([CLS, *body, SEP] + [PAD] * (length - 2 - len(body)))
    return toy_batch(*rows)


def wanted_of(is_ordinary: list[bool], share: float) -> int:
    count = sum(is_ordinary)
    return min(count, max(1, int(share * count + 0.5)))


def words_of(ids: list[int], is_ordinary: list[bool]) -> list[list[int]]:
    words: list[list[int]] = []
    for place, index in enumerate(ids):
        if not is_ordinary[place]:
            continue
        if words and words[-1][-1] == place - 1 and CONTINUES[index]:
            words[-1].append(place)
        else:
            words.append([place])
    return words


def slow_words(ids: list[int], is_ordinary: list[bool], luck: list[float], share: float) -> set[int]:
    wanted = wanted_of(is_ordinary, share)
    chosen: set[int] = set()
    for word in sorted(words_of(ids, is_ordinary), key=lambda word: luck[word[0]]):
        missing = wanted - len(chosen)
        if missing <= 0:
            break
        if chosen and len(word) - missing > missing:
            break
        chosen |= set(word)
    return chosen


def slow_spans(is_ordinary: list[bool], luck: list[float], length_luck: list[float], share: float) -> set[int]:
    wanted = wanted_of(is_ordinary, share)
    weights = [0.2 * 0.8**size for size in range(10)]
    reached = list(itertools.accumulate(weight / sum(weights) for weight in weights))
    chosen: set[int] = set()
    for start in sorted(range(len(luck)), key=lambda place: luck[place]):
        if start in chosen or not is_ordinary[start]:
            continue
        size = 1 + next(place for place, bound in enumerate(reached) if length_luck[start] < bound)
        for place in range(start, start + size):
            if len(chosen) == wanted or place >= len(luck) or not is_ordinary[place]:
                break
            chosen.add(place)
    return chosen


@given(any_rows(), st.floats(0.05, 0.9), st.integers(0, 1000))
def test_words_are_those_of_the_slow_way(batch: Batch, share: float, step: int) -> None:
    rng = Rng(0, step)
    flags = is_masked(mask_tokens(batch, VOCABULARY, WORDS, share, rng))
    luck = rng.uniforms("select", batch.row_numbers, flags.shape[1]).tolist()
    for row, own in enumerate(flags):
        ids, is_ordinary = batch.original_ids[row].tolist(), batch.is_ordinary[row].tolist()
        assert set(np.flatnonzero(own).tolist()) == slow_words(ids, is_ordinary, luck[row], share)


@given(any_rows(), st.floats(0.05, 0.9), st.integers(0, 1000))
def test_all_pieces_of_a_word_are_masked_or_none(batch: Batch, share: float, step: int) -> None:
    flags = is_masked(mask_tokens(batch, VOCABULARY, WORDS, share, Rng(0, step)))
    assert not (flags & ~batch.is_ordinary.numpy()).any()
    for row, own in enumerate(flags):
        words = words_of(batch.original_ids[row].tolist(), batch.is_ordinary[row].tolist())
        assert all(own[word].all() or not own[word].any() for word in words)
        assert own.any() or not words


def test_a_word_that_overshoots_more_than_it_helps_is_left_out() -> None:
    # Six tokens, two wanted; the long word of five is masked only where it is drawn first.
    batch = toy_batch(*([CLS, 5, 6, 8, 9, 8, 9, SEP] for _ in range(400)))
    counts = Counter(is_masked(mask_tokens(batch, VOCABULARY, WORDS, 0.34, Rng(0, 1))).sum(axis=1).tolist())
    assert set(counts) == {1, 5}
    assert counts[1] == pytest.approx(200, abs=40)


def test_words_reach_the_wanted_share_on_average() -> None:
    rng = np.random.default_rng(0)
    body = rng.choice([5, 6, 7, 8, 9], (200, 126))
    ids = np.pad(body, ((0, 0), (1, 1)), constant_values=CLS)
    ids[:, -1] = SEP
    flags = is_masked(mask_tokens(toy_batch(*ids.tolist()), VOCABULARY, WORDS, 0.15, Rng(0, 1)))
    assert flags.sum() / body.size == pytest.approx(0.15, abs=0.003)


def test_a_piece_after_an_unknown_token_begins_a_word_of_its_own() -> None:
    masked = mask_tokens(toy_batch([CLS, UNK, 9, UNK, 9, SEP]), VOCABULARY, WORDS, 0.5, Rng(0, 1))
    assert len(masked.positions) == 1


@given(any_rows(), st.floats(0.05, 0.9), st.integers(0, 1000))
def test_spans_are_those_of_the_slow_way(batch: Batch, share: float, step: int) -> None:
    rng = Rng(0, step)
    flags = is_masked(mask_tokens(batch, VOCABULARY, SPANS, share, rng))
    luck, length_luck = (rng.uniforms(name, batch.row_numbers, flags.shape[1]).tolist() for name in ("select", "span"))
    for row, own in enumerate(flags):
        is_ordinary = batch.is_ordinary[row].tolist()
        assert set(np.flatnonzero(own).tolist()) == slow_spans(is_ordinary, luck[row], length_luck[row], share)
        assert own.sum() == wanted_of(is_ordinary, share)


def test_spans_hide_as_many_tokens_in_longer_runs() -> None:
    batch = full_rows(500, length=102)
    runs = {}
    for config in (MaskingConfig(), SPANS):
        flags = is_masked(mask_tokens(batch, VOCABULARY, config, 0.1, Rng(0, 1)))
        runs[config.unit] = [len(list(group)) for row in flags for value, group in itertools.groupby(row) if value]
    assert sum(runs["token"]) == sum(runs["span"]) == 500 * 10
    assert np.mean(runs["span"]) > 2.5 * np.mean(runs["token"])


def test_span_lengths_average_the_papers_and_end_at_ten() -> None:
    from electralab.objective.masking import _span_lengths

    lengths = _span_lengths((np.arange(100_000) + 0.5) / 100_000)
    assert (lengths.min(), lengths.max()) == (1, 10)
    assert lengths.mean() == pytest.approx(3.797, abs=0.001)
    assert _span_lengths(np.array([np.nextafter(1.0, 0.0)])).tolist() == [10]


@pytest.mark.parametrize("unit", ["token", "word", "span"])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_masks_of_every_unit_do_not_depend_on_how_a_batch_is_split(unit: str, *, is_fixed: bool) -> None:
    config = MaskingConfig.model_validate(
        {"unit": unit, "fixed_masks": is_fixed, "appearance": "mask-keep-random", "mask_share": 0.3}
    )
    batch = full_rows(6, length=20)
    whole = mask_tokens(batch, VOCABULARY, config, 0.3, Rng(3, 7))
    parts = [mask_tokens(part, VOCABULARY, config, 0.3, Rng(3, 7)) for part in batch.split(4)]
    assert torch.equal(whole.input_ids, torch.cat([part.input_ids for part in parts]))
    assert torch.equal(whole.target_ids, torch.cat([part.target_ids for part in parts]))


def rows_of_dataset(*places: int) -> Batch:
    rows = np.array([[CLS, *(5 + (place + column) % 5 for column in range(18)), SEP] for place in places])
    return make_batch(rows, ToyTokenizer(), is_pairs=False, dataset_rows=np.array(places))  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_fixed_masks_belong_to_the_row_of_the_data_set_whenever_and_wherever_it_comes(unit: str) -> None:
    config = MaskingConfig.model_validate({"unit": unit, "fixed_masks": True, "appearance": "mask-keep-random"})
    first = mask_tokens(rows_of_dataset(40, 41, 42), VOCABULARY, config, 0.15, Rng(0, 1))
    later = mask_tokens(rows_of_dataset(42, 7, 40), VOCABULARY, config, 0.15, Rng(0, 99))
    assert torch.equal(first.input_ids[0], later.input_ids[2])
    assert torch.equal(first.input_ids[2], later.input_ids[0])
    other_seed = mask_tokens(rows_of_dataset(40, 41, 42), VOCABULARY, config, 0.15, Rng(1, 1))
    assert not torch.equal(first.input_ids, other_seed.input_ids)


def test_rows_of_the_data_set_have_masks_of_their_own_and_draws_stay_fresh() -> None:
    config = MaskingConfig(fixed_masks=True)
    batch = toy_batch(*([CLS, 5, 6, 7, 5, 6, 7, 5, 6, 7, SEP] for _ in range(20)))
    first, later = (mask_tokens(batch, VOCABULARY, config, 0.34, Rng(0, step)) for step in (1, 2))
    assert len(set(map(tuple, (first.input_ids == MASK).tolist()))) > 10
    assert torch.equal(first.positions, later.positions)
    assert not torch.equal(first.sampling_uniforms, later.sampling_uniforms)


@pytest.mark.parametrize("unit", ["word", "span"])
def test_bernoulli_selection_of_words_or_spans_is_refused_by_name(unit: str) -> None:
    with pytest.raises(ValidationError, match=f"'bernoulli' draws every token by itself and cannot hide a {unit}"):
        MaskingConfig.model_validate({"selection": "bernoulli", "unit": unit})


def test_fixed_masks_with_a_changing_share_are_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="fixed_masks cannot follow a changing mask share"):
        MaskingConfig(fixed_masks=True, final_mask_share=0.3)


def test_the_vocabulary_knows_masks_ordinary_ids_and_what_continues_a_word() -> None:
    vocabulary = mask_vocabulary(ToyTokenizer())  # type: ignore[arg-type]
    assert vocabulary.mask_id == MASK
    assert vocabulary.ordinary_ids.tolist() == [5, 6, 7, 8, 9]
    assert np.flatnonzero(vocabulary.continues_word).tolist() == [8, 9]
