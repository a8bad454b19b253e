"""Two segments per row: which pairs are wrong, and what a network could learn from their lengths."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor
from toy import PROHIBITION, VOCAB, VOCABULARY, full_rows

from electralab.objective import corruption
from electralab.objective.corruption import SamplingConfig, corrupt, sample_ids, sampled_log_probs
from electralab.objective.masking import MaskingConfig, mask_tokens
from electralab.randomness import Rng


def test_samples_follow_the_softmax_of_the_allowed_ids() -> None:
    logits = torch.tensor([9.0, 9.0, 9.0, 9.0, 9.0, 0.0, 1.0, 2.0, 3.0, -1.0])
    uniforms = (torch.arange(40_000) + 0.5) / 40_000
    drawn = sample_ids(logits.expand(40_000, VOCAB), uniforms, PROHIBITION, SamplingConfig())
    expected = torch.softmax(logits[5:], dim=0)
    assert torch.allclose(torch.bincount(drawn, minlength=VOCAB)[5:] / 40_000, expected, atol=1e-3)


def test_sampling_is_not_argmax() -> None:
    drawn = sample_ids(torch.zeros(1000, VOCAB), torch.rand(1000), PROHIBITION, SamplingConfig())
    assert len(set(drawn.tolist())) == 5


@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.5, 0.99999994, 1.0]))
def test_special_and_padding_ids_are_never_sampled_however_likely(seed: int, luck: float) -> None:
    torch.manual_seed(seed)
    logits = torch.randn(16, VOCAB) * 20
    logits[:, :5] += 60
    logits[:, 9] -= 200  # the last allowed id has probability 0: rounding must not land there either
    drawn = sample_ids(logits, torch.full((16,), luck), PROHIBITION, SamplingConfig())
    assert bool(((drawn >= 5) & (drawn <= 9)).all())


def test_padded_vocabulary_entries_are_never_sampled() -> None:
    padded = torch.cat([PROHIBITION, torch.full((6,), -torch.inf)])
    logits = torch.zeros(500, 16)
    logits[:, 10:] = 50
    drawn = sample_ids(logits, torch.rand(500), padded, SamplingConfig())
    assert bool((drawn < 10).all())


def test_sampling_happens_in_float32_whatever_the_guesses_are() -> None:
    # 3000 equally likely ids: bfloat16 has 8 bits, its running sum would stand still long before the end.
    guesses = torch.zeros(4000, 3000, dtype=torch.bfloat16)
    uniforms = (torch.arange(4000) + 0.5) / 4000
    drawn = sample_ids(guesses, uniforms, torch.zeros(3000), SamplingConfig())
    assert len(set(drawn.tolist())) > 2900


def test_low_temperature_sharpens() -> None:
    logits = torch.tensor([[0.0] * 5 + [1.0, 2.0, 0.0, 0.0, 0.0]]).expand(500, VOCAB)
    cold = sample_ids(logits, torch.rand(500), PROHIBITION, SamplingConfig(temperature=0.05))
    assert (cold == 6).all()


def test_no_gradient_flows_through_sampling() -> None:
    guesses = torch.randn(4, VOCAB, requires_grad=True)
    assert not sample_ids(guesses, torch.rand(4), PROHIBITION, SamplingConfig()).requires_grad


def test_the_corrupted_row_is_the_original_with_the_samples_put_in() -> None:
    batch = full_rows(3)
    config = MaskingConfig(appearance="mask-keep")
    masked = mask_tokens(batch, VOCABULARY, config, 0.5, Rng(0, 1))
    sampled = torch.full_like(masked.target_ids, 7)
    corrupted = corrupt(masked, sampled)
    expected = batch.original_ids.clone().flatten()
    expected[masked.positions] = 7  # kept positions are resampled too
    assert torch.equal(corrupted.input_ids.flatten(), expected)
    assert not (corrupted.input_ids == VOCABULARY.mask_id).any()


def test_lucky_guess_counts_as_original() -> None:
    masked = mask_tokens(full_rows(3), VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    corrupted = corrupt(masked, masked.target_ids)
    assert not corrupted.is_replaced.any()


def test_the_batch_itself_is_not_changed() -> None:
    batch = full_rows(3)
    before = batch.original_ids.clone()
    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    corrupt(masked, torch.full_like(masked.target_ids, 9))
    assert torch.equal(batch.original_ids, before)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_chunks_do_not_show(count: int) -> None:
    torch.manual_seed(0)
    logits, luck = torch.randn(count, VOCAB), torch.rand(count)
    alone = torch.cat(
        [sample_ids(logits[i : i + 1], luck[i : i + 1], PROHIBITION, SamplingConfig()) for i in range(count)]
    )
    assert torch.equal(sample_ids(logits, luck, PROHIBITION, SamplingConfig()), alone)


# -------------------- Two segments per row: which pairs are wrong, and what a network could learn from their len

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
    "config", [SamplingConfig(), SamplingConfig(top_k=3), SamplingConfig(top_p=0.5), SamplingConfig(method="argmax")]
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
