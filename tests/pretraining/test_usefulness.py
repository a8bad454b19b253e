"""What a run is good for: limits that can be checked by eye."""

import pytest

from electralab.pretraining.balance import describe_usefulness

BASELINES = {"generator_loss": 6.9, "generator_accuracy": 0.05, "discriminator_loss": 0.39}


@pytest.mark.parametrize(
    ("auc", "recall", "is_useful", "begins"),
    [
        (0.55, 0.0, False, "too short to be useful: the discriminator tells replaced tokens from original ones hardly"),
        (0.7, 0.05, True, "weak: the discriminator has begun to learn (AUC 0.70, guessing is 0.50), but marks only 5%"),
        (0.9, 0.5, True, "it has learned: AUC 0.90 (guessing is 0.50), 50% of the replaced tokens are marked"),
    ],
)
def test_a_pair_is_judged_by_its_discriminator(auc: float, recall: float, is_useful: bool, begins: str) -> None:
    found = describe_usefulness({"auc": auc, "recall": recall}, BASELINES, steps=100, tokens=100_000)
    assert found is not None
    assert found.is_useful == is_useful
    assert found.text.startswith(begins)


@pytest.mark.parametrize(
    ("tokens", "longer"),
    [
        (100_000, "train at least 20 times as long (2,000 steps)"),  # two million tokens are the least
        (3_000_000, "train at least 4 times as long (400 steps)"),
    ],
)
def test_how_much_longer_is_said(tokens: int, longer: str) -> None:
    found = describe_usefulness({"auc": 0.5}, {}, steps=100, tokens=tokens)
    assert found is not None
    assert found.text.endswith(longer)


def test_one_network_is_judged_by_what_it_knows_beyond_frequencies() -> None:
    baselines = {"masked_loss": 6.9, "masked_accuracy": 0.05}
    short = describe_usefulness({"masked_loss": 6.85}, baselines, steps=100, tokens=100_000)
    broken = describe_usefulness({"masked_loss": float("nan")}, baselines, steps=100, tokens=100_000)
    learned = describe_usefulness({"masked_loss": 5.9}, baselines, steps=100, tokens=100_000)
    assert short is not None
    assert broken is not None
    assert learned is not None
    assert (short.is_useful, broken.is_useful, learned.is_useful) == (False, False, True)
    assert short.text.startswith("too short to be useful: the model guesses tokens no better than by how frequent")
    assert describe_usefulness({"energy": 1.0}, {}, steps=1, tokens=1) is None
