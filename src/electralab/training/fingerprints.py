"""Two runs are one if their fingerprints agree; what differs is named, with what to do.

stored, requested -> nothing | IdentityMismatch
"""

from collections.abc import Mapping
from pathlib import Path

from electralab.config import differences
from electralab.errors import IdentityMismatch, UsageError
from electralab.records.run import RunFingerprint

ANOTHER = "choose another --out for a new run"


def check_same_settings(run_dir: Path, stored: Mapping[str, object], requested: Mapping[str, object]) -> None:
    for name, was, now in differences(stored, requested):
        raise IdentityMismatch(f"{run_dir}: {name} was {was!r}, now {now!r}; give the same settings or {ANOTHER}")


def check_same_threads(run_dir: Path, stored: int, requested: int) -> None:
    if stored != requested:
        raise IdentityMismatch(
            f"{run_dir}: ran with --threads {stored}, now {requested}, which changes sums; "
            "give the same number, or --allow-inexact"
        )


def check_resumable(
    run_dir: Path, stored: RunFingerprint, requested: RunFingerprint, *, extend: bool, allow_inexact: bool
) -> None:
    """Refuse to go on with another pre-training run's command, naming the first difference and what to do."""
    if stored.data != requested.data:
        raise IdentityMismatch(
            f"{run_dir}: was trained on other data ({stored.data[:8]}…, now {requested.data[:8]}…); "
            f"give the same --data or {ANOTHER}"
        )
    if stored.init_from != requested.init_from:
        raise IdentityMismatch(
            f"{run_dir}: started from {stored.init_from[:16] or 'nothing'}, now asked to start from "
            f"{requested.init_from[:16] or 'nothing'}; --init-from begins a new run: {ANOTHER}"
        )
    if stored.generator != requested.generator:
        raise IdentityMismatch(
            f"{run_dir}: its frozen generator was {stored.generator[:8]}…, now {requested.generator[:8]}…; "
            f"restore that of --generator.path or {ANOTHER}"
        )
    check_same_settings(run_dir, stored.settings, requested.settings)
    if not allow_inexact:
        check_same_threads(run_dir, stored.threads, requested.threads)
    if stored.budget != requested.budget and not extend:
        raise IdentityMismatch(
            f"{run_dir}: its budget was {stored.budget}, now {requested.budget}; give the same, or --extend it"
        )
    if extend and requested.settings.get("procedure") == "two-stage" and requested.total_steps != stored.total_steps:
        raise UsageError(
            f"--extend: the stages of procedure 'two-stage' are halves of {stored.total_steps} steps, and in a longer "
            f"run the generator would learn again and the discriminator start from random weights; {ANOTHER}"
        )
    if extend and requested.total_steps < stored.total_steps:
        steps = f"{requested.budget} is {requested.total_steps} steps, the run has {stored.total_steps}"
        raise UsageError(f"--extend: {steps}; give more")
