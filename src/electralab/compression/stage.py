"""The stage: a model and data -> a folder of its variants, what each costs and saves, and the one that was asked for.

CompressRequest -> Event... -> results
"""

import shutil
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electralab.artifacts import MANIFEST, lock_folder, read_json, verify_folder, write_file, write_json
from electralab.compression.graphs import write_graph_variant
from electralab.compression.identity import IDENTITY, read_identity, require_same
from electralab.compression.importance import Importance, choose_kept, measure_importance
from electralab.compression.opening import find_generator, load_compression_task
from electralab.compression.picture import draw_tradeoff
from electralab.compression.recovery import recover
from electralab.compression.report import RESULTS, write_report
from electralab.compression.settings import CompressConfig
from electralab.compression.task import CompressionTask, Network
from electralab.compression.timing import time_networks
from electralab.compression.tradeoff import (
    BASELINE,
    KeptParts,
    NoiseFloor,
    TradeoffPoint,
    VariantMeasurement,
    pick,
    weigh,
)
from electralab.compression.variant_writer import copy_generator, copy_model, has_metadata, make_writer, relicense
from electralab.compression.variants import Variant, list_variants
from electralab.config import to_toml
from electralab.errors import (
    AnswersDiffer,
    InputError,
    TrainingDiverged,
    UsageError,
)
from electralab.events import Event, Note, Progress, Result, Update, warn
from electralab.exporting.metadata import read_license
from electralab.finetuning.identity import identify_model
from electralab.model.electra import Discriminator
from electralab.model.encoder import EncoderConfig
from electralab.model.folder import WEIGHTS, load_any, locate_encoder
from electralab.model.graph import GRAPH
from electralab.model.pruning import prune
from electralab.model.tuned import Tuned
from electralab.runtime import choose_device, default_threads, describe_environment, use_exact_arithmetic
from electralab.stopping import StopSignal

_IMPORTANCE = "importance.json"
_BATCHES = (1, 32)
# What may differ when a command is given again: which variants there are, and how they are measured.
_FREE = ("storage", "prune", "drop_layers", "graphs", "measure")
_COUNTED = ("accuracy", "exact_match")

Results = dict[str, Any]


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


def compress(request: CompressRequest, stop: StopSignal) -> Iterator[Event[Results]]:
    """Make and measure every variant. The same request again goes on where the last one stopped; more can be added."""
    out, config = request.out, request.config
    refuse_foreign(out)
    read_license(request.license)
    device = choose_device(config.device)
    task = load_compression_task(request.model, request.data, config, request.generator, request.task, device, stop)
    check_plan(task.network.config, config)
    with lock_folder(out):
        stored = read_identity(out)
        threads = request.threads or (stored["threads"] if stored else default_threads())
        use_exact_arithmetic(threads, device)
        identity = _identify(request, task, threads)
        if stored:
            require_same(out, stored, identity)
        else:
            write_json(out / IDENTITY, identity)
        write_file(out / "config.toml", to_toml(config))
        write_json(out / "environment.json", describe_environment(threads))
        yield from map(warn, task.notes)
        yield from _Work(request, task, device, stop).events()


def plan_compress(request: CompressRequest) -> Results:
    """What would be made, of what; nothing is written."""
    refuse_foreign(request.out)
    task = load_compression_task(
        request.model,
        request.data,
        request.config,
        request.generator,
        request.task,
        choose_device(request.config.device),
        StopSignal(),
    )
    check_plan(task.network.config, request.config)
    return {
        "model": str(request.model),
        "parameters": _count_parameters(task.network),
        "metric": task.metric,
        "training_rows": len(task.lengths),
        "variants": [variant.name for variant in list_variants(request.config)],
        "recovery_steps": sum(
            request.config.recovery.steps for variant in list_variants(request.config) if variant.is_recovered
        ),
        "settings": request.config.model_dump(mode="json"),
    }


def refuse_foreign(out: Path) -> None:
    if (out / MANIFEST).exists() or any((out / name).exists() for name in ("config.json", "run.json", "study.toml")):
        raise UsageError(f"{out}: holds data, a model or a run, not variants of one; choose another --out")


def check_plan(encoder: EncoderConfig, config: CompressConfig) -> None:
    if encoder.share_layers and config.prune:
        raise UsageError("--prune: the layers of this model are one, so that none can lose a part; give --no-prune")
    if config.drop_layers >= encoder.num_layers:
        raise UsageError(
            f"--drop-layers: the model has {encoder.num_layers} layers, of which the first stays; "
            f"give at most {encoder.num_layers - 1}, not {config.drop_layers}"
        )


