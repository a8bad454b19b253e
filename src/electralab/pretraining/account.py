"""What a run would cost, from its settings alone: parameters, FLOPs in two conventions, memory, time on this machine.

PretrainConfig, vocabulary and row length -> Account

No weight is allocated: networks are built on torch's meta device, and text that is not there is stood in for.
"""

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electralab.model.electra import Discriminator
from electralab.model.flops import (
    PAPER_OUTPUT_SHARE,
    content_stream_flops,
    count_masked,
    discriminator_flops,
    encoder_flops,
    encoder_parts,
    generator_flops,
    mlm_head_flops,
    paper_discriminator_flops,
    paper_generator_flops,
    query_stream_flops,
    training_bytes,
    two_tower_flops,
)
from electralab.model.folders.folder import locate_model
from electralab.model.settings import derive_encoders
from electralab.model.token_models import TwoStream, TwoTower
from electralab.objective.objective import Network, Objective
from electralab.objective.registry import assemble_objective
from electralab.pretraining.identity import Budget
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.task import mean_step_flops
from electralab.tokens.shards import PreparedData, Rows, shard_dtype
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab

Parts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Account:
    objective: str
    vocab_size: int
    sequence_length: int
    batch_size: int
    parameters: dict[str, Parts]
    """Of each network; what two share is counted once, with the first."""
    forward: dict[str, Parts]
    """FLOPs of each network for a token of its row, by what they are spent on."""
    other: int
    """FLOPs for a token, forward and backward, of what is asked beside guesses and verdicts; 0 where that differs
    from step to step."""
    step_flops: int
    """Forward and backward of all networks, in the mean over the run."""
    paper_step_flops: int | None
    """In the paper's convention, which is defined for `electra` and `mlm` only."""
    steps: int
    tokens: int
    flops: int
    paper_flops: int | None
    memory_bytes: int

    @property
    def total_parameters(self) -> int:
        return sum(sum(parts.values()) for parts in self.parameters.values())


def draw_up(config: PretrainConfig, data: PreparedData, budget: Budget) -> Account:
    """The account of a run on this data, or on what stands in for it."""
    objective = build_outline(config, data)
    rows, length = config.batch.size, data.sequence_length
    step = mean_step_flops(objective, config, data)
    paper = count_paper_step(config, data.tokenizer.vocab_size, length)
    mean_tokens = config.batch.mean_rows * length
    steps = _count_steps(budget, mean_tokens, step)
    typical = _even_out(config)
    forward = {role: split_forward(network, typical, role, length) for role, network in objective.exports().items()}
    typical_step = mean_step_flops(objective, typical, data)
    return Account(
        objective=config.objective,
        vocab_size=data.tokenizer.vocab_size,
        sequence_length=length,
        batch_size=rows,
        parameters=count_parameters(objective),
        forward=forward,
        other=_find_rest(objective, config, forward, typical_step / (rows * length)),
        step_flops=round(step),
        paper_step_flops=None if paper is None else round(paper),
        steps=steps,
        tokens=round(steps * mean_tokens),
        flops=round(steps * step),
        paper_flops=None if paper is None else round(steps * paper),
        memory_bytes=estimate_memory(objective, config, length),
    )


def _even_out(config: PretrainConfig) -> PretrainConfig:
    """Without what changes along the run: what a part costs is told of a typical step."""
    masking = {"mask_share": config.masking.share_at(0.5), "final_mask_share": None}
    return config.model_copy(
        update={
            "masking": config.masking.model_copy(update=masking),
            "batch": config.batch.model_copy(update={"first_size": 0, "halved_share": 0.0}),
        }
    )


def _count_steps(budget: Budget, tokens_per_step: float, flops_per_step: float) -> int:
    assert budget.kind != "minutes", "how many steps a minute buys takes a probe"
    per_step = {"steps": 1, "tokens": tokens_per_step, "flops": flops_per_step}[budget.kind]
    return max(1, int(budget.amount / per_step))


def stand_in(config: PretrainConfig, vocab_size: int, sequence_length: int) -> PreparedData:
    """Data of so many tokens and such rows: one row, and words that are numbers."""
    if config.generator.kind == "frozen":  # whose guesses mean something with its own tokenizer only
        tokenizer = Tokenizer.load(locate_model(Path(config.generator.path), "generator"))
    else:
        words = Counter(map(str, range(vocab_size)))
        tokenizer = train_symbol_vocab(words, TokenizerConfig(vocab_size=vocab_size))
    row = np.full((1, sequence_length), tokenizer.vocab_size - 1, shard_dtype(tokenizer.vocab_size))
    rows = Rows.over([row], sequence_length)
    return PreparedData(Path(), {}, "", tokenizer, sequence_length, "contiguous", rows, rows)


