"""Fitted without labels: damage is planted in text that the model has not learned from, and the features of words are
combined so that damaged words are told from the others; a monotone curve makes a probability of the combination.

texts -> planted damage -> features -> Calibration -> the folder `calibration` beside the networks -> WordScorer
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from safetensors.torch import load_file, save_file

from electralab.artifacts import new_folder, verify_folder
from electralab.config import Settings
from electralab.corpus.damage import PLANTED_KINDS, Damage, Damaged, PlantedKind, WordCounts, plant_damage
from electralab.detection.words import FEATURES, Floats, ScoredText, WordFrequencies, WordReader, Words
from electralab.errors import InputError
from electralab.events import Progress, Update
from electralab.records.calibration import Calibration, CalibrationPoint, CalibrationScores, FeatureWeight
from electralab.stopping import NO_STOP, StopSignal

FOLDER = "calibration"
_COUNTS = "words.safetensors"
# Fewer words than this say nothing about how often a probability of .8 is right.
_LEAST_WORDS = 5_000
_BINS = 10
_TEXTS_AT_ONCE = 32
# Words more surprising, rarer … than nearly all that was fitted on count as those: a line is not drawn on for ever.
_CLIPPED = 0.001
# How far weights may go where some hundred sentences are labelled.
_FEW = 0.1

# What features speak of, together.
_REASONS = {
    "count": ("rarity", "rarity_of_names", "rarity_of_letters", "unseen", "unseen_name", "unseen_first"),
    "pieces": ("pieces", "pieces_and_rare", "pieces_per_letter"),
    "slip": ("slip", "likely_slip"),
    "context": ("surprise", "surprise_mean", "surprise_beyond_rarity", "rank", "entropy_left"),
    "replaced": ("replaced", "replaced_mean", "replaced_and_rare"),
    "unknown": ("unknown",),
}
_NEVER = "never seen in the training text"
_MOST_REASONS = 3
# A word that was seen more often is not wrong for being rare.
_RARE = 20

ScoreTokens = Callable[[Sequence[str]], list[ScoredText]]
"""Texts through the discriminator."""


class CalibrationConfig(Settings):
    error_rate: float = Field(0.05, gt=0, lt=0.5)
    """The share of words that are taken to be wrong in the texts that will be read."""
    false_alarms: float = Field(0.01, gt=0, lt=0.5)
    """The share of normal sequences that a model of symbols may name."""
    words: int = Field(60_000, ge=_LEAST_WORDS)
    """How many words of text to plant damage in, at most; half of them are fitted on, the others measure."""
    seed: int = Field(0, ge=0)


@dataclass(frozen=True, slots=True)
class LabelledWords:
    """Features of words, and which of them were damaged, by which kind."""

    features: Floats  # (W, F)
    is_damaged: NDArray[np.bool_]  # (W,)


class Explanation(NamedTuple):
    reasons: tuple[str, ...]
    """What speaks most for a word being wrong, in words, the strongest reason first."""
    expected: str = ""
    """The word that a reason names."""


class WordScorer:
    """The probability that a word is wrong, for texts with about the stated share of wrong words."""

    def __init__(self, calibration: Calibration, reader: WordReader, error_rate: float | None = None) -> None:
        """`error_rate`: the share of words that are wrong, where another than that of the fit is expected."""
        self.calibration, self.reader, self.error_rate = calibration, reader, error_rate

    def score(self, texts: Sequence[ScoredText], stop: StopSignal = NO_STOP) -> list[tuple[Words, Floats]]:
        """For each text its words and the (W,) probabilities that they are wrong."""
        read = self.reader.read(texts, stop)
        return [(words, probabilities(self.calibration, words.features, self.error_rate)) for words in read]

    def explain(self, text: str, words: Words, index: int) -> Explanation:
        span, features = words.spans[index], words.features[index]
        parts = dict.fromkeys(_REASONS, 0.0)
        for feature in self.calibration.features:
            value = min(max(features[FEATURES.index(feature.name)], feature.low), feature.high)
            for reason, names in _REASONS.items():
                if feature.name in names:
                    parts[reason] += feature.weight * (value - feature.mean) / feature.scale
        written, count = text[span.start : span.end], span.after - span.first
        times, least = self.reader.frequencies.times(written), self.reader.frequencies.least
        never = f"seen fewer than {least:,} times in the training text" if least > 1 else _NEVER
        slip = words.slips[index]
        sentences = {
            "count": f"seen {times:,} time{'s' * (times > 1)} in the training text" if times else never,
            "pieces": f"cut into {count:,} pieces" if count > 1 else "",
            "slip": f"the context expects '{slip.word}'" if slip.gain > 0 else "",
            "context": "the context does not expect it",
            "replaced": "looks replaced to the discriminator",
            "unknown": "has letters that the vocabulary does not know" if features[FEATURES.index("unknown")] else "",
        }
        if slip.gain > 0 and parts["slip"] > 0:  # which says the same, and more
            del sentences["context"]
        if times > _RARE:
            del sentences["count"]
        strongest = sorted(sentences, key=lambda reason: -parts[reason])
        named = [reason for reason in strongest if sentences[reason] and parts[reason] > 0][:_MOST_REASONS]
        return Explanation(tuple(sentences[reason] for reason in named), slip.word if "slip" in named else "")


def combine(calibration: Calibration, features: Floats, names: Sequence[str] = FEATURES) -> Floats:
    """(W, F) -> (W,) the logistic combination, before the curve."""
    total = np.full(len(features), calibration.intercept)
    for feature in calibration.features:
        values = features[:, names.index(feature.name)].clip(feature.low, feature.high)
        total += feature.weight * (values - feature.mean) / feature.scale
    return total


def probabilities(calibration: Calibration, features: Floats, error_rate: float | None = None) -> Floats:
    return apply_curve(calibration, combine(calibration, features), error_rate)


def apply_curve(calibration: Calibration, combined: Floats, error_rate: float | None = None) -> Floats:
    """Another error rate than that of the fit moves every probability by the ratio of the odds."""
    at, logits = np.array(calibration.knots).T
    curve: Floats = np.interp(combined, at, logits)
    if error_rate is not None:
        curve += log_odds(error_rate) - log_odds(calibration.error_rate)
    wrong: Floats = 1 / (1 + np.exp(-curve))
    return wrong


def calibrate(
    score_tokens: ScoreTokens,
    reader: WordReader,
    documents: Sequence[Sequence[str]],
    counts: WordCounts,
    config: CalibrationConfig,
    stop: StopSignal,
) -> Iterator[Update | Calibration]:
    """Documents, as paragraphs, that neither model nor reader has seen -> progress, then the calibration.

    Wrong words are taken from `counts`.
    """
    fitted: dict[PlantedKind, list[LabelledWords]] = {}
    measured: dict[PlantedKind, list[LabelledWords]] = {}
    # Document after document to the fit and to what measures it, so that neither knows a document of the other.
    for part, chosen in ((fitted, documents[::2]), (measured, documents[1::2])):
        texts = [text for document in chosen for text in document]
        shares = share_texts(texts, config.words // (2 * len(PLANTED_KINDS)), len(PLANTED_KINDS))
        for number, (kind, indices) in enumerate(zip(PLANTED_KINDS, shares, strict=True)):
            yield Progress("planting damage", number, len(PLANTED_KINDS), kind)
            own = [texts[index] for index in indices]
            planted = plant_errors(own, kind, counts, config.error_rate, config.seed)
            part[kind] = [
                LabelledWords(text.words.features[text.is_word], text.is_damaged[text.is_word])
                for text in read_planted(score_tokens, reader, planted, stop)
            ]
    joined = {kind: _join(parts) for kind, parts in fitted.items()}
    tests = {kind: _join(parts) for kind, parts in measured.items()}
    # Not every kind can be planted in every text: some scripts have no letters that sound alike.
    kinds = [kind for kind in PLANTED_KINDS if joined[kind].is_damaged.any() and tests[kind].is_damaged.any()]
    words = sum(len(part.is_damaged) for part in (*joined.values(), *tests.values()))
    if words < _LEAST_WORDS or len(kinds) < 2:
        raise InputError(
            f"the texts have too few words to plant errors in ({words:,} words, counted once for each kind of error, "
            f"of at least {_LEAST_WORDS:,}); give more text"
        )

    def fit(included: Sequence[PlantedKind]) -> Calibration:
        return fit_words(
            _join([joined[kind] for kind in included]), config.error_rate, reader.frequencies.total, config.seed
        )

    calibration = fit(kinds)
    scores: dict[str, CalibrationScores] = {}
    for kind in kinds:
        stop.check()
        without = fit([other for other in kinds if other != kind])
        scores[kind] = _measure(calibration, without, tests[kind])
    error, curve = measure_calibration(calibration, _join([tests[kind] for kind in kinds]), config.error_rate)
    yield calibration.model_copy(update={"scores": scores, "calibration_error": error, "curve": curve})


def fit_words(
    words: LabelledWords, error_rate: float, total_words: int, seed: int, strength: float = 1.0
) -> Calibration:
    """The combination and its curve; `strength`: how far weights may go, less where there are few words."""
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    low, high = np.quantile(words.features, (_CLIPPED, 1 - _CLIPPED), axis=0)
    clipped = words.features.clip(low, high)
    mean, scale = clipped.mean(axis=0), clipped.std(axis=0)
    # A feature that never varies, such as those of a generator that is not there, says nothing.
    used = np.flatnonzero(scale > 1e-9)
    model = LogisticRegression(max_iter=1000, C=strength)
    model.fit((clipped[:, used] - mean[used]) / scale[used], words.is_damaged)
    weights = tuple(
        FeatureWeight(
            name=FEATURES[index],
            low=low[index],
            high=high[index],
            mean=mean[index],
            scale=scale[index],
            weight=weight,
        )
        for index, weight in zip(used.tolist(), model.coef_[0].tolist(), strict=True)
    )
    bare = Calibration(
        error_rate=error_rate,
        features=weights,
        intercept=float(model.intercept_[0]),
        knots=((0.0, 0.0), (1.0, 1.0)),
        total_words=total_words,
        fitted_words=len(words.is_damaged),
        seed=seed,
        calibration_error=0.0,
    )
    # Damaged words weigh as much as the error rate says, however many could be planted.
    logits = combine(bare, words.features)
    weight = weigh(words.is_damaged, error_rate)
    # One right word more above all others, and one wrong word below, or where by chance all are wrong the next would be
    # wrong for sure.
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(
        np.concatenate([[logits.min()], logits, [logits.max()]]),
        np.concatenate([[True], words.is_damaged, [False]]),
        sample_weight=np.concatenate([[weight.min()], weight, [weight.max()]]),
    )
    return bare.model_copy(update={"knots": smooth_steps(isotonic.X_thresholds_, isotonic.y_thresholds_)})


def fit_labelled(words: LabelledWords, groups: NDArray[np.int64], planted: Calibration, seed: int) -> Calibration:
    """Labels instead of planted damage. What measures it is fitted on every other group, so that none knows itself, and
    stands beside what the planted damage alone had taught."""
    error_rate, total = float(words.is_damaged.mean()), planted.total_words
    is_odd = groups % 2 == 1
    combined, predicted = np.zeros(len(groups)), np.zeros(len(groups))
    for chosen in (is_odd, ~is_odd):
        part = fit_words(
            LabelledWords(words.features[~chosen], words.is_damaged[~chosen]), error_rate, total, seed, _FEW
        )
        combined[chosen] = combine(part, words.features[chosen])
        predicted[chosen] = apply_curve(part, combined[chosen])
    error, curve = _bin(predicted, words.is_damaged, weigh(words.is_damaged, error_rate))
    scores = _score(combined, combine(planted, words.features), words.is_damaged)
    calibration = fit_words(words, error_rate, total, seed, _FEW)
    return calibration.model_copy(update={"scores": {"labels": scores}, "calibration_error": error, "curve": curve})


@dataclass(frozen=True, slots=True)
class PlantedText:
    """A text with planted errors, and what is known of each of its words."""

    damaged: Damaged
    words: Words
    is_word: NDArray[np.bool_]  # (W,) of letters or digits
    is_damaged: NDArray[np.bool_]  # (W,)


def share_texts(texts: Sequence[str], words: int, parts: int) -> list[list[int]]:
    """For each part the texts after those of the part before, so many words; from the first again where there are too
    few. A right word that is read five times would count as five.

    >>> share_texts(["a b", "c d", "e f", "g h"], 3, 2), share_texts(["a b", "c d", "e f"], 3, 2)
    ([[0, 1], [2, 3]], [[0, 1], [2, 0]])
    """
    sizes = [WordFrequencies.count([text]).total for text in texts]
    shares: list[list[int]] = []
    place = 0
    for _ in range(parts):
        left, chosen = words, list[int]()
        while left > 0 and len(chosen) < len(texts):
            chosen.append(place % len(texts))
            left -= sizes[chosen[-1]]
            place += 1
        shares.append(chosen)
    return shares


def plant_errors(texts: Sequence[str], kind: PlantedKind, counts: WordCounts, share: float, seed: int) -> list[Damaged]:
    rng = Random(f"{seed} {kind}")
    return [plant_damage(text, [kind], share, rng, counts) for text in texts]


def read_planted(
    score_tokens: ScoreTokens, reader: WordReader, planted: Sequence[Damaged], stop: StopSignal
) -> Iterator[PlantedText]:
    for start in range(0, len(planted), _TEXTS_AT_ONCE):
        documents = planted[start : start + _TEXTS_AT_ONCE]
        read = reader.read(score_tokens([document.text for document in documents]), stop)
        for document, words in zip(documents, read, strict=True):
            is_word = [has_letters(document.text, span.start, span.end) for span in words.spans]
            is_damaged = [is_hit(span.start, span.end, document.damages) for span in words.spans]
            yield PlantedText(document, words, np.array(is_word, dtype=np.bool_), np.array(is_damaged, dtype=np.bool_))


def has_letters(text: str, start: int, end: int) -> bool:
    """Only what holds a letter or digit is a word."""
    return any(map(str.isalnum, text[start:end]))


def is_hit(start: int, end: int, damages: Sequence[Damage]) -> bool:
    return any(damage.start < end and start < damage.end for damage in damages)


def _join(parts: Sequence[LabelledWords]) -> LabelledWords:
    features = np.concatenate([part.features for part in parts] or [np.zeros((0, len(FEATURES)))])
    damaged = np.concatenate([part.is_damaged for part in parts] or [np.zeros(0, dtype=np.bool_)])
    return LabelledWords(features, damaged)


def weigh(is_damaged: NDArray[np.bool_], error_rate: float) -> Floats:
    share = float(is_damaged.mean())
    return np.where(is_damaged, error_rate / share, (1 - error_rate) / (1 - share))


def smooth_steps(at: Floats, shares: Floats) -> tuple[tuple[float, float], ...]:
    """Steps become a line in logits that rises from the middle of each to the middle of the next, or words of one step
    would all be alike; a share of exactly 0 or 1 is as sure as one word in ten thousand.

    >>> smooth_steps(np.array([0.0, 2, 3, 5]), np.array([0.25, 0.25, 0.5, 0.5]))
    ((1.0, -1.0986122886681098), (4.0, 0.0))
    """
    steps: dict[float, list[float]] = {}
    for place, share in zip(at.tolist(), shares.tolist(), strict=True):
        steps.setdefault(log_odds(min(max(share, 1e-4), 1 - 1e-4)), []).append(place)
    # Beyond both ends the line goes on level: nothing there was measured.
    return tuple(((places[0] + places[-1]) / 2, logit) for logit, places in steps.items())


def log_odds(share: float) -> float:
    return math.log(share / (1 - share))


def _measure(calibration: Calibration, without: Calibration, words: LabelledWords) -> CalibrationScores:
    return _score(combine(calibration, words.features), combine(without, words.features), words.is_damaged)


def _score(score: Floats, without: Floats, truth: NDArray[np.bool_]) -> CalibrationScores:
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

    precision, recall, _ = precision_recall_curve(truth, score)
    return CalibrationScores(
        words=len(truth),
        damaged=int(truth.sum()),
        auc=float(roc_auc_score(truth, score)),
        average_precision=float(average_precision_score(truth, score)),
        precision_at_half=float(precision[np.flatnonzero(recall >= 0.5)[-1]]),
        without_kind_auc=float(roc_auc_score(truth, without)),
    )


def measure_calibration(
    calibration: Calibration, words: LabelledWords, error_rate: float, names: Sequence[str] = FEATURES
) -> tuple[float, tuple[CalibrationPoint, ...]]:
    """The mean distance of probability and share of damaged words over bins of equal numbers of words, and the bins."""
    predicted = apply_curve(calibration, combine(calibration, words.features, names), error_rate)
    return _bin(predicted, words.is_damaged, weigh(words.is_damaged, error_rate))


def _bin(
    predicted: Floats, is_damaged: NDArray[np.bool_], weight: Floats
) -> tuple[float, tuple[CalibrationPoint, ...]]:
    order = np.argsort(predicted, kind="stable")
    points, error = [], 0.0
    for chosen in np.array_split(order, _BINS):
        expected = float(np.average(predicted[chosen], weights=weight[chosen]))
        observed = float(np.average(is_damaged[chosen], weights=weight[chosen]))
        error += abs(expected - observed) * float(weight[chosen].sum())
        points.append(CalibrationPoint(predicted=expected, observed=observed, words=len(chosen)))
    return error / float(weight.sum()), tuple(points)


def save_calibration(networks: Path, calibration: Calibration, frequencies: WordFrequencies) -> Path:
    """Beside the networks' folders, with hashes."""
    path = networks / FOLDER
    with new_folder(path, kind="calibration") as folder:
        text = "\n".join(frequencies.counts).encode()
        tensors = {
            "words": torch.frombuffer(bytearray(text), dtype=torch.uint8),
            "counts": torch.tensor(list(frequencies.counts.values()), dtype=torch.int64),
        }
        save_file(tensors, folder / _COUNTS)
        calibration.write(folder)
    return path


def load_calibration(path: Path) -> tuple[Calibration, WordFrequencies]:
    verify_folder(path, "calibrate the model again")
    calibration = Calibration.read(path)
    if unknown := [feature.name for feature in calibration.features if feature.name not in FEATURES]:
        raise InputError(f"{path}: has features of another version ({', '.join(unknown)}); calibrate the model again")
    tensors: Mapping[str, torch.Tensor] = load_file(path / _COUNTS)
    words = bytes(tensors["words"].numpy()).decode().split("\n")
    counts = dict(zip(words, tensors["counts"].tolist(), strict=True))
    return calibration, WordFrequencies(counts, calibration.total_words)
