"""Where the scores of a study find their data, which settings they run with, and what counts of what comes out.

ScoreConfig -> Score; result of a child -> Measured
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, sha256_file
from electralab.config import ConfigLayer, resolve
from electralab.errors import InputError, UsageError
from electralab.evaluation.minimal_pairs import read_pairs
from electralab.evaluation.stage import EvaluateConfig
from electralab.experiments.settings import CORPUS, ScoreConfig, StudyConfig
from electralab.finetuning.folders import find_files
from electralab.finetuning.settings import resolve_finetune
from electralab.finetuning.tasks import Task, find_task
from electralab.model.encoder import EncoderConfig
from electralab.model.flops import encoder_flops

# The usual score of a suite, the first that the result has: a pair is judged by its discriminator.
_USUAL = {
    "blimp": ("discriminator", "model", "generator"),
    "rtd": ("auc",),
    "mlm": ("accuracy",),
    "sts": ("spearman",),
    "probe": ("mcc", "accuracy"),
}
# What may count instead. Only where more is better: a loss would turn every comparison round.
_KNOWN = {
    "blimp": ("discriminator", "discriminator_mean", "generator", "generator_mean", "model", "model_mean"),
    "rtd": ("auc", "recall", "precision"),
    "mlm": ("accuracy",),
    "sts": ("spearman", "pearson"),
    "probe": ("accuracy", "macro_f1"),
}
_ARCHIVES = ("*.tar", "*.tar.*", "*.tgz")
_PACKED = (".xz", ".gz", ".bz2", ".zst")
_ROW_TOKENS = 48
"""Of a row in a task, about."""
_BLIMP_LENGTH = 10
"""Of a sentence; a pair with all that is said about it takes about 500 bytes, and there are 67 paradigms of 1,000."""


@dataclass(frozen=True, slots=True)
class Score:
    """One that can be measured: its data is there and its settings are valid."""

    config: ScoreConfig
    data: Path
    task: Task | None
    files: Mapping[str, str] = field(default_factory=dict)
    """What it is measured on: a name -> the SHA-256 of its content."""

    @property
    def name(self) -> str:
        return self.config.label

    @property
    def is_tuned(self) -> bool:
        return not self.config.suite

    def is_of(self, arm: str) -> bool:
        return not self.config.arms or arm in self.config.arms


@dataclass(frozen=True, slots=True)
class Measured:
    value: float
    metric: str
    groups: Mapping[str, float]
    """By paradigm, where the suite has such; empty otherwise."""
    identity: str = ""
    """Of what was asked: scores are comparable where it is the same; empty where the result does not say."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundScores:
    measurable: tuple[Score, ...]
    missing: tuple[str, ...]
    """What is not there, and the scores that need it, a sentence for each place."""


def find_scores(
    study: StudyConfig, data_dir: Path | None, corpus: Path, source: str, encoder: EncoderConfig
) -> FoundScores:
    """Every score with its task, settings and files looked up. Wrong settings are refused, missing data is gathered."""
    if data_dir is None and any(score.data != CORPUS for score in study.scores):
        raise UsageError(f"study: {source} has scores to measure; give the folder of their data with --data")
    found, lacking = [], defaultdict[str, list[str]](list)
    for score in study.scores:
        place = corpus if score.data == CORPUS else (data_dir or Path()) / score.data
        try:
            found.append(_find_score(score, place, source, encoder))
        except InputError as error:
            lacking[str(error)].append(score.label)
    missing = tuple(f"{reason} (needed by {_join(names)})" for reason, names in lacking.items())
    return FoundScores(tuple(found), missing)


def _find_score(score: ScoreConfig, place: Path, source: str, encoder: EncoderConfig) -> Score:
    where = f"{source}: scores.{score.label}"
    settings = ConfigLayer(where, score.settings)
    task = find_task(score.task) if score.task else None
    known = list_metrics(score, task)
    if score.metric and score.metric not in known:
        raise UsageError(f"{where}: metric: no score named {score.metric!r} comes out of it; known are {_join(known)}")
    if not place.exists():
        raise InputError(f"{place}: no such file or folder")
    if task is None:
        place = _open_folder(place)
    if score.suite:
        _check_suite(score, task, place, where, resolve(EvaluateConfig, [settings]))
    elif task is not None:
        resolve_finetune(task, encoder, [settings])
    return Score(
        score, place, task, {name: sha256_file(path) for name, path in _list_files(score, task, place).items()}
    )


def list_metrics(score: ScoreConfig, task: Task | None) -> Sequence[str]:
    """All that may count, of a suite or a task."""
    asked = task.metrics if task is not None and (not score.suite or task.kind == "classify") else ()
    return tuple(dict.fromkeys((*asked, *_KNOWN.get(score.suite, ()))))


