"""The stage: a labelled table and an encoder -> a tuned encoder, a linear model, both together, and the best of them.

FitRequest -> Event..., FitResults

Every entry is judged by rows that it has not learned from. Under cross-validation each part of the rows is answered by
models that learned from the others; the networks of all parts then answer together, and the linear model is fitted to
all rows. Else some rows are held out from everything.
"""

import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from electralab import runtime
from electralab.artifacts import lock_folder, write_file
from electralab.config import ConfigLayer, Settings, SettingsTree, resolve
from electralab.errors import IdentityMismatch
from electralab.events import Event, Note, Progress, Result, Update, run_to_end
from electralab.finetuning.stage import FinetuneRequest, plan_finetune, tune_seeds
from electralab.finetuning.task_model import copy_model, identify_model, list_seeds, load_model
from electralab.fitting.answerer import Answerer, save_fitted
from electralab.fitting.judging import explain_entries, find_interval, judge_blend
from electralab.fitting.rows import FitRows, read_fit_rows, write_part
from electralab.model.folders.folder import locate_encoder
from electralab.records.fitted import (
    EntryName,
    FitEntry,
    FitPlan,
    FitResults,
    FitRun,
    FittedModel,
    LabelPoint,
)
from electralab.records.kinds import require_empty_or
from electralab.records.tuned import PredictionRow, Scores, SplitSummary, read_rows, to_json_lines
from electralab.reporting.cards import write_fit_card
from electralab.reporting.page import with_page
from electralab.statistics import Interval
from electralab.stopping import StopSignal
from electralab.tasks import blending
from electralab.tasks.kind import format_bad_rows
from electralab.tasks.load import TaskDataConfig, hash_examples
from electralab.training.fingerprints import ANOTHER
from electralab.training.metrics import format_scores

OWN_TEXT = "text.jsonl"
"""The texts of the rows, for an encoder that is learned from them."""
_CURVE_SHARES = (0.0625, 0.125, 0.25, 0.5)
# Fewer rows than so many would only show how little they are.
_LEAST_CURVE_ROWS = 8
_PREDICTIONS = "predictions"
_SAVE_EVERY = 500
_BATCH_TOKENS = 8192


class _RowSettings(Settings):
    data: TaskDataConfig = TaskDataConfig()


@dataclass(frozen=True, slots=True)
class FitRequest:
    source: Path
    """A table, or a folder with train.*, dev.*, test.*."""
    task: str
    """Its name; empty: classes or numbers, as the label column has them."""
    model: Path
    run_dir: Path
    layers: tuple[ConfigLayer, ...]
    """Settings of reading and tuning above the defaults."""
    folds: int = 0
    workers: int = 0
    threads: int = 0

    @property
    def data_config(self) -> TaskDataConfig:
        values = ((layer.source, layer.values.get("data")) for layer in self.layers)
        return resolve(_RowSettings, [ConfigLayer(source, {"data": given}) for source, given in values if given]).data

    @property
    def tuning_layers(self) -> tuple[ConfigLayer, ...]:
        """Without how the table is read: a tuning reads files of our own."""
        return tuple(
            ConfigLayer(layer.source, {name: value for name, value in layer.values.items() if name != "data"})
            for layer in self.layers
        )


def fit(request: FitRequest, stop: StopSignal) -> Iterator[Event[FitResults]]:
    """The same request again goes on where the last one stopped: a part that is finished is not done again."""
    yield from with_page(request.run_dir, _fit(request, stop))


def read_request_rows(request: FitRequest) -> FitRows:
    return read_fit_rows(request.source, request.task, request.data_config, request.folds)


def write_own_text(request: FitRequest) -> None:
    """The texts that are learned from, one a document: pre-training on a task's own text is known to help. None of the
    test rows, which are to be as new to the encoder as what comes later."""
    path = request.run_dir / OWN_TEXT
    require_empty_or("fit", request.run_dir)
    texts = to_json_lines([{"text": text} for row in read_request_rows(request).learned for text in row.texts])
    if path.is_file() and path.read_bytes() != texts:
        raise IdentityMismatch(f"{request.run_dir}: was begun with other rows; give the same, or {ANOTHER}")
    write_file(path, texts)


@contextmanager
def same_command(run_dir: Path) -> Iterator[None]:
    """Preparing, pre-training and tuning refuse another command with ways out that they have, and `fit` has not."""
    try:
        yield
    except IdentityMismatch as error:
        what = str(error).partition("; ")[0]
        raise IdentityMismatch(f"{what}; give what {run_dir} was begun with, or {ANOTHER}") from None


