"""The matrix of a study: for each arm and seed a cell, whose commands are known before any is run.

StudyRequest -> Plan
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, read_json
from electralab.config import SettingsTree
from electralab.errors import InputError, UsageError
from electralab.experiments.cells import Cell, Step
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
from electralab.records.run import PretrainPlan, snapshot_folder, snapshot_step
from electralab.records.study import StudyCorpus, StudyEnvironment
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
    plans = {arm.name: _plan_arm(arm, request, layer.source) for arm in arms}
    use_threads(request.threads)
    speed = max(estimate_speed() for _ in range(_MEASUREMENTS))
    matrix = _Matrix(request, study, scores, encoders, plans, corpus_hash, speed)
    environment = StudyEnvironment(
        **describe_environment(request.threads)
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
            if score.is_of(arm.name) and not can_detect:
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
    scores: tuple[Score, ...]
    encoders: dict[str, EncoderConfig]
    plans: dict[str, PretrainPlan]
    corpus_hash: str
    speed: float
    """FLOP/s."""

    def cell(self, arm: Arm, seed: int) -> Cell:
        """Pre-training first, then the scores at its end, then those along its way."""
        folder = self.request.out / "cells" / arm.name / f"seed-{seed}"
        scores = [score for score in self.scores if score.is_of(arm.name)]
        steps = [self._pretrain(arm, seed, folder)]
        steps += [self._measure(score, arm, seed, folder, folder / "run") for score in scores]
        for share in self.study.snapshots.at:
            model = snapshot_folder(folder / "run", snapshot_step(share, self.plans[arm.name].steps))
            for score in scores:
                if self.study.snapshots.scores is None or score.name in self.study.snapshots.scores:
                    steps.append(self._measure(score, arm, seed, folder, model, f"@{share:g}"))
        return Cell(arm.name, seed, folder, tuple(steps))

    # What `identity` holds is on disk: a key or value that changes would refuse every folder begun before.

    def _pretrain(self, arm: Arm, seed: int, folder: Path) -> Step:
        amount = str(int(arm.budget.amount)) if arm.budget.kind == "steps" else repr(arm.budget.amount)
        snapshots = self.study.snapshots.at
        words = (
            *("pretrain", "--data", str(self.request.corpus), "--out", str(folder / "run")),
            *("--config", str(self.request.out / "arms" / f"{arm.name}.toml"), "--seed", str(seed)),
            *(f"--{arm.budget.kind}", amount, "--keep", "1"),
            *(("--snapshots", ",".join(map(str, snapshots))) if snapshots else ()),
        )
        identity = {
            "corpus": self.corpus_hash,
            "settings": arm.config.model_dump(mode="json", exclude={"steps", "seed"}),
            "budget": asdict(arm.budget),
            "seed": seed,
            "snapshots": list(snapshots),
        }
        return Step("pretrain", words, identity, self.plans[arm.name].flops / self.speed + START_SECONDS)

    def _measure(self, score: Score, arm: Arm, seed: int, folder: Path, model: Path, suffix: str = "") -> Step:
        config, name = score.config, score.name + suffix
        if config.suite == "blimp" and not config.metric and arm.config.objective != "electric":
            # The generator of a pair would be asked for every token in turn, for a score that does not count.
            model = (model if suffix else model / "export") / primary_network(arm.config.objective)
        words: tuple[str, ...] = (str(model), "--data", str(score.data))
        words += ("--config", str(self.request.out / "scores" / f"{score.name}.toml")) if config.settings else ()
        words += ("--task", score.task.name) if score.task else ()
        if score.is_tuned:
            # Every cell of one seed has the same seeds of fine-tuning, and no two seeds share any.
            words += ("--seeds", str(config.seeds), "--seed", str(seed * config.seeds))
            words = ("finetune", *words, "--out", str(folder / name), "--keep", "0", "--no-baseline")
        else:
            words = ("evaluate", *words, "--suite", config.suite)
        needs = None
        if config.generator:
            # An arm's generator is that of the same seed, and there once its pre-training is finished.
            rival = self.request.out / "cells" / config.generator / f"seed-{seed}"
            needs = rival / "pretrain.json" if config.generator in self.study.arms else None
            words += ("--generator", str(rival / "run") if needs else config.generator)
        identity = config.model_dump(mode="json", exclude={"name", "metric", "data", "arms"})
        seconds = estimate_flops(score, self.encoders[arm.name]) / self.speed
        return Step(name, words, identity | {"files": dict(score.files)}, seconds + START_SECONDS, needs)
