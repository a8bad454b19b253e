"""Damage planted in sequences, and the combination that is fitted on it."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from electralab.artifacts import new_folder
from electralab.detection.calibration import LabelledWords, combine
from electralab.detection.sequence_calibration import (
    DAMAGE_KINDS,
    SequenceScorer,
    calibrate_sequences,
    fit_combination,
    load_sequences,
    plant_row,
    plant_rows,
    save_sequences,
)
from electralab.detection.sequences import SequenceCounts, unseen_counts
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


def test_a_planted_row_never_equals_a_normal_one() -> None:
    """Moved events often land in an equal place, and a part left out of one row leaves another."""
    rows = make_rows(100)
    normal = {tuple(row) for row in rows}
    for kind in ("missing", "repeated", "moved"):
        planted = plant_rows(rows, kind, ["open", "read", "write", "close"], rows, Random(0))
        assert not {row.events for row in planted if row} & normal
        assert sum(row is not None for row in planted) > 90
    only = plant_rows([["a", "a"]] * 3, "repeated", ["a"], [["a", "a", "a"]], Random(0))
    assert only == [None] * 3


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


def test_a_calibration_of_an_earlier_version_knows_what_its_profiles_say(tmp_path: Path) -> None:
    counts = SequenceCounts.count(make_rows(50))
    folder = save_sequences(tmp_path, calibrate_little(), counts)
    tensors = load_file(folder / "sequences.safetensors")
    with new_folder(tmp_path / "old", kind="calibration") as old:
        save_file(
            {name: tensors[name] for name in tensors if not name.startswith("known")}, old / "sequences.safetensors"
        )
        calibrate_little().write(old)
    _, stored = load_sequences(tmp_path / "old")
    rows = stored.encode([*make_rows(50), ["close", "new"]])
    assert unseen_counts(stored, rows).tolist() == [*[0.0] * 50, 1.0]


def test_how_many_normal_sequences_speak_for_the_threshold_is_part_of_what_is_said_of_it() -> None:
    """Above the most suspicious of 100 are at most 2.95 % of new ones, with 95 % certainty: .0295 = 1 - .05 ** .01."""
    few, many = (
        list(
            calibrate_sequences(
                silent_networks,
                make_rows(50),
                make_rows(rows, 1),
                error_rate=0.05,
                false_alarms=0.01,
                seed=0,
                stop=NO_STOP,
            )
        )[-1]
        for rows in (200, 2000)
    )
    assert isinstance(few, SequenceCalibration)
    assert isinstance(many, SequenceCalibration)
    assert few.normal_rows == 100
    assert few.false_alarms_high == pytest.approx(1 - 0.05**0.01)
    assert many.false_alarms_high == pytest.approx(0.0157, abs=2e-4), "10 in 1,001 and 1.8 standard errors"


def test_a_stated_error_rate_moves_probabilities_and_leaves_suspicion_and_threshold() -> None:
    calibration, counts = calibrate_little(), SequenceCounts.count(make_rows(200))
    rows = [["open", "write", "read", "close"], *make_rows(5)]
    few, many = (SequenceScorer(calibration, counts, silent_networks, rate).score(rows) for rate in (0.001, 0.3))
    for low, high in zip(few, many, strict=True):
        assert low.p_row < high.p_row
        assert (low.p_events < high.p_events).all()
        assert low.suspicion == high.suspicion


def test_too_few_sequences_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        list(
            calibrate_sequences(
                silent_networks, make_rows(9), make_rows(9), error_rate=0.05, false_alarms=0.01, seed=0, stop=NO_STOP
            )
        )