def plan_fit(request: FitRequest, learning_minutes: float = 0.0) -> FitPlan:
    """Rows are read and checked as for the work itself. With `learning_minutes` the encoder is not there yet, and
    nobody knows what its tuning takes."""
    require_empty_or("fit", request.run_dir)
    rows = read_request_rows(request)
    tuning, minutes, notes = None, learning_minutes, list(rows.notes)
    if learning_minutes:
        notes.append("tuning comes on top: its time depends on the encoder that is learned")
    else:
        with TemporaryDirectory() as folder:
            write_part(Path(folder), rows, rows.parts[0])
            tuning = plan_finetune(_tuning_request(request, rows, 0, Path(folder)))
        minutes += tuning.estimated_minutes * len(rows.parts)
    splits = (rows.data.train, *rows.data.devs, *rows.data.tests)
    return FitPlan(
        task=rows.task.name,
        kind=rows.task.kind.name,
        out=str(request.run_dir),
        labels=rows.labels,
        rows=len(rows.learned),
        judged_rows=len(rows.judged),
        bad_rows={split.name: len(split.bad_rows) for split in splits},
        columns=rows.data.train.columns,
        judged_by=rows.judged_by,
        tunings=len(rows.parts),
        steps=tuning.steps_per_seed if tuning else 0,
        learning_minutes=learning_minutes,
        estimated_minutes=round(minutes, 1),
        notes=tuple(notes),
        settings=tuning.settings if tuning else {},
    )


def _tuning_request(request: FitRequest, rows: FitRows, part: int, data_dir: Path) -> FinetuneRequest:
    return FinetuneRequest(
        model=request.model,
        task=rows.task,
        data_dir=data_dir,
        run_dir=_tuning_dir(request.run_dir, part),
        layers=request.tuning_layers,
        seeds=1,
        init_from=None,
        threads=request.threads,
        workers=request.workers,
        save_every=_SAVE_EVERY,
        log_every=0,
        # The checkpoints of a finished tuning would be larger than all the rest.
        keep=0,
        allow_inexact=False,
        has_baselines=False,
    )


def _tuning_dir(run_dir: Path, part: int) -> Path:
    return run_dir / f"tuning-{part + 1}"


def _fit(request: FitRequest, stop: StopSignal) -> Iterator[Event[FitResults]]:
    run_dir = request.run_dir
    require_empty_or("fit", run_dir)
    yield Note(f"reading {request.source}", "dim")
    rows = read_request_rows(request)
    given: SettingsTree = {}
    for layer in request.layers:
        given |= layer.values
    identity = FitRun(
        kind="fit",
        task=rows.task.name,
        data=rows.data.identity,
        model=identify_model(locate_encoder(request.model)),
        folds=len(rows.parts),
        settings=given,
    )
    with lock_folder(run_dir):
        stored = FitRun.find(run_dir)
        if stored is None:
            identity.write(run_dir)
        elif changed := [
            name for name in ("task", "data", "model", "folds", "settings") if stored[name] != identity[name]
        ]:
            raise IdentityMismatch(f"{run_dir}: was begun with another {changed[0]}; give the same, or {ANOTHER}")
        if FitResults.find(run_dir) is None:
            yield from _FitStage(request, rows, stop).run()
        write_fit_card(run_dir)
        yield Result(FitResults.read(run_dir))


@dataclass(frozen=True, slots=True)
class _Judged:
    """What each entry answers to the rows that judge, and how good that is; the linear model first."""

    answers: dict[EntryName, list[PredictionRow]]
    scores: dict[EntryName, Scores]
    best: FittedModel
    """Still without its networks."""
    why_no_blend: str


