"""Takes the pictures of docs/report.md.

PYTHONPATH=tests/support python tools/report_pictures.py RUN.html BOTH.html STUDY.html
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from page_fixtures import CHROMIUM, SWITCHES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def open_file(browser: "Browser", path: str, *, width: int = 1120, height: int = 760, **more: Any) -> "Page":
    page = browser.new_page(viewport={"width": width, "height": height}, **more)
    page.goto(Path(path).resolve().as_uri())
    return page


def keep(page: "Page", name: str, section: str = "", *, point: str = "") -> None:
    if section:
        page.evaluate("(name) => document.getElementById(name).scrollIntoView()", section)
    if point:
        plot = page.locator(f"[data-chart={point}] .plot")
        box = plot.bounding_box()
        assert box
        plot.hover(position={"x": 0.6 * box["width"], "y": 0.4 * box["height"]})
    page.wait_for_timeout(300)
    page.screenshot(path=PICTURES / f"report-{name}.png")
    page.close()


def main() -> None:
    from playwright.sync_api import sync_playwright

    run, comparison, study = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        keep(open_file(browser, run), "light")
        keep(open_file(browser, comparison), "compare", "learning", point="guessing-loss")
        dark = open_file(browser, run, color_scheme="dark")
        dark.locator(".example summary").first.click()
        keep(dark, "dark", "examples")
        keep(open_file(browser, study), "claims", "claims")
        keep(open_file(browser, study, width=390, height=844, color_scheme="light"), "phone")


if __name__ == "__main__":
    main()
