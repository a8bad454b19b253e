"""What may change what: padding, neighbours, segments, order."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import exaggerate, make_pair, make_rows
from torch import Tensor, nn

from electralab.model.attention import build_attention_mask
from electralab.model.electra import Discriminator, Electra, Generator, build_electra, parameter_depths
from electralab.model.encoder import AdaptiveNorm, DisentangledTable, Encoder, HiddenStates
from electralab.model.folders.folder import load_encoder, load_network, save_network
from electralab.model.settings import EncoderConfig, GeneratorConfig, ModelConfig
from electralab.model.weight_transfer import transfer_weights
from electralab.model.weights import init_weights
from electralab.training.optimizer import OptimizerConfig, group_parameters

BACKBONES = ["electra", "modern"]


def make_encoder(backbone: str, **changes: Any) -> Encoder:
    encoder = make_pair("tiny", backbone=backbone, **changes).discriminator.encoder
    exaggerate(encoder)
    return encoder.eval()


def encode(encoder: Encoder, input_ids: Tensor, is_pad: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        states: Tensor = encoder(input_ids, torch.zeros_like(input_ids), is_pad)
    return states


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("network", ["generator", "discriminator"])
def test_padding_changes_no_answer_of_either_network(backbone: str, network: str) -> None:
    """A missing padding mask in one of the two is a classic."""
    pair = make_pair("tiny", backbone=backbone)
    exaggerate(pair)
    encoder = getattr(pair.eval(), network).encoder
    input_ids = torch.tensor([[5, 6, 7, 8]])
    padded = torch.tensor([[5, 6, 7, 8, 0, 0, 0]])
    alone = encode(encoder, input_ids)
    assert torch.allclose(encode(encoder, padded, padded == 0)[:, :4], alone, atol=1e-5)
    assert not torch.allclose(encode(encoder, padded)[:, :4], alone, atol=1e-2)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_what_stands_in_the_padding_does_not_matter(backbone: str) -> None:
    encoder = make_encoder(backbone)
    is_pad = torch.tensor([[False, False, True, True]])
    first = encode(encoder, torch.tensor([[5, 6, 0, 0]]), is_pad)
    second = encode(encoder, torch.tensor([[5, 6, 41, 17]]), is_pad)
    assert torch.equal(first[:, :2], second[:, :2])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_no_padding_said_in_either_way_is_the_same(backbone: str) -> None:
    encoder = make_encoder(backbone)
    input_ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    masked = encode(encoder, input_ids, torch.zeros_like(input_ids, dtype=torch.bool))
    assert torch.allclose(masked, encode(encoder, input_ids), atol=1e-5)


@pytest.mark.parametrize(("backbone", "changes"), [("electra", {}), ("modern", {}), ("modern", {"local_attention": 2})])
def test_a_row_of_nothing_but_padding_is_finite_and_so_are_its_gradients(
    backbone: str, changes: dict[str, Any]
) -> None:
    encoder = make_encoder(backbone, **changes).train()
    is_pad = torch.tensor([[False, False, False, True, True, True], [True] * 6])
    states = encoder(torch.full((2, 6), 5), torch.zeros(2, 6, dtype=torch.long), is_pad)
    states.sum().backward()
    assert states.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_order_matters(backbone: str) -> None:
    encoder = make_encoder(backbone)
    forwards, backwards = (encode(encoder, torch.tensor([row])) for row in ([5, 6, 7, 8], [8, 7, 6, 5]))
    assert not torch.allclose(forwards, backwards.flip(1), atol=1e-2)


def test_segments_matter_on_electra_and_do_not_exist_on_modern() -> None:
    input_ids, segment_ids, is_pad = make_rows()
    for backbone in BACKBONES:
        encoder = make_encoder(backbone)
        first, second = (
            encoder(input_ids, segments, is_pad) for segments in (segment_ids, torch.zeros_like(input_ids))
        )
        assert torch.equal(first, second) == (backbone == "modern")


def test_rotary_positions_see_distances_only() -> None:
    """One layer without the padding's help: shifting a row inside itself shifts its states."""
    encoder = make_encoder("modern", num_layers=1)
    input_ids = torch.tensor([[0, 0, 0, 5, 6, 7]])
    shifted = torch.tensor([[5, 6, 7, 0, 0, 0]])
    first, second = encode(encoder, input_ids, input_ids == 0), encode(encoder, shifted, shifted == 0)
    assert torch.allclose(first[:, 3:], second[:, :3], atol=1e-4)


