"""What a person sees: colours, curves, plain lines in a pipe, and tables that show names as they are."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from electralab.display import (
    Display,
    colour_tokens,
    evaluation_table,
    glue_table,
    scores_table,
    sparkline,
    suspicion,
)
from electralab.evaluation.outcome import Evaluation, Progress
from electralab.finetuning.examples import BadRow, Split, TextExample
from electralab.finetuning.predicting import Chunk
from electralab.finetuning.reading import TaskData
from electralab.finetuning.stage import DataRead, SeedFinished, SeedStarted, TuneEvent
from electralab.finetuning.tasks import find_task
from electralab.training.session import RunFinished, RunStarted, Saved, StepLogged, Warned


def test_suspicion_rises_from_green_to_red() -> None:
    assert [suspicion(p) for p in (0.1, 0.25, 0.4, 0.9)] == ["green", "yellow", "bold red", "bold white on red"]


def test_each_token_has_its_colour_and_the_text_stays_as_it_is() -> None:
    tokens = [
        {"text": "an", "start": 0, "end": 2, "p_replaced": 0.05},
        {"text": "elephant", "start": 3, "end": 11, "p_replaced": 0.8},
    ]
    coloured = colour_tokens({"text": "an elephant", "tokens": tokens})
    assert coloured.plain == "an elephant"
    assert [(span.start, span.end, str(span.style)) for span in coloured.spans] == [
        (0, 2, "green"),
        (3, 11, "bold white on red"),
    ]


def test_a_sparkline_falls_as_its_values_fall() -> None:
    assert sparkline([8, 7, 6, 5, 4, 3, 2, 1]) == "█▇▆▅▄▃▂▁"


def test_a_flat_curve_is_a_flat_line() -> None:
    assert sparkline([3.0, 3.0, 3.0]) == "▁▁▁"


# Lines in a pipe


def make_split(name: str, bad: int = 0) -> Split:
    bad_rows = tuple(BadRow(row + 2, f"reason {row} [red]") for row in range(bad))
    columns = {"text": "review", "label": "[stars]"}
    examples = [TextExample("1", ("good",), "yes"), TextExample("2", ("bad",), "no")]
    return Split(name, f"{name}.csv", examples, name != "test", columns, 2 + bad, bad_rows)


def make_data(bad: int = 0) -> TaskData:
    return TaskData(
        task=find_task("classify"),
        labels=("no", "yes"),
        train=make_split("train", bad),
        devs=(make_split("dev"),),
        tests=(make_split("test"),),
        identity="",
        notes=("no dev file: :smile: [b]",),
    )


def step(number: int, **more: float) -> StepLogged:
    return StepLogged({"step": number, "loss": 0.5 / number, "tokens_per_second": 1234.5, "seconds": 2.0, **more})


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "\x1b" not in captured.err
    return captured.err.splitlines()


def test_fine_tuning_in_a_pipe_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[TuneEvent] = [
        DataRead(make_data(), {"train": 1, "dev": 0}),
        SeedStarted(3, 1, 2),
        RunStarted(1, 2, 1000, 1),
        step(1),
        Warned("[careful]"),
        step(2, dev_accuracy=0.75, dev_macro_f1=0.7),
        Saved(Path("run/seed-3/checkpoints/step-2")),
        SeedFinished(3, {"accuracy": 0.75}),
        RunFinished({"task": "classify"}),
    ]
    assert Display().follow_finetune(iter(events)) == {"task": "classify"}
    assert lines_of(capsys) == [
        "train: 2 examples (text from 'review', label from '[stars]')",
        "         1 of them are longer than a row",
        "dev: 2 examples (text from 'review', label from '[stars]')",
        "test: 2 examples, no labels (text from 'review', label from '[stars]')",
        "no dev file: :smile: [b]",
        "seed 3 (1 of 2)",
        "starting at step 1 of 2, 1,000 parameters, 1 thread",
        "step      1/2  loss 0.5  1,234 tok/s  eta 0:02",
        "warning: [careful]",
        "step      2/2  loss 0.25  1,234 tok/s  eta 0:00",
        "       dev  accuracy 0.7500  macro_f1 0.7000",
        "saved run/seed-3/checkpoints/step-2",
        "seed 3: dev accuracy 0.7500",
    ]


@pytest.mark.parametrize(
    ("bad", "rest"), [(1, []), (5, []), (6, ["         and 1 more"]), (2005, ["         and 2,000 more"])]
)
def test_the_first_five_bad_rows_are_told_and_the_others_counted(
    bad: int, rest: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Display().tell_bad_rows(make_split("train", bad))
    told = [f"         row {row + 2}: reason {row} [red]" for row in range(min(bad, 5))]
    assert lines_of(capsys) == [f"warning: train.csv: {bad:,} of {bad + 2:,} rows are bad", *told, *rest]


def test_rows_that_are_all_good_are_not_spoken_of(capsys: pytest.CaptureFixture[str]) -> None:
    Display().tell_bad_rows(make_split("train"))
    assert lines_of(capsys) == []


def test_cut_texts_are_counted_over_all_chunks(capsys: pytest.CaptureFixture[str]) -> None:
    chunks = [Chunk([{"id": "0"}, {"id": "1"}], 1), Chunk([{"id": "2"}], 1)]
    assert Display().follow_predict(iter(chunks), 3) == chunks
    assert lines_of(capsys) == ["warning: 2 of 3 texts are longer than the model's rows and were cut"]
    Display().follow_predict(iter([Chunk([{"id": "0"}], 0)]), 1)
    assert lines_of(capsys) == []


def make_evaluation() -> Evaluation:
    return Evaluation(
        suite="blimp",
        model="runs/[a]",
        data="blimp",
        scores={"discriminator": 0.5, "interval": (0.25, 0.75), "layers": {"best_one": 3}},
        groups={},
        counts={"pairs": 1000, "[bad]": 1},
        identity="",
        notes=("a note",),
        bad_rows=("blimp/x.jsonl: line 3: is blank",),
        settings={},
    )


def test_an_evaluation_names_each_phase_once_then_what_to_know_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    def steps() -> Iterator[Progress | Evaluation]:
        yield Progress("reading", 0, 0)
        yield Progress("judging", 0, 10)
        yield Progress("judging", 10, 10)
        yield make_evaluation()

    assert Display().follow_evaluate(steps()) == make_evaluation()
    assert lines_of(capsys) == ["reading", "judging", "a note", "warning: blimp/x.jsonl: line 3: is blank"]


# Tables


def render(table: RenderableType, width: int = 100) -> list[list[str]]:
    """The cells of each row, as the shell's console draws them."""
    out = io.StringIO()
    Console(file=out, width=width, markup=False, emoji=False).print(table)
    lines = (line.replace("┃", "│").removeprefix("│").removesuffix("│") for line in out.getvalue().splitlines())
    return [[cell.strip() for cell in line.split("│")] for line in lines]


