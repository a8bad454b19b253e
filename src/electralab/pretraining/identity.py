"""What a run is: data, settings, length and threads, written before step 1; resuming as anything else is refused.

RunIdentity <-> run.json
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from electralab.artifacts import read_json, write_json
from electralab.errors import DamagedArtifact, IdentityMismatch, UsageError
from electralab.training.identity import ANOTHER, require_same_settings, require_same_threads

BudgetKind = Literal["steps", "tokens", "flops", "minutes"]


@dataclass(frozen=True, slots=True)
class Budget:
    kind: BudgetKind
    amount: float

    def __str__(self) -> str:
        return f"--{self.kind} {self.amount:.15g}"


def choose_budget(verb: str, asked: Mapping[BudgetKind, float | None], default: Budget) -> Budget:
    """The one that was given."""
    given = [Budget(kind, float(amount)) for kind, amount in asked.items() if amount is not None]
    if len(given) > 1:
        raise UsageError(f"{verb}: {given[0]} and {given[1]} are both given; give one budget")
    return given[0] if given else default


@dataclass(frozen=True, slots=True)
class RunIdentity:
    data: str
    """Hash of the tokenizer and every shard."""
    init_from: str
    settings: dict[str, Any]
    budget: Budget
    total_steps: int
    threads: int
    generator: str = ""
    """Hash of a frozen generator's weights: its path says nothing of what lies there."""
    preset: str = ""
    """The preset that the settings came from; empty in runs that did not store it."""


def write_identity(run_dir: Path, identity: RunIdentity) -> None:
    write_json(run_dir / "run.json", asdict(identity))


def read_identity(run_dir: Path) -> RunIdentity | None:
    path = run_dir / "run.json"
    if not path.exists():
        return None
    stored = read_json(path)
    try:
        return RunIdentity(**{**stored, "budget": Budget(**stored["budget"])})
    except (TypeError, KeyError):
        raise DamagedArtifact(f"{path}: not the identity of a run; restore the file or choose another --out") from None


def require_same(run_dir: Path, stored: RunIdentity, asked: RunIdentity, *, extend: bool, allow_inexact: bool) -> None:
    """Refuse to go on with another run's command, naming the first difference and what to do."""
    if stored.data != asked.data:
        raise IdentityMismatch(
            f"{run_dir}: was trained on other data ({stored.data[:8]}…, now {asked.data[:8]}…); "
            f"give the same --data or {ANOTHER}"
        )
    if stored.init_from != asked.init_from:
        raise IdentityMismatch(
            f"{run_dir}: started from {stored.init_from[:16] or 'nothing'}, now asked to start from "
            f"{asked.init_from[:16] or 'nothing'}; --init-from begins a new run: {ANOTHER}"
        )
    if stored.generator != asked.generator:
        raise IdentityMismatch(
            f"{run_dir}: its frozen generator was {stored.generator[:8]}…, now {asked.generator[:8]}…; "
            f"restore that of --generator.path or {ANOTHER}"
        )
    require_same_settings(run_dir, stored.settings, asked.settings)
    if not allow_inexact:
        require_same_threads(run_dir, stored.threads, asked.threads)
    if stored.budget != asked.budget and not extend:
        raise IdentityMismatch(
            f"{run_dir}: its budget was {stored.budget}, now {asked.budget}; give the same, or --extend it"
        )
    if extend and asked.settings.get("procedure") == "two-stage" and asked.total_steps != stored.total_steps:
        raise UsageError(
            f"--extend: the stages of procedure 'two-stage' are halves of {stored.total_steps} steps, and in a longer "
            f"run the generator would learn again and the discriminator begin anew; {ANOTHER}"
        )
    if extend and asked.total_steps < stored.total_steps:
        raise UsageError(
            f"--extend: {asked.budget} is {asked.total_steps} steps, the run has {stored.total_steps}; give more"
        )
