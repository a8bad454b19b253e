"""Damage planted in sequences, and the combination that is fitted on it."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from electralab.detection.calibration import LabelledWords, combine
from electralab.detection.sequence_calibration import (
    DAMAGE_KINDS,
    SequenceScorer,
    calibrate_sequences,
    fit_combination,
    load_sequences,
    plant_row,
    save_sequences,
)
from electralab.detection.sequences import SequenceCounts
from electralab.detection.words import GUESSED, Floats
from electralab.errors import DamagedArtifact, InputError
from electralab.records.calibration import SequenceCalibration
from electralab.stopping import NO_STOP


def silent_networks(rows: Sequence[Sequence[str]]) -> list[Floats]:
    """Networks that say nothing, so that only counting speaks."""
    return [np.zeros((len(row), 1 + len(GUESSED))) for row in rows]


def make_rows(count: int, seed: int = 0) -> list[list[str]]:
    rng = Random(seed)
    return [["open", *["read", "write"] * rng.randint(1, 4), "close"] for _ in range(count)]


def calibrate_little() -> SequenceCalibration:
    updates = list(
        calibrate_sequences(
            silent_networks, make_rows(200), make_rows(200, 1), error_rate=0.05, false_alarms=0.02, seed=0, stop=NO_STOP
        )
    )
    assert isinstance(updates[-1], SequenceCalibration)
    return updates[-1]


@pytest.mark.parametrize("kind", DAMAGE_KINDS)
def test_damage_is_repeatable_and_marks_what_it_did(kind: str) -> None:
    row, names = ["open", *["read", "write"] * 5, "close"], ["open", "read", "write", "close"]
    first, second = (plant_row(row, kind, names, [row], Random(3)) for _ in range(2))
    assert first == second
    assert len(first.events) == len(first.is_damaged)
    assert any(first.is_damaged) is (kind != "mixed")
    lengths = {"foreign": 12, "moved": 12, "mixed": 12}
    assert kind not in lengths or len(first.events) == lengths[kind]
    assert (len(first.events) < 12) is (kind == "missing")
    assert (len(first.events) > 12) is (kind == "repeated")


def test_no_feature_speaks_against_damage() -> None:
    features = np.array([[0.0, 5.0], [0.2, 4.0], [1.0, 1.0], [0.9, 0.0]])
    labelled = LabelledWords(features, np.array([False, False, True, True]))
    fitted = fit_combination(labelled, ("worse", "better"), 0.05, 0, total=4)
    assert [feature.name for feature in fitted.features] == ["worse"]
    scores = combine(fitted, features, ("worse", "better"))
    assert scores[2:].min() > scores[:2].max()


def test_planted_damage_is_told_from_normal_sequences_and_the_threshold_holds() -> None:
    calibration = calibrate_little()
    assert calibration.rows.scores["foreign"].auc > 0.95
    assert calibration.rows.scores["missing"].auc > 0.8
    assert calibration.events.scores["foreign"].auc > 0.95
    assert calibration.rows.calibration_error < 0.1
    scorer = SequenceScorer(calibration, SequenceCounts.count(make_rows(200)), silent_networks)
    normal = scorer.score(make_rows(100, 2))
    assert np.mean([score.suspicion > calibration.threshold for score in normal]) <= 0.05


def test_reasons_name_what_was_never_seen_and_what_there_is_too_much_of() -> None:
    scorer = SequenceScorer(calibrate_little(), SequenceCounts.count(make_rows(200)), silent_networks)
    strange, many = scorer.score([["open", "burn", "close"], ["open", *["read", "write"] * 4, *["close"] * 9]])
    assert strange.reasons[1] == ("event never seen",)
    assert strange.row_reasons[0] == "1 event never seen"
    assert many.row_reasons[0].startswith("unusual number of close (9,")
    assert strange.p_events[1] > 0.5
    assert min(strange.suspicion, many.suspicion) > scorer.calibration.threshold


def test_what_is_stored_scores_alike_and_damage_to_it_is_noticed(tmp_path: Path) -> None:
    counts = SequenceCounts.count(make_rows(50))
    calibration = calibrate_little()
    folder = save_sequences(tmp_path, calibration, counts)
    stored, stored_counts = load_sequences(folder)
    assert stored == calibration
    rows = [*make_rows(5, 3), ["close", "new"]]
    first, second = (
        [score.suspicion for score in SequenceScorer(stored, own, silent_networks).score(rows)]
        for own in (counts, stored_counts)
    )
    assert first == second
    (folder / "sequences.json").write_text("{}")
    with pytest.raises(DamagedArtifact, match=r"sequences\.json"):
        load_sequences(folder)


def test_too_few_sequences_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        list(
            calibrate_sequences(
                silent_networks, make_rows(9), make_rows(9), error_rate=0.05, false_alarms=0.01, seed=0, stop=NO_STOP
            )
        )
