"""A run is its data, settings, length and threads: the first difference is named, and what to do about it."""

from pathlib import Path
from typing import Any

import pytest

from electralab.errors import DamagedArtifact, IdentityMismatch, UsageError
from electralab.records.run import Budget, RunFingerprint
from electralab.training.fingerprints import check_resumable

RUN = Path("runs/a")
SETTINGS: dict[str, Any] = {"seed": 0, "masking": {"mask_share": 0.15, "appearance": "mask"}}
IDENTITY = RunFingerprint(
    data="d" * 64, init_from="", settings=SETTINGS, budget=Budget("steps", 100.0), total_steps=100, threads=2
)


def replace(fingerprint: RunFingerprint, **changes: Any) -> RunFingerprint:
    return fingerprint.model_copy(update=changes)


def refusal(asked: RunFingerprint, *, extend: bool = False, allow_inexact: bool = False) -> str:
    with pytest.raises(IdentityMismatch) as caught:
        check_resumable(RUN, IDENTITY, asked, extend=extend, allow_inexact=allow_inexact)
    return str(caught.value)


def test_the_same_run_goes_on() -> None:
    check_resumable(RUN, IDENTITY, replace(IDENTITY), extend=False, allow_inexact=False)


def test_an_identity_survives_its_file(tmp_path: Path) -> None:
    assert RunFingerprint.find(tmp_path) is None
    IDENTITY.write(tmp_path)
    assert RunFingerprint.find(tmp_path) == IDENTITY


def test_other_data_is_named() -> None:
    assert refusal(replace(IDENTITY, data="e" * 64)) == (
        "runs/a: was trained on other data (dddddddd…, now eeeeeeee…); give the same --data or choose another --out "
        "for a new run"
    )


def test_another_setting_is_named_by_its_dotted_name() -> None:
    settings = {**SETTINGS, "masking": {"mask_share": 0.25, "appearance": "mask"}}
    assert refusal(replace(IDENTITY, settings=settings)) == (
        "runs/a: masking.mask_share was 0.15, now 0.25; give the same settings or choose another --out for a new run"
    )


def test_a_setting_that_one_side_does_not_know_is_a_difference() -> None:
    assert "loss.kind was None, now 'new'" in refusal(replace(IDENTITY, settings={**SETTINGS, "loss.kind": "new"}))


def test_another_origin_is_never_taken_for_a_resume() -> None:
    assert refusal(replace(IDENTITY, init_from="f" * 64)) == (
        "runs/a: started from nothing, now asked to start from ffffffffffffffff; --init-from begins a new run: choose "
        "another --out for a new run"
    )


def test_another_frozen_generator_is_named() -> None:
    assert refusal(replace(IDENTITY, generator="f" * 64)).startswith(
        "runs/a: its frozen generator was …, now ffffffff…"
    )


def test_other_threads_are_refused_unless_inexactness_is_allowed() -> None:
    asked = replace(IDENTITY, threads=4)
    assert refusal(asked) == (
        "runs/a: ran with --threads 2, now 4, which changes sums; give the same number, or --allow-inexact"
    )
    check_resumable(RUN, IDENTITY, asked, extend=False, allow_inexact=True)


def test_another_budget_needs_extend_and_must_be_larger() -> None:
    longer = replace(IDENTITY, budget=Budget("steps", 200.0), total_steps=200)
    assert refusal(longer) == "runs/a: its budget was --steps 100, now --steps 200; give the same, or --extend it"
    check_resumable(RUN, IDENTITY, longer, extend=True, allow_inexact=False)
    shorter = replace(IDENTITY, budget=Budget("steps", 50.0), total_steps=50)
    with pytest.raises(UsageError, match="--steps 50 is 50 steps, the run has 100; give more"):
        check_resumable(RUN, IDENTITY, shorter, extend=True, allow_inexact=False)


def test_a_run_in_two_stages_is_not_extended() -> None:
    stored = replace(IDENTITY, settings={**SETTINGS, "procedure": "two-stage"})
    longer = replace(stored, budget=Budget("steps", 200.0), total_steps=200)
    with pytest.raises(UsageError) as caught:
        check_resumable(RUN, stored, longer, extend=True, allow_inexact=False)
    assert str(caught.value) == (
        "--extend: the stages of procedure 'two-stage' are halves of 100 steps, and in a longer run the generator "
        "would learn again and the discriminator start from random weights; choose another --out for a new run"
    )
    check_resumable(RUN, stored, replace(stored, budget=Budget("tokens", 9.0)), extend=True, allow_inexact=False)


@pytest.mark.parametrize("text", ["[]", "{}", '{"budget": 3}', '{"budget": {"kind": "steps", "amount": 1}}', "{"])
def test_a_damaged_identity_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(DamagedArtifact, match=r"run\.json: not "):
        RunFingerprint.find(tmp_path)
