"""The stage: prepared data -> run folder; the caller only draws what is yielded.

PretrainRequest -> Event...
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from electralab.artifacts import MANIFEST, lock_folder, read_json, write_file, write_json
from electralab.config import to_toml
from electralab.errors import DamagedArtifact, UsageError
from electralab.events import Event, Note, Progress, Result, Update, warn
from electralab.model.folders.folder import locate_model
from electralab.objective.examples import Row
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.pretraining.balance import drop_numbers
from electralab.pretraining.branch import begin_branch, describe_branch_point, require_room
from electralab.pretraining.budget import count_steps
from electralab.pretraining.exports import (
    PROGRESS,
    export_networks,
    read_snapshots,
    snapshot_folder,
    snapshot_step,
)
from electralab.pretraining.heldout import measure_baselines
from electralab.pretraining.identity import Budget, RunIdentity, read_identity, require_same, write_identity
from electralab.pretraining.settings import PretrainConfig, complete_settings
from electralab.pretraining.start import describe_origin, is_without_second_segment, load_origin
from electralab.pretraining.state import build_state
from electralab.pretraining.task import WARNINGS, PretrainTask
from electralab.pretraining.usefulness import judge_usefulness
from electralab.runtime import choose_device, default_threads, describe_environment, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.tokens.shards import PreparedData, open_data
from electralab.training.checkpoint import list_checkpoints
from electralab.training.metrics import METRICS, Record, read_metrics
from electralab.training.session import SNAPSHOT, TRAINING, Pace, Session, spread

EXAMPLES = "examples.json"


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
    snapshots: tuple[float, ...] = ()
    """Shares of the run after which its networks are exported too; no part of what the run is."""
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


def pretrain(request: PretrainRequest, stop: StopSignal) -> Iterator[Event[Record]]:
    """Run until the budget is spent. The same request again goes on where the last one stopped, bit for bit."""
    data = open_data(request.data_dir)
    refuse_foreign(request.run_dir)
    with lock_folder(request.run_dir):
        stored = read_identity(request.run_dir)
        threads = request.threads or (stored.threads if stored else default_threads())
        device = choose_device(request.config.runtime.device)
        use_exact_arithmetic(threads, device)
        if request.budget.kind == "minutes" and (stored is None or stored.budget != request.budget):
            minutes = f"{request.budget.amount:g} minutes"
            yield Note(f"measuring the speed, to know how many steps {minutes} are", "dim")
        identity = settle_identity(
            request, data, stored, threads, lambda: count_steps(request.budget, request.config, data, device, stop)
        )
        run = _Run(request, data, identity, device, stop)  # what cannot be built is refused before anything is written
        if stored is None:
            write_file(request.run_dir / "config.toml", to_toml(request.config))
        # Where the data lies is no part of what the run is, but people know data by its place, not by its hash.
        environment = describe_environment(threads) | {"data": str(request.data_dir)}
        write_json(request.run_dir / "environment.json", environment)
        if stored != identity:
            write_identity(request.run_dir, identity)
        if request.branch_from is not None:
            begin_branch(request.run_dir, request.branch_from)
        yield from map(warn, request.notes)
        if stored is not None and stored.total_steps != identity.total_steps:
            yield warn(
                f"extended from {stored.total_steps} to {identity.total_steps} steps: the schedule "
                f"({request.config.schedule.kind}) is now that of the longer run, so the learning rate may rise again"
            )
        yield from run.events()


def refuse_foreign(run_dir: Path) -> None:
    if (run_dir / MANIFEST).exists() or (run_dir / "config.json").exists():
        raise UsageError(f"{run_dir}: holds data or a model, not a run; choose another --out")
    if list_checkpoints(run_dir / "checkpoints") and not (run_dir / "run.json").exists():
        raise DamagedArtifact(f"{run_dir}: has checkpoints but no run.json; restore it or choose another --out")


def settle_identity(
    request: PretrainRequest,
    data: PreparedData,
    stored: RunIdentity | None,
    threads: int,
    count: Callable[[], int],
) -> RunIdentity:
    """What this run is; another run's command is refused. Minutes are turned into steps once, before step 1: a stored
    answer is never probed again."""
    # The steps of the settings are a budget like any other, and a budget may be extended.
    settings = request.config.model_dump(mode="json", exclude={"steps"})
    if request.branch_from is None:
        origin = describe_origin(request.init_from, request.init_generator)
    elif request.init_from is not None:
        raise UsageError("--branch-from: takes over all weights, so --init-from would do nothing; give one of them")
    else:
        origin = describe_branch_point(request.branch_from)
    if stored is not None and stored.budget == request.budget:
        total_steps = stored.total_steps
    else:
        total_steps = count()
    frozen = request.config.generator.path
    generator = describe_origin(locate_model(Path(frozen), "generator")) if frozen else ""
    preset = stored.preset if stored is not None and stored.preset else request.preset
    identity = RunIdentity(data.identity, origin, settings, request.budget, total_steps, threads, generator, preset)
    if request.branch_from is not None:
        require_room(request.branch_from, data, total_steps)
    if stored is not None:
        # What a setting was before there was such a setting is its default.
        stored = replace(stored, settings=complete_settings(stored.settings))
        require_same(request.run_dir, stored, identity, extend=request.extend, allow_inexact=request.allow_inexact)
    return identity


def start_networks(request: PretrainRequest, objective: Objective[Any], data: PreparedData) -> list[str]:
    """The weights that new training was asked to start from, if any; returned is what to say about them."""
    if request.init_from is None:
        for flag, is_given in (
            ("--init-generator", request.init_generator is not None),
            ("--match-tokens", request.match_tokens),
        ):
            if is_given:
                raise UsageError(f"{flag}: goes with --init-from, the model to start from; give that too")
        return []
    return load_origin(
        request.init_from, objective, data, generator=request.init_generator, by_text=request.match_tokens
    )


class _Run:
    """What the events of one sitting need at hand."""

    def __init__(
        self,
        request: PretrainRequest,
        data: PreparedData,
        identity: RunIdentity,
        device: torch.device,
        stop: StopSignal,
    ) -> None:
        self.run_dir = request.run_dir
        self.data = data
        self.objective = build_objective(request.config, data, request.config.seed, device)
        self.state = build_state(self.objective, request.config)
        self.origin_notes = start_networks(request, self.objective, data)
        has_pairs = data.packing == "pairs" or request.config.sentence_task != "none"
        self.has_untrained_segments = not has_pairs and is_without_second_segment(request.init_from)
        self.task = PretrainTask(self.objective, data, request.config, identity.total_steps, device)
        pace = Pace(
            identity.total_steps,
            spread(request.config.evaluation.times, identity.total_steps),
            log_every=request.log_every,
            save_every=request.save_every,
            keep=request.keep,
            marks=frozenset(snapshot_step(share, identity.total_steps) for share in request.snapshots),
        )
        optimizer = request.config.optimizer
        self.session = Session(request.run_dir, self.state, self.task, pace, optimizer, self.task.rate_at, stop)

    def events(self) -> Iterator[Event[Record]]:
        if not len(self.data.heldout):
            yield warn(f"{self.data.path}: has no held-out rows, so scores are of rows that training sees")
        yield from map(warn, self.origin_notes)
        yield from self.session.restore()
        self._recall_warnings()
        for event in self.session.train():
            if isinstance(event, Progress):
                self.task.told.update(map(drop_numbers, event.values.get(WARNINGS, [])))
                if any(key.startswith("heldout_") for key in event.values):
                    self._write_examples(self.task.exhibited)
            is_snapshot = isinstance(event, Progress) and event.phase == SNAPSHOT
            yield self._take_snapshot() if is_snapshot else event
        with self.state.optimizer.averaged():
            yield from self._finish()

    def _recall_warnings(self) -> None:
        """Those that were told before the step at which this sitting goes on."""
        last = self.state.progress.step - (1 if self.state.pending else 0)
        records = [record for record in read_metrics(self.run_dir / METRICS) if record["step"] <= last]
        self.task.told = {drop_numbers(text) for record in records for text in record.get(WARNINGS, [])}

    def _list_warnings(self) -> list[Record]:
        """All that the run was warned of, in order; step 0 is its start."""
        records = read_metrics(self.run_dir / METRICS)
        told = [(record["step"], text) for record in records for text in record.get(WARNINGS, [])]
        return [{"step": step, "text": text} for step, text in [*((0, note) for note in self.origin_notes), *told]]

    def _take_snapshot(self) -> Update:
        step = self.state.progress.step
        folder = snapshot_folder(self.run_dir, step)
        with self.state.optimizer.averaged():
            self._export(folder)
        write_json(folder / PROGRESS, asdict(self.state.progress))
        return Progress(TRAINING, step, self.session.pace.total_steps, line=f"saved {folder}")

    def _export(self, folder: Path) -> None:
        name, tokenizer = self.task.config.objective, self.data.tokenizer
        export_networks(folder, self.objective, name, tokenizer, has_untrained_segments=self.has_untrained_segments)

    def _write_examples(self, rows: Sequence[Row]) -> None:
        """None of an objective that hides nothing."""
        if rows:
            about = {"objective": self.task.config.objective, "step": self.state.progress.step}
            write_json(self.run_dir / EXAMPLES, {**about, "rows": rows})

    def _finish(self) -> Iterator[Event[Record]]:
        """Export the networks and write down how they do; done again only where it was not finished."""
        results_path = self.run_dir / "results.json"
        stored = read_json(results_path) if results_path.is_file() else {}
        if stored.get("step") != self.session.pace.total_steps or not (self.run_dir / "export").is_dir():
            yield Note("exporting the networks and scoring them on held-out rows", "dim")
            name = self.task.config.objective
            self._export(self.run_dir / "export")
            self._write_examples(self.task.exhibit())
            scores = self.task.judge_heldout()
            baselines = measure_baselines(self.data, self.objective, self.task.heldout(), scores)
            progress = self.state.progress
            stored = {"objective": name, **asdict(progress), "heldout": scores, "baselines": baselines}
            usefulness = judge_usefulness(scores, baselines, steps=progress.step, tokens=progress.tokens)
            if usefulness is not None:
                stored["verdict"] = asdict(usefulness)
            stored["warnings"] = self._list_warnings()
            if snapshots := read_snapshots(self.run_dir):
                stored["snapshots"] = snapshots
            write_json(results_path, stored)
        yield Result(stored)
