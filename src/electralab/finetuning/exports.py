"""A tuned network <-> a folder that everything else takes: Hugging Face's layout, the tokenizer, and what it is for.

Tuned, TunedCard <-> model folder
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from electralab.artifacts import new_folder, read_json, write_json
from electralab.config import Settings
from electralab.errors import DamagedArtifact
from electralab.finetuning.questions import SpanConfig
from electralab.model.folders.folder import Storage, load_task_model, locate_model, save_task_model
from electralab.model.task_model import TaskModel
from electralab.tokens.tokenizer import Tokenizer

CARD = "task.json"


class TunedCard(Settings):
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
class TunedModel:
    network: TaskModel
    tokenizer: Tokenizer
    card: TunedCard


def save_model(folder: Path, model: TunedModel, storage: Storage = "fp32") -> None:
    with new_folder(folder, kind="model") as temporary:
        write_model(temporary, model, storage)


def write_model(folder: Path, model: TunedModel, storage: Storage) -> None:
    """Into a folder that the caller owns."""
    special, config = model.tokenizer.special, model.network.config
    ids = {"pad_id": special.pad, "cls_id": special.cls, "sep_id": special.sep}
    save_task_model(folder, model.network, storage=storage, **ids)
    model.tokenizer.save(folder, max_length=config.sequence_length, has_segments=config.backbone == "electra")
    write_json(folder / CARD, model.card.model_dump(mode="json"))


def load_model(path: Path) -> TunedModel:
    """From a run or a model folder, ours or Hugging Face's."""
    folder = locate_model(path, "model")
    network, tokenizer = load_task_model(folder), Tokenizer.load(folder)
    tokenizer.require_fit(network.config.vocab_size, folder)
    return attach_card(folder, network, tokenizer)


def attach_card(folder: Path, network: TaskModel, tokenizer: Tokenizer) -> TunedModel:
    """What the folder says about the use of its network, or what can be told without it."""
    if (folder / CARD).is_file():
        return TunedModel(network, tokenizer, _read_card(folder / CARD))
    length = min(network.config.sequence_length, 512)
    card = TunedCard(task=network.head_config.kind, num_texts=0, sequence_length=length)
    return TunedModel(network, tokenizer, card)


def _read_card(path: Path) -> TunedCard:
    try:
        return TunedCard.model_validate(read_json(path))
    except ValidationError as error:
        raise DamagedArtifact(f"{path}: not what a task is ({error.errors()[0]['msg']}); restore the file") from None
