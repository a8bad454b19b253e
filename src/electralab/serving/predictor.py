"""What does a tuned model say of these texts?

texts or a file -> predictions in the order of the input -> JSON lines or a table
"""

import codecs
import csv
import io
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
from electralab.fitting.answerer import Answerer
from electralab.records.tuned import PredictionRow, to_json_lines
from electralab.runtime import Precision
from electralab.stopping import NO_STOP, StopSignal
from electralab.tasks.kind import Example, Split, TaskInput
from electralab.tasks.load import TaskDataConfig, read_inputs

_LINES = (".jsonl", ".ndjson", "")
_TABLES = (".csv", ".tsv")
# Of files that are text as they lie there.
_TEXT_SUFFIXES = ("", ".txt", ".text", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_HEADERS = {"text", "text_a", "text_b", "question", "context", "sentence", "sentence1", "sentence2"}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class PredictConfig(Settings):
    batch_tokens: int = Field(8192, ge=1)
    """Tokens that go through the network at once, padding included."""
    precision: Precision = "fp32"
    """What the encoder is multiplied in; auto: bf16 where a short probe finds it faster on this machine."""
    data: TaskDataConfig = TaskDataConfig()


class Predictor:
    def __init__(self, answerer: Answerer, config: PredictConfig) -> None:
        self.answerer, self.config = answerer, config
        self.kind = answerer.kind
        # 0 where one is as good as two.
        self.num_texts = cast("Literal[0, 1, 2]", answerer.about.num_texts)

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
        example: Example = self.kind.parse(given, self.answerer.tokenizer, self.num_texts)
        return example

    def answer(self, examples: Sequence[Example], stop: StopSignal = NO_STOP) -> list[PredictionRow]:
        return run_to_end(self.predict_examples(examples, stop))

    def predict_examples(self, examples: Sequence[Example], stop: StopSignal) -> Iterator[Event[list[PredictionRow]]]:
        return self.answerer.predict(examples, batch_tokens=self.config.batch_tokens, stop=stop)

    def read(self, source: str) -> Split[Example]:
        """A file, or "-" for standard input: JSON lines or a table if its first line says so, else a text a line."""
        arguments = self.config.data, self.answerer.tokenizer
        if source == "-":
            name, data = "standard input", sys.stdin.buffer.read() if sys.stdin else b""
            if not data.strip():
                raise InputError("standard input: is empty; pipe a text a line, or JSON lines, into it")
            suffix, cut = guess_suffix(data), self._count_cut(data[-4:])
        else:
            path, name, suffix = Path(source), source, Path(source).suffix
            cut = 0
            if path.is_file() and suffix.lower() in _TEXT_SUFFIXES:
                try:
                    with path.open("rb") as file:
                        file.seek(max(path.stat().st_size - 4, 0))
                        cut = self._count_cut(file.read())
                except OSError as error:
                    reason = f"cannot be read ({error.strerror}); check it and its permissions"
                    raise InputError(f"{path}: {reason}") from None
            if not cut:
                return read_inputs(self.kind, self.num_texts, path, *arguments)
            data = path.read_bytes()
        # Rows that lie in no file, or in none that is whole, are read from a copy, and told of as if from the source.
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / f"input{suffix}"
            copy.write_bytes(data[: len(data) - cut])
            try:
                split = replace(read_inputs(self.kind, self.num_texts, copy, *arguments), path=name)
            except ElectraError as error:
                raise type(error)(str(error).replace(str(copy), name)) from None
        note = f"{name}: ends inside a character, which is left out"
        return replace(split, notes=(*split.notes, note)) if cut else split

    def _count_cut(self, tail: bytes) -> int:
        """How many bytes at the end are the beginning of a character in UTF-8, as `head -c` leaves them."""
        if codecs.lookup(self.config.data.encoding).name not in ("utf-8", "ascii"):
            return 0
        # The tail may begin inside a character, too.
        decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        decoder.decode(tail)
        return len(decoder.getstate()[0])


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


def check_output_path(out: Path) -> None:
    """Before the work, what would otherwise be refused after it."""
    if out.suffix.lower() not in (*_LINES, *_TABLES):
        raise UsageError(f"--out: predictions are written as .jsonl, .csv or .tsv, not as {out.suffix}")
    if out.is_dir():
        raise UsageError(f"--out: {out} is a folder; give a file")


def merge_bad_rows(rows: Sequence[PredictionRow], split: Split[Example]) -> list[PredictionRow]:
    """One row of output for each row of input, in order: a bad one says why it has no prediction."""
    good = [row.model_copy(update={"row": number}) for number, row in zip(split.row_numbers, rows, strict=True)]
    bad = [PredictionRow(row=bad.row, prediction=None, error=bad.reason) for bad in split.bad_rows]
    return sorted([*good, *bad], key=lambda row: row.row)


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
    for cells in table:
        for column, cell in enumerate(cells):
            # The texts are strangers', and people open tables in spreadsheets: what one would run as a formula gets
            # an apostrophe before it. A number, also as text, stays.
            if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS):
                try:
                    float(cell)
                except ValueError:
                    cells[column] = f"'{cell}"
    text = io.StringIO()
    if suffix.lower() == ".csv":
        csv.writer(text, lineterminator="\n").writerows(table)
    else:
        # A .tsv has no quoting: what would break its rows becomes a space.
        fields = [["" if cell is None else " ".join(str(cell).split()) for cell in cells] for cells in table]
        text.writelines("\t".join(cells) + "\n" for cells in fields)
    return text.getvalue().encode("utf-8", "backslashreplace")
