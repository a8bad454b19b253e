"""Rows on disk: memory-mapped `.npy` shards, the tokenizer they were made with, and a manifest written last.

data_dir -> PreparedData
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import MANIFEST, sha256_json, verify_folder
from electralab.errors import DamagedArtifact, InputError
from electralab.tokens.packing import PackingKind
from electralab.tokens.tokenizer import TOKENIZER as TOKENIZER
from electralab.tokens.tokenizer import Tokenizer

KIND = "electralab-data"
FORMAT = 1
SHARDS = "shards"
BUILD = ".build"
Part = Literal["train", "heldout"]

_REMEDY = "rerun 'electra prepare' to build it again"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of several shards as one table."""

    shards: tuple[NDArray[np.unsignedinteger], ...]  # each (N, T)
    starts: NDArray[np.int64]
    length: int

    @classmethod
    def over(cls, shards: Sequence[NDArray[np.unsignedinteger]], length: int) -> "Rows":
        sizes = np.array([0, *(len(shard) for shard in shards)], dtype=np.int64)
        return cls(tuple(shards), np.cumsum(sizes), length)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows at these places, in this order. (B, T)"""
        rows = np.empty((len(indices), self.length), dtype=np.int64)
        homes = np.searchsorted(self.starts, indices, side="right") - 1
        for home in np.unique(homes):
            here = homes == home
            rows[here] = self.shards[home][indices[here] - self.starts[home]]
        return rows


@dataclass(frozen=True, slots=True)
class PreparedData:
    path: Path
    identity: str
    """What training depends on: the hash of the shards and of the tokenizer."""
    tokenizer: Tokenizer
    sequence_length: int
    packing: PackingKind
    train: Rows
    heldout: Rows


def shard_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


def shard_name(part: Part, number: int) -> str:
    return f"{SHARDS}/{part}-{number:05d}.npy"


def shard_bytes(rows: NDArray[np.integer], vocab_size: int) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, rows.astype(shard_dtype(vocab_size)), allow_pickle=False)
    return buffer.getvalue()


def data_identity(files: dict[str, Any]) -> str:
    """What training depends on: the hashes of the shards and of the tokenizer, not how they came to be."""
    return sha256_json(
        {name: files[name]["sha256"] for name in files if name.startswith((f"{SHARDS}/", f"{TOKENIZER}/"))}
    )


def open_data(data_dir: Path) -> PreparedData:
    """Verify every hash, then map the shards; DamagedArtifact names the file that does not match."""
    _require_prepared(data_dir)
    manifest = verify_folder(data_dir, _REMEDY)
    if manifest.get("kind") != KIND or manifest.get("format") != FORMAT:
        raise DamagedArtifact(f"{data_dir}: is not prepared data of format {FORMAT}; {_REMEDY}")
    length = manifest.get("sequence_length")
    packing: PackingKind | None = {kind: kind for kind in get_args(PackingKind)}.get(str(manifest.get("packing")))
    if type(length) is not int or length < 1 or packing is None:
        raise DamagedArtifact(f"{data_dir}: its manifest tells no length or packing of rows we know; {_REMEDY}")
    train, heldout = (_map_rows(data_dir, manifest["files"], part, length) for part in ("train", "heldout"))
    if not len(train):
        raise InputError(f"{data_dir}: holds no training row; prepare it again from more text")
    return PreparedData(
        path=data_dir,
        identity=data_identity(manifest["files"]),
        tokenizer=Tokenizer.load(data_dir / TOKENIZER),
        sequence_length=length,
        packing=packing,
        train=train,
        heldout=heldout,
    )


def _require_prepared(data_dir: Path) -> None:
    """What was never prepared is not a build that lacks its end: say what is there instead."""
    first = f"run 'electra prepare {data_dir} --out DATA' first and give DATA"
    if not data_dir.exists():
        raise InputError(f"{data_dir}: no such folder; give one that 'electra prepare' has written")
    if not data_dir.is_dir():
        raise InputError(f"{data_dir}: is a file, not a folder of prepared data; {first}")
    # A build keeps its records in a hidden folder until it is done.
    if (data_dir / MANIFEST).exists() or (data_dir / BUILD).is_dir() or (data_dir / SHARDS).is_dir():
        return
    if (data_dir / "run.json").is_file():
        raise InputError(f"{data_dir}: is a run, not prepared data; give the folder that 'electra prepare' has written")
    raise InputError(f"{data_dir}: holds no prepared data (no {MANIFEST}); if it holds text, {first}")


def _map_rows(data_dir: Path, files: dict[str, Any], part: str, length: int) -> Rows:
    shards = []
    for name in sorted(name for name in files if name.startswith(f"{SHARDS}/{part}-")):
        try:
            shard = np.load(data_dir / name, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DamagedArtifact(f"{data_dir / name}: not a shard ({error}); {_REMEDY}") from None
        if shard.ndim != 2 or shard.shape[1] != length or shard.dtype.kind != "u":
            raise DamagedArtifact(f"{data_dir / name}: has shape {shard.shape}, not rows of {length}; {_REMEDY}")
        shards.append(shard)
    return Rows.over(shards, length)
