"""The stage: a model and data -> a folder of its variants, what each costs and saves, and the one that was asked for.

CompressRequest -> Event... -> Tradeoff

A variant becomes a model folder only with its metadata: how far its answers are off, a card, a license, hashes.
"""

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from electralab.artifacts import MANIFEST, lock_folder, new_folder, read_json, verify_folder, write_file, write_json
from electralab.compression import tradeoff as tradeoffs
from electralab.compression.pruning import choose_kept, measure_importance, recover
from electralab.compression.settings import (
    BASELINE,
    CompressConfig,
    CompressRequest,
    Graph,
    ModelVariant,
    list_variants,
)
from electralab.compression.task import CompressionTask, Network, load_compression_task, score_network
from electralab.config import ConfigLayer, to_toml
from electralab.errors import AnswersDiffer, IdentityMismatch, InputError, TrainingDiverged, UsageError
from electralab.events import Event, Note, Progress, Result, Update, warn
from electralab.exporting.export import LICENSE, find_license, read_license, write_license
from electralab.exporting.fidelity import TOLERANCE, Sample, compare_networks, require_equal, sample_rows
from electralab.exporting.onnx_graphs import Activations, quantize_folder, write_graph
from electralab.finetuning.settings import find_run, read_identity
from electralab.finetuning.task_model import identify_model
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import WEIGHTS, Storage, load_any, locate_encoder, locate_model, read_config
from electralab.model.folders.hf_config import CONFIG
from electralab.model.folders.native_format import GRAPH, export_own_config, is_onnx
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import TaskModel
from electralab.model.weight_transfer import prune
from electralab.records import compression as records
from electralab.records.compression import Tradeoff, VariantScore
from electralab.records.export import ExportRecord
from electralab.records.kinds import require_empty_or
from electralab.reporting.cards import write_tradeoff_report
from electralab.runtime import choose_device, default_threads, describe_environment, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.training.fingerprints import ANOTHER, check_same_settings, check_same_threads

_BATCHES = (1, 32)
# What may differ when a command is given again: which variants there are, and how they are measured.
_FREE = ("storage", "prune", "drop_layers", "graphs", "measure")
# Rows of the user's that variants are tried on, beside our own.
_ROWS = 32
_ACTIVATIONS: dict[Graph, Activations] = {"onnx-dynamic-int8": "dynamic", "onnx-static-int8": "static"}


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
        stored = records.CompressionFingerprint.find(out)
        threads = request.threads or (stored.threads if stored else default_threads())
        use_exact_arithmetic(threads, device)
        # A discriminator's score depends on the generator that it is scored against.
        rival = [] if isinstance(task.network, TaskModel) else [_find_generator(request)]
        asked = records.CompressionFingerprint(
            kind="compress",
            model=identify_model(locate_encoder(request.model), *rival),
            data=task.data_hash,
            settings={name: value for name, value in config.model_dump(mode="json").items() if name not in _FREE},
            threads=threads,
        )
        # Variants of another model or other data beside these would be compared as if they were alike.
        if stored:
            for what, before, now in (("model", stored.model, asked.model), ("data", stored.data, asked.data)):
                if before != now:
                    raise IdentityMismatch(f"{out}: holds variants of another {what}; give the same one, or {ANOTHER}")
            check_same_settings(out, stored.settings, asked.settings)
            check_same_threads(out, stored.threads, asked.threads)
        else:
            asked.write(out)
        write_file(out / "config.toml", to_toml(config))
        describe_environment(threads).write(out)
        yield from map(warn, task.notes)
        yield from _CompressionRun(request, task, device, stop).events()


