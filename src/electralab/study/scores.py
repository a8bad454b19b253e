"""Where the scores of a study find their data, which settings they run with, and what counts of what comes out.

ScoreConfig -> Score; result of a child -> Measured
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electralab.config import Layer, resolve
from electralab.errors import InputError, UsageError
from electralab.evaluation.stage import EvaluateConfig
from electralab.finetuning.folders import find_files
from electralab.finetuning.settings import resolve_finetune
from electralab.finetuning.tasks import Task, find_task
from electralab.model.encoder import EncoderConfig
from electralab.model.flops import encoder_flops
from electralab.study.settings import ScoreConfig, StudyConfig

# The usual score of a suite, the first that the result has: a pair is judged by its discriminator.
_USUAL = {
    "blimp": ("discriminator", "model", "generator"),
    "rtd": ("auc",),
    "mlm": ("accuracy",),
    "sts": ("spearman",),
    "probe": ("mcc", "accuracy"),
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

    @property
    def name(self) -> str:
        return self.config.label

    @property
    def is_tuned(self) -> bool:
        return not self.config.suite


@dataclass(frozen=True, slots=True)
class Measured:
    value: float
    metric: str
    groups: Mapping[str, float]
    """By paradigm, where the suite has such; empty otherwise."""


def find_scores(study: StudyConfig, data_dir: Path | None, source: str, encoder: EncoderConfig) -> list[Score]:
    """Every score with its task, settings and files looked up; the first that cannot be measured is refused."""
    if study.scores and data_dir is None:
        raise UsageError(f"study: {source} has scores to measure; give the folder of their data with --data")
    return [_find_score(score, (data_dir or Path()) / score.data, source, encoder) for score in study.scores]


def _find_score(score: ScoreConfig, place: Path, source: str, encoder: EncoderConfig) -> Score:
    settings = Layer(f"{source}: scores.{score.label}", score.settings)
    task = find_task(score.task) if score.task else None
    if score.suite:
        resolve(EvaluateConfig, [settings])
    if not place.exists():
        raise InputError(f"{place}: no such file or folder; the score {score.label!r} needs it, see --data")
    if task is None:
        return Score(score, _open_folder(place), task)
    find_files(task, place)
    if not score.suite:
        resolve_finetune(task, encoder, [settings])
    return Score(score, place, task)


def _open_folder(place: Path) -> Path:
    """An archive stands for the folder that holds nothing else: that is how suites are handed out."""
    if not place.is_dir():
        return place
    archives = sorted(path for pattern in _ARCHIVES for path in place.glob(pattern))
    return archives[0] if len(archives) == 1 and not any(place.rglob("*.jsonl")) else place


def read_result(score: Score, result: Mapping[str, Any]) -> Measured:
    """The one number that counts, and its groups."""
    if score.is_tuned:
        metric = score.config.metric or result["metric"]
        return Measured(float(_pick(result["dev"], (metric,), score)[1]), metric, {})
    scores = result["scores"]
    metric, value = _pick(scores, (score.config.metric,) if score.config.metric else _USUAL[score.config.suite], score)
    groups = {name: float(of[metric]) for name, of in result.get("groups", {}).get("uid", {}).items() if metric in of}
    return Measured(float(value), metric, groups)


def _pick(scores: Mapping[str, Any], names: Sequence[str], score: Score) -> tuple[str, float]:
    for name in names:
        if isinstance(scores.get(name), int | float):
            return name, scores[name]
    known = ", ".join(name for name, value in scores.items() if isinstance(value, int | float))
    raise InputError(f"score {score.name!r}: the result has no {' or '.join(names)}; it has {known}")


def count_flops(score: Score, encoder: EncoderConfig) -> float:
    """About what measuring it computes, by the size of its files and, of BLiMP, its limits."""
    per_token = encoder_flops(encoder, 1, _ROW_TOKENS) / _ROW_TOKENS
    if score.is_tuned:
        assert score.task is not None, "what is tuned is tuned on a task"
        config = resolve_finetune(score.task, encoder, [Layer("settings", score.config.settings)])
        tokens = _count_tokens([find_files(score.task, score.data)["train"]]) * (2 if config.double_pairs else 1)
        seen = config.steps * config.batch.size * _ROW_TOKENS if config.steps else config.epochs * tokens
        return 3 * per_token * seen * score.config.seeds
    files = [score.data] if score.data.is_file() else [path for path in score.data.rglob("*") if path.is_file()]
    if score.config.suite != "blimp":
        return per_token * _count_tokens(files)
    blimp = resolve(EvaluateConfig, [Layer("settings", score.config.settings)]).blimp
    known = min(sum(path.stat().st_size * (30 if path.suffix in _PACKED else 1) for path in files) / 500, 67_000)
    judged, guessed = (min(67 * limit, known) if limit else known for limit in (blimp.limit, blimp.generator_limit))
    # In one pass, or with each of its tokens hidden in turn.
    return per_token * 2 * _BLIMP_LENGTH * max(judged, guessed * _BLIMP_LENGTH)


def _count_tokens(files: Sequence[Path]) -> float:
    """Five bytes make about a token; packed text is about a quarter of itself."""
    return sum(path.stat().st_size * (4 if path.suffix in _PACKED else 1) for path in files) / 5
