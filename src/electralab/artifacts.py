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
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
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
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0)
        if cause is None or not _is_about(error.filename, path):
            raise
        raise StorageError(f"{path}: {cause}") from None
    except SafetensorError as error:
        # safetensors hides the operating system's number in its text.
        number = re.search(r"\(os error (\d+)\)", str(error))
        cause = _CAUSES.get(int(number[1])) if number else None
        if cause is None:
            raise
        raise StorageError(f"{path}: {cause}") from None


def _is_about(name: object, path: Path) -> bool:
    """Whether the file an error names, if it names one, is `path`, one of its temporaries, inside or above them."""
    if not isinstance(name, str):
        return True
    named = Path(name).absolute()
    return any(
        named.is_relative_to(place) or place.is_relative_to(named)
        for place in (path.absolute(), _temporary(path).absolute(), _retired(path).absolute())
    )


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


def write_file(path: Path, content: str | bytes) -> None:
    """Replace a file as a whole: a reader, or a crash, sees the old content or the new, never a part.

    A file name that is not UTF-8 is lone surrogates to Python; each is written as JSON escapes it (\\udcff), so that
    what is read back from JSON is the same name.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    temporary = _temporary(path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
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


def write_json(path: Path, value: Any) -> None:
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path, remedy: str = "mend or replace the file") -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        # ValueError: not JSON, not UTF-8, or an integer of more digits than Python reads.
        raise DamagedArtifact(f"{path}: not valid JSON ({error}); {remedy}") from None


def _files_below(folder: Path) -> list[Path]:
    """The files of an artifact: not its manifest, and not locks and temporaries, whose names begin with a dot."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path != folder / MANIFEST and not _is_hidden(path, folder)
    )


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
    write_json(folder / MANIFEST, {**manifest, "sha256": _seal(manifest)})


def _seal(manifest: dict[str, Any]) -> str:
    """What a manifest says about itself, so that damage to its own facts shows as well."""
    return sha256_json({key: value for key, value in manifest.items() if key != "sha256"})


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
            _replace_folder(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _replace_folder(temporary: Path, path: Path) -> None:
    """A folder cannot be renamed over a full one: the old goes aside first and is deleted after."""
    retired = _retired(path)
    shutil.rmtree(retired, ignore_errors=True)
    try:
        if path.exists():
            path.rename(retired)
        temporary.rename(path)
    except BaseException:
        _restore_folder(path)
        raise
    _sync(path.parent)
    shutil.rmtree(retired, ignore_errors=True)


def _restore_folder(path: Path) -> None:
    """A crash between the two renames of a replacement leaves only the old folder, set aside: put it back."""
    retired = _retired(path)
    if retired.is_dir() and not path.exists():
        retired.rename(path)


def verify_folder(folder: Path, remedy: str) -> dict[str, Any]:
    """The manifest, if every file it names is present with its size and hash; else DamagedArtifact names the file.

    `remedy` ends the sentence: what the user can do about this kind of folder.
    """
    with storage_errors(folder):
        _restore_folder(folder)
    manifest = _read_manifest(folder, remedy)
    for name, expected in manifest["files"].items():
        try:
            _verify_file(folder, name, expected, remedy)
        except OSError as error:
            raise DamagedArtifact(f"{folder / name}: cannot be read ({error.strerror}); {remedy}") from None
    return manifest


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
            files = verify_folder(manifest.parent, remedy)["files"]
        except DamagedArtifact:
            if manifest.parent.exists():
                raise
            continue  # a run in training has deleted an old checkpoint in the meantime
        verified |= {manifest, *(manifest.parent / name for name in files)}
    files_below = [path for path in _files_below(folder) if path not in verified]
    return Verification(
        tuple(sorted(path.relative_to(folder).as_posix() for path in verified)),
        tuple(path.relative_to(folder).as_posix() for path in files_below),
    )


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(name.startswith(".") for name in path.relative_to(folder).parts)


def _read_manifest(folder: Path, remedy: str) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        if not folder.is_dir():
            raise DamagedArtifact(f"{folder}: no such folder; {remedy}")
        if not path.is_file():
            raise DamagedArtifact(f"{folder}: has no {MANIFEST}, so it was never finished; {remedy}")
        manifest = read_json(path, remedy)
    except OSError as error:
        raise DamagedArtifact(f"{folder}: cannot be read ({error.strerror}); {remedy}") from None
    except InputError as error:
        raise DamagedArtifact(f"{error}; {remedy}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise DamagedArtifact(f"{path}: not a manifest; {remedy}")
    if manifest.get("sha256") != _seal(manifest):
        raise DamagedArtifact(f"{path}: was changed after it was written (its own sha256 differs); {remedy}")
    return manifest


def _verify_file(folder: Path, name: str, expected: Any, remedy: str) -> None:
    file = folder / name
    if not isinstance(expected, dict):
        raise DamagedArtifact(f"{folder / MANIFEST}: says nothing about the size and hash of {name!r}; {remedy}")
    if "\0" in name or not real_path(file).is_relative_to(real_path(folder)):
        raise DamagedArtifact(f"{folder / MANIFEST}: names a file outside its folder ({name!r}); {remedy}")
    if not file.is_file():
        raise DamagedArtifact(f"{folder}: manifest names {name} but it is missing; {remedy}")
    size = file.stat().st_size
    if size != expected.get("bytes"):
        raise DamagedArtifact(f"{file}: has {size} bytes, its manifest says {expected.get('bytes')}; {remedy}")
    digest = sha256_file(file)
    if digest != expected.get("sha256"):
        was = str(expected.get("sha256"))[:4]
        raise DamagedArtifact(
            f"{file}: does not match its manifest (sha256 {was}… expected, {digest[:4]}… found); {remedy}"
        )


# Descriptors of the locks this process holds.
_held: set[int] = set()


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock dies with the process, so a killed run leaves none behind."""
    _release_in_forked_children()
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    _held.add(descriptor)
    try:
        with storage_errors(folder):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
