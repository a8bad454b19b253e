"""The matrix of a study: for each arm and seed a chain of commands, each with what it is and about how long it takes.

StudyRequest -> Plan
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, read_json
from electralab.config import SettingsTree
from electralab.errors import InputError, UsageError
from electralab.experiments.scores import Score, count_flops, find_scores
from electralab.experiments.settings import (
    Arm,
    StudyConfig,
    choose_arms,
    naming_arm,
    read_study,
    resolve_arms,
    resolve_study,
)
from electralab.model.encoder import EncoderConfig
from electralab.pretraining.exports import name_main, snapshot_folder, snapshot_step
from electralab.pretraining.plan import PretrainPlan, plan_pretrain
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.stage import PretrainRequest
from electralab.runtime import default_threads, describe_environment, estimate_speed, use_threads

# Starting Python and loading torch, which every command pays.
START_SECONDS = 5.0
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
class Step:
    name: str
    """`pretrain`, or a score, with `@share` behind it where it is that of a snapshot."""
    words: tuple[str, ...]
    """Of the command, without those that change no result."""
    identity: dict[str, Any]
    seconds: float
    """Estimated."""
    needs: Path | None = None
    """A file of another cell without which it cannot be run."""

    @property
    def kind(self) -> str:
        """Those of one kind take about as long as each other."""
        return self.name.partition("@")[0]


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
    provenance: dict[str, Any] = field(default_factory=dict)
    """The command, what it was given, and the machine."""
    missing: tuple[str, ...] = ()
    """Data that is not there, without which some scores cannot be measured."""


def plan_study(request: StudyRequest) -> Plan:
    """Everything is resolved and looked for; settings that make no sense are refused here, before anything is run."""
    layer = read_study(request.study)
    study = resolve_study(layer, request.settings)
    arms = resolve_arms(study, layer.source)
    chosen = choose_arms(request.only, list(study.arms))
    corpus = _read_corpus(request.corpus)
    encoders = {arm.name: _sketch_encoder(arm.config, corpus["sequence_length"]) for arm in arms}
    found = find_scores(study, request.data_dir, request.corpus, layer.source, encoders[study.baseline])
    scores = found.measurable
    _require_verdicts(arms, scores, layer.source)
    plans = {arm.name: _plan_arm(arm, request, layer.source) for arm in arms}
    use_threads(request.threads)
    speed = max(estimate_speed() for _ in range(_MEASUREMENTS))
    matrix = _Matrix(request, study, scores, encoders, plans, corpus["sha256"], speed)
    cells = tuple(matrix.chain(arm, seed) for seed in study.seeds for arm in arms)
    jobs = request.jobs or max(1, default_threads() // request.threads)
    provenance = {
        **describe_environment(request.threads),
        "command": write_command(request),
        "corpus": {"path": str(request.corpus), "sha256": corpus["sha256"]},
        "data": str(request.data_dir or ""),
    }
    return Plan(study, tuple(arms), scores, cells, tuple(chosen), plans, jobs, provenance, found.missing)


def write_command(request: StudyRequest) -> str:
    """As typed into a shell it asks for the same, whether the request came from there or not."""
    words = ["electra", "study", request.study, "--corpus", str(request.corpus), "--out", str(request.out)]
    words += ["--data", str(request.data_dir)] if request.data_dir else []
    for name, value in _dotted_values(request.settings):
        words += [f"--{name.replace('_', '-')}", ",".join(map(str, value)) if name == "seeds" else _to_word(value)]
    words += ["--only", ",".join(request.only)] if request.only else []
    words += ["--jobs", str(request.jobs)] if request.jobs else []
    return shlex.join([*words, "--threads", str(request.threads)])


def _to_word(value: Any) -> str:
    """As the command line reads it back: numbers, true and lists as TOML has them, which is as JSON has."""
    return value if isinstance(value, str) else json.dumps(value)


def _dotted_values(values: SettingsTree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _dotted_values(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _read_corpus(corpus: Path) -> dict[str, Any]:
    path = corpus / MANIFEST
    if not path.is_file():
        raise InputError(f"{corpus}: holds no prepared text; give --corpus a folder that 'electra prepare' wrote")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("kind") != "electralab-data":
        raise InputError(f"{corpus}: is not prepared text; give --corpus a folder that 'electra prepare' wrote")
    return manifest


def _require_verdicts(arms: Sequence[Arm], scores: Sequence[Score], source: str) -> None:
    """Replaced tokens are found by a discriminator only, and replaced by a generator that is there."""
    for score in scores:
        where, generator = f"{source}: scores.{score.name}", score.config.generator
        if generator and generator not in {arm.name for arm in arms} and not Path(generator).exists():
            raise UsageError(f"{where}: generator: no arm or model named {generator!r}; give one of the arms or a path")
        for arm in arms if score.config.suite == "rtd" else ():
            if not score.is_of(arm.name):
                continue
            if name_main(arm.config.objective) != "discriminator" or arm.config.objective == "electric":
                raise UsageError(
                    f"{where}: the arm {arm.name!r} has no verdicts on tokens; name those that have in arms = [...]"
                )


def _sketch_encoder(config: PretrainConfig, sequence_length: int) -> EncoderConfig:
    """As far as the defaults of fine-tuning ask."""
    names = ("backbone", "num_layers", "hidden_size", "embedding_size", "num_heads", "feedforward_size")
    sizes = {name: getattr(config.model, name) for name in names}
    rest = {"vocab_size": 1, "dropout": 0.0, "attention_dropout": 0.0, "norm_eps": 1e-6}
    return EncoderConfig(sequence_length=sequence_length, **sizes, **rest)


def _plan_arm(arm: Arm, request: StudyRequest, source: str) -> PretrainPlan:
    asked = PretrainRequest(
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
    with naming_arm(source, arm.name):
        return plan_pretrain(asked)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """What the chains of all cells are made from."""

    request: StudyRequest
    study: StudyConfig
    scores: tuple[Score, ...]
    encoders: dict[str, EncoderConfig]
    plans: dict[str, PretrainPlan]
    corpus_hash: str
    speed: float
    """FLOP/s."""

    def chain(self, arm: Arm, seed: int) -> Cell:
        """Pre-training first, then the scores at its end, then those along its way."""
        folder = self.request.out / "cells" / arm.name / f"seed-{seed}"
        steps = [self._pretrain(arm, seed, folder)]
        scores = [score for score in self.scores if score.is_of(arm.name)]
        steps += [self._measure(score, arm, seed, folder, folder / "run") for score in scores]
        wanted = self.study.snapshots.scores
        for share in self.study.snapshots.at:
            model = snapshot_folder(folder / "run", snapshot_step(share, self.plans[arm.name].steps))
            steps += [
                self._measure(score, arm, seed, folder, model, f"@{share:g}")
                for score in scores
                if wanted is None or score.name in wanted
            ]
        return Cell(arm.name, seed, folder, tuple(steps))

    def _pretrain(self, arm: Arm, seed: int, folder: Path) -> Step:
        amount = str(int(arm.budget.amount)) if arm.budget.kind == "steps" else repr(arm.budget.amount)
        words = (
            *("pretrain", "--data", str(self.request.corpus), "--out", str(folder / "run")),
            *("--config", str(self.request.out / "arms" / f"{arm.name}.toml"), "--seed", str(seed)),
            *(f"--{arm.budget.kind}", amount, "--keep", "1"),
            *(("--snapshots", ",".join(map(str, self.study.snapshots.at))) if self.study.snapshots.at else ()),
        )
        settings = arm.config.model_dump(mode="json", exclude={"steps", "seed"})
        identity = {"corpus": self.corpus_hash, "settings": settings, "budget": asdict(arm.budget), "seed": seed}
        identity["snapshots"] = list(self.study.snapshots.at)
        return Step("pretrain", words, identity, self.plans[arm.name].flops / self.speed + START_SECONDS)

    def _measure(self, score: Score, arm: Arm, seed: int, folder: Path, model: Path, suffix: str = "") -> Step:
        name = score.name + suffix
        settings = self.request.out / "scores" / f"{score.name}.toml"
        if score.config.suite == "blimp" and not score.config.metric and arm.config.objective != "electric":
            # The generator of a pair would be asked for every token in turn, for a score that does not count.
            model = (model if suffix else model / "export") / name_main(arm.config.objective)
        words = (str(model), "--data", str(score.data), *(("--config", str(settings)) if score.config.settings else ()))
        words += ("--task", score.task.name) if score.task else ()
        if score.is_tuned:
            # Every cell of one seed has the same seeds of fine-tuning, and no two seeds share any.
            words += ("--seeds", str(score.config.seeds), "--seed", str(seed * score.config.seeds))
            words = ("finetune", *words, "--out", str(folder / name), "--keep", "0", "--no-baseline")
        else:
            words = ("evaluate", *words, "--suite", score.config.suite)
        needs = None
        if generator := score.config.generator:
            of_arm = self.request.out / "cells" / generator / f"seed-{seed}"
            needs = of_arm / "pretrain.json" if generator in self.study.arms else None
            words += ("--generator", str(of_arm / "run") if needs else generator)
        identity = score.config.model_dump(mode="json", exclude={"name", "metric", "data", "arms"})
        seconds = count_flops(score, self.encoders[arm.name]) / self.speed
        return Step(name, words, identity | {"files": dict(score.files)}, seconds + START_SECONDS, needs)


def require_runnable(plan: Plan) -> None:
    """A study without anything to compare by ends in an empty table: say so at once."""
    if not plan.study.scores:
        raise UsageError(f"study {plan.study.name}: has no scores; add at least one [[scores]]")


def refuse_missing(plan: Plan) -> str:
    """Why the study cannot be run as far as its data goes, all at once; empty where everything is there."""
    if not plan.missing:
        return ""
    said = "; ".join(plan.missing)
    return f"study {plan.study.name}: {said}; see --data, and docs/studies.md for where to get the sets"
