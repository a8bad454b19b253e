"""Heads, neurons and layers are taken out of a network, or idle ones put in: network -> a smaller, or larger, network.

What is left computes exactly what the whole network would with the rest of its heads and neurons silent. Never the
first layer is dropped: on `modern` it alone has no norm before its attention.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor

from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import EncoderConfig, LayerShape
from electralab.model.folders.native_format import NETWORK_SPECS, network_name
from electralab.model.task_model import TaskModel

N = TypeVar("N", bound=Discriminator | Generator | TaskModel)

_LAYERS = "encoder.layers."


@dataclass(frozen=True, slots=True)
class PrunedLayer:
    """A layer of the whole network, and what of it stays, by number."""

    index: int
    heads: tuple[int, ...]
    neurons: tuple[int, ...]


def unpruned(config: EncoderConfig) -> list[PrunedLayer]:
    return [
        PrunedLayer(index, tuple(range(shape.num_heads)), tuple(range(shape.feedforward_size)))
        for index, shape in enumerate(config.layer_shapes)
    ]


@torch.no_grad()
def prune(network: N, kept: Sequence[PrunedLayer]) -> N:
    """A new network of the same kind with the kept layers, each with the kept heads and neurons, in this order."""
    config = network.config
    assert kept[0].index == 0, "the first layer stays"
    assert all(layer.heads and layer.neurons for layer in kept), "a layer keeps a head and a neuron"
    assert not config.share_layers, "layers that are one can only be pruned alike"
    pruned = _rebuild(network, _shrink(config, kept))
    sources = {name: parameter.detach() for name, parameter in network.named_parameters()}
    for name, target in pruned.named_parameters():
        layer, part = _locate(name)
        if layer is None:
            target.copy_(sources[name])
            continue
        source = sources[f"{_LAYERS}{kept[layer].index}.{part}"]
        if (spread := _spread(part, source, config)) is not None:
            places = kept[layer].heads if part.startswith("attention.") else kept[layer].neurons
            source = spread.tensor.index_select(spread.axis, torch.tensor(places, device=source.device))
        target.copy_(source.reshape(target.shape))
    return pruned


@torch.no_grad()
def pad(network: N) -> N:
    """The same answers from layers that are all alike, as other libraries want them: what is missing is there as zeros.

    Of dropped layers only those come back, idle, without which the others would not be local in every n-th place.
    """
    config = network.config
    if not config.shapes:
        return network
    places = _place_layers(config)
    uniform = config.model_copy(update={"shapes": (), "num_layers": places[-1] + 1})
    padded = _rebuild(network, uniform)
    sources = dict(network.named_parameters())
    for name, target in padded.named_parameters():
        layer, part = _locate(name)
        if layer is not None and layer not in places:
            target.fill_(1.0 if part.endswith("norm.weight") else 0.0)
            continue
        source = sources[name if layer is None else f"{_LAYERS}{places.index(layer)}.{part}"]
        spread = _spread(part, target, config) if layer is not None else None
        if spread is None:
            target.copy_(source)
            continue
        own = _spread(part, source, config)
        assert own is not None
        target.zero_()
        spread.tensor.narrow(spread.axis, 0, own.tensor.shape[own.axis]).copy_(own.tensor)
    return padded


@dataclass(frozen=True, slots=True)
class _Spread:
    """A view of a parameter in which one axis counts the heads, or the neurons."""

    tensor: Tensor
    axis: int


def _spread(part: str, tensor: Tensor, config: EncoderConfig) -> _Spread | None:
    """None for what belongs to all of a layer's heads and neurons together."""
    match part:
        case "attention.qkv.weight" | "attention.qkv.bias":
            return _Spread(tensor.view(3, -1, config.head_size, *tensor.shape[1:]), 1)  # (3, H, K, D)
        case "attention.output.weight":
            return _Spread(tensor.view(len(tensor), -1, config.head_size), 1)  # (D, H, K)
        case "attention.discrepancy_weights":
            return _Spread(tensor, 0)  # (H,)
        case "feedforward.up.weight" | "feedforward.up.bias":
            return _Spread(tensor.view(2 if config.is_gated else 1, -1, *tensor.shape[1:]), 1)  # (1 or 2, F, D)
        case "feedforward.down.weight":
            return _Spread(tensor, 1)  # (D, F)
        case _:
            return None


def _locate(name: str) -> tuple[int | None, str]:
    """The number of a parameter's layer, and its name there."""
    if not name.startswith(_LAYERS):
        return None, name
    index, _, part = name.removeprefix(_LAYERS).partition(".")
    return int(index), part


def _rebuild(network: N, config: EncoderConfig) -> N:
    recipe = NETWORK_SPECS[network_name(network)]
    rebuilt = cast("N", recipe.build(config, recipe.describe(network)))
    like = next(network.parameters())
    rebuilt.to(like.device, like.dtype)
    rebuilt.train(network.training)
    return rebuilt


def _shrink(config: EncoderConfig, kept: Sequence[PrunedLayer]) -> EncoderConfig:
    """Without shapes where what is left is uniform again: then it is a network like any other."""
    shapes = tuple(
        LayerShape(
            num_heads=len(layer.heads), feedforward_size=len(layer.neurons), is_local=config.is_local(layer.index)
        )
        for layer in kept
    )
    uniform = config.model_copy(update={"shapes": (), "num_layers": len(kept)})
    is_uniform = shapes == uniform.layer_shapes
    return uniform if is_uniform else uniform.model_copy(update={"shapes": shapes})


def _place_layers(config: EncoderConfig) -> list[int]:
    """For each layer the earliest place in a uniform network that is local, or not, as the layer is."""
    uniform = config.model_copy(update={"shapes": ()})
    places: list[int] = []
    for shape in config.layer_shapes:
        place = places[-1] + 1 if places else 0
        while uniform.is_local(place) != shape.is_local:
            place += 1
        places.append(place)
    assert config.is_modern or len(places) == places[-1] + 1, "an idle layer would still normalise"
    return places
