"""metrics.jsonl, one JSON object per logged step, TensorBoard beside it where that is installed, and a step in words.

StepRecord -> a line of metrics.jsonl, a line on the screen
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electralab.artifacts import storage_errors, write_file
from electralab.errors import StorageError
from electralab.records.run import METRICS, StepRecord, read_metrics


def cut_back(path: Path, step: int) -> None:
    """Forget what was logged after a step that training returns to."""
    kept = [record for record in read_metrics(path) if record.step <= step]
    write_file(path, "".join(json.dumps(record.to_json()) + "\n" for record in kept))


class MetricsLog:
    def __init__(self, run_dir: Path, step: int) -> None:
        """`step`: the last one whose record is to stay."""
        self._path = run_dir / METRICS
        self._tensorboard = run_dir / "tb"
        cut_back(self._path, step)
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:  # it is an extra
            return
        try:
            str(run_dir).encode()
        except UnicodeEncodeError:
            raise StorageError(f"{run_dir}: is not UTF-8, which TensorBoard needs; choose another --out") from None
        self._writer = SummaryWriter(str(self._tensorboard), purge_step=step + 1)

    def write(self, record: StepRecord) -> None:
        with storage_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record.to_json()) + "\n")
        if self._writer is None:
            return
        with storage_errors(self._tensorboard):  # its thread hands a full disk on to the next caller
            for name, value in record.values.items():
                if value is not None and math.isfinite(value):
                    self._writer.add_scalar(name, value, record.step)

    def sync(self) -> None:
        """Before a checkpoint that promises these lines."""
        with storage_errors(self._path), self._path.open("ab") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        if self._writer is not None:
            with storage_errors(self._tensorboard):
                self._writer.close()


_SHORT = {"generator": "G", "discriminator": "D", "auc": "AUC"}


def format_step(record: StepRecord) -> str:
    """Losses by their names, two of them by their letters; then how well the discriminator does, and how fast."""
    names = [name for name in record.values if name.endswith("_loss") and "heldout" not in name] or ["loss"]
    words = [_format(name.removesuffix("_loss"), record.get(name), ".4g") for name in names]
    words += [_format(name, record.get(name), ".3f") for name in ("auc", "recall") if name in record.values]
    return "  ".join([*words, f"{record['tokens_per_second']:,.0f} tok/s"])


def format_heldout(scores: Mapping[str, float | None]) -> str:
    """Losses with how often each network was right, then the discriminator's scores."""
    words = []
    for name in (name.removesuffix("_loss") for name in scores if name.endswith("_loss")):
        accuracy = scores.get(f"{name}_accuracy")
        right = "" if accuracy is None else f" ({accuracy:.1%} right)"
        words.append(_format(name, scores[f"{name}_loss"], ".4g") + right + (" " if right else ""))
    line = " ".join(words).strip()
    shown = [name for name in ("auc", "recall", "precision") if name in scores]
    return "  ".join([line, *(_format(name, scores[name], ".3f") for name in shown)])


def format_scores(scores: Mapping[str, float | None]) -> str:
    return "  ".join(_format(name, value, ".4f") for name, value in scores.items())


def _format(name: str, value: float | None, spec: str) -> str:
    """A number that was not finite is null in the log."""
    is_finite = value is not None and math.isfinite(value)
    return f"{_SHORT.get(name, name)} {format(value, spec) if is_finite else 'n/a'}"
