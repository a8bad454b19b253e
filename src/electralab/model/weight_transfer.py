"""A pair about to be trained takes over the weights of a finished network: (network, source) -> network, in place.

In place, so that what the pair shares stays shared. A source of `modern` has one merged table of the hidden size where
the pair may have a table and a projection; they are found again as its best factors.
"""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import Embeddings, Encoder
from electralab.model.token_models import CopyMLM, TwoStream

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
