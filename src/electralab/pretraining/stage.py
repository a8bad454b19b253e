"""The stage: prepared data -> run folder; the caller only draws what is yielded.

PretrainRequest -> Event...; `--dry-run`: PretrainRequest -> PretrainPlan
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from electralab import runtime
from electralab.artifacts import MANIFEST, lock_folder, new_folder, sha256_file, write_file
from electralab.config import to_toml
from electralab.errors import DamagedArtifact, UsageError
from electralab.events import Event, Note, Progress, Result, warn
from electralab.model.folders.folder import locate_model, save_network
from electralab.objective.metrics import Row
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.objective.settings import PAIRS
from electralab.pretraining import warm_start
from electralab.pretraining.balance import advise, describe_usefulness, drop_numbers
from electralab.pretraining.cost import count_steps, estimate_memory
from electralab.pretraining.curves import find_curve
from electralab.pretraining.settings import PretrainConfig, complete_settings
from electralab.pretraining.task import PretrainTask, build_state, make_train_step, mean_step_flops, measure_baselines
from electralab.records import run as records
from electralab.records.logs import LOG, LogTemplates
from electralab.records.series import SeriesSymbols
from electralab.reporting.cards import write_run_card
from electralab.reporting.page import with_page
from electralab.stopping import StopSignal
from electralab.tokens.shards import PreparedData, open_data
from electralab.training.checkpoint import TrainingState, checkpoint_step, list_checkpoints
from electralab.training.fingerprints import check_resumable
from electralab.training.group import Parallel
from electralab.training.ranks import check_ranks, share_run
from electralab.training.schedule import StepPlan
from electralab.training.time_budget import Clock, TimeBudget
from electralab.training.trainer import SNAPSHOT, TRAINING, LoopConfig, Trainer, every_n_steps

# Guesses of what a checkpoint costs before the first is written: a weight with two moments, to an ordinary disk.
_STATE_BYTES = 12
_BYTES_PER_SECOND = 2e8


@dataclass(frozen=True, slots=True)
class PretrainRequest:
    data_dir: Path
    run_dir: Path
    config: PretrainConfig
    budget: records.Budget
    init_from: Path | None = None
    threads: int = 0
    """Of each worker, inside its operations. 0 means: as the run had; a new one 1 where steps are cut into slices,
    unless there are more cores than slices and large products, and all cores where they are not cut."""
    save_every: int = 0
    log_every: int = 0
    keep: int = 1
    extend: bool = False
    allow_inexact: bool = False
    snapshots: tuple[float, ...] = ()
    """Fractions of the run after which its networks are exported too; no part of what the run is."""
    init_generator: Path | None = None
    """Where the generator starts from, if not from `init_from`."""
    match_tokens: bool = False
    """Start with the tokens that the origin and the data both have, where their tokenizers differ."""
    branch_from: Path | None = None
    """The checkpoint of another run that this one goes on from."""
    preset: str = ""
    """The preset that the settings came from, for whoever resumes."""
    notes: tuple[str, ...] = ()
    """What to say about the settings."""
    min_steps: int = 0
    """Of a run by the clock: fewer would be useless, however long they take. No part of what the run is."""
    workers: int = 0
    """Processes that compute the slices of a step; 0 means a worker for each core. No part of what the run is."""
    parallel: Parallel = "ddp"
    """What each rank has of the networks, where there are several. No part of what the run is."""
    sharded_checkpoints: bool = False
    """Each rank writes its share of the optimizer's state. No part of what the run is."""

    def choose_threads(self, stored: records.RunFingerprint | None, data: PreparedData) -> int:
        before = 0 if stored is None else stored.threads
        return self.threads or before or runtime.choose_worker_threads(self.config.batch.slices, self.product(data))

    def product(self, data: PreparedData) -> tuple[int, int, int]:
        """The shape of a large product of a step: rows, inputs, outputs."""
        model = self.config.model
        return self.config.batch.rows_at_once * data.sequence_length, model.hidden_size, model.feedforward_size


def pretrain(
    request: PretrainRequest, stop: StopSignal, clock: Clock = time.perf_counter
) -> Iterator[Event[records.PretrainResults]]:
    """Run until the budget is spent. The same request again goes on where the last one stopped, bit for bit.

    Started by torchrun, the first rank is the run, and the others only compute for it.
    """
    check_ranks(request.config.batch.slices, request.parallel)
    events = with_page(request.run_dir, _train(request, stop, clock), advise)
    yield from share_run(events, stop, runtime.choose_device(request.config.runtime.device))


