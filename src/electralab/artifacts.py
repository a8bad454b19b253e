"""What reaches the disk: written beside its place, synced, hashed, renamed in; verified when read; locked while in use.

A folder artifact carries `manifest.json`, written last: the size and SHA-256 of each of its files. A folder without a
manifest, or one that does not verify, does not count as written.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from electralab.errors import DamagedArtifact, FolderInUse, InputError, StorageError

MANIFEST = "manifest.json"

_CAUSES = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EROFS: "the file system is read-only; choose another --out",
    errno.EACCES: "permission denied; choose another folder or change its permissions",
    errno.EPERM: "operation not permitted; choose another folder or change its permissions",
    errno.EIO: "the disk reports an input/output error; check it, or choose another --out",
    errno.ENOTDIR: "a part of this path is a file, not a folder; choose another path",
    errno.EISDIR: "is a folder where a file was expected; choose another path",
    errno.ENAMETOOLONG: "the name is too long for the file system; choose a shorter one",
    errno.EMFILE: "too many open files; raise the limit with 'ulimit -n'",
    errno.EFBIG: "the file system does not take a file this large; choose another --out",
}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write into one sentence that names the file."""
    try:
        yield
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0)
        if cause is None:
            raise
        raise StorageError(f"{error.filename or path}: {cause}") from None


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """The hash of a JSON value whatever the order of its keys: an identity."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, content: str | bytes) -> None:
    """Replace a file as a whole: a reader, or a crash, sees the old content or the new, never a part."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.tmp")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        _sync(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedArtifact(f"{path}: not valid JSON ({error}); the file is damaged") from None


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """name -> size and hash for every file below the folder: what a manifest records."""
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in _files_below(folder)
    }


@contextmanager
def new_folder(path: Path, **facts: Any) -> Iterator[Path]:
    """Fill the yielded temporary folder; on success it is synced, hashed and becomes `path`, replacing an old one.

    `facts` are stored in the manifest beside the files. On failure the temporary is removed and `path` is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with storage_errors(path):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            manifest = {**facts, "files": describe_files(temporary)}
            for file in _files_below(temporary):
                _sync(file)
            write_json(temporary / MANIFEST, manifest)
            for folder in [temporary, *(p for p in temporary.rglob("*") if p.is_dir())]:
                _sync(folder)
            _replace_folder(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _replace_folder(temporary: Path, path: Path) -> None:
    """A folder cannot be renamed over a full one: the old goes aside first and is deleted after."""
    retired = path.with_name(f".{path.name}.old")
    shutil.rmtree(retired, ignore_errors=True)
    if path.exists():
        path.rename(retired)
    temporary.rename(path)
    _sync(path.parent)
    shutil.rmtree(retired, ignore_errors=True)


def verify_folder(folder: Path, remedy: str) -> dict[str, Any]:
    """The manifest, if every file it names is present with its size and hash; else DamagedArtifact names the file.

    `remedy` ends the sentence: what the user can do about this kind of folder.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DamagedArtifact(f"{folder}: has no {MANIFEST}, so it was never finished; {remedy}")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise DamagedArtifact(f"{path}: not a manifest; {remedy}")
    for name, expected in manifest["files"].items():
        _verify_file(folder, name, expected, remedy)
    return manifest


def _verify_file(folder: Path, name: str, expected: Any, remedy: str) -> None:
    file = folder / name
    if not file.resolve().is_relative_to(folder.resolve()) or not isinstance(expected, dict):
        raise DamagedArtifact(f"{folder / MANIFEST}: names a file outside its folder ({name!r}); {remedy}")
    if not file.is_file():
        raise DamagedArtifact(f"{folder}: manifest names {name} but it is missing; {remedy}")
    size = file.stat().st_size
    if size != expected.get("bytes"):
        raise DamagedArtifact(f"{file}: has {size} bytes, its manifest says {expected.get('bytes')}; {remedy}")
    found = sha256_file(file)
    if found != expected.get("sha256"):
        was = str(expected.get("sha256"))[:4]
        raise DamagedArtifact(
            f"{file}: does not match its manifest (sha256 {was}… expected, {found[:4]}… found); {remedy}"
        )


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock dies with the process, so a killed run leaves none behind."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            raise FolderInUse(f"{folder}: in use by {holder}; wait for it, or choose another --out") from None
        with storage_errors(folder):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)