def test_a_local_layer_sees_half_a_window_to_each_side() -> None:
    is_visible = build_attention_mask(6, 4, None)
    assert is_visible is not None
    assert is_visible.int().tolist() == [
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0],
        [0, 1, 1, 1, 1, 1],
        [0, 0, 1, 1, 1, 1],
        [0, 0, 0, 1, 1, 1],
    ]


def test_where_all_see_all_no_mask_is_built() -> None:
    assert build_attention_mask(6, 0, None) is None
    assert build_attention_mask(3, 4, None) is None


def test_every_nth_layer_from_the_first_is_global() -> None:
    config = make_pair("tiny", num_layers=7, local_attention=8, global_every=3).discriminator.config
    assert [config.is_local(index) for index in range(7)] == [False, True, True, False, True, True, False]


def test_a_trace_holds_every_named_intermediate_and_the_answer_is_the_same() -> None:
    input_ids, segment_ids, is_pad = make_rows()
    encoder = make_encoder("modern")
    trace: HiddenStates = {}
    states = encoder(input_ids, segment_ids, is_pad, trace)
    assert list(trace) == ["embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "states"]
    assert trace["states"] is states
    assert torch.equal(states, encoder(input_ids, segment_ids, is_pad))


def test_a_row_longer_than_the_network_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="65 positions"):
        encode(make_encoder("modern"), torch.zeros(1, 65, dtype=torch.long))


def test_heads_that_do_not_divide_the_hidden_size_are_refused() -> None:
    good = make_pair("tiny").discriminator.config.model_dump()
    with pytest.raises(ValueError, match="hidden size of 128 does not divide into 3 heads"):
        EncoderConfig(**good | {"num_heads": 3})
    with pytest.raises(ValueError, match="even number of coordinates per head, not 1"):
        EncoderConfig(**good | {"num_heads": 128})


def test_dropout_acts_in_training_only() -> None:
    input_ids = torch.arange(20)[None]
    for backbone in BACKBONES:
        encoder = make_encoder(backbone, dropout=0.5)
        assert torch.equal(encode(encoder, input_ids), encode(encoder, input_ids))
        encoder.train()
        assert not torch.equal(encode(encoder, input_ids), encode(encoder, input_ids))


# -------------------- A causal network sees what came before: nothing later changes a state, and everything earl

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("electra", {}),
    ("modern", {}),
    ("modern", {"local_attention": 6, "global_every": 2}),
]


def make_causal(backbone: str, **changes: Any) -> EncoderConfig:
    values = make_pair("tiny", backbone=backbone, num_layers=3, **changes).discriminator.config.model_dump()
    return EncoderConfig(**values | {"is_causal": True})


def make_causal_encoder(config: EncoderConfig) -> Encoder:
    encoder = Encoder(config)
    init_weights(encoder, 1)
    exaggerate(encoder)
    return encoder.eval()


ENCODERS = [make_causal_encoder(make_causal(backbone, **changes)) for backbone, changes in KINDS]


@pytest.mark.parametrize("encoder", ENCODERS, ids=["electra", "modern", "modern, local"])
@given(row=st.lists(st.integers(1, 99), min_size=2, max_size=16), place=st.integers(0, 15), padding=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_token_changes_its_own_state_and_no_earlier_one(
    encoder: Encoder, row: list[int], place: int, padding: int
) -> None:
    place %= len(row)
    first = torch.tensor([row + padding * [0]])
    is_pad = torch.arange(first.shape[1])[None] >= len(row) if padding else None
    second = first.clone()
    second[0, place] = 1 + row[place] % 99
    before, after = encode(encoder, first, is_pad), encode(encoder, second, is_pad)
    assert torch.allclose(before[:, :place], after[:, :place], atol=1e-5)
    assert not torch.allclose(before[:, place], after[:, place], atol=1e-3)


@pytest.mark.parametrize("encoder", ENCODERS, ids=["electra", "modern", "modern, local"])
def test_a_prefix_alone_has_the_states_it_has_in_its_row(encoder: Encoder) -> None:
    row = torch.arange(1, 13)[None]
    for length in (1, 2, 5, 12):
        assert torch.allclose(encode(encoder, row[:, :length]), encode(encoder, row)[:, :length], atol=1e-4)


@pytest.mark.parametrize("encoder", ENCODERS, ids=["electra", "modern", "modern, local"])
def test_padding_at_the_end_changes_nothing(encoder: Encoder) -> None:
    row = torch.arange(1, 9)[None]
    padded = torch.cat([row, torch.zeros(1, 4, dtype=torch.long)], dim=1)
    assert torch.allclose(encode(encoder, padded, padded == 0)[:, :8], encode(encoder, row), atol=1e-4)


def test_a_causal_window_is_the_last_half_window_with_the_position_itself() -> None:
    is_visible = build_attention_mask(5, 4, None, is_causal=True)
    assert is_visible is not None
    assert is_visible.int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1],
    ]


