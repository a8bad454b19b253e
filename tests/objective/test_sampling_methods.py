import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor
from toy import PROHIBITION, VOCAB

from electralab.objective import corruption
from electralab.objective.corruption import SamplingConfig, sample_ids, sampled_log_probs

ROW = torch.tensor([[9.0, 9.0, 9.0, 9.0, 9.0, *(math.log(p) for p in (0.4, 0.3, 0.15, 0.1, 0.05))]])


def shares(config: SamplingConfig, target: int = 5, progress: float = 0.0) -> list[float]:
    """How often each of the ids 5 to 9 is drawn when luck runs evenly from 0 to 1."""
    count = 2000
    luck = (torch.arange(count) + 0.5) / count
    targets = torch.full((count,), target)
    drawn = sample_ids(ROW.expand(count, VOCAB), luck, PROHIBITION, config, progress=progress, target_ids=targets)
    assert bool((drawn >= 5).all())
    return (torch.bincount(drawn, minlength=VOCAB)[5:] / count).tolist()


def test_top_k_draws_from_the_likeliest_only() -> None:
    assert shares(SamplingConfig(top_k=2)) == pytest.approx([4 / 7, 3 / 7, 0, 0, 0], abs=1e-3)


def test_top_k_beyond_the_vocabulary_changes_nothing() -> None:
    assert shares(SamplingConfig(top_k=99)) == shares(SamplingConfig())


def test_top_p_draws_from_the_fewest_that_reach_the_share() -> None:
    assert shares(SamplingConfig(top_p=0.6)) == pytest.approx([4 / 7, 3 / 7, 0, 0, 0], abs=1e-3)
    assert shares(SamplingConfig(top_p=0.75)) == pytest.approx([0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85, 0, 0], abs=1e-3)


def test_top_p_leaves_at_least_one() -> None:
    assert shares(SamplingConfig(top_p=0.01)) == [1, 0, 0, 0, 0]


def test_top_p_counts_only_what_top_k_has_left() -> None:
    # Of 0.4, 0.3, 0.15 the first two hold 82 %.
    config = SamplingConfig(top_k=3, top_p=0.8)
    assert shares(config) == pytest.approx([4 / 7, 3 / 7, 0, 0, 0], abs=1e-3)


def test_ids_that_are_equally_likely_are_kept_or_left_together() -> None:
    luck = torch.rand(500)
    for config in (SamplingConfig(top_k=2), SamplingConfig(top_p=0.1)):
        drawn = sample_ids(torch.zeros(500, VOCAB), luck, PROHIBITION, config)
        assert set(drawn.tolist()) == {5, 6, 7, 8, 9}


def test_argmax_takes_the_likeliest_allowed_id() -> None:
    assert shares(SamplingConfig(method="argmax")) == [1, 0, 0, 0, 0]


def test_the_original_can_be_ruled_out() -> None:
    config = SamplingConfig(allow_original=False)
    assert shares(config, target=5) == pytest.approx([0, 0.5, 0.25, 1 / 6, 1 / 12], abs=1e-3)
    assert shares(config, target=9)[4] == 0
    assert shares(SamplingConfig(method="argmax", allow_original=False)) == [0, 1, 0, 0, 0]
    assert shares(SamplingConfig(top_k=1, allow_original=False)) == [0, 1, 0, 0, 0]


def test_temperature_moves_linearly_over_the_run() -> None:
    config = SamplingConfig(temperature=2.0, final_temperature=0.5)
    assert [config.temperature_at(x) for x in (0.0, 0.5, 1.0)] == [2.0, 1.25, 0.5]
    assert SamplingConfig(temperature=0.7).temperature_at(0.3) == 0.7
    for progress in (0.0, 0.5, 1.0):
        fixed = SamplingConfig(temperature=config.temperature_at(progress))
        assert shares(config, progress=progress) == shares(fixed)
    assert shares(config, progress=1.0)[0] > shares(config, progress=0.0)[0]


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", 0.5), ("final_temperature", 0.5), ("top_k", 3), ("top_p", 0.9)]
)
def test_argmax_with_a_setting_it_would_ignore_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValidationError, match=f"method 'argmax' draws nothing that {name} could change"):
        SamplingConfig.model_validate({"method": "argmax", name: value})


