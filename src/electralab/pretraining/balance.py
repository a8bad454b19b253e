"""Whether the two networks are a match for each other, and what a finished run is good for: scores in words.

held-out scores, baselines, the record of a step -> advice in words, RunUsefulness

Where the limits come from: docs/objectives/balance.md.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from electralab.objective.settings import JUDGED, UNTAUGHT
from electralab.pretraining.settings import PretrainConfig, parse_stored
from electralab.records.run import RunUsefulness
from electralab.reporting.artifact import Artifact

# Before this share of its learning a discriminator may still look like a lost one.
_YOUNG = 0.3
# Nats of entropy below which a generator's guesses fall on a handful of tokens.
_SURE = 2.0
# Above it, nearly every replacement stands out.
_EASY_AUC = 0.95
# How much more often than the most frequent token a generator that has learned something is right.
_HARDLY = 0.02
# From it on, the discriminator has learned something.
_LEARNED = 0.6
# What held-out losses of healthy runs differ by from one evaluation to the next.
_NOISE = 0.01
# Batches up to this size need not be made smaller, generators up to this share of the width neither.
_SMALL_BATCH = 8
_SMALL_WIDTH = 0.25
# Of the learning rate that is set: below it, a rate that is set too high cannot have done any harm yet.
_REACHED = 0.5
# Healthy runs stay between a half and ten.
_OUT_OF_PROPORTION = 30.0

# Below it a discriminator is hardly better than guessing, which is .5.
_LEARNED_AUC = 0.6
# Below it a discriminator marks next to nothing at the usual limit of .5.
_MARKS = 0.1
# Nats: what a network that knows more than how frequent tokens are is better by.
_LEARNED_NATS = 0.1
# How much longer a run should be that has learned nothing yet, and what no run should be shorter than.
_LONGER = 4
_LEAST_TOKENS = 2_000_000

Scores = Mapping[str, float]


def check_balance(
    scores: Scores,
    progress: float,
    *,
    baselines: Scores | None = None,
    record: Mapping[str, float | None] | None = None,
    config: PretrainConfig | None = None,
    highest_rate: float | None = None,
) -> list[str]:
    """What a score means and what to do about it, in words; silent while a run is young, and of one network alone.

    `progress` is the discriminator's: of one that has not begun to learn there is nothing to say. What the settings
    already say is not advised; `highest_rate` is the highest learning rate so far, which may be far from the one set.
    """
    if "auc" not in scores or progress <= 0:
        return []
    norms = {
        network: norm
        for network in ("generator", "discriminator")
        if (norm := (record or {}).get(f"{network}_gradient_norm")) is not None and norm > 0
    }
    remedies = _Remedies(config, highest_rate)
    advice = list(_check_alarms(scores, remedies))
    if progress > _YOUNG:
        advice = [*_check_discriminator(scores, remedies), *_check_generator(scores, remedies), *advice]
        if "generator" in norms:  # of one that cannot learn there is nothing to improve
            advice += _check_ease(scores, baselines or {}, remedies)
        advice += _check_gradients(norms)
    return advice


def advise(artifact: Artifact) -> list[str]:
    """For a run's page: what its last scores mean, then what was warned of on the way and no longer would be."""
    records = artifact.logs.get("", [])
    scores, (taken, total) = artifact.heldout_scores, artifact.steps
    now: list[str] = []
    if artifact.kind == "run" and {"auc", "called_replaced", "replaced_share"} <= scores.keys():
        now = check_balance(
            scores,
            taken / total if total else 1.0,
            baselines=artifact.baselines,
            record=records[-1].values if records else {},
            config=parse_stored(artifact.settings),
            highest_rate=max((record.get("learning_rate") or 0.0 for record in records), default=None),
        )
    start = artifact.pretrained.warnings if artifact.pretrained else ()
    warned = [(0, warning.text) for warning in start if warning.step == 0]
    warned += [(record.step, text) for record in records for text in record.warnings]
    faults = set(map(drop_numbers, now))
    return [*now, *(f"at step {step}: {text}" for step, text in warned if drop_numbers(text) not in faults)]


def drop_numbers(text: str) -> str:
    """What two sentences about the same fault have in common."""
    return re.sub(r"\d+(\.\d+)?", "#", text)


