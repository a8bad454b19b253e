import math

import pytest
import torch
from toy import (
    CLS,
    PAD,
    PROHIBITION,
    SEP,
    VOCAB,
    VOCABULARY,
    PerfectGenerator,
    RecordingDiscriminator,
    StubbornGenerator,
    ToyPair,
    full_rows,
    toy_batch,
)

from electralab.objective.corruption import CorruptedBatch, SamplingConfig
from electralab.objective.electra import count_targets, hold_trial
from electralab.objective.losses import LossConfig, Losses, Targets, electra_losses
from electralab.objective.masking import MaskingConfig, mask_tokens
from electralab.randomness import Rng


def _masked(share: float = 0.5):  # type: ignore[no-untyped-def]
    return mask_tokens(
        toy_batch([CLS, 5, 6, 7, 8, SEP], [CLS, 9, 5, SEP, PAD, PAD]), VOCABULARY, MaskingConfig(), share, Rng(0, 1)
    )


def test_discriminator_loss_is_the_mean_over_every_token_but_padding() -> None:
    masked = _masked()
    corrupted = CorruptedBatch(masked, masked.batch.original_ids, torch.zeros(2, 6, dtype=torch.bool))
    verdicts = torch.zeros(2, 6)
    verdicts[1, 4:] = 1000.0  # an absurd verdict on padding
    losses = electra_losses(torch.zeros(len(masked.positions), VOCAB), verdicts, masked, corrupted)
    assert losses.discriminator_sum.item() == pytest.approx(10 * math.log(2))
    assert count_targets([masked]).discriminator == 10


def test_generator_loss_is_the_mean_over_selected_positions() -> None:
    masked = _masked()
    corrupted = CorruptedBatch(masked, masked.batch.original_ids, torch.zeros(2, 6, dtype=torch.bool))
    losses = electra_losses(torch.zeros(len(masked.positions), VOCAB), torch.zeros(2, 6), masked, corrupted)
    assert losses.generator_sum.item() / len(masked.positions) == pytest.approx(math.log(VOCAB))


def test_lambda_weighs_the_discriminator() -> None:
    losses = Losses(torch.tensor(6.0), torch.tensor(8.0))
    assert losses.weigh(Targets(3, 4), LossConfig(discriminator_weight=50)).item() == 2 + 50 * 2


def test_micro_batches_add_up_to_the_loss_of_the_whole_batch() -> None:
    """Rows with different numbers of targets: averaging the averages would be wrong."""
    batch = toy_batch([CLS, 5, 6, 7, 8, 9, 5, SEP], [CLS, 9, SEP, PAD, PAD, PAD, PAD, PAD])
    torch.manual_seed(0)
    table, verdict_table = torch.randn(VOCAB, VOCAB), torch.randn(VOCAB)

    class Tables(torch.nn.Module):
        def forward(self, ids, _segments, _pad, positions=None):  # type: ignore[no-untyped-def]
            return table[ids.flatten()[positions]] if positions is not None else verdict_table[ids]

    pair = ToyPair(Tables(), Tables())
    whole = [mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))]
    parts = [mask_tokens(part, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1)) for part in batch.split(1)]
    targets = count_targets(parts)
    assert targets == count_targets(whole)
    config = LossConfig()

    def total(batches):  # type: ignore[no-untyped-def]
        trials = [hold_trial(pair, part, PROHIBITION, SamplingConfig()) for part in batches]  # type: ignore[arg-type]
        return sum(trial.losses.weigh(targets, config) for trial in trials)

    assert torch.allclose(total(whole), total(parts))


def test_a_perfect_generator_leaves_nothing_replaced() -> None:
    batch = full_rows(4)
    pair = ToyPair(PerfectGenerator(batch.original_ids), RecordingDiscriminator())
    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    trial = hold_trial(pair, masked, PROHIBITION, SamplingConfig())  # type: ignore[arg-type]
    assert not trial.corrupted.is_replaced.any()
    assert trial.losses.generator_sum.item() == pytest.approx(0, abs=1e-4)


def test_a_stubborn_generator_replaces_all_but_its_own_word() -> None:
    batch = full_rows(4)
    pair = ToyPair(StubbornGenerator(7), RecordingDiscriminator())
    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    trial = hold_trial(pair, masked, PROHIBITION, SamplingConfig())  # type: ignore[arg-type]
    assert trial.corrupted.is_replaced.sum() == (masked.target_ids != 7).sum()


def test_both_networks_are_told_about_padding_and_segments() -> None:
    batch = toy_batch([CLS, 5, 6, 7, 8, SEP], [CLS, 9, 5, SEP, PAD, PAD])
    first, second = RecordingDiscriminator(), RecordingDiscriminator()

    class Guesser(RecordingDiscriminator):
        def forward(self, ids, segments, pad, positions):  # type: ignore[no-untyped-def,override]
            first(ids, segments, pad)
            return torch.zeros(len(positions), VOCAB)

    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    hold_trial(ToyPair(Guesser(), second), masked, PROHIBITION, SamplingConfig())  # type: ignore[arg-type]
    for _, segments, is_pad in (first.seen[0], second.seen[0]):
        assert is_pad is not None
        assert is_pad.tolist() == [[False] * 6, [False] * 4 + [True] * 2]
        assert segments.tolist() == [[0] * 6] * 2


def test_rows_without_padding_spare_the_attention_mask() -> None:
    assert full_rows(2).attention_pad is None
