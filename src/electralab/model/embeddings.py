"""The only place where ids become vectors: (B, T) ids -> (B, T, D).

`electra`: token + position + segment -> norm -> projection, all tables of the embedding size.
`modern`: token -> bias-free projection -> norm, so that table and projection merge into one table of the hidden size.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.weights import Drawn, dense, table


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
        self.tokens = table(vocab_size, embedding_size)
        self.positions = table(num_positions, embedding_size) if num_positions else None
        self.segments = table(num_segments, embedding_size) if num_segments else None
        self.projection = dense(embedding_size, hidden_size, bias=bias) if embedding_size != hidden_size else None
        self.norm = nn.LayerNorm(hidden_size if norm_after_projection else embedding_size, eps=norm_eps, bias=bias)

    def weight_stds(self) -> dict[str, float]:
        stds = {"tokens.weight": self.std}
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
        vectors = self.tokens(input_ids)  # (B, T, E)
        if self.positions is not None:
            vectors = vectors + self.positions.weight[: input_ids.shape[1]]
        if self.segments is not None:
            vectors = vectors + self.segments(segment_ids)
        if self.norm_after_projection:
            return F.dropout(self.norm(self._project(vectors)), self.dropout, self.training)  # (B, T, D)
        return self._project(F.dropout(self.norm(vectors), self.dropout, self.training))  # (B, T, D)

    def _project(self, vectors: Tensor) -> Tensor:
        return vectors if self.projection is None else self.projection(vectors)
