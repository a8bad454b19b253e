"""States of a specimen at every layer, as plain arrays: of words, of whole texts, of tokens in rows.

Specimen, text -> [(N, D)] from what enters the first layer to what leaves the last
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from electralab.analysis.finding import Labels, Places, Vectors
from electralab.analysis.material import Material
from electralab.analysis.probe_sets import TaggedSentence
from electralab.analysis.specimen import Specimen
from electralab.errors import InputError
from electralab.evaluation.outcome import Steps
from electralab.evaluation.resampling import choose_some
from electralab.evaluation.sentences import encode_sentences
from electralab.evaluation.states import Layers, pool_texts, take_tokens
from electralab.finetuning.encoding import Framer
from electralab.finetuning.examples import TaggedExample
from electralab.finetuning.questions import SpanConfig
from electralab.model.encoder import Trace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of tagged sentences, one after the other."""

    layers: list[Vectors]
    texts: list[str]
    tags: list[str]
    entities: list[str]
    sentences: Labels


@dataclass(frozen=True, slots=True)
class Tokens:
    """Ordinary tokens of rows of text."""

    layers: list[Vectors]
    ids: Labels
    rows: Labels
    columns: Labels


def embed_words(specimen: Specimen, sentences: Sequence[TaggedSentence], material: Material) -> Words:
    """Each word by its first token, by its last where only that has seen all of it (a causal model)."""
    examples = [TaggedExample(str(place), one.words, one.tags) for place, one in enumerate(sentences)]
    framer = Framer(specimen.tokenizer, (), specimen.sequence_length, SpanConfig())
    framed = framer.encode(examples, is_labelled=False)
    rows = [feature.ids for feature in framed.features]
    columns = framed.word_places
    if specimen.encoder.config.is_causal:
        columns = [np.append(begins[1:], len(ids) - 1) - 1 for begins, ids in zip(columns, rows, strict=True)]
    layers = finish(take_tokens(specimen.frozen, rows, columns, material.conditions, "words"))
    return Words(
        list_layers(specimen, layers),
        [word for one in sentences for word in one.words],
        [tag for one in sentences for tag in one.tags],
        [entity for one in sentences for entity in one.entities],
        np.repeat(np.arange(len(sentences)), [len(one.words) for one in sentences]),
    )


def embed_texts(specimen: Specimen, texts: Sequence[str], material: Material) -> list[Vectors]:
    """The mean of a text's tokens."""
    sentences = encode_sentences(specimen.tokenizer, texts, specimen.sequence_length)
    layers = finish(pool_texts(specimen.frozen, sentences, "mean", material.conditions, "texts"))
    return list_layers(specimen, layers)


def embed_rows(specimen: Specimen, material: Material, count: int, *, is_spread: bool) -> Tokens:
    """At most `count` ordinary tokens: spread over all rows, or all of the first rows so that they stand together."""
    ids = material.read_rows(specimen).ids
    is_taken = specimen.tokenizer.is_ordinary[ids]
    if is_spread:
        places = np.flatnonzero(is_taken)
        chosen = places[choose_some(len(places), count, material.settings.seed)]
        is_taken = np.zeros(ids.size, dtype=np.bool_)
        is_taken[chosen] = True
        is_taken = is_taken.reshape(ids.shape)
    else:
        enough = int(np.searchsorted(is_taken.sum(axis=1).cumsum(), count)) + 1
        ids, is_taken = ids[:enough], is_taken[:enough]
    rows, columns = np.nonzero(is_taken)
    kept = np.unique(rows)
    trimmed = [trim(ids[row], specimen) for row in kept]
    layers = finish(
        take_tokens(
            specimen.frozen, trimmed, [np.flatnonzero(is_taken[row]) for row in kept], material.conditions, "rows"
        )
    )
    return Tokens(list_layers(specimen, layers), ids[rows, columns], rows, columns)


def trim(ids: Labels, specimen: Specimen) -> Places:
    """A row without the padding at its end."""
    return np.asarray(ids[: int((ids != specimen.tokenizer.special.pad).sum())], dtype=np.int64)


def list_layers(specimen: Specimen, layers: Layers) -> list[Vectors]:
    """In their order; the last as the heads read it, after the final norm where there is one."""
    names = ["embeddings", *(f"layers.{index}" for index in range(specimen.num_layers))]
    if "states" in layers:
        names[-1] = "states"
    found: list[Vectors] = [layers[name] for name in names]
    if not all(np.isfinite(states).all() for states in found):
        raise InputError(f"{specimen.name}: its states are not finite; see whether training diverged")
    return found


def trace_batch(specimen: Specimen, ids: Labels, is_pad: Labels) -> list[Vectors]:
    """All states of one batch (B, T) whose padding may stand anywhere. (B, T, D) at every layer"""
    trace: Trace = {}
    given = torch.from_numpy(np.asarray(ids, dtype=np.int64)).to(specimen.device)
    hidden = torch.from_numpy(np.asarray(is_pad, dtype=np.bool_)).to(specimen.device)
    with torch.inference_mode():
        specimen.encoder(given, torch.zeros_like(given), hidden if bool(hidden.any()) else None, trace)
    return list_layers(specimen, {name: states.float().cpu().numpy() for name, states in trace.items()})


def finish(steps: Steps[T]) -> T:
    """Run work to its end; `Conditions.check` abandons it on a signal."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
