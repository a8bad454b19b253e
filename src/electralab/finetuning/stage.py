"""The stage: encoder and labelled files -> run folder, one tuned model for each seed, their scores side by side.

FinetuneRequest -> Event..., TunedResults
"""

import math
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from electralab import runtime
from electralab.artifacts import lock_folder, write_file
from electralab.config import ConfigLayer, to_toml
from electralab.errors import DamagedArtifact, InputError, UsageError
from electralab.events import Event, Note, Result, Update, warn
from electralab.finetuning import results
from electralab.finetuning.settings import (
    FinetuneConfig,
    check_resumable,
    product_shape,
    read_identity,
    resolve_finetune,
)
from electralab.finetuning.task import (
    FinetuneTask,
    Pretrained,
    build_network,
    build_state,
    count_batches,
    count_steps,
    load_pretrained,
)
from electralab.finetuning.task_model import (
    LoadedTaskModel,
    TaskModelConfig,
    copy_model,
    list_seeds,
    load_model,
    save_model,
)
from electralab.model.flops import encoder_flops, training_bytes
from electralab.model.task_model import TaskModel
from electralab.records import tuned
from electralab.records.kinds import require_empty_or
from electralab.records.tuned import SeedResults, TunedResults
from electralab.reporting.cards import write_tuned_card
from electralab.reporting.page import with_page
from electralab.reporting.plots import plot_learning_curve
from electralab.runtime import RuntimeConfig
from electralab.stopping import StopSignal
from electralab.tasks.features import EncodedSplit, Feature, FeatureEncoder, average_logits, predict_logits
from electralab.tasks.kind import Example, NetworkOutputs, Split, SplitScores, Task, format_bad_rows
from electralab.tasks.load import TaskData, read_task
from electralab.tasks.texts import swap_pairs
from electralab.training.checkpoint import TrainingProgress
from electralab.training.group import Parallel
from electralab.training.metrics import format_scores
from electralab.training.ranks import check_ranks, share_run
from electralab.training.schedule import lr_schedule
from electralab.training.trainer import LoopConfig, Trainer, every_n_steps

Outputs = NetworkOutputs[Example, Feature]
R = TypeVar("R")

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
    """Of each worker, inside its operations. 0 means: as the run had; a new one 1 where steps are cut into slices,
    unless there are more cores than slices and large products, and all cores where they are not cut."""
    save_every: int
    log_every: int
    """0 means: so often that a curve can be drawn."""
    keep: int
    """Checkpoints that stay when a seed is finished; 0 for none."""
    allow_inexact: bool
    has_baselines: bool = True
    """Whether simple methods are scored on the same examples."""
    workers: int = 0
    """Processes that compute the slices of a step; 0 means a worker for each core. No part of what the run is."""
    parallel: Parallel = "ddp"
    """What a rank has of the network, where torchrun started several. No part of what the run is either."""


def finetune(request: FinetuneRequest, stop: StopSignal) -> Iterator[Event[TunedResults]]:
    """Tune every seed to its end. The same request again goes on where the last one stopped; more seeds are added."""
    yield from share_tuning(with_page(request.run_dir, tune_seeds(request, stop)), request, stop)


def share_tuning(events: Iterator[Event[R]], request: FinetuneRequest, stop: StopSignal) -> Iterator[Event[R]]:
    """The events of tuning, which the first rank goes through, where torchrun started several."""
    sections = [layer.values.get("runtime") for layer in request.layers]
    asked = [section["device"] for section in sections if isinstance(section, dict) and "device" in section]
    device = runtime.choose_device(str([RuntimeConfig().device, *asked][-1]))
    yield from share_run(events, stop, device)


