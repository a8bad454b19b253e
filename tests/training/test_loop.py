import math
import signal
from collections.abc import Callable, Iterable, Iterator

import pytest
import torch
from torch import Tensor, nn

from electralab.errors import Stopped
from electralab.stopping import StopSignal
from electralab.training.loop import LossScale, StepReport, TrainStep, train
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))

    def forward(self, x: float) -> Tensor:
        return (self.weight * x).sum()


def _optimizer(model: nn.Module, **settings: object) -> Optimizer:
    config = OptimizerConfig.model_validate({"weight_decay": 0.0, **settings})
    names = {name: 0 for name, _ in model.named_parameters()}
    return Optimizer(group_parameters(model.named_parameters(), names, frozenset(), config), config)


def _train(
    model: nn.Module,
    optimizer: Optimizer,
    parts: Callable[[int], Iterable[Tensor]],
    steps: int = 1,
    clip: float = 0.0,
    stop: StopSignal | None = None,
    scale: LossScale | None = None,
) -> Iterator[StepReport]:
    return train(
        TrainStep(model, optimizer, lambda step, _: parts(step)),
        lambda _: 1.0,
        steps=range(1, steps + 1),
        clip_norm=clip,
        scale=scale or LossScale(),
        stop=stop or StopSignal(),
    )


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    model = Line()
    optimizer = _optimizer(model)
    bad = iter([model(float("nan")), model(1.0)])
    reports = _train(model, optimizer, lambda _: [next(bad)], steps=2)
    first = next(reports)
    assert first.is_skipped
    assert model.weight.item() == 2.0
    assert all(not tensor.any() for tensor in optimizer.tensors().values())
    assert not next(reports).is_skipped
    assert model.weight.item() != 2.0


def test_an_infinite_gradient_is_caught_even_where_the_loss_is_finite() -> None:
    model = Line()
    nn.init.zeros_(model.weight)
    reports = list(_train(model, _optimizer(model), lambda _: [model.weight.abs().sqrt().sum()]))
    assert reports[0].loss == 0.0
    assert reports[0].is_skipped


def test_clipping_scales_the_gradient_to_the_norm() -> None:
    model = Line()
    report = next(_train(model, _optimizer(model), lambda _: [model(30.0)], clip=1.0))
    assert report.gradient_norm == pytest.approx(30.0)
    assert model.weight.grad is not None
    assert model.weight.grad.item() == pytest.approx(1.0)


def test_a_shared_table_counts_once_in_the_gradient_norm() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Embedding(1, 1)
            self.other = nn.Embedding(1, 1)
            self.other.weight = self.one.weight

    model = Twice()
    report = next(_train(model, _optimizer(model), lambda _: [3 * model.one.weight.sum()]))
    assert report.gradient_norm == pytest.approx(3.0)
    assert dict(report.gradient_norms) == {"one.weight": 3.0}


def test_each_parameter_has_its_norm_from_before_clipping() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.near, self.far, self.idle = (nn.Parameter(torch.ones(4)) for _ in range(3))

    model = Both()
    report = next(_train(model, _optimizer(model), lambda _: [3 * model.near.sum() + 4 * model.far.sum()], clip=1.0))
    assert dict(report.gradient_norms) == {"near": 6.0, "far": 8.0}
    assert report.gradient_norm == pytest.approx(10.0)


@pytest.mark.parametrize("is_backward", [False, True])
def test_a_signal_in_either_pass_abandons_the_step(is_backward: bool) -> None:
    model, stop = Line(), StopSignal()

    def parts(_: int) -> Iterator[Tensor]:
        loss = model(1.0) if is_backward else None
        stop.number = signal.SIGTERM
        yield model(1.0) if loss is None else loss

    with pytest.raises(Stopped) as caught:
        next(_train(model, _optimizer(model), parts, stop=stop))
    assert caught.value.status == 143
    assert model.weight.item() == 2.0


def test_a_scaled_loss_gives_the_same_update() -> None:
    plain, scaled = Line(), Line()
    next(_train(plain, _optimizer(plain), lambda _: [plain(3.0)]))
    report = next(
        _train(scaled, _optimizer(scaled), lambda _: [scaled(3.0)], scale=LossScale(1024.0, is_adaptive=True))
    )
    assert scaled.weight.item() == plain.weight.item()
    assert report.gradient_norm == pytest.approx(3.0)


def test_loss_scale_halves_after_an_overflow() -> None:
    scale = LossScale(1024.0, is_adaptive=True)
    scale.adapt(is_finite=False)
    assert scale.value == 512.0
    for _ in range(2000):
        scale.adapt(is_finite=True)
    assert scale.value == 1024.0


def test_hooks_are_gone_after_training() -> None:
    model, stop = Line(), StopSignal()
    list(_train(model, _optimizer(model), lambda _: [model(1.0)], stop=stop))
    stop.number = signal.SIGTERM
    assert math.isfinite(model(1.0).item())
