"""Folders as they lie on disk, read without trust, alone or beside each other: what is missing or damaged is noted, and
the rest is read.

path -> Artifact; Artifact... -> sentence..., settings that differ
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from pydantic import ConfigDict, Field, JsonValue, ValidationError
from safetensors import SafetensorError

from electralab.artifacts import count_parameters, real_path
from electralab.errors import DamagedArtifact, InputError
from electralab.records.compression import Tradeoff
from electralab.records.evaluation import EvaluationResult
from electralab.records.findings import Analysis, ClaimsResult, PointClouds
from electralab.records.fitted import FitResults, FitRun
from electralab.records.kinds import find_kind
from electralab.records.record import FileRecord
from electralab.records.run import (
    METRICS,
    Environment,
    ExampleRow,
    PretrainResults,
    RunExamples,
    RunFingerprint,
    StepRecord,
)
from electralab.records.study import StudyResults
from electralab.records.tuned import GlueResults, TunedResults, TunedRun
from electralab.reporting.format import format_flops, format_key, format_value, is_number

ReportKind = Literal["run", "fine-tuning run", "fit", "GLUE run", "study", "trade-off", "analysis"]
Topic = Literal["guesses", "verdicts", "other"]
Scores = Mapping[str, float]
R = TypeVar("R", bound=FileRecord)

_PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
# A page with larger pictures would be slow to open.
_MOST_BYTES = 3_000_000
# Words of scores that have a better and a worse end.
_UPWARD = ("accuracy", "auc", "recall", "precision", "f1", "mcc", "em", "spearman", "pearson", "median", "test")
_DOWNWARD = ("loss", "perplexity")
# Compute within these bounds of each other counts as equal.
_EQUAL = 1.05
_MOST_LEADS = 4


class MachineFacts(Environment):
    """Whatever work wrote down of its machine: all of it is shown."""

    # Studies write their command as one line, and files of before whatever they had: nothing of it may be lost.
    model_config = ConfigDict(frozen=True, extra="allow")
    packages: dict[str, JsonValue] = Field(default_factory=dict)  # type: ignore[assignment]
    command: str | list[str] = ""  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A folder as a page shows it. What it does not have, or what could not be read, is None or empty."""

    kind: ReportKind
    name: str
    path: Path
    run: RunFingerprint | None = None
    pretrained: PretrainResults | None = None
    tuned_run: TunedRun | None = None
    tuned: TunedResults | None = None
    fit_run: FitRun | None = None
    fit: FitResults | None = None
    glue: GlueResults | None = None
    study: StudyResults | None = None
    tradeoff: Tradeoff | None = None
    analysis: Analysis | None = None
    clouds: PointClouds | None = None
    claims: ClaimsResult | None = None
    environment: MachineFacts | None = None
    logs: dict[str, list[StepRecord]] = field(default_factory=dict)
    """By seed, or of the run under an empty name."""
    evaluations: dict[str, EvaluationResult] = field(default_factory=dict)
    """What `electra evaluate --out` wrote into the folder, by the names of the files."""
    pictures: dict[str, str] = field(default_factory=dict)
    """name -> data: address"""
    examples: Sequence[ExampleRow] = ()
    parameters: dict[str, int] = field(default_factory=dict)
    troubles: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, JsonValue]:
        run = self.run or self.tuned_run or self.fit_run
        return run.settings if run else {}

    def setting(self, name: str) -> JsonValue:
        """By its dotted name; None where nobody wrote it down."""
        value: JsonValue = self.settings
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    @property
    def data_hash(self) -> str:
        run = self.run or self.tuned_run or self.fit_run
        return run.data if run else ""

    @property
    def data_path(self) -> str:
        """Where its data lay; of runs that did not write it down, as their command has it; else empty."""
        facts = self.environment or MachineFacts()
        command = facts.command if isinstance(facts.command, list) else []
        words = [word for given in command for word in given.split("=", 1)]
        return facts.data or next((after for word, after in pairwise(words) if word == "--data"), "")

    @property
    def objective(self) -> str:
        return str(self.setting("objective") or (self.pretrained.objective if self.pretrained else ""))

    @property
    def last_records(self) -> list[StepRecord]:
        """The end of each log that has begun."""
        return [records[-1] for records in self.logs.values() if records]

    @property
    def steps(self) -> tuple[int, int]:
        """Taken, and in all (0 where nobody wrote it down)."""
        ends = self.last_records
        taken = self.pretrained.step if self.pretrained else ends[0].step if ends else 0
        return taken, self.run.total_steps if self.run else 0

    @property
    def amounts(self) -> tuple[float | None, float | None, float | None]:
        """Tokens, FLOPs and seconds so far; None where nobody logged them."""
        if end := self.pretrained:
            return end.tokens, end.flops, end.seconds
        last = self.last_records[0].values if self.last_records else {}
        tokens, flops, seconds = map(last.get, ("tokens", "flops", "seconds"))
        return tokens, flops, seconds

    @property
    def is_finished(self) -> bool:
        """Nothing will be added to it."""
        if self.kind == "run":
            taken, total = self.steps
            return self.pretrained is not None and taken >= total
        if self.kind == "study":
            cells = self.study.cells if self.study else ()
            return bool(cells) and all(cell.status == "finished" or cell.error for cell in cells)
        return any((self.tuned, self.fit, self.glue, self.tradeoff, self.analysis))

    @property
    def heldout_scores(self) -> dict[str, float]:
        """On held-out rows: those of the end, or the latest on the way."""
        logged = (record.with_prefix("heldout_") for records in self.logs.values() for record in reversed(records))
        ends = self.pretrained.heldout if self.pretrained else {}
        scores = ends or (next(filter(None, logged), {}) if self.kind == "run" else {})
        return {key: value for key, value in scores.items() if value is not None}

    @property
    def baselines(self) -> dict[str, float]:
        """What knowing only frequencies achieves, by the names of held-out scores."""
        known = self.pretrained.baselines if self.pretrained else {}
        return {key: value for key, value in known.items() if value is not None}


