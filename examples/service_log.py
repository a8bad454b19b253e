"""A made-up log of a web service, with planted anomalies: what `log_anomalies.py` trains and tests on.

write_symbol_log: seed -> train.jsonl, test.jsonl

Every event of a session of the log follows from what came before: a cache miss is filled from the database, a refused
card is tried again, an order that is paid leaves the stock. A planted anomaly is another real event of the log in a
position where the log never has it; frequencies alone cannot find it.
"""

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from electralab.artifacts import write_file
from electralab.randomness import mix

_PAGES = ("home", "search", "item", "cart", "orders", "account", "help")
_REGIONS = ("eu-west", "us-east", "ap-south")


@dataclass(frozen=True, slots=True)
class SymbolLog:
    train: Path
    test: Path


def write_symbol_log(
    folder: Path, seed: int, *, sessions: int = 4000, test_sessions: int = 200, anomaly_share: float = 0.03
) -> SymbolLog:
    """train.jsonl: {"symbols": [...]} a line; test.jsonl also {"anomalies": [indices]}."""
    train = [_make_session(_rng(seed, 0, number)) for number in range(sessions)]
    normal = [_make_session(_rng(seed, 1, number)) for number in range(test_sessions)]
    neighbours = {pair for events in (*train, *normal) for pair in itertools.pairwise(events)}
    vocabulary = sorted({event for events in train for event in events})
    test = []
    for number, events in enumerate(normal):
        count = max(1, round(anomaly_share * len(events)))
        symbols, indices = _plant_anomalies(events, vocabulary, neighbours, count, _rng(seed, 2, number))
        test.append({"symbols": symbols, "anomalies": indices})
    log = SymbolLog(folder / "train.jsonl", folder / "test.jsonl")
    write_file(log.train, "".join(json.dumps({"symbols": events}) + "\n" for events in train))
    write_file(log.test, "".join(json.dumps(line) + "\n" for line in test))
    return log


def _rng(*key: int) -> random.Random:
    return random.Random(int(mix(*key)))


def _choose(rng: random.Random, options: Sequence[str]) -> str:
    """Not rng.choice, whose use of random bits is Python's to change: a seed must give the same log."""
    return options[int(rng.random() * len(options))]


def _make_session(rng: random.Random) -> list[str]:
    region = _choose(rng, _REGIONS)
    events = [f"gateway accept {region}"]
    signed_in = rng.random() < 0.7
    if signed_in:
        events += _sign_in(rng)
    for _ in range(4 + int(rng.random() * 12)):
        page = _choose(rng, _PAGES)
        if page in ("orders", "account") and not signed_in:
            events += [f"GET /{page}", "auth missing", "302 /login"]
            events += _sign_in(rng)
            signed_in = True
        events += _request(rng, page, region)
        if page == "cart" and rng.random() < 0.5:
            events += _checkout(rng)
    if signed_in:
        events += ["POST /logout", "session destroy", "204"] if rng.random() < 0.6 else ["session expire"]
    return [*events, f"gateway close {region}"]


def _sign_in(rng: random.Random) -> Iterator[str]:
    yield "POST /login"
    while rng.random() < 0.15:
        yield from ("auth check", "auth wrong password", "401", "POST /login")
    yield from ("auth check", "auth ok", "session create", "200 session")


def _request(rng: random.Random, page: str, region: str) -> Iterator[str]:
    yield f"GET /{page}"
    if rng.random() < 0.6:
        yield f"cache hit {page}"
    else:
        yield f"cache miss {page}"
        table = {"search": "index", "item": "catalogue", "cart": "baskets", "home": "catalogue"}.get(page, page)
        yield f"db open {region}"
        while rng.random() < 0.06:
            yield from (f"db timeout {region}", "retry wait", f"db open {region}")
        yield from (f"db select {table}", f"cache fill {page}")
    yield f"200 {page}"


def _checkout(rng: random.Random) -> Iterator[str]:
    yield from ("POST /checkout", "stock reserve")
    method = _choose(rng, ("card", "transfer", "voucher"))
    yield f"payment start {method}"
    attempts = 0
    while method == "card" and rng.random() < 0.2 and attempts < 2:
        yield from ("payment declined card", "notify retry", "payment start card")
        attempts += 1
    if rng.random() < 0.08:
        yield from (f"payment failed {method}", "stock release", "402")
        return
    yield from (f"payment ok {method}", "stock decrement", "db insert orders", "mail queue receipt", "201 order")


def _plant_anomalies(
    events: Sequence[str], vocabulary: Sequence[str], neighbours: set[tuple[str, str]], count: int, rng: random.Random
) -> tuple[list[str], list[int]]:
    """Replace some inner events, never two side by side, by events never seen beside either neighbour."""
    symbols = list(events)
    indices: list[int] = []
    order = [rng.random() for _ in events]
    for index in sorted(range(1, len(events) - 1), key=order.__getitem__):
        if len(indices) == count:
            break
        if any(abs(index - other) < 2 for other in indices):
            continue
        left, right = events[index - 1], events[index + 1]
        strangers = [e for e in vocabulary if (left, e) not in neighbours and (e, right) not in neighbours]
        symbols[index] = _choose(rng, strangers)
        indices.append(index)
    return symbols, sorted(indices)
