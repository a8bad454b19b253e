"""The stage: encoder and labelled files -> run folder, one tuned model for each seed, their scores side by side.

FinetuneRequest -> Event...
"""

import math
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from electralab.artifacts import MANIFEST, lock_folder, new_folder, read_json, write_file, write_json
from electralab.config import ConfigLayer, to_toml
from electralab.errors import DamagedArtifact, InputError, UsageError
from electralab.events import Event, Note, Result, Update, warn
from electralab.finetuning.baselines import compare_baselines, score_baselines
from electralab.finetuning.curves import draw_learning_curve
from electralab.finetuning.decoding import AnswerPrediction, Prediction, decode
from electralab.finetuning.encoding import FeatureSet, Framer, swap_pairs
from electralab.finetuning.examples import Question, Split, format_bad_rows
from electralab.finetuning.exports import TunedCard, TunedModel, load_model, save_model
from electralab.finetuning.forward import RowOutput, average_outputs, run_network
from electralab.finetuning.identity import read_identity, require_same
from electralab.finetuning.judging import Judged, judge_predictions
from electralab.finetuning.predicting import AX, predict_diagnostics, read_diagnostics, score_diagnostics
from electralab.finetuning.predictions import (
    describe_predictions,
    require_whole,
    write_predictions,
    write_submission,
)
from electralab.finetuning.reading import TaskData, read_task
from electralab.finetuning.settings import FinetuneConfig, resolve_finetune
from electralab.finetuning.squad_scores import write_squad_files
from electralab.finetuning.starting import Origin, build_network, load_origin
from electralab.finetuning.submission_zips import BEST_SEED, ENSEMBLE
from electralab.finetuning.summary import (
    explain_improvement,
    find_improvement,
    list_seeds,
    rank_seeds,
    read_curves,
    spread_scores,
)
from electralab.finetuning.tasks import Task
from electralab.finetuning.work import TuneWork, count_batches, count_steps
from electralab.model.electra import parameter_depths
from electralab.model.task_model import HeadConfig, TaskModel
from electralab.records.predictions import PredictionRow, read_rows, to_json_lines
from electralab.records.tuned import (
    BadRowRecord,
    Baseline,
    Baselines,
    Scores,
    SeedResults,
    SeedScores,
    SplitSummary,
    TunedResults,
    TunedRun,
    choose_split,
)
from electralab.runtime import choose_device, default_threads, describe_environment, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.training.checkpoint import Progress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.metrics import Record, format_scores
from electralab.training.optimizer import Optimizer, group_parameters
from electralab.training.schedule import follow
from electralab.training.session import Pace, Session, spread

RESULTS = "results.json"
_LOGGED_STEPS = 50
# Where nobody says how often: the loss is written down more often than a person wants to read it.
_LINES_PER_SEED = 10
_SHOWN_LONG = 5


@dataclass(frozen=True, slots=True)
class FinetuneRequest:
    model: Path
    task: Task
    data_dir: Path
    run_dir: Path
    layers: tuple[ConfigLayer, ...]
    """Settings above the task's defaults."""
    seeds: int
    init_from: Path | None
    threads: int
    """0 means: as the run had, or as many as there are cores."""
    save_every: int
    log_every: int
    """0 means: so often that a curve can be drawn."""
    keep: int
    """Checkpoints that stay when a seed is finished; 0 for none."""
    allow_inexact: bool
    has_baselines: bool = True
    """Whether simple methods are scored on the same examples."""


