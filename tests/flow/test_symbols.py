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
from sklearn.metrics import roc_auc_score

pytestmark = pytest.mark.flow


def test_planted_anomalies_of_a_log_are_found(tmp_path: Path) -> None:
    """By the example, and by the shell with the run that it leaves."""
    auc = detect_anomalies(tmp_path, sessions=1500, test_sessions=40, steps=150, threads=1)
    assert auc > 0.7
    sessions = [json.loads(line) for line in (tmp_path / "log" / "test.jsonl").read_text().splitlines()]
    (tmp_path / "sessions.txt").write_text("".join(json.dumps(s["symbols"]) + "\n" for s in sessions))
    lines = Shell(tmp_path).must("detect", "run", "--file", "sessions.txt", "--lines", "--json").out.splitlines()
    answers = [json.loads(line)["tokens"] for line in lines]
    assert [[token["text"] for token in tokens] for tokens in answers] == [s["symbols"] for s in sessions]
    truth = [place in s["anomalies"] for s in sessions for place in range(len(s["symbols"]))]
    assert roc_auc_score(truth, [token["p_replaced"] for tokens in answers for token in tokens]) == pytest.approx(auc)


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
