"""Every kind of study has its picture: unfinished ones, lines under names of their own, more arms than colours."""

import re
from pathlib import Path
from typing import Any

import pytest
from little_study import finish, plan_little, summarise

from electralab.records.study import StudyResults
from electralab.reporting.plots import choose_styles, plot_study

LINES = {"plain": {"line": "one"}, "better": {"line": "two", "masking": {"mask_share": 0.3}}}


def results_of(folder: Path, *arms: str, **changes: Any) -> StudyResults:
    """With these arms finished, all without names."""
    plan = plan_little(folder, **changes)
    for cell in plan.cells:
        if not arms or cell.arm in arms:
            finish(cell)
    return summarise(plan)


def texts_of(folder: Path, results: StudyResults, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from matplotlib import rcParams

    monkeypatch.setitem(rcParams, "svg.fonttype", "none")
    plot_study(folder, results)
    svg = folder / "curves.svg"
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text())


def test_lines_of_one_point_each_are_shown_arm_by_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = texts_of(tmp_path, results_of(tmp_path, arms=LINES, snapshots={}), monkeypatch)
    assert {"plain", "better"} <= set(texts)
    assert not {"one", "two"} & set(texts)


def test_a_score_without_snapshots_is_shown_by_arm_beside_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = texts_of(tmp_path, results_of(tmp_path, arms=LINES), monkeypatch)
    assert texts.count("FLOPs of pre-training") == 1, "blimp has a snapshot, cola and the average have none"
    assert (texts.count("plain"), texts.count("one")) == (1, 1), "an arm beside its dots, a line in the legend"


def test_a_baseline_that_is_not_there_yet_has_no_legend_but_the_axis_its_ticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = results_of(tmp_path, "better", scores=[{"suite": "blimp"}])
    texts = texts_of(tmp_path, found, monkeypatch)
    assert {"1.0e03", "2.0e03", "better"} <= set(texts)
    assert "plain" not in texts


def test_no_two_lines_look_the_same(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    rows = [results.table[0].model_copy(update={"arm": f"arm{n}", "line": f"arm{n}"}) for n in range(20)]
    styles = choose_styles(results.model_copy(update={"table": tuple(rows), "baseline": "arm3"}))
    assert len(set(styles.values())) == 20
