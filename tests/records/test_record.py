"""Records are written as they were given, read back equal, and refused with one sentence where they are not ours."""

import json
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError

from electralab.errors import DamagedArtifact
from electralab.records.record import FileRecord, Record


class Score(Record):
    accuracy: float | None
    interval: tuple[float, float] | None = None


class Scores(FileRecord):
    FILE: ClassVar[str] = "scores.json"
    dev: dict[str, Score]
    note: str = ""


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    scores = Scores(dev={"median": Score(accuracy=0.5)})
    scores.write(tmp_path)
    assert Scores.read(tmp_path) == scores


def test_only_what_was_given_is_written_and_the_version(tmp_path: Path) -> None:
    Scores(dev={"median": Score(accuracy=0.5)}).write(tmp_path)
    assert json.loads((tmp_path / "scores.json").read_text()) == {"dev": {"median": {"accuracy": 0.5}}, "version": 1}


def test_what_is_not_finite_is_null_on_disk() -> None:
    assert Score(accuracy=float("nan")).to_json() == {"accuracy": None}


def test_a_file_from_before_versions_reads_and_what_a_newer_one_adds_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text('{"dev": {}, "colour": "blue"}')
    assert Scores.read(tmp_path) == Scores(dev={})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", r"scores\.json: not as electralab writes it \(dev: Field required\); restore the file"),
        ('{"dev": {"a": {"accuracy": "x"}}}', r"\(dev\.a\.accuracy: Input should be a valid number.*, got 'x'\)"),
        ("[]", r"scores\.json: not as electralab writes it"),
    ],
)
def test_another_shape_is_refused_with_the_place_and_what_stands_there(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(DamagedArtifact, match=sentence):
        Scores.read(tmp_path)


def test_scripts_may_read_a_record_like_a_dictionary() -> None:
    scores = Scores(dev={"median": Score(accuracy=0.5)})
    assert scores["dev"]["median"]["accuracy"] == 0.5
    assert scores.get("dev") == scores.dev
    assert scores.get("note", "none given") == "none given"
    with pytest.raises(KeyError, match="colour"):
        scores["colour"]


def test_a_record_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Score(accuracy=0.5).accuracy = 1.0  # type: ignore[misc]