def _train(request: PretrainRequest, stop: StopSignal, clock: Clock) -> Iterator[Event[records.PretrainResults]]:
    data = open_data(request.data_dir)
    run_dir, config = request.run_dir, request.config
    _check_run_folder(run_dir)
    with lock_folder(run_dir):
        stored, stored_log = _find_stored(run_dir)
        threads = request.choose_threads(stored, data)
        device = runtime.choose_device(config.runtime.device)
        runtime.use_exact_arithmetic(threads, device)
        is_asked_to_choose = config.runtime.precision == "auto"
        request = _settle_precision(request, data, stored)
        config = request.config
        if is_asked_to_choose:
            yield Note(f"computing in {config.runtime.precision}, the faster on this machine", "dim")
        # What cannot be built is refused before anything is written.
        objective = build_objective(config, data, config.seed, device)
        workers = runtime.choose_workers(request.workers, config.batch.slices, threads, device)
        begun = _find_begun(request, stored, stored_log)
        steps = partial(_count_steps, request, data, objective, begun, lambda: workers * runtime.estimate_speed())
        fingerprint = _make_fingerprint(request, data, stored, threads, steps)
        total_steps = fingerprint.total_steps
        log = _choose_lengths(request, stored, stored_log, begun, total_steps)
        plan = StepPlan.whole(total_steps) if log is None else StepPlan(log.lengths)
        state = build_state(objective, config)
        start_notes = _start_networks(request, objective, data)
        task = PretrainTask(objective, data, config, plan, device, workers)
        if request.init_from is None and request.branch_from is None:
            task.reference = find_curve(fingerprint.preset, config)
        planned_steps = plan.lengths[-1].planned_steps
        loop = LoopConfig(
            planned_steps,
            every_n_steps(config.evaluation.times, planned_steps),
            log_every=request.log_every,
            save_every=request.save_every,
            keep=request.keep,
            snapshot_steps=frozenset(records.snapshot_step(share, planned_steps) for share in request.snapshots),
        )
        time_budget = None
        if log is not None and log.minutes:
            time_budget = _make_time_budget(request, log, fingerprint, task, loop, clock)

        make_step = partial(
            make_train_step, state, task, request.workers, request.parallel, request.sharded_checkpoints
        )
        trainer = Trainer(
            run_dir, state, task, loop, config.optimizer, task.lr_factor, stop, make_step, plan, time_budget
        )
        has_pairs = data.packing == "pairs" or config.sentence_task != "none"
        has_untrained_segments = not has_pairs and warm_start.is_without_second_segment(request.init_from)
        run = _RunWriter(run_dir, data, objective, state, task, has_untrained_segments)

        _write_run(request, threads, stored, fingerprint, stored_log, log)
        yield from map(warn, request.notes)
        if stored is not None and stored.total_steps != total_steps:
            yield warn(
                f"extended from {stored.total_steps} to {total_steps} steps: the schedule "
                f"({config.schedule.kind}) is now that of the longer run, so the learning rate may rise again"
            )
        if not len(data.heldout):
            yield warn(f"{data.path}: has no held-out rows, so scores are of rows that training sees")
        yield from map(warn, start_notes)

        yield from trainer.restore()
        # What was warned of before the step at which the run goes on is not said again.
        last = state.progress.step - (1 if state.pending else 0)
        logged = [record for record in records.read_metrics(run_dir / records.METRICS) if record.step <= last]
        task.warned = {drop_numbers(text) for record in logged for text in record.warnings}
        for event in trainer.train():
            if isinstance(event, Progress) and event.phase == SNAPSHOT:
                folder = run.take_snapshot()
                yield Progress(TRAINING, state.progress.step, plan.total_steps, line=f"saved {folder}")
                continue
            if isinstance(event, Progress):
                told = event.values.get("warnings")
                task.warned.update(map(drop_numbers, told if isinstance(told, list) else ()))
                if any(name.startswith("heldout_") for name in event.values):
                    run.write_examples(task.examples)
            yield event

        results = records.PretrainResults.find(run_dir) if (run_dir / "export").is_dir() else None
        if results is None or results.step != plan.total_steps:  # done again only where it was not finished
            yield Note("exporting the networks and scoring them on held-out rows", "dim")
            with state.optimizer.averaged():
                results = run.finish(start_notes)
            if time_budget is not None:
                time_budget.keep()
                minutes = f"{time_budget.used / 60:.1f} of {time_budget.log.minutes:g} minutes"
                yield Note(f"{results.step:,} steps and the export took {minutes}", "dim")
        write_run_card(run_dir)
        yield Result(results)


