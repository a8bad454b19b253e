"""A variant becomes a model folder only with its metadata: how far its answers are off, a card, a license, hashes.

network -> model folder
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, new_folder, write_json
from electralab.compression.settings import Graph
from electralab.compression.task import CompressionTask, Network
from electralab.exporting.fidelity import TOLERANCE, compare_networks, require_equal
from electralab.exporting.metadata import LICENSE, License, find_license, write_license, write_metadata
from electralab.exporting.onnx_graphs import Activations, quantize_folder, write_graph
from electralab.exporting.samples import Sample, sample_rows
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import WEIGHTS, Storage, load_any, read_config
from electralab.model.folders.hf_config import CONFIG
from electralab.model.folders.native_format import GRAPH, export_own_config, is_onnx
from electralab.model.task_model import TaskModel
from electralab.records.export import ExportRecord, Fidelity

# Rows of the user's that variants are tried on, beside our own.
_ROWS = 32
_ACTIVATIONS: dict[Graph, Activations] = {"onnx-dynamic-int8": "dynamic", "onnx-static-int8": "static"}


@dataclass(frozen=True, slots=True)
class VariantWriter:
    task: CompressionTask
    samples: Sequence[Sample]
    license: License
    check: Callable[[], None]

    @classmethod
    def create(cls, task: CompressionTask, license: str, model: Path, check: Callable[[], None]) -> "VariantWriter":
        samples = task.list_samples(_ROWS) + sample_rows(task.tokenizer, task.network.config)
        return cls(task, samples, find_license(license, model), check)

    def write_weights(self, folder: Path, network: Network, storage: Storage) -> None:
        with new_folder(folder, kind="model") as temporary:
            self.task.save(temporary, network, storage)
            facts = {"format": storage, "of": "the model as it came"}
            self._write_metadata(temporary, facts, self.task.network)

    def write_graph(self, source: Path, target: Path, graph: Graph, samples: Sequence[Sample]) -> None:
        """All that the source's folder holds, with a graph for its weights; the samples calibrate a static one."""
        network = load_any(source)
        assert isinstance(network, Discriminator | TaskModel)
        with new_folder(target, kind="model") as temporary:
            copy_files(source, temporary, WEIGHTS, CONFIG)
            write_json(temporary / CONFIG, export_own_config(network, read_config(source)))
            write_graph(network, temporary / GRAPH)
            # Before it is quantized: a graph in 32 bits answers like its network, or the exporter is wrong.
            require_equal(self.compare(temporary, network), TOLERANCE, str(target))
            facts = {"format": "onnx", "of": f"the variant {source.name}"}
            if graph != "onnx":
                quantize_folder(temporary, _ACTIVATIONS[graph], samples)
                facts |= {"format": "onnx-int8", "activations": _ACTIVATIONS[graph]}
            self._write_metadata(temporary, facts, network)

    def _write_metadata(self, folder: Path, facts: dict[str, Any], origin: Network) -> None:
        """Tried against the network that it was made from."""
        kind = "tuned" if isinstance(origin, TaskModel) else "discriminator"
        fidelity = self.compare(folder, origin)
        record = ExportRecord.compared(fidelity, network=self.task.role, kind=kind, **facts)
        write_metadata(folder, record, self.license)

    def compare(self, folder: Path, origin: Network) -> Fidelity:
        network, special = load_any(folder), self.task.tokenizer.special
        assert isinstance(network, Discriminator | TaskModel)
        return compare_networks(origin, network, self.samples, special.pad, special.mask, check=self.check)

    def relicense(self, folder: Path) -> None:
        """A variant that was made on other terms."""
        if (folder / LICENSE).read_text(encoding="utf-8") == self.license.text:
            return
        with new_folder(folder, kind="model") as temporary:
            copy_files(folder, temporary)
            write_license(temporary, self.license)


def copy_files(source: Path, target: Path, *without: str) -> None:
    for file in source.iterdir():
        if file.is_file() and file.name not in (MANIFEST, *without):
            shutil.copyfile(file, target / file.name)


def has_metadata(folder: Path) -> bool:
    return (folder / ExportRecord.FILE).is_file() and (folder / LICENSE).is_file()


def copy_model(source: Path, target: Path) -> None:
    with new_folder(target, kind="model") as temporary:
        copy_files(source, temporary)


def copy_generator(source: Path, target: Path, license: str) -> None:
    """As it is, with metadata."""
    with new_folder(target, kind="model") as temporary:
        copy_files(source, temporary)
        if not has_metadata(temporary):
            form = "onnx" if is_onnx(source) else "fp32"
            ExportRecord(format=form, network="generator", kind="generator", subject="guesses").write(temporary)
        write_license(temporary, find_license(license, source))