def finetune(request: FinetuneRequest, stop: StopSignal) -> Iterator[Event[Record]]:
    """Tune every seed to its end. The same request again goes on where the last one stopped; more seeds are added."""
    task = request.task
    _refuse_foreign(request.run_dir)
    if request.seeds < 1:
        raise UsageError(f"--seeds: must be at least 1, got {request.seeds}")
    if request.init_from is not None and any(layer.values.get("from_scratch") for layer in request.layers):
        raise UsageError("--from-scratch: forgets what --init-from would begin with; give one of them")
    yield Note(f"loading {request.model} and reading {request.data_dir}", "dim")
    origin = load_origin(request.model, request.init_from)
    begun = read_identity(request.run_dir)
    config = resolve_finetune(task, origin.encoder.config, request.layers, begun.settings if begun else None)
    data = read_task(task, request.data_dir, config.data, config.train_rows, origin.tokenizer)
    with lock_folder(request.run_dir):
        stored = read_identity(request.run_dir)
        threads = request.threads or (stored.threads if stored else default_threads())
        device = choose_device(config.runtime.device)
        use_exact_arithmetic(threads, device)
        identity = TunedRun(
            kind="finetune",
            task=task.name,
            data=data.identity,
            model=origin.identity,
            settings=config.model_dump(mode="json"),
            threads=threads,
        )
        if stored is not None:
            require_same(request.run_dir, stored, identity, allow_inexact=request.allow_inexact)
        run = _Run(request, origin, config, data, device, stop)
        if stored is None:
            write_file(request.run_dir / "config.toml", to_toml(config))
        environment = describe_environment(threads) | {"data": str(request.data_dir)}
        write_json(request.run_dir / "environment.json", environment)
        if stored is None:
            identity.write(request.run_dir)
        elif stored.threads != threads:
            stored.model_copy(update={"threads": threads}).write(request.run_dir)
        yield from run.events()


def _refuse_foreign(run_dir: Path) -> None:
    if (run_dir / MANIFEST).exists() or (run_dir / "config.json").exists():
        raise UsageError(f"{run_dir}: holds data or a model, not a run; choose another --out")
    results = run_dir / RESULTS
    if results.is_file() and "suite" in read_json(results):
        raise UsageError(f"{run_dir}: holds a suite of runs; choose another --out")
    if list(run_dir.glob("seed-*")) and not (run_dir / "run.json").exists():
        raise DamagedArtifact(f"{run_dir}: has seeds but no run.json; restore it or choose another --out")


def _require_pairs(data: TaskData) -> None:
    if len(getattr(data.train.examples[0], "texts", ())) != 2:
        raise UsageError(f"--double-pairs: {data.task.display} has no pairs of texts here; leave it out")


@dataclass(frozen=True, slots=True)
class _Encoded:
    split: Split
    encoded: FeatureSet


@dataclass(frozen=True, slots=True)
class _Together:
    """The mean of what the seeds say, by split."""

    head: HeadConfig
    outputs: dict[str, list[RowOutput]]


