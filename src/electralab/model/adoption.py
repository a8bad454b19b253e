"""A pair about to be trained takes over the weights of a finished network: (network, source) -> network, in place.

In place, so that what the pair shares stays shared. A source of `modern` has one merged table of the hidden size where
the pair may have a table and a projection; they are found again as its best factors.
"""

import torch
from torch import Tensor

from electralab.errors import InputError
from electralab.model.copying import Copying
from electralab.model.electra import Discriminator, Generator
from electralab.model.embeddings import Embeddings
from electralab.model.encoder import Encoder
from electralab.model.streams import TwoStream

_TABLE = "encoder.embeddings.tokens.weight"
_DELTA = "encoder.embeddings.tokens.delta"
_PROJECTION = "encoder.embeddings.projection.weight"
_POSITIONS = "encoder.embeddings.positions.weight"


@torch.no_grad()
def adopt_weights(
    network: Generator | Discriminator | TwoStream | Copying,
    source: Generator | Discriminator | TwoStream | Copying | Encoder,
    where: str,
    *,
    table_is_set: bool = False,
) -> float:
    """Copy every weight; a bare encoder leaves the head as it was. `where` begins an error.

    With `table_is_set` the token table already has its values, from the other network of the pair, and only its
    projection is sought. Returned is the share of the source's table that the factors could not express: 0 if all of it
    was copied, tiny if it was once merged from such factors, large if the two sources never shared a table.
    """
    weights = _name_weights(source)
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
        if name == _TABLE:
            network.encoder.embeddings.assign_table(weights[name])
        else:
            target.copy_(weights[name])
    return 0.0 if merged is None else _factorise(network.encoder.embeddings, merged, table_is_set)


def _name_weights(source: Generator | Discriminator | TwoStream | Copying | Encoder) -> dict[str, Tensor]:
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


def _check_merged(network: Generator | Discriminator | TwoStream | Copying, merged: Tensor, where: str) -> None:
    wanted = (network.config.vocab_size, network.config.hidden_size)
    if tuple(merged.shape) != wanted:
        raise InputError(
            f"{where}: its token table has the shape {tuple(merged.shape)} where the settings say {wanted}; "
            "give model settings and a vocabulary that match it"
        )


def _factorise(embeddings: Embeddings, merged: Tensor, table_is_set: bool) -> float:
    """Table and projection whose product is the merged table, as nearly as their size allows."""
    table, projection = embeddings.tokens.weight, embeddings.projection
    wanted = merged.double()
    if projection is None:
        found = table.double()
    else:
        if table_is_set:
            columns = torch.linalg.lstsq(table.double(), wanted).solution.T  # (D, E)
        else:
            # The directions in which the merged table varies most; orthonormal, so they keep its scale.
            size = min(projection.weight.shape)
            columns = torch.zeros_like(projection.weight, dtype=wanted.dtype)  # (D, E)
            columns[:, :size] = torch.linalg.eigh(wanted.T @ wanted).eigenvectors[:, -size:]  # ascending
            embeddings.assign_table(wanted @ columns)
        projection.weight.copy_(columns)
        found = embeddings.tokens.weight.double() @ columns.T
    return float((found - wanted).norm() / wanted.norm())
