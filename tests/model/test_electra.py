"""The pair: sizes, sharing, depths."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import exaggerate, generator_of, make_pair, make_rows
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from electralab.config import ConfigLayer, resolve
from electralab.errors import ElectraError, UsageError
from electralab.evaluation.blimp import choose_scoring
from electralab.model import electra
from electralab.model.attention import RotaryTable, Rotation
from electralab.model.electra import (
    CopyMLM,
    Electra,
    TwoStream,
    TwoTower,
    build_electra,
    build_query_slots,
    parameter_depths,
    reversed_positions,
)
from electralab.model.encoder import Encoder, EncoderLayer, HiddenStates
from electralab.model.flops import two_stream_flops
from electralab.model.folders.folder import load_any, load_encoder, load_network, read_config, save_network
from electralab.model.settings import SIZES, GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.weights import init_weights

ROWS = make_rows()


def count(pair: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in pair.parameters())


def resolve_size(size: str) -> tuple[ModelConfig, GeneratorConfig]:
    layers = SIZES[size]
    return (
        resolve(ModelConfig, [ConfigLayer(size, layers["model"])]),
        resolve(GeneratorConfig, [ConfigLayer(size, layers["generator"])]),
    )


@pytest.mark.parametrize(
    ("size", "hidden", "heads", "feedforward", "layers"),
    [("small", 64, 1, 256, 12), ("base", 256, 4, 1024, 12), ("large", 256, 4, 1024, 24), ("tiny", 64, 1, 192, 4)],
)
def test_generators_have_the_released_sizes(size: str, hidden: int, heads: int, feedforward: int, layers: int) -> None:
    generator, discriminator = derive_encoders(*resolve_size(size), vocab_size=30522, sequence_length=128)
    assert (generator.hidden_size, generator.num_heads) == (hidden, heads)
    assert (generator.feedforward_size, generator.num_layers) == (feedforward, layers)
    assert generator.embedding_size == discriminator.embedding_size


def test_small_has_the_published_number_of_parameters() -> None:
    """Fourteen million: the discriminator with its head, 512 positions."""
    model, generator = resolve_size("small")
    pair = build_electra(model, generator, vocab_size=30522, sequence_length=512, seed=0)
    assert count(pair.discriminator) == 13_549_057  # google/electra-small-discriminator


def test_guesses_are_those_of_the_asked_positions_in_their_order() -> None:
    generator = make_pair("tiny").generator.eval()
    everywhere = generator(*ROWS, torch.arange(3 * 24))
    asked = torch.tensor([50, 3, 24 + 7])
    assert torch.allclose(generator(*ROWS, asked), everywhere[asked], atol=1e-6)
    assert generator(*ROWS, asked).shape == (3, 100)


def test_verdicts_are_one_number_a_token() -> None:
    assert make_pair("tiny").discriminator(*ROWS).shape == (3, 24)


@pytest.mark.parametrize(
    ("backbone", "sharing", "shared"),
    [
        ("electra", "none", set()),
        ("electra", "token", {"tokens.weight"}),
        ("electra", "embeddings", {"tokens.weight", "positions.weight", "segments.weight", "norm.weight", "norm.bias"}),
        ("modern", "none", set()),
        ("modern", "token", {"tokens.weight"}),
        ("modern", "embeddings", {"tokens.weight"}),
    ],
)
def test_each_mode_shares_exactly_its_tables(backbone: str, sharing: str, shared: set[str]) -> None:
    pair = make_pair("tiny", backbone=backbone, sharing=sharing)
    ours = dict(generator_of(pair).encoder.named_parameters())
    theirs = dict(pair.discriminator.encoder.named_parameters())
    assert {name for name in ours if ours[name] is theirs.get(name)} == {f"embeddings.{name}" for name in shared}


def test_on_modern_networks_of_equal_width_share_the_norm_too() -> None:
    model = ModelConfig(**SIZES["tiny"]["model"])
    pair = build_electra(model, GeneratorConfig(width_share=1), vocab_size=50, sequence_length=8, seed=0)
    assert generator_of(pair).encoder.embeddings.norm is pair.discriminator.encoder.embeddings.norm
    assert generator_of(pair).encoder.layers[0] is not pair.discriminator.encoder.layers[0]


def test_sharing_everything_needs_equal_sizes() -> None:
    model = ModelConfig(**SIZES["tiny"]["model"], sharing="everything")
    with pytest.raises(UsageError, match="'everything' needs a generator of the discriminator's size"):
        derive_encoders(model, GeneratorConfig(), vocab_size=50, sequence_length=8)
    pair = build_electra(model, GeneratorConfig(width_share=1), vocab_size=50, sequence_length=8, seed=0)
    assert pair.generator.encoder is pair.discriminator.encoder
    assert parameter_depths(pair).keys() == dict(pair.named_parameters()).keys()


def guess_with_table_doubled(pair: Electra) -> tuple[torch.Tensor, torch.Tensor]:
    """Guesses before and after the discriminator's table is doubled in place, norms undoing it on the way in."""
    positions = torch.tensor([0])
    with torch.no_grad():
        before = pair.generator(*ROWS, positions)
        pair.discriminator.encoder.embeddings.tokens.weight.mul_(2)
        return before, pair.generator(*ROWS, positions)


