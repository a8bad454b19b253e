"""A pass over the sources is the same every time; a sample depends on the documents, not on their order."""

from pathlib import Path

import pytest

from electralab.corpus.documents import _ENTRY_BYTES, DocumentSample, DocumentStream
from electralab.corpus.filters import Document, DocumentFilter, FilterConfig
from electralab.corpus.readers import ReadingConfig
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


def test_the_meter_ends_at_the_size_of_the_sources(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n" * 1000)
    passed = stream(tmp_path)
    list(passed)
    assert passed.meter.done == (tmp_path / "a.txt").stat().st_size


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
