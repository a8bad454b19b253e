"""Every input has its answer, in order and whatever its form; what cannot be answered says why, in its place."""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from little_tuned import LENGTH, TEXT, little_tokenizer, make_tuned, save_pretrained, save_run, save_tuned_folder

import electralab
from electralab.errors import ElectraError, InputError, UsageError
from electralab.finetuning import task_model
from electralab.finetuning.task_model import load_model
from electralab.fitting.answerer import answer_with
from electralab.records.tuned import PredictionRow, PredictResult
from electralab.serving.model import Model
from electralab.serving.predictor import PredictConfig, Predictor, check_output_path, format_rows, merge_bad_rows
from electralab.tasks.kind import Example, Split, TaskInput
from electralab.tasks.table import BadRow
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab, train_tokenizer

WORDS = TEXT.split()


@pytest.fixture(autouse=True)
def _threads_as_they_were() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tuned_folder(tmp_path_factory.mktemp("tuned") / "model", make_tuned())


def make_predictor(kind: str = "classify", *, num_texts: int = 1, batch_tokens: int = 8192) -> Predictor:
    return Predictor(answer_with([make_tuned(kind, num_texts=num_texts)]), PredictConfig(batch_tokens=batch_tokens))


def predict(model: Path, source: Path | str, out: Path | None = None, **more: Any) -> PredictResult:
    result = electralab.predict(model, source, out, threads=1, **more)
    assert isinstance(result, PredictResult)
    return result


def close(first: PredictionRow, second: PredictionRow) -> bool:
    is_same = first.prediction == second.prediction
    return is_same and bool(first.probabilities == pytest.approx(second.probabilities, abs=1e-5))


# Texts from Python


@pytest.mark.parametrize("chunk", [4096, 3])
def test_answers_come_in_the_order_of_the_texts_whatever_their_lengths(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_model, "_CHUNK", chunk)
    predictor = make_predictor(batch_tokens=16)
    texts = [" ".join(WORDS[start : start + length]) for start, length in enumerate((5, 1, 8, 2, 7, 1, 3))]
    rows = predictor.predict(texts)
    assert [row.texts for row in rows] == [(text,) for text in texts]
    assert all(close(row, predictor.predict([text])[0]) for row, text in zip(rows, texts, strict=True))
    assert len({row["probabilities"]["yes"] for row in rows}) == len(texts)


def test_probabilities_have_the_names_of_the_labels_and_sum_to_one() -> None:
    for row in make_predictor().predict(["the cat", "a dog sat", "who"]):
        assert row["probabilities"].keys() == {"no", "yes", "maybe"}
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert row["prediction"] == max(row["probabilities"], key=row["probabilities"].get)
    assert make_predictor().predict([]) == []


@pytest.mark.parametrize(
    ("kind", "num_texts", "forms"),
    [
        ("classify", 1, ["the cat", ("the cat",), {"text": "the cat"}, {"text": "the cat", "other": 3}]),
        ("classify", 2, [("the cat", "sat"), ["the cat", "sat"], {"text_a": "the cat", "text_b": "sat"}]),
        ("regress", 1, ["the cat", ["the cat"], {"text": "the cat"}]),
        (
            "label",
            0,
            ["the cat sat", ["the", "cat", "sat"], {"words": ("the", "cat", "sat")}, {"tokens": "the cat sat"}],
        ),
        ("qa", 0, [("who sat", "the cat sat"), {"question": "who sat", "context": "the cat sat"}]),
    ],
    ids=["text", "pair", "regress", "label", "qa"],
)
def test_an_input_means_the_same_in_every_form(kind: str, num_texts: int, forms: list[TaskInput]) -> None:
    rows = make_predictor(kind, num_texts=num_texts).predict(forms)
    assert len({row.model_copy(update={"id": ""}).model_dump_json() for row in rows}) == 1
    assert rows[0]["prediction"] is not None


def test_a_pair_is_not_its_reverse() -> None:
    one, other = make_predictor(num_texts=2).predict([("the cat", "a dog"), ("a dog", "the cat")])
    assert not close(one, other)


def test_words_have_a_tag_each_and_answers_are_slices_of_their_context() -> None:
    (row,) = make_predictor("label").predict([WORDS])
    assert len(row["prediction"]) == len(row["probabilities"]) == len(WORDS) > LENGTH
    (row,) = make_predictor("qa").predict([("who sat", TEXT)])
    answer = row["answer"]
    assert row["prediction"] == answer["text"] == TEXT[answer["start"] : answer["end"]] != ""