def test_where_all_see_all_that_came_before_no_mask_is_built() -> None:
    assert build_attention_mask(6, 0, None, is_causal=True) is None
    assert build_attention_mask(2, 4, None, is_causal=True) is None
    assert build_attention_mask(6, 0, torch.zeros(1, 6, dtype=torch.bool), is_causal=True) is not None


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_window_is_where_the_row_is(is_causal: bool) -> None:
    is_visible = build_attention_mask(6, 4, None, is_causal, torch.device("meta"))
    assert is_visible is not None
    assert is_visible.is_meta


def test_a_causal_window_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves a position nothing to see"):
        make_causal("modern", local_attention=1)


def test_a_causal_generator_answers_from_the_position_before() -> None:
    generator = Generator(make_causal("modern")).eval()
    init_weights(generator, 1)
    exaggerate(generator)
    rows = torch.randint(1, 100, (2, 7), generator=torch.Generator().manual_seed(1))
    segments = torch.zeros_like(rows)
    guesses = generator(rows, segments, None, torch.tensor([3, 7 + 6]))
    states = generator.encoder(rows, segments, None)
    twin = torch.stack(
        [generator.head(states[row, column - 1], generator.encoder.embeddings) for row, column in [(0, 3), (1, 6)]]
    )
    assert torch.allclose(guesses, twin, atol=1e-5)
    assert not generator.reads_masked
    assert Generator(generator.config.model_copy(update={"is_causal": False})).reads_masked


def test_the_first_token_of_a_row_cannot_be_asked_for() -> None:
    generator = Generator(make_causal("modern"))
    init_weights(generator, 1)
    rows = torch.ones(2, 7, dtype=torch.long)
    with pytest.raises(AssertionError, match="nothing stands before"):
        generator(rows, rows, None, torch.tensor([3, 7]))


# -------------------- Layers that share their weights are copies of one layer that stay copies: in depth, in tra

ROWS = make_rows()
WINDOWS = {"local_attention": 8, "global_every": 2}
SHARED_KINDS = [{"backbone": "electra"}, {"backbone": "modern"} | WINDOWS]
each_kind = pytest.mark.parametrize("kind", SHARED_KINDS, ids=["electra", "modern"])


def make_shared(kind: dict[str, Any], num_layers: int = 3) -> Discriminator:
    pair = make_pair("tiny", share_layers=True, num_layers=num_layers, **kind)
    exaggerate(pair)
    return pair.discriminator.eval()


def unshare(encoder: Encoder) -> Encoder:
    """The slow twin: layers of their own, each with a copy of the weights."""
    twin = Encoder(encoder.config.model_copy(update={"share_layers": False}))
    for name, parameter in twin.named_parameters():
        part = name.split(".")
        if part[0] == "layers":
            part[1] = "1" if encoder.config.is_modern and part[2] == "attention_norm" else "0"
        parameter.data.copy_(encoder.get_parameter(".".join(part)))
    return twin.eval()


@each_kind
@torch.no_grad()
def test_a_shared_network_is_the_one_with_copies(kind: dict[str, Any]) -> None:
    encoder = make_shared(kind).encoder
    assert torch.equal(encoder(*ROWS), unshare(encoder)(*ROWS))


