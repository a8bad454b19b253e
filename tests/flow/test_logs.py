"""A raw log, prepared, trained on, and new lines of it named."""

import gzip
import json
import random
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import SMALL

pytestmark = pytest.mark.flow


def write_log(path: Path, sessions: int, seed: int) -> None:
    rng = random.Random(seed)
    lines = []
    for number in range(sessions):
        who, port = rng.choice(("anna", "ben7", "clara", "root")), rng.randrange(1024, 65536)
        messages = [f"connection from 10.0.0.{rng.randrange(256)} port {port}", f"session {number} opened for {who}"]
        messages += [f"session {number} reads /data/{rng.randrange(100)}.csv" for _ in range(rng.randrange(1, 4))]
        messages += [f"session {number} closed after {rng.randrange(100)} ms"]
        lines += [f"Jun 14 15:{number // 60 % 60:02}:{number % 60:02} host shopd[{port}]: {text}" for text in messages]
    path.write_text("".join(f"{line}\n" for line in lines))


def test_raw_lines_are_named_in_three_commands(shell: Shell) -> None:
    write_log(shell.folder / "shop.log", 200, seed=0)
    write_log(shell.folder / "new.log", 5, seed=1)
    with (shell.folder / "new.log").open("a") as file:
        file.write("Jun 14 16:00:00 host shopd[77]: disk failure on sda\n")
    key = ("--session-key", r"shopd\[(\d+)\]")
    shell.must("prepare", "shop.log", "--logs", *key, "--out", "events", "--sequence-length", "16")
    log = shell.folder / "events" / "log"
    templates = json.loads((log / "templates.json").read_text())["templates"]
    assert [template["template"] for template in templates] == [
        "connection from <*> port <*>",
        "session <*> opened for <*>",
        "session <*> reads <*>",
        "session <*> closed after <*>",
    ]
    lines = gzip.decompress((log / "lines.csv.gz").read_bytes()).decode().splitlines()
    assert lines[0] == "line,event,session"
    assert [line.split(",")[1] for line in lines[1:3]] == ["E1", "E2"]

    shell.must("pretrain", "--data", "events", "--out", "run", *SMALL, "--steps", 5)
    asked = shell.must("detect", "run", "--logs", "new.log", "--json").out.splitlines()
    sessions = [json.loads(line) for line in asked]
    assert len(sessions) == 6
    assert sessions[0]["tokens"][1]["template"] == "session <*> opened for <*>"
    assert sessions[0]["lines"][:2] == [1, 2]
    (token,) = sessions[-1]["tokens"]
    assert (sessions[-1]["session"], token["unknown"], sessions[-1]["suspicious"]) == ("77", True, [0])
    printed = shell.must("detect", "run", "--logs", "new.log").out
    assert "event never seen" in printed

    fitted = shell.must("calibrate", "run", "events", "--threads", "1", "--json").json
    assert set(fitted["rows"]["scores"]) == {"foreign", "missing", "repeated", "moved", "mixed"}
    assert fitted["rows"]["scores"]["mixed"]["auc"] > 0.8
    assert (shell.folder / "run/export/calibration/sequences.json").is_file()
    asked = shell.must("detect", "run", "--logs", "new.log", "--json").out.splitlines()
    sessions = [json.loads(line) for line in asked]
    assert sessions[-1]["tokens"][0]["reasons"] == ["event never seen"]
    assert sessions[-1]["is_alarm"]
    assert not any(session["is_alarm"] for session in sessions[:-1])
    assert sessions[-1]["p_wrong"] > 0.9
    assert max(session["p_wrong"] for session in sessions[:-1]) < 0.1
    assert sessions[-1]["reasons"][0] == "1 event never seen"
    assert "disk" not in shell.must("detect", "run", "--logs", "new.log").out, "lines are named, not repeated"

    rare = shell.must("detect", "run", "--logs", "new.log", "--error-rate", "0.001", "--json").out.splitlines()
    for session, given in zip(sessions, map(json.loads, rare), strict=True):
        assert given["p_wrong"] < session["p_wrong"]
        assert given["is_alarm"] == session["is_alarm"]
    refused = shell.run("measure", "run", "events/log/sessions.jsonl", "--error-rate", "0.1")
    assert refused.status == 2
    assert "has no effect on sequences" in refused.err

    planted = shell.must("measure", "run", "events/log/sessions.jsonl", "--resamples", 0, "--threads", 1, "--json").json
    assert planted["kind"] == "sequences"
    assert {row["source"] for row in planted["measurements"]} == set(fitted["rows"]["scores"])
    names = [scores["name"] for scores in planted["measurements"][0]["detectors"]]
    assert names[:2] == ["suspicion", "replaced"]
    assert "unseen_sixes" in names

    again = shell.must("prepare", "shop.log", "--logs", *key, "--out", "events", "--sequence-length", "16")
    assert "the data is there already" in again.err


def test_a_log_is_refused_in_a_sentence(shell: Shell) -> None:
    write_log(shell.folder / "shop.log", 5, seed=0)
    refused = shell.run("prepare", "shop.log", "--logs", "--session-key", "nowhere", "--out", "events")
    assert refused.status == 1
    assert "no session of" in refused.err
    assert "--session-key" in refused.err
    assert shell.run("prepare", "shop.log", "--session-lines", "5", "--out", "events").status == 2
    gap = shell.run("prepare", "shop.log", "--logs", "--line-format", "<Id> at <Content>", "--out", "events")
    assert gap.status == 1
    assert "fits none of" in gap.err
    (shell.folder / "untimed.log").write_text("door opened\ndoor closed\n")
    untimed = shell.run("prepare", "untimed.log", "--logs", "--session-gap", "5", "--out", "events")
    assert untimed.status == 1
    assert "none of 2 lines has a time" in untimed.err
