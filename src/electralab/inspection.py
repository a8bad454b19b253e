"""Any artifact -> a record that says what it is: what `electra show` prints, and `--json` gives as it is.

path -> View; prepared rows and a run -> the rows at work
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, JsonValue

from electralab.artifacts import MANIFEST, FileHash, read_json, verify_below, verify_folder
from electralab.errors import InputError
from electralab.records.compression import Tradeoff
from electralab.records.findings import Analysis
from electralab.records.fitted import FitResults, FitRun, FittedModel
from electralab.records.kinds import KNOWN, MODELS, ROLES, explain_unknown, find_kind, list_models
from electralab.records.prepared import PreparedReport
from electralab.records.record import FileRecord, Record
from electralab.records.run import (
    CHECKPOINTS,
    METRICS,
    CheckpointState,
    ExampleRow,
    PretrainResults,
    RunFingerprint,
    Snapshot,
    StepRecord,
    read_metrics,
)
from electralab.records.study import StudyResults
from electralab.records.tuned import GlueResults, SeedResults, TunedResults, TunedRun
from electralab.training.checkpoint import list_checkpoints

if TYPE_CHECKING:  # a folder is told apart without torch
    import numpy as np

    from electralab.objective.electra import ElectraOutput
    from electralab.tokens.shards import PreparedData

    Ids = np.ndarray[Any, np.dtype[np.int64]]

_EXAMPLE_ROWS = 8


class View(Record):
    """What is at a path."""

    kind: str
    path: str
    verified: tuple[str, ...] = ()
    """Files that have the hashes of their manifests; others are named too, since nobody can say that they are whole."""
    unverified: tuple[str, ...] = ()


class Nothing(Record):
    """Stands for results that are not there yet."""

    # It is written as {}: the key `results` is there for scripts in any case.


class MetricsView(View):
    records: tuple[StepRecord, ...]


class RunView(MetricsView):
    identity: RunFingerprint
    checkpoints: tuple[str, ...]
    results: PretrainResults | Nothing


class BundledView(View):
    """The models that come with the package, by their names."""

    models: dict[str, PretrainResults]


class SeedView(MetricsView):
    results: SeedResults | Nothing


class TunedView(View):
    identity: TunedRun
    records: dict[str, tuple[StepRecord, ...]]
    """By seed."""
    results: TunedResults | Nothing


class FitView(View):
    identity: FitRun
    results: FitResults | Nothing


class FittedView(View):
    model: FittedModel


class ResultsView(View):
    results: GlueResults | StudyResults | Tradeoff | Analysis | Nothing


class DataView(View):
    report: PreparedReport


class CheckpointView(View):
    state: CheckpointState
    files: dict[str, FileHash]
    settings: dict[str, JsonValue]
    """Of the run that it is of; empty where the checkpoint lies alone."""

    @property
    def num_bytes(self) -> int:
        return sum(file["bytes"] for file in self.files.values())


class CheckpointsView(View):
    checkpoints: tuple[CheckpointView, ...]


class SnapshotsView(View):
    snapshots: dict[str, Snapshot]


class EncoderFacts(Record):
    """The settings of an encoder; those that are printed have a name here."""

    model_config = ConfigDict(frozen=True, extra="allow")
    backbone: str
    num_layers: int
    hidden_size: int
    num_heads: int
    vocab_size: int
    sequence_length: int


class HeadFacts(Record):
    model_config = ConfigDict(frozen=True, extra="allow")
    kind: str
    labels: tuple[str, ...] = ()


class NetworkFacts(Record):
    network: str
    head: HeadFacts | None = None
    """Of a tuned model."""
    runtime: str = "torch"
    graph_bytes: int | None = None
    """The size of an ONNX graph, whose parameters are not counted."""
    parameters: int = 0
    encoder: EncoderFacts


class ModelView(View, NetworkFacts):
    pass


class NetworksView(View):
    """The folder above the networks of a run, of a snapshot of it, or of an export."""

    networks: dict[str, NetworkFacts]
    progress: Snapshot | None = None
    format: str = ""


class TokenizerView(View):
    vocab_size: int
    is_symbols: bool
    special_tokens: dict[str, str]


class RowView(View):
    row: int
    pieces: tuple[str, ...]
    text: str
    masked: tuple[str, ...] | None = None
    """As the generator sees it; None where no model was asked."""
    corrupted: tuple[str, ...] = ()
    is_replaced: tuple[bool, ...] = ()
    p_replaced: tuple[float, ...] = ()


def view(path: Path, *, row: int | None = None, model: Path | None = None) -> View:
    """What is at the path, after every file that has a hash was compared with it."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; give {KNOWN}")
    if row is not None or model is not None:
        return _view_row(path, row or 0, model)
    if path.name.endswith(".jsonl"):
        log = tuple(read_metrics(path))
        return MetricsView(kind="metrics", path=str(path), records=log, unverified=(path.name,))
    if not path.is_dir():
        raise InputError(f"{path}: is a file, and not a metrics.jsonl; give {KNOWN}")
    verification = verify_below(path, "restore the file, or make its folder again")
    files = {"verified": verification.verified, "unverified": verification.unverified}
    return _view_folder(path).model_copy(update=files)


