"""What prepared data is made of, and how -> whether a folder holds just that, something else, or nothing whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, sha256_json, verify_folder
from electralab.config import Tree
from electralab.corpus.sources import Source
from electralab.errors import DamagedArtifact, IdentityMismatch
from electralab.tokens.shards import FORMAT
from electralab.tokens.tokenizer import Tokenizer


def make_identity(settings: Tree, files: Sequence[Source], hashes: Sequence[str], given: Tokenizer | None) -> Tree:
    """By content: neither the paths of the sources nor that of a given tokenizer are part of it."""
    sources = [
        {"sha256": digest, "format": source.format, "compression": source.compression}
        for source, digest in zip(files, hashes, strict=True)
    ]
    return {
        "format": FORMAT,
        "settings": {**settings, "tokenizer": {**settings["tokenizer"], "path": ""}},
        "tokenizer": "learned" if given is None else sha256_json(given.to_json()),
        "sources": sources,
    }


def is_finished(out: Path, identity: Tree) -> bool:
    """Whether the data is there; made from something else it is refused, damaged it is built again."""
    if not (out / MANIFEST).is_file():
        return False
    try:
        made_from = verify_folder(out, "").get("made_from", {})
    except DamagedArtifact:
        return False
    if made_from != identity:
        raise IdentityMismatch(f"{out}: was prepared with {_difference(made_from, identity)}; choose another --out")
    return True


def _difference(before: Any, now: Any, name: str = "") -> str:
    """The first setting that differs, by its dotted name, with both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                inner = key if name in ("", "settings") else f"{name}.{key}"
                return _difference(before.get(key), now.get(key), inner)
    if name == "sources":
        return "other sources"
    if name == "tokenizer":
        return "another tokenizer"
    return f"{name} = {before!r}, not {now!r}"
