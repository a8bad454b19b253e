"""Training goes on from a finished model: the pair answers as its sources did, and still shares what it shared."""

from pathlib import Path
from typing import Any

import pytest
import torch
from networks import exaggerate, generator_of, make_pair, make_rows

from electralab.errors import InputError
from electralab.model.electra import Electra
from electralab.model.folders.folder import load_encoder, load_network, save_network
from electralab.model.weight_transfer import transfer_weights

ROWS = make_rows()
POSITIONS = torch.tensor([0, 3, 30])


def make_trained(**changes: Any) -> Electra:
    pair = make_pair("tiny", **changes)
    exaggerate(pair)
    return pair.eval()


def save_pair(pair: Electra, place: Path) -> None:
    save_network(place / "d", pair.discriminator, pad_id=0)
    save_network(place / "g", pair.generator, pad_id=0)


@pytest.mark.parametrize(
    "changes",
    [
        {"backbone": "electra"},
        {"backbone": "electra", "embedding_size": 32},
        {"sharing": "none"},
        {},
        {"embedding_size": 48},
        {"embedding_size": 160},
    ],
)
@torch.no_grad()
def test_a_new_pair_answers_as_the_folders_it_starts_from(changes: dict[str, Any], tmp_path: Path) -> None:
    old = make_trained(**changes)
    save_pair(old, tmp_path)
    new = make_pair("tiny", **changes).eval()
    lost = transfer_weights(new.discriminator, load_network(tmp_path / "d"), "d")
    shares = new.sharing != "none"
    settled = list(new.discriminator.parameters())
    lost += transfer_weights(generator_of(new), load_network(tmp_path / "g"), "g", settled=settled)
    assert lost < 1e-5 or changes.get("embedding_size") == 160  # wider than the merged table: nothing is left to find
    assert torch.allclose(new.discriminator(*ROWS), old.discriminator(*ROWS), atol=1e-3)
    if lost < 1e-5:
        assert torch.allclose(new.generator(*ROWS, POSITIONS), old.generator(*ROWS, POSITIONS), atol=1e-2)
    ours, theirs = generator_of(new).encoder.embeddings.tokens, new.discriminator.encoder.embeddings.tokens
    assert (ours.weight is theirs.weight) == shares


def test_networks_that_never_shared_a_table_say_how_much_is_lost(tmp_path: Path) -> None:
    save_pair(make_trained(sharing="none", vocab_size=400), tmp_path)
    new = make_pair("tiny", vocab_size=400)
    assert transfer_weights(new.discriminator, load_network(tmp_path / "d"), "d") == 0
    settled = list(new.discriminator.parameters())
    assert transfer_weights(generator_of(new), load_network(tmp_path / "g"), "g", settled=settled) > 0.5


@torch.no_grad()
def test_a_bare_encoder_leaves_the_head_as_it_was(tmp_path: Path) -> None:
    old = make_trained()
    save_pair(old, tmp_path)
    new = make_pair("tiny").discriminator
    head = new.head.verdict.weight.clone()
    transfer_weights(new, load_encoder(tmp_path / "d"), "d")
    assert torch.equal(new.head.verdict.weight, head)
    assert torch.allclose(new.eval().encoder(*ROWS), old.discriminator.encoder(*ROWS), atol=1e-5)


def test_a_longer_source_gives_its_first_positions() -> None:
    old = make_trained(backbone="electra", sequence_length=64).discriminator
    new = make_pair("tiny", backbone="electra", sequence_length=16).discriminator
    transfer_weights(new, old, "old")
    ours, theirs = new.encoder.embeddings.positions, old.encoder.embeddings.positions
    assert ours is not None
    assert theirs is not None
    assert torch.equal(ours.weight, theirs.weight[:16])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_layers": 3}, "old: its architecture is not that of the settings (it has encoder.layers.3."),
        (
            {"vocab_size": 90},
            "old: encoder.embeddings.tokens.weight has the shape (100, 128) where the settings say (90,",
        ),
        ({"feedforward_size": 100}, "has the shape"),
        ({"backbone": "electra"}, "its architecture is not that of the settings"),
    ],
)
def test_another_architecture_is_refused_before_anything_is_copied(changes: dict[str, Any], sentence: str) -> None:
    old = make_trained().discriminator
    new = make_pair("tiny", **changes).discriminator
    before = {name: tensor.clone() for name, tensor in new.state_dict().items()}
    with pytest.raises(InputError) as caught:
        transfer_weights(new, old, "old")
    assert sentence in str(caught.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in new.state_dict().items())
