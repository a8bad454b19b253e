"""Two streams through one encoder, so that tokens can be guessed in any order: ids, turns -> guesses.

    content   reads the row; a token sees itself and those whose turn was before its own
    query     stands where a token is asked for; it sees those before its turn and never the token itself

XLNet's two-stream attention (Yang et al., 2019). With every turn 0 the content stream is the encoder as it is, which
is what fine-tuning takes. Two things are left out that no guess depends on: queries where nothing is asked, and the
content's last layer beyond its keys and values.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from electralab.model.attention import Rotation, find_visible
from electralab.model.encoder import Encoder, EncoderConfig, Layer, Trace
from electralab.model.heads import GuessHead
from electralab.model.weights import Drawn, table


class Sight(NamedTuple):
    """What both streams see in a layer, True where they do, and how far their positions turn."""

    rotation: Rotation | None
    is_visible: Tensor  # (B, 1, T, T) to the content
    query_rotation: Rotation | None
    is_visible_to_query: Tensor  # (B, 1, Q, T)


class TwoStream(Drawn):
    # Asked without turns it hides by itself what it is asked for; a [MASK] there is as good as the token.
    reads_masked = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert not config.is_causal, "the turns say what is seen"
        assert not config.discrepancy_attention, "it looks at both sides of a token, whatever the turns"
        self.config = config
        self.encoder = Encoder(config)
        # What the query stream starts from in place of a token.
        self.blank = table(1, config.embedding_size)
        self.head = GuessHead(config)

    def weight_stds(self) -> dict[str, float]:
        return {"blank.weight": self.config.init_std}

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        turns: Tensor | None = None,
        trace: Trace | None = None,
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
        trace: Trace | None = None,
    ) -> Tensor:
        """(M, D) the query stream's states at those positions. A `trace` receives the content stream, all of it."""
        is_asked = torch.zeros_like(input_ids).flatten().index_fill(0, positions, 1).view_as(input_ids)  # (B, T)
        columns, slots = arrange_queries(is_asked)
        global_sight, local_sight = self._look(is_asked if turns is None else turns, is_pad, columns)

        embeddings = self.encoder.embeddings
        content = embeddings(input_ids, segment_ids)  # (B, T, D)
        blanks = self.blank.weight.expand(*columns.shape, -1)  # (B, Q, E)
        query = embeddings.compose(blanks, columns, segment_ids.gather(1, columns))  # (B, Q, D)
        if trace is not None:
            trace["embeddings"] = content
        for index, layer in enumerate(self.encoder.layers):
            assert isinstance(layer, Layer)
            is_read = trace is not None or index < self.config.num_layers - 1
            content, query = _advance(layer, content, query, local_sight if layer.is_local else global_sight, is_read)
            if trace is not None:
                trace[f"layers.{index}"] = content
        if trace is not None:
            trace["states"] = self.encoder.final_norm(content)
        states: Tensor = self.encoder.final_norm(query)
        return states.flatten(0, 1).index_select(0, slots.flatten()[positions])  # (M, D)

    def _look(self, turns: Tensor, is_pad: Tensor | None, columns: Tensor) -> tuple[Sight, Sight]:
        """Of a global and of a local layer."""
        length, window = turns.shape[1], self.config.local_attention
        encoder = self.encoder
        is_earlier = turns[:, None, None, :] < turns[:, None, :, None].clamp(min=1)  # (B, 1, T, T)
        is_own = torch.eye(length, dtype=torch.bool, device=turns.device)
        sights = []
        for rotary, reach in ((encoder.global_rotary, 0), (encoder.local_rotary, window)):
            rotation = None if rotary is None else rotary(length)
            is_near = find_visible(length, reach, is_pad, device=turns.device)
            earlier = is_earlier if is_near is None else is_earlier & is_near
            visible = is_earlier | is_own if is_near is None else (is_earlier | is_own) & is_near
            at_query = None if rotation is None else Rotation(rotation.cos[columns], rotation.sin[columns])
            sights.append(Sight(rotation, visible, at_query, earlier.take_along_dim(columns[:, None, :, None], dim=2)))
        return sights[0], sights[1]


def arrange_queries(is_asked: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) 1 where a token is asked for -> the (B, Q) columns of each row's queries, and for each of (B, T) its
    flat place among them.

    Q is that of the row that is asked most; the others have queries to spare, whose columns mean nothing.
    """
    count = max(1, int(is_asked.sum(dim=1).max()))
    columns = is_asked.argsort(dim=1, descending=True, stable=True)[:, :count]
    places = torch.arange(columns.numel(), device=columns.device).view_as(columns)
    return columns, torch.zeros_like(is_asked).scatter(1, columns, places)


def _advance(layer: Layer, content: Tensor, query: Tensor, sight: Sight, is_read: bool) -> tuple[Tensor, Tensor]:
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
