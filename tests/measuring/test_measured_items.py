"""Scores are those of scikit-learn, weights are repetitions, and what is said to be better is better."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, fbeta_score, roc_auc_score

from electralab.errors import InputError
from electralab.measuring.items import DetectorValues, MeasuredItems, MeasuringConfig, RankedItems, compare

RNG = np.random.default_rng(0)
IS_WRONG = RNG.random(600) < 0.2
# Rounded, so that many are tied.
GOOD = np.round(IS_WRONG + RNG.normal(size=600), 1)
NOISE = np.round(RNG.normal(size=600), 1)


def detector(name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]], *, is_model: bool) -> DetectorValues:
    return DetectorValues(name, name, values, is_model=is_model, threshold=0.5 if is_model else None)


def items(ours: DetectorValues, count: DetectorValues) -> MeasuredItems:
    return MeasuredItems("a.tsv", "labels", "word", IS_WRONG, np.arange(600) // 6, [ours, count])


@pytest.mark.parametrize("values", [GOOD, NOISE, np.zeros(600), IS_WRONG * 1.0], ids=["good", "noise", "same", "exact"])
@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_scores_are_those_of_scikit_learn(values: np.ndarray[tuple[int], np.dtype[np.float64]], beta: float) -> None:
    weights = RNG.integers(0, 3, size=600)
    scores = RankedItems(detector("a", values, is_model=True), IS_WRONG, beta).score(weights.astype(np.float64))
    truth, repeated = IS_WRONG.repeat(weights), values.repeat(weights)
    assert scores.auc == pytest.approx(roc_auc_score(truth, repeated))
    assert scores.average_precision == pytest.approx(average_precision_score(truth, repeated))
    every = [fbeta_score(truth, repeated >= threshold, beta=beta, zero_division=0) for threshold in np.unique(repeated)]
    assert scores.best_f == pytest.approx(max(every))
    assert scores.best_f == pytest.approx(fbeta_score(truth, repeated >= scores.best_threshold, beta=beta))
    assert scores.f == pytest.approx(fbeta_score(truth, repeated > 0.5, beta=beta, zero_division=0))


def test_model_is_recommended_only_where_it_does_better_than_counting() -> None:
    good, noise = (detector("good", GOOD, is_model=True), detector("noise", NOISE, is_model=True))
    counted_good, counted_noise = (detector("rarity", values, is_model=False) for values in (GOOD, NOISE))
    config = MeasuringConfig()
    better, worse, same = (
        compare(items(*pair), 0.5, config)
        for pair in ((good, counted_noise), (noise, counted_good), (good, counted_good))
    )
    assert (better.best, better.use) == ("model", "good")
    assert (worse.best, worse.use) == ("counting", "rarity")
    assert (same.best, same.use) == ("either", "rarity")
    assert same.gain.value == 0
    assert better.gain.low is not None
    assert better.gain.low > 0
    auc = better.detectors[0].auc
    assert auc.low is not None
    assert auc.value is not None
    assert auc.high is not None
    assert auc.low < auc.value < auc.high
    assert better.groups == 100
    assert better == compare(items(good, counted_noise), 0.5, config)


def test_without_draws_there_are_no_intervals() -> None:
    pair = detector("good", GOOD, is_model=True), detector("rarity", NOISE, is_model=False)
    found = compare(items(*pair), 0.5, MeasuringConfig(resamples=0))
    assert found.detectors[0].auc.low is None
    # Nobody asked how sure that is.
    assert (found.best, found.use) == ("model", "good")
    assert compare(items(*reversed(pair)), 0.5, MeasuringConfig(resamples=0)).best == "model"
    alike = detector("good", GOOD, is_model=True), detector("rarity", GOOD, is_model=False)
    assert compare(items(*alike), 0.5, MeasuringConfig(resamples=0)).best == "either"


def test_too_few_wrong_items_are_refused() -> None:
    few = MeasuredItems("a.tsv", "labels", "word", np.arange(600) < 19, np.arange(600), [])
    with pytest.raises(InputError, match=r"a\.tsv: 19 wrong and 581 right words are too few"):
        compare(few, 0.5, MeasuringConfig())
