"""Truth and predictions -> scores as the benchmarks define them, all of them fractions of one.

    truth, predicted -> Scores | ClassReport

A score that its definition leaves open (nothing predicted, nothing to find, a constant column) is 0.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electralab.errors import UsageError
from electralab.records.tuned import ClassReport, ClassScores, Scores, Spread


def score_classes(
    metrics: Sequence[str], truth: NDArray[np.int64], predicted: NDArray[np.int64], num_labels: int
) -> Scores:
    """F1 is that of class 1 where there are two classes, as in GLUE, and the mean over the classes otherwise."""
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    def f1(labels: list[int] | None) -> float:
        return float(f1_score(truth, predicted, labels=labels, average="macro", zero_division=0.0))

    # With a single class in sight the correlation is 0 by definition, and scikit-learn would warn.
    is_single = np.unique(np.concatenate([truth, predicted])).size < 2
    known = {
        "accuracy": lambda: float(accuracy_score(truth, predicted)),
        "f1": lambda: f1([1] if num_labels == 2 else None),
        "macro_f1": lambda: f1(None),
        "mcc": lambda: 0.0 if is_single else float(matthews_corrcoef(truth, predicted)),
    }
    _refuse_unknown(metrics, known)
    return {name: known[name]() if truth.size else 0.0 for name in metrics}


def score_values(metrics: Sequence[str], truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> Scores:
    """Correlations; 0 where one side is constant, or not finite, since nothing can then be said to rise together."""
    from scipy.stats import pearsonr, spearmanr

    known = {"pearson": pearsonr, "spearman": spearmanr}
    _refuse_unknown(metrics, known)
    is_defined = _varies(truth) and _varies(predicted)
    return {name: float(known[name](truth, predicted).statistic) if is_defined else 0.0 for name in metrics}


def _varies(values: NDArray[np.float64]) -> bool:
    """Whether the spread is more than rounding: the bound lies above the one at which scipy warns."""
    return values.size >= 2 and bool(np.isfinite(values).all()) and np.ptp(values) > 1e-12 * abs(values.mean())


def _refuse_unknown(metrics: Sequence[str], known: Sequence[str] | dict[str, Any]) -> None:
    if unknown := [name for name in metrics if name not in known]:
        raise UsageError(f"metrics: no metric named {unknown[0]!r} for this kind of task; known are {', '.join(known)}")


def tabulate_classes(truth: NDArray[np.int64], predicted: NDArray[np.int64], labels: Sequence[str]) -> ClassReport:
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    hits, found, support = confusion.diagonal(), confusion.sum(axis=0), confusion.sum(axis=1)
    classes = tuple(
        _score_counts(name, *(int(count) for count in counts))
        for name, *counts in zip(labels, hits, found, support, strict=True)
    )
    return ClassReport(classes=classes, confusion=tuple(tuple(row) for row in confusion.tolist()))


def _score_counts(name: str, hits: int, found: int, support: int) -> ClassScores:
    return ClassScores(
        name=name,
        precision=hits / found if found else 0.0,
        recall=hits / support if support else 0.0,
        f1=2 * hits / (found + support) if found + support else 0.0,
        support=support,
    )


def score_tags(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """F1, precision and recall of whole entities, and the accuracy of single tags.

    Entities are counted as conlleval does, so that IOB1, IOB2 and IOBES may even be mixed.
    """
    true, found = _find_entities(truth), _find_entities(predicted)
    total = _score_counts("", len(true & found), len(found), len(true))
    pairs = [pair for ours, theirs in zip(predicted, truth, strict=True) for pair in zip(ours, theirs, strict=True)]
    accuracy = sum(ours == theirs for ours, theirs in pairs) / len(pairs) if pairs else 0.0
    return {"f1": total.f1, "precision": total.precision, "recall": total.recall, "accuracy": accuracy}


def report_entities(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> tuple[ClassScores, ...]:
    """The scores of each type of entity that is in the truth or was predicted, by name."""
    true, found = _find_entities(truth), _find_entities(predicted)
    hits, founds, support = (Counter(kind for kind, _, _ in entities) for entities in (true & found, found, true))
    return tuple(_score_counts(kind, hits[kind], founds[kind], support[kind]) for kind in sorted(founds | support))


def _find_entities(sentences: Sequence[Sequence[str]]) -> set[tuple[str, int, int]]:
    """Type, first and last word of each entity, words counted over all sentences."""
    from seqeval.metrics.sequence_labeling import get_entities

    return set(get_entities([[_as_entity(tag) for tag in tags] for tags in sentences]))


def _as_entity(tag: str) -> str:
    """A tag as seqeval takes it: its letters for BILOU's, and a tag without a letter is an entity of one word."""
    if tag in ("O", "B", "I", "E", "S") or tag.startswith(("B-", "I-", "E-", "S-")):
        return tag
    if tag.startswith(("L-", "U-")):
        return {"L": "E", "U": "S"}[tag[0]] + tag[1:]
    return f"S-{tag}"


def summarise_seeds(values: Sequence[float]) -> Spread:
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    middle, mean = float(np.median(values)), float(np.mean(values))
    return Spread(n=len(values), median=middle, mean=mean, sd=sd, best=float(max(values)))
