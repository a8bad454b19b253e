"""Whether the two networks are a match for each other, and what a finished run is good for: scores in words.

held-out scores, baselines, the record of a step -> advice in words, RunUsefulness

Where the limits come from: docs/objectives/balance.md.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from electralab.objective.settings import JUDGED, UNTAUGHT
from electralab.pretraining.settings import PretrainConfig, parse_stored
from electralab.records.run import RunUsefulness
from electralab.reporting.artifact import Artifact

# Before this share of its learning a discriminator may still look like a lost one.
YOUNG = 0.3
# Nats of entropy below which a generator's guesses fall on a handful of tokens.
_SURE = 2.0
# Above it, nearly every replacement stands out.
_EASY_AUC = 0.95
# How much more often than the most frequent token a generator that has learned something is right.
_HARDLY = 0.02
# What held-out losses of healthy runs differ by from one evaluation to the next.
_NOISE = 0.01
# Batches up to this size need not be made smaller, generators up to this share of the width neither.
_SMALL_BATCH = 8
_SMALL_WIDTH = 0.25
# Of the learning rate that is set: below it, a rate that is set too high cannot have done any harm yet.
_REACHED = 0.5
# Healthy runs stay between a half and ten.
_OUT_OF_PROPORTION = 30.0

# From it on, the discriminator has learned something; below it, it is hardly better than guessing, which is .5.
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
    remedies = _Remedies.of(config, highest_rate)
    alarms = _warn_of_calls(scores, remedies, highest_rate)
    if progress <= YOUNG:
        return alarms
    judged = _judge_discriminator(scores, remedies) + _judge_generator(scores, remedies) + alarms
    norms = [(record or {}).get(f"{network}_gradient_norm") or 0.0 for network in _NETWORKS]
    frequent = (baselines or {}).get("generator_accuracy")
    if norms[0] > 0 and frequent is not None:  # of a generator that cannot learn there is nothing to improve
        judged += _judge_strength(scores, remedies, frequent)
    return judged + _judge_gradients(norms)


@dataclass(frozen=True, slots=True)
class _Remedies:
    """What can be advised with these settings; empty where it is done already or cannot be. Without settings, all."""

    smaller_batches: str
    smaller_generator: str
    """The flag alone, where the generator may become smaller."""
    larger_generator: str
    single_encoder: str
    lower_rate: str
    joint: str
    rate_was_reached: bool

    @classmethod
    def of(cls, config: PretrainConfig | None, highest_rate: float | None) -> "_Remedies":
        sharing = config.model.sharing if config else "none"
        kind = config.generator.kind if config else "transformer"
        width = config.generator.width_share if config else 0.5
        is_joint = config is None or config.procedure == "joint"
        has_own_generator = sharing != "everything" and kind not in UNTAUGHT
        can_share = sharing != "everything" and kind == "transformer" and is_joint
        can_be_single = can_share and (config is None or config.objective in JUDGED)
        has_small_batches = config is not None and config.batch.size <= _SMALL_BATCH
        # By the rate that was in force: one that was never reached is not too high.
        set_rate = config.optimizer.learning_rate if config else None
        was_reached = not (highest_rate and set_rate) or highest_rate >= _REACHED * set_rate
        lower_rate = "lower --optimizer.learning-rate" + (f" (it came to {highest_rate:.2g})" if highest_rate else "")
        if not was_reached:
            lower_rate = (
                f"shorten the warm-up (--schedule.warmup-steps): the learning rate has come to {highest_rate:.2g} "
                f"only, {set_rate:.2g} is set"
            )
        return cls(
            smaller_batches="" if has_small_batches else "try smaller batches (--batch.size)",
            smaller_generator="(--generator.width-share)" if has_own_generator and width > _SMALL_WIDTH else "",
            larger_generator="make it larger (--generator.width-share)" if has_own_generator and width < 1 else "",
            single_encoder="one encoder for both (--model.sharing everything --generator.width-share 1)"
            if can_be_single
            else "",
            lower_rate=lower_rate,
            joint="train it by maximum likelihood (--procedure joint)" if config is None or not is_joint else "",
            rate_was_reached=was_reached,
        )


def _warn_of_calls(scores: Scores, remedies: _Remedies, highest_rate: float | None) -> list[str]:
    """What is told at once, however young the run is."""
    called, replaced = scores["called_replaced"], scores["replaced_share"]
    if called <= 0.5 or replaced >= 0.3:
        return []
    came_to = f", it came to {highest_rate:.2g}" if highest_rate else ""
    cause = f"it has hardly begun to learn; train longer or {remedies.lower_rate}"
    if remedies.rate_was_reached:
        cause = f"the learning rate is probably too high (--optimizer.learning-rate{came_to})"
    return [f"the discriminator calls {called:.0%} of the tokens replaced, {replaced:.0%} are: {cause}"]


def _judge_discriminator(scores: Scores, remedies: _Remedies) -> list[str]:
    auc, called, replaced = (scores[name] for name in ("auc", "called_replaced", "replaced_share"))
    loss = scores.get("discriminator_loss", 0.0)
    ignorant = -sum(share * math.log(share) for share in (replaced, 1 - replaced) if share > 0)
    flag = remedies.smaller_generator
    if auc < _LEARNED_AUC and called < 1e-4:
        smaller = f"a smaller generator {flag}" if flag else ""
        ways = _either("train longer", remedies.smaller_batches, smaller, remedies.single_encoder)
        return [f"the discriminator calls every token original (AUC {auc:.2f}): it has hardly begun to learn; {ways}"]
    if auc < _LEARNED_AUC and loss > ignorant + _NOISE:
        weaker = f"make the generator weaker {flag}" if flag else ""
        return [
            f"the discriminator is surer than it may be: its loss is {loss:.3f}, that of knowing only "
            f"how many tokens are replaced {ignorant:.3f} (AUC {auc:.2f}); "
            f"{_either('train longer', remedies.lower_rate, weaker)}"
        ]
    return []


def _judge_generator(scores: Scores, remedies: _Remedies) -> list[str]:
    auc, loss = scores["auc"], scores.get("generator_loss", 0.0)
    entropy, right = scores.get("generator_entropy"), scores.get("generator_accuracy", 0.0)
    advice = []
    if right > 0.6 and auc < 0.65:
        smaller = f"make it smaller {remedies.smaller_generator}" if remedies.smaller_generator else ""
        advice.append(
            f"the generator is too strong (it restores {right:.0%} of the masked tokens, AUC {auc:.2f}): "
            f"{_either(smaller, 'raise --sampling.temperature')}"
        )
    # Of one that knows how sure it may be, the likeliest guess is right at least exp(-entropy) of the time.
    if entropy is not None and entropy < _SURE and right < 0.5 * math.exp(-entropy):
        advice.append(
            f"the generator has collapsed: it is sure of its guesses (entropy {entropy:.2f} nats) and wrong "
            f"({right:.0%} right); {_either(remedies.joint, 'slow it down (--loss.generator-weight)')}"
        )
    elif entropy is not None and right < _HARDLY and loss > entropy + 1:
        remedy = f"what it is rewarded for leads to no plausible tokens: {remedies.joint}"
        advice.append(
            f"the generator proposes nonsense: it restores {right:.1%} of the masked tokens, and is further from "
            f"them ({loss:.1f} nats) than it believes ({entropy:.1f}); "
            f"{remedy if remedies.joint else _either('train longer', remedies.lower_rate)}"
        )
    return advice


def _judge_strength(scores: Scores, remedies: _Remedies, frequent: float) -> list[str]:
    accuracy, auc = scores.get("generator_accuracy"), scores["auc"]
    if accuracy is None or accuracy >= frequent + _HARDLY or auc <= _EASY_AUC:
        return []
    return [
        f"the generator is too weak (it restores {accuracy:.0%} of the masked tokens, always the most frequent "
        f"one {frequent:.0%}; AUC {auc:.2f}): {_either(remedies.larger_generator, 'raise --loss.generator-weight')}"
    ]


def _judge_gradients(norms: Sequence[float]) -> list[str]:
    ratio = norms[1] / norms[0] if all(norm > 0 for norm in norms) else 1.0
    if ratio > _OUT_OF_PROPORTION:
        return [
            f"the discriminator's gradient is {ratio:.0f} times the generator's, so that clipping holds the "
            "generator back: lower --loss.discriminator-weight"
        ]
    if ratio < 1 / _OUT_OF_PROPORTION:
        return [
            f"the generator's gradient is {1 / ratio:.0f} times the discriminator's, so that clipping holds the "
            "discriminator back: raise --loss.discriminator-weight"
        ]
    return []


_NETWORKS = ("generator", "discriminator")


def _either(*remedies: str) -> str:
    """Those that apply, as a sentence goes on with them."""
    *others, last = filter(None, remedies)
    return f"{', '.join(others)} or {last}" if others else last


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


def describe_usefulness(scores: Scores, baselines: Scores, *, steps: int, tokens: int) -> RunUsefulness | None:
    """None of an objective whose scores say nothing of the kind."""
    factor = math.ceil(max(_LONGER, _LEAST_TOKENS / max(tokens, 1)))
    longer = f"train at least {factor:,} times as long ({factor * steps:,} steps)"
    if "auc" in scores:
        auc, recall = scores["auc"], scores.get("recall", 0.0)
        if auc < _LEARNED_AUC:
            text = (
                "too short to be useful: the discriminator tells replaced tokens from original ones hardly better "
                f"than by guessing (AUC {auc:.2f}, guessing is 0.50); {longer}"
            )
        elif recall < _MARKS:
            text = (
                f"weak: the discriminator has begun to learn (AUC {auc:.2f}, guessing is 0.50), but marks only "
                f"{recall:.0%} of the replaced tokens; it can be fine-tuned, detection needs more training: {longer}"
            )
        else:
            text = f"it has learned: AUC {auc:.2f} (guessing is 0.50), {recall:.0%} of the replaced tokens are marked"
        return RunUsefulness(is_useful=auc >= _LEARNED_AUC, text=text)
    name = next((name for name in baselines if name.endswith("_loss") and name in scores), None)
    if name is None:
        return None
    loss, frequencies = scores[name], f"frequencies alone {baselines[name]:.2f}"
    gain = baselines[name] - loss
    text = (
        "too short to be useful: the model guesses tokens no better than by how frequent they are "
        f"(loss {loss:.2f}, {frequencies}); {longer}"
    )
    if gain > _LEARNED_NATS:  # not so of a loss that is no number
        text = (
            f"it has learned: its guesses are {gain:.2f} nats better than by how frequent tokens are "
            f"(loss {loss:.2f}, {frequencies})"
        )
    return RunUsefulness(is_useful=gain > _LEARNED_NATS, text=text)
