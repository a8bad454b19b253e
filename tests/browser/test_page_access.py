"""The page for everyone: names, landmarks, contrast, keys, phones, print, and people who want no motion."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from page_fixtures import Served, open_page, write

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

CAT = "the cat sat on the old mat and a dog saw who sat near the log"
MODES = ("Suspicious words", "Predict", "Mask & corrupt")
CONTROLS = {"button", "textbox", "slider", "combobox", "tab", "link", "spinbutton", "dialog", "tabpanel", "region"}

CONTRAST = (Path(__file__).parents[1] / "support" / "contrast.js").read_text()
# Text lies over the shading in another layer, which no walk over ancestors can see.
OVER_HEAT = """() => [...Array(9).keys()].map((level) => {
  const patch = document.createElement("p");
  patch.className = `heat-${level + 1}`;
  patch.textContent = "text";
  $("main").append(patch);
})"""


def show(page: "Page", mode: str) -> None:
    page.get_by_role("tab", name=mode).click()
    if mode == "Suspicious words":
        write(page, CAT)
        page.locator("#text").focus()
        page.keyboard.press("F8")
        page.locator("#card .row:focus").wait_for()
    elif mode == "Predict":
        page.get_by_label("Model").select_option("classes")
        page.get_by_role("button", name="Praise").click()
        page.locator("#answer .verdict").wait_for()
    else:
        page.get_by_role("textbox", name="Your text").fill(CAT)
        page.locator(".line").first.wait_for()


def read_tree(page: "Page") -> list[dict[str, Any]]:
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    return [
        {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "").strip()}
        for node in nodes
        if not node["ignored"] and "role" in node
    ]


def test_every_control_has_a_name_and_the_page_its_landmarks(page: "Page") -> None:
    assert page.evaluate("[document.documentElement.lang, document.title]") == ["en", "ELECTRA: what looks replaced?"]
    for mode in MODES:
        show(page, mode)
        tree = read_tree(page)
        assert [node for node in tree if node["role"] in CONTROLS and not node["name"]] == []
        for landmark in ("banner", "main", "contentinfo", "tablist"):
            assert sum(node["role"] == landmark for node in tree) == 1
        assert page.get_by_role("heading", level=1).count() == 1
        panel = page.get_by_role("tabpanel")
        assert panel.count() == 1
        assert panel.evaluate("(one) => one.getAttribute('aria-labelledby')") == page.locator(
            "[role=tab][aria-selected=true]"
        ).get_attribute("id")
    assert page.evaluate("[...document.querySelectorAll('[data-say]')].filter((one) => !one.textContent).length") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast_in_both_themes(page: "Page", theme: str) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    for mode in MODES:
        show(page, mode)
        if mode == "Suspicious words":
            page.evaluate(OVER_HEAT)
        ratio, where = page.evaluate(CONTRAST)
        assert ratio >= 4.5, f"{mode}, {theme}: {where}"


def test_tab_visits_every_control_in_order_and_leaves(page: "Page") -> None:
    is_reached = "(one) => one.checkVisibility() && one.tabIndex >= 0 && !one.disabled"
    reach = f"[...document.querySelectorAll('a, button, input, select, textarea')].filter({is_reached})"
    # The answer to the first example brings controls of its own, on a busy machine only after a while.
    page.locator("#next:enabled").wait_for()
    expected = page.evaluate(f"{reach}.length")
    assert expected > 10
    visited = []
    for _ in range(expected + 1):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(
            f"[{reach}.indexOf(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]"
        )
        if place < 0:
            break
        assert outline != "none"
        visited.append(place)
    assert visited == list(range(expected))


def test_the_card_lets_go_of_the_keyboard(page: "Page") -> None:
    show(page, "Suspicious words")
    for _ in range(page.locator("#card .row").count()):
        assert page.evaluate("$('card').contains(document.activeElement)")
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "previous"
    assert page.locator("#card").is_hidden()


def test_a_phone_has_no_sideways_scrolling_and_room_for_fingers(browser: "Browser", served: Served) -> None:
    phone = browser.new_page(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    for page in open_page(phone, served):
        for mode in MODES:
            show(page, mode)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            heights = "(all) => all.filter((one) => one.checkVisibility()).map((one) => one.clientHeight)"
            assert min(page.locator("button, select, input").evaluate_all(heights)) >= 28
        page.get_by_role("tab", name="Suspicious words").click()
        page.locator(".token", has_text="cat").evaluate("(one) => one.scrollIntoView({block: 'center'})")
        place = page.locator(".token", has_text="cat").bounding_box()
        assert place
        page.touchscreen.tap(place["x"] + 4, place["y"] + 8)
        page.locator("#card .row").first.wait_for()
        assert page.locator("#card-word").inner_text() == "cat"


def test_theme_motion_and_print_follow_the_reader(page: "Page") -> None:
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Switch between light and dark").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    page.get_by_role("tab").first.wait_for()
    assert page.evaluate(ground) == light
    show(page, "Suspicious words")
    assert page.locator("#card").evaluate("(card) => getComputedStyle(card).animationName") == "none"
    page.emulate_media(media="print")
    assert page.locator("#text").is_hidden()
    assert page.locator("#card").is_hidden()
    assert page.locator("#backdrop").evaluate("(one) => getComputedStyle(one).color") == "rgb(0, 0, 0)"
