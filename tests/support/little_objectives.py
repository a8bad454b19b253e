"""Objectives without a run or data: two small networks and a vocabulary that counts."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from little_pairs import CPU, VOCAB, CountingTokenizer, counting_rows
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from electralab.model.electra import CopyMLM, Generator
from electralab.model.flops import count_masked
from electralab.model.settings import GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.electra import AllTokensObjective, ReplaceObjective
from electralab.objective.language_models import MLMObjective, SentencePairObjective
from electralab.objective.losses import add_counts
from electralab.objective.objective import Inputs, Objective, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer

NOW = StepInfo(1, 10)
SHARE = 0.25
SIZES: dict[str, Any] = {
    "backbone": "modern",
    "embedding_size": 32,
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 2,
    "feedforward_size": 48,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
TOKENIZER = cast(Tokenizer, CountingTokenizer())
MASKED = 3 * count_masked(16, SHARE)  # of three rows of 16 tokens


def configure(objective: str, *, model: Mapping[str, Any] | None = None, **more: Any) -> ObjectiveConfig:
    sizes = ModelConfig(**(SIZES | dict(model or {})))
    return ObjectiveConfig(objective=objective, model=sizes, generator=GeneratorConfig(width_share=0.5), **more)


def make_replacing(
    objective: str, *, length: int = 16, model: Mapping[str, Any] | None = None, **more: Any
) -> ReplaceObjective | AllTokensObjective:
    config = configure(objective, model=model, **more)
    guessing, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=length)
    if objective == "replace-mlm":
        made: Any = ReplaceObjective(Generator(judging), Generator(guessing), config, TOKENIZER, CPU)
    else:
        made = AllTokensObjective(CopyMLM(judging), Generator(guessing), config, TOKENIZER, CPU)
    init_weights(made.networks, 1)
    return cast(ReplaceObjective | AllTokensObjective, made)


def make_masked(
    *, length: int = 16, model: Mapping[str, Any] | None = None, **more: Any
) -> MLMObjective | SentencePairObjective:
    config = configure("mlm", model=model, **more)
    _, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=length)
    network = Generator(judging)
    if config.sentence_task == "none":
        made: Any = MLMObjective(network, config, TOKENIZER)
    else:
        made = SentencePairObjective(network, config, TOKENIZER)
    init_weights(made.networks, 1)
    return cast(MLMObjective | SentencePairObjective, made)


def weigh(objective: Objective[Any], batch: Batch, micro_size: int, rng: Rng | None = None) -> Tensor:
    """The step's loss, however it is split."""
    questions = objective.make_inputs(batch, micro_size, SHARE, rng or Rng(3, 1))
    counts = add_counts(objective.count_targets(question) for question in questions)
    answers = [objective.training_step(question, NOW) for question in questions]
    return torch.stack([answer.losses.weigh(counts, objective.weights) for answer in answers]).sum()


def learn(objective: Objective[Any], batch: Batch, steps: int, rate: float = 5e-3) -> None:
    """With fresh luck in every step."""
    optimizer = torch.optim.Adam(objective.networks.parameters(), lr=rate)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        weigh(objective, batch, len(batch.row_numbers), Rng(3, step)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def count_by_torch(objective: Objective[Any], rows: int, length: int) -> int:
    (question,) = objective.make_inputs(counting_rows(rows, length), rows, SHARE, Rng(3, 1))
    counts = objective.count_targets(question)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        objective.training_step(question, NOW).losses.weigh(counts, objective.weights).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def whole_inputs(objective: Objective[Inputs], batch: Batch) -> Inputs:
    """The batch in one piece."""
    (inputs,) = objective.make_inputs(batch, len(batch.row_numbers), SHARE, Rng(3, 1))
    return inputs


def widen(objective: Objective[Any]) -> None:
    """Weights so large that a wrong formula shows."""
    with torch.no_grad():
        for parameter in objective.networks.parameters():
            if parameter.dim() == 2:
                parameter.mul_(8)