def test_scores_of_a_run_stand_beside_those_of_the_ensemble() -> None:
    spread = {"median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
    results: dict[str, Any] = {"task": "cola", "seeds": [{}], "spread": {"mcc": spread}}
    rows = render(scores_table(results))
    assert rows[0] == ["cola, dev, 1 seed"]
    assert ["mcc", "0.5000", "0.5100", "0.0200", "0.6250"] in rows
    rows = render(scores_table({**results, "seeds": [{}, {}], "ensemble": {"mcc": 0.7}}))
    assert rows[0] == ["cola, dev, 2 seeds"]
    assert ["mcc", "0.5000", "0.5100", "0.0200", "0.6250", "0.7000"] in rows


def test_glue_is_in_points_with_the_paper_beside_it() -> None:
    spread = {"metric": "accuracy", "median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
    average = {"median": 0.5, "mean": 0.51, "sd": 0.02, "paper": 0.685}
    results = {"tasks": {"rte": spread, "wnli": spread}, "average": average, "paper": {"rte": 0.685, "wnli": None}}
    rows = render(glue_table(results))
    assert ["rte", "accuracy", "50.0", "51.0 ± 2.0", "62.5", "68.5"] in rows
    assert ["wnli", "accuracy", "50.0", "51.0 ± 2.0", "62.5", ""] in rows
    assert ["average", "", "50.0", "51.0 ± 2.0", "", "68.5"] in rows


def test_the_average_of_nothing_is_blank() -> None:
    nothing = dict.fromkeys(("median", "mean", "sd", "paper"))
    rows = render(glue_table({"tasks": {}, "average": nothing, "paper": {}}))
    assert ["average", "", "", "", "", ""] in rows


def test_an_evaluation_is_a_table_of_scores_and_counts() -> None:
    evaluation = make_evaluation()
    rows = render(
        evaluation_table({name: getattr(evaluation, name) for name in ("suite", "model", "scores", "counts")})
    )
    assert rows[0] == ["blimp  runs/[a]"]
    for row in (
        ["discriminator", "0.5000"],
        ["interval", "0.2500  0.7500"],
        ["layers best one", "3"],
        ["pairs", "1,000"],
    ):
        assert row in rows
    assert ["[bad]", "1"] in rows
