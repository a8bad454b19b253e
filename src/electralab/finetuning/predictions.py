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

PredictionRow = dict[str, Any]

_DIGITS = 6
"""More would only store the noise of the arithmetic."""

_LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})
"""JSON lets them stand in a string, but str.splitlines() would cut the row there."""


def describe_predictions(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[PredictionRow]:
    return [
        {"id": example.id, **_describe_example(example), **_describe_prediction(prediction)}
        for example, prediction in zip(examples, predictions, strict=True)
    ]


def _describe_example(example: Example) -> PredictionRow:
    """What was asked, and the truth where it is known. A context is not repeated: offsets lead into it by its id."""
    match example:
        case TextExample():
            return {"texts": list(example.texts), **_known("truth", example.label, example.label != NO_LABEL)}
        case ScoredExample():
            return {"texts": list(example.texts), **_known("truth", example.score, not math.isnan(example.score))}
        case TaggedExample():
            return {"words": list(example.words), **_known("truth", list(example.tags), bool(example.tags))}
        case Question():
            truth = [gold.text for gold in example.answers]
            return {"question": example.question, **_known("truth", truth, bool(truth) or example.is_impossible)}


def _known(name: str, value: Any, is_known: bool) -> PredictionRow:
    return {name: value} if is_known else {}


def _describe_prediction(prediction: Prediction) -> PredictionRow:
    match prediction:
        case ClassPrediction():
            chances = {label: _number(chance) for label, chance in prediction.probabilities.items()}
            return {"prediction": prediction.label, "probabilities": chances}
        case ValuePrediction():
            return {"prediction": _number(prediction.value)}
        case TagsPrediction():
            return {"prediction": list(prediction.tags), "probabilities": list(map(_number, prediction.probabilities))}
        case AnswerPrediction():
            best = prediction.best
            return {
                "prediction": prediction.text,
                "answer": _describe_span(best),
                "no_answer_score": _number(best.no_answer_score),
                "alternatives": [_describe_span(span) for span in best.alternatives],
            }


def _describe_span(span: Span | SpanAnswer) -> PredictionRow:
    return {"text": span.text, "start": span.start, "end": span.end, "score": _number(span.score)}


def _number(value: float) -> float | None:
    """JSON knows no NaN: what is not finite is null."""
    return round(float(value), _DIGITS) if math.isfinite(value) else None


def write_predictions(path: Path, rows: Iterable[PredictionRow]) -> None:
    write_file(path, to_json_lines(rows))


def to_json_lines(rows: Iterable[PredictionRow]) -> bytes:
    lines = "".join(json.dumps(row, ensure_ascii=False).translate(_LINE_ENDS) + "\n" for row in rows)
    # Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it.
    return lines.encode("utf-8", "backslashreplace")


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
