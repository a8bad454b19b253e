"""What cells say together: the table, the comparisons, the compute to reach a score; and as a report and a picture."""

import re
from pathlib import Path

import pytest
from little_study import blimp, finish, plan_little, results_of, summarise

from electralab.errors import InputError
from electralab.experiments.scores import Score, read_score
from electralab.experiments.settings import ScoreConfig
from electralab.experiments.stage import estimate_rest, find_crossing, pair_groups
from electralab.records.study import ArmRow, StudyResults
from electralab.reporting.cards import write_study_report
from electralab.reporting.plots import choose_styles, plot_study

LINES = {"plain": {"line": "one"}, "better": {"line": "two", "masking": {"mask_share": 0.3}}}


def mean_of(row: ArmRow, score: str) -> float:
    mean = row.scores[score]
    assert mean is not None
    return mean.mean


@pytest.fixture
def results(tmp_path: Path) -> StudyResults:
    return results_of(tmp_path)


def test_the_table_has_means_over_the_seeds(results: StudyResults) -> None:
    plain, better = results.table
    assert mean_of(plain, "blimp") == pytest.approx(0.61)
    assert mean_of(better, "cola") == pytest.approx(0.25)
    # (0.68 + 0.20) / 2 and (0.74 + 0.30) / 2
    assert mean_of(better, "average") == pytest.approx(0.48)
    assert (plain.steps, plain.tokens, plain.flops, plain.parameters) == (100, 500, 1000, 77)


def test_the_average_is_of_the_scores_that_all_arms_have(tmp_path: Path) -> None:
    scores = [{"suite": "blimp"}, {"task": "cola"}, {"task": "cola", "name": "own", "arms": ["better"]}]
    plan = plan_little(tmp_path, scores=scores)
    for cell in plan.cells:
        finish(cell, *("pretrain", "blimp", "cola"))
    results = summarise(plan)
    assert results.averaged == ("blimp", "cola")
    assert [mean_of(row, "average") for row in results.table] == pytest.approx([0.38, 0.48])
    assert [row.scores["own"] for row in results.table] == [None, None]
    write_study_report(tmp_path, results)
    assert (
        "The average is the plain mean over blimp (discriminator) and cola (MCC)"
        in (tmp_path / "report.md").read_text()
    )


def test_cells_are_told_one_by_one(results: StudyResults) -> None:
    cell = next(cell for cell in results.cells if (cell.arm, cell.seed) == ("better", 1))
    assert cell.status == "finished"
    assert cell.scores == {"blimp": 0.74, "blimp@0.5": 0.64, "cola": 0.3}
    assert cell.seconds == 80.0


def test_arms_are_compared_seed_by_seed_and_paradigm_by_paradigm(results: StudyResults) -> None:
    rows = {(row.score, row.test): row for row in results.comparisons}
    assert set(rows) == {
        ("blimp", "paired t"),
        ("blimp", "paired bootstrap"),
        ("cola", "paired t"),
        ("average", "paired t"),
    }
    # 0.08 and 0.12: a mean of 0.10 whose standard error is 0.02, so t = 5 with one degree of freedom.
    assert rows["blimp", "paired t"].mean == pytest.approx(0.10)
    assert rows["blimp", "paired t"].p == pytest.approx(0.1257, abs=1e-4)
    # Every paradigm is better by the same.
    assert rows["blimp", "paired bootstrap"].low == pytest.approx(0.10)
    # 0.1 twice: nothing to test against.
    assert rows["cola", "paired t"].p is None


def test_tests_are_corrected_within_their_kind(tmp_path: Path) -> None:
    """Of two arms each: one test over seeds that has a p, one over paradigms, one of the average."""
    arms = {"plain": {}, "better": {"masking": {"mask_share": 0.3}}, "again": {"masking": {"mask_share": 0.4}}}
    rows = [row for row in results_of(tmp_path, arms=arms).comparisons if row.p is not None]
    assert {row.family for row in rows} == {"seeds", "paradigms", "average"}
    for row in rows:
        assert row.p_holm == pytest.approx(min(1.0, 2 * (row.p or 0.0))), "the two arms are equal, so are their p"


def test_compute_to_reach_the_baseline_is_read_off_the_curve(results: StudyResults) -> None:
    reach = results.reach["blimp"]
    assert reach.target == pytest.approx(0.61)
    # The better arm has 0.61 after 1000 of its 2000 FLOPs, which is all that the baseline spends.
    assert reach.lines["better"].flops == pytest.approx(1000)
    assert reach.lines["better"].share == pytest.approx(1.0)
    assert reach.lines["plain"].flops == pytest.approx(1000)


