"""Cards say what the work wrote down, for any objective, task or form, in tables that hold any name of a class."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

import pytest

from electralab.objective.settings import ObjectiveName
from electralab.records.export import ExportRecord
from electralab.records.run import Budget, PretrainResults, RunFingerprint
from electralab.records.tuned import TunedResults, TunedRun
from electralab.reporting import cards
from electralab.reporting.cards import CardConfig

RUN_SETTINGS: dict[str, Any] = {
    **{"size": "tiny", "batch": {"size": 32}, "masking": {"mask_share": 0.25}, "seed": 3},
    **{"model": {"backbone": "modern", "num_layers": 4, "hidden_size": 128, "num_heads": 2}},
    **{"loss": {"discriminator_weight": 50.0}, "optimizer": {"kind": "adamw", "learning_rate": 0.001}},
}
PAIR = {
    **{"generator_loss": 5.5, "discriminator_loss": 0.25, "generator_accuracy": 0.2, "generator_entropy": 4.0},
    **{"auc": 0.8, "precision": 0.6, "recall": 0.5, "called_replaced": 0.125, "replaced_share": 0.2},
    **{"auc_unsure": 0.9, "recall_unsure": 0.7},
}
PAIR_BASELINES = {"generator_loss": 6.5, "generator_accuracy": 0.05, "discriminator_loss": 0.5}
TUNED_RUN: dict[str, Any] = {
    **{"kind": "finetune", "task": "classify", "threads": 1, "data": "d" * 64, "model": "e" * 64},
    "settings": {
        **{"epochs": 3.0, "seed": 5, "sequence_length": 128, "from_scratch": False, "batch": {"size": 32}},
        **{"head": {"style": "released"}, "optimizer": {"learning_rate": 3e-4, "layer_decay": 0.8}},
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
EXPORTED = CardConfig(
    architectures=("ElectraForPreTraining",),
    num_hidden_layers=2,
    hidden_size=64,
    vocab_size=30522,
    max_position_embeddings=128,
    id2label={"0": "no", "1": "yes"},
)


def run_results(heldout: dict[str, float], baselines: dict[str, float] | None = None) -> PretrainResults:
    amounts = {"step": 1000, "tokens": 4096000, "flops": 15 * 10**14, "seconds": 60.0}
    scores = {"objective": "x", "heldout": heldout, "baselines": baselines or {}}
    return PretrainResults.model_validate({**scores, **amounts})


def run_card(objective: str, networks: dict[str, str], scores: PretrainResults) -> str:
    run = RunFingerprint(
        settings=RUN_SETTINGS | {"objective": objective},
        threads=2,
        data="0123456789abcdef0123",
        init_from="",
        budget=Budget("steps", 1000),
        total_steps=1000,
    )
    return cards.render_run_card("mine", run, scores, networks)


def test_a_pair_is_loaded_by_two_classes_and_asked_by_detect() -> None:
    networks = {"discriminator": "ElectraForPreTraining", "generator": "ElectraForMaskedLM"}
    text = run_card("electra", networks, run_results(PAIR, PAIR_BASELINES))
    for line in (
        "objective `electra`: a generator guesses masked tokens, a discriminator says for every token whether it was "
        "replaced.",
        "| discriminator | 4 layers, hidden 128, 2 heads |",
        "| steps, tokens, FLOPs | 1,000, 4,096,000, 1.5e+15 |",
        "| batch, mask share, λ | 32, 0.25, 50 |",
        "| generator loss | 5.500 | 6.500, token frequencies |",
        "| generator accuracy | 20.0% | 5.0%, always the most frequent token |",
        "| discriminator loss | 0.2500 | 0.5000, knowing only how many are replaced |",
        "| discriminator AUC | 0.800 | 0.500, guessing |",
        "| AUC, generator unsure | 0.900 | 0.500, guessing |",
        "| recall on replaced | 0.500 | 0.125, calling as many replaced, at random |",
        "| precision | 0.600 | 0.200, calling at random |",
        "from transformers import AutoTokenizer, ElectraForMaskedLM, ElectraForPreTraining",
        'tokenizer = AutoTokenizer.from_pretrained("export/discriminator")',
        'generator = ElectraForMaskedLM.from_pretrained("export/generator")',
        'Or in the shell: `electra detect mine "some text"`.',
    ):
        assert line in text.splitlines(), line


def test_a_loss_stands_before_its_accuracy_and_verdicts_come_last() -> None:
    names = [line.name for line in cards.describe_scores(run_results(PAIR, PAIR_BASELINES))]
    assert names[:3] == ["generator loss", "generator accuracy", "discriminator loss"]
    assert names[3:] == ["discriminator AUC", "AUC, generator unsure", "recall on replaced", "precision"]


def test_one_network_has_neither_a_discriminator_nor_verdicts() -> None:
    scores = run_results({"masked_loss": 4.0, "masked_accuracy": 0.25, "masked_entropy": 3.0}, {"masked_loss": 6.0})
    text = run_card("mlm", {"model": "ElectraForMaskedLM"}, scores)
    for line in (
        "| model | 4 layers, hidden 128, 2 heads |",
        "| batch, mask share | 32, 0.25 |",
        "| masked loss | 4.000 | 6.000, token frequencies |",
        "| masked accuracy | 25.0% |  |",
        'model = ElectraForMaskedLM.from_pretrained("export/model")',
    ):
        assert line in text
    assert not [word for word in ("discriminator", "AUC", "detect") if word in text]


def test_energies_are_not_asked_by_detect() -> None:
    networks = {"discriminator": "ElectraForPreTraining", "generator": ""}
    text = run_card("electric", networks, run_results({"generator_loss": 4.0, "discriminator_loss": 0.4}))
    assert "Or in the shell: `electra finetune mine --task TASK --data FOLDER --out RUN`." in text
    assert not [word for word in ("detect", "p_replaced") if word in text]


@pytest.mark.parametrize(
    ("objective", "line"), [("permutation", "| batch, mask share | 32, 0.25 |"), ("causal", "| batch | 32 |")]
)
def test_the_mask_share_is_said_where_there_is_one(objective: str, line: str) -> None:
    assert line in run_card(objective, {"model": ""}, run_results({"masked_loss": 4.0})).splitlines()


def test_a_pretrained_network_that_transformers_cannot_express_says_so() -> None:
    networks = {"discriminator": "ElectraForPreTraining", "generator": ""}
    text = run_card("electra", networks, run_results(PAIR, PAIR_BASELINES))
    assert "from transformers import AutoTokenizer, ElectraForPreTraining\n" in text
    assert "```\n\nNo class of transformers expresses `export/generator`; the verbs" in text
    text = run_card("causal", {"model": ""}, run_results({"next_loss": 4.0}))
    assert "library_name: electralab" in text
    assert "```" not in text


@pytest.mark.parametrize("objective", get_args(ObjectiveName))
def test_every_objective_has_a_card(objective: str) -> None:
    assert f"objective `{objective}`: " in run_card(objective, {"model": ""}, run_results({"masked_loss": 4.0}))


def make_results(task: str, report: dict[str, Any], seeds: int = 1) -> dict[str, Any]:
    spread = {"n": seeds, "median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
    results = {
        **{"task": task, "metric": "accuracy", "tokens_per_seed": 10, "seconds": 1.0, "steps": 1500, "best_seed": 6},
        "seeds": [{"seed": 5 + place} for place in range(seeds)],
        "spread": {"dev": {"accuracy": spread, "macro_f1": spread}},
        "report": report,
    }
    return results if seeds == 1 else {**results, "ensemble": {"accuracy": 0.7, "macro_f1": 0.65}}


def make_model(labels: list[str], architecture: str = "", **more: Any) -> dict[str, Any]:
    model: dict[str, Any] = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, **more}
    model["id2label"] = {str(place): label for place, label in enumerate(labels)}
    return model | ({"architectures": [architecture]} if architecture else {})


def tuned_card(
    results: dict[str, Any], model: dict[str, Any], num_texts: int = 1, run: dict[str, Any] = TUNED_RUN, **more: bool
) -> str:
    return cards.render_tuned_card(
        "mine",
        TunedRun.model_validate(run),
        TunedResults.model_validate(results),
        CardConfig.model_validate(model),
        num_texts,
        asks_questions=more.get("asks", False),
    )


def classify(labels: list[str], report: dict[str, Any], seeds: int = 1) -> str:
    return tuned_card(make_results("classify", report, seeds), make_model(labels, "ElectraForSequenceClassification"))


def tables_in(card: str) -> list[list[list[str]]]:
    blocks = groupby(card.splitlines(), key=lambda line: line.startswith("|"))
    tables = [
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines] for is_table, lines in blocks if is_table
    ]
    for table in tables:
        assert {len(row) for row in table} == {len(table[0])}, table
        assert set(table[1]) <= {"---", "---:"}, table
    return tables


def test_every_number_of_a_tuned_run_has_its_place() -> None:
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
    scored = {"rows": 9, "scores": {"dev": {"accuracy": 0.4, "macro_f1": 0.3}}}
    baseline = {"name": "commonest", "what": "always answering 'a|b'", **scored}
    results = make_results("classify", REPORT) | {"baselines": {"commonest": baseline}, "notes": ["it was worth it"]}
    card = tuned_card(results, make_model(CLASSES))
    scores = tables_in(card)[1]
    assert scores[0] == ["", "score", "commonest"]
    assert scores[2:] == [["dev accuracy", "0.5000", "0.4000"], ["dev macro f1", "0.5000", "0.3000"]]
    assert "- commonest: always answering 'a&#124;b'\n- it was worth it" in card


@pytest.mark.parametrize("name", ["a|b", "|", "two\nlines", "tab\there", "  spaces  ", "\\|"])
def test_a_class_of_any_name_stays_in_its_cell(name: str) -> None:
    named = [{**scores, "name": label} for scores, label in zip(REPORT["classes"], [name, "yes"], strict=True)]
    _, _, classes, confusion = tables_in(classify([name, "yes"], {**REPORT, "classes": named}))
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
    model = make_model(["O", "B-PER", "I-PER"], "ElectraForTokenClassification")
    card = tuned_card(make_results("ner", report), model, 0)
    assert len(tables_in(card)) == 3
    assert "for the labels `O`, `B-PER`, `I-PER`." in card
    assert "transformers.ElectraForTokenClassification.from_pretrained" in card
    assert 'predict(["a text"])' in card


def test_a_number_has_no_labels_and_no_classes_and_questions_have_a_context() -> None:
    model = make_model(["LABEL_0"], "ElectraForSequenceClassification", problem_type="regression")
    card = tuned_card(make_results("stsb", {}), model, 2)
    assert len(tables_in(card)) == 2
    assert "LABEL_0" not in card
    assert 'predict([("a text", "another")])' in card
    card = tuned_card(make_results("squad2", {}), make_model([], "ElectraForQuestionAnswering"), 0, asks=True)
    assert 'electralab.load("mine").predict([("Who wrote it?", "It was written by Ada.")])' in card


def test_what_transformers_has_not_is_said_to_be_ours() -> None:
    card = tuned_card(make_results("classify", REPORT), make_model(CLASSES))
    assert "library_name: electralab\n" in card
    assert "tune with `--head huggingface`" in card
    assert "from_pretrained" not in card
    assert "library_name: transformers\n" in classify(CLASSES, REPORT)
    own = make_model(CLASSES, electralab_network={"class": "Tuned"})
    card = tuned_card(make_results("classify", REPORT), own)
    assert "No class of transformers expresses this network" in card
    assert "--head huggingface" not in card


def test_a_baseline_says_that_it_began_at_random() -> None:
    run = {**TUNED_RUN, "settings": {**TUNED_RUN["settings"], "from_scratch": True}}
    card = tuned_card(make_results("classify", REPORT), make_model(CLASSES), 1, run)
    assert ["encoder", "2 layers, hidden 64, 4 heads, random at the start"] in tables_in(card)[0]


@pytest.mark.parametrize(
    ("prediction", "example"),
    [({}, '("a text", "another")'), ({"question": "who"}, '("Who wrote it?", "It was written by Ada.")')],
)
def test_the_card_is_written_from_the_files_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prediction: dict[str, str], example: str
) -> None:
    files = {
        "run.json": TUNED_RUN,
        "results.json": make_results("classify", REPORT),
        "export/model/config.json": make_model(CLASSES),
        "export/model/task.json": {"task": "pair", "num_texts": 2},
        "seed-6/predictions/dev.jsonl": {"prediction": "no", **prediction},
    }
    for name, value in files.items():
        (tmp_path / "reviews" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "reviews" / name).write_text(json.dumps(value))
    monkeypatch.chdir(tmp_path / "reviews")
    cards.write_tuned_card(Path())
    card = Path("README.md").read_text()
    assert "\n# reviews\n" in card
    assert f'electralab.load("reviews").predict([{example}])' in card


def export_card(license_name: str = "mit", **more: object) -> str:
    facts = {"format": "hf", "network": "discriminator", "kind": "discriminator", "subject": "verdicts"}
    return cards.render_export_card(ExportRecord.model_validate({**facts, **more}), EXPORTED, license_name)


def test_a_folder_for_transformers_is_loaded_by_its_class() -> None:
    card = export_card()
    assert card.startswith("---\nlicense: mit\nlibrary_name: transformers\n")
    assert "2 layers, hidden size 64, 30,522 tokens, as a folder for `transformers`. Exported with electralab." in card
    assert 'network = ElectraForPreTraining.from_pretrained("FOLDER")' in card
    assert "Labels, in the order of the logits: `no`, `yes`." in card
    assert "Checked when" not in card


def test_a_graph_says_what_goes_in_and_comes_out() -> None:
    words = {"largest difference of a logit": "0.1"}
    card = export_card("unknown", format="onnx", rows=1200, answers=3, words=words, of="fp32")
    assert "up to 128 tokens\n- out come `logits`, rows × length, and `states`" in card
    assert "On 1,200 rows of text (3 answers) against fp32:\n\n| | |\n|---|---|\n| largest difference" in card


@pytest.mark.parametrize("subject", ["numbers", "energies"])
def test_one_number_has_no_label(subject: str) -> None:
    assert "Labels" not in export_card(subject=subject)
