"""From labelled files to a run folder: what is learned, what is written, and what a stop or another command changes."""

import json
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from little_tasks import fill, follow, make_request, read_lines, save_origin, tune, write_animals, write_rows
from toy_kind import KIND
from watching_events import has_trained, notes, result_of, warnings

import electralab
from electralab.config import ConfigLayer, SettingsTree
from electralab.errors import ElectraError, IdentityMismatch, Stopped, UsageError
from electralab.events import run_to_end
from electralab.finetuning import stage
from electralab.finetuning.stage import FinetuneRequest, finetune
from electralab.finetuning.task_model import load_model, predict_examples
from electralab.model.task_model import TaskModel
from electralab.records.tuned import TunedResults
from electralab.stopping import StopSignal
from electralab.tasks import kinds
from electralab.tasks.catalog import TASKS
from electralab.tasks.features import Feature, RowLogits, predict_logits
from electralab.tasks.kind import Example, Split, format_bad_rows
from electralab.tasks.kinds import KINDS
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.table import BadRow
from electralab.training.optimizer import Optimizer, OptimizerConfig, ParameterGroup

TIMING = ("seconds", "tokens_per_second")
SHORT: SettingsTree = {"epochs": 2, "evaluation": {"times": 4}, "optimizer": {"learning_rate": 6e-3}}


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture takes longer than the training."""
    monkeypatch.setattr(
        stage, "plot_learning_curve", lambda out, *_: (out / "learning-curve.png").write_bytes(b"drawn")
    )


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_origin(tmp_path_factory.mktemp("origin") / "model", dropout=0.1)


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_animals(tmp_path_factory.mktemp("animals"))


@pytest.fixture(scope="module")
def whole(origin: Path, animals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds that nobody disturbed, and that have not learned everything."""
    run = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "plot_learning_curve", lambda out, *_: (out / "learning-curve.png").write_bytes(b"-"))
        tune(two_seeds(origin, animals, run))
    return run


def two_seeds(origin: Path, data: Path, run: Path, **changes: Any) -> FinetuneRequest:
    return make_request(origin, "classify", data, run, SHORT, **({"seeds": 2, "save_every": 3} | changes))


FEW: SettingsTree = {"steps": 2, "evaluation": {"times": 0}}


# What is learned


@pytest.mark.parametrize("style", ["released", "huggingface"])
def test_classes_that_a_word_decides_are_learned(origin: Path, animals: Path, tmp_path: Path, style: str) -> None:
    results = tune(make_request(origin, "classify", animals, tmp_path / "run", {"head": {"style": style}}))
    assert results["dev"] == {"accuracy": 1.0, "macro_f1": 1.0}
    assert results["report"]["confusion"] == [[8, 0], [0, 8]]
    assert load_model(tmp_path / "run").network.head_config.style == style


