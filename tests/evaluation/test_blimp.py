"""Pairs from every layout they come in, and shares of them that can be counted by eye."""

import io
import json
import lzma
import tarfile
from pathlib import Path

import numpy as np
import pytest
from little_models import build_pair, run, save_pair

from electralab.errors import InputError
from electralab.evaluation.blimp import (
    MinimalPair,
    PairOutcomes,
    choose_pairs,
    compare_halves,
    read_pairs,
    summarise_pairs,
)

PAIR = MinimalPair("the cat sat", "the cat sit", "agreement", "verbs", "morphology")


def line(pair: MinimalPair = PAIR) -> str:
    return json.dumps(
        {
            "sentence_good": pair.good,
            "sentence_bad": pair.bad,
            "UID": pair.uid,
            "linguistics_term": pair.linguistics_term,
            "field": pair.field,
        }
    )


def pair_of(uid: str, term: str = "verbs", field: str = "syntax") -> MinimalPair:
    return MinimalPair("the cat sat", "the cat sit", uid, term, field)


def write_archive(path: Path, members: dict[str, str]) -> Path:
    with tarfile.open(path, "w:xz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def test_a_tie_counts_one_half() -> None:
    assert compare_halves(np.array([-1.0, -2.0, -3.0, -2.0, -2.0, -2.0])).tolist() == [1.0, 0.5, 0.0]


def test_groups_are_means_of_paradigms_and_not_of_pairs() -> None:
    pairs = [pair_of("a"), pair_of("a"), pair_of("a"), pair_of("b"), pair_of("c", "nouns", "semantics")]
    scores, groups = summarise_pairs([PairOutcomes(pairs, {"discriminator": np.array([1.0, 1.0, 1.0, 0.0, 0.5])})])
    assert scores["discriminator"] == 0.5
    assert {uid: found["discriminator"] for uid, found in groups["uid"].items()} == {"a": 1.0, "b": 0.0, "c": 0.5}
    assert groups["field"]["syntax"]["discriminator"] == 0.5
    assert groups["linguistics_term"]["nouns"]["discriminator"] == 0.5


def test_an_interval_narrows_with_more_pairs_and_is_never_a_point() -> None:
    def width(count: int) -> float:
        scores, _ = summarise_pairs([PairOutcomes([pair_of("a")] * count, {"d": np.ones(count)})])
        interval = scores["d_interval"]
        assert isinstance(interval, list)
        low, high = interval
        assert high == 1.0
        return 1 - (low or 0.0)

    assert 0 < width(1000) < width(10) < 0.5


def test_a_limit_takes_the_same_pairs_of_each_paradigm_every_time() -> None:
    pairs = [MinimalPair(str(number), "x", "ab"[number % 2], "", "") for number in range(40)]
    chosen = choose_pairs(pairs, 3, seed=5)
    assert [pair.uid for pair in chosen].count("a") == [pair.uid for pair in chosen].count("b") == 3
    assert chosen == choose_pairs(pairs, 3, seed=5)
    assert chosen != choose_pairs(pairs, 3, seed=6)
    assert choose_pairs(pairs, 0, seed=5) == pairs


def test_archive_folder_and_file_give_the_same_pairs(tmp_path: Path) -> None:
    text = line() + "\n" + line(pair_of("b")) + "\n"
    archive = write_archive(tmp_path / "blimp.tar.xz", {"data/a.jsonl": text, "data/._a.jsonl": "junk", "README": "x"})
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.jsonl.xz").write_bytes(lzma.compress(text.encode()))
    (folder / "README.txt").write_text("about the pairs")
    file = tmp_path / "a.jsonl"
    file.write_text("\ufeff" + text)
    read = [read_pairs(place, 0.0).pairs for place in (archive, folder, file)]
    assert read == [[PAIR, pair_of("b")]] * 3


def test_a_pair_without_a_paradigm_has_its_files_name(tmp_path: Path) -> None:
    (tmp_path / "islands.jsonl").write_text('{"sentence_good": "a", "sentence_bad": "b"}')
    assert read_pairs(tmp_path, 0.0).pairs == [MinimalPair("a", "b", "islands", "", "")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"sentence_good": "a"}', "has no text in 'sentence_bad'"),
        ('{"sentence_good": "a", "sentence_bad": " "}', "has no text in 'sentence_bad'"),
        ('{"sentence_good": 1, "sentence_bad": "b"}', "has no text in 'sentence_good'"),
        ('{"sentence_good": "\\ud800", "sentence_bad": "b"}', "half a character in 'sentence_good'"),
    ],
)
def test_a_bad_line_is_counted_with_its_place_and_reason(tmp_path: Path, bad: str, reason: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join([line(), bad, *[line()] * 18]))
    read = read_pairs(file, 0.05)
    assert len(read.pairs) == 19
    assert "a.jsonl: line 2: " in read.bad_rows[0]
    assert reason in read.bad_rows[0]
    with pytest.raises(InputError, match=r"1 of 20 lines hold no pair, the first is .*line 2.*--data.max-bad-share"):
        read_pairs(file, 0.01)


def test_bytes_that_are_no_text_are_a_bad_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(line().encode() + b"\n\xff\xfe\n")
    assert "is not UTF-8" in read_pairs(file, 0.5).bad_rows[0]


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder; give BLiMP's archive"):
        read_pairs(tmp_path / "absent", 0.0)
    whole = write_archive(tmp_path / "blimp.tar.xz", {"a.jsonl": line()}).read_bytes()
    (tmp_path / "half.tar.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="truncated or not a tar archive"):
        read_pairs(tmp_path / "half.tar.xz", 0.0)
    (tmp_path / "text.tar").write_text("no archive")
    with pytest.raises(InputError, match="truncated or not a tar archive"):
        read_pairs(tmp_path / "text.tar", 0.0)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no pair"):
        read_pairs(tmp_path / "empty.jsonl", 0.0)


def test_an_archives_huge_member_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("electralab.evaluation.blimp.MAX_MEMBER_BYTES", 10)
    archive = write_archive(tmp_path / "blimp.tar.xz", {"a.jsonl": line()})
    with pytest.raises(InputError, match="is larger than"):
        read_pairs(archive, 0.0)


def test_both_networks_of_a_run_are_scored_and_a_lone_one_says_so(tmp_path: Path) -> None:
    model = save_pair(tmp_path / "run", build_pair())
    data = tmp_path / "pairs.jsonl"
    same = MinimalPair("the cat sat", "the cat sat", "same", "", "")
    data.write_text("\n".join([line()] * 3 + [line(same)] * 3))
    found = run(model, "blimp", data, blimp={"generator_limit": 2})
    assert found.groups["uid"]["same"]["discriminator"] == found.groups["uid"]["same"]["generator"] == 0.5
    assert found.counts == {
        **{"pairs": 6, "bad_rows": 0, "discriminator_pairs": 6, "discriminator_truncated": 0},
        **{"generator_pairs": 4, "generator_truncated": 0},
    }
    assert found.notes == (
        "the generator's score is the pseudo-log-likelihood: log p of each token, hidden from it in turn",
        "the generator's scores are of 2 pairs per paradigm, 4 in all",
    )
    alone = run(model / "export" / "discriminator", "blimp", data)
    assert alone.scores["discriminator"] == found.scores["discriminator"]
    assert "generator" not in alone.scores
    assert "holds no generator" in alone.notes[0]
