"""What simple methods reach on the same examples: a tuned model is worth its time where it is better than these.

Task, examples -> Baseline...
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from electralab.finetuning.decoding import ClassPrediction, Prediction, TagsPrediction, ValuePrediction
from electralab.finetuning.examples import Example, ScoredExample, Split, TaggedExample, TextExample
from electralab.finetuning.judging import judge_predictions
from electralab.finetuning.linear_models import LinearClassifier, LinearRegressor, WindowTagger
from electralab.finetuning.tasks import Task
from electralab.records.tuned import Baseline

COMMONEST, LINEAR = "commonest", "linear"
Kind = TypeVar("Kind", TextExample, ScoredExample, TaggedExample)


# So much of the training rows, taken evenly from all of them, is fitted within seconds.
_MOST_CHARACTERS = 6_000_000
_MOST_WORDS = 100_000


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a method says of every example of the splits."""

    name: str
    what: str
    rows: int
    predictions: Mapping[str, Sequence[Prediction]]


def score_baselines(
    task: Task, labels: Sequence[str], train: Sequence[Example], splits: Sequence[Split]
) -> Iterator[Baseline]:
    """One after the other, as each is fitted; none for questions, which ask for a place in a text."""
    labelled = [split for split in splits if split.is_labelled]
    match train[0]:
        case TextExample():
            found = _answer_classes([example for example in train if isinstance(example, TextExample)], labelled)
        case ScoredExample():
            found = _answer_numbers([example for example in train if isinstance(example, ScoredExample)], labelled)
        case TaggedExample():
            found = _answer_tags([example for example in train if isinstance(example, TaggedExample)], labelled)
        case _:
            return
    for said in found:
        scores = {
            split.name: judge_predictions(task, split, said.predictions[split.name], labels, 0.0).scores
            for split in labelled
        }
        yield Baseline(name=said.name, what=said.what, rows=said.rows, scores=scores)


def _answer_classes(train: Sequence[TextExample], splits: Sequence[Split]) -> Iterator[_Answers]:
    label = _find_commonest([example.label for example in train])
    constant = {split.name: [ClassPrediction(label, {})] * len(split.examples) for split in splits}
    yield _Answers(COMMONEST, f"always answering {label!r}", len(train), constant)
    some = _take_evenly(train, sum(len(text) for example in train for text in example.texts), _MOST_CHARACTERS)
    model = LinearClassifier().fit([example.texts for example in some], [example.label for example in some])
    found = {split.name: [ClassPrediction(name, {}) for name in model.predict(_texts_of(split))] for split in splits}
    yield _Answers(LINEAR, f"a linear SVM over {_describe_features(train)}", len(some), found)


def _answer_numbers(train: Sequence[ScoredExample], splits: Sequence[Split]) -> Iterator[_Answers]:
    mean = float(np.mean([example.score for example in train]))
    constant = {split.name: [ValuePrediction(mean)] * len(split.examples) for split in splits}
    yield _Answers(COMMONEST, "always answering the mean of the training rows", len(train), constant)
    some = _take_evenly(train, sum(len(text) for example in train for text in example.texts), _MOST_CHARACTERS)
    model = LinearRegressor().fit([example.texts for example in some], [example.score for example in some])
    found = {split.name: [ValuePrediction(float(x)) for x in model.predict(_texts_of(split))] for split in splits}
    yield _Answers(LINEAR, f"ridge regression over {_describe_features(train)}", len(some), found)


def _answer_tags(train: Sequence[TaggedExample], splits: Sequence[Split]) -> Iterator[_Answers]:
    yield _Answers(COMMONEST, "each word's commonest tag", len(train), _tag_by_word(train, splits))
    some = _take_evenly(train, sum(len(example.words) for example in train), _MOST_WORDS)
    model = WindowTagger().fit([example.words for example in some], [example.tags for example in some])
    found = {split.name: _as_tags(model.predict(_words_of(split))) for split in splits}
    yield _Answers(LINEAR, "a linear SVM over the word, its spelling and two words on either side", len(some), found)


def _texts_of(split: Split) -> list[tuple[str, ...]]:
    return [example.texts for example in split.examples if isinstance(example, TextExample | ScoredExample)]


def _words_of(split: Split) -> list[tuple[str, ...]]:
    return [example.words for example in split.examples if isinstance(example, TaggedExample)]


def _as_tags(found: Sequence[tuple[str, ...]]) -> list[Prediction]:
    return [TagsPrediction(tags, ()) for tags in found]


def _describe_features(examples: Sequence[TextExample] | Sequence[ScoredExample]) -> str:
    shared = " and what the pair shares" if len(examples[0].texts) > 1 else ""
    return f"TF-IDF of words and characters{shared}"


def _find_commonest(labels: Sequence[str]) -> str:
    """Of equals the first by its name, so that the order of the rows changes nothing."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def _tag_by_word(train: Sequence[TaggedExample], splits: Sequence[Split]) -> dict[str, list[Prediction]]:
    counts: dict[str, list[str]] = {}
    for example in train:
        for word, tag in zip(example.words, example.tags, strict=True):
            counts.setdefault(word, []).append(tag)
    usual = _find_commonest([tag for example in train for tag in example.tags])
    tag_of = {word: _find_commonest(tags) for word, tags in counts.items()}
    return {of.name: _as_tags([tuple(tag_of.get(w, usual) for w in words) for words in _words_of(of)]) for of in splits}


def _take_evenly(examples: Sequence[Kind], size: int, most: int) -> list[Kind]:
    """All of them, or so many, evenly apart, that about `most` of their `size` is left."""
    count = max(1, min(len(examples), len(examples) * most // max(size, 1)))
    return [examples[place * len(examples) // count] for place in range(count)]


def compare_baselines(metric: str, split: str, score: float, baselines: Sequence[Baseline]) -> str:
    """Whether tuning was worth it, in a sentence; nothing where no baseline has this score."""
    known = [baseline for baseline in baselines if metric in baseline.scores.get(split, {})]
    if not known:
        return ""
    best = max(known, key=lambda baseline: baseline.scores[split][metric])
    theirs, named = best.scores[split][metric], metric.replace("_", " ")
    if theirs > score:
        return (
            f"a baseline wins: {best.what} has {split} {named} {theirs:.4f}, the tuned model {score:.4f}; use it, "
            "train longer, or pre-train on more text"
        )
    if theirs == score:
        return f"a baseline is as good: {best.what} also has {split} {named} {theirs:.4f}"
    return f"better than its baselines: {split} {named} {score:.4f}, against {theirs:.4f} of {best.what}"
