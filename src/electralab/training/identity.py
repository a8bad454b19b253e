"""Two runs are one if these agree; what differs is named, with what to do.

stored, asked -> nothing | IdentityMismatch
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electralab.config import differences
from electralab.errors import IdentityMismatch

ANOTHER = "choose another --out for a new run"


def require_same_settings(run_dir: Path, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for name, was, now in differences(stored, asked):
        raise IdentityMismatch(f"{run_dir}: {name} was {was!r}, now {now!r}; give the same settings or {ANOTHER}")


def require_same_threads(run_dir: Path, stored: int, asked: int) -> None:
    if stored != asked:
        raise IdentityMismatch(
            f"{run_dir}: ran with --threads {stored}, now {asked}, which changes sums; "
            "give the same number, or --allow-inexact"
        )
