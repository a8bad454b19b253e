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
from electralab.analysis.transport import Distance, measure_w2
from electralab.analysis.trials import hold_trials, mask_material
from electralab.analysis.vectors import embed_rows
from electralab.errors import InputError
from electralab.evaluation.resampling import choose_some
from electralab.objective.electra import make_guesses

CLAIM = "M44"
_HALVES = "one half of the rows of its own domain against the other"
_DEALT = "the states of both domains dealt at random into two clouds"
_DISTANCES: dict[Distance, tuple[str, str]] = {
    "gaussian": ("W₂", "of Gaussians with the means and covariances of the states"),
    "sliced": ("sliced W₂", "the mean over directions of the distance along each"),
    "exact": ("exact W₂", "of the best assignment of states to states"),
}
# An assignment takes time with the cube of the points.
_ASSIGNED = 300


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
    distances: dict[Distance, Contrast]
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
    distances: dict[Distance, Contrast] = {}
    for distance, (series, how) in _DISTANCES.items():
        material.conditions.check()
        most = _ASSIGNED if distance == "exact" else settings.vectors
        here, there = (cloud[choose_some(len(cloud), most, settings.seed)] for cloud in (home.cloud, away.cloud))
        found = measure_w2(here, there, rng, distance=distance, relative=True)
        distances[distance] = found
        meaning = f"Wasserstein distance of its states at the last layer from those of the model's own domain: {how}"
        note = "in units of their spread"
        yield found.tell(f"{series} to {name}", CLAIM, "spread", meaning, _DEALT, note).as_part(series, name)
    rise = fall = None
    if home.guesses is not None and away.guesses is not None:
        rise = measure_rise(home.guesses, away.guesses, mean_loss, rng, times=times)
    if home.verdicts is not None and away.verdicts is not None:
        fall = measure_rise(home.verdicts, away.verdicts, lost_auc, rng, times=times)
    journeys.append(_Journey(name, distances, rise, fall))
    if rise is not None:
        who = "its generator" if specimen.discriminator is not None else "it"
        meaning = f"how much more naming a hidden token costs {who} there"
        yield rise.tell(f"loss risen on {name}", CLAIM, "nats", meaning, _HALVES).as_part("loss risen", name)
    if fall is not None:
        note = "against the model's own generator, which is on strange ground too"
        meaning = "how much lower the verdict AUC is there"
        yield fall.tell(f"AUC fallen on {name}", CLAIM, "AUC", meaning, _HALVES, note).as_part("AUC fallen", name)


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
        is_ordinary = batch.is_ordinary.cpu().numpy()
        logits.append(trial.verdicts.double().cpu().numpy()[is_ordinary])
        truth.append(trial.corrupted.is_replaced.cpu().numpy()[is_ordinary])
        rows.append(np.broadcast_to(batch.row_numbers[:, None], is_ordinary.shape)[is_ordinary])
    return Answers(np.concatenate(logits), np.concatenate(rows), np.concatenate(truth))


def _tell_relation(journeys: list[_Journey], settings: AnalysisSettings) -> Iterator[Finding]:
    if len(journeys) < 4:
        raise InputError(f"distance and loss: needs at least 4 other domains, got {len(journeys)}; give more")
    rng = settings.make_rng("distance and loss")
    for distance, (series, _) in _DISTANCES.items():
        far = np.array([one.distances[distance].estimate.value for one in journeys])
        for name, what in (("rise", "loss risen"), ("fall", "AUC fallen")):
            told = [found.estimate.value for one in journeys if (found := getattr(one, name)) is not None]
            if len(told) == len(journeys):
                found = measure_correlation(far, np.array(told), rng)
                meaning = f"Spearman's rho of {series} with the {what}, over domains"
                note = f"{len(journeys)} domains; p = {found.p:.2g}"
                yield found.rho.tell(f"{series} with {what}", CLAIM, "rho", meaning, "domains shuffled", note)
