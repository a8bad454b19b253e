"""What does a tuned model say of these texts?

texts or a file -> predictions in the order of the input
"""

import codecs
import csv
import io
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field

from electralab.config import Settings
from electralab.errors import ElectraError, InputError, UsageError
from electralab.events import Event, run_to_end
from electralab.finetuning.predicting import predict_examples
from electralab.finetuning.task_model import LoadedTaskModel
from electralab.records.tuned import PredictionRow, to_json_lines
from electralab.stopping import NO_STOP, StopSignal
from electralab.tasks.kind import AnyKind, Example, Split, TaskInput
from electralab.tasks.load import TaskDataConfig, read_inputs

_LINES = (".jsonl", ".ndjson", "")
_TABLES = (".csv", ".tsv")
# Of files that are text as they lie there.
_TEXT_SUFFIXES = ("", ".txt", ".text", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class PredictConfig(Settings):
    batch_tokens: int = Field(8192, ge=1)
    """Tokens that go through the network at once, padding included."""
    data: TaskDataConfig = TaskDataConfig()


class Predictor:
    def __init__(self, models: Sequence[LoadedTaskModel], config: PredictConfig) -> None:
        self.models = models
        self.config = config

    @property
    def kind(self) -> AnyKind:
        return self.models[0].kind

    @property
    def num_texts(self) -> Literal[0, 1, 2]:
        """0 where one is as good as two."""
        return cast("Literal[0, 1, 2]", self.models[0].num_texts)

    def predict(self, inputs: Iterable[TaskInput]) -> list[PredictionRow]:
        """One row for each input: prediction, and for classes the probability of each."""
        if isinstance(inputs, str | Mapping):
            raise InputError("inputs: are a single text or row; give a list of them")
        examples = []
        for index, given in enumerate(inputs):
            try:
                examples.append(replace(self.parse(given), id=str(index)))
            except InputError as error:
                raise InputError(f"input {index}: {error}") from None
        return self.answer(examples)

    def parse(self, given: TaskInput) -> Example:
        example: Example = self.kind.parse(given, self.models[0].tokenizer, self.num_texts)
        return example

    def answer(self, examples: Sequence[Example], stop: StopSignal = NO_STOP) -> list[PredictionRow]:
        return run_to_end(self.predict_examples(examples, stop))

    def predict_examples(self, examples: Sequence[Example], stop: StopSignal) -> Iterator[Event[list[PredictionRow]]]:
        return predict_examples(self.models, examples, batch_tokens=self.config.batch_tokens, stop=stop)

    def read(self, source: str) -> Split:
        """A file, or "-" for standard input: JSON lines or a table if its first line says so, else a text a line."""
        if source == "-":
            data = sys.stdin.buffer.read() if sys.stdin else b""
            if not data.strip():
                raise InputError("standard input: is empty; pipe a text a line, or JSON lines, into it")
            return self._read_copy(data, guess_suffix(data), "standard input")
        path = Path(source)
        if path.is_file() and path.suffix.lower() in _TEXT_SUFFIXES and self._count_cut(_read_tail(path)):
            return self._read_copy(path.read_bytes(), path.suffix, source)
        return self._read_inputs(path)

    def _read_copy(self, data: bytes, suffix: str, name: str) -> Split:
        """Rows that lie in no file, or in none that is whole, as if they lay in one of this name."""
        cut = self._count_cut(data[-4:])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"input{suffix}"
            path.write_bytes(data[: len(data) - cut])
            try:
                split = replace(self._read_inputs(path), path=name)
            except ElectraError as error:
                raise type(error)(str(error).replace(str(path), name)) from None
        note = f"{name}: ends inside a character, which is left out"
        return replace(split, notes=(*split.notes, note)) if cut else split

    def _count_cut(self, tail: bytes) -> int:
        """How many bytes at the end are the beginning of a character in UTF-8, as `head -c` leaves them."""
        if codecs.lookup(self.config.data.encoding).name not in ("utf-8", "ascii"):
            return 0
        for count in (1, 2, 3):
            rest = tail[-count:]
            first = rest[0] if rest else 0
            size = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC2 else 0
            if first < 0xF5 and len(rest) < size and all(byte & 0xC0 == 0x80 for byte in rest[1:]):
                return count
        return 0

    def _read_inputs(self, path: Path) -> Split:
        return read_inputs(self.kind, self.num_texts, path, self.config.data, self.models[0].tokenizer)


def guess_suffix(data: bytes) -> str:
    """What a pipe carries, by its first line: an object, a header that names a part we know, or plain text.

    >>> guess_suffix(b'{"text": "a"}'), guess_suffix(b"text,label\\na,b"), guess_suffix(b"Once upon a time,")
    ('.jsonl', '.csv', '.txt')
    """
    first = data.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    if first[:1] == b"{":
        return ".jsonl"
    for mark, suffix in ((b"\t", ".tsv"), (b",", ".csv")):
        cells = {cell.strip().strip(b'"').decode("utf-8", "replace").lower() for cell in first.split(mark)}
        if cells & _HEADERS and (len(cells) > 1 or first.strip().lower() == b"text"):
            return suffix
    return ".txt"


_HEADERS = {"text", "text_a", "text_b", "question", "context", "sentence", "sentence1", "sentence2"}


def check_output_path(out: Path) -> None:
    """Before the work, what would otherwise be refused after it."""
    if out.suffix.lower() not in (*_LINES, *_TABLES):
        raise UsageError(f"--out: predictions are written as .jsonl, .csv or .tsv, not as {out.suffix}")
    if out.is_dir():
        raise UsageError(f"--out: {out} is a folder; give a file")


def _read_tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 4, 0), os.SEEK_SET)
            return file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check it and its permissions") from None


def format_rows(rows: Sequence[PredictionRow], suffix: str) -> bytes:
    """As JSON lines, or as a table of row, id, prediction, a column for each class, and what was wrong with the row."""
    if suffix.lower() not in _TABLES:
        return to_json_lines(rows)
    by_class = [row.probabilities if isinstance(row.probabilities, dict) else {} for row in rows]
    classes = list(next(filter(None, by_class), {}))
    table: list[list[Any]] = [["row", "id", "prediction", *(f"p_{name}" for name in classes), "error"]]
    for row, probs in zip(rows, by_class, strict=True):
        shown = " ".join(row.prediction) if isinstance(row.prediction, tuple) else row.prediction
        table.append([row.row, row.id, shown, *(probs.get(name) for name in classes), row.error])
    # The texts are strangers', and people open tables in spreadsheets.
    table = [[_disarm(cell) for cell in cells] for cells in table]
    text = io.StringIO()
    if suffix.lower() == ".csv":
        csv.writer(text, lineterminator="\n").writerows(table)
    else:
        # A .tsv has no quoting: what would break its rows becomes a space.
        fields = [["" if cell is None else " ".join(str(cell).split()) for cell in cells] for cells in table]
        text.writelines("\t".join(cells) + "\n" for cells in fields)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _disarm(cell: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it; a number, also as text, stays."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA_STARTS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def merge_bad_rows(rows: Sequence[PredictionRow], split: Split) -> list[PredictionRow]:
    """One row of output for each row of input, in order: a bad one says why it has no prediction."""
    good = [row.model_copy(update={"row": number}) for number, row in zip(split.row_numbers, rows, strict=True)]
    bad = [PredictionRow(row=bad.row, prediction=None, error=bad.reason) for bad in split.bad_rows]
    return sorted([*good, *bad], key=lambda row: row.row)
