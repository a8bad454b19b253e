"""Model folders so small that an evaluation takes a moment, and how to run one to its end."""

import json
from pathlib import Path
from typing import Any

import torch

from electralab.evaluation.context import EvalModel, Progressive, T, load_eval_model
from electralab.evaluation.stage import EvaluateConfig, evaluate
from electralab.events import run_to_end
from electralab.model.electra import Electra, build_electra
from electralab.model.folders.folder import save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.records.evaluation import Suite
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

TEXT = "the cat sat on a mat and dogs sit near logs while birds sing under trees"
TOKENIZER = train_tokenizer([TEXT] * 20, TokenizerConfig(vocab_size=120, character_coverage=1.0))
LENGTH = 24


def build_pair(seed: int = 1, *, length: int = LENGTH, tokenizer: Tokenizer = TOKENIZER) -> Electra:
    """Weights drawn so widely that a wrong formula shows."""
    model = ModelConfig(embedding_size=16, hidden_size=16, num_layers=2, num_heads=2, feedforward_size=32, init_std=0.5)
    pair = build_electra(
        model, GeneratorConfig(width_share=1.0), vocab_size=tokenizer.vocab_size, sequence_length=length, seed=seed
    )
    return pair.eval()


def save_pair(folder: Path, pair: Electra, tokenizer: Tokenizer = TOKENIZER, objective: str = "") -> Path:
    for role in ("discriminator", "generator"):
        target = folder / "export" / role
        target.mkdir(parents=True)
        save_network(target, getattr(pair, role), pad_id=tokenizer.special.pad, objective=objective)
        tokenizer.save(target)
    return folder


def make_subject(folder: Path, seed: int = 1) -> EvalModel:
    return load_eval_model(save_pair(folder, build_pair(seed)), torch.device("cpu"))


def finish(steps: Progressive[T]) -> T:
    """Run to the end and return what comes out."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def run(
    model: Path, suite: Suite, data: Path, generator: Path | None = None, task: str | None = None, **settings: object
) -> Any:
    """The result of a suite, untyped: a test knows which of its scores are numbers."""
    config = EvaluateConfig.model_validate(settings)
    evaluation = run_to_end(evaluate(model, suite, data, config, generator=generator, task=task))
    json.dumps(evaluation.scores)
    return evaluation
