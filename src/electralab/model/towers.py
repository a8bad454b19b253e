"""A generator of two towers that meet in every gap: the row as it is -> a guess at p from all but the token at p.

    left to right   sees ..., p-1 \\
                                    join -> guess at p
    right to left   sees p+1, ... /

Nothing need be masked, so that one pass answers for every position (Baevski et al., 2019; the noise of Clark et al.'s
Electric, 2020).
"""

import torch
from torch import Tensor

from electralab.model.encoder import Encoder, EncoderConfig
from electralab.model.heads import GuessHead
from electralab.model.weights import Drawn, dense


class TwoTower(Drawn):
    reads_masked = False

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config.model_copy(update={"is_causal": True})
        self.left = Encoder(self.config)
        self.right = Encoder(self.config)
        self.right.embeddings.tokens = self.left.embeddings.tokens
        if config.is_modern:  # where table and projection are one table in two factors
            self.right.embeddings.projection = self.left.embeddings.projection
        self.join = dense(2 * config.hidden_size, config.hidden_size, bias=not config.is_modern)
        self.head = GuessHead(self.config)

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
