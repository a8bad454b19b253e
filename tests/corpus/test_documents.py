"""A pass over the sources is the same every time, each dropped document is counted, a sample has no order.

Near-duplicates follow the true similarity and the threshold, in scripts with spaces and without.
"""

from pathlib import Path
from random import Random

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
    NearDuplicates,
    SeenKeys,
    count_bands,
    shingle,
)
from electralab.corpus.readers import DecodeError, ReadingConfig
from electralab.corpus.sources import find_sources
from electralab.errors import InputError, Stopped
from electralab.stopping import StopSignal


def stream(*inputs: Path, stop: StopSignal | None = None) -> DocumentStream:
    sources = find_sources([str(path) for path in inputs])
    kept = DocumentFilter(FilterConfig(), repair=False)
    return DocumentStream(sources, ReadingConfig(), kept, symbols=False, stop=stop or StopSignal())


def documents(count: int) -> list[Document]:
    return DocumentFilter(FilterConfig(), repair=False).keep([f"document number {place:04d}" for place in range(count)])


def test_a_table_without_the_column_is_passed_over_in_a_folder_but_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one\n\ntwo\n")
    (tmp_path / "table.tsv").write_text("id\tname\n1\tx\n")
    passed = stream(tmp_path)
    assert [document.content for batch in passed for document in batch] == ["one", "two"]
    assert passed.passed_over == [str(tmp_path / "table.tsv")]
    assert passed.counter.done == sum(path.stat().st_size for path in tmp_path.iterdir())
    with pytest.raises(InputError, match="has no column 'text'"):
        list(stream(tmp_path / "table.tsv"))


def test_a_signal_stops_the_pass(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    stop = StopSignal()
    stop.number = 15
    with pytest.raises(Stopped):
        list(stream(tmp_path, stop=stop))


def test_a_sample_is_bounded_and_does_not_depend_on_the_order() -> None:
    every = documents(500)
    size = len(str(every[0].content)) + _ENTRY_BYTES
    sample, other, whole = (DocumentSample(limit, seed=0) for limit in (100 * size, 100 * size, 1 << 20))
    sample.offer(every)
    whole.offer(every)
    for document in reversed(every):
        other.offer([document])
    assert sample.texts() == other.texts() == whole.texts()[:100]
    assert (len(sample.texts()), len(whole.texts())) == (100, 500)


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


def pair_of(wanted: float, spaced: bool, rng: Random) -> tuple[str, str]:
    """Two documents of about this similarity: the second shares its beginning with the first."""
    letters = [chr(0x4E00 + rng.randrange(3000)) for _ in range(800)]
    shared = round(800 * 2 * wanted / (1 + wanted) / 2)
    units = [letters[:400], [*letters[:shared], *letters[400 : 800 - shared]]]
    first, second = ((" ".join(f"w{ord(unit)}" for unit in text) if spaced else "".join(text)) for text in units)
    return first, second


@pytest.mark.parametrize("spaced", [True, False])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.95])
def test_the_share_that_is_found_follows_the_true_similarity(threshold: float, spaced: bool) -> None:
    rng = Random(f"{threshold} {spaced}")
    for distance, low, high in ((-0.15, 0.0, 0.0), (-0.1, 0.0, 0.05), (0.04, 0.85, 1.0), (0.08, 0.95, 1.0)):
        wanted = threshold + distance
        if not 0 < wanted < 1:
            continue
        found = 0
        for _ in range(100):
            first, second = pair_of(wanted, spaced, rng)
            shingles, others = shingle(first), shingle(second)
            assert len(shingles & others) / len(shingles | others) == pytest.approx(wanted, abs=0.02)
            known = NearDuplicates(threshold)
            assert not known.is_known(first)
            found += known.is_known(second)
        assert low <= found / 100 <= high, (wanted, found)


def test_a_character_changed_in_every_line_of_chinese_is_a_near_duplicate() -> None:
    rng = Random(0)
    known = NearDuplicates(0.8)
    found = 0
    for _ in range(100):
        lines = ["".join(chr(0x4E00 + rng.randrange(3000)) for _ in range(60)) for _ in range(8)]
        assert not known.is_known("\n".join(lines))
        changed = [line[:place] + "\u7684" + line[place + 1 :] for line in lines for place in [rng.randrange(60)]]
        found += known.is_known("\n".join(changed))
    assert found >= 98


def test_only_what_is_alike_throughout_passes_a_threshold_of_one() -> None:
    known = NearDuplicates(1.0)
    text = " ".join(f"word{number}" for number in range(300))
    assert not known.is_known(text)
    assert not known.is_known(f"{text} end of it")
    assert known.is_known(text.upper())


def test_shingles_are_three_words_and_where_there_are_no_spaces_three_characters() -> None:
    assert shingle("The CAT, 中文 sat") == {"the cat, 中", "cat, 中 文", "中 文 sat"}
    assert shingle("한국어 문장 \n 여기 ไท") == {"한국어 문장 여기", "문장 여기 ไ", "여기 ไ ท"}
    assert shingle("a" * 41) == {"a a a"}
    assert shingle("one two") == {"one two"}


@pytest.mark.parametrize("threshold", [0.05, 0.1, 0.3, 0.5, 0.8, 0.9, 0.99, 1.0])
def test_bands_find_what_is_just_similar_enough(threshold: float) -> None:
    bands = count_bands(threshold)
    assert 1 - (1 - threshold ** (256 // bands)) ** bands >= 0.99
