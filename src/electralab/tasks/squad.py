"""SQuAD: its nested JSON as flat rows, the many ways to write down an answer, and scores as it publishes them.

    path -> LabelledTable of questions; row -> Answer...; QAExample, answer -> Scores

The definition of the scores is an English one: words are what white space separates, `a`, `an` and `the` do not count,
and of punctuation only ASCII's is dropped. It is kept for every language, so that scores compare with published ones;
where words are written without spaces, F1 is hardly more than exact match.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from electralab.artifacts import write_file
from electralab.errors import InputError
from electralab.records.tuned import Scores
from electralab.tasks.kind import Example, RowError, shorten
from electralab.tasks.table import BadRow, LabelledTable, Row, parse_json, read_suffix, read_table, read_text

CONTEXT, START, IMPOSSIBLE = "context", "answer_start", "is_impossible"

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Answer:
    """A slice of the context: context[start : start + len(text)] == text."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class QAExample(Example):
    """A question about a context; no answers and not impossible where the answer is not known."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    is_impossible: bool


def read_questions(path: Path, encoding: str) -> LabelledTable:
    """SQuAD's own JSON, a row for each question, numbered through the file; or any table with a question per row."""
    if read_suffix(path) != ".json":
        return read_table(path, encoding)
    text = read_text(path, encoding)
    if '"paragraphs"' not in text:
        return read_table(path, encoding)
    rows: list[Row | BadRow] = []
    columns: dict[str, None] = {}
    try:
        for article in parse_json(path, text)["data"]:
            for paragraph in article["paragraphs"]:
                for entry in paragraph["qas"]:
                    number = len(rows) + 1
                    if isinstance(entry, dict):
                        fields = {**entry, CONTEXT: paragraph["context"]}
                        rows.append(Row(number, fields))
                        columns |= dict.fromkeys(fields)
                    else:
                        rows.append(BadRow(number, f"is a JSON {type(entry).__name__}, not a question"))
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not laid out as SQuAD after question {len(rows)} ({error}); mend the file") from None
    return LabelledTable(path, tuple(columns), rows)


def read_answers(given: Any, context: str) -> tuple[tuple[Answer, ...], int]:
    """The answers, and how many were looked for because the row does not say, or wrongly says, where they begin."""
    answers: list[Answer] = []
    searched = 0
    for text, start in _pairs(given):
        if isinstance(start, int) and start >= 0 and context.startswith(text, start):
            answers.append(Answer(text, start))
            continue
        # Files that were re-encoded or cleaned count characters otherwise: the nearest place of the same text is meant.
        if start is None:
            nearest = context.find(text)
        else:
            before = context.rfind(text, 0, max(0, start) + len(text))
            after = context.find(text, max(0, start))
            found_at = [index for index in (before, after) if index >= 0]
            nearest = min(found_at, key=lambda index: abs(index - start), default=-1)
        if nearest < 0:
            raise RowError(f"answer {shorten(text)} does not occur in its context")
        searched += 1
        answers.append(Answer(text, nearest))
    return tuple(answers), searched


def _pairs(given: Any) -> Iterator[tuple[str, int | None]]:
    """(text, start) of "Paris", [{"text": "Paris", "answer_start": 3}] or {"text": ["Paris"], "answer_start": [3]}."""
    if isinstance(given, str):
        given = [{"text": given}] if given else []
    if isinstance(given, dict) and isinstance(given.get("text"), list):
        starts = given.get(START) or [None] * len(given["text"])
        if not isinstance(starts, list) or len(starts) != len(given["text"]):
            raise RowError("answers have texts and starts of different numbers")
        given = [{"text": text, START: start} for text, start in zip(given["text"], starts, strict=True)]
    for item in given if isinstance(given, list) else [given]:
        entry = {"text": item} if isinstance(item, str) else item
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise RowError(f"answer {shorten(str(item))} has no text")
        if not entry["text"].strip():
            raise RowError("answer is empty")
        start = entry.get(START)
        if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
            raise RowError(f"answer begins at {shorten(str(start))}, which is no position")
        yield entry["text"], start