@pytest.mark.parametrize(
    ("kind", "num_texts", "given", "words"),
    [
        ("classify", 1, ("a", "b"), "has 2 texts, the model was tuned on 1"),
        ("classify", 2, "the cat", "has 1 text, the model was tuned on 2"),
        ("classify", 0, ("a", "b", "c"), "has 3 texts, the model was tuned on 1 or 2"),
        ("classify", 2, {"text": "the cat"}, "has 1 text, the model was tuned on 2"),
        ("classify", 1, "", "is empty"),
        ("classify", 1, " \n", "is empty"),
        ("classify", 2, ("the cat", " "), "is empty in part"),
        ("classify", 1, {}, "has nothing; give 'text_a' and 'text_b' or 'text'"),
        ("classify", 1, {"texd": "x"}, "has 'texd'; give 'text_a' and 'text_b' or 'text'"),
        ("classify", 1, 7, "is not text"),
        ("classify", 1, None, "is not text"),
        ("classify", 1, ["a", 7], "is not text"),
        ("classify", 1, {"text": None}, "is not text"),
        ("classify", 1, b"bytes", "is not text"),
        ("classify", 1, "half \ud83d", "half a character"),
        ("regress", 2, ("a",), "has 1 text, the model was tuned on 2"),
        ("label", 0, [], "is empty"),
        ("label", 0, "  ", "is empty"),
        ("label", 0, ["the", ""], "is empty in part"),
        ("label", 0, {"words": 3}, "is not text"),
        ("label", 0, {"text": "x"}, "give 'words' or 'tokens'"),
        ("qa", 0, "who sat", "a question needs its context"),
        ("qa", 0, ("who",), "has 1 text; give a pair"),
        ("qa", 0, ("who", "the cat", "sat"), "has 3 texts; give a pair"),
        ("qa", 0, ("who", ""), "is empty in part"),
        ("qa", 0, {"question": "who"}, "give 'question' and 'context'"),
    ],
)
def test_an_input_of_the_wrong_shape_is_refused_by_its_place(kind: str, num_texts: int, given: Any, words: str) -> None:
    good: Any = {"label": "the cat", "qa": ("who", "the cat")}.get(kind, ("a", "b")[: num_texts or 1])
    with pytest.raises(InputError) as caught:
        make_predictor(kind, num_texts=num_texts).predict([good, given])
    assert str(caught.value).startswith("input 1: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def make_symbol_predictor(num_texts: int = 1) -> Predictor:
    tokenizer = train_symbol_vocab(Counter({"open": 9, "re ad": 5, "500": 1}), TokenizerConfig(vocab_size=64))
    return Predictor(answer_with([make_tuned(num_texts=num_texts, tokenizer=tokenizer)]), PredictConfig())


@pytest.mark.parametrize(
    ("num_texts", "forms"),
    [
        (1, [["open", "500"], ("open", 500), '["open", 500]', "open 500", {"text": ["open", "500"]}]),
        (1, [["open", "re ad"], {"events": ["open", "re ad"]}, {"a": 1, "b": ["open", "re ad"]}, [["open", "re ad"]]]),
        (2, [(["open"], ["500"]), [["open"], [500]], ("open", "500"), {"text_a": ["open"], "text_b": "500"}]),
    ],
)
def test_a_sequence_of_symbols_means_the_same_in_every_form(num_texts: int, forms: list[TaskInput]) -> None:
    rows = make_symbol_predictor(num_texts).predict(forms)
    assert all(row["probabilities"] == rows[0]["probabilities"] for row in rows)
    (other,) = make_symbol_predictor(num_texts).predict([["open", "open"] if num_texts == 1 else (["500"], ["open"])])
    assert not close(rows[0], other)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("a gripping story", "a model of symbols takes a list of strings or integers, got 'a gripping story'"),
        (5, "a model of symbols takes a list of strings or integers, got '5'"),
        ([], "is empty; give a list of symbols"),
        ("", "is empty"),
        (["open", None], "holds 'None'; a symbol is a non-empty string or an integer"),
        ((["open"], ["500"]), "has 2 texts, the model was tuned on 1"),
        ({"text_a": "open", "text_b": "500"}, "has 2 texts, the model was tuned on 1"),
        ({"a": 1}, "has 'a'; give 'text_a' and 'text_b', or 'text', as lists of symbols"),
    ],
)
def test_what_is_no_sequence_of_symbols_is_refused_by_its_place(given: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        make_symbol_predictor().predict([["open"], given])
    assert str(caught.value).startswith(f"input 1: {words}")


@pytest.mark.parametrize("inputs", ["the cat", {"text": "the cat"}])
def test_a_text_that_is_in_no_list_is_not_taken_letter_by_letter(inputs: Any) -> None:
    with pytest.raises(InputError, match="give a list"):
        make_predictor().predict(inputs)


# Seeds together


def test_an_ensemble_is_the_mean_of_its_seeds(tmp_path: Path) -> None:
    run = save_run(tmp_path / "run", seeds=3)
    (run / "seed-old").mkdir()
    (run / "seed-7").mkdir()  # begun and not finished
    texts = ["the cat", "a dog sat near the log"]
    alone = [Model(run / f"seed-{seed}").predict(texts) for seed in range(3)]
    together = Model(run).make_predictor(PredictConfig(), is_ensemble=True).predict(texts)
    for place, row in enumerate(together):
        for label, chance in row["probabilities"].items():
            of_seeds = [rows[place]["probabilities"][label] for rows in alone]
            assert chance == pytest.approx(sum(of_seeds) / 3, abs=2e-6)
            assert max(of_seeds) - min(of_seeds) > 1e-3
    assert Model(run).predict(texts) == alone[0]


def test_one_seed_is_no_ensemble(tmp_path: Path, folder: Path) -> None:
    run = save_run(tmp_path / "run", seeds=1)
    with pytest.raises(InputError, match="holds one seed, nothing to average; give a run of 'finetune --seeds N'"):
        Model(run).make_predictor(PredictConfig(), is_ensemble=True)
    with pytest.raises(InputError, match="holds no seeds"):
        Model(folder).make_predictor(PredictConfig(), is_ensemble=True)


# Files


def test_a_bad_row_keeps_its_place_and_says_why(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text('id,text\na,the cat\nb,""\nc,a dog\nd\ne,who sat\n')
    settings = {"data": {"max_bad_share": 0.5}}
    result = predict(folder, tmp_path / "in.csv", settings=settings)
    rows = result["predictions"]
    assert [row["row"] for row in rows] == [2, 3, 4, 5, 6]
    assert [row.get("id") for row in rows] == ["a", None, "c", None, "e"]
    assert rows[1].to_json() == {"row": 3, "prediction": None, "error": "'text' is empty"}
    assert rows[3].to_json() == {"row": 5, "prediction": None, "error": "has 1 field for 2 columns"}
    assert result["bad_rows"] == 2
    told = capsys.readouterr().err
    assert "2 of 5 rows are bad" in told
    assert "row 5: has 1 field for 2 columns" in told
    with pytest.raises(InputError, match="2 of 5 rows cannot be used"):
        predict(folder, tmp_path / "in.csv")


def test_bad_rows_before_between_and_after_good_ones_are_put_in_order() -> None:
    bad = (BadRow(1, "first"), BadRow(4, "last"))
    split: Split[Example] = Split("input", "x.csv", [], False, {}, 4, bad, row_numbers=(2, 3))
    rows = merge_bad_rows([PredictionRow(prediction="a"), PredictionRow(prediction="b")], split)
    assert [(row["row"], row["prediction"]) for row in rows] == [(1, None), (2, "a"), (3, "b"), (4, None)]


def test_texts_that_do_not_fit_are_cut_and_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text(f"{TEXT}\nthe cat\n{TEXT} who\n")
    result = predict(folder, tmp_path / "in.txt")
    assert result["cut"] == 2
    assert "2 of 3 texts are longer than the model's rows and were cut" in capsys.readouterr().err
    assert predict(folder, tmp_path / "in.txt", settings={"batch_tokens": 20})["cut"] == 2
    (tmp_path / "in.txt").write_text("the cat\n")
    capsys.readouterr()
    assert predict(folder, tmp_path / "in.txt")["cut"] == 0
    assert capsys.readouterr().err == ""


def test_sentences_of_words_lose_nothing_and_are_not_called_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_tuned_folder(tmp_path / "model", make_tuned("label"))
    (tmp_path / "in.txt").write_text(f"{TEXT}\n")
    result = predict(model, tmp_path / "in.txt")
    assert result["cut"] == 0
    assert len(result["predictions"][0]["prediction"]) == len(WORDS)
    assert capsys.readouterr().err == ""


def test_a_file_may_name_its_columns_and_a_table_of_pairs_is_read_as_pairs(tmp_path: Path) -> None:
    model = save_tuned_folder(tmp_path / "model", make_tuned(num_texts=2))
    (tmp_path / "in.tsv").write_text("left\tright\nthe cat\ta dog\n")
    result = predict(model, tmp_path / "in.tsv", settings={"data": {"text_a": "right", "text_b": "left"}})
    assert result["predictions"][0]["texts"] == ("a dog", "the cat")
    with pytest.raises(UsageError, match=r"reads 2 columns of text; give --data\.text-a and --data\.text-b"):
        predict(model, tmp_path / "in.tsv", settings={"data": {"text": "left"}})


def test_questions_without_their_columns_are_told_the_right_flags(tmp_path: Path) -> None:
    model = save_tuned_folder(tmp_path / "model", make_tuned("qa", num_texts=0))
    (tmp_path / "in.csv").write_text("ask,about\nwho sat,the cat sat\n")
    with pytest.raises(UsageError, match=r"give --data\.text-a and --data\.text-b"):
        predict(model, tmp_path / "in.csv")
    named = predict(model, tmp_path / "in.csv", settings={"data": {"text_a": "ask", "text_b": "about"}})
    assert named["predictions"][0]["question"] == "who sat"


# Written answers

ROWS = [
    PredictionRow(row=2, id="a\tb", prediction="x\ny", probabilities={"x\ny": 0.75, 'a\t"z"': 0.25}),
    PredictionRow(row=3, prediction=None, error='broken\r\n"quote"'),
]


def test_lines_of_json_hold_a_row_each() -> None:
    rows = [*ROWS, PredictionRow(row=4, prediction="\u2028")]
    lines = format_rows(rows, ".jsonl").decode().splitlines()
    assert [json.loads(line) for line in lines] == [row.to_json() for row in rows]


def test_a_csv_quotes_what_it_must_and_no_tab_or_line_break_gets_into_a_tsv() -> None:
    table = list(csv.reader(io.StringIO(format_rows(ROWS, ".csv").decode(), newline="")))
    assert table[0] == ["row", "id", "prediction", "p_x\ny", 'p_a\t"z"', "error"]
    assert table[1:] == [["2", "a\tb", "x\ny", "0.75", "0.25", ""], ["3", "", "", "", "", 'broken\r\n"quote"']]
    lines = format_rows(ROWS, ".TSV").decode().split("\n")
    flat = [[" ".join(cell.split()) for cell in cells] for cells in table]
    assert [line.split("\t") for line in lines] == [*flat, [""]]
    tags = [PredictionRow(row=1, id="1", prediction=("O", "B-X"), probabilities=(0.5, 0.9))]
    assert format_rows(tags, ".tsv") == b"row\tid\tprediction\terror\n1\t1\tO B-X\t\n"
    assert format_rows([PredictionRow(row=1, prediction=0.5)], ".csv") == b"row,id,prediction,error\n1,,0.5,\n"


@pytest.mark.parametrize("name", ["out.xlsx", "out.json", "out.csv.gz", "out.txt"])
def test_another_suffix_or_a_folder_is_refused_before_anything_is_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"written as \.jsonl, \.csv or \.tsv, not as \."):
        predict(tmp_path / "no model", tmp_path / "no input", tmp_path / name)
    with pytest.raises(UsageError, match="is a folder; give a file"):
        check_output_path(tmp_path)
    for right in ("without suffix", "OUT.CSV"):
        check_output_path(tmp_path / right)


def test_the_file_says_what_the_result_says(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "the cat"}\n{"text": "a \\u2028 dog"}\n')
    result = predict(folder, tmp_path / "in.jsonl", tmp_path / "deep" / "out.jsonl")
    lines = (tmp_path / "deep" / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [row.to_json() for row in result["predictions"]]


# Standard input


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    "data",
    [
        b"the cat\na dog\n",
        b"the cat\r\na dog",
        b'{"text": "the cat"}\n{"text": "a dog"}\n',
        b'\xef\xbb\xbf{"text": "the cat"}\n{"text": "a dog"}',
        b"text\tlabel\nthe cat\tyes\na dog\tno\n",
        b'label,text\nyes,"the cat"\nno,a dog\n',
    ],
    ids=["lines", "crlf", "json", "bom", "table", "csv"],
)
def test_standard_input_is_texts_or_rows(folder: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    give(monkeypatch, data)
    rows = predict(folder, "-")["predictions"]
    assert [row["texts"] for row in rows] == [("the cat",), ("a dog",)]


@pytest.mark.parametrize("data", [b"", b" \n\n", None], ids=["empty", "blank", "closed"])
def test_an_empty_standard_input_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> None:
    monkeypatch.setattr(sys, "stdin", None) if data is None else give(monkeypatch, data)
    with pytest.raises(InputError, match="standard input: is empty"):
        predict(folder, "-")


def test_what_is_wrong_with_standard_input_is_said_of_it_and_of_no_other_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, b"the cat\n\xff\xfe\xfd\na dog\n")
    with pytest.raises(ElectraError) as caught:
        predict(folder, "-")
    assert str(caught.value).startswith("standard input: 1 of 3 rows cannot be used (row 2 ")
    give(monkeypatch, b"the cat\n\na dog\n")
    predict(folder, "-", settings={"data": {"max_bad_share": 0.5}})
    assert "warning: standard input: 1 of 3 rows are bad" in capsys.readouterr().err


# Models


@pytest.mark.parametrize("cut", [1, 2, 3])
@pytest.mark.parametrize("place", ["-", "texts.txt"])
def test_input_that_ends_inside_a_character_loses_that_character_only(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    cut: int,
) -> None:
    whole = f"{WORDS[0]}\n{WORDS[1]} ".encode()
    data = whole + "\U0001f600".encode()[:cut]
    (tmp_path / "texts.txt").write_bytes(data)
    give(monkeypatch, data)
    source = "-" if place == "-" else tmp_path / place
    found = predict(folder, source)
    name = "standard input" if place == "-" else str(source)
    assert f"{name}: ends inside a character, which is left out" in capsys.readouterr().err
    give(monkeypatch, whole)
    assert found["predictions"] == predict(folder, "-")["predictions"]
    assert (found["bad_rows"], len(found["predictions"])) == (0, 2)


def test_bytes_that_no_character_begins_with_are_still_a_bad_row(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes(b"one\n" * 40 + b"two\xff")
    assert predict(folder, tmp_path / "texts.txt")["bad_rows"] == 1


def test_a_model_that_transformers_tuned_answers_with_its_own_labels(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = little_tokenizer()
    sizes = {"hidden_size": 16, "embedding_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ElectraConfig(
        vocab_size=tokenizer.vocab_size,
        intermediate_size=32,
        max_position_embeddings=16,
        initializer_range=0.5,
        id2label={0: "ham", 1: "spam", 2: "both"},
        label2id={"ham": 0, "spam": 1, "both": 2},
        **sizes,
    )
    torch.manual_seed(0)
    theirs = transformers.ElectraForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    texts = [" ".join(WORDS[start : start + 4]) for start in range(10)]
    rows = electralab.load(tmp_path).predict([*texts, ("the cat", "a dog")])
    special = tokenizer.special
    for text, row in zip(texts, rows, strict=False):
        ids = torch.tensor([[special.cls, *tokenizer.encode(text).ids.tolist(), special.sep]])
        with torch.no_grad():
            chances = theirs(ids).logits.softmax(-1)[0].tolist()
        assert list(row["probabilities"]) == ["ham", "spam", "both"]
        assert list(row["probabilities"].values()) == pytest.approx(chances, abs=1e-5)
    assert len({row["prediction"] for row in rows}) > 1
    (tmp_path / "pairs.csv").write_text("text_a,text_b\nthe cat,a dog\n")
    (pair,) = predict(tmp_path, tmp_path / "pairs.csv")["predictions"]
    assert close(PredictionRow.model_validate(pair), rows[-1])


def test_a_pre_trained_model_is_sent_to_be_tuned_first(tmp_path: Path) -> None:
    run = save_pretrained(tmp_path / "run")
    for path in (run, run / "export" / "discriminator"):
        with pytest.raises(InputError, match="finetune") as caught:
            electralab.load(path).predict(["the cat"])
        assert str(path) in str(caught.value)


def test_a_folder_that_mixes_two_models_or_has_a_damaged_card_is_refused(tmp_path: Path) -> None:
    mixed, damaged = (save_tuned_folder(tmp_path / name, make_tuned()) for name in ("mixed", "damaged"))
    for model in (mixed, damaged):
        (model / "manifest.json").unlink()
    train_tokenizer([f"{TEXT} βγδεζηθικλμν"], TokenizerConfig(vocab_size=99)).save(mixed)
    with pytest.raises(InputError, match="the folder mixes files of two models"):
        load_model(mixed)
    (damaged / "task.json").write_text('{"task": "classify"}')
    with pytest.raises(ElectraError, match=r"task\.json: not what a task is"):
        load_model(damaged)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe_and_numbers_do_not(suffix: str) -> None:
    rows = [
        PredictionRow(row=number, id=cell, prediction=-0.5)
        for number, cell in enumerate(("=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "-5", "plain"))
    ]
    lines = format_rows(rows, suffix).decode().splitlines()[1:]
    separator = "," if suffix == ".csv" else "\t"
    assert [line.split(separator)[1] for line in lines] == ["'=1+1", "'+cmd|x", "'-2+3", "'@SUM(A1)", "-5", "plain"]
    assert {line.split(separator)[2] for line in lines} == {"-0.5"}
    assert b"'\t=1" in format_rows([PredictionRow(row=1, id="\t=1", prediction="a")], ".csv")