def _check_suite(score: ScoreConfig, task: Task | None, place: Path, where: str, config: EvaluateConfig) -> None:
    if score.suite == "blimp":
        blimp = config.blimp
        if blimp.limit != blimp.generator_limit:
            limit = blimp.limit or blimp.generator_limit
            raise UsageError(
                f"{where}: blimp.limit {blimp.limit} and blimp.generator_limit {blimp.generator_limit} differ, so that "
                "arms of different kinds would be scored on different pairs; give the score "
                f"settings = {{ blimp = {{ limit = {limit}, generator_limit = {limit} }} }}"
            )
        read_pairs(place, config.data.max_bad_share)
    if score.suite == "probe" and task is not None and task.kind not in ("classify", "label"):
        raise UsageError(f"{where}: task {task.name!r} has no classes to tell apart; give one with classes or tags")


def _list_files(score: ScoreConfig, task: Task | None, place: Path) -> dict[str, Path]:
    """All that decides the score; of prepared text its manifest, which has the hashes of the rest."""
    if task is not None:
        return {split: path for split, path in find_files(task, place).items() if not split.startswith("test")}
    if place.is_file():
        return {place.name: place}
    if (place / MANIFEST).is_file():
        return {MANIFEST: place / MANIFEST}
    # BLiMP's folder may have a README or a table beside its pairs.
    pattern = "*.jsonl*" if score.suite == "blimp" else "*"
    found = {path.relative_to(place).as_posix(): path for path in sorted(place.rglob(pattern)) if path.is_file()}
    return {name: path for name, path in found.items() if not any(part.startswith(".") for part in Path(name).parts)}


def _join(names: Sequence[str]) -> str:
    return ", ".join(names)


def _open_folder(place: Path) -> Path:
    """An archive stands for the folder that holds nothing else: that is how suites are handed out."""
    if not place.is_dir():
        return place
    archives = sorted(path for pattern in _ARCHIVES for path in place.glob(pattern))
    return archives[0] if len(archives) == 1 and not any(place.rglob("*.jsonl")) else place


def read_result(score: Score, result: Mapping[str, Any]) -> Measured:
    """The one number that counts, and its groups."""
    found, usual = ("dev", (result.get("metric", ""),)) if score.is_tuned else ("scores", _USUAL[score.config.suite])
    scores = result.get(found)
    if not isinstance(scores, dict):
        raise InputError(f"the result has no section {found!r}")
    names = (score.config.metric,) if score.config.metric else usual
    metric = next((name for name in names if isinstance(scores.get(name), int | float)), None)
    if metric is None:
        known = _join([name for name, value in scores.items() if isinstance(value, int | float)])
        raise InputError(f"the result has no {' or '.join(names)}; it has {known}")
    by_group = {} if score.is_tuned else result.get("groups", {}).get("uid", {})
    groups = {name: float(of[metric]) for name, of in by_group.items() if metric in of}
    return Measured(float(scores[metric]), metric, groups, str(result.get("identity", "")), _read_notes(result))


def _read_notes(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Without the name of the model, so that what holds of many is told once."""
    model = str(result.get("model", ""))
    return tuple(note.replace(model, "the model") if model else note for note in result.get("notes", ()))


def count_flops(score: Score, encoder: EncoderConfig) -> float:
    """About what measuring it computes, by the size of its files and its limits."""
    per_token = encoder_flops(encoder, 1, _ROW_TOKENS) / _ROW_TOKENS
    if score.is_tuned:
        assert score.task is not None, "what is tuned is tuned on a task"
        config = resolve_finetune(score.task, encoder, [ConfigLayer("settings", score.config.settings)])
        tokens = _count_tokens([find_files(score.task, score.data)["train"]]) * (2 if config.double_pairs else 1)
        if config.train_rows:
            tokens = min(tokens, config.train_rows * _ROW_TOKENS)
        fewest = (config.steps or config.min_steps) * config.batch.size * _ROW_TOKENS
        seen = fewest if config.steps else max(config.epochs * tokens, fewest)
        return 3 * per_token * seen * score.config.seeds
    files = [score.data] if score.data.is_file() else [path for path in score.data.rglob("*") if path.is_file()]
    evaluation = resolve(EvaluateConfig, [ConfigLayer("settings", score.config.settings)])
    if score.config.suite in ("rtd", "mlm") and evaluation.heldout.limit:
        return per_token * min(_count_tokens(files), evaluation.heldout.limit * encoder.sequence_length)
    if score.config.suite != "blimp":
        return per_token * _count_tokens(files)
    blimp = evaluation.blimp
    known = min(sum(path.stat().st_size * (30 if path.suffix in _PACKED else 1) for path in files) / 500, 67_000)
    judged, guessed = (min(67 * limit, known) if limit else known for limit in (blimp.limit, blimp.generator_limit))
    # In one pass, or with each of its tokens hidden in turn.
    return per_token * 2 * _BLIMP_LENGTH * max(judged, guessed * _BLIMP_LENGTH)


def _count_tokens(files: Sequence[Path]) -> float:
    """Five bytes make about a token; packed text is about a quarter of itself."""
    return sum(path.stat().st_size * (4 if path.suffix in _PACKED else 1) for path in files) / 5
