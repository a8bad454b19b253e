"""The report as a reader meets it: pointer, keys, themes, phones, no script, and a run that goes on."""

import json
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from electra_process import Shell
from page_fixtures import CHROMIUM, wait_until
from report_folders import make_record, make_run, write_examples
from test_page_access import CONTRAST, read_tree

from electralab.reporting.page import write_report

if TYPE_CHECKING:
    from page_fixtures import Open
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

LOSS = "[data-chart=loss]"


def test_the_pointer_reads_values_and_leaves_nothing_behind(open_report: "Open") -> None:
    page = open_report("run")
    box = page.locator(f"{LOSS} .plot").bounding_box()
    assert box
    page.locator(f"{LOSS} .plot").scroll_into_view_if_needed()
    page.locator(f"{LOSS} .plot").hover(position={"x": box["width"] - 20, "y": 60})
    page.get_by_label("Smoothing").fill("0")
    page.locator(f"{LOSS} .plot").hover(position={"x": box["width"] - 14, "y": 60})
    assert page.locator(f"{LOSS} .card b").text_content() == "40 steps"
    assert "8" in (page.locator(f"{LOSS} .card span span").text_content() or "")
    page.mouse.move(2, 2)
    assert page.locator(".card").count() == 0


def test_arrow_keys_read_the_same_values_aloud(open_report: "Open") -> None:
    page = open_report("run")
    page.get_by_label("Smoothing").fill("0")
    plot = page.locator(f"{LOSS} .plot")
    plot.focus()
    for key, said in (("End", "40 steps"), ("ArrowLeft", "39 steps"), ("Home", "1 steps"), ("ArrowRight", "2 steps")):
        page.keyboard.press(key)
        assert (plot.get_attribute("aria-valuetext") or "").startswith(f"{said}: ")
    assert (plot.get_attribute("aria-valuetext") or "").endswith("9.9")
    page.keyboard.press("Escape")
    assert page.locator(".card").count() == 0


def test_held_out_values_are_read_only_near_where_they_were_measured(open_report: "Open") -> None:
    page = open_report("run")
    plot = page.locator("[data-chart=guessing-loss] .plot")
    plot.focus()
    page.keyboard.press("Home")
    assert plot.get_attribute("aria-valuetext") == "1 steps: training 8.95 (smoothed)"
    page.keyboard.press("End")
    assert (plot.get_attribute("aria-valuetext") or "").endswith("held out 4.5")
    page.keyboard.press("ArrowLeft")
    assert (plot.get_attribute("aria-valuetext") or "").endswith("held out 4.5 (at 40)")


