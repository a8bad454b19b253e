"""`electralab.load`: one object for whatever a folder holds, read when it is first asked."""

from pathlib import Path

import numpy as np
import pytest
from little_tuned import TEXT, make_tuned, save_pretrained, save_tuned_folder
from torch import nn
from transformers import AutoModel, AutoTokenizer

import electralab
from electralab.errors import InputError
from electralab.model.folders.folder import load_any
from electralab.serving import model as model_module
from electralab.serving.inputs import WindowConfig
from electralab.serving.model import Model, join_pieces, read_examples
from electralab.serving.predictor import PredictConfig


def test_nothing_is_read_before_it_is_needed_and_then_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def count(folder: Path, *, takes_bare_encoder: bool) -> nn.Module:
        reads.append(folder.name)
        return load_any(folder, takes_bare_encoder=takes_bare_encoder)

    monkeypatch.setattr(model_module, "load_any", count)
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
    assert [model.describe("").sequence_length for model in (tuned, electralab.load(run))] == [12, 24]
    with pytest.raises(InputError, match=r"holds a generator, which cannot play; it can fill, embed$"):
        electralab.load(run / "export" / "generator").play("the cat")


def test_a_model_shows_what_it_is(tmp_path: Path) -> None:
    run = save_pretrained(tmp_path / "run")
    held = "discriminator and generator; rows of 24 tokens; can detect, fill, play, embed"
    assert repr(electralab.load(run)) == f"<electralab model {run}: {held}>"
    tuned = save_tuned_folder(tmp_path / "tuned", make_tuned())
    held = "tuned model; classify: no, yes, maybe; can embed, predict"
    assert repr(electralab.load(tuned)) == f"<electralab model {tuned}: {held}>"
    assert repr(electralab.load("nowhere")).startswith("<electralab model: nowhere: no such file or folder")


@pytest.mark.parametrize("role", ["discriminator", "generator"])
def test_an_encoder_that_transformers_saved_without_a_head_embeds_as_it_did_with_one(role: str, tmp_path: Path) -> None:
    whole = save_pretrained(tmp_path / "run") / "export" / role
    bare = tmp_path / "bare"
    AutoModel.from_pretrained(whole).save_pretrained(bare)
    AutoTokenizer.from_pretrained(whole).save_pretrained(bare)
    model = electralab.load(bare)
    assert model.can == ("embed",)
    np.testing.assert_allclose(model.embed("the cat sat"), electralab.load(whole).embed("the cat sat"), atol=1e-6)
    with pytest.raises(InputError, match="holds a bare encoder without a head, which cannot detect; it can embed"):
        model.detect("the cat")


def test_a_pre_trained_run_detects_and_does_not_predict(tmp_path: Path) -> None:
    model = electralab.load(str(save_pretrained(tmp_path / "run")))
    found = model.detect("the cat sat")
    assert "".join(token.text for token in found.tokens) == "thecatsat"
    with pytest.raises(
        InputError, match=r"holds a discriminator and a generator, which cannot predict; it can detect, .* finetune"
    ):
        model.predict(["the cat"])


def test_a_model_may_multiply_in_16_bits(tmp_path: Path) -> None:
    run = save_pretrained(tmp_path / "run")
    scores = {}
    for precision in ("fp32", "bf16", "auto"):
        tokens = Model(run, WindowConfig(precision=precision)).detect("the cat sat").tokens
        scores[precision] = [token.p_replaced for token in tokens]
    assert scores["bf16"] != scores["fp32"], "it was asked for"
    np.testing.assert_allclose(scores["bf16"], scores["fp32"], atol=0.02)
    assert scores["auto"] in (scores["fp32"], scores["bf16"]), "whichever is faster here"
    folder = save_tuned_folder(tmp_path / "model", make_tuned("regress"))
    full, half = (
        Model(folder).make_predictor(PredictConfig(precision=precision)).predict(["the cat"])[0]["prediction"]
        for precision in ("fp32", "bf16")
    )
    assert full != half
    assert half == pytest.approx(full, abs=0.1)


def test_a_tuned_model_predicts_and_does_not_detect(tmp_path: Path) -> None:
    model = electralab.load(save_tuned_folder(tmp_path / "model", make_tuned("regress")))
    (row,) = model.predict(["the cat"])
    assert isinstance(row["prediction"], float)
    with pytest.raises(InputError, match="holds a tuned model, which cannot detect; it can embed, predict"):
        model.detect("the cat")


def test_a_place_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        electralab.load(tmp_path / "nowhere").predict(["the cat"])


def test_graphs_say_what_their_networks_say(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    run = save_pretrained(tmp_path / "run")
    electralab.export(run, run / "onnx", format="onnx", threads=1)
    ours, graphs = electralab.load(run), electralab.load(run / "onnx")
    assert [model.describe("").runtime for model in (ours, graphs)] == ["torch", "onnx"]
    assert graphs.can == ours.can == ("detect", "fill", "play", "embed")
    for one, other in zip(ours.detect(TEXT * 3).tokens, graphs.detect(TEXT * 3).tokens, strict=True):
        assert (one.start, one.end) == (other.start, other.end)
        assert one.p_replaced == pytest.approx(other.p_replaced, abs=1e-4)
    assert graphs.embed(TEXT * 3).tolist() == pytest.approx(ours.embed(TEXT * 3).tolist(), abs=1e-4)
    (slot,), (graph_slot,) = ours.fill("the [MASK] sat").blanks, graphs.fill("the [MASK] sat").blanks
    assert [guess.p for guess in slot.guesses] == pytest.approx([guess.p for guess in graph_slot.guesses], abs=1e-4)
    assert ours.play(TEXT, 0.3, 1.0, 1).corrupted == graphs.play(TEXT, 0.3, 1.0, 1).corrupted
    tuned = save_tuned_folder(tmp_path / "tuned", make_tuned())
    electralab.export(tuned, tuned / "onnx", format="onnx", threads=1)
    graph = electralab.load(tuned / "onnx")
    assert graph.can == ("predict",)
    chances = [electralab.load(path).predict([TEXT])[0]["probabilities"] for path in (tuned, tuned / "onnx")]
    assert chances[0] == pytest.approx(chances[1], abs=1e-4)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["[CLS]", "the", "cat", "##s", "sat", ",", "he", "said", ".", "[SEP]"], "the cats sat, he said."),
        (
            ["fellow", "-", "citizens", "(", "all", ")", "paid", "$", "400", ",", "000"],
            "fellow-citizens (all) paid $400,000",
        ),
        (["don", "\u2019", "t", "##s", "[PAD]"], "don\u2019ts"),
        (["나는", "집", "##에", "간다", "."], "나는 집에 간다."),
        (["我", "们", "在", "家", "。"], "我们在家。"),
        (["##", "a"], "## a"),
        ([], ""),
    ],
)
def test_pieces_become_text(pieces: list[str], text: str) -> None:
    assert join_pieces(pieces) == text


def test_symbols_stay_apart() -> None:
    assert join_pieces(["open", ",", "[SEP]", "read"], is_symbols=True) == "open , read"


def test_a_folder_outside_a_run_and_a_damaged_file_have_no_examples(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "export" / "discriminator"
    folder.mkdir(parents=True)
    assert read_examples(folder) == ()
    (tmp_path / "run" / "run.json").write_text("{}")
    assert read_examples(folder) == ()
    for content in ("{", "[]", '{"rows": [{}]}', '{"rows": 7}'):
        (tmp_path / "run" / "examples.json").write_text(content)
        assert read_examples(folder) == ()
