"""The card of a tuned model says what the run wrote down, in tables that hold whatever a class is called."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from electralab.records.tuned import TunedResults, TunedRun
from electralab.reporting.cards import CardConfig, render_tuned_card, write_tuned_card

RUN: dict[str, Any] = {
    "kind": "finetune",
    "task": "classify",
    "threads": 1,
    "data": "d" * 64,
    "model": "e" * 64,
    "settings": {
        "epochs": 3.0,
        "seed": 5,
        "sequence_length": 128,
        "from_scratch": False,
        "batch": {"size": 32},
        "head": {"style": "released"},
        "optimizer": {"learning_rate": 3e-4, "layer_decay": 0.8},
    },
}
CLASSES = ["no", "yes"]
REPORT: dict[str, Any] = {
    "classes": [
        {"name": name, "precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 1200 + place}
        for place, name in enumerate(CLASSES)
    ],
    "confusion": [[700, 500], [1, 1200]],
}


def make_results(task: str, report: dict[str, Any], seeds: int = 1) -> dict[str, Any]:
    spread = {"n": seeds, "median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
    results = {
        "task": task,
        "metric": "accuracy",
        "tokens_per_seed": 10,
        "seconds": 1.0,
        "steps": 1500,
        "best_seed": 6,
        "seeds": [{"seed": 5 + place} for place in range(seeds)],
        "spread": {"dev": {"accuracy": spread, "macro_f1": spread}},
        "report": report,
    }
    return results if seeds == 1 else {**results, "ensemble": {"accuracy": 0.7, "macro_f1": 0.65}}


def make_model(kind: str, labels: list[str], architecture: str | None = None) -> dict[str, Any]:
    model: dict[str, Any] = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    model["electralab"] = {"task": kind}
    if labels:
        model["id2label"] = {str(place): label for place, label in enumerate(labels)}
    if architecture:
        model["architectures"] = [architecture]
    return model


def render(
    results: dict[str, Any], model: dict[str, Any], num_texts: int, run: dict[str, Any] = RUN, asks: bool = False
) -> str:
    records = TunedRun.model_validate(run), TunedResults.model_validate(results), CardConfig.model_validate(model)
    return render_tuned_card("mine", *records, num_texts, asks_questions=asks)


def classify(labels: list[str], report: dict[str, Any], *, num_texts: int = 1, seeds: int = 1) -> str:
    model = make_model("classify", labels, "ElectraForSequenceClassification")
    return render(make_results("classify", report, seeds), model, num_texts)


def cells_of(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")[1:-1]]


def tables_in(card: str) -> list[list[list[str]]]:
    blocks = groupby(card.splitlines(), key=lambda line: line.startswith("|"))
    tables = [[cells_of(line) for line in lines] for is_table, lines in blocks if is_table]
    for table in tables:
        assert {len(row) for row in table} == {len(table[0])}, table
        assert set(table[1]) <= {"---", "---:"}, table
    return tables


def test_every_number_of_a_run_has_its_place() -> None:
    facts, scores, classes, confusion = tables_in(classify(CLASSES, REPORT))
    assert ["steps, batch", "1,500, 32"] in facts
    assert ["learning rate, layer-wise decay", "0.0003, 0.8"] in facts
    assert ["seeds", "1, from 5; the exported model is that of seed 6, the best"] in facts
    assert scores[0] == ["", "score"]
    assert scores[2] == ["dev accuracy", "0.5000"]
    assert classes[0][0] == "class, dev"
    assert classes[2] == ["no", "0.500", "0.250", "0.333", "1,200"]
    assert confusion[2:] == [["no", "700", "500"], ["yes", "1", "1200"]]


def test_seeds_together_have_a_column_of_their_own() -> None:
    scores = tables_in(classify(CLASSES, REPORT, seeds=2))[1]
    assert scores[0] == ["", "median", "mean", "± sd", "best", "ensemble"]
    assert scores[2][:5] == ["dev accuracy", "0.5000", "0.5100", "0.0200", "0.6250"]
    assert [row[-1] for row in scores[2:]] == ["0.7000", "0.6500"]


def test_baselines_have_columns_and_are_explained() -> None:
    baseline = {
        "name": "commonest",
        "what": "always answering 'a|b'",
        "rows": 9,
        "scores": {"dev": {"accuracy": 0.4, "macro_f1": 0.3}},
    }
    results = make_results("classify", REPORT) | {"baselines": {"commonest": baseline}, "notes": ["it was worth it"]}
    card = render(results, make_model("classify", CLASSES), 1)
    scores = tables_in(card)[1]
    assert scores[0] == ["", "score", "commonest"]
    assert scores[2:] == [["dev accuracy", "0.5000", "0.4000"], ["dev macro f1", "0.5000", "0.3000"]]
    assert "- commonest: always answering 'a&#124;b'\n- it was worth it" in card


@pytest.mark.parametrize("name", ["a|b", "|", "two\nlines", "tab\there", "  spaces  ", "\\|"])
def test_a_class_of_any_name_stays_in_its_cell(name: str) -> None:
    named = [{**scores, "name": label} for scores, label in zip(REPORT["classes"], [name, "yes"], strict=True)]
    _, _, classes, confusion = tables_in(classify([name, "yes"], {**REPORT, "classes": named}))
    assert len(classes) == len(confusion) == 4
    assert [len(row) for row in classes] == [5] * 4
    assert [len(row) for row in confusion] == [3] * 4
    assert classes[2][0] == confusion[2][0] == confusion[0][1]


def test_a_table_of_many_classes_is_left_out_and_their_scores_stay() -> None:
    names = [f"c{place}" for place in range(13)]
    report = {"classes": [{**REPORT["classes"][0], "name": name} for name in names], "confusion": [[0] * 13] * 13}
    tables = tables_in(classify(names, report))
    assert len(tables) == 3
    assert len(tables[2]) == 2 + 13


def test_entities_have_scores_and_no_confusion() -> None:
    report = {"classes": [{**REPORT["classes"][0], "name": "PER"}]}
    model = make_model("label", ["O", "B-PER", "I-PER"], "ElectraForTokenClassification")
    card = render(make_results("ner", report), model, 0)
    assert len(tables_in(card)) == 3
    assert "for the labels `O`, `B-PER`, `I-PER`." in card
    assert "transformers.ElectraForTokenClassification.from_pretrained" in card
    assert 'predict(["a text"])' in card


def test_a_number_has_no_labels_and_no_classes() -> None:
    model = make_model("regress", ["LABEL_0"], "ElectraForSequenceClassification") | {"problem_type": "regression"}
    card = render(make_results("stsb", {}), model, 2)
    assert len(tables_in(card)) == 2
    assert "LABEL_0" not in card
    assert 'predict([("a text", "another")])' in card


def test_questions_are_shown_with_a_context() -> None:
    model = make_model("qa", [], "ElectraForQuestionAnswering")
    card = render(make_results("squad2", {}), model, 0, asks=True)
    assert 'electralab.load("mine").predict([("Who wrote it?", "It was written by Ada.")])' in card


def test_a_head_that_transformers_has_not_is_said_to_be_ours() -> None:
    card = render(make_results("classify", REPORT), make_model("classify", CLASSES), 1)
    assert "library_name: electralab\n" in card
    assert "tune with `--head huggingface`" in card
    assert "from_pretrained" not in card
    assert "library_name: transformers\n" in classify(CLASSES, REPORT)


def test_a_network_that_transformers_has_not_is_not_sent_to_another_head() -> None:
    model = make_model("classify", CLASSES) | {"electralab_network": {"class": "Tuned"}}
    card = render(make_results("classify", REPORT), model, 1)
    assert "No class of transformers expresses this network" in card
    assert "--head huggingface" not in card


def test_a_baseline_says_that_it_began_at_random() -> None:
    run = {**RUN, "settings": {**RUN["settings"], "from_scratch": True}}
    card = render(make_results("classify", REPORT), make_model("classify", CLASSES), 1, run)
    assert ["encoder", "2 layers, hidden 64, 4 heads, random at the start"] in tables_in(card)[0]


def test_the_card_is_written_from_the_files_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "run.json": RUN,
        "results.json": make_results("classify", REPORT),
        "export/model/config.json": make_model("classify", CLASSES),
        "export/model/task.json": {"task": "pair", "num_texts": 2},
    }
    for name, value in files.items():
        (tmp_path / "reviews" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "reviews" / name).write_text(json.dumps(value))
    monkeypatch.chdir(tmp_path / "reviews")
    write_tuned_card(Path())
    card = Path("README.md").read_text()
    assert "\n# reviews\n" in card
    assert 'electralab.load("reviews").predict([("a text", "another")])' in card
