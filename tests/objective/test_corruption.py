import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy import PROHIBITION, VOCAB, VOCABULARY, full_rows

from electralab.objective.corruption import SamplingConfig, corrupt, sample_ids
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