def find_report_kind(path: Path) -> ReportKind:
    """What a page can be written about; a seed of a fine-tuning run has the curves of a run."""
    if not path.exists():
        raise InputError(f"{path}: no such folder; give a run, study, trade-off or analysis")
    kind = find_kind(path)
    name = "run" if kind and kind.name == "seed" else kind.name if kind else ""
    if name not in get_args(ReportKind):
        raise InputError(f"{path}: nothing to report on; give the folder of a run, study, trade-off or analysis")
    return cast(ReportKind, name)


def read_artifact(path: Path, name: str = "") -> Artifact:
    kind = find_report_kind(path)
    troubles: list[str] = []

    def read(record: type[R], folder: Path, *, is_needed: bool = True) -> R | None:
        """Nothing where the file is missing or damaged, which is noted."""
        if (folder / record.FILE).is_file():
            try:
                return record.read(folder)
            except (InputError, DamagedArtifact) as error:
                troubles.append(str(error))
        elif is_needed:
            troubles.append(f"{record.FILE}: not there (yet); what it would say is left out")
        return None

    # An analysis lies by itself, or in the folder `analysis` of a run or a study.
    inner = path if (path / Analysis.FILE).is_file() else path / "analysis"
    analysis = read(Analysis, inner, is_needed=False)
    logs = {}
    run = pretrained = tuned_run = tuned = examples = None
    if kind == "run":
        log = _read_log(path / METRICS, troubles)
        logs = {"": log}
        run = read(RunFingerprint, path)
        # Results come with the last step: before it nothing is missing.
        is_going = run is not None and (log[-1].step if log else 0) < run.total_steps
        pretrained = read(PretrainResults, path, is_needed=not is_going)
        examples = read(RunExamples, path, is_needed=False)
    elif kind == "fine-tuning run":
        folders = sorted(path.glob("seed-*"), key=lambda folder: (len(folder.name), folder.name))
        logs = {folder.name: _read_log(folder / METRICS, troubles) for folder in folders}
        tuned_run = read(TunedRun, path)
        tuned = read(TunedResults, path, is_needed=False)
    evaluations = {}
    for file in sorted([*path.glob("*.json"), *path.glob("evaluations/*.json")]):
        # A large file is none, and reading it would take long.
        if file.stat().st_size < _MOST_BYTES:
            try:
                evaluations[file.stem] = EvaluationResult.model_validate(json.loads(file.read_bytes()))
            except (OSError, ValueError, RecursionError, ValidationError):
                # The folder has many other files: only what is an evaluation is one.
                continue
    is_training = kind in ("run", "fine-tuning run", "fit")
    return Artifact(
        kind,
        name or real_path(path).name,
        path,
        run=run,
        pretrained=pretrained,
        tuned_run=tuned_run,
        tuned=tuned,
        fit_run=read(FitRun, path) if kind == "fit" else None,
        fit=read(FitResults, path, is_needed=False) if kind == "fit" else None,
        glue=read(GlueResults, path) if kind == "GLUE run" else None,
        study=read(StudyResults, path, is_needed=False) if kind == "study" else None,
        tradeoff=read(Tradeoff, path) if kind == "trade-off" else None,
        analysis=analysis,
        clouds=read(PointClouds, inner, is_needed=False),
        claims=read(ClaimsResult, path, is_needed=False),
        environment=read(MachineFacts, path, is_needed=is_training),
        logs=logs,
        evaluations=evaluations,
        pictures=_read_pictures(path, analysis, troubles),
        examples=examples.rows if examples else (),
        parameters=_count_parameters(path) if is_training else {},
        troubles=tuple(troubles),
    )


