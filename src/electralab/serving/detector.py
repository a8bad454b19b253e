"""Which tokens of this text look replaced?

text -> Detection
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.model.electra import Discriminator
from electralab.model.folder import load_network, locate_model, read_config
from electralab.model.hf_config import OBJECTIVE
from electralab.tokens.tokenizer import Tokenizer


class DetectConfig(Settings):
    overlap: float = Field(0.5, ge=0, lt=1)
    """How much of a window of a long text is seen again by the next one."""
    batch_size: int = Field(16, ge=1)


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    text: str
    start: int
    end: int
    p_replaced: float

    @property
    def p_original(self) -> float:
        return 1.0 - self.p_replaced


@dataclass(frozen=True, slots=True)
class Detection:
    """A text and a verdict for each of its tokens but [CLS], [SEP] and [PAD], in order."""

    text: str
    tokens: tuple[TokenVerdict, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of the tokens that fits the model; of its verdicts only those in [keep_from, keep_to) are used."""

    start: int
    end: int
    keep_from: int
    keep_to: int


def cut_windows(count: int, size: int, overlap: float) -> list[Window]:
    """Cover `count` tokens so that each is judged once, where it has the most context on both sides."""
    if count <= size:
        return [Window(0, count, 0, count)] if count else []
    stride = max(1, round(size * (1 - overlap)))
    starts = [*range(0, count - size, stride), count - size]
    borders = [0, *((start + before + size) // 2 for before, start in pairwise(starts)), count]
    return [
        Window(start, start + size, keep_from, keep_to)
        for start, keep_from, keep_to in zip(starts, borders[:-1], borders[1:], strict=True)
    ]


class Detector:
    def __init__(self, model: Discriminator, tokenizer: Tokenizer, config: DetectConfig) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = config

    @classmethod
    def load(cls, path: Path, config: DetectConfig) -> "Detector":
        folder = locate_model(path, "discriminator")
        network = load_network(folder)
        if not isinstance(network, Discriminator):
            raise InputError(f"{folder}: is a generator, which passes no verdicts; give the discriminator's folder")
        if read_config(folder).get(OBJECTIVE) == "electric":
            raise InputError(
                f"{folder}: says energies, not how likely a token was replaced; compare sentences by it (electra "
                "evaluate --suite blimp), or tune it (electra finetune)"
            )
        tokenizer = Tokenizer.load(folder)
        if tokenizer.vocab_size > network.config.vocab_size:
            raise InputError(
                f"{folder}: its tokenizer has {tokenizer.vocab_size} entries, its model {network.config.vocab_size}; "
                "the folder mixes files of two models, restore it"
            )
        return cls(network, tokenizer, config)

    def detect_line(self, line: str) -> Detection:
        """A text, or for a model of symbols a JSON list."""
        if not self.tokenizer.is_symbols:
            return self.detect(line)
        try:
            symbols = json.loads(line)
        except (ValueError, RecursionError):
            symbols = None
        if not isinstance(symbols, list) or not all(
            isinstance(symbol, str | int) and not isinstance(symbol, bool) for symbol in symbols
        ):
            raise InputError(f"a model of symbols takes a JSON list of strings or integers, got {line[:40]!r}")
        return self.detect_symbols(symbols)

    def detect(self, text: str) -> Detection:
        if self.tokenizer.is_symbols:
            raise InputError('this model was trained on symbols; give a JSON list such as \'["open", "read"]\'')
        encoded = self.tokenizer.encode(text)
        special = self.tokenizer.special
        # Typed in the text they are context like any token, but none to pass a verdict on.
        is_frame = np.isin(encoded.ids, [special.cls, special.sep, special.pad])
        judged = zip(encoded.offsets, self._judge(encoded.ids), is_frame, strict=True)
        return Detection(
            text, tuple(TokenVerdict(text[a:b], a, b, float(p)) for (a, b), p, is_left_out in judged if not is_left_out)
        )

    def detect_symbols(self, symbols: Sequence[str | int]) -> Detection:
        """The text of a sequence is its symbols joined by spaces; spans point into that."""
        names = [str(symbol) for symbol in symbols]
        ends = list(accumulate(len(name) + 1 for name in names))
        chances = self._judge(self.tokenizer.encode_symbols(symbols))
        verdicts = (
            TokenVerdict(name, end - 1 - len(name), end - 1, float(p))
            for name, end, p in zip(names, ends, chances, strict=True)
        )
        return Detection(" ".join(names), tuple(verdicts))

    def _judge(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """p_replaced for each id, by windows that fit the model."""
        chances = np.zeros(len(ids))
        windows = cut_windows(len(ids), self.model.config.sequence_length - 2, self.config.overlap)
        for first in range(0, len(windows), self.config.batch_size):
            batch = windows[first : first + self.config.batch_size]
            judged = self._judge_windows([ids[window.start : window.end] for window in batch])
            for window, row in zip(batch, judged, strict=True):
                kept = slice(window.keep_from - window.start, window.keep_to - window.start)
                chances[window.keep_from : window.keep_to] = row[kept]
        return chances

    @torch.inference_mode()
    def _judge_windows(self, windows: list[NDArray[np.int64]]) -> list[NDArray[np.float64]]:
        special = self.tokenizer.special
        rows = np.full((len(windows), max(map(len, windows)) + 2), special.pad, dtype=np.int64)  # (B, T)
        for row, ids in zip(rows, windows, strict=True):
            row[0], row[1 : len(ids) + 1], row[len(ids) + 1] = special.cls, ids, special.sep
        input_ids = torch.from_numpy(rows)
        lengths = torch.tensor([len(ids) + 2 for ids in windows])
        # By length: a [PAD] typed in the text is not padding.
        is_pad = torch.arange(rows.shape[1]) >= lengths[:, None]  # (B, T)
        verdicts = self.model(input_ids, torch.zeros_like(input_ids), is_pad if is_pad.any() else None)
        chances = torch.sigmoid(verdicts.double()).numpy()
        return [row[1 : len(ids) + 1] for row, ids in zip(chances, windows, strict=True)]
