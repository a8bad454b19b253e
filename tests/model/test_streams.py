"""Tokens are guessed in turn: from those before, never from themselves or those after, through one encoder."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import exaggerate, make_pair, make_rows
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from electralab.model.attention import RotaryTable, Rotation
from electralab.model.electra import TwoStream, build_query_slots, parameter_depths
from electralab.model.encoder import Encoder, EncoderLayer, HiddenStates
from electralab.model.flops import two_stream_flops
from electralab.model.folders.folder import load_any, load_encoder, read_config, save_network
from electralab.model.weights import init_weights

KINDS: dict[str, dict[str, Any]] = {
    "electra": {"backbone": "electra", "embedding_size": 48},
    "modern": {"backbone": "modern", "embedding_size": 48},
    "modern, local": {"backbone": "modern", "local_attention": 8, "global_every": 2},
    "normalised": {"backbone": "modern", "qk_norm": True},
    "adaptive, shared": {"backbone": "modern", "adaptive_norm": True, "share_layers": True},
}


def make_streams(*, num_layers: int = 3, dropout: float = 0.0, **changes: Any) -> TwoStream:
    pair = make_pair("tiny", num_layers=num_layers, dropout=dropout, attention_dropout=dropout, **changes)
    streams = TwoStream(pair.discriminator.config)
    init_weights(streams, 1)
    exaggerate(streams)
    return streams.eval()


STREAMS = {name: make_streams(**changes) for name, changes in KINDS.items()}
every_kind = pytest.mark.parametrize("streams", STREAMS.values(), ids=STREAMS)


def make_turns(is_pad: Tensor, share: float = 0.4) -> Tensor:
    """Some tokens of each row, in an order of its own."""
    luck = torch.rand(is_pad.shape, generator=torch.Generator().manual_seed(5)).masked_fill(is_pad, 2.0)
    turns = luck.argsort(dim=1).argsort(dim=1) + 1
    return turns.masked_fill(luck > share, 0)


def find_asked(turns: Tensor) -> Tensor:
    return turns.flatten().nonzero().squeeze(1)


def look(
    layer: EncoderLayer, rotary: RotaryTable | None, state: Tensor, place: int, content: Tensor, seen: list[int]
) -> Tensor:
    """The layer's own way of one position alone: it stands in front of those it sees, and is not seen there."""
    rows = torch.cat([state[None], content[seen]])[None]
    places = torch.tensor([place, *seen])
    rotation = None if rotary is None else Rotation(rotary.cos[places], rotary.sin[places])
    is_visible = (torch.arange(len(rows[0])) > 0).expand(len(rows[0]), -1)
    moved: Tensor = layer(rows, rotation, is_visible)
    return moved[0, 0]


def list_earlier(turns: list[int], place: int, reach: int) -> list[int]:
    near = [other for other in range(len(turns)) if abs(other - place) <= reach]
    return [other for other in near if turns[other] == 0 or turns[other] < turns[place]]


def slow_guess(streams: TwoStream, ids: Tensor, segments: Tensor, turns: list[int], column: int) -> Tensor:
    """One query alone: every state of either stream is computed by itself, from a list of what it may see."""
    encoder, config = streams.encoder, streams.config
    embeddings = encoder.embeddings
    content = embeddings(ids[None], segments[None])[0]  # (T, D)
    blank = streams.blank.weight[0]
    if embeddings.positions is not None and embeddings.segments is not None:
        blank = blank + embeddings.positions.weight[column] + embeddings.segments.weight[segments[column]]
    project = torch.nn.Identity() if embeddings.projection is None else embeddings.projection
    query = embeddings.norm(project(blank)) if config.is_modern else project(embeddings.norm(blank))
    for layer in encoder.layers:
        assert isinstance(layer, EncoderLayer)
        rotary = encoder.local_rotary if layer.is_local else encoder.global_rotary
        reach = config.local_attention // 2 if layer.is_local else len(turns)
        query = look(layer, rotary, query, column, content, list_earlier(turns, column, reach))
        seen = [sorted({*list_earlier(turns, place, reach), place}) for place in range(len(turns))]
        content = torch.stack([look(layer, rotary, content[i], i, content, seen[i]) for i in range(len(turns))])
    guess: Tensor = streams.head(encoder.final_norm(query), embeddings)
    return guess


