"""What goes wrong between page and server is said in words, and tried again where that helps."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from electra_process import Shell
from page_fixtures import KEY, Served, open_page, start_server, stop_server, write

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


def test_a_refusal_is_shown_as_the_server_words_it(page: "Page") -> None:
    message = "text: has 70,000 characters, the limit is 50,000; send less"
    page.route("**/v1/predict", lambda route: route.fulfill(status=413, json={"error": {"message": message}}))
    page.get_by_role("tab", name="Predict").click()
    page.get_by_label("Model").select_option("classes")
    page.get_by_role("textbox", name="Text", exact=True).fill("the cat")
    page.get_by_role("alert").get_by_text(message).wait_for()
    page.get_by_role("tab", name="Suspicious words").click()
    assert page.get_by_role("alert").is_hidden()


def test_a_server_with_keys_is_given_one_that_ends_with_the_session(
    browser: "Browser", models: Path, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(f"{KEY}\n")
    running, locked = start_server(Shell(tmp_path), models / "pair", "--key-file", "keys")
    for page in open_page(browser.new_page(), Served(locked.address)):
        page.locator("#text").fill("the cat sat")
        field = page.get_by_label("Key", exact=True)
        field.fill("wrong")
        field.press("Enter")
        page.get_by_text("That key was not accepted").wait_for()
        field.fill(KEY)
        field.press("Enter")
        page.locator(".token").first.wait_for()
        assert page.get_by_role("alert").is_hidden()
        assert page.evaluate("[sessionStorage.getItem('key'), localStorage.getItem('key')]") == [KEY, None]
        write(page, "a dog")
    stop_server(running)
