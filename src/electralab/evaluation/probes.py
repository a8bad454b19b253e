"""What a straight cut through a frozen encoder's states can tell apart.

labelled texts or words -> vectors -> a linear classifier -> Findings

Layer and strength of the penalty are chosen on a part of the training examples; the scores told are of the dev split.
Controls: the same network as first drawn, training labels shuffled, always the most frequent label.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.artifacts import sha256_json
from electralab.config import Settings
from electralab.errors import InputError, UsageError
from electralab.evaluation.outcome import Conditions, Findings, Scores, Steps
from electralab.evaluation.resampling import bootstrap, choose_some
from electralab.evaluation.sentences import encode_sentences
from electralab.evaluation.states import (
    Frozen,
    Layers,
    StatesConfig,
    Vectors,
    load_frozen,
    pool_texts,
    take_tokens,
)
from electralab.events import Progress
from electralab.model.task_model import Pooling
from electralab.randomness import mix
from electralab.tasks.catalog import find_task
from electralab.tasks.features import IGNORED, FeatureEncoder, SpanConfig
from electralab.tasks.kind import Task
from electralab.tasks.kinds import tagging
from electralab.tasks.kinds.classification import ClassificationExample, score_classes
from electralab.tasks.kinds.tagging import TaggingExample
from electralab.tasks.load import TaskDataConfig, read_task

Truth = NDArray[np.int64]
Predict = Callable[[Vectors], Truth]
_BOOTSTRAP = 200


class ProbeConfig(Settings):
    strengths: tuple[Annotated[float, Field(gt=0)], ...] = Field((0.001, 0.01, 0.1, 1.0), min_length=1)
    """The inverse penalties to choose from, small is strict: scikit-learn's C."""
    validation_share: float = Field(0.2, gt=0, lt=1)
    """How much of the training examples layer and penalty are chosen on."""
    max_iterations: int = Field(300, ge=1)


@dataclass(frozen=True, slots=True)
class Labelled:
    """Vectors at every layer, their classes, and the example each belongs to: words of a sentence stay together."""

    layers: Layers
    truth: Truth  # (N,)
    examples: NDArray[np.int64]  # (N,)
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    layer: str
    strength: float
    validation: dict[str, float]
    """The best score of each layer on the validation part."""


def evaluate_probe(
    model: Path,
    data: Path,
    task_name: str | None,
    states: StatesConfig,
    probe: ProbeConfig,
    reading: TaskDataConfig,
    conditions: Conditions,
) -> Steps[Findings]:
    task = _find_task(task_name)
    frozen = load_frozen(model, states, conditions.device)
    read = read_task(task, data, reading)
    chosen = choose_some(len(read.train.examples), states.examples, conditions.seed)
    splits = {"training": [read.train.examples[place] for place in chosen], "dev": read.devs[0].examples}
    # Spans of tags are another question than what a word's vector holds.
    metrics = tuple(dict.fromkeys((*(task.metrics if task.kind.is_pooled else ()), "accuracy", "macro_f1")))
    judge = Judge(metrics, len(read.labels), probe, conditions)
    encoded: dict[str, Labelled] = {}
    blank = frozen.as_first_drawn(conditions.seed)
    for name, network in (("", frozen), ("random ", blank)):
        for split, examples in splits.items():
            phase = f"{name}encoder, {split}"
            encoded[name + split] = yield from encode(network, examples, read.labels, states.pooling, conditions, phase)
    train, dev = encoded["training"], encoded["dev"]
    choice = yield from judge.choose(train, "choosing a layer")
    predicted = judge.predict(train, dev, choice, train.truth)
    scores = judge.measure(dev.truth, predicted) | {"layer": choice.layer, "strength": choice.strength}
    accuracy = judge.find_interval(dev, predicted)
    controls = _control_labels(judge, train, dev, choice)
    controls["random encoder"] = yield from _control_network(judge, encoded["random training"], encoded["random dev"])
    by_layer = {layer: {f"validation_{metrics[0]}": value} for layer, value in choice.validation.items()}
    counts = {"train": len(splits["training"]), "dev": len(splits["dev"]), "vectors": len(train.truth)}
    bad_rows = [f"{s.path}: row {bad.row}: {bad.reason}" for s in (read.train, read.devs[0]) for bad in s.bad_rows]
    counts |= {"truncated": train.truncated + dev.truncated, "bad_rows": len(bad_rows)}
    notes = list(read.notes)
    if len(chosen) < len(read.train.examples):
        notes.append(f"trained on {len(chosen):,} of {len(read.train.examples):,} training examples")
    groups = {"control": controls, "layer": by_layer}
    identity = sha256_json([read.identity, chosen.tolist()])
    return Findings(scores | {"accuracy_interval": accuracy}, groups, counts, identity, tuple(notes), tuple(bad_rows))


def _find_task(name: str | None) -> Task:
    if name is None:
        raise UsageError("--task: the suite 'probe' needs one; give --task sst2, classify, chunking or another")
    task = find_task(name)
    if not task.kind.has_classes:
        raise UsageError(f"--task {task.name}: a probe tells classes apart; give a task with classes or tags")
    return task