def _read_log(path: Path, troubles: list[str]) -> list[StepRecord]:
    """Every whole record; a last line that is still being written is not one, any other that is none is told."""
    if not path.is_file():
        troubles.append(f"{path.parent.name}/{path.name}: not there (yet); its curves are left out")
        return []
    records, damaged = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            records += [StepRecord.model_validate(json.loads(line))] if line.strip() else []
        except (ValueError, RecursionError):
            damaged.append(number)
    if damaged:
        where = f"line {damaged[0]}" if len(damaged) == 1 else f"{len(damaged)} lines, the first is {damaged[0]},"
        troubles.append(f"{path}: {where} cannot be read; the curves are drawn without")
    return records


def _read_pictures(path: Path, analysis: Analysis | None, troubles: list[str]) -> dict[str, str]:
    """As data: addresses; of a picture in two formats the smaller file.

    Of an analysis those that it names: others are left from an earlier one, of other models.
    """
    drawn = {Path(picture.file).stem for picture in analysis.drawings} if analysis else set()
    files: dict[str, Path] = {}
    for file in sorted([*path.glob("*.*"), *path.glob("analysis/*.*")]):
        if drawn and file.stem not in drawn and (file.parent / Analysis.FILE).is_file():
            continue
        known = files.get(file.stem)
        if file.suffix in _PICTURES and (known is None or file.stat().st_size < known.stat().st_size):
            files[file.stem] = file
    pictures = {}
    for name, file in files.items():
        if file.stat().st_size > _MOST_BYTES:
            troubles.append(f"{file.name}: too large to stand in the page; open it by itself")
        else:
            pictures[name] = f"data:{_PICTURES[file.suffix]};base64,{b64encode(file.read_bytes()).decode()}"
    return pictures


def _count_parameters(path: Path) -> dict[str, int]:
    """Of each exported network, from the heads of its files alone."""
    counts = {}
    for file in sorted(path.glob("export/*/model.safetensors")):
        try:
            counts[file.parent.name] = count_parameters(file)
        except (OSError, SafetensorError):
            continue
    return {name: count for name, count in counts.items() if count}


