"""A model in the form that others can use, tried before it is written: Hugging Face's, ONNX, or ONNX in 8 bits.

MODEL -> DIR/discriminator, DIR/generator or DIR/model, each with tokenizer, card, licence and hashes
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from pydantic import Field

from electralab.artifacts import new_folder, read_json, write_file, write_json, write_manifest
from electralab.config import Settings, Tree
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError, UsageError
from electralab.evaluation.heldout_rows import read_rows
from electralab.exporting.fidelity import Fidelity, Row, compare_networks, require_equal
from electralab.exporting.graphs import Exportable, require_onnx, write_graph
from electralab.exporting.portable_card import Licence, compose_portable_card, read_licence
from electralab.exporting.quantisation import Activations, quantise
from electralab.exporting.samples import sample_rows
from electralab.finetuning.exports import CARD as TASK
from electralab.model.electra import Discriminator
from electralab.model.folder import Role, Storage, load_any, locate_networks, read_config, save_network, save_tuned
from electralab.model.graph import GRAPH, AnyGraph
from electralab.model.hf_config import CONFIG, LABELS, OBJECTIVE, export_encoder_config, export_labels
from electralab.model.hf_tuned import export_tuned_config, tuned_class_name
from electralab.model.own_folder import export_own_config, is_expressible
from electralab.model.pruning import pad
from electralab.model.tuned import Tuned
from electralab.stopping import StopSignal
from electralab.tokens.tokenizer import Tokenizer

Format = Literal["hf", "onnx", "onnx-int8"]

# What an export says of itself.
EXPORT = "export.json"
# The graph in 32 bits, while the one in 8 is made of it.
_WHOLE = ".whole.onnx"


class ExportConfig(Settings):
    activations: Activations = "dynamic"
    """Of onnx-int8: their ranges are found in every call, or once on the rows of --data."""
    storage: Storage = "fp32"
    """Of hf: what the weights are stored in; fp16 and bf16 halve the folder, and are computed with in 32 bits here."""
    rows: int = Field(128, ge=1)
    """The most rows of --data to calibrate with and to try the result on."""
    tolerance: float = Field(1e-4, gt=0)
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


def export_model(
    model: Path, out: Path, form: Format, config: ExportConfig, *, data: Path | None, licence: str, stop: StopSignal
) -> Iterator[Exported]:
    """One network after the other; the folder appears when all of them are whole."""
    _check(out, form, config, data)
    terms = read_licence(licence)
    sources = [_read_source(folder, form) for folder in locate_networks(model)]
    texts = [_read_texts(source, config, data) for source in sources]
    with new_folder(out, kind="export", form=form) as temporary:
        for source, rows in zip(sources, texts, strict=True):
            stop.check()
            yield _export(source, temporary / source.role, form, config, rows, terms)


def plan_export(model: Path, out: Path, form: Format, config: ExportConfig, *, data: Path | None, licence: str) -> Tree:
    _check(out, form, config, data)
    sources = [_read_source(folder, form) for folder in locate_networks(model)]
    networks = {source.role: {"from": str(source.folder), "kind": _name_kind(source.network)} for source in sources}
    told = {"out": str(out), "format": form, "license": read_licence(licence).name, "data": str(data or "samples")}
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


def _read_source(folder: Path, form: Format) -> Source:
    network = load_any(folder)
    if isinstance(network, AnyGraph):
        raise InputError(f"{folder}: is a graph already; give the model that it was exported from")
    if not isinstance(network, Exportable):
        kind = type(network).__name__.lower()
        raise InputError(f"{folder}: holds a {kind}, which neither transformers nor a graph expresses; use it as it is")
    written = pad(network) if form == "hf" else network
    if form == "hf":
        _require_class(folder, written)
    by_class: Role = "discriminator" if isinstance(network, Discriminator) else "model"
    role = cast("Role", folder.name) if folder.name in get_args(Role) else by_class
    return Source(folder, role, network, written, Tokenizer.load(folder))


def _require_class(folder: Path, network: Exportable) -> None:
    if not isinstance(network, Tuned):
        if not is_expressible(network):
            raise InputError(f"{folder}: no class of transformers expresses this network; export it as onnx")
    elif not tuned_class_name(network):
        remedy = "tune it with --head huggingface, or export it as onnx"
        raise InputError(f"{folder}: no class of transformers has this network with its head; {remedy}")


def _read_texts(source: Source, config: ExportConfig, data: Path | None) -> list[Row]:
    """Rows with [CLS] and [SEP] and without padding: the user's first, then samples of our own."""
    tokenizer, length = source.tokenizer, source.network.config.sequence_length
    samples = sample_rows(tokenizer, length)
    if data is None:
        return samples
    rows = read_rows(data, tokenizer, length, config.rows, config.reading).ids
    return [row[: np.flatnonzero(row != tokenizer.special.pad)[-1] + 1] for row in rows] + samples


def _export(
    source: Source, folder: Path, form: Format, config: ExportConfig, rows: Sequence[Row], terms: Licence
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
    fidelity = _try(source, folder, rows)
    if config.storage == "fp32":
        require_equal(fidelity, config.tolerance, str(source.folder))
    if form == "onnx-int8":
        (folder / GRAPH).rename(folder / _WHOLE)
        quantise(folder / _WHOLE, folder / GRAPH, config.activations, rows[: config.rows])
        (folder / _WHOLE).unlink()
        fidelity = _try(source, folder, rows)
    described = {"format": form, "network": source.role, "kind": _name_kind(source.network), **asdict(fidelity)}
    described |= {"activations": config.activations} if form == "onnx-int8" else {}
    described |= {"storage": config.storage} if form == "hf" else {}
    write_json(folder / EXPORT, described)
    write_file(folder / "LICENSE", terms.text)
    write_file(folder / "README.md", compose_portable_card(described, read_json(folder / CONFIG), terms.name))
    write_manifest(folder, kind="model")
    return Exported(source.role, sum(path.stat().st_size for path in folder.iterdir()), fidelity)


def _name_kind(network: Exportable) -> str:
    if isinstance(network, Discriminator):
        return "discriminator"
    return "tuned" if isinstance(network, Tuned) else "generator"


def _try(source: Source, folder: Path, rows: Sequence[Row]) -> Fidelity:
    network, special = load_any(folder), source.tokenizer.special
    assert isinstance(network, Exportable)
    return compare_networks(source.network, network, rows, special.pad, special.mask)


def _save_weights(source: Source, folder: Path, storage: Storage) -> None:
    special, network = source.tokenizer.special, source.written
    ids = {"pad_id": special.pad, "cls_id": special.cls, "sep_id": special.sep}
    if isinstance(network, Tuned):
        save_tuned(folder, network, **ids, storage=storage)
    else:
        objective = str(read_config(source.folder).get(OBJECTIVE, ""))
        save_network(folder, network, **ids, objective=objective, storage=storage)


def _describe_graph(source: Source) -> Tree:
    special, network = source.tokenizer.special, source.network
    ids = {"pad_id": special.pad, "cls_id": special.cls, "sep_id": special.sep}
    if isinstance(network, Tuned):
        return export_own_config(network, export_tuned_config(network, **ids))
    told = read_config(source.folder).get(OBJECTIVE)
    labels = export_labels(LABELS.values()) if isinstance(network, Discriminator) else {}
    described = export_own_config(network, export_encoder_config(network.config, **ids) | labels)
    return described | ({OBJECTIVE: told} if told else {})