class _Remedies:
    """What can be advised; without settings, everything."""

    def __init__(self, config: PretrainConfig | None, highest_rate: float | None) -> None:
        sharing = config.model.sharing if config else "none"
        kind = config.generator.kind if config else "transformer"
        width = config.generator.width_share if config else 0.5
        has_own_generator = sharing != "everything" and kind not in UNTAUGHT
        is_joint = config is None or config.procedure == "joint"
        can_share = sharing != "everything" and kind == "transformer" and is_joint
        self.can_be_smaller = has_own_generator and width > _SMALL_WIDTH
        self.can_be_larger = has_own_generator and width < 1
        self.can_be_joint = config is None or not is_joint
        self.can_be_one = can_share and (config is None or config.objective in JUDGED)
        self.batch_is_large = config is None or config.batch.size > _SMALL_BATCH
        self.rate = highest_rate
        self.set_rate = config.optimizer.learning_rate if config else None
        self.rate_was_reached = not (self.rate and self.set_rate) or self.rate >= _REACHED * self.set_rate

    def lower_rate(self) -> str:
        """By the rate that was in force: one that was never reached is not too high."""
        if not self.rate_was_reached:
            return (
                f"shorten the warm-up (--schedule.warmup-steps): the learning rate has come to {self.rate:.2g} only, "
                f"{self.set_rate:.2g} is set"
            )
        return "lower --optimizer.learning-rate" + (f" (it came to {self.rate:.2g})" if self.rate else "")


def _either(remedies: Sequence[str]) -> str:
    return " or ".join([", ".join(remedies[:-1]), remedies[-1]] if len(remedies) > 1 else remedies)


def _check_discriminator(scores: Scores, remedies: _Remedies) -> Iterator[str]:
    if scores["auc"] >= _LEARNED:
        return
    if scores["called_replaced"] < 1e-4:
        ways = ["train longer"]
        ways += ["try smaller batches (--batch.size)"] if remedies.batch_is_large else []
        ways += ["a smaller generator (--generator.width-share)"] if remedies.can_be_smaller else []
        one_encoder = "one encoder for both (--model.sharing everything --generator.width-share 1)"
        ways += [one_encoder] if remedies.can_be_one else []
        yield (
            f"the discriminator calls every token original (AUC {scores['auc']:.2f}): it has hardly begun to learn; "
            f"{_either(ways)}"
        )
        return
    loss, ignorant = scores.get("discriminator_loss", 0.0), _entropy(scores["replaced_share"])
    if loss > ignorant + _NOISE:
        ways = ["train longer", remedies.lower_rate()]
        ways += ["make the generator weaker (--generator.width-share)"] if remedies.can_be_smaller else []
        yield (
            f"the discriminator is surer than it may be: its loss is {loss:.3f}, that of knowing only how many tokens "
            f"are replaced {ignorant:.3f} (AUC {scores['auc']:.2f}); {_either(ways)}"
        )


def _entropy(share: float) -> float:
    return -sum(part * math.log(part) for part in (share, 1 - share) if part > 0)


def _check_generator(scores: Scores, remedies: _Remedies) -> Iterator[str]:
    accuracy, entropy = scores.get("generator_accuracy", 0.0), scores.get("generator_entropy")
    joint = ["train it by maximum likelihood (--procedure joint)"] if remedies.can_be_joint else []
    if accuracy > 0.6 and scores["auc"] < 0.65:
        smaller = ["make it smaller (--generator.width-share)"] if remedies.can_be_smaller else []
        yield (
            f"the generator is too strong (it restores {accuracy:.0%} of the masked tokens, "
            f"AUC {scores['auc']:.2f}): {_either([*smaller, 'raise --sampling.temperature'])}"
        )
    # Of one that knows how sure it may be, the likeliest guess is right at least exp(-entropy) of the time.
    if entropy is not None and entropy < _SURE and accuracy < 0.5 * math.exp(-entropy):
        yield (
            f"the generator has collapsed: it is sure of its guesses (entropy {entropy:.2f} nats) and wrong "
            f"({accuracy:.0%} right); {_either([*joint, 'slow it down (--loss.generator-weight)'])}"
        )
    elif entropy is not None and accuracy < _HARDLY and scores["generator_loss"] > entropy + 1:
        reason = "what it is rewarded for leads to no plausible tokens: " if joint else ""
        yield (
            f"the generator proposes nonsense: it restores {accuracy:.1%} of the masked tokens, and is further from "
            f"them ({scores['generator_loss']:.1f} nats) than it believes ({entropy:.1f}); "
            f"{reason}{_either(joint or ['train longer', remedies.lower_rate()])}"
        )


