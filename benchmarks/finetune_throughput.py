"""Fine-tuning speed: ours against the Trainer of transformers, turn by turn in one run.

    python benchmarks/finetune_throughput.py --data DIR [--shapes small tiny] [--tasks sst-2 qnli] [--json]

All train the same network (our export, loaded by its class of transformers; equal logits are checked first) on the
same rows with the same batch size, length, dropout, AdamW and linear decay, in fp32 on the same number of threads. A
turn is one epoch over the rows; sides take turns, so that a noisy machine is noisy for all. There are two peers: the
Trainer as it is, with dynamic padding, and the Trainer told to group rows by length. The ratio is the median over the
turns of our examples per second to the peer's: of the steps alone, with texts tokenised before, and of everything from
texts to the last step ("whole").

DIR holds glue/SST-2 and glue/QNLI as they are distributed, and vocab/bert-base-uncased-vocab.txt.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.utils import logging

from electralab.config import ConfigLayer
from electralab.finetuning.settings import FinetuneConfig, resolve_finetune
from electralab.finetuning.task import FinetuneTask, count_steps
from electralab.finetuning.task_model import LoadedTaskModel, TaskModelConfig, save_model
from electralab.model.electra import parameter_depths
from electralab.model.encoder import Encoder
from electralab.model.settings import derive_encoders
from electralab.model.task_model import HeadConfig, TaskModel
from electralab.model.weights import init_weights
from electralab.pretraining.settings import read_settings, resolve_pretrain
from electralab.runtime import default_threads, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.tasks.catalog import find_task
from electralab.tasks.features import Feature, FeatureEncoder, collate, order_epoch
from electralab.tasks.kinds import classification
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.load import TaskDataConfig, read_task
from electralab.tokens.tokenizer import Tokenizer
from electralab.training.checkpoint import TrainingProgress, TrainingState
from electralab.training.loop import LossScale, TrainStep
from electralab.training.optimizer import Optimizer, group_parameters
from electralab.training.schedule import StepPlan, lr_schedule
from electralab.training.trainer import take_steps

LENGTH = 128
WARM_UP_ROWS = 128
CPU = torch.device("cpu")

# The dropout that transformers' own config of the backbone has, unless another is asked for.
SHAPES = {"small": 0.1, "tiny": 0.0}

# Rows of a turn: many, because the peer groups by length the better the more there are.
TASKS = {"sst-2": 6400, "qnli": 3200}


@dataclass(frozen=True)
class Turn:
    """One epoch of one side."""

    examples: int
    tokens: int
    padded_tokens: int
    step_seconds: float
    whole_seconds: float


@dataclass(frozen=True)
class Race:
    """What all sides are given: texts, and one network, in memory and on disk."""

    examples: Sequence[ClassificationExample]
    framer: FeatureEncoder
    config: FinetuneConfig
    network: TaskModel
    folder: Path


class Side(Protocol):
    def take_turn(self, examples: Sequence[ClassificationExample], seed: int) -> Turn: ...


def prepare_race(shape: str, task_name: str, data_dir: Path, rows: int, dropout: float, folder: Path) -> Race:
    task = find_task(task_name)
    data = read_task(task, data_dir / "glue" / task.display, TaskDataConfig())
    tokenizer = Tokenizer.load(data_dir / "vocab" / "bert-base-uncased-vocab.txt")
    pretrained = resolve_pretrain(
        [read_settings(shape), ConfigLayer("benchmark", {"model": {"dropout": dropout, "attention_dropout": dropout}})]
    )
    _, encoder = derive_encoders(
        pretrained.model, pretrained.generator, vocab_size=tokenizer.vocab_size, sequence_length=LENGTH
    )
    network = TaskModel(
        Encoder(encoder),
        HeadConfig(kind="classify", shape="row", labels=data.labels, style="huggingface", dropout=dropout),
    )
    init_weights(network, seed=0)
    config = resolve_finetune(task, encoder, [ConfigLayer("benchmark", {"epochs": 1, "sequence_length": LENGTH})])
    known = [example for example in data.train.examples if isinstance(example, ClassificationExample)]
    chosen = np.random.default_rng(0).permutation(len(known))[:rows]
    card = TaskModelConfig(task=task.name, num_texts=len(known[0].texts), sequence_length=LENGTH)
    save_model(folder, LoadedTaskModel(network, tokenizer, card))
    framer = FeatureEncoder(tokenizer, data.labels, LENGTH, config.spans)
    return Race([known[place] for place in chosen], framer, config, network, folder)


@dataclass(frozen=True)
class Ours:
    """The real path: the features, parameter groups, work and loop of `electra finetune`, without its files."""

    race: Race

    def encode(self, examples: Sequence[ClassificationExample]) -> list[Feature]:
        return classification.KIND.encode(self.race.framer, examples, is_labelled=True).features

    def take_turn(self, examples: Sequence[ClassificationExample], seed: int) -> Turn:
        torch.use_deterministic_algorithms(True)
        network, config = self.race.network, self.race.config
        started = time.perf_counter()
        features = self.encode(examples)
        groups = group_parameters(network.named_parameters(), parameter_depths(network), frozenset(), config.optimizer)
        state = TrainingState(network, Optimizer(groups, config.optimizer), LossScale(), TrainingProgress(), None)
        work = FinetuneTask(
            network, classification.KIND, features, config, seed, self.race.framer.tokenizer.special.pad, CPU, dict
        )
        total_steps = count_steps(config, len(features))
        begun = time.perf_counter()
        train_step = TrainStep(network, state.optimizer, work.micro_losses)
        rates, plan = lr_schedule(config.schedule, total_steps), StepPlan.whole(total_steps)
        for _ in take_steps(state, train_step, config.optimizer, rates, plan, StopSignal()):
            pass
        ended = time.perf_counter()
        lengths = np.array([len(feature.ids) for feature in features])
        batches = order_epoch(lengths, config.batch.size, seed=seed, epoch=0)
        padded = sum(len(rows) * int(lengths[rows].max()) for rows in batches)
        return Turn(len(features), int(lengths.sum()), padded, ended - begun, ended - started)


@dataclass
class CountingCollator:
    """What the peer is given, and how much of it is padding."""

    collator: DataCollatorWithPadding
    tokens: int = 0
    padded_tokens: int = 0

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        batch: dict[str, Tensor] = dict(self.collator(rows))
        self.tokens += sum(len(row["input_ids"]) for row in rows)
        self.padded_tokens += batch["input_ids"].numel()
        return batch


@dataclass
class Stopwatch(TrainerCallback):  # type: ignore[misc]
    """Of the steps alone: the Trainer's preparations are left out, as ours are."""

    begun: float = 0.0
    ended: float = 0.0

    def on_train_begin(self, *_: object, **__: object) -> None:
        self.begun = time.perf_counter()

    def on_train_end(self, *_: object, **__: object) -> None:
        self.ended = time.perf_counter()


