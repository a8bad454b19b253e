"""The stage: prepared data -> run folder; the caller only draws what is yielded.

PretrainRequest -> Event...; `--dry-run`: PretrainRequest -> PretrainPlan
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from electralab.artifacts import MANIFEST, lock_folder, new_folder, write_file
from electralab.config import to_toml
from electralab.errors import DamagedArtifact, UsageError
from electralab.events import Event, Note, Progress, Result, Update, warn
from electralab.model.folders.folder import locate_model, save_network
from electralab.objective.metrics import Row
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.objective.settings import PAIRS
from electralab.pretraining.balance import advise, describe_usefulness, drop_numbers
from electralab.pretraining.cost import count_steps, estimate_memory
from electralab.pretraining.settings import PretrainConfig, complete_settings
from electralab.pretraining.task import PretrainTask, build_state, make_train_step, mean_step_flops, measure_baselines
from electralab.pretraining.warm_start import (
    begin_branch,
    check_branch,
    fingerprint_branch,
    fingerprint_start,
    is_without_second_segment,
    load_pretrained,
)
from electralab.records.run import (
    CHECKPOINTS,
    METRICS,
    Budget,
    Environment,
    ExampleRow,
    PretrainPlan,
    PretrainResults,
    RunExamples,
    RunFingerprint,
    RunWarning,
    Snapshot,
    read_metrics,
    snapshot_folder,
    snapshot_step,
)
from electralab.reporting.cards import write_run_card
from electralab.reporting.page import with_page
from electralab.runtime import (
    choose_device,
    default_threads,
    describe_environment,
    estimate_speed,
    use_exact_arithmetic,
    use_threads,
)
from electralab.stopping import StopSignal
from electralab.tokens.shards import PreparedData, open_data
from electralab.training.checkpoint import checkpoint_step, list_checkpoints
from electralab.training.fingerprints import check_resumable
from electralab.training.trainer import SNAPSHOT, TRAINING, LoopConfig, Trainer, every_n_steps


@dataclass(frozen=True, slots=True)
class PretrainRequest:
    data_dir: Path
    run_dir: Path
    config: PretrainConfig
    budget: Budget
    init_from: Path | None
    threads: int
    """Of each worker, inside its operations. 0 means: as the run had; else 1 where steps are cut into slices, and as
    many as there are cores where they are not."""
    save_every: int
    log_every: int
    keep: int
    extend: bool
    allow_inexact: bool
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
    workers: int = 0
    """Processes that compute the slices of a step; 0 means a worker for each core. No part of what the run is."""

    def choose_threads(self, stored: RunFingerprint | None) -> int:
        before = 0 if stored is None else stored.threads
        return self.threads or before or (1 if self.config.batch.slices > 1 else default_threads())


def pretrain(request: PretrainRequest, stop: StopSignal) -> Iterator[Event[PretrainResults]]:
    """Run until the budget is spent. The same request again goes on where the last one stopped, bit for bit."""
    yield from with_page(request.run_dir, _train(request, stop), advise)


def _train(request: PretrainRequest, stop: StopSignal) -> Iterator[Event[PretrainResults]]:
    data = open_data(request.data_dir)
    run_dir, config = request.run_dir, request.config
    _check_run_folder(run_dir)
    with lock_folder(run_dir):
        stored = read_fingerprint(run_dir)
        threads = request.choose_threads(stored)
        device = choose_device(config.runtime.device)
        use_exact_arithmetic(threads, device)
        if request.budget.kind == "minutes" and (stored is None or stored.budget != request.budget):
            minutes = f"{request.budget.amount:g} minutes"
            yield Note(f"measuring the speed, to know how many steps {minutes} are", "dim")
        fingerprint = make_fingerprint(
            request,
            data,
            stored,
            threads,
            lambda: count_steps(request.budget, config, data, device, stop, request.workers),
        )
        run = _Run(
            request, data, fingerprint, device, stop
        )  # what cannot be built is refused before anything is written
        if stored is None:
            write_file(run_dir / "config.toml", to_toml(config))
        Environment(**describe_environment(threads), data=str(request.data_dir)).write(run_dir)
        if stored != fingerprint:
            fingerprint.write(run_dir)
        if request.branch_from is not None:
            begin_branch(run_dir, request.branch_from)
        yield from map(warn, request.notes)
        if stored is not None and stored.total_steps != fingerprint.total_steps:
            yield warn(
                f"extended from {stored.total_steps} to {fingerprint.total_steps} steps: the schedule "
                f"({config.schedule.kind}) is now that of the longer run, so the learning rate may rise again"
            )
        yield from run.events()


def plan_pretrain(request: PretrainRequest) -> PretrainPlan:
    """What a run would be, take and need, without starting it; what the run would refuse is refused."""
    data = open_data(request.data_dir)
    _check_run_folder(request.run_dir)
    config = request.config
    stored = read_fingerprint(request.run_dir)
    threads = request.choose_threads(stored)
    use_threads(threads)
    device = choose_device(config.runtime.device)
    objective = build_objective(config, data, config.seed, device)
    flops = mean_step_flops(objective, config, data)
    seconds_per_step = flops / estimate_speed()

    def estimate_steps() -> int:
        """Of minutes without the run's own probe; whether they are too few to extend a run, only that can tell."""
        if request.budget.kind != "minutes":
            return count_steps(request.budget, config, data, device, StopSignal())
        least = stored.total_steps if stored and request.extend else 1
        return max(least, int(request.budget.amount * 60 / seconds_per_step))

    steps = make_fingerprint(request, data, stored, threads, estimate_steps).total_steps
    notes = [*request.notes, *_start_networks(request, objective, data)]
    latest = list_checkpoints(request.run_dir / CHECKPOINTS)
    rows = round(steps * config.batch.mean_rows)
    return PretrainPlan(
        settings=config.model_dump(mode="json"),
        steps=steps,
        resumes_at=checkpoint_step(latest[0]) + 1 if latest else 1,
        rows=len(data.train),
        epochs=round(rows / len(data.train), 2),
        tokens=rows * data.sequence_length,
        parameters=sum(parameter.numel() for parameter in objective.networks.parameters()),
        flops=round(steps * flops),
        estimated_minutes=round(steps * seconds_per_step / 60, 1),
        estimated_memory_mb=estimate_memory(objective, config, data.sequence_length) >> 20,
        notes=notes,
    )


