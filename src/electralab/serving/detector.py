"""Which tokens of this text look replaced?

texts -> Reading... -> Detection...
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.model.electra import Discriminator
from electralab.model.folder import load_network, locate_model, read_config
from electralab.model.hf_config import OBJECTIVE
from electralab.serving.reading import Given, Reading, read, read_known
from electralab.serving.windows import WindowConfig, frame, place_windows
from electralab.stopping import NEVER, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer


class DetectConfig(WindowConfig):
    pass


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

    def _repr_html_(self) -> str:
        """In a notebook: the text with each token shaded by suspicion; hovering says how likely it was replaced."""
        parts = ['<div style="white-space: pre-wrap; line-height: 1.8">']
        end = 0
        for token in self.tokens:
            # Translucent red below the notebook's own colour of text, which so stays readable in light and dark.
            style = f"background: rgba(230, 60, 40, {0.75 * token.p_replaced:.3f}); border-radius: 3px"
            title = f"p_replaced {token.p_replaced:.3f}"
            parts.append(escape(self.text[end : token.start]))
            parts.append(f'<span style="{style}" title="{title}">{escape(self.text[token.start : token.end])}</span>')
            end = token.end
        return "".join([*parts, escape(self.text[end:]), "</div>"])


def has_energies(folder: Path) -> bool:
    """Whether the discriminator says energies, minus log p up to a constant, not how likely a token is replaced."""
    return read_config(folder).get(OBJECTIVE) == "electric"


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
        if has_energies(folder):
            raise InputError(
                f"{folder}: says energies, not how likely a token was replaced; compare sentences by it (electra "
                "evaluate --suite blimp), or tune it (electra finetune)"
            )
        tokenizer = Tokenizer.load(folder)
        tokenizer.require_fit(network.config.vocab_size, folder)
        return cls(network, tokenizer, config)

    def detect(self, given: Given) -> Detection:
        return self.detect_many([given])[0]

    def detect_many(self, many: Sequence[Given]) -> list[Detection]:
        """The same answers as one by one, but rows of like length go through the network together."""
        return self.answer([read(self.tokenizer, given) for given in many])

    def parse(self, given: Given) -> Reading:
        return read_known(self.tokenizer, given)

    def answer(self, readings: Sequence[Reading], stop: StopSignal = NEVER) -> list[Detection]:
        chances = self._judge([reading.ids for reading in readings], stop)
        return [self._describe(reading, of_text) for reading, of_text in zip(readings, chances, strict=True)]

    def _describe(self, reading: Reading, chances: NDArray[np.float64]) -> Detection:
        special, text = self.tokenizer.special, reading.text
        # Typed in the text they are context like any token, but none to pass a verdict on.
        is_judged = ~np.isin(reading.ids, [special.cls, special.sep, special.pad])
        judged = zip(reading.offsets, chances.tolist(), is_judged.tolist(), strict=True)
        return Detection(text, tuple(TokenVerdict(text[a:b], a, b, p) for (a, b), p, is_told in judged if is_told))

    @torch.inference_mode()
    def _judge(self, texts: Sequence[NDArray[np.int64]], stop: StopSignal = NEVER) -> list[NDArray[np.float64]]:
        """p_replaced for each id of each text, by windows that fit the model."""
        special = self.tokenizer.special
        chances = [np.zeros(len(ids)) for ids in texts]
        size = self.model.config.sequence_length - 2
        placed = place_windows([len(ids) for ids in texts], size, self.config.overlap)
        rows = [frame(texts[one.text][one.window.start : one.window.end], special) for one in placed]
        device = next(self.model.parameters()).device
        for batch in batch_by_length(rows, special, self.config.batch_tokens, device):
            stop.check()
            verdicts = self.model(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad)  # (B, T)
            judged = torch.sigmoid(verdicts.double()).cpu().numpy()
            for row, place in zip(judged, batch.rows, strict=True):
                one = placed[place]
                chances[one.text][one.window.keep_from : one.window.keep_to] = row[one.columns]
        return chances