def test_a_logarithm_leaves_out_what_is_zero(open_report: "Open", tmp_path: Path) -> None:
    run = make_run(tmp_path / "zero")
    records = [make_record(step, loss=max(0.0, step - 10.0)) for step in range(1, 41)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    write_report([run], tmp_path / "zero.html")
    page = open_report(address=(tmp_path / "zero.html").as_uri())
    line = f"document.querySelector('{LOSS} path.line').getAttribute('d')"
    page.get_by_label("Smoothing").fill("0")
    assert page.evaluate(line).count("L") == 39
    page.get_by_label("Logarithmic").check()
    assert page.evaluate(line).count("L") == 29
    assert "NaN" not in page.locator(f"{LOSS} svg.frame").inner_html()


def test_a_folded_chart_is_drawn_for_its_width_when_it_is_opened(open_report: "Open", tmp_path: Path) -> None:
    run = make_run(tmp_path / "zero")
    records = [make_record(step, recall=0.0) for step in range(1, 41)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    write_report([run], tmp_path / "zero.html")
    page = open_report(address=(tmp_path / "zero.html").as_uri(), viewport={"width": 360, "height": 700})
    chart = page.locator("[data-chart=recall] .plot")
    assert not chart.is_visible()
    page.get_by_text("Always 0: Replaced tokens found").click()
    box, plot = chart.locator("svg.frame").bounding_box(), chart.bounding_box()
    assert box
    assert plot
    assert 200 < box["width"] < plot["width"] <= 360


def test_a_tap_shows_values_and_they_stay(open_report: "Open") -> None:
    page = open_report("run", has_touch=True, viewport={"width": 360, "height": 700})
    page.locator(f"{LOSS} .plot").tap()
    assert page.locator(f"{LOSS} .card").count() == 1
    page.locator("[data-chart=auc] .plot").tap()
    assert page.locator(".card").count() == 1


def test_print_is_light_and_open_and_leaves_the_page_as_it_was(open_report: "Open") -> None:
    page = open_report("run", color_scheme="dark")
    folded = page.locator("#settings details")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("html").get_attribute("data-theme") == "light"
    assert folded.get_attribute("open") is not None
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("html").get_attribute("data-theme") is None
    assert folded.get_attribute("open") is None


def test_smoothing_axis_logarithm_and_legend_redraw_and_are_kept(open_report: "Open") -> None:
    page = open_report("run")
    line = f"document.querySelector('{LOSS} path.line').getAttribute('d')"
    before = page.evaluate(line)
    page.get_by_label("Smoothing").fill("0.99")
    assert page.evaluate(line) != before
    page.get_by_label("Over").select_option("time")
    assert page.locator(f"{LOSS} .across:not(.hidden) text").last.text_content() == "time"
    page.get_by_label("Logarithmic").check()
    page.locator("[data-chart=guessing-loss]").get_by_role("button", name="baseline").click()
    assert page.locator("[data-chart=guessing-loss] line.level:not(.hidden)").count() == 0
    kept = page.evaluate(line)
    page.reload()
    assert page.evaluate(line) == kept
    assert page.locator("[data-chart=guessing-loss] line.level:not(.hidden)").count() == 0


def test_smoothing_of_the_page_is_that_of_the_still_picture(open_report: "Open") -> None:
    from electralab.reporting.charts import smooth

    page = open_report("run")
    values = [4.0, None, 1.0, 3.5]
    assert page.evaluate("(values) => smooth(values, 0.8)", values) == pytest.approx(smooth(values, 0.8))


def test_a_comparison_lays_runs_over_each_other(open_report: "Open") -> None:
    page = open_report("first", "second")
    assert page.locator(f"{LOSS} path.line").count() == 2
    assert page.locator("#examples h3").all_text_contents() == ["first", "second"]
    assert page.get_by_role("heading", level=1).text_content() == "first · second"
    row = page.get_by_role("region", name="Settings that are not the same in all").get_by_role("row").last
    assert row.text_content() == "seed01"
    assert page.get_by_label("Over").input_value() == "flops"


def test_examples_are_shaded_by_suspicion_and_tell_their_guesses_to_the_keyboard(open_report: "Open") -> None:
    page = open_report("run", color_scheme="light")
    example = page.locator("#examples .example")
    assert example.locator("p").all_text_contents() == [
        "a cat sats on the red mat and slept",
        "a dog sats on the red mat and slept",
        "2 hidden, 1 restored, 1 replaced; 1 of them found, 4 false alarms.",
    ]
    assert example.locator("del").all_text_contents() == ["cat", "the"]
    assert example.locator(".put").all_text_contents() == ["dog"]
    assert example.locator(".back").all_text_contents() == ["the"]
    shades = example.locator("span").evaluate_all("(all) => all.map((one) => getComputedStyle(one).backgroundColor)")
    assert len(set(shades)) == 10
    example.locator("summary").focus()
    page.keyboard.press("Enter")
    row = example.get_by_role("row").nth(1)
    assert row.text_content() == "cat“dog” 60.0 % · “cat” 30.0 %dog95.0 %"
    page.emulate_media(media="print")
    assert not example.get_by_role("row").nth(1).is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_has_contrast_and_names_in_both_themes(open_report: "Open", theme: str) -> None:
    page = open_report("run", color_scheme="light")
    if theme == "dark":
        page.get_by_role("button", name="Change to dark").click()
    page.locator("#examples summary").click()
    ratio, where = page.evaluate(CONTRAST)
    assert ratio >= 4.5, where
    tree = read_tree(page)
    controls = {"button", "slider", "combobox", "checkbox", "link", "region"}
    assert [node for node in tree if node["role"] in controls and not node["name"]] == []


def test_a_phone_shows_it_without_scrolling_sideways(open_report: "Open") -> None:
    page = open_report("first", "second", viewport={"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('.tick')).fontSize)") >= 11


def test_without_its_script_the_charts_are_there_all_the_same(open_report: "Open") -> None:
    page = open_report("run", java_script_enabled=False)
    assert page.locator(f"{LOSS} path.line").count() == 1
    assert page.get_by_role("img", name=re.compile("Loss of guesses: training from 8.95 to 7")).count() == 1
    assert not page.get_by_label("Smoothing").is_visible()
    page.emulate_media(media="print")
    assert page.locator(f"{LOSS} svg.frame").is_visible()


def test_a_watched_run_goes_on_in_the_page(open_report: "Open", browser: "Browser", tmp_path: Path) -> None:
    assert browser.browser_type.name == "chromium", CHROMIUM
    run = make_run(tmp_path / "run", steps=20, total=80)
    write_examples(run)
    running = Shell(tmp_path).start("report", run, "--watch", "--port", 0)
    page = open_report(address=running.wait_for_address())
    assert "step 20 of 80" in (page.locator("#summary").text_content() or "")
    page.get_by_label("Smoothing").fill("0.5")
    page.evaluate("window.isTheSame = true")
    page.locator("#examples summary").click()
    with (run / "metrics.jsonl").open("a") as log:
        log.write(json.dumps(make_record(40)) + "\n")
    wait_until(page, "document.querySelector('#summary').textContent.includes('step 40 of 80')")
    assert page.evaluate("isTheSame")
    assert page.get_by_label("Smoothing").input_value() == "0.5"
    examples = run / "examples.json"
    examples.write_text(examples.read_text().replace("slept", "whale"))
    wait_until(page, "document.querySelector('#examples').textContent.includes('whale')")
    assert page.locator("#examples details").get_attribute("open") is not None
    assert page.locator("#live").text_content() == "live"
    make_run(run, steps=80, total=80)
    # Results bring baselines, for which the page is loaded anew.
    page.locator("#live", has_text="finished").wait_for()
    running.send(signal.SIGTERM)
    ended = running.wait()
    assert ended.status == 143
    assert "the page is no longer served" in ended.err


def test_a_cloud_turns_reads_words_and_hides_kinds(browser: "Browser", tmp_path: Path) -> None:
    missing = {"claim": "M33", "model": "a", "name": "x", "reason": "y"}
    (tmp_path / "analysis.json").write_text(
        json.dumps({"seed": 0, "models": [], "findings": [], "missing": [missing], "drawings": []})
    )
    points = [[i % 5, i % 7, i % 3] for i in range(30)]
    cloud = {"claim": "M33", "title": "words", "categories": ["A", "B"] * 15, "words": [f"w{i}" for i in range(30)]}
    (tmp_path / "points.json").write_text(json.dumps({"clouds": [{**cloud, "points": points}]}))
    write_report([tmp_path], tmp_path / "report.html")
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((tmp_path / "report.html").as_uri())
    canvas = page.locator(".cloud canvas")
    seen = {page.evaluate("document.querySelector('.cloud canvas').toDataURL()")}

    def changes() -> bool:
        before = len(seen)
        seen.add(page.evaluate("document.querySelector('.cloud canvas').toDataURL()"))
        return len(seen) > before

    canvas.focus()
    page.keyboard.press("ArrowLeft")
    assert changes()
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 180, box["y"] + 130)
    page.mouse.up()
    assert changes()
    page.locator(".cloud .legend button").first.click()
    assert changes()
    assert page.locator(".cloud .legend button").first.get_attribute("aria-pressed") == "false"
    page.close()
    assert wrong == []