def test_a_score_that_is_never_reached_says_so(tmp_path: Path) -> None:
    results = results_of(tmp_path, baseline="better")
    assert results.reach["blimp"].lines["plain"].flops is None
    write_study_report(tmp_path, results)
    assert "| plain | not reached |" in (tmp_path / "report.md").read_text()


def test_curves_go_from_snapshot_to_end(results: StudyResults) -> None:
    points = results.curves["blimp"]["better"]
    assert [(point.share, point.flops) for point in points] == [(0.5, 1000), (1.0, 2000)]
    assert [point.mean for point in points] == pytest.approx([0.61, 0.71])
    assert [point.share for point in results.curves["cola"]["better"]] == [1.0]


def test_arms_of_one_line_make_one_curve(tmp_path: Path) -> None:
    arms = {"plain": {"line": "both", "budget_share": 0.5}, "better": {"line": "both", "masking": {"mask_share": 0.3}}}
    curves = results_of(tmp_path, arms=arms).curves["blimp"]
    assert [(point.arm, point.flops) for point in curves["both"]] == [("plain", 1000), ("better", 2000)]


def test_an_arm_may_be_compared_with_another_than_the_baseline(tmp_path: Path) -> None:
    arms = {"plain": {}, "better": {"masking": {"mask_share": 0.3}, "versus": "better"}}
    assert results_of(tmp_path, arms=arms).comparisons == ()


def test_what_is_not_there_yet_is_left_out(tmp_path: Path) -> None:
    plan = plan_little(tmp_path)
    finish(plan.cells[0])
    finish(plan.cells[1], "pretrain", "blimp")
    results = summarise(plan, {plan.cells[1].name: "cola: the disk is full"})
    assert [cell.status for cell in results.cells] == ["finished", "failed", "unfinished", "unfinished"]
    better = results.table[1]
    assert better.scores["blimp"] is not None
    assert better.scores["blimp"].n == 1
    assert (better.scores["cola"], better.scores["average"]) == (None, None)
    write_study_report(tmp_path, results)
    report = (tmp_path / "report.md").read_text()
    assert "- better seed 0: cola: the disk is full" in report
    assert "- plain seed 1: not run to its end" in report


def test_nothing_at_all_is_a_report_too(tmp_path: Path) -> None:
    plan = plan_little(tmp_path)
    write_study_report(tmp_path, summarise(plan))
    assert not (tmp_path / "curves.png").exists()
    report = (tmp_path / "report.md").read_text()
    assert "curves.png" not in report
    assert "## Comparisons" not in report


def test_an_arm_of_which_nothing_is_known_reaches_nothing_yet(tmp_path: Path) -> None:
    assert set(results_of(tmp_path, "plain").reach["blimp"].lines) == {"plain"}


def test_the_report_shows_means_with_half_their_interval(tmp_path: Path, results: StudyResults) -> None:
    write_study_report(tmp_path, results)
    # 0.60 and 0.62: the interval is 12.7 times a standard error of 0.01 to each side.
    assert "| plain (baseline) | 61.0 ± 12.7 | 15.0 ± 63.5 |" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "curves.svg").read_bytes()


def test_one_seed_is_shown_without_an_interval_and_said_to_be(tmp_path: Path) -> None:
    write_study_report(tmp_path, results_of(tmp_path, seeds=[0], snapshots={}))
    report = (tmp_path / "report.md").read_text()
    assert "| plain (baseline) | 60.0 | 10.0 | 35.0 |" in report
    assert "one seed tells nothing of the spread" in report
    assert (
        "The average is the plain mean over blimp (discriminator) and cola (MCC), which are not of one kind." in report
    )
    assert (tmp_path / "curves.png").is_file()