def primary_network(objective: str) -> str:
    """The folder of the network that a run is made for."""
    return "discriminator" if objective in PAIRS else "model"


def read_fingerprint(run_dir: Path) -> RunFingerprint | None:
    """What the run in a folder is; None where none was begun."""
    return RunFingerprint.read(run_dir) if (run_dir / RunFingerprint.FILE).exists() else None


def _check_run_folder(run_dir: Path) -> None:
    if (run_dir / MANIFEST).exists() or (run_dir / "config.json").exists():
        raise UsageError(f"{run_dir}: holds data or a model, not a run; choose another --out")
    if list_checkpoints(run_dir / CHECKPOINTS) and not (run_dir / RunFingerprint.FILE).exists():
        raise DamagedArtifact(f"{run_dir}: has checkpoints but no run.json; restore it or choose another --out")


def make_fingerprint(
    request: PretrainRequest,
    data: PreparedData,
    stored: RunFingerprint | None,
    threads: int,
    count: Callable[[], int],
) -> RunFingerprint:
    """What this run is; another run's command is refused. Minutes are turned into steps once, before step 1: a stored
    answer is never probed again."""
    if request.branch_from is None:
        start = fingerprint_start(request.init_from, request.init_generator)
    elif request.init_from is not None:
        raise UsageError("--branch-from: takes over all weights, so --init-from would do nothing; give one of them")
    else:
        start = fingerprint_branch(request.branch_from)
    total_steps = stored.total_steps if stored is not None and stored.budget == request.budget else count()
    frozen = request.config.generator.path
    fingerprint = RunFingerprint(
        data=data.identity,
        init_from=start,
        # The steps of the settings are a budget like any other, and a budget may be extended.
        settings=request.config.model_dump(mode="json", exclude={"steps"}),
        budget=request.budget,
        total_steps=total_steps,
        threads=threads,
        generator=fingerprint_start(locate_model(Path(frozen), "generator")) if frozen else "",
        preset=stored.preset if stored is not None and stored.preset else request.preset,
    )
    if request.branch_from is not None:
        check_branch(request.branch_from, data, total_steps)
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
        return load_pretrained(request.init_from, objective, data, generator=generator, by_text=by_text)
    flags = {"--init-generator": request.init_generator is not None, "--match-tokens": request.match_tokens}
    for flag, is_given in flags.items():
        if is_given:
            raise UsageError(f"{flag}: goes with --init-from, the model to start from; give that too")
    return []


