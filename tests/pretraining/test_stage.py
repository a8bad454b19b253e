"""The stage as a generator: what it yields, and a stop inside an evaluation, which loses nothing.

A warning is told once, outlives a stop, and stands in the results, in the printed table and on the page.
A dry run refuses what the run would refuse, in the same words, and says what it would say.
"""

import json
import math
import signal
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import transformers
from little_pretraining import SMALL, make_request, prepare_sentences, read_log
from rich.console import Console
from torch import Tensor
from watching_events import result_of, step_records, warnings

import electralab
from electralab import runtime
from electralab.config import parse_overrides
from electralab.display import Display
from electralab.errors import ElectraError, InputError, Stopped
from electralab.events import Progress, run_to_end
from electralab.pretraining import task
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.stage import PretrainRequest, plan_pretrain, pretrain
from electralab.records.record import FileRecord
from electralab.records.run import (
    Budget,
    CheckpointState,
    Environment,
    PretrainResults,
    RunExamples,
    RunFingerprint,
    Snapshot,
    read_metrics,
)
from electralab.reporting.terminal import print_blocks
from electralab.shell.commands.pretrain import result_blocks
from electralab.stopping import StopSignal
from electralab.tokens.shards import open_data

TWICE = (*SMALL, "--evaluation.times", "2")


def request(data: Path, run: Path, *, steps: int = 4, **changes: Any) -> PretrainRequest:
    return make_request(data, run, TWICE, steps=steps, **({"save_every": 2, "keep": 2} | changes))


def test_a_run_tells_its_story_in_order(data: Path, tmp_path: Path) -> None:
    events = list(pretrain(request(data, tmp_path / "run"), StopSignal()))
    told = [event.line or event.text if isinstance(event, Progress) else getattr(event, "text", "") for event in events]
    logged = step_records(events)
    assert [record["step"] for record in logged] == [1, 2, 3, 4]
    assert ["heldout_auc" in record for record in logged] == [False, True, False, True]
    beginnings = [
        *("starting at step 1 of 4, ", "", "step      1/4  G "),
        *("G ", "step      2/4  G ", "       held out  G ", "saved "),
        *("step      3/4  G ", "G ", "step      4/4  G ", "       held out  G ", "saved "),
        *("exporting the networks and scoring them on held-out rows", "page  ", ""),
    ]
    assert [text[: len(start)] for text, start in zip(told, beginnings, strict=True)] == beginnings
    assert result_of(events)["step"] == 4


@pytest.mark.parametrize("lost_step", [3, 4])
def test_a_step_that_is_not_finite_costs_one_step_wherever_it_is(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_step: int
) -> None:
    """The last one too: the run ends with the weights of the step before, and exports them."""
    parts = task.PretrainTask.micro_losses

    def lose(self: task.PretrainTask, step: int, choose: Callable[[int], Iterable[int]]) -> Iterator[Tensor]:
        for part in parts(self, step, choose):
            yield part * math.nan if step == lost_step else part

    monkeypatch.setattr(task.PretrainTask, "micro_losses", lose)
    results = run_to_end(pretrain(request(data, tmp_path / "run"), StopSignal()))
    assert results["skipped_steps"] == 1
    assert math.isfinite(results["heldout"]["discriminator_loss"])
    assert (tmp_path / "run/export/discriminator/config.json").is_file()
    assert (tmp_path / "run/checkpoints/step-4").is_dir()


