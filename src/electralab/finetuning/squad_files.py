"""SQuAD's nested JSON as flat rows, and the many ways to write down an answer as slices of the context.

path -> Table of questions
row -> answers
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electralab.errors import InputError
from electralab.finetuning.examples import Answer, BadRow
from electralab.finetuning.rows import Row, Table, parse_json, read_suffix, read_table, read_text

CONTEXT, START, IMPOSSIBLE = "context", "answer_start", "is_impossible"


def read_questions(path: Path, encoding: str) -> Table:
    """SQuAD's own JSON, or any table with a question per row."""
    if read_suffix(path) != ".json":
        return read_table(path, encoding)
    text = read_text(path, encoding)
    if '"paragraphs"' not in text:
        return read_table(path, encoding)
    rows = list(_flatten(path, parse_json(path, text)))
    known = dict.fromkeys(name for row in rows if isinstance(row, Row) for name in row.fields)
    return Table(path, tuple(known), rows)


def _flatten(path: Path, value: Any) -> Iterator[Row | BadRow]:
    """A row is a question, numbered through the file."""
    number = 0
    try:
        for article in value["data"]:
            for paragraph in article["paragraphs"]:
                for entry in paragraph["qas"]:
                    number += 1
                    if isinstance(entry, dict):
                        yield Row(number, {**entry, CONTEXT: paragraph["context"]})
                    else:
                        yield BadRow(number, f"is a JSON {type(entry).__name__}, not a question")
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not laid out as SQuAD after question {number} ({error}); mend the file") from None


class NoAnswer(Exception):
    """Why what a row gives as its answer is none."""


def read_answers(given: Any, context: str) -> tuple[tuple[Answer, ...], int]:
    """The answers, and how many were looked for because the row does not say, or wrongly says, where they begin."""
    answers: list[Answer] = []
    searched = 0
    for text, start in _pairs(given):
        if isinstance(start, int) and start >= 0 and context.startswith(text, start):
            answers.append(Answer(text, start))
            continue
        found = context.find(text) if start is None else _nearest(context, text, start)
        if found < 0:
            raise NoAnswer(f"answer {shorten(text)} does not occur in its context")
        searched += 1
        answers.append(Answer(text, found))
    return tuple(answers), searched


def _pairs(given: Any) -> Iterator[tuple[str, int | None]]:
    """(text, start) of "Paris", [{"text": "Paris", "answer_start": 3}] or {"text": ["Paris"], "answer_start": [3]}."""
    if isinstance(given, str):
        given = [{"text": given}] if given else []
    if isinstance(given, dict) and isinstance(given.get("text"), list):
        starts = given.get(START) or [None] * len(given["text"])
        if not isinstance(starts, list) or len(starts) != len(given["text"]):
            raise NoAnswer("answers have texts and starts of different numbers")
        given = [{"text": text, START: start} for text, start in zip(given["text"], starts, strict=True)]
    for item in given if isinstance(given, list) else [given]:
        entry = {"text": item} if isinstance(item, str) else item
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise NoAnswer(f"answer {shorten(str(item))} has no text")
        if not entry["text"].strip():
            raise NoAnswer("answer is empty")
        start = entry.get(START)
        if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
            raise NoAnswer(f"answer begins at {shorten(str(start))}, which is no position")
        yield entry["text"], start


def _nearest(context: str, text: str, start: int) -> int:
    before = context.rfind(text, 0, max(0, start) + len(text))
    after = context.find(text, max(0, start))
    return min((place for place in (before, after) if place >= 0), key=lambda p: abs(p - start), default=-1)


def shorten(text: str, limit: int = 40) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
