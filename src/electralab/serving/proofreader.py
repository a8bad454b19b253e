"""Which words of a document look wrong, and what may have been meant?

text -> Word... -> Proof -> HTML
"""

from collections.abc import Sequence
from functools import cached_property
from statistics import median
from unicodedata import category

from jinja2 import Environment, PackageLoader, Template
from pydantic import Field

from electralab.config import Settings
from electralab.detection.lexicon import Lexicon
from electralab.detection.words import split_words
from electralab.errors import InputError
from electralab.records.answers import Detection, Proof, Suggestion, Word, WordFinding
from electralab.serving.encoder_handlers import Detector, count_named
from electralab.serving.generator_handlers import MaskFiller
from electralab.serving.inputs import WindowConfig
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


class Proofreader:
    def __init__(self, detector: Detector, filler: MaskFiller | None, config: ProofreadConfig) -> None:
        """Without a filler there are no suggestions."""
        if detector.tokenizer.is_symbols:
            raise InputError("a model of symbols cannot read documents; give a model of text")
        self.detector, self.filler, self.config = detector, filler, config

    @cached_property
    def _lexicon(self) -> Lexicon:
        scorer = self.detector.scorer
        return Lexicon(self.detector.tokenizer, scorer.reader.frequencies if scorer else None)

    def proofread(self, text: str, source: str = "") -> Proof:
        words = self.score_words(text)
        wrong = [word for word in words if word.suspicion > self.config.threshold]
        if wrong:
            chosen, limit = wrong, self.config.limit or len(wrong)
        else:
            usual = median(word.suspicion for word in words) if words else 0.0
            chosen = [word for word in words if word.suspicion > usual]
            limit = min(count_named(len(words)), self.config.limit or len(words))
        # The most suspicious, in the order of the text.
        chosen = sorted(sorted(chosen, key=lambda word: -word.suspicion)[:limit], key=lambda word: word.start)
        findings = []
        for word, suggestions in zip(chosen, self.suggest(text, chosen), strict=True):
            context = (
                text[max(word.start - self.config.context, 0) : word.start],
                text[word.end :][: self.config.context],
            )
            # On one line, and without characters that would give orders to a terminal.
            before, after = ("".join(" " if category(char) == "Cc" else char for char in side) for side in context)
            findings.append(
                WordFinding(
                    word=word,
                    line=text.count("\n", 0, word.start) + 1,
                    column=word.start - text.rfind("\n", 0, word.start),
                    before=before,
                    after=after,
                    suggestions=suggestions,
                )
            )
        named = {"findings": tuple(findings) if wrong else (), "most_suspicious": () if wrong else tuple(findings)}
        return Proof(source=source, text=text, words=len(words), **named)

    def score_words(self, text: str) -> list[Word]:
        """Every word, in order; what holds neither letter nor digit is none."""
        (detection,) = self.detector.detect_many([text])
        words = group_words(detection, self.detector.tokenizer)
        return [word for word in words if any(map(str.isalnum, word.text))]

    def suggest(self, text: str, words: Sequence[Word]) -> list[tuple[Suggestion, ...]]:
        suggested: list[tuple[Suggestion, ...]] = [() for _ in words]
        # A text without a word that the model knows gives a generator nothing to go by.
        is_unknown = self.detector.parse(text).is_unknown(self.detector.tokenizer)
        if self.filler is None or not words or not self.config.suggestions or is_unknown:
            return suggested
        masked = self.filler.parse(text, [(word.start, word.end) for word in words])
        for slots, probs in self.filler.probs([masked]):
            for (_, index), row in zip(slots, probs.double().cpu().numpy(), strict=True):
                word, count = words[index], self.config.suggestions
                suggested[index] = self._lexicon.suggest(word.text, row, count, word.expected)
        return suggested


def group_words(detection: Detection, tokenizer: Tokenizer) -> list[Word]:
    """The words of a text, each as suspicious as the worst of its tokens."""
    encoded = tokenizer.encode(detection.text)
    by_place = {(token.start, token.end): token for token in detection.tokens}
    words = []
    for word in split_words(detection.text, encoded.ids, encoded.offsets, tokenizer):
        tokens = [by_place[place] for place in encoded.offsets[word.first : word.after] if place in by_place]
        if tokens:  # special tokens that are typed in a text have no scores
            worst = max(tokens, key=lambda token: token.suspicion)
            written = detection.text[word.start : word.end]
            scored = Word(text=written, start=word.start, end=word.end, suspicion=worst.suspicion)
            # Keys that say nothing are left out of JSON.
            why = {"reasons": worst.reasons, "expected": worst.expected}
            words.append(scored.model_copy(update={name: value for name, value in why.items() if value}))
    return words


def render_proofs(proofs: Sequence[Proof], warning: str | None = None) -> str:
    """A page: the texts with their suspicious words marked, and what may have been meant.

    `warning` is what the model's held-out scores say against its findings.
    """
    return load_template("proofs.html").render(proofs=proofs, warning=warning)


def load_template(name: str) -> Template:
    """A page of ours; with autoescape, because the texts on it are somebody else's."""
    loader = PackageLoader("electralab", "serving/page")
    env = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    return env.get_template(name)
