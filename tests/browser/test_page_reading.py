"""Text on the page: shaded as it is typed, one part at a time, with suggestions that can be taken and taken back."""

import json
import time
from typing import TYPE_CHECKING

import pytest
from page_fixtures import Served, tokens_shown, wait_until, write

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

pytestmark = pytest.mark.browser

CAT = "the cat sat on the old mat and a dog saw who sat near the log"


def heat_of(p: float) -> str:
    return f" heat-{min(9, int(10 * p))}" if p >= 0.1 else ""


@pytest.mark.parametrize(
    "text",
    [CAT, "the 😀 cat sat 👩‍👩‍👧 on\n\n\tthe mat 𝔘 near\n", "החתול sat על the mat"],
    ids=["plain", "emoji", "hebrew"],
)
def test_each_token_wears_the_verdict_of_the_server(page: "Page", served: Served, text: str) -> None:
    write(page, text)
    said = [answer for part in text.split("\n\n\t") for answer in served.post("detect", text=part)["tokens"]]
    shown = tokens_shown(page)
    assert [token for token, _ in shown] == [token["text"] for token in said]
    for (_, classes), token in zip(shown, said, strict=True):
        p = token["p_replaced"]
        if "\n\n\t" not in text:
            assert classes == f"token{heat_of(p)}{' over' * (p > 0.3)}"
    assert page.locator("#backdrop").evaluate("(backdrop) => backdrop.textContent") == text


def test_backdrop_and_text_have_the_same_lines(page: "Page") -> None:
    page.route("**/v1/detect", _shade_everything)
    write(page, "\n".join(["", CAT * 4, "a" * 300, "", "😀 " * 200, "\t" + CAT, ""]) + "\n\n")
    tall, field, behind = page.evaluate("[$('text').scrollHeight, $('text').clientHeight, $('backdrop').clientHeight]")
    assert tall == field == behind
    styles = (
        "(one) => ['font', 'letterSpacing', 'padding', 'whiteSpace', 'tabSize'].map((n) => getComputedStyle(one)[n])"
    )
    assert page.locator("#backdrop").evaluate(styles) == page.locator("#text").evaluate(styles)


def test_a_part_that_the_server_refuses_leaves_the_others_read(page: "Page") -> None:
    write(page, f"{CAT}\n\n漢漢漢\n\n{CAT} too")
    page.get_by_role("alert").get_by_text("nothing that the model's vocabulary knows").wait_for()
    assert page.locator(".block").evaluate_all("(all) => all.map((one) => one.querySelector('.token') !== null)") == [
        *(True, False, True)
    ]
    write(page, CAT)
    assert page.get_by_role("alert").is_hidden()


def test_only_a_changed_part_is_asked_again(page: "Page") -> None:
    asked: list[list[str]] = []

    def note(request: "Request") -> None:
        if request.url.endswith("/v1/detect"):
            asked.append(json.loads(request.post_data or "")["texts"])

    # What the page opens with is asked about first.
    page.locator("#next:enabled").wait_for()
    page.on("request", note)
    paragraphs = [f"{CAT} {number}" for number in range(5)]
    write(page, "\n\n".join(paragraphs))
    assert sorted(text.strip() for texts in asked for text in texts) == sorted(paragraphs)
    asked.clear()
    changed = "\n\n".join([*paragraphs[:2], "the dog", *paragraphs[3:]])
    write(page, changed)
    assert [[text.strip() for text in texts] for texts in asked] == [["the dog"]]
    asked.clear()
    write(page, "\n\n".join(paragraphs))
    assert asked == []


def test_an_answer_nobody_waits_for_is_dropped(page: "Page", served: Served) -> None:
    held: list[Route] = []

    def hold(route: "Route") -> None:
        if held or "cat" not in (route.request.post_data or ""):
            route.continue_()
        else:
            held.append(route)

    page.route("**/v1/detect", hold)
    page.locator("#text").fill("the cat")
    # Asked for is not sent: a request that is given up before it leaves the page is never held.
    end = time.monotonic() + 60
    while not held and time.monotonic() < end:
        page.wait_for_timeout(20)
    write(page, "a dog sat")
    assert [text for text, _ in tokens_shown(page)] == [
        t["text"] for t in served.post("detect", text="a dog sat")["tokens"]
    ]
    assert len(held) == 1


