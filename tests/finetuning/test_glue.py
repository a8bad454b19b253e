"""GLUE as a whole: which tasks are run, what the table says of them, and that the same command again goes on."""

import json
import math
import random
import signal
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from little_tasks import fill, make_request, read_lines, save_origin
from sklearn.metrics import matthews_corrcoef
from watching_events import notes, result_of, step_records, warnings

from electralab.config import SettingsTree
from electralab.display import Display
from electralab.errors import InputError, Stopped, UsageError
from electralab.events import Event, Note
from electralab.finetuning import stage
from electralab.finetuning.glue import PAPER, choose_tasks, run_suite, tabulate
from electralab.finetuning.results import spread_scores
from electralab.inspection import view
from electralab.records.tuned import ClassReport, GlueResults, SeedScores, TunedResults
from electralab.reporting.run_pages import tuned_score_table
from electralab.stopping import StopSignal
from electralab.tasks.catalog import GLUE

TAB = "\t"
BRIEF: SettingsTree = {"epochs": 0.5, "evaluation": {"times": 1}}


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        stage, "plot_learning_curve", lambda out, *_: (out / "learning-curve.png").write_bytes(b"drawn")
    )


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_origin(tmp_path_factory.mktemp("origin") / "model")


def write_cola(glue: Path) -> None:
    rng = random.Random(1)
    for split in ("train", "dev"):
        lines = [f"src\t{row % 2}\t\t{fill(rng, ('cat', 'dog')[row % 2])}" for row in range(16)]
        write(glue / "CoLA" / f"{split}.tsv", lines)


def write_pairs(folder: Path, splits: Sequence[str], column: str, labels: Sequence[str], rows: int) -> None:
    words = ("cat", "dog", "mat")[: len(labels)]
    pairs = zip(words * rows, list(labels) * rows, range(rows), strict=False)
    lines = [f"{row}\tthe cat\tthe {word}\t{label}" for word, label, row in pairs]
    for split in splits:
        write(folder / f"{split}.tsv", [f"index\tsentence1\tsentence2\t{column}", *lines])


def write_rte(glue: Path) -> None:
    write_pairs(glue / "RTE", ("train", "dev"), "label", ("entailment", "not_entailment"), 16)


def write_mnli(glue: Path) -> None:
    labels = ("contradiction", "entailment", "neutral")
    write_pairs(glue / "MNLI", ("train", "dev_matched", "dev_mismatched"), "gold_label", labels, 12)


def write_diagnostic(glue: Path, ids: tuple[int, ...] = (0, 1, 2)) -> None:
    lines = [f"{row}\tthe cat\tthe dog sat" for row in ids]
    write(glue / "diagnostic" / "diagnostic.tsv", ["index\tsentence1\tsentence2", *lines])


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def play(origin: Path, glue: Path, run: Path, *tasks: str, **changes: Any) -> list[Event[GlueResults]]:
    request = make_request(origin, "cola", glue, run, BRIEF, **({"keep": 0} | changes))
    return list(run_suite(request, choose_tasks(glue, tasks), StopSignal()))


def names_of(tasks: list[Any]) -> list[str]:
    return [task.name for task in tasks]


# Which tasks