def _check_alarms(scores: Scores, remedies: _Remedies) -> Iterator[str]:
    if scores["called_replaced"] > 0.5 and scores["replaced_share"] < 0.3:
        called, true = scores["called_replaced"], scores["replaced_share"]
        came_to = f", it came to {remedies.rate:.2g}" if remedies.rate else ""
        yield f"the discriminator calls {called:.0%} of the tokens replaced, {true:.0%} are: " + (
            f"the learning rate is probably too high (--optimizer.learning-rate{came_to})"
            if remedies.rate_was_reached
            else f"it has hardly begun to learn; train longer or {remedies.lower_rate()}"
        )


def _check_ease(scores: Scores, baselines: Scores, remedies: _Remedies) -> Iterator[str]:
    accuracy, frequent = scores.get("generator_accuracy"), baselines.get("generator_accuracy")
    if accuracy is None or frequent is None:
        return
    if scores["auc"] > _EASY_AUC and accuracy < frequent + _HARDLY:
        larger = ["make it larger (--generator.width-share)"] if remedies.can_be_larger else []
        yield (
            f"the generator is too weak (it restores {accuracy:.0%} of the masked tokens, always the most frequent one "
            f"{frequent:.0%}; AUC {scores['auc']:.2f}): {_either([*larger, 'raise --loss.generator-weight'])}"
        )


def _check_gradients(norms: Scores) -> Iterator[str]:
    if len(norms) < 2:
        return
    ratio = norms["discriminator"] / norms["generator"]
    if ratio > _OUT_OF_PROPORTION:
        yield (
            f"the discriminator's gradient is {ratio:.0f} times the generator's, so that clipping holds the "
            "generator back: lower --loss.discriminator-weight"
        )
    elif ratio < 1 / _OUT_OF_PROPORTION:
        yield (
            f"the generator's gradient is {1 / ratio:.0f} times the discriminator's, so that clipping holds the "
            "discriminator back: raise --loss.discriminator-weight"
        )


def describe_usefulness(scores: Scores, baselines: Scores, *, steps: int, tokens: int) -> RunUsefulness | None:
    """None of an objective whose scores say nothing of the kind."""
    factor = math.ceil(max(_LONGER, _LEAST_TOKENS / max(tokens, 1)))
    longer = f"train at least {factor:,} times as long ({factor * steps:,} steps)"
    if "auc" in scores:
        auc, recall = scores["auc"], scores.get("recall", 0.0)
        if auc < _LEARNED_AUC:
            return RunUsefulness(
                is_useful=False,
                text="too short to be useful: the discriminator tells replaced tokens from original ones hardly better "
                f"than by guessing (AUC {auc:.2f}, guessing is 0.50); {longer}",
            )
        if recall < _MARKS:
            return RunUsefulness(
                is_useful=True,
                text=f"weak: the discriminator has begun to learn (AUC {auc:.2f}, guessing is 0.50), but marks only "
                f"{recall:.0%} of the replaced tokens; it can be fine-tuned, detection needs more training: {longer}",
            )
        return RunUsefulness(
            is_useful=True,
            text=f"it has learned: AUC {auc:.2f} (guessing is 0.50), {recall:.0%} of the replaced tokens are marked",
        )
    for name, baseline in baselines.items():
        if name.endswith("_loss") and name in scores:
            gain = baseline - scores[name]
            if not gain > _LEARNED_NATS:
                return RunUsefulness(
                    is_useful=False,
                    text="too short to be useful: the model guesses tokens no better than by how frequent they are "
                    f"(loss {scores[name]:.2f}, frequencies alone {baseline:.2f}); {longer}",
                )
            return RunUsefulness(
                is_useful=True,
                text=f"it has learned: its guesses are {gain:.2f} nats better than by how frequent tokens are "
                f"(loss {scores[name]:.2f}, frequencies alone {baseline:.2f})",
            )
    return None