@each_kind
def test_the_gradient_is_the_sum_over_the_copies(kind: dict[str, Any]) -> None:
    encoder = make_shared(kind).encoder
    twin = unshare(encoder)
    for network in (encoder, twin):
        network(*ROWS).square().mean().backward()
    name = "feedforward.up.weight"
    copies = [layer.get_parameter(name).grad for layer in twin.layers]
    shared = encoder.layers[0].get_parameter(name).grad
    assert shared is not None
    expected = torch.zeros_like(shared)
    for one in copies:
        assert one is not None
        expected += one
    assert torch.allclose(shared, expected, rtol=1e-4, atol=1e-6)


@each_kind
def test_depth_adds_no_parameters(kind: dict[str, Any]) -> None:
    def count(num_layers: int) -> int:
        return sum(parameter.numel() for parameter in make_shared(kind, num_layers).parameters())

    assert count(2) == count(5)
    assert make_shared(kind, 1)(*ROWS).shape == (3, 24)


@each_kind
def test_every_weight_is_listed_once_and_stands_where_the_last_layer_does(kind: dict[str, Any]) -> None:
    pair = make_pair("tiny", share_layers=True, num_layers=3, **kind)
    depths = parameter_depths(pair)
    assert {depth for name, depth in depths.items() if ".layers." in name} == {3}
    groups = group_parameters(pair.named_parameters(), depths, frozenset(), OptimizerConfig())
    names = [name for group in groups for name, _ in group.parameters]
    assert sorted(names) == sorted(depths)


def test_both_networks_of_a_pair_share_their_layers_if_of_different_depths_too() -> None:
    model = ModelConfig(share_layers=True, num_layers=4, hidden_size=64, num_heads=2)
    pair = build_electra(model, GeneratorConfig(depth_share=0.5), vocab_size=50, sequence_length=16, seed=1)
    for network in (pair.discriminator, pair.generator):
        layers = {name.split(".")[2] for name, _ in network.named_parameters() if name.startswith("encoder.layers.")}
        assert layers == {"0"}


@each_kind
@torch.no_grad()
def test_a_folder_of_copies_is_read_as_shared_again(kind: dict[str, Any], tmp_path: Path) -> None:
    network = make_shared(kind)
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
    loaded = load_network(tmp_path)
    assert loaded.config.share_layers
    assert torch.allclose(loaded(*ROWS), network(*ROWS), rtol=1e-4, atol=1e-4)
    assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in network.named_parameters()]
    layers = load_encoder(tmp_path).layers
    assert layers[0].feedforward is layers[2].feedforward
    again = make_pair("tiny", share_layers=True, num_layers=3, **kind).discriminator.eval()
    transfer_weights(again, loaded, "here")
    assert torch.equal(again(*ROWS), loaded(*ROWS))


@each_kind
@torch.no_grad()
def test_copies_that_were_trained_apart_are_layers_of_their_own(kind: dict[str, Any], tmp_path: Path) -> None:
    network = make_shared(kind)
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
    path = tmp_path / "model.safetensors"
    tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
    changed = next(name for name in sorted(tensors) if ".2." in name)
    tensors[changed] = tensors[changed] * 2
    path.unlink()
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    loaded = load_network(tmp_path)
    assert not loaded.config.share_layers
    assert not torch.allclose(loaded(*ROWS), network(*ROWS), atol=1e-3)


# ------------------------------------------ Adaptive norms: a plain norm, plus a change for what looks replaced

each_backbone = pytest.mark.parametrize("backbone", ["electra", "modern"])


def norm_slowly(norm: AdaptiveNorm, state: Tensor) -> list[float]:
    """The slow twin: one token, coordinate by coordinate."""
    values = state.tolist()
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values) + norm.eps)
    normed = [(value - mean) / deviation for value in values]
    logit = sum(u * z for u, z in zip(norm.guess_weight.tolist(), normed, strict=True)) + float(norm.guess_bias)
    guess = 1 / (1 + math.exp(-logit))
    none = [0.0] * len(values)
    bias = none if norm.bias is None else norm.bias.tolist()
    bias_delta = none if norm.bias_delta is None else norm.bias_delta.tolist()
    return [
        z * (gamma + guess * delta) + beta + guess * change
        for z, gamma, delta, beta, change in zip(
            normed, norm.weight.tolist(), norm.weight_delta.tolist(), bias, bias_delta, strict=True
        )
    ]


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_a_norm_is_that_of_the_slow_twin(bias: bool) -> None:
    norm = AdaptiveNorm(6, eps=1e-5, bias=bias)
    exaggerate(norm)
    states = 3 + 2 * torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1))
    found = norm(states)
    for row in range(2):
        for column in range(4):
            expected = torch.tensor(norm_slowly(norm, states[row, column]))
            assert torch.allclose(found[row, column], expected, atol=1e-5)


