"""Speed-up, loss and efficiency by hand; which point is picked; a clock is read when the device has done its work."""

import time

import pytest
import torch
from little_models import build_pair

from electralab.compression import tradeoff
from electralab.compression.tradeoff import compute_tradeoff, select_variant, time_networks
from electralab.records.compression import KeptParts, NoiseFloor, TradeoffPoint, VariantMeasurement


def measured(name: str, single: float, batch: float, score: float) -> VariantMeasurement:
    kept = KeptParts(layers=2, heads=4, neurons=64)
    times = {"1": single, "32": batch}
    return VariantMeasurement(name=name, bytes=100, parameters=10, milliseconds=times, score=score, kept=kept)


def make_points(batch: int = 1) -> list[TradeoffPoint]:
    """The baseline, one that is faster and a little worse, one much faster and much worse, one of no use."""
    return compute_tradeoff(
        [
            measured("fp32", 4.0, 80.0, 0.80),
            measured("near", 2.0, 50.0, 0.798),
            measured("fast", 1.0, 10.0, 0.75),
            measured("poor", 3.0, 90.0, 0.70),
        ],
        NoiseFloor(points=0.5, origin="over the seeds of the run"),
        batch,
    )


def test_speed_loss_and_efficiency_by_hand() -> None:
    _, near, fast, _ = make_points()
    assert (fast.speedup, fast.speedups) == (4.0, {"1": 4.0, "32": 8.0})
    assert fast.loss == pytest.approx(5.0)
    assert fast.efficiency == pytest.approx(4.0 / 5.0)
    assert not fast.is_floored
    assert near.loss == pytest.approx(0.2)


def test_a_loss_below_its_deviation_counts_as_the_deviation_and_is_marked() -> None:
    _, near, _, _ = make_points()
    assert near.is_floored
    assert near.efficiency == pytest.approx(2.0 / 0.5)


def test_a_variant_that_gains_is_floored_too() -> None:
    _, better = compute_tradeoff(
        [measured("fp32", 1, 1, 0.5), measured("better", 1, 1, 0.6)], NoiseFloor(points=0.5, origin=""), 1
    )
    assert better.loss == pytest.approx(-10.0)
    assert better.is_floored
    assert better.efficiency == pytest.approx(2.0)


def test_the_front_holds_what_nothing_else_beats() -> None:
    assert [point.name for point in make_points() if point.is_best] == ["fp32", "near", "fast"]


def test_two_that_are_equal_are_both_on_the_front() -> None:
    points = compute_tradeoff(
        [measured("fp32", 1, 1, 0.5), measured("bf16", 1, 1, 0.5)], NoiseFloor(points=0.5, origin=""), 1
    )
    assert [point.is_best for point in points] == [True, True]


@pytest.mark.parametrize(
    ("target", "limit", "name"),
    [
        (2.0, None, "near"),
        (2.5, None, "fast"),
        (None, 0.5, "near"),
        (None, 10.0, "fast"),
        (1.0, 10.0, "fp32"),
        (3.0, 6.0, "fast"),
        (3.0, 1.0, None),
        (9.0, None, None),
        (None, -1.0, None),
    ],
)
def test_the_best_that_is_fast_enough_or_the_fastest_that_is_good_enough(
    target: float | None, limit: float | None, name: str | None
) -> None:
    point = select_variant(make_points(), target, limit)
    assert (point.name if point else None) == name


def test_clocks_are_read_between_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def read_clock() -> float:
        calls.append("clock")
        return float(len(calls))

    network = build_pair().discriminator
    network.register_forward_pre_hook(lambda *_: calls.append("call"))
    ids = torch.ones(1, 3, dtype=torch.long)
    with monkeypatch.context() as patch:
        patch.setattr(tradeoff, "wait_for", lambda device: calls.append(f"wait for {device}"))
        patch.setattr(time, "perf_counter", read_clock)
        time_networks({"one": network}, {1: (ids, torch.zeros_like(ids), None)}, 1, lambda: None)
    assert calls[-5:] == ["wait for cpu", "clock", "call", "wait for cpu", "clock"]
