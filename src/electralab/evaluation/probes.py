"""What a frozen encoder's states hold: what a straight cut through them tells apart, and whether texts that people
find alike have alike vectors.

labelled texts or words -> vectors -> a linear classifier -> SuiteResult of `probe`
pairs with a score -> vectors -> cosines -> SuiteResult of `sts`

A probe's layer and penalty are chosen on a part of the training examples, and its scores are of the dev split.
Controls: the same network as first drawn, training labels shuffled, always the most frequent label. The layer of `sts`
is chosen on the training file, or half of the only file, and the score is of the rest.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.artifacts import sha256_json
from electralab.config import Settings
from electralab.errors import InputError, UsageError
from electralab.evaluation import context as encoder_states
from electralab.evaluation.context import EvalContext, FrozenEncoder, Progressive, StatesConfig, SuiteResult, Vectors
from electralab.events import Progress
from electralab.model.task_model import Pooling
from electralab.randomness import mix
from electralab.records.evaluation import GroupScores, Scores
from electralab.statistics import bootstrap_interval, subsample
from electralab.tasks.catalog import find_task
from electralab.tasks.features import IGNORED, FeatureEncoder, SpanConfig
from electralab.tasks.kinds import tagging
from electralab.tasks.kinds.classification import score_classes
from electralab.tasks.kinds.regression import score_values
from electralab.tasks.kinds.tagging import TaggingExample
from electralab.tasks.load import TaskDataConfig, read_task

Truth = NDArray[np.int64]
Predict = Callable[[Vectors], Truth]
_BOOTSTRAP = 200
_STS_METRICS = ("spearman", "pearson")
# Pairs under any column names, also in the official download's own folder.
_STS_TASK = replace(find_task("regress"), display="STS", num_texts=2, folder=find_task("stsb").folder)


class ProbeConfig(Settings):
    strengths: tuple[Annotated[float, Field(gt=0)], ...] = Field((0.001, 0.01, 0.1, 1.0), min_length=1)
    """The inverse penalties to choose from, small is strict: scikit-learn's C."""
    validation_share: float = Field(0.2, gt=0, lt=1)
    """How much of the training examples layer and penalty are chosen on."""
    max_iterations: int = Field(300, ge=1)


@dataclass(frozen=True, slots=True)
class ProbeData:
    """Vectors at every layer, their classes, and the example each belongs to: words of a sentence stay together."""

    layers: encoder_states.Layers
    truth: Truth  # (N,)
    examples: NDArray[np.int64]  # (N,)
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class ProbeChoice:
    layer: str
    strength: float
    validation: dict[str, float]
    """The best score of each layer on the validation part."""

    def scores(self) -> Scores:
        return {"layer": self.layer, "strength": self.strength}


def evaluate_probe(
    model: Path,
    data: Path,
    task_name: str | None,
    states: StatesConfig,
    probe: ProbeConfig,
    reading: TaskDataConfig,
    context: EvalContext,
) -> Progressive[SuiteResult]:
    if task_name is None:
        raise UsageError("--task: the suite 'probe' needs one; give --task sst2, classify, chunking or another")
    task = find_task(task_name)
    if not task.kind.has_classes:
        raise UsageError(f"--task {task.name}: a probe tells classes apart; give a task with classes or tags")
    frozen = encoder_states.load_frozen_encoder(model, states, context.device)
    read = read_task(task, data, reading)
    chosen = subsample(len(read.train.examples), states.examples, context.seed)
    splits = [("training", [read.train.examples[index] for index in chosen]), ("dev", read.devs[0].examples)]
    # Spans of tags are another question than what a word's vector holds.
    metrics = tuple(dict.fromkeys((*(task.metrics if task.kind.is_pooled else ()), "accuracy", "macro_f1")))
    linear = LinearProbe(metrics, len(read.labels), probe, context)
    encoded = []
    for name, network in (("", frozen), ("random ", frozen.reinitialised(context.seed))):
        for split, examples in splits:
            phase = f"{name}encoder, {split}"
            part = yield from encode(network, examples, read.labels, states.pooling, context, phase)
            encoded.append(part)
    train, dev, untrained, held = encoded
    choice = yield from linear.choose(train, "choosing a layer")
    predicted = linear.predict(train, dev, choice, train.truth)
    scores: Scores = linear.measure(dev.truth, predicted) | choice.scores()
    scores["accuracy_interval"] = linear.accuracy_interval(dev, predicted)
    # Controls: what labels without meaning, the commonest label, and a network without training reach.
    shuffled = train.truth[np.argsort(mix(context.seed, 1, np.arange(len(train.truth))), kind="stable")]
    other = yield from linear.choose(untrained, "choosing a random layer")
    controls: dict[str, Scores] = {
        "shuffled labels": linear.measure(dev.truth, linear.predict(train, dev, choice, shuffled)),
        "most frequent": linear.measure(dev.truth, np.full_like(dev.truth, np.bincount(train.truth).argmax())),
        "random encoder": linear.measure(held.truth, linear.predict(untrained, held, other, untrained.truth))
        | other.scores(),
    }
    by_layer: dict[str, Scores] = {
        layer: {f"validation_{metrics[0]}": best} for layer, best in choice.validation.items()
    }
    counts = {"train": len(chosen), "dev": len(read.devs[0].examples), "vectors": len(train.truth)}
    bad_rows = [f"{s.path}: row {bad.row}: {bad.reason}" for s in (read.train, read.devs[0]) for bad in s.bad_rows]
    counts |= {"truncated": train.truncated + dev.truncated, "bad_rows": len(bad_rows)}
    notes = list(read.notes)
    if len(chosen) < len(read.train.examples):
        notes.append(f"trained on {len(chosen):,} of {len(read.train.examples):,} training examples")
    identity = sha256_json([read.identity, chosen.tolist()])
    groups = {"control": controls, "layer": by_layer}
    return SuiteResult(scores, groups, counts, identity, tuple(notes), tuple(bad_rows))


