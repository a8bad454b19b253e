"""A report in a real browser, from a file, with the policy that it carries."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_folders import make_run, write_examples

from electralab.reporting.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Open = Callable[..., "Page"]


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