def test_pairs_are_learned_where_there_are_no_segments(tmp_path: Path) -> None:
    """Yes if the second text has a cat, whatever the first has."""
    rng = random.Random(1)
    for split, count in (("train", 96), ("dev", 16)):
        pairs = [(rng.choice(("cat", "dog")), word) for word in ("cat", "dog") * (count // 2)]
        rows = [{"a": fill(rng, one), "b": other, "label": str(int(other == "cat"))} for one, other in pairs]
        write_rows(tmp_path / "data" / f"{split}.jsonl", rows)
    model = save_origin(tmp_path / "model", backbone="modern", dropout=0.0, attention_dropout=0.0)
    columns: SettingsTree = {"data": {"text_a": "a", "text_b": "b"}}
    results = tune(make_request(model, "pair", tmp_path / "data", tmp_path / "run", columns))
    assert results["dev"]["accuracy"] == 1.0
    assert load_model(tmp_path / "run").config.num_texts == 2


def test_numbers_that_a_word_decides_are_learned(origin: Path, tmp_path: Path) -> None:
    rng = random.Random(2)
    for split, count in (("train", 64), ("dev", 16)):
        words = [("cat", 4.5), ("dog", 1.5)] * (count // 2)
        rows = [{"text": fill(rng, word), "score": score + rng.uniform(-0.2, 0.2)} for word, score in words]
        write_rows(tmp_path / "data" / f"{split}.jsonl", rows)
    results = tune(make_request(origin, "regress", tmp_path / "data", tmp_path / "run"))
    assert results["dev"]["pearson"] > 0.9
    said = read_lines(tmp_path / "run/seed-0/predictions/dev.jsonl")
    assert all(abs(row["prediction"] - row["truth"]) < 1 for row in said)


def test_tags_of_words_are_learned(origin: Path, tmp_path: Path) -> None:
    rng = random.Random(3)
    tag_of = {"cat": "B-CAT", "dog": "B-DOG"}
    for split, count in (("train", 64), ("dev", 16)):
        sentences = [fill(rng, rng.choice(("cat", "dog"))).split() for _ in range(count)]
        lines = ["".join(f"{word} {tag_of.get(word, 'O')}\n" for word in words) for words in sentences]
        (tmp_path / f"{split}.txt").write_text("\n".join(lines))
    results = tune(make_request(origin, "label", tmp_path, tmp_path / "run"))
    assert results["dev"]["f1"] == 1.0
    assert [kind["name"] for kind in results["report"]["classes"]] == ["CAT", "DOG"]


def write_questions(folder: Path, *, can_be_impossible: bool) -> None:
    """Who sat: the cat did; where there is none, nobody."""
    rng = random.Random(4)
    for split, count in (("train", 64), ("dev", 16)):
        rows = []
        for number in range(count):
            word = "dog" if can_be_impossible and number % 2 else "cat"
            context = fill(rng, word)
            start = [context.index(word)] if word == "cat" else []
            answers = {"text": ["cat"] * len(start), "answer_start": start}
            rows.append({"id": f"{split}{number}", "question": "who sat", "context": context, "answers": answers})
        write_rows(folder / f"{split}.jsonl", rows)


def test_answers_are_learned(origin: Path, tmp_path: Path) -> None:
    write_questions(tmp_path / "data", can_be_impossible=False)
    results = tune(make_request(origin, "qa", tmp_path / "data", tmp_path / "run"))
    assert results["dev"] == {"exact_match": 1.0, "f1": 1.0}
    assert not load_model(tmp_path / "run").network.head_config.has_answerability
    assert results["baselines"] == {}
    assert "no baseline: nothing simple does question answering" in results["notes"]


def test_a_question_without_an_answer_is_doubted_by_a_head_with_a_threshold(origin: Path, tmp_path: Path) -> None:
    write_questions(tmp_path / "data", can_be_impossible=True)
    results = tune(make_request(origin, "qa", tmp_path / "data", tmp_path / "run"))
    assert results["dev"]["best_f1"] == 1.0
    model = load_model(tmp_path / "run")
    assert model.network.head_config.has_answerability
    assert model.config.threshold == results["dev"]["best_f1_threshold"] != 0.0
    rows = read_lines(tmp_path / "run/seed-0/predictions/dev.jsonl")
    assert [row["prediction"] for row in rows] == ["cat", ""] * 8
    bar = round(model.config.threshold, 6)
    assert all((row["no_answer_score"] > bar) == (not row["prediction"]) for row in rows)


# What is written


def test_results_have_the_median_of_the_seeds_and_each_of_them(whole: Path) -> None:
    results = json.loads((whole / "results.json").read_text())
    assert results["task"] == "classify"
    assert [one["seed"] for one in results["seeds"]] == [0, 1]
    first, second = (one["dev"]["accuracy"] for one in results["seeds"])
    assert results["dev"]["accuracy"] == results["spread"]["dev"]["accuracy"]["median"] == (first + second) / 2
    assert results["best_seed"] == (0 if first >= second else 1)
    assert results["steps"] == 16


def test_the_model_of_the_run_is_that_of_its_best_seed(whole: Path) -> None:
    best = json.loads((whole / "results.json").read_text())["best_seed"]
    weights = "model/model.safetensors"
    assert (whole / "export" / weights).read_bytes() == (whole / f"seed-{best}" / weights).read_bytes()
    assert (whole / "export" / weights).read_bytes() != (whole / f"seed-{1 - best}" / weights).read_bytes()


def test_the_saved_model_predicts_what_the_run_wrote(whole: Path) -> None:
    for seed in (0, 1):
        model = load_model(whole / f"seed-{seed}")
        rows = read_lines(whole / f"seed-{seed}/predictions/dev.jsonl")
        examples = [ClassificationExample(row["id"], tuple(row["texts"]), row["truth"]) for row in rows]
        again = run_to_end(predict_examples([model], examples, batch_tokens=8192, stop=StopSignal()))
        assert [row.to_json() for row in again] == rows


def test_the_seeds_together_say_the_mean_of_their_probabilities(whole: Path) -> None:
    first, second = (read_lines(whole / f"seed-{seed}/predictions/dev.jsonl") for seed in (0, 1))
    hits = [
        max(("yes", "no"), key=lambda label: one["probabilities"][label] + other["probabilities"][label])
        == one["truth"]
        for one, other in zip(first, second, strict=True)
    ]
    results = json.loads((whole / "results.json").read_text())
    assert results["ensemble"]["accuracy"] == sum(hits) / len(hits)


def test_the_curve_is_that_of_every_seed(whole: Path) -> None:
    logged = read_lines(whole / "seed-1/metrics.jsonl")
    assert [line["step"] for line in logged if "dev_accuracy" in line] == [4, 8, 12, 16]
    assert [line["step"] for line in logged] == [4, 5, 8, 10, 12, 15, 16]
    assert (whole / "learning-curve.png").is_file()


def test_simple_methods_are_scored_once_on_the_same_examples(
    origin: Path, animals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    results = tune(make_request(origin, "classify", animals, run, FEW))
    assert results["baselines"]["commonest"]["scores"]["dev"]["accuracy"] == 0.5
    assert results["baselines"]["linear"]["scores"]["dev"] == {"accuracy": 1.0, "macro_f1": 1.0}
    assert results["baselines"]["linear"]["rows"] == 64
    assert results["notes"][0].startswith("a baseline ")
    monkeypatch.setattr("electralab.finetuning.results.score_baselines", lambda *_: pytest.fail("they were known"))
    again = follow(make_request(origin, "classify", animals, run, FEW, seeds=2))
    assert len([text for text in notes(again) if text.startswith("baseline (") and ": dev " in text]) == 2
    assert json.loads((run / "results.json").read_text())["baselines"] == results["baselines"]
    (run / "seed-1/results.json").unlink()  # a seed that is tuned once more must not cost the run its baselines
    assert tune(make_request(origin, "classify", animals, run, FEW, seeds=2))["baselines"] == results["baselines"]
    results = tune(make_request(origin, "classify", animals, tmp_path / "without", FEW, has_baselines=False))
    assert "baselines" not in results
    assert results["notes"] == []


def test_few_rows_are_learned_from_for_longer_and_a_note_says_so(origin: Path, animals: Path, tmp_path: Path) -> None:
    layers = (ConfigLayer("command line", {"batch": {"size": 8}, "min_steps": 30, "evaluation": {"times": 0}}),)
    events = follow(make_request(origin, "classify", animals, tmp_path / "run", layers=layers))
    assert notes(events, "warning") == [
        "few rows: 30 steps, about 4 epochs, where 3 would be too short to learn from; --epochs 3 for those",
    ]
    assert json.loads((tmp_path / "run/results.json").read_text())["steps"] == 30
    obeyed = tune(make_request(origin, "classify", animals, tmp_path / "obeyed", {"epochs": 1}))
    assert obeyed["steps"] == 8
    few: SettingsTree = {**SHORT, "train_rows": 16, "batch": {"size": 8}}
    assert tune(make_request(origin, "classify", animals, tmp_path / "few", few))["steps"] == 2 * 16 // 8


def test_a_run_that_still_improves_says_how_to_go_on(origin: Path, animals: Path, tmp_path: Path) -> None:
    slow: SettingsTree = {"epochs": 3, "evaluation": {"times": 3}, "optimizer": {"learning_rate": 2e-3}}
    slow |= {"batch": {"size": 8, "slices": 1}}  # the luck of its dropout
    results = tune(make_request(origin, "classify", animals, tmp_path / "run", slow, log_every=1))
    assert results["improvement"]["suggested_epochs"] == 9
    assert results["notes"][-1].endswith("try --epochs 9; this was 3")
    through = tune(make_request(origin, "classify", animals, tmp_path / "through", log_every=1))
    assert through["improvement"] is None


def test_every_labelled_split_has_a_report_by_class(origin: Path, tmp_path: Path) -> None:
    write_animals(tmp_path / "data")
    rows = read_lines(tmp_path / "data/dev.jsonl")
    write_rows(tmp_path / "data/test.jsonl", rows[:6])
    results = tune(make_request(origin, "classify", tmp_path / "data", tmp_path / "run", FEW))
    assert {name: sum(map(sum, of["confusion"])) for name, of in results["reports"].items()} == {"dev": 16, "test": 6}
    assert results["report"] == results["reports"]["dev"]
    assert results["baselines"]["linear"]["scores"].keys() == {"dev", "test"}
    assert " test accuracy " in results["notes"][0]


def test_a_run_begun_before_there_was_a_floor_of_steps_goes_on(origin: Path, animals: Path, tmp_path: Path) -> None:
    """Twice: going on must not make it look like one that began later."""
    run = tmp_path / "run"
    layers = (
        ConfigLayer("command line", {"batch": {"size": 8}, "min_steps": 0, "optimizer": {"learning_rate": 1e-2}}),
    )
    tune(make_request(origin, "classify", animals, run, layers=layers))
    identity = json.loads((run / "run.json").read_text())
    del identity["settings"]["min_steps"]
    identity["settings"]["optimizer"]["layer_decay"] = 0.6  # a default that may have been another
    (run / "run.json").write_text(json.dumps(identity))
    same = (ConfigLayer("command line", {"batch": {"size": 8}, "optimizer": {"learning_rate": 1e-2}}),)
    for seeds in (2, 3):
        results = tune(make_request(origin, "classify", animals, run, layers=same, seeds=seeds))
        assert [of["seed"] for of in results["seeds"]] == list(range(seeds))
        assert results["steps"] == 24
    assert json.loads((run / "run.json").read_text()) == identity


def test_checkpoints_can_be_let_go_at_the_end(origin: Path, animals: Path, whole: Path, tmp_path: Path) -> None:
    tune(two_seeds(origin, animals, tmp_path / "run", keep=0, seeds=1))
    assert not (tmp_path / "run/seed-0/checkpoints").exists()
    assert [path.name for path in (whole / "seed-0/checkpoints").iterdir()] == ["step-16"]


def write_tsv(path: Path, *rows: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def test_a_test_split_of_glue_becomes_a_submission(origin: Path, tmp_path: Path) -> None:
    judged = [("x", "1", "", "the cat sat"), ("x", "0", "*", "cat the sat")] * 4
    write_tsv(tmp_path / "CoLA/train.tsv", *judged)
    write_tsv(tmp_path / "CoLA/dev.tsv", *judged[:2])
    write_tsv(tmp_path / "CoLA/test.tsv", ("index", "sentence"), ("0", "a cat"), ("1", "the mat"), ("2", "dog"))
    results = tune(make_request(origin, "cola", tmp_path, tmp_path / "run", FEW))
    assert results.keys() >= {"dev", "seeds"}
    assert "test" not in results
    header, *lines = (tmp_path / "run/submission/CoLA.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    assert [line.split("\t")[0] for line in lines] == ["0", "1", "2"]
    assert {line.split("\t")[1] for line in lines} <= {"0", "1"}


def test_the_ensemble_of_the_seeds_has_a_submission_of_its_own(origin: Path, tmp_path: Path) -> None:
    """On numbers, of which the mean is never just that of the best seed."""
    header, words = ("index", "sentence1", "sentence2"), ("cat", "dog", "mat", "sat")
    pairs = [(str(row), "the cat", f"a {words[row % 4]}", str(row % 4 + 0.5)) for row in range(12)]
    for name in ("train", "dev"):
        write_tsv(tmp_path / f"STS-B/{name}.tsv", (*header, "score"), *pairs)
    write_tsv(tmp_path / "STS-B/test.tsv", header, *(pair[:3] for pair in pairs[:5]))
    run, request = tmp_path / "run", make_request(origin, "stsb", tmp_path, tmp_path / "run", FEW, seeds=3)
    best_seed = tune(request)["best_seed"]
    of_seeds = [
        [row["prediction"] for row in read_lines(run / f"seed-{seed}/predictions/test.jsonl")] for seed in range(3)
    ]
    together = [sum(values) / 3 for values in zip(*of_seeds, strict=True)]
    assert read_submission(run / "submission/STS-B.tsv") == pytest.approx(of_seeds[best_seed], abs=6e-4)
    assert read_submission(run / "submission-ensemble/STS-B.tsv") == pytest.approx(together, abs=6e-4)
    assert max(map(abs, (a - b for a, b in zip(together, of_seeds[best_seed], strict=True)))) > 0.01
    # A run that was finished before there were such files gets them without being trained or summarised again.
    path, results_before = run / "submission-ensemble/STS-B.tsv", (run / "results.json").stat()
    written = path.read_bytes()
    path.unlink()
    assert not has_trained(follow(request))
    assert path.read_bytes() == written
    assert (run / "results.json").stat().st_mtime_ns == results_before.st_mtime_ns


def read_submission(path: Path) -> list[float]:
    return [float(line.split("\t")[1]) for line in path.read_text().splitlines()[1:]]


def test_a_test_file_with_a_gap_is_not_submitted_but_costs_no_results(origin: Path, tmp_path: Path) -> None:
    judged = [("x", "1", "", "the cat sat"), ("x", "0", "*", "cat the sat")] * 4
    write_tsv(tmp_path / "CoLA/train.tsv", *judged)
    write_tsv(tmp_path / "CoLA/test.tsv", ("index", "sentence"), ("0", "a cat"), ("2", "dog"))
    events = follow(make_request(origin, "cola", tmp_path, tmp_path / "run", FEW))
    (warning,) = warnings(events)
    assert "the row after 0 is 2" in warning
    assert result_of(events)["task"] == "cola"
    assert not (tmp_path / "run/submission").exists()


@pytest.mark.parametrize("has_matched", [True, False])
def test_mnli_is_scored_on_both_of_its_dev_files(origin: Path, tmp_path: Path, has_matched: bool) -> None:
    """Without the matched one some of the training rows take its place."""
    header = ("index", "sentence1", "sentence2", "gold_label")
    words = ("cat", "dog", "mat", "sat", "on")
    labels = ("neutral", "entailment", "contradiction")
    rows = [(str(i), f"the {one}", f"a {words[i % 5]}", labels[i % 3]) for i, one in enumerate(words * 3)]
    for name in ("train", *(["dev_matched"] if has_matched else []), "dev_mismatched"):
        write_tsv(tmp_path / "MNLI" / f"{name}.tsv", header, *rows)
    results = tune(make_request(origin, "mnli", tmp_path, tmp_path / "run", FEW))
    assert results.keys() >= {"dev", "dev-mm"}
    assert results["seeds"][0].keys() == {"seed", "dev", "dev-mm"}
    assert len(read_lines(tmp_path / "run/seed-0/predictions/dev-mm.jsonl")) == 15


def test_pairs_of_mrpc_are_learned_in_both_orders(origin: Path, tmp_path: Path) -> None:
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    rows = [(str(number % 2), "1", "2", f"the cat {'s ' * number}", "a dog") for number in range(8)]
    for name in ("train", "dev"):
        write_tsv(tmp_path / f"{name}.tsv", header, *rows)
    once: SettingsTree = {"epochs": 1, "batch": {"size": 2}, "double_pairs": False}
    steps = [
        tune(make_request(origin, "mrpc", tmp_path, tmp_path / name, {"epochs": 1, "batch": {"size": 2}}, change))[
            "steps"
        ]
        for name, change in (("doubled", {}), ("single", once))
    ]
    assert steps == [8, 4]


# Going on


def test_a_finished_run_is_left_as_it_is(origin: Path, animals: Path, whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.suffix in (".json", ".safetensors")}
    before.pop(whole / "environment.json")
    events = follow(two_seeds(origin, animals, whole))
    assert not has_trained(events)
    assert result_of(events).to_json() == json.loads((whole / "results.json").read_text())
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_from_before_rows_could_be_limited_goes_on(origin: Path, animals: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tune(two_seeds(origin, animals, run, seeds=1))
    stored = json.loads((run / "run.json").read_text())
    del stored["settings"]["train_rows"]
    (run / "run.json").write_text(json.dumps(stored))
    events = follow(two_seeds(origin, animals, run, seeds=1))
    assert not has_trained(events), "nothing is left to do"
    with pytest.raises(IdentityMismatch, match="train_rows was 0, now 16"):
        follow(make_request(origin, "classify", animals, run, {**SHORT, "train_rows": 16}, save_every=3))


def test_seeds_can_be_added(origin: Path, animals: Path, whole: Path, tmp_path: Path) -> None:
    tune(two_seeds(origin, animals, tmp_path / "run", seeds=1))
    events = follow(two_seeds(origin, animals, tmp_path / "run", seeds=2))
    assert notes(events, "strong") == ["seed 0 (1 of 2)", "seed 1 (2 of 2)"]
    assert sum(text.startswith("starting at step 1 ") for text in notes(events)) == 1
    assert_equal_runs(tmp_path / "run", whole)


class Impatient(StopSignal):
    """A signal that arrives when work has looked for it so many times."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self.patience = patience

    def check(self, *_: object) -> None:
        self.patience -= 1
        if self.patience < 0:
            self.number = signal.SIGTERM
        super().check()


def test_a_run_stopped_again_and_again_ends_as_one_that_was_not(
    origin: Path, animals: Path, whole: Path, tmp_path: Path
) -> None:
    sittings = 0
    while not (tmp_path / "run/results.json").exists():
        sittings += 1
        try:
            list(finetune(two_seeds(origin, animals, tmp_path / "run"), Impatient(400 + 37 * sittings)))
        except Stopped as stopped:
            assert stopped.status == 143  # noqa: PT017
    assert sittings > 3
    assert_equal_runs(tmp_path / "run", whole)


def test_any_number_of_workers_ends_with_the_same_bits_and_goes_on_with_another(
    origin: Path, animals: Path, whole: Path, tmp_path: Path
) -> None:
    assert json.loads((whole / "run.json").read_text())["settings"]["batch"]["slices"] == 4
    with pytest.raises(Stopped):
        list(finetune(two_seeds(origin, animals, tmp_path / "run", workers=2), Impatient(300)))
    tune(two_seeds(origin, animals, tmp_path / "run", workers=3))
    assert_equal_runs(tmp_path / "run", whole)


def test_a_run_begun_before_there_were_slices_goes_on_uncut(origin: Path, animals: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    uncut = {**SHORT, "batch": {"size": 8, "slices": 1}}
    tune(make_request(origin, "classify", animals, run, uncut, seeds=1))
    stored = json.loads((run / "run.json").read_text())
    del stored["settings"]["batch"]["slices"]
    (run / "run.json").write_text(json.dumps(stored))
    tune(two_seeds(origin, animals, run))
    tune(make_request(origin, "classify", animals, tmp_path / "both", uncut, seeds=2))
    assert_equal_runs(run, tmp_path / "both")


@pytest.mark.parametrize("calls", [2, 5, 7])
def test_a_stop_inside_judging_loses_neither_step_nor_record(
    origin: Path, animals: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """The second judging along the way; the last one, of the finished seed; the first of the second seed."""
    stop = StopSignal()
    made: list[int] = []

    def judge(
        network: TaskModel, features: Sequence[Feature], pad_id: int, size: int, _: StopSignal, workers: int
    ) -> list[RowLogits]:
        made.append(1)
        if len(made) == calls:
            stop.number = signal.SIGTERM
        return predict_logits(network, features, pad_id, size, stop, workers)

    monkeypatch.setattr(stage, "predict_logits", judge)
    with pytest.raises(Stopped):
        list(finetune(two_seeds(origin, animals, tmp_path / "run"), stop))
    assert len(made) == calls
    monkeypatch.setattr(stage, "predict_logits", predict_logits)
    tune(two_seeds(origin, animals, tmp_path / "run"))
    assert_equal_runs(tmp_path / "run", whole)


def assert_equal_runs(one: Path, other: Path) -> None:
    """But for what tells the time: weights, optimizer, logs, predictions and scores."""
    for seed in ("seed-0", "seed-1"):
        assert log_of(one / seed) == log_of(other / seed)
        for name in ("model.safetensors", "optimizer.safetensors"):
            paths = [run / seed / "checkpoints/step-16" / name for run in (one, other)]
            assert paths[0].read_bytes() == paths[1].read_bytes()
        for name in ("model/model.safetensors", "model/config.json", "model/task.json", "predictions/dev.jsonl"):
            assert (one / seed / name).read_bytes() == (other / seed / name).read_bytes()
    first, second = (json.loads((run / "results.json").read_text()) for run in (one, other))
    assert first | {"seconds": 0} == second | {"seconds": 0}


def log_of(folder: Path) -> list[dict[str, Any]]:
    lines = read_lines(folder / "metrics.jsonl")
    return [{key: value for key, value in line.items() if key not in TIMING} for line in lines]


def refusal(request: FinetuneRequest) -> ElectraError:
    with pytest.raises(ElectraError) as caught:
        follow(request)
    assert "\n" not in str(caught.value)
    return caught.value


def test_going_on_as_another_run_is_refused(origin: Path, animals: Path, whole: Path, tmp_path: Path) -> None:
    other_model = save_origin(tmp_path / "model", dropout=0.2, hidden_size=16)
    other_data = write_animals(tmp_path / "data", seed=9)
    for request, reason in (
        (make_request(origin, "classify", animals, whole), "epochs was 2.0, now 12.0"),
        (two_seeds(origin, other_data, whole), "began with another data"),
        (two_seeds(other_model, animals, whole), "began with another model"),
        (make_request(origin, "pair", animals, whole, {"data": {"text_a": "text", "text_b": "text"}}), "was a run of"),
        (two_seeds(origin, animals, whole, threads=2), "ran with --threads 1, now 2"),
        (two_seeds(origin, animals, whole, init_from=whole), "began with another model"),
    ):
        error = refusal(request)
        assert isinstance(error, IdentityMismatch), error
        assert str(error).startswith(f"{whole}: ")
        assert reason in str(error)


def test_what_cannot_be_run_is_refused_before_anything_is_written(origin: Path, animals: Path, tmp_path: Path) -> None:
    assert "has no training rows" in str(refusal(make_request(origin, "ax", animals, tmp_path / "run")))
    foreign = refusal(make_request(origin, "classify", animals, origin))
    assert isinstance(foreign, UsageError)
    assert "holds a model, not a fine-tuning run" in str(foreign)
    assert not (tmp_path / "run").exists()
    doubled = make_request(origin, "classify", animals, tmp_path / "run", {"double_pairs": True})
    assert "has no pairs of texts" in str(refusal(doubled))
    (tmp_path / "seed-0").mkdir()
    assert "has seeds but no run.json" in str(refusal(make_request(origin, "classify", animals, tmp_path)))


# What reaches the parts


def test_lower_layers_learn_slower(
    origin: Path, animals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors: dict[str, float] = {}

    def spy(groups: list[ParameterGroup], config: OptimizerConfig) -> Optimizer:
        factors.update((name, group.rate_factor) for group in groups for name, _ in group.parameters)
        assert {group.weight_decay for group in groups} == {0.0}
        return Optimizer(groups, config)

    monkeypatch.setattr("electralab.finetuning.task.Optimizer", spy)
    tune(make_request(origin, "classify", animals, tmp_path / "run", FEW, {"optimizer": {"layer_decay": 0.5}}))
    assert factors["head.output.weight"] == 1.0
    assert {factor for name, factor in factors.items() if ".layers.0." in name} == {0.5}
    assert factors["encoder.embeddings.tokens.weight"] == 0.25


def test_along_the_way_a_part_of_the_dev_rows_is_scored_and_at_the_end_all(
    origin: Path, animals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[int] = []

    def count(network: TaskModel, features: Sequence[Feature], *rest: Any) -> list[RowLogits]:
        judged.append(len(features))
        return predict_logits(network, features, *rest)

    monkeypatch.setattr(stage, "predict_logits", count)
    tune(make_request(origin, "classify", animals, tmp_path / "run", {"steps": 4, "evaluation": {"rows": 5}}))
    assert judged == [5, 5, 16]


def test_every_seed_is_told_from_start_to_end(origin: Path, animals: Path, tmp_path: Path) -> None:
    events = follow(make_request(origin, "classify", animals, tmp_path / "run", FEW, {"seed": 7}, seeds=2))
    told = [text[:7] for text in notes(events) if text.startswith("seed ")]
    assert told == ["seed 7 ", "seed 7:", "seed 8 ", "seed 8:"]
    assert sorted(path.name for path in (tmp_path / "run").glob("seed-*")) == ["seed-7", "seed-8"]


def test_what_was_read_from_where_is_told_before_anything_is_tuned(origin: Path, tmp_path: Path) -> None:
    """Bad rows too, and texts that do not fit."""
    rows = ["review,[stars]", "the cat,yes", "a dog,no", *["the cat sat,yes", "the dog,no"] * 30]
    long = "cat " * 90
    (tmp_path / "train.csv").write_text("\n".join([*rows, f"{long},yes", "the mat,"]) + "\n")
    (tmp_path / "dev.csv").write_text("\n".join(rows[:3]) + "\n")
    (tmp_path / "test.csv").write_text("review\nthe cat\n")
    columns: SettingsTree = {"data": {"text": "review", "label": "[stars]"}}
    events = follow(make_request(origin, "classify", tmp_path, tmp_path / "run", FEW, columns))
    told = notes(events)
    place = next(place for place, text in enumerate(told) if text.startswith("train: "))
    assert told[place : place + 6] == [
        "train: 63 examples (text from 'review', label from '[stars]')",
        f"warning: {tmp_path / 'train.csv'}: 1 of 64 rows are bad",
        told[place + 2],
        "         1 of them are long and are cut to fit a row (64)",
        "dev: 2 examples (text from 'review', label from '[stars]')",
        "test: 1 examples, no labels (text from 'review')",
    ]
    assert told[place + 2].startswith("         row 65: ")


@pytest.mark.parametrize(
    ("bad", "rest"), [(1, []), (5, []), (6, ["         and 1 more"]), (2005, ["         and 2,000 more"])]
)
def test_the_first_five_bad_rows_are_told_and_the_others_counted(bad: int, rest: list[str]) -> None:
    bad_rows = tuple(BadRow(row + 2, f"reason {row} [red]") for row in range(bad))
    split: Split[Example] = Split("train", "train.csv", [], True, {}, 2 + bad, bad_rows)
    told = [f"         row {row + 2}: reason {row} [red]" for row in range(min(bad, 5))]
    assert format_bad_rows(split) == [f"warning: train.csv: {bad:,} of {bad + 2:,} rows are bad", *told, *rest]
    assert format_bad_rows(Split("train", "train.csv", [], True, {}, 2, ())) == []


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if its file lay beside the others."""
    monkeypatch.setitem(KINDS, KIND.name, KIND)
    for task in KIND.own_tasks():
        monkeypatch.setitem(TASKS, task.name, task)


def test_every_file_of_the_folder_is_a_kind() -> None:
    files = {path.stem for path in Path(kinds.__file__).parent.glob("*.py")} - {"__init__"}
    assert {type(kind).__module__.rpartition(".")[2] for kind in KINDS.values()} == files
    assert all(kind.own_tasks() for kind in KINDS.values())


@pytest.mark.usefixtures("_known")
def test_a_kind_in_one_file_is_tuned_and_predicts(tmp_path: Path) -> None:
    rng = random.Random(0)
    for split, count in (("train", 192), ("dev", 18)):
        words = [("cat",), ("dog",), ("cat", "dog")] * (count // 3)
        rows = [{"text": " ".join(fill(rng, word) for word in chosen), "topics": list(chosen)} for chosen in words]
        write_rows(tmp_path / "data" / f"{split}.jsonl", rows)
    request = make_request(
        save_origin(tmp_path / "model"), "topics", tmp_path / "data", tmp_path / "run", {"epochs": 20}, seeds=2
    )
    assert tune(request)["dev"] == {"exact": 1.0}
    assert TunedResults.read(tmp_path / "run").notes == ("no baseline: nothing simple does topics of a text",)
    predicted = read_lines(tmp_path / "run/seed-0/predictions/dev.jsonl")
    assert all(row["prediction"] == row["truth"] for row in predicted)
    answers = electralab.load(tmp_path / "run").predict(["the cat", {"text": "a dog and a cat"}, "dog"])
    assert [row["prediction"] for row in answers] == [("cat",), ("cat", "dog"), ("dog",)]
    # What the server says of its models names the kind too.
    assert electralab.load(tmp_path / "run").describe("run").task == "topics"
    assert "topics" in (tmp_path / "run" / "README.md").read_text()
