"""What fine-tuning starts from: an encoder, ours or Hugging Face's, and its tokenizer; on it a fresh head.

MODEL -> Origin -> Tuned
"""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.finetuning.examples import Question, ScoredExample
from electralab.finetuning.exports import CARD
from electralab.finetuning.identity import identify_model
from electralab.finetuning.reading import TaskData
from electralab.finetuning.settings import FinetuneConfig
from electralab.finetuning.tasks import Task
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import has_untrained_segments, load_encoder, locate_encoder
from electralab.model.task_model import HeadConfig, Pooling, TaskModel, build_task_model
from electralab.model.weights import init_weights
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Origin:
    encoder: Encoder
    tokenizer: Tokenizer
    identity: str
    has_untrained_segments: bool = False
    """No row that it was trained on had a second segment, in which the second text of a pair stands."""


def load_origin(model: Path, init_from: Path | None) -> Origin:
    """The encoder of MODEL, or of another model, tuned before, that reads the same tokens."""
    folder = locate_encoder(model)
    tokenizer = Tokenizer.load(folder)
    used = folder
    if init_from is None:
        encoder, identity = load_encoder(folder), identify_model(folder)
    else:
        used = other = locate_encoder(init_from)
        if Tokenizer.load(other).to_json() != tokenizer.to_json():
            raise InputError(
                f"{other}: has another tokenizer than {folder}, so its weights would read other words; "
                "give a model that was tuned from MODEL"
            )
        encoder, identity = load_encoder(other), identify_model(folder, other)
    if tokenizer.vocab_size > encoder.config.vocab_size:
        raise InputError(
            f"{folder}: its tokenizer has {tokenizer.vocab_size} entries, its model {encoder.config.vocab_size}; "
            "the folder mixes files of two models, restore it"
        )
    return Origin(encoder, tokenizer, identity, has_untrained_segments(used) or _read_card_mark(used))


def _read_card_mark(folder: Path) -> bool:
    """Of a model tuned on single texts, whose second segment is still that of its pre-training."""
    return (folder / CARD).is_file() and read_json(folder / CARD).get("has_untrained_segments") is True


def build_network(
    origin: Origin, data: TaskData, config: FinetuneConfig, seed: int, *, copies_segment: bool = False
) -> TaskModel:
    """Step 0 of a seed: the encoder as it was pre-trained, and a head drawn by the seed.

    With `copies_segment` the second segment, which nothing has trained, begins as a copy of the first.
    """
    has_answerability = any(isinstance(example, Question) and example.is_impossible for example in data.train.examples)
    scores = [example.score for example in data.train.examples if isinstance(example, ScoredExample)]
    head = HeadConfig(
        kind=data.task.kind,
        labels=data.labels,
        style=config.head.style,
        has_answerability=has_answerability,
        origin=float(np.mean(scores)) if scores else 0.0,
        unit=float(np.std(scores)) or 1.0 if scores else 1.0,
        dropout=config.head.dropout,
        pooling=_choose_pooling(data.task, origin.encoder, config),
    )
    network = build_task_model(_copy_encoder(origin.encoder, config), head, seed)
    segments = network.encoder.embeddings.segments
    if config.from_scratch:
        init_weights(network, seed)
    elif copies_segment and segments is not None:
        with torch.no_grad():
            segments.weight[1] = segments.weight[0]
    return network


def _choose_pooling(task: Task, encoder: Encoder, config: FinetuneConfig) -> Pooling:
    if config.head.pooling == "mean" and task.kind in ("classify", "regress"):
        return "mean"
    return "last" if encoder.config.is_causal else "first"


def _copy_encoder(encoder: Encoder, config: FinetuneConfig) -> Encoder:
    if config.encoder_dropout is None:
        return deepcopy(encoder)
    copy = Encoder(encoder.config.model_copy(update={"dropout": config.encoder_dropout}))
    with torch.no_grad():
        for mine, theirs in zip(copy.parameters(), encoder.parameters(), strict=True):
            mine.copy_(theirs)
    return copy
