"""What users give instead of the sets that come along.

.csv | .tsv | .jsonl | .json | .parquet -> pairs, analogies, senses
CoNLL columns -> TaggedSentence
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from electralab.analysis.sets.analogies import Analogy
from electralab.analysis.sets.senses import SenseSentence, place_word
from electralab.analysis.sets.tagged import OUTSIDE, TaggedSentence
from electralab.analysis.sets.transformations import Pair
from electralab.errors import InputError
from electralab.finetuning.conll import TAGS, WORDS, has_spans, read_conll
from electralab.finetuning.examples import BadRow
from electralab.finetuning.rows import Row, Table, read_table

NO_TAG = ""
"""The part of speech of a word in a file that tells none."""


def read_pairs(path: Path, encoding: str = "utf-8") -> dict[str, tuple[Pair, ...]]:
    """Columns source, target and perhaps kind -> pairs by kind; without a kind, the file's name is it."""
    pairs: dict[str, list[Pair]] = {}
    for fields in _read_fields(path, encoding, ("source", "target"), "kind"):
        pairs.setdefault(fields["kind"], []).append(Pair(fields["source"], fields["target"]))
    return {kind: tuple(found) for kind, found in pairs.items()}


def read_analogies(path: Path, encoding: str = "utf-8") -> tuple[Analogy, ...]:
    """Columns a, b, c, d and perhaps family; without a family, the file's name is it."""
    return tuple(Analogy(**fields) for fields in _read_fields(path, encoding, ("a", "b", "c", "d"), "family"))


def read_senses(path: Path, encoding: str = "utf-8") -> tuple[SenseSentence, ...]:
    """Columns word, sense and sentence, in which the word stands once as it is spelt."""
    found = []
    for fields in _read_fields(path, encoding, ("word", "sense", "sentence"), ""):
        try:
            found.append(place_word(fields["word"], fields["sense"], fields["sentence"]))
        except ValueError as error:
            raise InputError(f"{path}: {error}; give sentences in which it stands once, spelt alike") from None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ClassedText:
    text: str
    label: str


def read_classes(path: Path, encoding: str = "utf-8") -> tuple[ClassedText, ...]:
    """Columns text and label."""
    fields = _read_fields(path, encoding, ("text", "label"), "")
    return tuple(ClassedText(one["text"], one["label"]) for one in fields)


def read_tagged(path: Path, encoding: str = "utf-8") -> tuple[TaggedSentence, ...]:
    """Word first. A last column of spans (B-PER, O) has the entities, and the second then the parts of speech."""
    last = _read_columns(path, encoding, -1)
    if all(word.isdecimal() for words, _ in last for word in words if not word.startswith("#")):
        raise InputError(f"{path}: numbers stand where words should (CoNLL-U?); give the word first and its tag last")
    if not has_spans(tag for _, tags in last for tag in tags):
        return tuple(TaggedSentence(words, tags, (OUTSIDE,) * len(words)) for words, tags in last)
    second = _read_columns(path, encoding, 1)
    has_parts = not has_spans(tag for _, tags in second for tag in tags)
    return tuple(
        TaggedSentence(words, tags if has_parts else (NO_TAG,) * len(words), tuple(tag[2:] or OUTSIDE for tag in spans))
        for (words, spans), (_, tags) in zip(last, second, strict=True)
    )


def _read_columns(path: Path, encoding: str, column: int) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    table = read_conll(path, encoding, column)
    if TAGS not in table.columns:
        raise InputError(f"{path}: holds words without tags; give a word and its tag on each line")
    return [(tuple(row.fields[WORDS]), tuple(row.fields[TAGS])) for row in _check_rows(table)]


def _read_fields(path: Path, encoding: str, needed: tuple[str, ...], group: str) -> Iterator[dict[str, str]]:
    table = read_table(path, encoding)
    for name in needed:
        if name not in table.columns:
            near = difflib.get_close_matches(name, table.columns, n=1)
            hint = f"; is it {near[0]!r}?" if near else ""
            found = ", ".join(map(repr, table.columns))
            raise InputError(
                f"{path}: no column named {name!r} among {found}{hint}; name the columns {', '.join(needed)}"
            )
    for row in _check_rows(table):
        fields = {name: row.fields.get(name) for name in needed}
        for name, value in fields.items():
            if not isinstance(value, str | int | float) or not str(value).strip():
                raise InputError(
                    f"{path}: line {row.number}: has no text in {name!r}; fill it in, or leave the line out"
                )
        yield {
            **{name: str(value).strip() for name, value in fields.items()},
            group: row.fields.get(group) or path.stem,
        }


def _check_rows(table: Table) -> list[Row]:
    """All of them, or why not: a small set is mended sooner than a share of it is explained away."""
    bad = next((row for row in table.rows if isinstance(row, BadRow)), None)
    if bad is not None:
        raise InputError(f"{table.path}: line {bad.row}: {bad.reason}; mend it")
    if not table.good_rows:
        raise InputError(f"{table.path}: holds nothing to read; give at least one row")
    return table.good_rows
