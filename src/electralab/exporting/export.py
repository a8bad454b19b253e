"""A model in the form that others can use, tried before it is written: Hugging Face's, ONNX, or ONNX in 8 bits.

MODEL -> DIR/discriminator, DIR/generator or DIR/model, each with tokenizer, card, license and hashes
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from pydantic import Field

from electralab.artifacts import new_folder, read_json, write_file, write_json, write_manifest
from electralab.config import Settings
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError, Stopped, UsageError, suggest
from electralab.evaluation.heldout import read_rows
from electralab.events import Event, Note, Result
from electralab.exporting import fidelity as comparing
from electralab.exporting.fidelity import Exportable, Sample
from electralab.exporting.onnx_graphs import Activations, quantize_folder, require_onnx, write_graph
from electralab.finetuning.task_model import TASK_FILE, load_task_config
from electralab.model.electra import Discriminator
from electralab.model.folders import folder as model_folder
from electralab.model.folders import hf_config
from electralab.model.folders.folder import Role, Storage, load_any, outputs_energies
from electralab.model.folders.native_format import GRAPH, OnnxModel, export_own_config, network_name
from electralab.model.task_model import TaskModel
from electralab.model.weight_transfer import pad
from electralab.records.export import ExportedNetwork, ExportPlan, ExportRecord, ExportResult, ExportSource, Fidelity
from electralab.reporting.cards import write_export_card
from electralab.stopping import StopSignal
from electralab.tokens.batches import make_batch
from electralab.tokens.tokenizer import Tokenizer

Format = Literal["hf", "onnx", "onnx-int8"]

# What a folder brings along where no class of transformers expresses its network; read there, never imported here.
HUB_CODE = Path(__file__).parent / "hub" / "modeling_electralab.py"
_HUB_ARCHITECTURES = {
    "discriminator": "ForPreTraining",
    "generator": "ForMaskedLM",
    "row": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}
_HUB_CLASSES = {"AutoConfig": "Config", "AutoModel": "Model"}
_HUB_CLASSES |= {f"AutoModel{suffix}": suffix for suffix in _HUB_ARCHITECTURES.values()}

LICENSE = "LICENSE"
# As SPDX spells them.
_KNOWN = (
    *("Apache-2.0", "MIT", "BSD-3-Clause", "GPL-3.0", "AGPL-3.0", "LGPL-3.0", "MPL-2.0", "Unlicense", "CC0-1.0"),
    *("CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0", "OpenRAIL"),
)
_SPDX_LINE = "SPDX-License-Identifier: {}\n"
_UNSAID = """No licence was stated for these weights: the rights are with those who trained them.
State one with: electra export MODEL --license NAME (such as apache-2.0, mit, cc-by-4.0) or --license FILE.
"""


class ExportConfig(Settings):
    activations: Activations = "dynamic"
    """Of onnx-int8: their ranges are found in every call, or once on the rows of --data."""
    storage: Storage = "fp32"
    """Of hf: what the weights are stored in; fp16 and bf16 halve the folder, and are computed with in 32 bits here."""
    rows: int = Field(128, ge=1)
    """The most rows of --data to calibrate with and to try the result on."""
    tolerance: float = Field(comparing.TOLERANCE, gt=0)
    """How far a logit of weights or a graph in 32 bits may be from the model's."""
    reading: ReadingConfig = ReadingConfig()
    """How text is found in --data."""


@dataclass(frozen=True, slots=True)
class License:
    name: str
    """An SPDX identifier, "other" for a text of one's own, "unknown" where nothing was said."""
    text: str