def _identify(request: CompressRequest, task: CompressionTask, threads: int) -> dict[str, Any]:
    settings = {name: value for name, value in request.config.model_dump(mode="json").items() if name not in _FREE}
    rival = [] if isinstance(task.network, Tuned) else [find_generator(request.model, request.generator)]
    model = identify_model(locate_encoder(request.model), *rival)
    return {"kind": "compress", "model": model, "data": task.identity, "settings": settings, "threads": threads}


class _Work:
    def __init__(self, request: CompressRequest, task: CompressionTask, device: torch.device, stop: StopSignal) -> None:
        self.request, self.task, self.device, self.stop = request, task, device, stop
        self.config, self.out = request.config, request.out
        self.writer = make_writer(task, request.license, locate_encoder(request.model), stop.check)
        self.variants: list[Variant] = []
        """Those that could be made."""
        self.failed: dict[str, str] = {}

    def events(self) -> Iterator[Event[Results]]:
        scores: dict[str, dict[str, float]] = {}
        asked = list_variants(self.config)
        for number, variant in enumerate(asked, start=1):
            name = f"{variant.name} ({number} of {len(asked)})"
            yield Note(name, "strong")
            yield Progress(name, 0, 0)
            yield from self._try(variant)
            if variant.name in self.failed:
                yield Note(f"{variant.name} failed: {self.failed[variant.name]}", "error")
                continue
            self.variants.append(variant)
            scores[variant.name] = self._score(variant)
            score = f"{self.task.metric.replace('_', ' ')} {scores[variant.name]['value']:.4f}"
            yield Note(f"{variant.name}: {score}", "good")
        yield Progress("measuring", 0, 1, line="measuring")
        points = self._measure(scores)
        picked = self._pick(points)
        results = self._describe(points, scores[BASELINE], picked)
        write_json(self.out / RESULTS, results)
        draw_tradeoff(self.out, results)
        write_report(self.out, results)
        if picked is not None:
            self._export(picked)
        elif self._asked != (None, None):
            # What was picked before is not what is asked for now.
            shutil.rmtree(self.out / "export", ignore_errors=True)
        yield Result(results)

    def _try(self, variant: Variant) -> Iterator[Update]:
        if variant.origin in self.failed:
            self.failed[variant.name] = f"is made from {variant.origin}, which failed"
            return
        try:
            if not self._is_there(variant):
                yield from self._make(variant)
        except (InputError, AnswersDiffer, TrainingDiverged) as error:
            if variant.name == BASELINE:
                raise
            # Without the folder that it begins with: nobody will find it.
            self.failed[variant.name] = str(error).partition(": ")[2]

    def _folder_of(self, name: str) -> Path:
        return self.out / "variants" / name

    def _is_there(self, variant: Variant) -> bool:
        folder = self._folder_of(variant.name)
        if not (folder / MANIFEST).is_file():
            return False
        verify_folder(folder, "delete this variant's folder, and the same command makes it again")
        if not has_metadata(folder):
            return False
        if self.request.license:
            relicense(folder, self.writer.license)
        return True

    def _make(self, variant: Variant) -> Iterator[Update]:
        folder = self._folder_of(variant.name)
        # Its score may be of one that was deleted.
        self._score_path(variant).unlink(missing_ok=True)
        if variant.graph is not None:
            samples = self.task.list_samples(self.config.calibration_rows)
            write_graph_variant(self._folder_of(variant.origin), folder, variant.graph, samples, self.writer)
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
        path = self.out / _IMPORTANCE
        if path.is_file():
            stored = read_json(path, "delete it, and the same command measures it again")
            return Importance(*([np.array(of) for of in stored[name]] for name in ("heads", "neurons")))
        of = self.config.importance
        total = min(of.rows, len(self.task.lengths))
        steps = measure_importance(self.task, self.task.network, of.rows, of.batch_size, self.stop.check)
        while True:
            try:
                done, phase = next(steps), "importance of heads and neurons"
                yield Progress(phase, done, total, line=phase if done in (0, total) else "")
            except StopIteration as end:
                found: Importance = end.value
                break
        write_json(path, {name: [part.tolist() for part in getattr(found, name)] for name in ("heads", "neurons")})
        return found

    def _load(self, name: str) -> Network:
        network = load_any(self._folder_of(name)).to(self.device)
        assert isinstance(network, Discriminator | Tuned)
        return network

    def _score_path(self, variant: Variant) -> Path:
        return self.out / "scores" / f"{variant.name}.json"

    def _score(self, variant: Variant) -> dict[str, float]:
        """Examples are drawn again for the baseline alone: only its deviation counts."""
        path = self._score_path(variant)
        draws = self.config.measure.bootstrap if variant.name == BASELINE else 0
        remedy = "delete it, and the same command scores the variant again"
        if not path.is_file() or read_json(path, remedy).get("draws") != draws:
            write_json(path, asdict(self.task.score(self._load(variant.name), draws)))
        score: dict[str, float] = read_json(path, remedy)
        return score

    def _measure(self, scores: dict[str, dict[str, float]]) -> list[TradeoffPoint]:
        networks = {variant.name: self._load(variant.name) for variant in self.variants}
        # A graph has the numbers of what it was made from, but not as parameters.
        origins = {variant.name: variant.origin if variant.graph else variant.name for variant in self.variants}
        inputs = {size: self.task.inputs(size) for size in _BATCHES}
        of = self.config.measure
        times = time_networks(networks, inputs, of.rounds, self.stop.check)
        measured = [
            VariantMeasurement(
                name=name,
                bytes=_count_bytes(self._folder_of(name)),
                parameters=_count_parameters(networks[origins[name]]),
                milliseconds=times[name],
                score=scores[name]["value"],
                kept=_count_kept(networks[name].config),
            )
            for name in networks
        ]
        return weigh(measured, self._find_floor(scores[BASELINE]), of.speedup_batch)

    def _describe(self, points: Sequence[TradeoffPoint], score: dict[str, float], picked: str | None) -> Results:
        return {
            "model": str(self.request.model),
            "data": str(self.request.data),
            "metric": self.task.metric,
            "baseline": BASELINE,
            "examples": int(score["count"]),
            "speedup_batch": self.config.measure.speedup_batch,
            "tokens": {str(size): int(self.task.inputs(size)[0].shape[1]) for size in _BATCHES},
            "threads": torch.get_num_threads(),
            "floor": asdict(self._find_floor(score)),
            "failed": self.failed,
            "variants": [_as_record(asdict(point)) for point in points],
            "picked": picked,
            "asked": dict(zip(("target_speedup", "max_loss"), self._asked, strict=True)),
            "notes": list(self.task.notes),
        }

    def _find_floor(self, score: dict[str, float]) -> NoiseFloor:
        of_seeds = self.task.seed_deviation
        deviation = score["deviation"] if of_seeds is None else of_seeds
        of_what = "examples drawn again" if of_seeds is None else "the seeds of the run"
        # Where examples are counted, one more or less is the smallest difference that there is.
        least = 1 / score["count"] if self.task.metric in _COUNTED else 0.0
        if deviation < least:
            return NoiseFloor(100 * least, "the weight of one example")
        return NoiseFloor(100 * deviation, f"the standard deviation of the score over {of_what}")

    @property
    def _asked(self) -> tuple[float | None, float | None]:
        return self.request.target_speedup, self.request.max_loss

    def _pick(self, points: Sequence[TradeoffPoint]) -> str | None:
        """What is asked for now; what was picked before, where nothing is asked for."""
        if self._asked != (None, None):
            found = pick(points, *self._asked)
            return found.name if found else None
        before = read_json(self.out / RESULTS).get("picked") if (self.out / RESULTS).is_file() else None
        return before if before in {point.name for point in points} else None

    def _export(self, name: str) -> None:
        """So that DIR itself is a MODEL, with its generator where it has one."""
        copy_model(self._folder_of(name), self.out / "export" / self.task.role)
        if not isinstance(self.task.network, Tuned):
            generator = find_generator(self.request.model, self.request.generator)
            copy_generator(generator, self.out / "export" / "generator", self.request.license)


def _as_record(point: Results) -> Results:
    """With keys that JSON has too."""
    return {
        name: {str(key): of for key, of in value.items()} if isinstance(value, dict) else value
        for name, value in point.items()
    }


def _count_bytes(folder: Path) -> int:
    """Of the weights: the tokenizer beside them is the same for all."""
    return sum((folder / name).stat().st_size for name in (WEIGHTS, GRAPH) if (folder / name).is_file())


def _count_parameters(network: Network) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _count_kept(config: EncoderConfig) -> KeptParts:
    shapes = config.layer_shapes
    return KeptParts(len(shapes), sum(of.num_heads for of in shapes), sum(of.feedforward_size for of in shapes))
