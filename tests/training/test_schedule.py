import pytest

from electralab.training.schedule import ScheduleConfig, learning_rate_factor


def _curve(total: int, **settings: object) -> list[float]:
    config = ScheduleConfig.model_validate({"warmup_share": 0.0, **settings})
    return [round(learning_rate_factor(step, total, config), 4) for step in range(1, total + 1)]


def test_linear_falls_in_equal_steps() -> None:
    assert _curve(4, kind="linear") == [1.0, 0.75, 0.5, 0.25]


def test_warm_up_is_multiplied_with_the_decay_not_joined_to_it() -> None:
    """At the second of four warm-up steps of ten: half of the rate that the decay leaves there, which is 0.9."""
    rising = [0.25 * 1.0, 0.5 * 0.9, 0.75 * 0.8, 1.0 * 0.7]
    curve = _curve(10, kind="linear", warmup_steps=4)
    assert curve == pytest.approx([*rising, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_stable_decay_holds_then_falls() -> None:
    assert _curve(10, kind="stable-decay", decay_share=0.3) == [1.0] * 8 + [0.6667, 0.3333]


def test_cosine_is_symmetric_about_its_middle() -> None:
    curve = _curve(8, kind="cosine")
    assert curve[4] == pytest.approx(0.5)
    assert curve[2] + curve[6] == pytest.approx(1, abs=1e-3)


def test_floor_is_where_decay_ends() -> None:
    assert _curve(1000, kind="linear", floor=0.1)[-1] == pytest.approx(0.1, abs=2e-3)


def test_constant_stays() -> None:
    assert _curve(3, kind="constant") == [1.0, 1.0, 1.0]
