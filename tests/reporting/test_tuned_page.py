"""The page of a tuned run, read from what the fine-tuning stage really wrote."""

import json
import random
import re
from pathlib import Path

import pytest
from little_tasks import fill, make_request, read_lines, save_origin, tune, write_animals, write_rows

from electralab.config import SettingsTree
from electralab.finetuning import stage
from electralab.records.tuned import ClassReport, ClassScores, TunedResults
from electralab.reporting.artifact import Artifact, read_artifact
from electralab.reporting.page import compose_page, compose_update, write_report
from electralab.reporting.run_pages import majority_share, read_mistakes

# Too few steps to learn it all, so that there are mistakes to show.
FEW: SettingsTree = {"steps": 3, "evaluation": {"times": 3}, "optimizer": {"learning_rate": 1e-4}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each kind of task tuned a little: classes with a labelled test and two seeds, numbers, tags, questions."""
    folder = tmp_path_factory.mktemp("runs")
    origin = save_origin(folder / "model")
    rng = random.Random(5)
    write_animals(folder / "animals")
    write_rows(folder / "animals/test.jsonl", [{"text": fill(rng, "cat <b>"), "label": "yes"}] * 9)
    words = [("cat", 4.5), ("dog", 1.5)] * 8
    for split in ("train", "dev"):
        rows = [{"text": fill(rng, word), "score": score + rng.random()} for word, score in words]
        write_rows(folder / f"numbers/{split}.jsonl", rows)
        tagged = [{"words": ["the", word, "sat"], "tags": ["O", f"B-{word.upper()}", "O"]} for word, _ in words]
        write_rows(folder / f"tags/{split}.jsonl", tagged)
        asked = [
            {"question": "who sat", "context": f"the {word} sat", "answers": {"text": [word], "answer_start": [4]}}
            for word, _ in words
        ]
        write_rows(folder / f"questions/{split}.jsonl", asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "plot_learning_curve", lambda out, *_: (out / "learning-curve.png").write_bytes(b"-"))
        for task, data, seeds in (
            ("classify", "animals", 2),
            ("regress", "numbers", 1),
            ("label", "tags", 1),
            ("qa", "questions", 1),
        ):
            tune(make_request(origin, task, folder / data, folder / task, FEW, seeds=seeds, log_every=1))
    return folder


def page_of(run: Path) -> str:
    artifact = read_artifact(run)
    assert artifact.troubles == ()
    return compose_page([artifact])


def section_of(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    return found.group() if found else ""


def points(score: float) -> str:
    return f"{100 * score:.1f}"


def test_the_score_stands_beside_its_baselines_and_that_of_a_labelled_test_first(runs: Path) -> None:
    results = json.loads((runs / "classify/results.json").read_text())
    page = page_of(runs / "classify")
    tiles = re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd><dd>([^<]*)</dd>", section_of(page, "summary"))
    linear = results["baselines"]["linear"]["scores"]
    assert tiles[:4] == [
        ("accuracy, test", points(results["test"]["accuracy"]), "median of 2 seeds"),
        ("commonest answer", points(results["baselines"]["commonest"]["scores"]["test"]["accuracy"]), "a baseline"),
        ("linear model", points(linear["test"]["accuracy"]), "a baseline"),
        ("accuracy, dev", points(results["dev"]["accuracy"]), "median of 2 seeds"),
    ]
    assert results["notes"][0][1:] in section_of(page, "summary").replace("&#39;", "'")
    scores = section_of(page, "scores")
    row = re.search(r'<th scope="row">dev accuracy</th>(.*?)</tr>', scores)
    assert row is not None
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", row.group(1))
    spread = results["spread"]["dev"]["accuracy"]
    assert [cells[0], *cells[3:6]] == [points(spread[name]) for name in ("median", "mean", "sd", "best")]
    assert cells[2] == points(linear["dev"]["accuracy"])
    assert cells[6] == points(results["ensemble"]["accuracy"])


def test_classes_are_those_of_the_labelled_test(runs: Path) -> None:
    scores = section_of(page_of(runs / "classify"), "scores")
    assert "By class, test set" in scores
    assert "What was taken for what, test set" in scores
    assert "9</td></tr>" in scores  # all nine examples of the test are of one class
    assert "dev set" not in scores


def test_the_surest_mistakes_come_first_with_text_gold_and_probability(runs: Path) -> None:
    results = json.loads((runs / "classify/results.json").read_text())
    rows = read_lines(runs / f"classify/seed-{results['best_seed']}/predictions/test.jsonl")
    wrong = [row for row in rows if row["truth"] != row["prediction"]]
    found = read_mistakes(runs / f"classify/seed-{results['best_seed']}/predictions/test.jsonl", "test")
    assert found is not None
    assert (found.split, found.count, found.wrong) == ("test", len(rows), len(wrong))
    surest = [max(prob or 0.0 for prob in row["probabilities"].values()) for row in found.worst]
    assert surest == sorted(surest, reverse=True)
    shown = section_of(page_of(runs / "classify"), "mistakes")
    if wrong:
        assert '<th scope="col">gold</th>' in shown
        assert "cat &lt;b&gt;" in shown
    else:
        assert "All 9 examples of the test set are right." in shown


def test_what_training_looked_like_inside_comes_last(runs: Path) -> None:
    page = page_of(runs / "classify")
    order = re.findall(r'<section id="(\w+)"', page)
    assert order[:4] == ["summary", "scores", "mistakes", "learning"]
    assert order.index("compute") < order.index("balance") < order.index("pace") < order.index("environment")
    charts = re.findall(r'data-chart="([^"]*)"', page)
    assert charts[0] == "key-dev_accuracy"
    assert "linear model</li>" in page  # the dashed line in the chart of the dev score


def test_numbers_are_drawn_against_the_truth_and_the_largest_errors_listed(runs: Path) -> None:
    page = page_of(runs / "regress")
    assert "Spearman correlation, dev" in section_of(page, "summary")
    shown = section_of(page, "mistakes")
    assert shown.count("<circle") == 16
    assert "the largest errors first" in shown


def test_wrong_tags_are_marked_in_their_sentences(runs: Path) -> None:
    page = page_of(runs / "label")
    assert "F1, dev" in section_of(page, "summary")
    shown = section_of(page, "mistakes")
    rows = read_lines(runs / "label/seed-0/predictions/dev.jsonl")
    wrong = sum(row["truth"] != row["prediction"] for row in rows)
    assert f"{wrong} of 16 examples of the dev set are wrong" in shown
    assert shown.count('class="put"') >= min(wrong, 12)


def test_questions_are_shown_with_the_answer_and_without_a_baseline(runs: Path) -> None:
    page = page_of(runs / "qa")
    assert "No baseline: nothing simple does question answering." in section_of(page, "summary")
    shown = section_of(page, "mistakes")
    assert "who sat" in shown or "All 16 examples" in shown


def test_tuned_runs_are_compared_split_by_split(runs: Path, tmp_path: Path) -> None:
    written = write_report([runs / "classify", runs / "classify", runs / "label"], tmp_path / "page.html")
    assert [subject.kind for subject in written.subjects] == ["fine-tuning run"] * 3
    page = (tmp_path / "page.html").read_text()
    assert '<th scope="row">accuracy (dev, median)</th>' in page
    assert '<th scope="row">accuracy (test, median)</th>' in page


def test_one_seed_has_no_spread(runs: Path) -> None:
    scores = section_of(page_of(runs / "regress"), "scores")
    assert "regress, one seed, in points" in scores
    assert ">s.d.<" not in scores


def test_a_run_in_its_first_steps_says_when_scores_come(runs: Path) -> None:
    going = read_artifact(runs / "classify")
    empty = Artifact("fine-tuning run", "going", runs, logs=going.logs)
    assert "They are written when the last seed is finished." in compose_page([empty])
    sections = compose_update([going], lambda _: ())["sections"]
    assert isinstance(sections, dict)
    assert "mistakes" in sections


def test_a_prediction_of_another_shape_is_left_out(tmp_path: Path) -> None:
    rows = ['{"truth": "a", "prediction": "b"}', "[1]", "{", '{"truth": 1, "prediction": "x"}', '{"prediction": "b"}']
    (tmp_path / "dev.jsonl").write_text("\n".join(rows))
    mistakes = read_mistakes(tmp_path / "dev.jsonl", "dev")
    assert mistakes is not None
    assert (mistakes.count, mistakes.wrong) == (1, 1)
    assert read_mistakes(tmp_path / "none.jsonl", "dev") is None


def test_the_most_frequent_class_is_the_baseline_of_a_classifier(runs: Path) -> None:
    results = TunedResults.read(runs / "classify")
    scores = {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    classes = tuple(ClassScores(name=name, support=count, **scores) for name, count in (("a", 30), ("b", 10)))
    report = ClassReport(classes=classes, confusion=((30, 0), (10, 0)))
    assert majority_share(results.model_copy(update={"report": report, "reports": {}})) == 0.75
    tags = ClassReport(classes=classes)
    assert majority_share(results.model_copy(update={"report": tags, "reports": {}})) is None
