from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy import CLS, MASK, PAD, SEP, UNK, VOCABULARY, ToyTokenizer, toy_batch

import electralab
from electralab.corpus.samples import write_bundled_text
from electralab.display import Display
from electralab.objective.language_models import PairTask, arrange_pairs
from electralab.objective.masking import MaskingConfig, mask_tokens
from electralab.randomness import Rng
from electralab.tokens.batches import Batch, batch_at, make_batch
from electralab.tokens.shards import PreparedData, open_data
from electralab.tokens.tokenizer import SpecialIds

SPECIAL = SpecialIds(pad=PAD, unk=UNK, cls=CLS, sep=SEP, mask=MASK)
TASKS: list[PairTask] = ["next-sentence", "sentence-order"]


def pair_batch(*rows: list[int]) -> Batch:
    return make_batch(np.array(rows, dtype=np.int64), ToyTokenizer(), is_pairs=True)  # type: ignore[arg-type]


def seed_where(wanted: list[bool], task: PairTask) -> Rng:
    """The first step whose luck makes just these rows odd."""
    rows = np.arange(len(wanted))
    return next(
        rng
        for rng in (Rng(0, step) for step in range(1000))
        if (rng.uniforms(task, rows, 1)[:, 0] < 0.5).tolist() == wanted
    )


def coin_where(first_is_longer: list[bool], is_odd: list[bool]) -> Rng:
    """The first step that gives an odd token to these rows' first halves, and swaps just these rows."""
    rows = np.arange(len(is_odd))
    return next(
        rng
        for rng in (Rng(0, step) for step in range(10_000))
        if (rng.uniforms("sentence-order", rows, 1)[:, 0] < 0.5).tolist() == is_odd
        and (rng.uniforms("sentence cut", rows, 1)[:, 0] < 0.5).tolist() == first_is_longer
    )


@pytest.mark.parametrize(
    ("first_is_longer", "is_odd", "expected"),
    [
        (False, False, [CLS, 5, 6, SEP, 7, 8, 9, SEP]),
        (True, False, [CLS, 5, 6, 7, SEP, 8, 9, SEP]),
        (False, True, [CLS, 7, 8, 9, SEP, 5, 6, SEP]),
        (True, True, [CLS, 8, 9, SEP, 5, 6, 7, SEP]),
    ],
)
def test_a_full_row_is_cut_in_the_middle_with_either_half_longer_whichever_is_first(
    first_is_longer: bool, is_odd: bool, expected: list[int]
) -> None:
    """It gives its last token for the second [SEP]; that the halves are unequal tells nothing of their order."""
    paired = arrange_pairs(
        toy_batch([CLS, 5, 6, 7, 8, 9, 5, SEP]), SPECIAL, "sentence-order", coin_where([first_is_longer], [is_odd])
    )
    second = expected.index(SEP) + 1
    assert paired.batch.original_ids.tolist() == [expected]
    assert paired.batch.segment_ids.tolist() == [[int(column >= second) for column in range(8)]]
    assert paired.batch.is_ordinary.tolist() == [[token not in (CLS, SEP) for token in expected]]
    assert paired.is_mismatched.tolist() == [is_odd]
    assert paired.has_pair.tolist() == [True]


def test_a_row_with_padding_loses_nothing() -> None:
    paired = arrange_pairs(
        toy_batch([CLS, 5, 6, 7, 8, SEP, PAD, PAD]), SPECIAL, "sentence-order", seed_where([False], "sentence-order")
    )
    assert paired.batch.original_ids.tolist() == [[CLS, 5, 6, SEP, 7, 8, SEP, PAD]]
    assert paired.batch.segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1, 0]]
    assert paired.batch.is_pad.tolist() == [[False] * 7 + [True]]
    assert paired.batch.has_padding


def test_the_halves_of_a_prepared_pair_are_those_of_its_text_not_its_segments() -> None:
    batch = pair_batch([CLS, 5, SEP, 7, 8, 9, SEP, PAD])
    paired = arrange_pairs(batch, SPECIAL, "sentence-order", seed_where([True], "sentence-order"))
    assert paired.batch.original_ids.tolist() == [[CLS, 8, 9, SEP, 5, 7, SEP, PAD]]
    assert paired.batch.segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1, 0]]
    assert paired.is_mismatched.tolist() == [True]


def test_a_pair_in_order_stays_as_it_was_packed() -> None:
    batch = pair_batch([CLS, 5, SEP, 7, 8, 9, SEP, PAD], [CLS, 6, SEP, 9, 9, 9, SEP, PAD])
    paired = arrange_pairs(batch, SPECIAL, "next-sentence", seed_where([False, False], "next-sentence"))
    assert torch.equal(paired.batch.original_ids, batch.original_ids)
    assert torch.equal(paired.batch.segment_ids, batch.segment_ids)
    assert paired.has_pair.tolist() == [True, True]


