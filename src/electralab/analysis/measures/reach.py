"""M38: how much of the row a verdict, or a guess, takes into account.

Specimen, rows -> AUC or loss by the width of the context, and the width that suffices
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.analysis.finding import Finding, Missing, Places, attempt
from electralab.analysis.material import Material
from electralab.analysis.reach import (
    FarContext,
    ReachCurve,
    choose_places,
    guess_astray,
    guess_within,
    judge_astray,
    judge_within,
    measure_far_guesses,
    measure_far_verdicts,
    measure_guess_reach,
    measure_verdict_reach,
    widen,
)
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.trials import Figures, hold_trials, mask_material, need_judge, tell_beside_untrained
from electralab.objective.electra import Trial
from electralab.objective.masking import MaskedBatch

CLAIM = "M38"
_PURPOSE = "long-range sensitivity"
_EACH = 2
"""Replaced and original tokens of every row that are judged; twice as many are guessed."""
_FAR = 16
"""What lies further away is far."""
_GAIN = f"what the row's own text beyond {_FAR} tokens adds to the answers, over that of another row in its place"
_SHARE = f"how much of what the row adds to the token alone comes from beyond {_FAR} tokens"
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class _Answers:
    """What is asked of a network, and how its answers are called."""

    name: str
    unit: str
    meaning: str
    trace: Callable[[Specimen], ReachCurve]
    find_far: Callable[[Specimen], FarContext]


def measure_reach(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    for name, prepare in (("verdict AUC", _prepare_verdicts), ("guess loss", _prepare_guesses)):
        if prepare is _prepare_guesses or specimen.kind in ("electra", "electra-15", "electric"):
            yield from attempt(name, CLAIM, partial(_tell, specimen, material, settings, prepare))


def _prepare_verdicts(specimen: Specimen, material: Material, settings: AnalysisSettings) -> _Answers:
    luck, only_masked = settings.make_rng("reach of verdicts"), specimen.kind == "electra-15"
    trials = [(one, _choose(one, only_masked, luck)) for one in hold_trials(specimen, material, settings, _PURPOSE)]
    truth = [trial.corrupted.is_replaced.cpu().numpy().ravel()[at] for trial, at in trials]
    rows, length = _find_rows([(trial.masked, at) for trial, at in trials])

    def trace(one: Specimen) -> ReachCurve:
        judge = need_judge(one, _PURPOSE)

        def answer(trial: Trial, at: Tensor, width: int | None) -> NDArray[np.float32]:
            material.conditions.check()
            return judge_within(judge, trial.corrupted.input_ids, trial.masked.batch, at, width)

        widths, said = _ask(trials, length, answer)
        rng = settings.make_rng("reach")
        return measure_verdict_reach(said, np.concatenate(truth), rows, widths, rng, times=settings.times)

    def find_far(network: Specimen) -> FarContext:
        judge, said = need_judge(network, _PURPOSE), []
        for trial, at in trials:
            material.conditions.check()
            asked = trial.corrupted.input_ids, trial.masked.batch, torch.from_numpy(at)
            near = [judge_within(judge, *asked, width) for width in (0, None)]
            said.append(np.stack([*near, judge_astray(judge, *asked, _FAR)]))
        logits, rng = np.concatenate(said, axis=1), settings.make_rng("far context")
        return measure_far_verdicts(logits, np.concatenate(truth), rows, rng, times=settings.times)

    meaning = "AUC of verdicts on tokens of which only so many neighbours to each side are shown"
    return _Answers("verdict AUC", "AUC", meaning, trace, find_far)


def _choose(trial: Trial, only_masked: bool, luck: np.random.Generator) -> Places:
    is_asked = trial.masked.batch.is_ordinary.cpu().numpy()
    if only_masked:
        is_masked = np.zeros(is_asked.size, dtype=np.bool_)
        is_masked[trial.masked.positions.cpu().numpy()] = True
        is_asked = is_asked & is_masked.reshape(is_asked.shape)
    return choose_places(trial.corrupted.is_replaced.cpu().numpy(), is_asked, _EACH, luck)


def _prepare_guesses(specimen: Specimen, material: Material, settings: AnalysisSettings) -> _Answers:
    luck = settings.make_rng("reach of guesses")
    batches = [(one, _choose_guesses(one, luck)) for one in mask_material(specimen, material, settings)]
    positions = [(masked, masked.positions.cpu().numpy()[at]) for masked, at in batches]
    rows, length = _find_rows(positions)

    def trace(one: Specimen) -> ReachCurve:
        guesser = one.need_generator(_PURPOSE)

        def answer(masked: MaskedBatch, at: Tensor, width: int | None) -> NDArray[np.float32]:
            material.conditions.check()
            return guess_within(guesser, masked, at, width)

        widths, said = _ask(batches, length, answer)
        return measure_guess_reach(said, rows, widths, settings.make_rng("reach"), times=settings.times)

    def find_far(network: Specimen) -> FarContext:
        guesser, said = network.need_generator(_PURPOSE), []
        for masked, at in batches:
            material.conditions.check()
            places = torch.from_numpy(at)
            near = [guess_within(guesser, masked, places, width) for width in (0, None)]
            said.append(np.stack([*near, guess_astray(guesser, masked, places, _FAR)]))
        losses, rng = np.concatenate(said, axis=1), settings.make_rng("far context")
        return measure_far_guesses(losses, rows, rng, times=settings.times)

    sides = "before it" if specimen.kind == "causal" else "to each side"
    meaning = f"the loss of naming a token of which only so many neighbours {sides} are shown"
    return _Answers("guess loss", "nats", meaning, trace, find_far)


def _choose_guesses(masked: MaskedBatch, luck: np.random.Generator) -> Places:
    """Places among the masked positions."""
    is_masked = np.zeros(masked.input_ids.shape, dtype=np.bool_)
    positions = masked.positions.cpu().numpy()
    is_masked.ravel()[positions] = True
    chosen = choose_places(is_masked, is_masked, 2 * _EACH, luck)
    return np.searchsorted(positions, chosen)


def _find_rows(asked: Sequence[tuple[MaskedBatch, Places]]) -> tuple[Places, int]:
    """Of flat positions the rows they stand in, and how long these are."""
    length = asked[0][0].input_ids.shape[1]
    return np.concatenate([masked.batch.row_numbers[at // length] for masked, at in asked]), length


def _ask(
    parts: Sequence[tuple[P, Places]], length: int, answer: Callable[[P, Tensor, int | None], NDArray[np.float32]]
) -> tuple[list[int], NDArray[np.float32]]:
    """Widths, the last being the whole row, and the answers (W, P) at each."""
    widths = widen(length)
    said = [
        np.concatenate([answer(part, torch.from_numpy(at), width) for part, at in parts]) for width in (*widths, None)
    ]
    return [*widths, length], np.stack(said)


def _tell(
    specimen: Specimen,
    material: Material,
    settings: AnalysisSettings,
    prepare: Callable[[Specimen, Material, AnalysisSettings], _Answers],
) -> Iterator[Finding]:
    answers = prepare(specimen, material, settings)
    name, sides = answers.name, "−" if specimen.kind == "causal" else "±"
    parts: dict[str, str] = {}
    meanings = {
        f"{name}, reach": (
            "tokens",
            "the narrowest width with nine tenths of what the whole row adds to the token alone",
        ),
        f"{name}, gain by context": (
            answers.unit,
            "how much better answers are with the whole row than from the token alone",
        ),
        f"{name}, gain beyond ±{_FAR}": (answers.unit, _GAIN),
        f"{name}, share beyond ±{_FAR}": ("share", _SHARE),
    }

    def measure(one: Specimen) -> Figures:
        curve, far = answers.trace(one), answers.find_far(one)
        found = {
            f"{name}, reach": curve.reach,
            f"{name}, gain by context": curve.gain,
            f"{name}, gain beyond ±{_FAR}": far.gain,
            f"{name}, share beyond ±{_FAR}": far.share,
        }
        for width, score in zip(curve.widths, curve.scores, strict=True):
            is_all = width == curve.widths[-1]
            label = f"{name}, whole row" if is_all else f"{name}, {sides}{width}"
            found[label], meanings[label] = score, (answers.unit, answers.meaning)
            parts[label] = "all" if is_all else str(width)
        return found

    note = "the row's first token is always shown"
    for one in tell_beside_untrained(specimen, settings, CLAIM, meanings, measure, note):
        is_part = one.name in parts
        yield one.as_part(f"{name} by neighbours shown", parts[one.name]) if is_part else one