@pytest.mark.parametrize("step", ["built", "copied", "loaded"])
def test_the_guess_head_reads_the_shared_table_itself(step: str) -> None:
    """Re-pointing embeddings after tying leaves an orphaned output table; ours follows whatever table there is."""
    pair = make_pair("tiny").eval()
    if step == "copied":
        pair = copy.deepcopy(pair)
    if step == "loaded":
        pair.load_state_dict({name: tensor.clone() for name, tensor in pair.state_dict().items()})
    table = pair.discriminator.encoder.embeddings.tokens.weight
    assert generator_of(pair).encoder.embeddings.tokens.weight is table
    assert not any(
        "tokens" not in name and parameter.shape == table.shape for name, parameter in pair.named_parameters()
    )
    before, after = guess_with_table_doubled(pair)
    assert torch.allclose(after, 2 * before, rtol=0.02, atol=1e-3)


def test_both_networks_teach_the_shared_table() -> None:
    pair = make_pair("tiny")
    table = pair.discriminator.encoder.embeddings.tokens.weight
    gradients = []
    for answer in (pair.generator(*ROWS, torch.tensor([1, 2])), pair.discriminator(*ROWS)):
        pair.zero_grad()
        answer.square().sum().backward()
        assert table.grad is not None
        gradients.append(table.grad.clone())
    pair.zero_grad()
    (pair.generator(*ROWS, torch.tensor([1, 2])).square().sum() + pair.discriminator(*ROWS).square().sum()).backward()
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    assert table.grad is not None
    assert torch.allclose(table.grad, gradients[0] + gradients[1], atol=1e-4)


def test_a_shared_parameter_is_named_once_so_that_it_is_stepped_once() -> None:
    pair = make_pair("small")
    parameters = list(pair.named_parameters())
    assert len({id(parameter) for _, parameter in parameters}) == len(parameters)
    assert [name for name, _ in parameters if "tokens" in name] == ["discriminator.encoder.embeddings.tokens.weight"]
    assert "generator.encoder.embeddings.tokens.weight" in pair.state_dict()


def test_every_parameter_receives_a_gradient() -> None:
    for size in ("tiny", "small"):
        pair = make_pair(size)
        exaggerate(pair)
        (
            pair.generator(*ROWS, torch.tensor([1, 30])).square().sum() + pair.discriminator(*ROWS).square().sum()
        ).backward()
        silent = [
            name for name, parameter in pair.named_parameters() if parameter.grad is None or not parameter.grad.any()
        ]
        assert silent == []


def test_depths_rise_from_the_embeddings_to_the_head() -> None:
    depths = parameter_depths(make_pair("tiny").discriminator)
    assert depths["encoder.embeddings.tokens.weight"] == 0
    assert [depths[f"encoder.layers.{index}.attention.qkv.weight"] for index in range(4)] == [1, 2, 3, 4]
    assert depths["encoder.final_norm.weight"] == 4
    assert depths["head.verdict.bias"] == 5


def test_heads_of_a_pair_stand_level_though_one_network_is_shallower() -> None:
    model = ModelConfig(**SIZES["tiny"]["model"])
    pair = build_electra(model, GeneratorConfig(depth_share=0.5), vocab_size=50, sequence_length=8, seed=0)
    depths = parameter_depths(pair)
    assert depths.keys() == dict(pair.named_parameters()).keys()
    assert depths["discriminator.head.verdict.weight"] == depths["generator.head.bias"] == 5
    assert depths["generator.encoder.layers.1.feedforward.up.weight"] == 4
    assert depths["discriminator.encoder.embeddings.tokens.weight"] == 0


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num_heads": 3}, "hidden_size 256 does not divide into 3 heads"),
        ({"local_attention": 16}, "local_attention belongs to the modern backbone"),
        ({"zero_init_outputs": True}, "zero_init_outputs belongs to the modern backbone"),
        ({"gated_feedforward": False}, "gated_feedforward belongs to the modern backbone"),
        ({"own_head_projection": True}, "own_head_projection belongs to the modern backbone"),
        ({"backbone": "modern", "verdict_head": "linear"}, "leave verdict_head at 'dense'"),
        ({"dropout": 1.0}, "dropout: input should be less than 1"),
        ({"hidden_sise": 8}, "did you mean 'hidden_size'?"),
    ],
)
def test_wrong_settings_are_one_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(ModelConfig, [ConfigLayer("run.toml", values)])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_generator_heads_that_do_not_fit_are_one_sentence() -> None:
    with pytest.raises(UsageError, match="hidden size of 64 does not divide into 5 heads"):
        derive_encoders(ModelConfig(), GeneratorConfig(num_heads=5), vocab_size=50, sequence_length=8)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.4, 1 / 3, 0.9])
