"""What fine-tuning starts from: an encoder, ours or Hugging Face's, and its tokenizer; on it a fresh head.

MODEL -> Pretrained -> TaskModel
"""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch

from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.finetuning.identity import identify_model
from electralab.finetuning.settings import FinetuneConfig
from electralab.finetuning.task_model import TASK_FILE
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import has_untrained_segments, load_encoder, locate_encoder
from electralab.model.task_model import HeadConfig, Pooling, TaskModel, build_task_model
from electralab.model.weights import init_weights
from electralab.tasks.load import TaskData
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Pretrained:
    encoder: Encoder
    tokenizer: Tokenizer
    identity: str
    has_untrained_segments: bool = False
    """No row that it was trained on had a second segment, in which the second text of a pair stands."""


def load_pretrained(model: Path, init_from: Path | None) -> Pretrained:
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
    # A model tuned on single texts says so in task.json: its second segment is still that of its pre-training.
    task_file = used / TASK_FILE
    is_marked = task_file.is_file() and read_json(task_file).get("has_untrained_segments") is True
    return Pretrained(encoder, tokenizer, identity, has_untrained_segments(used) or is_marked)


def build_network(
    origin: Pretrained, data: TaskData, config: FinetuneConfig, seed: int, *, copies_segment: bool = False
) -> TaskModel:
    """Step 0 of a seed: the encoder as it was pre-trained, and a head drawn by the seed.

    With `copies_segment` the second segment, which nothing has trained, begins as a copy of the first.
    """
    kind, is_causal = data.task.kind, origin.encoder.config.is_causal
    pooling: Pooling = "last" if is_causal else "first"
    if config.head.pooling == "mean" and kind.is_pooled:
        pooling = "mean"
    head = HeadConfig(
        kind=kind.name,
        shape=kind.shape,
        labels=data.labels,
        style=config.head.style,
        dropout=config.head.dropout,
        pooling=pooling,
    )
    if config.encoder_dropout is None:
        encoder = deepcopy(origin.encoder)
    else:
        encoder = Encoder(origin.encoder.config.model_copy(update={"dropout": config.encoder_dropout}))
        with torch.no_grad():
            for ours, theirs in zip(encoder.parameters(), origin.encoder.parameters(), strict=True):
                ours.copy_(theirs)
    network = build_task_model(encoder, kind.fit_head(head, data.train.examples), seed)
    segments = network.encoder.embeddings.segments
    if config.from_scratch:
        init_weights(network, seed)
    elif copies_segment and segments is not None:
        with torch.no_grad():
            segments.weight[1] = segments.weight[0]
    return network