@dataclass
class Peer:
    """The Trainer with its defaults, but for what a comparison needs: the same rates, and silence."""

    race: Race
    sampling: str
    tokenizer: Any = field(init=False)
    model: Any = field(init=False)

    def __post_init__(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(self.race.folder)
        self.model = AutoModelForSequenceClassification.from_pretrained(self.race.folder, attn_implementation="sdpa")

    def encode(self, examples: Sequence[ClassificationExample]) -> list[dict[str, Any]]:
        labels = self.race.framer.labels
        texts = zip(*(example.texts for example in examples), strict=True)
        encoded = self.tokenizer(*map(list, texts), truncation=True, max_length=LENGTH)
        return [
            {name: values[row] for name, values in encoded.items()} | {"labels": labels.index(example.label)}
            for row, example in enumerate(examples)
        ]

    def take_turn(self, examples: Sequence[ClassificationExample], seed: int) -> Turn:
        torch.use_deterministic_algorithms(False)  # the peer does not ask for exactness
        started = time.perf_counter()
        rows = self.encode(examples)
        collator = CountingCollator(DataCollatorWithPadding(self.tokenizer))
        watch = Stopwatch()
        config = self.race.config
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder,
                use_cpu=True,
                seed=seed,
                per_device_train_batch_size=config.batch.size,
                num_train_epochs=1,
                learning_rate=config.optimizer.learning_rate,
                train_sampling_strategy=self.sampling,
                logging_strategy="no",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                dataloader_pin_memory=False,
            )
            trainer = Trainer(self.model, arguments, data_collator=collator, train_dataset=rows, callbacks=[watch])
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        whole = time.perf_counter() - started
        return Turn(len(rows), collator.tokens, collator.padded_tokens, watch.ended - watch.begun, whole)


