"""What does a tuned model say of these texts?

texts or a file -> predictions in the order of the input
"""

import csv
import io
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError, UsageError
from electralab.finetuning.examples import (
    NO_LABEL,
    Example,
    Question,
    ScoredExample,
    Split,
    TaggedExample,
    TextExample,
)
from electralab.finetuning.exports import TunedModel
from electralab.finetuning.predicting import load_models, predict_examples
from electralab.finetuning.predictions import PredictionRow, describe_predictions
from electralab.finetuning.reading import TaskDataConfig, read_inputs
from electralab.stopping import StopSignal

# What Python may ask about: a text, a pair, the words of a sentence, or a row with named parts.
Input = str | Sequence[str] | Mapping[str, Any]


class PredictConfig(Settings):
    batch_tokens: int = Field(8192, ge=1)
    """Tokens that go through the network at once, padding included."""
    data: TaskDataConfig = TaskDataConfig()


class Predictor:
    def __init__(self, models: Sequence[TunedModel], config: PredictConfig) -> None:
        self.models = models
        self.config = config

    @classmethod
    def load(cls, path: Path, config: PredictConfig, *, is_ensemble: bool = False) -> "Predictor":
        return cls(load_models(path, is_ensemble=is_ensemble), config)

    @property
    def kind(self) -> str:
        return self.models[0].network.head_config.kind

    def predict(self, inputs: Iterable[Input]) -> list[PredictionRow]:
        """One row for each input: prediction, and for classes the probability of each."""
        examples = [self._read_input(place, given) for place, given in enumerate(inputs)]
        return [row for rows in self.predict_examples(examples, StopSignal()) for row in rows]

    def predict_examples(self, examples: Sequence[Example], stop: StopSignal) -> Iterator[list[PredictionRow]]:
        """Chunk by chunk, in order."""
        done = 0
        for predictions in predict_examples(self.models, examples, batch_tokens=self.config.batch_tokens, stop=stop):
            chunk = examples[done : done + len(predictions)]
            done += len(predictions)
            yield describe_predictions(chunk, predictions)

    def read_file(self, path: Path) -> Split:
        head, card = self.models[0].network.head_config, self.models[0].card
        return read_inputs(head.kind, card.num_texts or 1, path, self.config.data)

    def _read_input(self, place: int, given: Input) -> Example:
        parts = _name_parts(self.kind, place, given)
        wanted = self.models[0].card.num_texts
        if self.kind in ("classify", "regress") and wanted and len(parts) != wanted:
            raise InputError(f"input {place}: has {len(parts)} texts, the model was tuned on {wanted}; give as many")
        if not any(part.strip() for part in parts):
            raise InputError(f"input {place}: is empty; give a text")
        match self.kind:
            case "classify":
                return TextExample(str(place), parts, NO_LABEL)
            case "regress":
                return ScoredExample(str(place), parts, float("nan"))
            case "label":
                return TaggedExample(str(place), parts, ())
            case _:
                return Question(str(place), parts[0], parts[1], (), is_impossible=False)


def _name_parts(kind: str, place: int, given: Input) -> tuple[str, ...]:
    """The texts of an input, whichever form it has."""
    if isinstance(given, str):
        if kind == "qa":
            raise InputError(f"input {place}: a question needs its context; give a pair (question, context)")
        return tuple(given.split()) if kind == "label" else (given,)
    parts = _pick_parts(kind, place, given) if isinstance(given, Mapping) else list(given)
    if not all(isinstance(part, str) for part in parts):
        raise InputError(f"input {place}: holds something that is not text; give strings")
    if kind == "qa" and len(parts) != 2:
        raise InputError(f"input {place}: has {len(parts)} parts; give a pair (question, context)")
    return tuple(parts)


_PARTS: dict[str, list[tuple[str, ...]]] = {"qa": [("question", "context")], "label": [("words",), ("tokens",)]}
_TEXT_PARTS: list[tuple[str, ...]] = [("text_a", "text_b"), ("text",)]


def _pick_parts(kind: str, place: int, given: Mapping[str, Any]) -> list[Any]:
    options = _PARTS.get(kind, _TEXT_PARTS)
    for names in options:
        if all(name in given for name in names):
            found = [given[name] for name in names]
            return list(found[0]) if kind == "label" else found
    wanted = " or ".join(" and ".join(map(repr, names)) for names in options)
    raise InputError(f"input {place}: has {', '.join(map(repr, given)) or 'nothing'}; give {wanted}")


@contextmanager
def open_input(source: str) -> Iterator[Path]:
    """A file by its path; "-" is standard input: JSON lines if its first character says so, else a text a line."""
    if source != "-":
        yield Path(source)
        return
    data = sys.stdin.buffer.read()
    if not data.strip():
        raise InputError("standard input: is empty; pipe a text a line, or JSON lines, into it")
    suffix = ".jsonl" if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" else ".txt"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"standard-input{suffix}"
        path.write_bytes(data)
        yield path


def format_rows(rows: Sequence[PredictionRow], suffix: str) -> str:
    """As JSON lines, or as a table of row, id, prediction, a column for each class, and what was wrong with the row."""
    if suffix in (".jsonl", ".ndjson", ".json", ""):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if suffix not in (".csv", ".tsv"):
        raise UsageError(f"--out: predictions are written as .jsonl, .csv or .tsv, not as {suffix}")
    tables = (row["probabilities"] for row in rows if isinstance(row.get("probabilities"), dict))
    classes = list(next(tables, {}))
    text = io.StringIO()
    if suffix == ".csv":
        writer: Any = csv.writer(text, lineterminator="\n")
    else:
        writer = csv.writer(text, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
    writer.writerow(["row", "id", "prediction", *(f"p_{name}" for name in classes), "error"])
    for row in rows:
        answer = row["prediction"]
        shown = " ".join(answer) if isinstance(answer, list) else answer
        chances = [row.get("probabilities", {}).get(name) for name in classes]
        cells = [row["row"], row.get("id"), shown, *chances, row.get("error")]
        writer.writerow([_plain(cell, suffix) for cell in cells])
    return text.getvalue()


def _plain(value: Any, suffix: str) -> Any:
    """A .tsv has no quoting: what would break its rows becomes a space."""
    return " ".join(value.split()) if suffix == ".tsv" and isinstance(value, str) else value


def insert_bad(rows: Sequence[PredictionRow], split: Split) -> list[PredictionRow]:
    """One row of output for each row of input, in order: a bad one says why it has no prediction."""
    good = [{"row": number, **row} for number, row in zip(split.row_numbers, rows, strict=True)]
    bad = [{"row": one.row, "prediction": None, "error": one.reason} for one in split.bad_rows]
    return sorted([*good, *bad], key=lambda row: row["row"])
