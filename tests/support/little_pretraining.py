"""A corpus of nine sentences, and a request to learn from it."""

from pathlib import Path
from typing import Any

import electralab
from electralab.config import parse_overrides
from electralab.display import Display
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.stage import PretrainRequest
from electralab.records.run import Budget

TEXTS = [f"the {a} sees the {b} and the {b} sees {a}" for a in ("cat", "dog", "cow") for b in ("sun", "sea", "sky")]


def prepare_sentences(folder: Path) -> Path:
    (folder / "text.txt").write_text("\n\n".join(TEXTS))
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
