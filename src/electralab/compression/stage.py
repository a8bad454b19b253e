"""The stage: a model and data -> a folder of its variants, what each costs and saves, and the one that was asked for.

CompressRequest -> CompressEvent...
"""

import shutil
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electralab.artifacts import MANIFEST, lock_folder, new_folder, read_json, verify_folder, write_file, write_json
from electralab.compression.exam import Exam, Network
from electralab.compression.graphs import write_graph_variant
from electralab.compression.importance import Importance, choose_kept, measure_importance
from electralab.compression.opening import find_generator, open_exam
from electralab.compression.picture import draw_tradeoff
from electralab.compression.recovery import recover
from electralab.compression.report import RESULTS, write_report
from electralab.compression.settings import CompressConfig
from electralab.compression.timing import time_networks
from electralab.compression.tradeoff import BASELINE, Floor, Measured, Point, pick, weigh
from electralab.compression.variants import Variant, list_variants
from electralab.config import to_toml
from electralab.errors import DamagedArtifact, IdentityMismatch, UsageError
from electralab.finetuning.identity import identify_model
from electralab.model.electra import Discriminator
from electralab.model.encoder import EncoderConfig
from electralab.model.folder import WEIGHTS, load_any, locate_encoder
from electralab.model.graph import GRAPH
from electralab.model.pruning import prune
from electralab.model.tuned import Tuned
from electralab.runtime import choose_device, default_threads, describe_environment, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.training.identity import ANOTHER, require_same_settings, require_same_threads
from electralab.training.session import Event, Warned

_IDENTITY = "compress.json"
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


@dataclass(frozen=True, slots=True)
class VariantStarted:
    name: str
    number: int
    count: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """Of work that is not training."""

    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class VariantScored:
    name: str
    metric: str
    score: float


@dataclass(frozen=True, slots=True)
class CompressFinished:
    results: Results


CompressEvent = Event | VariantStarted | Advanced | VariantScored | CompressFinished


def compress(request: CompressRequest, stop: StopSignal) -> Iterator[CompressEvent]:
    """Make and measure every variant. The same request again goes on where the last one stopped; more can be added."""
    out, config = request.out, request.config
    refuse_foreign(out)
    device = choose_device(config.device)
    exam = open_exam(request.model, request.data, config, request.generator, request.task, device, stop)
    check_plan(exam.network.config, config)
    with lock_folder(out):
        stored = _read_identity(out)
        threads = request.threads or (stored["threads"] if stored else default_threads())
        use_exact_arithmetic(threads, device)
        identity = _identify(request, exam, threads)
        if stored:
            _require_same(out, stored, identity)
        else:
            write_json(out / _IDENTITY, identity)
        write_file(out / "config.toml", to_toml(config))
        write_json(out / "environment.json", describe_environment(threads))
        for note in exam.notes:
            yield Warned(note)
        yield from _Work(request, exam, device, stop).events()


