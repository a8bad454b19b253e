"""What goes wrong between page and server is said in words, and tried again where that helps."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from electra_process import Shell
from page_fixtures import KEY, Served, open_page, start_server, stop_server, wait_until, write

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("status", "words"), [(429, "busy"), (503, "busy"), (0, "does not answer")])
def test_a_busy_or_silent_server_is_asked_again_and_the_page_says_so(page: "Page", status: int, words: str) -> None:
    refused: list[int] = []

    def refuse_once(route: "Route") -> None:
        if refused:
            route.continue_()
            return
        refused.append(status)
        if status:
            body = {"error": {"code": "busy", "message": "the queue is full; ask again later"}}
            route.fulfill(status=status, headers={"Retry-After": "1"}, json=body)
        else:
            route.abort()

    page.route("**/v1/detect", refuse_once)
    page.locator("#text").fill("the cat sat")
    page.get_by_role("alert").get_by_text(f"{words}").wait_for()
    assert "trying again in 1 second." in page.get_by_role("alert").inner_text()
    page.locator(".token").first.wait_for()
    assert page.get_by_role("alert").is_hidden()


def test_a_server_that_stays_busy_is_asked_three_times_more_and_then_the_page_says_so(page: "Page") -> None:
    asked: list[str] = []

    def refuse(route: "Route") -> None:
        asked.append(route.request.url)
        route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": {"code": "too_slow", "message": "no"}})

    page.locator("#paper[aria-busy=false] .token").first.wait_for()  # the example that the page opens with is read
    page.route("**/v1/detect", refuse)
    # Two parts of one request: neither is tried by itself.
    page.locator("#text").fill(f"{'the cat sat on the mat. ' * 30}")
    page.get_by_role("alert").get_by_text("still busy after 3 more attempts").wait_for()
    page.wait_for_timeout(1500)
    assert len(asked) == 4
    page.unroute("**/v1/detect")
    write(page, "a dog sat")
    assert page.get_by_role("alert").is_hidden()


def test_a_refusal_is_shown_as_the_server_words_it(page: "Page") -> None:
    message = "text: has 70,000 characters, the limit is 50,000; send less"
    page.route("**/v1/predict", lambda route: route.fulfill(status=413, json={"error": {"message": message}}))
    page.get_by_role("tab", name="Predict").click()
    page.get_by_label("Model").select_option("classes")
    page.get_by_role("textbox", name="Text", exact=True).fill("the cat")
    page.get_by_role("alert").get_by_text(message).wait_for()
    page.get_by_role("tab", name="Suspicious words").click()
    assert page.get_by_role("alert").is_hidden()


@pytest.fixture(scope="module")
def locked(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(f"{KEY}\n")
    running, server = start_server(Shell(folder), models / "pair", "--key-file", "keys")
    yield server
    stop_server(running)


def test_a_server_with_keys_is_given_one_that_ends_with_the_session(browser: "Browser", locked: Served) -> None:
    for page in open_page(browser.new_page(), locked):
        field = page.get_by_label("Key", exact=True)
        # Asked for at the start, before anything is typed.
        page.get_by_text("This server asks for a key").wait_for()
        wait_until(page, "document.activeElement.id === 'key'")
        page.locator("#text").fill("the cat sat")
        field.fill("schlüssel")
        field.press("Enter")
        page.get_by_text("That is not a key").wait_for()
        # Another request that lacks a key does not talk over it.
        page.locator("#text").fill("the cat sat on")
        page.wait_for_timeout(1500)
        assert page.get_by_text("That is not a key").is_visible()
        field.fill("wrong")
        field.press("Enter")
        page.get_by_text("That key was not accepted").wait_for()
        field.fill(KEY)
        field.press("Enter")
        page.locator(".token").first.wait_for()
        assert page.get_by_role("alert").is_hidden()
        assert page.evaluate("[sessionStorage.getItem('key'), localStorage.getItem('key')]") == [KEY, None]
        write(page, "a dog")


def test_one_key_is_enough_for_all_who_wait_and_whoever_types_goes_on_typing(
    browser: "Browser", locked: Served
) -> None:
    for page in open_page(browser.new_page(), locked):
        field = page.get_by_label("Key", exact=True)
        field.fill("wrong")
        field.press("Enter")
        # Two kinds of requests wait for the right one.
        text = page.locator("#text")
        text.fill("")
        text.press_sequentially("the cat", delay=80)
        page.get_by_text("That key was not accepted").wait_for()
        text.press_sequentially(" sat", delay=80)
        assert text.input_value() == "the cat sat"
        page.get_by_role("tab", name="Mask & corrupt").click()
        page.get_by_role("button", name="Play again").click()
        page.wait_for_timeout(500)
        field.fill(KEY)
        field.press("Enter")
        page.locator("#score").get_by_text("tokens were hidden").wait_for()
        page.get_by_role("tab", name="Suspicious words").click()
        page.locator(".token").first.wait_for()
        assert page.get_by_role("alert").is_hidden()


def test_a_browser_that_stores_nothing_still_takes_a_key_and_a_theme(browser: "Browser", locked: Served) -> None:
    opened = browser.new_page()
    blocked = "{ get() { throw new DOMException('blocked', 'SecurityError'); } }"
    opened.add_init_script(
        f"for (const name of ['sessionStorage', 'localStorage']) Object.defineProperty(window, name, {blocked});"
    )
    for page in open_page(opened, locked):
        field = page.get_by_label("Key", exact=True)
        field.fill(KEY)
        field.press("Enter")
        ground = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(ground)
        page.get_by_role("button", name="Switch between light and dark").click()
        assert page.evaluate(ground) != before
        write(page, "the cat sat")
        page.locator(".token").first.wait_for()
