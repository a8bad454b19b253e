"""Advice where the two networks are no match for each other, and silence where they are."""

import pytest

from electralab.pretraining.balance import diagnose

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
    return diagnose(HEALTHY | scores, progress, baselines=FREQUENT, record=NORMS | (norms or {}))


@pytest.mark.parametrize("progress", [0.01, 0.31, 1.0])
def test_a_healthy_pair_is_left_alone(progress: float) -> None:
    assert advise(progress) == []


def test_one_network_is_never_out_of_balance() -> None:
    assert diagnose({"masked_loss": 9.0, "masked_accuracy": 0.0}, 1.0, baselines={}, record=NORMS) == []


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
    assert diagnose(HEALTHY | {"auc": 0.97, "generator_accuracy": 0.05}, 0.5, baselines=FREQUENT, record=record) == []


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
    (said,) = diagnose(HEALTHY | lost, progress=0.5)
    assert said.startswith("the generator proposes nonsense: it restores 0.0% of the masked tokens, and is")
