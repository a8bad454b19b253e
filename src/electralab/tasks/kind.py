"""What a kind of task is: how its rows become examples, features, a loss, predictions and scores.

    Row -> Example -> Feature -> loss; RowLogits -> Prediction -> SplitScores, PredictionRow

A kind is one file of `kinds/` with a subclass of `TaskKind` and `KIND`, its one object. Every other part asks the kind
and never its name: reading, fine-tuning, predicting, compressing, exporting and serving know no kind in particular.
"""

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor

from electralab.errors import InputError
from electralab.model.task_model import HeadConfig, HeadShape, SpanLogits
from electralab.records.tuned import ClassReport, PredictionRow, Scores
from electralab.tasks.features import EncodedSplit, Feature, FeatureEncoder, RowLogits, SpanConfig, TaskBatch
from electralab.tasks.table import BadRow, Columns, LabelledTable, Row, is_damaged, read_table
from electralab.tokens.tokenizer import Tokenizer

Labels = Sequence[str]

SYMBOLS = "symbols"
"""The column of lists that have no name, as prepare --symbols calls it."""
TABLE_SUFFIXES = frozenset((".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".txt"))

SplitFiles = dict[str, tuple[str, ...]]
"""By split, the patterns of its file's name without a compression suffix; an earlier one wins."""

# A word alone, or set apart in a longer name: ratings_train.csv, but not latest.csv.
OWN_FILES: SplitFiles = {
    split: tuple(f"{word}.*" for word in words)
    + tuple(pattern for word in words for pattern in (f"{word}[-_]*.*", f"*[-_.]{word}.*", f"*[-_.]{word}[-_]*.*"))
    for split, words in {
        "train": ("train",),
        "dev": ("dev", "valid", "validation", "val"),
        "test": ("test",),
    }.items()
}

# What Python and HTTP may ask about: a text, a pair, the words of a sentence, a sequence of symbols or a pair of them,
# or a row with named parts.
TaskInput = str | Sequence[str | int | Sequence[str | int]] | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled thing to learn from; each kind has its own."""

    id: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a tuned model says of an example; each kind has its own."""


E = TypeVar("E", bound=Example)
ExampleT_co = TypeVar("ExampleT_co", bound=Example, covariant=True)
F = TypeVar("F", bound=Feature)
P = TypeVar("P", bound=Prediction)
L = TypeVar("L", bound=Tensor | SpanLogits)


@dataclass(frozen=True, slots=True)
class Split(Generic[ExampleT_co]):
    """The examples of one file, and what was read to get them."""

    name: str
    path: str
    examples: Sequence[ExampleT_co]
    is_labelled: bool
    columns: dict[str, str]
    """What each part of an example was read from, for tables: {"text": "review", "label": "stars"}."""
    rows: int
    bad_rows: tuple[BadRow, ...]
    notes: tuple[str, ...] = ()
    """What was mended on the way, for a person to know."""
    row_numbers: tuple[int, ...] = ()
    """Of each example, counted as those of bad rows are; none where examples were taken out of several files."""


@dataclass(frozen=True, slots=True)
class NetworkOutputs(Generic[E, F]):
    """What a network said of examples, and how it is to be taken."""

    head: HeadConfig
    examples: Sequence[E]
    features: Sequence[F]
    rows: Sequence[RowLogits]
    """Of the features."""
    spans: SpanConfig
    threshold: float = 0.0
    """The no-answer score above which a question stays unanswered, if the head can doubt at all; of wrong words the
    log-odds above which one is named."""


@dataclass(frozen=True, slots=True)
class SplitScores:
    """Predictions beside the truth; nothing where the truth is not known."""

    scores: Scores = field(default_factory=dict)
    report: ClassReport = field(default_factory=ClassReport)
    best_threshold: float | None = None
    """The best one here: of questions that may have no answer the no-answer score beyond which to say nothing, of wrong
    words the log-odds beyond which to name one."""


@dataclass(frozen=True, slots=True)
class BaselineMethod(Generic[E, P]):
    """A simple method, fitted to the training rows."""

    name: str
    what: str
    """The method in words."""
    rows: int
    """Training rows that it has seen."""
    predict: Callable[[Sequence[E]], list[P]]


class RowError(Exception):
    """Why a row is no example."""


class RowReader:
    """What the columns of one table hold, as text, checked; RowError says why a row is no example."""

    def __init__(self, table: LabelledTable, task: "Task", columns: Columns, labels: Labels) -> None:
        """`labels` may occur; none: any."""
        self.table, self.task, self.columns, self.labels = table, task, columns, frozenset(labels)
        self.mended: Counter[str] = Counter()
        """What was mended in rows, in words, and in how many."""
        self.ids: set[str] = set()
        """Of the rows before, for kinds whose predictions are found by them."""

    @cached_property
    def listed_labels(self) -> frozenset[str]:
        """Those that may occur; where all may, every item of the label column's lists."""
        values = (row.fields.get(self.columns.label) for row in self.table.good_rows)
        lists = (value.split() if isinstance(value, str) else value for value in values)
        return self.labels or frozenset(str(item) for items in lists if isinstance(items, list) for item in items)

    def read_id(self, row: Row) -> str:
        value = row.fields.get(self.columns.id) if self.columns.id else None
        return str(row.number) if value is None else self.read_string(str(value), self.columns.id)

    def read_field(self, row: Row, column: str) -> Any:
        value = row.fields.get(column)
        if value is None:
            raise RowError(f"has no {column!r}")
        return value

    def read_texts(self, row: Row) -> tuple[str, ...]:
        texts = []
        for column in self.columns.texts:
            value = self.read_field(row, column)
            if self.task.of_symbols and isinstance(value, list):
                try:
                    texts.append(self.read_string(spell_symbols(value), column))
                except ValueError as error:
                    raise RowError(f"{column!r} {error}") from None
                continue
            text = self.read_string(value, column)
            if not text.strip():
                raise RowError(f"{column!r} is empty")
            texts.append(text)
        return tuple(texts)

    def read_list(self, row: Row, column: str) -> tuple[str, ...]:
        """A JSON list; or text, split at white space."""
        value = self.read_field(row, column)
        if isinstance(value, str):
            return tuple(value.split())
        if not isinstance(value, list):
            raise RowError(f"{column!r} holds {shorten(str(value))}, which is no list")
        return tuple([self.read_string(item, column) for item in value])

    def read_string(self, value: object, column: str) -> str:
        """Numbers as people write classes: 1 for 1.0, true for True."""
        if isinstance(value, str):
            if is_damaged(value):
                raise RowError(f"{column!r} holds half a character")
            return value
        if is_missing(value):
            raise RowError(f"has no {column!r}")
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        if isinstance(value, int | float):
            return str(value)
        raise RowError(f"{column!r} holds a {type(value).__name__} where text is expected")

    def check_label(self, label: str) -> str:
        if self.labels and label not in self.labels:
            known = ", ".join(sorted(self.labels)[:10])
            raise RowError(f"has the unknown label {shorten(label)} (known are {known})")
        return label


class TaskKind(ABC, Generic[E, F, P, L]):
    """How one kind of task is read, learned, answered and scored. It has no state: one object serves all tasks."""

    name: ClassVar[str]
    """As in task.json, config.json and HeadConfig; it never changes."""
    shape: ClassVar[HeadShape]
    """Whether the network answers for a row, for each token, or with a span."""
    has_classes: ClassVar[bool] = False
    """Whether answers are among labels, which the training rows name where the task does not."""
    has_numbers: ClassVar[bool] = False
    """Whether answers are numbers."""
    text_parts: ClassVar[tuple[str, ...]] = ()
    """The parts of an example as a person names them; none: one text, or a pair."""
    text_columns: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Of each part, the names of columns that hold it, the likeliest first."""
    label_columns: ClassVar[tuple[str, ...]]
    """Names of columns that hold the label, the likeliest first."""
    answer_columns: ClassVar[tuple[str, ...]] = ()
    """Columns beside the label that tell the answer too, and are not looked at in a file to predict for."""
    unknown_labels: ClassVar[tuple[str, ...]] = ("", "-1")
    """What stands for "not known" in the label column of a test set."""
    suffixes: ClassVar[frozenset[str]] = TABLE_SUFFIXES
    """Of files that may hold its rows."""

    @property
    def is_pooled(self) -> bool:
        """One answer a row, from one state."""
        return self.shape == "row"

    def own_tasks(self) -> "tuple[Task, ...]":
        """For people's own files, whatever they are about."""
        return ()

    # Files -> examples

    def read_table(self, path: Path, encoding: str, task: "Task") -> LabelledTable:
        return read_table(path, encoding, task.headless, SYMBOLS if task.of_symbols else "")

    def is_plain_text(self, lines: Sequence[str]) -> bool:
        """Whether a .txt has one text a line, and is no table."""
        return "\t" not in "".join(lines[:1])

    def name_texts(self, table: LabelledTable, num_texts: int, label: str) -> tuple[str, ...]:
        """The columns of the texts, by their names; none where no name is known."""
        texts = tuple(table.find_column(names, (label,)) for names in self.text_columns)
        return texts if all(texts) else ()

    def has_labels(self, table: LabelledTable, columns: Columns, labels: Labels = ()) -> bool:
        """Whether any row has one. `labels`: what is learned, which is known wherever it stands."""
        values = (row.fields.get(columns.label) for row in table.good_rows) if columns.label else ()
        unknown = set(self.unknown_labels) - set(labels)
        return any(not is_missing(value) and str(value).strip() not in unknown for value in values)

    @abstractmethod
    def convert(self, reader: RowReader, row: Row) -> E:
        """An example of a row of the reader's table, or RowError; no label column: the label is not known."""

    def find_labels(self, split: Split[E]) -> tuple[str, ...]:
        """Of the training rows, in the order of the network's outputs; none for kinds without classes."""
        return ()

    @abstractmethod
    def content(self, example: E) -> str:
        """What must not stand on both sides of a split."""

    @abstractmethod
    def parse(self, given: TaskInput, tokenizer: Tokenizer | None, num_texts: int) -> E:
        """What Python or HTTP gives, as an example without its answer; InputError says what it is not.

        `tokenizer`: None where no network reads the text. `num_texts`: 1 or 2 as the model was tuned; 0: either.
        """

    def count_texts(self, example: E) -> int:
        """1, or 2 for a pair; 0 for kinds that say it themselves."""
        return 0

    # Examples -> features -> loss

    @abstractmethod
    def encode(self, encoder: FeatureEncoder, examples: Sequence[E], *, is_labelled: bool) -> EncodedSplit[F]:
        """Targets only with `is_labelled`."""

    def fit_head(self, head: HeadConfig, examples: Sequence[E]) -> HeadConfig:
        """The head with what these training examples say of it."""
        return head

    def count_targets(self, batch: TaskBatch) -> int:
        """Micro-batches of a step are weighted by them."""
        return len(batch.targets)

    @abstractmethod
    def loss(self, logits: L, batch: TaskBatch, head: HeadConfig) -> Tensor:
        """Summed over the targets, in float32 whatever the network computes in."""

    @abstractmethod
    def distillation_loss(
        self, logits: L, teacher_logits: L, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        """How far a student is from its teacher, summed over the targets, whatever the truth."""

    # Logits -> predictions -> scores, rows, files

    @abstractmethod
    def decode(self, outputs: NetworkOutputs[E, F]) -> list[P]:
        """An answer for every example, in order."""

    @abstractmethod
    def score(self, task: "Task", examples: Sequence[E], predictions: Sequence[P], labels: Labels) -> SplitScores:
        """The task's metrics, beside the truth; `labels` in the order of the network's outputs."""

    @abstractmethod
    def to_row(self, example: E, prediction: P) -> PredictionRow:
        """For a file, or an answer; the truth only where it is known."""

    def write_files(self, folder: Path, task: "Task", examples: Sequence[E], predictions: Sequence[P]) -> None:
        """What official scripts read beside the rows: nothing for most kinds."""

    def baselines(self, train: Sequence[E]) -> Iterator[BaselineMethod[E, P]]:
        """Simple methods, one after the other as each is fitted; none where nothing simple does it."""
        yield from ()


# Where kinds mix. Each is given back only what it made itself, which no type can say.
AnyKind = TaskKind[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked, how it is scored, how its files are laid out."""

    name: str
    display: str
    kind: AnyKind
    metrics: tuple[str, ...]
    """The first is the one that ranks seeds."""
    labels: tuple[str, ...] = ()
    """In a fixed order for official tasks; none: those of the training rows, sorted."""
    num_texts: int = 1
    """1 or 2; 0: as the columns say."""
    epochs: float = 3
    sequence_length: int = 128
    doubles_pairs: bool = False
    """Whether each pair is also learnt from with its texts swapped."""
    is_trained: bool = True
    has_impossible: bool = False
    """Whether a question may have no answer in its context."""
    aliases: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    """Names of the subfolder that holds it in the official download."""
    files: SplitFiles = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    """The columns of its texts where they are fixed."""
    label: str = ""
    """The column of its label where it is fixed."""
    headless: tuple[str, ...] = ()
    """The columns of files that come without a header."""
    of_symbols: bool = False
    """Whether its texts are sequences of symbols, as lists; set for a model that reads them."""
    submissions: dict[str, str] = field(default_factory=dict)
    """By test split, the name of the file that GLUE's server takes."""


def rows_to_examples(table: LabelledTable, task: Task, name: str, columns: Columns, labels: Labels) -> Split[Example]:
    """Every row of a table is an example or a bad row with its reason. `labels` may occur; none: any."""
    kind = task.kind
    is_labelled = kind.has_labels(table, columns, labels)
    # Where no row has a label, the column is not read: a test set may hold anything there.
    reader = RowReader(table, task, columns if is_labelled else replace(columns, label=""), labels)
    examples: dict[int, Example] = {}  # by the number of their row
    bad_rows: list[BadRow] = []
    for row in table.rows:
        if isinstance(row, BadRow):
            bad_rows.append(row)
            continue
        try:
            examples[row.number] = kind.convert(reader, row)
        except RowError as reason:
            bad_rows.append(BadRow(row.number, str(reason)))
    parts = kind.text_parts or (("text",) if len(columns.texts) == 1 else ("text_a", "text_b"))
    named = zip((*parts, "label", "id"), (*columns.texts, columns.label, columns.id), strict=True)
    return Split(
        name=name,
        path=str(table.path),
        examples=list(examples.values()),
        is_labelled=is_labelled,
        columns={part: column for part, column in named if column},
        rows=len(table.rows),
        bad_rows=tuple(bad_rows),
        notes=tuple(f"{what}: {count:,}" for what, count in reader.mended.items()),
        row_numbers=tuple(examples),
    )


def format_bad_rows(split: Split[Example]) -> list[str]:
    """How many rows could not be used, and why the first of them; nothing where all are good."""
    if not split.bad_rows:
        return []
    shown = split.bad_rows[:5]
    more = len(split.bad_rows) - len(shown)
    return [
        f"warning: {split.path}: {len(split.bad_rows):,} of {split.rows:,} rows are bad",
        *(f"         row {bad.row}: {bad.reason}" for bad in shown),
        *([f"         and {more:,} more"] if more else []),
    ]


def check_parts(given: object) -> tuple[str, ...]:
    """The texts of an input, none of them empty or damaged."""
    parts = list(given) if isinstance(given, Iterable) else [given]
    texts = tuple(part for part in parts if isinstance(part, str))
    if len(texts) < len(parts):
        raise InputError("holds something that is not text; give strings")
    if not texts or not all(text.strip() for text in texts):
        raise InputError(f"is empty{' in part' * (len(texts) > 1)}; give a text")
    if any(map(is_damaged, texts)):
        raise InputError("holds half a character; give whole ones")
    return texts


def pick_parts(given: Mapping[str, object], options: Sequence[tuple[str, ...]]) -> list[object]:
    """The values of the first names that are all there."""
    for names in options:
        if all(name in given for name in names):
            return [given[name] for name in names]
    wanted = " or ".join(" and ".join(map(repr, names)) for names in options)
    raise InputError(f"has {name_some(given)}; give {wanted}")


def name_some(given: Mapping[str, object]) -> str:
    """A few of the keys of an input."""
    shown = [repr(str(name)[:40]) for name in list(given)[:8]]
    more = [f"{len(given) - len(shown):,} more"] if len(given) > len(shown) else []
    return ", ".join([*shown, *more]) or "nothing"


def spell_symbols(symbols: Sequence[object]) -> str:
    """A list of symbols as the text of an example, which is JSON; ValueError says what is no symbol.

    An integer is its decimal digits.
    """
    if not symbols:
        raise ValueError("is empty")
    for symbol in symbols:
        if type(symbol) not in (str, int) or symbol == "":
            raise ValueError(f"holds {str(symbol)[:40]!r}; a symbol is a non-empty string or an integer")
    return json.dumps([str(symbol) for symbol in symbols], ensure_ascii=False)


def round_number(value: float) -> float | None:
    """Six digits: more would only store the noise of the arithmetic. JSON knows no NaN: what is not finite is null."""
    return round(float(value), 6) if math.isfinite(value) else None


def is_missing(value: object) -> bool:
    """Null, or the NaN that tables of numbers have in its place."""
    return value is None or value != value


def is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def shorten(text: str, limit: int = 40) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
