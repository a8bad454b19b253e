"""Laws that were planted are found again, and noise is not taken for one."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from electralab.analysis.finding import Resampler
from electralab.analysis.measures import scaling
from electralab.errors import InputError
from electralab.records.record import JsonTree
from electralab.records.run import Budget, PretrainResults, RunFingerprint

RNG = np.random.default_rng
SIZES, TOKENS = (column.ravel() for column in np.meshgrid([1e6, 4e6, 2e7], [1e7, 1e8, 5e8, 2e9]))
RUNS = np.stack([SIZES, TOKENS], axis=1)
COMPUTE = np.geomspace(1e12, 1e17, 10)


def test_a_planted_log_law_is_recovered() -> None:
    law = scaling.fit_log_law(RUNS, 0.03 * np.log(SIZES) + 0.02 * np.log(TOKENS) - 0.1)
    assert (law.alpha, law.beta, law.gamma) == pytest.approx((0.03, 0.02, 0.1))


def test_a_noisy_log_law_is_inside_its_intervals_and_predicts_runs_left_out() -> None:
    rng = RNG(0)
    scores = 0.03 * np.log(SIZES) + 0.02 * np.log(TOKENS) - 0.1 + rng.normal(0, 0.003, 12)
    (alpha, beta, gamma), left_out = scaling.measure_log_law(RUNS, scores, Resampler(rng))
    assert alpha.estimate.low < 0.03 < alpha.estimate.high
    assert beta.estimate.low < 0.02 < beta.estimate.high
    assert gamma.estimate.low < 0.1 < gamma.estimate.high
    assert alpha.control.low < 0 < alpha.control.high < 0.03
    assert left_out.estimate.high < 0.01 < left_out.control.low


@pytest.mark.parametrize(("a", "b", "c"), [(300.0, 0.15, 1.7), (5e4, 0.4, 0.0), (1e9, 0.7, 2.0)])
def test_a_planted_power_law_is_recovered(a: float, b: float, c: float) -> None:
    law = scaling.fit_power_law(COMPUTE, a * COMPUTE**-b + c)
    assert law.b == pytest.approx(b, rel=1e-3)
    assert law.a == pytest.approx(a, rel=5e-2)
    assert law.c == pytest.approx(c, abs=5e-3)
    assert law.predict(COMPUTE) == pytest.approx(a * COMPUTE**-b + c, rel=1e-3)


def test_a_noisy_power_law_is_inside_its_intervals() -> None:
    rng = RNG(0)
    compute = np.repeat(COMPUTE, 2)
    losses = 300 * compute**-0.15 + 1.7 + rng.normal(0, 0.02, 20)
    (_, b, c), left_out = scaling.measure_power_law(compute, losses, Resampler(rng))
    assert b.estimate.low < 0.15 < b.estimate.high
    assert c.estimate.low < 1.7 < c.estimate.high
    assert left_out.estimate.high < left_out.control.low


def test_a_slope_is_that_of_the_line() -> None:
    x = np.arange(5.0) + 100
    assert scaling.fit_slope(x, 3 * x - 7) == pytest.approx(3)
    assert np.isnan(scaling.fit_slope(np.ones(5), x))


def write_run(folder: Path, size: int, loss: float, objective: str = "mlm") -> None:
    name = {"electra": "discriminator"}.get(objective, "model")
    heldout = {"electra": {"generator_loss": 9.0, "discriminator_loss": loss}}.get(objective, {"masked_loss": loss})
    (folder / "export" / name).mkdir(parents=True)
    weights = {"a": torch.zeros(size, 3), "b": torch.zeros(2)}
    safetensors.torch.save_file(weights, folder / "export" / name / "model.safetensors", {"format": "pt"})
    facts = {"tokens": 100 * (3 * size + 2), "flops": 7 * size, "seconds": 1.0, "heldout": heldout}
    PretrainResults.model_validate({"objective": objective, "step": 9, **facts}).write(folder)
    budget, settings = Budget("steps", 9), JsonTree(objective=objective)
    RunFingerprint(data="", init_from="", settings=settings, budget=budget, total_steps=9, threads=1).write(folder)


def test_runs_are_found_wherever_they_lie(tmp_path: Path) -> None:
    write_run(tmp_path / "one", 4, 2.5)
    write_run(tmp_path / "runs" / "deep" / "two", 5, 0.25, "electra")
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "results.json").write_text('{"task": "sst2"}')
    points = scaling.read_points(tmp_path)
    assert [(point.objective, point.parameters, point.tokens, point.flops) for point in points] == [
        ("mlm", 14, 1400, 28),
        ("electra", 17, 1700, 35),
    ]
    assert [point.loss for point in points] == [2.5, 0.25]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no finished pre-training run"):
        scaling.read_points(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        scaling.read_points(tmp_path / "nowhere")
