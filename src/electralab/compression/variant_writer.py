"""A variant becomes a model folder only with its papers: how far its answers are off, a card, a license, hashes.

network -> model folder
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, new_folder, write_json
from electralab.compression.task import CompressionTask, Network
from electralab.exporting.fidelity import Fidelity, compare_networks
from electralab.exporting.metadata import EXPORT, LICENSE, License, find_license, write_license, write_metadata
from electralab.exporting.samples import Sample, sample_rows
from electralab.model.electra import Discriminator
from electralab.model.folder import Storage, load_any
from electralab.model.graph import is_graph
from electralab.model.tuned import Tuned

# Rows of the user's that variants are tried on, beside our own.
_ROWS = 32


@dataclass(frozen=True, slots=True)
class VariantWriter:
    task: CompressionTask
    samples: Sequence[Sample]
    license: License
    check: Callable[[], None]

    def write_weights(self, folder: Path, network: Network, storage: Storage) -> None:
        with new_folder(folder, kind="model") as temporary:
            self.task.save(temporary, network, storage)
            self.sign(temporary, {"format": storage, "of": "the model as it came"}, self.task.network)

    def sign(self, folder: Path, facts: dict[str, Any], origin: Network) -> None:
        """Tried against the network that it was made from."""
        kind = "tuned" if isinstance(origin, Tuned) else "discriminator"
        write_metadata(
            folder, {"network": self.task.role, "kind": kind, **facts}, self.compare(folder, origin), self.license
        )

    def compare(self, folder: Path, origin: Network) -> Fidelity:
        network, special = load_any(folder), self.task.tokenizer.special
        assert isinstance(network, Discriminator | Tuned)
        return compare_networks(origin, network, self.samples, special.pad, special.mask, check=self.check)


def make_writer(task: CompressionTask, license: str, model: Path, check: Callable[[], None]) -> VariantWriter:
    samples = task.list_samples(_ROWS) + sample_rows(task.tokenizer, task.network.config)
    return VariantWriter(task, samples, find_license(license, model), check)


def copy_model(source: Path, target: Path) -> None:
    with new_folder(target, kind="model") as temporary:
        copy_files(source, temporary)


def copy_files(source: Path, target: Path, *without: str) -> None:
    for file in source.iterdir():
        if file.is_file() and file.name not in (MANIFEST, *without):
            shutil.copyfile(file, target / file.name)


def has_metadata(folder: Path) -> bool:
    return (folder / EXPORT).is_file() and (folder / LICENSE).is_file()


def relicense(folder: Path, license: License) -> None:
    """Of a variant that was made on others."""
    if (folder / LICENSE).read_text(encoding="utf-8") == license.text:
        return
    with new_folder(folder, kind="model") as temporary:
        copy_files(folder, temporary)
        write_license(temporary, license)


def copy_generator(source: Path, target: Path, license: str) -> None:
    """As it is, with papers."""
    with new_folder(target, kind="model") as temporary:
        copy_files(source, temporary)
        if not has_metadata(temporary):
            form = "onnx" if is_graph(source) else "fp32"
            facts = {"format": form, "network": "generator", "kind": "generator", "subject": "guesses"}
            write_json(temporary / EXPORT, facts)
        write_license(temporary, find_license(license, source))
