"""Two streams through one encoder, so that tokens can be guessed in any order: ids, turns -> guesses.

    content   reads the row; a token sees itself and those whose turn was before its own
    query     stands where a token is asked for; it sees those before its turn and never the token itself

XLNet's two-stream attention (Yang et al., 2019). With every turn 0 the content stream is the encoder as it is, which
is what fine-tuning takes. Two things are left out that no guess depends on: queries where nothing is asked, and the
content's last layer beyond its keys and values.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.model.attention import Rotation, build_attention_mask
from electralab.model.encoder import Encoder, EncoderConfig, EncoderLayer, HiddenStates
from electralab.model.heads import MLMHead
from electralab.model.weights import InitModule, embedding, linear


class StreamMasks(NamedTuple):
    """What both streams see in a layer, True where they do, and how far their positions turn."""

    rotation: Rotation | None
    is_visible: Tensor  # (B, 1, T, T) to the content
    query_rotation: Rotation | None
    is_visible_to_query: Tensor  # (B, 1, Q, T)


class TwoStream(InitModule):
    # Asked without turns it hides by itself what it is asked for; a [MASK] there is as good as the token.
    reads_masked = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert not config.is_causal, "the turns say what is seen"
        assert not config.discrepancy_attention, "it looks at both sides of a token, whatever the turns"
        self.config = config
        self.encoder = Encoder(config)
        # What the query stream starts from in place of a token.
        self.blank = embedding(1, config.embedding_size)
        self.head = MLMHead(config)

    def weight_stds(self) -> dict[str, float]:
        return {"blank.weight": self.config.init_std}

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        turns: Tensor | None = None,
        trace: HiddenStates | None = None,
    ) -> Tensor:
        """(B, T) ids and (M,) flat positions, row * T + column -> (M, V) logits at those positions only.

        A token whose turn is 0 is seen by all, another by those with a later turn only. Without turns the tokens asked
        for are seen by nobody and all others by all.
        """
        states = self.read(input_ids, segment_ids, is_pad, positions, turns, trace)
        guesses: Tensor = self.head(states, self.encoder.embeddings)  # (M, V)
        return guesses

    def read(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        turns: Tensor | None = None,
        trace: HiddenStates | None = None,
    ) -> Tensor:
        """(M, D) the query stream's states at those positions. A `trace` receives the content stream, all of it."""
        is_asked = torch.zeros_like(input_ids).flatten().index_fill(0, positions, 1).view_as(input_ids)  # (B, T)
        columns, slots = build_query_slots(is_asked)
        global_sight, local_sight = self._look(is_asked if turns is None else turns, is_pad, columns)

        embeddings = self.encoder.embeddings
        content = embeddings(input_ids, segment_ids)  # (B, T, D)
        blanks = self.blank.weight.expand(*columns.shape, -1)  # (B, Q, E)
        query = embeddings.compose(blanks, columns, segment_ids.gather(1, columns))  # (B, Q, D)
        if trace is not None:
            trace["embeddings"] = content
        for index, layer in enumerate(self.encoder.layers):
            assert isinstance(layer, EncoderLayer)
            is_read = trace is not None or index < self.config.num_layers - 1
            content, query = _advance(layer, content, query, local_sight if layer.is_local else global_sight, is_read)
            if trace is not None:
                trace[f"layers.{index}"] = content
        if trace is not None:
            trace["states"] = self.encoder.final_norm(content)
        states: Tensor = self.encoder.final_norm(query)
        return states.flatten(0, 1).index_select(0, slots.flatten()[positions])  # (M, D)

    def _look(self, turns: Tensor, is_pad: Tensor | None, columns: Tensor) -> tuple[StreamMasks, StreamMasks]:
        """Of a global and of a local layer."""
        length, window = turns.shape[1], self.config.local_attention
        encoder = self.encoder
        is_earlier = turns[:, None, None, :] < turns[:, None, :, None].clamp(min=1)  # (B, 1, T, T)
        is_own = torch.eye(length, dtype=torch.bool, device=turns.device)
        sights = []
        for rotary, reach in ((encoder.global_rotary, 0), (encoder.local_rotary, window)):
            rotation = None if rotary is None else rotary(length)
            is_near = build_attention_mask(length, reach, is_pad, device=turns.device)
            earlier = is_earlier if is_near is None else is_earlier & is_near
            visible = is_earlier | is_own if is_near is None else (is_earlier | is_own) & is_near
            at_query = None if rotation is None else Rotation(rotation.cos[columns], rotation.sin[columns])
            sights.append(
                StreamMasks(rotation, visible, at_query, earlier.take_along_dim(columns[:, None, :, None], dim=2))
            )
        return sights[0], sights[1]