class _FitStage:
    def __init__(self, request: FitRequest, rows: FitRows, stop: StopSignal) -> None:
        self.request, self.rows, self.stop = request, rows, stop
        self.run_dir, self.task, self.labels = request.run_dir, rows.task, rows.labels
        self.metric = rows.task.metrics[0]
        self.part_rows = round(np.mean([len(part.train) for part in rows.parts]))
        """That a model of one part learns from."""

    def run(self) -> Iterator[Update]:
        began, rows = time.monotonic(), self.rows
        columns = ", ".join(f"{part} from {name!r}" for part, name in rows.data.train.columns.items())
        yield Note(
            f"{len(rows.learned):,} labelled rows to learn from ({columns}), judged by {rows.judged_by} "
            f"({len(rows.judged):,} rows)"
        )
        for split in (rows.data.train, *rows.data.devs, *rows.data.tests):
            for text in format_bad_rows(split):
                yield Note(text, "warning")
        for text in rows.notes:
            yield Note(text, "warning")
        runtime.describe_environment(self.request.threads, data=str(self.request.source)).write(self.run_dir)
        curve = yield from self._fit_linear()
        yield from self._tune()
        yield from self._finish(curve, began)

    def _seed_dir(self, part: int) -> Path:
        """Of the one seed of a tuning."""
        return list_seeds(_tuning_dir(self.run_dir, part))[0]

    def _predictions(self, name: str) -> Path:
        return self.run_dir / _PREDICTIONS / f"{name}.jsonl"

    def _fit_linear(self) -> Generator[Update, None, list[LabelPoint]]:
        """What a linear model answers after an eighth of the rows of each part, and more, up to all of them."""
        points = []
        shares = [share for share in _CURVE_SHARES if share * self.part_rows >= _LEAST_CURVE_ROWS]
        for share in (*shares, 1.0):
            rows = round(share * self.part_rows)
            path = self._predictions(f"linear-{rows}")
            if not path.is_file():
                yield Progress("fitting a linear model", rows, self.part_rows, f"a linear model of {rows:,} rows")
                write_file(path, to_json_lines(self._answer_parts(share)))
            points.append(self._make_point("linear", rows, list(read_rows(path))))
        score = points[-1].score
        yield Note(f"linear model over TF-IDF: {format_scores({self.metric: score})}", "good")
        return points

    def _answer_parts(self, share: float) -> list[PredictionRow]:
        """Every judged row by a linear model of so much of the training rows of its part, always those of the smallest
        hashes, so that more rows have fewer among them."""
        answered: dict[int, PredictionRow] = {}
        for part in self.rows.parts:
            self.stop.check()
            hashes = hash_examples(self.task.kind, part.train)
            order = sorted(range(len(hashes)), key=hashes.__getitem__)[: round(share * len(hashes))]
            model = blending.fit_linear([part.train[index] for index in sorted(order)])
            asked = [self.rows.judged[place] for place in part.places]
            answers = blending.answer_linear(model, asked, self.labels)
            answered |= dict(zip(map(int, part.places), answers, strict=True))
        return [answered[place] for place in range(len(self.rows.judged))]

    def _make_point(self, name: EntryName, rows: int, answers: Sequence[PredictionRow]) -> LabelPoint:
        interval = find_interval(self.metric, self.labels, answers)
        return LabelPoint(name=name, rows=rows, score=interval.value, low=interval.low, high=interval.high)

    def _tune(self) -> Iterator[Update]:
        """A network for each part, and what they say of the rows that they have not seen."""
        count, answered = len(self.rows.parts), dict[int, PredictionRow]()
        for number, part in enumerate(self.rows.parts):
            folder = self.run_dir / "rows" / f"part-{number + 1}"
            if not (folder / "dev.jsonl").is_file():
                write_part(folder, self.rows, part)
            name = f"tuning {number + 1} of {count}" if count > 1 else "tuning"
            request = _tuning_request(self.request, self.rows, number, folder)
            with same_command(self.run_dir):
                for event in tune_seeds(request, self.stop):
                    if isinstance(event, Progress):
                        text = f"{name}: {event.text}" if event.text else ""
                        line = f"{name}: {event.line.strip()}" if event.line else ""
                        yield replace(event, phase=f"{name}: {event.phase}", text=text, line=line)
                    elif isinstance(event, Note) and event.style == "warning" and number == 0:
                        yield event
            predictions = self._seed_dir(number) / _PREDICTIONS / "dev.jsonl"
            answered |= dict(zip(map(int, part.places), read_rows(predictions), strict=True))
        answers = [answered[place] for place in range(len(self.rows.judged))]
        write_file(self._predictions("encoder"), to_json_lines(answers))
        score = find_interval(self.metric, self.labels, answers).value
        yield Note(f"tuned encoder: {format_scores({self.metric: score})}", "good")

    def _finish(self, curve: Sequence[LabelPoint], began: float) -> Iterator[Update]:
        """The leaderboard, the best entry as a model, and the record that says that the run is finished."""
        rows, by_class = self.rows, self._count_classes()
        judged = self._judge(by_class)
        about, answers = judged.best, judged.answers
        yield Note("writing the model", "dim")
        folders = [self._seed_dir(number) / "model" for number in range(len(rows.parts))]
        models, linear = [load_model(folder) for folder in folders], blending.fit_linear(rows.learned)
        if about.entry != "linear":
            names = tuple(f"encoder-{number + 1}" for number in range(len(folders)))
            length = models[0].config.sequence_length
            about = about.model_copy(update={"encoders": names, "sequence_length": length})
        self._export(about, folders, linear)
        tested: dict[EntryName, Scores] = {}
        for name in answers if rows.test is not None else ():
            answerer = Answerer(about.model_copy(update={"entry": name}), models, linear)
            tested[name] = self._score_test(answerer, keeps_answers=name == about.entry)
        entries = self._rank(judged, tested)
        # The curve has the linear model already.
        others = [self._make_point(name, self.part_rows, answers[name]) for name in answers if name != "linear"]
        splits = (rows.data.train, *rows.data.devs, *rows.data.tests)
        FitResults(
            task=self.task.name,
            kind=self.task.kind.name,
            metric=self.metric,
            labels=self.labels,
            num_texts=rows.num_texts,
            model=str(self.request.model),
            rows=len(rows.learned),
            judged_rows=len(rows.judged),
            judged_by=rows.judged_by,
            best=about.entry,
            entries=tuple(entries),
            report=blending.report_classes(self.labels, answers[about.entry]),
            curve=(*curve, *others),
            data={
                split.name: SplitSummary(
                    path=split.path,
                    examples=len(split.examples),
                    bad_rows=len(split.bad_rows),
                    columns=split.columns,
                )
                for split in splits
            },
            seconds=round(time.monotonic() - began, 1),
            notes=(*explain_entries(entries, len(rows.judged), by_class), *filter(None, [judged.why_no_blend])),
        ).write(self.run_dir)

    def _count_classes(self) -> dict[str, int]:
        counts = Counter(str(blending.read_truth(row)) for row in self.rows.learned)
        return {label: counts[label] for label in self.labels}

    def _judge(self, by_class: dict[str, int]) -> _Judged:
        margins, encoder = (
            list(read_rows(self._predictions(name))) for name in (f"linear-{self.part_rows}", "encoder")
        )
        parts = [part.places for part in self.rows.parts]
        weights, blended, why = judge_blend(
            self.labels, [label for label in by_class if by_class[label]], parts, [encoder, margins]
        )
        temperature = blending.find_temperature(margins, self.labels) if self.labels else 1.0
        # As the model answers, when it answers alone.
        linear = blending.cool(margins, temperature) if self.labels else margins
        write_file(self._predictions("linear"), to_json_lines(linear))
        answers: dict[EntryName, list[PredictionRow]] = {"linear": linear, "encoder": encoder}
        if weights is not None:
            answers["blend"] = blended
            write_file(self._predictions("blend"), to_json_lines(blended))
        scores = {name: self._score(given) for name, given in answers.items()}
        best = FittedModel(
            # Of equals the cheapest, which stands first.
            entry=max(answers, key=lambda name: scores[name][self.metric]),
            kind=self.task.kind.name,
            task=self.task.name,
            labels=self.labels,
            num_texts=self.rows.num_texts,
            sequence_length=0,
            temperature=temperature,
        )
        # Without a blend the file has no such key.
        if weights is not None:
            best = best.model_copy(update={"blend": weights})
        return _Judged(answers, scores, best, why)

    def _score(self, answers: Sequence[PredictionRow]) -> Scores:
        return blending.score_rows(self.task.metrics, self.labels, answers)

    def _export(self, about: FittedModel, folders: Sequence[Path], linear: blending.LinearModel) -> None:
        export = self.run_dir / "export" / "model"
        if about.entry == "encoder" and len(folders) == 1:
            # One network alone is a model folder like any other.
            copy_model(folders[0], export)
        else:
            # A linear model alone needs no network.
            networks = dict(zip(about.encoders, folders, strict=False))
            save_fitted(export, about, networks, None if about.entry == "encoder" else linear)

    def _score_test(self, answerer: Answerer, *, keeps_answers: bool) -> Scores:
        assert self.rows.test is not None
        examples = blending.pooled_examples(self.rows.test.examples)
        answered = run_to_end(answerer.predict(examples, batch_tokens=_BATCH_TOKENS, stop=self.stop))
        if keeps_answers:
            write_file(self._predictions("test"), to_json_lines(answered))
        return self._score(answered)

    def _rank(self, judged: _Judged, tested: dict[EntryName, Scores]) -> list[FitEntry]:
        answers, scores, best = judged.answers, judged.scores, judged.best.entry
        entries = []
        for name in sorted(answers, key=lambda name: -scores[name][self.metric]):
            interval = find_interval(self.metric, self.labels, answers[name])
            behind = Interval(0, 0, 0)
            if name != best:
                behind = find_interval(self.metric, self.labels, answers[name], answers[best])
            entry = FitEntry(
                name=name,
                what=self._describe(name),
                scores=scores[name],
                low=interval.low,
                high=interval.high,
                behind=behind.value,
                behind_low=behind.low,
                behind_high=behind.high,
            )
            entries.append(entry.model_copy(update={"test": tested[name]}) if tested else entry)
        return entries

    def _describe(self, name: EntryName) -> str:
        count = len(self.rows.parts)
        features = "words and characters" if self.rows.num_texts == 1 else "words and what the pair shares"
        kind = "ridge regression" if self.task.kind.has_numbers else "a linear SVM"
        encoder = f"{self.request.model} tuned" + (f", {count} networks together" if count > 1 else "")
        linear = f"{kind} over TF-IDF of {features}"
        return {"encoder": encoder, "linear": linear, "blend": "both, weighted by rows that neither has seen"}[name]