@pytest.mark.parametrize("is_odd", [False, True])
def test_both_second_segments_are_cut_to_the_shorter_whichever_is_taken(is_odd: bool) -> None:
    """Half of three rows is one: the others are those of the rows after."""
    batch = pair_batch(
        [CLS, 5, 5, 5, 5, SEP, 6, SEP], [CLS, 7, SEP, 8, 9, 8, SEP, PAD], [CLS, 6, SEP, 9, 5, SEP, PAD, PAD]
    )
    paired = arrange_pairs(batch, SPECIAL, "next-sentence", seed_where([is_odd] * 3, "next-sentence"))
    own = [
        [CLS, 5, 5, 5, 5, SEP, 6, SEP],
        [CLS, 7, SEP, 8, 9, SEP, PAD, PAD],
        [CLS, 6, SEP, 9, SEP, PAD, PAD, PAD],
    ]
    foreign = [
        [CLS, 5, 5, 5, 5, SEP, 8, SEP],
        [CLS, 7, SEP, 9, 5, SEP, PAD, PAD],
        [CLS, 6, SEP, 6, SEP, PAD, PAD, PAD],
    ]
    assert paired.batch.original_ids.tolist() == (foreign if is_odd else own)
    assert paired.is_mismatched.tolist() == [is_odd] * 3


def test_a_foreign_second_segment_comes_from_half_a_batch_on_not_from_the_text_that_follows() -> None:
    rows = [[CLS, 5, SEP, token, SEP, PAD] for token in (6, 7, 8, 9)]
    paired = arrange_pairs(pair_batch(*rows), SPECIAL, "next-sentence", seed_where([True] * 4, "next-sentence"))
    assert paired.batch.original_ids[:, 3].tolist() == [8, 9, 6, 7]


def test_inner_seps_of_joined_documents_are_kept_and_segments_follow_the_cut() -> None:
    batch = toy_batch([CLS, 5, SEP, 6, 7, 8, SEP, 9, SEP, PAD, PAD])
    paired = arrange_pairs(batch, SPECIAL, "sentence-order", seed_where([False], "sentence-order"))
    assert paired.batch.original_ids.tolist() == [[CLS, 5, SEP, 6, SEP, 7, 8, SEP, 9, SEP, PAD]]
    assert paired.batch.segment_ids.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0]]
    assert not paired.batch.is_ordinary[0, [0, 2, 4, 7, 9, 10]].any()


@pytest.mark.parametrize("task", TASKS)
def test_a_row_too_short_for_two_segments_is_left_alone_and_never_odd(task: PairTask) -> None:
    batch = toy_batch([CLS, 5, SEP, PAD, PAD, PAD], [CLS, 5, 6, 7, 8, SEP])
    paired = arrange_pairs(batch, SPECIAL, task, seed_where([True, True], task))
    assert paired.batch.original_ids[0].tolist() == [CLS, 5, SEP, PAD, PAD, PAD]
    # The short row has one token to lend, as B; the other, which lends to it, is cut to that.
    assert paired.has_pair.tolist() == [False, True]
    assert paired.is_mismatched.tolist() == [False, True]


def test_a_row_that_nothing_can_be_lent_to_is_not_asked_about_since_it_could_only_be_right() -> None:
    rows = toy_batch([CLS, SEP, PAD, PAD, PAD, PAD], [CLS, 5, 6, 7, 8, SEP])
    for batch, kept in ((rows, [CLS, 5, 6, 7, 8, SEP]), (toy_batch([CLS, 5, 6, 7, 8, SEP]), [CLS, 5, 6, 7, 8, SEP])):
        paired = arrange_pairs(batch, SPECIAL, "next-sentence", Rng(0, 1))
        assert not paired.has_pair.any()
        assert not paired.is_mismatched.any()
        assert paired.batch.original_ids[-1].tolist() == kept


@pytest.mark.parametrize("task", TASKS)
def test_about_half_of_the_rows_are_odd_and_which_ones_changes_with_the_step(task: PairTask) -> None:
    batch = toy_batch(*([CLS, 5, 6, 7, 8, SEP] for _ in range(2000)))
    first, second = (arrange_pairs(batch, SPECIAL, task, Rng(0, step)).is_mismatched for step in (1, 2))
    assert first.float().mean().item() == pytest.approx(0.5, abs=0.04)
    assert not torch.equal(first, second)


def slow_text(ids: list[int], segments: list[int], length: int) -> tuple[list[int], int]:
    """The text, and where in it a prepared pair's second segment begins."""
    if 1 in segments:
        cut = segments.index(1)
        return [*ids[1 : cut - 1], *ids[cut:-1]], cut - 2
    return ids[1:-1][: length - 3], 0


