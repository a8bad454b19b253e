"""The matrix of a study: for each arm and seed a cell, whose commands are known before any is run.

StudyRequest -> Plan
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, read_json
from electralab.config import SettingsTree
from electralab.errors import InputError, UsageError
from electralab.experiments.cells import Cell, Step
from electralab.experiments.derived import ROWS, heldout_share
from electralab.experiments.running import name_flag
from electralab.experiments.scores import Score, estimate_flops, find_scores
from electralab.experiments.settings import (
    Arm,
    StudyConfig,
    choose_arms,
    naming_arm,
    read_study,
    resolve_arms,
    resolve_study,
)
from electralab.model.settings import EncoderConfig
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.stage import PretrainRequest, plan_pretrain, primary_network
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
    settings: SettingsTree
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


def plan_study(request: StudyRequest) -> Plan:
    """Everything is resolved and looked for; settings that make no sense are refused here, before anything is run."""
    layer = read_study(request.study)
    study = resolve_study(layer, request.settings)
    arms = resolve_arms(study, layer.source)
    chosen = choose_arms(request.only, list(study.arms))
    sequence_length, corpus_hash = _read_corpus(request.corpus)
    encoders = {arm.name: _sketch_encoder(arm.config, sequence_length) for arm in arms}
    scores, missing = find_scores(study, request.data_dir, request.corpus, layer.source, encoders[study.baseline])
    _check_rtd(arms, scores, layer.source)
    plans = {arm.name: _plan_arm(arm, request, layer.source) for arm in arms if arm.is_tuned}
    _check_branches(arms, plans, layer.source)
    use_threads(request.threads)
    speed = max(estimate_speed() for _ in range(_MEASUREMENTS))
    matrix = _Matrix(request, study, {arm.name: arm for arm in arms}, scores, encoders, plans, corpus_hash, speed)
    environment = StudyEnvironment(
        **dict(describe_environment(request.threads))
        | {
            "command": write_command(request),
            "corpus": StudyCorpus(path=str(request.corpus), sha256=corpus_hash),
            "data": str(request.data_dir or ""),
        }
    )
    return Plan(
        study=study,
        arms=tuple(arms),
        scores=scores,
        cells=tuple(matrix.cell(arm, seed) for seed in study.seeds for arm in arms),
        chosen=tuple(chosen),
        pretraining=plans,
        jobs=request.jobs or max(1, default_threads() // request.threads),
        environment=environment,
        missing=missing,
    )


def write_command(request: StudyRequest) -> str:
    """As typed into a shell it asks for the same, whether the request came from there or not."""

    def flatten(tree: SettingsTree, prefix: str = "") -> Iterator[tuple[str, Any]]:
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
        words += [f"--{name.replace('_', '-')}", ",".join(map(str, value)) if name == "seeds" else word]
    words += ["--only", ",".join(request.only)] if request.only else []
    words += ["--jobs", str(request.jobs)] if request.jobs else []
    return shlex.join([*words, "--threads", str(request.threads)])


def _read_corpus(corpus: Path) -> tuple[int, str]:
    """The length of its rows, and the hash of all that is in it."""
    path = corpus / MANIFEST
    if not path.is_file():
        raise InputError(f"{corpus}: holds no prepared text; give --corpus a folder that 'electra prepare' wrote")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("kind") != "electralab-data":
        raise InputError(f"{corpus}: is not prepared text; give --corpus a folder that 'electra prepare' wrote")
    return manifest["sequence_length"], manifest["sha256"]


def _check_rtd(arms: Sequence[Arm], scores: Sequence[Score], source: str) -> None:
    """Replaced tokens are found by a discriminator only, and replaced by a generator that is there."""
    for score in scores:
        where, generator = f"{source}: scores.{score.name}", score.config.generator
        if generator and generator not in {arm.name for arm in arms} and not Path(generator).exists():
            raise UsageError(f"{where}: generator: no arm or model named {generator!r}; give one of the arms or a path")
        for arm in arms if score.config.suite == "rtd" else ():
            # Energies are no probability that a token was replaced.
            can_detect = primary_network(arm.config.objective) == "discriminator" and arm.config.objective != "electric"
            if score.is_of(arm) and not can_detect:
                raise UsageError(
                    f"{where}: the arm {arm.name!r} has no verdicts on tokens; name those that have in arms = [...]"
                )


def _check_branches(arms: Sequence[Arm], plans: Mapping[str, PretrainPlan], source: str) -> None:
    """A branch leaves its trunk while the rate is still full, and the trunk has one checkpoint for it."""
    trunks = [arm.parent for arm in arms if arm.start == "branch"]
    for arm in arms:
        if arm.start != "branch":
            continue
        trunk = next(other for other in arms if other.name == arm.parent)
        where = f"{source}: arms.{arm.name}"
        if arm.config.schedule.kind != "stable-decay" or trunk.config.schedule.kind != "stable-decay":
            raise UsageError(f'{where}: a branch needs schedule.kind = "stable-decay", and so does {arm.parent!r}')
        if plans[arm.name].steps >= plans[arm.parent].steps:
            raise UsageError(f"{where}: a branch is shorter than {arm.parent!r}; give a budget_share below 1")
        if trunks.count(arm.parent) > 1:
            raise UsageError(f"{where}: {arm.parent!r} has another branch already; one of each run is kept")


def _sketch_encoder(config: PretrainConfig, sequence_length: int) -> EncoderConfig:
    """As far as the defaults of fine-tuning ask."""
    names = ("backbone", "num_layers", "hidden_size", "embedding_size", "num_heads", "feedforward_size")
    sizes = {name: getattr(config.model, name) for name in names}
    rest = {"vocab_size": 1, "dropout": 0.0, "attention_dropout": 0.0, "norm_eps": 1e-6}
    return EncoderConfig(sequence_length=sequence_length, **sizes, **rest)


def _plan_arm(arm: Arm, request: StudyRequest, source: str) -> PretrainPlan:
    with naming_arm(source, arm.name):
        return plan_pretrain(
            PretrainRequest(
                data_dir=request.corpus,
                run_dir=request.out / "cells" / arm.name / "plan",
                config=arm.config,
                budget=arm.budget,
                init_from=None,
                threads=request.threads,
                save_every=0,
                log_every=0,
                keep=1,
                extend=False,
                allow_inexact=False,
            )
        )


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
        folder = self.folder(arm.name, seed)
        scores = [score for score in self.scores if score.is_of(arm)]
        steps: list[Step] = []
        if arm.is_tuned:
            steps.append(self._pretrain(arm, seed))
            if seed == self.study.seeds[0]:
                steps += self._choose(arm, seed)
        for score in scores:
            steps += self._score(score, arm, seed)
        for share in self.study.snapshots.at if arm.start == "pretrained" else ():
            model = snapshot_folder(folder / "run", snapshot_step(share, self.plans[arm.name].steps))
            for score in scores:
                is_taken = self.study.snapshots.scores is None or score.name in self.study.snapshots.scores
                if is_taken and not score.config.hard_half_of:
                    steps.append(self._measure(score, arm, seed, model, f"@{share:g}"))
        return Cell(arm.name, seed, folder, tuple(steps))

    # What `identity` holds is on disk: a key or value that changes would refuse every folder begun before.

    def _pretrain(self, arm: Arm, seed: int) -> Step:
        amount = str(int(arm.budget.amount)) if arm.budget.kind == "steps" else repr(arm.budget.amount)
        snapshots = self.study.snapshots.at if arm.start == "pretrained" else ()
        words = [
            *("electralab", "pretrain", "--data", str(self.request.corpus)),
            *("--out", str(self.folder(arm.name, seed) / "run")),
            *("--config", str(self.request.out / "arms" / f"{arm.name}.toml"), "--seed", str(seed)),
            *(f"--{arm.budget.kind}", amount),
        ]
        words += ["--snapshots", ",".join(map(str, snapshots))] if snapshots else []
        identity = {
            "corpus": self.corpus_hash,
            "settings": arm.config.model_dump(mode="json", exclude={"steps", "seed"}),
            "budget": asdict(arm.budget),
            "seed": seed,
            "snapshots": list(snapshots),
        }
        seconds = self.plans[arm.name].flops / self.speed
        needs: tuple[Path, ...] = ()
        branch_step = next(
            (
                self._branch_step(other)
                for other in self.arms.values()
                if other.start == "branch" and other.parent == arm.name
            ),
            0,
        )
        # A run that others branch from keeps its checkpoints, and those of a stop beside them.
        saved = (
            ["--save-every", str(branch_step), "--keep", str(self.plans[arm.name].steps // branch_step + 9)]
            if branch_step
            else ["--keep", "1"]
        )
        if arm.start == "branch":
            step, trunk = self._branch_step(arm), self.folder(arm.parent, seed)
            words += ["--branch-from", str(trunk / "run" / CHECKPOINTS / f"step-{step}")]
            identity |= {"branch": {"parent": arm.parent, "step": step}}
            seconds, needs = seconds * arm.config.schedule.decay_share, (trunk / "pretrain.json",)
        return Step("pretrain", (*words, *saved), identity, seconds + START_SECONDS, needs)

    def _branch_step(self, arm: Arm) -> int:
        """Where the rate of a branch begins to fall."""
        return max(1, round(self.plans[arm.name].steps * (1 - arm.config.schedule.decay_share)))

    def _choose(self, arm: Arm, seed: int) -> list[Step]:
        """Every point of the grid on training rows that are held out, and the choice among them."""
        tuning, folder = self.study.tuning, self.folder(arm.name, seed)
        steps = []
        for score in self.scores:
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
                flags = [word for key, value in point.items() for word in (name_flag(key), str(value))]
                words = (
                    *self._finetune(score, arm, seed, folder / "run", folder / name, seeds=1),
                    "--data",
                    str(score.train_file),
                    "--data.dev-share",
                    f"{share:.6f}",
                    *flags,
                )
                identity = self._identity(score, arm) | {
                    "seeds": 1,
                    "tuning": point,
                    "heldout_rows": tuning.heldout_rows,
                }
                seconds = estimate_flops(score, self.encoders[arm.name], seeds=1) / self.speed + START_SECONDS
                steps.append(Step(name, words, identity, seconds, scratch=folder / name))
        if not steps:
            return []
        files = [str(folder / f"{step.name}.json") for step in steps]
        words = (DERIVED, "choose", *files, "--out", str(folder.parent))
        return [*steps, Step("tuning", words, {"trials": [step.identity for step in steps]}, START_SECONDS)]

    def _score(self, score: Score, arm: Arm, seed: int) -> Iterator[Step]:
        """One step; of a blend also the tuning by whose held-out rows it is weighted."""
        if arm.is_tuned and not score.config.hard_half_of:
            yield self._measure(score, arm, seed, self.folder(arm.name, seed) / "run")
            return
        assert score.task is not None, "only what is tuned is asked without a network"
        name, folder = score.name, self.folder(arm.name, seed)
        choice = self._choice(self.arms[arm.parent] if arm.start == "blend" else arm)
        linear = next((other.name for other in self.arms.values() if other.start == "baseline"), arm.name)
        baseline = self.folder(linear, seed)
        words: tuple[str, ...] = (DERIVED,)
        task = ("--task", score.task.name)
        identity = self._identity(score, arm) | {"start": arm.start}
        if score.config.hard_half_of:
            whole = score.config.hard_half_of
            words = (DERIVED, "hard", *task, "--network", str(folder / whole), "--baseline", str(baseline / whole))
            needs = (baseline / f"{whole}.json", folder / f"{whole}.json")
            yield Step(name, words, identity | {"hard_half_of": whole}, START_SECONDS, needs, choice)
            return
        if arm.start == "baseline":
            words = (
                DERIVED,
                "baseline",
                *task,
                "--data",
                str(score.data),
                "--out",
                str(folder / name),
                "--config",
                str(self.request.out / "scores" / f"{name}.toml"),
            )
            yield Step(name, words, identity, LINEAR_SECONDS)
            return
        network, rows = self.folder(arm.parent, seed), score.config.settings.get("train_rows") or score.train_examples
        share = heldout_share(min(rows, score.train_examples))
        heldout = folder / f"heldout-{name}"
        needs = (
            network / "pretrain.json",
            baseline / f"{name}.json",
            *((choice / TuningChoice.FILE,) if choice else ()),
        )
        words = (
            *self._finetune(score, self.arms[arm.parent], seed, network / "run", heldout, seeds=1),
            "--data",
            str(baseline / name / ROWS),
            "--data.dev-share",
            str(share),
        )
        seconds = estimate_flops(score, self.encoders[arm.name], seeds=1) / self.speed + START_SECONDS
        identity |= {"heldout_share": share, "parent": arm.parent}
        yield Step(heldout.name, words, identity, seconds, needs, choice)
        words = (
            DERIVED,
            "blend",
            *task,
            "--network",
            str(network / name),
            "--heldout",
            str(heldout),
            "--baseline",
            str(baseline / name),
            "--out",
            str(folder / name),
        )
        yield Step(name, words, identity, START_SECONDS, (network / f"{name}.json",), choice)

    def _choice(self, arm: Arm) -> Path | None:
        """Where the settings of its fine-tuning are written down; None where they are those of the scores."""
        tuning = self.study.tuning
        if not arm.is_tuned or not (tuning.grid or tuning.choices):
            return None
        return (Path(tuning.choices) if tuning.choices else self.request.out) / "cells" / arm.name

    def _finetune(self, score: Score, arm: Arm, seed: int, model: Path, out: Path, seeds: int) -> tuple[str, ...]:
        """All but the data."""
        assert score.task is not None, "what is tuned is tuned on a task"
        config = ("--config", str(self.request.out / "scores" / f"{score.name}.toml")) if score.config.settings else ()
        # Every cell of one seed has the same seeds of fine-tuning, and no two seeds share any.
        first = str(seed * score.config.seeds)
        scratch = ("--from-scratch",) if arm.start == "random" else ()
        return (
            *("electralab", "finetune", str(model), *config, "--task", score.task.name, "--seeds", str(seeds)),
            *("--seed", first, "--out", str(out), "--keep", "0", "--no-baseline", *scratch),
        )

    def _identity(self, score: Score, arm: Arm) -> SettingsTree:
        identity = score.config.model_dump(mode="json", exclude={"name", "metric", "data", "arms", "hard_half_of"})
        return identity | {"files": dict(score.files)} | ({"start": "random"} if arm.start == "random" else {})

    def _measure(self, score: Score, arm: Arm, seed: int, model: Path, suffix: str = "") -> Step:
        config, name = score.config, score.name + suffix
        seconds = estimate_flops(score, self.encoders[arm.name], config.seeds) / self.speed + START_SECONDS
        identity = self._identity(score, arm)
        if score.is_tuned:
            choice = self._choice(arm)
            out = self.folder(arm.name, seed) / name
            words = (*self._finetune(score, arm, seed, model, out, config.seeds), "--data", str(score.data))
            return Step(name, words, identity, seconds, (choice / TuningChoice.FILE,) if choice else (), choice)
        if config.suite == "blimp" and not config.metric and arm.config.objective != "electric":
            # The generator of a pair would be asked for every token in turn, for a score that does not count.
            model = (model if suffix else model / "export") / primary_network(arm.config.objective)
        words = ("electralab", "evaluate", str(model), "--data", str(score.data), "--suite", config.suite)
        words += ("--config", str(self.request.out / "scores" / f"{score.name}.toml")) if config.settings else ()
        words += ("--task", score.task.name) if score.task else ()
        needs: tuple[Path, ...] = ()
        if config.generator:
            # An arm's generator is that of the same seed, and there once its pre-training is finished.
            rival = self.folder(config.generator, seed)
            needs = (rival / "pretrain.json",) if config.generator in self.arms else ()
            words += ("--generator", str(rival / "run") if needs else config.generator)
        return Step(name, words, identity, seconds, needs)
