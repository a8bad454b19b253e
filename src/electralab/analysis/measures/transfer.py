"""M44: how far texts of other domains are, and what the model loses there.

Specimen, rows, texts -> W2, rise of the loss, fall of the AUC, and whether they go together
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from electralab.analysis.correlation import measure_correlation
from electralab.analysis.finding import Contrast, Finding, Missing, Vectors, attempt
from electralab.analysis.material import Material
from electralab.analysis.naming import name_models
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.transfer import Answers, lost_auc, mean_loss, measure_rise
from electralab.analysis.transport import measure_w2
from electralab.analysis.trials import hold_trials, mask_material
from electralab.analysis.vectors import embed_rows
from electralab.errors import InputError
from electralab.objective.electra import make_guesses

CLAIM = "M44"
_HALVES = "one half of the rows of its own domain against the other"
_DEALT = "the states of both domains dealt at random into two clouds"


@dataclass(frozen=True, slots=True)
class _Stay:
    """What a model's states are in one domain, and how it does there."""

    cloud: Vectors
    guesses: Answers | None
    verdicts: Answers | None


@dataclass(frozen=True, slots=True)
class _Journey:
    """To one other domain."""

    name: str
    distance: Contrast
    rise: Contrast | None
    fall: Contrast | None


def measure_transfer(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    if not settings.domains:
        reason = "domain transfer: needs texts of other domains; give --domains FILE,FILE"
        yield Missing("domain transfer", CLAIM, reason)
        return
    yield from attempt("domain transfer", CLAIM, partial(_tell_journeys, specimen, material, settings))


def _tell_journeys(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    home = _stay(specimen, material, settings)
    # Rows of text as long as those at home: a shorter row costs a model something by itself.
    length = material.read_rows(specimen).ids.shape[1]
    journeys: list[_Journey] = []
    paths = list(map(Path, settings.domains))
    for name, path in zip(_name_domains(paths), paths, strict=True):
        away = replace(material, data=path, settings=settings.model_copy(update={"row_length": length}), _rows={})
        tell = partial(_tell_journey, specimen, home, away, settings, name, journeys)
        yield from attempt(f"transfer to {name}", CLAIM, tell)
    yield from attempt("distance and loss", CLAIM, partial(_tell_relation, journeys, settings))


def _stay(specimen: Specimen, material: Material, settings: AnalysisSettings) -> _Stay:
    is_judge = specimen.kind in ("electra", "electra-15")
    return _Stay(
        embed_rows(specimen, material, settings.vectors, is_spread=True).layers[-1],
        _ask(specimen, material, settings) if specimen.generator is not None else None,
        _judge(specimen, material, settings) if is_judge else None,
    )


def _name_domains(paths: Sequence[Path]) -> list[str]:
    names = name_models(paths)
    short = [str(Path(name).with_suffix("")) for name in names]
    return short if len(set(short)) == len(short) else names


def _tell_journey(
    specimen: Specimen,
    home: _Stay,
    material: Material,
    settings: AnalysisSettings,
    name: str,
    journeys: list[_Journey],
) -> Iterator[Finding]:
    rng, times = settings.make_rng("transfer", name), settings.times
    away = _stay(specimen, material, settings)
    distance = measure_w2(home.cloud, away.cloud, rng, relative=True)
    rise = fall = None
    if home.guesses is not None and away.guesses is not None:
        rise = measure_rise(home.guesses, away.guesses, mean_loss, rng, times=times)
    if home.verdicts is not None and away.verdicts is not None:
        fall = measure_rise(home.verdicts, away.verdicts, lost_auc, rng, times=times)
    journeys.append(_Journey(name, distance, rise, fall))
    note = "Gaussian, of the last layer's states, in units of their spread"
    meaning = "Wasserstein distance W₂ of its states from those of the model's own domain"
    yield distance.tell(f"W₂ to {name}", CLAIM, "spread", meaning, _DEALT, note)
    if rise is not None:
        who = "its generator" if specimen.discriminator is not None else "it"
        meaning = f"how much more naming a hidden token costs {who} there"
        yield rise.tell(f"loss risen on {name}", CLAIM, "nats", meaning, _HALVES)
    if fall is not None:
        note = "against the model's own generator, which is on strange ground too"
        yield fall.tell(f"AUC fallen on {name}", CLAIM, "AUC", "how much lower the verdict AUC is there", _HALVES, note)


def _ask(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Answers:
    guesser = specimen.need_generator("domain transfer")
    losses, rows = [], []
    for masked in mask_material(specimen, material, settings):
        material.conditions.check()
        with torch.inference_mode():
            guesses = make_guesses(guesser, masked)
        losses.append(F.cross_entropy(guesses.float(), masked.target_ids, reduction="none").double().cpu().numpy())
        rows.append(masked.batch.row_numbers[masked.positions.cpu().numpy() // masked.input_ids.shape[1]])
    return Answers(np.concatenate(losses), np.concatenate(rows))


def _judge(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Answers:
    logits, truth, rows = [], [], []
    for trial in hold_trials(specimen, material, settings, "domain transfer"):
        batch = trial.masked.batch
        is_token = ~batch.is_pad.cpu().numpy()
        logits.append(trial.verdicts.double().cpu().numpy()[is_token])
        truth.append(trial.corrupted.is_replaced.cpu().numpy()[is_token])
        rows.append(np.broadcast_to(batch.row_numbers[:, None], is_token.shape)[is_token])
    return Answers(np.concatenate(logits), np.concatenate(rows), np.concatenate(truth))


def _tell_relation(journeys: list[_Journey], settings: AnalysisSettings) -> Iterator[Finding]:
    if len(journeys) < 4:
        raise InputError(f"distance and loss: needs at least 4 other domains, got {len(journeys)}; give more")
    rng = settings.make_rng("distance and loss")
    distances = np.array([one.distance.estimate.value for one in journeys])
    for name in ("rise", "fall"):
        told = [found.estimate.value for one in journeys if (found := getattr(one, name)) is not None]
        if len(told) == len(journeys):
            found = measure_correlation(distances, np.array(told), rng)
            what = {"rise": "loss risen", "fall": "AUC fallen"}[name]
            meaning = f"Spearman's rho of W₂ with the {what}, over domains"
            note = f"{len(journeys)} domains; p = {found.p:.2g}"
            yield found.rho.tell(f"W₂ with {what}", CLAIM, "rho", meaning, "domains shuffled", note)
