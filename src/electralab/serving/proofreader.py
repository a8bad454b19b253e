"""Which words of a document look wrong, what may have been meant, and how much planted damage is found?

text -> Word... -> Proof;  damaged text -> ProofreadScores
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from random import Random
from statistics import median
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.damage import DAMAGE_KINDS, Damage, DamageKind, count_words, damage_text
from electralab.errors import InputError
from electralab.records.answers import Detection, Proof, ProofreadScores, Suggestion, Word, WordFinding
from electralab.serving.detector import Detector, count_named
from electralab.serving.inputs import WindowConfig
from electralab.serving.mask_filler import FillRequest, MaskFiller
from electralab.tokens.tokenizer import Tokenizer

# In nats: what each wrong letter costs, and what another word altogether costs, beyond which no slip is likelier.
_SLIP, _OTHER = 3.0, 9.0
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
        self._lexicon = Lexicon(detector.tokenizer)

    def proofread(self, text: str, source: str = "") -> Proof:
        words = self.score_words(text)
        findings: tuple[WordFinding, ...] = ()
        outstanding: tuple[WordFinding, ...] = ()
        wrong = [word for word in words if word.suspicion > self.config.threshold]
        if wrong:
            findings = self._find(text, wrong, self.config.limit or len(wrong))
        else:
            usual = median(word.suspicion for word in words) if words else 0.0
            limit = min(count_named(len(words)), self.config.limit or len(words))
            outstanding = self._find(text, [word for word in words if word.suspicion > usual], limit)
        return Proof(source=source, text=text, words=len(words), findings=findings, most_suspicious=outstanding)

    def _find(self, text: str, words: Sequence[Word], limit: int) -> tuple[WordFinding, ...]:
        """The most suspicious of these, in the order of the text."""
        chosen = sorted(sorted(words, key=lambda word: -word.suspicion)[:limit], key=lambda word: word.start)
        context = self.config.context
        return tuple(
            WordFinding(
                word=word,
                line=text.count("\n", 0, word.start) + 1,
                column=word.start - text.rfind("\n", 0, word.start),
                before=_flatten(text[max(word.start - context, 0) : word.start]),
                after=_flatten(text[word.end : word.end + context]),
                suggestions=suggestions,
            )
            for word, suggestions in zip(chosen, self.suggest(text, chosen), strict=True)
        )

    def score_words(self, text: str) -> list[Word]:
        """Every word, in order; what holds neither letter nor digit is none."""
        words = group_words(self.detector.detect(text), self.detector.tokenizer)
        return [word for word in words if any(map(str.isalnum, word.text))]

    def suggest(self, text: str, words: Sequence[Word]) -> list[tuple[Suggestion, ...]]:
        # A text without a word that the model knows gives a generator nothing to go by.
        if (
            self.filler is None
            or not words
            or not self.config.suggestions
            or self.detector.parse(text).is_unknown(self.detector.tokenizer)
        ):
            return [() for _ in words]
        masked = self.filler.parse(FillRequest(text, [(word.start, word.end) for word in words]))
        suggested: dict[int, tuple[Suggestion, ...]] = {}
        for slots, logits in self.filler.logits([masked]):
            for (_, index), probs in zip(slots, self.filler.probs(logits).double().cpu().numpy(), strict=True):
                suggested[index] = self._lexicon.suggest(words[index].text, probs, self.config.suggestions)
        return [suggested[index] for index in range(len(words))]


def _flatten(text: str) -> str:
    """On one line, and without characters that would give orders to a terminal."""
    return "".join(" " if category(character) == "Cc" else character for character in text)


def group_words(detection: Detection, tokenizer: Tokenizer) -> list[Word]:
    """Tokens that continue the one before are one word with it, and so are tokens on the same characters."""
    text = detection.text
    encoded = tokenizer.encode(text)
    continues = dict(zip(encoded.offsets, tokenizer.continues_word[encoded.ids].tolist(), strict=True))
    words: list[Word] = []
    for token in detection.tokens:
        start, end, worst = token.start, token.end, token.p_replaced
        if words:
            last = words[-1]
            # Marks that the tokenizer leaves out, such as accents written by themselves, do not separate words.
            is_next = continues[start, end] and all(map(_is_mark, text[last.end : start]))
            if start < last.end or is_next:
                words.pop()
                start, end, worst = last.start, max(last.end, end), max(last.suspicion, worst)
        while end < len(text) and _is_mark(text[end]):
            end += 1
        words.append(Word(text=text[start:end], start=start, end=end, suspicion=worst))
    return words


def _is_mark(character: str) -> bool:
    return category(character) in ("Mn", "Me", "Cf")


class Lexicon:
    """The whole words of a vocabulary, to suggest from.

    A noisy channel: log p(word | context) minus a price for each letter that would have had to go wrong, or a fixed
    price for a word that is another altogether.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        tokenizer = self._tokenizer
        begins = np.flatnonzero(tokenizer.is_ordinary & ~tokenizer.continues_word)
        return np.array([index for index in begins.tolist() if tokenizer.decode_token(index).isalpha()], dtype=np.int64)

    @cached_property
    def words(self) -> list[str]:
        return [self._tokenizer.decode_token(index) for index in self.ids.tolist()]

    @cached_property
    def _letters(self) -> NDArray[np.uint32]:
        """(W, L) code points, 0 after the end of each word."""
        width = max(map(len, self.words), default=0)
        padded = [word.casefold().ljust(width, "\0")[:width] for word in self.words]
        return np.array(padded, dtype=f"<U{width or 1}").view(np.uint32).reshape(len(self.words), -1)

    def suggest(self, written: str, probs: NDArray[np.float64], count: int) -> tuple[Suggestion, ...]:
        """The best words but the one that was written; in capitals where that was."""
        if not len(self.ids):
            return ()
        word = written.casefold()
        # A word with so many letters more than any known one is another word, whatever the letters.
        is_long = len(word) > self._letters.shape[1] + _OTHER / _SLIP
        distances = np.full(len(self.ids), len(word)) if is_long else edit_distances(word, self._letters)  # (W,)
        with np.errstate(divide="ignore"):
            scores = np.log(probs[self.ids]) - np.minimum(_SLIP * distances, _OTHER)
        best = [
            int(index) for index in np.argsort(-scores)[: count + 1] if distances[index] and np.isfinite(scores[index])
        ]
        return tuple(
            Suggestion(text=_match_case(self.words[index], written), p=float(probs[self.ids[index]]))
            for index in best[:count]
        )


