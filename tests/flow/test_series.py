"""Not only text: a table of times and values, from prepare to windows that do not look normal."""

import csv
import math
import random
from collections.abc import Collection
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import SMALL

pytestmark = pytest.mark.flow


def write_table(path: Path, count: int, seed: int, odd: Collection[int] = ()) -> None:
    """A load that goes up and down every 24 points, and of what is odd three times as much."""
    rng = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["timestamp", "load"])
        for place in range(count):
            load = 20 + 5 * math.sin(place * math.tau / 24) + rng.gauss(0, 0.5)
            writer.writerow(
                [f"2024-01-{place // 24 % 28 + 1:02} {place % 24:02}:00:00", load * (3 if place in odd else 1)]
            )


def test_an_odd_stretch_of_a_series_is_found_with_its_reasons(shell: Shell) -> None:
    write_table(shell.folder / "normal.csv", 600, seed=0)
    write_table(shell.folder / "new.csv", 500, seed=1, odd=range(400, 405))
    report = shell.must("prepare", "--series", "normal.csv", "--out", "loads", "--json").json
    assert report["counts"]["unknown_tokens"] == 0
    assert "nothing to do" in shell.must("prepare", "--series", "normal.csv", "--out", "loads").err
    refused = shell.run("prepare", "--series", "normal.csv", "--out", "loads", "--series.bins", 5)
    assert refused.status == 1
    assert "was prepared with series.bins = 12, not 5" in refused.err
    shell.must("pretrain", "--data", "loads", "--out", "watch", *SMALL, "--steps", 10)

    found = shell.must("detect", "watch", "--file", "new.csv", "--series.join", 10, "--json").json
    assert found["used"] == ["value", "change", "season", "surprise", "replaced"]
    assert len(found["points"]) == 500
    (window,) = [window for window in found["windows"] if window["first"] <= 400 <= window["last"]]
    assert found["points"][400]["time"] == "2024-01-17 16:00:00"
    assert any("deviations from" in reason for reason in window["reasons"])
    lines = shell.must("detect", "watch", "--file", "new.csv").out.splitlines()
    assert lines[0].split("\t") == ["time", "p_odd", "is_odd", "load"]
    assert lines[401].split("\t")[2] == "1"

    calibrated = shell.must("calibrate", "watch", "normal.csv", "--json").json
    assert set(calibrated["planted"]) == {"spike", "shift", "flat", "noise", "order"}
    assert calibrated["planted"]["spike"]["auc"]["statistics"] > 0.9
    again = shell.must("detect", "watch", "--file", "new.csv", "--html", "page.html", "--json").json
    assert "warning" not in again
    assert any(window["first"] <= 400 <= window["last"] for window in again["windows"])
    page = (shell.folder / "page.html").read_text()
    assert page.count('<rect class="band') == 2 * len(again["windows"]), (
        "in the chart of the values and in that of scores"
    )

    (shell.folder / "other.csv").write_text("timestamp,temperature\n1,2\n2,3\n")
    refused = shell.run("detect", "watch", "--file", "other.csv")
    assert refused.status == 1
    assert "other.csv: has no column 'load', which the model reads (it has temperature)" in refused.err


def test_a_model_reads_the_columns_that_it_was_prepared_with_and_bears_gaps_and_an_odd_beginning(shell: Shell) -> None:
    write_table(shell.folder / "plain.csv", 400, seed=0)
    rows = [line.split(",") for line in (shell.folder / "plain.csv").read_text().splitlines()[1:]]
    for name, first in (("normal", rows[0][1]), ("odd", "900")):
        lines = [f"web1,{time},{first if place == 0 else load}" for place, (time, load) in enumerate(rows)]
        lines[390] = f"web1,{rows[390][0]},"
        (shell.folder / f"{name}.csv").write_text("\n".join(["host,when,load", *lines]))
    columns = ("--series.columns", '["load"]', "--series.time", "when")
    shell.must("prepare", "--series", "normal.csv", "--out", "loads", *columns)
    shell.must("pretrain", "--data", "loads", "--out", "watch", *SMALL, "--steps", 3)
    shell.must("calibrate", "watch", "normal.csv")
    found = shell.must("detect", "watch", "--file", "odd.csv", "--evidence", "statistics", "--json").json
    assert found["columns"] == ["load"]
    assert "above anything seen" in " ".join(found["windows"][0]["reasons"])
    assert found["windows"][0]["first"] == 0
