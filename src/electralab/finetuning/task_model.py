"""A tuned network <-> a folder that everything else takes: Hugging Face's layout, the tokenizer, and what it is for.

TaskModel, TaskModelConfig <-> model folder
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from electralab.artifacts import new_folder, read_json, write_json
from electralab.config import Settings
from electralab.errors import DamagedArtifact, InputError
from electralab.model.folders.folder import Storage, load_task_model, locate_model, save_task_model
from electralab.model.task_model import TaskModel
from electralab.tasks.features import SpanConfig
from electralab.tasks.kind import AnyKind
from electralab.tasks.kinds import KINDS
from electralab.tokens.tokenizer import Tokenizer

TASK_FILE = "task.json"


class TaskModelConfig(Settings):
    """What a model folder of transformers does not say: how its inputs were read and its outputs are to be taken."""

    task: str
    num_texts: int
    """1 or 2; 0 where it is not known, and either is taken."""
    sequence_length: int
    spans: SpanConfig = SpanConfig()
    threshold: float = 0.0
    """The no-answer score above which a question stays unanswered."""
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
    ids = {"pad_id": special.pad, "cls_id": special.cls, "sep_id": special.sep}
    save_task_model(folder, model.network, storage=storage, **ids)
    model.tokenizer.save(folder, max_length=config.sequence_length, has_segments=config.backbone == "electra")
    write_json(folder / TASK_FILE, model.config.model_dump(mode="json"))


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
        raise DamagedArtifact(f"{path}: not what a task is ({error.errors()[0]['msg']}); restore the file") from None
