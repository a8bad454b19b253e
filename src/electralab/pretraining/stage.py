"""The stage: prepared data -> run folder. Start, resume, evaluate, save, stop; the caller only draws what is yielded.

PretrainRequest -> Event...
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from electralab.artifacts import MANIFEST, lock_folder, read_json, write_file, write_json
from electralab.config import to_toml
from electralab.errors import DamagedArtifact, Stopped, TrainingDiverged, UsageError
from electralab.pretraining.budget import count_steps, flops_per_step
from electralab.pretraining.exports import export_networks
from electralab.pretraining.heldout import (
    HeldoutScores,
    diagnose,
    join_verdicts,
    judge_heldout,
    measure_baselines,
)
from electralab.pretraining.identity import Budget, RunIdentity, read_identity, require_same, write_identity
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.start import describe_origin, load_origin
from electralab.pretraining.state import build_state, pair_of, take_steps
from electralab.pretraining.task import PretrainTask
from electralab.runtime import choose_device, default_threads, describe_environment, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.tokens.shards import PreparedData, open_data
from electralab.training.checkpoint import (
    clear_leftovers,
    find_latest,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from electralab.training.loop import StepReport
from electralab.training.metrics import MetricsLog, Record


@dataclass(frozen=True, slots=True)
class PretrainRequest:
    data_dir: Path
    run_dir: Path
    config: PretrainConfig
    budget: Budget
    init_from: Path | None
    threads: int
    """0 means: as the run had, or as many as there are cores."""
    save_every: int
    log_every: int
    keep: int
    extend: bool
    allow_inexact: bool


@dataclass(frozen=True, slots=True)
class RunStarted:
    first_step: int
    total_steps: int
    parameters: int
    threads: int


@dataclass(frozen=True, slots=True)
class StepLogged:
    record: Record


@dataclass(frozen=True, slots=True)
class Warned:
    text: str


@dataclass(frozen=True, slots=True)
class Saved:
    path: Path


@dataclass(frozen=True, slots=True)
class RunFinished:
    results: Record


Event = RunStarted | StepLogged | Warned | Saved | RunFinished


def pretrain(request: PretrainRequest, stop: StopSignal) -> Iterator[Event]:
    """Run until the budget is spent. The same request again goes on where the last one stopped, bit for bit."""
    data = open_data(request.data_dir)
    _refuse_foreign(request.run_dir)
    with lock_folder(request.run_dir):
        stored = read_identity(request.run_dir)
        threads = request.threads or (stored.threads if stored else default_threads())
        device = choose_device(request.config.runtime.device)
        use_exact_arithmetic(threads, device)
        identity = _settle_identity(request, data, stored, threads, device, stop)
        run = _Run(request, data, identity, device, stop)  # what cannot be built is refused before anything is written
        if stored is None:
            write_file(request.run_dir / "config.toml", to_toml(request.config))
        write_json(request.run_dir / "environment.json", describe_environment(threads))
        if stored != identity:
            write_identity(request.run_dir, identity)
        if stored is not None and stored.total_steps != identity.total_steps:
            yield Warned(
                f"extended from {stored.total_steps} to {identity.total_steps} steps: the schedule "
                f"({request.config.schedule.kind}) is now that of the longer run, so the learning rate may rise again"
            )
        yield from run.events()


def _refuse_foreign(run_dir: Path) -> None:
    if (run_dir / MANIFEST).exists() or (run_dir / "config.json").exists():
        raise UsageError(f"{run_dir}: holds data or a model, not a run; choose another --out")
    if list_checkpoints(run_dir / "checkpoints") and not (run_dir / "run.json").exists():
        raise DamagedArtifact(f"{run_dir}: has checkpoints but no run.json; restore it or choose another --out")


def _settle_identity(
    request: PretrainRequest,
    data: PreparedData,
    stored: RunIdentity | None,
    threads: int,
    device: torch.device,
    stop: StopSignal,
) -> RunIdentity:
    """What this run is. Minutes are turned into steps once, before step 1; a stored answer is never probed again."""
    # The steps of the settings are a budget like any other, and a budget may be extended.
    settings = request.config.model_dump(mode="json", exclude={"steps"})
    origin = describe_origin(request.init_from)
    if stored is not None and stored.budget == request.budget:
        total_steps = stored.total_steps
    else:
        total_steps = count_steps(request.budget, request.config, data, device, stop)
    identity = RunIdentity(data.identity, origin, settings, request.budget, total_steps, threads)
    if stored is not None:
        require_same(request.run_dir, stored, identity, extend=request.extend, allow_inexact=request.allow_inexact)
    return identity


class _Run:
    """One sitting of a run: what its events need at hand."""

    def __init__(
        self,
        request: PretrainRequest,
        data: PreparedData,
        identity: RunIdentity,
        device: torch.device,
        stop: StopSignal,
    ) -> None:
        self.request = request
        self.data = data
        self.config = request.config
        self.total_steps = identity.total_steps
        self.stop = stop
        self.checkpoints_dir = request.run_dir / "checkpoints"
        self.state = build_state(request.config, data, device)
        self.model = pair_of(self.state)
        self.origin_notes = load_origin(request.init_from, self.model) if request.init_from is not None else []
        self.task = PretrainTask(self.model, data, request.config, self.total_steps, device)
        self.flops = flops_per_step(request.config, data)
        self.saved_step = -1
        times = request.config.evaluation.times
        self.evaluate_every = max(1, math.ceil(self.total_steps / times)) if times else 0

    def events(self) -> Iterator[Event]:
        if not len(self.data.heldout):
            yield Warned(f"{self.data.path}: has no held-out rows, so scores are of rows that training sees")
        yield from map(Warned, self.origin_notes)
        yield from self._restore()
        progress = self.state.progress
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        yield RunStarted(progress.step + 1, self.total_steps, parameters, torch.get_num_threads())
        log = MetricsLog(self.request.run_dir, progress.step - (1 if self.state.pending else 0))
        try:
            yield from self._catch_up(log)
            yield from self._train(log)
        except Stopped:
            # The step that a checkpoint already holds is not written again: replacing it would put it at risk.
            if progress.step != self.saved_step:
                yield from self._save(log)
            raise
        finally:
            log.close()
        yield from self._finish()

    def _restore(self) -> Iterator[Event]:
        clear_leftovers(self.checkpoints_dir)
        warnings: list[str] = []
        latest = find_latest(self.checkpoints_dir, warnings.append)
        for text in warnings:
            yield Warned(text)
        if latest is not None:
            load_checkpoint(latest, self.state)
            self.saved_step = self.state.progress.step
        elif list_checkpoints(self.checkpoints_dir):
            yield Warned(f"{self.checkpoints_dir}: no checkpoint is intact; starting again from step 1")

    def _train(self, log: MetricsLog) -> Iterator[Event]:
        progress = self.state.progress
        tokens_before, seconds_before = progress.tokens, progress.seconds
        clock = time.perf_counter()
        for report in take_steps(self.state, self.task, self.config, self.total_steps, self.stop):
            progress.step = report.step
            progress.tokens += self.task.tally.targets.discriminator
            progress.flops += self.flops
            progress.seconds += time.perf_counter() - clock
            clock = time.perf_counter()
            yield from self._count_skipped(report)
            if self._is_due(report.step, self.request.log_every) or self._is_evaluated(report.step):
                speed = (progress.tokens - tokens_before) / max(progress.seconds - seconds_before, 1e-9)
                tokens_before, seconds_before = progress.tokens, progress.seconds
                self.state.pending = self._describe(report, speed)
                yield from self._catch_up(log)
            if self._is_due(report.step, self.request.save_every) and self._is_sound(report):
                yield from self._save(log)
            clock = time.perf_counter()

    def _is_due(self, step: int, every: int) -> bool:
        return step == self.total_steps or (every > 0 and step % every == 0)

    def _is_sound(self, report: StepReport) -> bool:
        """Amid skipped steps the weights may be past saving, and must not push out the checkpoints before them.

        An adaptive loss scale skips a step now and then to find its value; that says nothing about the weights.
        """
        return not report.is_skipped or self.state.scale.is_adaptive

    def _is_evaluated(self, step: int) -> bool:
        return self.evaluate_every > 0 and self._is_due(step, self.evaluate_every)

    def _describe(self, report: StepReport, speed: float) -> Record:
        tally, progress = self.task.tally, self.state.progress
        verdicts = join_verdicts(tally.verdicts)
        return {
            "step": report.step,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "loss": report.loss,
            "generator_loss": tally.generator_loss,
            "discriminator_loss": tally.discriminator_loss,
            "auc": verdicts.auc,
            "recall": verdicts.recall,
            "replaced_share": verdicts.replaced_share,
            "learning_rate": self.config.optimizer.learning_rate * report.rate_factor,
            "gradient_norm": report.gradient_norm,
            "skipped_steps": progress.skipped_steps,
            "tokens_per_second": round(speed, 1),
            "seconds": round(progress.seconds, 3),
        }

    def _catch_up(self, log: MetricsLog) -> Iterator[Event]:
        """Write the pending record. It outlives a stop inside its evaluation: the checkpoint carries it along."""
        record = self.state.pending
        if record is None:
            return
        if self._is_evaluated(record["step"]):
            scores = self._judge()
            record = record | {f"heldout_{name}": value for name, value in asdict(scores).items()}
            for text in diagnose(scores, record["step"] / self.total_steps):
                yield Warned(text)
        log.write(record)
        self.state.pending = None
        yield StepLogged(record)

    def _judge(self) -> HeldoutScores:
        return judge_heldout(self.model, self.task.heldout(), self.task.prohibition, self.config.sampling)

    def _count_skipped(self, report: StepReport) -> Iterator[Event]:
        progress = self.state.progress
        progress.skipped_in_a_row = progress.skipped_in_a_row + 1 if report.is_skipped else 0
        if not report.is_skipped:
            return
        progress.skipped_steps += 1
        is_end = report.step == self.total_steps and not self._is_sound(report)
        if is_end or progress.skipped_in_a_row > self.config.optimizer.max_skipped_in_a_row:
            kept = next(iter(list_checkpoints(self.checkpoints_dir)), None)
            raise TrainingDiverged(
                f"{self.request.run_dir}: {progress.skipped_in_a_row} steps in a row were not finite; the last good "
                f"checkpoint is {kept or 'none'}; lower --optimizer.learning-rate and start a new run from it"
            )
        what = f"loss {report.loss:g}, gradient norm {report.gradient_norm:g}"
        yield Warned(f"step {report.step} was not finite ({what}) and changed nothing; {progress.skipped_steps} so far")

    def _save(self, log: MetricsLog) -> Iterator[Event]:
        log.sync()
        path = save_checkpoint(self.checkpoints_dir, self.state, self.request.keep)
        self.saved_step = self.state.progress.step
        yield Saved(path)

    def _finish(self) -> Iterator[Event]:
        """Export both networks and write down how they do; done again only where it was not finished."""
        run_dir = self.request.run_dir
        results_path = run_dir / "results.json"
        stored = read_json(results_path) if results_path.is_file() else {}
        if stored.get("step") != self.total_steps or not (run_dir / "export").is_dir():
            export_networks(run_dir / "export", self.model, self.data.tokenizer)
            scores = self._judge()
            baselines = measure_baselines(self.data, self.task.heldout(), scores.replaced_share)
            progress = asdict(self.state.progress)
            stored = {**progress, "heldout": asdict(scores), "baselines": asdict(baselines)}
            write_json(results_path, stored)
        yield RunFinished(stored)