@torch.inference_mode()
def require_same_function(ours: Ours, peer: Peer) -> None:
    """Same ids from the same texts, same logits from the same ids."""
    race = ours.race
    features, theirs = ours.encode(race.examples), peer.encode(race.examples)
    differing = sum(feature.ids.tolist() != row["input_ids"] for feature, row in zip(features, theirs, strict=True))
    cut = sum(len(feature.ids) == LENGTH for feature in features)
    assert differing <= cut, f"{differing} rows differ, but only {cut} were cut"
    batch = collate(features[:32], race.framer.tokenizer.special.pad, CPU)
    inputs = {"input_ids": batch.input_ids, "attention_mask": (~batch.is_pad).long()}
    if race.network.config.backbone == "electra":
        inputs["token_type_ids"] = batch.segment_ids
    race.network.eval()
    peer.model.eval()
    logits = race.network(batch.input_ids, batch.segment_ids, batch.attention_pad)
    torch.testing.assert_close(logits, peer.model(**inputs).logits, rtol=1e-3, atol=1e-4)


def describe_side(turns: Sequence[Turn]) -> dict[str, float]:
    return {
        "examples_per_second": statistics.median(turn.examples / turn.step_seconds for turn in turns),
        "whole_examples_per_second": statistics.median(turn.examples / turn.whole_seconds for turn in turns),
        "tokens_per_second": statistics.median(turn.tokens / turn.step_seconds for turn in turns),
        "padding_share": 1 - sum(turn.tokens for turn in turns) / sum(turn.padded_tokens for turn in turns),
    }


def compare(shape: str, task: str, data_dir: Path, turns: int, rows: int, dropout: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        race = prepare_race(shape, task, data_dir, rows, dropout, Path(folder) / "model")
        ours, trainer, grouped = Ours(race), Peer(race, "random"), Peer(race, "group_by_length")
        require_same_function(ours, trainer)
        sides: dict[str, Side] = {"ours": ours, "trainer": trainer, "grouped": grouped}
        taken: dict[str, list[Turn]] = {name: [] for name in sides}
        for side in sides.values():
            side.take_turn(race.examples[:WARM_UP_ROWS], 0)
        for number in range(turns):
            for name, side in sides.items():
                taken[name].append(side.take_turn(race.examples, number))
    result: dict[str, Any] = {"shape": shape, "task": task, "dropout": dropout, "rows": rows, "turns": turns}
    for name, of_side in taken.items():
        result[name] = describe_side(of_side)
        pairs = list(zip(taken["ours"], of_side, strict=True))
        result[name]["ratio"] = statistics.median(p.step_seconds / o.step_seconds for o, p in pairs)
        result[name]["whole_ratio"] = statistics.median(p.whole_seconds / o.whole_seconds for o, p in pairs)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("ELECTRALAB_DATA"))
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of a turn")
    parser.add_argument("--dropout", type=float, help="of both, instead of what transformers' configs say")
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.data is None:
        print("skipped: needs GLUE; give --data or set ELECTRALAB_DATA to a folder with glue/ and vocab/")
        return
    logging.disable_progress_bar()
    use_exact_arithmetic(arguments.threads, CPU)
    results = [
        compare(shape, task, Path(arguments.data), arguments.turns, arguments.rows or TASKS[task], dropout)
        for shape in arguments.shapes
        for dropout in [SHAPES[shape] if arguments.dropout is None else arguments.dropout]
        for task in arguments.tasks
    ]
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{'':<24}{'ex/s':>8}{'ratio':>7}{'whole ex/s':>12}{'ratio':>7}{'tok/s':>9}{'padding':>9}")
    for result in results:
        for name in ("ours", "trainer", "grouped"):
            side = result[name]
            print(
                f"{result['shape']:<7}{result['task']:<8}{name:<9}"
                f"{side['examples_per_second']:>8,.0f}{side['ratio']:>7.2f}"
                f"{side['whole_examples_per_second']:>12,.0f}{side['whole_ratio']:>7.2f}"
                f"{side['tokens_per_second']:>9,.0f}{side['padding_share']:>9.1%}"
            )


if __name__ == "__main__":
    main()