def normalise_answer(text: str) -> str:
    """Lower case, then without punctuation, then without articles, then one space between words, in this order.

    >>> normalise_answer("The  Cat, a pet!")
    'cat pet'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def has_exact_match(gold: str, answer: str) -> bool:
    return normalise_answer(gold) == normalise_answer(answer)


def token_f1(gold: str, answer: str, *, has_unanswerable: bool) -> float:
    """Of the words the two share; where one has none, version 2.0 asks whether both have none, and 1.1 gives 0."""
    ours, theirs = normalise_answer(answer).split(), normalise_answer(gold).split()
    if has_unanswerable and not (ours and theirs):
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def score_squad(
    questions: Sequence[QAExample],
    answers: Sequence[str],
    no_answer_scores: Sequence[float] | None = None,
    threshold: float = 0.0,
) -> Scores:
    """By the rules of version 2.0 if a question is impossible or no-answer scores are given, else by those of 1.1.

    An answer whose no-answer score is above the threshold counts as "". The best thresholds are searched on these very
    questions, as the official script does: a score at them is an upper bound, not a held-out one.
    """
    has_unanswerable = no_answer_scores is not None or any(question.is_impossible for question in questions)
    # All that count as right, or "" if none does; version 2.0 drops those of which normalising leaves nothing.
    texts = [[answer.text for answer in question.answers] for question in questions]
    golds = [[text for text in right if normalise_answer(text) or not has_unanswerable] or [""] for right in texts]
    exact = [
        float(any(has_exact_match(gold, ours) for gold in right)) for right, ours in zip(golds, answers, strict=True)
    ]
    f1 = [
        max(token_f1(gold, ours, has_unanswerable=has_unanswerable) for gold in right)
        for right, ours in zip(golds, answers, strict=True)
    ]
    if not has_unanswerable:
        return {"exact_match": _mean(exact), "f1": _mean(f1)}
    has_answer = [bool(question.answers) for question in questions]
    raw = {"exact": exact, "f1": f1}
    if no_answer_scores is not None:
        # To say nothing is right exactly where there is no answer.
        silent_scores = [
            (score > threshold, float(not has)) for score, has in zip(no_answer_scores, has_answer, strict=True)
        ]
        exact, f1 = (
            [right if is_silent else score for score, (is_silent, right) in zip(scores, silent_scores, strict=True)]
            for scores in (exact, f1)
        )
    totals = {"exact_match": _mean(exact), "f1": _mean(f1)}
    for part, is_in in (("has_answer", has_answer), ("no_answer", [not has for has in has_answer])):
        if any(is_in):
            totals[f"{part}_exact_match"] = _mean(list(compress(exact, is_in)))
            totals[f"{part}_f1"] = _mean(list(compress(f1, is_in)))
    if no_answer_scores is not None and questions:
        for name, key in (("exact", "best_exact_match"), ("f1", "best_f1")):
            best, at = find_best_threshold(answers, raw[name], no_answer_scores, has_answer)
            totals |= {key: best, f"best_{name}_threshold": at}
    return totals


def find_best_threshold(
    answers: Sequence[str], scores: Sequence[float], no_answer_scores: Sequence[float], has_answer: Sequence[bool]
) -> tuple[float, float]:
    """The best score over all thresholds, and the threshold: say nothing where the no-answer score is above it.

    It begins with silence everywhere and lets the answers speak one by one, the surest first. As in the official script
    equal no-answer scores are let in one after the other, an answer to an impossible question costs a point, "" costs
    none, and the lowest of equally good thresholds wins. Silence everywhere is 0 there, where scores are probabilities;
    here it is below all scores.
    """
    order = np.argsort(np.asarray(no_answer_scores), kind="stable")
    gains = [scores[i] if has_answer[i] else -float(bool(answers[i])) for i in order]
    totals = np.cumsum([float(len(scores) - sum(has_answer)), *gains])
    best = int(np.argmax(totals))
    at = float(no_answer_scores[order[best - 1]]) if best else min(0.0, float(min(no_answer_scores)) - 1.0)
    return float(totals[best]) / len(scores), at


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def write_squad_files(
    folder: Path,
    questions: Sequence[QAExample],
    answers: Sequence[str],
    no_answer_scores: Sequence[float] | None = None,
) -> None:
    """What the official script reads: predictions.json {id: answer}, and na_probs.json {id: probability} if given."""
    ids = [question.id for question in questions]
    write_file(folder / "predictions.json", json.dumps(dict(zip(ids, answers, strict=True))))
    if no_answer_scores is not None:
        odds = np.clip(no_answer_scores, -500.0, 500.0)
        probabilities = (1.0 / (1.0 + np.exp(-odds))).tolist()
        write_file(folder / "na_probs.json", json.dumps(dict(zip(ids, probabilities, strict=True))))
