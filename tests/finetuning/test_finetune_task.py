"""What a step of fine-tuning is: its rows, its micro-batches, its dropout, each a function of seed and step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from little_networks import make_encoder, make_encoder_config

from electralab.config import ConfigLayer, SettingsTree
from electralab.finetuning.settings import FinetuneConfig, resolve_finetune
from electralab.finetuning.task import FinetuneTask, count_steps
from electralab.model.task_model import HeadConfig, build_task_model
from electralab.records.run import StepRecord
from electralab.tasks.catalog import find_task
from electralab.tasks.features import Feature
from electralab.tasks.kinds import KINDS


def settings(**values: Any) -> FinetuneConfig:
    tree: SettingsTree = {"batch": {"size": 4}, **values}
    return resolve_finetune(find_task("classify"), make_encoder_config(), [ConfigLayer("command line", tree)])


def make_features(count: int = 10) -> list[Feature]:
    rng = np.random.default_rng(2)
    lengths = rng.integers(3, 12, count)
    return [
        Feature(row, rng.integers(5, 50, length), np.zeros(length, dtype=np.int64), np.array([row % 2]))
        for row, length in enumerate(lengths)
    ]


def make_work(
    features: Sequence[Feature], *, dropout: float = 0.0, seed: int = 0, score: Any = dict, **values: Any
) -> FinetuneTask:
    encoder = make_encoder(dropout=dropout, attention_dropout=dropout)
    network = build_task_model(encoder, HeadConfig(kind="classify", labels=("no", "yes"), dropout=dropout), seed=1)
    return FinetuneTask(network, KINDS["classify"], features, settings(**values), seed, 0, torch.device("cpu"), score)


def losses(work: FinetuneTask, *steps: int) -> list[list[float]]:
    return [[part.item() for part in work.micro_losses(step)] for step in steps]


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ({"epochs": 3}, 9),
        ({"epochs": 0.5}, 2),
        ({"epochs": 0.001}, 1),
        ({"epochs": 3, "steps": 5}, 5),
        ({"min_steps": 100}, 100),
        ({"epochs": 50, "min_steps": 100}, 150),
        ({"steps": 5, "min_steps": 100}, 5),
    ],
)
def test_epochs_or_steps_say_how_long_a_run_is(values: SettingsTree, steps: int) -> None:
    assert count_steps(settings(**values), rows=10) == steps


def test_an_epoch_of_steps_sees_every_row_once() -> None:
    features = make_features()
    work = make_work(features)
    tokens = []
    for step in (1, 2, 3):
        list(work.micro_losses(step))
        tokens.append(work.count_tokens())
    assert sum(tokens) == sum(len(feature.ids) for feature in features)


def test_micro_batches_add_up_to_the_loss_of_the_step() -> None:
    features = make_features()
    whole = losses(make_work(features), 1, 2, 5)
    parts = losses(make_work(features, batch={"size": 4, "micro_size": 3}), 1, 2, 5)
    assert [len(of_step) for of_step in whole] == [1, 1, 1]
    assert max(len(of_step) for of_step in parts) == 2
    assert [sum(of_step) for of_step in parts] == pytest.approx([sum(of_step) for of_step in whole], rel=1e-5)


def test_a_step_is_the_same_whatever_came_before_it() -> None:
    features = make_features()
    walked = losses(make_work(features, dropout=0.5), 1, 2, 3, 4, 5)
    assert losses(make_work(features, dropout=0.5), 5, 3) == [walked[4], walked[2]]
    assert losses(make_work(features, dropout=0.5, seed=1), 5) != [walked[4]]


def test_scores_go_by_the_name_of_dev() -> None:
    judgement = make_work(make_features(), score=lambda: {"accuracy": 0.5}).evaluate(StepRecord(step=3, values={}))
    assert (judgement.scores, judgement.warnings) == ({"dev_accuracy": 0.5}, [])
