"""Bits against channels whose capacity is known and guessers who know nothing or all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from little_analysis import draws
from little_runs import write_text

import electralab
from electralab.analysis.data import AnalysisSettings, load_analysis_data, load_analysis_model
from electralab.analysis.finding import Finding, Resampler
from electralab.analysis.measures import information
from electralab.display import Display
from electralab.statistics import Interval, expanded_tail

RNG = np.random.default_rng
QUIET = Display(quiet=True)
SIZES = {"hidden_size": 32, "embedding_size": 32, "num_layers": 1, "num_heads": 2, "feedforward_size": 32}


def binary_entropy(p: float) -> float:
    return float(-p * np.log2(p) - (1 - p) * np.log2(1 - p))


@pytest.mark.parametrize("flip", [0.01, 0.1, 0.25])
def test_a_binary_symmetric_channel_carries_one_bit_less_its_noise(flip: float) -> None:
    joint = np.array([[1 - flip, flip], [flip, 1 - flip]]) * 1000
    assert information.mutual_information(joint) == pytest.approx(1 - binary_entropy(flip))


def test_a_sampled_channel_is_inside_the_interval_and_its_shuffle_carries_nothing() -> None:
    rng = RNG(0)
    sent = rng.integers(2, size=4000)
    received = sent ^ (rng.random(4000) < 0.1)
    found = information.measure_mutual_information(sent, received, Resampler(rng))
    assert found.estimate.low < 1 - binary_entropy(0.1) < found.estimate.high
    assert found.control.value == pytest.approx(0, abs=2e-4)


def test_the_correction_takes_most_of_the_bias_of_few_samples_away() -> None:
    rng = RNG(0)
    joints = []
    for _ in range(50):
        table = np.zeros((5, 5))
        np.add.at(table, tuple(rng.integers(5, size=(2, 100))), 1)
        joints.append(table)
    plain = np.mean([information.mutual_information(joint) for joint in joints])
    corrected = np.mean([information.mutual_information(joint, corrected=True) for joint in joints])
    assert plain > 0.1  # the truth is 0
    assert abs(corrected) < 0.03


@given(arrays(np.int64, (3, 4), elements=st.integers(1, 50)))
def test_information_is_symmetric_and_at_most_either_entropy(joint: np.typing.NDArray[np.int64]) -> None:
    bits = information.mutual_information(joint)
    assert bits == pytest.approx(information.mutual_information(joint.T), abs=1e-9)
    assert -1e-9 <= bits <= min(information.entropy(joint.sum(axis=0)), information.entropy(joint.sum(axis=1))) + 1e-9


def test_perfect_verdicts_teach_the_whole_entropy() -> None:
    is_replaced = np.arange(800) % 8 == 0
    found = information.measure_rtd_bits(np.where(is_replaced, 50.0, -50.0), is_replaced, np.arange(800) // 8, draws(0))
    bits = binary_entropy(1 / 8)
    assert found.estimate.value == pytest.approx(bits)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((bits, bits))
    assert found.control.value < 0


def test_verdicts_that_know_only_the_share_teach_nothing() -> None:
    is_replaced = np.arange(800) % 8 == 0
    found = information.measure_rtd_bits(np.full(800, np.log(1 / 7)), is_replaced, np.arange(800) // 8, draws(0))
    assert found.estimate.value == pytest.approx(0)
    assert found.control.value == pytest.approx(0)


def test_rows_drawn_again_count_as_if_their_tokens_were_looked_through() -> None:
    rng = RNG(0)
    logits, is_replaced, rows = rng.normal(size=60), rng.random(60) < 0.3, np.repeat(np.arange(12), 5)
    found = information.measure_rtd_bits(logits, is_replaced, rows, Resampler(RNG(3), 20))
    slow = []
    again = RNG(3)
    for _ in range(20):
        places = np.concatenate([np.flatnonzero(rows == row) for row in again.integers(12, size=12)])
        p = 1 / (1 + np.exp(-logits[places]))
        loss = -np.log2(np.where(is_replaced[places], p, 1 - p)).mean()
        slow.append(binary_entropy(is_replaced[places].mean()) - loss)
    tail = expanded_tail(12, 1)
    assert [found.estimate.low, found.estimate.high] == pytest.approx(np.quantile(slow, (tail, 1 - tail)).tolist())


def test_guesses_teach_what_they_save_times_the_share_asked() -> None:
    # Each of 10 rows has 20 tokens, 3 of them hidden; a guess costs 1 bit where its frequency alone says 5.
    rows = np.repeat(np.arange(10), 3)
    found = information.measure_lm_bits(
        np.full(30, np.log(2)), np.full(30, 5 * np.log(2)), rows, np.full(10, 20), draws(0)
    )
    assert found.estimate.value == pytest.approx(4 * 0.15)
    assert found.control.value == pytest.approx(0, abs=1e-12)


def test_the_share_of_positions_with_a_loss() -> None:
    has_loss = np.tile([True, False, False, False], 25)
    assert information.loss_share(has_loss, np.arange(100) // 4, draws(0)).estimate == Interval(0.25, 0.25, 0.25)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_text(folder / "text.txt")
    settings = {"tokenizer": {"vocab_size": 200}, "packing": {"sequence_length": 32}}
    electralab.prepare([folder / "text.txt"], folder / "data", settings=settings, display=QUIET)
    return folder / "data"


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        *((name, 1.0) for name in ("electra", "electric", "all-tokens-mlm", "causal")),
        ("electra-15", 0.15),
        ("mlm", 0.15),
    ],
)
def test_the_share_of_ordinary_tokens_with_a_loss_is_the_objectives(
    data: Path, objective: str, expected: float, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"objective": objective, "model": SIZES, "evaluation": {"rows": 8}}
    electralab.pretrain(data, tmp_path / "run", settings=settings, steps=1, threads=1, display=QUIET)
    asked = AnalysisSettings(rows=8, times=5)
    found = list(information.measure(load_analysis_model(tmp_path / "run"), load_analysis_data(data, asked)))
    figures = {finding.name: finding for finding in found if isinstance(finding, Finding)}
    # Of the thirty tokens of a row 15 % are four or five.
    assert figures["positions with a loss"].estimate.value == pytest.approx(
        expected, abs=0.0 if expected == 1 else 0.02
    )
    is_of_generator = objective in ("electra", "electra-15", "electric")
    assert figures["guess bits"].note == ("of its generator" if is_of_generator else "")
