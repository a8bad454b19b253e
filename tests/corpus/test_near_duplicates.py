"""What is found follows the true similarity and the threshold, in scripts with spaces and without."""

from random import Random

import pytest

from electralab.corpus.near_duplicates import NearDuplicates, count_bands, shingle, split_units


def similarity(first: str, second: str) -> float:
    one, other = shingle(first), shingle(second)
    return len(one & other) / len(one | other)


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
            assert similarity(first, second) == pytest.approx(wanted, abs=0.02)
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


def test_units_are_words_and_where_there_are_no_spaces_characters() -> None:
    assert split_units("The CAT, 中文 sat\nไทย") == ["the", "cat,", "中", "文", "sat", "ไ", "ท", "ย"]
    assert split_units("한국어 문장") == ["한국어", "문장"]
    assert split_units("a" * 41) == ["a"] * 41
    assert shingle("one two") == {"one two"}


@pytest.mark.parametrize("threshold", [0.05, 0.1, 0.3, 0.5, 0.8, 0.9, 0.99, 1.0])
def test_bands_find_what_is_just_similar_enough(threshold: float) -> None:
    bands = count_bands(threshold)
    assert 1 - (1 - threshold ** (256 // bands)) ** bands >= 0.99
