"""Not only text: a service log as lists of events, in which a few events do not belong."""

import json
from pathlib import Path

import pytest
from electra_process import Shell
from log_anomalies import detect_anomalies
from sklearn.metrics import roc_auc_score

from electralab.corpus.synthetic import write_symbol_log

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
