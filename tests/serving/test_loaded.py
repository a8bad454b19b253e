"""`electralab.load`: one object for whatever a folder holds, read when it is first asked."""

from pathlib import Path

import pytest
from little_tuned import make_tuned, save_pretrained, save_tuned_folder
from torch import nn

import electralab
from electralab.errors import InputError
from electralab.model.folder import load_any
from electralab.serving import loaded


def test_nothing_is_read_before_it_is_needed_and_then_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def count(folder: Path) -> nn.Module:
        reads.append(folder.name)
        return load_any(folder)

    monkeypatch.setattr(loaded, "load_any", count)
    model = electralab.load(tmp_path / "run")
    save_pretrained(tmp_path / "run")
    assert reads == []
    assert model.detect("the cat") == model.detect("the cat")
    assert reads == ["discriminator"]
    assert model.fill("the [MASK]") == model.fill("the [MASK]")
    assert reads == ["discriminator", "generator"]
    other = electralab.load(tmp_path / "run")
    other.fill("the [MASK]")
    assert reads[2:] == ["generator"]


def test_a_model_says_what_it_can_do(tmp_path: Path) -> None:
    run = save_pretrained(tmp_path / "run")
    assert electralab.load(run).can == ("detect", "fill", "play", "embed")
    assert electralab.load(run / "export" / "discriminator").can == ("detect", "embed")
    assert electralab.load(run / "export" / "generator").can == ("fill", "embed")
    tuned = electralab.load(save_tuned_folder(tmp_path / "tuned", make_tuned()))
    assert tuned.can == ("embed", "predict")
    assert (tuned.sequence_length, electralab.load(run).sequence_length) == (12, 24)
    with pytest.raises(InputError, match=r"holds a generator, which cannot play; it can fill, embed$"):
        electralab.load(run / "export" / "generator").play("the cat")


def test_a_pre_trained_run_detects_and_does_not_predict(tmp_path: Path) -> None:
    model = electralab.load(str(save_pretrained(tmp_path / "run")))
    found = model.detect("the cat sat")
    assert "".join(token.text for token in found.tokens) == "thecatsat"
    with pytest.raises(
        InputError, match=r"holds a discriminator and a generator, which cannot predict; it can detect, .* finetune"
    ):
        model.predict(["the cat"])


def test_a_tuned_model_predicts_and_does_not_detect(tmp_path: Path) -> None:
    model = electralab.load(save_tuned_folder(tmp_path / "model", make_tuned("regress")))
    (row,) = model.predict(["the cat"])
    assert isinstance(row["prediction"], float)
    with pytest.raises(InputError, match="holds a tuned model, which cannot detect; it can embed, predict"):
        model.detect("the cat")


def test_a_place_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: holds no model"):
        electralab.load(tmp_path / "nowhere").predict(["the cat"])
