"""A model of time series at work on a file.

SeriesSymbols, networks, CSV -> SeriesDetection
"""

from pathlib import Path

from pydantic import Field

from electralab.config import Settings
from electralab.corpus.series import read_series
from electralab.corpus.sources import find_sources
from electralab.detection.series import SeriesScorer, describe_detection
from electralab.errors import InputError
from electralab.model.electra import Discriminator, TokenModel
from electralab.records.series import SeriesDetection, SeriesSymbols
from electralab.serving.inputs import WindowConfig
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.series import SeriesConfig, learn_symbols
from electralab.tokens.tokenizer import Tokenizer

_NOT_CALIBRATED = (
    "how odd a point is was judged by the points before it in this file alone, so that the first few hundred can "
    "hardly be odd"
)


class SeriesDetectConfig(Settings):
    """Of files of time series."""

    false_alarm_rate: float = Field(0.001, gt=0, lt=0.5)
    """The share of normal points that may be called odd."""
    join: int = Field(100, ge=0)
    """Odd points with no more than so many others between them are one window."""
    fit_share: float = Field(0.15, gt=0, lt=1)
    """Where each file has bins of its own: the share of it, from the beginning, that is learned from."""
    fit_most: int = Field(750, ge=20)
    """Where each file has bins of its own: the most points that are learned from."""


class DetectConfig(WindowConfig):
    """How texts are cut into windows, and how files of time series are read."""

    series: SeriesDetectConfig = SeriesDetectConfig()


class SeriesDetector:
    """Reads files with a model's symbols, or, where each file has its own, learns them from how the file begins."""

    def __init__(
        self, symbols: SeriesSymbols, tokenizer: Tokenizer, discriminator: Discriminator, generator: TokenModel | None
    ) -> None:
        self.symbols, self.networks = symbols, (tokenizer, discriminator, generator)

    def detect(
        self, path: str | Path, config: SeriesDetectConfig | None = None, stop: StopSignal = NO_STOP
    ) -> SeriesDetection:
        config, symbols, first = config or SeriesDetectConfig(), self.symbols, 0
        (source,) = find_sources([str(path)]).files
        table = read_series(source)
        names = [column.name for column in symbols.columns]
        if symbols.scale == "columns":
            if lacking := [name for name in names if name not in table.columns]:
                raise InputError(
                    f"{path}: has no column {lacking[0]!r}, which the model reads (it has {', '.join(table.columns)}); "
                    "give a file with the columns that it was prepared with"
                )
            table = table.choose(names)
        else:
            if len(table.columns) != len(names):
                raise InputError(
                    f"{path}: has {len(table.columns)} columns of values, where the model reads {len(names)}; give a "
                    "file with as many as it was prepared with"
                )
            first = min(int(config.fit_share * len(table.times)), config.fit_most)
            own = SeriesConfig(
                scale="files", kind=symbols.kind, bins=symbols.bins, changes=symbols.changes, season=symbols.season
            )
            symbols = learn_symbols([table.take(0, first)], own, symbols.points)
        scorer = SeriesScorer(symbols, *self.networks)
        detection = describe_detection(
            scorer.score(table, stop),
            scorer,
            false_alarm_rate=config.false_alarm_rate,
            join=config.join,
            first=first,
        )
        return detection.model_copy(update={"warning": _NOT_CALIBRATED})
