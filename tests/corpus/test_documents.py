"""A pass over the sources is the same every time, each dropped document is counted, a sample has no order.

Near-duplicates follow the true similarity and the threshold, in scripts with spaces and without.
"""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from electralab.corpus.documents import (
    _ENTRY_BYTES,
    REASONS,
    DocumentFilter,
    DocumentSample,
    DocumentStream,
    DuplicateFilter,
    FilterConfig,
    NearDuplicates,
    SeenKeys,
    count_bands,
    read_numbered,
    shingle,
)
from electralab.corpus.readers import DecodeError, Raw, ReadingConfig
from electralab.corpus.sources import find_sources
from electralab.errors import InputError, Stopped
from electralab.randomness import mix
from electralab.stopping import StopSignal


def stream(*inputs: Path, stop: StopSignal | None = None) -> DocumentStream:
    sources = find_sources([str(path) for path in inputs])
    return DocumentStream(sources.files, ReadingConfig(), symbols=False, stop=stop or StopSignal())


def reasons(*batches: list[Raw], **filters: Any) -> list[str]:
    """Why the documents are dropped, "" for those that are kept."""
    config = FilterConfig(**filters)
    counter, duplicates = DocumentFilter(config, repair=False), DuplicateFilter(config)
    return [REASONS[reason] for batch in batches for reason in duplicates.decide(counter.count(batch))]


def sketch(text: str) -> NDArray[np.uint32]:
    counted = DocumentFilter(FilterConfig(near_duplicates=True), repair=False).count([text])
    return np.asarray(counted["sketch"][0])


def test_a_table_without_the_column_is_passed_over_in_a_folder_but_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one\n\ntwo\n")
    (tmp_path / "table.tsv").write_text("id\tname\n1\tx\n")
    passed = stream(tmp_path)
    assert [raw for batch in passed for raw in batch] == ["one", "two\n"]
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


def test_documents_are_read_by_their_numbers_and_files_without_any_are_not_opened(tmp_path: Path) -> None:
    for name, text in {"a": "0\n\n1\n\n2", "b": "", "c": "3", "d": "4\n\n5\n\n6"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    files, starts = find_sources([str(tmp_path)]).files, [0, 3, 3, 4, 7]

    def read(*spans: tuple[int, int]) -> list[tuple[int, Raw]]:
        return list(read_numbered(files, starts, spans, ReadingConfig(), symbols=False))

    assert read((0, 7)) == [(number, str(number)) for number in range(7)]
    assert read((1, 2), (2, 5), (6, 7)) == [(number, str(number)) for number in (1, 2, 3, 4, 6)]
    (tmp_path / "a.txt").unlink()
    assert read((3, 5)) == [(3, "3"), (4, "4")]
    (tmp_path / "d.txt").write_text("4")
    with pytest.raises(InputError, match=r"d\.txt: changed while it was read"):
        read((3, 6))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=30), st.integers(1, 4), st.integers(1, 2000))
def test_a_sample_is_the_lowest_ranks_that_fit_however_it_is_offered(
    documents: list[tuple[int, int]], batch: int, limit: int
) -> None:
    keys = np.array([key for key, _ in documents], dtype=np.uint64)
    sizes = np.array([7 * key for key, _ in documents], dtype=np.int64)  # what is equal is equally long
    sample = DocumentSample(limit, seed=0)
    for start in range(0, len(keys), batch):
        sample.offer(
            keys[start : start + batch], sizes[start : start + batch], np.arange(len(keys))[start : start + batch]
        )
    ranks = mix(0, keys.view(np.int64))
    expected: list[int] = []
    held = 0
    for place in sorted(range(len(keys)), key=lambda place: (ranks[place], place)):
        held += int(sizes[place]) + _ENTRY_BYTES
        if held > limit and expected:
            break
        expected.append(place)
    assert sample.places().tolist() == expected


def test_every_reason_is_counted() -> None:
    first: list[Raw] = ["long enough", "", "  \n", "abc", DecodeError(b"\xff"), " long enough "]
    expected = ["", "empty", "empty", "too_short", "undecodable", "duplicate", "duplicate", ""]
    assert reasons(first, ["long enough", "another one"], min_characters=4) == expected


def test_half_a_character_from_json_becomes_a_replacement_mark() -> None:
    assert DocumentFilter(FilterConfig(), repair=False).clean("a\ud800b") == ("a\ufffdb", "")


def test_repair_mends_text_decoded_twice() -> None:
    assert DocumentFilter(FilterConfig(), repair=True).clean("The cafÃ© is open") == ("The café is open", "")


def test_only_wished_languages_stay_and_a_copy_of_another_is_a_duplicate() -> None:
    english = "The house is old and the garden behind it is full of flowers."
    german = "Das Haus ist alt und der Garten dahinter ist voller Blumen."
    assert reasons([english, german, german], languages=("en",)) == ["", "language", "duplicate"]


def test_a_nearly_equal_document_is_a_near_duplicate() -> None:
    text = " ".join(f"word{number}" for number in range(200))
    other = " ".join(f"other{number}" for number in range(200))
    assert reasons([text, text + " end"], [other], near_duplicates=True) == ["", "near_duplicate", ""]


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
            assert not known.is_known(sketch(first))
            found += known.is_known(sketch(second))
        assert low <= found / 100 <= high, (wanted, found)


def test_a_character_changed_in_every_line_of_chinese_is_a_near_duplicate() -> None:
    rng = Random(0)
    known = NearDuplicates(0.8)
    found = 0
    for _ in range(100):
        lines = ["".join(chr(0x4E00 + rng.randrange(3000)) for _ in range(60)) for _ in range(8)]
        assert not known.is_known(sketch("\n".join(lines)))
        changed = [line[:place] + "\u7684" + line[place + 1 :] for line in lines for place in [rng.randrange(60)]]
        found += known.is_known(sketch("\n".join(changed)))
    assert found >= 98


def test_only_what_is_alike_throughout_passes_a_threshold_of_one() -> None:
    known = NearDuplicates(1.0)
    text = " ".join(f"word{number}" for number in range(300))
    assert not known.is_known(sketch(text))
    assert not known.is_known(sketch(f"{text} end of it"))
    assert known.is_known(sketch(text.upper()))


def test_shingles_are_three_words_and_where_there_are_no_spaces_three_characters() -> None:
    assert shingle("The CAT, 中文 sat") == {"the cat, 中", "cat, 中 文", "中 文 sat"}
    assert shingle("한국어 문장 \n 여기 ไท") == {"한국어 문장 여기", "문장 여기 ไ", "여기 ไ ท"}
    assert shingle("a" * 41) == {"a a a"}
    assert shingle("one two") == {"one two"}


@pytest.mark.parametrize("threshold", [0.05, 0.1, 0.3, 0.5, 0.8, 0.9, 0.99, 1.0])
def test_bands_find_what_is_just_similar_enough(threshold: float) -> None:
    bands = count_bands(threshold)
    assert 1 - (1 - threshold ** (256 // bands)) ** bands >= 0.99
