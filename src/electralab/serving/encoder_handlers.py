"""What an encoder says of texts: which tokens look replaced, and one vector for a text.

TextInput -> TokenizedText -> Detection;  TextInput -> EmbedInput -> vector

A text longer than a row is read in windows. Each token counts once, in the window where it has the most context.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.detection.calibration import Explanation, WordScorer
from electralab.detection.sequence_calibration import SequenceScorer, SequenceScores
from electralab.detection.words import ScoredText
from electralab.model.electra import Discriminator
from electralab.model.encoder import LAST_STATES, Encoder, HiddenStates
from electralab.model.folders.native_format import OnnxDiscriminator
from electralab.model.task_model import Pooling, pool_states
from electralab.records.answers import Detection, HeldoutScores, TokenScore
from electralab.serving.inputs import Ids, TextInput, TokenizedText, WindowConfig, add_special_ids, tokenize
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Vector = NDArray[np.float32]

# Above it a token is more likely replaced than not.
THRESHOLD = 0.5
# Where no word of a text passes, one in five is named all the same, within these bounds.
_ONE_IN = 5
_FEWEST_NAMED, _MOST_NAMED = 3, 5
# A word that is less likely wrong gets no reasons.
_EXPLAINED = 0.1
_UNEXPLAINED = Explanation(())
_ALL_UNKNOWN = "the text holds nothing that the model's vocabulary knows; give text of its language"


def count_named(words: int) -> int:
    """How many of so many words are named where none passes the threshold."""
    return min(_MOST_NAMED, max(_FEWEST_NAMED, words // _ONE_IN))


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of tokens that fits the model. Only what the network says of [keep_from, keep_to) is used."""

    start: int
    end: int
    keep_from: int
    keep_to: int

    @property
    def columns(self) -> slice:
        """Where the kept tokens stand in the window's row, after its [CLS]."""
        return slice(self.keep_from - self.start + 1, self.keep_to - self.start + 1)


