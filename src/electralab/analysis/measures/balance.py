"""M32: whether the two networks of a pair are a match for each other, on held-out rows and by the run's own log.

Specimen, rows, metrics.jsonl -> accuracy, entropy, AUC by confidence, gradients, advice in words
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from electralab.analysis.balance import (
    CONFIDENCES,
    Game,
    join_games,
    measure_auc,
    measure_auc_by_confidence,
    measure_called,
    measure_guesses,
    watch,
)
from electralab.analysis.finding import Contrast, Estimate, Finding, Missing, attempt, bootstrap_estimate, require
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.trials import hold_trials
from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.pretraining.balance import diagnose
from electralab.pretraining.settings import parse_stored
from electralab.training.metrics import Record, read_metrics

CLAIM = "M32"
_LAST = 0.1
_ALONE = "a judge that knows nothing: 1/2"
_FREQUENT = "always the most frequent token"


def measure_balance(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    if specimen.kind in ("mlm", "causal", "encoder", "all-tokens-mlm", "other"):
        reason = f"{specimen.name}: is no pair of generator and discriminator; give a run of electra"
        yield Missing("balance", CLAIM, reason)
        return
    yield from attempt("balance", CLAIM, partial(_tell_game, specimen, material, settings))
    if specimen.control_of is None:
        yield from attempt("gradient ratio", CLAIM, partial(_tell_gradients, specimen, settings))


def _tell_game(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    game = join_games(watch(trial) for trial in hold_trials(specimen, material, settings, "balance"))
    rng, times = settings.make_rng("balance"), settings.times
    unigram = material.read_rows(specimen).unigram
    accuracy = measure_guesses(game, game.is_hit, rng, times=times)
    frequent = measure_guesses(game, game.target_ids == int(unigram.argmax()), rng, times=times)
    advice = _advise(specimen, game, accuracy, frequent)
    yield Contrast(accuracy, frequent).tell(
        "generator accuracy", CLAIM, "share", "masked tokens that the generator's likeliest guess restores", _FREQUENT
    )
    yield Contrast(measure_guesses(game, game.entropies, rng, times=times), _exact(_entropy(unigram))).tell(
        "generator entropy", CLAIM, "nats", "of the generator's guesses", "of the frequencies of tokens"
    )
    yield Contrast(measure_auc(game, rng, times=times), _exact(0.5)).tell(
        "verdict AUC",
        CLAIM,
        "AUC",
        "the chance that a replaced token looks more replaced than an original",
        _ALONE,
        advice,
    )
    by_confidence = measure_auc_by_confidence(game, rng, times=times)
    for name in CONFIDENCES:
        meaning = f"AUC on the third of the replacements of which the generator was {name}, against all originals"
        yield Contrast(by_confidence[name], _exact(0.5)).tell(f"verdict AUC, {name}", CLAIM, "AUC", meaning, _ALONE)
    recall = measure_called(game, game.is_replaced, rng, times=times)
    called = measure_called(game, np.ones_like(game.is_replaced), rng, times=times)
    meaning = "replaced tokens that are called replaced"
    yield Contrast(recall, called).tell("recall", CLAIM, "share", meaning, "of all tokens, the share so called")


def _advise(specimen: Specimen, game: Game, accuracy: Estimate, frequent: Estimate) -> str:
    """What training itself would say of these scores."""
    verdicts = game.verdicts
    scores = {
        "auc": verdicts.auc,
        "called_replaced": verdicts.called_replaced,
        "replaced_share": verdicts.replaced_share,
        "generator_accuracy": accuracy.value,
        "generator_entropy": float(game.entropies.mean()),
        "generator_loss": float(game.losses.mean()),
    }
    records = read_metrics(specimen.folder / "metrics.jsonl") if specimen.control_of is None else []
    record = records[-1] if records else {"generator_gradient_norm": 1.0}
    run = specimen.folder / "run.json"
    said = diagnose(
        scores,
        1.0,
        baselines={"generator_accuracy": frequent.value},
        record=record,
        config=parse_stored(read_json(run)["settings"]) if run.is_file() else None,
        highest_rate=max((each.get("learning_rate") or 0.0 for each in records), default=None),
    )
    return "; ".join(said) or "training's own rules find nothing out of balance"


def _tell_gradients(specimen: Specimen, settings: AnalysisSettings) -> Iterator[Finding]:
    path = specimen.folder / "metrics.jsonl"
    found = [ratio for record in read_metrics(path) if (ratio := _find_ratio(record)) is not None]
    if not found:
        raise InputError(f"{path}: has no gradient norm of each network; train with this version to log them")
    late = np.log(found[-max(2, int(_LAST * len(found))) :])
    require("gradient ratio", len(late), 2, "logged steps with the gradient norms of both networks")
    rng = settings.make_rng("gradient ratio")
    estimate = bootstrap_estimate(lambda p: float(np.exp(late[p].mean())), len(late), settings.times, rng)
    meaning = "the discriminator's gradient norm over the generator's, geometric mean of the last tenth of the log"
    note = "logged steps are drawn again; healthy runs stay between a half and ten"
    yield Finding("gradient ratio", CLAIM, "×", meaning, estimate, None, "", note)


def _find_ratio(record: Record) -> float | None:
    norms = [record.get(f"{network}_gradient_norm") for network in ("discriminator", "generator")]
    return norms[0] / norms[1] if norms[0] and norms[1] else None


def _entropy(log_shares: np.ndarray) -> float:
    known = log_shares[np.isfinite(log_shares)]
    return float(-(np.exp(known) * known).sum())


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value)
