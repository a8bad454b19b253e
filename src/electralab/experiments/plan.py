"""The matrix of a study: for each arm and seed a cell, whose commands are known before any is run.

StudyRequest -> Plan
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from electralab.artifacts import MANIFEST, read_json
from electralab.config import GivenSettings
from electralab.errors import InputError, UsageError
from electralab.experiments import settings as study_settings
from electralab.experiments.cells import Cell, Step, name_flag
from electralab.experiments.derived import ROWS, heldout_share
from electralab.experiments.scores import Score, estimate_flops, find_scores
from electralab.experiments.settings import Arm, StudyConfig
from electralab.model.settings import EncoderConfig
from electralab.pretraining.stage import PretrainRequest, plan_pretrain, primary_network
from electralab.records.record import JsonTree, Record
from electralab.records.run import CHECKPOINTS, PretrainPlan, snapshot_folder, snapshot_step
from electralab.records.study import StudyCorpus, StudyEnvironment, TuningChoice
from electralab.runtime import default_threads, describe_environment, estimate_speed, use_threads

# Starting Python and loading torch, which every command pays.
START_SECONDS = 5.0
# Reading the rows of a task and fitting a linear model to them, twice.
LINEAR_SECONDS = 60.0
DERIVED = "electralab.experiments.derived"
# How often the speed of the machine is measured: what else it does at one moment should not decide.
_MEASUREMENTS = 5


@dataclass(frozen=True, slots=True)
class StudyRequest:
    study: str
    """A file, or the name of one that comes with the package."""
    corpus: Path
    data_dir: Path | None
    out: Path
    settings: GivenSettings
    """Of the command line, over those of the file."""
    only: tuple[str, ...] = ()
    jobs: int = 0
    """Cells side by side; 0: as many as the cores allow."""
    threads: int = 1
    """Of each."""


@dataclass(frozen=True, slots=True)
class Plan:
    study: StudyConfig
    arms: tuple[Arm, ...]
    scores: tuple[Score, ...]
    cells: tuple[Cell, ...]
    """Seed by seed, so that all arms have one before any has two."""
    chosen: tuple[str, ...]
    """The arms of which something may be run."""
    pretraining: dict[str, PretrainPlan]
    jobs: int
    environment: StudyEnvironment
    missing: tuple[str, ...] = ()
    """Data that is not there, without which some scores cannot be measured."""

    def count_parameters(self, arm: str) -> int:
        """Of its networks; a blend's are those of the arm it is of, and a linear model is not counted."""
        networks = next(known.parent if known.start == "blend" else arm for known in self.arms if known.name == arm)
        return self.pretraining[networks].parameters if networks in self.pretraining else 0

    @property
    def refusal(self) -> str:
        """Why the study cannot be run as far as its data goes, all at once; empty where everything is there."""
        if not self.missing:
            return ""
        reasons = "; ".join(self.missing)
        return f"study {self.study.name}: {reasons}; see --data, and docs/studies.md for where to get the sets"


class _CorpusManifest(Record):
    """What a study has to know of its prepared text."""

    kind: Literal["electralab-data"]
    sequence_length: int
    sha256: str


