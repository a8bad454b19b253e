"""Where the scores of a study find their data, which settings they run with, and what counts of what comes out.

ScoreConfig -> Score; answer of a command -> Measured
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from electralab.artifacts import MANIFEST, sha256_file
from electralab.config import ConfigLayer, GivenSettings, first_complaint, resolve
from electralab.errors import InputError, UsageError
from electralab.evaluation.blimp import read_pairs
from electralab.evaluation.stage import EvaluateConfig
from electralab.experiments.settings import CORPUS, Arm, ScoreConfig, StudyConfig
from electralab.finetuning.settings import resolve_finetune
from electralab.model.flops import encoder_flops
from electralab.model.settings import EncoderConfig
from electralab.records.study import ScoreAnswer
from electralab.tasks.catalog import find_task
from electralab.tasks.kind import Task
from electralab.tasks.kinds import classification
from electralab.tasks.load import find_files, read_task

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
    train_file: Path | None = None
    train_examples: int = 0
    """Before any limit; counted where some of them are to be held out."""

    @property
    def name(self) -> str:
        return self.config.label

    @property
    def is_tuned(self) -> bool:
        return not self.config.suite

    def is_of(self, arm: Arm) -> bool:
        """A suite asks a network, which a linear model and a blend have not; nor do these tag words or find spans."""
        is_wanted = not self.config.arms or arm.name in self.config.arms
        has_answers = self.is_tuned and self.task is not None and self.task.kind.is_pooled
        return is_wanted and (arm.is_tuned or has_answers)


@dataclass(frozen=True, slots=True)
class Measured:
    value: float
    metric: str
    groups: Mapping[str, float]
    """By paradigm, where the suite has such; empty otherwise."""
    identity: str = ""
    """Of what was asked: scores are comparable where it is the same; empty where the result does not say."""
    notes: tuple[str, ...] = ()


def find_scores(
    study: StudyConfig, data_dir: Path | None, corpus: Path, source: str, encoder: EncoderConfig
) -> tuple[tuple[Score, ...], tuple[str, ...]]:
    """Every score with its task, settings and files looked up, and what is missing, a sentence for each place.

    Wrong settings are refused at once; missing data is gathered, so that it can be fetched at once.
    """
    if data_dir is None and any(score.data != CORPUS for score in study.scores):
        raise UsageError(f"study: {source} has scores to measure; give the folder of their data with --data")
    scores: list[Score] = []
    missing: dict[str, list[str]] = {}
    are_counted = bool(study.tuning.grid) or any(arm.get("start") == "baseline" for arm in study.arms.values())
    for config in study.scores:
        place = corpus if config.data == CORPUS else (data_dir or Path()) / config.data
        try:
            if not config.hard_half_of:
                scores.append(_find_score(config, place, source, encoder, are_counted=are_counted))
        except InputError as error:
            missing.setdefault(str(error), []).append(config.label)
    by_name = {score.name: score for score in scores}
    for config in study.scores:
        if whole := by_name.get(config.hard_half_of):
            if whole.task is None or not (whole.task.kind.has_classes and whole.task.kind.is_pooled):
                raise UsageError(f"{source}: scores.{config.label}: hard_half_of: {whole.name!r} has no classes")
            scores.append(replace(whole, config=config))
    scores.sort(key=lambda score: study.scores.index(score.config))
    return tuple(scores), tuple(f"{reason} (needed by {', '.join(names)})" for reason, names in missing.items())


def _find_score(config: ScoreConfig, place: Path, source: str, encoder: EncoderConfig, *, are_counted: bool) -> Score:
    where, suite = f"{source}: scores.{config.label}", config.suite
    settings = ConfigLayer(where, config.settings)
    task = find_task(config.task) if config.task else None
    # All that may count, of a suite or a task.
    of_task = task.metrics if task is not None and (not suite or task.kind is classification.KIND) else ()
    known = dict.fromkeys((*of_task, *_KNOWN.get(suite, ())))
    if config.metric and config.metric not in known:
        raise UsageError(
            f"{where}: metric: no score named {config.metric!r} comes out of it; known are {', '.join(known)}"
        )
    if not place.exists():
        raise InputError(f"{place}: no such file or folder")
    if task is None and place.is_dir():
        # An archive stands for the folder that holds nothing else: that is how suites are handed out.
        archives = sorted(path for pattern in _ARCHIVES for path in place.glob(pattern))
        place = archives[0] if len(archives) == 1 and not any(place.rglob("*.jsonl")) else place
    evaluation = resolve(EvaluateConfig, [settings]) if suite else EvaluateConfig()
    if suite == "blimp":
        ours, theirs = evaluation.blimp.limit, evaluation.blimp.generator_limit
        if ours != theirs:
            limit = ours or theirs
            raise UsageError(
                f"{where}: blimp.limit {ours} and blimp.generator_limit {theirs} differ, so that arms of different "
                "kinds would be scored on different pairs; give the score "
                f"settings = {{ blimp = {{ limit = {limit}, generator_limit = {limit} }} }}"
            )
        read_pairs(place, evaluation.data.max_bad_share)
    if suite == "probe" and task is not None and not task.kind.has_classes:
        raise UsageError(f"{where}: task {task.name!r} has no classes to tell apart; give one with classes or tags")
    files = _list_files(config, task, place)
    train_file, train_examples = None, 0
    if task is not None and not suite:
        tuned = resolve_finetune(task, encoder, [settings])
        train_file = files["train"]
        # Without a dev file beside it, some of its rows are held out.
        parts = read_task(task, train_file, tuned.data) if are_counted else None
        train_examples = len(parts.train.examples) + len(parts.devs[0].examples) if parts else 0
    hashes = {name: sha256_file(path) for name, path in files.items()}
    return Score(config, place, task, hashes, train_file, train_examples)


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
    files = {path.relative_to(place).as_posix(): path for path in sorted(place.rglob(pattern)) if path.is_file()}
    return {name: path for name, path in files.items() if not any(part.startswith(".") for part in Path(name).parts)}


def read_score(score: Score, result: GivenSettings) -> Measured:
    """The one number that counts, and its groups, of what the score's command answered."""
    try:
        answer = ScoreAnswer.model_validate(result)
    except ValidationError as error:
        wrong = first_complaint(error)
        raise InputError(f"the result cannot be read ({wrong.name}: {wrong.message})") from None
    section, scores = ("dev", answer.dev) if score.is_tuned else ("scores", answer.scores)
    if scores is None:
        raise InputError(f"the result has no section {section!r}")
    names = (answer.metric,) if score.is_tuned else _USUAL[score.config.suite]
    names = (score.config.metric,) if score.config.metric else names
    numbers = {name: float(value) for name, value in scores.items() if isinstance(value, int | float)}
    metric = next((name for name in names if name in numbers), None)
    if metric is None:
        raise InputError(f"the result has no {' or '.join(names)}; it has {', '.join(numbers)}")
    paradigms = {} if score.is_tuned else answer.groups.get("uid", {})
    groups = {uid: value for uid, of_uid in paradigms.items() if isinstance(value := of_uid.get(metric), int | float)}
    # Without the name of the model, so that what holds of many is told once.
    notes = (note.replace(answer.model, "the model") if answer.model else note for note in answer.notes)
    return Measured(numbers[metric], metric, groups, answer.identity, tuple(notes))