def name_artifacts(paths: Sequence[Path]) -> list[str]:
    """By what differs in their paths: cells/mlm/run and cells/causal/run are 'mlm' and 'causal'."""
    parts = [real_path(path).parts for path in paths]
    if len(paths) == 1:
        # A cell of a study keeps its run in a folder of that name.
        is_cell = parts[0][-1] == "run" and len(parts[0]) > 2 and parts[0][-2].startswith("seed-")
        return ["/".join(parts[0][-3:-1]) if is_cell else parts[0][-1]]
    shortest = min(map(len, parts))
    start = next((i for i in range(shortest) if len({path[i] for path in parts}) > 1), shortest - 1)
    ends = zip(*(reversed(path[start:]) for path in parts), strict=False)
    end = next((i for i, names in enumerate(ends) if len(set(names)) > 1), 0)
    names = ["/".join(path[start : len(path) - end]) or path[-1] for path in parts]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def flatten(tree: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Settings by dotted names."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def find_differences(trees: Sequence[Mapping[str, JsonValue]]) -> dict[str, list[JsonValue]]:
    """Setting -> its value in each; a setting that one of them does not know counts as a difference.

    >>> find_differences([{"size": "tiny", "model": {"layers": 2}}, {"size": "tiny", "model": {"layers": 4}}])
    {'model.layers': [2, 4]}
    """
    flat = [dict(flatten(tree)) for tree in trees]
    keys = dict.fromkeys(key for tree in flat for key in tree)
    values = {key: [tree.get(key, "–") for tree in flat] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def explain_unlike(artifacts: Sequence[Artifact], about: Topic = "guesses") -> str:
    """Why levels of their figures are not to be compared; nothing where they are."""
    reasons = []
    if about == "guesses" and len({artifact.objective for artifact in artifacts}) > 1:
        reasons.append("their objectives ask about different tokens")
    first = artifacts[0].setting("generator")
    if about == "verdicts" and any(artifact.setting("generator") != first for artifact in artifacts):
        reasons.append("each is judged against a generator of its own kind")
    if len({artifact.data_hash for artifact in artifacts}) > 1:
        reasons.append("their data differ")
    return f"Compare shapes, not levels: {' and '.join(reasons)}." if reasons else ""


def find_topic(score: str) -> Topic:
    if "of guesses" in score:
        return "guesses"
    return "verdicts" if score.startswith(("auc", "recall", "precision", "discriminator_", "called_")) else "other"


def tell_comparison(artifacts: Sequence[Artifact], scores: Sequence[Scores]) -> Iterator[str]:
    """Whether their compute is equal, and who is ahead on which score that asks the same of each."""
    spent = {
        artifact.name: sum(flops for record in artifact.last_records if is_number(flops := record.get("flops")))
        for artifact in artifacts
    }
    if len(spent) > 1 and all(spent.values()):
        if max(spent.values()) <= _EQUAL * min(spent.values()):
            yield f"All had about equal compute, {format_flops(max(spent.values()))} FLOPs."
        else:
            told = ", ".join(f"{name} {format_flops(flops)}" for name, flops in spent.items())
            yield f"Their compute is not equal ({told} FLOPs): who is ahead may owe it to that."
    leads = []
    for key in dict.fromkeys(key for known in scores for key in known):
        if ranked := rank(artifacts, scores, key):
            (first, best), (second, next_best) = ((artifacts[place].name, scores[place][key]) for place in ranked[:2])
            values = f"{format_value(best)} against {format_value(next_best)} of {second}"
            leads.append(
                f"{format_key(key)}, {first} is ahead ({values})"
                if best != next_best
                else f"{format_key(key)}, none is ahead"
            )
    if leads:
        yield f"Of scores that ask the same of each: {'; '.join(leads[:_MOST_LEADS])}. Small differences may be luck."
    else:
        yield "They share no score that asks the same of each."


def rank(artifacts: Sequence[Artifact], scores: Sequence[Scores], key: str) -> list[int]:
    """Indices from the best to the worst of those that have the score; none where it has no better end, or asks
    different things of them."""
    who = [place for place, known in enumerate(scores) if key in known]
    is_up, is_down = (any(word in key for word in words) for words in (_UPWARD, _DOWNWARD))
    if len(who) < 2 or is_up == is_down or explain_unlike([artifacts[place] for place in who], find_topic(key)):
        return []
    return sorted(who, key=lambda place: scores[place][key], reverse=is_up)


def find_better(artifacts: Sequence[Artifact], scores: Sequence[Scores], key: str) -> int | None:
    """The index of the one that is ahead of all others."""
    ranked = rank(artifacts, scores, key)
    return ranked[0] if ranked and scores[ranked[0]][key] != scores[ranked[1]][key] else None
