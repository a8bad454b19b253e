"""One encoder, two backbones, and the heads of pre-training: (B, T) ids -> (B, T, D) states -> logits.

`electra` is the released architecture: norm after each addition, learned positions, biases, erf-gelu.
`modern` is ModernBERT: norm before each block (the first norm is the embeddings'), rotary positions, gated
feed-forward, no biases, optionally all but every n-th layer local, one norm at the end.

Shapes everywhere: B rows, T positions, M masked, V vocabulary, E embedding, D hidden, F feed-forward,
H heads, K per head.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.attention import Attention, RotaryTable, Rotation, build_attention_mask
from electralab.model.settings import EncoderConfig, RTDHeadKind
from electralab.model.weights import embedding, linear
from electralab.runtime import Precision, autocast, probe_precision

HiddenStates = dict[str, Tensor]
FIRST_STATES, LAST_STATES = "embeddings", "states"
"""Of them: what enters the first layer, and what the heads read."""


# ------------------------------------------------------------------------------------------------------- embeddings


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


class Embeddings(nn.Module):
    """Tokens, positions and segments on `electra`; tokens alone on `modern`, where the norm follows the projection."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size, is_modern, std = config.embedding_size, config.is_modern, config.init_std
        self.norm_after_projection, self.dropout = is_modern, config.dropout
        self.tokens: nn.Embedding | DisentangledTable = embedding(config.vocab_size, size, std=std)
        self.positions = None if is_modern else embedding(config.sequence_length, size, std=std)
        self.segments = None if is_modern else embedding(config.num_segments, size, std=std)
        # A projection before the norm must keep the table's scale, or the norm's epsilon is no longer small.
        std = size**-0.5 if is_modern else std
        is_projected = size != config.hidden_size
        self.projection = linear(size, config.hidden_size, bias=not is_modern, std=std) if is_projected else None
        norm_size = config.hidden_size if is_modern else size
        self.norm = nn.LayerNorm(norm_size, eps=config.norm_eps, bias=not is_modern)

    def forward(self, input_ids: Tensor, segment_ids: Tensor) -> Tensor:
        return self.compose(self.tokens(input_ids), slice(input_ids.shape[1]), segment_ids)

    def compose(self, vectors: Tensor, columns: slice | Tensor, segment_ids: Tensor) -> Tensor:
        """(B, T, E) what stands in these columns -> (B, T, D)"""
        if self.positions is not None and self.segments is not None:
            vectors = vectors + self.positions.weight[columns] + self.segments(segment_ids)
        if not self.norm_after_projection:
            vectors = F.dropout(self.norm(vectors), self.dropout, self.training)
        if self.projection is not None:
            vectors = self.projection(vectors)
        return F.dropout(self.norm(vectors), self.dropout, self.training) if self.norm_after_projection else vectors

    @torch.no_grad()
    def assign_table(self, weight: Tensor) -> None:
        """Have these vectors for the tokens: (V, E)."""
        if isinstance(self.tokens, DisentangledTable):
            self.tokens.delta.add_(weight - self.tokens.weight)
        else:
            self.tokens.weight.copy_(weight)


# ----------------------------------------------------------------------------------------------------------- layers


class AdaptiveNorm(nn.LayerNorm):
    """Scales a token by how replaced it looks; starts as a plain norm."""

    def __init__(self, size: int, *, eps: float, bias: bool) -> None:
        super().__init__(size, eps=eps, bias=bias)
        self.guess_weight = nn.Parameter(torch.zeros(size))
        self.guess_bias = nn.Parameter(torch.zeros(1))
        self.weight_delta = nn.Parameter(torch.zeros(size))
        self.bias_delta = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, states: Tensor) -> Tensor:
        normed = F.layer_norm(states, self.normalized_shape, eps=self.eps)
        p_replaced = torch.sigmoid(F.linear(normed, self.guess_weight[None], self.guess_bias))  # (..., 1)
        delta = normed * self.weight_delta
        if self.bias_delta is not None:
            delta = delta + self.bias_delta
        return super().forward(states) + p_replaced * delta


def make_norm(config: EncoderConfig, size: int | None = None, *, is_inner: bool = False) -> nn.LayerNorm:
    """Those inside the encoder are adaptive where the settings say so."""
    kind = AdaptiveNorm if is_inner and config.adaptive_norm else nn.LayerNorm
    return kind(size or config.hidden_size, eps=config.norm_eps, bias=not config.is_modern)


