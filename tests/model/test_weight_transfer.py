"""Training goes on from a finished model: the pair answers as its sources did, and still shares what it shared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import exaggerate, generator_of, make_pair, make_rows
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Electra, Generator
from electralab.model.encoder import Encoder, EncoderLayer
from electralab.model.flops import encoder_flops, first_state_flops
from electralab.model.folders.folder import (
    load_any,
    load_encoder,
    load_network,
    load_task_model,
    save_network,
)
from electralab.model.settings import EncoderConfig, LayerShape
from electralab.model.task_model import HeadConfig, TaskModel, build_task_model
from electralab.model.weight_transfer import PrunedLayer, pad, prune, transfer_weights, unpruned

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


# -------------------- A pruned network says what the whole one says with those heads and neurons silent; a padde

# Three layers with four heads of four, feed-forward six; the middle one loses most.
SIZES: dict[str, Any] = {
    "embedding_size": 16,
    "hidden_size": 16,
    "num_layers": 3,
    "num_heads": 4,
    "feedforward_size": 6,
}
KEPT = [PrunedLayer(0, (0, 2, 3), (0, 1, 4, 5)), PrunedLayer(1, (1,), (3,)), PrunedLayer(2, (0, 1, 2, 3), (0, 2, 4))]
BACKBONES: list[dict[str, Any]] = [
    {"backbone": "electra"},
    {"backbone": "modern"},
    {"backbone": "modern", "local_attention": 6},
]
each_backbone = pytest.mark.parametrize("options", BACKBONES, ids=["electra", "modern", "local"])


def make_discriminator(**options: Any) -> Discriminator:
    pair = make_pair("tiny", **(SIZES | options))
    exaggerate(pair)
    return pair.discriminator.eval()


def make_generator(**options: Any) -> Generator:
    pair = make_pair("tiny", **(SIZES | options))
    exaggerate(pair)
    return generator_of(pair).eval()


def make_tuned(**options: Any) -> TaskModel:
    head = HeadConfig(kind="classify", labels=("no", "yes"))
    tuned = build_task_model(make_discriminator(**options).encoder, head, seed=1)
    exaggerate(tuned.head)
    return tuned.eval()


def ask(network: nn.Module) -> Tensor:
    input_ids, segment_ids, is_pad = make_rows()
    positions = (torch.tensor([1, 5, 30]),) if isinstance(network, Generator) else ()
    with torch.inference_mode():
        answer: Tensor = network(input_ids, segment_ids, is_pad, *positions)
    # What is said of padding means nothing, and an idle layer may say something else.
    return answer.masked_fill(is_pad, 0.0) if answer.shape == is_pad.shape else answer


@torch.no_grad()
def silence(network: Discriminator | Generator | TaskModel, kept: list[PrunedLayer]) -> None:
    """The slow twin of pruning: what is not kept writes nothing."""
    size = network.config.head_size
    for layer in kept:
        block = network.encoder.layers[layer.index]
        assert isinstance(block, EncoderLayer)
        for head in set(range(network.config.num_heads)) - set(layer.heads):
            block.attention.output.weight[:, head * size : (head + 1) * size] = 0.0
        for neuron in set(range(network.config.feedforward_size)) - set(layer.neurons):
            block.feedforward.down.weight[:, neuron] = 0.0


@each_backbone
@pytest.mark.parametrize("make", [make_discriminator, make_tuned])
def test_pruned_is_the_whole_with_the_rest_silent(make: Callable[..., Discriminator], options: dict[str, Any]) -> None:
    whole = make(**options).double()
    pruned = prune(whole, KEPT)
    before = ask(whole)
    silence(whole, KEPT)
    torch.testing.assert_close(ask(pruned), ask(whole), atol=1e-6, rtol=1e-6)
    assert (before - ask(whole)).abs().max() > 1e-2
    assert sum(map(torch.numel, pruned.parameters())) < sum(map(torch.numel, whole.parameters()))


def test_a_generator_is_pruned_in_its_own_sizes() -> None:
    whole = make_generator(backbone="modern").double()
    kept = [PrunedLayer(at, (0,), (at, 2)) for at in range(2)] + [PrunedLayer(2, (0,), (0, 1, 2))]
    pruned = prune(whole, kept)
    silence(whole, kept)
    torch.testing.assert_close(ask(pruned), ask(whole), atol=1e-6, rtol=1e-6)


@each_backbone
def test_everything_kept_is_the_same_network_with_no_shapes(options: dict[str, Any]) -> None:
    whole = make_discriminator(**options)
    pruned = prune(whole, unpruned(whole.config))
    assert pruned.config == whole.config
    assert torch.equal(ask(pruned), ask(whole))


def test_discrepancies_are_weighed_by_the_heads_that_stay() -> None:
    whole = make_discriminator(backbone="electra", discrepancy_attention=True, adaptive_norm=True).double()
    pruned = prune(whole, KEPT)
    silence(whole, KEPT)
    torch.testing.assert_close(ask(pruned), ask(whole), atol=1e-6, rtol=1e-6)


def test_a_network_can_be_pruned_again() -> None:
    whole = make_discriminator(backbone="modern").double()
    twice = prune(
        prune(whole, KEPT), [PrunedLayer(0, (0, 2), (3, 0)), PrunedLayer(1, (0,), (0,)), PrunedLayer(2, (3,), (1,))]
    )
    silence(whole, [PrunedLayer(0, (0, 3), (5, 0)), PrunedLayer(1, (1,), (3,)), PrunedLayer(2, (3,), (2,))])
    torch.testing.assert_close(ask(twice), ask(whole), atol=1e-6, rtol=1e-6)


@each_backbone
def test_padding_gives_the_same_answers_from_layers_all_alike(options: dict[str, Any]) -> None:
    pruned = prune(make_discriminator(**options).double(), KEPT)
    padded = pad(pruned)
    assert padded.config == make_discriminator(**options).config
    torch.testing.assert_close(ask(padded), ask(pruned), atol=1e-6, rtol=1e-6)


def test_a_dropped_layer_of_electra_needs_no_padding() -> None:
    whole = make_discriminator(backbone="electra")
    everything = unpruned(whole.config)
    shallow = prune(whole, [everything[0], everything[2]])
    assert shallow.config == whole.config.model_copy(update={"num_layers": 2})
    assert pad(shallow) is shallow


def test_a_dropped_layer_comes_back_idle_where_others_would_lose_their_place() -> None:
    """Layers 0 and 3 are global, the others local: without 1 and 2 the layer 3 would be taken for a local one."""
    whole = make_discriminator(backbone="modern", num_layers=5, local_attention=6).double()
    everything = unpruned(whole.config)
    shallow = prune(whole, [everything[0], everything[3], everything[4]])
    padded = pad(shallow)
    assert [shape.is_local for shape in shallow.config.shapes] == [False, False, True]
    assert (shallow.config.num_layers, padded.config.num_layers) == (3, 5)
    assert padded.config.shapes == ()
    torch.testing.assert_close(ask(padded), ask(shallow), atol=1e-6, rtol=1e-6)


@each_backbone
def test_a_pruned_network_is_saved_and_loads_as_what_it_is(options: dict[str, Any], tmp_path: Path) -> None:
    judge, tuned = prune(make_discriminator(**options), KEPT), prune(make_tuned(**options), KEPT)
    for folder in ("judge", "tuned"):
        (tmp_path / folder).mkdir()
    save_network(tmp_path / "judge", judge, pad_id=0)
    save_network(tmp_path / "tuned", tuned, pad_id=0, cls_id=1, sep_id=2)
    loaded = load_network(tmp_path / "judge")
    assert loaded.config == judge.config
    assert torch.equal(ask(loaded), ask(judge))
    assert torch.equal(ask(load_task_model(tmp_path / "tuned")), ask(tuned))
    assert torch.equal(ask(load_any(tmp_path / "tuned")), ask(tuned))
    assert load_encoder(tmp_path / "tuned").config == tuned.config


def test_a_padded_network_is_a_folder_that_others_read(tmp_path: Path) -> None:
    padded = pad(prune(make_discriminator(backbone="modern"), KEPT))
    save_network(tmp_path, padded, pad_id=0)
    assert "electralab_network" not in (tmp_path / "config.json").read_text()
    torch.testing.assert_close(ask(load_network(tmp_path)), ask(padded), atol=1e-4, rtol=1e-4)


def make_config(**changes: Any) -> EncoderConfig:
    """Two heads of two, four neurons, one layer of which has lost half."""
    shapes = [{"num_heads": 2, "feedforward_size": 4}, {"num_heads": 1, "feedforward_size": 2}]
    sizes = {"vocab_size": 9, "sequence_length": 5, "embedding_size": 4, "hidden_size": 4, "num_layers": 2}
    more = {"num_heads": 2, "feedforward_size": 4, "dropout": 0, "attention_dropout": 0, "norm_eps": 1e-5}
    return EncoderConfig.model_validate({"backbone": "electra", **sizes, **more, "shapes": shapes, **changes})


def test_operations_are_those_of_the_layers_as_they_are() -> None:
    """One token of a row of five: 4·2·16 + 2·2·4·5 and 2·2·16, then of half the heads and neurons half of each."""
    whole = (4 * 2 * 16 + 2 * 2 * 4 * 5) + 2 * 2 * 16
    assert encoder_flops(make_config(), rows=1, length=5) == 5 * (whole + whole // 2)
    spared = whole // 2 - 3 * 2 * 4 * 2
    assert first_state_flops(make_config(), rows=1, length=5) == 5 * (whole + whole // 2) - 4 * spared


def test_operations_are_what_torch_counts() -> None:
    config = make_config()
    encoder = Encoder(config).eval()
    ids = torch.ones(2, 5, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        encoder(ids, torch.zeros_like(ids), None)
    assert counter.get_total_flops() == encoder_flops(config, rows=2, length=5)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"num_layers": 3}, "2 shapes for 3 layers"),
        ({"share_layers": True}, "share their weights"),
        ({"shapes": [{"num_heads": 1, "feedforward_size": 1, "is_local": True}] * 2}, "needs a window"),
        (
            {
                "backbone": "modern",
                "local_attention": 4,
                "global_every": 1,
                "shapes": [{"num_heads": 1, "feedforward_size": 1, "is_local": True}] * 2,
            },
            "needs a global_every of 2 or more",
        ),
        ({"shapes": [{"num_heads": 0, "feedforward_size": 1}] * 2}, "greater than 0"),
    ],
)
def test_shapes_that_no_network_has_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make_config(**changes)


def test_a_folder_whose_shapes_are_not_those_of_its_weights_is_refused(tmp_path: Path) -> None:
    save_network(tmp_path, prune(make_discriminator(backbone="electra"), KEPT), pad_id=0)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"feedforward_size": 4', '"feedforward_size": 5'))
    with pytest.raises(InputError, match="has the shape"):
        load_network(tmp_path)


def test_a_shape_says_only_what_can_differ() -> None:
    assert LayerShape(num_heads=1, feedforward_size=2).model_dump() == {
        "num_heads": 1,
        "feedforward_size": 2,
        "is_local": False,
    }