def test_any_share_gives_a_generator_that_can_be_built(share: float) -> None:
    for size in ("tiny", "base"):
        model, _ = resolve_size(size)
        guessing, _ = derive_encoders(model, GeneratorConfig(width_share=share), vocab_size=50, sequence_length=8)
        assert abs(guessing.hidden_size - share * model.hidden_size) <= 1  # the nearest even number
        assert guessing.hidden_size % (2 * guessing.num_heads) == 0


def test_a_generator_of_lower_layers_is_the_discriminators_bottom() -> None:
    sizes = ModelConfig(**(SIZES["tiny"]["model"] | {"sharing": "lower-layers"}))
    halves = GeneratorConfig(width_share=1.0, depth_share=0.5)
    pair = build_electra(sizes, halves, vocab_size=50, sequence_length=16, seed=1)
    generator, judge = generator_of(pair).encoder, pair.discriminator.encoder
    assert generator.embeddings is judge.embeddings
    assert [layer is other for layer, other in zip(generator.layers, judge.layers, strict=False)] == [True, True]
    own = {name for name, _ in pair.named_parameters() if name.startswith("generator.")}
    assert own == {
        "generator.encoder.final_norm.weight",
        "generator.head.bias",
        "generator.head.dense.weight",
        "generator.head.norm.weight",
    }


def test_lower_layers_of_another_width_are_refused() -> None:
    sizes = ModelConfig(**(SIZES["tiny"]["model"] | {"sharing": "lower-layers"}))
    with pytest.raises(UsageError, match=r"^model.sharing: 'lower-layers' .+ set generator.width_share to 1 and"):
        build_electra(sizes, GeneratorConfig(width_share=0.5), vocab_size=50, sequence_length=16, seed=1)


@torch.no_grad()
def test_a_head_that_adds_cls_reads_the_sum_of_both_states() -> None:
    pair = make_pair("tiny", verdict_adds_cls=True)
    exaggerate(pair)
    judge, rows = pair.discriminator.eval(), make_rows()
    states = judge.encoder(*rows)
    assert judge.head.dense is not None
    assert judge.head.norm is not None
    hidden = judge.head.norm(torch.nn.functional.gelu(judge.head.dense(states + states[:, 0][:, None])))
    assert torch.allclose(judge(*rows), judge.head.verdict(hidden).squeeze(-1))


# -------------------- The copy mechanism: a mixture of what stands there and a guess, in logarithms, against pro

IS_TOKEN = (~ROWS[2]).flatten().nonzero().squeeze(1)
backbones = pytest.mark.parametrize("backbone", ["electra", "modern"])


def make_copying(backbone: str = "modern") -> CopyMLM:
    network = CopyMLM(make_pair("tiny", backbone=backbone, num_layers=2, embedding_size=48).discriminator.config)
    init_weights(network, 1)
    exaggerate(network)
    return network.eval()


def slow_probability(network: CopyMLM, state: torch.Tensor, seen: int, wanted: int) -> float:
    keep = 1 / (1 + math.exp(-float(network.gate(state))))
    scores = [math.exp(float(score)) for score in network.head(state[None], network.encoder.embeddings)[0].double()]
    return keep * (seen == wanted) + (1 - keep) * scores[wanted] / sum(scores)


@backbones
@torch.no_grad()
def test_a_token_is_what_stands_there_or_what_is_guessed(backbone: str) -> None:
    network = make_copying(backbone)
    ids, segments, is_pad = ROWS
    states = network.encoder(ids, segments, is_pad).flatten(0, 1)
    positions = torch.tensor([0, 3, 25, 30, 49])
    log_probs = network(ids, segments, is_pad, positions)
    for place, log_prob in zip(positions.tolist(), log_probs, strict=True):
        seen = int(ids.flatten()[place])
        expected = [slow_probability(network, states[place], seen, token) for token in range(100)]
        assert log_prob.exp().tolist() == pytest.approx(expected, rel=1e-4, abs=1e-9)
        assert sum(expected) == pytest.approx(1)


