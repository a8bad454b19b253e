"""Which words of a document look wrong, and what may have been meant?

text -> Word... -> Proof
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.serving.detector import Detection, Detector
from electralab.serving.filler import FillAsk, Filler
from electralab.serving.spelling import Lexicon, Suggestion
from electralab.serving.windows import WindowConfig
from electralab.tokens.tokenizer import Tokenizer


class ProofreadConfig(Settings):
    windows: WindowConfig = WindowConfig()
    threshold: float = Field(0.5, ge=0, le=1)
    """How suspicious a word must be to be named."""
    limit: int = Field(50, ge=0)
    """The most words to name in a document, the most suspicious first; 0 for all."""
    suggestions: int = Field(3, ge=0)
    context: int = Field(40, ge=0)
    """Characters to show on each side."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and how likely the most suspicious of its pieces was replaced."""

    text: str
    start: int
    end: int
    suspicion: float


@dataclass(frozen=True, slots=True)
class Finding:
    word: Word
    line: int
    column: int
    before: str
    after: str
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    source: str
    text: str
    words: int
    findings: tuple[Finding, ...]
    """In the order of the text."""


class Proofreader:
    def __init__(self, detector: Detector, filler: Filler | None, config: ProofreadConfig) -> None:
        """Without a filler there are no suggestions."""
        if detector.tokenizer.is_symbols:
            raise InputError("a model of symbols cannot read documents; give a model of text")
        self.detector, self.filler, self.config = detector, filler, config
        self._lexicon = Lexicon(detector.tokenizer)

    def proofread(self, text: str, source: str = "") -> Proof:
        words = self.judge(text)
        wrong = [word for word in words if word.suspicion > self.config.threshold]
        wrong = sorted(wrong, key=lambda word: -word.suspicion)[: self.config.limit or None]
        chosen = sorted(wrong, key=lambda word: word.start)
        suggestions = self.suggest(text, chosen)
        findings = (self._place(text, *one) for one in zip(chosen, suggestions, strict=True))
        return Proof(source, text, len(words), tuple(findings))

    def judge(self, text: str) -> list[Word]:
        """Every word, in order; what holds neither letter nor digit is none."""
        words = group_words(self.detector.detect(text), self.detector.tokenizer)
        return [word for word in words if any(map(str.isalnum, word.text))]

    def suggest(self, text: str, words: Sequence[Word]) -> list[tuple[Suggestion, ...]]:
        if self.filler is None or not words or not self.config.suggestions:
            return [() for _ in words]
        question = self.filler.parse(FillAsk(text, [(word.start, word.end) for word in words]))
        return [
            self._lexicon.suggest(
                word.text, self.filler.to_chances(logits).double().cpu().numpy(), self.config.suggestions
            )
            for word, logits in zip(words, self.filler.weigh([question])[0], strict=True)
        ]

    def _place(self, text: str, word: Word, suggestions: tuple[Suggestion, ...]) -> Finding:
        reach = self.config.context
        start = text.rfind("\n", 0, word.start) + 1
        return Finding(
            word,
            line=text.count("\n", 0, word.start) + 1,
            column=word.start - start + 1,
            before=text[max(word.start - reach, 0) : word.start].replace("\n", " "),
            after=text[word.end : word.end + reach].replace("\n", " "),
            suggestions=suggestions,
        )


def group_words(detection: Detection, tokenizer: Tokenizer) -> list[Word]:
    """Pieces that go on with the one before are one word with it."""
    encoded = tokenizer.encode(detection.text)
    goes_on = dict(zip(encoded.offsets, tokenizer.continues_word[encoded.ids].tolist(), strict=True))
    groups: list[list[int]] = []
    for place, token in enumerate(detection.tokens):
        is_joined = bool(groups) and token.start == detection.tokens[place - 1].end
        if is_joined and goes_on[token.start, token.end]:
            groups[-1].append(place)
        else:
            groups.append([place])
    tokens = detection.tokens
    return [
        Word(
            detection.text[tokens[group[0]].start : tokens[group[-1]].end],
            tokens[group[0]].start,
            tokens[group[-1]].end,
            float(np.max([tokens[place].p_replaced for place in group])),
        )
        for group in groups
    ]