def _make_time_budget(
    request: PretrainRequest,
    log: records.LengthLog,
    fingerprint: records.RunFingerprint,
    task: PretrainTask,
    loop: LoopConfig,
    clock: Clock,
) -> TimeBudget:
    config = request.config
    parameters = sum(parameter.numel() for parameter in task.objective.networks.parameters())
    return TimeBudget(
        request.run_dir,
        log,
        fingerprint,
        task,
        evaluate_every=loop.evaluate_every,
        save_every=loop.save_every,
        evaluation_steps=config.evaluation.rows / config.batch.mean_rows / 3,
        save_seconds=parameters * _STATE_BYTES / _BYTES_PER_SECOND,
        min_steps=request.min_steps,
        clock=clock,
    )


def _write_run(
    request: PretrainRequest,
    threads: int,
    stored: records.RunFingerprint | None,
    fingerprint: records.RunFingerprint,
    stored_log: records.LengthLog | None,
    log: records.LengthLog | None,
) -> None:
    """What the run is, before its first step."""
    run_dir = request.run_dir
    if stored is None:
        write_file(run_dir / "config.toml", to_toml(request.config))
    runtime.describe_environment(threads, data=str(request.data_dir)).write(run_dir)
    # First: a run of minutes without it is one of an older version, which has a fixed length.
    if log is not None and log is not stored_log:
        log.write(run_dir)
    if stored != fingerprint:
        fingerprint.write(run_dir)
    if request.branch_from is not None:
        warm_start.begin_branch(run_dir, warm_start.find_branch_point(request.branch_from))


@dataclass(frozen=True, slots=True)
class _RunWriter:
    """What is written into a run folder beside checkpoints and metrics."""

    run_dir: Path
    data: PreparedData
    objective: Objective[Any]
    state: TrainingState
    task: PretrainTask
    has_untrained_segments: bool

    def export(self, export_dir: Path) -> None:
        """Each network with its heads and the tokenizer, as a Hugging Face folder where one fits."""
        tokenizer = self.data.tokenizer
        if symbols := SeriesSymbols.find(self.data.path):
            symbols.write(export_dir)  # without it nobody could read a series with the model
        for role, network in self.objective.exports().items():
            has_segments = network.config.backbone == "electra"
            with new_folder(export_dir / role, kind="model") as folder:
                save_network(
                    folder,
                    network,
                    pad_id=tokenizer.special.pad,
                    cls_id=tokenizer.special.cls,
                    sep_id=tokenizer.special.sep,
                    objective=self.task.config.objective,
                    has_untrained_segments=self.has_untrained_segments and has_segments,
                )
                tokenizer.save(folder, max_length=network.config.sequence_length, has_segments=has_segments)
        # A model of a log reads new lines by the templates of those that it has learned from.
        if (templates := LogTemplates.find(self.data.path / LOG)) is not None:
            with new_folder(export_dir / LOG, kind="log") as folder:
                templates.write(folder)

    def take_snapshot(self) -> Path:
        progress = self.state.progress
        folder = records.snapshot_folder(self.run_dir, progress.step)
        with self.state.optimizer.averaged():
            self.export(folder)
        records.Snapshot(**progress.to_record().model_dump()).write(folder)
        return folder

    def write_examples(self, rows: list[Row]) -> None:
        if rows:  # none of an objective that masks nothing
            examples = [records.ExampleRow.model_validate(row) for row in rows]
            objective, step = self.task.config.objective, self.state.progress.step
            records.RunExamples(objective=objective, step=step, rows=examples).write(self.run_dir)

    def finish(self, start_notes: list[str]) -> records.PretrainResults:
        """Export the networks and write down how they do."""
        self.export(self.run_dir / "export")
        self.write_examples(self.task.heldout_examples())
        scores = self.task.evaluate_heldout()
        baselines = measure_baselines(self.data, self.objective, self.task.heldout(), scores)
        progress = self.state.progress
        usefulness = describe_usefulness(scores, baselines, steps=progress.step, tokens=progress.tokens)
        # All that the run was warned of, in order; step 0 is its start.
        warnings = [records.RunWarning(step=0, text=note) for note in start_notes]
        for record in records.read_metrics(self.run_dir / records.METRICS):
            warnings += [records.RunWarning(step=record.step, text=text) for text in record.warnings]
        snapshots = records.Snapshot.read_all(self.run_dir)
        # What is not given is not written: a run without a verdict or snapshots has no such key.
        results = records.PretrainResults(
            objective=self.task.config.objective,
            **progress.to_record().model_dump(),
            heldout=scores,
            baselines=baselines,
            **({} if usefulness is None else {"verdict": usefulness}),
            warnings=warnings,
            **({"snapshots": snapshots} if snapshots else {}),
        )
        results.write(self.run_dir)
        return results