def plan_study(request: StudyRequest) -> Plan:
    """Everything is resolved and looked for; settings that make no sense are refused here, before anything is run."""
    layer = study_settings.read_study(request.study)
    study = study_settings.resolve_study(layer, request.settings)
    arms = study_settings.resolve_arms(study, layer.source)
    chosen = study_settings.choose_arms(request.only, list(study.arms))
    path, advice = request.corpus / MANIFEST, "give --corpus a folder that 'electra prepare' wrote"
    if not path.is_file():
        raise InputError(f"{request.corpus}: holds no prepared text; {advice}")
    try:
        manifest = _CorpusManifest.model_validate(read_json(path))
    except ValidationError:
        raise InputError(f"{request.corpus}: is not prepared text; {advice}") from None
    # As far as the defaults of fine-tuning ask.
    names = ("backbone", "num_layers", "hidden_size", "embedding_size", "num_heads", "feedforward_size")
    rest: dict[str, Any] = {"vocab_size": 1, "dropout": 0.0, "attention_dropout": 0.0, "norm_eps": 1e-6}
    rest |= {"sequence_length": manifest.sequence_length}
    encoders = {
        arm.name: EncoderConfig(**{name: getattr(arm.config.model, name) for name in names}, **rest) for arm in arms
    }
    scores, missing = find_scores(study, request.data_dir, request.corpus, layer.source, encoders[study.baseline])
    plans: dict[str, PretrainPlan] = {}
    for arm in arms:
        run_dir = request.out / "cells" / arm.name / "plan"
        if arm.is_tuned:
            with study_settings.naming_arm(layer.source, arm.name):
                run = PretrainRequest(request.corpus, run_dir, arm.config, arm.budget, threads=request.threads)
                plans[arm.name] = plan_pretrain(run)
    _check_arms(arms, scores, plans, layer.source)
    # As the cells will be run, and the best of several: other work can only make a measurement slower.
    use_threads(request.threads)
    speed = max(estimate_speed() for _ in range(_MEASUREMENTS))
    by_name = {arm.name: arm for arm in arms}
    matrix = _Matrix(request, study, by_name, scores, encoders, plans, manifest.sha256, speed)
    facts: dict[str, Any] = dict(describe_environment(request.threads)) | {
        "command": write_command(request),
        "corpus": StudyCorpus(path=str(request.corpus), sha256=manifest.sha256),
        "data": str(request.data_dir or ""),
    }
    return Plan(
        study=study,
        arms=tuple(arms),
        scores=scores,
        cells=tuple(matrix.cell(arm, seed) for seed in study.seeds for arm in arms),
        chosen=tuple(chosen),
        pretraining=plans,
        jobs=request.jobs or max(1, default_threads() // request.threads),
        environment=StudyEnvironment(**facts),
        missing=missing,
    )


def write_command(request: StudyRequest) -> str:
    """As typed into a shell it asks for the same, whether the request came from there or not."""

    def flatten(tree: GivenSettings, prefix: str = "") -> Iterator[tuple[str, Any]]:
        for key, value in tree.items():
            if isinstance(value, dict):
                yield from flatten(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    words = ["electra", "study", request.study, "--corpus", str(request.corpus), "--out", str(request.out)]
    words += ["--data", str(request.data_dir)] if request.data_dir else []
    for name, value in flatten(request.settings):
        # The command line reads numbers, true and lists as TOML has them, which is as JSON has them.
        word = value if isinstance(value, str) else json.dumps(value)
        words += [name_flag(name), ",".join(map(str, value)) if name == "seeds" else word]
    words += ["--only", ",".join(request.only)] if request.only else []
    words += ["--jobs", str(request.jobs)] if request.jobs else []
    return shlex.join([*words, "--threads", str(request.threads)])


def _check_arms(arms: Sequence[Arm], scores: Sequence[Score], plans: Mapping[str, PretrainPlan], source: str) -> None:
    """What an arm can be asked, and what it can begin with."""
    by_name = {arm.name: arm for arm in arms}
    for score in scores:
        where, generator = f"{source}: scores.{score.name}", score.config.generator
        if generator and generator not in by_name and not Path(generator).exists():
            raise UsageError(f"{where}: generator: no arm or model named {generator!r}; give one of the arms or a path")
        for arm in arms if score.config.suite == "rtd" else ():
            # Energies are no probability that a token was replaced.
            can_detect = primary_network(arm.config.objective) == "discriminator" and arm.config.objective != "electric"
            if score.is_of(arm) and not can_detect:
                raise UsageError(
                    f"{where}: the arm {arm.name!r} has no verdicts on tokens; name those that have in arms = [...]"
                )
    branches = [arm for arm in arms if arm.start == "branch"]
    for arm in branches:
        where, parent = f"{source}: arms.{arm.name}", by_name[arm.parent]
        # It leaves its parent while the rate is still full, and the parent keeps one checkpoint for it.
        if {arm.config.schedule.kind, parent.config.schedule.kind} != {"stable-decay"}:
            raise UsageError(f'{where}: a branch needs schedule.kind = "stable-decay", and so does {arm.parent!r}')
        if plans[arm.name].steps >= plans[arm.parent].steps:
            raise UsageError(f"{where}: a branch is shorter than {arm.parent!r}; give a budget_share below 1")
        if plans[arm.name].steps < 2:
            raise UsageError(
                f"{where}: a branch of one step has no step in which its rate could fall; give a larger budget"
            )
        if [other.parent for other in branches].count(arm.parent) > 1:
            raise UsageError(f"{where}: {arm.parent!r} has another branch already; a run may have one")


@dataclass(frozen=True, slots=True)
class _Matrix:
    """What all cells are made from."""

    request: StudyRequest
    study: StudyConfig
    arms: dict[str, Arm]
    scores: tuple[Score, ...]
    encoders: dict[str, EncoderConfig]
    plans: dict[str, PretrainPlan]
    corpus_hash: str
    speed: float
    """FLOP/s."""

    def folder(self, arm: str, seed: int) -> Path:
        return self.request.out / "cells" / arm / f"seed-{seed}"

    def cell(self, arm: Arm, seed: int) -> Cell:
        """Pre-training first, then the choice of tuning, the scores at its end, and those along its way."""
        folder, snapshots = self.folder(arm.name, seed), self.study.snapshots
        scores = [score for score in self.scores if score.is_of(arm)]
        steps: list[Step] = []
        if arm.is_tuned:
            steps.append(self._pretrain(arm, seed))
            steps += self._choose(arm, seed) if seed == self.study.seeds[0] else ()
        for score in scores:
            if whole := score.config.hard_half_of:
                linear = self._linear(seed)
                words = (f"--network={folder / whole}", f"--baseline={linear / whole}")
                step = self._derive("hard", score, seed, arm, *words)
                needs = (linear / f"{whole}.json", folder / f"{whole}.json")
                steps.append(replace(step, identity=step.identity | {"hard_half_of": whole}, needs=needs))
            elif arm.start == "baseline":
                steps.append(self._derive("baseline", score, seed, arm, f"--data={score.data}"))
            elif arm.start == "blend":
                steps += self._blend(score, arm, seed)
            else:
                steps.append(self._measure(score, arm, seed, folder / "run"))
        for share in snapshots.at if arm.start == "pretrained" else ():
            model = snapshot_folder(folder / "run", snapshot_step(share, self.plans[arm.name].steps))
            for score in scores:
                if (snapshots.scores is None or score.name in snapshots.scores) and not score.config.hard_half_of:
                    steps.append(self._measure(score, arm, seed, model, f"@{share:g}"))
        return Cell(arm.name, seed, folder, tuple(steps))

    # What `identity` holds is on disk: a key or value that changes would refuse every folder begun before.

    def _pretrain(self, arm: Arm, seed: int) -> Step:
        amount = str(int(arm.budget.amount)) if arm.budget.kind == "steps" else repr(arm.budget.amount)
        snapshots = self.study.snapshots.at if arm.start == "pretrained" else ()
        config = str(self.request.out / "arms" / f"{arm.name}.toml")
        words = ["electralab", "pretrain", "--data", str(self.request.corpus), "--config", config, "--seed", str(seed)]
        words += ["--out", str(self.folder(arm.name, seed) / "run"), f"--{arm.budget.kind}", amount]
        words += ["--snapshots", ",".join(map(str, snapshots))] if snapshots else []
        identity: JsonTree = {
            "corpus": self.corpus_hash,
            "settings": arm.config.model_dump(mode="json", exclude={"steps", "seed"}),
            "budget": asdict(arm.budget),
            "seed": seed,
            "snapshots": list(snapshots),
        }
        steps, seconds = self.plans[arm.name].steps, self.plans[arm.name].flops / self.speed
        needs: tuple[Path, ...] = ()
        # A run that another branches from keeps its checkpoints, and those of a stop beside them.
        branch = next(
            (other for other in self.arms.values() if other.start == "branch" and arm.name == other.parent), None
        )
        every = self._branch_step(branch) if branch else 0
        words += ["--save-every", str(every), "--keep", str(steps // every + 9)] if every else ["--keep", "1"]
        if arm.start == "branch":
            step, parent = self._branch_step(arm), self.folder(arm.parent, seed)
            words += ["--branch-from", str(parent / "run" / CHECKPOINTS / f"step-{step}")]
            identity |= {"branch": {"parent": arm.parent, "step": step}}
            seconds, needs = seconds * arm.config.schedule.decay_share, (parent / "pretrain.json",)
        return Step("pretrain", tuple(words), identity, seconds + START_SECONDS, needs)

    def _branch_step(self, arm: Arm) -> int:
        """Where the rate of a branch begins to fall."""
        return max(1, round(self.plans[arm.name].steps * (1 - arm.config.schedule.decay_share)))

    def _choose(self, arm: Arm, seed: int) -> list[Step]:
        """Every point of the grid on training rows that are held out, and the choice among them."""
        tuning, folder = self.study.tuning, self.folder(arm.name, seed)
        steps = []
        for score in self.scores if tuning.grid else ():
            if score.name not in tuning.scores:
                continue
            share = tuning.heldout_rows / score.train_examples
            if share > 0.5:
                raise UsageError(
                    f"tuning.heldout_rows: {score.name} has {score.train_examples:,} training rows, and "
                    f"{tuning.heldout_rows:,} of them are to be held out; hold out no more than half"
                )
            for place, point in enumerate(tuning.points):
                name = f"tune-{score.name}@{place}"
                words = [f"--data={score.train_file}", f"--data.dev-share={share:.6f}"]
                words += [f"{name_flag(key)}={value}" for key, value in point.items()]
                step = self._finetune(score, arm, seed, 1, folder / name, *words, model=folder / "run")
                identity = step.identity | {"seeds": 1, "tuning": point, "heldout_rows": tuning.heldout_rows}
                steps.append(replace(step, identity=identity, needs=(), choice=None, scratch=folder / name))
        files = [str(folder / f"{step.name}.json") for step in steps]
        choose = (DERIVED, "choose", *files, "--out", str(folder.parent))
        choice = Step("tuning", choose, {"trials": [step.identity for step in steps]}, START_SECONDS)
        return [*steps, choice] if steps else []

    def _finetune(self, score: Score, arm: Arm, seed: int, seeds: int, out: Path, *words: str, model: Path) -> Step:
        """Of an arm's network, into a folder of a cell; on its choice of settings, where there is one."""
        assert score.task is not None, "what is tuned is tuned on a task"
        words = ("electralab", "finetune", str(model), "--task", score.task.name, "--out", str(out), *words)
        words += ("--config", str(self.request.out / "scores" / f"{score.name}.toml")) if score.config.settings else ()
        # As its pre-training: cells have a core each, and are cut only where the study says so.
        batch = score.config.settings.get("batch")
        words += () if isinstance(batch, dict) and "slices" in batch else ("--batch.slices", "1")
        # Every cell of one seed has the same seeds of fine-tuning, and no two seeds share any.
        words += ("--seeds", str(seeds), "--seed", str(seed * score.config.seeds), "--keep", "0", "--no-baseline")
        words += ("--from-scratch",) if arm.start == "random" else ()
        seconds = estimate_flops(score, self.encoders[arm.name], seeds) / self.speed + START_SECONDS
        choice = self._choice(arm)
        needs = (choice / TuningChoice.FILE,) if choice else ()
        return Step(out.name, words, self._identity(score, arm), seconds, needs, choice)

    def _choice(self, arm: Arm) -> Path | None:
        """Where the settings of its fine-tuning are written down; None where they are those of the scores."""
        tuning = self.study.tuning
        if arm.start == "blend":
            return self._choice(self.arms[arm.parent])
        if not arm.is_tuned or not (tuning.grid or tuning.choices):
            return None
        return (Path(tuning.choices) if tuning.choices else self.request.out) / "cells" / arm.name

    def _identity(self, score: Score, arm: Arm) -> JsonTree:
        identity = score.config.model_dump(mode="json", exclude={"name", "metric", "data", "arms", "hard_half_of"})
        return identity | {"files": dict(score.files)} | ({"start": "random"} if arm.start == "random" else {})

    def _measure(self, score: Score, arm: Arm, seed: int, model: Path, suffix: str = "") -> Step:
        config, name = score.config, score.name + suffix
        if score.is_tuned:
            out = self.folder(arm.name, seed) / name
            return self._finetune(score, arm, seed, config.seeds, out, f"--data={score.data}", model=model)
        if config.suite == "blimp" and not config.metric and arm.config.objective != "electric":
            # The generator of a pair would be asked for every token in turn, for a score that does not count.
            model = (model if suffix else model / "export") / primary_network(arm.config.objective)
        words = ["electralab", "evaluate", str(model), "--data", str(score.data), "--suite", config.suite]
        words += ["--config", str(self.request.out / "scores" / f"{score.name}.toml")] if config.settings else []
        words += ["--task", score.task.name] if score.task else []
        needs: tuple[Path, ...] = ()
        if config.generator:
            # An arm's generator is that of the same seed, and there once its pre-training is finished.
            rival = self.folder(config.generator, seed)
            needs = (rival / "pretrain.json",) if config.generator in self.arms else ()
            words += ["--generator", str(rival / "run") if needs else config.generator]
        seconds = estimate_flops(score, self.encoders[arm.name], 1) / self.speed + START_SECONDS
        return Step(name, tuple(words), self._identity(score, arm), seconds, needs)

    def _derive(self, what: str, score: Score, seed: int, arm: Arm, *words: str) -> Step:
        """A step without a network, on what others answered."""
        assert score.task is not None, "only what is tuned is asked without a network"
        config = self.request.out / "scores" / f"{score.name}.toml"
        out = self.folder(arm.name, seed) / score.name
        words = (DERIVED, what, *words, "--task", score.task.name, "--config", str(config), "--out", str(out))
        seconds = LINEAR_SECONDS if what == "baseline" else START_SECONDS
        identity = self._identity(score, arm) | {"start": arm.start}
        return Step(score.name, words, identity, seconds, (), self._choice(arm))

    def _linear(self, seed: int) -> Path:
        return self.folder(next(arm.name for arm in self.arms.values() if arm.start == "baseline"), seed)

    def _blend(self, score: Score, arm: Arm, seed: int) -> list[Step]:
        """The network of another arm learns from a part of the rows, by whose rest both are then weighted."""
        name, folder = score.name, self.folder(arm.name, seed)
        network, linear = self.folder(arm.parent, seed), self._linear(seed)
        limit = score.config.settings.get("train_rows")
        rows = min(limit if isinstance(limit, int) and limit else score.train_examples, score.train_examples)
        share, parent = heldout_share(rows), self.arms[arm.parent]
        heldout = (f"--data={linear / name / ROWS}", f"--data.dev-share={share}")
        tuned = self._finetune(score, parent, seed, 1, folder / f"heldout-{name}", *heldout, model=network / "run")
        words = (f"--network={network / name}", f"--heldout={folder / tuned.name}", f"--baseline={linear / name}")
        blend = self._derive("blend", score, seed, arm, *words)
        identity = blend.identity | {"heldout_share": share, "parent": arm.parent}
        needs = (*tuned.needs, network / "pretrain.json", linear / f"{name}.json")
        return [
            replace(tuned, identity=identity, needs=needs),
            replace(blend, identity=identity, needs=(network / f"{name}.json",)),
        ]
