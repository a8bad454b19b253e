"""What a state says: (M, D) states -> (M, V) guesses, (B, T, D) states -> (B, T) verdicts."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.encoder import Embeddings, EncoderConfig, make_norm
from electralab.model.weights import InitModule, linear

RTDHeadKind = Literal["dense", "linear"]


class MLMHead(InitModule):
    """dense -> gelu -> norm -> the token table, plus a bias for each token.

    The table is an argument, not a part: a head without a table of its own cannot be left with an orphaned one.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        # On `modern` the way back to the embedding size is the embeddings' projection, as long as the head has none.
        size = config.head_width
        self.dense = linear(config.hidden_size, size, bias=not config.is_modern)
        self.norm = make_norm(config, size)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(config.vocab_size))

    def init_stds(self) -> dict[str, float]:
        return {"dense.weight": dense_std(self.config)}

    def forward(self, states: Tensor, embeddings: Embeddings) -> Tensor:
        states = self.norm(F.gelu(self.dense(states)))
        if states.shape[-1] != self.config.embedding_size and embeddings.projection is not None:
            states = states @ embeddings.projection.weight  # (M, D) -> (M, E)
        return F.linear(states, embeddings.tokens.weight, self.bias)  # (M, V)


class RTDHead(InitModule):
    """dense -> gelu (-> norm on `modern`) -> one number a token; or, plain, that number straight from the state."""

    def __init__(self, config: EncoderConfig, kind: RTDHeadKind, *, adds_cls: bool = False) -> None:
        super().__init__()
        self.config, self.kind, self.adds_cls = config, kind, adds_cls
        size, is_plain = config.hidden_size, kind == "linear"
        self.dense = None if is_plain else linear(size, size, bias=not config.is_modern)
        self.norm = None if is_plain or not config.is_modern else make_norm(config)
        self.verdict = linear(size, 1, bias=True)

    def init_stds(self) -> dict[str, float]:
        # From 0 where matrices are drawn by their inputs: the head has no opinion before it has seen anything.
        stds = {"verdict.weight": 0.0 if self.config.init_rule == "fan-in" else self.config.init_std}
        return stds if self.dense is None else stds | {"dense.weight": dense_std(self.config)}

    def forward(self, states: Tensor) -> Tensor:
        if self.adds_cls:
            states = states + states[:, :1]
        if self.dense is not None:
            states = F.gelu(self.dense(states))
        if self.norm is not None:
            states = self.norm(states)
        verdicts: Tensor = self.verdict(states).squeeze(-1)  # (B, T)
        return verdicts


class SentencePairHead(InitModule):
    """One number a row, straight from the state of its first token."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.std = config.init_std
        self.verdict = linear(config.hidden_size, 1, bias=True)

    def init_stds(self) -> dict[str, float]:
        return {"verdict.weight": self.std}

    def forward(self, states: Tensor) -> Tensor:
        verdicts: Tensor = self.verdict(states[:, 0]).squeeze(-1)  # (B,)
        return verdicts


def dense_std(config: EncoderConfig) -> float:
    """How widely the dense layer of a head is drawn."""
    if config.init_rule == "fan-in":
        return config.matrix_std(config.hidden_size)
    return config.init_std / (2 * config.num_layers) ** 0.5 if config.is_modern else config.init_std
