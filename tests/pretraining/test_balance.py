"""Advice where the two networks are no match for each other, and silence where they are.

What a run is good for: limits that can be checked by eye.
"""

from collections.abc import Mapping

import pytest

from electralab.config import parse_overrides
from electralab.pretraining.balance import check_balance, describe_usefulness, drop_numbers
from electralab.pretraining.settings import read_settings, resolve_pretrain

HEALTHY = {
    "generator_accuracy": 0.3,
    "generator_entropy": 3.5,
    "auc": 0.85,
    "precision": 0.6,
    "recall": 0.4,
    "called_replaced": 0.06,
    "replaced_share": 0.1,
}
FREQUENT = {"generator_accuracy": 0.05}
NORMS: dict[str, float | None] = {"generator_gradient_norm": 1.0, "discriminator_gradient_norm": 2.0}


def advise(progress: float = 0.5, norms: Mapping[str, float | None] | None = None, **scores: float) -> list[str]:
    return check_balance(HEALTHY | scores, progress, baselines=FREQUENT, record={**NORMS, **(norms or {})})


COLLAPSED = "the generator has collapsed: it is sure of its guesses (entropy {}"
FRACTION = "the {0}'s gradient is 31 times the {1}'s"
# Progress, gradient norms, other scores -> how each sentence begins.
CASES: list[tuple[float, Mapping[str, float | None], dict[str, float], list[str]]] = [
    *((progress, {}, {}, []) for progress in (0.01, 0.31, 1.0)),
    # Too weak, too strong: both signs must hold.
    (
        0.5,
        {},
        {"auc": 0.97, "generator_accuracy": 0.06},
        ["the generator is too weak (it restores 6% of the masked tok"],
    ),
    (0.5, {}, {"auc": 0.94, "generator_accuracy": 0.06}, []),
    (0.5, {}, {"auc": 0.97, "generator_accuracy": 0.08}, []),
    (
        0.5,
        {},
        {"auc": 0.58, "generator_accuracy": 0.75},
        ["the generator is too strong (it restores 75% of the masked"],
    ),
    # Sure and wrong is a collapse; one nat promises to be right 37 % of the time.
    (
        0.5,
        {},
        {"generator_entropy": 0.05, "generator_accuracy": 0.04},
        [COLLAPSED.format("0.05 nats) and wrong (4% r")],
    ),
    (0.5, {}, {"generator_entropy": 1.0, "generator_accuracy": 0.1}, [COLLAPSED.format("1.00 nats) and wrong (10%")]),
    (0.5, {}, {"generator_entropy": 1.0, "generator_accuracy": 0.3}, []),
    (0.5, {}, {"generator_entropy": 6.0, "generator_accuracy": 0.0}, []),
    (0.5, {}, {"generator_entropy": 0.5, "generator_accuracy": 0.8, "auc": 0.8}, []),
    (
        *(0.5, {}, {"generator_entropy": 8.4, "generator_loss": 10.7, "generator_accuracy": 0.0}),
        ["the generator proposes nonsense: it restores 0.0% of the masked tokens, and is"],
    ),
    # Gradients may differ by an order of magnitude; a norm that was not finite, or is nothing, says nothing.
    (0.5, {"discriminator_gradient_norm": 31.0}, {}, [FRACTION.format("discriminator", "generator")]),
    (
        *(0.5, {"generator_gradient_norm": 31.0, "discriminator_gradient_norm": 1.0}, {}),
        [FRACTION.format("generator", "discriminator")],
    ),
    *((0.5, {"discriminator_gradient_norm": ratio}, {}, []) for ratio in (29.0, 1 / 29)),
    *((0.5, {"generator_gradient_norm": norm}, {}, []) for norm in (None, 0.0)),
    # Knowing only that a tenth is replaced costs -0.1 ln 0.1 - 0.9 ln 0.9 = 0.325.
    (
        0.5,
        {},
        {"discriminator_loss": 0.4, "auc": 0.55},
        ["the discriminator is surer than it may be: its loss is 0.400"],
    ),
    (0.5, {}, {"discriminator_loss": 0.33, "auc": 0.55}, []),
    (0.5, {}, {"discriminator_loss": 0.4, "auc": 0.61}, []),  # it has learned something all the same
    # Suspecting everything is named early, unless nothing was learned yet.
    (
        0.1,
        {},
        {"called_replaced": 0.9},
        ["the discriminator calls 90% of the tokens replaced, 10% are: the learning rate"],
    ),
    (0.0, {}, {"called_replaced": 0.9, "auc": 0.5}, []),
    # A young run is given time; two faults are two sentences.
    (0.1, {}, {"auc": 0.5, "called_replaced": 0.0}, []),
    (0.2, {"discriminator_gradient_norm": 99.0}, {"auc": 0.97, "generator_accuracy": 0.05}, []),
    (
        *(0.5, {"discriminator_gradient_norm": 99.0}, {"auc": 0.97, "generator_accuracy": 0.05}),
        ["the generator is too weak", "the discriminator's gradient is"],
    ),
]


