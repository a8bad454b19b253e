"""The stage: a model and data -> a folder of its variants, what each costs and saves, and the one that was asked for.

CompressRequest -> Event... -> Tradeoff
"""

import shutil
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from electralab.artifacts import MANIFEST, lock_folder, read_json, verify_folder, write_file, write_json
from electralab.compression.finetuned_task import load_finetuned_task
from electralab.compression.pruning import Importance, choose_kept, measure_importance, recover
from electralab.compression.rtd_task import load_rtd_task
from electralab.compression.settings import BASELINE, CompressConfig, ModelVariant, list_variants
from electralab.compression.task import CompressionTask, Network
from electralab.compression.tradeoff import VariantMeasurement, compute_tradeoff, select_variant, time_networks
from electralab.compression.variant_writer import VariantWriter, copy_generator, copy_model, has_metadata
from electralab.config import ConfigLayer, to_toml
from electralab.errors import AnswersDiffer, IdentityMismatch, InputError, TrainingDiverged, UsageError
from electralab.evaluation.heldout import HeldoutConfig
from electralab.events import Event, Note, Progress, Result, Update, warn
from electralab.exporting.metadata import read_license
from electralab.exporting.onnx_graphs import require_onnx
from electralab.finetuning.identity import find_run, identify_model, read_identity
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import WEIGHTS, load_any, locate_encoder, locate_model
from electralab.model.folders.native_format import GRAPH, is_onnx
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import TaskModel
from electralab.model.weight_transfer import prune
from electralab.records.compression import (
    CompressionFingerprint,
    CompressPlan,
    ImportanceRecord,
    KeptParts,
    NoiseFloor,
    RequestedTradeoff,
    Tradeoff,
    TradeoffPoint,
    VariantScore,
)
from electralab.records.kinds import require_empty_or
from electralab.reporting.cards import write_tradeoff_report
from electralab.runtime import choose_device, default_threads, describe_environment, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.training.fingerprints import ANOTHER, check_same_settings, check_same_threads

_BATCHES = (1, 32)
# What may differ when a command is given again: which variants there are, and how they are measured.
_FREE = ("storage", "prune", "drop_layers", "graphs", "measure")
# Scores that count examples.
_COUNTED = ("accuracy", "exact_match")


@dataclass(frozen=True, slots=True)
class CompressRequest:
    model: Path
    data: Path
    out: Path
    config: CompressConfig
    generator: Path | None
    task: str | None
    target_speedup: float | None
    max_loss: float | None
    threads: int
    """0 means: as before, or as many as there are cores."""
    license: str = ""
    """Of the weights; without one, what the model's folder states."""


def compress(request: CompressRequest, stop: StopSignal) -> Iterator[Event[Tradeoff]]:
    """Make and measure every variant. The same request again goes on where the last one stopped; more can be added."""
    out, config = request.out, request.config
    require_empty_or("trade-off", out)
    # Read here only to refuse a wrong name before the work.
    read_license(request.license)
    device = choose_device(config.device)
    task = load_compression_task(request, device, stop)
    check_plan(task.network.config, config)
    with lock_folder(out):
        is_begun = (out / CompressionFingerprint.FILE).is_file()
        stored = CompressionFingerprint.read(out) if is_begun else None
        threads = request.threads or (stored.threads if stored else default_threads())
        use_exact_arithmetic(threads, device)
        fingerprint = _fingerprint(request, task, threads)
        if stored:
            check_resumable(out, stored, fingerprint)
        else:
            fingerprint.write(out)
        write_file(out / "config.toml", to_toml(config))
        write_json(out / "environment.json", describe_environment(threads))
        yield from map(warn, task.notes)
        yield from _CompressionRun(request, task, device, stop).events()


def plan_compress(request: CompressRequest) -> CompressPlan:
    """What would be made, of what; nothing is written."""
    config = request.config
    require_empty_or("trade-off", request.out)
    task = load_compression_task(request, choose_device(config.device), StopSignal())
    check_plan(task.network.config, config)
    variants = list_variants(config)
    return CompressPlan(
        model=str(request.model),
        parameters=_count_parameters(task.network),
        metric=task.metric,
        training_rows=len(task.lengths),
        variants=tuple(variant.name for variant in variants),
        recovery_steps=sum(config.recovery.steps for variant in variants if variant.is_recovered),
        settings=config.model_dump(mode="json"),
    )


