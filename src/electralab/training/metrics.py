"""metrics.jsonl, one JSON object per logged step, and TensorBoard beside it where that is installed."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electralab.artifacts import storage_errors, write_file
from electralab.errors import DamagedArtifact, StorageError

Record = dict[str, Any]
METRICS = "metrics.jsonl"


def read_metrics(path: Path) -> list[Record]:
    """Every whole record; a line torn by a crash is not one."""
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]  # without a final newline the last line was torn
    return [_parse(path, number, line) for number, line in enumerate(lines, start=1) if line]


def _parse(path: Path, number: int, line: bytes) -> Record:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("step"), int):
        raise DamagedArtifact(f"{path}: line {number} is not the record of a step; remove the line or restore the file")
    return record


def cut_back(path: Path, step: int) -> None:
    """Forget what was logged after a step that training returns to."""
    kept = [record for record in read_metrics(path) if record["step"] <= step]
    write_file(path, "".join(_line(record) for record in kept))


def _line(record: Mapping[str, Any]) -> str:
    """JSON has no NaN: a value that is not finite is written as null."""
    odd = {key for key, value in record.items() if isinstance(value, float) and not math.isfinite(value)}
    return json.dumps({key: None if key in odd else value for key, value in record.items()}) + "\n"


class MetricsLog:
    def __init__(self, run_dir: Path, step: int) -> None:
        self._path = run_dir / METRICS
        cut_back(self._path, step)
        self._board = _open_board(run_dir / "tb", step)

    def write(self, record: Mapping[str, Any]) -> None:
        with storage_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_line(record))
        if self._board is None:
            return
        with storage_errors(self._path.with_name("tb")):  # its thread hands a full disk on to the next caller
            for key, value in record.items():
                if isinstance(value, int | float) and key != "step" and math.isfinite(value):
                    self._board.add_scalar(key, value, record["step"])

    def sync(self) -> None:
        """Before a checkpoint that promises these lines."""
        with storage_errors(self._path), self._path.open("ab") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        if self._board is not None:
            with storage_errors(self._path.with_name("tb")):
                self._board.close()


def _open_board(folder: Path, step: int) -> Any:
    """A TensorBoard writer, or None where tensorboard is not installed: it is an extra."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise StorageError(f"{folder.parent}: is not UTF-8, which TensorBoard needs; choose another --out") from None
    return SummaryWriter(str(folder), purge_step=step + 1)


_SHORT = {"generator": "G", "discriminator": "D", "auc": "AUC"}


def format_step(record: Record) -> str:
    """Losses by their names, two of them by their letters; then how well the discriminator does, and how fast."""
    losses = {name.removesuffix("_loss"): value for name, value in record.items() if name.endswith("_loss")}
    named = losses or {"loss": record["loss"]}
    words = [f"{_SHORT.get(name, name)} {_loss(value)}" for name, value in named.items() if "heldout" not in name]
    words += [f"{_SHORT.get(name, name)} {record[name]:.3f}" for name in ("auc", "recall") if name in record]
    return "  ".join([*words, f"{record['tokens_per_second']:,.0f} tok/s"])


def format_heldout(record: Record) -> str:
    scores = {name.removeprefix("heldout_"): value for name, value in record.items() if name.startswith("heldout_")}
    words = []
    for name in (name.removesuffix("_loss") for name in scores if name.endswith("_loss")):
        right = scores.get(f"{name}_accuracy")
        words.append(f"{_SHORT.get(name, name)} {_loss(scores[f'{name}_loss'])}")
        words += [f"({right:.1%} right)"] if right is not None else []
    line = " ".join(words).replace(") ", ")  ")
    shown = [name for name in ("auc", "recall", "precision") if name in scores]
    return "  ".join([line, *(f"{_SHORT.get(name, name)} {scores[name]:.3f}" for name in shown)])


def format_scores(scores: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in scores.items())


def _loss(value: float | None) -> str:
    """A loss as logged: null where it was not finite."""
    return "n/a" if value is None else f"{value:.4g}"
