"""A model in the form that others can use, tried before it is written: Hugging Face's, ONNX, or ONNX in 8 bits.

MODEL -> DIR/discriminator, DIR/generator or DIR/model, each with tokenizer, card, license and hashes
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from pydantic import Field

from electralab.artifacts import new_folder, read_json, write_json, write_manifest
from electralab.config import Settings, SettingsTree
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError, Stopped, UsageError
from electralab.evaluation.heldout_rows import read_rows
from electralab.events import Event, Note, Result
from electralab.exporting.fidelity import TOLERANCE, Fidelity, compare_networks, require_equal
from electralab.exporting.metadata import License, find_license, read_license, write_metadata
from electralab.exporting.onnx_graphs import Exportable, require_onnx, write_graph
from electralab.exporting.quantisation import Activations, quantize_folder
from electralab.exporting.samples import Sample, pair_some, sample_rows, space_pairs
from electralab.finetuning.exports import CARD as TASK
from electralab.finetuning.exports import attach_card
from electralab.model.config_file import CONFIG
from electralab.model.electra import Discriminator
from electralab.model.folder import (
    Role,
    Storage,
    has_untrained_segments,
    load_any,
    locate_networks,
    read_config,
    save_network,
    save_tuned,
    says_energies,
)
from electralab.model.graph import GRAPH, AnyGraph
from electralab.model.hf_config import LABELS, OBJECTIVE, export_encoder_config, export_labels
from electralab.model.hf_tuned import export_tuned_config, tuned_class_name
from electralab.model.own_folder import export_own_config, is_expressible
from electralab.model.pruning import pad
from electralab.model.tuned import Tuned
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
class Source:
    """One network of the model with all that goes along."""

    folder: Path
    role: Role
    network: Exportable
    written: Exportable
    """What is written: the network itself, or, where others know only layers that are all alike, padded with zeros."""
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class Exported:
    role: Role
    bytes: int
    fidelity: Fidelity
    note: str = ""
    """What was left out beside it, and why."""


def export_model(
    model: Path, out: Path, form: Format, config: ExportConfig, *, data: Path | None, license: str, stop: StopSignal
) -> Iterator[Event[list[Exported]]]:
    """One network after the other; the folder appears when all of them are whole."""
    yield Note("tracing and trying the networks")
    _check(out, form, config, data)
    read_license(license)
    sources, left_out = _read_sources(model, form)
    texts = [_read_texts(source, config, data) for source in sources]
    done: list[Exported] = []
    with _undone(out, stop), new_folder(out, kind="export", form=form) as temporary:
        for source, samples in zip(sources, texts, strict=True):
            stop.check()
            exported = _export(
                source, temporary / source.role, form, config, samples, find_license(license, source.folder), stop
            )
            done.append(replace(exported, note=left_out))
            off = exported.fidelity.largest_difference
            yield Note(f"{exported.role}: {exported.bytes / 1e6:.1f} MB, answers within {off:.2g} of the model's")
            if left_out:
                yield Note(left_out)
    yield Result(done)


@contextmanager
def _undone(out: Path, stop: StopSignal) -> Iterator[None]:
    """Stopped in here, nothing of the folder is there."""
    try:
        yield
    except Stopped:
        raise Stopped(stop.number, f"{out} was not written, the same command begins anew") from None


def plan_export(
    model: Path, out: Path, form: Format, config: ExportConfig, *, data: Path | None, license: str
) -> SettingsTree:
    _check(out, form, config, data)
    sources, left_out = _read_sources(model, form)
    networks = {source.role: {"from": str(source.folder), "kind": _name_kind(source.network)} for source in sources}
    terms = sorted({find_license(license, source.folder).name for source in sources})
    told = {"out": str(out), "format": form, "license": ", ".join(terms), "data": str(data or "samples")}
    told |= {"left_out": left_out} if left_out else {}
    return {**told, "networks": networks, "settings": config.model_dump(mode="json")}


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


class _NoSuchForm(InputError):
    """A network that the asked form cannot express."""


def _read_sources(model: Path, form: Format) -> tuple[list[Source], str]:
    """The networks of the model, and what is left out: a generator that has no such form does not hold up the other."""
    sources, left_out = [], ""
    folders = locate_networks(model)
    for folder in folders:
        try:
            sources.append(_read_source(folder, form))
        except _NoSuchForm as error:
            if len(folders) > 1 and folder.name == "generator":
                left_out = f"left out: {error}"
                continue
            beside = folder.parent / "discriminator"
            has_other = folder.name == "generator" and (beside / CONFIG).is_file()
            raise InputError(f"{error}{f'; {beside} can be exported' if has_other else ''}") from None
    return sources, left_out


def _read_source(folder: Path, form: Format) -> Source:
    network = load_any(folder)
    if isinstance(network, AnyGraph):
        raise InputError(f"{folder}: is a graph already; give the model that it was exported from")
    if not isinstance(network, Exportable):
        kind = type(network).__name__.lower()
        raise _NoSuchForm(
            f"{folder}: holds a {kind}, which neither transformers nor a graph expresses; use it as it is"
        )
    written = pad(network) if form == "hf" else network
    if form == "hf":
        _require_class(folder, written)
    by_class: Role = "discriminator" if isinstance(network, Discriminator) else "model"
    role = cast("Role", folder.name) if folder.name in get_args(Role) else by_class
    return Source(folder, role, network, written, Tokenizer.load(folder))


def _require_class(folder: Path, network: Exportable) -> None:
    if not isinstance(network, Tuned):
        if not is_expressible(network):
            raise _NoSuchForm(f"{folder}: no class of transformers expresses this network; export it as onnx")
    elif not tuned_class_name(network):
        remedy = "tune it with --head huggingface, or export it as onnx"
        raise InputError(f"{folder}: no class of transformers has this network with its head; {remedy}")


def _read_texts(source: Source, config: ExportConfig, data: Path | None) -> list[Sample]:
    """The user's rows first, as pairs where the network is asked about pairs; then samples of our own."""
    tokenizer, encoder = source.tokenizer, source.network.config
    samples = sample_rows(tokenizer, encoder)
    if data is None:
        return samples
    rows = read_rows(data, tokenizer, encoder.sequence_length, config.rows, config.reading)
    batch = make_batch(rows.ids, tokenizer, is_pairs=rows.is_pairs)
    lengths = [int(np.flatnonzero(~is_pad)[-1]) + 1 for is_pad in batch.is_pad.numpy()]
    given = [
        Sample(ids[:length], segments[:length])
        for ids, segments, length in zip(rows.ids, batch.segment_ids.numpy(), lengths, strict=True)
    ]
    if not rows.is_pairs:
        given = pair_some(given, _space_pairs(source), tokenizer, encoder)
    return given + samples


