import math

import numpy as np
import pytest
import torch
from torch import Tensor
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
    ToyTokenizer,
    full_rows,
    toy_batch,
)

from electralab.objective.corruption import CorruptedBatch, SamplingConfig
from electralab.objective.electra import ElectraObjective, electra_forward
from electralab.objective.losses import Counts, Losses, add_counts, electra_losses
from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens
from electralab.randomness import Rng
from electralab.tokens.batches import make_batch


def count_targets(parts: list[MaskedBatch], *, only_masked: bool = False) -> Counts:
    objective = object.__new__(ElectraObjective)
    objective.only_masked, objective.auxiliaries = only_masked, {}
    return add_counts(objective.count_targets(part) for part in parts)


def _masked(share: float = 0.5) -> MaskedBatch:
    return mask_tokens(
        toy_batch([CLS, 5, 6, 7, 8, SEP], [CLS, 9, 5, SEP, PAD, PAD]), VOCABULARY, MaskingConfig(), share, Rng(0, 1)
    )


def test_discriminator_loss_is_the_mean_over_every_token_but_padding() -> None:
    masked = _masked()
    corrupted = CorruptedBatch(masked, masked.batch.original_ids, torch.zeros(2, 6, dtype=torch.bool))
    verdicts = torch.zeros(2, 6)
    verdicts[1, 4:] = 1000.0  # an absurd verdict on padding
    losses = electra_losses(torch.zeros(len(masked.positions), VOCAB), verdicts, masked, corrupted)
    assert losses.sums["discriminator"].item() == pytest.approx(10 * math.log(2))
    assert count_targets([masked])["discriminator"] == 10


def test_generator_loss_is_the_mean_over_selected_positions() -> None:
    masked = _masked()
    corrupted = CorruptedBatch(masked, masked.batch.original_ids, torch.zeros(2, 6, dtype=torch.bool))
    losses = electra_losses(torch.zeros(len(masked.positions), VOCAB), torch.zeros(2, 6), masked, corrupted)
    assert losses.sums["generator"].item() / len(masked.positions) == pytest.approx(math.log(VOCAB))


def test_lambda_weighs_the_discriminator() -> None:
    losses = Losses({"generator": torch.tensor(6.0), "discriminator": torch.tensor(8.0)})
    counts, weights = {"generator": 3, "discriminator": 4}, {"generator": 1.0, "discriminator": 50.0}
    assert losses.weigh(counts, weights).item() == 2 + 50 * 2


def test_a_step_without_targets_is_no_division_by_zero() -> None:
    assert Losses({"generator": torch.tensor(0.0)}).weigh({"generator": 0}, {"generator": 1.0}).item() == 0.0


def test_micro_batches_add_up_to_the_loss_of_the_whole_batch() -> None:
    """Rows with different numbers of targets: averaging the averages would be wrong."""
    batch = toy_batch([CLS, 5, 6, 7, 8, 9, 5, SEP], [CLS, 9, SEP, PAD, PAD, PAD, PAD, PAD])
    torch.manual_seed(0)
    table, verdict_table = torch.randn(VOCAB, VOCAB), torch.randn(VOCAB)

    class Tables(torch.nn.Module):
        reads_masked = True

        def forward(
            self, ids: Tensor, _segments: Tensor, _pad: Tensor | None, positions: Tensor | None = None
        ) -> Tensor:
            return table[ids.flatten()[positions]] if positions is not None else verdict_table[ids]

    pair = ToyPair(Tables(), Tables())
    whole = [mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))]
    parts = [mask_tokens(part, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1)) for part in batch.split(1)]
    targets = count_targets(parts)
    assert targets == count_targets(whole)
    weights = {"generator": 1.0, "discriminator": 50.0}

    def total(batches: list[MaskedBatch]) -> Tensor:
        trials = [electra_forward(pair, part, PROHIBITION, SamplingConfig()) for part in batches]  # type: ignore[arg-type]
        return torch.stack([trial.losses.weigh(targets, weights) for trial in trials]).sum()

    assert torch.allclose(total(whole), total(parts))


def test_a_perfect_generator_leaves_nothing_replaced() -> None:
    batch = full_rows(4)
    pair = ToyPair(PerfectGenerator(batch.original_ids), RecordingDiscriminator())
    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    trial = electra_forward(pair, masked, PROHIBITION, SamplingConfig())  # type: ignore[arg-type]
    assert not trial.corrupted.is_replaced.any()
    assert trial.losses.sums["generator"].item() == pytest.approx(0, abs=1e-4)


def test_a_stubborn_generator_replaces_all_but_its_own_word() -> None:
    batch = full_rows(4)
    pair = ToyPair(StubbornGenerator(7), RecordingDiscriminator())
    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    trial = electra_forward(pair, masked, PROHIBITION, SamplingConfig())  # type: ignore[arg-type]
    assert trial.corrupted.is_replaced.sum() == (masked.target_ids != 7).sum()


def test_both_networks_are_told_about_padding_and_segments() -> None:
    rows = np.array([[CLS, 5, SEP, 7, 8, SEP], [CLS, 9, SEP, 5, SEP, PAD]])
    batch = make_batch(rows, ToyTokenizer(), is_pairs=True)  # type: ignore[arg-type]
    first, second = RecordingDiscriminator(), RecordingDiscriminator()

    class Guesser(RecordingDiscriminator):
        reads_masked = True

        def forward(self, ids: Tensor, segments: Tensor, pad: Tensor | None, positions: Tensor) -> Tensor:  # type: ignore[override]
            first(ids, segments, pad)
            return torch.zeros(len(positions), VOCAB)

    masked = mask_tokens(batch, VOCABULARY, MaskingConfig(), 0.5, Rng(0, 1))
    electra_forward(ToyPair(Guesser(), second), masked, PROHIBITION, SamplingConfig())  # type: ignore[arg-type]
    for _, segments, is_pad in (first.seen[0], second.seen[0]):
        assert is_pad is not None
        assert is_pad.tolist() == [[False] * 6, [False] * 5 + [True]]
        assert segments.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]]


def test_rows_without_padding_spare_the_attention_mask() -> None:
    assert full_rows(2).attention_pad is None


def test_judged_where_masked_only_the_rest_does_not_count() -> None:
    masked = _masked()
    corrupted = CorruptedBatch(masked, masked.batch.original_ids, torch.zeros(2, 6, dtype=torch.bool))
    verdicts = torch.full((2, 6), 1000.0)
    verdicts.view(-1)[masked.positions] = 0.0
    guesses = torch.zeros(len(masked.positions), VOCAB)
    losses = electra_losses(guesses, verdicts, masked, corrupted, only_masked=True)
    assert losses.sums["discriminator"].item() == pytest.approx(len(masked.positions) * math.log(2))
    assert count_targets([masked], only_masked=True)["discriminator"] == len(masked.positions)
