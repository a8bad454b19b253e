"""The networks of pre-training, and the pair: what predicts tokens, what tells replaced ones, what they share.

two encoder configs -> Electra

Every network that predicts tokens is called with (input_ids, segment_ids, is_pad, positions): (B, T) ids and (M,) flat
positions, row * T + column, of which it gives (M, V) logits, at those positions only. `count_flops` is that of a
forward pass.
"""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model import flops
from electralab.model.attention import Rotation, build_attention_mask
from electralab.model.encoder import (
    FIRST_STATES,
    LAST_STATES,
    DisentangledTable,
    Encoder,
    EncoderLayer,
    HiddenStates,
    MLMHead,
    RTDHead,
)
from electralab.model.settings import EncoderConfig, GeneratorConfig, ModelConfig, RTDHeadKind, Sharing, derive_encoders
from electralab.model.weights import embedding, init_weights, linear


class Generator(nn.Module):
    """An encoder and a head over tokens: the generator of a pair, or a language model of its own."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.is_frozen = False
        self.encoder = Encoder(config)
        self.head = MLMHead(config)

    @property
    def reads_masked(self) -> bool:
        """Whether the row it reads hides what it is asked for; a causal one has not come to it yet."""
        return not self.config.is_causal

    def freeze(self) -> Self:
        """It only makes replacements from now on: no gradient, no dropout whatever the mode of what it is part of."""
        self.is_frozen = True
        return self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and not self.is_frozen)

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        return self.logits(self.hidden_states_at(input_ids, segment_ids, is_pad, positions, hidden_states))

    def hidden_states_at(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        """(M, D) the states that tokens at those positions are predicted from.

        A causal one answers from the position before, so that the first of a row cannot be asked for.
        """
        states: Tensor = self.encoder(input_ids, segment_ids, is_pad, hidden_states)  # (B, T, D)
        if self.config.is_causal:
            assert bool((positions % input_ids.shape[1] > 0).all()), "nothing stands before the first token of a row"
            positions = positions - 1
        return states.flatten(0, 1).index_select(0, positions)  # (M, D)

    def logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.head(states, self.encoder.embeddings)  # (M, V)
        return logits

    def count_flops(self, rows: int, length: int, num_predicted: int) -> int:
        return flops.generator_flops(self.config, rows, length, num_predicted)


class Discriminator(nn.Module):
    """An encoder and one logit a token; above 0 means replaced."""

    def __init__(self, config: EncoderConfig, verdict_head: RTDHeadKind = "dense", *, adds_cls: bool = False) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.head = RTDHead(config, verdict_head, adds_cls=adds_cls)

    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, hidden_states: HiddenStates | None = None
    ) -> Tensor:
        """(B, T) ids -> (B, T)"""
        logits: Tensor = self.head(self.encoder(input_ids, segment_ids, is_pad, hidden_states))
        return logits

    def count_flops(self, rows: int, length: int) -> int:
        return flops.discriminator_flops(self.config, rows, length, self.head.kind)


class FixedGenerator(nn.Module):
    """Predicts without looking: the same (V,) log-probabilities everywhere, and nothing to learn."""

    reads_masked = True
    log_shares: Tensor

    def __init__(self, log_shares: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_shares", log_shares, persistent=False)

    def forward(self, _input_ids: Tensor, _segment_ids: Tensor, _is_pad: Tensor | None, positions: Tensor) -> Tensor:
        return self.log_shares.expand(len(positions), -1)  # (M, V)

    def count_flops(self, rows: int, length: int, num_predicted: int) -> int:
        del rows, length, num_predicted
        return 0


class TwoStream(nn.Module):
    """One encoder read in two streams, so that tokens can be predicted in any order.

        content   reads the row; a token sees itself and those before it in the order
        query     stands where a token is predicted; it sees those before it in the order and never the token itself

    XLNet's two-stream attention (Yang et al., 2019). With an order of 0 everywhere the content stream is the encoder as
    it is, which is what fine-tuning takes. Two things are left out that no prediction depends on: queries where nothing
    is predicted, and the content's last layer beyond its keys and values.
    """

    # Without an order it hides by itself what it is asked for; a [MASK] there is as good as the token.
    reads_masked = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert not config.is_causal, "the order says what is seen"
        assert not config.discrepancy_attention, "it looks at both sides of a token, whatever the order"
        self.config = config
        self.encoder = Encoder(config)
        # What the query stream starts from in place of a token.
        self.blank = embedding(1, config.embedding_size, std=config.init_std)
        self.head = MLMHead(config)

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        order: Tensor | None = None,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        """A token whose order is 0 is seen by all, another by later ones only. Without an order the tokens at the
        positions are seen by nobody and all others by all."""
        states = self.hidden_states_at(input_ids, segment_ids, is_pad, positions, order, hidden_states)
        logits: Tensor = self.head(states, self.encoder.embeddings)  # (M, V)
        return logits

    def hidden_states_at(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        order: Tensor | None = None,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        """(M, D) the query stream's states at those positions; `hidden_states` receives the whole content stream."""
        is_target = torch.zeros_like(input_ids).flatten().index_fill(0, positions, 1).view_as(input_ids)  # (B, T)
        columns, slots = build_query_slots(is_target)
        order = is_target if order is None else order

        # Of a global and of a local layer: how far positions turn, and what both streams see, True where they do.
        length = input_ids.shape[1]
        is_earlier = order[:, None, None, :] < order[:, None, :, None].clamp(min=1)  # (B, 1, T, T)
        is_visible = is_earlier | torch.eye(length, dtype=torch.bool, device=order.device)
        masks = []
        for rotary, window in (
            (self.encoder.global_rotary, 0),
            (self.encoder.local_rotary, self.config.local_attention),
        ):
            rotation = None if rotary is None else rotary(length)
            query_rotation = None if rotation is None else Rotation(rotation.cos[columns], rotation.sin[columns])
            is_near = build_attention_mask(length, window, is_pad, device=order.device)
            content_mask = is_visible if is_near is None else is_visible & is_near
            query_mask = is_earlier if is_near is None else is_earlier & is_near
            query_mask = query_mask.take_along_dim(columns[:, None, :, None], dim=2)  # (B, 1, Q, T)
            masks.append((rotation, content_mask, query_rotation, query_mask))

        embeddings = self.encoder.embeddings
        content = embeddings(input_ids, segment_ids)  # (B, T, D)
        blanks = self.blank.weight.expand(*columns.shape, -1)  # (B, Q, E)
        query = embeddings.compose(blanks, columns, segment_ids.gather(1, columns))  # (B, Q, D)
        if hidden_states is not None:
            hidden_states[FIRST_STATES] = content
        for index, layer in enumerate(self.encoder.layers):
            assert isinstance(layer, EncoderLayer)
            attention = layer.attention
            rotation, content_mask, query_rotation, query_mask = masks[layer.is_local]
            seen = layer.prepare(content)
            keys, values = attention.offer(seen, rotation)
            asked = attention.ask(layer.prepare(query), query_rotation)
            query = layer.conclude(query, attention.conclude(attention.mix(asked, keys, values, query_mask)))
            if hidden_states is not None or index < self.config.num_layers - 1:  # else nobody reads the content
                asked = attention.ask(seen, rotation)
                mixed = attention.mix(asked, keys, values, content_mask)
                content = layer.conclude(content, attention.conclude(mixed))
            if hidden_states is not None:
                hidden_states[f"layers.{index}"] = content
        if hidden_states is not None:
            hidden_states[LAST_STATES] = self.encoder.final_norm(content)
        states: Tensor = self.encoder.final_norm(query)
        return states.flatten(0, 1).index_select(0, slots.flatten()[positions])  # (M, D)

    def count_flops(self, rows: int, length: int, num_predicted: int) -> int:
        return flops.two_stream_flops(self.config, rows, length, num_predicted)