def test_every_task_whose_files_are_there_is_chosen_in_the_order_of_glue(tmp_path: Path) -> None:
    for folder in ("RTE", "SST-2", "sts-b", "CoLA", "something", "WNLI", "AX"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.tsv").write_text("")
    (tmp_path / "QQP").mkdir()
    assert names_of(choose_tasks(tmp_path, ())) == ["cola", "sst2", "stsb", "rte"]


def test_tasks_with_different_seeds_are_averaged_over_those_they_share() -> None:
    table = tabulate({"rte": of_task("accuracy", 0.5, 0.7, 0.1), "qnli": of_task("accuracy", 0.6, 0.9)}, {})
    assert table.average.mean == pytest.approx((0.55 + 0.8) / 2)


def test_tasks_asked_for_are_taken_in_that_order_and_once(tmp_path: Path) -> None:
    write_cola(tmp_path)
    write_rte(tmp_path)
    assert names_of(choose_tasks(tmp_path, ("rte", "CoLA", "RTE"))) == ["rte", "cola"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("cola", "rtee"), "no task named 'rtee'; did you mean 'rte'?"),
        (("cola", "nope"), "no task named 'nope'; known are cola, "),
        (("cola", "squad1"), "squad1 is not a task of GLUE; choose among cola, sst2"),
        (("ax",), "ax is not a task of GLUE"),
    ],
)
def test_a_task_that_is_none_of_glue_is_refused(tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    write_cola(tmp_path)
    with pytest.raises(UsageError) as caught:
        choose_tasks(tmp_path, names)
    assert words in str(caught.value)


def test_a_task_without_files_and_a_folder_without_tasks_are_refused(tmp_path: Path) -> None:
    write_cola(tmp_path)
    with pytest.raises(InputError, match="has no train file of RTE"):
        choose_tasks(tmp_path, ("cola", "rte"))
    with pytest.raises(InputError, match="holds none of GLUE's tasks"):
        choose_tasks(tmp_path / "CoLA", ())
    for place in (tmp_path / "nowhere", tmp_path / "CoLA" / "train.tsv"):
        with pytest.raises(InputError, match="no such folder; give the one with CoLA"):
            choose_tasks(place, ("cola",))


# The table


def of_task(metric: str, *scores: float) -> TunedResults:
    """A task's results, as far as the table reads them."""
    return TunedResults(
        task="x",
        metric=metric,
        spread={"dev": spread_scores([{metric: score, "other": 9.0} for score in scores])},
        best_seed=0,
        report=ClassReport(),
        seeds=tuple(SeedScores(seed=seed, scores={"dev": {metric: score}}) for seed, score in enumerate(scores)),
        steps=1,
        tokens_per_seed=1,
        seconds=1.0,
    )


def test_the_average_is_of_medians_and_its_spread_of_what_each_seed_averages() -> None:
    table = tabulate({"cola": of_task("mcc", 0.1, 0.5, 0.3), "rte": of_task("accuracy", 0.5, 0.7, 0.9)}, {})
    assert table.suite == "glue"
    cola, average = table.tasks["cola"], table.average
    assert (cola.metric, cola.n, cola.median, cola.best) == ("mcc", 3, 0.3, 0.5)
    assert average.median == pytest.approx((0.3 + 0.7) / 2)
    # Seed by seed 0.3, 0.6 and 0.6: mean 0.5, squares of the differences 0.04 + 0.01 + 0.01 over 2.
    assert average.mean == pytest.approx(0.5)
    assert average.sd == pytest.approx(math.sqrt(0.03))
    assert average.paper == pytest.approx((0.568 + 0.685) / 2)
    assert table.paper == {"cola": 0.568, "rte": 0.685}


def test_wnli_is_shown_and_not_averaged() -> None:
    table = tabulate({"rte": of_task("accuracy", 0.6), "wnli": of_task("accuracy", 0.1)}, {})
    assert table.tasks["wnli"].median == 0.1
    assert table.average.to_json() == {"median": 0.6, "mean": 0.6, "sd": 0.0, "n": 1, "paper": 0.685}
    assert table.paper["wnli"] is None
    alone: dict[str, Any] = tabulate({"wnli": of_task("accuracy", 0.1)}, {}).to_json()
    assert set(alone["average"].values()) == {None}
    json.dumps(alone, allow_nan=False)


def test_the_papers_numbers_are_those_of_all_tasks_that_are_averaged() -> None:
    assert [*PAPER, "wnli"] == list(GLUE)
    assert all(0.5 < score < 0.9 for score in PAPER.values())


# A suite, run


def test_tasks_run_one_after_the_other_and_again_train_nothing(origin: Path, tmp_path: Path) -> None:
    write_cola(tmp_path / "glue")
    write_rte(tmp_path / "glue")
    events = play(origin, tmp_path / "glue", tmp_path / "run", seeds=2)
    assert notes(events, "heading") == ["CoLA (1 of 2)", "RTE (2 of 2)"]
    medians = [text for text in notes(events, "good") if ": median " in text]
    assert [text.partition(":")[0] for text in medians] == ["CoLA", "RTE"]
    results = result_of(events).to_json()
    assert list(results["tasks"]) == ["cola", "rte"]
    assert results["tasks"]["cola"].keys() == {"metric", "n", "median", "mean", "sd", "best"}
    assert results == json.loads((tmp_path / "run" / "results.json").read_text())
    assert view(tmp_path / "run")["results"].to_json() == results
    assert not list((tmp_path / "run").rglob("checkpoints/*"))
    assert "submissions" not in results, "without test files there is nothing to pack"
    assert not list((tmp_path / "run").glob("*.zip"))
    again = play(origin, tmp_path / "glue", tmp_path / "run", seeds=2)
    assert not step_records(again)
    assert len([text for text in notes(again, "good") if text.startswith("seed ")]) == 4
    assert result_of(again).to_json() == results


def test_a_stop_costs_only_the_task_it_falls_into(origin: Path, tmp_path: Path) -> None:
    write_cola(tmp_path / "glue")
    write_rte(tmp_path / "glue")
    stop = StopSignal()
    request = make_request(origin, "cola", tmp_path / "glue", tmp_path / "run", BRIEF)

    def stop_in_the_second_task() -> None:
        for event in run_suite(request, choose_tasks(tmp_path / "glue", ()), stop):
            if isinstance(event, Note) and event.text == "RTE (2 of 2)":
                stop.number = signal.SIGTERM

    with pytest.raises(Stopped):
        stop_in_the_second_task()
    assert list(json.loads((tmp_path / "run" / "results.json").read_text())["tasks"]) == ["cola"]
    again = play(origin, tmp_path / "glue", tmp_path / "run", keep=1)
    of_cola = again[: again.index(Note("RTE (2 of 2)", "heading"))]
    assert not step_records(of_cola)
    assert list(result_of(again).to_json()["tasks"]) == ["cola", "rte"]


def test_a_model_of_mnli_answers_the_diagnostic_rows(origin: Path, tmp_path: Path) -> None:
    write_mnli(tmp_path / "glue")
    write_diagnostic(tmp_path / "glue")
    events = play(origin, tmp_path / "glue", tmp_path / "run")
    assert not warnings(events)
    rows = read_lines(tmp_path / "run/mnli/predictions/diagnostic.jsonl")
    assert [row["texts"] for row in rows] == [["the cat", "the dog sat"]] * 3
    lines = (tmp_path / "run/mnli/submission/AX.tsv").read_text().splitlines()
    assert lines == ["index\tprediction", *(f"{place}\t{row['prediction']}" for place, row in enumerate(rows))]
    # Without labels they have no scores.
    assert "diagnostics" not in result_of(events)
    assert "ax" not in json.loads((tmp_path / "run/mnli/results.json").read_text())["spread"]
    # A gap cannot be submitted, and must not cost the table.
    write_diagnostic(tmp_path / "glue", ids=(0, 1, 3))
    again = play(origin, tmp_path / "glue", tmp_path / "other")
    assert list(result_of(again).to_json()["tasks"]) == ["mnli"]
    (warning,) = warnings(again)
    assert "the row after 1 is 3" in warning


def test_submissions_are_packed_as_the_server_takes_them(origin: Path, tmp_path: Path) -> None:
    glue = tmp_path / "glue"
    write_rte(glue)
    write(glue / "RTE/test.tsv", ["index\tsentence1\tsentence2", *(f"{row}\tthe cat\ta mat" for row in range(3))])
    write_mnli(glue)
    write_diagnostic(glue)
    for run in ("run", "again"):
        table = result_of(play(origin, glue, tmp_path / run, seeds=2)).to_json()
    absent = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "WNLI")
    missing = [f"{name}.tsv" for name in absent]
    for name, folder in (("best_seed", "submission"), ("ensemble", "submission-ensemble")):
        packed = table["submissions"][name]
        assert packed == {"file": f"submission-{name.replace('_', '-')}.zip", "holds": ["RTE.tsv", "AX.tsv"]} | {
            "missing": missing
        }
        with zipfile.ZipFile(tmp_path / "run" / packed["file"]) as archive:
            assert archive.namelist() == ["RTE.tsv", "AX.tsv"]
            for file, task in (("RTE.tsv", "rte"), ("AX.tsv", "mnli")):
                assert archive.read(file) == (tmp_path / "run" / task / folder / file).read_bytes()
        written = [(tmp_path / run / packed["file"]).read_bytes() for run in ("run", "again")]
        assert written[0] == written[1], "the time of writing must not show"


