"""One vector for a text: the final states of its tokens, pooled.

EmbedRequest -> Sequence -> vector
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.model.encoder import Encoder, Trace
from electralab.model.graph import GraphDiscriminator
from electralab.model.pooling import Pooling, pool_states
from electralab.serving.inputs import Given, read, tokenize_known
from electralab.serving.windows import Ids, TextWindow, Window, WindowConfig, frame, split_into_windows
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import RowBatch, batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    given: Given
    pooling: Pooling = "mean"


@dataclass(frozen=True, slots=True)
class Sequenced:
    ids: Ids
    pooling: Pooling


class Embedder:
    def __init__(self, encoder: Encoder | GraphDiscriminator, tokenizer: Tokenizer, config: WindowConfig) -> None:
        self.encoder = encoder.eval()
        self.tokenizer = tokenizer
        self.config = config

    def embed(self, given: Given, pooling: Pooling = "mean") -> Vector:
        return self.answer([Sequenced(read(self.tokenizer, given, is_literal=True).ids, pooling)])[0]

    def parse(self, asked: EmbedRequest) -> Sequenced:
        return Sequenced(tokenize_known(self.tokenizer, asked.given, is_literal=True).ids, asked.pooling)

    @torch.inference_mode()
    def answer(self, sequences: Sequence[Sequenced], stop: StopSignal = NO_STOP) -> list[Vector]:
        """Of a text longer than a row: the mean over all its tokens, each where it has the most context; the first
        token of its first window, the last of its last."""
        size = self.encoder.config.sequence_length - 2
        counts = [len(sequence.ids) for sequence in sequences]
        placed = split_into_windows(counts, size, self.config.overlap)
        placed += [TextWindow(text, Window(0, 0, 0, 0)) for text, count in enumerate(counts) if not count]
        rows = [
            frame(sequences[one.text].ids[one.window.start : one.window.end], self.tokenizer.special) for one in placed
        ]
        vectors = [np.zeros(self.encoder.config.hidden_size, dtype=np.float32) for _ in sequences]
        device = next(self.encoder.parameters()).device
        for batch in batch_by_length(rows, self.tokenizer.special, self.config.batch_tokens, device):
            stop.check()
            states = self._look(batch)
            for place, row in enumerate(batch.rows):
                one = placed[row]
                sequence = sequences[one.text]
                is_whole = one.window.end - one.window.start == len(sequence.ids)
                is_end = one.window.start == 0 if sequence.pooling == "first" else one.window.end == len(sequence.ids)
                if sequence.pooling == "mean" and not is_whole:
                    kept = states[place, one.columns].float().sum(dim=0)
                    vectors[one.text] += (kept / len(sequence.ids)).cpu().numpy()
                elif is_whole or is_end:
                    here = slice(place, place + 1)
                    vectors[one.text] = pool_states(states[here], batch.is_pad[here], sequence.pooling)[0].cpu().numpy()
        return vectors

    def _look(self, batch: RowBatch) -> Tensor:
        """(B, T, D) the final states."""
        asked = (batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad)
        trace: Trace = {}
        said: Tensor = self.encoder(*asked, trace)
        return trace["states"] if isinstance(self.encoder, GraphDiscriminator) else said
