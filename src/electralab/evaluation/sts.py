"""Do texts that people find alike have alike vectors?

pairs with a score -> cosines -> SuiteResult

The layer is chosen on a validation part, the training file or half of the only file, and the score told is that of
the other part.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import sha256_json
from electralab.evaluation.context import EvalContext, Progressive, SuiteResult
from electralab.evaluation.states import (
    FrozenEncoder,
    StatesConfig,
    Vectors,
    encode_sentences,
    load_frozen_encoder,
    pooled_states,
)
from electralab.records.evaluation import GroupScores, Scores
from electralab.statistics import bootstrap_interval, subsample
from electralab.tasks.catalog import TASKS
from electralab.tasks.kind import Example
from electralab.tasks.kinds.regression import RegressionExample, score_values
from electralab.tasks.load import TaskDataConfig, read_task

_METRICS = ("spearman", "pearson")
_BOOTSTRAP = 200
# Pairs under any column names, also in the official download's own folder.
_TASK = replace(TASKS["regress"], display="STS", num_texts=2, folder=TASKS["stsb"].folder)


def evaluate_sts(
    model: Path, data: Path, config: StatesConfig, reading: TaskDataConfig, context: EvalContext
) -> Progressive[SuiteResult]:
    frozen = load_frozen_encoder(model, config, context.device)
    halves = reading if "dev_share" in reading.model_fields_set else reading.model_copy(update={"dev_share": 0.5})
    read = read_task(_TASK, data, halves)
    validation = _choose(read.train.examples, config.examples, context.seed)
    test = _choose(read.devs[0].examples, 0, context.seed)
    scores: Scores = {}
    groups: GroupScores = {}
    truncated, cut = 0, len(validation)
    for name, network in (("", frozen), ("random", frozen.reinitialised(context.seed))):
        phase, prefix = (f"{name} encoder", f"{name}_") if name else ("encoder", "")
        cosines, truncated = yield from _cosines_by_layer(network, [*validation, *test], config, context, phase)
        chosen_by, scored = (
            {layer: score_values(_METRICS, _truth(pairs), values[part]) for layer, values in cosines.items()}
            for pairs, part in ((validation, slice(cut)), (test, slice(cut, None)))
        )
        layer = choose_layer({layer: metrics["spearman"] for layer, metrics in chosen_by.items()})
        scores |= {f"{prefix}{metric}": value for metric, value in scored[layer].items()} | {f"{prefix}layer": layer}
        if not name:
            truth, values = _truth(test), cosines[layer][cut:]
            interval = bootstrap_interval(
                lambda drawn: score_values(("spearman",), truth[drawn], values[drawn])["spearman"],  # noqa: B023
                *(len(test), _BOOTSTRAP, context.seed),
                expand=False,
            )
            scores["spearman_interval"] = [interval.low, interval.high]
        groups[f"{name} layer".strip()] = {
            layer: {**scored[layer], **{f"validation_{metric}": value for metric, value in metrics.items()}}
            for layer, metrics in chosen_by.items()
        }
    bad_rows = [f"{s.path}: row {bad.row}: {bad.reason}" for s in (read.train, *read.devs) for bad in s.bad_rows]
    counts = {
        "pairs": len(test),
        "validation_pairs": len(validation),
        "truncated": truncated,
        "bad_rows": len(bad_rows),
    }
    identity = sha256_json([read.identity, [pair.texts for pair in test]])
    return SuiteResult(scores, groups, counts, identity, read.notes, tuple(bad_rows))


def choose_layer(validation: dict[str, float]) -> str:
    """The best one; of equals the lowest."""
    return max(validation, key=lambda layer: validation[layer])


def find_cosines(first: Vectors, second: Vectors) -> NDArray[np.float64]:
    """(N, D), (N, D) -> (N,); 0 where a vector is."""
    ours, theirs = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines: NDArray[np.float64] = (ours * theirs).sum(axis=1) / np.maximum(norms, 1e-30)
    return cosines


def _choose(examples: Sequence[Example], limit: int, seed: int) -> list[RegressionExample]:
    known = [example for example in examples if isinstance(example, RegressionExample)]
    return [known[index] for index in subsample(len(known), limit, seed)]


def _truth(pairs: Sequence[RegressionExample]) -> NDArray[np.float64]:
    return np.array([pair.score for pair in pairs], dtype=np.float64)


def _cosines_by_layer(
    frozen: FrozenEncoder, pairs: Sequence[RegressionExample], config: StatesConfig, context: EvalContext, phase: str
) -> Progressive[tuple[dict[str, NDArray[np.float64]], int]]:
    texts = [pair.texts[side] for side in (0, 1) for pair in pairs]
    sentences = encode_sentences(frozen.tokenizer, texts, frozen.sequence_length)
    layers = yield from pooled_states(frozen, sentences, config.pooling, context, phase)
    return {layer: find_cosines(*np.split(vectors, 2)) for layer, vectors in layers.items()}, sentences.truncated
