"""`electralab.load`: one object for whatever a folder holds, read when it is first asked."""

from pathlib import Path

import pytest
from little_tuned import make_tuned, save_pretrained, save_tuned_folder

import electralab
from electralab.errors import InputError
from electralab.serving import loaded
from electralab.serving.predictor import PredictConfig, Predictor


def test_nothing_is_read_before_it_is_needed_and_then_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    class Counting(Predictor):
        @classmethod
        def load(cls, path: Path, config: PredictConfig, *, is_ensemble: bool = False) -> Predictor:
            reads.append(path)
            return Predictor.load(path, config, is_ensemble=is_ensemble)

    monkeypatch.setattr(loaded, "Predictor", Counting)
    model = electralab.load(tmp_path / "model")
    save_tuned_folder(tmp_path / "model", make_tuned())
    assert reads == []
    first, again = model.predict(["the cat"]), model.predict(["the cat"])
    assert first == again
    assert reads == [tmp_path / "model"]


def test_a_pre_trained_run_detects_and_does_not_predict(tmp_path: Path) -> None:
    model = electralab.load(str(save_pretrained(tmp_path / "run")))
    found = model.detect("the cat sat")
    assert "".join(token.text for token in found.tokens) == "thecatsat"
    with pytest.raises(InputError, match="not a tuned model"):
        model.predict(["the cat"])


def test_a_tuned_model_predicts_and_does_not_detect(tmp_path: Path) -> None:
    model = electralab.load(save_tuned_folder(tmp_path / "model", make_tuned("regress")))
    (row,) = model.predict(["the cat"])
    assert isinstance(row["prediction"], float)
    with pytest.raises(InputError, match="is a tuned model"):
        model.detect("the cat")


def test_a_place_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: holds no model"):
        electralab.load(tmp_path / "nowhere").predict(["the cat"])
