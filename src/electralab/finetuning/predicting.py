"""TaskModel models at work: examples -> a prediction for each, in order, whatever the lengths; files for GLUE's server.

LoadedTaskModel..., Example... -> PredictionRow... -> CoLA.tsv
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from electralab.artifacts import write_file
from electralab.errors import InputError, UsageError
from electralab.events import Event, Progress, Result, run_to_end, warn
from electralab.finetuning.summary import list_seeds
from electralab.finetuning.task_model import LoadedTaskModel, load_model
from electralab.records.tuned import PredictionRow, Scores, to_json_lines
from electralab.stopping import StopSignal
from electralab.tasks.catalog import TASKS
from electralab.tasks.features import FeatureEncoder, average_logits, predict_logits
from electralab.tasks.kind import NetworkOutputs, Split, Task
from electralab.tasks.kinds.classification import ClassPrediction
from electralab.tasks.load import TaskDataConfig, has_folder, read_tests

# Rows to keep in memory at once: enough for batches of like length.
_CHUNK = 4096
_BATCH_TOKENS = 8192

BEST_SEED = "submission"
"""The folder, in the run of a task, of what its best seed predicts."""
ENSEMBLE = "submission-ensemble"
"""The folder of what all its seeds predict together."""
AX = "ax"
"""GLUE's diagnostic rows, which nobody trains on: a model tuned on MNLI answers them."""


def load_models(path: Path, *, is_ensemble: bool) -> list[LoadedTaskModel]:
    """The model of a run or folder; or that of every seed of a run, to be averaged."""
    if not is_ensemble:
        return [load_model(path)]
    folders = [seed / "model" for seed in list_seeds(path) if (seed / "model").is_dir()]
    if len(folders) < 2:
        held = "one seed" if folders else "no seeds"
        raise InputError(f"{path}: holds {held}, nothing to average; give a run of 'finetune --seeds N'")
    return [load_model(folder) for folder in folders]


def predict_examples(
    models: Sequence[LoadedTaskModel], examples: Sequence[Any], *, batch_tokens: int, stop: StopSignal
) -> Iterator[Event[list[PredictionRow]]]:
    """An answer for every example, in order. `cut` marks a text that did not fit; sentences and contexts go on in
    another row, and lose nothing."""
    first = models[0]
    kind, head, config = first.kind, first.network.head_config, first.config
    encoder = FeatureEncoder(first.tokenizer, head.labels, config.sequence_length, config.spans)
    pad_id = first.tokenizer.special.pad
    threshold = sum(model.config.threshold for model in models) / len(models)
    answered: list[PredictionRow] = []
    for start in range(0, len(examples), _CHUNK):
        chunk = examples[start : start + _CHUNK]
        encoded = kind.encode(encoder, chunk, is_labelled=False)
        by_model = [predict_logits(model.network, encoded.features, pad_id, batch_tokens, stop) for model in models]
        rows = by_model[0] if len(models) == 1 else average_logits(by_model, are_classes=bool(head.labels))
        outputs = NetworkOutputs(head, chunk, encoded.features, rows, config.spans, threshold)
        answers = [kind.to_row(*pair) for pair in zip(chunk, kind.decode(outputs), strict=True)]
        for index in encoded.truncated if kind.is_pooled else ():
            answers[index] = answers[index].model_copy(update={"cut": True})
        answered += answers
        yield Progress("predicting", len(answered), len(examples))
    if cut := sum(row.cut for row in answered):
        yield warn(f"{cut:,} of {len(examples):,} texts are longer than the model's rows and were cut")
    yield Result(answered)


def require_whole(split: Split) -> None:
    """A row that could not be read would be missing, and at an end nobody would notice."""
    for bad in split.bad_rows:
        raise InputError(
            f"{split.path}: row {bad.row} {bad.reason}, and GLUE's server takes whole test files only; mend the row"
        )


def write_submission(path: Path, task: Task, rows: Sequence[PredictionRow]) -> None:
    """A line `index<TAB>prediction` for each row of the test file, numbered from 0 in the order of numeric ids.

    Labels are those the server knows; STS-B's numbers lie in 0..5.
    """
    if not task.submissions:
        raise UsageError(f"--task: {task.display} has no place on GLUE's server; submissions are for GLUE's tasks only")
    if all(row.id.isdecimal() for row in rows):
        rows = sorted(rows, key=lambda row: int(row.id))
        for before, after in pairwise(rows):
            # A gap is a row that could not be read, and would shift all that follow it.
            if int(after.id) != int(before.id) + 1:
                raise InputError(
                    f"{path}: the row after {before.id} is {after.id}, GLUE's server takes whole test files only; "
                    "mend the rows that could not be read"
                )
    lines = ["index\tprediction\n"]
    for index, row in enumerate(rows):
        if task.kind.has_numbers and isinstance(row.prediction, float):
            lines.append(f"{index}\t{min(max(row.prediction, 0.0), 5.0):.3f}\n")
        elif row.prediction in task.labels:
            lines.append(f"{index}\t{row.prediction}\n")
        else:
            raise InputError(
                f"{path}: {task.display} has no label {row.prediction!r}, GLUE's server takes "
                f"{', '.join(task.labels)}; tune the model on {task.name}"
            )
    write_file(path, "".join(lines))


def read_diagnostics(data_dir: Path) -> tuple[Split, ...]:
    """GLUE's diagnostic rows: those to submit first; none where they are not there."""
    task = TASKS[AX]
    return read_tests(task, data_dir, task.labels, TaskDataConfig()) if has_folder(task, data_dir) else ()


def score_diagnostics(mnli_dir: Path, split: Split, stop: StopSignal) -> Scores:
    """Of labelled rows, by a model tuned on MNLI."""
    task = TASKS[AX]
    events = predict_examples([load_model(mnli_dir)], split.examples, batch_tokens=_BATCH_TOKENS, stop=stop)
    predictions = [ClassPrediction(str(row.prediction), {}) for row in run_to_end(events)]
    return task.kind.score(task, split.examples, predictions, task.labels).scores


def predict_diagnostics(mnli_dir: Path, split: Split, stop: StopSignal, *, has_ensemble: bool) -> None:
    """What the model of a run on MNLI says and, where it has several seeds, what these say together."""
    require_whole(split)
    for folder, is_ensemble in ((BEST_SEED, False), (ENSEMBLE, True))[: 1 + has_ensemble]:
        models = load_models(mnli_dir, is_ensemble=is_ensemble)
        rows = run_to_end(predict_examples(models, split.examples, batch_tokens=_BATCH_TOKENS, stop=stop))
        if not is_ensemble:
            write_file(mnli_dir / "predictions" / "diagnostic.jsonl", to_json_lines(rows))
        write_submission(mnli_dir / folder / TASKS[AX].submissions["test"], TASKS[AX], rows)
