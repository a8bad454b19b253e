"""What smaller variants of a model gain and cost, read from the table that compressing it wrote.

tradeoff.json -> speed-up, loss and efficiency of each variant
"""

from pathlib import Path

from electralab.analysis.finding import Finding, exact, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.errors import DamagedArtifact, InputError
from electralab.records.compression import NoiseFloor, Tradeoff
from electralab.statistics import Interval

_NORMAL_95 = 1.96


def losses_of_variants(table: Tradeoff) -> dict[str, Interval]:
    """In points, of all variants but the baseline; intervals by the floor of the table, the spread of a score."""
    # The spread of two scores on the same examples; that they depend on each other would make it narrower.
    spread = _NORMAL_95 * 2**0.5 * noise_floor(table.floor)
    losses = {variant.name: variant.loss for variant in table.variants if variant.name != table.baseline}
    return {name: Interval(loss, loss - spread, loss + spread) for name, loss in losses.items()}


def noise_floor(floor: NoiseFloor) -> float:
    """In points. Without any spread, as of a single example, a loss of 0 could not be divided by.

    >>> noise_floor(NoiseFloor(points=0.5, origin="over rows drawn again"))
    0.5
    """
    return max(floor.points, 1e-9)


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """What do smaller variants of the model gain and cost?"""
    if model.control_of is not None:
        return
    with skip_on_error("speedup", "compression trade-off") as skipped:
        folder = data.settings.tradeoff
        advice = f"run 'electra compress {model.folder}' and give its folder as --tradeoff"
        if not folder:
            raise InputError(f"{model.name}: has not been compressed; {advice}")
        path = Path(folder) / Tradeoff.FILE
        if not path.is_file():
            raise InputError(f"{folder}: holds no {Tradeoff.FILE}; {advice}")
        try:
            table = Tradeoff.read(Path(folder))
        except DamagedArtifact:
            raise InputError(f"{path}: not a trade-off; run 'electra compress' again") from None
        compressed = Path(table.model)
        if compressed.resolve() != model.folder.resolve() and compressed.name != model.folder.name:
            raise InputError(f"{path}: is about {compressed}, not about {model.name}; {advice}")
        variants, control = {variant.name: variant for variant in table.variants}, "the model as it is"
        whole, floor, same = variants[table.baseline].bytes, noise_floor(table.floor), exact(1.0)
        note, once = f"interval of the loss by the floor of the table: {table.floor.origin}", "timed once: no interval"
        for name, loss in losses_of_variants(table).items():
            size, speedup = variants[name].bytes / whole, variants[name].speedup
            meaning = "bytes over those of the baseline"
            yield Finding(f"size.{name}", f"{name}, size", "share", meaning, exact(size), same, control)
            meaning = f"latency of {table.baseline} over its own, a batch of {table.speedup_batch}"
            yield Finding(f"speedup.{name}", f"{name}, speed-up", "×", meaning, exact(speedup), same, control, once)
            meaning = f"points of {table.metric} below {table.baseline}"
            yield Finding(f"loss.{name}", f"{name}, loss", "points", meaning, loss, exact(0.0), control, note)
            meaning = "speed-up / loss, where a loss below the floor counts as the floor"
            # The larger the loss, the lower the efficiency: the ends change places.
            low, value, high = (speedup / max(points, floor) for points in (loss.high, loss.value, loss.low))
            id, title, gain = f"efficiency.{name}", f"{name}, efficiency", Interval(value, low, high)
            yield Finding(id, title, "×/point", meaning, gain, exact(1 / floor), control, note)
    yield from skipped


MEASURE = Measure("M42", "compression trade-off", measure, reads=("tradeoff",))