@every_kind
@torch.no_grad()
def test_guesses_are_those_of_one_query_at_a_time(streams: TwoStream) -> None:
    input_ids, segment_ids, is_pad = make_rows()
    turns = make_turns(is_pad)
    positions = find_asked(turns)
    guesses = streams(input_ids, segment_ids, is_pad, positions, turns)
    assert guesses.isfinite().all()
    for index, position in enumerate(positions.tolist()):
        row, column = divmod(position, input_ids.shape[1])
        real = ~is_pad[row]
        twin = slow_guess(streams, input_ids[row][real], segment_ids[row][real], turns[row][real].tolist(), column)
        assert torch.allclose(guesses[index], twin, atol=2e-3)


def slow_columns(row: list[int]) -> list[int]:
    return [column for column, asked in enumerate(row) if asked]


def test_queries_stand_where_tokens_are_asked_for_and_rows_with_fewer_have_some_to_spare() -> None:
    is_asked = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 0]])
    columns, slots = build_query_slots(is_asked)
    assert columns[0].tolist() == slow_columns(is_asked[0].tolist())
    assert columns[1, :1].tolist() == slow_columns(is_asked[1].tolist())
    assert slots.flatten()[[1, 3, 6]].tolist() == [0, 1, 2]


@st.composite
def orders(draw: st.DrawFn) -> list[int]:
    """The columns of a row, some of them, in some order."""
    columns = draw(st.permutations(range(10)))
    return list(columns[: draw(st.integers(2, 10))])


@every_kind
@given(order=orders(), changed=st.integers(0, 9), padding=st.integers(0, 3))
@settings(max_examples=25)
@torch.no_grad()
def test_a_token_changes_the_guesses_after_it_and_no_other(
    streams: TwoStream, order: list[int], changed: int, padding: int
) -> None:
    ids = torch.arange(10, 20 + padding)[None]
    is_pad = torch.arange(10 + padding)[None] >= 10
    turns = torch.zeros_like(ids)
    turns[0, order] = torch.arange(1, len(order) + 1)
    column = order[changed % len(order)]
    other = ids.clone()
    other[0, column] = 77
    before, after = (streams(one, torch.zeros_like(ids), is_pad, torch.tensor(order), turns) for one in (ids, other))
    place = order.index(column) + 1
    assert torch.allclose(before[:place], after[:place], atol=1e-4)
    assert all(not torch.allclose(one, two, atol=1e-3) for one, two in zip(before[place:], after[place:], strict=True))


@every_kind
@torch.no_grad()
def test_a_guess_depends_on_where_it_is_asked_for(streams: TwoStream) -> None:
    """Two neighbours with the same context: only their places differ."""
    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
    guesses = streams(ids, torch.zeros_like(ids), None, torch.tensor([2, 3]))
    assert not torch.allclose(guesses[0], guesses[1], atol=1e-2)


@every_kind
@torch.no_grad()
def test_without_turns_the_tokens_asked_for_are_seen_by_nobody(streams: TwoStream) -> None:
    input_ids, segment_ids, is_pad = make_rows()
    positions = torch.tensor([1, 2, 7, 24 + 3, 48 + 1])
    told = streams(input_ids, segment_ids, is_pad, positions)
    hidden = input_ids.flatten().index_fill(0, positions, 4).view_as(input_ids)
    assert torch.allclose(told, streams(hidden, segment_ids, is_pad, positions), atol=1e-4)
    alone = torch.zeros_like(input_ids).flatten().index_fill(0, positions[:1], 1).view_as(input_ids)
    assert not torch.allclose(told[0], streams(input_ids, segment_ids, is_pad, positions[:1], alone)[0], atol=1e-3)


@every_kind
@torch.no_grad()
def test_guesses_come_in_the_order_of_the_asking_and_padding_changes_none(streams: TwoStream) -> None:
    input_ids, segment_ids, is_pad = make_rows()
    turns = make_turns(is_pad)
    positions = find_asked(turns)
    guesses = streams(input_ids, segment_ids, is_pad, positions, turns)
    backwards = streams(input_ids, segment_ids, is_pad, positions.flip(0), turns)
    assert torch.equal(guesses, backwards.flip(0))
    littered = input_ids.masked_fill(is_pad, 55)
    assert torch.allclose(guesses, streams(littered, segment_ids, is_pad, positions, turns), atol=1e-4)


@every_kind
@torch.no_grad()
def test_with_everything_visible_the_content_stream_is_the_encoder(streams: TwoStream) -> None:
    input_ids, segment_ids, is_pad = make_rows()
    seen: HiddenStates = {}
    expected: HiddenStates = {}
    turns = torch.zeros_like(input_ids)
    streams(input_ids, segment_ids, is_pad, torch.tensor([1]), turns, seen)
    streams.encoder(input_ids, segment_ids, is_pad, expected)
    assert seen.keys() == expected.keys()
    for name, states in expected.items():
        assert torch.allclose(seen[name][~is_pad], states[~is_pad], atol=1e-5, rtol=1e-5), name


