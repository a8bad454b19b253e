"""Whether generator and discriminator are a match: what each achieves against the other, with intervals.

Trial... -> Game -> accuracy, entropy, AUC by how sure the generator was
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import torch

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Flags,
    Floats,
    Places,
    bootstrap_estimate,
    require,
    require_finite,
    summarise,
)
from electralab.analysis.ranking import find_auc
from electralab.objective.electra import Trial
from electralab.objective.verdicts import Verdicts

CONFIDENCES = ("unsure", "middling", "sure")
_EXCHANGES = 20


@dataclass(frozen=True, slots=True)
class Game:
    """All ordinary tokens (N,), and all guesses (M,); [CLS] and [SEP], never replaced, would flatter a verdict."""

    rows: Places  # (N,)
    logits: Floats  # (N,) verdicts, above 0 means "replaced"
    is_replaced: Flags  # (N,)
    confidences: Floats  # (N,) ln p_G of a replacement, NaN of other tokens
    guess_rows: Places  # (M,)
    is_hit: Flags  # (M,) whether the likeliest guess is the original
    entropies: Floats  # (M,) nats
    losses: Floats  # (M,) nats
    target_ids: Places  # (M,)

    @property
    def verdicts(self) -> Verdicts:
        return Verdicts(self.logits.astype(np.float32), self.is_replaced)


@torch.no_grad()
def watch(trial: Trial) -> Game:
    masked, corrupted = trial.masked, trial.corrupted
    length = masked.input_ids.shape[1]
    log_probs = torch.log_softmax(trial.guesses.float(), dim=-1)  # (M, V)
    entropies = -(log_probs.exp() * log_probs.clamp(min=-1e4)).sum(dim=-1)
    drawn = log_probs.gather(1, corrupted.input_ids.flatten()[masked.positions][:, None]).squeeze(1)
    is_new = corrupted.is_replaced.flatten()[masked.positions]
    confidences = torch.full(corrupted.is_replaced.shape, torch.nan, device=drawn.device).flatten()
    confidences[masked.positions] = torch.where(is_new, drawn, torch.nan)
    is_ordinary = masked.batch.is_ordinary.cpu().numpy().ravel()
    rows = np.repeat(masked.batch.row_numbers, length)
    wide = (trial.verdicts.float().flatten(), confidences)
    logits, sure = (column.double().cpu().numpy()[is_ordinary] for column in wide)
    return Game(
        rows[is_ordinary],
        logits,
        corrupted.is_replaced.flatten().cpu().numpy()[is_ordinary],
        sure,
        rows[masked.positions.cpu().numpy()],
        (trial.guesses.argmax(dim=-1) == masked.target_ids).cpu().numpy(),
        entropies.double().cpu().numpy(),
        -log_probs.gather(1, masked.target_ids[:, None]).squeeze(1).double().cpu().numpy(),
        masked.target_ids.cpu().numpy(),
    )


def join_games(games: Iterable[Game]) -> Game:
    kept = list(games)
    return Game(*(np.concatenate([getattr(game, field.name) for game in kept]) for field in fields(Game)))


def measure_guesses(game: Game, values: Floats | Flags, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """The mean of something of every guess (M,), such as whether it hits."""
    require("balance", len(values), 2, "guesses")
    return bootstrap_estimate(lambda p: float(values[p].mean()), len(values), times, rng, groups=game.guess_rows)


def measure_auc(game: Game, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    return _measure_auc(game, np.ones_like(game.is_replaced), rng, times)


def measure_called(game: Game, is_asked: Flags, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """The share of the tokens asked about that are called replaced: of replaced ones, the recall."""
    require("balance", int(is_asked.sum()), 2, "tokens of the kind asked about")
    is_called = game.logits[is_asked] > 0
    rows = game.rows[is_asked]
    return bootstrap_estimate(lambda p: float(is_called[p].mean()), len(is_called), times, rng, groups=rows)


def measure_auc_by_confidence(game: Game, rng: np.random.Generator, *, times: int = TIMES) -> dict[str, Estimate]:
    """Of the thirds of the replacements that the generator was least to most sure of, against all originals."""
    require("balance by confidence", int(game.is_replaced.sum()), 2 * len(CONFIDENCES), "replaced tokens")
    order = np.argsort(np.where(game.is_replaced, game.confidences, np.inf), kind="stable")
    thirds = np.array_split(order[: int(game.is_replaced.sum())], len(CONFIDENCES))
    found = {}
    for name, third in zip(CONFIDENCES, thirds, strict=True):
        is_asked = ~game.is_replaced
        is_asked[third] = True
        found[name] = _measure_auc(game, is_asked, rng, times)
    return found


def _measure_auc(game: Game, is_asked: Flags, rng: np.random.Generator, times: int) -> Estimate:
    require("balance", int((game.is_replaced & is_asked).sum()), 2, "replaced tokens")
    require_finite("balance", game.logits)
    logits, truth = game.logits[is_asked], game.is_replaced[is_asked]
    return bootstrap_estimate(
        lambda p: find_auc(logits[p], truth[p]), len(logits), times, rng, groups=game.rows[is_asked]
    )


def measure_hardening(early: Game, late: Game, rng: np.random.Generator, *, times: int = TIMES) -> Contrast:
    """By how much one judge's AUC is lower against late replacements than against early ones, in the same rows.

    Control: rows of the two exchanged at random, which leaves nothing early or late about either.
    """
    assert np.array_equal(early.rows, late.rows), "both are about the same tokens"
    for game in (early, late):
        require("hardening of replacements", int(game.is_replaced.sum()), 2, "replaced tokens")
        require_finite("hardening of replacements", game.logits)

    def lose(first: Game, second: Game, places: Places) -> float:
        return find_auc(first.logits[places], first.is_replaced[places]) - find_auc(
            second.logits[places], second.is_replaced[places]
        )

    def exchange() -> float:
        names = np.unique(early.rows)
        is_exchanged = np.isin(early.rows, names[rng.random(len(names)) < 0.5])
        sides = []
        for first, second in ((early, late), (late, early)):
            logits = np.where(is_exchanged, second.logits, first.logits)
            truth = np.where(is_exchanged, second.is_replaced, first.is_replaced)
            sides.append(find_auc(logits, truth))
        return sides[0] - sides[1]

    count = len(early.rows)
    estimate = bootstrap_estimate(lambda places: lose(early, late, places), count, times, rng, groups=early.rows)
    return Contrast(estimate, summarise(exchange() for _ in range(_EXCHANGES)))
