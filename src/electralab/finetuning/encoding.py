"""Examples -> the rows of a network, cut to its length; whatever was cut is counted.

Example... -> FeatureSet
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from electralab.finetuning.examples import Example, Question, ScoredExample, TaggedExample, TextExample
from electralab.finetuning.features import IGNORED, Feature
from electralab.finetuning.questions import QuestionWindow, SpanConfig, cut_question
from electralab.finetuning.symbols import split_symbols
from electralab.tokens.tokenizer import Tokenizer

Ids = NDArray[np.int64]
_UNKNOWN = np.zeros(0, dtype=np.int64)
"""The targets of a row whose answer is not known."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """The rows of a split, in the order of its examples; an example may have several."""

    features: list[Feature]
    too_long: list[int]
    """Places of the examples that did not fit a row: texts are cut, tagged sentences and contexts go on in another."""
    word_places: list[Ids] = field(default_factory=list)
    """Of tagged sentences, for each row: where its words begin."""
    windows: list[QuestionWindow] = field(default_factory=list)
    """Of questions, for each row: how it lies in the context."""
    notes: list[str] = field(default_factory=list)
    """What the rows do not say of their examples, counted."""


@dataclass(frozen=True, slots=True)
class Framer:
    """What every row of a run is made with."""

    tokenizer: Tokenizer
    labels: tuple[str, ...]
    sequence_length: int
    spans: SpanConfig

    def encode(self, examples: Sequence[Example], *, is_labelled: bool) -> FeatureSet:
        first = examples[0] if examples else None
        if isinstance(first, Question):
            return self._encode_questions(examples, is_labelled=is_labelled)
        if isinstance(first, TaggedExample):
            return self._encode_tagged(examples, is_labelled=is_labelled)
        return self._encode_texts(examples, is_labelled=is_labelled)

    def _encode_texts(self, examples: Sequence[Example], *, is_labelled: bool) -> FeatureSet:
        number_of = {label: number for number, label in enumerate(self.labels)}
        known = [example for example in examples if isinstance(example, TextExample | ScoredExample)]
        flat = iter(self._read_texts([text for example in known for text in example.texts]))
        features = []
        too_long = []
        for place, example in enumerate(known):
            parts = [next(flat) for _ in example.texts]
            kept = fit_parts([len(part) for part in parts], self.sequence_length - 1 - len(parts))
            if any(len(part) > length for part, length in zip(parts, kept, strict=True)):
                too_long.append(place)
            targets: Ids | NDArray[np.float32] = _UNKNOWN
            if is_labelled and isinstance(example, TextExample):
                targets = np.array([number_of[example.label]], dtype=np.int64)
            elif is_labelled and isinstance(example, ScoredExample):
                targets = np.array([example.score], dtype=np.float32)
            row = self._frame([part[:length] for part, length in zip(parts, kept, strict=True)])
            features.append(Feature(place, *row, targets))
        return FeatureSet(features, too_long)

    def _read_texts(self, texts: Sequence[str]) -> list[Ids]:
        if not self.tokenizer.is_symbols:
            return self.tokenizer.encode_many(texts)
        return [self.tokenizer.encode_symbols(split_symbols(text)) for text in texts]

    def _read_words(self, words: Sequence[str]) -> list[Ids]:
        """Of a model of symbols every word is one."""
        if not self.tokenizer.is_symbols:
            return self.tokenizer.encode_many(words)
        return [self.tokenizer.encode_symbols([word]) for word in words]

    def _frame(self, parts: Sequence[Ids]) -> tuple[Ids, Ids]:
        """[CLS] A [SEP] or [CLS] A [SEP] B [SEP], and 0 or 1 for the segment."""
        special = self.tokenizer.special
        pieces = [np.array([special.cls])]
        segments = [np.zeros(1, dtype=np.int64)]
        for number, part in enumerate(parts):
            pieces += [part, np.array([special.sep])]
            segments.append(np.full(len(part) + 1, number, dtype=np.int64))
        return np.concatenate(pieces), np.concatenate(segments)

    def _encode_tagged(self, examples: Sequence[Example], *, is_labelled: bool) -> FeatureSet:
        number_of = {label: number for number, label in enumerate(self.labels)}
        known = [example for example in examples if isinstance(example, TaggedExample)]
        flat = iter(self._read_words([word for example in known for word in example.words]))
        features, places = [], []
        too_long = []
        for place, example in enumerate(known):
            # A word of nothing but control characters has no pieces, yet its tag must have a place.
            words = [ids if len(ids) else np.array([self.tokenizer.special.unk]) for ids in _take(flat, example.words)]
            stretches = list(cut_words([len(word) for word in words], self.sequence_length - 2))
            if len(stretches) > 1:
                too_long.append(place)
            for start, end in stretches:
                pieces = [word[: self.sequence_length - 2] for word in words[start:end]]
                ids, segment_ids = self._frame([np.concatenate(pieces)])
                begins = np.cumsum([1, *map(len, pieces[:-1])])
                targets = _UNKNOWN
                if is_labelled:
                    targets = np.full(len(ids), IGNORED, dtype=np.int64)
                    targets[begins] = [number_of[tag] for tag in example.tags[start:end]]
                features.append(Feature(place, ids, segment_ids, targets))
                places.append(begins)
        return FeatureSet(features, too_long, word_places=places)

    def _encode_questions(self, examples: Sequence[Example], *, is_labelled: bool) -> FeatureSet:
        cut = [
            cut_question(example, place, self.tokenizer, self.sequence_length, self.spans, is_labelled)
            for place, example in enumerate(examples)
            if isinstance(example, Question)
        ]
        windows = [window for of_question in cut for window in of_question]
        too_long = [place for place, of_question in enumerate(cut) if len(of_question) > 1]
        notes = list(note_questions(cut, is_labelled=is_labelled))
        return FeatureSet([window.feature for window in windows], too_long, windows=windows, notes=notes)


def note_questions(cut: Sequence[Sequence[QuestionWindow]], *, is_labelled: bool) -> Iterator[str]:
    asked = sum(of_question[0].is_question_cut for of_question in cut)
    if asked:
        yield f"questions longer than the settings allow, and cut: {asked:,}"
    if not is_labelled:
        return
    lost = [of for of in cut if of[0].has_answer and not any(window.feature.targets[2] for window in of)]
    if lost:
        yield f"answers that no row holds whole, and cannot be learned from: {len(lost):,}"
    ragged = sum(not of_question[0].is_aligned for of_question in cut)
    if ragged:
        yield f"answers that begin or end inside a token: {ragged:,}"


def _take(flat: Iterator[Ids], words: Sequence[str]) -> list[Ids]:
    return [next(flat) for _ in words]


def fit_parts(lengths: Sequence[int], room: int) -> list[int]:
    """How much of each part stays: what is too long is taken off the longer one first."""
    if sum(lengths) <= room or len(lengths) == 1:
        return [min(length, room) for length in lengths]
    first, second = lengths
    half = room // 2
    if first <= half:
        return [first, room - first]
    if second <= room - half:
        return [room - second, second]
    return [half, room - half]


def cut_words(lengths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Stretches of whole words that fit; a word that does not fit by itself is a stretch of its own."""
    start = used = 0
    for place, length in enumerate(lengths):
        if place > start and used + length > room:
            yield start, place
            start, used = place, 0
        used += length
    yield start, len(lengths)


def swap_pairs(features: Sequence[Feature], examples: Sequence[Example], framer: Framer) -> list[Feature]:
    """The same pairs with their texts the other way round, for tasks in which the order says nothing."""
    swapped: list[Example] = []
    for example in examples:
        assert isinstance(example, TextExample | ScoredExample)
        texts = example.texts[::-1]
        if isinstance(example, TextExample):
            swapped.append(TextExample(example.id, texts, example.label))
        else:
            swapped.append(ScoredExample(example.id, texts, example.score))
    return [*features, *framer.encode(swapped, is_labelled=True).features]