def encode(
    frozen: Frozen,
    examples: Sequence[Any],
    labels: tuple[str, ...],
    pooling: Pooling,
    conditions: Conditions,
    phase: str,
) -> Steps[Labelled]:
    if isinstance(examples[0], TaggingExample):
        return (yield from _encode_words(frozen, examples, labels, conditions, phase))
    number_of = {label: number for number, label in enumerate(labels)}
    known = [example for example in examples if isinstance(example, ClassificationExample)]
    width = len(known[0].texts)
    texts = [example.texts[side] for side in range(width) for example in known]
    sentences = encode_sentences(frozen.tokenizer, texts, frozen.sequence_length)
    layers = yield from pool_texts(frozen, sentences, pooling, conditions, phase)
    if width == 2:
        layers = {layer: join_pair(*np.split(vectors, 2)) for layer, vectors in layers.items()}
    truth = np.array([number_of[example.label] for example in known], dtype=np.int64)
    return Labelled(layers, truth, np.arange(len(known)), sentences.truncated)


def join_pair(first: Vectors, second: Vectors) -> Vectors:
    """How far two texts are apart and what they have in common, whichever comes first. (N, 2D)"""
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def _encode_words(
    frozen: Frozen, examples: Sequence[TaggingExample], labels: tuple[str, ...], conditions: Conditions, phase: str
) -> Steps[Labelled]:
    """Each word by its first token."""
    framer = FeatureEncoder(frozen.tokenizer, labels, frozen.sequence_length, SpanConfig())
    framed = tagging.KIND.encode(framer, examples, is_labelled=True)
    columns = [np.flatnonzero(feature.targets != IGNORED) for feature in framed.features]
    rows = [feature.ids for feature in framed.features]
    layers = yield from take_tokens(frozen, rows, columns, conditions, phase)
    truth = np.concatenate([f.targets[places] for f, places in zip(framed.features, columns, strict=True)])
    owners = np.repeat([feature.example for feature in framed.features], [len(places) for places in columns])
    return Labelled(layers, truth.astype(np.int64), owners)


@dataclass(frozen=True, slots=True)
class Judge:
    """Fits probes and says how good they are."""

    metrics: tuple[str, ...]
    """The first is the one to choose by."""
    num_labels: int
    config: ProbeConfig
    conditions: Conditions

    def choose(self, train: Labelled, phase: str) -> Steps[Choice]:
        """The layer and penalty that do best on a part of the training examples kept aside for this."""
        luck = (mix(self.conditions.seed, train.examples) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        is_aside = luck < self.config.validation_share
        if not is_aside.any() or len(np.unique(train.truth[~is_aside])) < 2:
            raise InputError("probe: too few training examples to keep some aside for choosing a layer; give more")
        found: dict[tuple[str, float], float] = {}
        for done, (layer, vectors) in enumerate(train.layers.items()):
            yield Progress(phase, done, len(train.layers))
            for strength in self.config.strengths:
                self.conditions.check()
                predict = self.fit(vectors[~is_aside], train.truth[~is_aside], strength)
                scores = self.measure(train.truth[is_aside], predict(vectors[is_aside]))
                found[layer, strength] = scores[self.metrics[0]]
        layer, strength = max(found, key=lambda pair: found[pair])
        best = {layer: max(value for (name, _), value in found.items() if name == layer) for layer in train.layers}
        return Choice(layer, strength, best)

    def fit(self, vectors: Vectors, truth: Truth, strength: float) -> Predict:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        probe = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=self.config.max_iterations))
        with warnings.catch_warnings():
            # A fit that has not come to its end is judged by what it predicts, like any other.
            warnings.simplefilter("ignore", ConvergenceWarning)
            probe.fit(vectors, truth)
        return lambda asked: np.asarray(probe.predict(asked), dtype=np.int64)

    def predict(self, train: Labelled, dev: Labelled, choice: Choice, labels: Truth) -> Truth:
        """What a probe taught `labels` says of the dev part, at the layer and penalty chosen."""
        return self.fit(train.layers[choice.layer], labels, choice.strength)(dev.layers[choice.layer])

    def measure(self, truth: Truth, predicted: Truth) -> Scores:
        return dict(score_classes(self.metrics, truth, predicted, self.num_labels))

    def find_interval(self, dev: Labelled, predicted: Truth) -> list[float]:
        """Of the accuracy, examples drawn again: the words of a sentence hang together."""
        count = int(dev.examples.max()) + 1
        right = np.bincount(dev.examples, predicted == dev.truth, minlength=count)
        asked = np.bincount(dev.examples, minlength=count)
        return bootstrap(
            lambda places: float(right[places].sum() / max(asked[places].sum(), 1)),
            count,
            _BOOTSTRAP,
            self.conditions.seed,
        )


def _control_labels(judge: Judge, train: Labelled, dev: Labelled, choice: Choice) -> dict[str, Scores]:
    shuffled = train.truth[np.argsort(mix(judge.conditions.seed, 1, np.arange(len(train.truth))), kind="stable")]
    return {
        "shuffled labels": judge.measure(dev.truth, judge.predict(train, dev, choice, shuffled)),
        "most frequent": judge.measure(dev.truth, np.full_like(dev.truth, np.bincount(train.truth).argmax())),
    }


def _control_network(judge: Judge, train: Labelled, dev: Labelled) -> Steps[Scores]:
    choice = yield from judge.choose(train, "choosing a random layer")
    scores = judge.measure(dev.truth, judge.predict(train, dev, choice, train.truth))
    return scores | {"layer": choice.layer, "strength": choice.strength}
