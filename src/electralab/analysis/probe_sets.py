"""Sentences of which something is known: English ones that come along, or a user's own.

.csv | .tsv | .jsonl | .json | .parquet -> pairs, analogies, senses, texts with labels
CoNLL columns -> TaggedSentence

The English sets are the files in `sets/`, read as a user's file is. They were generated once and are frozen: figures
of different versions can be compared only if every sentence stays as it is.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from electralab.errors import InputError, suggest
from electralab.tasks.kinds.tagging import TAGS, WORDS, has_spans, read_conll
from electralab.tasks.table import BadRow, LabelledTable, Row, read_table

SETS = Path(__file__).parent / "sets"
# The part of speech of a word in a file that tells none.
NO_TAG = ""
# The entity type of a word that is part of no name.
OUTSIDE = "O"
_PIECE = re.compile(r"\w+|[^\w\s]")


class SentencePair(NamedTuple):
    source: str
    target: str


class Analogy(NamedTuple):
    """a is to b as c is to d."""

    family: str
    a: str
    b: str
    c: str
    d: str

    @property
    def words(self) -> tuple[str, str, str, str]:
        return self[1:]


class TaggedSentence(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[str, ...]


class SenseSentence(NamedTuple):
    """One word in a sentence, with the sense that it has there."""

    word: str
    position: int
    """Where the word begins, in characters: sentence[position : position + len(word)] == word."""
    sense: str
    sentence: str

    def split(self) -> tuple[tuple[str, ...], int]:
        """Its words and marks, and the index of the word among them."""
        before = _PIECE.findall(self.sentence[: self.position])
        after = _PIECE.findall(self.sentence[self.position + len(self.word) :])
        return (*before, self.word, *after), len(before)


class ClassedText(NamedTuple):
    text: str
    label: str


def read_pairs(path: Path | str = "") -> dict[str, tuple[SentencePair, ...]]:
    """Columns source, target and perhaps kind -> pairs by kind; without a kind, the file's name is it."""
    pairs: dict[str, list[SentencePair]] = {}
    for fields in _read_fields(Path(path or SETS / "pairs.tsv"), ("source", "target"), "kind"):
        pairs.setdefault(fields.pop("kind"), []).append(SentencePair(**fields))
    return {kind: tuple(rows) for kind, rows in pairs.items()}


def read_analogies(path: Path | str = "") -> tuple[Analogy, ...]:
    """Columns a, b, c, d and perhaps family; without a family, the file's name is it."""
    rows = _read_fields(Path(path or SETS / "analogies.tsv"), ("a", "b", "c", "d"), "family")
    return tuple(Analogy(**fields) for fields in rows)


def read_senses(path: Path | str = "") -> tuple[SenseSentence, ...]:
    """Columns word, sense and sentence, in which the word stands once as it is spelt."""
    senses = []
    for fields in _read_fields(Path(path or SETS / "senses.tsv"), ("word", "sense", "sentence")):
        try:
            senses.append(place_word(**fields))
        except ValueError as error:
            raise InputError(f"{path}: {error}; give sentences in which it stands once, spelt alike") from None
    return tuple(senses)


def place_word(word: str, sense: str, sentence: str) -> SenseSentence:
    """As a word of its own, or, where words are written together, anywhere; ValueError if that is not one place."""
    spelt = re.escape(word)
    starts = [match.start() for match in re.finditer(rf"(?<!\w){spelt}(?!\w)", sentence)]
    starts = starts or [match.start() for match in re.finditer(spelt, sentence)]
    if len(starts) != 1:
        raise ValueError(f"{word!r} stands {len(starts)} times in {sentence!r}")
    return SenseSentence(word, starts[0], sense, sentence)


def read_classes(path: Path) -> tuple[ClassedText, ...]:
    """Columns text and label."""
    return tuple(ClassedText(**fields) for fields in _read_fields(path, ("text", "label")))


def read_tagged(path: Path | str = "") -> tuple[TaggedSentence, ...]:
    """Word first. A last column of spans (B-PER, O) has the entities, and the second then the parts of speech."""
    path = Path(path or SETS / "tagged.conll")
    columns = []
    for column in (-1, 1):
        table = read_conll(path, "utf-8", column)
        if TAGS not in table.columns:
            raise InputError(f"{path}: holds words without tags; give a word and its tag on each line")
        lists = [[row.fields[name] for name in (WORDS, TAGS)] for row in _check_rows(table)]
        columns.append(
            [(tuple(words), tuple(tags)) for words, tags in lists if isinstance(words, list) and isinstance(tags, list)]
        )
    last, second = columns
    if all(word.isdecimal() for words, _ in last for word in words if not word.startswith("#")):
        raise InputError(f"{path}: numbers stand where words should (CoNLL-U?); give the word first and its tag last")
    if not has_spans(tag for _, tags in last for tag in tags):
        return tuple(TaggedSentence(words, tags, (OUTSIDE,) * len(words)) for words, tags in last)
    has_parts = not has_spans(tag for _, tags in second for tag in tags)
    return tuple(
        TaggedSentence(words, tags if has_parts else (NO_TAG,) * len(words), tuple(tag[2:] or OUTSIDE for tag in spans))
        for (words, spans), (_, tags) in zip(last, second, strict=True)
    )


def _read_fields(path: Path, needed: tuple[str, ...], group: str = "") -> Iterator[dict[str, str]]:
    """The needed columns of each row, and the group that it is in, by default the file's name."""
    table = read_table(path, "utf-8")
    for name in needed:
        if name not in table.columns:
            columns = ", ".join(map(repr, table.columns))
            hint = suggest(name, table.columns, f"name the columns {', '.join(needed)}")
            raise InputError(f"{path}: no column named {name!r} among {columns}; {hint}")
    for row in _check_rows(table):
        fields = {name: row.fields.get(name) for name in needed}
        for name, value in fields.items():
            if not isinstance(value, str | int | float) or not str(value).strip():
                raise InputError(
                    f"{path}: line {row.number}: has no text in {name!r}; fill it in, or leave the line out"
                )
        groups = {group: str(row.fields.get(group) or path.stem)} if group else {}
        yield {**{name: str(value).strip() for name, value in fields.items()}, **groups}


def _check_rows(table: LabelledTable) -> list[Row]:
    """All rows, or why not: a small set is mended sooner than a missing part of it is explained."""
    bad = next((row for row in table.rows if isinstance(row, BadRow)), None)
    if bad is not None:
        raise InputError(f"{table.path}: line {bad.row}: {bad.reason}; correct it")
    if not table.good_rows:
        raise InputError(f"{table.path}: holds nothing to read; give at least one row")
    return table.good_rows