def test_every_file_of_a_run_reads_back_as_it_was_written(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    results = run_to_end(pretrain(request(data, run, snapshots=(0.5,)), StopSignal()))
    kinds: dict[type[FileRecord], str] = dict.fromkeys((RunFingerprint, Environment, RunExamples, PretrainResults), "")
    kinds |= {CheckpointState: "checkpoints/step-4", Snapshot: "snapshots/step-2"}
    for kind, folder in kinds.items():
        assert kind.read(run / folder).to_json() == json.loads((run / folder / kind.FILE).read_text()), kind
    assert PretrainResults.read(run) == results
    assert [snapshot.step for snapshot in results.snapshots] == [2]
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert [json.dumps(record.to_json()) for record in read_metrics(run / "metrics.jsonl")] == lines


def test_each_of_two_stages_warms_up_and_decays(data: Path, tmp_path: Path) -> None:
    words = (*SMALL, "--procedure", "two-stage", "--schedule.warmup-steps", "2", "--optimizer.learning-rate", "1")
    events = list(pretrain(make_request(data, tmp_path / "run", words, steps=8), StopSignal()))
    rates = [record["learning_rate"] for record in step_records(events)]
    assert rates == [0.5, 0.75, 0.5, 0.25] * 2


@pytest.mark.parametrize("part", ["judge_heldout", "heldout_examples"])
def test_a_stop_inside_an_evaluation_loses_neither_step_nor_record(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    list(pretrain(request(data, tmp_path / "whole"), StopSignal()))
    stop, unstopped = StopSignal(), getattr(task, part)

    def judge(*arguments: Any) -> Any:
        stop.number = signal.SIGTERM  # arrives as judging begins; the next layer of the network notices
        return unstopped(*arguments)

    monkeypatch.setattr(task, part, judge)
    with pytest.raises(Stopped) as caught:
        list(pretrain(request(data, tmp_path / "stopped", save_every=0), stop))
    assert caught.value.status == 143
    monkeypatch.undo()
    stored = json.loads((tmp_path / "stopped/checkpoints/step-2/state.json").read_text())
    assert stored["pending"]["step"] == 2
    assert [line["step"] for line in read_log(tmp_path / "stopped")] == [1]

    events = list(pretrain(request(data, tmp_path / "stopped"), StopSignal()))
    assert [record["step"] for record in step_records(events)] == [2, 3, 4]
    whole, stopped = (tmp_path / name / "checkpoints/step-4" for name in ("whole", "stopped"))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (whole / name).read_bytes() == (stopped / name).read_bytes()
    assert read_log(tmp_path / "whole") == read_log(tmp_path / "stopped")
    examples = [(tmp_path / run / "examples.json").read_text() for run in ("whole", "stopped")]
    assert examples[0] == examples[1]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ((), {"pieces", "is_masked", "guesses", "corrupted", "is_replaced", "p_replaced"}),
        (("--objective", "mlm"), {"pieces", "is_masked", "guesses"}),
        (("--objective", "replace-mlm"), {"pieces", "is_masked", "guesses", "corrupted", "is_replaced"}),
        (("--objective", "permutation"), {"pieces", "is_masked", "guesses"}),
    ],
)
def test_a_run_leaves_a_few_rows_at_work(data: Path, tmp_path: Path, words: tuple[str, ...], keys: set[str]) -> None:
    run = tmp_path / "run"
    list(pretrain(make_request(data, run, (*SMALL, "--evaluation.times", "0", *words), steps=1), StopSignal()))
    found = json.loads((run / "examples.json").read_text())
    assert (found["step"], found["objective"]) == (1, words[1] if words else "electra")
    assert 0 < len(found["rows"]) <= 8
    for row in found["rows"]:
        assert row.keys() == keys
        assert len({len(column) for column in row.values()}) == 1
        assert len(row["pieces"]) <= 64
        assert [len(guesses) for guesses in row["guesses"]] == [3 * is_masked for is_masked in row["is_masked"]]
        assert any(row["is_masked"])


def test_a_causal_run_has_nothing_hidden_to_show(data: Path, tmp_path: Path) -> None:
    list(pretrain(make_request(data, tmp_path / "run", (*SMALL, "--objective", "causal"), steps=1), StopSignal()))
    assert not (tmp_path / "run/examples.json").exists()


def test_data_without_heldout_rows_is_trained_on_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("the cat sees the dog and the dog sees the cat " * 9)
    settings = {"tokenizer": {"vocab_size": 64}, "packing": {"sequence_length": 16}}
    electralab.prepare([tmp_path / "one.txt"], tmp_path / "one", settings=settings, display=Display(quiet=True))
    events = list(pretrain(request(tmp_path / "one", tmp_path / "run", steps=2), StopSignal()))
    assert warnings(events) == [f"{tmp_path / 'one'}: has no held-out rows, so scores are of rows that training sees"]
    assert result_of(events)["step"] == 2