def plan_pretrain(request: PretrainRequest) -> records.PretrainPlan:
    """What a run would be, take and need, without starting it; what the run would refuse is refused."""
    data = open_data(request.data_dir)
    _check_run_folder(request.run_dir)
    stored, log = _find_stored(request.run_dir)
    threads, slices = request.choose_threads(stored, data), request.config.batch.slices
    device = runtime.choose_device(request.config.runtime.device)
    workers = runtime.choose_workers(request.workers, slices, threads, device)
    runtime.use_threads(threads * workers)  # as many cores as the run will have
    request = _settle_precision(request, data, stored)
    config = request.config
    objective = build_objective(config, data, config.seed, device)
    flops = mean_step_flops(objective, config, data)
    flops_per_second = runtime.estimate_speed()
    begun = _find_begun(request, stored, log)
    count = partial(_count_steps, request, data, objective, begun, lambda: flops_per_second)
    steps = _make_fingerprint(request, data, stored, threads, count).total_steps
    notes = [*request.notes, *_start_networks(request, objective, data)]
    latest = list_checkpoints(request.run_dir / records.CHECKPOINTS)
    rows = round(steps * config.batch.mean_rows)
    reference = find_curve(request.preset, config)
    expected = {}
    if reference is not None and request.init_from is None and request.branch_from is None:
        preset, curve = reference
        expected = {"expected": curve.describe(preset, rows * data.sequence_length)}
    return records.PretrainPlan(
        settings=config.model_dump(mode="json"),
        steps=steps,
        resumes_at=checkpoint_step(latest[0]) + 1 if latest else 1,
        rows=len(data.train),
        epochs=round(rows / len(data.train), 2),
        tokens=rows * data.sequence_length,
        parameters=sum(parameter.numel() for parameter in objective.networks.parameters()),
        flops=round(steps * flops),
        estimated_minutes=round(steps * flops / flops_per_second / 60, 1),
        estimated_memory_mb=estimate_memory(objective, config, data.sequence_length, workers) >> 20,
        **expected,
        notes=notes,
    )


def _settle_precision(
    request: PretrainRequest, data: PreparedData, stored: records.RunFingerprint | None
) -> PretrainRequest:
    """With a precision in place of auto. Chosen once, it is a setting like any other, and a resumed run keeps it."""
    begun = None if stored is None else stored.settings
    settled = request.config.runtime.settle(begun, request.product(data))
    return replace(request, config=request.config.model_copy(update={"runtime": settled}))


@dataclass(frozen=True, slots=True)
class _Begun:
    """Where a run is when it begins in this process."""

    step: int
    seconds: float


def _find_stored(run_dir: Path) -> tuple[records.RunFingerprint | None, records.LengthLog | None]:
    """What a run is, and how long by the clock; of the second only what belongs to the first."""
    stored = records.RunFingerprint.find(run_dir)
    log = None if stored is None else records.LengthLog.find(run_dir)
    if stored is not None and log is not None:  # a decision is in the log first
        stored = stored.model_copy(update={"total_steps": log.lengths[-1].total_steps})
    return stored, log


def _find_begun(
    request: PretrainRequest, stored: records.RunFingerprint | None, log: records.LengthLog | None
) -> _Begun:
    if stored is None:
        branch = None if request.branch_from is None else warm_start.find_branch_point(request.branch_from)
        return _Begun(0 if branch is None else records.CheckpointState.read(branch).progress.step, 0.0)
    checkpoints = list_checkpoints(request.run_dir / records.CHECKPOINTS)
    if not checkpoints:
        return _Begun(0, 0.0)
    progress = records.CheckpointState.read(checkpoints[0]).progress
    return _Begun(progress.step, progress.seconds if log is None else log.seconds)


