"""Tuned models on the page, and the game of pre-training: what the server answers is what one reads."""

from typing import TYPE_CHECKING

import pytest
from page_fixtures import Served, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

FIRST, SECOND = "the cat sat", "a dog saw who sat near the old log"


def choose(page: "Page", model: str) -> None:
    page.get_by_role("tab", name="Predict").click()
    page.get_by_label("Model").select_option(model)


def test_classes_have_bars_and_numbers_and_the_likeliest_stands_first(page: "Page", served: Served) -> None:
    choose(page, "classes")
    assert page.locator("#second").is_hidden()
    # The answer about the example that the page began with must be gone.
    page.get_by_role("textbox", name="Text", exact=True).fill("")
    page.locator("#answer", has_text="as you type").wait_for()
    page.get_by_role("textbox", name="Text", exact=True).fill(FIRST)
    said = served.post("predict", text=FIRST, model="classes")
    page.locator("#answer .verdict", has_text=said["prediction"]).wait_for()
    likeliest = sorted(said["probabilities"], key=lambda name: -said["probabilities"][name])
    rows = page.locator(".chances li")
    assert [row.split("\n")[0] for row in rows.all_inner_texts()] == likeliest
    width = page.locator(".chances .bar").first.evaluate("(bar) => getComputedStyle(bar, '::before').width")
    whole = page.locator(".chances .bar").first.evaluate("(bar) => bar.clientWidth")
    assert float(width.removesuffix("px")) / whole == pytest.approx(said["probabilities"][likeliest[0]], abs=0.01)


def test_pairs_questions_numbers_and_tags_each_have_their_form(page: "Page", served: Served) -> None:
    choose(page, "pairs")
    page.get_by_label("First text").fill(FIRST)
    page.get_by_label("Second text").fill("")
    page.locator("#answer", has_text="as you type").wait_for()
    assert "as you type" in page.locator("#answer").inner_text()
    page.get_by_label("Second text").fill(SECOND)
    said = served.post("predict", text=[FIRST, SECOND], model="pairs")
    page.locator("#answer .verdict", has_text=said["prediction"]).wait_for()

    choose(page, "number")
    page.locator("#answer h2", has_text="Predicted value").wait_for()

    choose(page, "tags")
    page.locator(".tagged > span").first.wait_for()
    assert page.locator(".tagged bdi").all_inner_texts() == FIRST.split()
    tags = served.post("predict", text=FIRST, model="tags")["prediction"]
    assert [tag.split()[0] for tag in page.locator(".tagged small").all_inner_texts()] == tags

    choose(page, "answers")
    context = f"😀 {SECOND}"
    page.get_by_label("Question").fill("who sat near the log")
    page.get_by_label("Text to search").fill(context)
    said = served.post("predict", text={"question": "who sat near the log", "context": context}, model="answers")
    page.locator("#answer .verdict", has_text=said["prediction"] or "No answer").wait_for()
    if said["prediction"]:
        assert page.locator("#answer mark").inner_text() == said["prediction"]


def test_the_game_is_four_rows_and_a_score_in_words(page: "Page", served: Served) -> None:
    text = "the cat sat on the mat and a dog saw who sat near the old log"
    page.get_by_role("tab", name="Mask & corrupt").click()
    page.get_by_role("textbox", name="Your text").fill(text)
    page.get_by_role("slider", name="Hide").fill("40")
    page.get_by_role("spinbutton", name="Seed").fill("3")
    said = served.post("play", text=text, mask_share=0.4, seed=3)
    scores, count = said["scores"], len(said["tokens"])
    page.locator("#score", has_text=f"{scores['masked']} of {count} tokens were hidden").wait_for()
    words = page.locator("#score").inner_text()
    assert not scores["replaced"] or f"caught {scores['found']} of {scores['replaced']}" in words
    for row, names in enumerate(
        (
            [token["text"] for token in said["tokens"]],
            None,
            [token["drawn"] or token["text"] for token in said["tokens"]],
        )
    ):
        cells = page.locator(f".line tr:nth-child({row + 1}) .cell").all_text_contents()
        assert names is None or [cell.removeprefix("hidden: ") for cell in cells] == names
    assert page.locator(".hatched").count() == scores["masked"]
    assert page.locator(".swapped").count() == scores["replaced"]
    outcomes = page.locator(".outcome").all_inner_texts()
    assert sum("caught" in outcome for outcome in outcomes) == scores["found"]
    assert sum("false alarm" in outcome for outcome in outcomes) == scores["false_alarms"]
    page.get_by_role("button", name="Play again").click()
    assert page.get_by_role("spinbutton", name="Seed").input_value() == "4"
    again = served.post("play", text=text, mask_share=0.4, seed=4)
    wait_until(page, f"document.querySelectorAll('.swapped').length === {again['scores']['replaced']}")
    edges = page.locator(".line").evaluate_all("(all) => all.map((line) => line.getBoundingClientRect().right)")
    assert max(edges) <= page.evaluate("$('lines').getBoundingClientRect().right")
