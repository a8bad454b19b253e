"""A specimen at work on the material's rows, hidden at the same places with the same luck for every model.

Specimen, Material -> MaskedBatch..., Trial...
"""

from collections.abc import Callable, Iterator, Mapping

import torch

from electralab.analysis.finding import Estimate, Finding
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen, draw_untrained
from electralab.errors import InputError
from electralab.evaluation.heldout_rows import HeldoutConfig, HeldoutRows, mask_rows
from electralab.model.electra import Discriminator, Electra
from electralab.objective.corruption import SamplingConfig, sampling_prohibition
from electralab.objective.electra import Trial, hold_trial
from electralab.objective.masking import MaskedBatch

Figures = Mapping[str, Estimate]
Meanings = Mapping[str, tuple[str, str]]
"""Name of a figure -> its unit, and what it means."""

UNTRAINED = "the same network before training, on the same rows"


def mask_material(
    specimen: Specimen, material: Material, settings: AnalysisSettings, rows: HeldoutRows | None = None
) -> list[MaskedBatch]:
    config = HeldoutConfig(mask_share=settings.mask_share)
    given = material.read_rows(specimen) if rows is None else rows
    return mask_rows(given, specimen.tokenizer, config, material.conditions)


def hold_trials(
    specimen: Specimen, material: Material, settings: AnalysisSettings, purpose: str, rows: HeldoutRows | None = None
) -> Iterator[Trial]:
    """Each batch before the specimen's own generator and discriminator."""
    judge, guesser = need_judge(specimen, purpose), specimen.need_generator(purpose)
    pair = Electra(guesser, judge, "none").eval()
    prohibition = sampling_prohibition(specimen.tokenizer, specimen.device, guesser.config.vocab_size)
    for masked in mask_material(specimen, material, settings, rows):
        material.conditions.check()
        with torch.no_grad():
            yield hold_trial(pair, masked, prohibition, SamplingConfig())


def need_judge(specimen: Specimen, purpose: str) -> Discriminator:
    """A discriminator whose verdicts are about tokens being replaced."""
    if specimen.kind == "electric":
        raise InputError(
            f"{specimen.name}: says energies, not how likely a token was replaced, which {purpose} needs; "
            "give a run of electra"
        )
    return specimen.need_discriminator(purpose)


def tell_beside_untrained(
    specimen: Specimen,
    settings: AnalysisSettings,
    claim: str,
    meanings: Meanings,
    measure: Callable[[Specimen], Figures],
    note: str = "",
) -> Iterator[Finding]:
    """Each figure with that of the untrained network as its control; an untrained one has none."""
    found = measure(specimen)
    is_alone = specimen.control_of is not None or not settings.untrained
    control = {} if is_alone else measure(draw_untrained(specimen, settings.seed))
    for name, estimate in found.items():
        unit, meaning = meanings[name]
        beside = control.get(name)
        yield Finding(name, claim, unit, meaning, estimate, beside, UNTRAINED if beside else "", note)