def test_what_cannot_be_built_is_refused_before_anything_is_written(data: Path, tmp_path: Path) -> None:
    frozen = ("--generator.kind", "frozen", "--generator.path", str(tmp_path))
    wrong = request(data, tmp_path / "run", config=resolve_pretrain([parse_overrides([*SMALL, *frozen])]))
    with pytest.raises(InputError, match="holds no model"):
        list(pretrain(wrong, StopSignal()))
    with pytest.raises(InputError, match="holds no model to start from"):
        list(pretrain(request(data, tmp_path / "run", init_from=tmp_path), StopSignal()))
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_a_precision_that_was_chosen_once_is_kept(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine where the other would be faster too."""
    auto = (*SMALL, "--runtime.precision", "auto")
    monkeypatch.setattr(runtime, "probe_precision", lambda *_: "bf16")
    run_to_end(pretrain(make_request(data, tmp_path / "whole", auto, steps=4, save_every=2), StopSignal()))
    stop = StopSignal()
    events = pretrain(make_request(data, tmp_path / "cut", auto, steps=4, save_every=2), stop)
    while not (isinstance(event := next(events), Progress) and event.values.get("step") == 2):
        pass
    stop.number = signal.SIGTERM
    with pytest.raises(Stopped):
        list(events)
    monkeypatch.setattr(runtime, "probe_precision", lambda *_: "fp32")
    request = make_request(data, tmp_path / "cut", auto, steps=4, save_every=2)
    assert plan_pretrain(request)["settings"]["runtime"]["precision"] == "bf16"
    run_to_end(pretrain(request, StopSignal()))
    weights = [(tmp_path / name / "checkpoints/step-4/model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]
    run_to_end(pretrain(make_request(data, tmp_path / "single", SMALL, steps=4), StopSignal()))
    assert (tmp_path / "single/checkpoints/step-4/model.safetensors").read_bytes() != weights[0]


# A discriminator that hardly learns: it calls every token original to the end.
WORDS = (*SMALL, "--evaluation.times", "8", "--optimizer.learning-rate", "1e-9")
SIGN = "the discriminator is surer than it may be"


def request_poor(data: Path, run: Path, **changes: Any) -> PretrainRequest:
    return make_request(data, run, WORDS, steps=8, **({"save_every": 2} | changes))


def told(run: Path) -> list[tuple[int, str]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(record["step"], text) for record in records for text in record.get("warnings", [])]


def test_a_warning_is_told_once_however_often_it_holds(data: Path, tmp_path: Path) -> None:
    events = list(pretrain(request_poor(data, tmp_path / "run"), StopSignal()))
    said = warnings(events)
    assert sum(SIGN in text for text in said) == 1
    assert len(said) == len(told(tmp_path / "run"))


@pytest.mark.parametrize("last_step", [3, 5])
def test_a_run_that_was_stopped_tells_no_warning_again_and_forgets_none(
    data: Path, tmp_path: Path, last_step: int
) -> None:
    list(pretrain(request_poor(data, tmp_path / "whole"), StopSignal()))
    stop = StopSignal()

    def stop_early() -> None:
        for event in pretrain(request_poor(data, tmp_path / "parts"), stop):
            if isinstance(event, Progress) and event.values and event.done == last_step:
                stop.number = signal.SIGTERM

    with pytest.raises(Stopped):
        stop_early()
    list(pretrain(request_poor(data, tmp_path / "parts"), StopSignal()))
    assert told(tmp_path / "parts") == told(tmp_path / "whole") != []
    whole, parts = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("whole", "parts"))
    assert parts["warnings"] == whole["warnings"]
    assert parts["verdict"] == whole["verdict"]


def test_the_end_of_a_run_carries_its_warnings_and_a_verdict(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = parse_overrides(list(WORDS)).values
    results = electralab.pretrain(data, run, settings=settings, steps=8, threads=1, display=Display(quiet=True))
    (warning,) = [each for each in results["warnings"] if SIGN in each["text"]]
    assert warning["step"] == told(run)[0][0]
    assert results["verdict"]["is_useful"] is False
    assert results["verdict"]["text"].startswith("too short to be useful: ")
    printed = StringIO()
    assert isinstance(results, PretrainResults)
    print_blocks(Console(file=printed, width=400), result_blocks(results))
    words = " ".join(printed.getvalue().split())
    assert f"verdict: {results['verdict']['text']}" in words
    assert f"warned at step {warning['step']}: {warning['text']}" in words
    page = (run / "report.html").read_text()
    summary, warnings = page.index("Verdict: too short to be useful"), page.index(SIGN)
    assert summary < warnings < page.index('id="scores"')
    assert page.count(SIGN) == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `data`, a finished `run` of six steps and `bare`, an encoder without a head."""
    folder = tmp_path_factory.mktemp("plan")
    data = prepare_sentences(folder)
    list(pretrain(make_request(data, folder / "run", (*SMALL, "--model.backbone", "electra")), StopSignal()))
    sizes = {"hidden_size": 16, "embedding_size": 16, "intermediate_size": 16}
    config = transformers.ElectraConfig(
        vocab_size=open_data(data).tokenizer.vocab_size, num_hidden_layers=1, num_attention_heads=2, **sizes
    )
    transformers.ElectraModel(config).save_pretrained(folder / "bare")
    return folder


def ask(folder: Path, run: str, *words: str, **changes: Any) -> PretrainRequest:
    return make_request(folder / "data", folder / run, (*SMALL, "--model.backbone", "electra", *words), **changes)


REFUSED: dict[str, Callable[[Path], PretrainRequest]] = {
    "fewer tokens": lambda f: ask(f, "run", extend=True, budget=Budget("tokens", 64.0)),
    "fewer steps": lambda f: ask(f, "run", extend=True, steps=5),
    "another budget": lambda f: ask(f, "run", steps=9),
    "other settings": lambda f: ask(f, "run", "--masking.mask-share", "0.3"),
    "fewer minutes": lambda f: ask(f, "run", extend=True, budget=Budget("minutes", 1e-6)),
    "other threads": lambda f: ask(f, "run", threads=2),
    "another origin": lambda f: ask(f, "run", init_from=f / "run"),
    "no head": lambda f: ask(f, "new", init_from=f / "bare"),
    "no model": lambda f: ask(f, "new", init_from=f / "nowhere"),
    "other sizes": lambda f: ask(f, "new", "--model.num-layers", "2", init_from=f / "run"),
    "generator alone": lambda f: ask(f, "new", init_generator=f / "run"),
    "tokens alone": lambda f: ask(f, "new", match_tokens=True),
    "not a run": lambda f: ask(f, "data"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_the_run_refuses_the_dry_run_refuses(folder: Path, name: str) -> None:
    request = REFUSED[name](folder)
    with pytest.raises(ElectraError) as of_plan:
        plan_pretrain(request)
    with pytest.raises(ElectraError) as of_run:
        list(pretrain(request, StopSignal()))
    assert str(of_plan.value) == str(of_run.value)
    assert type(of_plan.value) is type(of_run.value)


def test_what_the_run_accepts_the_dry_run_accepts(folder: Path) -> None:
    assert plan_pretrain(ask(folder, "run")).steps == 6
    assert plan_pretrain(ask(folder, "run", extend=True, steps=9)).steps == 9
    assert plan_pretrain(ask(folder, "run", extend=True, budget=Budget("minutes", 60))).steps > 6
    plan = plan_pretrain(ask(folder, "untouched", init_from=folder / "run/export/discriminator"))
    (note,) = plan.notes
    assert note.endswith(
        "holds no generator to start from: what it does not share starts from random "
        "weights; give one with --init-generator"
    )
    assert not (folder / "untouched").exists()
