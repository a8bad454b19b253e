"""What the user names becomes files in a fixed order, or one sentence that says what is wrong."""

import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from electralab.corpus.sources import find_sources, hash_source, spool_standard_input
from electralab.errors import InputError, Stopped, UsageError
from electralab.stopping import NO_STOP, StopSignal, handle_signals


def write(path: Path, text: str = "some text\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_folder_gives_its_text_files_sorted_and_names_what_it_passes_over(tmp_path: Path) -> None:
    for name in ("b.txt", "a/deep.jsonl", "a/table.csv.gz", "notes.md", ".hidden.txt"):
        write(tmp_path / name)
    sources = find_sources([str(tmp_path)])
    assert [source.path.name for source in sources.files] == ["b.txt", "deep.jsonl", "table.csv.gz"]
    assert [source.compression for source in sources.files] == ["", "", "gz"]
    assert sources.passed_over == [str(tmp_path / "notes.md")]


def test_a_named_file_of_unknown_kind_is_plain_text(tmp_path: Path) -> None:
    path = write(tmp_path / "wiki.valid.tokens")
    assert [source.format for source in find_sources([str(path)]).files] == ["txt"]


def test_a_glob_is_expanded_and_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "x1.txt")
    write(tmp_path / "x2.txt")
    found = find_sources([str(tmp_path / "x*.txt"), str(tmp_path / "x1.txt")])
    assert [source.path.name for source in found.files] == ["x1.txt", "x2.txt"]


def test_a_link_that_leads_back_up_is_not_followed_and_one_to_itself_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "b.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "a.txt").symlink_to("a.txt")
    sources = find_sources([str(tmp_path)])
    assert [source.path.name for source in sources.files] == ["b.txt"]
    assert sources.passed_over == [str(tmp_path / "a.txt")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.txt", "no such file or folder"),
        ("*.nothing", "no such file or folder"),
        ("pipe", "regular file"),
        ("/dev/zero", "regular file"),
        ("dangling", "link to nothing"),
        ("self", "cannot be read"),
        ("empty.txt", r"empty\.txt: is empty"),
        ("bare", "holds no"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    write(tmp_path / "empty.txt", "")
    (tmp_path / "bare").mkdir()
    with pytest.raises(InputError, match=message):
        find_sources([str(tmp_path / name)])


def test_no_input_at_all_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no input"):
        find_sources([])


def test_standard_input_is_copied_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", "x" * (3 << 20))
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        spool_standard_input(tmp_path / "spool", StopSignal())
    assert (tmp_path / "spool").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The other end of the pipe stays open and says nothing, like a terminal."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as file, os.fdopen(writing), handle_signals() as stop:
        monkeypatch.setattr(sys, "stdin", file)
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        with pytest.raises(Stopped):
            spool_standard_input(tmp_path / "spool", stop)


def test_standard_input_that_cannot_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: descriptor))
    with pytest.raises(InputError, match=r"standard input: cannot be read \(Is a directory\)"):
        spool_standard_input(tmp_path / "spool", StopSignal())
    os.close(descriptor)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        spool_standard_input(tmp_path / "spool", StopSignal())


def test_another_content_has_another_hash(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt")
    (source,) = find_sources([str(path)]).files
    before = hash_source(source, NO_STOP)
    write(path, "other text\n")
    assert hash_source(source, NO_STOP) != before
