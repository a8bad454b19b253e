"""What a tuned model says of each example, in files: a JSON object a line for people, a table for GLUE's server.

examples, outputs -> rows -> predictions.jsonl | CoLA.tsv

A row has the id and the texts, `truth` where it is known, `prediction`, and what the prediction was drawn from.
"""

import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import write_file
from electralab.errors import InputError, UsageError
from electralab.finetuning.examples import NO_LABEL, Question, ScoredExample, TaggedExample, TextExample
from electralab.finetuning.spans import SpanAnswer, choose_texts
from electralab.finetuning.tasks import find_task

PredictionRow = dict[str, Any]

Floats = NDArray[np.float32] | NDArray[np.float64]

_DIGITS = 6
"""More would only store the noise of the arithmetic."""


def describe_classes(
    examples: Sequence[TextExample], labels: Sequence[str], probabilities: Floats
) -> list[PredictionRow]:
    """`probabilities` is (n, L); the prediction is the most probable label."""
    return [
        {
            "id": example.id,
            "texts": list(example.texts),
            **({} if example.label == NO_LABEL else {"truth": example.label}),
            "prediction": labels[int(np.argmax(row))],
            "probabilities": {label: _number(share) for label, share in zip(labels, row, strict=True)},
        }
        for example, row in zip(examples, probabilities, strict=True)
    ]


def describe_values(examples: Sequence[ScoredExample], values: Sequence[float] | Floats) -> list[PredictionRow]:
    return [
        {
            "id": example.id,
            "texts": list(example.texts),
            **({} if math.isnan(example.score) else {"truth": example.score}),
            "prediction": _number(value),
        }
        for example, value in zip(examples, values, strict=True)
    ]


def describe_tags(examples: Sequence[TaggedExample], tags: Sequence[Sequence[str]]) -> list[PredictionRow]:
    return [
        {
            "id": example.id,
            "words": list(example.words),
            **({"truth": list(example.tags)} if example.tags else {}),
            "prediction": list(ours),
        }
        for example, ours in zip(examples, tags, strict=True)
    ]


def describe_answers(
    questions: Sequence[Question], answers: Sequence[SpanAnswer], threshold: float | None
) -> list[PredictionRow]:
    """`prediction` is "" where the no-answer score is above the threshold; `answer` is the best span all the same.

    The context is not repeated: a start and an end are offsets in that of the question's id.
    """
    rows = []
    for question, answer, text in zip(questions, answers, choose_texts(answers, threshold), strict=True):
        truth = [gold.text for gold in question.answers]
        rows.append(
            {
                "id": question.id,
                "question": question.question,
                **({"truth": truth} if truth or question.is_impossible else {}),
                "prediction": text,
                "answer": {
                    "text": answer.text,
                    "start": answer.start,
                    "end": answer.end,
                    "score": _number(answer.score),
                },
                "no_answer_score": _number(answer.no_answer_score),
                "alternatives": [
                    {"text": one.text, "start": one.start, "end": one.end, "score": _number(one.score)}
                    for one in answer.alternatives
                ],
            }
        )
    return rows


def _number(value: float) -> float | None:
    """JSON knows no NaN: what is not finite is null."""
    return round(float(value), _DIGITS) if math.isfinite(value) else None


def write_predictions(path: Path, rows: Iterable[PredictionRow]) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    # Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it.
    write_file(path, lines.encode("utf-8", "backslashreplace"))


def write_submission(
    path: Path, task_name: str, ids: Sequence[str], predictions: Sequence[str] | Sequence[float]
) -> None:
    """A line `index<TAB>prediction` for each row of the test file, numbered from 0 in the order of numeric ids.

    Labels are those the server knows; STS-B's numbers lie in 0..5.
    """
    task = find_task(task_name)
    if not task.submissions:
        raise UsageError(f"--task: {task.display} has no place on GLUE's server; submissions are for GLUE's tasks only")
    order = _order_rows(path, ids)
    if len(predictions) != len(ids):
        raise ValueError(f"{len(predictions)} predictions for {len(ids)} rows")
    texts = []
    for row in order:
        prediction = predictions[row]
        if task.kind == "regress":
            texts.append(f"{min(max(float(prediction), 0.0), 5.0):.3f}")
        elif prediction in task.labels:
            texts.append(str(prediction))
        else:
            raise InputError(
                f"{path}: {task.display} has no label {prediction!r}, GLUE's server takes {', '.join(task.labels)}; "
                f"tune the model on {task.name}"
            )
    write_file(path, "index\tprediction\n" + "".join(f"{index}\t{text}\n" for index, text in enumerate(texts)))


def _order_rows(path: Path, ids: Sequence[str]) -> list[int]:
    """A gap in numeric ids is a row that could not be read, and would shift all that follow it."""
    if not all(id.isdecimal() for id in ids):
        return list(range(len(ids)))
    order = sorted(range(len(ids)), key=lambda row: int(ids[row]))
    for before, after in pairwise(order):
        if int(ids[after]) != int(ids[before]) + 1:
            raise InputError(
                f"{path}: the row after {ids[before]} is {ids[after]}, GLUE's server takes whole test files only; "
                "mend the rows that could not be read"
            )
    return order