class _Run:
    """The examples, encoded once, and the seeds that learn from them one after the other."""

    def __init__(
        self,
        request: FinetuneRequest,
        origin: Origin,
        config: FinetuneConfig,
        data: TaskData,
        device: torch.device,
        stop: StopSignal,
    ) -> None:
        self.request, self.origin, self.config, self.data = request, origin, config, data
        self.device, self.stop = device, stop
        self.task = request.task
        self.framer = Framer(origin.tokenizer, data.labels, config.sequence_length, config.spans)
        self.train = self.framer.encode(data.train.examples, is_labelled=True)
        self.rows = self.train.features
        if config.double_pairs:
            _require_pairs(data)
            self.rows = swap_pairs(self.rows, data.train.examples, self.framer)
        self.judged = {
            split.name: _Encoded(split, self.framer.encode(split.examples, is_labelled=False))
            for split in (*data.devs, *data.tests)
        }
        self.sample = self._take_sample(self.judged["dev"])
        self.has_pairs = any(feature.segment_ids.any() for feature in self.rows)
        self.copies_segment = origin.has_untrained_segments and self.has_pairs and not config.from_scratch

    def _take_sample(self, dev: _Encoded) -> _Encoded:
        """Of the dev examples as many as are scored along the way, spread evenly over all of them."""
        count = len(dev.split.examples)
        if count <= self.config.evaluation.rows:
            return dev
        examples = [
            dev.split.examples[place * count // self.config.evaluation.rows]
            for place in range(self.config.evaluation.rows)
        ]
        return _Encoded(replace(dev.split, examples=examples), self.framer.encode(examples, is_labelled=False))

    def events(self) -> Iterator[Event[Record]]:
        encoded = {"train": self.train, **{name: of.encoded for name, of in self.judged.items()}}
        for split in self._splits:
            yield from self._tell_split(split, encoded[split.name].too_long)
        notes = [f"{name}: {note}" for name, one in encoded.items() for note in one.notes]
        if self.copies_segment:
            notes.append(
                f"{self.request.model}: was pre-trained on rows of one segment, so the segment of a pair's second text "
                "was never trained; it begins as a copy of the first (prepare with --packing pairs to train it)"
            )
        notes += self._explain_length()
        for text in (*self.data.notes, *notes):
            yield Note(text, "warning")
        self._write_bad_rows()
        first = self.config.seed
        # Those that are there already count too: a summary never forgets one.
        seeds = sorted({*range(first, first + self.request.seeds), *self._finished_seeds()})
        is_summarised = self._has_summary_of(seeds) and set(seeds) <= set(self._finished_seeds())
        baselines: list[Baseline] = []
        if self.request.has_baselines and not is_summarised:
            for baseline in self._score_baselines():
                baselines.append(baseline)
                for split_name, scores in baseline.scores.items():
                    yield Note(f"baseline ({baseline.what}): {split_name} {format_scores(scores)}", "dim")
        for number, seed in enumerate(seeds, start=1):
            if len(seeds) > 1:
                yield Note(f"seed {seed} ({number} of {len(seeds)})", "strong")
            folder = self._folder_of(seed)
            if not (folder / RESULTS).is_file():
                yield from self._tune(seed, folder)
            yield Note(f"seed {seed}: dev {format_scores(SeedResults.read(folder).scores['dev'])}", "good")
        if not is_summarised:
            yield from self._summarise(seeds, baselines)
        elif self._lacks_ensemble_files(seeds):
            together = self._run_together(seeds)
            for name in self._submitted:
                yield from self._submit(name, {ENSEMBLE: self._describe(name, together)})
        yield Result(TunedResults.read(self.request.run_dir).to_json())

    def _tell_split(self, split: Split, too_long: Sequence[int]) -> Iterator[Update]:
        """What was read from where, every bad row counted and the first of them told."""
        columns = ", ".join(f"{part} from {name!r}" for part, name in split.columns.items())
        label = "" if split.is_labelled else ", no labels"
        yield Note(f"{split.name}: {len(split.examples):,} examples{label}" + (f" ({columns})" if columns else ""))
        for text in format_bad_rows(split):
            yield Note(text, "warning")
        if too_long:
            fate = "are cut to fit a row" if self.task.kind in ("classify", "regress") else "go on in another row"
            first = ", ".join(split.examples[place].id for place in too_long[:_SHOWN_LONG])
            more = ", …" if len(too_long) > _SHOWN_LONG else ""
            yield Note(f"         {len(too_long):,} of them are long and {fate} ({first}{more})", "dim")

    def _has_summary_of(self, seeds: Sequence[int]) -> bool:
        path = self.request.run_dir / RESULTS
        return path.is_file() and [seed.seed for seed in TunedResults.read(path.parent).seeds] == list(seeds)

    def _explain_length(self) -> list[str]:
        """Why there are more epochs than the task has by default."""
        steps, batches = count_steps(self.config, len(self.rows)), count_batches(self.config, len(self.rows))
        if self.config.steps or steps <= math.ceil(round(self.config.epochs * batches, 6)):
            return []
        return [
            f"few rows: {steps:,} steps, about {steps / batches:.0f} epochs, where {self.config.epochs:g} would be too "
            f"short to learn from; --epochs {self.config.epochs:g} for those"
        ]

    def _score_baselines(self) -> Iterator[Baseline]:
        """Once for a run: they depend on its data alone."""
        path = self.request.run_dir / Baselines.FILE
        if path.is_file():
            yield from Baselines.read(path.parent).baselines
            return
        found = []
        splits = [*self.data.devs, *self.data.tests]
        for baseline in score_baselines(self.task, self.data.labels, self.data.train.examples, splits):
            self.stop.check()
            found.append(baseline)
            yield baseline
        Baselines(baselines=tuple(found)).write(path.parent)

    def _write_bad_rows(self) -> None:
        """All of them: the display shows the first only."""
        rows = [
            BadRowRecord(split=split.name, path=split.path, **asdict(bad))
            for split in self._splits
            for bad in split.bad_rows
        ]
        if rows:
            write_file(self.request.run_dir / "bad-rows.jsonl", to_json_lines(rows))

    @property
    def _splits(self) -> list[Split]:
        return [self.data.train, *self.data.devs, *self.data.tests]

    def _finished_seeds(self) -> list[int]:
        folders = [path for path in list_seeds(self.request.run_dir) if (path / RESULTS).is_file()]
        return [int(path.name.removeprefix("seed-")) for path in folders]

    def _folder_of(self, seed: int) -> Path:
        return self.request.run_dir / f"seed-{seed}"

    def _tune(self, seed: int, folder: Path) -> Iterator[Update]:
        network = build_network(self.origin, self.data, self.config, seed, copies_segment=self.copies_segment)
        network = network.to(self.device)
        if self.config.runtime.compile:
            network.compile()
        optimizer = self.config.optimizer
        matrices = frozenset(name for name, p in network.named_parameters() if p.ndim == 2 and ".layers." in name)
        groups = group_parameters(network.named_parameters(), parameter_depths(network), matrices, optimizer)
        scale = LossScale(2.0**16, is_adaptive=True) if self.config.runtime.precision == "fp16" else LossScale()
        state = TrainingState(network, Optimizer(groups, optimizer), scale, Progress(), None)

        def score() -> Record:
            return dict(self._judge(self.sample, self._run(network, self.sample), network.head_config).scores)

        pad_id = self.origin.tokenizer.special.pad
        work = TuneWork(network, self.rows, self.config, seed, pad_id, self.device, score)
        total_steps = count_steps(self.config, len(self.rows))
        pace = Pace(
            total_steps,
            spread(self.config.evaluation.times, total_steps),
            log_every=self.request.log_every or spread(_LOGGED_STEPS, total_steps),
            save_every=self.request.save_every,
            keep=max(self.request.keep, 1),
            most_lines=0 if self.request.log_every else _LINES_PER_SEED,
        )
        rate = follow(self.config.schedule, total_steps)
        yield from Session(folder, state, work, pace, optimizer, rate, self.stop).events()
        with state.optimizer.averaged():
            self._finish(seed, folder, network, state)

    def _finish(self, seed: int, folder: Path, network: TaskModel, state: TrainingState) -> None:
        """The model, its predictions and scores; the results are written last and say that the seed is finished."""
        head = network.head_config
        outputs = {name: self._run(network, of) for name, of in self.judged.items()}
        threshold = self._judge(self.judged["dev"], outputs["dev"], head).best_threshold or 0.0
        # Dev is scored with a threshold that nothing chose, a test with the one that dev chose.
        judged = {
            name: self._judge(of, outputs[name], head, threshold if name.startswith("test") else 0.0)
            for name, of in self.judged.items()
        }
        card = TunedCard(
            task=self.task.name,
            num_texts=len(getattr(self.data.train.examples[0], "texts", ())),
            sequence_length=self.config.sequence_length,
            spans=self.config.spans,
            threshold=threshold,
            has_untrained_segments=self.origin.has_untrained_segments and not self.has_pairs,
        )
        save_model(folder / "model", TunedModel(network, self.origin.tokenizer, card))
        for name, of in self.judged.items():
            # As the saved model says it, with its threshold.
            said = decode(head, of.split.examples, of.encoded, outputs[name], self.config.spans, threshold)
            rows = describe_predictions(of.split.examples, said)
            write_predictions(folder / "predictions" / f"{name}.jsonl", rows)
            if head.kind == "qa":
                self._write_squad(folder / "predictions" / name, of.split, said)
        labelled = {name: scored for name, scored in judged.items() if self.judged[name].split.is_labelled}
        SeedResults(
            seed=seed,
            **asdict(state.progress),
            scores={name: scored.scores for name, scored in labelled.items()},
            report=judged["dev"].report,
            reports={name: scored.report for name, scored in labelled.items()},
        ).write(folder)
        if not self.request.keep:
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)

    def _write_squad(self, folder: Path, split: Split, said: Sequence[Prediction]) -> None:
        """As the official scoring script takes them: the best spans, and beside them how doubtful each is."""
        questions = [example for example in split.examples if isinstance(example, Question)]
        answers = [prediction for prediction in said if isinstance(prediction, AnswerPrediction)]
        doubts = [answer.best.no_answer_score for answer in answers] if self.task.has_impossible else None
        write_squad_files(folder, questions, [answer.best.text for answer in answers], doubts)

    def _run(self, network: TaskModel, of: _Encoded) -> list[RowOutput]:
        pad_id, size = self.origin.tokenizer.special.pad, self.config.evaluation.batch_tokens
        return run_network(network, of.encoded.features, pad_id, size, self.stop)

    def _judge(self, of: _Encoded, outputs: Sequence[RowOutput], head: HeadConfig, threshold: float = 0.0) -> Judged:
        if not head.has_answerability:
            threshold = math.inf  # without a head for doubt every question is answered
        predictions = decode(head, of.split.examples, of.encoded, outputs, self.config.spans, threshold)
        return judge_predictions(self.task, of.split, predictions, self.data.labels, threshold)

    def _summarise(self, seeds: Sequence[int], baselines: Sequence[Baseline]) -> Iterator[Update]:
        """All seeds side by side, the best one as the run's model, and what they say together."""
        run_dir, metric = self.request.run_dir, self.task.metrics[0]
        results = [SeedResults.read(self._folder_of(seed)) for seed in seeds]
        best = rank_seeds(metric, results)[0]
        best_dir = self._folder_of(best.seed)
        together = self._run_together(seeds) if len(seeds) > 1 else None
        with new_folder(run_dir / "export" / "model", kind="model") as temporary:
            for file in (best_dir / "model").iterdir():
                if file.name != MANIFEST:
                    shutil.copyfile(file, temporary / file.name)
        for name in self._submitted:
            rows = {BEST_SEED: list(read_rows(best_dir / "predictions" / f"{name}.jsonl"))}
            if together:
                rows[ENSEMBLE] = self._describe(name, together)
            yield from self._submit(name, rows)
        # By split, the scores of each seed. GLUE's diagnostic rows come last: they are no split of MNLI's.
        labelled = [name for name, of in self.judged.items() if of.split.is_labelled]
        by_split = {name: [result.scores[name] for result in results] for name in labelled}
        if self.task.name == "mnli" and (diagnosed := (yield from self._diagnose(seeds))):
            by_split[AX] = [diagnosed[seed] for seed in seeds]
        spread = {name: spread_scores(by_seed) for name, by_seed in by_split.items()}
        ensemble: dict[str, Scores] = {}
        if together:
            ensemble["ensemble"] = self._judge(self.judged["dev"], together.outputs["dev"], together.head).scores
        losses, scores = read_curves([(seed, self._folder_of(seed)) for seed in seeds], metric)
        steps, batches = count_steps(self.config, len(self.rows)), count_batches(self.config, len(self.rows))
        improvement = find_improvement(losses, scores, steps, steps / batches)
        split = choose_split(labelled)
        notes = [
            compare_baselines(metric, split, spread[split][metric].median, baselines),
            explain_improvement(improvement, metric) if improvement else "",
        ]
        if self.request.has_baselines and not baselines:
            notes.append(f"no baseline: nothing simple does {self.task.display}")
        named = {"baselines": {baseline.name: baseline for baseline in baselines}}
        summary = TunedResults(
            task=self.task.name,
            metric=metric,
            scores={name: {key: of.median for key, of in metrics.items()} for name, metrics in spread.items()},
            spread=spread,
            best_seed=best.seed,
            report=best.report,
            reports=best.reports or {"dev": best.report},
            seeds=tuple(
                SeedScores(seed=seed, scores={name: by_seed[place] for name, by_seed in by_split.items()})
                for place, seed in enumerate(seeds)
            ),
            steps=best.step,
            tokens_per_seed=best.tokens,
            seconds=sum(result.seconds for result in results),
            data={
                split.name: SplitSummary(
                    path=split.path,
                    examples=len(split.examples),
                    bad_rows=len(split.bad_rows),
                    columns=split.columns,
                )
                for split in self._splits
            },
            notes=tuple(note for note in notes if note),
            improvement=improvement,
            **(named if self.request.has_baselines else {}),
            **ensemble,
        )
        title = f"{self.task.display}, {metric}"
        draw_learning_curve(run_dir / "learning-curve.png", title, losses, {metric: scores})
        summary.write(run_dir)

    def _diagnose(self, seeds: Sequence[int]) -> Generator[Update, None, dict[int, Scores]]:
        """GLUE's diagnostic rows, where they lie beside MNLI's: predictions, submission files and, by seed, the scores
        where the rows have labels. Bad rows must not cost the run its results."""
        run_dir = self.request.run_dir
        scores: dict[int, Scores] = {}
        try:
            splits = read_diagnostics(self.request.data_dir)
            labelled = next((split for split in splits if split.is_labelled), None)
            if labelled:
                scores = {seed: score_diagnostics(self._folder_of(seed), labelled, self.stop) for seed in seeds}
            if splits:
                predict_diagnostics(run_dir, splits[0], self.stop, has_ensemble=len(seeds) > 1)
        except InputError as error:
            yield warn(str(error))
        return scores

    @property
    def _submitted(self) -> list[str]:
        """The splits that GLUE's server has a place for."""
        return [name for name in self.judged if name in self.task.submissions]

    def _lacks_ensemble_files(self, seeds: Sequence[int]) -> bool:
        """Of a run that was finished before they were written."""
        files = [self.task.submissions[name] for name in self._submitted]
        folders = {folder: self.request.run_dir / folder for folder in (BEST_SEED, ENSEMBLE)}
        return len(seeds) > 1 and any(
            (folders[BEST_SEED] / file).is_file() and not (folders[ENSEMBLE] / file).is_file() for file in files
        )

    def _run_together(self, seeds: Sequence[int]) -> _Together:
        """What the seeds say of dev, and of every split that GLUE's server has a place for."""
        said: dict[str, list[list[RowOutput]]] = {name: [] for name in ("dev", *self._submitted)}
        for seed in seeds:  # one network in memory at a time
            network = load_model(self._folder_of(seed)).network.to(self.device)
            for name, of_seeds in said.items():
                of_seeds.append(self._run(network, self.judged[name]))
        are_classes = bool(self.data.labels)
        outputs = {name: average_outputs(of_seeds, are_classes=are_classes) for name, of_seeds in said.items()}
        return _Together(network.head_config, outputs)

    def _describe(self, name: str, together: _Together) -> list[PredictionRow]:
        split, encoded = self.judged[name].split, self.judged[name].encoded
        said = decode(together.head, split.examples, encoded, together.outputs[name], self.config.spans, 0.0)
        return describe_predictions(split.examples, said)

    def _submit(self, name: str, rows_of: Mapping[str, Sequence[PredictionRow]]) -> Iterator[Update]:
        """A file in each folder. A test with a bad row cannot be submitted; that must not cost the run its results."""
        try:
            require_whole(self.judged[name].split)
            for folder, rows in rows_of.items():
                path = self.request.run_dir / folder / self.task.submissions[name]
                write_submission(path, self.task.name, rows)
        except InputError as error:
            yield warn(str(error))
