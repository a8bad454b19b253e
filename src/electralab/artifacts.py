"""What reaches the disk: written beside its place, synced, hashed, renamed in; verified when read; locked while in use.

A folder artifact carries `manifest.json`, written last: the size and SHA-256 of each of its files. A folder without a
manifest, or one that does not verify, does not count as written.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from typing_extensions import TypedDict  # pydantic takes that of typing from Python 3.12 on

from electralab.errors import DamagedArtifact, FolderInUse, InputError, StorageError

MANIFEST = "manifest.json"


class FileHash(TypedDict):
    """What a manifest records of a file."""

    bytes: int
    sha256: str


_CAUSES = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EFBIG: "the file system does not take a file this large; choose another --out",
    errno.EROFS: "the file system is read-only; choose another --out",
    errno.EACCES: "permission denied; choose another folder or change its permissions",
    errno.EPERM: "operation not permitted; choose another folder or change its permissions",
    errno.EIO: "the disk reports an input/output error; check the disk and run the same command again",
    errno.ENOTDIR: "a part of this path is a file, not a folder; choose another path",
    errno.EEXIST: "is a file where a folder is needed; choose another path",
    errno.EISDIR: "is a folder where a file is needed; choose another path",
    errno.ENAMETOOLONG: "the name is too long for the file system; choose a shorter one",
    errno.EMFILE: "too many open files; raise the limit with 'ulimit -n'",
    errno.ENOLCK: "the file system offers no locks; choose a folder on another one",
    errno.EOPNOTSUPP: "the file system offers no locks; choose a folder on another one",
}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write `path` into one sentence that names it.

    An error about another file, say one that the body reads, passes unchanged: its reader knows better what to say.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        if isinstance(error, OSError):
            cause = _CAUSES.get(error.errno or 0)
            # The file that an error names, if it names one, is `path`, one of its temporaries, inside or above them.
            named = Path(error.filename).absolute() if isinstance(error.filename, str) else path.absolute()
            places = [place.absolute() for place in (path, _temporary(path), _retired(path))]
            is_about = any(named.is_relative_to(place) or place.is_relative_to(named) for place in places)
        else:  # safetensors hides the operating system's number in its text
            number = re.search(r"\(os error (\d+)\)", str(error))
            cause, is_about = _CAUSES.get(int(number[1])) if number else None, True
        if cause is None or not is_about:
            raise
        raise StorageError(f"{path}: {cause}") from None


def real_path(path: Path) -> Path:
    """Where links lead; unlike Path.resolve it takes a link to itself as it is, for whoever opens it to refuse."""
    return Path(os.path.realpath(path))


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _retired(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


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


def write_file(path: Path, content: str | bytes, *, temporary: Path | None = None) -> None:
    """Replace a file as a whole: a reader, or a crash, sees the old content or the new, never a part.

    `temporary`: where it is written first, if another process may write the same file at the same time.
    A file name that is not UTF-8 is lone surrogates to Python; each is written as JSON escapes it (\\udcff), so that
    what is read back from JSON is the same name.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    temporary = temporary or _temporary(path)
    with storage_errors(path):
        for place in (path, temporary):
            place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(path.parent)


def write_json(path: Path, value: Any, *, temporary: Path | None = None) -> None:
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", temporary=temporary)


def read_json(path: Path, remedy: str = "correct or replace the file") -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        # ValueError: not JSON, not UTF-8, or an integer of more digits than Python reads.
        raise DamagedArtifact(f"{path}: not valid JSON ({error}); {remedy}") from None


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(name.startswith(".") for name in path.relative_to(folder).parts)


def _files_below(folder: Path) -> list[Path]:
    """The files of an artifact: not its manifest, and not locks and temporaries, whose names begin with a dot."""
    files = (path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder))
    return sorted(path for path in files if path != folder / MANIFEST)


def describe_files(folder: Path) -> dict[str, FileHash]:
    """name -> size and hash for every file below the folder: what a manifest records."""
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in _files_below(folder)
    }


def write_manifest(folder: Path, *, files: dict[str, FileHash] | None = None, **facts: Any) -> None:
    """Sync and hash what the folder holds and write the manifest, which from then on says that it is complete.

    `files` spares the reading of what the caller wrote with `write_file` and hashed on the way.
    """
    if files is None:
        for file in _files_below(folder):
            _sync(file)
        files = describe_files(folder)
    # Through JSON and back, so that the seal is taken of what a reader will see (keys become strings, tuples lists).
    manifest = json.loads(json.dumps({**facts, "files": files}))
    for inner in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        _sync(inner)
    # The hash of the manifest itself, so that damage to its own facts shows as well.
    write_json(folder / MANIFEST, {**manifest, "sha256": sha256_json(manifest)})


@contextmanager
def new_folder(path: Path, **facts: Any) -> Iterator[Path]:
    """Fill the yielded temporary folder; on success it is synced, hashed and becomes `path`, replacing an old one.

    `facts` are stored in the manifest beside the files. On failure the temporary is removed and `path` is untouched.
    """
    temporary = _temporary(path)
    with storage_errors(path):
        _restore_folder(path)
        if path.exists() and not path.is_dir():
            raise FileExistsError(errno.EEXIST, "is a file", str(path))
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            write_manifest(temporary, **facts)
            # A folder cannot be renamed over a full one: the old goes aside first and is deleted after.
            shutil.rmtree(_retired(path), ignore_errors=True)
            if path.exists():
                path.rename(_retired(path))
            temporary.rename(path)
            _sync(path.parent)
        except BaseException:
            _restore_folder(path)
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        shutil.rmtree(_retired(path), ignore_errors=True)


