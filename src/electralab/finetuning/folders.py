"""The folder, or file, that a user named -> the file of each split.

Task, path -> {"train": path, "dev": path, ...}
"""

from fnmatch import fnmatchcase
from pathlib import Path

from electralab.errors import InputError
from electralab.finetuning.rows import read_suffix
from electralab.finetuning.tasks import Task, plain_name

_PACKED = (".gz", ".bz2", ".xz", ".zst")
_TABLES = {".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".txt"}
_CONLL = _TABLES | {".conll", ".train", ".testa", ".testb"}


def find_files(task: Task, place: Path, needed: str = "train") -> dict[str, Path]:
    """A file is that of the needed split. In a folder, or its subfolder for the task, the names decide."""
    if place.is_file():
        return {needed: place}
    if not place.is_dir():
        raise InputError(f"{place}: no such file or folder; give the data of {task.display} with --data")
    if files := _search(task, place, needed):
        return files
    held = ", ".join(path.name for path in _list(place)[:20]) or "nothing"
    below = f", also in a folder {' or '.join(task.folder)}" if task.folder else ""
    raise InputError(
        f"{place}: has no {needed} file of {task.display}; looked for {', '.join(task.files[needed])} (plain or "
        f"{', '.join(_PACKED)}){below}; it holds {held}"
        + ("; unpack the archives first" if ".zip" in held or ".tar" in held else "")
    )


def has_files(task: Task, place: Path) -> bool:
    """Whether its training file lies in a folder of its own: a train.tsv elsewhere could be any task's."""
    return any(_match(task, folder, "train", []) for folder in _find_inner(task, place))


def _search(task: Task, place: Path, needed: str) -> dict[str, Path]:
    for folder in (place, *_find_inner(task, place)):
        if _match(task, folder, needed, []):
            files: dict[str, Path] = {}
            for split in task.files:
                if path := _match(task, folder, split, list(files.values())):
                    files[split] = path
            return files
    return {}


def has_folder(task: Task, place: Path) -> bool:
    """Whether the official download lies there: a train.tsv in the folder itself could be any task's."""
    return bool(_find_inner(task, place))


def _find_inner(task: Task, place: Path) -> list[Path]:
    wanted = {plain_name(name) for name in task.folder}
    return [path for path in _list(place) if path.is_dir() and plain_name(path.name) in wanted]


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror}); change its permissions") from None


def _match(task: Task, folder: Path, split: str, taken: list[Path]) -> Path | None:
    known = _CONLL if task.kind == "label" else _TABLES
    files = [path for path in _list(folder) if path.is_file() and path not in taken and read_suffix(path) in known]
    for pattern in task.files[split]:
        found = [path for path in files if fnmatchcase(_unpacked_name(path), pattern.lower())]
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise InputError(f"{folder}: several files may be its {split} split ({names}); keep one of them")
        if found:
            return found[0]
    return None


def _unpacked_name(path: Path) -> str:
    return (path.stem if path.suffix.lower() in _PACKED else path.name).lower()