def cut_windows(count: int, size: int, overlap: float) -> list[Window]:
    """Cover `count` tokens so that each is kept once, where it has the most context on both sides.

    >>> [(window.keep_from, window.keep_to) for window in cut_windows(10, size=4, overlap=0.5)]
    [(0, 3), (3, 5), (5, 7), (7, 10)]
    """
    if count <= size:
        # An empty text too is a window: [CLS] [SEP] has a vector.
        return [Window(0, count, 0, count)]
    stride = max(1, round(size * (1 - overlap)))
    starts = [*range(0, count - size, stride), count - size]
    borders = [0, *((start + before + size) // 2 for before, start in pairwise(starts)), count]
    return [
        Window(start, start + size, keep_from, keep_to)
        for start, keep_from, keep_to in zip(starts, borders[:-1], borders[1:], strict=True)
    ]


@dataclass(frozen=True, slots=True)
class WindowOutput:
    text: int
    """Which of the texts."""
    window: Window
    output: Tensor  # (T, ...) what the network says of the window's row
    is_pad: Tensor  # (T,)


class _WindowHandler:
    """Texts of any length through an encoder."""

    def __init__(
        self, network: Discriminator | Encoder | OnnxDiscriminator, tokenizer: Tokenizer, config: WindowConfig
    ) -> None:
        self.network = network.eval()
        self.tokenizer = tokenizer
        self.config = config

    @torch.inference_mode()
    def run(self, texts: Sequence[Ids], stop: StopSignal, *, wants_states: bool = False) -> Iterator[WindowOutput]:
        """All windows of all texts; rows of like length go through the network together."""
        special, size = self.tokenizer.special, self.network.config.sequence_length - 2
        windows = [
            (text, window)
            for text, ids in enumerate(texts)
            for window in cut_windows(len(ids), size, self.config.overlap)
        ]
        rows = [add_special_ids(texts[text][window.start : window.end], special) for text, window in windows]
        device = next(self.network.parameters()).device
        for batch in batch_by_length(rows, special, self.config.batch_tokens, device):
            stop.check()
            inputs = batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad
            if wants_states and isinstance(self.network, OnnxDiscriminator):
                # What a graph returns are its logits; its states go into the dictionary.
                hidden_states: HiddenStates = {}
                self.network(*inputs, hidden_states)
                outputs = hidden_states[LAST_STATES]  # (B, T, D)
            else:
                outputs = self.network(*inputs)
            for row, number in enumerate(batch.rows):
                text, window = windows[number]
                yield WindowOutput(text, window, outputs[row], batch.is_pad[row])


class Detector(_WindowHandler):
    def __init__(
        self,
        model: Discriminator,
        tokenizer: Tokenizer,
        config: WindowConfig,
        heldout: HeldoutScores | None = None,
        scorer: WordScorer | None = None,
        sequences: SequenceScorer | None = None,
    ) -> None:
        """`heldout`: None where the folder says nothing of its scores. `scorer`, of text, and `sequences`, of symbols:
        None where it has no calibration."""
        super().__init__(model, tokenizer, config)
        self.heldout, self.scorer, self.sequences = heldout, scorer, sequences

    def detect_many(self, texts: Sequence[TextInput]) -> list[Detection]:
        return self.answer([self.parse(given) for given in texts])

    def parse(self, given: TextInput) -> TokenizedText:
        return tokenize(self.tokenizer, given)

    def answer(self, texts: Sequence[TokenizedText], stop: StopSignal = NO_STOP) -> list[Detection]:
        scored = self.score_tokens(texts, stop)
        if self.sequences is not None:
            rows = [[text.text[start:end] for start, end in text.offsets] for text in texts]
            judged = self.sequences.score(rows, self.tokenizer.token)
            return [
                self._describe_sequence(self._describe(text, tokens.logits, own.p_events), own)
                for text, tokens, own in zip(texts, scored, judged, strict=True)
            ]
        if self.scorer is None:
            return [self._describe(text, scores.logits) for text, scores in zip(texts, scored, strict=True)]
        detections = []
        for text, scores, (words, p_wrong) in zip(texts, scored, self.scorer.score(scored, stop), strict=True):
            is_word = [any(map(str.isalnum, text.text[word.start : word.end])) for word in words.spans]
            p_words = np.where(np.array(is_word, dtype=np.bool_), p_wrong, 0.0)
            # Those that may be named, whatever the threshold.
            explained = {*np.argsort(-p_words)[:_MOST_NAMED].tolist(), *np.flatnonzero(p_words > _EXPLAINED).tolist()}
            reasons: dict[int, Explanation] = {}
            by_token = np.zeros(len(text.ids))
            for index, word in enumerate(words.spans):
                by_token[word.first : word.after] = p_words[index]
                if index in explained and is_word[index]:
                    why = self.scorer.explain(text.text, words, index)
                    reasons |= dict.fromkeys(range(word.first, word.after), why)
            detections.append(self._describe(text, scores.logits, by_token, reasons))
        return detections

    def score_tokens(self, texts: Sequence[TokenizedText], stop: StopSignal = NO_STOP) -> list[ScoredText]:
        """What the discriminator says of each token, as logits."""
        # In double, or a sure network would say exactly 1 of different tokens, and their order were lost.
        logits = [np.zeros(len(text.ids)) for text in texts]
        for part in self.run([text.ids for text in texts], stop):
            row = part.output.double().cpu().numpy()
            logits[part.text][part.window.keep_from : part.window.keep_to] = row[part.window.columns]
        return [ScoredText(text.text, text.ids, text.offsets, row) for text, row in zip(texts, logits, strict=True)]

    def _describe(
        self,
        tokenized: TokenizedText,
        logits: NDArray[np.float64],
        p_wrong: NDArray[np.float64] | None = None,
        explained: Mapping[int, Explanation] = MappingProxyType({}),
    ) -> Detection:
        """`explained`: of the tokens of suspicious words, why."""
        p_replaced = torch.sigmoid(torch.from_numpy(logits)).numpy()
        special, ids, text = self.tokenizer.special, tokenized.ids, tokenized.text
        # Typed in a text, special tokens are context like any token, but none to be scored.
        is_scored = ~np.isin(ids, [special.cls, special.sep, special.pad])
        is_unknown = ids == special.unk
        calibrated: list[dict[str, Any]] = [
            ({} if p_wrong is None else {"p_wrong": float(p_wrong[index])})
            | {name: value for name, value in explained.get(index, _UNEXPLAINED)._asdict().items() if value}
            for index in range(len(ids))
        ]
        columns = (p_replaced.tolist(), is_scored.tolist(), is_unknown.tolist(), calibrated)
        tokens = tuple(
            TokenScore(
                text=text[start:end], start=start, end=end, p_replaced=p, p_original=1.0 - p, unknown=unknown, **more
            )
            for (start, end), p, is_kept, unknown, more in zip(tokenized.offsets, *columns, strict=True)
            if is_kept
        )
        suspicion = (p_replaced if p_wrong is None else p_wrong)[is_scored]
        if self.tokenizer.is_symbols:
            # No network was ever taught what an unknown symbol is: that it is one makes it suspicious enough.
            suspicion = suspicion + is_unknown[is_scored]
        # Stable, so that of equal tokens the first of the text is named.
        order = np.argsort(-suspicion, kind="stable")
        suspicious = order[suspicion[order] > THRESHOLD].tolist()
        is_relative = False
        if not suspicious and tokens:
            # None passes: named are those that stand out of this text, one a word.
            word_ids = np.cumsum(~self.tokenizer.continues_word[ids[is_scored]])
            named: dict[int, int] = {}
            for index in order[suspicion[order] > np.median(suspicion)].tolist():
                if self.tokenizer.is_symbols or any(map(str.isalnum, tokens[index].text)):
                    named.setdefault(int(word_ids[index]), index)
            suspicious = list(named.values())[: count_named(len(np.unique(word_ids)))]
            is_relative = bool(suspicious)
        # Held-out scores speak of p_replaced alone; calibrated probabilities know what they are worth.
        warning = self.heldout.warning if self.heldout and p_wrong is None else None
        if not self.tokenizer.is_symbols and tokenized.is_unknown(self.tokenizer):
            warning = _ALL_UNKNOWN
        return Detection(
            text=text, tokens=tokens, suspicious=tuple(suspicious), is_relative=is_relative, warning=warning
        )

    def _describe_sequence(self, detection: Detection, scores: SequenceScores) -> Detection:
        """With why its events are suspected, and what is said of it as a whole."""
        assert self.sequences is not None
        named = set() if detection.is_relative else set(detection.suspicious)
        tokens = tuple(
            token.model_copy(update={"reasons": reasons}) if index in named else token
            for index, (token, reasons) in enumerate(zip(detection.tokens, scores.reasons, strict=True))
        )
        is_alarm = scores.suspicion > self.sequences.calibration.threshold
        return detection.model_copy(
            update={
                "tokens": tokens,
                "p_wrong": scores.p_row,
                "suspicion": scores.suspicion,
                "is_alarm": is_alarm,
                "reasons": scores.row_reasons if is_alarm else (),
            }
        )


@dataclass(frozen=True, slots=True)
class EmbedInput:
    ids: Ids
    pooling: Pooling


class Embedder(_WindowHandler):
    def parse(self, given: TextInput, pooling: Pooling = "mean") -> EmbedInput:
        return EmbedInput(tokenize(self.tokenizer, given, is_literal=True).ids, pooling)

    def answer(self, inputs: Sequence[EmbedInput], stop: StopSignal = NO_STOP) -> list[Vector]:
        """A long text gives the mean over all its tokens; or the first token of its first window; or the last token
        of its last."""
        vectors = [np.zeros(self.network.config.hidden_size, dtype=np.float32) for _ in inputs]
        for part in self.run([given.ids for given in inputs], stop, wants_states=True):
            window, pooling, count = part.window, inputs[part.text].pooling, len(inputs[part.text].ids)
            is_whole = window.end - window.start == count
            if pooling == "mean" and not is_whole:
                kept = part.output[window.columns].float().sum(dim=0)
                vectors[part.text] += (kept / count).cpu().numpy()
            elif is_whole or (window.start == 0 if pooling == "first" else window.end == count):
                vectors[part.text] = pool_states(part.output[None], part.is_pad[None], pooling)[0].cpu().numpy()
        return vectors
