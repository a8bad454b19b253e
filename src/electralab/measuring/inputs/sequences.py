"""Sequences of symbols: rows with labels (0 or normal, anything else is wrong), or normal rows to plant damage in.

files -> rows with features -> MeasuredItems
"""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np

from electralab.corpus.readers import ReadingConfig, read_documents, split_lines
from electralab.corpus.sources import find_sources, open_source, read_utf8
from electralab.detection.calibration import combine
from electralab.detection.sequence_calibration import (
    DAMAGE_KINDS,
    NETWORK_SCORES,
    ROW_FEATURES,
    SequenceScorer,
    describe_rows,
    plant_rows,
)
from electralab.detection.sequences import BASELINES, SequenceCounts
from electralab.detection.words import Floats
from electralab.errors import InputError, UsageError
from electralab.events import Note, Progress, Update
from electralab.measuring.items import LEAST_WRONG, DetectorValues, MeasuredInput, MeasuredItems, MeasuringConfig
from electralab.serving.model import Model
from electralab.stopping import StopSignal

SEQUENCE, LABEL = "Sequence", "label"
# The last as in the logs of Blue Gene.
_NORMAL = ("0", "normal", "0.0", "false", "-")
_AT_ONCE = 256
_DAMAGE_SEED = "measure"

Row = tuple[list[str], bool | None]
"""The events, and whether they are wrong, where a label says so."""


class MeasuredSequences(MeasuredInput):
    name = "sequences"
    beta = 1.0

    def matches(self, model: Model, path: Path) -> bool:  # noqa: ARG002  a model of symbols reads nothing else
        return model.detector.tokenizer.is_symbols

    def score(
        self, model: Model, files: Sequence[Path], reference: Sequence[Path], config: MeasuringConfig, stop: StopSignal
    ) -> Iterator[Update | MeasuredItems]:
        if config.error_rate is not None:
            raise UsageError(
                "--error-rate: has no effect on sequences, whose suspicion is measured before it becomes p_wrong; "
                "leave it out"
            )
        scorer = model.detector.sequences
        normal = [events for path in reference for events, is_wrong in read_rows(path) if not is_wrong]
        if scorer is None and not normal:
            raise InputError(
                f"{model.path}: knows no normal sequences to count in; calibrate it, or name normal rows by --reference"
            )
        counts = SequenceCounts.count(normal) if normal or scorer is None else scorer.counts
        for path in files:
            rows = list(read_rows(path))
            labelled = [(events, is_wrong) for events, is_wrong in rows if is_wrong is not None]
            if labelled:
                yield from _compare(model, scorer, counts, labelled, str(path), "labels", stop)
                continue
            rng = Random(f"{config.seed} {_DAMAGE_SEED}")
            given = [events for events, _ in rows if len(events) > 1]
            if not given:
                raise InputError(f"{path}: has no row of two events and more to plant damage in; give longer rows")
            is_measured = False
            for kind in DAMAGE_KINDS:
                drawn = plant_rows(given, kind, counts.names, normal, rng)
                damaged = [(list(row.events), True) for row in drawn if row is not None]
                if len(damaged) < LEAST_WRONG:
                    yield Note(f"{kind}: left out, as only {len(damaged):,} rows do not equal a normal one", "dim")
                    continue
                is_measured = True
                planted = [(events, False) for events in given] + damaged
                yield from _compare(model, scorer, counts, planted, kind, "planted", stop)
            if not is_measured:
                raise InputError(
                    f"{path}: {len(given):,} rows have no room for {LEAST_WRONG} damaged ones that differ from all "
                    "normal ones; give more"
                )


INPUT = MeasuredSequences()


def read_rows(path: Path) -> Iterator[Row]:
    """A table with the columns Sequence and label, or JSON lines: lists, or objects with symbols and maybe a label."""
    (source,) = find_sources([str(path)], symbols=True).files
    if source.format == "csv":
        with open_source(source) as stream:
            lines = (line.decode("utf-8", "replace") for line in split_lines(source, read_utf8(stream, "utf-8")))
            table = csv.DictReader(line for line in lines if line.strip())
            if not {SEQUENCE, LABEL} <= set(table.fieldnames or ()):
                raise InputError(f"{path}: has no columns {SEQUENCE} and {LABEL}; name them so")
            for row in table:
                if row[LABEL] is None or not row[LABEL].strip():
                    raise InputError(
                        f"{path}: row {table.line_num} has no {LABEL}; give each row one, or leave out the column "
                        "(as JSON lines) to have damage planted"
                    )
                yield (row[SEQUENCE] or "").split(), _is_wrong(row[LABEL])
        return
    # Read as documents first, which says where a line is no JSON.
    documents = list(read_documents(source, ReadingConfig(), symbols=True))
    with open_source(source) as stream:
        values = [json.loads(line) for line in split_lines(source, read_utf8(stream, "utf-8")) if line.strip()]
    for value, events in zip(values, documents, strict=True):
        label = value.get(LABEL) if isinstance(value, dict) else None
        is_known = label is not None and bool(str(label).strip())
        yield list(events) if isinstance(events, tuple) else [], _is_wrong(str(label)) if is_known else None


def _is_wrong(label: str) -> bool:
    return label.strip().lower() not in _NORMAL


def _compare(
    model: Model,
    scorer: SequenceScorer | None,
    counts: SequenceCounts,
    rows: Sequence[tuple[list[str], bool]],
    source: str,
    truth: str,
    stop: StopSignal,
) -> Iterator[Update | MeasuredItems]:
    score_events = model.make_event_scorer(stop)
    features, baselines = [], {name: list[Floats]() for name in BASELINES}
    own_counts = scorer.counts if scorer else counts
    for start in range(0, len(rows), _AT_ONCE):
        yield Progress("reading sequences", start, len(rows), source)
        part = [events for events, _ in rows[start : start + _AT_ONCE]]
        features.append(describe_rows(own_counts, score_events, part).features)
        encoded = counts.encode(part)
        for name, detector in BASELINES.items():
            baselines[name].append(detector(counts, encoded))
    described = np.concatenate(features)
    detectors = []
    if scorer:
        suspicion = combine(scorer.calibration.rows, described, ROW_FEATURES)
        threshold = scorer.calibration.threshold
        what = "the calibrated combination, before its curve; above the threshold of the stated rate of false alarms"
        detectors.append(DetectorValues("suspicion", what, suspicion, is_model=True, threshold=threshold))
    for name in NETWORK_SCORES[:2]:
        what = {"replaced": "the discriminator's logits", "surprise": "the generator's surprise at hidden events"}[name]
        values = described[:, ROW_FEATURES.index(f"{name}_mean")]
        detectors.append(DetectorValues(name, f"{what}, their mean", values, is_model=True))
    for name, scores in baselines.items():
        what = " ".join((BASELINES[name].__doc__ or "").split())
        detectors.append(DetectorValues(name, what, np.concatenate(scores)))
    yield MeasuredItems(
        source,
        "labels" if truth == "labels" else "planted",
        "row",
        np.array([is_wrong for _, is_wrong in rows], dtype=np.bool_),
        np.arange(len(rows)),
        detectors,
    )
