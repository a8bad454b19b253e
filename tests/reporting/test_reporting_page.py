"""The page: what it says in words, that it says it safely, and what it draws."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_folders import make_run

from electralab.reporting.composing import compose_page, json_in_html
from electralab.reporting.curves import draw_charts, smooth
from electralab.reporting.differences import find_differences
from electralab.reporting.drawing import find_ticks, pad, shorten
from electralab.reporting.format import format_count, format_estimate, format_seconds
from electralab.reporting.markup import table
from electralab.reporting.stage import write_report
from electralab.reporting.subjects import Subject, read_subject
from electralab.reporting.summary import summarise
from electralab.reporting.tuning import find_majority


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Elements()
    parser.feed(page)
    return parser.found


def test_baselines_are_told_in_words(tmp_path: Path) -> None:
    said = " ".join(summarise(read_subject(make_run(tmp_path / "mine"))))
    assert said.startswith("mine is an ELECTRA pair of size tiny on the modern backbone: a generator guesses")
    assert "It was trained for 40 steps on 4,000 tokens in 20 s, 4e10 FLOPs." in said
    assert "restores 27.7 % of the hidden tokens of text it has not seen; always saying the most frequent one" in said
    assert "gets 5.0 %" in said
    assert "as many calls at random would find 2.5 %" in said
    assert "Its loss is 0.315, better than 0.370 of knowing only their share." in said


def test_a_run_that_is_still_training_says_how_far_it_is(tmp_path: Path) -> None:
    subject = read_subject(make_run(tmp_path / "mine", steps=20, total=80))
    assert "It is at step 20 of 80 (25.0 %)" in " ".join(summarise(subject))
    assert '<progress max="80" value="20"' in compose_page([subject])


def test_the_most_frequent_class_is_the_baseline_of_a_classifier() -> None:
    classes = [{"name": "a", "support": 30}, {"name": "b", "support": 10}]
    assert find_majority({"report": {"classes": classes, "confusion": [[30, 0], [10, 0]]}}) == 0.75
    assert find_majority({"report": {"classes": classes}}) is None


EVIL = "</script><img src=x onerror=alert(1)>\"'&"


def test_nothing_from_a_file_becomes_markup(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", size=EVIL, model={"backbone": EVIL, EVIL: EVIL})
    (run / "environment.json").write_text(json.dumps({EVIL: EVIL, "command": [EVIL]}))
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1, EVIL: 2.0}) + "\n")
    row = {"pieces": [EVIL], "is_masked": [True], "guesses": [[{"text": EVIL, "p": 0.5}]]}
    row |= {"corrupted": [EVIL], "is_replaced": [True], "p_replaced": [0.5]}
    (run / "examples.json").write_text(json.dumps({"rows": [row]}))
    (run / "scores.json").write_text(json.dumps({"suite": EVIL, "scores": {EVIL: 1.0}, "notes": [EVIL]}))
    (run / "analysis").mkdir()
    evil = {"name": EVIL, "claim": EVIL, "reason": EVIL, "model": EVIL}
    (run / "analysis" / "analysis.json").write_text(json.dumps({"missing": [evil], "findings": [evil]}))
    found = elements(compose_page([read_subject(run, EVIL)]))
    assert not [tag for tag, _ in found if tag == "img"]
    assert sum(tag == "script" for tag, _ in found) == 2


def test_the_page_keeps_its_own_policy(tmp_path: Path) -> None:
    page = compose_page([read_subject(make_run(tmp_path / "run"))])
    found = elements(page)
    assert not [names for _, names in found if any(name == "style" or name.startswith("on") for name in names)]
    assert [tag for tag, _ in found].count("style") == 1
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    policy = next(names["content"] for _, names in found if names.get("http-equiv"))
    for text in (re.search(r"<style>(.*?)</style>", page, re.S), re.search(r"<script>(.*?)</script>", page, re.S)):
        assert text
        assert policy
        assert b64encode(sha256(text[1].encode()).digest()).decode() in policy


def test_json_cannot_end_its_element() -> None:
    assert "<" not in json_in_html({"a": "</script>"})
    assert json.loads(json_in_html({"a": "</script>"})) == {"a": "</script>"}


def test_cells_of_a_table_are_text() -> None:
    assert "<td>&lt;b&gt;</td>" in table("t", ["a", "b"], [("x", "<b>")])


def test_only_settings_that_differ_are_told() -> None:
    first = {"size": "tiny", "model": {"layers": 2, "heads": 2}}
    second = {"size": "tiny", "model": {"layers": 4, "heads": 2}, "extra": True}
    assert find_differences([first, second]) == {"model.layers": [2, 4], "extra": ["–", True]}
    assert find_differences([first, first]) == {}


def test_smoothing_is_a_mean_whose_memory_fades() -> None:
    assert smooth([4.0, None, 1.0], 0.5) == [4.0, None, 2.0]
    assert smooth([4.0, 1.0], 0.0) == [4.0, 1.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 0.99))
def test_smoothing_is_the_weighted_mean_of_all_before(values: list[float], weight: float) -> None:
    weights = [weight ** (len(values) - 1 - i) for i in range(len(values))]
    slow = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    last = smooth(values, weight)[-1]
    assert last == pytest.approx(slow, abs=1e-3, rel=1e-6)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_are_few_and_inside(low: float, width: float) -> None:
    found = find_ticks((low, low + width), 5)
    assert len(found) <= 9
    assert all(low - width * 1e-6 <= tick <= low + width * (1 + 1e-6) for tick in found)


def test_a_level_line_has_room_though_its_last_places_differ() -> None:
    low, high = pad((0.001, 0.001 + 2e-19))
    assert (low, high) == pytest.approx((0.00095, 0.00105))
    assert pad((0.0, 0.0)) == (-1.0, 1.0)


def test_neighbouring_ticks_have_different_labels_and_steps_are_whole() -> None:
    assert [shorten(value, 50) for value in (1000, 1050, 1100)] == ["1k", "1.05k", "1.1k"]
    assert [shorten(value, 5e8, is_exponential=True) for value in (0, 5e8, 1e9, 1.5e9)] == ["0", "5e8", "1e9", "1.5e9"]
    assert find_ticks((1, 4), 5, is_whole=True) == [1, 2, 3, 4]
    assert find_ticks((1, 12), 5, is_whole=True) == [2, 4, 6, 8, 10, 12]


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_no_two_ticks_read_alike(low: float, width: float) -> None:
    found = find_ticks((low, low + max(width, abs(low) * 1e-4)), 5)
    distance = found[1] - found[0] if len(found) > 1 else 0.0
    assert len({shorten(tick, distance) for tick in found}) == len(found)


def test_columns_of_numbers_stand_to_the_right_and_others_do_not() -> None:
    made = table("t", ["a", "b", "c"], [("x", "−0.1", 1), ("y", None, "wide")])
    assert '<th scope="col" class="number">b</th><th scope="col">c</th>' in made
    assert '<td class="number">−0.1</td><td>1</td>' in made


def test_digits_follow_the_width_of_the_interval() -> None:
    assert format_estimate(-0.12345, -0.2, -0.05) == "−0.12 (−0.20 to −0.05)"
    assert format_estimate(1234.5, 1000, 1500) == "1234 (1000 to 1500)"
    assert format_estimate(-1e-17, -2e-17, 0.0) == "0"
    assert format_estimate(0.5) == "0.5"


def test_numbers_are_said_shortly() -> None:
    assert [shorten(value) for value in (0.0, 0.25, 1500, 2.5e6, 3e13)] == ["0", "0.25", "1.5k", "2.5M", "3e13"]
    assert [format_count(value) for value in (950, 11_366_345, 2.1e9)] == ["950", "11.4 million", "2.1 billion"]
    assert [format_seconds(value) for value in (42, 90, 600, 7200)] == ["42 s", "1.5 min", "10 min", "2.0 h"]


def test_training_and_held_out_rows_share_a_chart_with_the_baseline(tmp_path: Path) -> None:
    charts = {chart.name: chart for chart in draw_charts([read_subject(make_run(tmp_path / "run"))])}
    chart = charts["guessing-loss"]
    assert [(line.name, line.is_noisy, len(line.y)) for line in chart.lines] == [
        ("training", True, 40),
        ("held out", False, 4),
    ]
    assert [(level.name, level.y) for level in chart.levels] == [("baseline", 6.9)]
    assert chart.lines[1].x["tokens"] == [1000, 2000, 3000, 4000]
    assert not charts["rate"].lines[0].is_noisy


def test_a_run_keeps_its_colour_over_all_charts_of_a_comparison(tmp_path: Path) -> None:
    first, second = (read_subject(make_run(tmp_path / name), name) for name in ("a", "b"))
    for record in first.logs[""]:
        del record["auc"]
    charts = {chart.name: chart for chart in draw_charts([first, second])}
    assert {line.color for line in charts["loss"].lines if line.name.startswith("b")} == {1}
    assert {line.color for line in charts["auc"].lines if line.name == "b, training"} == {1}
    assert [level.name for level in charts["guessing-loss"].levels] == ["baseline of a, b"]


def test_a_long_log_is_thinned_to_means() -> None:
    records = [{"step": step, "loss": float(step % 2)} for step in range(1, 4001)]
    [chart] = draw_charts([Subject("run", "run", Path("run"), logs={"": records})])
    assert len(chart.lines[0].y) == 800
    assert chart.lines[0].x["step"][-1] == 4000
    assert chart.lines[0].y[1] == pytest.approx(0.4)


def test_a_comparison_says_what_differs_and_all_last_scores(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1)]
    result = write_report(runs, tmp_path / "report.html")
    assert [one["name"] for one in result["subjects"]] == ["a", "b"]
    page = (tmp_path / "report.html").read_text()
    assert '<th scope="row">seed</th><td class="number">0</td><td class="number">1</td>' in page
    assert '<th scope="row">accuracy of guesses</th><td class="number">0.277</td>' in page
    assert '<th scope="row">size</th>' not in page.partition('id="settings"')[0]


def test_findings_stand_beside_their_controls_and_missing_ones_say_why(tmp_path: Path) -> None:
    figure = {
        "model": "a",
        "name": "anisotropy",
        "claim": "M33",
        "layer": 2,
        "unit": "cosine",
        "meaning": "mean cosine",
        **{"value": 0.4, "low": 0.3, "high": 0.5},
        "control": {"value": 0.0, "low": -0.1, "high": 0.1, "meaning": "noise"},
        "note": "",
    }
    missing = {"model": "a", "name": "analogies", "claim": "M34", "reason": "needs 20 quadruples, 3 given"}
    analysis = {"version": 1, "models": [{"name": "a"}], "findings": [figure], "missing": [missing], "drawings": []}
    (tmp_path / "analysis.json").write_text(json.dumps(analysis))
    cloud = {"claim": "M33", "title": "words", "points": [[0, 0, 1]] * 3, "categories": ["N", "V", "V"]}
    (tmp_path / "points.json").write_text(json.dumps({"clouds": [{**cloud, "words": ["cat", "ran", "<b>"]}, cloud]}))
    subject = read_subject(tmp_path)
    assert subject.troubles == (f"{tmp_path / 'points.json'}: not all of it are points; the others are shown",)
    page = compose_page([subject])
    assert "0.00 (−0.10 to 0.10)" in page
    assert '<li class="c0 steady">V</li><li class="c1 steady">N</li>' in page
    assert '"kinds":[1,0,0],"names":["V","N"],"words":["cat","ran","\\u003cb>"]' in page
    assert "0.40 (0.30 to 0.50)" in page
    assert "<strong>analogies (a).</strong> needs 20 quadruples, 3 given" in page


def test_charts_that_show_nothing_but_zeros_are_folded(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]

    def page(recall: float) -> str:
        written = "".join(json.dumps({**record, "recall": recall, "heldout_recall": 0.0}) + "\n" for record in records)
        (run / "metrics.jsonl").write_text(written)
        return compose_page([read_subject(run, "run")])

    folded = page(0.0).partition("<details><summary>Always 0: Replaced tokens found</summary>")[2]
    assert 'data-chart="recall"' in folded.partition("</details>")[0]
    assert "Always 0" not in page(0.01)
