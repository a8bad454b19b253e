"""The only place where ids become vectors: (B, T) ids -> (B, T, D).

`electra`: token + position + segment -> norm -> projection, all tables of the embedding size.
`modern`: token -> bias-free projection -> norm, so that table and projection merge into one table of the hidden size.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.weights import Drawn, dense, table


class DisentangledTable(nn.Module):
    """Another network's table, which learns nothing from here, plus a difference of our own that starts at 0."""

    def __init__(self, base: nn.Embedding) -> None:
        super().__init__()
        # In a tuple, so that it stays a parameter of the other network alone.
        self._base = (base,)
        self.delta = nn.Parameter(torch.zeros_like(base.weight))

    @property
    def weight(self) -> Tensor:
        return self._base[0].weight.detach() + self.delta  # (V, E)

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self._base[0].weight.detach()) + F.embedding(ids, self.delta)


def merge_tables(network: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a network with one table of its own in place of each difference from another's."""
    merged = dict(weights)
    for name, module in network.named_modules():
        if isinstance(module, DisentangledTable):
            del merged[f"{name}.delta"]
            merged[f"{name}.weight"] = module.weight.detach()
    return merged


class Embeddings(Drawn):
    """Composed by arguments: `num_positions` and `num_segments` of 0 leave these tables out."""

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        hidden_size: int,
        *,
        num_positions: int,
        num_segments: int,
        norm_after_projection: bool,
        bias: bool,
        norm_eps: float,
        dropout: float,
        std: float,
    ) -> None:
        super().__init__()
        self.norm_after_projection = norm_after_projection
        self.dropout = dropout
        self.std = std
        self.tokens: nn.Embedding | DisentangledTable = table(vocab_size, embedding_size)
        self.positions = table(num_positions, embedding_size) if num_positions else None
        self.segments = table(num_segments, embedding_size) if num_segments else None
        self.projection = dense(embedding_size, hidden_size, bias=bias) if embedding_size != hidden_size else None
        self.norm = nn.LayerNorm(hidden_size if norm_after_projection else embedding_size, eps=norm_eps, bias=bias)

    def weight_stds(self) -> dict[str, float]:
        stds = {"tokens.delta": 0.0} if isinstance(self.tokens, DisentangledTable) else {"tokens.weight": self.std}
        if self.positions is not None:
            stds["positions.weight"] = self.std
        if self.segments is not None:
            stds["segments.weight"] = self.std
        if self.projection is not None:
            # A projection before the norm must keep the table's scale, or the norm's epsilon is no longer small.
            narrow = self.projection.in_features**-0.5
            stds["projection.weight"] = narrow if self.norm_after_projection else self.std
        return stds

    def forward(self, input_ids: Tensor, segment_ids: Tensor) -> Tensor:
        return self.compose(self.tokens(input_ids), slice(input_ids.shape[1]), segment_ids)

    def compose(self, vectors: Tensor, columns: slice | Tensor, segment_ids: Tensor) -> Tensor:
        """(B, T, E) what stands in these columns -> (B, T, D)"""
        if self.positions is not None:
            vectors = vectors + self.positions.weight[columns]
        if self.segments is not None:
            vectors = vectors + self.segments(segment_ids)
        if self.norm_after_projection:
            return F.dropout(self.norm(self._project(vectors)), self.dropout, self.training)  # (B, T, D)
        return self._project(F.dropout(self.norm(vectors), self.dropout, self.training))  # (B, T, D)

    @torch.no_grad()
    def assign_table(self, weight: Tensor) -> None:
        """Have these vectors for the tokens: (V, E)."""
        if isinstance(self.tokens, DisentangledTable):
            self.tokens.delta.add_(weight - self.tokens.weight)
        else:
            self.tokens.weight.copy_(weight)

    def _project(self, vectors: Tensor) -> Tensor:
        return vectors if self.projection is None else self.projection(vectors)
