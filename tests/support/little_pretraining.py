"""A corpus of nine sentences, and a request to learn from it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import electralab
from electralab.config import parse_overrides
from electralab.display import Display
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.stage import PretrainRequest, pretrain
from electralab.records.run import Budget
from electralab.stopping import StopSignal

TEXTS = [f"the {a} sees the {b} and the {b} sees {a}" for a in ("cat", "dog", "cow") for b in ("sun", "sea", "sky")]


SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4"),
    *("--evaluation.rows", "4", "--evaluation.times", "1"),
)


def prepare_sentences(folder: Path, texts: Sequence[str] = TEXTS) -> Path:
    (folder / "text.txt").write_text("\n\n".join(texts))
    settings = {"tokenizer": {"vocab_size": 64}, "packing": {"sequence_length": 16}}
    electralab.prepare([folder / "text.txt"], folder / "data", settings=settings, display=Display(quiet=True))
    return folder / "data"


def make_request(data: Path, run: Path, words: tuple[str, ...], *, steps: int = 6, **changes: Any) -> PretrainRequest:
    fields: dict[str, Any] = {
        "data_dir": data,
        "run_dir": run,
        "config": resolve_pretrain([parse_overrides(list(words))]),
        "budget": Budget("steps", float(steps)),
        "init_from": None,
        "threads": 1,
        "save_every": 3,
        "log_every": 1,
        "keep": 5,
        "extend": False,
        "allow_inexact": False,
    }
    return PretrainRequest(**(fields | changes))


def train(data: Path, run: Path, words: tuple[str, ...], **changes: Any) -> list[Any]:
    """The events of a whole run, or of its rest."""
    return list(pretrain(make_request(data, run, words, **changes), StopSignal()))


def read_log(run: Path) -> list[dict[str, Any]]:
    """What is logged of each step, without how long it took."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in record.items() if key not in ("seconds", "tokens_per_second")}
        for record in records
    ]
