"""A model in the form that others can use, tried before it is written: Hugging Face's, ONNX, or ONNX in 8 bits.

MODEL -> DIR/discriminator, DIR/generator or DIR/model, each with tokenizer, card, license and hashes
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from pydantic import Field

from electralab.artifacts import new_folder, read_json, write_json, write_manifest
from electralab.config import Settings
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError, Stopped, UsageError
from electralab.evaluation.heldout import read_rows
from electralab.events import Event, Note, Result
from electralab.exporting.fidelity import TOLERANCE, compare_networks, require_equal
from electralab.exporting.metadata import find_license, read_license, write_metadata
from electralab.exporting.onnx_graphs import Activations, Exportable, quantize_folder, require_onnx, write_graph
from electralab.exporting.samples import Sample, pair_some, sample_rows, space_pairs
from electralab.finetuning.task_model import TASK_FILE as TASK
from electralab.finetuning.task_model import load_task_config
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import (
    Role,
    Storage,
    has_untrained_segments,
    load_any,
    locate_networks,
    outputs_energies,
    read_config,
    save_network,
    save_task_model,
)
from electralab.model.folders.hf_config import (
    CONFIG,
    LABELS,
    OBJECTIVE,
    export_encoder_config,
    export_labels,
    export_task_config,
    is_expressible,
    task_class_name,
)
from electralab.model.folders.native_format import GRAPH, OnnxModel, export_own_config, network_name
from electralab.model.task_model import TaskModel
from electralab.model.weight_transfer import pad
from electralab.records.export import ExportedNetwork, ExportPlan, ExportRecord, ExportResult, ExportSource, Fidelity
from electralab.stopping import StopSignal
from electralab.tokens.batches import make_batch
from electralab.tokens.tokenizer import Tokenizer

Format = Literal["hf", "onnx", "onnx-int8"]


class ExportConfig(Settings):
    activations: Activations = "dynamic"
    """Of onnx-int8: their ranges are found in every call, or once on the rows of --data."""
    storage: Storage = "fp32"
    """Of hf: what the weights are stored in; fp16 and bf16 halve the folder, and are computed with in 32 bits here."""
    rows: int = Field(128, ge=1)
    """The most rows of --data to calibrate with and to try the result on."""
    tolerance: float = Field(TOLERANCE, gt=0)
    """How far a logit of weights or a graph in 32 bits may be from the model's."""
    reading: ReadingConfig = ReadingConfig()
    """How text is found in --data."""


@dataclass(frozen=True, slots=True)
class SourceNetwork:
    """One network of the model with all that goes along."""

    folder: Path
    role: Role
    network: Exportable
    written: Exportable
    """What is written: the network itself, or, where others know only layers that are all alike, padded with zeros."""
    tokenizer: Tokenizer

    @property
    def kind(self) -> Literal["discriminator", "generator", "tuned"]:
        if isinstance(self.network, Discriminator):
            return "discriminator"
        return "tuned" if isinstance(self.network, TaskModel) else "generator"

    @property
    def special_ids(self) -> dict[str, int]:
        special = self.tokenizer.special
        return {"pad_id": special.pad, "cls_id": special.cls, "sep_id": special.sep}


def export_model(
    model: Path, out: Path, form: Format, config: ExportConfig, *, data: Path | None, license: str, stop: StopSignal
) -> Iterator[Event[ExportResult]]:
    """One network after the other; the folder appears when all of them are whole."""
    yield Note("tracing and trying the networks")
    _check(out, form, config, data)
    # Read here only to refuse a wrong name before the work.
    read_license(license)
    sources, left_out = _read_sources(model, form)
    rows = [_read_samples(source, config, data) for source in sources]
    networks: dict[str, ExportedNetwork] = {}
    try:
        with new_folder(out, kind="export", form=form) as temporary:
            for source, samples in zip(sources, rows, strict=True):
                stop.check()
                folder = temporary / source.role
                fidelity = _export(source, folder, form, config, samples, license, stop)
                size = sum(path.stat().st_size for path in folder.iterdir())
                networks[source.role] = ExportedNetwork(
                    role=source.role, bytes=size, fidelity=fidelity, note=left_out, words=fidelity.words
                )
                off = fidelity.largest_difference
                yield Note(f"{source.role}: {size / 1e6:.1f} MB, answers within {off:.2g} of the model's")
                if left_out:
                    yield Note(left_out)
    except Stopped:
        raise Stopped(stop.number, f"{out} was not written, the same command begins anew") from None
    yield Result(ExportResult(out=str(out), format=form, networks=networks))