def test_a_new_one_is_a_plain_norm_bit_for_bit() -> None:
    norm, plain = AdaptiveNorm(6, eps=1e-5, bias=True), nn.LayerNorm(6, eps=1e-5)
    init_weights(nn.ModuleDict({"norm": norm}), seed=1)
    states = torch.randn(2, 4, 6)
    assert torch.equal(norm(states), plain(states))


@each_backbone
@torch.no_grad()
def test_it_starts_as_plain_electra_bit_for_bit(backbone: str) -> None:
    plain = make_pair("tiny", backbone=backbone).discriminator.eval()
    other = make_pair("tiny", backbone=backbone, adaptive_norm=True).discriminator.eval()
    exaggerate(plain)
    for name, parameter in plain.named_parameters():
        other.get_parameter(name).copy_(parameter)
    verdicts = plain(*ROWS)
    assert torch.equal(other(*ROWS), verdicts)
    other.encoder.layers[1].get_parameter("feedforward_norm.weight_delta").fill_(1.0)
    assert not torch.allclose(other(*ROWS), verdicts, atol=0.01)


@each_backbone
def test_the_norms_of_the_layers_adapt_and_those_of_embeddings_and_heads_do_not(backbone: str) -> None:
    network = make_pair("tiny", backbone=backbone, adaptive_norm=True, num_layers=2).discriminator
    adaptive = {name for name, module in network.named_modules() if isinstance(module, AdaptiveNorm)}
    first, last = ("encoder.layers.0.attention_norm", "encoder.final_norm")
    expected = {f"encoder.layers.{index}.{norm}_norm" for index in (0, 1) for norm in ("attention", "feedforward")}
    assert adaptive == (expected - {first} | {last} if backbone == "modern" else expected)
    assert all(parameter.ndim == 1 for name, parameter in network.named_parameters() if "_norm." in name)


@each_backbone
def test_the_guess_learns_once_the_change_is_not_zero(backbone: str) -> None:
    network = make_pair("tiny", backbone=backbone, adaptive_norm=True, num_layers=2).discriminator
    name = "encoder.layers.1.feedforward_norm."
    network(*ROWS).square().sum().backward()
    first = network.get_parameter(f"{name}weight_delta").grad
    assert first is not None
    assert first.abs().max() > 0
    with torch.no_grad():
        network.get_parameter(f"{name}weight_delta").sub_(first)
    network.zero_grad()
    network(*ROWS).square().sum().backward()
    second = network.get_parameter(f"{name}guess_weight").grad
    assert second is not None
    assert second.abs().max() > 0


# -------------------- A disentangled table is the generator's plus a difference: the discriminator moves the dif

TABLE = "generator.encoder.embeddings.tokens.weight"
DELTA = "discriminator.encoder.embeddings.tokens.delta"
each_table = pytest.mark.parametrize(
    "kind", [{"backbone": "electra"}, {"embedding_size": 48}, {}], ids=["electra", "factorised", "modern"]
)


def make_disentangled(kind: dict[str, Any]) -> Electra:
    return make_pair("tiny", sharing="disentangled", num_layers=2, **kind).eval()


@each_table
def test_the_discriminators_loss_moves_the_difference_and_not_the_generators_table(kind: dict[str, Any]) -> None:
    pair = make_disentangled(kind)
    pair.discriminator(*ROWS).sum().backward()
    assert pair.get_parameter(TABLE).grad is None
    moved = pair.get_parameter(DELTA).grad
    assert moved is not None
    seen = set(ROWS[0].flatten().tolist())
    is_moved = moved.abs().sum(1) > 0
    assert {int(token) for token in is_moved.nonzero()} <= seen
    assert int(is_moved.sum()) > 20


@each_table
def test_the_generators_loss_moves_its_table_and_not_the_difference(kind: dict[str, Any]) -> None:
    pair = make_disentangled(kind)
    pair.generator(*ROWS, torch.arange(9)).square().sum().backward()
    assert pair.get_parameter(DELTA).grad is None
    assert pair.get_parameter(TABLE).grad is not None


