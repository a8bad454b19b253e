"""What a fine-tuning run is, written before its first step; going on as anything else is refused.

run folder -> TunedRun
"""

from pathlib import Path

from electralab.artifacts import read_json, sha256_file, sha256_json
from electralab.errors import DamagedArtifact, IdentityMismatch
from electralab.finetuning.settings import complete_settings
from electralab.records.tuned import TunedRun
from electralab.training.fingerprints import ANOTHER, check_same_settings, check_same_threads


def identify_model(*folders: Path) -> str:
    """The hash of what the weights and the tokenizer are, not of where they lie."""
    names = ("config.json", "model*.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
    files = [file for folder in folders for name in names for file in sorted(folder.glob(name))]
    return sha256_json([sha256_file(file) for file in files])


def read_identity(run_dir: Path) -> TunedRun | None:
    path = run_dir / TunedRun.FILE
    if not path.exists():
        return None
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != "finetune":
        raise DamagedArtifact(
            f"{path}: not the identity of a fine-tuning run; restore the file or choose another --out"
        )
    return TunedRun.parse(value, path)


def find_run(folder: Path) -> Path | None:
    """The fine-tuning run that a model folder was exported by, where it still lies there."""
    run_dir = folder.parent.parent
    path = run_dir / "run.json"
    if folder.parent.name != "export" or not path.is_file():
        return None
    stored = read_json(path)
    return run_dir if isinstance(stored, dict) and stored.get("kind") == "finetune" else None


def require_same(run_dir: Path, stored: TunedRun, asked: TunedRun, *, allow_inexact: bool) -> None:
    """Refuse to go on with another run's command, naming the first difference and what to do."""
    if stored.task != asked.task:
        raise IdentityMismatch(f"{run_dir}: was a run of {stored.task}, now {asked.task}; {ANOTHER}")
    for what in ("data", "model"):
        was, now = getattr(stored, what), getattr(asked, what)
        if was != now:
            raise IdentityMismatch(
                f"{run_dir}: began with another {what} ({was[:8]}…, now {now[:8]}…); give the same or {ANOTHER}"
            )
    check_same_settings(run_dir, complete_settings(stored.settings), complete_settings(asked.settings))
    if not allow_inexact:
        check_same_threads(run_dir, stored.threads, asked.threads)
