"""`electra analyze` on a little run: figures, pictures, a page; stopped, it goes on; nonsense is refused."""

import signal

import pytest
from electra_process import Shell
from little_runs import SMALL

pytestmark = pytest.mark.flow

BRIEF = ("--rows", "8", "--vectors", "60", "--points", "20", "--times", "5", "--threads", "1")


def test_a_run_is_analyzed_stopped_gone_on_with_and_reported(shell: Shell) -> None:
    shell.must("pretrain", "--data", "data", "--out", "run", "--config", "tiny", "--steps", 2, *SMALL)
    words = ("analyze", "run", "--data", "data", "--out", "seen", "--only", "M30,M33,M36", *BRIEF)
    plan = shell.must(*words, "--dry-run", "--json").json
    assert plan["measures"] == {"M30": "information", "M33": "geometry", "M36": "translation invariance"}

    running = shell.start(*words)
    running.wait_for_text("M30 run, untrained")
    running.send(signal.SIGTERM)
    stopped = running.wait()
    assert stopped.status == 143, stopped.err

    ended = shell.must(*words, "--json")
    assert "kept from before (1 of 6)" in ended.err
    assert {one["claim"] for one in ended.json["findings"]} == {"M30", "M33", "M36"}
    for name in ("README.md", "analysis.json", "points.json", "M33.png", "run-spectrum.svg"):
        assert (shell.folder / "seen" / name).is_file()
    assert "M36, last layer" in shell.must("show", "seen").out
    (shell.folder / "broken").mkdir()
    (shell.folder / "broken" / "analysis.json").write_text('{"findings": 1}')
    assert "analysis.json: not as electralab writes it" in shell.run("show", "broken").err
    assert shell.must("report", "seen", "--out", "page.html", "--json").json["warnings"] == []
    assert ">M36 translation invariance</h3>" in (shell.folder / "page.html").read_text()

    refused = shell.run("analyze", "run", "--data", "data", "--out", "other", "--only", "M98")
    assert (refused.status, (shell.folder / "other").exists()) == (2, False)
    assert "--only: no measure for 'M98'" in refused.err
    assert shell.run("analyze", "nowhere", "--data", "data", "--out", "other").status == 1
