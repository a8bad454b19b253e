"""Sessions of symbols, one a row: rows of one event and of many train together, and padding is never judged."""

import json
import math
from pathlib import Path

import pytest
from little_pretraining import make_request

import electralab
from electralab.display import Display
from electralab.events import Result
from electralab.pretraining.stage import pretrain
from electralab.stopping import StopSignal
from electralab.tokens.batches import batch_at
from electralab.tokens.shards import open_data

SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "8"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--model.dropout", "0"),
    *("--batch.size", "6", "--batch.micro-size", "4", "--evaluation.rows", "4", "--evaluation.times", "1"),
)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of 1 to 5 events in rows that have room for 14."""
    folder = tmp_path_factory.mktemp("sessions")
    lists = [[f"event {(number + step) % 7}" for step in range(1 + number % 5)] for number in range(60)]
    (folder / "log.jsonl").write_text("".join(json.dumps(symbols) + "\n" for symbols in lists))
    settings = {"symbols": True, "packing": {"sequence_length": 16}, "heldout_share": 0.2}
    electralab.prepare([folder / "log.jsonl"], folder / "data", settings=settings, display=Display(quiet=True))
    return folder / "data"


def test_a_batch_of_short_rows_knows_its_padding(sessions: Path) -> None:
    data = open_data(sessions)
    batch = batch_at(data, 0, 32, seed=0)
    sizes = (~batch.is_pad).sum(1)
    assert batch.has_padding
    assert set((sizes - 2).tolist()) <= {1, 2, 3, 4, 5}
    assert batch.original_ids.shape == (32, int(sizes.max()))  # and no wider, though rows have room for 16
    assert (batch.is_ordinary.sum(1) == sizes - 2).all()
    assert not (batch.is_ordinary & batch.is_pad).any()


@pytest.mark.parametrize(
    "words",
    [
        ("--objective", "electra"),
        ("--objective", "electra", "--model.backbone", "electra"),
        ("--objective", "electra", "--masking.unit", "span"),
        ("--objective", "electra", "--generator.kind", "two-tower"),
        ("--objective", "electra", "--generator.kind", "causal"),
        ("--objective", "electric"),
        ("--objective", "replace-mlm"),
        ("--objective", "all-tokens-mlm"),
        ("--objective", "mlm"),
        ("--objective", "causal"),
        ("--objective", "permutation"),
    ],
    ids=lambda words: " ".join(words[1:]),
)
def test_every_objective_learns_from_short_rows(sessions: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    events = list(pretrain(make_request(sessions, tmp_path / "run", (*SMALL, *words), steps=3), StopSignal()))
    assert isinstance(events[-1], Result)
    logged = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = {name: value for record in logged for name, value in record.items() if name.endswith("loss")}
    assert losses
    assert all(value is not None and math.isfinite(value) for value in losses.values()), losses
