"""`electra measure` as a stage.

MODEL, files -> MeasuringResult
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from electralab.errors import InputError, UsageError, suggest
from electralab.events import Event, Result
from electralab.measuring.inputs import INPUTS, text
from electralab.measuring.items import MeasuredInput, MeasuredItems, MeasuringConfig, compare
from electralab.records.measurement import MeasuringResult
from electralab.serving.model import Model
from electralab.stopping import NO_STOP, StopSignal


def measure_files(
    path: Path,
    files: Sequence[Path],
    reference: Sequence[Path],
    kind: str,
    config: MeasuringConfig,
    stop: StopSignal,
) -> Iterator[Event[MeasuringResult]]:
    """`kind` names one of INPUTS; empty: the one that the model reads the first file as."""
    model = Model(path, config.windows)
    chosen = choose_input(model, files, kind)
    measurements = []
    for update in chosen.score(model, files, reference, config, stop):
        if isinstance(update, MeasuredItems):
            measurements.append(compare(update, chosen.beta, config))
        else:
            yield update
    yield Result(MeasuringResult(model=str(path), kind=chosen.name, measurements=tuple(measurements)))


def measure_texts(model: Model, texts: Sequence[str], config: MeasuringConfig) -> MeasuringResult:
    """On errors planted in these texts."""
    measurements = [
        compare(update, text.INPUT.beta, config)
        for update in text.score_planted(text.WordDetectors(model, (), config), texts, NO_STOP)
        if isinstance(update, MeasuredItems)
    ]
    return MeasuringResult(model=str(model.path), kind=text.INPUT.name, measurements=tuple(measurements))


def choose_input(model: Model, files: Sequence[Path], kind: str) -> MeasuredInput:
    if kind and kind not in INPUTS:
        hint = suggest(kind, INPUTS, f"known are {', '.join(INPUTS)}")
        raise UsageError(f"--kind: no kind of input named {kind!r}; {hint}")
    matching = [item for item in INPUTS.values() if (item.name == kind if kind else item.matches(model, files[0]))]
    if len(matching) != 1:
        names = ", ".join(item.name for item in matching)
        what = f"may be {names}" if matching else f"is nothing that {model.path} reads"
        raise InputError(f"{files[0]}: {what}; say with --kind which of {', '.join(INPUTS)} it is")
    return matching[0]
