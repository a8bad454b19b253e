"""Which tokens of this text look replaced?

TextInput -> TokenizedText -> Detection
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.model.electra import Discriminator
from electralab.records.answers import Detection, HeldoutScores, TokenScore
from electralab.serving.inputs import (
    Ids,
    TextInput,
    TokenizedText,
    WindowConfig,
    add_special_ids,
    split_into_windows,
    tokenize,
)
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

# Above it a token is more likely replaced than not.
THRESHOLD = 0.5
# Where no word of a text passes, one in five is named all the same, within these bounds.
_ONE_IN = 5
_FEWEST_NAMED, _MOST_NAMED = 3, 5
_ALL_UNKNOWN = "the text holds nothing that the model's vocabulary knows; give text of its language"


def count_named(words: int) -> int:
    """How many of so many words are named where none passes the threshold."""
    return min(_MOST_NAMED, max(_FEWEST_NAMED, words // _ONE_IN))


class Detector:
    def __init__(
        self, model: Discriminator, tokenizer: Tokenizer, config: WindowConfig, heldout: HeldoutScores | None = None
    ) -> None:
        """`heldout` is None where the model's folder says nothing of its scores."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = config
        self.heldout = heldout

    def detect(self, given: TextInput) -> Detection:
        return self.answer([self.parse(given)])[0]

    def detect_many(self, texts: Sequence[TextInput]) -> list[Detection]:
        """The same answers as one by one, but rows of like length go through the network together."""
        return self.answer([self.parse(given) for given in texts])

    def parse(self, given: TextInput) -> TokenizedText:
        return tokenize(self.tokenizer, given)

    def answer(self, texts: Sequence[TokenizedText], stop: StopSignal = NO_STOP) -> list[Detection]:
        scored = self._p_replaced([text.ids for text in texts], stop)
        return [self._describe(text, p_replaced) for text, p_replaced in zip(texts, scored, strict=True)]

    def _describe(self, tokenized: TokenizedText, p_replaced: NDArray[np.float64]) -> Detection:
        special, ids, text = self.tokenizer.special, tokenized.ids, tokenized.text
        # Typed in a text, special tokens are context like any token, but none to be scored.
        is_scored = ~np.isin(ids, [special.cls, special.sep, special.pad])
        is_unknown = ids == special.unk
        tokens = tuple(
            TokenScore(text=text[start:end], start=start, end=end, p_replaced=p, p_original=1.0 - p, unknown=unknown)
            for (start, end), p, is_kept, unknown in zip(
                tokenized.offsets, p_replaced.tolist(), is_scored.tolist(), is_unknown.tolist(), strict=True
            )
            if is_kept
        )
        # No network was ever taught what an unknown symbol is: that it is one makes it suspicious enough.
        suspicion = p_replaced + is_unknown if self.tokenizer.is_symbols else p_replaced
        suspicious, is_relative = self._name_suspicious(tokens, ids[is_scored], suspicion[is_scored])
        warning = self.heldout.warning if self.heldout else None
        if not self.tokenizer.is_symbols and tokenized.is_unknown(self.tokenizer):
            warning = _ALL_UNKNOWN
        return Detection(text=text, tokens=tokens, suspicious=suspicious, is_relative=is_relative, warning=warning)

    def _name_suspicious(
        self, tokens: Sequence[TokenScore], ids: Ids, suspicion: NDArray[np.float64]
    ) -> tuple[tuple[int, ...], bool]:
        """The tokens that pass the threshold or, where none does, those that stand out of this text, one a word."""
        # Stable, so that of equal tokens the first of the text is named.
        order = np.argsort(-suspicion, kind="stable")
        passing = order[suspicion[order] > THRESHOLD]
        if len(passing) or not len(order):
            return tuple(passing.tolist()), False
        word_ids = np.cumsum(~self.tokenizer.continues_word[ids])
        limit = count_named(len(np.unique(word_ids)))
        named: dict[int, int] = {}
        for index in order[suspicion[order] > np.median(suspicion)].tolist():
            if len(named) == limit:
                break
            if self.tokenizer.is_symbols or any(map(str.isalnum, tokens[index].text)):
                named.setdefault(int(word_ids[index]), index)
        return tuple(named.values()), bool(named)

    @torch.inference_mode()
    def _p_replaced(self, texts: Sequence[Ids], stop: StopSignal = NO_STOP) -> list[NDArray[np.float64]]:
        """p_replaced for each id of each text, by windows that fit the model."""
        special = self.tokenizer.special
        scores = [np.zeros(len(ids)) for ids in texts]
        windows = split_into_windows(
            [len(ids) for ids in texts], self.model.config.sequence_length - 2, self.config.overlap
        )
        rows = [add_special_ids(texts[part.text][part.window.start : part.window.end], special) for part in windows]
        device = next(self.model.parameters()).device
        for batch in batch_by_length(rows, special, self.config.batch_tokens, device):
            stop.check()
            logits = self.model(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad)  # (B, T)
            # In double, or a sure network would say exactly 1 of different tokens, and their order were lost.
            for row, index in zip(torch.sigmoid(logits.double()).cpu().numpy(), batch.rows, strict=True):
                part = windows[index]
                scores[part.text][part.window.keep_from : part.window.keep_to] = row[part.columns]
        return scores