def load_compression_task(request: CompressRequest, device: torch.device, stop: StopSignal) -> CompressionTask:
    """A tuned model is scored on its task, a discriminator on replaced tokens."""
    model, data, config = request.model, request.data, request.config
    folder = locate_encoder(model)
    if is_onnx(folder):
        raise InputError(
            f"{folder}: is an ONNX graph, out of which nothing can be taken any more; give the model it was made from"
        )
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give --data, on which variants are made and scored")
    if config.graphs:
        require_onnx("--graphs")
    network = load_any(folder)
    if isinstance(network, TaskModel):
        if request.generator is not None:
            raise UsageError(f"--generator: {model} is tuned for a task, which needs none; leave it out")
        return load_finetuned_task(model, data, request.task, config.data, seed=config.seed, device=device, stop=stop)
    if request.task is not None:
        raise UsageError(f"--task: {model} is not tuned for a task, it is scored on replaced tokens; leave it out")
    if not isinstance(network, Discriminator):
        raise InputError(
            f"{model}: holds neither a discriminator nor a tuned model; give a pair, or tune it and give the result"
        )
    heldout = HeldoutConfig(**config.verdicts.model_dump(), bootstrap=0)
    return load_rtd_task(
        model, data, request.generator, heldout, config.reading, seed=config.seed, device=device, stop=stop
    )


def saved_reading_config(model: Path) -> ConfigLayer:
    """How the run that tuned a model read its data: what a trade-off begins with, below what is asked for."""
    run_dir = find_run(locate_encoder(model))
    run = read_identity(run_dir) if run_dir else None
    return ConfigLayer(f"{run_dir}/run.json", {"data": run.settings.get("data", {})} if run else {})


def check_plan(encoder: EncoderConfig, config: CompressConfig) -> None:
    if encoder.share_layers and config.prune:
        raise UsageError("--prune: the layers of this model are one, so that none can lose a part; give --no-prune")
    if config.drop_layers >= encoder.num_layers:
        raise UsageError(
            f"--drop-layers: the model has {encoder.num_layers} layers, of which the first stays; "
            f"give at most {encoder.num_layers - 1}, not {config.drop_layers}"
        )


def _fingerprint(request: CompressRequest, task: CompressionTask, threads: int) -> CompressionFingerprint:
    settings = {name: value for name, value in request.config.model_dump(mode="json").items() if name not in _FREE}
    rival = [] if isinstance(task.network, TaskModel) else [_find_generator(request)]
    return CompressionFingerprint(
        kind="compress",
        model=identify_model(locate_encoder(request.model), *rival),
        data=task.data_hash,
        settings=settings,
        threads=threads,
    )


def check_resumable(out: Path, stored: CompressionFingerprint, asked: CompressionFingerprint) -> None:
    """Going on with anything else is refused."""
    for what in ("model", "data"):
        if getattr(stored, what) != getattr(asked, what):
            raise IdentityMismatch(f"{out}: holds variants of another {what}; give the same one, or {ANOTHER}")
    check_same_settings(out, stored.settings, asked.settings)
    check_same_threads(out, stored.threads, asked.threads)


def _find_generator(request: CompressRequest) -> Path:
    """The folder of the one that a discriminator is scored against."""
    return locate_model(request.generator or request.model, "generator")


