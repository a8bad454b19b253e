"""Vectors in the order of the texts, whatever the batches, from the tokens they are said to come from."""

from pathlib import Path

import numpy as np
import pytest
import torch
from little_models import LENGTH, TOKENIZER, build_pair, finish, save_pair

from electralab.errors import InputError
from electralab.evaluation import context
from electralab.model.encoder import Encoder
from electralab.model.task_model import Pooling

TEXTS = ["the cat sat", "", "dogs sit near the logs", "the cat sat", "a mat"]


@pytest.fixture(scope="module")
def frozen() -> context.FrozenEncoder:
    return context.FrozenEncoder(build_pair().discriminator.encoder.eval(), TOKENIZER)


@torch.no_grad()
def states_of(encoder: Encoder, row: list[int]) -> torch.Tensor:
    ids = torch.tensor([row])
    states: torch.Tensor = encoder(ids, torch.zeros_like(ids), None)[0]
    return states


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
@pytest.mark.parametrize("batch_tokens", [1, 8192])
def test_a_texts_vector_is_pooled_from_its_own_tokens(
    frozen: context.FrozenEncoder, pooling: Pooling, batch_tokens: int
) -> None:
    sentences = context.encode_sentences(TOKENIZER, TEXTS, LENGTH)
    layers = finish(
        context.pooled_states(frozen, sentences, pooling, context.EvalContext(batch_tokens=batch_tokens), "x")
    )
    assert list(layers) == ["embeddings", "layers.0", "layers.1"]
    for text, found in zip(TEXTS, layers["layers.1"], strict=True):
        (ids,) = TOKENIZER.encode_many([text])
        states = states_of(frozen.encoder, [TOKENIZER.special.cls, *ids.tolist(), TOKENIZER.special.sep])
        inner = states[1:-1] if len(ids) else states
        expected = {"mean": inner.mean(dim=0), "first": states[0], "last": states[-1]}[pooling]
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-3, atol=1e-5)


def test_tokens_are_taken_from_their_columns_row_by_row(frozen: context.FrozenEncoder) -> None:
    rows = [np.array([2, 7, 3]), np.array([2, 8, 9, 10, 3]), np.array([2, 9, 11, 3])]
    columns = [np.array([1]), np.array([1, 3]), np.array([2])]
    layers = finish(context.token_states(frozen, rows, columns, context.EvalContext(batch_tokens=10), "x"))
    expected = [
        states_of(frozen.encoder, row.tolist())[place].numpy()
        for row, places in zip(rows, columns, strict=True)
        for place in places
    ]
    np.testing.assert_allclose(layers["layers.1"], expected, rtol=1e-3, atol=1e-5)


def test_the_control_is_the_same_network_with_first_weights(frozen: context.FrozenEncoder) -> None:
    once, again, other = (frozen.reinitialised(seed).encoder.state_dict() for seed in (5, 5, 6))
    name = "layers.0.feedforward.up.weight"
    assert torch.equal(once[name], again[name])
    assert not torch.equal(once[name], other[name])
    assert not torch.equal(once[name], frozen.encoder.state_dict()[name])
    assert once.keys() == frozen.encoder.state_dict().keys()


def test_either_networks_encoder_is_loaded_and_symbols_are_refused(tmp_path: Path) -> None:
    pair = build_pair()
    save_pair(tmp_path / "run", pair)
    for network in ("discriminator", "generator"):
        config = context.StatesConfig.model_validate({"network": network})
        loaded = context.load_frozen_encoder(tmp_path / "run", config, "cpu").encoder.state_dict()
        expected = getattr(pair, network).encoder.state_dict()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())
    config_file = tmp_path / "run" / "export" / "discriminator" / "tokenizer_config.json"
    config_file.write_text(config_file.read_text().replace('"is_symbols": false', '"is_symbols": true'))
    with pytest.raises(InputError, match="is a model of symbols"):
        context.load_frozen_encoder(tmp_path / "run", context.StatesConfig(), "cpu")
