"""Tuned models at work: examples -> a prediction for each, in order, whatever the lengths.

TunedModel..., Example... -> Prediction...
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from electralab.errors import InputError
from electralab.finetuning.decoding import ClassPrediction, Prediction, decode
from electralab.finetuning.encoding import Framer
from electralab.finetuning.examples import Example
from electralab.finetuning.exports import TunedModel, load_model
from electralab.finetuning.folders import has_folder
from electralab.finetuning.forward import average_outputs, run_network
from electralab.finetuning.predictions import describe_predictions, write_predictions, write_submission
from electralab.finetuning.reading import TaskDataConfig, read_tests
from electralab.finetuning.tasks import TASKS
from electralab.model.folder import locate_model
from electralab.stopping import StopSignal

# Rows to keep in memory at once: enough for batches of like length.
_CHUNK = 4096


def load_models(path: Path, *, is_ensemble: bool) -> list[TunedModel]:
    """The model of a run or folder; or that of every seed of a run, to be averaged."""
    if not is_ensemble:
        return [load_model(path)]
    seeds = sorted(path.glob("seed-*/model"), key=lambda folder: int(folder.parent.name.removeprefix("seed-")))
    if len(seeds) < 2:
        raise InputError(f"{path}: holds {len(seeds)} seeds, nothing to average; give a run of 'finetune --seeds N'")
    return [load_model(folder) for folder in seeds]


def predict_examples(
    models: Sequence[TunedModel], examples: Sequence[Example], *, batch_tokens: int, stop: StopSignal
) -> Iterator[list[Prediction]]:
    """Chunk by chunk, each in the order of its examples."""
    first = models[0]
    head, card = first.network.head_config, first.card
    framer = Framer(first.tokenizer, head.labels, card.sequence_length, card.spans)
    pad_id = first.tokenizer.special.pad
    for start in range(0, len(examples), _CHUNK):
        chunk = examples[start : start + _CHUNK]
        encoded = framer.encode(chunk, is_labelled=False)
        outputs = [run_network(model.network, encoded.features, pad_id, batch_tokens, stop) for model in models]
        blended = outputs[0] if len(outputs) == 1 else average_outputs(outputs, are_classes=bool(head.labels))
        yield decode(head, chunk, encoded, blended, card.spans, card.threshold)


def predict_diagnostics(mnli_dir: Path, data_dir: Path) -> None:
    """GLUE's diagnostic rows, which nobody trains on, by a model tuned on MNLI; nothing where they are not there."""
    task = TASKS["ax"]
    if not has_folder(task, data_dir):
        return
    model = load_model(locate_model(mnli_dir, "model"))
    for split in read_tests(task, data_dir, task.labels, TaskDataConfig()):
        chunks = predict_examples([model], split.examples, batch_tokens=8192, stop=StopSignal())
        predictions = [prediction for chunk in chunks for prediction in chunk]
        rows = describe_predictions(split.examples, predictions)
        write_predictions(mnli_dir / "predictions" / "diagnostic.jsonl", rows)
        labels = [one.label for one in predictions if isinstance(one, ClassPrediction)]
        write_submission(
            mnli_dir / "submission" / task.submission, task.name, [example.id for example in split.examples], labels
        )
