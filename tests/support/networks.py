"""Networks whose weights are far from their small first values, so that a wrong formula shows."""

import torch
from torch import Tensor, nn

from electralab.config import SettingsTree
from electralab.model.electra import Electra, Generator, build_electra
from electralab.model.settings import SIZES, EncoderConfig, GeneratorConfig, ModelConfig

Rows = tuple[Tensor, Tensor, Tensor]


def make_pair(size: str, vocab_size: int = 100, sequence_length: int = 64, **model: object) -> Electra:
    layers = SIZES[size]
    return build_electra(
        ModelConfig(**(layers["model"] | model)),
        GeneratorConfig(**layers["generator"]),
        vocab_size=vocab_size,
        sequence_length=sequence_length,
        seed=1,
    )


def tiny_config(backbone: str, **more: object) -> EncoderConfig:
    """One layer of two heads with four coordinates each."""
    eights = ("embedding_size", "hidden_size", "feedforward_size", "vocab_size", "sequence_length")
    sizes: SettingsTree = {**dict.fromkeys(eights, 8), "num_layers": 1, "num_heads": 2}
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "norm_eps": 1e-5}
    return EncoderConfig(**(sizes | rates | {"backbone": backbone} | more))


def generator_of(pair: Electra) -> Generator:
    """Of a pair that has the usual kind."""
    assert isinstance(pair.generator, Generator)
    return pair.generator


@torch.no_grad()
def exaggerate(network: nn.Module) -> None:
    """Matrices that enlarge what passes through them, biases and norms away from 0 and 1."""
    rng = torch.Generator().manual_seed(7)
    for parameter in network.parameters():
        noise = torch.randn(parameter.shape, generator=rng)
        if parameter.dim() == 2:
            parameter.copy_(2 * noise * parameter.shape[1] ** -0.5)
        else:
            parameter.copy_(0.3 * noise + parameter.mean().round())


def make_rows() -> Rows:
    """Three rows of pairs, two of them padded: ids, segments, is_pad."""
    rng = torch.Generator().manual_seed(3)
    input_ids = torch.randint(1, 100, (3, 24), generator=rng)
    lengths, firsts = torch.tensor([24, 17, 5]), torch.tensor([10, 9, 2])
    columns = torch.arange(24)
    is_pad = columns >= lengths[:, None]
    segment_ids = ((columns >= firsts[:, None]) & ~is_pad).long()
    return input_ids.masked_fill(is_pad, 0), segment_ids, is_pad
