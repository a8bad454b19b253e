"""M30: how many bits a token of input teaches, and a FLOP.

Specimen, rows -> bits per token, bits per GFLOP, share of positions with a loss
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from electralab.analysis.balance import join_games, watch
from electralab.analysis.finding import Contrast, Estimate, Finding, Flags, Floats, Labels, Missing, attempt
from electralab.analysis.information import (
    measure_guess_bits,
    measure_loss_share,
    measure_mutual_information,
    measure_rtd_bits,
)
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.trials import hold_trials, mask_material
from electralab.errors import InputError
from electralab.objective.electra import make_guesses
from electralab.tokens.batches import make_batch

CLAIM = "M30"
_GIGA = 1e9
_BINS = 50
# Their loss is about every token, although they are asked for guesses at masked positions only.
_ASKS_ALL = ("electric", "all-tokens-mlm")
_SHUFFLED = "the same verdicts, dealt to other tokens"
_UNIGRAM = "guesses that all cost what a unigram costs on average"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was said of the tokens that the loss is about."""

    losses: Floats  # (M,) nats
    unigram: Floats  # (M,)
    rows: Labels  # (M,)
    row_tokens: Labels  # (N,) the ordinary tokens of each row


def measure_information(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    rng = settings.make_rng("information")
    judges = specimen.kind in ("electra", "electra-15")
    if judges:
        yield from attempt("verdict bits", CLAIM, partial(_tell_verdicts, specimen, material, settings, rng))
    elif specimen.kind == "electric":
        reason = f"{specimen.name}: says energies, not how likely a token was replaced; give a run of electra"
        yield Missing("verdict bits", CLAIM, reason)
    yield from attempt("guess bits", CLAIM, partial(_tell_guesses, specimen, material, settings, rng, not judges))


def _tell_verdicts(
    specimen: Specimen, material: Material, settings: AnalysisSettings, rng: np.random.Generator
) -> Iterator[Finding]:
    logits, is_replaced, is_masked, rows = _hold_trials(specimen, material, settings)
    is_asked = is_masked if specimen.kind == "electra-15" else np.ones_like(is_masked)
    found = measure_rtd_bits(logits[is_asked], is_replaced[is_asked], rows[is_asked], rng, times=settings.times)
    share = float(is_asked.mean())
    found = found.scale(share)
    meaning = "H(Y) - loss of telling replaced tokens from original ones, over the row's ordinary tokens"
    note = "against its own generator: a better one makes verdicts harder"
    yield found.tell("verdict bits", CLAIM, "bits/token", meaning, _SHUFFLED, note)
    yield from _tell_price("verdict bits per GFLOP", found, specimen, _SHUFFLED)
    # By rank: neither how sure the verdicts are nor where their threshold lies matters.
    cuts = np.quantile(logits[is_asked], np.arange(1, _BINS) / _BINS)
    bins = np.searchsorted(cuts, logits[is_asked])
    known = measure_mutual_information(
        is_replaced[is_asked].astype(np.int64), bins, rng, groups=rows[is_asked], times=settings.times
    )
    meaning = "I(Y; fiftieth that the verdict is in), over the row's ordinary tokens: what the verdicts' order tells"
    yield known.scale(share).tell("verdict information", CLAIM, "bits/token", meaning, _SHUFFLED)
    yield _tell_share(measure_loss_share(is_asked, rows, rng, times=settings.times))


def _tell_guesses(
    specimen: Specimen, material: Material, settings: AnalysisSettings, rng: np.random.Generator, is_all: bool
) -> Iterator[Finding]:
    """`is_all`: whether guesses are all that the model is taught by."""
    asked = _ask(specimen, material, settings)
    found = measure_guess_bits(asked.losses, asked.unigram, asked.rows, asked.row_tokens, rng, times=settings.times)
    meaning = "(what a unigram pays - loss) of naming tokens, times the share of tokens asked about"
    note = "" if specimen.discriminator is None else "of its generator"
    yield found.tell("guess bits", CLAIM, "bits/token", meaning, _UNIGRAM, note)
    if is_all:
        yield from _tell_price("guess bits per GFLOP", found, specimen, _UNIGRAM)
        owners = np.repeat(np.arange(len(asked.row_tokens)), asked.row_tokens)
        counts = asked.row_tokens
        if specimen.kind not in _ASKS_ALL:
            counts = np.bincount(asked.rows, minlength=len(asked.row_tokens))
        has_loss = np.concatenate([np.arange(n) < k for n, k in zip(asked.row_tokens, counts, strict=True)])
        yield _tell_share(measure_loss_share(has_loss, owners, rng, times=settings.times))


def _tell_price(name: str, found: Contrast, specimen: Specimen, control: str) -> Iterator[Finding]:
    flops = specimen.flops_per_token
    if flops is not None:
        priced = found.scale(_GIGA / flops)
        meaning = f"bits per token / FLOPs of training per token ({flops:.3g}, forward and backward of all networks)"
        yield priced.tell(name, CLAIM, "bits/GFLOP", meaning, control)


def _tell_share(share: Estimate) -> Finding:
    meaning = "ordinary tokens that the loss is about / ordinary tokens"
    return Finding("positions with a loss", CLAIM, "share", meaning, share, None, "", "a count: there is no control")


def _hold_trials(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> tuple[Floats, Flags, Flags, Labels]:
    """Of every ordinary token: verdict, whether it was replaced, whether masked, its row. (N,)"""
    games, is_masked = [], []
    for trial in hold_trials(specimen, material, settings, "measuring verdicts"):
        games.append(watch(trial))
        is_hidden = torch.zeros_like(trial.corrupted.is_replaced).flatten()
        is_hidden[trial.masked.positions] = True
        is_masked.append(is_hidden.cpu().numpy()[trial.masked.batch.is_ordinary.cpu().numpy().ravel()])
    game = join_games(games)
    return game.logits, game.is_replaced, np.concatenate(is_masked), game.rows


def _ask(specimen: Specimen, material: Material, settings: AnalysisSettings) -> _Asked:
    guesser = specimen.need_generator("guessing tokens")
    rows = material.read_rows(specimen)
    losses: list[Floats] = []
    targets: list[Labels] = []
    owners: list[Labels] = []
    length = rows.ids.shape[1]
    if specimen.kind == "causal":
        batch = make_batch(rows.ids, specimen.tokenizer, is_pairs=rows.is_pairs)
        for part in batch.split(max(1, settings.batch_tokens // length)):
            material.conditions.check()
            given = part.to(specimen.device)
            is_asked = given.is_ordinary.clone()
            is_asked[:, 0] = False
            positions = is_asked.view(-1).nonzero().squeeze(1)
            with torch.inference_mode():
                guesses = guesser(given.original_ids, given.segment_ids, given.attention_pad, positions)
            named = given.original_ids.view(-1)[positions]
            losses.append(_price(guesses, named))
            targets.append(named.cpu().numpy())
            owners.append(part.row_numbers[positions.cpu().numpy() // length])
    else:
        for masked in mask_material(specimen, material, settings, rows):
            material.conditions.check()
            with torch.inference_mode():
                guesses = make_guesses(guesser, masked)
            losses.append(_price(guesses, masked.target_ids))
            targets.append(masked.target_ids.cpu().numpy())
            owners.append(masked.batch.row_numbers[masked.positions.cpu().numpy() // length])
    if not losses:
        raise InputError(f"{material.data}: holds no row to ask about; give more text")
    unigram = -rows.unigram[np.concatenate(targets)]
    row_tokens = specimen.tokenizer.is_ordinary[rows.ids].sum(axis=1)
    return _Asked(np.concatenate(losses), unigram, np.concatenate(owners), row_tokens)


def _price(guesses: torch.Tensor, targets: torch.Tensor) -> Floats:
    return F.cross_entropy(guesses.float(), targets, reduction="none").double().cpu().numpy()