def plan_export(
    model: Path, out: Path, form: Format, config: ExportConfig, *, data: Path | None, license: str
) -> ExportPlan:
    _check(out, form, config, data)
    sources, left_out = _read_sources(model, form)
    licenses = sorted({find_license(license, source.folder).name for source in sources})
    return ExportPlan(
        out=str(out),
        format=form,
        license=", ".join(licenses),
        data=str(data or "samples"),
        **({"left_out": left_out} if left_out else {}),
        networks={source.role: ExportSource(origin=str(source.folder), kind=source.kind) for source in sources},
        settings=config.model_dump(mode="json"),
    )


def _check(out: Path, form: Format, config: ExportConfig, data: Path | None) -> None:
    """What would otherwise be refused after the work."""
    if form not in get_args(Format):
        raise UsageError(f"--format: no format named {form!r}; known are {', '.join(get_args(Format))}")
    if form != "hf":
        require_onnx()
    if form != "hf" and config.storage != "fp32":
        raise UsageError(f"--storage {config.storage}: belongs to the format hf, not to {form}; leave it out")
    if form != "onnx-int8" and config.activations != "dynamic":
        raise UsageError(
            f"--activations {config.activations}: belongs to the format onnx-int8, not to {form}; leave it out"
        )
    if form == "onnx-int8" and config.activations == "static" and data is None:
        raise UsageError("--activations static: is calibrated on text; give some with --data")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not empty; choose another --out")


class _Inexpressible(InputError):
    """A network that the asked form cannot express."""


def _read_sources(model: Path, form: Format) -> tuple[list[SourceNetwork], str]:
    """The networks of the model, and what is left out: a generator that has no such form does not hold up the other."""
    sources, left_out = [], ""
    folders = locate_networks(model)
    for folder in folders:
        try:
            sources.append(_read_source(folder, form))
        except _Inexpressible as error:
            if len(folders) > 1 and folder.name == "generator":
                left_out = f"left out: {error}"
                continue
            beside = folder.parent / "discriminator"
            has_other = folder.name == "generator" and (beside / CONFIG).is_file()
            raise InputError(f"{error}{f'; {beside} can be exported' if has_other else ''}") from None
    return sources, left_out


def _read_source(folder: Path, form: Format) -> SourceNetwork:
    network = load_any(folder)
    if isinstance(network, OnnxModel):
        raise InputError(f"{folder}: is a graph already; give the model that it was exported from")
    if not isinstance(network, Exportable):
        kind = network_name(network).lower()
        raise _Inexpressible(
            f"{folder}: holds a {kind}, which neither transformers nor a graph expresses; use it as it is"
        )
    written = pad(network) if form == "hf" else network
    if form == "hf" and isinstance(written, TaskModel) and not task_class_name(written):
        remedy = "tune it with --head huggingface, or export it as onnx"
        raise InputError(f"{folder}: no class of transformers has this network with its head; {remedy}")
    if form == "hf" and not isinstance(written, TaskModel) and not is_expressible(written):
        raise _Inexpressible(f"{folder}: no class of transformers expresses this network; export it as onnx")
    by_class: Role = "discriminator" if isinstance(network, Discriminator) else "model"
    role = cast("Role", folder.name) if folder.name in get_args(Role) else by_class
    return SourceNetwork(folder, role, network, written, Tokenizer.load(folder))


