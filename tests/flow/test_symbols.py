"""Not only text: a service log as lists of events, in which a few events do not belong."""

import json
import random
import signal
from pathlib import Path

import httpx
import pytest
from electra_process import Shell
from little_runs import SMALL
from log_anomalies import detect_anomalies
from service_log import write_symbol_log
from sklearn.metrics import roc_auc_score

pytestmark = pytest.mark.flow


def test_planted_anomalies_of_a_log_are_found(shell: Shell) -> None:
    log = write_symbol_log(shell.folder / "log", seed=0, sessions=1500, test_sessions=40)
    shell.must("prepare", log.train, "--out", "events", "--symbols", "--sequence-length", "64")
    size = ("--model.num-layers", 2, "--model.hidden-size", 64, "--model.embedding-size", 64)
    words = (*size, "--model.feedforward-size", 128, "--batch.size", 16, "--steps", 200)
    once = ("--optimizer.learning-rate", "2e-3", "--evaluation.times", 1, "--threads", 1)
    shell.must("pretrain", "--data", "events", "--out", "run", *words, *once)

    sessions = [json.loads(line) for line in log.test.read_text().splitlines()]
    (shell.folder / "sessions.txt").write_text("".join(json.dumps(s["symbols"]) + "\n" for s in sessions))
    lines = shell.must("detect", "run", "--file", "sessions.txt", "--lines", "--json").out.splitlines()
    truth: list[bool] = []
    chances: list[float] = []
    for session, line in zip(sessions, lines, strict=True):
        tokens = json.loads(line)["tokens"]
        assert [token["text"] for token in tokens] == session["symbols"]
        chances += [token["p_replaced"] for token in tokens]
        truth += [place in session["anomalies"] for place in range(len(tokens))]
    assert roc_auc_score(truth, chances) > 0.7


def test_the_example_finds_them_too(tmp_path: Path) -> None:
    assert detect_anomalies(tmp_path, sessions=1500, test_sessions=40, steps=150, threads=1) > 0.7


def write_sessions(path: Path, count: int, seed: int) -> list[list[str | int]]:
    """Sessions of events, strings and integers; every other one has a failure in it, and is labelled so."""
    rng = random.Random(seed)
    choices: tuple[str | int, ...] = ("view", "edit", 200, 304)
    sessions = []
    for number in range(count):
        events = ["log in", *(rng.choice(choices) for _ in range(6)), "log out"]
        if number % 2:
            events.insert(rng.randrange(1, 7), 500)
        sessions.append(events)
    labelled = [{"events": events, "label": ("fine", "failed")[place % 2]} for place, events in enumerate(sessions)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in labelled))
    return sessions


def test_sessions_of_events_are_classified_from_lists_to_the_server(shell: Shell) -> None:
    write_sessions(shell.folder / "log/all.jsonl", 300, seed=0)
    write_sessions(shell.folder / "task/train.jsonl", 120, seed=1)
    sessions = write_sessions(shell.folder / "task/dev.jsonl", 40, seed=2)
    as_lists = ("--symbols", "--reading.field", "events", "--sequence-length", "32")
    shell.must("prepare", "log/all.jsonl", "--out", "events", *as_lists)
    shell.must("pretrain", "--data", "events", "--out", "run", *SMALL, "--steps", 5)
    brief = ("--steps", 200, "--threads", 1, "--no-baseline", "--json")
    tuned = shell.must("finetune", "run", "--task", "classify", "--data", "task", "--out", "tuned", *brief).json
    assert tuned["data"]["train"]["columns"] == {"text": "events", "label": "label"}
    assert tuned["dev"]["accuracy"] > 0.9, "which event is in a session must not be lost on the way"

    (shell.folder / "bare.jsonl").write_text("".join(json.dumps(events) + "\n" for events in sessions))
    asked = [
        shell.must("predict", "tuned", name, "--json", "--threads", 1).json["predictions"]
        for name in ("task/dev.jsonl", "bare.jsonl")
    ]
    labels = [[row["prediction"] for row in rows] for rows in asked]
    assert labels[0] == labels[1]
    assert sum(map(str.__eq__, labels[0], ["fine", "failed"] * 20)) / 40 == tuned["dev"]["accuracy"]

    (shell.folder / "prose.jsonl").write_text(json.dumps({"text": "a gripping story, well told"}) + "\n")
    refused = shell.run("predict", "tuned", "prose.jsonl")
    assert refused.status == 1
    assert "prose.jsonl: holds text, most of whose words the model of symbols does not know" in refused.err

    running = shell.start("serve", "tuned", "--port", 0, "--threads", 1)
    with httpx.Client(base_url=running.wait_for_address(), timeout=60) as client:
        for given in (json.dumps(sessions[1]), list(map(str, sessions[1])), {"events": list(map(str, sessions[1]))}):
            assert client.post("/v1/predict", json={"text": given}).json()["prediction"] == labels[0][1]
        answer = client.post("/v1/predict", json={"text": "a gripping story, well told"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_text")
        assert "takes a list of strings or integers" in answer.json()["error"]["message"]
    running.send(signal.SIGTERM)
    assert running.wait().status == 0
