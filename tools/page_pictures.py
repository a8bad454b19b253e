"""Takes the pictures of docs/page.md from a running server: `PYTHONPATH=tests/support python tools/page_pictures.py http://127.0.0.1:8000`.

The server should hold a pre-trained pair and a model tuned to classify texts.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from page_fixtures import CHROMIUM, SWITCHES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def open_new(browser: "Browser", address: str, *, width: int = 1120, height: int = 720, **more: Any) -> "Page":
    page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce", **more)
    page.set_default_timeout(120_000)
    page.goto(address)
    page.get_by_role("tab").first.wait_for()
    return page


LIFE = (
    "He was born in London of a poor family, studied of the University of Oxford, and become a teacher in 1902. "
    "His first book were published two years before he died."
)


def read_example(page: "Page") -> None:
    page.locator("#text").fill(LIFE)
    page.locator("#paper[aria-busy=false] .token").first.wait_for()


def hover(page: "Page", word: str) -> None:
    place = page.locator(".token", has_text=word).first.bounding_box()
    assert place
    page.mouse.move(place["x"] + 5, place["y"] + 9)
    page.locator("#card .row").first.wait_for()


def keep(page: "Page", name: str) -> None:
    page.wait_for_timeout(300)
    page.screenshot(path=PICTURES / f"page-{name}.png")
    page.close()


def take_pictures(browser: "Browser", address: str) -> None:
    for theme in ("light", "dark"):
        page = open_new(browser, address, color_scheme=theme)
        read_example(page)
        keep(page, theme)

    page = open_new(browser, address)
    read_example(page)
    hover(page, "studied")
    keep(page, "card")

    page = open_new(browser, address, width=360, height=720, has_touch=True, is_mobile=True)
    read_example(page)
    keep(page, "phone")

    page = open_new(browser, address, height=960)
    page.get_by_role("tab", name="Mask & corrupt").click()
    page.locator(".line").first.wait_for()
    keep(page, "game")

    page = open_new(browser, address, height=480)
    page.get_by_role("tab", name="Predict").click()
    page.locator("#answer .verdict").wait_for()
    keep(page, "prediction")

    page = open_new(browser, address, height=560)
    page.route("**/v1/detect", _be_busy)
    page.locator("#text").fill(LIFE)
    page.get_by_text("trying again").wait_for()
    keep(page, "error")


def _be_busy(route: "Route") -> None:
    route.fulfill(status=429, headers={"Retry-After": "5"}, json={"error": {"message": "busy"}})


def main() -> None:
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        take_pictures(playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES), sys.argv[1])


if __name__ == "__main__":
    main()
