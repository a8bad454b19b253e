import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from electralab.training.optimizer import (
    Optimizer,
    OptimizerConfig,
    group_parameters,
    orthogonalise,
    orthogonalise_flops,
)


class Pair(nn.Module):
    """Two towers over one shared table: the table has two names and must have one update."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Embedding(6, 4)
        self.second = nn.Embedding(6, 4)
        self.second.weight = self.first.weight
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 1)


DEPTHS = {"first": 0, "layers.0": 1, "layers.1": 2, "norm": 3, "head": 3}


def _groups(model: Pair, **settings: object):  # type: ignore[no-untyped-def]
    config = OptimizerConfig.model_validate(settings)
    depths = {name: DEPTHS[name.rsplit(".", 1)[0]] for name, _ in model.named_parameters()}
    matrices = frozenset(f"layers.{i}.weight" for i in range(2))
    return group_parameters(model.named_parameters(), depths, matrices, config), config


def _rates(model: Pair, **settings: object) -> dict[str, float]:
    groups, _ = _groups(model, **settings)
    return {name: round(group.rate_factor, 4) for group in groups for name, _ in group.parameters}


def test_every_parameter_is_in_exactly_one_group() -> None:
    model = Pair()
    groups, _ = _groups(model)
    grouped = [id(parameter) for group in groups for _, parameter in group.parameters]
    assert sorted(grouped) == sorted({id(parameter) for parameter in model.parameters()})


def test_biases_and_norms_train_but_are_not_decayed() -> None:
    groups, _ = _groups(Pair(), weight_decay=0.1)
    decays = {name: group.weight_decay for group in groups for name, _ in group.parameters}
    assert {name for name, decay in decays.items() if decay == 0} == {
        "layers.0.bias",
        "layers.1.bias",
        "norm.weight",
        "norm.bias",
        "head.bias",
    }
    assert decays["first.weight"] == 0.1


def test_the_top_layer_gets_decay_once() -> None:
    rates = _rates(Pair(), layer_decay=0.5)
    assert rates["head.weight"] == 1.0
    assert rates["layers.1.weight"] == 0.5
    assert rates["layers.0.weight"] == 0.25
    assert rates["first.weight"] == 0.125


def test_the_released_off_by_one_is_an_option() -> None:
    rates = _rates(Pair(), layer_decay=0.5, layer_decay_as_released=True)
    assert rates["head.weight"] == 1.0
    assert rates["layers.1.weight"] == 0.25


def _step(model: Pair, **settings: object) -> None:
    groups, config = _groups(model, **settings)
    optimizer = Optimizer(groups, config)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    optimizer.set_rates(1.0)
    optimizer.step()


def test_the_shared_table_is_stepped_once() -> None:
    model = Pair()
    before = model.first.weight.detach().clone()
    _step(model, learning_rate=0.1, weight_decay=0.0, epsilon=1e-12)
    assert torch.allclose(before - model.first.weight, torch.full((6, 4), 0.1), atol=1e-5)
    assert model.first.weight is model.second.weight


def test_without_bias_correction_the_first_step_is_adam_of_the_raw_moments() -> None:
    model = Pair()
    before = model.head.bias.detach().clone()
    _step(model, learning_rate=0.1, beta1=0.9, beta2=0.999, epsilon=1e-6, bias_correction=False)
    m, v = 0.1 * 0.5, 0.001 * 0.25
    assert (before - model.head.bias).item() == pytest.approx(0.1 * m / (v**0.5 + 1e-6), rel=1e-4)


def test_weight_decay_is_decoupled() -> None:
    model = Pair()
    before = model.head.weight.detach().clone()
    _step(model, learning_rate=0.1, weight_decay=0.5, epsilon=1e-12)
    assert torch.allclose(model.head.weight, before * (1 - 0.1 * 0.5) - 0.1, atol=1e-5)


def test_muon_takes_the_layers_matrices_and_adamw_the_rest() -> None:
    groups, _ = _groups(Pair(), kind="muon")
    muon = {name for group in groups if group.method == "muon" for name, _ in group.parameters}
    assert muon == {"layers.0.weight", "layers.1.weight"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(8, 8), (24, 8), (8, 24)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(shape), 5, dtype).float())
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_muon_looks_ahead_along_the_newest_gradient() -> None:
    """Nesterov: the update is of the gradient mixed with the momentum it has just entered, not of the momentum alone.

    The first step cannot show it, for the momentum then has the gradient's direction.
    """
    model = Pair()
    groups, config = _groups(model, kind="muon", learning_rate=0.1, muon_learning_rate=0.1, weight_decay=0.0)
    optimizer = Optimizer(groups, config)
    optimizer.set_rates(1.0)
    weight = model.get_parameter("layers.0.weight")
    momentum, rng = torch.zeros(4, 4), torch.Generator().manual_seed(0)
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=rng)
        gradient, before = weight.grad, weight.detach().clone()
        assert gradient is not None
        momentum = 0.95 * momentum + 0.05 * gradient
        ahead = 0.95 * momentum + 0.05 * gradient
        optimizer.step()
        assert torch.allclose(before - weight, 0.1 * orthogonalise(ahead, 5), atol=1e-5)


def test_state_is_named_by_parameter_and_present_before_the_first_step() -> None:
    groups, config = _groups(Pair())
    names = Optimizer(groups, config).tensors()
    assert "exp_avg/first.weight" in names
    assert "exp_avg_sq/head.bias" in names


def test_a_group_of_its_own_rate_learns_by_it() -> None:
    model = Pair()
    config = OptimizerConfig(learning_rate=1e-2, weight_decay=0.0)
    depths = {name: 0 for name, _ in model.named_parameters()}
    groups = group_parameters(model.named_parameters(), depths, frozenset(), config, {"head.weight": 3.0})
    assert {name: group.rate_factor for group in groups for name, _ in group.parameters if group.rate_factor != 1} == {
        "head.weight": 3.0
    }
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = Optimizer(groups, config)
    optimizer.set_rates(1.0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    # Adam's first step is the rate itself, whatever the gradient.
    moved = {name: (before[name] - parameter).detach().mean().item() for name, parameter in model.named_parameters()}
    assert moved["head.weight"] == pytest.approx(3e-2, rel=1e-3)
    assert moved["head.bias"] == pytest.approx(1e-2, rel=1e-3)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
@pytest.mark.parametrize("iterations", [3, 5])
def test_products_of_muon_are_counted_as_torch_counts_them(shape: tuple[int, int], iterations: int) -> None:
    with FlopCounterMode(display=False) as counter:
        orthogonalise(torch.randn(shape), iterations)
    assert orthogonalise_flops(*shape, iterations) == counter.get_total_flops()


def test_a_running_average_stands_in_for_the_weights_and_gives_them_back() -> None:
    model = nn.Linear(1, 1, bias=False)
    config = OptimizerConfig(learning_rate=1.0, average_decay=0.5, weight_decay=0.0, beta1=0.0, beta2=0.0)
    nn.init.zeros_(model.weight)
    optimizer = Optimizer(group_parameters(model.named_parameters(), {"weight": 0}, frozenset(), config), config)
    optimizer.set_rates(1.0)
    expected, values = 0.0, []
    for step in range(1, 13):
        model.weight.grad = torch.full((1, 1), -1.0)
        optimizer.step()
        values.append(model.weight.item())
        keep = min(0.5, step / (step + 9))
        expected = keep * expected + (1 - keep) * values[-1]
    assert values[-1] == pytest.approx(12.0, rel=1e-4)  # Adam without memory moves by the rate
    with optimizer.averaged():
        assert model.weight.item() == pytest.approx(expected, rel=1e-5)
    assert model.weight.item() == values[-1]
    tensors = optimizer.tensors()
    assert tensors["average/weight"].item() == pytest.approx(expected, rel=1e-5)
    assert tensors["averaged_steps"].item() == 12


def test_without_averaging_nothing_is_kept_or_swapped() -> None:
    model = nn.Linear(1, 1)
    groups = group_parameters(model.named_parameters(), {"weight": 0, "bias": 0}, frozenset(), OptimizerConfig())
    optimizer = Optimizer(groups, OptimizerConfig())
    assert not any(name.startswith("average") for name in optimizer.tensors())
