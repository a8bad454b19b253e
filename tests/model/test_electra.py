"""The pair: sizes, sharing, depths."""

import copy
from typing import Any

import pytest
import torch
from networks import exaggerate, generator_of, make_pair, make_rows

from electralab.config import ConfigLayer, resolve
from electralab.errors import UsageError
from electralab.model.electra import Electra, build_electra, parameter_depths
from electralab.model.settings import SIZES, GeneratorConfig, ModelConfig, derive_encoders

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
        (
            "electra",
            "embeddings",
            {"tokens.weight", "positions.weight", "segments.weight", "norm.weight", "norm.bias"},
        ),
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