def _read_samples(source: SourceNetwork, config: ExportConfig, data: Path | None) -> list[Sample]:
    """The user's rows first, as pairs where the network is asked about pairs; then samples of our own."""
    tokenizer, network = source.tokenizer, source.network
    samples = sample_rows(tokenizer, network.config)
    if data is None:
        return samples
    rows = read_rows(data, tokenizer, network.config.sequence_length, config.rows, config.reading)
    batch = make_batch(rows.ids, tokenizer, is_pairs=rows.is_pairs)
    lengths = [int(np.flatnonzero(~is_pad)[-1]) + 1 for is_pad in batch.is_pad.numpy()]
    given = [
        Sample(ids[:length], segments[:length])
        for ids, segments, length in zip(rows.ids, batch.segment_ids.numpy(), lengths, strict=True)
    ]
    if not rows.is_pairs:
        # All rows of a text become pairs where two texts are asked for, none where one is.
        every = space_pairs(network.config)
        if isinstance(network, TaskModel):
            num_texts = load_task_config(source.folder, network, tokenizer).num_texts
            every = {1: 0, 2: 1}.get(num_texts, every)
        given = pair_some(given, every, tokenizer, network.config)
    return given + samples


def _export(
    source: SourceNetwork,
    folder: Path,
    form: Format,
    config: ExportConfig,
    samples: Sequence[Sample],
    license: str,
    stop: StopSignal,
) -> Fidelity:
    def compare() -> Fidelity:
        exported, special = load_any(folder), source.tokenizer.special
        assert isinstance(exported, Exportable)
        return compare_networks(
            source.network,
            exported,
            samples,
            special.pad,
            special.mask,
            outputs_energies=outputs_energies(source.folder),
            check=stop.check,
        )

    folder.mkdir()
    if form == "hf":
        _save_weights(source, folder, config.storage)
    else:
        write_json(folder / CONFIG, _graph_config(source))
        write_graph(source.network, folder / GRAPH)
    encoder = source.network.config
    source.tokenizer.save(folder, max_length=encoder.sequence_length, has_segments=encoder.backbone == "electra")
    if (source.folder / TASK).is_file():
        write_json(folder / TASK, read_json(source.folder / TASK))
    fidelity = compare()
    # Weights in 16 bits are meant to differ; how far is written into export.json.
    if config.storage == "fp32":
        require_equal(fidelity, config.tolerance, str(source.folder))
    if form == "onnx-int8":
        quantize_folder(folder, config.activations, samples[: config.rows])
        fidelity = compare()
    choice: dict[str, str] = {"activations": config.activations} if form == "onnx-int8" else {}
    choice |= {"storage": config.storage} if form == "hf" else {}
    record = ExportRecord.compared(fidelity, format=form, network=source.role, kind=source.kind, **choice)
    write_metadata(folder, record, find_license(license, source.folder))
    write_manifest(folder, kind="model")
    return fidelity


def _save_weights(source: SourceNetwork, folder: Path, storage: Storage) -> None:
    if isinstance(source.written, TaskModel):
        save_task_model(folder, source.written, **source.special_ids, storage=storage)
        return
    save_network(
        folder,
        source.written,
        **source.special_ids,
        objective=str(read_config(source.folder).get(OBJECTIVE, "")),
        has_untrained_segments=has_untrained_segments(source.folder),
        storage=storage,
    )


def _graph_config(source: SourceNetwork) -> dict[str, Any]:
    """config.json of a folder with a graph."""
    network = source.network
    if isinstance(network, TaskModel):
        return export_own_config(network, export_task_config(network, **source.special_ids))
    objective = read_config(source.folder).get(OBJECTIVE)
    has_classes = isinstance(network, Discriminator) and not outputs_energies(source.folder)
    labels = export_labels(LABELS.values()) if has_classes else {}
    config = export_own_config(network, export_encoder_config(network.config, **source.special_ids) | labels)
    return config | ({OBJECTIVE: objective} if objective else {})
