"""Whether the two networks are a match for each other: what is out of balance, and what to do about it.

held-out scores, baselines, the record of a step -> advice in words

Where the limits come from: docs/objectives/balance.md.
"""

import math
from collections.abc import Iterator, Mapping

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
# Healthy runs stay between a half and ten.
_OUT_OF_PROPORTION = 30.0

Scores = Mapping[str, float]


def diagnose(
    scores: Scores,
    progress: float,
    *,
    baselines: Scores | None = None,
    record: Mapping[str, float | None] | None = None,
) -> list[str]:
    """What a score means and what to do about it, in words; silent while a run is young, and of one network alone.

    `progress` is the discriminator's: of one that has not begun to learn there is nothing to say.
    """
    if "auc" not in scores or progress <= 0:
        return []
    norms = {
        network: norm
        for network in ("generator", "discriminator")
        if (norm := (record or {}).get(f"{network}_gradient_norm")) is not None and norm > 0
    }
    found = list(_judge_alarms(scores))
    if progress > _YOUNG:
        found = [*_judge_discriminator(scores), *_judge_generator(scores), *found]
        if "generator" in norms:  # of one that cannot learn there is nothing to improve
            found += _judge_ease(scores, baselines or {})
        found += _judge_gradients(norms)
    return found


def _judge_discriminator(scores: Scores) -> Iterator[str]:
    if scores["auc"] >= _LEARNED:
        return
    if scores["called_replaced"] < 1e-4:
        yield (
            f"the discriminator calls every token original (AUC {scores['auc']:.2f}): it has hardly begun to learn; "
            "train longer, try smaller batches (--batch.size), a smaller generator (--generator.width-share) or one "
            "encoder for both (--model.sharing everything --generator.width-share 1)"
        )
        return
    loss, ignorant = scores.get("discriminator_loss", 0.0), _entropy(scores["replaced_share"])
    if loss > ignorant + _NOISE:
        yield (
            f"the discriminator is surer than it may be: its loss is {loss:.3f}, that of knowing only how many tokens "
            f"are replaced {ignorant:.3f} (AUC {scores['auc']:.2f}); train longer, lower --optimizer.learning-rate, or "
            "make the generator weaker (--generator.width-share)"
        )


def _entropy(share: float) -> float:
    return -sum(part * math.log(part) for part in (share, 1 - share) if part > 0)


def _judge_generator(scores: Scores) -> Iterator[str]:
    accuracy, entropy = scores.get("generator_accuracy", 0.0), scores.get("generator_entropy")
    if accuracy > 0.6 and scores["auc"] < 0.65:
        yield (
            f"the generator is too strong (it restores {accuracy:.0%} of the masked tokens, "
            f"AUC {scores['auc']:.2f}): make it smaller (--generator.width-share) or raise --sampling.temperature"
        )
    # Of one that knows how sure it may be, the likeliest guess is right at least exp(-entropy) of the time.
    if entropy is not None and entropy < _SURE and accuracy < 0.5 * math.exp(-entropy):
        yield (
            f"the generator has collapsed: it is sure of its guesses (entropy {entropy:.2f} nats) and wrong "
            f"({accuracy:.0%} right); train it by maximum likelihood (--procedure joint) or slow it down "
            "(--loss.generator-weight)"
        )
    elif entropy is not None and accuracy < _HARDLY and scores["generator_loss"] > entropy + 1:
        yield (
            f"the generator proposes nonsense: it restores {accuracy:.1%} of the masked tokens, and is further from "
            f"them ({scores['generator_loss']:.1f} nats) than it believes ({entropy:.1f}); what it is rewarded for "
            "leads to no plausible tokens: train it by maximum likelihood (--procedure joint)"
        )


def _judge_alarms(scores: Scores) -> Iterator[str]:
    if scores["called_replaced"] > 0.5 and scores["replaced_share"] < 0.3:
        yield (
            f"the discriminator calls {scores['called_replaced']:.0%} of the tokens replaced, "
            f"{scores['replaced_share']:.0%} are: the learning rate is probably too high (--optimizer.learning-rate)"
        )


def _judge_ease(scores: Scores, baselines: Scores) -> Iterator[str]:
    accuracy, frequent = scores.get("generator_accuracy"), baselines.get("generator_accuracy")
    if accuracy is None or frequent is None:
        return
    if scores["auc"] > _EASY_AUC and accuracy < frequent + _HARDLY:
        yield (
            f"the generator is too weak (it restores {accuracy:.0%} of the masked tokens, always the most frequent one "
            f"{frequent:.0%}; AUC {scores['auc']:.2f}): make it larger (--generator.width-share) or raise "
            "--loss.generator-weight"
        )


def _judge_gradients(norms: Scores) -> Iterator[str]:
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
