"""The page of a real run opens with a row that it held out, names the model and its classes, and says if it is weak."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from electra_process import Shell
from little_runs import KINDS, NAMES, SMALL, prepare_little
from page_fixtures import Served, open_page, start_server, stop_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained run that has hardly learned, and one tuned from it."""
    shell = Shell(tmp_path_factory.mktemp("runs"))
    prepare_little(shell)
    fast = ("--steps", 20, "--optimizer.learning-rate", "0.01", "--evaluation.times", 1)
    shell.must("pretrain", "--data", "data", "--out", "pair", *fast, *SMALL)
    rows = [
        f"{who} sees the {kind} {thing}.,{thing}s" for who in NAMES for kind in KINDS for thing in ("horse", "book")
    ]
    (shell.folder / "table.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    words = ("--epochs", 1, "--data.dev-share", "0.5", "--threads", 1)
    shell.must("finetune", "pair", "--task", "classify", "--data", "table.csv", "--out", "things", *words)
    return shell.folder


@pytest.fixture(scope="module")
def served_runs(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    running, server = start_server(Shell(tmp_path_factory.mktemp("server")), runs / "pair", runs / "things")
    yield server
    stop_server(running)


def test_the_page_opens_with_a_held_out_row_and_says_what_the_model_is(browser: "Browser", served_runs: Served) -> None:
    told = httpx.get(f"{served_runs.address}/v1/examples", timeout=60).json()["models"]
    own = {model["name"]: model["examples"] for model in told}
    listed = {
        model["name"]: model for model in httpx.get(f"{served_runs.address}/v1/models", timeout=60).json()["models"]
    }
    for page in open_page(browser.new_page(), served_runs):
        page.locator("#paper[aria-busy=false] .token").first.wait_for()
        assert page.locator("#text").input_value() == own["pair"][0]["corrupted"]
        # Nobody asked for the keyboard yet.
        assert page.evaluate("document.activeElement === document.body")
        assert page.locator("#about").inner_text() == "Model pair"
        warning = listed["pair"]["warning"]
        assert warning.startswith("this model is too weak to use")
        assert page.locator("#weak").inner_text() == f"T{warning[1:]}."
        buttons = page.locator("#detect-examples button")
        assert buttons.count() == len(own["pair"])
        buttons.last.click()
        assert page.locator("#text").input_value() == own["pair"][-1]["corrupted"]

        page.get_by_role("tab", name="Predict").click()
        page.locator("#answer .verdict").wait_for()
        assert page.locator("#first").input_value() == own["things"][0]["texts"][0]
        assert page.locator("#about").inner_text() == "Model things · tells apart: books, horses"
        assert page.locator("#weak").is_hidden()
        assert sorted(page.locator("#predict-examples button").all_inner_texts()) == ["books", "horses"]

        page.get_by_role("tab", name="Mask & corrupt").click()
        assert page.locator("#game-text").input_value() == own["pair"][0]["texts"][0]
        # What somebody typed is not written over, nor is what somebody cleared.
        page.get_by_role("tab", name="Suspicious words").click()
        page.locator("#text").fill("")
        page.get_by_role("tab", name="Predict").click()
        page.get_by_role("tab", name="Suspicious words").click()
        assert page.locator("#text").input_value() == ""


def test_the_docs_lead_back_to_the_page(browser: "Browser", served_runs: Served) -> None:
    for page in open_page(browser.new_page(), served_runs):
        page.get_by_role("link", name="API for programs").click()
        assert page.get_by_text(f"curl {served_runs.address}/v1/models").is_visible()
        page.get_by_role("link", name="Back to the page").click()
        page.get_by_role("tab").first.wait_for()