class FeedForward(nn.Module):
    """up -> gelu -> down; gated, half of up multiplies the activated other half."""

    def __init__(self, config: EncoderConfig, width: int) -> None:
        super().__init__()
        self.is_gated = config.is_gated
        self.dropout = config.dropout if config.is_modern else 0.0
        size, has_bias, std = config.hidden_size, not config.is_modern, config.matrix_std(config.hidden_size)
        self.up = linear(size, 2 * width if self.is_gated else width, bias=has_bias, std=std)
        self.down = linear(width, size, bias=has_bias, std=config.output_std)

    def forward(self, hidden: Tensor) -> Tensor:
        expanded = self.up(hidden)  # (B, T, F) or, gated, (B, T, 2F)
        if self.is_gated:
            activated, gate = expanded.chunk(2, dim=-1)
            expanded = F.gelu(activated) * gate
        else:
            expanded = F.gelu(expanded)
        output: Tensor = self.down(F.dropout(expanded, self.dropout, self.training))  # (B, T, D)
        return output


class EncoderLayer(nn.Module):
    def __init__(self, config: EncoderConfig, index: int) -> None:
        super().__init__()
        shape = config.shape_of(index)
        self.is_pre_norm = config.is_modern
        self.is_local = shape.is_local
        # ModernBERT drops attention's output with the attention's own share, and nothing after the feed-forward.
        self.attention_dropout = config.attention_dropout if config.is_modern else config.dropout
        self.feedforward_dropout = 0.0 if config.is_modern else config.dropout
        self.attention = Attention(config, shape.num_heads)
        is_normed_before = config.is_modern and index == 0
        self.attention_norm: nn.Module = nn.Identity() if is_normed_before else make_norm(config, is_inner=True)
        self.feedforward = FeedForward(config, shape.feedforward_size)
        self.feedforward_norm = make_norm(config, is_inner=True)

    def forward(
        self,
        hidden: Tensor,
        rotation: Rotation | None,
        may_attend: Tensor | None,
        first_only: bool = False,
        is_pad: Tensor | None = None,
    ) -> Tensor:
        attended = self.attention(self.prepare(hidden), rotation, may_attend, first_only, is_pad)
        return self.conclude(hidden[:, :1] if first_only else hidden, attended)

    def prepare(self, hidden: Tensor) -> Tensor:
        """What attention reads."""
        return self.attention_norm(hidden) if self.is_pre_norm else hidden

    def conclude(self, kept: Tensor, attended: Tensor) -> Tensor:
        """What attention found is added to what was there, and worked on."""
        hidden = kept + F.dropout(attended, self.attention_dropout, self.training)
        if self.is_pre_norm:
            expanded = self.feedforward(self.feedforward_norm(hidden))
            return hidden + F.dropout(expanded, self.feedforward_dropout, self.training)
        hidden = self.attention_norm(hidden)
        expanded = self.feedforward(hidden)
        output: Tensor = self.feedforward_norm(hidden + F.dropout(expanded, self.feedforward_dropout, self.training))
        return output


class Encoder(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        layers = [EncoderLayer(config, index) for index in range(config.num_layers)]
        for layer in layers[1:] if config.share_layers else ():
            # Every layer keeps what it is (local or not), and has the weights of the first that has such a part.
            layer.attention, layer.feedforward = layers[0].attention, layers[0].feedforward
            layer.feedforward_norm = layers[0].feedforward_norm
            # On `modern` the first layer has none: the norm of the embeddings stands in its place.
            layer.attention_norm = layers[1 if layer.is_pre_norm else 0].attention_norm
        self.layers = nn.ModuleList(layers)
        self.final_norm: nn.Module = make_norm(config, is_inner=True) if config.is_modern else nn.Identity()
        sizes, has_local = (config.sequence_length, config.head_size), config.is_modern and config.local_attention > 0
        self.global_rotary = RotaryTable(*sizes, config.global_rope_theta) if config.is_modern else None
        self.local_rotary = RotaryTable(*sizes, config.local_rope_theta) if has_local else None

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        hidden_states: HiddenStates | None = None,
        *,
        first_only: bool = False,
    ) -> Tensor:
        """(B, T) ids -> (B, T, D); `is_pad` of None says that no row is padded.

        With `first_only` -> (B, 1, D), the state of the first token: the last layer computes no other.
        A `hidden_states` receives every named intermediate: "embeddings", "layers.0", ..., "states".
        """
        length = input_ids.shape[1]
        assert length <= self.config.sequence_length, f"{length} positions in a network built for fewer"
        window, is_causal = self.config.local_attention, self.config.is_causal
        everywhere = build_attention_mask(length, 0, is_pad, is_causal)
        nearby = build_attention_mask(length, window, is_pad, is_causal, input_ids.device) if window else None
        far = self.global_rotary(length) if self.global_rotary is not None else None
        near = self.local_rotary(length) if self.local_rotary is not None else None

        hidden: Tensor = self.embeddings(input_ids, segment_ids)
        if hidden_states is not None:
            hidden_states[FIRST_STATES] = hidden
        for index, layer in enumerate(self.layers):
            rotation, may_attend = (near, nearby) if layer.is_local else (far, everywhere)
            is_last = index == self.config.num_layers - 1
            hidden = layer(hidden, rotation, may_attend, first_only and is_last, is_pad)
            if hidden_states is not None:
                hidden_states[f"layers.{index}"] = hidden
        hidden = self.final_norm(hidden)
        if hidden_states is not None:
            hidden_states[LAST_STATES] = hidden
        return hidden


