"""What a run would cost, from its settings alone: parameters, FLOPs in two conventions, memory, steps, time.

PretrainConfig, vocabulary and row length -> CostEstimate; Budget -> steps; the paper's own runs -> PaperTable

No weight is allocated for an estimate: networks are built on torch's meta device, and placeholder data stands in for
text that is not there.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electralab.config import ConfigLayer, SettingsTree, resolve
from electralab.errors import UsageError
from electralab.model import flops
from electralab.model.electra import Discriminator, TwoStream, TwoTower
from electralab.model.folders.folder import locate_model
from electralab.model.settings import derive_encoders
from electralab.objective.objective import Network, Objective
from electralab.objective.registry import assemble_objective
from electralab.pretraining.settings import PretrainConfig, read_settings, resolve_pretrain
from electralab.pretraining.task import mean_step_flops
from electralab.records.run import Budget, BudgetKind, CostEstimate, PaperRun, PaperTable
from electralab.tokens.packing import PackingConfig
from electralab.tokens.shards import PreparedData, Rows, open_data, shard_dtype
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab

# The paper's runs: preset, what the run has of its own, row length, total FLOPs as the released script prints them.
_PAPER_RUNS: dict[str, tuple[str, SettingsTree, int, float]] = {
    "ELECTRA-Small": ("paper-small", {}, 128, 1.29e18),
    "BERT-Small": ("paper-small", {"objective": "mlm", "steps": 1_450_000}, 128, 1.42e18),
    "ELECTRA-Base": ("paper-base", {}, 512, 6.42e19),
    "BERT-Base": ("paper-base", {"objective": "mlm", "steps": 1_000_000}, 512, 6.43e19),
    "ELECTRA-400K": ("paper-large", {}, 512, 7.12e20),
    "ELECTRA-1.75M": ("paper-large", {"steps": 1_750_000}, 512, 3.11e21),
}
_PAPER_VOCABULARY = 30_522


def choose_budget(verb: str, requested: Mapping[BudgetKind, float | None], default: Budget) -> Budget:
    """The budget that was given; two of them are refused."""
    given = [Budget(kind, float(amount)) for kind, amount in requested.items() if amount is not None]
    if len(given) > 1:
        raise UsageError(f"{verb}: {given[0]} and {given[1]} are both given; give one budget")
    return given[0] if given else default


def count_steps(budget: Budget, config: PretrainConfig, data: PreparedData, objective: Objective[Any]) -> int:
    """How many steps the budget buys; what minutes buy shows while the run goes on."""
    match budget.kind:
        case "tokens":
            return max(1, int(budget.amount / (config.batch.mean_rows * data.sequence_length)))
        case "flops":
            return max(1, int(budget.amount / mean_step_flops(objective, config, data)))
    assert budget.kind == "steps"
    return max(1, int(budget.amount))


def choose_rows(
    config: PretrainConfig, data: str | Path | None, vocab_size: int | None, sequence_length: int | None
) -> PreparedData:
    """Without data, sizes that are not given are those that `electra prepare` takes by itself."""
    if data is not None and (vocab_size or sequence_length):
        raise UsageError("flops: --data has a vocabulary and a row length of its own; leave out the flags for them")
    if data is not None:
        return open_data(Path(data))
    length = {} if sequence_length is None else {"sequence_length": sequence_length}
    entries = {} if vocab_size is None else {"vocab_size": vocab_size}
    packing = resolve(PackingConfig, [ConfigLayer("flops", length)])
    tokenizer = resolve(TokenizerConfig, [ConfigLayer("flops", entries)])
    return placeholder_data(config, tokenizer.vocab_size, packing.sequence_length)


def placeholder_data(config: PretrainConfig, vocab_size: int, sequence_length: int) -> PreparedData:
    """Data of so many tokens and such rows: one row, and words that are numbers."""
    if config.generator.kind == "frozen":  # whose logits mean something with its own tokenizer only
        tokenizer = Tokenizer.load(locate_model(Path(config.generator.path), "generator"))
    else:
        words = Counter(map(str, range(vocab_size)))
        tokenizer = train_symbol_vocab(words, TokenizerConfig(vocab_size=vocab_size))
    row = np.full((1, sequence_length), tokenizer.vocab_size - 1, shard_dtype(tokenizer.vocab_size))
    rows = Rows.over([row], sequence_length)
    return PreparedData(Path(), "", tokenizer, sequence_length, "contiguous", rows, rows)


def estimate_cost(
    config: PretrainConfig, data: PreparedData, budget: Budget, flops_per_second: float = 1.0
) -> CostEstimate:
    """The cost of a run on this data, or on its placeholder, on a machine of this speed."""
    assert budget.kind != "minutes", "how many steps a minute buys shows in a run"
    # Shapes and no weights, but those of a frozen generator.
    device = torch.device("meta")
    with nullcontext() if config.generator.kind == "frozen" else device:
        objective = assemble_objective(config, data, device)
    vocab_size, length = data.tokenizer.vocab_size, data.sequence_length
    step_flops = mean_step_flops(objective, config, data)
    paper_flops = count_paper_step(config, vocab_size, length)
    step_tokens = config.batch.mean_rows * length
    per_step = {"steps": 1.0, "tokens": step_tokens, "flops": step_flops}[budget.kind]
    steps = max(1, int(budget.amount / per_step))
    # What a part costs is told of a typical step: without what changes along the run.
    masking = {"mask_share": config.masking.share_at(0.5), "final_mask_share": None}
    typical = config.model_copy(
        update={
            "masking": config.masking.model_copy(update=masking),
            "batch": config.batch.model_copy(update={"first_size": 0, "halved_share": 0.0}),
        }
    )
    networks = objective.exports()
    forward = {role: split_forward(network, typical, role, length) for role, network in networks.items()}
    # What a token costs beyond its networks' parts; less than a thousandth of it is rounding.
    token_flops = mean_step_flops(objective, typical, data) / (config.batch.size * length)
    is_trained = {role: any(p.requires_grad for p in network.parameters()) for role, network in networks.items()}
    known = sum((3 if is_trained[role] else 1) * sum(parts.values()) for role, parts in forward.items())
    has_other = config.procedure == "joint" and token_flops - known > token_flops / 1000
    parameters = count_parameters(objective)
    return CostEstimate(
        objective=config.objective,
        vocab_size=vocab_size,
        sequence_length=length,
        batch_size=config.batch.size,
        parameters=parameters,
        forward=forward,
        other=round(token_flops - known) if has_other else 0,
        step_flops=round(step_flops),
        paper_step_flops=None if paper_flops is None else round(paper_flops),
        steps=steps,
        tokens=round(steps * step_tokens),
        flops=round(steps * step_flops),
        paper_flops=None if paper_flops is None else round(steps * paper_flops),
        memory_bytes=estimate_memory(objective, config, length),
        total_parameters=sum(sum(parts.values()) for parts in parameters.values()),
        estimated_minutes=round(steps * step_flops) / flops_per_second / 60,
    )


def count_parameters(objective: Objective[Any]) -> dict[str, dict[str, int]]:
    """Of each network by part; what two share is counted once, with the first."""
    counts: dict[str, dict[str, int]] = {}
    for name, parameter in objective.networks.named_parameters():
        network, *inner = name.split(".")
        part = "embeddings" if "embeddings" in inner else "layers" if {"layers", "final_norm"} & {*inner} else "head"
        parts = counts.setdefault(network, dict.fromkeys(("embeddings", "layers", "head"), 0))
        parts[part] += parameter.numel()
    return counts


def split_forward(network: Network, config: PretrainConfig, role: str, length: int) -> dict[str, int]:
    """The FLOPs of a row, spread over its tokens: encoders by part, then the heads on their states."""
    num_predicted = count_predicted(config, role, length)
    if isinstance(network, TwoStream):
        row = {
            "content_stream": flops.content_stream_flops(network.config, 1, length),
            "query_stream": flops.query_stream_flops(network.config, length, num_predicted),
            "guesses": flops.mlm_head_flops(network.config, num_predicted),
        }
        return {name: round(amount / length) for name, amount in row.items()}
    towers = 2 if isinstance(network, TwoTower) else 1
    parts = flops.encoder_parts(network.config, length)
    parts = {name: towers * amount for name, amount in parts.items() if amount}
    encoders = towers * flops.encoder_flops(network.config, 1, length)
    if isinstance(network, Discriminator):
        heads = network.count_flops(1, length) - encoders
        return parts | {"verdicts": heads // length}
    return parts | {"guesses": round((network.count_flops(1, length, num_predicted) - encoders) / length)}


def count_predicted(config: PretrainConfig, role: str, length: int) -> int:
    """How many tokens of a full row a network predicts."""
    everywhere = {
        ("causal", "model"): length - 1,
        ("all-tokens-mlm", "model"): length,
        ("electric", "generator"): length - 2,
    }
    return everywhere.get((config.objective, role), flops.count_masked(length, config.masking.mask_share))


def count_paper_step(config: PretrainConfig, vocab_size: int, length: int) -> float | None:
    """A step in the paper's convention; on the modern backbone its products with the paper's element-wise rates."""
    share = config.masking.mask_share
    share = flops.PAPER_OUTPUT_SHARE if share == 0.15 else share  # the paper predicts a little more than it masks
    generator, main = derive_encoders(config.model, config.generator, vocab_size=vocab_size, sequence_length=length)
    rows = config.batch.size
    if config.objective == "mlm" and config.sentence_task == "none":
        return flops.paper_generator_flops(main, rows, length, share)
    is_plain = config.procedure == "joint" and config.generator.kind == "transformer" and not config.loss.auxiliary
    if config.objective not in ("electra", "electra-15") or not is_plain:
        return None
    return flops.paper_generator_flops(generator, rows, length, share) + flops.paper_discriminator_flops(
        main, rows, length
    )


def estimate_memory(objective: Objective[Any], config: PretrainConfig, length: int, workers: int = 1) -> int:
    """What training needs, from sizes alone; `plan` counts what a forward pass keeps, which takes seconds."""
    rows, slices = config.batch.rows_at_once, config.batch.slices
    networks = objective.exports()
    # By what goes through them: an encoder that is both networks' keeps the states of both passes.
    encoders = [network.config for network in networks.values()]
    encoders += [network.config for network in networks.values() if isinstance(network, TwoTower)]
    parameters = sum(parameter.numel() for parameter in objective.networks.parameters())
    needed = flops.training_bytes(encoders, parameters, rows * length, workers=workers, slices=slices)
    return needed + workers * rows * logit_bytes(objective, config, length)


def logit_bytes(objective: Objective[Any], config: PretrainConfig, length: int) -> int:
    """Of one row: logits over the vocabulary, their logarithms of a softmax, and a gradient, in 32 bits."""
    predicted = (
        count_predicted(config, role, length) * network.config.vocab_size
        for role, network in objective.exports().items()
        if not isinstance(network, Discriminator)
    )
    return 3 * 4 * sum(predicted)


def paper_runs() -> PaperTable:
    """The paper's own runs, counted by us and beside what its authors' script prints."""
    runs = {}
    for model, (preset, own, length, published) in _PAPER_RUNS.items():
        config = resolve_pretrain([read_settings(preset), ConfigLayer(model, own)])
        data = placeholder_data(config, _PAPER_VOCABULARY, length)
        cost = estimate_cost(config, data, Budget("steps", float(config.steps)))
        assert cost.paper_flops is not None
        runs[model] = PaperRun(
            parameters=cost.total_parameters,
            steps=cost.steps,
            paper_flops=cost.paper_flops,
            published_flops=published,
            ratio=cost.paper_flops / published,
            flops=cost.flops,
        )
    return PaperTable(runs=runs)
