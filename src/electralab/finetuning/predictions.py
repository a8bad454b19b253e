"""What a tuned model says of each example, in files: a JSON object a line for people, a table for GLUE's server.

examples, outputs -> rows -> predictions.jsonl | CoLA.tsv

A row has the id and the texts, `truth` where it is known, `prediction`, and what the prediction was drawn from.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from electralab.artifacts import write_file
from electralab.errors import InputError, UsageError
from electralab.finetuning.decoding import (
    AnswerPrediction,
    ClassPrediction,
    Prediction,
    TagsPrediction,
    ValuePrediction,
)
from electralab.finetuning.examples import (
    NO_LABEL,
    Example,
    Question,
    ScoredExample,
    Split,
    TaggedExample,
    TextExample,
)
from electralab.finetuning.spans import Span, SpanAnswer
from electralab.finetuning.tasks import find_task
from electralab.records.predictions import AnswerSpan, PredictionRow, to_json_lines

_DIGITS = 6
"""More would only store the noise of the arithmetic."""


def describe_predictions(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[PredictionRow]:
    return [
        PredictionRow(id=example.id, **_describe_example(example), **_describe_prediction(prediction))
        for example, prediction in zip(examples, predictions, strict=True)
    ]


def _describe_example(example: Example) -> dict[str, Any]:
    """What was asked, and the truth where it is known. A context is not repeated: offsets lead into it by its id."""
    match example:
        case TextExample():
            return {"texts": example.texts} | ({"truth": example.label} if example.label != NO_LABEL else {})
        case ScoredExample():
            return {"texts": example.texts} | ({"truth": example.score} if not math.isnan(example.score) else {})
        case TaggedExample():
            return {"words": example.words} | ({"truth": example.tags} if example.tags else {})
        case Question():
            truth = tuple(gold.text for gold in example.answers)
            return {"question": example.question} | ({"truth": truth} if truth or example.is_impossible else {})


def _describe_prediction(prediction: Prediction) -> dict[str, Any]:
    match prediction:
        case ClassPrediction():
            chances = {label: _number(chance) for label, chance in prediction.probabilities.items()}
            return {"prediction": prediction.label, "probabilities": chances}
        case ValuePrediction():
            return {"prediction": _number(prediction.value)}
        case TagsPrediction():
            return {"prediction": prediction.tags, "probabilities": tuple(map(_number, prediction.probabilities))}
        case AnswerPrediction():
            best = prediction.best
            return {
                "prediction": prediction.text,
                "answer": _describe_span(best),
                "no_answer_score": _number(best.no_answer_score),
                "alternatives": tuple(_describe_span(span) for span in best.alternatives),
            }


def _describe_span(span: Span | SpanAnswer) -> AnswerSpan:
    return AnswerSpan(text=span.text, start=span.start, end=span.end, score=_number(span.score))


def _number(value: float) -> float | None:
    """JSON knows no NaN: what is not finite is null."""
    return round(float(value), _DIGITS) if math.isfinite(value) else None


def write_predictions(path: Path, rows: Iterable[PredictionRow]) -> None:
    write_file(path, to_json_lines(rows))


def write_submission(path: Path, task_name: str, rows: Sequence[PredictionRow]) -> None:
    """A line `index<TAB>prediction` for each row of the test file, numbered from 0 in the order of numeric ids.

    Labels are those the server knows; STS-B's numbers lie in 0..5.
    """
    task = find_task(task_name)
    if not task.submissions:
        raise UsageError(f"--task: {task.display} has no place on GLUE's server; submissions are for GLUE's tasks only")
    texts = []
    for place in _order_rows(path, [row.id for row in rows]):
        prediction = rows[place].prediction
        if task.kind == "regress" and isinstance(prediction, float):
            texts.append(f"{min(max(prediction, 0.0), 5.0):.3f}")
        elif prediction in task.labels:
            texts.append(str(prediction))
        else:
            raise InputError(
                f"{path}: {task.display} has no label {prediction!r}, GLUE's server takes {', '.join(task.labels)}; "
                f"tune the model on {task.name}"
            )
    write_file(path, "index\tprediction\n" + "".join(f"{index}\t{text}\n" for index, text in enumerate(texts)))


def require_whole(split: Split) -> None:
    """A row that could not be read would be missing, and at an end nobody would notice."""
    for bad in split.bad_rows:
        raise InputError(
            f"{split.path}: row {bad.row} {bad.reason}, and GLUE's server takes whole test files only; mend the row"
        )


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
