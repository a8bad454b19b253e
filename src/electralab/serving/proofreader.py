"""Which words of a document look wrong, and what may have been meant?

text -> Word... -> Proof
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from unicodedata import category

from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.serving.detector import Detection, Detector, count_named
from electralab.serving.mask_filler import FillRequest, MaskFiller
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
    most_suspicious: tuple[Finding, ...] = ()
    """Where no word passes the threshold: a few that stand out of this text, in its order."""


class Proofreader:
    def __init__(self, detector: Detector, filler: MaskFiller | None, config: ProofreadConfig) -> None:
        """Without a filler there are no suggestions."""
        if detector.tokenizer.is_symbols:
            raise InputError("a model of symbols cannot read documents; give a model of text")
        self.detector, self.filler, self.config = detector, filler, config
        self._lexicon = Lexicon(detector.tokenizer)

    def proofread(self, text: str, source: str = "") -> Proof:
        words = self.judge(text)
        wrong = [word for word in words if word.suspicion > self.config.threshold]
        if wrong:
            return Proof(source, text, len(words), self._find(text, wrong, self.config.limit or len(wrong)))
        usual = median(word.suspicion for word in words) if words else 0.0
        outstanding = [word for word in words if word.suspicion > usual]
        most = min(count_named(len(words)), self.config.limit or len(words))
        return Proof(source, text, len(words), (), self._find(text, outstanding, most))

    def _find(self, text: str, words: Sequence[Word], most: int) -> tuple[Finding, ...]:
        """The most suspicious of these, in the order of the text."""
        chosen = sorted(sorted(words, key=lambda word: -word.suspicion)[:most], key=lambda word: word.start)
        suggestions = self.suggest(text, chosen)
        return tuple(self._place(text, word, of) for word, of in zip(chosen, suggestions, strict=True))

    def judge(self, text: str) -> list[Word]:
        """Every word, in order; what holds neither letter nor digit is none."""
        words = group_words(self.detector.detect(text), self.detector.tokenizer)
        return [word for word in words if any(map(str.isalnum, word.text))]

    def suggest(self, text: str, words: Sequence[Word]) -> list[tuple[Suggestion, ...]]:
        # Of a text without a word that the model knows there is nothing to suggest either.
        is_known = (self.detector.tokenizer.encode(text).ids != self.detector.tokenizer.special.unk).any()
        if self.filler is None or not words or not self.config.suggestions or not is_known:
            return [() for _ in words]
        question = self.filler.parse(FillRequest(text, [(word.start, word.end) for word in words]))
        found: dict[int, tuple[Suggestion, ...]] = {}
        for places, logits in self.filler.weigh([question]):
            for (_, place), chances in zip(places, self.filler.to_chances(logits).double().cpu().numpy(), strict=True):
                found[place] = self._lexicon.suggest(words[place].text, chances, self.config.suggestions)
        return [found[place] for place in range(len(words))]

    def _place(self, text: str, word: Word, suggestions: tuple[Suggestion, ...]) -> Finding:
        reach = self.config.context
        start = text.rfind("\n", 0, word.start) + 1
        return Finding(
            word,
            line=text.count("\n", 0, word.start) + 1,
            column=word.start - start + 1,
            before=_flatten(text[max(word.start - reach, 0) : word.start]),
            after=_flatten(text[word.end : word.end + reach]),
            suggestions=suggestions,
        )


def _flatten(text: str) -> str:
    """On one line, and without characters that would give orders to a terminal."""
    return "".join(" " if category(character) == "Cc" else character for character in text)


def group_words(detection: Detection, tokenizer: Tokenizer) -> list[Word]:
    """Pieces that go on with the one before are one word with it, and so is what stands on the same characters."""
    encoded = tokenizer.encode(detection.text)
    goes_on = dict(zip(encoded.offsets, tokenizer.continues_word[encoded.ids].tolist(), strict=True))
    words: list[Word] = []
    for token in detection.tokens:
        last = words[-1] if words else None
        is_same = last is not None and token.start < last.end
        is_next = (
            last is not None and goes_on[token.start, token.end] and _is_gapless(detection.text, last.end, token.start)
        )
        if last is not None and (is_same or is_next):
            words.pop()
            start, end, worst = last.start, max(last.end, token.end), max(last.suspicion, token.p_replaced)
        else:
            start, end, worst = token.start, token.end, token.p_replaced
        end = _take_marks(detection.text, end)
        words.append(Word(detection.text[start:end], start, end, worst))
    return words


def _is_gapless(text: str, start: int, end: int) -> bool:
    """Nothing stands between but marks that the tokenizer leaves out, as of accents written by themselves."""
    return all(map(_is_mark, text[start:end]))


def _take_marks(text: str, end: int) -> int:
    while end < len(text) and _is_mark(text[end]):
        end += 1
    return end


def _is_mark(character: str) -> bool:
    return category(character) in ("Mn", "Me", "Cf")