def _count_steps(
    request: PretrainRequest,
    data: PreparedData,
    objective: Objective[Any],
    begun: _Begun,
    measure_speed: Callable[[], float],
) -> int:
    """How many steps the budget buys. Of minutes a first guess, from which a run soon departs."""
    budget, config = request.budget, request.config
    if budget.kind != "minutes":
        return count_steps(budget, config, data, objective)
    seconds_left = 60 * budget.amount - begun.seconds
    if begun.step and begun.seconds:
        seconds_per_step = begun.seconds / begun.step
    else:
        seconds_per_step = mean_step_flops(objective, config, data) / measure_speed()
    return max(begun.step + math.ceil(seconds_left / seconds_per_step), request.min_steps, 1)


def _choose_lengths(
    request: PretrainRequest,
    stored: records.RunFingerprint | None,
    log: records.LengthLog | None,
    begun: _Begun,
    total_steps: int,
) -> records.LengthLog | None:
    """Of a run by the clock, and of one that was: all that was decided, and where another budget begins, a run of so
    many steps, of which the first ones are done."""
    if stored is not None and stored.budget == request.budget:
        return log
    minutes = request.budget.amount if request.budget.kind == "minutes" else 0.0
    if log is None and not minutes:
        return None
    known = [] if stored is None else [records.RunLength.whole(stored.total_steps)] if log is None else log.lengths
    lengths = [length for length in known if length.step < begun.step]
    before = StepPlan(lengths or [records.RunLength.whole(total_steps)]).length_at(begun.step + 1)
    length = records.RunLength(
        step=begun.step,
        position=float(begun.step),
        planned_steps=total_steps,
        total_steps=total_steps,
        rows=request.config.batch.rows_before(begun.step + 1, before),
    )
    return records.LengthLog(minutes=minutes, seconds=begun.seconds, lengths=[*lengths, length])


def primary_network(objective: str) -> str:
    """The folder of the network that a run is made for."""
    return "discriminator" if objective in PAIRS else "model"


def _check_run_folder(run_dir: Path) -> None:
    if (run_dir / MANIFEST).exists() or (run_dir / "config.json").exists():
        raise UsageError(f"{run_dir}: holds data or a model, not a run; choose another --out")
    if list_checkpoints(run_dir / records.CHECKPOINTS) and not (run_dir / records.RunFingerprint.FILE).exists():
        raise DamagedArtifact(f"{run_dir}: has checkpoints but no run.json; restore it or choose another --out")


def _make_fingerprint(
    request: PretrainRequest,
    data: PreparedData,
    stored: records.RunFingerprint | None,
    threads: int,
    count: Callable[[], int],
) -> records.RunFingerprint:
    """What this run is; another run's command is refused."""
    if request.branch_from is not None and request.init_from is not None:
        raise UsageError("--branch-from: takes over all weights, so --init-from would do nothing; give one of them")
    branch = None if request.branch_from is None else warm_start.find_branch_point(request.branch_from)
    if branch is None:
        start = warm_start.fingerprint_start(request.init_from, request.init_generator)
    else:  # what it is, not where it lies: the hash of its manifest, which has those of its files
        start = f"branch {sha256_file(branch / MANIFEST)}"
    frozen = request.config.generator.path
    fingerprint = records.RunFingerprint(
        data=data.identity,
        init_from=start,
        # The steps of the settings are a budget like any other, and a budget may be extended.
        settings=request.config.model_dump(mode="json", exclude={"steps"}),
        budget=request.budget,
        total_steps=stored.total_steps if stored is not None and stored.budget == request.budget else count(),
        threads=threads,
        generator=warm_start.fingerprint_start(locate_model(Path(frozen), "generator")) if frozen else "",
        preset=stored.preset if stored is not None and stored.preset else request.preset,
    )
    if branch is not None:
        warm_start.check_branch(branch, data, fingerprint.total_steps)
    if stored is not None:
        # What a setting was before there was such a setting is its default.
        completed = stored.model_copy(update={"settings": complete_settings(stored.settings)})
        extend, allow_inexact = request.extend, request.allow_inexact
        check_resumable(request.run_dir, completed, fingerprint, extend=extend, allow_inexact=allow_inexact)
    return fingerprint


def _start_networks(request: PretrainRequest, objective: Objective[Any], data: PreparedData) -> list[str]:
    """The weights that new training was asked to start from, if any; returned is what to say about them."""
    if request.init_from is not None:
        generator, by_text = request.init_generator, request.match_tokens
        return warm_start.load_pretrained(request.init_from, objective, data, generator=generator, by_text=by_text)
    flags = {"--init-generator": request.init_generator is not None, "--match-tokens": request.match_tokens}
    for flag, is_given in flags.items():
        if is_given:
            raise UsageError(f"{flag}: goes with --init-from, the model to start from; give that too")
    return []