def tune_seeds(request: FinetuneRequest, stop: StopSignal) -> Iterator[Event[TunedResults]]:
    """Fine-tuning without its page: GLUE has one for all of its tasks."""
    run_dir = request.run_dir
    if list(run_dir.glob("seed-*")) and not (run_dir / tuned.TunedRun.FILE).exists():
        raise DamagedArtifact(f"{run_dir}: has seeds but no run.json; restore it or choose another --out")
    require_empty_or("fine-tuning run", run_dir)
    if request.seeds < 1:
        raise UsageError(f"--seeds: must be at least 1, got {request.seeds}")
    if request.init_from is not None and any(layer.values.get("from_scratch") for layer in request.layers):
        raise UsageError("--from-scratch: forgets what --init-from would begin with; give one of them")
    yield Note(f"loading {request.model} and reading {request.data_dir}", "dim")
    origin, config, data = _read_inputs(request)
    check_ranks(config.batch.slices, request.parallel)
    with lock_folder(run_dir):
        stored = read_identity(run_dir)
        shape = product_shape(config.batch, config.sequence_length, origin.encoder.config)
        threads = request.threads or (
            stored.threads if stored else runtime.choose_worker_threads(config.batch.slices, shape)
        )
        device = runtime.choose_device(config.runtime.device)
        runtime.use_exact_arithmetic(threads, device)
        identity = tuned.TunedRun(
            kind="finetune",
            task=request.task.name,
            data=data.identity,
            model=origin.identity,
            settings=config.model_dump(mode="json"),
            threads=threads,
        )
        if stored is not None:
            check_resumable(run_dir, stored, identity, allow_inexact=request.allow_inexact)
        run = _FinetuneRun(request, origin, config, data, device, stop)
        if stored is None:
            write_file(run_dir / "config.toml", to_toml(config))
        runtime.describe_environment(threads, data=str(request.data_dir)).write(run_dir)
        # run.json is the last of the first files: with it a run counts as begun.
        if stored is None:
            identity.write(run_dir)
        elif stored.threads != threads:
            stored.model_copy(update={"threads": threads}).write(run_dir)
        yield from run.events()


def plan_finetune(request: FinetuneRequest) -> tuned.FinetunePlan:
    """Everything is read and checked as for training. FLOPs and time are those of the steps, padding left out."""
    origin, config, data = _read_inputs(request)
    encoder = FeatureEncoder(origin.tokenizer, data.labels, config.sequence_length, config.spans)
    encoded = data.task.kind.encode(encoder, data.train.examples, is_labelled=True)
    lengths = [len(feature.ids) for feature in encoded.features]
    rows = len(lengths) * (2 if config.double_pairs else 1)
    steps, tokens = count_steps(config, rows), sum(lengths) / max(len(lengths), 1)
    shape = origin.encoder.config
    flops = 3 * encoder_flops(shape, 1, round(tokens)) * steps * config.batch.size * request.seeds
    parameters = sum(parameter.numel() for parameter in origin.encoder.parameters())
    slices = config.batch.slices
    shape_of_product = product_shape(config.batch, config.sequence_length, shape)
    threads = request.threads or runtime.choose_worker_threads(slices, shape_of_product)
    device = runtime.choose_device(config.runtime.device)
    workers = runtime.choose_workers(request.workers, slices, threads, device)
    splits = (data.train, *data.devs, *data.tests)
    runtime.use_threads(threads * workers)
    return tuned.FinetunePlan(
        task=request.task.name,
        out=str(request.run_dir),
        labels=data.labels,
        examples={split.name: len(split.examples) for split in splits},
        bad_rows={split.name: len(split.bad_rows) for split in splits},
        columns=data.train.columns,
        notes=data.notes,
        rows=rows,
        tokens_per_row=round(tokens, 1),
        too_long=len(encoded.truncated),
        steps_per_seed=steps,
        seeds=request.seeds,
        parameters=parameters,
        flops=flops,
        estimated_minutes=round(flops / runtime.estimate_speed() / 60, 1),
        estimated_memory_mb=training_bytes(
            [shape], parameters, config.batch.rows_at_once * max(lengths), workers=workers, slices=slices
        )
        >> 20,
        settings=config.model_dump(mode="json"),
    )


def _read_inputs(request: FinetuneRequest) -> tuple[Pretrained, FinetuneConfig, TaskData]:
    origin = load_pretrained(request.model, request.init_from)
    begun = read_identity(request.run_dir)
    config = resolve_finetune(request.task, origin.encoder.config, request.layers, begun.settings if begun else None)
    data = read_task(request.task, request.data_dir, config.data, config.train_rows, origin.tokenizer)
    return origin, config, data