def compute_in(network: nn.Module, precision: Precision, tokens: int) -> None:
    """Let the encoders of a network that only answers multiply in a precision; auto: bf16 where a probe at batches of
    so many tokens finds it faster here. Their states come out in 32 bits, and heads multiply as before."""
    for encoder in network.modules():
        if not isinstance(encoder, Encoder):
            continue
        device, config = next(encoder.parameters()).device, encoder.config
        chosen = precision
        if precision == "auto":
            chosen = probe_precision(device, tokens, config.hidden_size, config.feedforward_size)
        if chosen != "fp32":
            encoder.forward = partial(_forward_in, encoder.forward, device, chosen)  # type: ignore[method-assign]


def _forward_in(
    forward: Callable[..., Tensor], device: torch.device, precision: Precision, *inputs: Any, **options: Any
) -> Tensor:
    with autocast(device, precision):
        return forward(*inputs, **options).float()


# ------------------------------------------------------------------------------------------------------------ heads


def dense_std(config: EncoderConfig) -> float:
    """How widely the dense layer of a head is drawn."""
    if config.init_rule == "fan-in":
        return config.matrix_std(config.hidden_size)
    return config.init_std / (2 * config.num_layers) ** 0.5 if config.is_modern else config.init_std


class MLMHead(nn.Module):
    """dense -> gelu -> norm -> the token table, plus a bias for each token: (M, D) -> (M, V).

    The table is an argument, not a part: a head without a table of its own cannot be left with an orphaned one.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        # On `modern` the way back to the embedding size is the embeddings' projection, as long as the head has none.
        size = config.head_width
        self.dense = linear(config.hidden_size, size, bias=not config.is_modern, std=dense_std(config))
        self.norm = make_norm(config, size)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(config.vocab_size))

    def forward(self, states: Tensor, embeddings: Embeddings) -> Tensor:
        states = self.norm(F.gelu(self.dense(states)))
        if states.shape[-1] != self.config.embedding_size and embeddings.projection is not None:
            states = states @ embeddings.projection.weight  # (M, D) -> (M, E)
        return F.linear(states, embeddings.tokens.weight, self.bias)  # (M, V)


class RTDHead(nn.Module):
    """dense -> gelu (-> norm on `modern`) -> one number a token; or, linear, that number straight from the state."""

    def __init__(self, config: EncoderConfig, kind: RTDHeadKind, *, adds_cls: bool = False) -> None:
        super().__init__()
        self.kind, self.adds_cls = kind, adds_cls
        size, is_linear = config.hidden_size, kind == "linear"
        self.dense = None if is_linear else linear(size, size, bias=not config.is_modern, std=dense_std(config))
        self.norm = None if is_linear or not config.is_modern else make_norm(config)
        # From 0 where matrices are drawn by their inputs: the head has no opinion before it has seen anything.
        self.verdict = linear(size, 1, bias=True, std=0.0 if config.init_rule == "fan-in" else config.init_std)

    def forward(self, states: Tensor) -> Tensor:
        if self.adds_cls:
            states = states + states[:, :1]
        if self.dense is not None:
            states = F.gelu(self.dense(states))
        if self.norm is not None:
            states = self.norm(states)
        logits: Tensor = self.verdict(states).squeeze(-1)  # (B, T)
        return logits


class SentencePairHead(nn.Module):
    """One number a row, straight from the state of its first token."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.verdict = linear(config.hidden_size, 1, bias=True, std=config.init_std)

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.verdict(states[:, 0]).squeeze(-1)  # (B,)
        return logits
