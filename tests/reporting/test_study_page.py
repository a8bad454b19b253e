"""Tables of many runs say who is best only where a test says so, on the page, in report.md and in a terminal."""

from pathlib import Path
from typing import Any

from electralab.records.study import StudyResults
from electralab.reporting.artifact import Artifact
from electralab.reporting.cards import write_study_report
from electralab.reporting.html import render_blocks
from electralab.reporting.page import compose_page
from electralab.reporting.study_page import study_charts, study_scores, study_tables, tell_study

HERE = Path("here")


def study(p_holm: float) -> StudyResults:
    def row(arm: str, mean: float) -> dict[str, Any]:
        score = {"n": 2, "mean": mean, "low": mean - 0.01, "high": mean + 0.01}
        amounts = {"steps": 10, "tokens": 100, "flops": 3e13, "parameters": 1000, "pretraining_seconds": 90}
        return {"line": arm, "arm": arm, "scores": {"average": score, "cola": score, "mlm": None}, **amounts}

    def point(mean: float, flops: float) -> dict[str, Any]:
        return {"n": 2, "mean": mean, "arm": "new", "share": 1.0, "flops": flops, "tokens": 1.0, "values": [mean]}

    lead = {"arm": "new", "versus": "old", "n": 2, "mean": 0.02, "low": 0.01, "high": 0.03}
    lead |= {"over": "seeds", "test": "paired t", "p": 0.02}
    reached = {"flops": 2e13, "share": 0.5, "is_upper_bound": True}
    results = {
        "name": "s",
        "title": "Old and new",
        "baseline": "old",
        "budget": {"flops": 3e13},
        "seeds": [0, 1],
        "x": "flops",
        "provenance": {"command": "electra study s"},
        "arms": {"old": {"size": "tiny", "objective": "mlm"}, "new": {"size": "tiny", "objective": "electra"}},
        "cells": [],
        "scores": {"cola": "mcc", "mlm": ""},
        "table": [row("old", 0.5), row("new", 0.52)],
        "comparisons": [
            {**lead, "score": "average", "p_holm": p_holm},
            {**lead, "score": "cola", "mean": -0.05, "p_holm": 0.01},
        ],
        "curves": {"cola": {"new": [point(0.5, 1.0), point(0.52, 2.0)]}},
        "reach": {"cola": {"target": 0.5, "flops": 4e13, "lines": {"new": reached}}},
        "notes": ["a note"],
    }
    return StudyResults.model_validate(results)


def test_the_best_of_a_study_is_marked_only_where_a_test_says_so() -> None:
    text = " ".join(tell_study(study(0.4)))
    assert (
        "new, 52.0 points, which cannot be told apart from the baseline old (+2.0 points, p = 0.4 after Holm)" in text
    )
    assert "1 of 2: new −5.0 against old on cola (over seeds)." in text
    assert 'class="marked"' not in render_blocks(list(study_scores(study(0.4))))
    assert "new, 52.0 points, better than the baseline old" in " ".join(tell_study(study(0.01)))
    assert '<tr class="marked"><th scope="row">new</th>' in render_blocks(list(study_scores(study(0.01))))


def test_a_study_names_its_metrics_draws_points_and_says_what_its_arms_differ_in() -> None:
    page = compose_page([Artifact("study", "study", HERE, study=study(0.4))])
    assert '<th scope="col" class="number">cola (MCC)</th>' in page
    [chart] = study_charts(study(0.4))
    assert (chart.title, chart.unit, chart.lines[0].y) == ("cola (MCC)", "points", [50.0, 52.0])
    assert chart.lines[0].x == {"tokens": [1.0, 1.0], "flops": [1.0, 2.0]}
    assert '<th scope="row">objective</th><td>mlm</td><td>electra</td>' in page
    assert '<th scope="row">size</th>' not in page


def test_the_report_has_table_costs_comparisons_reach_and_notes(tmp_path: Path) -> None:
    write_study_report(tmp_path, study(0.0001))
    text = (tmp_path / "report.md").read_text()
    assert "2 arms, 2 seeds, a budget of 3e13 FLOPs each." in text
    assert "| new | 52.0 ± 1.0 | – | 52.0 ± 1.0 |" in text
    assert "| new | 10 | 100 | 3e13 | 1,000 | 1.5 |" in text
    assert "| new – old | average | +2.00 | +1.0 to +3.0 | t, 2 seeds | 0.020 | < 0.001 |" in text
    assert "## Compute to reach the final score of old\n\n|  | cola 50.0 |\n|---|---:|\n| new | ≤ 2e+13 (50%) |" in text
    assert "The average is the plain mean over cola (MCC) and mlm, which are not of one kind." in text
    assert text.endswith("![scores](curves.png)\n\n## Notes\n\n- a note\n")


def test_the_shell_prints_the_same_tables() -> None:
    assert [table.title for table in study_tables(study(0.4))] == [
        "Old and new",
        "what it took, in the mean over the seeds",
        "differences in points",
        "compute to reach the final score of old",
    ]


def test_a_study_that_has_no_results_says_how_they_come() -> None:
    page = compose_page([Artifact("study", "study", HERE)])
    assert "<strong>No table.</strong>" in page