def test_equal_studies_have_equal_pictures(tmp_path: Path, results: StudyResults) -> None:
    for name in ("a", "b"):
        write_study_report(tmp_path / name, results)
    for name in ("curves.png", "curves.svg", "report.md"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_what_is_left_is_estimated_from_what_was_taken(tmp_path: Path) -> None:
    plan = plan_little(tmp_path)
    # Four chains of four steps of 10 seconds, two at a time.
    rest = estimate_rest(plan)
    assert (rest.cells, rest.steps) == (4, 16)
    assert rest.minutes == pytest.approx(80 / 60, abs=0.01)
    finish(plan.cells[0])
    # The first took twice as long; of the three others one job has two chains, of 80 seconds each.
    rest = estimate_rest(plan)
    assert (rest.cells, rest.steps) == (3, 12)
    assert rest.minutes == pytest.approx(160 / 60, abs=0.01)
    assert estimate_rest(plan, {cell.name for cell in plan.cells}).steps == 0


def test_the_usual_score_of_a_suite_is_that_of_its_discriminator() -> None:
    score = Score(ScoreConfig(suite="blimp"), Path(), None)
    both = {"scores": {"generator": 0.5, "discriminator": 0.6}}
    assert read_score(score, both).value == 0.6
    assert read_score(score, {"scores": {"model": 0.7, "model_mean": 0.8}}).metric == "model"
    chosen = Score(ScoreConfig(suite="blimp", metric="generator"), Path(), None)
    assert read_score(chosen, both).value == 0.5
    with pytest.raises(InputError, match="the result has no generator; it has discriminator"):
        read_score(chosen, {"scores": {"discriminator": 0.6}})


def test_a_result_without_its_score_fails_its_cell_alone(tmp_path: Path) -> None:
    plan = plan_little(tmp_path)
    for cell in plan.cells:
        finish(cell)
    broken = plan.cells[1]
    step = next(step for step in broken.steps if step.name == "cola")
    broken.write(step, 1.0, {"metric": "mcc", "dev": {"accuracy": 0.5}})
    results = summarise(plan)
    assert [cell.status for cell in results.cells] == ["finished", "failed", "finished", "finished"]
    assert results.cells[1].error.startswith("cola: the result has no mcc; it has accuracy; delete cola.json")
    assert results.cells[1].scores["blimp"] == 0.68


def test_along_a_budget_of_tokens_curves_are_over_tokens(tmp_path: Path) -> None:
    results = results_of(tmp_path, budget={"tokens": 500})
    assert results.x == "tokens"
    # 0.61 after half of its 500 tokens, as after half of its FLOPs.
    assert results.reach["blimp"].lines["better"].tokens == pytest.approx(250)
    write_study_report(tmp_path, results)
    assert "## Tokens to reach the final score of plain" in (tmp_path / "report.md").read_text()


def test_notes_are_told_once_and_what_was_not_asked_alike_is_named(tmp_path: Path) -> None:
    plan = plan_little(tmp_path)
    for cell in plan.cells:
        finish(cell)
        note = f"{cell.folder} holds no generator: no score of one"
        more = {"model": str(cell.folder), "notes": [note], "identity": cell.arm}
        step = next(step for step in cell.steps if step.name == "blimp")
        cell.write(step, 1.0, blimp(0.5) | more)
    results = summarise(plan)
    assert results.notes == (
        "blimp: the arms were not asked the same (their results differ in identity): do not compare them by it",
        "blimp: the model holds no generator: no score of one",
    )
    write_study_report(tmp_path, results)
    assert "- blimp: the model holds no generator" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("points", "target", "crossing"),
    [
        # half way in the logarithm of compute, whatever the order
        ([(1e10, 0.5), (1e12, 0.7)], 0.6, 1e11),
        ([(1e12, 0.7), (1e10, 0.5)], 0.6, 1e11),
        # never
        ([(1e10, 0.5), (1e12, 0.59)], 0.6, None),
        ([], 0.6, None),
        # the first time counts
        ([(1.0, 0.0), (10.0, 1.0), (100.0, 0.0), (1000.0, 1.0)], 1.0, 10.0),
        # by its first point already
        ([(1e10, 0.7), (1e12, 0.9)], 0.6, 1e10),
    ],
)
def test_where_a_curve_crosses(points: list[tuple[float, float]], target: float, crossing: float | None) -> None:
    assert find_crossing(points, target) == (crossing and pytest.approx(crossing))


def test_groups_are_paired_by_name_and_averaged_over_seeds() -> None:
    ours = [{"a": 0.6, "b": 0.8}, {"a": 0.8, "b": 0.8}]
    theirs = [{"b": 0.5, "a": 0.5, "c": 1.0}, {"a": 0.7, "b": 0.7}]
    assert pair_groups(ours, theirs) == pytest.approx([0.1, 0.2])


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
