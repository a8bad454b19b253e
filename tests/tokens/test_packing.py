"""Rows hold every token once, in order, between [CLS] and [SEP]."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from electralab.tokens.packing import Ids, pack_contiguous, pack_documents, pack_pairs
from electralab.tokens.tokenizer import SpecialIds

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = SpecialIds(PAD, UNK, CLS, SEP, MASK)
DOCUMENTS = st.lists(st.lists(st.integers(5, 99), max_size=30), max_size=12)


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.uint16)


def test_documents_are_joined_by_sep_and_cut() -> None:
    rows = pack_contiguous([ids(10, 11, 12), ids(), ids(20, 21, 22, 23, 24, 25)], 8, SPECIAL)
    assert rows.tolist() == [
        [CLS, 10, 11, 12, SEP, 20, 21, SEP],
        [CLS, 22, 23, 24, 25, SEP, PAD, PAD],
    ]
    assert rows.dtype == np.uint16


def test_a_scrap_at_the_end_is_dropped_unless_it_is_all_there_is() -> None:
    assert len(pack_contiguous([ids(*range(10, 18))], 8, SPECIAL)) == 1
    assert pack_contiguous([ids(10)], 8, SPECIAL).tolist() == [[CLS, 10, SEP, PAD, PAD, PAD, PAD, PAD]]
    assert pack_contiguous([], 8, SPECIAL).shape == (0, 8)


def test_a_document_is_a_row_and_the_last_row_of_a_long_one_is_full() -> None:
    rows = pack_documents([ids(10), ids(), ids(*range(20, 33)), ids(*range(40, 46))], 8, SPECIAL)
    assert rows.tolist() == [
        [CLS, 10, SEP, PAD, PAD, PAD, PAD, PAD],
        [CLS, 20, 21, 22, 23, 24, 25, SEP],
        [CLS, 26, 27, 28, 29, 30, 31, SEP],
        [CLS, 27, 28, 29, 30, 31, 32, SEP],
        [CLS, 40, 41, 42, 43, 44, 45, SEP],
    ]
    assert pack_documents([], 8, SPECIAL).shape == (0, 8)


@given(DOCUMENTS, st.integers(8, 20))
def test_rows_of_single_documents_hold_all_of_them_and_never_two(documents: list[list[int]], length: int) -> None:
    rows = pack_documents([ids(*document) for document in documents], length, SPECIAL)
    bodies = [[int(token) for token in row[1 : list(row).index(SEP)]] for row in rows]
    assert [row.tolist()[len(body) + 2 :] for row, body in zip(rows, bodies, strict=True)] == [
        [PAD] * (length - len(body) - 2) for body in bodies
    ]
    for document in filter(None, documents):
        count = -(-len(document) // (length - 2))
        mine, bodies = bodies[:count], bodies[count:]
        fresh = len(document) - (count - 1) * (length - 2)
        assert [token for body in mine[:-1] for token in body] + mine[-1][-fresh:] == document
    assert not bodies


@given(DOCUMENTS, st.integers(8, 20))
def test_contiguous_rows_read_back_as_the_stream(documents: list[list[int]], length: int) -> None:
    rows = pack_contiguous([ids(*document) for document in documents], length, SPECIAL)
    stream: list[int] = []
    for document in filter(None, documents):
        stream += [SEP] * bool(stream) + document
    read = [int(token) for row in rows for token in row[1 : np.flatnonzero(row == SEP)[-1]]]
    assert read == stream[: len(read)]
    assert len(stream) - len(read) < 4
    assert (rows[:, 0] == CLS).all()


def test_a_pair_is_two_segments_of_one_document() -> None:
    lines = [ids(*([10 + number] * 6)) for number in range(20)]
    rows = pack_pairs([lines], 32, SPECIAL, 0)
    for row in rows.tolist():
        used = row[: len(row) - row.count(PAD)]
        assert used[0] == CLS
        assert used[-1] == SEP
        assert used.count(SEP) in (1, 2)
        assert PAD not in used


@given(DOCUMENTS, st.integers(0, 5))
def test_pairs_never_mix_documents_or_change_the_order(documents: list[list[int]], seed: int) -> None:
    numbered = [[ids(number + 5) for _ in document] for number, document in enumerate(documents)]
    for row in pack_pairs(numbered, 16, SPECIAL, seed).tolist():
        assert len({token for token in row if token >= 5}) == 1


def test_about_a_tenth_of_the_rows_is_single_and_a_few_are_short() -> None:
    documents = [[ids(*range(5, 15)) for _ in range(13)] for _ in range(2000)]
    rows = pack_pairs(documents, 128, SPECIAL, 0)
    single = float(np.mean((rows == SEP).sum(axis=1) == 1))
    assert 0.08 < single < 0.2
    assert len(rows) > 2000
    assert len(rows) < 2400


def test_rows_depend_on_the_key_alone() -> None:
    documents = [[ids(*range(5, 12)) for _ in range(40)] for _ in range(5)]
    assert np.array_equal(pack_pairs(documents, 64, SPECIAL, 1, 2), pack_pairs(documents, 64, SPECIAL, 1, 2))
    assert not np.array_equal(pack_pairs(documents, 64, SPECIAL, 1, 2), pack_pairs(documents, 64, SPECIAL, 1, 3))
