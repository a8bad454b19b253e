"""M43: how well a bounded linear classifier on frozen states can fit noise.

Specimen, rows -> empirical Rademacher complexity by layer
"""

from collections.abc import Iterator
from functools import partial

from electralab.analysis.complexity import LinearClass, measure_rademacher
from electralab.analysis.finding import Finding, Missing, attempt
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.vectors import embed_rows

CLAIM = "M43"
_CLASSES: dict[LinearClass, tuple[str, str]] = {
    "l2": ("Rademacher, l2 ball", "over the l2 ball"),
    "l1": ("Rademacher, l1 ball", "over the l1 ball"),
    "local": ("Rademacher, local", "over w whose answers vary by no more than the states do along an average axis"),
}


def measure_complexity(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    yield from attempt("Rademacher complexity", CLAIM, partial(_tell, specimen, material, settings))


def _tell(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    tokens = embed_rows(specimen, material, settings.vectors, is_spread=True)
    for layer, states in enumerate(tokens.layers):
        for linear, (name, over) in _CLASSES.items():
            material.conditions.check()
            found = measure_rademacher(states, settings.make_rng("rademacher", linear, str(layer)), linear=linear)
            meaning = f"E sup of 1/n sum of sigma_i w.x_i {over}, {len(states):,} tokens scaled to length 1"
            control = "rows of the same lengths in random directions"
            note = "the interval is that of the draws of signs, not of the data"
            yield found.tell(name, CLAIM, "complexity", meaning, control, note, layer)
