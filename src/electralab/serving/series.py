"""A model of time series at work on a file.

SeriesSymbols, networks, CSV -> SeriesDetection
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.series import TimeSeries, read_header, read_series
from electralab.corpus.sources import find_sources
from electralab.detection.series import (
    NETWORKS,
    STATISTICS,
    Evidence,
    SeriesScorer,
    combine_rarity,
    describe_detection,
    measure_auc,
    plant_stretches,
    thin_reference,
)
from electralab.errors import InputError
from electralab.model.electra import Discriminator, TokenModel
from electralab.records.series import PlantedScores, SeriesCalibration, SeriesDetection, SeriesSymbols
from electralab.serving.inputs import WindowConfig
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.series import SeriesConfig, learn_symbols
from electralab.tokens.tokenizer import Tokenizer

_NOT_CALIBRATED = (
    "how odd a point is was judged by the points before it in this file alone, so that the first few hundred can "
    "hardly be odd; 'electra calibrate MODEL NORMAL.csv' says what normal points show"
)
_FEWEST_TO_CALIBRATE = 1000

EVIDENCE: dict[str, tuple[Evidence, ...]] = {
    "all": (*STATISTICS, *NETWORKS),
    "statistics": STATISTICS,
    "networks": NETWORKS,
}


class SeriesDetectConfig(Settings):
    """Of files of time series."""

    false_alarm_rate: float = Field(0.001, gt=0, lt=0.5)
    """The share of normal points that may be called odd."""
    evidence: Literal["auto", "all", "statistics", "networks"] = "auto"
    """What is combined; auto: what told planted stretches best when the model was calibrated, else all."""
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
        self,
        symbols: SeriesSymbols,
        tokenizer: Tokenizer,
        discriminator: Discriminator,
        generator: TokenModel | None,
        calibration: SeriesCalibration | None = None,
    ) -> None:
        self.symbols, self.networks, self.calibration = symbols, (tokenizer, discriminator, generator), calibration

    def detect(
        self, path: str | Path, config: SeriesDetectConfig | None = None, stop: StopSignal = NO_STOP
    ) -> SeriesDetection:
        config = config or SeriesDetectConfig()
        table, symbols, first = self.read(path, config)
        stored = self.calibration
        used = config.evidence if config.evidence != "auto" else stored.evidence if stored else "all"
        references = {} if stored is None else {**stored.references, "oddness": stored.references[f"oddness {used}"]}
        scorer = SeriesScorer(symbols, *self.networks, references, EVIDENCE[used])
        detection = describe_detection(
            scorer.score(table, stop),
            scorer,
            false_alarm_rate=config.false_alarm_rate,
            join=config.join,
            first=first,
        )
        return detection if stored else detection.model_copy(update={"warning": _NOT_CALIBRATED})

    def read(self, path: str | Path, config: SeriesDetectConfig) -> tuple[TimeSeries, SeriesSymbols, int]:
        """The file, how its values become symbols, and how many points at its beginning that was learned from."""
        symbols = self.symbols
        (source,) = find_sources([str(path)]).files
        names = [column.name for column in symbols.columns]
        header = read_header(source)
        is_chosen = set(names) <= set(header)
        # The columns that it was prepared with, where the file has them; other names are those of another machine.
        table = read_series(source, symbols.time if symbols.time in header else "", names if is_chosen else ())
        if symbols.scale == "columns":
            if lacking := [name for name in names if name not in table.columns]:
                raise InputError(
                    f"{path}: has no column {lacking[0]!r}, which the model reads (it has {', '.join(table.columns)}); "
                    "give a file with the columns that it was prepared with"
                )
            return table.choose(names), symbols, 0
        if len(table.columns) != len(names):
            raise InputError(
                f"{path}: has {len(table.columns)} columns of values, where the model reads {len(names)}; give a file "
                "with as many as it was prepared with"
            )
        first = min(int(config.fit_share * len(table.times)), config.fit_most)
        own = SeriesConfig(
            scale="files", kind=symbols.kind, bins=symbols.bins, changes=symbols.changes, season=symbols.season
        )
        return table, learn_symbols([table.take(0, first)], own, symbols.points), first

    def calibrate(self, paths: Sequence[str | Path], seed: int, stop: StopSignal) -> SeriesCalibration:
        """What normal series show, and which evidence tells stretches that are planted in them best."""
        gathered: dict[str, list[float]] = {}
        maxima: dict[tuple[str, str], list[float]] = {}  # by kind, "" for untouched, and evidence
        points = 0
        for number, path in enumerate(paths):
            table, symbols, first = self.read(path, SeriesDetectConfig())
            planted, stretches = plant_stretches(table, first, Random(f"{seed} {number}"))
            scorer = SeriesScorer(symbols, *self.networks)
            normal, damaged = scorer.score(table, stop), scorer.score(planted, stop)
            points += len(table.times) - first
            for name, values in normal.evidence.items():
                for column in range(values.shape[1]):
                    known = values[first:, column]
                    gathered.setdefault(f"{name} {column}", []).extend(known[~np.isnan(known)].tolist())
            for used, names in EVIDENCE.items():
                own, other = (combine_rarity(scores, names) for scores in (normal, damaged))
                # The beginning was judged by too few points.
                settled = own[first + (len(own) - first) // 4 :]
                # A point that lacks every column has no oddness.
                gathered.setdefault(f"oddness {used}", []).extend(settled[np.isfinite(settled)].tolist())
                for kind, start, after in stretches:
                    oddest = [float(np.nanmax(oddness[start:after])) for oddness in (other, own)]
                    if np.isfinite(oddest).all():
                        maxima.setdefault((kind, used), []).append(oddest[0])
                        maxima.setdefault(("", used), []).append(oddest[1])
        kinds = sorted({kind for kind, _ in maxima} - {""})
        if not kinds:
            raise InputError(
                f"{points:,} points are too few to plant anything in; give at least {_FEWEST_TO_CALIBRATE:,} normal "
                "points"
            )
        scores = {
            kind: PlantedScores(
                stretches=len(maxima[kind, "all"]),
                auc={used: measure_auc(maxima[kind, used], maxima["", used]) for used in EVIDENCE},
            )
            for kind in kinds
        }
        # The statistics come first: of equals they are the faster. Below .5 a kind is not found, and worse than that is
        # no worse.
        best = max(
            ("statistics", "all", "networks"),
            key=lambda used: round(sum(max(part.auc[used], 0.5) for part in scores.values()) / len(scores), 2),
        )
        return SeriesCalibration(
            points=points,
            references={name: thin_reference(values) for name, values in gathered.items()},
            planted=scores,
            evidence=best,
        )