@dataclass(frozen=True, slots=True)
class _Part:
    """A split that is scored or predicted, and its rows."""

    name: str
    split: Split[Example]
    encoded: EncodedSplit[Feature]


class _FinetuneRun:
    """The examples, encoded once, and the seeds that learn from them one after the other."""

    def __init__(
        self,
        request: FinetuneRequest,
        origin: Pretrained,
        config: FinetuneConfig,
        data: TaskData,
        device: torch.device,
        stop: StopSignal,
    ) -> None:
        self.request, self.origin, self.config, self.data = request, origin, config, data
        # Those that compute steps; threads of Python that predict are as many.
        threads = torch.get_num_threads()
        self.workers = runtime.choose_workers(request.workers, config.batch.slices, threads, device)
        self.run_dir, self.device, self.stop = request.run_dir, device, stop
        self.task, self.kind, self.metric = request.task, request.task.kind, request.task.metrics[0]
        self.splits = [data.train, *data.devs, *data.tests]
        encoder = FeatureEncoder(origin.tokenizer, data.labels, config.sequence_length, config.spans)
        self.train = self.kind.encode(encoder, data.train.examples, is_labelled=True)
        self.rows = self.train.features
        if config.double_pairs:
            swapped = swap_pairs(data.train.examples)
            if not swapped:
                raise UsageError(f"--double-pairs: {self.task.display} has no pairs of texts here; leave it out")
            self.rows = [*self.rows, *self.kind.encode(encoder, swapped, is_labelled=True).features]
        self.steps = count_steps(config, len(self.rows))
        self.epochs = self.steps / count_batches(config, len(self.rows))
        self.parts = {
            split.name: _Part(split.name, split, self.kind.encode(encoder, split.examples, is_labelled=False))
            for split in self.splits[1:]
        }
        self.submitted = [name for name in self.parts if name in self.task.submissions]
        # As many dev examples as are scored along the way, evenly apart.
        self.sample = self.dev = self.parts["dev"]
        all_examples, most = self.dev.split.examples, config.evaluation.rows
        if len(all_examples) > most:
            examples = [all_examples[index * len(all_examples) // most] for index in range(most)]
            encoded = self.kind.encode(encoder, examples, is_labelled=False)
            self.sample = _Part("dev sample", replace(self.dev.split, examples=examples), encoded)
        self.has_pairs = any(feature.segment_ids.any() for feature in self.rows)
        self.copies_segment = origin.has_untrained_segments and self.has_pairs and not config.from_scratch

    def events(self) -> Iterator[Event[TunedResults]]:
        yield from self._announce()
        finished = [int(path.name.removeprefix("seed-")) for path in list_seeds(self.run_dir) if _is_finished(path)]
        first = self.config.seed
        # Those that are there already count too: a summary never forgets one.
        seeds = sorted({*range(first, first + self.request.seeds), *finished})
        is_summarised = (
            set(seeds) <= set(finished)
            and _is_finished(self.run_dir)
            and [seed.seed for seed in TunedResults.read(self.run_dir).seeds] == seeds
        )
        baselines: list[tuned.Baseline] = []
        if self.request.has_baselines and not is_summarised:
            baselines = yield from self._score_baselines()
        for number, seed in enumerate(seeds, start=1):
            if len(seeds) > 1:
                yield Note(f"seed {seed} ({number} of {len(seeds)})", "strong")
            folder = self._seed_dir(seed)
            if not _is_finished(folder):
                yield from self._tune(seed, folder)
            yield Note(f"seed {seed}: dev {format_scores(SeedResults.read(folder).dev)}", "good")
        if not is_summarised:
            yield from self._summarise(seeds, baselines)
        elif len(seeds) > 1:
            # A run that was finished before there were such files has none of what its seeds say together.
            places = {name: self.task.submissions[name] for name in self.submitted}
            best_seed, ensemble = self.run_dir / results.BEST_SEED, self.run_dir / results.ENSEMBLE
            if any((best_seed / file).is_file() and not (ensemble / file).is_file() for file in places.values()):
                outputs = self._predict_together(seeds)
                for name in self.submitted:
                    yield from self._submit(name, {results.ENSEMBLE: self._to_rows(outputs[name])})
        write_tuned_card(self.run_dir)
        yield Result(TunedResults.read(self.run_dir))

    def _announce(self) -> Iterator[Update]:
        """What was read from where; every bad row counted, the first of them named, and all of them in a file."""
        encoded = {"train": self.train, **{name: part.encoded for name, part in self.parts.items()}}
        for split in self.splits:
            columns = ", ".join(f"{part} from {name!r}" for part, name in split.columns.items())
            label = "" if split.is_labelled else ", no labels"
            yield Note(f"{split.name}: {len(split.examples):,} examples{label}" + (f" ({columns})" if columns else ""))
            for text in format_bad_rows(split):
                yield Note(text, "warning")
            if truncated := encoded[split.name].truncated:
                fate = "are cut to fit a row" if self.kind.is_pooled else "go on in another row"
                first = ", ".join(split.examples[index].id for index in truncated[:_SHOWN_LONG])
                more = ", …" if len(truncated) > _SHOWN_LONG else ""
                yield Note(f"         {len(truncated):,} of them are long and {fate} ({first}{more})", "dim")
        notes = [*self.data.notes, *(f"{name}: {note}" for name, part in encoded.items() for note in part.notes)]
        if self.copies_segment:
            notes.append(
                f"{self.request.model}: was pre-trained on rows of one segment, so the segment of a pair's second text "
                "was never trained; it begins as a copy of the first (prepare with --packing pairs to train it)"
            )
        epoch_steps = math.ceil(round(self.config.epochs * count_batches(self.config, len(self.rows)), 6))
        if not self.config.steps and self.steps > epoch_steps:
            notes.append(
                f"few rows: {self.steps:,} steps, about {self.epochs:.0f} epochs, where {self.config.epochs:g} would "
                f"be too short to learn from; --epochs {self.config.epochs:g} for those"
            )
        for text in notes:
            yield Note(text, "warning")
        bad_rows = [
            tuned.BadRowRecord(split=split.name, path=split.path, **asdict(bad))
            for split in self.splits
            for bad in split.bad_rows
        ]
        if bad_rows:
            write_file(self.run_dir / "bad-rows.jsonl", tuned.to_json_lines(bad_rows))

    def _score_baselines(self) -> Generator[Update, None, list[tuned.Baseline]]:
        """Once for a run: they depend on its data alone."""
        is_known = (self.run_dir / tuned.Baselines.FILE).is_file()
        known = tuned.Baselines.read(self.run_dir).baselines if is_known else results.score_baselines(self.data)
        baselines: list[tuned.Baseline] = []
        for baseline in known:
            self.stop.check()
            baselines.append(baseline)
            for name, scores in baseline.scores.items():
                yield Note(f"baseline ({baseline.what}): {name} {format_scores(scores)}", "dim")
        if not is_known:
            tuned.Baselines(baselines=tuple(baselines)).write(self.run_dir)
        return baselines

    def _seed_dir(self, seed: int) -> Path:
        return self.run_dir / f"seed-{seed}"

    def _tune(self, seed: int, folder: Path) -> Iterator[Update]:
        """One seed, from a fresh head to its results."""
        config = self.config
        network = build_network(self.origin, self.data, config, seed, copies_segment=self.copies_segment)
        network = network.to(self.device)
        state = build_state(network, config)

        def score() -> tuned.Scores:
            return self._score(self.sample, self._predict(network, self.sample, work)).scores

        work = self._make_work(network, seed, score)
        pace = LoopConfig(
            self.steps,
            every_n_steps(config.evaluation.times, self.steps),
            log_every=self.request.log_every or every_n_steps(_LOGGED_STEPS, self.steps),
            save_every=self.request.save_every,
            keep=max(self.request.keep, 1),
            most_lines=0 if self.request.log_every else _LINES_PER_SEED,
        )
        rate = lr_schedule(config.schedule, self.steps)
        make_step = partial(work.make_train_step, state, self.workers, self.request.parallel)
        yield from Trainer(folder, state, work, pace, config.optimizer, rate, self.stop, make_step).run()
        # What is saved and scored is the average of the weights, where the settings ask for one.
        with state.optimizer.averaged():
            self._finish(seed, folder, work, state.progress)
        # Only now: until its results are written, a seed goes on from its checkpoints.
        if not self.request.keep:
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)

    def _make_work(self, network: TaskModel, seed: int, score: Callable[[], tuned.Scores] = dict) -> FinetuneTask:
        pad_id, parts = self.origin.tokenizer.special.pad, (self.sample, *self.parts.values())
        heldout = {part.name: part.encoded.features for part in parts}
        return FinetuneTask(
            network, self.kind, self.rows, self.config, seed, pad_id, self.device, score, heldout, self.stop
        )

    def _finish(self, seed: int, folder: Path, work: FinetuneTask, progress: TrainingProgress) -> None:
        """The model, its predictions and scores; the results are written last and say that the seed is finished."""
        outputs = {name: self._predict(work.network, part, work) for name, part in self.parts.items()}
        threshold = self._score(self.dev, outputs["dev"]).best_threshold or 0.0
        # Dev is scored with a threshold that nothing chose, a test with the one that dev chose.
        scored = {
            name: self._score(part, outputs[name], threshold if name.startswith("test") else 0.0)
            for name, part in self.parts.items()
            if part.split.is_labelled
        }
        task_config = TaskModelConfig(
            task=self.task.name,
            num_texts=self.kind.count_texts(self.data.train.examples[0]),
            sequence_length=self.config.sequence_length,
            spans=self.config.spans,
            threshold=threshold,
            has_untrained_segments=self.origin.has_untrained_segments and not self.has_pairs,
        )
        save_model(folder / "model", LoadedTaskModel(work.network, self.origin.tokenizer, task_config))
        for name, part in self.parts.items():
            # As the saved model says it, with its threshold.
            answered = replace(outputs[name], threshold=threshold)
            write_file(folder / "predictions" / f"{name}.jsonl", tuned.to_json_lines(self._to_rows(answered)))
            predictions = self.kind.decode(answered)
            self.kind.write_files(folder / "predictions" / name, self.task, part.split.examples, predictions)
        SeedResults(
            seed=seed,
            **asdict(progress),
            scores={name: split.scores for name, split in scored.items()},
            report=scored["dev"].report,
            reports={name: split.report for name, split in scored.items()},
        ).write(folder)

    def _predict(self, network: TaskModel, part: _Part, work: FinetuneTask | None = None) -> Outputs:
        """With the network that ranks train, by all of them."""
        pad_id, size = self.origin.tokenizer.special.pad, self.config.evaluation.batch_tokens
        features = part.encoded.features
        if work is not None and work.evaluate_parts is not None:
            by_number = work.evaluate_parts(part.name)
            rows = [by_number[number] for number in range(len(features))]
        else:
            rows = predict_logits(network, features, pad_id, size, self.stop, self.workers)
        return NetworkOutputs(network.head_config, part.split.examples, features, rows, self.config.spans)

    def _score(self, part: _Part, outputs: Outputs, threshold: float = 0.0) -> SplitScores:
        predictions = self.kind.decode(replace(outputs, threshold=threshold))
        return self.kind.score(self.task, part.split.examples, predictions, self.data.labels)

    def _to_rows(self, outputs: Outputs) -> list[tuned.PredictionRow]:
        return [self.kind.to_row(*pair) for pair in zip(outputs.examples, self.kind.decode(outputs), strict=True)]

    def _predict_together(self, seeds: Sequence[int]) -> dict[str, Outputs]:
        """The mean of what the seeds say of dev, and of every split that GLUE's server has a place for."""
        by_split: dict[str, list[Outputs]] = {name: [] for name in ("dev", *self.submitted)}
        for seed in seeds:  # one network in memory at a time
            network = load_model(self._seed_dir(seed)).network.to(self.device)
            work = self._make_work(network, seed)
            if runtime.find_rank()[1] > 1:  # the others get its weights as they get those of a training
                work.make_train_step(build_state(network, self.config), self.workers, self.request.parallel)
            for name, by_seed in by_split.items():
                by_seed.append(self._predict(network, self.parts[name], work))
        are_classes = bool(self.data.labels)
        return {
            name: replace(
                by_seed[-1], rows=average_logits([outputs.rows for outputs in by_seed], are_classes=are_classes)
            )
            for name, by_seed in by_split.items()
        }

    def _summarise(self, seeds: Sequence[int], baselines: Sequence[tuned.Baseline]) -> Iterator[Update]:
        """All seeds side by side, the best one as the run's model, and what they say together."""
        by_seed = [SeedResults.read(self._seed_dir(seed)) for seed in seeds]
        # Of equals the one that ran first.
        best = max(by_seed, key=lambda result: result.dev[self.metric])
        best_dir = self._seed_dir(best.seed)
        ensemble = self._predict_together(seeds) if len(seeds) > 1 else {}
        copy_model(best_dir / "model", self.run_dir / "export" / "model")
        for name in self.submitted:
            rows = {results.BEST_SEED: list(tuned.read_rows(best_dir / "predictions" / f"{name}.jsonl"))}
            if ensemble:
                rows[results.ENSEMBLE] = self._to_rows(ensemble[name])
            yield from self._submit(name, rows)
        # By split, the scores of each seed. GLUE's diagnostic rows come last: they are no split of MNLI's.
        labelled = [name for name, part in self.parts.items() if part.split.is_labelled]
        scores = {name: [result.scores[name] for result in by_seed] for name in labelled}
        if self.task.name == "mnli":
            diagnosed = yield from results.run_diagnostics(self.run_dir, self.request.data_dir, seeds, self.stop)
            scores |= {results.AX: [diagnosed[seed] for seed in seeds]} if diagnosed else {}
        spreads = {name: results.spread_scores(split) for name, split in scores.items()}
        losses, curves = results.read_curves({seed: self._seed_dir(seed) for seed in seeds}, self.metric)
        title = f"{self.task.display}, {self.metric}"
        plot_learning_curve(self.run_dir, title, self.metric, losses, curves)
        improvement = results.find_improvement(losses, curves, self.steps, self.epochs)
        split_name = tuned.choose_split(labelled)
        score = spreads[split_name][self.metric].median
        notes = [results.compare_baselines(self.metric, split_name, score, baselines)]
        if improvement:
            notes.append(results.explain_improvement(improvement, self.metric))
        if self.request.has_baselines and not baselines:
            notes.append(f"no baseline: nothing simple does {self.task.display}")
        summary = TunedResults(
            task=self.task.name,
            metric=self.metric,
            scores={name: {metric: spread.median for metric, spread in each.items()} for name, each in spreads.items()},
            spread=spreads,
            best_seed=best.seed,
            report=best.report,
            # A seed that was finished before there were others has that of dev alone.
            reports=best.reports or {"dev": best.report},
            seeds=tuple(
                tuned.SeedScores(seed=seed, scores={name: split[index] for name, split in scores.items()})
                for index, seed in enumerate(seeds)
            ),
            steps=best.step,
            tokens_per_seed=best.tokens,
            seconds=sum(result.seconds for result in by_seed),
            data={
                split.name: tuned.SplitSummary(
                    path=split.path,
                    examples=len(split.examples),
                    bad_rows=len(split.bad_rows),
                    columns=split.columns,
                )
                for split in self.splits
            },
            notes=tuple(filter(None, notes)),
            improvement=improvement,
        )
        # What is not given is not written: no key says that nobody asked.
        if self.request.has_baselines:
            named = {baseline.name: baseline for baseline in baselines}
            summary = summary.model_copy(update={"baselines": named})
        if ensemble:
            together = self._score(self.dev, ensemble["dev"]).scores
            summary = summary.model_copy(update={"ensemble": together})
        summary.write(self.run_dir)

    def _submit(self, name: str, by_folder: Mapping[str, Sequence[tuned.PredictionRow]]) -> Iterator[Update]:
        """A file in each folder. A test with a bad row cannot be submitted; that must not cost the run its results."""
        try:
            results.require_whole(self.parts[name].split)
            for folder, rows in by_folder.items():
                results.write_submission(self.run_dir / folder / self.task.submissions[name], self.task, rows)
        except InputError as error:
            yield warn(str(error))


def _is_finished(folder: Path) -> bool:
    """The results of a seed, or a run, are written last."""
    return (folder / SeedResults.FILE).is_file()
