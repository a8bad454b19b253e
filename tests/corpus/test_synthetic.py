"""The made-up log is the same for a seed, and its anomalies are where the labels say."""

import json
from itertools import pairwise
from pathlib import Path

from electralab.corpus.synthetic import write_symbol_log


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
    assert same.train.read_bytes() == again.train.read_bytes()
    assert same.test.read_bytes() == again.test.read_bytes()
    assert same.train.read_bytes() != other.train.read_bytes()
