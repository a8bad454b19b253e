"""Which token stood here: named by the discriminator, or chosen from a few.

states at masked positions of the corrupted row -> losses "correction" and "selection"
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.model.encoder import EncoderConfig
from electralab.model.flops import guess_flops
from electralab.model.heads import GuessHead
from electralab.model.weights import dense
from electralab.objective.corruption import draw_ids
from electralab.objective.losses import guess_loss
from electralab.objective.masking import MaskedBatch
from electralab.objective.scene import Auxiliary, Scene
from electralab.randomness import Rng

# Guesses of which all are looked at while negatives are drawn: few enough to stay in cache.
_CHUNK = 64
# A logit as good as minus infinity that still leaves something to draw where all else is drawn already.
_HARDLY = -1e4


class Correction(Auxiliary):
    """p(x) = c [x is shown] + (1 - c) softmax(x): the shown token is kept with probability c, or another named.

    Without the gate c a plain language-model loss: p(x) = softmax(x).
    """

    def __init__(self, config: EncoderConfig, *, has_gate: bool = True) -> None:
        super().__init__()
        self.std = config.init_std
        self.guess = GuessHead(config)
        self.gate = dense(config.hidden_size, 1, bias=True) if has_gate else None

    def weight_stds(self) -> dict[str, float]:
        return {} if self.gate is None else {"gate.weight": self.std}

    def forward(self, scene: Scene) -> Tensor:
        states = scene.masked_states
        guesses = self.guess(states, scene.judge.encoder.embeddings).float()  # (M, V)
        if self.gate is None:
            return guess_loss(guesses, scene.masked.target_ids)
        gates = self.gate(states).squeeze(-1).float()  # (M,)
        return correction_loss(guesses, gates, scene.shown_ids, scene.masked.target_ids)

    def count_flops(self, judge: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        del rows, length
        gate = 0 if self.gate is None else 2 * masked_count * judge.hidden_size
        return 3 * (guess_flops(judge, masked_count) + gate)


def correction_loss(guesses: Tensor, gates: Tensor, shown_ids: Tensor, target_ids: Tensor) -> Tensor:
    """-log p(target), summed; in logarithms throughout, so that a gate that is sure leaves no infinity."""
    named = F.logsigmoid(-gates) - F.cross_entropy(guesses, target_ids, reduction="none")  # (M,)
    kept = torch.logaddexp(F.logsigmoid(gates), named)
    return -torch.where(shown_ids == target_ids, kept, named).sum()


class Selection(Auxiliary):
    """The token that was hidden, among negatives that the generator found likely; never all tokens."""

    def __init__(self, config: EncoderConfig, negatives: int) -> None:
        super().__init__()
        self.negatives = negatives
        self.std = config.init_std
        self.projection = dense(config.hidden_size, config.embedding_size, bias=not config.is_modern)

    def weight_stds(self) -> dict[str, float]:
        return {"projection.weight": self.std}

    def draw_luck(self, masked: MaskedBatch, rng: Rng) -> Tensor:
        rows, length = masked.batch.row_numbers, masked.input_ids.shape[1]
        uniforms = torch.from_numpy(rng.uniforms("selection", rows, length * self.negatives)).float()
        return uniforms.view(-1, self.negatives)[masked.positions]  # (M, N)

    def forward(self, scene: Scene) -> Tensor:
        masked = scene.masked
        negatives = draw_negatives(scene.guesses, masked.luck["selection"], scene.prohibition, masked.target_ids)
        candidates = torch.cat([masked.target_ids[:, None], negatives], dim=1)  # (M, 1 + N)
        vectors = scene.judge.encoder.embeddings.tokens(candidates)  # (M, 1 + N, E)
        scores = torch.bmm(vectors, self.projection(scene.masked_states)[:, :, None]).squeeze(-1)  # (M, 1 + N)
        return F.cross_entropy(scores.float(), torch.zeros_like(masked.target_ids), reduction="sum")

    def count_flops(self, judge: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        del rows, length
        return 3 * 2 * masked_count * judge.embedding_size * (judge.hidden_size + 1 + self.negatives)


@torch.no_grad()
def draw_negatives(guesses: Tensor, uniforms: Tensor, prohibition: Tensor, target_ids: Tensor) -> Tensor:
    """(M, N) ids, distinct and none the target, one after the other by softmax(guesses) over those that are left."""
    drawn = torch.empty(uniforms.shape, dtype=torch.int64, device=guesses.device)
    for start in range(0, len(guesses), _CHUNK):
        rows = slice(start, start + _CHUNK)
        logits = guesses[rows].float().clamp(min=_HARDLY) + prohibition  # (C, V)
        logits.scatter_(1, target_ids[rows, None], -torch.inf)
        for number, luck in enumerate(uniforms[rows].unbind(1)):
            found = draw_ids(logits, luck[:, None])
            logits.scatter_(1, found[:, None], -torch.inf)
            drawn[rows, number] = found
    return drawn