class _CompressionRun:
    def __init__(self, request: CompressRequest, task: CompressionTask, device: torch.device, stop: StopSignal) -> None:
        self.request, self.task, self.device, self.stop = request, task, device, stop
        self.config, self.out = request.config, request.out
        self.wish = RequestedTradeoff(target_speedup=request.target_speedup, max_loss=request.max_loss)
        self.writer = VariantWriter.create(task, request.license, locate_encoder(request.model), stop.check)
        self.variants: list[ModelVariant] = []
        """Those that could be made."""
        self.failed: dict[str, str] = {}

    def events(self) -> Iterator[Event[Tradeoff]]:
        scores: dict[str, VariantScore] = {}
        planned = list_variants(self.config)
        for number, variant in enumerate(planned, start=1):
            name = f"{variant.name} ({number} of {len(planned)})"
            yield Note(name, "strong")
            yield Progress(name, 0, 0)
            yield from self._try(variant)
            if variant.name in self.failed:
                yield Note(f"{variant.name} failed: {self.failed[variant.name]}", "error")
                continue
            self.variants.append(variant)
            scores[variant.name] = self._score(variant)
            score = f"{self.task.metric.replace('_', ' ')} {scores[variant.name].value:.4f}"
            yield Note(f"{variant.name}: {score}", "good")
        yield Progress("measuring", 0, 1, line="measuring")
        tradeoff = self._measure(scores)
        tradeoff.write(self.out)
        write_tradeoff_report(self.out, tradeoff)
        has_wish = self.wish.target_speedup is not None or self.wish.max_loss is not None
        if tradeoff.picked is not None:
            # So that the folder itself is a MODEL, with its generator where it has one.
            copy_model(self._folder(tradeoff.picked), self.out / "export" / self.task.role)
            if not isinstance(self.task.network, TaskModel):
                copy_generator(_find_generator(self.request), self.out / "export" / "generator", self.request.license)
        elif has_wish:
            # What was picked before is not what is asked for now.
            shutil.rmtree(self.out / "export", ignore_errors=True)
        yield Result(tradeoff)

    def _try(self, variant: ModelVariant) -> Iterator[Update]:
        if variant.origin in self.failed:
            self.failed[variant.name] = f"is made from {variant.origin}, which failed"
            return
        try:
            if not self._is_there(variant):
                yield from self._make(variant)
        except (InputError, AnswersDiffer, TrainingDiverged) as error:
            if variant.name == BASELINE:
                raise
            # Without the folder that it begins with, which nobody would find.
            self.failed[variant.name] = str(error).partition(": ")[2]

    def _folder(self, name: str) -> Path:
        return self.out / "variants" / name

    def _is_there(self, variant: ModelVariant) -> bool:
        folder = self._folder(variant.name)
        if not (folder / MANIFEST).is_file():
            return False
        verify_folder(folder, "delete this variant's folder, and the same command makes it again")
        if not has_metadata(folder):
            return False
        if self.request.license:
            self.writer.relicense(folder)
        return True

    def _make(self, variant: ModelVariant) -> Iterator[Update]:
        folder = self._folder(variant.name)
        # Its score may be of one that was deleted.
        self._score_path(variant).unlink(missing_ok=True)
        if variant.graph is not None:
            samples = self.task.list_samples(self.config.calibration_rows)
            self.writer.write_graph(self._folder(variant.origin), folder, variant.graph, samples)
            return
        if variant.is_recovered:
            network = self._load(variant.origin)
            run_dir = self.out / "recovery" / variant.name
            yield from recover(run_dir, self.task, network, self.config.recovery, self.config.seed, self.stop)
        elif variant.is_pruned:
            importance = yield from self._measure_importance()
            network = prune(self.task.network, choose_kept(importance, variant.share, variant.drop_layers))
        else:
            network = self.task.network
        self.writer.write_weights(folder, network, variant.storage)

    def _measure_importance(self) -> Generator[Update, None, Importance]:
        """Once: every share is taken from the same."""
        path = self.out / ImportanceRecord.FILE
        if path.is_file():
            value = read_json(path, "delete it, and the same command measures it again")
            stored = ImportanceRecord.parse(value, path)
            return Importance(list(map(np.array, stored.heads)), list(map(np.array, stored.neurons)))
        config, phase = self.config.importance, "importance of heads and neurons"
        total = min(config.rows, len(self.task.lengths))
        steps = measure_importance(self.task, self.task.network, config.rows, config.batch_size, self.stop.check)
        while True:
            try:
                done = next(steps)
                yield Progress(phase, done, total, line=phase if done in (0, total) else "")
            except StopIteration as end:
                importance: Importance = end.value
                break
        heads, neurons = ([scores.tolist() for scores in part] for part in (importance.heads, importance.neurons))
        ImportanceRecord(heads=heads, neurons=neurons).write(self.out)
        return importance

    def _load(self, name: str) -> Network:
        network = load_any(self._folder(name)).to(self.device)
        assert isinstance(network, Discriminator | TaskModel)
        return network

    def _score_path(self, variant: ModelVariant) -> Path:
        return self.out / "scores" / f"{variant.name}.json"

    def _score(self, variant: ModelVariant) -> VariantScore:
        path = self._score_path(variant)
        # Examples are drawn again for the baseline alone: only its deviation counts.
        draws = self.config.measure.bootstrap if variant.name == BASELINE else 0
        if path.is_file():
            value = read_json(path, "delete it, and the same command scores the variant again")
            stored = VariantScore.parse(value, path)
            if stored.draws == draws:
                return stored
        score = self.task.score(self._load(variant.name), draws)
        write_json(path, score.to_json())
        return score

    def _measure(self, scores: dict[str, VariantScore]) -> Tradeoff:
        networks = {variant.name: self._load(variant.name) for variant in self.variants}
        # A graph has the numbers of what it was made from, but not as parameters.
        origins = {variant.name: variant.origin if variant.graph else variant.name for variant in self.variants}
        inputs = {size: self.task.timing_inputs(size) for size in _BATCHES}
        config = self.config.measure
        times = time_networks(networks, inputs, config.rounds, self.stop.check)
        measured = [
            VariantMeasurement(
                name=name,
                bytes=_count_bytes(self._folder(name)),
                parameters=_count_parameters(networks[origins[name]]),
                milliseconds=times[name],
                score=scores[name].value,
                kept=_count_kept(networks[name].config),
            )
            for name in networks
        ]
        floor = self._noise_floor(scores[BASELINE])
        points = compute_tradeoff(measured, floor, config.speedup_batch)
        return Tradeoff(
            model=str(self.request.model),
            data=str(self.request.data),
            metric=self.task.metric,
            baseline=BASELINE,
            examples=scores[BASELINE].count,
            speedup_batch=config.speedup_batch,
            tokens={str(size): int(batch[0].shape[1]) for size, batch in inputs.items()},
            threads=torch.get_num_threads(),
            floor=floor,
            failed=self.failed,
            variants=tuple(points),
            picked=self._pick(points),
            asked=self.wish,
            notes=tuple(self.task.notes),
        )

    def _noise_floor(self, score: VariantScore) -> NoiseFloor:
        deviation, over = self.task.seed_deviation, "the seeds of the run"
        if deviation is None:
            assert score.deviation is not None  # the baseline's examples are always drawn again
            deviation, over = score.deviation, "examples drawn again"
        # Where examples are counted, one more or less is the smallest difference that there is.
        least = 1 / score.count if self.task.metric in _COUNTED else 0.0
        if deviation < least:
            return NoiseFloor(points=100 * least, origin="the weight of one example")
        return NoiseFloor(points=100 * deviation, origin=f"the standard deviation of the score over {over}")

    def _pick(self, points: Sequence[TradeoffPoint]) -> str | None:
        """What is asked for now; what was picked before, where nothing is asked for."""
        if self.wish.target_speedup is not None or self.wish.max_loss is not None:
            point = select_variant(points, self.wish.target_speedup, self.wish.max_loss)
            return point.name if point else None
        before = Tradeoff.read(self.out).picked if (self.out / Tradeoff.FILE).is_file() else None
        return before if before in {point.name for point in points} else None


def _count_bytes(folder: Path) -> int:
    """Of the weights: the tokenizer beside them is the same for all."""
    return sum((folder / name).stat().st_size for name in (WEIGHTS, GRAPH) if (folder / name).is_file())


def _count_parameters(network: Network) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _count_kept(config: EncoderConfig) -> KeptParts:
    shapes = config.layer_shapes
    return KeptParts(
        layers=len(shapes),
        heads=sum(shape.num_heads for shape in shapes),
        neurons=sum(shape.feedforward_size for shape in shapes),
    )
