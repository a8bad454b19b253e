"""Tasks that a network of one layer learns perfectly in a second, and a pre-trained folder to begin from."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from little_words import word_tokenizer

from electralab.config import ConfigLayer, SettingsTree
from electralab.events import Event, run_to_end
from electralab.finetuning.stage import FinetuneRequest, finetune
from electralab.model.electra import build_electra
from electralab.model.folders.folder import save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.records.tuned import TunedResults
from electralab.stopping import StopSignal
from electralab.tasks.catalog import find_task
from electralab.tokens.tokenizer import Tokenizer

FILLING = ("the", "on", "mat", "a", "b", "c", ".")
QUICK: SettingsTree = {
    "epochs": 12,
    "sequence_length": 24,
    "batch": {"size": 8},
    "optimizer": {"learning_rate": 1e-2, "layer_decay": 0.9},
    "evaluation": {"times": 2},
}


def save_origin(folder: Path, *, tokenizer: Tokenizer | None = None, **model: Any) -> Path:
    """A network of one layer that was never trained, as pre-training would leave it."""
    tokenizer = tokenizer or word_tokenizer()
    small = {"num_layers": 1, "hidden_size": 32, "embedding_size": 32, "num_heads": 2, "feedforward_size": 64}
    vocab_size, special = tokenizer.vocab_size, tokenizer.special
    pair = build_electra(
        ModelConfig(**(small | model)), GeneratorConfig(), vocab_size=vocab_size, sequence_length=24, seed=1
    )
    folder.mkdir(parents=True)
    save_network(folder, pair.discriminator, pad_id=special.pad, cls_id=special.cls, sep_id=special.sep)
    tokenizer.save(folder)
    return folder


def fill(rng: random.Random, word: str) -> str:
    """The word somewhere among others that say nothing."""
    words = [rng.choice(FILLING) for _ in range(rng.randrange(1, 6))]
    words.insert(rng.randrange(len(words) + 1), word)
    return " ".join(words)


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_animals(folder: Path, *, train: int = 64, seed: int = 0) -> Path:
    """Cats are yes, dogs are no."""
    rng = random.Random(seed)
    for split, count in (("train", train), ("dev", 16)):
        animals = [("cat", "yes"), ("dog", "no")] * (count // 2)
        write_rows(folder / f"{split}.jsonl", [{"text": fill(rng, word), "label": label} for word, label in animals])
    return folder


def make_request(
    model: Path, task: str, data: Path, run: Path, *settings: SettingsTree, **changes: Any
) -> FinetuneRequest:
    fields: dict[str, Any] = {
        "model": model,
        "task": find_task(task),
        "data_dir": data,
        "run_dir": run,
        "layers": tuple(ConfigLayer("command line", values) for values in (QUICK, *settings)),
        "seeds": 1,
        "init_from": None,
        "threads": 1,
        "save_every": 0,
        "log_every": 5,
        "keep": 1,
        "allow_inexact": False,
    }
    return FinetuneRequest(**(fields | changes))


def tune(request: FinetuneRequest) -> dict[str, Any]:
    return run_to_end(finetune(request, StopSignal())).to_json()


def follow(request: FinetuneRequest) -> list[Event[TunedResults]]:
    return list(finetune(request, StopSignal()))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