def plan_compress(request: CompressRequest) -> records.CompressPlan:
    """What would be made, of what; nothing is written."""
    config = request.config
    require_empty_or("trade-off", request.out)
    task = load_compression_task(request, choose_device(config.device), StopSignal())
    check_plan(task.network.config, config)
    variants = list_variants(config)
    return records.CompressPlan(
        model=str(request.model),
        parameters=sum(parameter.numel() for parameter in task.network.parameters()),
        metric=task.metric,
        training_rows=len(task.lengths),
        variants=tuple(variant.name for variant in variants),
        recovery_steps=sum(config.recovery.steps for variant in variants if variant.is_recovered),
        settings=config.model_dump(mode="json"),
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


def _find_generator(request: CompressRequest) -> Path:
    """The folder of the one that a discriminator is scored against."""
    return locate_model(request.generator or request.model, "generator")


class VariantWriter:
    """Networks -> model folders, each tried against the network that it was made from."""

    def __init__(self, task: CompressionTask, license: str, model: Path, check: Callable[[], None]) -> None:
        self.task, self.check = task, check
        self.samples = task.list_samples(_ROWS) + sample_rows(task.tokenizer, task.network.config)
        self.license = find_license(license, model)

    def write_weights(self, folder: Path, network: Network, storage: Storage) -> None:
        with new_folder(folder, kind="model") as temporary:
            self.task.save(temporary, network, storage)
            self._write_metadata(temporary, self.task.network, format=storage, of="the model as it came")

    def write_graph(self, source: Path, target: Path, graph: Graph, samples: Sequence[Sample]) -> None:
        """All that the source's folder holds, with a graph for its weights; the samples calibrate a static one."""
        network, special = load_any(source), self.task.tokenizer.special
        assert isinstance(network, Discriminator | TaskModel)
        with new_folder(target, kind="model") as temporary:
            copy_files(source, temporary, WEIGHTS, CONFIG)
            write_json(temporary / CONFIG, export_own_config(network, read_config(source)))
            write_graph(network, temporary / GRAPH)
            # Before it is quantized: a graph in 32 bits answers like its network, or the exporter is wrong.
            compared = compare_networks(network, temporary, self.samples, special, check=self.check)
            require_equal(compared, TOLERANCE, str(target))
            facts = {"format": "onnx", "of": f"the variant {source.name}"}
            if graph != "onnx":
                quantize_folder(temporary, _ACTIVATIONS[graph], samples)
                facts |= {"format": "onnx-int8", "activations": _ACTIVATIONS[graph]}
            self._write_metadata(temporary, network, **facts)

    def _write_metadata(self, folder: Path, origin: Network, **facts: Any) -> None:
        kind, special = "tuned" if isinstance(origin, TaskModel) else "discriminator", self.task.tokenizer.special
        fidelity = compare_networks(origin, folder, self.samples, special, check=self.check)
        ExportRecord.compared(fidelity, network=self.task.role, kind=kind, **facts).write(folder)
        write_license(folder, self.license)


def copy_files(source: Path, target: Path, *without: str) -> None:
    for file in source.iterdir():
        if file.is_file() and file.name not in (MANIFEST, *without):
            shutil.copyfile(file, target / file.name)


def has_metadata(folder: Path) -> bool:
    return (folder / ExportRecord.FILE).is_file() and (folder / LICENSE).is_file()


class _CompressionRun:
    def __init__(self, request: CompressRequest, task: CompressionTask, device: torch.device, stop: StopSignal) -> None:
        self.request, self.task, self.device, self.stop = request, task, device, stop
        self.config, self.out = request.config, request.out
        self.variants_dir, self.scores_dir = request.out / "variants", request.out / "scores"
        self.writer = VariantWriter(task, request.license, locate_encoder(request.model), stop.check)
        self.failed: dict[str, str] = {}

    def events(self) -> Iterator[Event[Tradeoff]]:
        # Those that could be made.
        variants: list[ModelVariant] = []
        scores: dict[str, VariantScore] = {}
        planned = list_variants(self.config)
        for number, variant in enumerate(planned, start=1):
            name = f"{variant.name} ({number} of {len(planned)})"
            yield Note(name, "strong")
            yield Progress(name, 0, 0)
            try:
                if variant.origin in self.failed:
                    self.failed[variant.name] = f"is made from {variant.origin}, which failed"
                elif not self._is_there(variant):
                    yield from self._make(variant)
            except (InputError, AnswersDiffer, TrainingDiverged) as error:
                if variant.name == BASELINE:
                    raise
                # Without the folder that it begins with, which nobody would find.
                self.failed[variant.name] = str(error).partition(": ")[2]
            if variant.name in self.failed:
                yield Note(f"{variant.name} failed: {self.failed[variant.name]}", "error")
                continue
            variants.append(variant)
            scores[variant.name] = self._score(variant)
            score = f"{self.task.metric.replace('_', ' ')} {scores[variant.name].value:.4f}"
            yield Note(f"{variant.name}: {score}", "good")
        yield Progress("measuring", 0, 1, line="measuring")
        tradeoff = self._measure(variants, scores)
        tradeoff.write(self.out)
        write_tradeoff_report(self.out, tradeoff)
        if tradeoff.picked is not None:
            self._export(tradeoff.picked)
        elif tradeoff.asked.target_speedup is not None or tradeoff.asked.max_loss is not None:
            # What was picked before is not what is asked for now.
            shutil.rmtree(self.out / "export", ignore_errors=True)
        yield Result(tradeoff)

    def _is_there(self, variant: ModelVariant) -> bool:
        folder = self.variants_dir / variant.name
        if not (folder / MANIFEST).is_file():
            return False
        verify_folder(folder, "delete this variant's folder, and the same command makes it again")
        if not has_metadata(folder):
            return False
        if self.request.license and (folder / LICENSE).read_text(encoding="utf-8") != self.writer.license.text:
            # It was made on other terms.
            with new_folder(folder, kind="model") as temporary:
                copy_files(folder, temporary)
                write_license(temporary, self.writer.license)
        return True

    def _make(self, variant: ModelVariant) -> Iterator[Update]:
        folder, origin = self.variants_dir / variant.name, self.variants_dir / variant.origin
        # Its score may be of one that was deleted.
        (self.scores_dir / f"{variant.name}.json").unlink(missing_ok=True)
        if variant.graph is not None:
            samples = self.task.list_samples(self.config.calibration_rows)
            self.writer.write_graph(origin, folder, variant.graph, samples)
            return
        network = self.task.network
        if variant.is_recovered:
            network = self._load(variant.origin)
            run_dir = self.out / "recovery" / variant.name
            yield from recover(run_dir, self.task, network, self.config.recovery, self.config.seed, self.stop)
        elif variant.share:
            importance = yield from self._measure_importance()
            network = prune(network, choose_kept(importance, variant.share, variant.drop_layers))
        self.writer.write_weights(folder, network, variant.storage)

    def _measure_importance(self) -> Generator[Update, None, records.ImportanceRecord]:
        """Once: every share is taken from the same."""
        path = self.out / records.ImportanceRecord.FILE
        if path.is_file():
            value = read_json(path, "delete it, and the same command measures it again")
            return records.ImportanceRecord.parse(value, path)
        importance = yield from measure_importance(self.task, self.config.importance)
        importance.write(self.out)
        return importance

    def _load(self, name: str) -> Network:
        network = load_any(self.variants_dir / name).to(self.device)
        assert isinstance(network, Discriminator | TaskModel)
        return network

    def _score(self, variant: ModelVariant) -> VariantScore:
        path = self.scores_dir / f"{variant.name}.json"
        # Examples are drawn again for the baseline alone: only its deviation counts.
        draws = self.config.measure.bootstrap if variant.name == BASELINE else 0
        if path.is_file():
            value = read_json(path, "delete it, and the same command scores the variant again")
            stored = VariantScore.parse(value, path)
            if stored.draws == draws:
                return stored
        score = score_network(self.task, self._load(variant.name), draws)
        write_json(path, score.to_json())
        return score

    def _measure(self, variants: Sequence[ModelVariant], scores: dict[str, VariantScore]) -> Tradeoff:
        config, request = self.config.measure, self.request
        networks = {variant.name: self._load(variant.name) for variant in variants}
        inputs = {size: self.task.timing_inputs(size) for size in _BATCHES}
        times = tradeoffs.time_networks(networks, inputs, config.rounds, self.stop.check)
        measured = []
        for variant in variants:
            folder, shapes = self.variants_dir / variant.name, networks[variant.name].config.layer_shapes
            # A graph has the numbers of what it was made from, but not as parameters.
            counted = networks[variant.origin if variant.graph else variant.name]
            files = [folder / name for name in (WEIGHTS, GRAPH) if (folder / name).is_file()]
            measured.append(
                records.VariantMeasurement(
                    name=variant.name,
                    # Of the weights: the tokenizer beside them is the same for all.
                    bytes=sum(file.stat().st_size for file in files),
                    parameters=sum(parameter.numel() for parameter in counted.parameters()),
                    milliseconds=times[variant.name],
                    score=scores[variant.name].value,
                    kept=records.KeptParts(
                        layers=len(shapes),
                        heads=sum(shape.num_heads for shape in shapes),
                        neurons=sum(shape.feedforward_size for shape in shapes),
                    ),
                )
            )
        floor = tradeoffs.find_noise_floor(self.task, scores[BASELINE])
        points = tradeoffs.compute_tradeoff(measured, floor, config.speedup_batch)
        if request.target_speedup is not None or request.max_loss is not None:
            point = tradeoffs.select_variant(points, request.target_speedup, request.max_loss)
            picked = point.name if point else None
        else:
            # Nothing is asked for: what was picked before stays, if it is still there.
            before = Tradeoff.find(self.out)
            picked = before.picked if before and before.picked in scores else None
        return Tradeoff(
            model=str(request.model),
            data=str(request.data),
            metric=self.task.metric,
            baseline=BASELINE,
            examples=scores[BASELINE].count,
            speedup_batch=config.speedup_batch,
            tokens={str(size): int(batch[0].shape[1]) for size, batch in inputs.items()},
            threads=torch.get_num_threads(),
            floor=floor,
            failed=self.failed,
            variants=tuple(points),
            picked=picked,
            asked=records.RequestedTradeoff(target_speedup=request.target_speedup, max_loss=request.max_loss),
            notes=tuple(self.task.notes),
        )

    def _export(self, picked: str) -> None:
        """So that the folder itself is a MODEL, with its generator, as it is, where it has one."""
        with new_folder(self.out / "export" / self.task.role, kind="model") as temporary:
            copy_files(self.variants_dir / picked, temporary)
        if isinstance(self.task.network, TaskModel):
            return
        source = _find_generator(self.request)
        with new_folder(self.out / "export" / "generator", kind="model") as temporary:
            copy_files(source, temporary)
            if not has_metadata(temporary):
                form = "onnx" if is_onnx(source) else "fp32"
                ExportRecord(format=form, network="generator", kind="generator", subject="guesses").write(temporary)
            write_license(temporary, find_license(self.request.license, source))
