"""A kind of task that the package does not have, whole in one file: several labels for a text, or none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.model.task_model import HeadConfig
from electralab.records.tuned import PredictionRow
from electralab.tasks.features import Feature, TaskBatch, soft_binary_cross_entropy
from electralab.tasks.kind import OWN_FILES, NetworkOutputs, Prediction, RowReader, Split, SplitScores, Task
from electralab.tasks.table import Row
from electralab.tasks.texts import TextExample, TextKind


@dataclass(frozen=True, slots=True)
class TopicsExample(TextExample):
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicsPrediction(Prediction):
    topics: tuple[str, ...]


class Topics(TextKind[TopicsExample, TopicsPrediction]):
    name = "topics"
    unlabelled = TopicsExample("", (), ())
    has_classes = True
    label_columns = ("topics",)

    def own_tasks(self) -> tuple[Task, ...]:
        return (Task("topics", "topics of a text", self, ("exact",), files=OWN_FILES),)

    def convert(self, reader: RowReader, row: Row) -> TopicsExample:
        topics = reader.read_list(row, reader.columns.label) if reader.columns.label else ()
        return TopicsExample(reader.read_id(row), reader.read_texts(row), topics)

    def find_labels(self, split: Split[TopicsExample]) -> tuple[str, ...]:
        return tuple(sorted({topic for example in split.examples for topic in example.topics}))

    def target(self, example: TopicsExample, class_ids: Mapping[str, int]) -> NDArray[np.float32]:
        target = np.zeros(len(class_ids), dtype=np.float32)
        target[[class_ids[topic] for topic in example.topics]] = 1
        return target

    def loss(self, logits: Tensor, batch: TaskBatch, head: HeadConfig) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits.float(), batch.targets, reduction="sum")

    def distillation_loss(
        self, logits: Tensor, teacher_logits: Tensor, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        return soft_binary_cross_entropy(logits, teacher_logits, temperature)

    def decode(self, outputs: NetworkOutputs[TopicsExample, Feature]) -> list[TopicsPrediction]:
        labels = outputs.head.labels
        return [
            TopicsPrediction(tuple(label for label, logit in zip(labels, row.logits, strict=True) if logit > 0))
            for row in outputs.rows
        ]

    def score(
        self,
        task: Task,
        examples: Sequence[TopicsExample],
        predictions: Sequence[TopicsPrediction],
        labels: Sequence[str],
    ) -> SplitScores:
        pairs = zip(examples, predictions, strict=True)
        right = [set(example.topics) == set(prediction.topics) for example, prediction in pairs]
        return SplitScores({"exact": sum(right) / len(right)})

    def to_row(self, example: TopicsExample, prediction: TopicsPrediction) -> PredictionRow:
        row = PredictionRow(id=example.id, texts=example.texts, prediction=prediction.topics)
        return row.with_truth(example.topics) if example.topics else row


KIND = Topics()
