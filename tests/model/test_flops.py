"""Counted by hand, by torch's own counter, and against the numbers the paper's script prints."""

import pytest
import torch
from networks import make_pair
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from electralab.model.flops import (
    count_masked,
    encoder_flops,
    paper_discriminator_flops,
    paper_generator_flops,
    step_flops,
)
from electralab.model.settings import SIZES, EncoderConfig, GeneratorConfig, ModelConfig, derive_encoders


def make_encoders(size: str, length: int) -> tuple[EncoderConfig, EncoderConfig]:
    layers = SIZES[size]
    model, generator = ModelConfig(**layers["model"]), GeneratorConfig(**layers["generator"])
    return derive_encoders(model, generator, vocab_size=30522, sequence_length=length)


@pytest.mark.parametrize(
    ("size", "steps", "rows", "length", "output_share", "printed"),
    [
        ("small", 1_000_000, 128, 128, 0.15625, 1.29e18),
        ("base", 766_000, 256, 512, 0.15625, 6.42e19),
        ("large", 400_000, 2048, 512, 0.25, 7.12e20),
        ("large", 1_750_000, 2048, 512, 0.25, 3.11e21),
    ],
)
def test_the_papers_electras_cost_what_its_script_prints(
    size: str, steps: int, rows: int, length: int, output_share: float, printed: float
) -> None:
    generator, discriminator = make_encoders(size, length)
    flops = paper_generator_flops(generator, steps * rows, length, output_share)
    flops += paper_discriminator_flops(discriminator, steps * rows, length)
    assert flops == pytest.approx(printed, rel=0.01)


@pytest.mark.parametrize(
    ("size", "steps", "rows", "length", "printed"),
    [("small", 1_450_000, 128, 128, 1.42e18), ("base", 1_000_000, 256, 512, 6.43e19)],
)
def test_the_papers_berts_cost_what_its_script_prints(
    size: str, steps: int, rows: int, length: int, printed: float
) -> None:
    _, bert = make_encoders(size, length)
    assert paper_generator_flops(bert, steps * rows, length) == pytest.approx(printed, rel=0.01)


def test_an_encoder_counted_by_hand() -> None:
    """One layer of 2 coordinates, feed-forward 3, on one row of 5 tokens: 2 operations for each multiply-add."""
    config = EncoderConfig(
        backbone="electra",
        vocab_size=7,
        sequence_length=5,
        embedding_size=2,
        hidden_size=2,
        num_layers=1,
        num_heads=1,
        feedforward_size=3,
        dropout=0,
        attention_dropout=0,
        norm_eps=1e-12,
    )
    projections, scores_and_sums, feedforward = 4 * 2 * 2, 2 * 2 * 5, 2 * 2 * 3
    assert encoder_flops(config, 1, 5) == 2 * 5 * (projections + scores_and_sums + feedforward)


def test_half_a_token_is_rounded_up_as_masking_does() -> None:
    """Rows of 12 have 10 tokens to mask: 2.5, 0.5 and 1.5 of them."""
    assert [count_masked(12, share) for share in (0.25, 0.05, 0.15)] == [3, 1, 2]


@pytest.mark.parametrize(
    ("size", "changes"),
    [
        ("tiny", {}),
        ("tiny", {"embedding_size": 48}),
        ("tiny", {"embedding_size": 48, "gated_feedforward": False, "own_head_projection": True}),
        ("tiny", {"discrepancy_attention": True}),
        ("tiny", {"discrepancy_attention": True, "adaptive_norm": True, "backbone": "electra"}),
        ("tiny", {"backbone": "electra", "verdict_head": "linear"}),
        ("tiny", {"backbone": "electra", "embedding_size": 32}),
    ],
)
def test_torch_counts_the_same_in_a_real_step(size: str, changes: dict[str, object]) -> None:
    pair = make_pair(size, vocab_size=50, sequence_length=16, **changes)
    input_ids = torch.randint(50, (3, 16))
    segment_ids, positions = torch.zeros_like(input_ids), torch.tensor([1, 7, 20, 40])
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        guesses = pair.generator(input_ids, segment_ids, None, positions)
        verdicts = pair.discriminator(input_ids, segment_ids, None)
        (guesses.sum() + verdicts.sum()).backward()
    kind = "dense" if pair.discriminator.head.dense is not None else "linear"
    ours = step_flops(pair.generator.config, pair.discriminator.config, 3, 16, len(positions), kind)  # type: ignore[arg-type]
    assert counter.get_total_flops() == ours
