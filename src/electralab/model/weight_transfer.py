"""The weights of one network go into another.

transfer_weights   a pair about to be trained takes over a finished network, in place, so that what it shares stays
                   shared. A source of `modern` has one merged table of the hidden size where the pair may have a
                   table and a projection; they are found again as its best factors.
prune              heads, neurons and layers are taken out: what is left computes exactly what the whole network
                   would with the rest of its heads and neurons silent. The first layer is never dropped: on
                   `modern` it alone has no norm before its attention.
pad                idle heads, neurons and layers are put in, so that all layers are alike
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from electralab.errors import InputError
from electralab.model.electra import CopyMLM, Discriminator, Generator, TwoStream
from electralab.model.encoder import Embeddings, Encoder
from electralab.model.folders.native_format import rebuild
from electralab.model.settings import EncoderConfig, LayerShape
from electralab.model.task_model import TaskModel

_TABLE = "encoder.embeddings.tokens.weight"
_DELTA = "encoder.embeddings.tokens.delta"
_PROJECTION = "encoder.embeddings.projection.weight"
_BIAS = "head.bias"
_POSITIONS = "encoder.embeddings.positions.weight"
_LAYERS = "encoder.layers."


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
    prefix = "encoder." if isinstance(source, Encoder) else ""
    weights: dict[str, Tensor] = {f"{prefix}{name}": parameter for name, parameter in source.named_parameters()}
    targets: dict[str, Tensor] = {name: parameter.detach() for name, parameter in network.named_parameters()}
    is_settled = {id(parameter) for parameter in settled}
    kept = {name for name, parameter in network.named_parameters() if id(parameter) in is_settled}
    embeddings, config = network.encoder.embeddings, network.config
    is_known: slice | Tensor = slice(None)
    if rows is not None:
        # A table may have fewer rows than its tokenizer has tokens.
        is_known = (rows >= 0) & (rows < len(weights[_TABLE]))
        weights[_TABLE] = take_rows(weights[_TABLE], embeddings.tokens.weight, rows)
        if _BIAS in weights:
            weights[_BIAS] = take_rows(weights[_BIAS], targets[_BIAS], rows)
    if _DELTA in targets:
        targets[_TABLE] = targets.pop(_DELTA)
    if isinstance(source, Encoder):
        targets = {name: target for name, target in targets.items() if name.startswith("encoder.")}
    if _POSITIONS in targets and _POSITIONS in weights:
        weights[_POSITIONS] = weights[_POSITIONS][: len(targets[_POSITIONS])]
    merged = None
    if config.is_modern and (_PROJECTION in targets or _TABLE in kept) and _PROJECTION not in weights:
        merged, wanted = weights.pop(_TABLE), (config.vocab_size, config.hidden_size)
        if tuple(merged.shape) != wanted:
            raise InputError(
                f"{where}: its token table has the shape {tuple(merged.shape)} where the settings say {wanted}; "
                "give model settings and a vocabulary that match it"
            )
        targets = {name: target for name, target in targets.items() if name not in (_TABLE, _PROJECTION)}

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
    for name, target in targets.items():
        if name == _TABLE and name not in kept:
            embeddings.assign_table(weights[name])
        elif name not in kept:
            target.copy_(weights[name])
    if merged is not None:
        return _factorise(embeddings, merged, kept, is_known)
    return _distance(embeddings.tokens.weight[is_known], weights[_TABLE][is_known]) if _TABLE in kept else 0.0


def take_rows(theirs: Tensor, fresh: Tensor, rows: Tensor) -> Tensor:
    """(V, ...) their row of each token, and the fresh one where they have none."""
    is_known = (rows >= 0) & (rows < len(theirs))
    wanted = theirs[rows.clamp(0, len(theirs) - 1)]
    if fresh.shape[1:] != theirs.shape[1:]:
        return wanted  # a merged table, of which only known rows are used; any other is refused for its shape
    return torch.where(is_known.view(-1, *[1] * (theirs.ndim - 1)), wanted, fresh)


def _factorise(embeddings: Embeddings, merged: Tensor, kept: Collection[str], is_known: slice | Tensor) -> float:
    """Table and projection whose product is the merged table, as nearly as their size and what is kept allow.

    Rows that are not known have no part in it, and keep what they have in the table.
    """
    table, projection = embeddings.tokens.weight[is_known], embeddings.projection
    wanted = merged.double()[is_known]
    if projection is None:
        return _distance(table.double(), wanted)
    if _PROJECTION in kept:
        return _distance(projection(table).double(), wanted)
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
    return _distance(embeddings.tokens.weight[is_known].double() @ columns.T, wanted)


def _distance(table: Tensor, wanted: Tensor) -> float:
    """Of two tables, relative to the second."""
    return float((table - wanted).norm() / wanted.norm())


# ------------------------------------------------------------------------------------------------------------- pruning

N = TypeVar("N", bound=Discriminator | Generator | TaskModel)


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
    shapes = tuple(
        LayerShape(
            num_heads=len(layer.heads), feedforward_size=len(layer.neurons), is_local=config.is_local(layer.index)
        )
        for layer in kept
    )
    # Without shapes where what is left is uniform again: then it is a network like any other.
    pruned_config = config.model_copy(update={"shapes": (), "num_layers": len(kept)})
    if shapes != pruned_config.layer_shapes:
        pruned_config = pruned_config.model_copy(update={"shapes": shapes})
    pruned = _rebuild(network, pruned_config)
    sources = {name: parameter.detach() for name, parameter in network.named_parameters()}
    for name, target in pruned.named_parameters():
        layer, part = _split_name(name)
        if layer is None:
            target.copy_(sources[name])
            continue
        source = sources[f"{_LAYERS}{kept[layer].index}.{part}"]
        if (view := _unit_view(part, source, config)) is not None:
            indices = kept[layer].heads if part.startswith("attention.") else kept[layer].neurons
            source = view[0].index_select(view[1], torch.tensor(indices, device=source.device))
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
    # For each layer the earliest index in a uniform network that is local, or not, as the layer is.
    uniform = config.model_copy(update={"shapes": ()})
    indices: list[int] = []
    for shape in config.layer_shapes:
        index = indices[-1] + 1 if indices else 0
        while uniform.is_local(index) != shape.is_local:
            index += 1
        indices.append(index)
    assert config.is_modern or len(indices) == indices[-1] + 1, "an idle layer would still normalise"
    padded = _rebuild(network, uniform.model_copy(update={"num_layers": indices[-1] + 1}))
    sources = dict(network.named_parameters())
    for name, target in padded.named_parameters():
        layer, part = _split_name(name)
        if layer is not None and layer not in indices:
            target.fill_(1.0 if part.endswith("norm.weight") else 0.0)
            continue
        source = sources[name if layer is None else f"{_LAYERS}{indices.index(layer)}.{part}"]
        view = None if layer is None else _unit_view(part, target, config)
        source_view = None if layer is None else _unit_view(part, source, config)
        if view is None or source_view is None:
            target.copy_(source)
            continue
        target.zero_()
        view[0].narrow(view[1], 0, source_view[0].shape[view[1]]).copy_(source_view[0])
    return padded


def _unit_view(part: str, tensor: Tensor, config: EncoderConfig) -> tuple[Tensor, int] | None:
    """A view of a parameter in which one axis counts the heads, or the neurons, and which axis; None for what belongs
    to all of a layer's heads and neurons together."""
    match part:
        case "attention.qkv.weight" | "attention.qkv.bias":
            return tensor.view(3, -1, config.head_size, *tensor.shape[1:]), 1  # (3, H, K, D)
        case "attention.output.weight":
            return tensor.view(len(tensor), -1, config.head_size), 1  # (D, H, K)
        case "attention.discrepancy_weights":
            return tensor, 0  # (H,)
        case "feedforward.up.weight" | "feedforward.up.bias":
            return tensor.view(2 if config.is_gated else 1, -1, *tensor.shape[1:]), 1  # (1 or 2, F, D)
        case "feedforward.down.weight":
            return tensor, 1  # (D, F)
        case _:
            return None


def _split_name(name: str) -> tuple[int | None, str]:
    """The number of a parameter's layer, and its name there."""
    if not name.startswith(_LAYERS):
        return None, name
    index, _, part = name.removeprefix(_LAYERS).partition(".")
    return int(index), part


def _rebuild(network: N, config: EncoderConfig) -> N:
    like = next(network.parameters())
    rebuilt = rebuild(network, config).to(like.device, like.dtype)
    return cast("N", rebuilt.train(network.training))