def edit_distances(word: str, letters: NDArray[np.uint32]) -> NDArray[np.int64]:
    """From the word to each row of (W, L) code points: letters to insert, leave out, change, or exchange.

    >>> words = np.array(["cat", "act", "cut", "dog"], dtype="<U3").view(np.uint32).reshape(4, 3)
    >>> edit_distances("cat", words).tolist()
    [0, 1, 1, 3]
    """
    lengths = (letters > 0).sum(axis=1)
    before, row = np.zeros_like(letters, dtype=np.int64), np.tile(np.arange(letters.shape[1] + 1), (len(letters), 1))
    for index, letter in enumerate(word):
        code = ord(letter)
        older, before, row = before, row, np.empty_like(row)
        row[:, 0] = index + 1
        for column in range(letters.shape[1]):
            changed = before[:, column] + (letters[:, column] != code)
            row[:, column + 1] = np.minimum(np.minimum(row[:, column], before[:, column + 1]) + 1, changed)
            if index and column:
                is_exchanged = (letters[:, column] == ord(word[index - 1])) & (letters[:, column - 1] == code)
                exchanged = np.minimum(row[:, column + 1], older[:, column - 1] + 1)
                row[:, column + 1] = np.where(is_exchanged, exchanged, row[:, column + 1])
    distances: NDArray[np.int64] = row[np.arange(len(letters)), lengths]
    return distances


def _match_case(word: str, written: str) -> str:
    if written.isupper() and len(written) > 1:
        return word.upper()
    return word.capitalize() if written[:1].isupper() else word


def score_proofreading(
    proofreader: Proofreader, texts: Sequence[str], *, share: float, seed: int
) -> dict[DamageKind, ProofreadScores]:
    """Each kind of damage by itself, planted in about this share of the words."""
    return {kind: _score_kind(proofreader, texts, kind, share, seed) for kind in DAMAGE_KINDS}


def _score_kind(
    proofreader: Proofreader, texts: Sequence[str], kind: DamageKind, share: float, seed: int
) -> ProofreadScores:
    from sklearn.metrics import roc_auc_score

    rng = Random(f"{seed} {kind}")
    suspicions: list[float] = []
    damaged: list[bool] = []
    num_hits = num_corrected = num_among = 0
    documents = [damage_text(text, kind, share, rng) for text in texts]
    _require_enough(sum(len(document.damages) for document in documents), texts, kind, share)
    for document in documents:
        words = proofreader.score_words(document.text)
        damages = [match_corruption(word, document.damages) for word in words]
        suspicions += [word.suspicion for word in words]
        damaged += [damage is not None for damage in damages]
        hits = [
            (word, damage)
            for word, damage in zip(words, damages, strict=True)
            if damage is not None and word.suspicion > proofreader.config.threshold
        ]
        suggested = proofreader.suggest(document.text, [word for word, _ in hits])
        for (_, damage), suggestions in zip(hits, suggested, strict=True):
            proposed = [suggestion.text.casefold() for suggestion in suggestions]
            num_hits += 1
            num_corrected += proposed[:1] == [damage.original.casefold()]
            num_among += damage.original.casefold() in proposed
    _require_enough(sum(damaged), texts, kind, share)
    suspicion, is_damaged = np.array(suspicions, dtype=np.float32), np.array(damaged)
    is_named = suspicion > proofreader.config.threshold
    worst = np.argsort(-suspicion, kind="stable")[: sum(damaged)]
    return ProofreadScores(
        words=len(suspicion),
        damaged=sum(damaged),
        precision=float(is_damaged[is_named].mean()) if is_named.any() else 0.0,
        recall=float(is_named[is_damaged].mean()),
        auc=float(roc_auc_score(is_damaged, suspicion)) if not is_damaged.all() else 0.5,
        precision_at_damaged=float(is_damaged[worst].mean()),
        corrected=num_corrected / max(num_hits, 1),
        among_suggestions=num_among / max(num_hits, 1),
    )


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
