"""How plausible a network finds whole sentences.

Sentences -> Plausibility

The discriminator reads a sentence once: sum of log(1 - p_replaced), or of minus the energy where it was taught those,
which is a pseudo-log-likelihood up to a constant for each token. A generator says sum of log p(token), and what it
is asked with depends on what it was taught:

    pseudo-log-likelihood   with each token in turn hidden from it, a pass for each
    log-likelihood          causal: with what stands before the token, one pass
    cloze                   two towers: with all but the token, one pass
    unmasked                taught to mend rows without [MASK]: with the row as it is, one pass

Special tokens, the unknown one among them, do not count: the networks were never asked about them.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.evaluation.outcome import Conditions, Steps
from electralab.evaluation.sentences import Sentences
from electralab.events import Progress
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.token_models import TwoTower
from electralab.tokens.batches import RowBatch, batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Scoring = Literal["pseudo-log-likelihood", "log-likelihood", "cloze", "unmasked"]

# A guess for every token at once is as many numbers as the vocabulary has entries, for each.
_GUESSES_SHARE = 4
# Their networks were asked about tokens that stood there, and never saw [MASK].
_UNMASKED = ("replace-mlm", "all-tokens-mlm")


@dataclass(frozen=True, slots=True)
class Plausibility:
    """Of each text, in the order of the texts."""

    sums: NDArray[np.float64]  # (N,)
    means: NDArray[np.float64]  # (N,) per token that counts; 0 where none does


def judge_sentences(
    discriminator: Discriminator,
    tokenizer: Tokenizer,
    sentences: Sentences,
    conditions: Conditions,
    *,
    has_energies: bool = False,
) -> Steps[Plausibility]:
    tally = _Tally(sentences, tokenizer)
    device = next(discriminator.parameters()).device
    done = 0
    for batch in batch_by_length(sentences.rows, tokenizer.special, conditions.batch_tokens, device):
        conditions.check()
        with torch.inference_mode():
            verdicts = discriminator(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad)
            log_chances = -verdicts.double() if has_energies else F.logsigmoid(-verdicts.double())  # (B, T)
        is_counted = tally.find_counted(batch)
        tally.add(batch, log_chances.masked_fill(~is_counted, 0.0).sum(dim=1))
        done += len(batch.rows)
        yield Progress("discriminator", done, len(sentences.rows))
    return tally.finish()


def choose_scoring(generator: TokenModel, objective: str) -> Scoring:
    if objective in _UNMASKED:
        return "unmasked"
    if isinstance(generator, TwoTower):
        return "cloze"
    return "pseudo-log-likelihood" if generator.reads_masked else "log-likelihood"


def guess_sentences(
    generator: TokenModel,
    tokenizer: Tokenizer,
    sentences: Sentences,
    conditions: Conditions,
    scoring: Scoring = "pseudo-log-likelihood",
) -> Steps[Plausibility]:
    tally = _Tally(sentences, tokenizer)
    device = next(generator.parameters()).device
    is_hiding = scoring == "pseudo-log-likelihood"
    batch_tokens = conditions.batch_tokens if is_hiding else max(1, conditions.batch_tokens // _GUESSES_SHARE)
    done = 0
    for batch in batch_by_length(sentences.rows, tokenizer.special, batch_tokens, device):
        log_chances = torch.zeros(batch.input_ids.shape, dtype=torch.float64, device=device)  # (B, T)
        asked = tally.find_counted(batch).nonzero()  # (M, 2) row and column
        copies = max(1, batch_tokens // batch.input_ids.shape[1])
        for part in torch.split(asked, copies if is_hiding else max(1, len(asked))):
            conditions.check()
            log_chances[part[:, 0], part[:, 1]] = (
                _guess_hidden(generator, tokenizer.special.mask, batch, part)
                if is_hiding
                else _guess_standing(generator, batch, part)
            )
        tally.add(batch, log_chances.sum(dim=1))
        done += len(batch.rows)
        yield Progress("generator", done, len(sentences.rows))
    return tally.finish()


@torch.inference_mode()
def _guess_standing(generator: TokenModel, batch: RowBatch, asked: Tensor) -> Tensor:
    """log p of each asked token in the row as it is. (M,)"""
    rows, columns = asked.unbind(dim=1)
    positions = rows * batch.input_ids.shape[1] + columns
    guesses = generator(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad, positions)
    return -F.cross_entropy(guesses.float(), batch.input_ids[rows, columns], reduction="none").double()


@torch.inference_mode()
def _guess_hidden(generator: TokenModel, mask_id: int, batch: RowBatch, asked: Tensor) -> Tensor:
    """log p of each asked token in a copy of its row where it alone is hidden. (M,)"""
    rows, columns = asked.unbind(dim=1)
    copies = torch.arange(len(asked), device=asked.device)
    input_ids = batch.input_ids[rows]  # (M, T)
    targets = input_ids[copies, columns]
    input_ids[copies, columns] = mask_id
    is_pad = batch.is_pad[rows]
    positions = copies * input_ids.shape[1] + columns
    guesses = generator(input_ids, torch.zeros_like(input_ids), is_pad if bool(is_pad.any()) else None, positions)
    return -F.cross_entropy(guesses.float(), targets, reduction="none").double()


class _Tally:
    def __init__(self, sentences: Sentences, tokenizer: Tokenizer) -> None:
        self.sentences = sentences
        self.is_ordinary = torch.from_numpy(tokenizer.is_ordinary)
        self.sums = np.zeros(len(sentences.rows))

    def find_counted(self, batch: RowBatch) -> Tensor:
        """(B, T) neither special nor padding"""
        return self.is_ordinary.to(batch.input_ids.device)[batch.input_ids] & ~batch.is_pad

    def add(self, batch: RowBatch, sums: Tensor) -> None:
        self.sums[batch.rows] = sums.cpu().numpy()

    def finish(self) -> Plausibility:
        is_ordinary = self.is_ordinary.numpy()
        counts = np.array([max(int(is_ordinary[row].sum()), 1) for row in self.sentences.rows])
        return Plausibility(self.sums[self.sentences.places], (self.sums / counts)[self.sentences.places])
