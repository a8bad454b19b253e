"""A network that says of every token whether to leave it as it stands, and what was there before if not.

ids -> p(original) = c [original = seen] + (1 - c) softmax(original), c = sigmoid(w state + b)

The copy mechanism of ELECTRA's "All-Tokens MLM" (Clark et al., 2020). Everything is computed in logarithms.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.model.encoder import Encoder, EncoderConfig, Trace
from electralab.model.heads import GuessHead
from electralab.model.weights import Drawn, dense

# Tokens whose vocabulary-wide softmax is in work at once: what backward needs beside the softmax itself stays small.
_CHUNK = 1024


class Copying(Drawn):
    # It looks at the position it is asked about, so that only a row that hides the token makes it guess.
    reads_masked = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.head = GuessHead(config)
        self.gate = dense(config.hidden_size, 1, bias=True)

    def weight_stds(self) -> dict[str, float]:
        return {"gate.weight": self.config.init_std}

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        trace: Trace | None = None,
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
        trace: Trace | None = None,
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