def _space_pairs(source: Source) -> int:
    """All rows of a text become pairs where two texts are asked for, none where one is."""
    network = source.network
    unknown = space_pairs(network.config)
    if not isinstance(network, Tuned):
        return unknown
    num_texts = attach_card(source.folder, network, source.tokenizer).card.num_texts
    num_texts = {"qa": 2, "label": 1}.get(network.head_config.kind, num_texts)
    return {1: 0, 2: 1}.get(num_texts, unknown)


def _export(
    source: Source,
    folder: Path,
    form: Format,
    config: ExportConfig,
    samples: Sequence[Sample],
    terms: License,
    stop: StopSignal,
) -> Exported:
    folder.mkdir()
    if form == "hf":
        _save_weights(source, folder, config.storage)
    else:
        write_json(folder / CONFIG, _describe_graph(source))
        write_graph(source.network, folder / GRAPH)
    encoder = source.network.config
    source.tokenizer.save(folder, max_length=encoder.sequence_length, has_segments=encoder.backbone == "electra")
    if (source.folder / TASK).is_file():
        write_json(folder / TASK, read_json(source.folder / TASK))
    fidelity = _try(source, folder, samples, stop)
    if config.storage == "fp32":
        require_equal(fidelity, config.tolerance, str(source.folder))
    if form == "onnx-int8":
        quantize_folder(folder, config.activations, samples[: config.rows])
        fidelity = _try(source, folder, samples, stop)
    facts = {"format": form, "network": source.role, "kind": _name_kind(source.network)}
    facts |= {"activations": config.activations} if form == "onnx-int8" else {}
    facts |= {"storage": config.storage} if form == "hf" else {}
    write_metadata(folder, facts, fidelity, terms)
    write_manifest(folder, kind="model")
    return Exported(source.role, sum(path.stat().st_size for path in folder.iterdir()), fidelity)


def _name_kind(network: Exportable) -> str:
    if isinstance(network, Discriminator):
        return "discriminator"
    return "tuned" if isinstance(network, Tuned) else "generator"


def _try(source: Source, folder: Path, samples: Sequence[Sample], stop: StopSignal) -> Fidelity:
    network, special = load_any(folder), source.tokenizer.special
    assert isinstance(network, Exportable)
    return compare_networks(
        source.network,
        network,
        samples,
        special.pad,
        special.mask,
        has_energies=says_energies(source.folder),
        check=stop.check,
    )


def _save_weights(source: Source, folder: Path, storage: Storage) -> None:
    special, network = source.tokenizer.special, source.written
    ids = {"pad_id": special.pad, "cls_id": special.cls, "sep_id": special.sep}
    if isinstance(network, Tuned):
        save_tuned(folder, network, **ids, storage=storage)
    else:
        objective = str(read_config(source.folder).get(OBJECTIVE, ""))
        untrained = has_untrained_segments(source.folder)
        save_network(folder, network, **ids, objective=objective, has_untrained_segments=untrained, storage=storage)


def _describe_graph(source: Source) -> SettingsTree:
    special, network = source.tokenizer.special, source.network
    ids = {"pad_id": special.pad, "cls_id": special.cls, "sep_id": special.sep}
    if isinstance(network, Tuned):
        return export_own_config(network, export_tuned_config(network, **ids))
    told = read_config(source.folder).get(OBJECTIVE)
    passes_verdicts = isinstance(network, Discriminator) and not says_energies(source.folder)
    labels = export_labels(LABELS.values()) if passes_verdicts else {}
    described = export_own_config(network, export_encoder_config(network.config, **ids) | labels)
    return described | ({OBJECTIVE: told} if told else {})