def build_outline(config: PretrainConfig, data: PreparedData) -> Objective[Any]:
    """The objective with networks that have shapes and no weights, but those of a frozen generator."""
    device = torch.device("meta")
    with nullcontext() if config.generator.kind == "frozen" else device:
        return assemble_objective(config, data, device)


def count_parameters(objective: Objective[Any]) -> dict[str, Parts]:
    counts: dict[str, Parts] = {}
    for name, parameter in objective.networks.named_parameters():
        network, *inner = name.split(".")
        part = "embeddings" if "embeddings" in inner else "layers" if {"layers", "final_norm"} & {*inner} else "head"
        parts = counts.setdefault(network, dict.fromkeys(("embeddings", "layers", "head"), 0))
        parts[part] += parameter.numel()
    return counts


def split_forward(network: Network, config: PretrainConfig, role: str, length: int) -> Parts:
    """The FLOPs of a row, spread over its tokens: encoders by part, then what is said of their states."""
    if isinstance(network, TwoStream):
        return _split_streams(network, count_guesses(config, role, length), length)
    towers = _count_towers(network)
    parts = {name: towers * flops for name, flops in encoder_parts(network.config, length).items() if flops}
    read = towers * encoder_flops(network.config, 1, length)
    if isinstance(network, Discriminator):
        verdicts = discriminator_flops(network.config, 1, length, network.head.kind) - read
        return parts | {"verdicts": verdicts // length}
    count = two_tower_flops if isinstance(network, TwoTower) else generator_flops
    guesses = count(network.config, 1, length, count_guesses(config, role, length)) - read
    return parts | {"guesses": round(guesses / length)}


def _split_streams(network: TwoStream, guess_count: int, length: int) -> Parts:
    row = {
        "content_stream": content_stream_flops(network.config, 1, length),
        "query_stream": query_stream_flops(network.config, length, guess_count),
        "guesses": mlm_head_flops(network.config, guess_count),
    }
    return {name: round(flops / length) for name, flops in row.items()}


def _find_rest(objective: Objective[Any], config: PretrainConfig, forward: dict[str, Parts], per_token: float) -> int:
    """What a token costs beyond its networks' parts; less than a thousandth of it is rounding."""
    passes = {
        role: 3 if any(parameter.requires_grad for parameter in network.parameters()) else 1
        for role, network in objective.exports().items()
    }
    rest = per_token - sum(passes[role] * sum(parts.values()) for role, parts in forward.items())
    return round(rest) if config.procedure == "joint" and rest > per_token / 1000 else 0


def _count_towers(network: Network) -> int:
    return 2 if isinstance(network, TwoTower) else 1


def count_guesses(config: PretrainConfig, role: str, length: int) -> int:
    """How many tokens of a full row a network is asked for."""
    everywhere = {
        ("causal", "model"): length - 1,
        ("all-tokens-mlm", "model"): length,
        ("electric", "generator"): length - 2,
    }
    return everywhere.get((config.objective, role), count_masked(length, config.masking.mask_share))


def count_paper_step(config: PretrainConfig, vocab_size: int, length: int) -> float | None:
    """A step in the paper's convention; on the modern backbone its products with the paper's element-wise rates."""
    share = config.masking.mask_share
    share = PAPER_OUTPUT_SHARE if share == 0.15 else share  # the paper predicts a little more than it masks
    guessing, judging = derive_encoders(config.model, config.generator, vocab_size=vocab_size, sequence_length=length)
    rows = config.batch.size
    if config.objective == "mlm" and config.sentence_task == "none":
        return paper_generator_flops(judging, rows, length, share)
    is_plain = config.procedure == "joint" and config.generator.kind == "transformer" and not config.loss.auxiliary
    if config.objective not in ("electra", "electra-15") or not is_plain:
        return None
    return paper_generator_flops(guessing, rows, length, share) + paper_discriminator_flops(judging, rows, length)


def estimate_memory(objective: Objective[Any], config: PretrainConfig, length: int) -> int:
    """What training needs, and the guesses with their gradients."""
    rows = config.batch.micro_size or config.batch.size
    # By what goes through them: an encoder that is both networks' keeps the states of both passes.
    encoders = [one.config for one in objective.exports().values() for _ in range(_count_towers(one))]
    parameters = sum(parameter.numel() for parameter in objective.networks.parameters())
    guessing = {role: one for role, one in objective.exports().items() if not isinstance(one, Discriminator)}
    guesses = sum(count_guesses(config, role, length) * one.config.vocab_size for role, one in guessing.items())
    return training_bytes(encoders, parameters, rows * length) + 3 * 4 * rows * guesses
