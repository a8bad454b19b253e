"""M31: at which tokens the loss pulls.

Specimen, rows -> pull at masked and replaced tokens, share of tokens reached, effective share
"""

from collections.abc import Iterator
from functools import partial

from electralab.analysis.finding import Estimate, Finding, Flags, Missing, attempt
from electralab.analysis.gradients import (
    Flow,
    join_flows,
    measure_effective,
    measure_pull,
    measure_reached,
    trace_guesses,
    trace_verdicts,
)
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.trials import (
    Figures,
    hold_trials,
    mask_material,
    need_judge,
    tell_beside_untrained,
)

CLAIM = "M31"
_OF_GENERATOR = ", generator"
_MEANINGS = {
    "effective tokens": ("share", "(sum |g|)² / (T sum |g|²) of a row: over how much of it the gradient is spread"),
    "tokens reached": ("share", "tokens at which the gradient is a tenth of the row's mean or more"),
    "pull at masked tokens": ("× mean", "|dL/dx| at the tokens that were masked, over the row's mean"),
    "pull at unmasked tokens": ("× mean", "|dL/dx| at tokens that nobody touched, over the row's mean"),
    "pull at replaced tokens": ("× mean", "|dL/dx| at tokens that the generator replaced, over the row's mean"),
    "pull at restored tokens": ("× mean", "|dL/dx| at masked tokens that it guessed rightly, over the row's mean"),
}
_MEANINGS |= {name + _OF_GENERATOR: meaning for name, meaning in _MEANINGS.items()}


def measure_gradients(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    judges = specimen.kind in ("electra", "electra-15", "electric")
    if judges:
        yield from attempt("gradient flow", CLAIM, partial(_tell_verdicts, specimen, material, settings))
    name = f"gradient flow{_OF_GENERATOR}" if judges else "gradient flow"
    yield from attempt(name, CLAIM, partial(_tell_guesses, specimen, material, settings, is_second=judges))


def _tell_verdicts(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    # The rows of the untrained network are those that the trained generator corrupted.
    corrupted = [trial.corrupted for trial in hold_trials(specimen, material, settings, "gradient flow")]
    only_masked = specimen.kind == "electra-15"

    def measure(one: Specimen) -> Figures:
        judge = need_judge(one, "gradient flow")
        flow = join_flows([trace_verdicts(judge, batch, only_masked=only_masked) for batch in corrupted])
        return _summarise(flow, settings)

    yield from tell_beside_untrained(specimen, settings, CLAIM, _MEANINGS, measure)


def _tell_guesses(
    specimen: Specimen, material: Material, settings: AnalysisSettings, *, is_second: bool
) -> Iterator[Finding]:
    batches = mask_material(specimen, material, settings)

    def measure(one: Specimen) -> Figures:
        guesser = one.need_generator("gradient flow")
        found = _summarise(join_flows([trace_guesses(guesser, masked) for masked in batches]), settings)
        return {name + _OF_GENERATOR: estimate for name, estimate in found.items()} if is_second else found

    yield from tell_beside_untrained(specimen, settings, CLAIM, _MEANINGS, measure)


def _summarise(flow: Flow, settings: AnalysisSettings) -> Figures:
    """Of the kinds of tokens that there are."""
    rng, times = settings.make_rng("gradients"), settings.times
    kinds: dict[str, Flags] = {
        "pull at masked tokens": flow.is_masked,
        "pull at unmasked tokens": ~flow.is_masked,
        "pull at replaced tokens": flow.is_replaced,
        "pull at restored tokens": flow.is_masked & ~flow.is_replaced,
    }
    if not flow.is_replaced.any():  # nothing was put in the place of what is masked
        del kinds["pull at replaced tokens"], kinds["pull at restored tokens"]
    if not flow.is_masked.any():
        kinds = {}
    found: dict[str, Estimate] = {
        "effective tokens": measure_effective(flow, rng, times=times),
        "tokens reached": measure_reached(flow, rng, times=times),
    }
    return found | {
        name: measure_pull(flow, kind, rng, times=times) for name, kind in kinds.items() if int(kind.sum()) > 1
    }
