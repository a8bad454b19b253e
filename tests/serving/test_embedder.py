"""A text's vector: pooled as an evaluation pools it, and of a long text over all its windows."""

import numpy as np
import pytest
import torch
from little_tuned import TEXT, build_pair, little_tokenizer

from electralab.model.task_model import Pooling, pool_states
from electralab.serving.embedder import Embedder, EmbedRequest
from electralab.serving.inputs import WindowConfig, cut_windows

TOKENIZER = little_tokenizer()


def make_embedder() -> Embedder:
    return Embedder(build_pair(TOKENIZER).discriminator.encoder, TOKENIZER, WindowConfig())


def states_of(embedder: Embedder, ids: list[int]) -> torch.Tensor:
    row = torch.tensor([[TOKENIZER.special.cls, *ids, TOKENIZER.special.sep]])
    with torch.no_grad():
        states: torch.Tensor = embedder.encoder(row, torch.zeros_like(row), None)
    return states


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_a_text_that_fits_is_pooled_as_anywhere_else(pooling: Pooling) -> None:
    embedder = make_embedder()
    states = states_of(embedder, TOKENIZER.encode("the cat sat").ids.tolist())
    expected = pool_states(states, torch.zeros(states.shape[:2], dtype=torch.bool), pooling)[0].numpy()
    assert np.allclose(embedder.embed("the cat sat", pooling), expected, atol=1e-6)


def test_every_token_of_a_long_text_counts_once_where_it_has_context() -> None:
    embedder = make_embedder()
    ids = TOKENIZER.encode(" ".join([TEXT] * 5)).ids
    size = embedder.encoder.config.sequence_length - 2
    assert len(ids) > 3 * size
    kept = []
    for window in cut_windows(len(ids), size, 0.5):
        states = states_of(embedder, ids[window.start : window.end].tolist())[0, 1:-1].numpy()
        kept.append(states[window.keep_from - window.start : window.keep_to - window.start])
    assert np.allclose(embedder.embed(" ".join([TEXT] * 5)), np.concatenate(kept).mean(axis=0), atol=1e-5)


def test_the_ends_of_a_long_text_are_its_first_and_last_window() -> None:
    embedder, text = make_embedder(), " ".join([TEXT] * 5)
    ids, size = TOKENIZER.encode(text).ids, embedder.encoder.config.sequence_length - 2
    first, last = states_of(embedder, ids[:size].tolist())[0, 0], states_of(embedder, ids[-size:].tolist())[0, -1]
    assert np.allclose(embedder.embed(text, "first"), first.numpy(), atol=1e-6)
    assert np.allclose(embedder.embed(text, "last"), last.numpy(), atol=1e-6)


def test_many_are_answered_as_one_by_one_and_an_empty_one_has_a_vector() -> None:
    embedder = make_embedder()
    asks = [
        EmbedRequest("the cat"),
        EmbedRequest(TEXT * 6, "last"),
        EmbedRequest("a dog sat", "first"),
        EmbedRequest(TEXT * 3),
    ]
    together = embedder.answer([embedder.parse(ask) for ask in asks])
    for ask, vector in zip(asks, together, strict=True):
        assert np.allclose(vector, embedder.answer([embedder.parse(ask)])[0], atol=1e-6)
    assert np.abs(embedder.embed("")).max() > 0
