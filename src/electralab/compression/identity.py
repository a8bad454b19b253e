"""What a folder of variants is of; going on with anything else is refused.

model, data, settings, threads <-> compress.json
"""

from pathlib import Path
from typing import Any

from electralab.artifacts import read_json
from electralab.errors import DamagedArtifact, IdentityMismatch
from electralab.training.identity import ANOTHER, require_same_settings, require_same_threads

IDENTITY = "compress.json"


def read_identity(out: Path) -> dict[str, Any]:
    stored = read_json(out / IDENTITY) if (out / IDENTITY).is_file() else {}
    if stored and (not isinstance(stored, dict) or stored.keys() != {"kind", "model", "data", "settings", "threads"}):
        raise DamagedArtifact(f"{out / IDENTITY}: does not say what was compressed; restore it or {ANOTHER}")
    return dict(stored)


def require_same(out: Path, stored: dict[str, Any], asked: dict[str, Any]) -> None:
    for what in ("model", "data"):
        if stored[what] != asked[what]:
            raise IdentityMismatch(f"{out}: holds variants of another {what}; give the same one, or {ANOTHER}")
    require_same_settings(out, stored["settings"], asked["settings"])
    require_same_threads(out, stored["threads"], asked["threads"])
