"""Does the model find the acceptable sentence of a pair the more plausible one?

MinimalPair... -> SuiteResult

The discriminator reads a sentence once: sum of log(1 - p_replaced), or of minus the energy where it was taught those,
which is a pseudo-log-likelihood up to a constant for each token. A generator says sum of log p(token), and what it
is asked with depends on what it was taught:

    pseudo-log-likelihood   with each token in turn hidden from it, a pass for each
    log-likelihood          causal: with what stands before the token, one pass
    cloze                   two towers: with all but the token, one pass
    unmasked                taught to mend rows without [MASK]: with the row as it is, one pass

Special tokens, the unknown one among them, do not count: the networks were never asked about them.

A paradigm's score is the share of its pairs that are the right way round, a tie counting one half; a group's score is
the mean of its paradigms. Intervals cover 95 % of what other pairs of the same paradigms would give.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from electralab.artifacts import sha256_json
from electralab.config import Settings
from electralab.evaluation.context import EvalContext, EvalModel, Progressive, SuiteResult, require_text
from electralab.evaluation.minimal_pairs import MinimalPair, read_pairs
from electralab.evaluation.states import Sentences, encode_sentences
from electralab.events import Progress
from electralab.model.electra import Discriminator, TokenModel, TwoTower
from electralab.randomness import mix
from electralab.records.evaluation import GroupScores, Scores
from electralab.tokens.batches import RowBatch, batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Scoring = Literal["pseudo-log-likelihood", "log-likelihood", "cloze", "unmasked"]

_SCORINGS: dict[Scoring, str] = {
    "pseudo-log-likelihood": "the pseudo-log-likelihood: log p of each token, hidden from it in turn",
    "log-likelihood": "the log-likelihood: log p of each token after those before it, in one pass",
    "cloze": "the cloze likelihood: log p of each token between all others, in one pass",
    "unmasked": "unmasked: log p of each token in the row as it is, in one pass",
}
# Logits for every token at once are as many numbers as the vocabulary has entries, for each.
_LOGITS_SHARE = 4
# Their networks were asked about tokens that stood there, and never saw [MASK].
_UNMASKED = ("replace-mlm", "all-tokens-mlm")


class BlimpConfig(Settings):
    limit: int = Field(0, ge=0)
    """Pairs of each paradigm that a network judges in one pass, drawn by the seed; 0 means all."""
    generator_limit: int = Field(100, ge=0)
    """Pairs of each paradigm that a generator judges that must be asked for one token at a time; 0 means all."""


@dataclass(frozen=True, slots=True)
class SentenceScores:
    """How plausible a network finds each text, in the order of the texts."""

    sums: NDArray[np.float64]  # (N,)
    means: NDArray[np.float64]  # (N,) per token that counts; 0 where none does


@dataclass(frozen=True, slots=True)
class PairOutcomes:
    """1 where the acceptable sentence won, 0 where it lost, 1/2 for a tie."""

    pairs: Sequence[MinimalPair]
    wins: dict[str, NDArray[np.float64]]  # name of the score -> (N,)


def evaluate_blimp(model: EvalModel, data: Path, config: BlimpConfig, context: EvalContext) -> Progressive[SuiteResult]:
    tokenizer = model.tokenizer
    require_text(tokenizer, str(model.path))
    read = read_pairs(data, context.max_bad_share)
    counts = {"pairs": len(read.pairs), "bad_rows": len(read.bad_rows)}
    notes: list[str] = []
    outcomes: list[PairOutcomes] = []
    for role, network in (("discriminator", model.discriminator), ("generator", model.generator)):
        if network is None:
            notes.append(f"{model.path} holds no {role}: no score of one")
            continue
        scoring = None if isinstance(network, Discriminator) else choose_scoring(network, model.objective)
        limit = config.generator_limit if scoring == "pseudo-log-likelihood" else config.limit
        pairs = choose_pairs(read.pairs, limit, context.seed)
        texts = [pair.good for pair in pairs] + [pair.bad for pair in pairs]
        sentences = encode_sentences(tokenizer, texts, network.config.sequence_length)
        if isinstance(network, Discriminator):
            scores = yield from score_sentences(
                network, tokenizer, sentences, context, outputs_energies=model.outputs_energies
            )
            if model.outputs_energies:
                notes.append("the discriminator's score is minus the energy of each token, in one pass")
        else:
            assert scoring is not None
            scores = yield from pll_scores(network, tokenizer, sentences, context, scoring)
            notes.append(f"the generator's score is {_SCORINGS[scoring]}")
        # By the whole sentence, and by its mean per token: the former favours short sentences.
        named = {role: scores.sums, f"{role}_mean": scores.means}
        outcomes.append(PairOutcomes(pairs, {name: compare_halves(values) for name, values in named.items()}))
        counts |= {f"{role}_pairs": len(pairs), f"{role}_truncated": sentences.truncated}
        if len(pairs) < len(read.pairs):
            notes.append(f"the {role}'s scores are of {limit} pairs per paradigm, {len(pairs):,} in all")
        if sentences.truncated:
            notes.append(f"{sentences.truncated:,} sentences were cut to the {role}'s sequence length")
    summary, groups = summarise_pairs(outcomes)
    asked = [[[pair.good, pair.bad] for pair in outcome.pairs] for outcome in outcomes]
    # Two networks that judge the same pairs are asked what one is.
    identity = sha256_json([texts for index, texts in enumerate(asked) if texts not in asked[:index]])
    return SuiteResult(summary, groups, counts, identity, tuple(notes), read.bad_rows)


def choose_pairs(pairs: Sequence[MinimalPair], limit: int, seed: int) -> list[MinimalPair]:
    """At most `limit` of each paradigm, the same ones for every model, in the order of the file."""
    if not limit:
        return list(pairs)
    seen: dict[str, int] = {}
    chosen: list[int] = []
    for index in np.argsort(mix(seed, np.arange(len(pairs))), kind="stable"):
        uid = pairs[index].uid
        seen[uid] = seen.get(uid, 0) + 1
        if seen[uid] <= limit:
            chosen.append(int(index))
    return [pairs[index] for index in sorted(chosen)]


def choose_scoring(generator: TokenModel, objective: str) -> Scoring:
    if objective in _UNMASKED:
        return "unmasked"
    if isinstance(generator, TwoTower):
        return "cloze"
    return "pseudo-log-likelihood" if generator.reads_masked else "log-likelihood"


def score_sentences(
    discriminator: Discriminator,
    tokenizer: Tokenizer,
    sentences: Sentences,
    context: EvalContext,
    *,
    outputs_energies: bool = False,
) -> Progressive[SentenceScores]:
    """One pass for each sentence."""
    sums = _SentenceSums(sentences, tokenizer)
    device = next(discriminator.parameters()).device
    for batch in batch_by_length(sentences.rows, tokenizer.special, context.batch_tokens, device):
        context.check()
        with torch.inference_mode():
            logits = discriminator(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad)
            log_probs = -logits.double() if outputs_energies else F.logsigmoid(-logits.double())  # (B, T)
        yield sums.add(batch, log_probs.masked_fill(~sums.is_counted(batch), 0.0), "discriminator")
    return sums.finish()


def pll_scores(
    generator: TokenModel,
    tokenizer: Tokenizer,
    sentences: Sentences,
    context: EvalContext,
    scoring: Scoring = "pseudo-log-likelihood",
) -> Progressive[SentenceScores]:
    """A pass for each sentence, or for each of its tokens where it must be hidden."""
    sums = _SentenceSums(sentences, tokenizer)
    device = next(generator.parameters()).device
    is_hiding = scoring == "pseudo-log-likelihood"
    batch_tokens = context.batch_tokens if is_hiding else max(1, context.batch_tokens // _LOGITS_SHARE)
    for batch in batch_by_length(sentences.rows, tokenizer.special, batch_tokens, device):
        log_probs = torch.zeros(batch.input_ids.shape, dtype=torch.float64, device=device)  # (B, T)
        targets = sums.is_counted(batch).nonzero()  # (M, 2) row and column
        copies = max(1, batch_tokens // batch.input_ids.shape[1])
        for part in torch.split(targets, copies if is_hiding else max(1, len(targets))):
            context.check()
            log_probs[part[:, 0], part[:, 1]] = (
                _pll_masked(generator, tokenizer.special.mask, batch, part)
                if is_hiding
                else _pll_unmasked(generator, batch, part)
            )
        yield sums.add(batch, log_probs, "generator")
    return sums.finish()


@torch.inference_mode()
def _pll_unmasked(generator: TokenModel, batch: RowBatch, targets: Tensor) -> Tensor:
    """log p of each target in the row as it is. (M,)"""
    rows, columns = targets.unbind(dim=1)
    positions = rows * batch.input_ids.shape[1] + columns
    logits = generator(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad, positions)
    return -F.cross_entropy(logits.float(), batch.input_ids[rows, columns], reduction="none").double()


@torch.inference_mode()
def _pll_masked(generator: TokenModel, mask_id: int, batch: RowBatch, targets: Tensor) -> Tensor:
    """log p of each target in a copy of its row where it alone is hidden. (M,)"""
    rows, columns = targets.unbind(dim=1)
    copies = torch.arange(len(targets), device=targets.device)
    input_ids = batch.input_ids[rows]  # (M, T)
    target_ids = input_ids[copies, columns]
    input_ids[copies, columns] = mask_id
    is_pad = batch.is_pad[rows]
    positions = copies * input_ids.shape[1] + columns
    logits = generator(input_ids, torch.zeros_like(input_ids), is_pad if bool(is_pad.any()) else None, positions)
    return -F.cross_entropy(logits.float(), target_ids, reduction="none").double()


class _SentenceSums:
    """Adds up log probabilities row by row, and gives each text its row's."""

    def __init__(self, sentences: Sentences, tokenizer: Tokenizer) -> None:
        self.sentences = sentences
        self.is_ordinary = torch.from_numpy(tokenizer.is_ordinary)
        self.sums = np.zeros(len(sentences.rows))
        self.done = 0

    def is_counted(self, batch: RowBatch) -> Tensor:
        """(B, T) neither special nor padding"""
        return self.is_ordinary.to(batch.input_ids.device)[batch.input_ids] & ~batch.is_pad

    def add(self, batch: RowBatch, log_probs: Tensor, phase: str) -> Progress:
        self.sums[batch.rows] = log_probs.sum(dim=1).cpu().numpy()
        self.done += len(batch.rows)
        return Progress(phase, self.done, len(self.sentences.rows))

    def finish(self) -> SentenceScores:
        is_ordinary, row_ids = self.is_ordinary.numpy(), self.sentences.row_ids
        counts = np.array([max(int(is_ordinary[row].sum()), 1) for row in self.sentences.rows])
        return SentenceScores(self.sums[row_ids], (self.sums / counts)[row_ids])


