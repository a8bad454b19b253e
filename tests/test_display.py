"""What long work says on its way: plain lines in a pipe, names as they are, bad rows counted and the first told."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from electralab.display import Display, TameConsole
from electralab.evaluation.outcome import Evaluation, Progress
from electralab.finetuning.examples import BadRow, Split, TextExample
from electralab.finetuning.predicting import Chunk
from electralab.finetuning.reading import TaskData
from electralab.finetuning.stage import BaselineScored, DataRead, SeedFinished, SeedStarted, TuneEvent
from electralab.finetuning.tasks import find_task
from electralab.records.predictions import PredictionRow
from electralab.records.tuned import Baseline
from electralab.training.session import Announced, Event, RunFinished, RunStarted, Saved, StepLogged, Warned


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


def test_a_note_and_a_live_line_give_no_orders_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "run\x1b[2J\nelectra: finished"
    display = Display()
    display.say(f"saved {hostile}", style="green")
    assert lines_of(capsys) == ["saved run�[2J electra: finished"]
    display.console = TameConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=120)
    with display._bar() as bar:
        bar.add_task(hostile, total=1)
    drawn = display.console.file.getvalue()  # type: ignore[attr-defined]
    assert "run�[2J electra: finished" in drawn
    assert hostile not in drawn


def test_fine_tuning_in_a_pipe_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[TuneEvent] = [
        DataRead(make_data(), {"train": [0], "dev": []}, make_data().notes),
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
        "         1 of them are long and are cut to fit a row (1)",
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


def test_a_pipe_gets_a_few_lines_of_many_steps_and_every_score(capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[TuneEvent] = [
        step(number, **({"dev_accuracy": 0.5} if number == 17 else {})) for number in range(1, 37)
    ]
    Display().follow_finetune(iter([RunStarted(1, 36, 1000, 1), *steps]), most_lines=4)
    told = [int(line.split()[1].partition("/")[0]) for line in lines_of(capsys) if line.startswith("step")]
    assert told == [9, 17, 18, 27, 36]
    Display().follow_finetune(iter([RunStarted(1, 36, 1000, 1), *steps]))
    assert sum(line.startswith("step") for line in lines_of(capsys)) == 36


def test_baselines_are_told_before_anything_is_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    baseline = Baseline(
        name="linear",
        what="a linear [SVM]",
        rows=9,
        scores={"dev": {"accuracy": 0.5}, "test": {"accuracy": 0.25}},
    )
    Display().follow_finetune(iter([BaselineScored(baseline)]))
    assert lines_of(capsys) == [
        "baseline (a linear [SVM]): dev accuracy 0.5000",
        "baseline (a linear [SVM]): test accuracy 0.2500",
    ]


def test_pre_training_names_the_losses_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    heldout = {"heldout_masked_loss": 4.5, "heldout_masked_accuracy": 0.25, "heldout_masked_entropy": 4.0}
    events: list[Event] = [
        Announced("measuring [the speed]"),
        RunStarted(1, 1, 1000, 1),
        step(1, masked_loss=5.0, masked_accuracy=0.2, **heldout),
        RunFinished({}),
    ]
    Display().follow_pretrain(iter(events))
    assert lines_of(capsys) == [
        "measuring [the speed]",
        "starting at step 1 of 1, 1,000 parameters, 1 thread",
        "step      1/1  masked 5  1,234 tok/s  eta 0:00",
        "       held out  masked 4.5 (25.0% right)",
    ]
    heldout = {"heldout_generator_loss": 4.5, "heldout_discriminator_loss": 0.2, "heldout_generator_accuracy": 0.25}
    judged = step(1, generator_loss=5.0, discriminator_loss=0.25, auc=0.75, **heldout, heldout_auc=0.8)
    Display().follow_pretrain(iter([RunStarted(1, 1, 1000, 1), judged, RunFinished({})]))
    assert lines_of(capsys)[1:] == [
        "step      1/1  G 5  D 0.25  AUC 0.750  1,234 tok/s  eta 0:00",
        "       held out  G 4.5 (25.0% right)  D 0.2  AUC 0.800",
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
    chunks = [Chunk([PredictionRow(prediction="a")] * 2, 1), Chunk([PredictionRow(prediction="a")], 1)]
    assert Display().follow_predict(iter(chunks), 3) == chunks
    assert lines_of(capsys) == ["warning: 2 of 3 texts are longer than the model's rows and were cut"]
    Display().follow_predict(iter([Chunk([PredictionRow(prediction="a")], 0)]), 1)
    assert lines_of(capsys) == []


def make_evaluation() -> Evaluation:
    return Evaluation(
        suite="blimp",
        model="runs/[a]",
        data="blimp",
        scores={"discriminator": 0.5},
        groups={},
        counts={"pairs": 1000},
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
