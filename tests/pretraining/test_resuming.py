"""A run goes on with the settings that it stored, whatever its preset and the defaults have become since."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from little_pretraining import prepare_sentences

import electralab
from electralab.config import parse_overrides
from electralab.display import Display
from electralab.errors import IdentityMismatch
from electralab.pretraining import settings
from electralab.pretraining.settings import read_settings, settle_settings

SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4", "--evaluation.rows", "4"),
    *("--generator.num-heads", "1", "--evaluation.times", "1"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("resuming"))


def train(data: Path, run: Path, *words: str, **options: Any) -> Any:
    asked: dict[str, Any] = {"config": "base", "steps": 4, "threads": 1, "log_every": 1} | options
    own = parse_overrides([*SMALL, *words]).values
    return electralab.pretrain(data, run, settings=own, display=Display(quiet=True), **asked)


def rates(run: Path) -> list[float]:
    return [json.loads(line)["learning_rate"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def settle(run: Path, *words: str, config: str = "base") -> tuple[str, ...]:
    return settle_settings([read_settings(config), parse_overrides([*SMALL, *words])], run, 0).notes


def test_a_run_from_before_a_setting_goes_on_as_it_was(data: Path, tmp_path: Path) -> None:
    """Its warm-up was 10,000 steps at any length, and stays so; a new run of the same command has a shorter one."""
    run = tmp_path / "run"
    train(data, run, "--schedule.warmup-reference-steps", "0")
    old_rates = rates(run)

    identity = json.loads((run / "run.json").read_text())
    del identity["settings"]["schedule"]["warmup_reference_steps"], identity["preset"]
    (run / "run.json").write_text(json.dumps(identity))
    file = tomllib.loads((run / "config.toml").read_text())
    del file["schedule"]["warmup_reference_steps"]
    (run / "config.toml").write_text(tomli_w.dumps(file))
    (note,) = settle(run)
    assert note == (
        f"{run}: goes on with the settings that it stored: schedule.warmup_reference_steps is 0 (a new run: 766000)"
    )
    train(data, run, steps=8, extend=True)
    assert rates(run)[:4] == old_rates
    assert max(rates(run)) < 2e-4 * 8 / 10_000
    train(data, tmp_path / "new", steps=8)
    assert max(rates(tmp_path / "new")) == 2e-4


def test_a_preset_that_has_changed_since_does_not_matter(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its settings nor its number of steps."""
    preset = dict(read_settings("base").values)

    def change_preset(**values: Any) -> None:
        monkeypatch.setattr(settings, "find_bundled", lambda *_: preset | values)

    run = tmp_path / "run"
    change_preset(steps=4)
    train(data, run, steps=None)
    before = (run / "results.json").read_text()
    change_preset(steps=6, optimizer={"learning_rate": 1e-3}, masking={"mask_share": 0.3})
    assert "optimizer.learning_rate is 0.0002 (a new run: 0.001)" in settle(run)[0]
    train(data, run, steps=None)
    assert (run / "results.json").read_text() == before
    with pytest.raises(IdentityMismatch, match=r"mask_share was 0.15, now 0.3"):
        train(data, run, "--masking.mask-share", "0.3", steps=None)


def test_what_the_user_asks_for_in_so_many_words_is_still_refused(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(data, run)
    with pytest.raises(IdentityMismatch, match=r"masking.mask_share was 0.15, now 0.3"):
        train(data, run, "--masking.mask-share", "0.3")
    with pytest.raises(IdentityMismatch, match=r"was .*, now "):
        train(data, run, config="paper-base")