class _Run:
    """What the events of a run need at hand."""

    def __init__(
        self,
        request: PretrainRequest,
        data: PreparedData,
        fingerprint: RunFingerprint,
        device: torch.device,
        stop: StopSignal,
    ) -> None:
        config, total_steps = request.config, fingerprint.total_steps
        self.run_dir = request.run_dir
        self.data = data
        self.objective = build_objective(config, data, config.seed, device)
        self.state = build_state(self.objective, config)
        self.start_notes = _start_networks(request, self.objective, data)
        has_pairs = data.packing == "pairs" or config.sentence_task != "none"
        self.has_untrained_segments = not has_pairs and is_without_second_segment(request.init_from)
        self.task = PretrainTask(self.objective, data, config, total_steps, device)
        loop = LoopConfig(
            total_steps,
            every_n_steps(config.evaluation.times, total_steps),
            log_every=request.log_every,
            save_every=request.save_every,
            keep=request.keep,
            snapshot_steps=frozenset(snapshot_step(fraction, total_steps) for fraction in request.snapshots),
        )
        self.trainer = Trainer(
            request.run_dir,
            self.state,
            self.task,
            loop,
            config.optimizer,
            self.task.lr_factor,
            stop,
            lambda: make_train_step(self.state, self.task, request.workers),
        )

    def events(self) -> Iterator[Event[PretrainResults]]:
        if not len(self.data.heldout):
            yield warn(f"{self.data.path}: has no held-out rows, so scores are of rows that training sees")
        yield from map(warn, self.start_notes)
        yield from self.trainer.restore()
        # What was warned of before the step at which the run goes on is not said again.
        last = self.state.progress.step - (1 if self.state.pending else 0)
        records = [record for record in read_metrics(self.run_dir / METRICS) if record.step <= last]
        self.task.warned = {drop_numbers(text) for record in records for text in record.warnings}
        for event in self.trainer.train():
            if isinstance(event, Progress):
                self.task.warned.update(map(drop_numbers, event.values.get("warnings", [])))
                if any(name.startswith("heldout_") for name in event.values):
                    self._write_examples(self.task.examples)
            is_snapshot = isinstance(event, Progress) and event.phase == SNAPSHOT
            yield self._take_snapshot() if is_snapshot else event
        with self.state.optimizer.averaged():
            yield from self._finish()

    def _take_snapshot(self) -> Update:
        progress = self.state.progress
        folder = snapshot_folder(self.run_dir, progress.step)
        with self.state.optimizer.averaged():
            self._export(folder)
        Snapshot(**progress.to_record().model_dump()).write(folder)
        return Progress(TRAINING, progress.step, self.trainer.config.total_steps, line=f"saved {folder}")

    def _export(self, export_dir: Path) -> None:
        """Each network with its heads and the tokenizer, as a Hugging Face folder where one fits."""
        tokenizer = self.data.tokenizer
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

    def _write_examples(self, rows: list[Row]) -> None:
        if rows:  # none of an objective that masks nothing
            examples = [ExampleRow.model_validate(row) for row in rows]
            objective, step = self.task.config.objective, self.state.progress.step
            RunExamples(objective=objective, step=step, rows=examples).write(self.run_dir)

    def _finish(self) -> Iterator[Event[PretrainResults]]:
        """Export the networks and write down how they do; done again only where it was not finished."""
        is_there = (self.run_dir / PretrainResults.FILE).is_file() and (self.run_dir / "export").is_dir()
        results = PretrainResults.read(self.run_dir) if is_there else None
        if results is None or results.step != self.trainer.config.total_steps:
            yield Note("exporting the networks and scoring them on held-out rows", "dim")
            self._export(self.run_dir / "export")
            self._write_examples(self.task.heldout_examples())
            scores = self.task.evaluate_heldout()
            baselines = measure_baselines(self.data, self.objective, self.task.heldout(), scores)
            progress = self.state.progress
            usefulness = describe_usefulness(scores, baselines, steps=progress.step, tokens=progress.tokens)
            # All that the run was warned of, in order; step 0 is its start.
            warnings = [RunWarning(step=0, text=note) for note in self.start_notes]
            for record in read_metrics(self.run_dir / METRICS):
                warnings += [RunWarning(step=record.step, text=text) for text in record.warnings]
            snapshots = Snapshot.read_all(self.run_dir)
            # What is not given is not written: a run without a verdict or snapshots has no such key.
            results = PretrainResults(
                objective=self.task.config.objective,
                **progress.to_record().model_dump(),
                heldout=scores,
                baselines=baselines,
                **({} if usefulness is None else {"verdict": usefulness}),
                warnings=warnings,
                **({"snapshots": snapshots} if snapshots else {}),
            )
            results.write(self.run_dir)
        write_run_card(self.run_dir)
        yield Result(results)
