"""A pass over the sources is the same every time, each dropped document is counted, a sample has no order."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.corpus.documents import (
    _ENTRY_BYTES,
    Document,
    DocumentFilter,
    DocumentSample,
    DocumentStream,
    FilterConfig,
    SeenKeys,
)
from electralab.corpus.readers import DecodeError, ReadingConfig
from electralab.corpus.sources import find_sources
from electralab.errors import InputError, Stopped
from electralab.stopping import StopSignal


def stream(*inputs: Path, stop: StopSignal | None = None) -> DocumentStream:
    sources = find_sources([str(path) for path in inputs])
    return DocumentStream(
        sources, ReadingConfig(), FilterConfig(), repair=False, symbols=False, stop=stop or StopSignal()
    )


def documents(count: int) -> list[Document]:
    return DocumentFilter(FilterConfig(), repair=False).keep([f"document number {place:04d}" for place in range(count)])


def test_a_table_without_the_column_is_passed_over_in_a_folder_but_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one\n\ntwo\n")
    (tmp_path / "table.tsv").write_text("id\tname\n1\tx\n")
    passed = stream(tmp_path)
    assert [document.content for batch in passed for document in batch] == ["one", "two"]
    assert passed.passed_over == [str(tmp_path / "table.tsv")]
    with pytest.raises(InputError, match="has no column 'text'"):
        list(stream(tmp_path / "table.tsv"))


def test_the_counter_ends_at_the_size_of_the_sources(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n" * 1000)
    passed = stream(tmp_path)
    list(passed)
    assert passed.counter.done == (tmp_path / "a.txt").stat().st_size


def test_a_signal_stops_the_pass(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    stop = StopSignal()
    stop.number = 15
    with pytest.raises(Stopped):
        list(stream(tmp_path, stop=stop))


def test_a_sample_is_bounded_and_does_not_depend_on_the_order() -> None:
    every = documents(500)
    size = len(str(every[0].content)) + _ENTRY_BYTES
    one, other = DocumentSample(100 * size, seed=0), DocumentSample(100 * size, seed=0)
    one.offer(every)
    for document in reversed(every):
        other.offer([document])
    assert one.texts() == other.texts()
    assert len(one.texts()) == 100


def test_a_small_corpus_is_its_own_sample() -> None:
    sample = DocumentSample(1 << 20, seed=0)
    sample.offer(documents(20))
    assert len(sample.texts()) == 20


def test_every_reason_is_counted() -> None:
    documents = DocumentFilter(FilterConfig(min_characters=4), repair=False)
    kept = documents.keep(["long enough", "", "  \n", "abc", DecodeError(b"\xff"), " long enough "])
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