def test_hovering_shows_suggestions_and_a_click_takes_one_that_undo_takes_back(page: "Page", served: Served) -> None:
    write(page, CAT)
    place = page.locator(".token", has_text="cat").bounding_box()
    assert place
    page.mouse.move(place["x"] + 4, place["y"] + 8)
    rows = page.locator("#card .row")
    rows.first.wait_for()
    filled = served.post("fill", text=CAT, at=[[4, 7]])["blanks"][0]["guesses"]
    guesses = [guess for guess in filled if not guess["continues_word"]]
    assert rows.locator(".name").all_inner_texts() == [guess["text"] for guess in guesses]
    chance = served.post("detect", text=CAT)["tokens"][1]["p_replaced"]
    assert (
        page.locator("#card-p")
        .inner_text()
        .startswith(f"{100 * chance:.{1 if chance < 0.1 or chance > 0.99 else 0}f}"[:2])
    )
    number, other = next((n, guess["text"]) for n, guess in enumerate(guesses) if guess["text"] != "cat")
    rows.nth(number).click()
    assert page.locator("#text").input_value() == CAT.replace("cat", other, 1)
    page.keyboard.press("Control+z")
    assert page.locator("#text").input_value() == CAT
    page.mouse.move(5, 5)
    assert page.locator("#card").is_hidden()


def test_keys_alone_go_from_suspect_to_suspect_and_take_a_suggestion(page: "Page", served: Served) -> None:
    write(page, CAT)
    tokens = served.post("detect", text=CAT)["tokens"]
    suspects = [token["text"] for token in tokens if token["p_replaced"] > 0.3]
    assert len(suspects) >= 2
    page.locator("#text").focus()
    page.evaluate("$('text').setSelectionRange(0, 0)")
    visited = []
    for _ in suspects:
        page.keyboard.press("F8")
        page.locator("#card .row:focus").wait_for()
        visited.append(page.locator("#card-word").inner_text())
    assert visited == suspects
    page.keyboard.press("F8")
    assert page.locator("#card-word").inner_text() == suspects[0]
    page.keyboard.press("Shift+F8")
    assert page.locator("#card-word").inner_text() == suspects[-1]
    page.keyboard.press("Escape")
    assert page.evaluate("[document.activeElement.id, getSelection().toString()]") == ["text", suspects[-1]]
    page.keyboard.press("F8")
    page.locator("#card .row:focus").wait_for()
    page.keyboard.press("ArrowDown")
    word = page.locator("#card .row:focus .name").inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "text"
    start = next(token["start"] for token in tokens if token["p_replaced"] > 0.3)
    assert page.locator("#text").input_value().startswith(CAT[:start] + word)


def test_the_threshold_decides_what_is_underlined_and_counted(page: "Page", served: Served) -> None:
    write(page, CAT)
    chances = [token["p_replaced"] for token in served.post("detect", text=CAT)["tokens"]]
    for percent in (10, 60, 95):
        page.locator("#threshold").fill(str(percent))
        above = sum(p > percent / 100 for p in chances)
        wait_until(page, f"$('count').textContent === '{above}'")
        wait_until(page, f"document.querySelectorAll('.over:not(.relative)').length === {above}")
        # Where none passes, those that stand out are underlined with dots, and told apart from such as pass.
        assert (page.locator(".relative").count() > 0) == (above == 0)
        assert page.get_by_text("These stand out in this text").is_visible() == (above == 0)
        assert page.locator("#threshold-value").inner_text() == f"{percent}%"
    assert page.locator(".over").evaluate_all(
        "(all) => all.every((one) => getComputedStyle(one).textDecorationLine === 'underline')"
    )


def test_of_ten_thousand_words_only_those_near_the_window_have_spans(page: "Page") -> None:
    """What a long document costs is laying out its spans; so smooth scrolling is a matter of their number."""
    document = "\n\n".join(" ".join([CAT] * 6) + f" {number}." for number in range(105))
    assert len(document.split()) > 10_000
    # Answers do not matter here, and a tiny model would take its time.
    page.route("**/v1/detect", _shade_everything)
    write(page, document)
    for _ in range(2):
        page.locator(".token").last.wait_for(state="attached")
        assert 0 < page.locator(".token").count() < 4000
        assert page.evaluate(
            "[...document.querySelectorAll('.token')].some((token) => {"
            " const { top, bottom } = token.getBoundingClientRect(); return bottom > 0 && top < innerHeight; })"
        )
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
        page.wait_for_timeout(500)


def _shade_everything(route: "Route") -> None:
    texts = json.loads(route.request.post_data or "")["texts"]
    results = []
    for text in texts:
        tokens, end = [], 0
        for number, word in enumerate(text.split()):
            start = text.index(word, end)
            end = start + len(word)
            tokens.append({"text": word, "start": start, "end": end, "p_replaced": number % 10 / 10})
        results.append({"text": text, "tokens": tokens})
    route.fulfill(json={"model": "pair", "results": results})