def _restore_folder(path: Path) -> None:
    """A crash between the two renames of a replacement leaves only the old folder, set aside: put it back."""
    retired = _retired(path)
    if retired.is_dir() and not path.exists():
        retired.rename(path)


class Manifest(NamedTuple):
    """What a folder's manifest says, after it and every file was compared with its hash."""

    files: dict[str, FileHash]
    facts: dict[str, object]


def verify_folder(folder: Path, remedy: str) -> Manifest:
    """The manifest, if every file it names is present with its size and hash; else DamagedArtifact names the file.

    `remedy` ends the sentence: what the user can do about this kind of folder.
    """
    with storage_errors(folder):
        _restore_folder(folder)
    path = folder / MANIFEST
    try:
        if not folder.is_dir():
            raise DamagedArtifact(f"{folder}: no such folder; {remedy}")
        if not path.is_file():
            raise DamagedArtifact(f"{folder}: has no {MANIFEST}, so it was never finished; {remedy}")
        stored = read_json(path, remedy)
    except OSError as error:
        raise DamagedArtifact(f"{folder}: cannot be read ({error.strerror}); {remedy}") from None
    except InputError as error:
        raise DamagedArtifact(f"{error}; {remedy}") from None
    if not isinstance(stored, dict) or not isinstance(stored.get("files"), dict):
        raise DamagedArtifact(f"{path}: not a manifest; {remedy}")
    if stored.pop("sha256", None) != sha256_json(stored):
        raise DamagedArtifact(f"{path}: was changed after it was written (its own sha256 differs); {remedy}")
    manifest = Manifest(stored.pop("files"), stored)
    for name, expected in manifest.files.items():
        file = folder / name
        if not isinstance(expected, dict) or not {"bytes", "sha256"} <= expected.keys():
            raise DamagedArtifact(f"{path}: says nothing about the size and hash of {name!r}; {remedy}")
        if "\0" in name or not real_path(file).is_relative_to(real_path(folder)):
            raise DamagedArtifact(f"{path}: names a file outside its folder ({name!r}); {remedy}")
        try:
            if not file.is_file():
                raise DamagedArtifact(f"{folder}: manifest names {name} but it is missing; {remedy}")
            size, was = file.stat().st_size, expected["sha256"]
            if size != expected["bytes"]:
                raise DamagedArtifact(f"{file}: has {size} bytes, its manifest says {expected['bytes']}; {remedy}")
            if (digest := sha256_file(file)) != was:
                raise DamagedArtifact(
                    f"{file}: does not match its manifest (sha256 {str(was)[:4]}… expected, {digest[:4]}… found); "
                    f"{remedy}"
                )
        except OSError as error:
            raise DamagedArtifact(f"{file}: cannot be read ({error.strerror}); {remedy}") from None
    return manifest


def count_parameters(weights: Path) -> int:
    """Of a safetensors file, by the shapes that it begins with; no tensor is read."""
    with safe_open(weights, framework="numpy") as file:
        return sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118  it is no mapping


@dataclass(frozen=True, slots=True)
class Verification:
    """Files by their paths relative to the folder that was looked through."""

    verified: tuple[str, ...]
    """Every one has the size and hash that a manifest says."""
    unverified: tuple[str, ...]
    """No manifest says anything of these."""


def verify_below(folder: Path, remedy: str) -> Verification:
    """Verify every folder with a manifest at or below this one; DamagedArtifact names the first file that differs."""
    verified: set[Path] = set()
    manifests = (path for path in folder.rglob(MANIFEST) if not _is_hidden(path, folder))
    for manifest in sorted(manifests, key=lambda path: (len(path.parts), path)):
        if manifest in verified:  # together with all that it names, by the manifest of a folder above
            continue
        try:
            files = verify_folder(manifest.parent, remedy).files
        except DamagedArtifact:
            if manifest.parent.exists():
                raise
            continue  # a run in training has deleted an old checkpoint in the meantime
        verified |= {manifest, *(manifest.parent / name for name in files)}
    unverified = [path for path in _files_below(folder) if path not in verified]
    return Verification(
        tuple(sorted(path.relative_to(folder).as_posix() for path in verified)),
        tuple(path.relative_to(folder).as_posix() for path in unverified),
    )


# Descriptors of the locks this process holds.
_held: set[int] = set()


@contextmanager
def lock_folder(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the folder for this process; the lock dies with the process, so a killed run leaves none behind.

    `shared`: together with others that share it, but with nobody who holds it alone.
    """
    _release_in_forked_children()
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    _held.add(descriptor)
    try:
        with storage_errors(folder):
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
                raise FolderInUse(f"{folder}: in use by {holder}; wait for it, or choose another --out") from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        if descriptor in _held:
            _held.remove(descriptor)
            os.close(descriptor)


@cache
def _release_in_forked_children() -> None:
    """A lock lasts until its last descriptor closes: a worker that outlives its killed parent must not keep one."""

    def close_held() -> None:
        while _held:
            os.close(_held.pop())

    os.register_at_fork(after_in_child=close_held)
