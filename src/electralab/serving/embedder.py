"""One vector for a text: the final hidden states of its tokens, pooled.

EmbedRequest -> TokenizedRequest -> vector
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.model.encoder import Encoder, HiddenStates
from electralab.model.folders.native_format import OnnxDiscriminator
from electralab.model.task_model import Pooling, pool_states
from electralab.serving.inputs import (
    Ids,
    TextInput,
    TextWindow,
    Window,
    WindowConfig,
    add_special_ids,
    split_into_windows,
    tokenize,
)
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    given: TextInput
    pooling: Pooling = "mean"


@dataclass(frozen=True, slots=True)
class TokenizedRequest:
    ids: Ids
    pooling: Pooling


class Embedder:
    def __init__(self, encoder: Encoder | OnnxDiscriminator, tokenizer: Tokenizer, config: WindowConfig) -> None:
        self.encoder = encoder.eval()
        self.tokenizer = tokenizer
        self.config = config

    def embed(self, given: TextInput, pooling: Pooling = "mean") -> Vector:
        return self.answer([self.parse(EmbedRequest(given, pooling))])[0]

    def parse(self, request: EmbedRequest) -> TokenizedRequest:
        return TokenizedRequest(tokenize(self.tokenizer, request.given, is_literal=True).ids, request.pooling)

    @torch.inference_mode()
    def answer(self, requests: Sequence[TokenizedRequest], stop: StopSignal = NO_STOP) -> list[Vector]:
        """A text longer than a row gives the mean over all its tokens, each from the window where it has the most
        context; or the first token of its first window; or the last token of its last."""
        special, config = self.tokenizer.special, self.encoder.config
        counts = [len(request.ids) for request in requests]
        windows = split_into_windows(counts, config.sequence_length - 2, self.config.overlap)
        # An empty text has a vector too: that of [CLS] [SEP].
        windows += [TextWindow(text, Window(0, 0, 0, 0)) for text, count in enumerate(counts) if not count]
        rows = [
            add_special_ids(requests[part.text].ids[part.window.start : part.window.end], special) for part in windows
        ]
        vectors = [np.zeros(config.hidden_size, dtype=np.float32) for _ in requests]
        device = next(self.encoder.parameters()).device
        for batch in batch_by_length(rows, special, self.config.batch_tokens, device):
            stop.check()
            trace: HiddenStates = {}
            states = self.encoder(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad, trace)
            if isinstance(self.encoder, OnnxDiscriminator):
                states = trace["states"]  # (B, T, D); what the graph returned are its logits
            for row, index in enumerate(batch.rows):
                part = windows[index]
                count, pooling = counts[part.text], requests[part.text].pooling
                is_whole = part.window.end - part.window.start == count
                is_end = part.window.start == 0 if pooling == "first" else part.window.end == count
                # Windows overlap: each token counts once, in the one where it is kept.
                if pooling == "mean" and not is_whole:
                    kept = states[row, part.columns].float().sum(dim=0)
                    vectors[part.text] += (kept / count).cpu().numpy()
                elif is_whole or is_end:
                    here = slice(row, row + 1)
                    vectors[part.text] = pool_states(states[here], batch.is_pad[here], pooling)[0].cpu().numpy()
        return vectors