@pytest.mark.parametrize(("progress", "norms", "scores", "begins"), CASES)
def test_a_healthy_pair_is_left_alone_and_a_fault_is_named(
    progress: float, norms: Mapping[str, float | None], scores: dict[str, float], begins: list[str]
) -> None:
    sentences = advise(progress, norms, **scores)
    assert [text[: len(begin)] for text, begin in zip(sentences, begins, strict=True)] == begins


def test_the_advice_has_the_figures_and_the_flag() -> None:
    assert advise(auc=0.97, generator_accuracy=0.06) == [
        "the generator is too weak (it restores 6% of the masked tokens, always the most frequent one 5%; AUC 0.97): "
        "make it larger (--generator.width-share) or raise --loss.generator-weight"
    ]
    assert "--loss.discriminator-weight" in advise(norms={"discriminator_gradient_norm": 62.0})[0]
    assert "0.325 (AUC 0.55)" in advise(discriminator_loss=0.4, auc=0.55)[0]


def test_one_network_and_a_generator_without_anything_to_learn_are_never_out_of_balance() -> None:
    assert check_balance({"masked_loss": 9.0, "masked_accuracy": 0.0}, 1.0, baselines={}, record=NORMS) == []
    weak = HEALTHY | {"auc": 0.97, "generator_accuracy": 0.05}
    assert check_balance(weak, 0.5, baselines=FREQUENT, record={"discriminator_gradient_norm": 2.0}) == []


LOST = HEALTHY | {"auc": 0.55, "called_replaced": 0.0, "recall": 0.0}
TOO_SURE = HEALTHY | {"auc": 0.55, "discriminator_loss": 0.5}


def advise_with(scores: dict[str, float], *words: str, preset: str = "tiny", rate: float | None = None) -> str:
    config = resolve_pretrain([read_settings(preset), parse_overrides(list(words))])
    return " ".join(check_balance(scores, 0.5, config=config, highest_rate=rate))


def test_what_the_settings_already_say_is_not_advised() -> None:
    assert advise_with(LOST) == (
        "the discriminator calls every token original (AUC 0.55): it has hardly begun to learn; train longer"
    )
    said = advise_with(LOST, preset="base")
    assert "try smaller batches (--batch.size)" in said
    assert "one encoder for both (--model.sharing everything --generator.width-share 1)" in said
    assert "--batch.size" not in advise_with(LOST, "--batch.size", "4", preset="base")
    assert "--generator.width-share)" in advise_with(LOST, "--generator.width-share", "0.5", preset="base")
    assert "a smaller generator" not in advise_with(LOST, "--generator.width-share", "0.25", preset="base")
    assert "one encoder" not in advise_with(LOST, "--generator.kind", "two-tower", preset="base")


def test_a_procedure_that_is_followed_is_not_advised() -> None:
    collapsed = HEALTHY | {"generator_entropy": 0.05, "generator_accuracy": 0.04}
    assert "--procedure joint" not in advise_with(collapsed)
    assert "slow it down (--loss.generator-weight)" in advise_with(collapsed)
    assert "--procedure joint" in advise_with(collapsed, "--procedure", "adversarial", preset="base")
    nonsense = HEALTHY | {"generator_entropy": 8.4, "generator_loss": 10.7, "generator_accuracy": 0.0}
    assert advise_with(nonsense).endswith("train longer or lower --optimizer.learning-rate")


def test_a_rate_that_was_never_reached_is_not_to_be_lowered() -> None:
    """In `base` 2e-4 is set; a warm-up longer than the run may stop at a fortieth of it."""
    said = advise_with(TOO_SURE, preset="base", rate=5e-6)
    assert "lower --optimizer.learning-rate" not in said
    assert (
        "shorten the warm-up (--schedule.warmup-steps): the learning rate has come to 5e-06 only, 0.0002 is set" in said
    )
    assert "lower --optimizer.learning-rate (it came to 0.0002)" in advise_with(TOO_SURE, preset="base", rate=2e-4)
    alarmed = HEALTHY | {"called_replaced": 0.6}
    assert "the learning rate is probably too high" in advise_with(alarmed, preset="base", rate=2e-4)
    assert "too high" not in advise_with(alarmed, preset="base", rate=5e-6)


def test_sentences_about_one_fault_are_alike_without_their_numbers() -> None:
    first, second = (advise(norms={"discriminator_gradient_norm": ratio}, auc=0.85)[0] for ratio in (54.0, 81.5))
    assert first != second
    assert drop_numbers(first) == drop_numbers(second)


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
    for loss, is_useful, begins in (
        (6.85, False, "too short to be useful: the model guesses tokens no better than by how frequent"),
        (float("nan"), False, "too short"),
        (5.9, True, ""),
    ):
        found = describe_usefulness({"masked_loss": loss}, baselines, steps=100, tokens=100_000)
        assert found is not None
        assert (found.is_useful, found.text[: len(begins)]) == (is_useful, begins)
    assert describe_usefulness({"energy": 1.0}, {}, steps=1, tokens=1) is None
