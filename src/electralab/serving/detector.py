"""Which tokens of this text look replaced?

texts -> TokenizedText... -> Detection...
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.model.electra import Discriminator
from electralab.model.folder import load_network, locate_model, read_config
from electralab.model.hf_config import OBJECTIVE
from electralab.serving.inputs import Given, TokenizedText, read, tokenize_known
from electralab.serving.strength import Strength, read_strength
from electralab.serving.windows import WindowConfig, frame, split_into_windows
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

# Above it a token is more likely replaced than not.
THRESHOLD = 0.5
# Where no word of a text passes, one in five is named all the same, within these bounds.
_ONE_IN = 5
_FEWEST_NAMED, _MOST_NAMED = 3, 5


class DetectConfig(WindowConfig):
    pass


@dataclass(frozen=True, slots=True)
class TokenScore:
    text: str
    start: int
    end: int
    p_replaced: float
    p_original: float = field(init=False)
    unknown: bool = False
    """Whether the vocabulary has no such token, so that the network saw [UNK] in its place."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "p_original", 1.0 - self.p_replaced)


@dataclass(frozen=True, slots=True)
class Detection:
    """A text and a verdict for each of its tokens but [CLS], [SEP] and [PAD], in order."""

    text: str
    tokens: tuple[TokenScore, ...]
    suspicious: tuple[int, ...] = ()
    """The places of the suspicious tokens, the most suspicious first; symbols that are unknown before all others."""
    is_relative: bool = False
    """Whether none passes 0.5, and those named are only the most suspicious of this text."""
    warning: str | None = None
    """What the model's held-out scores say against its verdicts."""

    def _repr_html_(self) -> str:
        """In a notebook: the text with each token shaded by suspicion; hovering says how likely it was replaced."""
        told = [f"<p>{escape(self.warning)}</p>"] if self.warning else []
        parts = [*told, '<div style="white-space: pre-wrap; line-height: 1.8">']
        end, named = 0, set(self.suspicious)
        for place, token in enumerate(self.tokens):
            # Translucent red below the notebook's own colour of text, which so stays readable in light and dark.
            style = f"background: rgba(230, 60, 40, {0.75 * token.p_replaced:.3f}); border-radius: 3px"
            style += "; border-bottom: 2px dotted" * (place in named)
            title = f"p_replaced {token.p_replaced:.3f}{', unknown' * token.unknown}"
            parts.append(escape(self.text[end : token.start]))
            parts.append(f'<span style="{style}" title="{title}">{escape(self.text[token.start : token.end])}</span>')
            end = token.end
        return "".join([*parts, escape(self.text[end:]), "</div>"])


def count_named(words: int) -> int:
    """How many of so many words are named where none passes the threshold."""
    return min(_MOST_NAMED, max(_FEWEST_NAMED, words // _ONE_IN))


def has_energies(folder: Path) -> bool:
    """Whether the discriminator says energies, minus log p up to a constant, not how likely a token is replaced."""
    return read_config(folder).get(OBJECTIVE) == "electric"


class Detector:
    def __init__(
        self, model: Discriminator, tokenizer: Tokenizer, config: DetectConfig, strength: Strength | None = None
    ) -> None:
        """`strength` is None where nothing is known of it."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = config
        self.strength = strength

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
        return cls(network, tokenizer, config, read_strength(folder))

    def detect(self, given: Given) -> Detection:
        return self.detect_many([given])[0]

    def detect_many(self, many: Sequence[Given]) -> list[Detection]:
        """The same answers as one by one, but rows of like length go through the network together."""
        return self.answer([read(self.tokenizer, given) for given in many])

    def parse(self, given: Given) -> TokenizedText:
        # Of events that were never seen there is something to say, and be they all of them.
        return read(self.tokenizer, given) if self.tokenizer.is_symbols else tokenize_known(self.tokenizer, given)

    def answer(self, readings: Sequence[TokenizedText], stop: StopSignal = NO_STOP) -> list[Detection]:
        chances = self._judge([reading.ids for reading in readings], stop)
        return [self._describe(reading, of_text) for reading, of_text in zip(readings, chances, strict=True)]

    def _describe(self, reading: TokenizedText, chances: NDArray[np.float64]) -> Detection:
        special, text = self.tokenizer.special, reading.text
        # Typed in the text they are context like any token, but none to pass a verdict on.
        is_judged = ~np.isin(reading.ids, [special.cls, special.sep, special.pad])
        is_unknown = reading.ids == special.unk
        judged = zip(reading.offsets, chances.tolist(), is_judged.tolist(), is_unknown.tolist(), strict=True)
        tokens = tuple(TokenScore(text[a:b], a, b, p, unknown) for (a, b), p, is_told, unknown in judged if is_told)
        # No network was ever taught what an unknown symbol is; that it is one is all the suspicion it needs.
        suspicions = chances + is_unknown if self.tokenizer.is_symbols else chances
        suspicious, is_relative = self._name_suspicious(tokens, reading.ids[is_judged], suspicions[is_judged])
        warning = self.strength.warning if self.strength else None
        return Detection(text, tokens, suspicious, is_relative, warning)

    def _name_suspicious(
        self, tokens: Sequence[TokenScore], ids: NDArray[np.int64], suspicions: NDArray[np.float64]
    ) -> tuple[tuple[int, ...], bool]:
        """The tokens that pass the threshold or, where none does, those that stand out of this text, one a word."""
        order = np.argsort(-suspicions, kind="stable")
        passing = order[suspicions[order] > THRESHOLD]
        if len(passing) or not len(order):
            return tuple(passing.tolist()), False
        word_of = np.cumsum(~self.tokenizer.continues_word[ids])
        most = count_named(len(set(word_of.tolist())))
        above = order[suspicions[order] > np.median(suspicions)].tolist()
        named: dict[int, int] = {}
        for place in above:
            if len(named) == most:
                break
            if self.tokenizer.is_symbols or any(map(str.isalnum, tokens[place].text)):
                named.setdefault(int(word_of[place]), place)
        return tuple(named.values()), bool(named)

    @torch.inference_mode()
    def _judge(self, texts: Sequence[NDArray[np.int64]], stop: StopSignal = NO_STOP) -> list[NDArray[np.float64]]:
        """p_replaced for each id of each text, by windows that fit the model."""
        special = self.tokenizer.special
        chances = [np.zeros(len(ids)) for ids in texts]
        size = self.model.config.sequence_length - 2
        placed = split_into_windows([len(ids) for ids in texts], size, self.config.overlap)
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
