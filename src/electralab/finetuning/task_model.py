"""A tuned network: a folder that everything else takes, and a prediction for each example, in order.

TaskModel, TaskModelConfig <-> model folder: Hugging Face's layout, the tokenizer, and what it is for
LoadedTaskModel..., Example... -> PredictionRow...
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from electralab.artifacts import MANIFEST, new_folder, read_json, sha256_file, sha256_json, write_json
from electralab.config import Settings, first_complaint
from electralab.errors import DamagedArtifact, InputError
from electralab.events import Event, Progress, Result, warn
from electralab.model.folders.folder import Storage, load_task_model, locate_model, save_network
from electralab.model.task_model import TaskModel
from electralab.records.tuned import PredictionRow
from electralab.stopping import StopSignal
from electralab.tasks.features import FeatureEncoder, SpanConfig, average_logits, predict_logits
from electralab.tasks.kind import AnyKind, Example, NetworkOutputs
from electralab.tasks.kinds import KINDS
from electralab.tokens.tokenizer import Tokenizer

TASK_FILE = "task.json"

# Rows to keep in memory at once: enough for batches of like length.
_CHUNK = 4096


class TaskModelConfig(Settings):
    """What a model folder of transformers does not say: how its inputs were read and its outputs are to be taken."""

    task: str
    num_texts: int
    """1 or 2; 0 where it is not known, and either is taken."""
    sequence_length: int
    spans: SpanConfig = SpanConfig()
    threshold: float = 0.0
    """The no-answer score above which a question stays unanswered; the log-odds above which a word is called wrong."""
    has_untrained_segments: bool = False
    """Neither pre-training nor the task had a second text in a row."""


@dataclass(frozen=True, slots=True)
class LoadedTaskModel:
    network: TaskModel
    tokenizer: Tokenizer
    config: TaskModelConfig

    @property
    def kind(self) -> AnyKind:
        name = self.network.head_config.kind
        if name not in KINDS:
            raise InputError(f"the model is tuned for a kind of task that is not known here, {name!r}")
        return KINDS[name]

    @property
    def num_texts(self) -> int:
        """1 or 2; 0 where one is as good as two."""
        return len(self.kind.text_parts) or self.config.num_texts


def save_model(folder: Path, model: LoadedTaskModel, storage: Storage = "fp32") -> None:
    with new_folder(folder, kind="model") as temporary:
        write_model(temporary, model, storage)


def write_model(folder: Path, model: LoadedTaskModel, storage: Storage) -> None:
    """Into a folder that the caller owns."""
    special, config = model.tokenizer.special, model.network.config
    save_network(folder, model.network, pad_id=special.pad, cls_id=special.cls, sep_id=special.sep, storage=storage)
    model.tokenizer.save(folder, max_length=config.sequence_length, has_segments=config.backbone == "electra")
    write_json(folder / TASK_FILE, model.config.model_dump(mode="json"))


def copy_model(source: Path, folder: Path) -> None:
    """A model folder in another place, with a manifest of its own."""
    with new_folder(folder, kind="model") as temporary:
        for file in source.iterdir():
            if file.name != MANIFEST:
                shutil.copyfile(file, temporary / file.name)


def load_model(path: Path) -> LoadedTaskModel:
    """From a run or a model folder, ours or Hugging Face's."""
    folder = locate_model(path, "model")
    network, tokenizer = load_task_model(folder), Tokenizer.load(folder)
    tokenizer.require_fit(network.config.vocab_size, folder)
    return load_task_config(folder, network, tokenizer)


def load_task_config(folder: Path, network: TaskModel, tokenizer: Tokenizer) -> LoadedTaskModel:
    """What the folder says about the use of its network, or what can be told without it."""
    path = folder / TASK_FILE
    if not path.is_file():
        length = min(network.config.sequence_length, 512)
        config = TaskModelConfig(task=network.head_config.kind, num_texts=0, sequence_length=length)
        return LoadedTaskModel(network, tokenizer, config)
    try:
        return LoadedTaskModel(network, tokenizer, TaskModelConfig.model_validate(read_json(path)))
    except ValidationError as error:
        reason = first_complaint(error).message
        raise DamagedArtifact(f"{path}: not what a task is ({reason}); restore the file") from None


def identify_model(*folders: Path) -> str:
    """The hash of what the weights and the tokenizer are, not of where they lie."""
    names = ("config.json", "model*.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
    files = [file for folder in folders for name in names for file in sorted(folder.glob(name))]
    return sha256_json([sha256_file(file) for file in files])


def list_seeds(run_dir: Path) -> list[Path]:
    """The folders of a run's seeds, in order."""
    folders = [path for path in run_dir.glob("seed-*") if path.name.removeprefix("seed-").isdecimal()]
    return sorted(folders, key=lambda path: int(path.name.removeprefix("seed-")))


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
    models: Sequence[LoadedTaskModel], examples: Sequence[Example], *, batch_tokens: int, stop: StopSignal
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
        # The mean of one model's probabilities would be its own but for rounding.
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
