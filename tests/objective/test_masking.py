import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy import CLS, MASK, PAD, SEP, UNK, VOCABULARY, full_rows, toy_batch

from electralab.objective.masking import MaskingConfig, mask_tokens
from electralab.randomness import Rng


def test_fixed_selection_masks_exactly_the_rounded_share_of_ordinary_tokens() -> None:
    batch = full_rows(50, length=22)  # 20 ordinary tokens each
    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.15, Rng(0, 1))
    rows = masked.positions // 22
    assert np.bincount(rows.numpy(), minlength=50).tolist() == [3] * 50


def test_positions_are_drawn_without_replacement() -> None:
    masked = mask_tokens(full_rows(200), VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    assert len(set(masked.positions.tolist())) == len(masked.positions) == 200 * 3


def test_at_least_one_token_of_a_short_row_is_masked() -> None:
    masked = mask_tokens(toy_batch([CLS, 5, 6, SEP, PAD, PAD]), VOCABULARY, MaskingConfig(), 0.01, Rng(0, 1))
    assert len(masked.positions) == 1


def test_a_row_without_ordinary_tokens_is_left_alone() -> None:
    masked = mask_tokens(toy_batch([CLS, UNK, SEP, PAD], [CLS, 5, 6, SEP]), VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    assert all(position >= 4 for position in masked.positions.tolist())


@given(st.integers(0, 10_000), st.sampled_from(["fixed", "bernoulli"]), st.floats(0.05, 0.9))
def test_special_tokens_and_padding_are_never_masked(seed: int, selection: str, share: float) -> None:
    batch = toy_batch([CLS, 5, 6, SEP, 7, UNK, 8, SEP], [CLS, 9, 9, 9, SEP, PAD, PAD, PAD])
    config = MaskingConfig.model_validate({"selection": selection})
    masked = mask_tokens(batch, VOCABULARY, config, share, Rng(seed, 1))
    assert (masked.target_ids >= 5).all()
    untouched = torch.ones(16, dtype=torch.bool)
    untouched[masked.positions] = False
    assert torch.equal(masked.input_ids.flatten()[untouched], batch.original_ids.flatten()[untouched])


def test_every_position_is_drawn_equally_often() -> None:
    masked = mask_tokens(full_rows(6000), VOCABULARY, MaskingConfig(), 0.34, Rng(0, 1))  # 2 of 6
    counts = np.bincount(masked.positions.numpy() % 8, minlength=8)
    assert counts[0] == counts[7] == 0
    assert abs(counts[1:7] / 6000 - 1 / 3).max() < 0.03


def test_bernoulli_selection_varies_in_number_around_the_share() -> None:
    masked = mask_tokens(full_rows(2000), VOCABULARY, MaskingConfig(selection="bernoulli"), 0.25, Rng(0, 1))
    per_row = np.bincount(masked.positions.numpy() // 8, minlength=2000)
    assert per_row.min() == 0
    assert abs(per_row.mean() - 6 * 0.25) < 0.1


@pytest.mark.parametrize(
    ("appearance", "hidden", "kept"), [("mask", 1.0, 0.0), ("mask-keep", 0.85, 0.15), ("mask-keep-random", 0.8, 0.12)]
)
def test_appearance_shares_are_those_of_its_name(appearance: str, hidden: float, kept: float) -> None:
    config = MaskingConfig.model_validate({"appearance": appearance})
    masked = mask_tokens(full_rows(3000), VOCABULARY, config, 0.5, Rng(0, 1))
    shown = masked.input_ids.flatten()[masked.positions]
    assert (shown == MASK).float().mean().item() == pytest.approx(hidden, abs=0.02)
    assert torch.equal(masked.is_hidden, shown == MASK)
    # A random token is the original by luck in one of five draws.
    assert (shown == masked.target_ids).float().mean().item() == pytest.approx(kept, abs=0.02)
    assert bool(((shown == MASK) | (shown >= 5)).all())


def test_masks_do_not_depend_on_how_a_batch_is_split() -> None:
    batch = full_rows(6)
    whole = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.3, Rng(3, 7))
    parts = [mask_tokens(part, VOCABULARY, MaskingConfig(), 0.3, Rng(3, 7)) for part in batch.split(2)]
    assert torch.equal(whole.input_ids, torch.cat([part.input_ids for part in parts]))
    assert torch.equal(whole.sampling_uniforms, torch.cat([part.sampling_uniforms for part in parts]))


def test_masks_differ_between_steps_and_seeds() -> None:
    batch = full_rows(6)
    drawn = [
        mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.3, rng).positions for rng in (Rng(0, 1), Rng(0, 2), Rng(1, 1))
    ]
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_mask_share_moves_linearly_to_its_final_value() -> None:
    config = MaskingConfig(mask_share=0.3, final_mask_share=0.1)
    assert [round(config.share_at(x), 3) for x in (0.0, 0.5, 1.0)] == [0.3, 0.2, 0.1]
