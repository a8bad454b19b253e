"""What prepared data is made of, and how -> whether a folder holds just that, something else, or nothing whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electralab.artifacts import MANIFEST, read_json, sha256_json, verify_folder, write_json
from electralab.config import SettingsTree
from electralab.corpus.near_duplicates import RULE
from electralab.corpus.sources import Source
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError
from electralab.tokens.shards import BUILD, FORMAT
from electralab.tokens.tokenizer import Tokenizer

_AGAIN = "the data is built again"
_OVER = "the build starts over"


def make_identity(
    settings: SettingsTree, files: Sequence[Source], hashes: Sequence[str], given: Tokenizer | None
) -> SettingsTree:
    """By content: neither the paths of the sources nor that of a given tokenizer are part of it."""
    sources = [
        {"sha256": digest, "format": source.format, "compression": source.compression}
        for source, digest in zip(files, hashes, strict=True)
    ]
    identity = {
        "format": FORMAT,
        "settings": {**settings, "tokenizer": {**settings["tokenizer"], "path": ""}},
        "tokenizer": "learned" if given is None else sha256_json(given.to_json()),
        "sources": sources,
    }
    return {**identity, "near_duplicates": RULE} if settings["filters"]["near_duplicates"] else identity


def is_finished(out: Path, identity: SettingsTree) -> bool:
    """Whether the data is there, whole. Made from something else it is refused, even damaged: its owner must judge.

    Data whose near-duplicates were found before the threshold was heeded names no rule for them, and stays valid.
    """
    if not (out / MANIFEST).is_file():
        return False
    try:
        made_from = verify_folder(out, _AGAIN).get("made_from")
    except DamagedArtifact as damage:
        made_from = _read_made_from(out / MANIFEST)
        if made_from in (None, identity):
            raise
        what = _difference(made_from, identity)
        raise IdentityMismatch(
            f"{out}: is damaged ({str(damage).removesuffix(f'; {_AGAIN}')}) and was prepared with {what}; "
            "choose another --out, or delete it"
        ) from None
    if made_from not in (identity, _without_rule(identity)):
        raise IdentityMismatch(f"{out}: was prepared with {_difference(made_from, identity)}; choose another --out")
    return True


def _without_rule(identity: SettingsTree) -> SettingsTree:
    return {key: value for key, value in identity.items() if key != "near_duplicates"}


def read_made_from(out: Path) -> SettingsTree | None:
    """What the data in a folder, finished or only begun, says it is made from, if anything."""
    return _read_made_from(out / MANIFEST) or _read_made_from(begun_path(out))


def begun_path(out: Path) -> Path:
    """Where a build says what it was begun with."""
    return out / BUILD / "build.json"


def _read_made_from(manifest_path: Path) -> SettingsTree | None:
    """What a manifest, even a damaged one, says, if anything."""
    try:
        manifest = read_json(manifest_path)
    except (DamagedArtifact, InputError):
        return None
    made_from = manifest.get("made_from") if isinstance(manifest, dict) else None
    return made_from if isinstance(made_from, dict) else None


def write_begun(path: Path, identity: SettingsTree) -> None:
    write_json(path, {"made_from": identity, "sha256": sha256_json(identity)})


def read_begun(path: Path, identity: SettingsTree) -> bool:
    """Whether a build of just this was begun; DamagedArtifact or IdentityMismatch say why it must start over."""
    if not path.is_file():
        return False
    begun = read_json(path, _OVER)
    made_from = begun.get("made_from") if isinstance(begun, dict) else None
    if not isinstance(made_from, dict) or begun.get("sha256") != sha256_json(made_from):
        raise DamagedArtifact(f"{path}: was changed after it was written; {_OVER}")
    if made_from != identity:
        raise IdentityMismatch(
            f"{path.parent.parent}: the unfinished build was begun with {_difference(made_from, identity)}; {_OVER}"
        )
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
    if name == "near_duplicates":
        return "another rule for near-duplicates"
    if name == "tokenizer":
        return "another tokenizer"
    return f"{name} = {before!r}, not {now!r}"
