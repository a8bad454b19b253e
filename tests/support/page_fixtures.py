"""Pages in a real browser: reports from their files, and the page of a real `electra serve` with untrained models.

They are so wide that some words look replaced, which is all that a page needs.
"""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from electra_process import Running, Shell
from little_tuned import make_tuned, save_pretrained, save_tuned_folder
from report_folders import make_run, write_examples

from electralab.reporting.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

CHROMIUM = "/usr/bin/chromium"
# Without the last ones Chromium calls home at every start.
SWITCHES = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
KEY = "open-sesame"

Open = Callable[..., "Page"]


@dataclass(frozen=True)
class Served:
    address: str

    def post(self, verb: str, **body: Any) -> dict[str, Any]:
        answer = httpx.post(f"{self.address}/v1/{verb}", json=body, timeout=60).raise_for_status().json()
        assert isinstance(answer, dict)
        return answer


def start_server(shell: Shell, *words: str | Path) -> tuple[Running, Served]:
    running = shell.start("serve", *words, "--port", 0, "--threads", 1)
    return running, Served(running.wait_for_address())


def stop_server(running: Running) -> None:
    running.send(signal.SIGTERM)
    assert running.wait().status in (0, 143)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_pretrained(folder / "pair")
    save_tuned_folder(folder / "classes", make_tuned())
    save_tuned_folder(folder / "pairs", make_tuned(num_texts=2))
    save_tuned_folder(folder / "number", make_tuned("regress"))
    save_tuned_folder(folder / "tags", make_tuned("label"))
    save_tuned_folder(folder / "answers", make_tuned("qa"))
    return folder


@pytest.fixture(scope="session")
def served(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    running, server = start_server(Shell(tmp_path_factory.mktemp("server")), *sorted(models.iterdir()))
    yield server
    stop_server(running)


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    if not shutil.which(CHROMIUM):
        pytest.skip(f"no {CHROMIUM}; 'make browser' installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)


@pytest.fixture
def page(browser: "Browser", served: Served) -> Iterator["Page"]:
    """Opened and ready; whatever it throws, or its content policy forbids, fails the test."""
    opened = browser.new_page(viewport={"width": 1200, "height": 800})
    yield from open_page(opened, served)


def open_page(page: "Page", served: Served) -> Iterator["Page"]:
    wrong: list[str] = []

    def note(message: "ConsoleMessage") -> None:
        # What the server refuses is the business of the test, and the browser's own words about it are not.
        if message.type == "error" and "Failed to load resource" not in message.text:
            wrong.append(message.text)

    page.set_default_timeout(90_000)  # as long as a busy machine may need
    page.on("console", note)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(served.address)
    page.get_by_role("tab").first.wait_for()
    yield page
    page.close()
    assert wrong == []


def write(page: "Page", text: str) -> None:
    """Into the paper, and wait until all of it is read."""
    page.locator("#text").fill(text)
    page.locator("#paper[aria-busy=false]").wait_for()


def wait_until(page: "Page", expression: str, seconds: float = 60.0) -> None:
    """Playwright's own way of waiting evaluates a string in the page, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(20)


def tokens_shown(page: "Page") -> list[tuple[str, str]]:
    """The text and the classes of each token in the backdrop."""
    found = page.evaluate("[...document.querySelectorAll('.token')].map((span) => [span.textContent, span.className])")
    return [(text, classes) for text, classes in found]


@pytest.fixture
def open_report(browser: "Browser", tmp_path: Path) -> Iterator[Open]:
    """Write the report of runs with these names and open it; whatever the page throws fails the test."""
    wrong: list[str] = []
    pages: list[Page] = []

    def open_(*names: str, address: str = "", **more: Any) -> "Page":
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 800}, **more})
        page.set_default_timeout(60_000)
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        if not address:
            runs = [make_run(tmp_path / name, seed=seed) for seed, name in enumerate(names)]
            for run in runs:
                write_examples(run)
            write_report(runs, tmp_path / "report.html")
        page.goto(address or (tmp_path / "report.html").as_uri())
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
    assert wrong == []
