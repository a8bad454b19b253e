"""What prepared data is made of, and how -> whether a folder holds just that, something else, or nothing whole."""

from collections.abc import Sequence
from pathlib import Path

from electralab.artifacts import MANIFEST, read_json, sha256_json, verify_folder, write_json
from electralab.config import SettingsTree
from electralab.corpus.documents import NEAR_DUPLICATE_RULE
from electralab.corpus.sources import Source
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError
from electralab.tokens.shards import BUILD, FORMAT
from electralab.tokens.tokenizer import Tokenizer

_AGAIN = "the data is built again"
_OVER = "the build starts over"


def fingerprint_data(
    settings: SettingsTree, files: Sequence[Source], hashes: Sequence[str], given: Tokenizer | None
) -> SettingsTree:
    """By content: neither the paths of the sources nor that of a given tokenizer are part of it."""
    sources = [
        {"sha256": digest, "format": source.format, "compression": source.compression}
        for source, digest in zip(files, hashes, strict=True)
    ]
    fingerprint = {
        "format": FORMAT,
        "settings": {**settings, "tokenizer": {**settings["tokenizer"], "path": ""}},
        "tokenizer": "learned" if given is None else sha256_json(given.to_json()),
        "sources": sources,
    }
    return (
        {**fingerprint, "near_duplicates": NEAR_DUPLICATE_RULE}
        if settings["filters"]["near_duplicates"]
        else fingerprint
    )


def without_rule(fingerprint: SettingsTree) -> SettingsTree:
    return {key: value for key, value in fingerprint.items() if key != "near_duplicates"}


def is_finished(out: Path, fingerprint: SettingsTree) -> bool:
    """Whether the data is there, whole. Made from something else it is refused, even damaged: its owner must decide."""
    if not (out / MANIFEST).is_file():
        return False
    try:
        made_from = verify_folder(out, _AGAIN).get("made_from")
    except DamagedArtifact as damage:
        made_from = _read_made_from(out / MANIFEST)
        if made_from in (None, fingerprint):
            raise
        reason = str(damage).removesuffix(f"; {_AGAIN}")
        raise IdentityMismatch(
            f"{out}: is damaged ({reason}) and was prepared with {_first_difference(made_from, fingerprint)}; "
            "choose another --out, or delete it"
        ) from None
    # Data whose near-duplicates were found before the threshold was heeded names no rule for them, and stays valid.
    if made_from not in (fingerprint, without_rule(fingerprint)):
        difference = _first_difference(made_from, fingerprint)
        raise IdentityMismatch(f"{out}: was prepared with {difference}; choose another --out")
    return True


def read_made_from(out: Path) -> SettingsTree | None:
    """What the data in a folder, finished or only begun, says it is made from, if anything."""
    return _read_made_from(out / MANIFEST) or _read_made_from(_state_path(out))


def _state_path(out: Path) -> Path:
    return out / BUILD / "build.json"


def _read_made_from(path: Path) -> SettingsTree | None:
    """What a manifest or build state, even a damaged one, says, if anything."""
    try:
        stored = read_json(path)
    except (DamagedArtifact, InputError):
        return None
    made_from = stored.get("made_from") if isinstance(stored, dict) else None
    return made_from if isinstance(made_from, dict) else None


def write_build_state(out: Path, fingerprint: SettingsTree) -> None:
    """What a build was begun with, for whoever goes on with it."""
    write_json(_state_path(out), {"made_from": fingerprint, "sha256": sha256_json(fingerprint)})


def read_build_state(out: Path, fingerprint: SettingsTree) -> bool:
    """Whether a build of just this was begun; DamagedArtifact or IdentityMismatch say why it must start over."""
    path = _state_path(out)
    if not path.is_file():
        return False
    state = read_json(path, _OVER)
    made_from = _read_made_from(path)
    if made_from is None or state.get("sha256") != sha256_json(made_from):
        raise DamagedArtifact(f"{path}: was changed after it was written; {_OVER}")
    if made_from != fingerprint:
        difference = _first_difference(made_from, fingerprint)
        raise IdentityMismatch(f"{out}: the unfinished build was begun with {difference}; {_OVER}")
    return True


def _first_difference(before: object, now: object, name: str = "") -> str:
    """The first setting that differs, by its dotted name, with both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                inner = key if name in ("", "settings") else f"{name}.{key}"
                return _first_difference(before.get(key), now.get(key), inner)
    words = {
        "sources": "other sources",
        "near_duplicates": "another rule for near-duplicates",
        "tokenizer": "another tokenizer",
    }
    return words.get(name, f"{name} = {before!r}, not {now!r}")