@backbones
@torch.no_grad()
def test_the_chance_of_targets_alone_is_that_among_all_tokens(backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_copying(backbone)
    targets = ROWS[0].flatten()[IS_TOKEN].clone()
    targets[::3] = 7  # not what stands there
    everything = network(*ROWS, IS_TOKEN).gather(1, targets[:, None]).squeeze(1)
    for chunk in (1, 5, 1024):
        monkeypatch.setattr(electra, "_CHUNK", chunk)
        alone = network.log_probs(network.encoder(*ROWS), ROWS[0], IS_TOKEN, targets)
        assert torch.allclose(alone, everything, rtol=1e-5, atol=1e-6)


def test_chunks_do_not_change_what_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_copying()
    targets = ROWS[0].flatten()[IS_TOKEN].roll(1)
    gradients = []
    for chunk in (5, 1024):
        monkeypatch.setattr(electra, "_CHUNK", chunk)
        network.zero_grad()
        network.log_probs(network.encoder(*ROWS), ROWS[0], IS_TOKEN, targets).mean().backward()  # type: ignore[no-untyped-call]
        gradients.append([parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5)


@settings(deadline=None, max_examples=15)
@given(gate=st.sampled_from([-1e4, -200.0, 0.0, 200.0, 1e4]), score=st.sampled_from([-1e4, 0.0, 1e4]))
def test_no_certainty_is_so_great_that_numbers_are_lost(gate: float, score: float) -> None:
    """A gate that is sure, and a guess that is sure, of the right token or of another."""
    network = make_copying()
    with torch.no_grad():
        network.gate.bias.fill_(gate)
        network.head.bias[9] = score
    targets = ROWS[0].flatten()[IS_TOKEN].clone()
    targets[:4] = 9
    log_probs = network.log_probs(network.encoder(*ROWS), ROWS[0], IS_TOKEN, targets)
    log_probs.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(log_probs).all()
    assert all(torch.isfinite(one.grad).all() for one in network.parameters() if one.grad is not None)


@backbones
@torch.no_grad()
def test_the_folder_is_our_own_and_comes_back_bit_for_bit(backbone: str, tmp_path: Path) -> None:
    network = make_copying(backbone)
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3, objective="all-tokens-mlm")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"].startswith("electralab-")
    assert config["electralab_objective"] == "all-tokens-mlm"
    loaded = load_any(tmp_path)
    assert isinstance(loaded, CopyMLM)
    assert torch.equal(loaded(*ROWS, IS_TOKEN), network(*ROWS, IS_TOKEN))
    assert torch.equal(load_encoder(tmp_path)(*ROWS), network.encoder(*ROWS))
    with pytest.raises(ElectraError, match="holds a copying; give a generator or a discriminator"):
        load_network(tmp_path)


def test_it_is_asked_about_the_row_as_it_is() -> None:
    assert choose_scoring(make_copying(), "all-tokens-mlm") == "unmasked"


# --------------------------------------------------- Two towers see everything but the token they are asked for

KINDS: list[dict[str, Any]] = [
    {"backbone": "electra", "embedding_size": 48},
    {"backbone": "modern", "embedding_size": 48},
    {"backbone": "modern", "local_attention": 8, "global_every": 2},
]


def make_towers(**changes: Any) -> TwoTower:
    towers = TwoTower(generator_of(make_pair("tiny", num_layers=2, **changes)).config)
    init_weights(towers, 1)
    exaggerate(towers)
    return towers.eval()


TOWERS = [make_towers(**changes) for changes in KINDS]
every_kind = pytest.mark.parametrize("towers", TOWERS, ids=["electra", "modern", "modern, local"])


@torch.no_grad()
def guess(towers: TwoTower, row: list[int], padding: int = 0) -> Tensor:
    """(T, V), padding left out"""
    input_ids = torch.tensor([row + padding * [0]])
    is_pad = torch.arange(input_ids.shape[1])[None] >= len(row) if padding else None
    guesses: Tensor = towers(input_ids, torch.zeros_like(input_ids), is_pad, torch.arange(len(row)))
    return guesses


@every_kind
@given(row=st.lists(st.integers(1, 99), min_size=3, max_size=12), place=st.integers(0, 11), padding=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_token_changes_the_guess_at_every_place_but_its_own(
    towers: TwoTower, row: list[int], place: int, padding: int
) -> None:
    place %= len(row)
    other = [*row[:place], 1 + row[place] % 99, *row[place + 1 :]]
    before, after = guess(towers, row, padding), guess(towers, other, padding)
    assert torch.allclose(before[place], after[place], atol=1e-4)
    for neighbour in {place - 1, place + 1} & set(range(len(row))):
        assert not torch.allclose(before[neighbour], after[neighbour], atol=1e-2)


@every_kind
def test_the_left_tower_does_not_see_the_right(towers: TwoTower) -> None:
    row, other = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[5, 6, 7, 9]])
    states = [towers.left(ids, torch.zeros_like(ids), None) for ids in (row, other)]
    assert torch.allclose(states[0][:, :3], states[1][:, :3], atol=1e-5)
    assert not torch.allclose(states[0][:, 3], states[1][:, 3], atol=1e-2)


