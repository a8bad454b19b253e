"""What is written about objectives is so: their examples run, and ARCHITECTURE.md quotes the heart as it is."""

import doctest
import importlib
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from little_objectives import TOKENIZER, configure
from little_pairs import VOCAB, counting_rows

from electralab.model.electra import CopyMLM, Electra, Generator, TwoStream, build_electra
from electralab.model.settings import EncoderConfig, GeneratorConfig, derive_encoders
from electralab.objective.electra import electra_forward
from electralab.objective.objective import StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch

ROOT = Path(__file__).parents[2]


def tiny_encoder(**more: Any) -> EncoderConfig:
    config = configure("mlm")
    _, encoder = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=16)
    return encoder.model_copy(update=more)


def tiny_pair(kind: Any = "transformer") -> Electra:
    sharing = "token" if kind == "two-tower" else "embeddings"
    model = configure("electra", model={"sharing": sharing}).model
    generator = GeneratorConfig(width_share=0.5, kind=kind)
    return build_electra(model, generator, vocab_size=VOCAB, sequence_length=16, seed=0)


def tiny_objective(name: str, **more: Any) -> ObjectiveConfig:
    if name == "electric":
        two_tower = GeneratorConfig(width_share=0.5, kind="two-tower")
        sharing = configure("electra", model={"sharing": "token"}).model
        return ObjectiveConfig(objective="electric", model=sharing, generator=two_tower, **more)
    return configure(name, **more)


def tiny_batch() -> Batch:
    return counting_rows(4, 8)


NAMES = {
    **{name: value for name, value in globals().items() if name.startswith("tiny_")},
    "tiny_tokenizer": lambda: TOKENIZER,
    **{thing.__name__: thing for thing in (Generator, CopyMLM, TwoStream, Rng, StepInfo)},
    "torch": torch,
}


@pytest.mark.parametrize("module", ["electra", "electric", "language_models", "procedures"])
def test_the_examples_of_objectives_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"electralab.objective.{module}"), extraglobs=NAMES)
    assert results.attempted > 0
    assert results.failed == 0


def test_the_architecture_quotes_the_heart_as_it_is() -> None:
    lines = inspect.getsource(electra_forward).splitlines()
    body = lines[next(number for number, line in enumerate(lines) if line.startswith('    """')) + 1 :]
    assert textwrap.dedent("\n".join(body)) in (ROOT / "ARCHITECTURE.md").read_text()