def build_query_slots(is_asked: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) 1 where a token is asked for -> the (B, Q) columns of each row's queries, and for each of (B, T) its
    flat place among them.

    Q is that of the row that is asked most; the others have queries to spare, whose columns mean nothing.
    """
    count = max(1, int(is_asked.sum(dim=1).max()))
    columns = is_asked.argsort(dim=1, descending=True, stable=True)[:, :count]
    places = torch.arange(columns.numel(), device=columns.device).view_as(columns)
    return columns, torch.zeros_like(is_asked).scatter(1, columns, places)


def _advance(
    layer: EncoderLayer, content: Tensor, query: Tensor, sight: StreamMasks, is_read: bool
) -> tuple[Tensor, Tensor]:
    """Both streams by one layer; the content stays where it is unless somebody reads it."""
    attention = layer.attention
    seen = layer.prepare(content)
    keys, values = attention.offer(seen, sight.rotation)
    asked = attention.ask(layer.prepare(query), sight.query_rotation)
    found = attention.mix(asked, keys, values, sight.is_visible_to_query)
    query = layer.conclude(query, attention.conclude(found))
    if is_read:
        found = attention.mix(attention.ask(seen, sight.rotation), keys, values, sight.is_visible)
        content = layer.conclude(content, attention.conclude(found))
    return content, query


class TwoTower(InitModule):
    reads_masked = False

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config.model_copy(update={"is_causal": True})
        self.left = Encoder(self.config)
        self.right = Encoder(self.config)
        self.right.embeddings.tokens = self.left.embeddings.tokens
        if config.is_modern:  # where table and projection are one table in two factors
            self.right.embeddings.projection = self.left.embeddings.projection
        self.join = linear(2 * config.hidden_size, config.hidden_size, bias=not config.is_modern)
        self.head = MLMHead(self.config)

    def weight_stds(self) -> dict[str, float]:
        return {"join.weight": self.config.init_std}

    @property
    def encoders(self) -> tuple[Encoder, Encoder]:
        """From left to right, and from right to left."""
        return self.left, self.right

    @property
    def state_size(self) -> int:
        return 2 * self.config.hidden_size

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, positions: Tensor) -> Tensor:
        """(B, T) ids and (M,) flat positions, row * T + column -> (M, V) logits at those positions only."""
        return self.guess(self.read(input_ids, segment_ids, is_pad, positions))

    def read(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, positions: Tensor) -> Tensor:
        """(M, 2D) what both towers know where they meet in each position."""
        length = input_ids.shape[1]
        mirror = find_mirror(input_ids, is_pad)  # (B, T)
        mirrored = positions // length * length + mirror.flatten()[positions]  # (M,)
        forwards = self.left(input_ids, segment_ids, is_pad)  # (B, T, D)
        backwards = self.right(input_ids.gather(1, mirror), segment_ids.gather(1, mirror), is_pad)  # (B, T, D)
        return torch.cat([take_before(forwards, positions), take_before(backwards, mirrored)], dim=-1)  # (M, 2D)

    def guess(self, states: Tensor) -> Tensor:
        guesses: Tensor = self.head(self.join(states), self.left.embeddings)  # (M, V)
        return guesses


def find_mirror(input_ids: Tensor, is_pad: Tensor | None) -> Tensor:
    """(B, T) the column that each column of the row read backwards shows, and the other way round.

    Padding stays at the end: flipped with it, a row's learned positions would depend on how much of it there is.
    """
    length = input_ids.shape[1]
    lengths = torch.full_like(input_ids[:, :1], length) if is_pad is None else (~is_pad).sum(dim=1, keepdim=True)
    return (lengths - 1 - torch.arange(length, device=input_ids.device)) % length


def take_before(states: Tensor, positions: Tensor) -> Tensor:
    """(B, T, D) states, (M,) flat positions -> (M, D) the states one earlier; zeros where a row begins."""
    before = states.flatten(0, 1).index_select(0, (positions - 1).clamp(min=0))
    return before.masked_fill((positions % states.shape[1] == 0)[:, None], 0.0)


# Tokens whose vocabulary-wide softmax is in work at once: what backward needs beside the softmax itself stays small.
_CHUNK = 1024


class CopyMLM(InitModule):
    # It looks at the position it is asked about, so that only a row that hides the token makes it guess.
    reads_masked = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.head = MLMHead(config)
        self.gate = linear(config.hidden_size, 1, bias=True)

    def weight_stds(self) -> dict[str, float]:
        return {"gate.weight": self.config.init_std}

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        trace: HiddenStates | None = None,
    ) -> Tensor:
        """(B, T) ids and (M,) flat positions, row * T + column -> (M, V) log-probabilities of the original there."""
        states = self.encoder(input_ids, segment_ids, is_pad, trace)  # (B, T, D)
        return self.mix(*take_states(states, input_ids, positions))

    def mix(self, states: Tensor, seen_ids: Tensor) -> Tensor:
        """(M, D) states and the (M,) ids that stand there -> (M, V) log-probabilities."""
        copied, changed = self._weigh(states)
        log_probs = torch.log_softmax(self.head(states, self.encoder.embeddings).float(), dim=-1) + changed[:, None]
        seen = log_probs.gather(1, seen_ids[:, None])
        return log_probs.scatter(1, seen_ids[:, None], torch.logaddexp(seen, copied[:, None]))

    def recall(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        target_ids: Tensor,
        trace: HiddenStates | None = None,
    ) -> Tensor:
        """(M,) log-probability of each target alone, which takes less memory than that of every token."""
        states = self.encoder(input_ids, segment_ids, is_pad, trace)
        asked = (*take_states(states, input_ids, positions), target_ids)
        parts = zip(*(torch.split(tensor, _CHUNK) for tensor in asked), strict=True)
        return torch.cat([self._recall(*part) for part in parts])

    def _recall(self, states: Tensor, seen_ids: Tensor, target_ids: Tensor) -> Tensor:
        copied, changed = self._weigh(states)
        guesses = self.head(states, self.encoder.embeddings).float()  # (M, V)
        guessed = changed - F.cross_entropy(guesses, target_ids, reduction="none")
        return torch.where(seen_ids == target_ids, torch.logaddexp(guessed, copied), guessed)

    def _weigh(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(M,) log c and log(1 - c)"""
        gates = self.gate(states).squeeze(-1).float()
        return F.logsigmoid(gates), F.logsigmoid(-gates)


def take_states(states: Tensor, input_ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """(M, D) states and (M,) ids at the flat positions."""
    return states.flatten(0, 1).index_select(0, positions), input_ids.flatten()[positions]
