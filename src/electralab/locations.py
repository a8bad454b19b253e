"""Folders of ours that lie elsewhere (s3://, http://, memory:// …: whatever fsspec reads) -> the same folders here.

    URL -> Path in a cache of bounded size

A folder is known by its manifest, so that a second look downloads nothing. Every file is compared with its hash before
it gets its name. What was used longest ago makes room; what a process uses now is never removed.
"""

import hashlib
import importlib
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from electralab import artifacts
from electralab.artifacts import MANIFEST
from electralab.errors import DamagedArtifact, ElectraError, FolderInUse, InputError, UsageError
from electralab.runtime import cache_dir

_BLOCK = 1 << 20
_WAIT_SECONDS = 0.5
# Locks of the folders that this process uses, until it ends.
_in_use = ExitStack()


def find_folder(name: str | Path, cache_gb: float, say: Callable[[str], None]) -> Path:
    """The folder itself, or a copy of one that lies elsewhere in the cache of this user."""
    if "://" not in str(name):
        return Path(name)
    return fetch_folder(str(name), cache_dir(), int(cache_gb * 1e9), say)


def fetch_folder(url: str, cache: Path, limit: int, say: Callable[[str], None]) -> Path:
    """The folder with all files that its manifest names; `limit` in bytes bounds the cache."""
    files, root = _open_location(url)
    sealed = _read(files, f"{root}/{MANIFEST}", f"{url}/{MANIFEST}")
    try:
        wanted = {
            str(name): (int(entry["bytes"]), str(entry["sha256"]))
            for name, entry in json.loads(sealed)["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedArtifact(f"{url}/{MANIFEST}: is no manifest; copy the folder there again") from None
    for name in wanted:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name:
            raise DamagedArtifact(f"{url}/{MANIFEST}: names a file outside its folder ({name!r}); do not use it")
    folder = cache / hashlib.sha256(sealed).hexdigest()[:32]
    while not (folder / MANIFEST).is_file():
        try:
            with artifacts.lock_folder(folder):
                if not (folder / MANIFEST).is_file():
                    size = sum(size for size, _ in wanted.values())
                    _make_room(cache, folder, size, limit, url)
                    say(f"downloading {url} ({size / 1e6:,.1f} MB) into {folder}")
                    for name, (_, digest) in wanted.items():
                        _download(files, f"{root}/{name}", f"{url}/{name}", folder / name, digest)
                    artifacts.write_file(folder / MANIFEST, sealed)
        except FolderInUse:  # another process downloads it
            time.sleep(_WAIT_SECONDS)
    _in_use.enter_context(artifacts.lock_folder(folder, shared=True))
    os.utime(folder / MANIFEST)
    return folder


def _open_location(url: str) -> tuple[Any, str]:
    """The file system and the path in it."""
    fsspec = importlib.import_module("fsspec")
    protocol = url.partition("://")[0]
    try:
        files, root = fsspec.core.url_to_fs(url.rstrip("/"))
    except ImportError as error:
        raise UsageError(f"{url}: {protocol}:// needs a package that is not installed ({error}); install it") from None
    except ValueError as error:
        raise UsageError(f"{url}: cannot be read ({error}); give a folder, or a URL that fsspec knows") from None
    return files, root


def _open(files: Any, path: str, url: str) -> BinaryIO:
    try:
        opened: BinaryIO = files.open(path, "rb")
    except FileNotFoundError as error:  # of a server that does not answer, too; the reason is then behind it
        reason = error.__cause__ or "no such file"
        raise InputError(f"{url}: cannot be opened ({reason}); give what 'electra prepare' has written") from None
    return opened


def _read(files: Any, path: str, url: str) -> bytes:
    try:
        with _open(files, path, url) as file:
            return file.read()
    except Exception as error:  # noqa: BLE001  file systems raise errors of their libraries' own
        raise _broken(url, error) from None


def _download(files: Any, path: str, url: str, target: Path, digest: str) -> None:
    """Into a file beside its place, which it gets when its hash is right; one that is there already stays."""
    if target.is_file() and artifacts.sha256_file(target) == digest:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.part")
    actual = hashlib.sha256()
    with artifacts.storage_errors(temporary), temporary.open("wb") as file:
        try:
            with _open(files, path, url) as remote:
                while block := remote.read(_BLOCK):
                    actual.update(block)
                    file.write(block)
        except Exception as error:  # noqa: BLE001  file systems raise errors of their libraries' own
            raise _broken(url, error) from None
    if actual.hexdigest() != digest:
        temporary.unlink()
        raise DamagedArtifact(
            f"{url}: does not match its manifest (sha256 {digest[:4]}… expected, {actual.hexdigest()[:4]}… found); run "
            "the same command again, or copy the folder there again"
        )
    temporary.rename(target)


def _broken(url: str, error: Exception) -> ElectraError:
    if isinstance(error, ElectraError):
        return error
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{url}: the download broke off ({reason}); run the same command again, it goes on from here")


def _make_room(cache: Path, folder: Path, size: int, limit: int, url: str) -> None:
    """Remove folders that nobody uses, those used longest ago first, until this one fits."""
    if size > limit:
        raise UsageError(
            f"{url}: has {size / 1e9:.3g} GB, the cache holds {limit / 1e9:.3g}; every step reads from all shards, so "
            "give --cache-gb at least that much, or copy the folder to a disk"
        )
    others = {path: _measure(path) for path in cache.iterdir() if path.is_dir() and path != folder}
    for other in sorted(others, key=_last_use):
        if sum(others.values()) + size <= limit:
            return
        try:
            with artifacts.lock_folder(other):
                shutil.rmtree(other, ignore_errors=True)
                del others[other]
        except FolderInUse:
            continue


def _measure(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _last_use(folder: Path) -> float:
    manifest = folder / MANIFEST
    return manifest.stat().st_mtime if manifest.is_file() else 0.0
