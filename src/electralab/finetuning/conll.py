"""CoNLL's columns: a word per line, its tag last, a blank line between sentences.

path -> Table of words and tags

Spans are written in several ways (IOB1, IOB2, IOBES, BILOU); `to_iob2` makes them one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from electralab.finetuning.examples import BadRow
from electralab.finetuning.rows import UNDECODABLE, Row, Table, is_damaged, read_lines

WORDS = "words"
TAGS = "tags"

_SPAN_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT_START = "-DOCSTART-"


def read_conll(path: Path, encoding: str, column: int = -1) -> Table:
    """A row is a sentence, its number that of its first line; tags from one column. One column: words without tags."""
    sentences = list(_split_sentences(read_lines(path, encoding)))
    has_tags = any(len(fields) > 1 for _, lines in sentences for fields in lines)
    rows: list[Row | BadRow] = []
    for number, lines in sentences:
        bad = next((place for place, fields in enumerate(lines) if has_tags and len(fields) == 1), None)
        if any(is_damaged(field) for fields in lines for field in fields):
            rows.append(BadRow(number, UNDECODABLE))
        elif bad is not None:
            rows.append(BadRow(number + bad, f"holds the word {lines[bad][0]!r} without a tag"))
        else:
            words = [fields[0] for fields in lines]
            rows.append(Row(number, {WORDS: words, TAGS: [f[column] for f in lines]} if has_tags else {WORDS: words}))
    return Table(path, (WORDS, TAGS) if has_tags else (WORDS,), rows)


def _split_sentences(lines: Iterable[str]) -> Iterator[tuple[int, list[list[str]]]]:
    sentence: list[list[str]] = []
    number = 0
    for number, line in enumerate((*lines, ""), start=1):
        text = line.strip(" \t\r")
        if text and not text.startswith(_DOCUMENT_START):
            sentence.append(_BLANKS.split(text))
        elif sentence:
            yield number - len(sentence), sentence
            sentence = []


def is_conll(lines: Sequence[str]) -> bool:
    """Whether lines are columns, not sentences: equally many in each, and blank lines between or span tags last."""
    fields = [_BLANKS.split(line.strip(" \t\r")) for line in lines if line.strip()]
    has_columns = len({len(line) for line in fields}) == 1
    return has_columns and (len(fields) < len(lines) or has_spans(line[-1] for line in fields))


def has_spans(tags: Iterable[str]) -> bool:
    """Whether tags mark spans (B-PER, I-PER, O) and are not one class per word, as parts of speech are."""
    others = [tag for tag in tags if tag != "O"]
    return bool(others) and all(_SPAN_TAG.fullmatch(tag) for tag in others)


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """The same spans, each begun by B-: IOB1 begins one so only after a neighbour of its type."""
    result: list[str] = []
    before = ""  # the type of an open span
    for tag in tags:
        match = _SPAN_TAG.fullmatch(tag)
        if match is None:
            result.append(tag)
            before = ""
            continue
        prefix, kind = match.groups()
        result.append(f"{'B' if prefix in 'BSU' or kind != before else 'I'}-{kind}")
        before = "" if prefix in "ESLU" else kind
    return tuple(result)


def complete_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Sorted; for spans both B- and I- of every type, since the other may only occur in another split."""
    found = set(tags)
    if has_spans(found):
        kinds = {tag[2:] for tag in found if tag != "O"}
        found = {"O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in kinds)}
    return tuple(sorted(found))