@every_kind
@torch.no_grad()
def test_the_guess_is_the_join_of_two_readings_of_each_row_alone(towers: TwoTower) -> None:
    input_ids, segment_ids, is_pad = make_rows()
    rows, columns = (~is_pad).nonzero().unbind(dim=1)
    guesses = towers(input_ids, segment_ids, is_pad, rows * input_ids.shape[1] + columns)
    for index, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        ids, segments = input_ids[row][~is_pad[row]][None], segment_ids[row][~is_pad[row]][None]
        nothing = torch.zeros(towers.config.hidden_size)
        before = towers.left(ids, segments, None)[0, column - 1] if column else nothing
        is_last = column == ids.shape[1] - 1
        after = nothing if is_last else towers.right(ids.flip(1), segments.flip(1), None).flip(1)[0, column + 1]
        twin = towers.head(towers.join(torch.cat([before, after])), towers.left.embeddings)
        assert torch.allclose(guesses[index], twin, atol=1e-3)


def test_a_mirror_leaves_the_padding_where_it_is_and_undoes_itself() -> None:
    is_pad = torch.tensor([[False, False, False, True, True], [False] * 5])
    mirror = reversed_positions(torch.zeros(2, 5, dtype=torch.long), is_pad)
    assert mirror.tolist() == [[2, 1, 0, 4, 3], [4, 3, 2, 1, 0]]
    assert mirror.gather(1, mirror).tolist() == [[0, 1, 2, 3, 4]] * 2


@every_kind
def test_one_token_table_serves_both_towers_and_the_guess(towers: TwoTower) -> None:
    assert towers.left.embeddings.tokens is towers.right.embeddings.tokens
    assert sum("tokens" in name for name, _ in towers.named_parameters()) == 1
    assert not towers.reads_masked


# -------------------- Tokens are guessed in turn: from those before, never from themselves or those after, throu

STREAM_KINDS: dict[str, dict[str, Any]] = {
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


STREAMS = {name: make_streams(**changes) for name, changes in STREAM_KINDS.items()}
every_stream = pytest.mark.parametrize("streams", STREAMS.values(), ids=STREAMS)


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


@every_stream
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


@every_stream
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


@every_stream
@torch.no_grad()
def test_a_guess_depends_on_where_it_is_asked_for(streams: TwoStream) -> None:
    """Two neighbours with the same context: only their places differ."""
    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
    guesses = streams(ids, torch.zeros_like(ids), None, torch.tensor([2, 3]))
    assert not torch.allclose(guesses[0], guesses[1], atol=1e-2)


@every_stream
@torch.no_grad()
def test_without_turns_the_tokens_asked_for_are_seen_by_nobody(streams: TwoStream) -> None:
    input_ids, segment_ids, is_pad = make_rows()
    positions = torch.tensor([1, 2, 7, 24 + 3, 48 + 1])
    told = streams(input_ids, segment_ids, is_pad, positions)
    hidden = input_ids.flatten().index_fill(0, positions, 4).view_as(input_ids)
    assert torch.allclose(told, streams(hidden, segment_ids, is_pad, positions), atol=1e-4)
    alone = torch.zeros_like(input_ids).flatten().index_fill(0, positions[:1], 1).view_as(input_ids)
    assert not torch.allclose(told[0], streams(input_ids, segment_ids, is_pad, positions[:1], alone)[0], atol=1e-3)


@every_stream
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


@every_stream
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


@every_stream
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
    config: dict[str, Any] = read_config(tmp_path)
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


@pytest.mark.parametrize("changes", [*STREAM_KINDS.values(), {"backbone": "electra", "embedding_size": 128}])
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