DIAGNOSED = ("entailment", "entailment", "neutral", "contradiction", "neutral")


def score_by_hand(truth: Sequence[str], said: Sequence[str]) -> dict[str, float]:
    hits = sum(map(str.__eq__, truth, said))
    return {"mcc": float(matthews_corrcoef(truth, said)), "accuracy": hits / len(truth)}


@pytest.mark.parametrize("is_full", [False, True])
def test_labelled_diagnostic_rows_are_scored_with_the_model_of_mnli(
    origin: Path, tmp_path: Path, is_full: bool
) -> None:
    """The labels stand in the file itself or, under the names of the paper's authors, in one beside it."""
    glue = tmp_path / "glue"
    write_mnli(glue)
    words = ("cat", "dog", "mat", "sat", "on")
    rows = [f"the cat\tthe {word}\t{label}" for word, label in zip(words, DIAGNOSED, strict=True)]
    if is_full:
        plain = [f"{place}\t{row.rpartition(TAB)[0]}" for place, row in enumerate(rows)]
        write(glue / "diagnostic/diagnostic.tsv", ["index\tsentence1\tsentence2", *plain])
        tagged = [f"Quantifiers\t\t{row}" for row in rows]
        write(glue / "diagnostic/diagnostic-full.tsv", ["Logic\tDomain\tPremise\tHypothesis\tLabel", *tagged])
    else:
        indexed = [f"{place}\t{row}" for place, row in enumerate(rows)]
        write(glue / "diagnostic/diagnostic.tsv", ["index\tsentence1\tsentence2\tlabel", *indexed])
    events = play(origin, glue, tmp_path / "run", seeds=2)
    assert not warnings(events)
    results = json.loads((tmp_path / "run/mnli/results.json").read_text())
    by_seed = [of_seed["ax"] for of_seed in results["seeds"]]
    said = [row["prediction"] for row in read_lines(tmp_path / "run/mnli/predictions/diagnostic.jsonl")]
    assert by_seed[results["best_seed"]] == pytest.approx(score_by_hand(DIAGNOSED, said))
    for metric in ("mcc", "accuracy"):
        assert results["spread"]["ax"][metric]["best"] == max(scores[metric] for scores in by_seed)
        assert results["ax"][metric] == pytest.approx((by_seed[0][metric] + by_seed[1][metric]) / 2)
    table_rows = tuned_score_table(TunedResults.model_validate(results), in_points=False).rows
    assert [row[0] for row in table_rows if str(row[0]).startswith("ax")] == ["ax mcc", "ax accuracy"]
    table = result_of(events).to_json()
    assert table["diagnostics"] == {"ax": {"metric": "mcc", **results["spread"]["ax"]["mcc"]}}
    assert list(table["tasks"]) == ["mnli"], "it is trained on nothing and averaged nowhere"


@pytest.mark.parametrize("name", ["config.json", "run.json", "study.toml"])
def test_a_folder_of_something_else_is_not_written_into(origin: Path, tmp_path: Path, name: str) -> None:
    write_cola(tmp_path / "glue")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text("{}")
    with pytest.raises(UsageError, match="choose another --out"):
        play(origin, tmp_path / "glue", tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [name]


def test_a_pipe_is_told_of_every_task_and_seed(
    origin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_cola(tmp_path / "glue")
    request = make_request(origin, "cola", tmp_path / "glue", tmp_path / "run", BRIEF, seeds=2)
    results = Display().follow(run_suite(request, choose_tasks(tmp_path / "glue", ()), StopSignal()))
    assert list(results["tasks"]) == ["cola"]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "CoLA (1 of 1)"
    assert "train: 16 examples (text from 'sentence', label from 'label')" in lines
    assert "seed 1 (2 of 2)" in lines
    assert len([line for line in lines if line.startswith("seed 1: dev mcc ")]) == 1
