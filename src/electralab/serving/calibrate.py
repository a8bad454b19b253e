"""`electra calibrate` as a stage: texts in which damage is planted -> the folder `calibration` beside the networks.

MODEL, texts -> Calibration
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from electralab.corpus.damage import WordCounts
from electralab.corpus.documents import DocumentFilter, DocumentStream, DuplicateFilter, FilterConfig
from electralab.corpus.readers import ReadingConfig
from electralab.corpus.sources import find_sources
from electralab.detection.calibration import CalibrationConfig, calibrate, save_calibration
from electralab.detection.sequence_calibration import DAMAGE_KINDS, MOST_EVENTS, calibrate_sequences, save_sequences
from electralab.detection.sequences import SequenceCounts
from electralab.detection.words import ScoredText, WordFrequencies
from electralab.errors import UsageError
from electralab.events import Event, Note, Progress, Result
from electralab.randomness import mix
from electralab.records.calibration import Calibration, SequenceCalibration
from electralab.records.kinds import refuse_bundled
from electralab.records.logs import LOG, SESSIONS
from electralab.records.series import SeriesCalibration
from electralab.serving.inputs import tokenize
from electralab.serving.model import Model
from electralab.stopping import StopSignal
from electralab.tokens.shards import split_ranks

# A word has about six characters.
_CHARACTERS_PER_WORD = 8
_LEAST_DOCUMENTS = 20
_LEAST_SEQUENCES = 120


def calibrate_series(
    path: Path, inputs: Sequence[str], config: CalibrationConfig, stop: StopSignal
) -> Iterator[Event[SeriesCalibration]]:
    """What normal series show becomes part of the model folder."""
    if unused := sorted(config.model_fields_set - {"seed"}):
        raise UsageError(
            f"{unused[0]}: has no effect on time series; 'electra detect --false-alarm-rate' says how many normal "
            "points may be called odd"
        )
    model = Model(path)
    detector = model.series_detector
    yield Progress("scoring normal points", 0, 0)
    paths = [source.path for source in find_sources(inputs).files]
    calibration = detector.calibrate(paths, config.seed, stop)
    folder = model.network_folder.parent
    calibration.write(folder)
    yield Note(f"calibrated  {folder / calibration.FILE}")
    yield Result(calibration)


def calibrate_model(
    path: Path, inputs: Sequence[str], config: CalibrationConfig, stop: StopSignal
) -> Iterator[Event[Calibration | SequenceCalibration]]:
    """Damage is planted in documents that `prepare` holds out, if there are enough; words are counted in the others."""
    refuse_bundled(path)
    model = Model(path, raw=True)
    detector = model.make_detector()
    if detector.tokenizer.is_symbols:
        yield from _calibrate_symbols(model, inputs, config, stop)
        return
    filters = FilterConfig()
    kept, duplicates = DocumentFilter(filters, repair=False), DuplicateFilter(filters)
    documents: list[str] = []
    keys: list[int] = []
    for batch in DocumentStream(find_sources(inputs).files, ReadingConfig(), symbols=False, stop=stop):
        counted = kept.count(batch)
        for index in np.flatnonzero(duplicates.decide(counted) == 0).tolist():
            documents.append(str(kept.clean(batch[index])[0]))
            keys.append(int(counted["key"][index]))
        yield Progress("reading", len(documents), 0)
    # The lowest ranks are those that preparing with the same seed holds out of training.
    order = np.argsort(split_ranks(np.array(keys, dtype=np.uint64), config.seed), kind="stable").tolist()
    # From many documents rather than much from a few, and never from more than half: words are counted in the others.
    # Counted where errors are planted, every right word would have been seen and every misspelt one not.
    most = config.words * _CHARACTERS_PER_WORD
    texts: list[list[str]] = []
    for index in order[: len(order) // 2]:
        if most <= 0:
            break
        paragraphs: list[str] = []
        for paragraph in documents[index].split("\n"):
            if paragraph.strip() and sum(map(len, paragraphs)) < config.words * _CHARACTERS_PER_WORD / _LEAST_DOCUMENTS:
                paragraphs.append(paragraph)
        texts.append(paragraphs)
        most -= sum(map(len, paragraphs))
    counted_texts = [documents[index] for index in order[len(texts) :]]
    reader = model.make_reader(WordFrequencies.count(counted_texts))

    def score_tokens(given: Sequence[str]) -> list[ScoredText]:
        return detector.score_tokens([tokenize(detector.tokenizer, text, is_literal=True) for text in given], stop)

    for update in calibrate(score_tokens, reader, texts, WordCounts(counted_texts), config, stop):
        if isinstance(update, Calibration):
            where = save_calibration(model.network_folder.parent, update, reader.frequencies)
            yield Note(f"calibrated  {where}")
            yield Result(update)
        else:
            yield update


def _calibrate_symbols(
    model: Model, inputs: Sequence[str], config: CalibrationConfig, stop: StopSignal
) -> Iterator[Event[Calibration | SequenceCalibration]]:
    """Normal sequences, of which at most a third is planted with damage.

    They are drawn one by one, not by content as `prepare` holds out: new sequences, too, are mostly equal to old ones.
    """
    logs = [Path(name) / LOG / SESSIONS for name in inputs]
    names = [str(log) if log.is_file() else name for log, name in zip(logs, inputs, strict=True)]
    rows: list[list[str]] = []
    for batch in DocumentStream(find_sources(names, symbols=True).files, ReadingConfig(), symbols=True, stop=stop):
        rows += [list(row) for row in batch if isinstance(row, tuple)]
        yield Progress("reading", len(rows), 0)
    order = np.argsort(mix(config.seed, np.arange(len(rows))), kind="stable").tolist()
    chosen: list[int] = []
    most = config.words // (1 + len(DAMAGE_KINDS))
    for index in order[: len(order) // 3]:
        if most <= 0 and len(chosen) >= _LEAST_SEQUENCES:
            break
        chosen.append(index)
        most -= min(len(rows[index]), MOST_EVENTS)
    planted = [rows[index] for index in chosen]
    counted_rows = [rows[index] for index in order[len(chosen) :]]
    for update in calibrate_sequences(
        model.make_event_scorer(stop),
        counted_rows,
        planted,
        error_rate=config.error_rate,
        false_alarms=config.false_alarms,
        seed=config.seed,
        stop=stop,
    ):
        if isinstance(update, SequenceCalibration):
            # New sequences are compared with those that the threshold was found beside, or it would not hold.
            where = save_sequences(model.network_folder.parent, update, SequenceCounts.count(counted_rows))
            yield Note(f"calibrated  {where}")
            yield Result(update)
        else:
            yield update
