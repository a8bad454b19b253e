"""M40: what more parameters, data and compute buy, over a folder of runs taught as the model was.

Specimen, runs -> alpha and beta of the law, exponent of a power law, error on runs left out
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from electralab.analysis.finding import Finding, Missing, attempt
from electralab.analysis.material import Material
from electralab.analysis.run_points import RunPoint, list_column, read_points
from electralab.analysis.scaling import measure_log_law, measure_power_law
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen, find_kind
from electralab.errors import DamagedArtifact, InputError

CLAIM = "M40"
_SHUFFLED = "the runs' losses shuffled"
_MEAN = "the mean of the other runs"


def measure_scaling(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    del material
    if specimen.control_of is not None:
        return
    try:
        points = _choose(specimen, settings.runs)
    except (InputError, DamagedArtifact) as error:
        yield Missing("scaling law", CLAIM, str(error))
        return
    yield from attempt("scaling law", CLAIM, partial(_tell_log_law, points, settings))
    yield from attempt("power law", CLAIM, partial(_tell_power_law, points, settings))


def _choose(specimen: Specimen, folder: str) -> list[RunPoint]:
    if not folder:
        raise InputError("scaling law: needs runs of several sizes and amounts of data; give --runs DIR")
    points = [point for point in read_points(Path(folder)) if find_kind(point.objective) == specimen.kind]
    if not points:
        raise InputError(f"{folder}: holds no run of {specimen.kind}, as {specimen.name} is; train some")
    return points


def _tell_log_law(points: Sequence[RunPoint], settings: AnalysisSettings) -> Iterator[Finding]:
    sizes, tokens, losses = (list_column(points, name) for name in ("parameters", "tokens", "loss"))
    found = measure_log_law(sizes, tokens, -losses, settings.make_rng("log law"))
    note = f"{len(points)} runs; performance is minus the held-out loss, of verdicts against the run's own generator"
    meaning = "performance = alpha ln p + beta ln D - gamma: what e times the {} buys"
    yield found.alpha.tell("alpha", CLAIM, "nats", meaning.format("parameters"), _SHUFFLED, note)
    yield found.beta.tell("beta", CLAIM, "nats", meaning.format("tokens"), _SHUFFLED, note)
    meaning = "root mean square error of the law on each run, fitted without it"
    yield found.left_out.tell("error of the law on runs left out", CLAIM, "nats", meaning, _MEAN, note)


def _tell_power_law(points: Sequence[RunPoint], settings: AnalysisSettings) -> Iterator[Finding]:
    flops, losses = list_column(points, "flops"), list_column(points, "loss")
    found = measure_power_law(flops, losses, settings.make_rng("power law"))
    note = f"{len(points)} runs of {flops.min():.2g} to {flops.max():.2g} FLOPs"
    meaning = "b of loss = a C^-b + c over compute"
    yield found.b.tell("exponent of the power law", CLAIM, "", meaning, _SHUFFLED, note)
    meaning = "root mean square error of the power law on each run, fitted without it"
    yield found.left_out.tell("error of the power law on runs left out", CLAIM, "nats", meaning, _MEAN, note)