@each_table
@torch.no_grad()
def test_it_starts_as_a_shared_table(kind: dict[str, Any]) -> None:
    pair, plain = make_disentangled(kind), make_pair("tiny", sharing="token", num_layers=2, **kind).eval()
    for name, parameter in plain.named_parameters():
        other = TABLE if name.endswith("embeddings.tokens.weight") else name
        parameter.copy_(pair.get_parameter(other))
    assert torch.equal(pair.discriminator(*ROWS), plain.discriminator(*ROWS))
    assert torch.equal(pair.generator(*ROWS, torch.arange(72)), plain.generator(*ROWS, torch.arange(72)))


@torch.no_grad()
def test_the_discriminator_follows_the_generators_table_and_keeps_its_difference() -> None:
    pair = make_disentangled({})
    exaggerate(pair)
    tokens = pair.discriminator.encoder.embeddings.tokens
    assert isinstance(tokens, DisentangledTable)
    expected = pair.get_parameter(TABLE) + pair.get_parameter(DELTA)
    assert torch.equal(tokens.weight, expected)
    assert torch.equal(tokens(ROWS[0]), expected[ROWS[0]])
    pair.get_parameter(TABLE).add_(1)
    assert torch.allclose(tokens.weight, expected + 1)


def test_each_parameter_is_listed_and_stepped_once() -> None:
    pair = make_disentangled({})
    names = [name for name, _ in pair.named_parameters()]
    assert [name for name in names if "embeddings.tokens" in name] == [DELTA, TABLE]
    depths = parameter_depths(pair)
    assert depths[DELTA] == depths[TABLE] == 0
    groups = group_parameters(pair.named_parameters(), depths, frozenset(), OptimizerConfig())
    assert sorted(name for group in groups for name, _ in group.parameters) == sorted(names)


@each_table
@torch.no_grad()
def test_named_parameters_are_the_whole_state(kind: dict[str, Any]) -> None:
    """As a checkpoint does: each parameter by its first name, into a pair built anew."""
    pair, again = make_disentangled(kind), make_disentangled(kind)
    exaggerate(pair)
    for name, parameter in again.named_parameters():
        parameter.copy_(pair.get_parameter(name))
    assert torch.equal(again.discriminator(*ROWS), pair.discriminator(*ROWS))


@torch.no_grad()
def test_a_copy_of_the_pair_follows_its_own_generator() -> None:
    pair = make_disentangled({})
    other = copy.deepcopy(pair)
    before = pair.discriminator(*ROWS)
    other.get_parameter(TABLE).add_(torch.randn(100, 128))
    assert torch.equal(pair.discriminator(*ROWS), before)
    assert not torch.allclose(other.discriminator(*ROWS), before)


@each_table
@torch.no_grad()
def test_a_folder_has_one_table_and_a_new_pair_can_start_from_it(kind: dict[str, Any], tmp_path: Path) -> None:
    pair = make_disentangled(kind)
    exaggerate(pair)
    save_network(tmp_path, pair.discriminator, pad_id=0, cls_id=2, sep_id=3)
    loaded = load_network(tmp_path)
    assert isinstance(loaded.encoder.embeddings.tokens, torch.nn.Embedding)
    expected = pair.discriminator(*ROWS)
    assert torch.allclose(loaded(*ROWS), expected, rtol=1e-4, atol=1e-4)
    fresh = make_disentangled(kind)
    lost = transfer_weights(fresh.discriminator, loaded, "here")
    assert lost < 1e-5
    assert torch.allclose(fresh.discriminator(*ROWS), expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_a_folder_of_our_own_has_one_table_too(tmp_path: Path) -> None:
    pair = make_disentangled({"adaptive_norm": True})
    exaggerate(pair)
    save_network(tmp_path, pair.discriminator, pad_id=0)
    assert torch.allclose(load_network(tmp_path)(*ROWS), pair.discriminator(*ROWS), rtol=1e-4, atol=1e-4)


def test_positions_segments_and_norm_are_each_networks_own() -> None:
    pair = make_disentangled({"backbone": "electra"})
    assert isinstance(pair.generator, Generator)
    ours, theirs = pair.generator.encoder.embeddings, pair.discriminator.encoder.embeddings
    assert ours.positions is not theirs.positions
    assert ours.segments is not theirs.segments
    assert ours.norm is not theirs.norm
