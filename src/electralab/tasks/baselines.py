"""What simple methods reach on the same examples: no network, no pre-training, seconds to fit.

    texts, labels -> LinearClassifier; texts, numbers -> LinearRegressor; words, tags -> WindowTagger

A tuned model is worth its time where it is better than these. Each kind of task says which of them it is held against.
"""

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import write_file
from electralab.errors import DamagedArtifact
from electralab.records.fitted import StoredFeatures, StoredLinear

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
LINEAR_WEIGHTS = "linear.safetensors"


def take_evenly(examples: Sequence[Row], size: int, most: int) -> list[Row]:
    """All of them, or so many, evenly apart, that about `most` of their `size` is left."""
    count = max(1, min(len(examples), len(examples) * most // max(size, 1)))
    return [examples[index * len(examples) // count] for index in range(count)]


def find_commonest(labels: Sequence[str]) -> str:
    """Of equals the first by its name, so that the order of the rows changes nothing."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


class TextFeatures:
    """TF-IDF of words (1-2-grams) and, of single texts, characters (2-5-grams); of a pair what its two texts share."""

    def __init__(self, stored: StoredFeatures | None = None, idf: Sequence[FloatArray] = ()) -> None:
        """As it was stored, with the `idf` of its words and characters; or to be fitted."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        terms = (stored.words, stored.characters) if stored else (None, None)
        # A list of terms is their order; scikit-learn takes it as a dictionary at once.
        words, characters = (known and {term: place for place, term in enumerate(known)} for known in terms)
        self._words = TfidfVectorizer(token_pattern=_WORDS, ngram_range=(1, 2), sublinear_tf=True, vocabulary=words)
        self._characters = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, vocabulary=characters
        )
        for vectors, weights in zip((self._words, self._characters), idf, strict=False):
            vectors.idf_ = weights
        # By bag, how rare each of its items is: sharing a rare word says more than sharing "the".
        self._rarity: Sequence[Mapping[str, float]] = stored.rarity if stored else ()
        self._mean = np.array(stored.mean if stored else ())
        self._scale = np.array(stored.scale if stored else ())

    def fit_transform(self, texts: Texts) -> "csr_matrix":
        joined = [text[:_MOST_CHARACTERS] for pair in texts for text in pair]
        self._words.fit(joined)
        self._characters.fit(joined)
        if len(texts[0]) > 1:
            bags = zip(*map(_list_bags, joined), strict=True)
            rarity = []
            for column in bags:
                counts = {"": 0, **Counter(item for bag in column for item in set(bag))}
                # Under the empty string, of an item that was never seen.
                rarity.append({item: 1 + math.log((1 + len(column)) / (1 + count)) for item, count in counts.items()})
            self._rarity = rarity
        return self._join(texts, self._fit_scale)

    def transform(self, texts: Texts) -> "csr_matrix":
        return self._join(texts, lambda shared: (shared - self._mean) / self._scale)

    def _fit_scale(self, shared: FloatArray) -> FloatArray:
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler().fit(shared)
        self._mean, self._scale = scaler.mean_, scaler.scale_
        return np.asarray((shared - self._mean) / self._scale)

    def store(self) -> tuple[StoredFeatures, list[FloatArray]]:
        """All that it is: terms in the order of their columns, and the idf of words and of characters."""
        stored = StoredFeatures(
            words=tuple(self._words.get_feature_names_out().tolist()),
            characters=tuple(self._characters.get_feature_names_out().tolist()),
            rarity=tuple(dict(by_item) for by_item in self._rarity),
            mean=tuple(self._mean.tolist()),
            scale=tuple(self._scale.tolist()),
        )
        return stored, [self._words.idf_, self._characters.idf_]

    def _join(self, texts: Texts, scale: Callable[[FloatArray], FloatArray]) -> "csr_matrix":
        from scipy.sparse import csr_matrix, hstack

        columns = [[text[:_MOST_CHARACTERS] for text in column] for column in zip(*texts, strict=True)]
        words, characters = (
            [vectors.transform(column) for column in columns] for vectors in (self._words, self._characters)
        )
        if len(columns) == 1:
            return hstack([*words, *characters], format="csr")
        # TF-IDF rows have unit length, so the product of two is their cosine. The characters themselves told nothing
        # more about pairs (MRPC, STS-B, QNLI), and took most of the time to fit.
        cosines = [np.asarray(left.multiply(right).sum(axis=1)).ravel() for left, right in (words, characters)]
        shared = [
            np.concatenate([compare_bags(*bags) for bags in zip(*map(_list_bags, pair), self._rarity, strict=True)])
            for pair in zip(*columns, strict=True)
        ]
        return hstack([*words, csr_matrix(scale(np.column_stack([*cosines, np.array(shared)])))], format="csr")


def _list_bags(text: str) -> list[list[str]]:
    """What two texts may share: words, pairs of words, characters by three, beginnings of words, names and numbers."""
    lower = f" {text.lower()} "
    words = re.findall(_WORDS, lower)
    return [
        words,
        [" ".join(pair) for pair in pairwise(words)],
        [lower[start : start + 3] for start in range(len(lower) - 2)],
        [word[:5] for word in words if word.isalnum()],
        re.findall(r"\b(?:[A-Z]\w*|\d[\d.,]*)", text),
    ]


def compare_bags(first: Sequence[str], second: Sequence[str], idf: Mapping[str, float]) -> list[float]:
    """What two texts share: of both, of the first, of the second; the same weighted by rarity; what is left over of
    each; how long they are, and how unlike in that."""
    left, right = set(first), set(second)
    common = left & right
    numbers: list[float] = []
    for amounts in (
        [float(len(bag)) for bag in (common, left, right)],
        # Exactly rounded: the order of a set is another in every process.
        [math.fsum(idf.get(item, idf[""]) for item in bag) for bag in (common, left, right)],
    ):
        both, ours, theirs = amounts
        numbers += [both / max(ours + theirs - both, 1.0), both / max(ours, 1.0), both / max(theirs, 1.0)]
        numbers += [math.log1p(max(ours - both, 0.0)), math.log1p(max(theirs - both, 0.0))]
    lengths = math.log1p(len(first)), math.log1p(len(second))
    return [*numbers, *lengths, abs(lengths[0] - lengths[1])]


class _LinearModel:
    """Weights over `TextFeatures`: (K, features), and (K,)."""

    _features: TextFeatures
    _weights: FloatArray
    _intercept: FloatArray

    def _outputs(self, texts: Texts) -> FloatArray:
        """(texts, K)"""
        rows = [self._features.transform(rows) @ self._weights.T + self._intercept for rows in _cut(texts)]
        return np.concatenate(rows) if rows else np.zeros((0, len(self._weights)))

    def _take(self, model: Any) -> None:
        """What a fitted estimator of scikit-learn has learned."""
        self._weights, self._intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)


class LinearClassifier(_LinearModel):
    """A linear support vector machine over `TextFeatures`."""

    def __init__(self, strength: float = 0.0) -> None:
        self.strength = strength
        """0: what was best for one text, or for pairs, whose shared features say most."""

    def fit(self, texts: Texts, labels: Sequence[str]) -> Self:
        from sklearn.svm import LinearSVC

        self.labels = sorted(set(labels))
        if len(self.labels) > 1:
            self._features = TextFeatures()
            strength = self.strength or (0.5 if len(texts[0]) == 1 else 0.03)
            model = LinearSVC(C=strength, dual=True, random_state=0)
            fit_quietly(model, self._features.fit_transform(texts), list(labels))
            self._take(model)
        return self

    def margins(self, texts: Texts) -> FloatArray:
        """How much each of `labels` speaks for a text, (texts, labels); they are no probabilities."""
        if len(self.labels) < 2:
            return np.zeros((len(texts), 1))
        margins = self._outputs(texts)
        # Of two classes there is one number, which speaks for the second.
        return np.column_stack([np.zeros(len(margins)), margins]) if len(self.labels) == 2 else margins

    def predict(self, texts: Texts) -> list[str]:
        return [self.labels[place] for place in self.margins(texts).argmax(axis=1)] if texts else []


class LinearRegressor(_LinearModel):
    """Ridge regression over `TextFeatures`."""

    labels: Sequence[str] = ()

    def __init__(self, penalty: float = 0.0) -> None:
        self.penalty = penalty
        """0: what was best for one text, or for pairs."""

    def fit(self, texts: Texts, values: Sequence[float]) -> Self:
        from sklearn.linear_model import Ridge

        self._features = TextFeatures()
        model = Ridge(alpha=self.penalty or (5.0 if len(texts[0]) == 1 else 30.0), solver="sparse_cg")
        model.fit(self._features.fit_transform(texts), np.asarray(values, dtype=np.float64))
        self._take(model)
        return self

    def predict(self, texts: Texts) -> FloatArray:
        return self._outputs(texts)[:, 0].astype(np.float64)


def save_linear(folder: Path, model: LinearClassifier | LinearRegressor) -> None:
    """Into a folder that the caller owns: terms, labels and scales as JSON, idf and weights as safetensors."""
    import safetensors.numpy

    is_constant = isinstance(model, LinearClassifier) and len(model.labels) < 2
    stored, idf = (StoredFeatures(), []) if is_constant else model._features.store()
    StoredLinear(labels=tuple(model.labels), features=stored).write(folder)
    names = ("words_idf", "characters_idf", "weights", "intercept")
    arrays = () if is_constant else (*idf, model._weights, model._intercept)
    tensors = {name: np.ascontiguousarray(array) for name, array in zip(names, arrays, strict=False)}
    write_file(folder / LINEAR_WEIGHTS, safetensors.numpy.save(tensors))


def load_linear(folder: Path) -> LinearClassifier | LinearRegressor:
    """What `save_linear` wrote; its predictions are the same to the last bit."""
    import safetensors
    import safetensors.numpy

    stored = StoredLinear.read(folder)
    model: LinearClassifier | LinearRegressor = LinearClassifier() if stored.labels else LinearRegressor()
    if isinstance(model, LinearClassifier):
        model.labels = list(stored.labels)
        if len(stored.labels) < 2:
            return model
    path, features = folder / LINEAR_WEIGHTS, stored.features
    try:
        tensors = safetensors.numpy.load_file(path)
        words, characters, weights, intercept = (
            tensors[name] for name in ("words_idf", "characters_idf", "weights", "intercept")
        )
    except (safetensors.SafetensorError, OSError, ValueError, KeyError) as error:
        raise DamagedArtifact(f"{path}: cannot be read ({error}); the file is damaged, copy it again") from None
    # Of a pair the words of both texts, and what they share; of one text its words and characters.
    width = 2 * len(words) + len(features.mean) if features.rarity else len(words) + len(characters)
    outputs = len(stored.labels) if len(stored.labels) > 2 else 1
    shapes = [array.shape for array in (words, characters, weights, intercept)]
    if shapes != [(len(features.words),), (len(features.characters),), (outputs, width), (outputs,)]:
        raise DamagedArtifact(f"{path}: does not fit {StoredLinear.FILE} beside it; copy both again")
    model._features = TextFeatures(features, (words, characters))
    model._weights, model._intercept = weights, intercept
    return model


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
            fit_quietly(self._model, self._hasher.transform(_describe_words(sentences)), known)
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
            # Dr.Who3 -> Xx.Xx0: what stands in a row of its kind counts once.
            kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word]
            shape = "".join(kind for kind, last in zip(kinds, ["", *kinds], strict=False) if kind != last)
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
                f"shape {shape}",
                f"first {index == 2}",
            ]


def fit_quietly(model: Any, features: Any, labels: Sequence[str]) -> None:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A fit that has not come to its end is judged by what it predicts, like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Few rows of many classes, which look like numbers to scikit-learn.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model.fit(features, list(labels))


def _cut(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """So many at once that their features fit in memory."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]
