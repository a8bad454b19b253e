"""Does the model find the acceptable sentence of a pair the more plausible one?

MinimalPair... -> Findings

A paradigm's score is the share of its pairs that are the right way round, a tie counting one half; a group's score is
the mean of its paradigms. Intervals cover 95 % of what other pairs of the same paradigms would give.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.artifacts import sha256_json
from electralab.config import Settings
from electralab.evaluation.minimal_pairs import MinimalPair, read_pairs
from electralab.evaluation.outcome import Conditions, Findings, Scores, Steps
from electralab.evaluation.plausibility import Plausibility, Scoring, choose_scoring, guess_sentences, judge_sentences
from electralab.evaluation.sentences import encode_sentences
from electralab.evaluation.subject import Subject, require_text
from electralab.randomness import mix


class BlimpConfig(Settings):
    limit: int = Field(0, ge=0)
    """Pairs of each paradigm that a network judges in one pass, drawn by the seed; 0 means all."""
    generator_limit: int = Field(100, ge=0)
    """Pairs of each paradigm that a generator judges that must be asked for one token at a time; 0 means all."""


_SCORINGS: dict[Scoring, str] = {
    "pseudo-log-likelihood": "the pseudo-log-likelihood: log p of each token, hidden from it in turn",
    "log-likelihood": "the log-likelihood: log p of each token after those before it, in one pass",
    "cloze": "the cloze likelihood: log p of each token between all others, in one pass",
    "unmasked": "unmasked: log p of each token in the row as it is, in one pass",
}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """1 where the acceptable sentence won, 0 where it lost, 1/2 for a tie."""

    pairs: Sequence[MinimalPair]
    wins: dict[str, NDArray[np.float64]]  # name of the score -> (N,)


def evaluate_blimp(subject: Subject, data: Path, config: BlimpConfig, conditions: Conditions) -> Steps[Findings]:
    require_text(subject.tokenizer, str(subject.path))
    read = read_pairs(data, conditions.max_bad_share)
    counts = {"pairs": len(read.pairs), "bad_rows": len(read.bad_rows)}
    notes: list[str] = []
    outcomes: list[Outcomes] = []
    for role in ("discriminator", "generator"):
        network = getattr(subject, role)
        if network is None:
            notes.append(f"{subject.path} holds no {role}: no score of one")
            continue
        scoring = choose_scoring(network, subject.objective) if role == "generator" else "verdicts"
        limit = config.generator_limit if scoring == "pseudo-log-likelihood" else config.limit
        pairs = choose_pairs(read.pairs, limit, conditions.seed)
        texts = [pair.good for pair in pairs] + [pair.bad for pair in pairs]
        sentences = encode_sentences(subject.tokenizer, texts, network.config.sequence_length)
        if scoring == "verdicts":
            plausibility = yield from judge_sentences(
                network, subject.tokenizer, sentences, conditions, has_energies=subject.has_energies
            )
            if subject.has_energies:
                notes.append("the discriminator's score is minus the energy of each token, in one pass")
        else:
            plausibility = yield from guess_sentences(network, subject.tokenizer, sentences, conditions, scoring)
            notes.append(f"the generator's score is {_SCORINGS[scoring]}")
        outcomes.append(Outcomes(pairs, compare(plausibility, role)))
        counts |= {f"{role}_pairs": len(pairs), f"{role}_truncated": sentences.truncated}
        if len(pairs) < len(read.pairs):
            notes.append(f"the {role}'s scores are of {limit} pairs per paradigm, {len(pairs):,} in all")
        if sentences.truncated:
            notes.append(f"{sentences.truncated:,} sentences were cut to the {role}'s sequence length")
    scores, groups = summarise(outcomes)
    asked = [[[pair.good, pair.bad] for pair in outcome.pairs] for outcome in outcomes]
    # Two networks that judge the same pairs are asked what one is.
    identity = sha256_json([pairs for place, pairs in enumerate(asked) if pairs not in asked[:place]])
    return Findings(scores, groups, counts, identity, tuple(notes), read.bad_rows)


def choose_pairs(pairs: Sequence[MinimalPair], limit: int, seed: int) -> list[MinimalPair]:
    """At most `limit` of each paradigm, the same ones for every model, in the order of the file."""
    if not limit:
        return list(pairs)
    luck = mix(seed, np.arange(len(pairs)))
    seen: dict[str, int] = {}
    chosen: list[int] = []
    for place in np.argsort(luck, kind="stable"):
        uid = pairs[place].uid
        seen[uid] = seen.get(uid, 0) + 1
        if seen[uid] <= limit:
            chosen.append(int(place))
    return [pairs[place] for place in sorted(chosen)]


def compare(plausibility: Plausibility, role: str) -> dict[str, NDArray[np.float64]]:
    """By the whole sentence, and by its mean per token: the former favours short sentences."""
    named = {role: plausibility.sums, f"{role}_mean": plausibility.means}
    return {name: _wins(*np.split(values, 2)) for name, values in named.items()}


def _wins(good: NDArray[np.float64], bad: NDArray[np.float64]) -> NDArray[np.float64]:
    wins: NDArray[np.float64] = (good > bad) + 0.5 * (good == bad)
    return wins


def summarise(outcomes: Sequence[Outcomes]) -> tuple[Scores, dict[str, dict[str, Scores]]]:
    """The mean over all paradigms, and over those of each group, for every score."""
    scores: Scores = {}
    groups: dict[str, dict[str, Scores]] = {"field": {}, "linguistics_term": {}, "uid": {}}
    for outcome in outcomes:
        paradigms = _by_paradigm(outcome.pairs)
        for name, wins in outcome.wins.items():
            scores |= _average(name, [wins[places] for places in paradigms.values()])
            for kind, members in groups.items():
                for member, uids in _members(outcome.pairs, kind).items():
                    members.setdefault(member, {}).update(_average(name, [wins[paradigms[uid]] for uid in uids]))
    return scores, groups


def _by_paradigm(pairs: Sequence[MinimalPair]) -> dict[str, list[int]]:
    paradigms: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        paradigms.setdefault(pair.uid, []).append(place)
    return paradigms


def _members(pairs: Sequence[MinimalPair], kind: str) -> dict[str, list[str]]:
    """Group -> the paradigms in it; a pair that does not tell its group is in none."""
    found = {(getattr(pair, kind), pair.uid) for pair in pairs if getattr(pair, kind)}
    members: dict[str, list[str]] = {}
    for member, uid in sorted(found):
        members.setdefault(member, []).append(uid)
    return members


def _average(name: str, paradigms: Sequence[NDArray[np.float64]]) -> Scores:
    mean = float(np.mean([wins.mean() for wins in paradigms]))
    # Agresti and Coull's two more of each kind: a paradigm of which all pairs are right is not known exactly.
    shares = [((wins.sum() + 2) / (len(wins) + 4), len(wins) + 4) for wins in paradigms]
    margin = 1.96 * float(np.sqrt(sum(share * (1 - share) / count for share, count in shares))) / len(paradigms)
    return {name: mean, f"{name}_interval": [max(0.0, mean - margin), min(1.0, mean + margin)]}
