"""Advice where the two networks are no match for each other, and silence where they are.

What a run is good for: limits that can be checked by eye.
"""

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


def advise(progress: float = 0.5, norms: dict[str, float | None] | None = None, **scores: float) -> list[str]:
    return check_balance(HEALTHY | scores, progress, baselines=FREQUENT, record=NORMS | (norms or {}))


@pytest.mark.parametrize("progress", [0.01, 0.31, 1.0])
def test_a_healthy_pair_is_left_alone(progress: float) -> None:
    assert advise(progress) == []


def test_one_network_is_never_out_of_balance() -> None:
    assert check_balance({"masked_loss": 9.0, "masked_accuracy": 0.0}, 1.0, baselines={}, record=NORMS) == []


def test_a_generator_that_knows_only_frequencies_is_too_weak() -> None:
    (said,) = advise(auc=0.97, generator_accuracy=0.06)
    assert said == (
        "the generator is too weak (it restores 6% of the masked tokens, always the most frequent one 5%; AUC 0.97): "
        "make it larger (--generator.width-share) or raise --loss.generator-weight"
    )


@pytest.mark.parametrize(("auc", "accuracy"), [(0.94, 0.06), (0.97, 0.08)])
def test_either_alone_is_no_sign_of_weakness(auc: float, accuracy: float) -> None:
    assert advise(auc=auc, generator_accuracy=accuracy) == []


def test_a_generator_without_anything_to_learn_is_not_called_weak() -> None:
    record = {"discriminator_gradient_norm": 2.0}
    assert (
        check_balance(HEALTHY | {"auc": 0.97, "generator_accuracy": 0.05}, 0.5, baselines=FREQUENT, record=record) == []
    )


def test_a_generator_that_is_right_too_often_is_too_strong() -> None:
    (said,) = advise(generator_accuracy=0.75, auc=0.58)
    assert said.startswith("the generator is too strong (it restores 75% of the masked tokens, AUC 0.58): make it sm")


def test_a_generator_that_is_sure_and_wrong_has_collapsed() -> None:
    (said,) = advise(generator_entropy=0.05, generator_accuracy=0.04)
    assert said.startswith("the generator has collapsed: it is sure of its guesses (entropy 0.05 nats) and wrong (4% r")


def test_a_generator_that_is_sure_and_right_has_not() -> None:
    assert advise(generator_entropy=0.5, generator_accuracy=0.8, auc=0.8) == []


@pytest.mark.parametrize(
    ("generator", "discriminator", "said"),
    [
        (1.0, 31.0, "the discriminator's gradient is 31 times the generator's"),
        (31.0, 1.0, "the generator's gradient is 31 times the discriminator's"),
    ],
)
def test_gradients_out_of_proportion_name_the_weight(generator: float, discriminator: float, said: str) -> None:
    (found,) = advise(norms={"generator_gradient_norm": generator, "discriminator_gradient_norm": discriminator})
    assert found.startswith(said)
    assert "--loss.discriminator-weight" in found


@pytest.mark.parametrize("ratio", [29.0, 1 / 29])
def test_gradients_may_differ_by_an_order_of_magnitude(ratio: float) -> None:
    assert advise(norms={"discriminator_gradient_norm": ratio}) == []


@pytest.mark.parametrize("norm", [None, 0.0])
def test_a_norm_that_was_not_finite_or_is_nothing_says_nothing(norm: float | None) -> None:
    assert advise(norms={"generator_gradient_norm": norm}) == []


def test_a_discriminator_that_is_worse_than_knowing_how_many_are_replaced_is_too_sure() -> None:
    """Of a tenth: -0.1 ln 0.1 - 0.9 ln 0.9 = 0.325."""
    (said,) = advise(discriminator_loss=0.4, auc=0.55)
    assert said.startswith(
        "the discriminator is surer than it may be: its loss is 0.400, that of knowing only how many"
    )
    assert "0.325 (AUC 0.55)" in said
    assert advise(discriminator_loss=0.33, auc=0.55) == []
    assert advise(discriminator_loss=0.4, auc=0.61) == []  # it has learned something all the same


def test_a_young_run_is_given_time() -> None:
    assert advise(0.2, {"discriminator_gradient_norm": 99.0}, auc=0.97, generator_accuracy=0.05) == []


def test_two_faults_are_two_sentences() -> None:
    assert len(advise(norms={"discriminator_gradient_norm": 99.0}, auc=0.97, generator_accuracy=0.05)) == 2


def test_a_generator_that_is_further_from_the_truth_than_it_believes_proposes_nonsense() -> None:
    lost = {"generator_entropy": 8.4, "generator_loss": 10.7, "generator_accuracy": 0.0}
    (said,) = check_balance(HEALTHY | lost, progress=0.5)
    assert said.startswith("the generator proposes nonsense: it restores 0.0% of the masked tokens, and is")


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
    short = describe_usefulness({"masked_loss": 6.85}, baselines, steps=100, tokens=100_000)
    broken = describe_usefulness({"masked_loss": float("nan")}, baselines, steps=100, tokens=100_000)
    learned = describe_usefulness({"masked_loss": 5.9}, baselines, steps=100, tokens=100_000)
    assert short is not None
    assert broken is not None
    assert learned is not None
    assert (short.is_useful, broken.is_useful, learned.is_useful) == (False, False, True)
    assert short.text.startswith("too short to be useful: the model guesses tokens no better than by how frequent")
    assert describe_usefulness({"energy": 1.0}, {}, steps=1, tokens=1) is None
