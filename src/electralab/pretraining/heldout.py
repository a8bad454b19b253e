"""All networks on held-out rows, always asked the same with the same luck, beside trivial baselines.

Question... -> scores by name
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from electralab.objective.examples import Row, describe_rows
from electralab.objective.metrics import BatchMetrics, join_verdicts, loss_metrics
from electralab.objective.objective import Objective
from electralab.objective.registry import measure_unigram
from electralab.tokens.shards import PreparedData
from electralab.tokens.tokenizer import Tokenizer
from electralab.training.metrics import Record

_OF_VERDICTS = ("auc", "precision", "recall", "called_replaced", "replaced_share")


def judge_heldout(objective: Objective[Any], questions: Sequence[Any]) -> Record:
    seen = BatchMetrics()
    with at_rest(objective.networks):
        for question in questions:
            answer = objective.examine(question)
            seen += loss_metrics(answer.losses, objective.count_targets(question)) + answer.observation
    scores = seen.describe(*_OF_VERDICTS) | seen.describe_by_confidence()
    if seen.verdicts:  # of the tokens that the other scores are about, not of all that the loss is learned from
        scores["discriminator_loss"] = join_verdicts(seen.verdicts).loss
    return scores


def exhibit_heldout(objective: Objective[Any], questions: Sequence[Any], tokenizer: Tokenizer) -> list[Row]:
    """What is hidden, guessed, put there and thought of it; nothing of an objective that hides nothing."""
    with at_rest(objective.networks):
        exhibits = [objective.exhibit(question) for question in questions]
    return [row for exhibit in exhibits if exhibit is not None for row in describe_rows(exhibit, tokenizer)]


@contextmanager
def at_rest(networks: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; then as they were."""
    was_training = networks.training
    networks.eval()
    with torch.no_grad():
        yield
    networks.train(was_training)


def measure_baselines(
    data: PreparedData, objective: Objective[Any], questions: Sequence[Any], scores: Mapping[str, float]
) -> Record:
    """What knowing only frequencies achieves: the numbers that a network must beat to have learned anything.

    Of guesses, frequencies of the training rows on the same targets; of verdicts, the entropy of the replaced share.
    """
    log_share = measure_unigram(data)
    targets = np.concatenate([np.asarray(objective.guessed_ids(question), dtype=np.int64) for question in questions])
    targets = targets[np.isfinite(log_share[targets])]  # an end of text is no token that frequencies are counted of
    baselines = {
        f"{objective.guessed}_loss": float(-log_share[targets].mean()),
        f"{objective.guessed}_accuracy": float((targets == log_share.argmax()).mean()),
    }
    if "replaced_share" not in scores:
        return baselines
    p = min(max(scores["replaced_share"], 1e-9), 1 - 1e-9)
    return baselines | {"discriminator_loss": float(-p * np.log(p) - (1 - p) * np.log(1 - p))}