@torch.no_grad()
def test_a_trace_changes_no_guess() -> None:
    input_ids, segment_ids, is_pad = make_rows()
    turns = make_turns(is_pad)
    asked = (input_ids, segment_ids, is_pad, find_asked(turns), turns)
    assert torch.equal(STREAMS["modern"](*asked), STREAMS["modern"](*asked, {}))


def test_nothing_asked_is_nothing_guessed() -> None:
    input_ids, segment_ids, is_pad = make_rows()
    nothing = torch.empty(0, dtype=torch.long)
    assert STREAMS["electra"](input_ids, segment_ids, is_pad, nothing).shape == (0, 100)


@every_kind
def test_every_weight_learns(streams: TwoStream) -> None:
    """Local layers whose window holds nothing but later turns included."""
    input_ids, segment_ids, is_pad = make_rows()
    turns = make_turns(is_pad, 0.9)
    streams(input_ids, segment_ids, is_pad, find_asked(turns), turns).square().mean().backward()
    for name, parameter in streams.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name
    streams.zero_grad()


def test_the_encoder_begins_as_that_of_any_other_objective() -> None:
    config = STREAMS["modern"].config
    streams, encoder = TwoStream(config), Encoder(config)
    init_weights(torch.nn.ModuleDict({"encoder": streams.encoder}), 3)
    weights = {name: parameter.clone() for name, parameter in streams.encoder.named_parameters()}
    init_weights(torch.nn.ModuleDict({"encoder": encoder}), 3)
    assert all(torch.equal(weights[name], parameter) for name, parameter in encoder.named_parameters())
    init_weights(streams, 3)
    assert streams.blank.weight.std().item() == pytest.approx(config.init_std, rel=0.4)
    names = {name for name, _ in streams.named_parameters()} - {f"encoder.{name}" for name in weights}
    assert names == {"blank.weight", "head.dense.weight", "head.norm.weight", "head.bias"}
    depths = parameter_depths(streams)
    assert (depths["blank.weight"], depths["head.bias"]) == (0, config.num_layers + 1)


@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_folder_of_our_own_brings_both_streams_back_and_a_plain_encoder(backbone: str, tmp_path: Path) -> None:
    streams = make_streams(backbone=backbone, embedding_size=48)
    save_network(tmp_path, streams, pad_id=0, cls_id=2, sep_id=3, objective="permutation")
    config = read_config(tmp_path)
    assert config["electralab_objective"] == "permutation"
    assert config["electralab_network"]["class"] == "TwoStream"
    assert config["model_type"].startswith("electralab-")
    assert "architectures" not in config
    names = safetensors.torch.load_file(tmp_path / "model.safetensors").keys()
    assert names == {name for name, _ in streams.named_parameters()}
    input_ids, segment_ids, is_pad = make_rows()
    turns = make_turns(is_pad)
    asked = (input_ids, segment_ids, is_pad, find_asked(turns), turns)
    assert torch.equal(load_any(tmp_path)(*asked), streams(*asked))
    encoder = load_encoder(tmp_path)
    assert type(encoder) is Encoder
    assert not encoder.config.is_causal
    rows = (input_ids, segment_ids, is_pad)
    assert torch.equal(encoder(*rows), streams.encoder(*rows))


@pytest.mark.parametrize("changes", [*KINDS.values(), {"backbone": "electra", "embedding_size": 128}])
def test_torch_counts_the_operations_that_we_do(changes: dict[str, Any]) -> None:
    streams = make_streams(**changes)
    input_ids = torch.randint(100, (3, 24))
    turns = torch.zeros_like(input_ids)
    turns[:, 4:8] = torch.arange(1, 5)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        streams(input_ids, torch.zeros_like(input_ids), None, find_asked(turns), turns).sum().backward()
    streams.zero_grad()
    assert counter.get_total_flops() == pytest.approx(3 * two_stream_flops(streams.config, 3, 24, 12), rel=0.01)


def test_an_encoder_that_looks_at_both_sides_cannot_wait_its_turn() -> None:
    config = STREAMS["modern"].config
    for name in ("is_causal", "discrepancy_attention"):
        with pytest.raises(AssertionError):
            TwoStream(config.model_copy(update={name: True}))
