"""Which words of a document look wrong, what may have been meant, and how much planted damage is found?

text -> Word... -> Proof -> HTML;  damaged text -> ProofreadScores
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from random import Random
from statistics import median
from unicodedata import category

import numpy as np
from jinja2 import Environment, PackageLoader, Template
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.damage import DAMAGE_KINDS, Damage, DamageKind, count_words, damage_text
from electralab.detection.lexicon import Lexicon
from electralab.detection.words import split_words
from electralab.errors import InputError
from electralab.records.answers import Detection, Proof, ProofreadScores, Suggestion, Word, WordFinding
from electralab.serving.encoder_handlers import Detector, count_named
from electralab.serving.generator_handlers import MaskFiller
from electralab.serving.inputs import WindowConfig
from electralab.tokens.tokenizer import Tokenizer

# Fewer damaged words say nothing about a proofreader.
_LEAST_DAMAGED = 20


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
        return Lexicon(self.detector.tokenizer)

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
                suggested[index] = self._lexicon.suggest(words[index].text, row, self.config.suggestions)
        return suggested


def group_words(detection: Detection, tokenizer: Tokenizer) -> list[Word]:
    """The words of a text, each as suspicious as the worst of its tokens."""
    encoded = tokenizer.encode(detection.text)
    by_place = {(token.start, token.end): token.suspicion for token in detection.tokens}
    words = []
    for word in split_words(detection.text, encoded.ids, encoded.offsets, tokenizer):
        scores = [by_place[place] for place in encoded.offsets[word.first : word.after] if place in by_place]
        if scores:  # special tokens that are typed in a text have none
            written = detection.text[word.start : word.end]
            words.append(Word(text=written, start=word.start, end=word.end, suspicion=max(scores)))
    return words


def score_proofreading(
    proofreader: Proofreader, texts: Sequence[str], *, share: float, seed: int
) -> dict[DamageKind, ProofreadScores]:
    """Each kind of damage by itself, planted in about this share of the words."""
    from sklearn.metrics import roc_auc_score

    threshold = proofreader.config.threshold
    scores: dict[DamageKind, ProofreadScores] = {}
    for kind in DAMAGE_KINDS:
        rng = Random(f"{seed} {kind}")
        documents = [damage_text(text, kind, share, rng) for text in texts]
        # Before the work as well as after it, when words that the tokenizer does not see have dropped out.
        _require_enough(sum(len(document.damages) for document in documents), texts, kind, share)
        words: list[Word] = []
        damages: list[Damage | None] = []
        # For each damaged word that is named: what was there, and what is suggested.
        hits: list[tuple[str, list[str]]] = []
        for document in documents:
            here = proofreader.score_words(document.text)
            matched = [match_corruption(word, document.damages) for word in here]
            named = [
                (word, damage)
                for word, damage in zip(here, matched, strict=True)
                if damage is not None and word.suspicion > threshold
            ]
            suggested = proofreader.suggest(document.text, [word for word, _ in named])
            for (_, damage), suggestions in zip(named, suggested, strict=True):
                hits.append((damage.original.casefold(), [suggestion.text.casefold() for suggestion in suggestions]))
            words += here
            damages += matched
        suspicion = np.array([word.suspicion for word in words], dtype=np.float32)
        is_damaged = np.array([damage is not None for damage in damages], dtype=np.bool_)
        num_damaged = int(is_damaged.sum())
        _require_enough(num_damaged, texts, kind, share)
        is_named = suspicion > threshold
        worst = np.argsort(-suspicion, kind="stable")[:num_damaged]
        scores[kind] = ProofreadScores(
            words=len(words),
            damaged=num_damaged,
            precision=float(is_damaged[is_named].mean()) if is_named.any() else 0.0,
            recall=float(is_named[is_damaged].mean()),
            auc=float(roc_auc_score(is_damaged, suspicion)) if not is_damaged.all() else 0.5,
            precision_at_damaged=float(is_damaged[worst].mean()),
            corrected=sum(proposed[:1] == [original] for original, proposed in hits) / max(len(hits), 1),
            among_suggestions=sum(original in proposed for original, proposed in hits) / max(len(hits), 1),
        )
    return scores


def _require_enough(damaged: int, texts: Sequence[str], kind: DamageKind, share: float) -> None:
    if damaged >= _LEAST_DAMAGED:
        return
    words = sum(map(count_words, texts))
    # How many are damaged is random: half as much again is nearly always enough.
    needed = 1.5 * _LEAST_DAMAGED * max(words / damaged if damaged else 0, 1 / share)
    raise InputError(
        f"--measure: {words:,} words have room for {damaged} damaged ones only ({kind}, {share:.0%} of the words), and "
        f"{_LEAST_DAMAGED} are needed; give about {math.ceil(needed / 100) * 100:,} words"
    )


def match_corruption(word: Word, damages: Sequence[Damage]) -> Damage | None:
    """The damage, of those in the order of the text, that the word has a part in."""
    index = bisect_right(damages, word.start, key=lambda damage: damage.end)
    return damages[index] if index < len(damages) and damages[index].start < word.end else None


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