def encode(
    frozen: FrozenEncoder,
    examples: Sequence[Any],
    labels: tuple[str, ...],
    pooling: Pooling,
    context: EvalContext,
    phase: str,
) -> Progressive[ProbeData]:
    if isinstance(examples[0], TaggingExample):
        # Each word by its first token.
        encoder = FeatureEncoder(frozen.tokenizer, labels, frozen.sequence_length, SpanConfig())
        features = tagging.KIND.encode(encoder, examples, is_labelled=True).features
        columns = [np.flatnonzero(feature.targets != IGNORED) for feature in features]
        rows = [feature.ids for feature in features]
        layers = yield from encoder_states.token_states(frozen, rows, columns, context, phase)
        tags = np.concatenate([f.targets[places] for f, places in zip(features, columns, strict=True)])
        example_ids = np.repeat([feature.example for feature in features], [len(places) for places in columns])
        return ProbeData(layers, tags.astype(np.int64), example_ids)
    width, class_ids = len(examples[0].texts), {label: number for number, label in enumerate(labels)}
    texts = [example.texts[side] for side in range(width) for example in examples]
    sentences = encoder_states.encode_sentences(frozen.tokenizer, texts, frozen.sequence_length)
    layers = yield from encoder_states.pooled_states(frozen, sentences, pooling, context, phase)
    if width == 2:
        layers = {layer: join_pair(*np.split(vectors, 2)) for layer, vectors in layers.items()}
    truth = np.array([class_ids[example.label] for example in examples], dtype=np.int64)
    return ProbeData(layers, truth, np.arange(len(examples)), sentences.truncated)


def join_pair(first: Vectors, second: Vectors) -> Vectors:
    """How far two texts are apart and what they have in common, whichever comes first. (N, 2D)"""
    return np.concatenate([np.abs(first - second), first * second], axis=1)