def view_bundled() -> BundledView:
    """Every model of the package by the name that MODEL arguments take."""
    models = {name: PretrainResults.read(folder) for name, folder in list_models().items()}
    return BundledView(kind="models", path=str(MODELS), models=models)


def _view_folder(path: Path) -> View:
    kind = find_kind(path)
    if kind is None:
        if (path / GlueResults.FILE).is_file():
            read_json(path / GlueResults.FILE)  # a damaged file is named: it may be all that says what the folder is
        raise InputError(f"{path}: {explain_unknown(path)}")
    name, place = kind.name, str(path)

    def read_if_there(record: type[FileRecord]) -> FileRecord | Nothing:
        return record.read(path) if (path / record.FILE).is_file() else Nothing()

    match name:
        case "run" if (path / RunFingerprint.FILE).is_file():
            return RunView(
                kind=name,
                path=place,
                identity=RunFingerprint.read(path),
                checkpoints=tuple(map(str, list_checkpoints(path / CHECKPOINTS))),
                records=tuple(read_metrics(path / METRICS)),
                results=read_if_there(PretrainResults),
            )
        case "run":  # its run.json was lost, and only the log is left
            return MetricsView(kind="metrics", path=place, records=tuple(read_metrics(path / METRICS)))
        case "fine-tuning run":
            seeds = sorted(path.glob(f"seed-*/{METRICS}"), key=lambda file: (len(file.parent.name), file))
            records = {file.parent.name: tuple(read_metrics(file)) for file in seeds}
            identity, results = TunedRun.read(path), read_if_there(TunedResults)
            return TunedView(kind=name, path=place, identity=identity, records=records, results=results)
        case "fit":
            return FitView(kind=name, path=place, identity=FitRun.read(path), results=read_if_there(FitResults))
        case "fitted model":
            return FittedView(kind=name, path=place, model=FittedModel.read(path))
        case "seed":
            log = tuple(read_metrics(path / METRICS))
            return SeedView(kind=name, path=place, records=log, results=read_if_there(SeedResults))
        case "GLUE run" | "study" | "trade-off" | "analysis":
            records_of: dict[str, type[FileRecord]] = {"GLUE run": GlueResults, "study": StudyResults}
            records_of |= {"trade-off": Tradeoff, "analysis": Analysis}
            return ResultsView(kind=name, path=place, results=read_if_there(records_of[name]))
        case "data":
            return DataView(kind=name, path=place, report=PreparedReport.read(path))
        case "checkpoint":
            return _view_checkpoint(path)
        case "checkpoints":
            checkpoints = tuple(map(_view_checkpoint, list_checkpoints(path)))
            return CheckpointsView(kind=name, path=place, checkpoints=checkpoints)
        case "snapshots":
            folders = sorted(file.parent for file in path.glob(f"step-*/{Snapshot.FILE}"))
            snapshots = {folder.name: Snapshot.read(folder) for folder in folders}
            return SnapshotsView(kind=name, path=place, snapshots=snapshots)
        case "model":
            return ModelView(kind=name, path=place, **_view_network(path))
        case "networks" | "snapshot" | "export":
            roles = [role for role in ROLES if (path / role / "config.json").is_file()]
            networks = {role: NetworkFacts(**_view_network(path / role)) for role in roles}
            more: dict[str, object] = {}
            if name == "snapshot":
                more["progress"] = Snapshot.read(path)
            elif name == "export":
                more["format"] = read_json(path / MANIFEST)["form"]
            return NetworksView(kind=name, path=place, networks=networks, **more)
        case "tokenizer":
            # Imported where it is needed: what a run or a study is can be told without it.
            from electralab.tokens.tokenizer import Tokenizer

            tokenizer = Tokenizer.load(path)
            return TokenizerView(
                kind=name,
                path=place,
                vocab_size=tokenizer.vocab_size,
                is_symbols=tokenizer.is_symbols,
                special_tokens={role: tokenizer.token(index) for role, index in asdict(tokenizer.special).items()},
            )


def _view_checkpoint(path: Path) -> CheckpointView:
    run = path.parent.parent
    manifest = verify_folder(path, "restore the file, or delete this checkpoint and go on from the one before")
    return CheckpointView(
        kind="checkpoint",
        path=str(path),
        state=CheckpointState.read(path),
        files=manifest.files,
        settings=RunFingerprint.read(run).settings if (run / RunFingerprint.FILE).is_file() else {},
    )