def build_query_slots(is_target: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) 1 where a token is asked for -> the (B, Q) columns of each row's queries, and for each of (B, T) its
    flat index among them.

    Q is that of the row that is asked most; the others have queries to spare, whose columns mean nothing.
    """
    count = max(1, int(is_target.sum(dim=1).max()))
    columns = is_target.argsort(dim=1, descending=True, stable=True)[:, :count]
    slots = torch.arange(columns.numel(), device=columns.device).view_as(columns)
    return columns, torch.zeros_like(is_target).scatter(1, columns, slots)


class TwoTower(nn.Module):
    """Two causal encoders that meet in every gap, so that all but the token itself is seen.

        left to right   sees ..., p-1 \\
                                        join -> prediction at p
        right to left   sees p+1, ... /

    Nothing need be masked, so that one pass answers for every position (Baevski et al., 2019; the noise of Clark et
    al.'s Electric, 2020).
    """

    reads_masked = False

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config.model_copy(update={"is_causal": True})
        self.left = Encoder(self.config)
        self.right = Encoder(self.config)
        self.right.embeddings.tokens = self.left.embeddings.tokens
        if config.is_modern:  # where table and projection are one table in two factors
            self.right.embeddings.projection = self.left.embeddings.projection
        size, std = config.hidden_size, config.init_std
        self.join = linear(2 * size, size, bias=not config.is_modern, std=std)
        self.head = MLMHead(self.config)

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, positions: Tensor) -> Tensor:
        return self.logits(self.hidden_states_at(input_ids, segment_ids, is_pad, positions))

    def hidden_states_at(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, positions: Tensor
    ) -> Tensor:
        """(M, 2D) what both towers know where they meet in each position."""
        length = input_ids.shape[1]
        mirror = reversed_positions(input_ids, is_pad)  # (B, T)
        mirrored = positions // length * length + mirror.flatten()[positions]  # (M,)
        forwards = self.left(input_ids, segment_ids, is_pad)  # (B, T, D)
        backwards = self.right(input_ids.gather(1, mirror), segment_ids.gather(1, mirror), is_pad)  # (B, T, D)
        return torch.cat([shift_right(forwards, positions), shift_right(backwards, mirrored)], dim=-1)  # (M, 2D)

    def logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.head(self.join(states), self.left.embeddings)  # (M, V)
        return logits

    def count_flops(self, rows: int, length: int, num_predicted: int) -> int:
        return flops.two_tower_flops(self.config, rows, length, num_predicted)


def reversed_positions(input_ids: Tensor, is_pad: Tensor | None) -> Tensor:
    """(B, T) the column that each column of the row read backwards shows, and the other way round.

    Padding stays at the end: flipped with it, a row's learned positions would depend on how much of it there is.
    """
    length = input_ids.shape[1]
    lengths = torch.full_like(input_ids[:, :1], length) if is_pad is None else (~is_pad).sum(dim=1, keepdim=True)
    return (lengths - 1 - torch.arange(length, device=input_ids.device)) % length


def shift_right(states: Tensor, positions: Tensor) -> Tensor:
    """(B, T, D) states, (M,) flat positions -> (M, D) the states one earlier; zeros where a row begins."""
    before = states.flatten(0, 1).index_select(0, (positions - 1).clamp(min=0))
    return before.masked_fill((positions % states.shape[1] == 0)[:, None], 0.0)


# Tokens whose vocabulary-wide softmax is in work at once: what backward needs beside the softmax itself stays small.
_CHUNK = 1024


class CopyMLM(nn.Module):
    """Every token may be left as it stands, the copy mechanism of ELECTRA's "All-Tokens MLM" (Clark et al., 2020).

        p(original) = c [original = seen] + (1 - c) softmax(original), c = sigmoid(w state + b)

    Everything is computed in logarithms, and its logits are log-probabilities.
    """

    # It looks at the position it is asked about, so that only a row that hides the token makes it predict.
    reads_masked = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.head = MLMHead(config)
        self.gate = linear(config.hidden_size, 1, bias=True, std=config.init_std)

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        return self.mixture_logits(self.encoder(input_ids, segment_ids, is_pad, hidden_states), input_ids, positions)

    def mixture_logits(self, states: Tensor, input_ids: Tensor, positions: Tensor) -> Tensor:
        """(B, T, D) states and the (B, T) ids that stand there -> (M, V) log-probabilities at the flat positions."""
        states, seen_ids = states.flatten(0, 1).index_select(0, positions), input_ids.flatten()[positions, None]
        gates = self.gate(states).float()  # (M, 1)
        logits = self.head(states, self.encoder.embeddings).float()  # (M, V)
        log_probs = torch.log_softmax(logits, dim=-1) + F.logsigmoid(-gates)
        seen = torch.logaddexp(log_probs.gather(1, seen_ids), F.logsigmoid(gates))
        return log_probs.scatter(1, seen_ids, seen)

    def log_probs(self, states: Tensor, input_ids: Tensor, positions: Tensor, target_ids: Tensor) -> Tensor:
        """(M,) log-probability of each target alone, which takes less memory than that of every token."""
        states, seen_ids = states.flatten(0, 1).index_select(0, positions), input_ids.flatten()[positions]
        chunks = (torch.split(tensor, _CHUNK) for tensor in (states, seen_ids, target_ids))
        log_probs = []
        for chunk, seen, targets in zip(*chunks, strict=True):
            gates = self.gate(chunk).squeeze(-1).float()
            logits = self.head(chunk, self.encoder.embeddings).float()  # (C, V)
            log_probs.append(copy_log_probs(logits, gates, seen, targets))
        return torch.cat(log_probs)

    def count_flops(self, rows: int, length: int, num_predicted: int) -> int:
        """With a prediction, and the choice to copy, of every token."""
        gates = 2 * num_predicted * self.config.hidden_size
        return flops.generator_flops(self.config, rows, length, num_predicted) + gates


def copy_log_probs(logits: Tensor, gates: Tensor, seen_ids: Tensor, target_ids: Tensor) -> Tensor:
    """(M,) log p(target), p(x) = c [x is seen] + (1 - c) softmax(x), c = sigmoid(gate).

    In logarithms throughout, so that a gate that is sure leaves no infinity.
    """
    named = F.logsigmoid(-gates) - F.cross_entropy(logits, target_ids, reduction="none")
    return torch.where(seen_ids == target_ids, torch.logaddexp(named, F.logsigmoid(gates)), named)


# Every network that predicts tokens.
TokenModel = Generator | TwoTower | TwoStream | CopyMLM
AnyGenerator = TokenModel | FixedGenerator


class Electra(nn.Module):
    """Both networks. What they share has two names in `state_dict`, but one, the discriminator's, as a parameter."""

    def __init__(self, generator: AnyGenerator, discriminator: Discriminator, sharing: Sharing) -> None:
        super().__init__()
        self.sharing = sharing
        # First, so that a shared parameter goes by the discriminator's name and is drawn as if it were its own.
        self.discriminator = discriminator
        self.generator = generator
        # What an objective asks of the discriminator's states beside verdicts.
        self.heads = nn.ModuleDict()
        # A graph has no encoder to ask for.
        if sharing != "none":
            share_weights(generator, discriminator.encoder, sharing)


def share_weights(generator: AnyGenerator, encoder: Encoder, sharing: Sharing) -> None:
    """Let a generator use what is the discriminator's encoder's."""
    if sharing == "none":
        return
    assert not isinstance(generator, FixedGenerator), "it has nothing to share"
    if isinstance(generator, TwoTower):
        assert sharing == "token", "towers share the token table only"
        for tower in (generator.left, generator.right):
            tower.embeddings.tokens = encoder.embeddings.tokens
        return
    if sharing == "everything":
        generator.encoder = encoder
        return
    if sharing == "lower-layers":
        # Its own are the last norm and the head.
        generator.encoder.embeddings = encoder.embeddings
        for index in range(generator.config.num_layers):
            generator.encoder.layers[index] = encoder.layers[index]
        return
    ours, theirs = generator.encoder.embeddings, encoder.embeddings
    if sharing == "disentangled":
        assert isinstance(ours.tokens, nn.Embedding)
        theirs.tokens = DisentangledTable(ours.tokens)
    if sharing in ("token", "embeddings"):
        ours.tokens = theirs.tokens
    if sharing == "embeddings":
        ours.positions, ours.segments = theirs.positions, theirs.segments
        # On `modern` the norm has the hidden size, which the two networks seldom have in common.
        if ours.norm.normalized_shape == theirs.norm.normalized_shape:
            ours.norm = theirs.norm


def build_electra(
    model: ModelConfig, generator: GeneratorConfig, *, vocab_size: int, sequence_length: int, seed: int
) -> Electra:
    generator_config, discriminator_config = derive_encoders(
        model, generator, vocab_size=vocab_size, sequence_length=sequence_length
    )
    kind = TwoTower if generator.kind == "two-tower" else Generator
    discriminator = Discriminator(discriminator_config, model.verdict_head, adds_cls=model.verdict_adds_cls)
    pair = Electra(kind(generator_config), discriminator, model.sharing)
    init_weights(pair, seed)
    return pair


def parameter_depths(network: nn.Module) -> dict[str, int]:
    """Parameter -> how high it stands: embeddings 0, layer i at i + 1, heads above the last layer.

    Layers that are one stand where the last of them does. Of several networks with different depths the heads stand
    level, so that decay ** (top - depth) is right for all.
    """
    is_alone = isinstance(getattr(network, "config", None), EncoderConfig)
    parts = {"": network} if is_alone else {f"{name}.": part for name, part in network.named_children()}
    configs = {prefix: getattr(part, "config", None) for prefix, part in parts.items()}
    top = max(config.num_layers for config in configs.values() if isinstance(config, EncoderConfig))
    depths: dict[str, int] = {}
    for name, _ in network.named_parameters():
        prefix = next(prefix for prefix in parts if name.startswith(prefix))
        config = configs[prefix]
        depths[name] = top + 1
        if not isinstance(config, EncoderConfig):
            continue
        below = top - config.num_layers
        match name.removeprefix(prefix).split("."):
            case ["encoder" | "left" | "right", "embeddings", *_] | ["blank", *_]:
                depths[name] = below
            case ["encoder" | "left" | "right", "layers", index, *_] if not config.share_layers:
                depths[name] = below + int(index) + 1
            case ["encoder" | "left" | "right", "layers" | "final_norm", *_]:
                depths[name] = top
    return depths
