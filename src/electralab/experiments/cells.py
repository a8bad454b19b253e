"""A cell is one arm with one seed: a chain of commands, each with what it is, about how long it takes, and its result.

Cell <-> cells/ARM/seed-S/NAME.json for every finished step
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from electralab.artifacts import write_file, write_json
from electralab.config import SettingsTree, differences
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError
from electralab.experiments.scores import Measured, Score, read_score
from electralab.pretraining.settings import complete_settings
from electralab.records.study import StepResult, TuningChoice


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    """`pretrain`, or a score, with `@share` behind it where it is that of a snapshot."""
    words: tuple[str, ...]
    """A module and its words, without those that change no result."""
    identity: SettingsTree
    seconds: float
    """Estimated."""
    needs: tuple[Path, ...] = ()
    """Files of other cells, or of this one, without which it cannot be run."""
    choice: Path | None = None
    """The folder of the TuningChoice that it is tuned with: not known before the arm has been tried with all."""
    scratch: Path | None = None
    """What may go once the result is written down."""

    @property
    def kind(self) -> str:
        """Those of one kind take about as long as each other."""
        return self.name.partition("@")[0]

    def tuning(self) -> dict[str, str | float]:
        """The settings that were chosen for it; empty where nothing is to be chosen, or is not chosen yet."""
        is_chosen = self.choice is not None and (self.choice / TuningChoice.FILE).is_file()
        return TuningChoice.read(self.choice).settings if self.choice and is_chosen else {}


@dataclass(frozen=True, slots=True)
class Cell:
    arm: str
    seed: int
    folder: Path
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        return f"{self.arm} seed {self.seed}"

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    def read(self, step: Step) -> StepResult | None:
        """None where the step is not finished; a result of other settings is refused."""
        path = self.folder / f"{step.name}.json"
        stored = StepResult.read(path)
        tuning = step.tuning()
        if stored is None or (step.choice and not tuning):
            return None
        identity = step.identity | ({"tuning": tuning} if tuning else {})
        try:
            difference = next(differences(_complete(stored.identity, identity), identity), None)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise DamagedArtifact(f"{path}: not the result of a step; delete it to run the step again") from None
        if difference:
            name, was, now = difference
            raise IdentityMismatch(
                f"{path}: {name} was {was!r}, now {now!r}; give the same study, or choose another --out for a new one"
            )
        return stored

    def write(self, step: Step, seconds: float, result: SettingsTree) -> None:
        tuning = step.tuning()
        identity = step.identity | ({"tuning": tuning} if tuning else {})
        StepResult(identity=identity, seconds=seconds, result=result).write(self.folder / f"{step.name}.json")
        if step.scratch:
            shutil.rmtree(step.scratch, ignore_errors=True)
        self.log_path(step, "seconds").unlink(missing_ok=True)

    def finished(self) -> dict[str, StepResult]:
        """The results of the steps that are finished, by their names."""
        results = {step.name: self.read(step) for step in self.steps}
        return {name: result for name, result in results.items() if result is not None}

    def log_path(self, step: Step, ending: str) -> Path:
        """Of what the step's command printed (`out`, `err`), and of what it took so far (`seconds`)."""
        return self.folder / "logs" / f"{step.name}.{ending}"

    def add_seconds(self, step: Step, seconds: float) -> float:
        """To those that earlier sittings spent on the step: one that was stopped goes on where it was."""
        path = self.log_path(step, "seconds")
        spent = seconds + (float(path.read_text()) if path.is_file() else 0.0)
        write_file(path, f"{spent}\n")
        return spent

    def write_scores(self, scores: tuple[Score, ...]) -> None:
        """All that is measured of the cell so far, in one small file for people and scripts."""
        measured, _ = read_scores(self.finished(), scores)
        write_json(self.folder / "scores.json", {name: score.value for name, score in measured.items()})


def _complete(stored: SettingsTree, asked: SettingsTree) -> SettingsTree:
    """With what has come since: files that were not hashed are taken for those of now, settings have their defaults."""
    stored = {key: asked[key] for key in ("files", "generator") if key in asked} | stored
    if "budget" not in stored:
        return stored
    settings = complete_settings(stored["settings"])
    return stored | {"settings": {name: settings[name] for name in settings if name in asked["settings"]}}


def read_scores(results: Mapping[str, StepResult], scores: tuple[Score, ...]) -> tuple[dict[str, Measured], str]:
    """What is measured, and what is wrong with the first result that does not say its score."""
    by_name = {score.name: score for score in scores}
    measured: dict[str, Measured] = {}
    wrong = ""
    for name, step in results.items():
        score = by_name.get(name.partition("@")[0])
        try:
            if score is not None:
                measured[name] = read_score(score, step.result)
        except InputError as error:
            wrong = wrong or f"{name}: {error}; delete {name}.json of the cell to run it again"
    return measured, wrong