def estimate_flops(score: Score, encoder: EncoderConfig, seeds: int = 1) -> float:
    """About what measuring it computes, by the size of its files and its limits."""
    per_token = encoder_flops(encoder, 1, _ROW_TOKENS) / _ROW_TOKENS
    if score.is_tuned:
        assert score.task is not None, "what is tuned is tuned on a task"
        config = resolve_finetune(score.task, encoder, [ConfigLayer("settings", score.config.settings)])
        train = find_files(score.task, score.data)["train"]
        tokens = _estimate_tokens([train]) * (2 if config.double_pairs else 1)
        if config.train_rows:
            tokens = min(tokens, config.train_rows * _ROW_TOKENS)
        fewest = (config.steps or config.min_steps) * config.batch.size * _ROW_TOKENS
        seen = fewest if config.steps else max(config.epochs * tokens, fewest)
        return 3 * per_token * seen * seeds
    files = [score.data] if score.data.is_file() else [path for path in score.data.rglob("*") if path.is_file()]
    evaluation = resolve(EvaluateConfig, [ConfigLayer("settings", score.config.settings)])
    if score.config.suite in ("rtd", "mlm") and evaluation.heldout.limit:
        return per_token * min(_estimate_tokens(files), evaluation.heldout.limit * encoder.sequence_length)
    if score.config.suite != "blimp":
        return per_token * _estimate_tokens(files)
    blimp = evaluation.blimp
    known = min(sum(path.stat().st_size * (30 if path.suffix in _PACKED else 1) for path in files) / 500, 67_000)
    read, hidden = (min(67 * limit, known) if limit else known for limit in (blimp.limit, blimp.generator_limit))
    # In one pass, or with each of its tokens hidden in turn.
    return per_token * 2 * _BLIMP_LENGTH * max(read, hidden * _BLIMP_LENGTH)


def _estimate_tokens(files: Sequence[Path]) -> float:
    """Five bytes make about a token; packed text is about a quarter of itself."""
    return sum(path.stat().st_size * (4 if path.suffix in _PACKED else 1) for path in files) / 5