def slow_shares(row: list[float], temperature: float, config: SamplingConfig, target: int) -> list[float]:
    """One row, one id after the other."""
    weights = [math.exp(logit / temperature) for logit in row]
    for index in range(VOCAB):
        if index < 5 or (index == target and not config.allow_original):
            weights[index] = 0.0
    order = sorted(range(VOCAB), key=lambda index: -weights[index])
    if config.top_k:
        for index in order[config.top_k :]:
            weights[index] = 0.0
    total, reached = sum(weights), 0.0
    for index in order:
        if reached >= config.top_p:
            weights[index] = 0.0
        reached += weights[index] / total
    return [weight / sum(weights) for weight in weights]


configs = st.builds(
    SamplingConfig,
    top_k=st.sampled_from([0, 1, 2, 3, 8]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.2]),
    allow_original=st.booleans(),
)


@given(configs, st.sampled_from([0.5, 1.0, 1.7]), st.integers(0, 2**31), st.sampled_from([2, 1024]))
def test_log_probabilities_are_those_of_the_slow_way(
    config: SamplingConfig, temperature: float, seed: int, head: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    guesses = torch.randn(6, VOCAB, generator=generator)
    targets = torch.randint(5, VOCAB, (6,), generator=generator)
    drawing = config.model_copy(update={"temperature": temperature})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corruption, "_HEAD", head)
        ids = sample_ids(guesses, torch.rand(6, generator=generator), PROHIBITION, drawing, target_ids=targets)
        found = sampled_log_probs(guesses, ids, PROHIBITION, temperature, config=config, target_ids=targets)
    for row in range(6):
        expected = slow_shares(guesses[row].tolist(), temperature, config, int(targets[row]))
        assert math.exp(found[row]) == pytest.approx(expected[int(ids[row])], rel=1e-4)
        assert expected[int(ids[row])] > 0


def test_draws_come_as_often_as_their_log_probability_says() -> None:
    config = SamplingConfig(temperature=1.5, top_p=0.9, allow_original=False)
    rows = ROW.expand(5, VOCAB)
    logs = sampled_log_probs(rows, torch.arange(5, 10), PROHIBITION, 1.5, config=config, target_ids=torch.full((5,), 6))
    assert shares(config, target=6) == pytest.approx(logs.exp().tolist(), abs=1e-3)


def test_log_probabilities_have_the_gradient_of_their_distribution() -> None:
    guesses = ROW.clone().requires_grad_()
    sampled_log_probs(guesses, torch.tensor([6]), PROHIBITION, 2.0).sum().backward()  # type: ignore[no-untyped-call]
    expected = torch.zeros(VOCAB)
    expected[5:] = -torch.softmax(ROW[0, 5:] / 2.0, dim=0) / 2.0
    expected[6] += 0.5
    assert guesses.grad is not None
    assert torch.allclose(guesses.grad[0], expected, atol=1e-6)


@pytest.mark.parametrize("config", [SamplingConfig(top_k=2), SamplingConfig(top_p=0.6)])
def test_what_cannot_be_drawn_gets_no_gradient(config: SamplingConfig) -> None:
    guesses = ROW.clone().requires_grad_()
    sampled_log_probs(guesses, torch.tensor([5]), PROHIBITION, config=config).sum().backward()  # type: ignore[no-untyped-call]
    assert guesses.grad is not None
    assert guesses.grad[0].tolist() == pytest.approx([0.0] * 5 + [3 / 7, -3 / 7, 0.0, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    "config",
    [SamplingConfig(), SamplingConfig(top_k=3), SamplingConfig(top_p=0.5), SamplingConfig(method="argmax")],
)
def test_guesses_that_are_not_numbers_still_give_ids(config: SamplingConfig) -> None:
    broken: Tensor = torch.full((3, VOCAB), torch.nan)
    drawn = sample_ids(broken, torch.rand(3), PROHIBITION, config)
    assert bool(((drawn >= 0) & (drawn < VOCAB)).all())


@pytest.mark.parametrize("head", [2, 1024])
def test_top_p_does_not_depend_on_how_the_rows_are_split(head: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corruption, "_HEAD", head)
    generator = torch.Generator().manual_seed(0)
    guesses, luck = torch.randn(70, VOCAB, generator=generator) * 2, torch.rand(70, generator=generator)
    config = SamplingConfig(top_p=0.8)
    alone = [sample_ids(guesses[i : i + 1], luck[i : i + 1], PROHIBITION, config) for i in range(70)]
    assert torch.equal(sample_ids(guesses, luck, PROHIBITION, config), torch.cat(alone))