def compare_halves(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2N,) of the good sentences and then of the bad ones -> (N,) which of each pair won."""
    good, bad = np.split(values, 2)
    wins: NDArray[np.float64] = (good > bad) + 0.5 * (good == bad)
    return wins


def summarise_pairs(outcomes: Sequence[PairOutcomes]) -> tuple[Scores, GroupScores]:
    """The mean over all paradigms, and over those of each group, for every score."""
    scores: Scores = {}
    groups: GroupScores = {"field": {}, "linguistics_term": {}, "uid": {}}
    for outcome in outcomes:
        paradigms: dict[str, list[int]] = {}
        for index, pair in enumerate(outcome.pairs):
            paradigms.setdefault(pair.uid, []).append(index)
        for name, wins in outcome.wins.items():
            scores |= _average(name, [wins[indices] for indices in paradigms.values()])
            for kind, members in groups.items():
                # A pair that does not tell its group is in none.
                named = {(getattr(pair, kind), pair.uid) for pair in outcome.pairs if getattr(pair, kind)}
                uids_of: dict[str, list[str]] = {}
                for member, uid in sorted(named):
                    uids_of.setdefault(member, []).append(uid)
                for member, uids in uids_of.items():
                    members.setdefault(member, {}).update(_average(name, [wins[paradigms[uid]] for uid in uids]))
    return scores, groups


def _average(name: str, paradigms: Sequence[NDArray[np.float64]]) -> Scores:
    mean = float(np.mean([wins.mean() for wins in paradigms]))
    # Agresti and Coull's two more of each kind: a paradigm of which all pairs are right is not known exactly.
    shares = [((wins.sum() + 2) / (len(wins) + 4), len(wins) + 4) for wins in paradigms]
    margin = 1.96 * float(np.sqrt(sum(share * (1 - share) / count for share, count in shares))) / len(paradigms)
    return {name: mean, f"{name}_interval": [max(0.0, mean - margin), min(1.0, mean + margin)]}
