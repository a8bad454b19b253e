"""States of a model at every layer, as plain arrays: of words, of whole texts, of tokens in rows.

AnalysisModel, text -> [(N, D)] from what enters the first layer to what leaves the last
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from electralab.analysis.arrays import Indices, IntArray, Matrix
from electralab.analysis.data import AnalysisData
from electralab.analysis.model import AnalysisModel
from electralab.analysis.probe_sets import TaggedSentence
from electralab.errors import InputError
from electralab.evaluation.context import Progressive
from electralab.evaluation.states import Layers, encode_sentences, pooled_states, token_states
from electralab.model.encoder import HiddenStates
from electralab.statistics import subsample
from electralab.tasks.features import FeatureEncoder
from electralab.tasks.kinds import tagging
from electralab.tasks.kinds.tagging import TaggingExample

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WordStates:
    """The words of tagged sentences, one after the other."""

    layers: list[Matrix]
    texts: list[str]
    tags: list[str]
    entities: list[str]
    sentences: IntArray


@dataclass(frozen=True, slots=True)
class TokenStates:
    """Ordinary tokens of rows of text."""

    layers: list[Matrix]
    ids: IntArray
    rows: IntArray
    columns: IntArray


def embed_words(model: AnalysisModel, sentences: Sequence[TaggedSentence], data: AnalysisData) -> WordStates:
    """Each word by its first token, by its last where only that has seen all of it (a causal model)."""
    examples = [TaggingExample(str(number), row.words, row.tags) for number, row in enumerate(sentences)]
    encoder = FeatureEncoder(model.tokenizer, (), model.sequence_length)
    features = tagging.KIND.encode(encoder, examples, is_labelled=False).features
    rows, columns = [feature.ids for feature in features], [feature.word_starts for feature in features]
    if model.encoder.config.is_causal:
        columns = [np.append(begins[1:], len(ids) - 1) - 1 for begins, ids in zip(columns, rows, strict=True)]
    return WordStates(
        token_layers(model, data, rows, columns, "words"),
        [word for row in sentences for word in row.words],
        [tag for row in sentences for tag in row.tags],
        [entity for row in sentences for entity in row.entities],
        np.repeat(np.arange(len(sentences)), [len(row.words) for row in sentences]),
    )


def embed_texts(model: AnalysisModel, texts: Sequence[str], data: AnalysisData) -> list[Matrix]:
    """The mean of a text's tokens."""
    sentences = encode_sentences(model.tokenizer, texts, model.sequence_length)
    return _list_layers(model, _finish(pooled_states(model.frozen, sentences, "mean", data.conditions, "texts")))


def embed_rows(model: AnalysisModel, data: AnalysisData, count: int, *, is_spread: bool) -> TokenStates:
    """At most `count` ordinary tokens: spread over all rows, or all of the first rows so that they stand together."""
    ids = data.read_rows(model).ids
    is_taken = model.tokenizer.is_ordinary[ids]
    if is_spread:
        ordinary = np.flatnonzero(is_taken)
        chosen = ordinary[subsample(len(ordinary), count, data.settings.seed)]
        is_taken = np.zeros(ids.size, dtype=np.bool_)
        is_taken[chosen] = True
        is_taken = is_taken.reshape(ids.shape)
    else:
        # Whole rows, since what asks for neighbours needs them all.
        enough = int(np.searchsorted(is_taken.sum(axis=1).cumsum(), count)) + 1
        ids, is_taken = ids[:enough], is_taken[:enough]
    rows, columns = np.nonzero(is_taken)
    kept = np.unique(rows)
    trimmed = [trim(ids[row], model) for row in kept]
    layers = token_layers(model, data, trimmed, [np.flatnonzero(is_taken[row]) for row in kept], "rows")
    return TokenStates(layers, ids[rows, columns], rows, columns)


def trim(ids: IntArray, model: AnalysisModel) -> Indices:
    """A row without the padding at its end."""
    return np.asarray(ids[: int((ids != model.tokenizer.special.pad).sum())], dtype=np.int64)


def token_layers(
    model: AnalysisModel, data: AnalysisData, rows: Sequence[Indices], columns: Sequence[Indices], what: str
) -> list[Matrix]:
    """The states at these columns of each row, one after the other. (N, D) at every layer"""
    return _list_layers(model, _finish(token_states(model.frozen, rows, columns, data.conditions, what)))


def _list_layers(model: AnalysisModel, layers: Layers) -> list[Matrix]:
    """In their order; the last as the heads read it, after the final norm where there is one."""
    names = ["embeddings", *(f"layers.{index}" for index in range(model.num_layers))]
    # A final norm belongs to what the heads read, not to a layer of its own.
    if "states" in layers:
        names[-1] = "states"
    states: list[Matrix] = [layers[name] for name in names]
    if not all(np.isfinite(layer).all() for layer in states):
        raise InputError(f"{model.name}: its states are not finite; see whether training diverged")
    return states


def trace_batch(model: AnalysisModel, ids: IntArray, is_pad: IntArray) -> list[Matrix]:
    """All states of one batch (B, T) whose padding may stand anywhere. (B, T, D) at every layer"""
    trace: HiddenStates = {}
    input_ids = torch.from_numpy(np.asarray(ids, dtype=np.int64)).to(model.device)
    hidden = torch.from_numpy(np.asarray(is_pad, dtype=np.bool_)).to(model.device)
    with torch.inference_mode():
        model.encoder(input_ids, torch.zeros_like(input_ids), hidden if bool(hidden.any()) else None, trace)
    return _list_layers(model, {name: states.float().cpu().numpy() for name, states in trace.items()})


def _finish(steps: Progressive[T]) -> T:
    """Run work to its end; `EvalContext.check` abandons it on a signal."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
