"""Every objective by its name, built for its data.

ObjectiveConfig, PreparedData -> Objective
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.model import electra as networks
from electralab.model.electra import AnyGenerator, FixedGenerator, Generator
from electralab.model.folders.folder import load_network, locate_model
from electralab.model.settings import EncoderConfig, GeneratorConfig, derive_encoders
from electralab.model.weights import init_weights
from electralab.objective import language_models
from electralab.objective.electra import AllTokensObjective, ReplaceObjective
from electralab.objective.electric import ElectricObjective
from electralab.objective.objective import Objective
from electralab.objective.procedures import PROCEDURES
from electralab.objective.settings import REPLACING, ObjectiveConfig
from electralab.tokens.shards import PreparedData
from electralab.tokens.tokenizer import Tokenizer

# Enough rows to know how often each token occurs.
_COUNTED_ROWS = 20_000


def build_objective(config: ObjectiveConfig, data: PreparedData, seed: int, device: torch.device) -> Objective[Any]:
    """Step 0 of a run: networks whose first weights are a pure function of the seed and their names."""
    objective = assemble_objective(config, data, device)
    named = list(objective.networks.named_parameters())
    # A generator that came trained from its folder keeps its weights.
    frozen = {name: weight.detach().clone() for name, weight in named if not weight.requires_grad}
    init_weights(objective.networks, seed)
    with torch.no_grad():
        for name, value in frozen.items():
            objective.networks.get_parameter(name).copy_(value)
    if isinstance(objective, ElectricObjective):
        objective.init_energies()
    objective.networks.to(device)
    return objective


def assemble_objective(config: ObjectiveConfig, data: PreparedData, device: torch.device) -> Objective[Any]:
    """All but the first weights."""
    tokenizer, model = data.tokenizer, config.model
    sizes = {"vocab_size": tokenizer.vocab_size, "sequence_length": data.sequence_length}
    if config.objective in REPLACING:
        generator_config, encoder = derive_encoders(model, config.generator, **sizes)
        generator = build_generator(config, data, generator_config)
        if config.objective == "replace-mlm":
            return ReplaceObjective(Generator(encoder), generator, config, tokenizer, device)
        if config.objective == "all-tokens-mlm":
            return AllTokensObjective(networks.CopyMLM(encoder), generator, config, tokenizer, device)
        discriminator = networks.Discriminator(
            encoder, config.model.verdict_head, adds_cls=config.model.verdict_adds_cls
        )
        kind = ElectricObjective if config.objective == "electric" else PROCEDURES[config.procedure]
        return kind(networks.Electra(generator, discriminator, model.sharing), config, tokenizer, device)

    # What the settings say of a generator may not even fit together: here nothing is asked of it.
    alone = model.model_copy(update={"sharing": "none"})
    _, encoder = derive_encoders(alone, GeneratorConfig(width_share=1.0), **sizes)
    if config.objective == "causal":
        causal = EncoderConfig(**(encoder.model_dump() | {"is_causal": True}))
        return language_models.CausalObjective(Generator(causal), config, tokenizer)
    if config.objective == "permutation":
        return language_models.PermutationObjective(networks.TwoStream(encoder), config, tokenizer)
    masked = language_models.MLMObjective if config.sentence_task == "none" else language_models.SentencePairObjective
    return masked(Generator(encoder), config, tokenizer)


def build_generator(config: ObjectiveConfig, data: PreparedData, generator_config: EncoderConfig) -> AnyGenerator:
    match config.generator.kind:
        case "transformer" | "causal":
            return Generator(generator_config)
        case "two-tower":
            return networks.TwoTower(generator_config)
        case "unigram":
            return FixedGenerator(torch.from_numpy(measure_unigram(data)).float())
        case "uniform":
            is_ordinary = data.tokenizer.is_ordinary
            log_probs = np.where(is_ordinary, -np.log(is_ordinary.sum()), -np.inf)
            return FixedGenerator(torch.from_numpy(log_probs).float())
        case "frozen":
            return load_frozen(Path(config.generator.path), data)


def load_frozen(path: Path, data: PreparedData) -> Generator:
    """A trained generator that only makes replacements."""
    folder = locate_model(path, "generator")
    network = load_network(folder)
    if not isinstance(network, Generator):
        raise InputError(f"{folder}: holds no generator, which generator.path needs; give a run or its generator")
    if Tokenizer.load(folder).to_json() != data.tokenizer.to_json():
        raise InputError(f"{folder}: has another tokenizer than {data.path}, so its guesses mean nothing there")
    if network.config.vocab_size != data.tokenizer.vocab_size:
        raise InputError(
            f"{folder}: has {network.config.vocab_size} tokens, its tokenizer {data.tokenizer.vocab_size}; give a "
            "generator whose sizes agree"
        )
    if network.config.sequence_length < data.sequence_length:
        raise InputError(
            f"{folder}: takes rows of {network.config.sequence_length} tokens, those of {data.path} have "
            f"{data.sequence_length}; give a generator trained on rows as long"
        )
    return network.freeze()


def measure_unigram(data: PreparedData) -> NDArray[np.float64]:
    """(V,) log p of each token by its frequency in the training rows."""
    sample = np.linspace(0, len(data.train) - 1, min(len(data.train), _COUNTED_ROWS)).astype(np.int64)
    return unigram_log_probs(data.train.take(sample), data.tokenizer)


def unigram_log_probs(ids: NDArray[np.integer], tokenizer: Tokenizer) -> NDArray[np.float64]:
    """(V,) of the ordinary tokens among the ids; minus infinity for all others."""
    counts = np.bincount(ids.ravel(), minlength=tokenizer.vocab_size).astype(np.float64)
    counts = np.where(tokenizer.is_ordinary, counts + 1.0, 0.0)  # add-one: an unseen token has a finite loss
    log_probs: NDArray[np.float64] = np.log(counts / counts.sum(), out=np.full_like(counts, -np.inf), where=counts > 0)
    return log_probs
