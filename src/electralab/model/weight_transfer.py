"""A pair about to be trained takes over the weights of a finished network: (network, source) -> network, in place.

In place, so that what the pair shares stays shared. A source of `modern` has one merged table of the hidden size where
the pair may have a table and a projection; they are found again as its best factors.

Heads, neurons and layers are taken out of a network, or idle ones put in: network -> a smaller, or larger, network.

What is left computes exactly what the whole network would with the rest of its heads and neurons silent. Never the
first layer is dropped: on `modern` it alone has no norm before its attention.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from electralab.errors import InputError
from electralab.model.electra import CopyMLM, Discriminator, Generator, TwoStream
from electralab.model.encoder import Embeddings, Encoder
from electralab.model.folders.native_format import NETWORK_SPECS, network_name
from electralab.model.settings import EncoderConfig, LayerShape
from electralab.model.task_model import TaskModel

_TABLE = "encoder.embeddings.tokens.weight"
_DELTA = "encoder.embeddings.tokens.delta"
_PROJECTION = "encoder.embeddings.projection.weight"
_BIAS = "head.bias"
_POSITIONS = "encoder.embeddings.positions.weight"


@torch.no_grad()
def transfer_weights(
    network: Generator | Discriminator | TwoStream | CopyMLM,
    source: Generator | Discriminator | TwoStream | CopyMLM | Encoder,
    where: str,
    *,
    settled: Collection[nn.Parameter] = (),
    rows: Tensor | None = None,
) -> float:
    """Copy every weight; a bare encoder leaves the head as it was. `where` begins an error.

    `settled` are the weights of the pair that already have their values from another source: they stay as they are, and
    only what is this network's own is copied. A projection to a settled table is sought by least squares. Returned is
    how far the source's token table is from what the network has in its place: 0 if it was copied, tiny if it was once
    merged from such factors, large if the two sources never shared a table.

    `rows` has for each token of the network its row in the source's table, negative for one that the source lacks: that
    one begins as drawn. Without them the tables are row for row alike.
    """
    weights = _name_weights(source)
    is_settled = {id(parameter) for parameter in settled}
    kept = {name for name, parameter in network.named_parameters() if id(parameter) in is_settled}
    table_is_set = _TABLE in kept
    embeddings = network.encoder.embeddings
    if rows is None:
        is_known: slice | Tensor = slice(None)
    else:
        is_known = find_known(weights[_TABLE], rows)
        weights[_TABLE] = take_rows(weights[_TABLE], embeddings.tokens.weight, rows)
        if _BIAS in weights:
            weights[_BIAS] = take_rows(weights[_BIAS], network.get_parameter(_BIAS), rows)
    targets: dict[str, Tensor] = {name: parameter.detach() for name, parameter in network.named_parameters()}
    if _DELTA in targets:
        targets[_TABLE] = targets.pop(_DELTA)
    if isinstance(source, Encoder):
        targets = {name: target for name, target in targets.items() if name.startswith("encoder.")}
    if _POSITIONS in targets and _POSITIONS in weights:
        weights[_POSITIONS] = weights[_POSITIONS][: len(targets[_POSITIONS])]
    merged = None
    if network.config.is_modern and (_PROJECTION in targets or table_is_set) and _PROJECTION not in weights:
        merged = weights.pop(_TABLE)
        _check_merged(network, merged, where)
        targets = {name: target for name, target in targets.items() if name not in (_TABLE, _PROJECTION)}
    _check(targets, weights, where)
    for name, target in targets.items():
        if name in kept:
            continue
        if name == _TABLE:
            embeddings.assign_table(weights[name])
        else:
            target.copy_(weights[name])
    if merged is not None:
        return _factorise(embeddings, merged, kept, is_known)
    return _distance(embeddings.tokens.weight[is_known], weights[_TABLE][is_known]) if table_is_set else 0.0


def find_known(theirs: Tensor, rows: Tensor) -> Tensor:
    """(V,) the tokens whose row is there; a table may have fewer rows than its tokenizer has tokens."""
    return (rows >= 0) & (rows < len(theirs))


def take_rows(theirs: Tensor, fresh: Tensor, rows: Tensor) -> Tensor:
    """(V, ...) their row of each token, and the fresh one where they have none."""
    is_known = find_known(theirs, rows)
    wanted = theirs[rows.clamp(0, len(theirs) - 1)]
    if fresh.shape[1:] != theirs.shape[1:]:
        return wanted  # a merged table, of which only known rows are used; any other is refused for its shape
    return torch.where(is_known.view(-1, *[1] * (theirs.ndim - 1)), wanted, fresh)


def _name_weights(source: Generator | Discriminator | TwoStream | CopyMLM | Encoder) -> dict[str, Tensor]:
    prefix = "encoder." if isinstance(source, Encoder) else ""
    return {f"{prefix}{name}": parameter for name, parameter in source.named_parameters()}


def _check(targets: dict[str, Tensor], weights: dict[str, Tensor], where: str) -> None:
    strangers = sorted(targets.keys() ^ weights.keys())
    if strangers:
        holder = "the settings ask for" if strangers[0] in targets else "it has"
        raise InputError(
            f"{where}: its architecture is not that of the settings ({holder} {strangers[0]}); "
            "give model settings that match it"
        )
    for name, target in targets.items():
        if target.shape != weights[name].shape:
            raise InputError(
                f"{where}: {name} has the shape {tuple(weights[name].shape)} where the settings say "
                f"{tuple(target.shape)}; give model settings, a vocabulary and a sequence length that match it"
            )


def _check_merged(network: Generator | Discriminator | TwoStream | CopyMLM, merged: Tensor, where: str) -> None:
    wanted = (network.config.vocab_size, network.config.hidden_size)
    if tuple(merged.shape) != wanted:
        raise InputError(
            f"{where}: its token table has the shape {tuple(merged.shape)} where the settings say {wanted}; "
            "give model settings and a vocabulary that match it"
        )


def _factorise(embeddings: Embeddings, merged: Tensor, kept: Collection[str], is_known: slice | Tensor) -> float:
    """Table and projection whose product is the merged table, as nearly as their size and what is kept allow.

    Rows that are not known have no part in it, and keep what they have in the table.
    """
    table, projection = embeddings.tokens.weight[is_known], embeddings.projection
    wanted = merged.double()[is_known]
    if projection is None:
        product = table.double()
    elif _PROJECTION in kept:
        product = projection(table).double()
    else:
        if _TABLE in kept:
            columns = torch.linalg.lstsq(table.double(), wanted).solution.T  # (D, E)
        else:
            # The directions in which the merged table varies most; orthonormal, so they keep its scale.
            size = min(projection.weight.shape)
            columns = torch.zeros_like(projection.weight, dtype=wanted.dtype)  # (D, E)
            columns[:, :size] = torch.linalg.eigh(wanted.T @ wanted).eigenvectors[:, -size:]  # ascending
            rows = embeddings.tokens.weight.double()
            rows[is_known] = wanted @ columns
            embeddings.assign_table(rows)
        projection.weight.copy_(columns)
        product = embeddings.tokens.weight[is_known].double() @ columns.T
    return _distance(product, wanted)


def _distance(table: Tensor, wanted: Tensor) -> float:
    """Of two tables, relative to the second."""
    return float((table - wanted).norm() / wanted.norm())


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
