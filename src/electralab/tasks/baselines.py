"""What simple methods reach on the same examples: no network, no pre-training, seconds to fit.

    texts, labels -> LinearClassifier; texts, numbers -> LinearRegressor; words, tags -> WindowTagger

A tuned model is worth its time where it is better than these. Each kind of task says which of them it is held against.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Texts = Sequence[tuple[str, ...]]
"""One text each, or a pair."""
Sentences = Sequence[Sequence[str]]
FloatArray = NDArray[np.float64]
Row = TypeVar("Row")

# Whatever is not a space counts: a question mark tells a question.
_WORDS = r"(?u)\w+|[^\w\s]"
# Beyond it a text says little that is new, and a single one could fill the memory.
_MOST_CHARACTERS = 50_000
_ROWS_AT_ONCE = 5000
_HASHED_FEATURES = 2**18
# So much of the training rows, taken evenly from all of them, is fitted within seconds.
MOST_FITTED_CHARACTERS = 6_000_000
MOST_FITTED_WORDS = 100_000

COMMONEST, LINEAR = "commonest", "linear"


def take_evenly(examples: Sequence[Row], size: int, most: int) -> list[Row]:
    """All of them, or so many, evenly apart, that about `most` of their `size` is left."""
    count = max(1, min(len(examples), len(examples) * most // max(size, 1)))
    return [examples[index * len(examples) // count] for index in range(count)]


def find_commonest(labels: Sequence[str]) -> str:
    """Of equals the first by its name, so that the order of the rows changes nothing."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


class TextFeatures:
    """TF-IDF of words (1-2-grams) and characters (2-5-grams); of a pair also how much its two texts have in common."""

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import StandardScaler

        self._words = TfidfVectorizer(token_pattern=_WORDS, ngram_range=(1, 2), sublinear_tf=True)
        self._characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
        self._scaler = StandardScaler()

    def fit_transform(self, texts: Texts) -> "csr_matrix":
        first, *_ = texts
        columns = self._cut_texts(texts)
        joined = [text for column in columns for text in column]
        words, characters = self._words.fit_transform(joined), self._characters.fit_transform(joined)
        ends = [len(texts) * index for index in range(len(first) + 1)]
        counts = [(words[start:end], characters[start:end]) for start, end in pairwise(ends)]
        return self._join(
            counts, self._scaler.fit_transform(self._compare(columns, counts)) if len(first) > 1 else None
        )

    def transform(self, texts: Texts) -> "csr_matrix":
        columns = self._cut_texts(texts)
        counts = [(self._words.transform(column), self._characters.transform(column)) for column in columns]
        return self._join(counts, self._scaler.transform(self._compare(columns, counts)) if len(columns) > 1 else None)

    def _cut_texts(self, texts: Texts) -> list[list[str]]:
        """The first texts of all and, of pairs, the second ones."""
        return [[text[:_MOST_CHARACTERS] for text in column] for column in zip(*texts, strict=True)]

    def _join(self, counts: Sequence[tuple["csr_matrix", "csr_matrix"]], shared: FloatArray | None) -> "csr_matrix":
        from scipy.sparse import csr_matrix, hstack

        blocks: list[Any] = [block for blocks_of_text in counts for block in blocks_of_text]
        return hstack([*blocks, *([] if shared is None else [csr_matrix(shared)])], format="csr")

    def _compare(
        self, columns: Sequence[Sequence[str]], counts: Sequence[tuple["csr_matrix", "csr_matrix"]]
    ) -> FloatArray:
        """The rows have unit length, so the product of two is their cosine."""
        cosines = [np.asarray(left.multiply(right).sum(axis=1)).ravel() for left, right in zip(*counts, strict=True)]
        shared = [
            [*compare_bags(*map(_find_words, pair)), *compare_bags(*map(_find_trigrams, pair))]
            for pair in zip(*columns, strict=True)
        ]
        return np.column_stack([*cosines, np.array(shared)])


def _find_words(text: str) -> list[str]:
    return re.findall(_WORDS, text.lower())


def _find_trigrams(text: str) -> list[str]:
    padded = f" {text.lower()} "
    return [padded[start : start + 3] for start in range(len(padded) - 2)]