def _view_network(path: Path) -> dict[str, Any]:
    """The fields of NetworkFacts: what a network has no value for is not written either."""
    from electralab.model.folders.folder import load_any
    from electralab.model.folders.native_format import GRAPH, OnnxModel, network_name
    from electralab.model.settings import EncoderConfig
    from electralab.model.task_model import TaskModel

    # A body without a head, as many published folders are, is shown too.
    network = load_any(path, takes_bare_encoder=True)
    assert isinstance(network.config, EncoderConfig)
    facts: dict[str, Any] = {"network": network_name(network).lower()}
    if isinstance(network, TaskModel):
        facts["head"] = HeadFacts.model_validate(network.head_config.model_dump(mode="json"))
    if isinstance(network, OnnxModel):
        facts |= {"runtime": "onnx", "graph_bytes": (path / GRAPH).stat().st_size}
    else:
        facts["parameters"] = sum(parameter.numel() for parameter in network.parameters())
    return facts | {"encoder": EncoderFacts.model_validate(network.config.model_dump(mode="json"))}


def _view_row(path: Path, row: int, model: Path | None) -> RowView:
    import numpy as np

    from electralab.tokens.shards import open_data

    data = open_data(path)
    if not 0 <= row < len(data.train):
        raise InputError(f"{path}: has no row {row}; its {len(data.train)} training rows are numbered from 0")
    ids = data.train.take(np.array([row]))

    def spell(row_ids: "Ids") -> tuple[str, ...]:
        return tuple(data.tokenizer.token(int(index)) for index in row_ids)

    judged: dict[str, tuple[object, ...]] = {}
    if model is not None:
        output = _corrupt_and_judge(data, ids, model)
        judged = {
            "masked": spell(output.masked.input_ids[0].numpy()),
            "corrupted": spell(output.corrupted.input_ids[0].numpy()),
            "is_replaced": tuple(output.corrupted.is_replaced[0].tolist()),
            "p_replaced": tuple(output.discriminator_logits[0].sigmoid().tolist()),
        }
    text = data.tokenizer.decode(ids[0])
    return RowView(kind="row", path=str(path), row=row, pieces=spell(ids[0]), text=text, **judged)


def example_rows(path: Path, model: Path) -> list[ExampleRow]:
    """A few rows that training does not see, where the data has such, hidden, guessed and judged."""
    import numpy as np

    from electralab.objective.metrics import describe_rows
    from electralab.tokens.shards import open_data

    data = open_data(path)
    rows = data.heldout if len(data.heldout) else data.train
    places = np.linspace(0, len(rows) - 1, min(_EXAMPLE_ROWS, len(rows))).astype(np.int64)
    described = describe_rows(_corrupt_and_judge(data, rows.take(places), model).examples(), data.tokenizer)
    return [ExampleRow.model_validate(row) for row in described]


def _corrupt_and_judge(data: "PreparedData", ids: "Ids", model: Path) -> "ElectraOutput":
    """Mask and corrupt rows as training does, and let the run's discriminator judge them."""
    import torch

    from electralab.model.electra import Discriminator, Electra, Generator, TwoTower
    from electralab.model.folders.folder import load_any, locate_model
    from electralab.objective.corruption import SamplingConfig, special_token_bias
    from electralab.objective.electra import electra_forward
    from electralab.objective.masking import MaskingConfig, mask_tokens, mask_vocabulary
    from electralab.randomness import Rng
    from electralab.tokens.batches import make_batch

    generator = load_any(locate_model(model, "generator"))
    discriminator = load_any(locate_model(model, "discriminator"))
    if not isinstance(generator, Generator | TwoTower) or not isinstance(discriminator, Discriminator):
        raise InputError(f"{model}: holds one network, and judging a masked row takes both; give a run folder")
    pair = Electra(generator, discriminator, "none").eval()
    if pair.discriminator.config.vocab_size != data.tokenizer.vocab_size:
        raise InputError(f"{model}: was trained with another vocabulary than that of {data.path}; give its own data")
    if pair.discriminator.config.sequence_length < data.sequence_length:
        raise InputError(f"{model}: was trained on shorter rows than those of {data.path}; give its own data")
    batch = make_batch(ids, data.tokenizer, is_pairs=data.packing == "pairs")
    config = MaskingConfig()
    masked = mask_tokens(batch, mask_vocabulary(data.tokenizer), config, config.mask_share, Rng(0, 0))
    with torch.no_grad():
        return electra_forward(pair, masked, special_token_bias(data.tokenizer, torch.device("cpu")), SamplingConfig())
