"""All networks on held-out rows, always asked the same with the same luck, beside trivial baselines.

Question... -> scores by name
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from electralab.objective.named import measure_unigram
from electralab.objective.objective import Objective
from electralab.objective.observation import Observation, observe_losses
from electralab.tokens.shards import PreparedData
from electralab.training.metrics import Record

# Nats of entropy below which a generator's guesses fall on a handful of tokens.
_SURE = 2.0
_OF_VERDICTS = ("auc", "precision", "recall", "called_replaced", "replaced_share")


@torch.no_grad()
def judge_heldout(objective: Objective[Any], questions: Sequence[Any]) -> Record:
    networks = objective.networks
    was_training = networks.training
    networks.eval()
    seen = Observation()
    for question in questions:
        answer = objective.examine(question)
        seen += observe_losses(answer.losses, objective.count_targets(question)) + answer.observation
    networks.train(was_training)
    return seen.describe(*_OF_VERDICTS) | seen.describe_by_confidence()


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


def diagnose(scores: Mapping[str, float], progress: float) -> list[str]:
    """What a score means and what to do about it, in words; silent while a run is young, and of one network alone.

    `progress` is the discriminator's: of one that has not begun to learn there is nothing to say.
    """
    if "auc" not in scores or progress <= 0:
        return []
    warnings = []
    accuracy, entropy = scores.get("generator_accuracy", 0.0), scores.get("generator_entropy")
    if progress > 0.3 and scores["called_replaced"] < 1e-4 and scores["auc"] < 0.55:
        warnings.append(
            f"the discriminator calls every token original (AUC {scores['auc']:.2f}): it has not begun to learn; "
            "train longer, try smaller batches (--batch.size) or a smaller generator (--generator.width-share)"
        )
    if progress > 0.3 and accuracy > 0.6 and scores["auc"] < 0.65:
        warnings.append(
            f"the generator is too strong (it restores {accuracy:.0%} of the masked tokens, "
            f"AUC {scores['auc']:.2f}): make it smaller (--generator.width-share) or raise --sampling.temperature"
        )
    # Of one that knows how sure it may be, the likeliest guess is right at least exp(-entropy) of the time.
    if progress > 0.3 and entropy is not None and entropy < _SURE and accuracy < 0.5 * math.exp(-entropy):
        warnings.append(
            f"the generator has collapsed: it is sure of its guesses (entropy {entropy:.2f} nats) and wrong "
            f"({accuracy:.0%} right); train it by maximum likelihood (--procedure joint) or slow it down "
            "(--loss.generator-weight)"
        )
    if scores["called_replaced"] > 0.5 and scores["replaced_share"] < 0.3:
        warnings.append(
            f"the discriminator calls {scores['called_replaced']:.0%} of the tokens replaced, "
            f"{scores['replaced_share']:.0%} are: the learning rate is probably too high (--optimizer.learning-rate)"
        )
    return warnings
