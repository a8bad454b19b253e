"""Each dropped document is counted under the reason it was dropped for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from electralab.corpus.filters import DocumentFilter, FilterConfig, SeenKeys
from electralab.corpus.readers import Undecodable


def test_every_reason_is_counted() -> None:
    documents = DocumentFilter(FilterConfig(min_characters=4), repair=False)
    kept = documents.keep(["long enough", "", "  \n", "abc", Undecodable(b"\xff"), " long enough "])
    kept += documents.keep(["long enough", "another one"])
    assert [document.content for document in kept] == ["long enough", "another one"]
    assert documents.dropped == {"empty": 2, "too_short": 1, "undecodable": 1, "duplicate": 2}


def test_half_a_character_from_json_becomes_a_replacement_mark() -> None:
    (kept,) = DocumentFilter(FilterConfig(), repair=False).keep(["a\ud800b"])
    assert kept.content == "a\ufffdb"


def test_repair_mends_text_decoded_twice() -> None:
    (kept,) = DocumentFilter(FilterConfig(), repair=True).keep(["The cafÃ© is open"])
    assert kept.content == "The café is open"


def test_only_wished_languages_stay() -> None:
    documents = DocumentFilter(FilterConfig(languages=("en",)), repair=False)
    english = "The house is old and the garden behind it is full of flowers."
    german = "Das Haus ist alt und der Garten dahinter ist voller Blumen."
    assert [document.content for document in documents.keep([english, german])] == [english]
    assert documents.dropped["language"] == 1


def test_a_nearly_equal_document_is_a_near_duplicate() -> None:
    documents = DocumentFilter(FilterConfig(near_duplicates=True), repair=False)
    text = " ".join(f"word{number}" for number in range(200))
    other = " ".join(f"other{number}" for number in range(200))
    assert len(documents.keep([text, text + " end", other])) == 2
    assert documents.dropped["near_duplicate"] == 1


def test_a_lower_threshold_drops_more() -> None:
    text = [f"word{number}" for number in range(200)]
    half = " ".join([*text[:130], *(f"other{number}" for number in range(70))])  # similarity about 0.48
    for threshold, kept in ((0.3, 1), (0.6, 2), (1.0, 2)):
        config = FilterConfig(near_duplicates=True, near_duplicate_threshold=threshold)
        assert len(DocumentFilter(config, repair=False).keep([" ".join(text), half])) == kept


@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=20))
def test_seen_keys_behave_like_a_set(batches: list[list[int]]) -> None:
    seen, known = SeenKeys(), set[int]()
    for batch in batches:
        expected = []
        for key in batch:
            expected.append(key not in known)
            known.add(key)
        assert seen.add(np.array(batch, dtype=np.uint64)).tolist() == expected


def test_seen_keys_take_about_eight_bytes_each() -> None:
    seen = SeenKeys()
    for start in range(0, 1_000_000, 4096):
        seen.add(np.arange(start, start + 4096, dtype=np.uint64))
    assert sum(run.nbytes for run in seen._runs) <= 8.1 * 1_003_520
    assert len(seen._runs) < 20
