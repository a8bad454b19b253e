"""Tuned models at work: examples -> a prediction for each, in order, whatever the lengths.

TunedModel..., Example... -> Event..., rows
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from electralab.errors import InputError
from electralab.events import Event, Progress, Result, run_to_end, warn
from electralab.finetuning.decoding import ClassPrediction, decode
from electralab.finetuning.encoding import Framer
from electralab.finetuning.examples import Example, Split
from electralab.finetuning.exports import TunedModel, load_model
from electralab.finetuning.folders import has_folder
from electralab.finetuning.forward import average_outputs, run_network
from electralab.finetuning.judging import judge_predictions
from electralab.finetuning.predictions import (
    describe_predictions,
    require_whole,
    write_predictions,
    write_submission,
)
from electralab.finetuning.reading import TaskDataConfig, read_tests
from electralab.finetuning.submission_zips import BEST_SEED, ENSEMBLE
from electralab.finetuning.summary import list_seeds
from electralab.finetuning.tasks import TASKS
from electralab.records.predictions import PredictionRow
from electralab.records.tuned import Scores
from electralab.stopping import StopSignal

# Rows to keep in memory at once: enough for batches of like length.
_CHUNK = 4096
_BATCH_TOKENS = 8192

AX = "ax"
"""GLUE's diagnostic rows."""


def load_models(path: Path, *, is_ensemble: bool) -> list[TunedModel]:
    """The model of a run or folder; or that of every seed of a run, to be averaged."""
    if not is_ensemble:
        return [load_model(path)]
    folders = [seed / "model" for seed in list_seeds(path) if (seed / "model").is_dir()]
    if len(folders) < 2:
        held = "one seed" if folders else "no seeds"
        raise InputError(f"{path}: holds {held}, nothing to average; give a run of 'finetune --seeds N'")
    return [load_model(folder) for folder in folders]


def predict_examples(
    models: Sequence[TunedModel], examples: Sequence[Example], *, batch_tokens: int, stop: StopSignal
) -> Iterator[Event[list[PredictionRow]]]:
    """An answer for every example, in order. `cut` marks a text that did not fit; sentences and contexts go on in
    another row, and lose nothing."""
    first = models[0]
    head, card = first.network.head_config, first.card
    framer = Framer(first.tokenizer, head.labels, card.sequence_length, card.spans)
    pad_id = first.tokenizer.special.pad
    threshold = sum(model.card.threshold for model in models) / len(models)
    answered: list[PredictionRow] = []
    for start in range(0, len(examples), _CHUNK):
        chunk = examples[start : start + _CHUNK]
        encoded = framer.encode(chunk, is_labelled=False)
        outputs = [run_network(model.network, encoded.features, pad_id, batch_tokens, stop) for model in models]
        blended = outputs[0] if len(outputs) == 1 else average_outputs(outputs, are_classes=bool(head.labels))
        predictions = decode(head, chunk, encoded, blended, card.spans, threshold)
        rows = describe_predictions(chunk, predictions)
        for place in encoded.too_long if head.is_pooled else []:
            rows[place] = rows[place].model_copy(update={"cut": True})
        answered += rows
        yield Progress("predicting", len(answered), len(examples))
    if cut := sum(bool(row.cut) for row in answered):
        yield warn(f"{cut:,} of {len(examples):,} texts are longer than the model's rows and were cut")
    yield Result(answered)


def read_diagnostics(data_dir: Path) -> tuple[Split, ...]:
    """GLUE's diagnostic rows, which nobody trains on: those to submit first; none where they are not there."""
    task = TASKS[AX]
    return read_tests(task, data_dir, task.labels, TaskDataConfig()) if has_folder(task, data_dir) else ()


def score_diagnostics(mnli_dir: Path, split: Split, stop: StopSignal) -> Scores:
    """Of labelled rows, by a model tuned on MNLI."""
    task = TASKS[AX]
    events = predict_examples([load_model(mnli_dir)], split.examples, batch_tokens=_BATCH_TOKENS, stop=stop)
    said = [ClassPrediction(str(row.prediction), {}) for row in run_to_end(events)]
    return judge_predictions(task, split, said, task.labels, 0.0).scores


def predict_diagnostics(mnli_dir: Path, split: Split, stop: StopSignal, *, has_ensemble: bool) -> None:
    """What the model of a run on MNLI says and, where it has several seeds, what these say together."""
    require_whole(split)
    for folder, is_ensemble in ((BEST_SEED, False), (ENSEMBLE, True))[: 1 + has_ensemble]:
        models = load_models(mnli_dir, is_ensemble=is_ensemble)
        rows = run_to_end(predict_examples(models, split.examples, batch_tokens=_BATCH_TOKENS, stop=stop))
        if not is_ensemble:
            write_predictions(mnli_dir / "predictions" / "diagnostic.jsonl", rows)
        path = mnli_dir / folder / TASKS[AX].submission
        write_submission(path, AX, rows)