def compare_bags(first: Sequence[str], second: Sequence[str]) -> list[float]:
    """What two texts share: of both, of the first, of the second; how long they are, and how unlike in that."""
    left, right = set(first), set(second)
    common = len(left & right)
    lengths = float(np.log1p(len(first))), float(np.log1p(len(second)))
    return [
        common / max(len(left | right), 1),
        common / max(len(left), 1),
        common / max(len(right), 1),
        *lengths,
        abs(lengths[0] - lengths[1]),
    ]


class LinearClassifier:
    """A linear support vector machine over `TextFeatures`."""

    def __init__(self, strength: float = 0.5) -> None:
        self.strength = strength

    def fit(self, texts: Texts, labels: Sequence[str]) -> Self:
        from sklearn.svm import LinearSVC

        self._single = labels[0] if len(set(labels)) == 1 else None
        if self._single is None:
            self._features = TextFeatures()
            self._model = LinearSVC(C=self.strength, dual=True, random_state=0)
            _fit_quietly(self._model, self._features.fit_transform(texts), list(labels))
        return self

    def predict(self, texts: Texts) -> list[str]:
        if self._single is not None:
            return [self._single] * len(texts)
        return [str(label) for rows in _cut(texts) for label in self._model.predict(self._features.transform(rows))]


class LinearRegressor:
    """Ridge regression over `TextFeatures`."""

    def __init__(self, penalty: float = 5.0) -> None:
        self.penalty = penalty

    def fit(self, texts: Texts, values: Sequence[float]) -> Self:
        from sklearn.linear_model import Ridge

        self._features = TextFeatures()
        self._model = Ridge(alpha=self.penalty, solver="sparse_cg")
        self._model.fit(self._features.fit_transform(texts), np.asarray(values, dtype=np.float64))
        return self

    def predict(self, texts: Texts) -> FloatArray:
        values = [self._model.predict(self._features.transform(rows)) for rows in _cut(texts)]
        return np.concatenate(values).astype(np.float64) if values else np.zeros(0)


class WindowTagger:
    """A tag for each word by a linear model of the word, its spelling and two words on either side."""

    def __init__(self, epochs: int = 8) -> None:
        self.epochs = epochs

    def fit(self, sentences: Sentences, tags: Sentences) -> Self:
        from sklearn.feature_extraction import FeatureHasher
        from sklearn.linear_model import SGDClassifier

        known = [tag for sentence in tags for tag in sentence]
        self._single = known[0] if len(set(known)) == 1 else None
        if self._single is None:
            self._hasher = FeatureHasher(_HASHED_FEATURES, input_type="string", alternate_sign=False)
            self._model = SGDClassifier(
                loss="hinge", alpha=1e-6, max_iter=self.epochs, tol=None, average=True, random_state=0
            )
            _fit_quietly(self._model, self._hasher.transform(_describe_words(sentences)), known)
        return self

    def predict(self, sentences: Sentences) -> list[tuple[str, ...]]:
        if self._single is not None:
            return [(self._single,) * len(words) for words in sentences]
        tagged = []
        for rows in _cut(sentences):
            tags = iter(self._model.predict(self._hasher.transform(_describe_words(rows))))
            tagged += [tuple(str(next(tags)) for _ in words) for words in rows]
        return tagged


def _describe_words(sentences: Sentences) -> Iterator[list[str]]:
    for words in sentences:
        lower = ["<<", "<", *(word.lower() for word in words), ">", ">>"]
        for index, word in enumerate(words, start=2):
            before, here, after = lower[index - 1], lower[index], lower[index + 1]
            yield [
                "bias",
                f"word {word}",
                f"lower {here}",
                f"before {before}",
                f"after {after}",
                f"second before {lower[index - 2]}",
                f"second after {lower[index + 2]}",
                f"with before {before} {here}",
                f"with after {here} {after}",
                *(f"end {here[-size:]}" for size in (1, 2, 3)),
                *(f"start {here[:size]}" for size in (1, 2, 3)),
                f"shape {_find_shape(word)}",
                f"first {index == 2}",
            ]


def _find_shape(word: str) -> str:
    """Dr.Who3 -> Xx.Xx0: what stands in a row of its kind counts once."""
    kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return "".join(kind for kind, last in zip(kinds, ["", *kinds], strict=False) if kind != last)


def _fit_quietly(model: Any, features: Any, labels: Sequence[str]) -> None:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A fit that has not come to its end is judged by what it predicts, like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, list(labels))


def _cut(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """So many at once that their features fit in memory."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]
