"""The report as a reader meets it: pointer, keys, themes, phones, no script, and a run that goes on."""

import json
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from electra_process import Shell
from page_fixtures import CHROMIUM, wait_until
from report_folders import make_record, make_run
from test_page_access import CONTRAST, read_tree

from electralab.reporting.stage import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from report_fixtures import Open

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


def test_smoothing_axis_logarithm_and_legend_redraw_and_are_kept(open_report: "Open") -> None:
    page = open_report("run")
    line = f"document.querySelector('{LOSS} path.line').getAttribute('d')"
    before = page.evaluate(line)
    page.get_by_label("Smoothing").fill("0.99")
    assert page.evaluate(line) != before
    page.get_by_label("Over").select_option("time")
    assert page.locator(f"{LOSS} text").last.text_content() == "time"
    page.get_by_label("Logarithmic").check()
    page.locator("[data-chart=guessing-loss]").get_by_role("button", name="baseline").click()
    assert page.locator("[data-chart=guessing-loss] line.level").count() == 0
    kept = page.evaluate(line)
    page.reload()
    assert page.evaluate(line) == kept
    assert page.locator("[data-chart=guessing-loss] line.level").count() == 0


def test_smoothing_of_the_page_is_that_of_the_still_picture(open_report: "Open") -> None:
    from electralab.reporting.curves import smooth

    page = open_report("run")
    values = [4.0, None, 1.0, 3.5]
    assert page.evaluate("(values) => smooth(values, 0.8)", values) == pytest.approx(smooth(values, 0.8))


def test_a_comparison_lays_runs_over_each_other(open_report: "Open") -> None:
    page = open_report("first", "second")
    assert page.locator(f"{LOSS} path.line").count() == 2
    assert page.get_by_role("heading", level=1).text_content() == "first · second"
    row = page.get_by_role("region", name="Settings that are not the same in all").get_by_role("row").last
    assert row.text_content() == "seed01"
    assert page.get_by_label("Over").input_value() == "flops"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_has_contrast_and_names_in_both_themes(open_report: "Open", theme: str) -> None:
    page = open_report("run", color_scheme="light")
    if theme == "dark":
        page.get_by_role("button", name="Change to dark").click()
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
    assert page.locator(f"{LOSS} svg").is_visible()


def test_a_watched_run_goes_on_in_the_page(open_report: "Open", browser: "Browser", tmp_path: Path) -> None:
    assert browser.browser_type.name == "chromium", CHROMIUM
    run = make_run(tmp_path / "run", steps=20, total=80)
    running = Shell(tmp_path).start("report", run, "--watch", "--port", 0)
    end = time.monotonic() + 60
    while not (found := re.findall(r"http://\S+", "".join(one.read_text() for one in tmp_path.glob(".log-*.out")))):
        assert running.is_alive, running.wait().err
        assert time.monotonic() < end
        time.sleep(0.05)
    page = open_report(address=found[0])
    assert "step 20 of 80" in (page.locator("#summary").text_content() or "")
    page.get_by_label("Smoothing").fill("0.5")
    page.evaluate("window.isTheSame = true")
    with (run / "metrics.jsonl").open("a") as log:
        log.write(json.dumps(make_record(40)) + "\n")
    wait_until(page, "document.querySelector('#summary').textContent.includes('step 40 of 80')")
    assert page.evaluate("isTheSame")
    assert page.get_by_label("Smoothing").input_value() == "0.5"
    running.send(signal.SIGTERM)
    assert running.wait().status == 143


def test_a_cloud_turns_reads_words_and_hides_kinds(browser: "Browser", tmp_path: Path) -> None:
    (tmp_path / "analysis.json").write_text('{"findings": [], "missing": [{"claim": "M33", "name": "x"}]}')
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
