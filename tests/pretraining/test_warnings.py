"""A warning is told once, outlives a stop, and stands in the results, in the printed table and on the page."""

import json
import signal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from little_pretraining import make_request, prepare_sentences
from rich.console import Console
from watching_events import warnings

import electralab
from electralab.config import parse_overrides
from electralab.display import Display
from electralab.errors import Stopped
from electralab.events import Progress
from electralab.pretraining.stage import PretrainRequest, pretrain
from electralab.records.run import PretrainResults
from electralab.reporting.terminal import print_blocks
from electralab.shell.commands.pretrain import result_blocks
from electralab.stopping import StopSignal

# A discriminator that hardly learns: it calls every token original to the end.
WORDS = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4", "--evaluation.rows", "4"),
    *("--evaluation.times", "8", "--optimizer.learning-rate", "1e-9"),
)
SIGN = "the discriminator is surer than it may be"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("warnings"))


def request(data: Path, run: Path, **changes: Any) -> PretrainRequest:
    return make_request(data, run, WORDS, steps=8, **({"save_every": 2} | changes))


def told(run: Path) -> list[tuple[int, str]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(record["step"], text) for record in records for text in record.get("warnings", [])]


def test_a_warning_is_told_once_however_often_it_holds(data: Path, tmp_path: Path) -> None:
    events = list(pretrain(request(data, tmp_path / "run"), StopSignal()))
    said = warnings(events)
    assert sum(SIGN in text for text in said) == 1
    assert len(said) == len(told(tmp_path / "run"))


@pytest.mark.parametrize("last_step", [3, 5])
def test_a_run_that_was_stopped_tells_no_warning_again_and_forgets_none(
    data: Path, tmp_path: Path, last_step: int
) -> None:
    list(pretrain(request(data, tmp_path / "whole"), StopSignal()))
    stop = StopSignal()

    def stop_early() -> None:
        for event in pretrain(request(data, tmp_path / "parts"), stop):
            if isinstance(event, Progress) and event.values and event.done == last_step:
                stop.number = signal.SIGTERM

    with pytest.raises(Stopped):
        stop_early()
    list(pretrain(request(data, tmp_path / "parts"), StopSignal()))
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
