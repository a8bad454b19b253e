"""Do texts that people find alike have alike vectors?

pairs with a score -> cosines -> Findings

The layer is chosen on a validation part, the training file or half of the only file, and the score told is that of
the other part.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import sha256_json
from electralab.evaluation.outcome import Conditions, Findings, Scores, Steps
from electralab.evaluation.resampling import bootstrap, choose_some
from electralab.evaluation.sentences import encode_sentences
from electralab.evaluation.states import Frozen, StatesConfig, Vectors, load_frozen, pool_texts
from electralab.tasks.catalog import TASKS
from electralab.tasks.kind import Example
from electralab.tasks.kinds.regression import RegressionExample, score_values
from electralab.tasks.load import TaskDataConfig, read_task

_METRICS = ("spearman", "pearson")
_BOOTSTRAP = 200
# Pairs under any column names, also in the official download's own folder.
_TASK = replace(TASKS["regress"], display="STS", num_texts=2, folder=TASKS["stsb"].folder)

Cosines = dict[str, NDArray[np.float64]]


def evaluate_sts(
    model: Path, data: Path, config: StatesConfig, reading: TaskDataConfig, conditions: Conditions
) -> Steps[Findings]:
    frozen = load_frozen(model, config, conditions.device)
    halves = reading if "dev_share" in reading.model_fields_set else reading.model_copy(update={"dev_share": 0.5})
    read = read_task(_TASK, data, halves)
    validation = _choose(read.train.examples, config.examples, conditions.seed)
    test = _choose(read.devs[0].examples, 0, conditions.seed)
    scores: Scores = {}
    groups: dict[str, dict[str, Scores]] = {}
    truncated = 0
    for name, network in (("", frozen), ("random", frozen.as_first_drawn(conditions.seed))):
        phase = f"{name} encoder".strip()
        cosines, truncated = yield from _measure(network, [*validation, *test], config, conditions, phase)
        cut = len(validation)
        known = _score_layers({layer: values[:cut] for layer, values in cosines.items()}, validation)
        told = _score_layers({layer: values[cut:] for layer, values in cosines.items()}, test)
        layer = choose_layer({layer: found["spearman"] for layer, found in known.items()})
        prefix = f"{name}_" if name else ""
        scores |= {f"{prefix}{metric}": value for metric, value in told[layer].items()} | {f"{prefix}layer": layer}
        if not name:
            scores["spearman_interval"] = _find_interval(cosines[layer][cut:], test, conditions.seed)
        groups[f"{name} layer".strip()] = {
            layer: told[layer] | {f"validation_{metric}": value for metric, value in found.items()}
            for layer, found in known.items()
        }
    bad_rows = [f"{s.path}: row {bad.row}: {bad.reason}" for s in (read.train, *read.devs) for bad in s.bad_rows]
    counts = {
        "pairs": len(test),
        "validation_pairs": len(validation),
        "truncated": truncated,
        "bad_rows": len(bad_rows),
    }
    identity = sha256_json([read.identity, [pair.texts for pair in test]])
    return Findings(scores, groups, counts, identity, read.notes, tuple(bad_rows))


def choose_layer(validation: dict[str, float]) -> str:
    """The best one; of equals the lowest."""
    return max(validation, key=lambda layer: validation[layer])


def find_cosines(first: Vectors, second: Vectors) -> NDArray[np.float64]:
    """(N, D), (N, D) -> (N,); 0 where a vector is."""
    one, two = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    cosines: NDArray[np.float64] = (one * two).sum(axis=1) / np.maximum(norms, 1e-30)
    return cosines


def _choose(examples: Sequence[Example], limit: int, seed: int) -> list[RegressionExample]:
    known = [example for example in examples if isinstance(example, RegressionExample)]
    return [known[place] for place in choose_some(len(known), limit, seed)]


def _measure(
    frozen: Frozen, pairs: Sequence[RegressionExample], config: StatesConfig, conditions: Conditions, phase: str
) -> Steps[tuple[Cosines, int]]:
    texts = [pair.texts[side] for side in (0, 1) for pair in pairs]
    sentences = encode_sentences(frozen.tokenizer, texts, frozen.sequence_length)
    layers = yield from pool_texts(frozen, sentences, config.pooling, conditions, phase)
    return {layer: find_cosines(*np.split(vectors, 2)) for layer, vectors in layers.items()}, sentences.truncated


def _truth(pairs: Sequence[RegressionExample]) -> NDArray[np.float64]:
    return np.array([pair.score for pair in pairs], dtype=np.float64)


def _score_layers(cosines: Cosines, pairs: Sequence[RegressionExample]) -> dict[str, Scores]:
    return {layer: dict(score_values(_METRICS, _truth(pairs), values)) for layer, values in cosines.items()}


def _find_interval(cosines: NDArray[np.float64], pairs: Sequence[RegressionExample], seed: int) -> list[float]:
    truth = _truth(pairs)
    return bootstrap(
        lambda places: score_values(("spearman",), truth[places], cosines[places])["spearman"],
        *(len(pairs), _BOOTSTRAP, seed),
    )