def read_license(given: str) -> License:
    """A file's text, or the identifier of a known license.

    >>> read_license("MIT").name, read_license("").name
    ('mit', 'unknown')
    """
    if not given:
        return License("unknown", _UNSAID)
    path = Path(given)
    if path.is_file():
        try:
            return License("other", path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as text ({error}); give another --license") from None
    known = {name.lower(): name for name in _KNOWN}
    if given.lower() not in known:
        hint = suggest(given.lower(), known, f"known are {', '.join(known)}")
        raise InputError(f"--license: {given!r} is neither a file nor an identifier that we know; {hint}")
    return License(given.lower(), _SPDX_LINE.format(known[given.lower()]))


def find_license(given: str, folder: Path) -> License:
    """The one that is given, or that the model's own folder states."""
    if given or not (folder / LICENSE).is_file():
        return read_license(given)
    text = read_license(str(folder / LICENSE)).text
    names = {_SPDX_LINE.format(name): name.lower() for name in _KNOWN} | {_UNSAID: "unknown"}
    return License(names.get(text, "other"), text)


def write_license(folder: Path, license: License) -> None:
    """The terms and the card of a folder that has its export.json."""
    write_file(folder / LICENSE, license.text)
    write_export_card(folder, license.name)


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


def export_model(
    model: Path, out: Path, form: Format, config: ExportConfig, *, data: Path | None, license: str, stop: StopSignal
) -> Iterator[Event[ExportResult]]:
    """One network after the other; the folder appears when all of them are whole."""
    yield Note("tracing and trying the networks")
    _check(out, form, config, data)
    # Read here only to refuse a wrong name before the work.
    read_license(license)
    sources, left_out = _read_sources(model, form)
    # For all networks before the first is written: data that cannot be read is refused without work.
    rows = [_read_samples(source, config, data) for source in sources]
    networks: dict[str, ExportedNetwork] = {}
    try:
        with new_folder(out, kind="export", form=form) as temporary:
            for source, samples in zip(sources, rows, strict=True):
                stop.check()
                folder = temporary / source.role
                fidelity = _export(source, folder, form, config, samples, stop)
                facts: dict[str, str] = {"format": form, "network": source.role, "kind": source.kind}
                facts |= {"storage": config.storage} if form == "hf" else {}
                facts |= {"activations": config.activations} if form == "onnx-int8" else {}
                ExportRecord.compared(fidelity, **facts).write(folder)
                write_license(folder, find_license(license, source.folder))
                write_manifest(folder, kind="model")
                size = sum(path.stat().st_size for path in folder.iterdir())
                networks[source.role] = ExportedNetwork(
                    role=source.role, bytes=size, fidelity=fidelity, note=left_out, words=fidelity.words
                )
                off = fidelity.largest_difference
                yield Note(f"{source.role}: {size / 1e6:.1f} MB, answers within {off:.2g} of the model's")
                if left_out:
                    yield Note(left_out)
    except Stopped:
        raise Stopped(stop.number, f"{out} was not written, the same command starts again") from None
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
    folders = model_folder.locate_networks(model)
    for folder in folders:
        try:
            sources.append(_read_source(folder, form))
        except _Inexpressible as error:
            if len(folders) > 1 and folder.name == "generator":
                left_out = f"left out: {error}"
                continue
            beside = folder.parent / "discriminator"
            has_other = folder.name == "generator" and (beside / hf_config.CONFIG).is_file()
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
    if form == "hf" and needs_own_code(written):
        pass  # the folder brings its classes along
    elif form == "hf" and isinstance(written, TaskModel) and not hf_config.task_class_name(written):
        remedy = "tune it with --head huggingface, or export it as onnx"
        raise InputError(f"{folder}: no class of transformers has this network with its head; {remedy}")
    elif form == "hf" and not isinstance(written, TaskModel) and not hf_config.is_expressible(written):
        raise _Inexpressible(f"{folder}: no class of transformers expresses this network; export it as onnx")
    by_class: Role = "discriminator" if isinstance(network, Discriminator) else "model"
    role = cast("Role", folder.name) if folder.name in get_args(Role) else by_class
    return SourceNetwork(folder, role, network, written, Tokenizer.load(folder))


def _read_samples(source: SourceNetwork, config: ExportConfig, data: Path | None) -> list[Sample]:
    """The user's rows first, as pairs where the network is asked about pairs; then samples of our own."""
    tokenizer, network = source.tokenizer, source.network
    samples = comparing.sample_rows(tokenizer, network.config)
    if data is None:
        return samples
    rows = read_rows(data, tokenizer, network.config.sequence_length, config.rows, config.reading)
    batch = make_batch(rows.ids, tokenizer, is_pairs=rows.is_pairs)
    lengths = [int(np.flatnonzero(~is_pad)[-1]) + 1 for is_pad in batch.is_pad.numpy()]
    table = zip(rows.ids, batch.segment_ids.numpy(), lengths, strict=True)
    given = [Sample(ids[:length], segments[:length]) for ids, segments, length in table]
    if not rows.is_pairs:
        every = None
        if isinstance(network, TaskModel):
            # All rows of a text become pairs where two texts are asked for, none where one is.
            every = {1: 0, 2: 1}.get(load_task_config(source.folder, network, tokenizer).num_texts)
        given = comparing.pair_some(given, tokenizer, network.config, every)
    return given + samples


def needs_own_code(network: Exportable) -> bool:
    """A ModernBERT with options that no class of transformers has, and those of hub/modeling_electralab.py have."""
    config, is_task = network.config, isinstance(network, TaskModel)
    is_known = config.is_modern and not (config.is_causal or config.shapes or config.share_layers)
    has_others = config.discrepancy_attention or config.adaptive_norm
    is_plain = hf_config.has_plain_encoder(network) if is_task else hf_config.is_expressible(network)
    return is_known and not has_others and not is_plain


def _export(
    source: SourceNetwork,
    folder: Path,
    form: Format,
    config: ExportConfig,
    samples: Sequence[Sample],
    stop: StopSignal,
) -> Fidelity:
    """Into the folder, all that makes it a model; returns how far its answers are from the source's."""
    network, special, has_energies = source.network, source.tokenizer.special, outputs_energies(source.folder)
    objective = model_folder.read_objective(source.folder)
    folder.mkdir()
    if form != "hf":
        ids = hf_config.SpecialTokenIds(special.pad, special.cls, special.sep)
        if isinstance(network, TaskModel):
            written = export_own_config(network, hf_config.export_task_config(network, ids))
        else:
            graph_config = hf_config.export_encoder_config(network.config, ids)
            if isinstance(network, Discriminator) and not has_energies:
                graph_config |= hf_config.export_labels(hf_config.LABELS.values())
            written = export_own_config(network, graph_config) | ({hf_config.OBJECTIVE: objective} if objective else {})
        write_json(folder / hf_config.CONFIG, written)
        write_graph(network, folder / GRAPH)
    else:
        is_task = isinstance(source.written, TaskModel)
        model_folder.save_network(
            folder,
            source.written,
            pad_id=special.pad,
            cls_id=special.cls,
            sep_id=special.sep,
            objective="" if is_task else objective,
            has_untrained_segments=not is_task and model_folder.has_untrained_segments(source.folder),
            storage=config.storage,
        )
    if form == "hf" and needs_own_code(source.written):
        write_file(folder / HUB_CODE.name, HUB_CODE.read_bytes())
        kind = source.written.head_config.shape if isinstance(source.written, TaskModel) else source.kind
        auto_map = {name: f"{HUB_CODE.stem}.Electralab{suffix}" for name, suffix in _HUB_CLASSES.items()}
        choice = {"architectures": [f"Electralab{_HUB_ARCHITECTURES[kind]}"], "auto_map": auto_map}
        write_json(folder / hf_config.CONFIG, read_json(folder / hf_config.CONFIG) | choice)
    encoder = network.config
    source.tokenizer.save(folder, max_length=encoder.sequence_length, has_segments=encoder.backbone == "electra")
    if (source.folder / TASK_FILE).is_file():
        write_json(folder / TASK_FILE, read_json(source.folder / TASK_FILE))
    compare = partial(comparing.compare_networks, network, folder, samples, special, check=stop.check)
    compared = compare(outputs_energies=has_energies)
    # Weights in 16 bits are meant to differ; how far is written into export.json.
    if config.storage == "fp32":
        comparing.require_equal(compared, config.tolerance, str(source.folder))
    if form == "onnx-int8":
        quantize_folder(folder, config.activations, samples[: config.rows])
        compared = compare(outputs_energies=has_energies)
    return compared