@dataclass(frozen=True, slots=True)
class LinearProbe:
    """Fits probes and says how good they are."""

    metrics: tuple[str, ...]
    """The first is the one to choose by."""
    num_labels: int
    config: ProbeConfig
    context: EvalContext

    def choose(self, train: ProbeData, phase: str) -> Progressive[ProbeChoice]:
        """The layer and penalty that do best on a part of the training examples kept aside for this."""
        uniforms = (mix(self.context.seed, train.examples) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        is_aside = uniforms < self.config.validation_share
        if not is_aside.any() or len(np.unique(train.truth[~is_aside])) < 2:
            raise InputError("probe: too few training examples to keep some aside for choosing a layer; give more")
        values: dict[tuple[str, float], float] = {}
        for done, (layer, vectors) in enumerate(train.layers.items()):
            yield Progress(phase, done, len(train.layers))
            for strength in self.config.strengths:
                self.context.check()
                predict = self.fit(vectors[~is_aside], train.truth[~is_aside], strength)
                scores = self.measure(train.truth[is_aside], predict(vectors[is_aside]))
                value = scores[self.metrics[0]]
                assert isinstance(value, float)
                values[layer, strength] = value
        layer, strength = max(values, key=lambda pair: values[pair])
        best = {layer: max(value for (name, _), value in values.items() if name == layer) for layer in train.layers}
        return ProbeChoice(layer, strength, best)

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
        return lambda inputs: np.asarray(probe.predict(inputs), dtype=np.int64)

    def predict(self, train: ProbeData, dev: ProbeData, choice: ProbeChoice, labels: Truth) -> Truth:
        """What a probe taught `labels` says of the dev part, at the layer and penalty chosen."""
        return self.fit(train.layers[choice.layer], labels, choice.strength)(dev.layers[choice.layer])

    def measure(self, truth: Truth, predicted: Truth) -> Scores:
        return dict(score_classes(self.metrics, truth, predicted, self.num_labels))

    def accuracy_interval(self, dev: ProbeData, predicted: Truth) -> list[float | None]:
        """Examples are drawn again: the words of a sentence depend on each other."""
        count = int(dev.examples.max()) + 1
        right = np.bincount(dev.examples, predicted == dev.truth, minlength=count)
        total = np.bincount(dev.examples, minlength=count)
        interval = bootstrap_interval(
            lambda drawn: float(right[drawn].sum() / max(total[drawn].sum(), 1)),
            *(count, _BOOTSTRAP, self.context.seed),
            expand=False,
        )
        return [interval.low, interval.high]


def evaluate_sts(
    model: Path, data: Path, config: StatesConfig, reading: TaskDataConfig, context: EvalContext
) -> Progressive[SuiteResult]:
    frozen = encoder_states.load_frozen_encoder(model, config, context.device)
    halves = reading if "dev_share" in reading.model_fields_set else reading.model_copy(update={"dev_share": 0.5})
    read = read_task(_STS_TASK, data, halves)
    train = read.train.examples
    validation = [train[index] for index in subsample(len(train), config.examples, context.seed)]
    pairs, cut = [*validation, *read.devs[0].examples], len(validation)
    texts = [pair.texts[side] for side in (0, 1) for pair in pairs]
    truth = np.array([pair.score for pair in pairs], dtype=np.float64)
    sentences = encoder_states.encode_sentences(frozen.tokenizer, texts, frozen.sequence_length)
    scores: Scores = {}
    groups: GroupScores = {}
    for name, network in (("", frozen), ("random", frozen.reinitialised(context.seed))):
        phase, prefix = (f"{name} encoder", f"{name}_") if name else ("encoder", "")
        layers = yield from encoder_states.pooled_states(network, sentences, config.pooling, context, phase)
        cosines = {layer: find_cosines(*np.split(vectors, 2)) for layer, vectors in layers.items()}
        chosen_by, scored = (
            {layer: score_values(_STS_METRICS, truth[part], values[part]) for layer, values in cosines.items()}
            for part in (slice(cut), slice(cut, None))
        )
        # The best one on the validation part; of equals the lowest.
        layer = max(chosen_by, key=lambda layer: chosen_by[layer]["spearman"])
        scores |= {f"{prefix}{metric}": value for metric, value in scored[layer].items()} | {f"{prefix}layer": layer}
        if not name:
            expected, values = truth[cut:], cosines[layer][cut:]
            interval = bootstrap_interval(
                lambda drawn: score_values(("spearman",), expected[drawn], values[drawn])["spearman"],  # noqa: B023
                *(len(expected), _BOOTSTRAP, context.seed),
                expand=False,
            )
            scores["spearman_interval"] = [interval.low, interval.high]
        groups[f"{name} layer".strip()] = {
            layer: {**scored[layer], **{f"validation_{metric}": value for metric, value in metrics.items()}}
            for layer, metrics in chosen_by.items()
        }
    bad_rows = [f"{s.path}: row {bad.row}: {bad.reason}" for s in (read.train, *read.devs) for bad in s.bad_rows]
    counts = {"pairs": len(pairs) - cut, "validation_pairs": cut}
    counts |= {"truncated": sentences.truncated, "bad_rows": len(bad_rows)}
    identity = sha256_json([read.identity, [pair.texts for pair in pairs[cut:]]])
    return SuiteResult(scores, groups, counts, identity, read.notes, tuple(bad_rows))


def find_cosines(first: Vectors, second: Vectors) -> NDArray[np.float64]:
    """(N, D), (N, D) -> (N,); 0 where a vector is."""
    ours, theirs = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines: NDArray[np.float64] = (ours * theirs).sum(axis=1) / np.maximum(norms, 1e-30)
    return cosines