def slow_pairs(batch: Batch, task: PairTask, rng: Rng) -> list[tuple[list[int], list[int], bool, bool]]:
    """Row by row: ids, segment ids, whether odd, whether a pair."""
    length = batch.original_ids.shape[1]
    texts = []
    for row in range(len(batch.row_numbers)):
        used = int((~batch.is_pad[row]).sum())
        texts.append(slow_text(batch.original_ids[row].tolist()[:used], batch.segment_ids[row].tolist()[:used], length))
    arranged = []
    for row, (text, boundary) in enumerate(texts):
        is_odd = rng.uniforms(task, np.array([row]), 1).item() < 0.5
        if task == "next-sentence":
            other = (row + len(texts) // 2) % len(texts)
            theirs, their_boundary = texts[other]
            cut = boundary or len(text) // 2
            own, foreign = text[cut:], theirs[their_boundary or len(theirs) // 2 :]
            shorter = 0 if other == row else min(len(own), len(foreign))
            first, second = text[:cut], (foreign if is_odd else own)[:shorter]
        else:
            cut = len(text) // 2
            if len(text) % 2:
                cut += rng.uniforms("sentence cut", np.array([row]), 1).item() < 0.5
            first, second = (text[cut:], text[:cut]) if is_odd else (text[:cut], text[cut:])
        has_pair = bool(first and second)
        ids, segments = batch.original_ids[row].tolist(), batch.segment_ids[row].tolist()
        if has_pair:
            ids = [CLS, *first, SEP, *second, SEP]
            segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        fill = length - len(ids)
        arranged.append((ids + [PAD] * fill, segments + [0] * (length - len(segments)), is_odd and has_pair, has_pair))
    return arranged


@st.composite
def packed_rows(draw: st.DrawFn) -> Batch:
    length = draw(st.integers(4, 12))
    is_pairs = draw(st.booleans())
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        body = draw(st.lists(st.integers(5, 9), min_size=1, max_size=length - 2))
        if len(body) > 2 and draw(st.booleans()):
            body[len(body) // 2] = SEP  # pairs: a second segment; otherwise: a second document
        rows.append([CLS, *body, SEP] + [PAD] * (length - 2 - len(body)))
    return make_batch(np.array(rows), ToyTokenizer(), is_pairs=is_pairs)  # type: ignore[arg-type]


@given(packed_rows(), st.sampled_from(TASKS), st.integers(0, 1000))
def test_pairs_are_those_of_the_slow_way(batch: Batch, task: PairTask, step: int) -> None:
    paired = arrange_pairs(batch, SPECIAL, task, Rng(0, step))
    rows = zip(
        paired.batch.original_ids.tolist(),
        paired.batch.segment_ids.tolist(),
        paired.is_mismatched.tolist(),
        paired.has_pair.tolist(),
        strict=True,
    )
    assert list(rows) == slow_pairs(batch, task, Rng(0, step))
    assert torch.equal(paired.batch.is_pad, paired.batch.original_ids == PAD)
    assert torch.equal(paired.batch.is_ordinary, paired.batch.original_ids >= 5)
    assert paired.batch.has_padding == bool(paired.batch.is_pad.any())


def test_a_paired_batch_can_be_masked() -> None:
    batch = toy_batch([CLS, 5, 6, 7, 8, 9, 5, SEP])
    paired = arrange_pairs(batch, SPECIAL, "sentence-order", coin_where([False], [True]))
    masked = mask_tokens(paired.batch, VOCABULARY, MaskingConfig(), 0.99, Rng(0, 1))
    assert masked.input_ids.tolist() == [[CLS, MASK, MASK, MASK, SEP, MASK, MASK, SEP]]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real text: documents of paragraphs, as long as their authors made them."""
    folder = tmp_path_factory.mktemp("messages")
    text = "".join(path.read_text(encoding="utf-8") for path in write_bundled_text(folder / "speeches")[100:110])
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return folder / "text.txt"


@pytest.fixture(scope="module", params=["contiguous", "pairs"])
def packed(request: pytest.FixtureRequest, messages: Path) -> PreparedData:
    settings = {"tokenizer": {"vocab_size": 1000}, "packing": {"sequence_length": 64, "kind": request.param}}
    folder = messages.parent / request.param
    electralab.prepare([messages], folder, settings=settings, display=Display(quiet=True))
    return open_data(folder)


@pytest.mark.parametrize("task", TASKS)
def test_lengths_tell_nothing_of_whether_a_pair_is_wrong(packed: PreparedData, task: PairTask) -> None:
    """Which label most rows of each pair of lengths have, counted on some steps, is asked about others."""
    counts: defaultdict[tuple[int, ...], Counter[bool]] = defaultdict(Counter)
    right = asked = 0
    for step in range(1, 601):
        batch = batch_at(packed, 16 * (step - 1), 16, seed=0)
        paired = arrange_pairs(batch, packed.tokenizer.special, task, Rng(0, step))
        second = paired.batch.segment_ids.sum(dim=1)
        first = (~paired.batch.is_pad).sum(dim=1) - second
        for *lengths, is_odd, has_pair in zip(
            first.tolist(), second.tolist(), paired.is_mismatched.tolist(), paired.has_pair.tolist(), strict=True
        ):
            if has_pair and step <= 300:
                counts[tuple(lengths)][is_odd] += 1
            elif has_pair:
                label = counts[tuple(lengths)]
                asked += 1
                right += (label[True] > label[False]) == is_odd
    assert asked > 4000
    assert right / asked == pytest.approx(0.5, abs=0.03)  # guessing: four standard deviations
