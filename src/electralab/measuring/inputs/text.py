"""Text: words that are labelled c (correct) or i (incorrect), or plain text in which errors are planted.

files -> words with features -> MeasuredItems
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from electralab.corpus.damage import PLANTED_KINDS, Damaged, WordCounts, count_words
from electralab.detection.calibration import (
    CalibrationConfig,
    LabelledWords,
    PlantedText,
    combine,
    fit_labelled,
    plant_errors,
    probabilities,
    read_planted,
    save_calibration,
    share_texts,
)
from electralab.detection.words import FEATURES, Floats, ScoredText, WordFrequencies, WordReader
from electralab.errors import InputError
from electralab.events import Event, Note, Progress, Result, Update
from electralab.measuring.items import LEAST_WRONG, DetectorValues, MeasuredInput, MeasuredItems, MeasuringConfig
from electralab.records.answers import Word
from electralab.records.calibration import Calibration
from electralab.records.kinds import refuse_bundled
from electralab.serving.inputs import tokenize
from electralab.serving.model import Model
from electralab.serving.proofreader import ProofreadConfig, Proofreader
from electralab.stopping import StopSignal
from electralab.tasks.kind import TABLE_SUFFIXES
from electralab.tasks.kinds.errors import CORRECT, WRONG, read_errors
from electralab.tasks.kinds.tagging import TAGS, WORDS
from electralab.tasks.table import Row, read_lines, read_suffix, read_text

_ERROR_RATE = 0.05
_ENCODING = "utf-8"
_DETECTORS = {
    "p_wrong": "the calibrated probability that the word is wrong",
    "p_replaced": "the discriminator's probability, the highest of the word's tokens",
    "surprise": "the generator's surprise at the word, hidden whole",
    "rarity": "−log frequency of the word",
    "unseen": "whether the word was never counted",
    "pieces": "tokens of the word",
    "pieces_per_letter": "tokens of the word per letter",
}
# Sentences that follow each other are read together, as their texts were written, up to so many words.
_WORDS_TOGETHER = 100
# What stands beside so few different labels is labelled, if not as it should be.
_MOST_LABELS = 8
_NEEDS_NETWORK = ("p_wrong", "p_replaced", "surprise")


class MeasuredText(MeasuredInput):
    name = "text"
    beta = 0.5

    def matches(self, model: Model, path: Path) -> bool:
        # A table with columns is no text, unless it is one of words and labels.
        suffix = read_suffix(path)
        return not model.detector.tokenizer.is_symbols and (suffix not in TABLE_SUFFIXES - {".txt"} or has_labels(path))

    def score(
        self, model: Model, files: Sequence[Path], reference: Sequence[Path], config: MeasuringConfig, stop: StopSignal
    ) -> Iterator[Update | MeasuredItems]:
        detectors = WordDetectors(model, [read_text(path, _ENCODING) for path in reference], config)
        labelled = [path for path in files if has_labels(path)]
        for path in labelled:
            yield from score_labelled(detectors, path, stop)
        if plain := [read_text(path, _ENCODING) for path in files if path not in labelled]:
            yield from score_planted(detectors, plain, stop)


INPUT = MeasuredText()


def has_labels(path: Path) -> bool:
    """Whether its lines are a word, a tab and a label; whether the labels are c and i is said where they are read."""
    lines = (line for line in read_lines(path, _ENCODING)[1:] if line.strip())
    cells = [line.strip().split("\t") for line in islice(lines, 100)]
    labels = {line[-1] for line in cells}
    is_alike = all(len(line) == 2 and not any(map(str.isspace, "".join(line))) for line in cells)
    return bool(labels) and (
        labels <= {CORRECT, WRONG} or (is_alike and len(labels) <= min(_MOST_LABELS, len(cells) // 3))
    )


def read_labelled(path: Path) -> Iterator[tuple[list[str], list[bool]]]:
    """The words of each sentence, and which of them are wrong."""
    for row in read_errors(path, _ENCODING).rows:
        if not isinstance(row, Row):
            raise InputError(f"{path}: row {row.row} {row.reason}; correct it")
        words, labels = (cast(list[str], row.fields[name]) for name in (WORDS, TAGS))
        if odd := next((label for label in labels if label not in (CORRECT, WRONG)), None):
            raise InputError(f"{path}: line {row.number} and after has the label {odd!r}; labels are c and i")
        yield words, [label == WRONG for label in labels]


def join_words(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """A sentence as people write it, and where its words stand in it.

    >>> join_words(["I", "do", "n't", "know", "."])
    ("I don't know.", [(0, 1), (2, 4), (4, 7), (8, 12), (12, 13)])
    """
    text, places = "", []
    for word in words:
        is_attached = word.lower() == "n't" or (word[0] in "'’" and len(word) > 1) or word in (*".,;:!?)]}%",)
        text += "" if is_attached or not text or text[-1] in "([{" else " "
        places.append((len(text), len(text) + len(word)))
        text += word
    return text, places


class WordDetectors:
    """What every detector says of the words of texts."""

    def __init__(self, model: Model, counted: Sequence[str], config: MeasuringConfig) -> None:
        """`counted`: texts in which words are counted; without them what the calibration has counted is taken."""
        self.detector, self.config, self.model = model.detector, config, model
        self.scorer = self.detector.scorer
        self.frequencies: WordFrequencies | None = None
        if counted:
            self.frequencies = WordFrequencies.count(counted)
        elif self.scorer:
            self.frequencies = self.scorer.reader.frequencies

    def make_reader(self, texts: Sequence[str]) -> WordReader:
        """The calibration's, since its features are those that were fitted; else, where nothing was given to count in,
        one that has counted in the very texts, mistakes and all."""
        if self.scorer:
            return self.scorer.reader
        return self.model.make_reader(self.frequencies or WordFrequencies.count(texts))

    def score_tokens(self, texts: Sequence[str], stop: StopSignal) -> list[ScoredText]:
        tokenizer = self.detector.tokenizer
        return self.detector.score_tokens([tokenize(tokenizer, text, is_literal=True) for text in texts], stop)

    def score(self, reader: WordReader, texts: Sequence[PlantedText]) -> list[DetectorValues]:
        """Of the words of all texts, in order. What holds no letter is as little suspicious as can be."""
        features = np.concatenate([text.words.features for text in texts])
        is_word = np.concatenate([text.is_word for text in texts])
        words = [text.damaged.text[span.start : span.end] for text in texts for span in text.words.spans]
        counts = [span.after - span.first for text in texts for span in text.words.spans]
        columns = dict(zip(FEATURES, features.T, strict=True))
        frequencies = self.frequencies or reader.frequencies
        values: dict[str, Floats] = {}
        if self.scorer:
            values["p_wrong"] = probabilities(self.scorer.calibration, features, self.config.error_rate)
        values["p_replaced"] = 1 / (1 + np.exp(-columns["replaced"]))
        if reader.generator is not None:
            values["surprise"] = columns["surprise"]
        values["rarity"] = np.array([frequencies.rarity(word) for word in words])
        values["unseen"] = np.array([float(not frequencies.is_seen(word)) for word in words])
        values["pieces"] = np.array(counts, dtype=np.float64)
        values["pieces_per_letter"] = columns["pieces_per_letter"]
        return [
            DetectorValues(
                *(name, _DETECTORS[name], np.where(is_word, column, min(column.min(), 0.0))),
                is_model=name in _NEEDS_NETWORK,
                threshold=self.config.threshold if name in ("p_wrong", "p_replaced") else None,
            )
            for name, column in values.items()
        ]


def join_sentences(sentences: Sequence[Sequence[str]]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Texts of sentences that follow each other, each with the places of its words: alone a sentence lacks the context
    that it was written in."""
    stretches: list[list[str]] = []
    for words in sentences:
        if not stretches or len(stretches[-1]) + len(words) > _WORDS_TOGETHER:
            stretches.append([])
        stretches[-1] += words
    return [join_words(words) for words in stretches]


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A labelled file as the networks read it."""

    texts: list[PlantedText]
    parts: list[list[int]]
    """Of each labelled word, which of all words of the texts have a part in it."""
    is_wrong: NDArray[np.bool_]
    sentences: NDArray[np.int64]
    """Of each labelled word."""


def read_labelled_text(detectors: WordDetectors, path: Path, stop: StopSignal) -> Iterator[Progress | LabelledText]:
    sentences = list(read_labelled(path))
    joined = join_sentences([words for words, _ in sentences])
    reader = detectors.make_reader([text for text, _ in joined])
    texts: list[PlantedText] = []
    for text in read_planted(
        partial(detectors.score_tokens, stop=stop), reader, [Damaged(text, ()) for text, _ in joined], stop
    ):
        texts.append(text)
        yield Progress(f"reading {path.name}", len(texts), len(joined))
    starts = np.cumsum([0, *(len(text.words.spans) for text in texts)])
    parts: list[list[int]] = []
    for start, text, (_, places) in zip(starts[:-1].tolist(), texts, joined, strict=True):
        spans = list(enumerate(text.words.spans, start=start))
        parts += [[index for index, span in spans if span.start < b and a < span.end] for a, b in places]
    yield LabelledText(
        texts,
        parts,
        np.array([is_wrong for _, labels in sentences for is_wrong in labels], dtype=np.bool_),
        np.repeat(np.arange(len(sentences)), [len(labels) for _, labels in sentences]),
    )


def score_labelled(detectors: WordDetectors, path: Path, stop: StopSignal) -> Iterator[Update | MeasuredItems]:
    """Every labelled word is an item, as suspicious as the worst of what the tokenizer takes for words in it."""
    for update in read_labelled_text(detectors, path, stop):
        if isinstance(update, Progress):
            yield update
            continue
        scored = detectors.score(detectors.make_reader([text.damaged.text for text in update.texts]), update.texts)
        lowest = [detector.values.min() for detector in scored]
        yield MeasuredItems(
            source=path.name,
            truth="labels",
            unit="word",
            is_wrong=update.is_wrong,
            groups=update.sentences,
            detectors=[
                replace(detector, values=np.array([detector.values[part].max(initial=low) for part in update.parts]))
                for detector, low in zip(scored, lowest, strict=True)
            ],
        )


def calibrate_labelled(
    path: Path, files: Sequence[Path], config: CalibrationConfig, stop: StopSignal
) -> Iterator[Event[Calibration]]:
    """Labelled words instead of planted errors: the combination is fitted anew, what the calibration counted stays."""
    refuse_bundled(path)
    model = Model(path)
    detectors = WordDetectors(model, (), MeasuringConfig())
    if detectors.scorer is None:
        raise InputError(f"{path}: has no calibration, whose counted words labels need; calibrate it on text first")
    planted, reader = detectors.scorer.calibration, detectors.scorer.reader
    by_file: list[LabelledWords] = []
    groups: list[NDArray[np.int64]] = []
    for file in files:
        for update in read_labelled_text(detectors, file, stop):
            if isinstance(update, Progress):
                yield update
                continue
            features = np.concatenate([text.words.features for text in update.texts])
            is_word = np.concatenate([text.is_word for text in update.texts])
            combined = np.where(is_word, combine(planted, features), -np.inf)
            # A labelled word is known by the worst of its parts; what has no letters is never named.
            worst = [max(part, key=lambda index: combined[index], default=-1) for part in update.parts]
            kept = np.array([index >= 0 and bool(is_word[index]) for index in worst], dtype=np.bool_)
            by_file.append(LabelledWords(features[np.array(worst)[kept]], update.is_wrong[kept]))
            groups.append(update.sentences[kept])
    words = LabelledWords(
        np.concatenate([part.features for part in by_file]), np.concatenate([part.is_damaged for part in by_file])
    )
    wrong = int(words.is_damaged.sum())
    if wrong < 5 * LEAST_WRONG or len(words.is_damaged) - wrong < 5 * LEAST_WRONG:
        raise InputError(
            f"{files[0]}: {wrong:,} wrong words of {len(words.is_damaged):,} are too few to fit; label more"
        )
    calibration = fit_labelled(words, np.concatenate(groups), planted, config.seed)
    where = save_calibration(model.network_folder.parent, calibration, reader.frequencies)
    yield Note(f"calibrated  {where}")
    yield Result(calibration)


def score_planted(detectors: WordDetectors, texts: Sequence[str], stop: StopSignal) -> Iterator[Update | MeasuredItems]:
    """Each kind of error by itself, then all together; one that the texts have no room for is left out."""
    config = detectors.config
    proofreader = detectors.model.make_proofreader(ProofreadConfig(windows=config.windows, threshold=config.threshold))
    paragraphs = [line for text in texts for line in text.splitlines() if line.strip()]
    counts = WordCounts(detectors.frequencies.counts if detectors.frequencies else paragraphs)
    measured: list[MeasuredItems] = []
    # Each kind in paragraphs of its own, as far as there are enough.
    shares = share_texts(paragraphs, config.words // len(PLANTED_KINDS), len(PLANTED_KINDS))
    for number, (kind, indices) in enumerate(zip(PLANTED_KINDS, shares, strict=True)):
        yield Progress("planting errors", number, len(PLANTED_KINDS), kind)
        share = config.error_rate or _ERROR_RATE
        planted = plant_errors([paragraphs[index] for index in indices], kind, counts, share, config.seed)
        if (damaged := sum(len(text.damages) for text in planted)) < LEAST_WRONG:
            yield Note(f"{kind}: left out, as only {damaged:,} words could be damaged; give more text", "dim")
            continue
        reader = detectors.make_reader([text.text for text in planted])
        read = list(read_planted(partial(detectors.score_tokens, stop=stop), reader, planted, stop))
        is_word = np.concatenate([text.is_word for text in read])
        scored = detectors.score(reader, read)
        measured.append(
            MeasuredItems(
                source=kind,
                truth="planted",
                unit="word",
                is_wrong=np.concatenate([text.is_damaged for text in read])[is_word],
                groups=np.repeat(indices, [int(text.is_word.sum()) for text in read]),
                detectors=[replace(detector, values=detector.values[is_word]) for detector in scored],
                more=count_corrected(proofreader, read, scored[0]) if proofreader.filler else {},
            )
        )
        yield measured[-1]
    if not measured:
        words = sum(map(count_words, paragraphs))
        needed = math.ceil(1.5 * LEAST_WRONG / (config.error_rate or _ERROR_RATE) / 100) * 100
        raise InputError(
            f"the text has too few words to plant errors in ({words:,}); give at least {needed:,} for each kind"
        )
    if len(measured) > 1:
        yield replace(
            measured[0],
            source="all kinds",
            is_wrong=np.concatenate([items.is_wrong for items in measured]),
            # A paragraph that two kinds were planted in is drawn once for both.
            groups=np.concatenate([items.groups for items in measured]),
            detectors=[
                replace(same[0], values=np.concatenate([detector.values for detector in same]))
                for same in zip(*(items.detectors for items in measured), strict=True)
            ],
            more={},
        )


def count_corrected(
    proofreader: Proofreader, texts: Sequence[PlantedText], detector: DetectorValues
) -> dict[str, float]:
    """Of the planted words that are named: how often the first suggestion, or any, is what stood there."""
    ranks: list[int] = []  # of the original among the suggestions, -1 for not at all
    start = 0
    for text in texts:
        values = detector.values[start : start + len(text.words.spans)].tolist()
        start += len(values)
        named: list[Word] = []
        originals: list[str] = []
        for span, slip, value in zip(text.words.spans, text.words.slips, values, strict=True):
            damage = next((hit for hit in text.damaged.damages if hit.start < span.end and span.start < hit.end), None)
            if damage and value > proofreader.config.threshold:
                written = text.damaged.text[span.start : span.end]
                expected = slip.word if slip.gain > 0 else ""
                named.append(Word(text=written, start=span.start, end=span.end, suspicion=value, expected=expected))
                originals.append(damage.original.casefold())
        for original, suggestions in zip(originals, proofreader.suggest(text.damaged.text, named), strict=True):
            folded = [suggestion.text.casefold() for suggestion in suggestions]
            ranks.append(folded.index(original) if original in folded else -1)
    return {
        "corrected": sum(rank == 0 for rank in ranks) / max(len(ranks), 1),
        "among_suggestions": sum(rank >= 0 for rank in ranks) / max(len(ranks), 1),
    }