def plan_compress(request: CompressRequest) -> Results:
    """What would be made, of what; nothing is written."""
    refuse_foreign(request.out)
    exam = open_exam(
        request.model,
        request.data,
        request.config,
        request.generator,
        request.task,
        choose_device(request.config.device),
        StopSignal(),
    )
    check_plan(exam.network.config, request.config)
    return {
        "model": str(request.model),
        "parameters": _count_parameters(exam.network),
        "metric": exam.metric,
        "training_rows": len(exam.lengths),
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


def _identify(request: CompressRequest, exam: Exam, threads: int) -> dict[str, Any]:
    settings = {name: value for name, value in request.config.model_dump(mode="json").items() if name not in _FREE}
    rival = [] if isinstance(exam.network, Tuned) else [find_generator(request.model, request.generator)]
    model = identify_model(locate_encoder(request.model), *rival)
    return {"kind": "compress", "model": model, "data": exam.identity, "settings": settings, "threads": threads}


def _read_identity(out: Path) -> dict[str, Any]:
    stored = read_json(out / _IDENTITY) if (out / _IDENTITY).is_file() else {}
    if stored and (not isinstance(stored, dict) or stored.keys() != {"kind", "model", "data", "settings", "threads"}):
        raise DamagedArtifact(f"{out / _IDENTITY}: does not say what was compressed; restore it or {ANOTHER}")
    return dict(stored)


def _require_same(out: Path, stored: dict[str, Any], asked: dict[str, Any]) -> None:
    for what in ("model", "data"):
        if stored[what] != asked[what]:
            raise IdentityMismatch(f"{out}: holds variants of another {what}; give the same one, or {ANOTHER}")
    require_same_settings(out, stored["settings"], asked["settings"])
    require_same_threads(out, stored["threads"], asked["threads"])


class _Work:
    def __init__(self, request: CompressRequest, exam: Exam, device: torch.device, stop: StopSignal) -> None:
        self.request, self.exam, self.device, self.stop = request, exam, device, stop
        self.config, self.out = request.config, request.out
        self.variants = list_variants(request.config)

    def events(self) -> Iterator[CompressEvent]:
        scores: dict[str, dict[str, float]] = {}
        for number, variant in enumerate(self.variants, start=1):
            yield VariantStarted(variant.name, number, len(self.variants))
            if not self._is_there(variant):
                yield from self._make(variant)
            scores[variant.name] = self._score(variant)
            yield VariantScored(variant.name, self.exam.metric, scores[variant.name]["value"])
        yield Advanced("measuring", 0, 1)
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
        yield CompressFinished(results)

    def _folder_of(self, name: str) -> Path:
        return self.out / "variants" / name

    def _is_there(self, variant: Variant) -> bool:
        folder = self._folder_of(variant.name)
        if not (folder / MANIFEST).is_file():
            return False
        verify_folder(folder, "delete this variant's folder, and the same command makes it again")
        return True

    def _make(self, variant: Variant) -> Iterator[CompressEvent]:
        folder = self._folder_of(variant.name)
        # Its score may be of one that was deleted.
        self._score_path(variant).unlink(missing_ok=True)
        if variant.graph is not None:
            rows = self.exam.list_rows(self.config.calibration_rows)
            write_graph_variant(self._folder_of(variant.origin), folder, variant.graph, rows)
            return
        if variant.is_recovered:
            network = self._load(variant.origin)
            run_dir = self.out / "recovery" / variant.name
            yield from recover(run_dir, self.exam, network, self.config.recovery, self.config.seed, self.stop)
        elif variant.is_pruned:
            importance = yield from self._measure_importance()
            network = prune(self.exam.network, choose_kept(importance, variant.share, variant.drop_layers))
        else:
            network = self.exam.network
        self.exam.save(folder, network, variant.storage)

    def _measure_importance(self) -> Generator[CompressEvent, None, Importance]:
        """Once: every share is taken from the same."""
        path = self.out / _IMPORTANCE
        if path.is_file():
            stored = read_json(path, "delete it, and the same command measures it again")
            return Importance(*([np.array(of) for of in stored[name]] for name in ("heads", "neurons")))
        of = self.config.importance
        total = min(of.rows, len(self.exam.lengths))
        steps = measure_importance(self.exam, self.exam.network, of.rows, of.batch_size, self.stop.check)
        while True:
            try:
                yield Advanced("importance of heads and neurons", next(steps), total)
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
        path = self._score_path(variant)
        if not path.is_file():
            write_json(path, asdict(self.exam.score(self._load(variant.name))))
        score: dict[str, float] = read_json(path, "delete it, and the same command scores the variant again")
        return score

    def _measure(self, scores: dict[str, dict[str, float]]) -> list[Point]:
        networks = {variant.name: self._load(variant.name) for variant in self.variants}
        # A graph has the numbers of what it was made from, but not as parameters.
        origins = {variant.name: variant.origin if variant.graph else variant.name for variant in self.variants}
        inputs = {size: self.exam.inputs(size) for size in _BATCHES}
        of = self.config.measure
        times = time_networks(networks, inputs, of.rounds, self.stop.check)
        measured = [
            Measured(
                name=name,
                bytes=_count_bytes(self._folder_of(name)),
                parameters=_count_parameters(networks[origins[name]]),
                milliseconds=times[name],
                score=scores[name]["value"],
            )
            for name in networks
        ]
        return weigh(measured, self._find_floor(scores[BASELINE]), of.speedup_batch)

    def _describe(self, points: Sequence[Point], score: dict[str, float], picked: str | None) -> Results:
        return {
            "model": str(self.request.model),
            "data": str(self.request.data),
            "metric": self.exam.metric,
            "baseline": BASELINE,
            "examples": int(score["count"]),
            "speedup_batch": self.config.measure.speedup_batch,
            "tokens": {str(size): int(self.exam.inputs(size)[0].shape[1]) for size in _BATCHES},
            "threads": torch.get_num_threads(),
            "floor": asdict(self._find_floor(score)),
            "variants": [_as_record(asdict(point)) for point in points],
            "picked": picked,
            "asked": dict(zip(("target_speedup", "max_loss"), self._asked, strict=True)),
            "notes": list(self.exam.notes),
        }

    def _find_floor(self, score: dict[str, float]) -> Floor:
        of_seeds = self.exam.seed_deviation
        deviation = score["deviation"] if of_seeds is None else of_seeds
        of_what = "examples drawn again" if of_seeds is None else "the seeds of the run"
        # Where examples are counted, one more or less is the smallest difference that there is.
        least = 1 / score["count"] if self.exam.metric in _COUNTED else 0.0
        if deviation < least:
            return Floor(100 * least, "the weight of one example")
        return Floor(100 * deviation, f"the standard deviation of the score over {of_what}")

    @property
    def _asked(self) -> tuple[float | None, float | None]:
        return self.request.target_speedup, self.request.max_loss

    def _pick(self, points: Sequence[Point]) -> str | None:
        """What is asked for now; what was picked before, where nothing is asked for."""
        if self._asked != (None, None):
            found = pick(points, *self._asked)
            return found.name if found else None
        before = read_json(self.out / RESULTS).get("picked") if (self.out / RESULTS).is_file() else None
        return before if before in {point.name for point in points} else None

    def _export(self, name: str) -> None:
        """So that DIR itself is a MODEL, with its generator where it has one."""
        _copy(self._folder_of(name), self.out / "export" / self.exam.role)
        if not isinstance(self.exam.network, Tuned):
            _copy(find_generator(self.request.model, self.request.generator), self.out / "export" / "generator")


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


def _copy(source: Path, target: Path) -> None:
    with new_folder(target, kind="model") as temporary:
        for file in source.iterdir():
            if file.is_file() and file.name != MANIFEST:
                shutil.copyfile(file, temporary / file.name)
