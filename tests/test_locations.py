"""Data that lies elsewhere is copied once, compared with its hashes, and makes room in the order of its use."""

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import fsspec
import pytest

import electralab
from electralab import locations
from electralab.artifacts import MANIFEST, lock_folder, write_manifest
from electralab.errors import DamagedArtifact, InputError, UsageError
from electralab.locations import fetch_folder

LIMIT = 1 << 20


def write_folder(folder: Path, text: str = "the rows", size: int = 0) -> Path:
    (folder / "shards").mkdir(parents=True)
    (folder / "shards/train-00000.npy").write_bytes(text.encode() + bytes(size))
    (folder / "report.json").write_text("{}")
    write_manifest(folder, kind="test")
    return folder


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[str]:
    files = fsspec.filesystem("memory")
    files.put(str(write_folder(tmp_path / "origin")), "/data", recursive=True)
    yield "memory://data"
    files.rm("/", recursive=True)


@pytest.fixture(autouse=True)
def nothing_in_use() -> Iterator[None]:
    yield
    locations._in_use.close()


def test_a_folder_is_copied_once_whole(tmp_path: Path, memory: str) -> None:
    told: list[str] = []
    folder = fetch_folder(memory, tmp_path / "cache", LIMIT, told.append)
    assert (folder / "shards/train-00000.npy").read_text() == "the rows"
    assert (folder / MANIFEST).read_bytes() == (tmp_path / "origin" / MANIFEST).read_bytes()
    assert len(told) == 1
    assert told[0].startswith("downloading memory://data (0.0 MB) into ")
    files = fsspec.filesystem("memory")
    files.rm("/data/shards", recursive=True)
    assert fetch_folder(memory, tmp_path / "cache", LIMIT, told.append) == folder
    assert len(told) == 1, "downloaded again"


def test_a_download_that_broke_off_goes_on_and_leaves_nothing_half(tmp_path: Path, memory: str) -> None:
    files, cache = fsspec.filesystem("memory"), tmp_path / "cache"
    rows = files.cat("/data/shards/train-00000.npy")
    files.rm("/data/shards/train-00000.npy")
    with pytest.raises(InputError, match=r"memory://data/shards/train-00000\.npy: cannot be opened \(no such file\)"):
        fetch_folder(memory, cache, LIMIT, print)
    files.pipe("/data/shards/train-00000.npy", b"the rowz")
    with pytest.raises(DamagedArtifact, match=r"train-00000\.npy: does not match its manifest \(sha256 .* expected"):
        fetch_folder(memory, cache, LIMIT, print)
    assert not list(cache.rglob("*train*"))
    assert not list(cache.rglob(MANIFEST))
    files.pipe("/data/shards/train-00000.npy", rows)
    files.pipe("/data/report.json", b"never asked for again")
    assert (fetch_folder(memory, cache, LIMIT, print) / "report.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("url", "manifest", "error", "message"),
    [
        ("nosuch://x/y", None, UsageError, "nosuch://x/y: cannot be read"),
        ("s3://bucket/data", None, UsageError, "s3:// needs a package that is not installed .*s3fs"),
        (
            "memory://empty",
            None,
            InputError,
            r"cannot be opened \(no such file\); give what 'electra prepare' has written",
        ),
        ("memory://odd", b"[]", DamagedArtifact, "memory://odd/manifest.json: is no manifest"),
        ("memory://odd", b'{"files": {"a": 3}}', DamagedArtifact, "is no manifest"),
        (
            "memory://odd",
            b'{"files": {"../a": {"bytes": 1, "sha256": ""}}}',
            DamagedArtifact,
            "names a file outside its folder",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    tmp_path: Path, url: str, manifest: bytes | None, error: type[Exception], message: str
) -> None:
    if url.startswith("s3") and find_spec("s3fs"):
        pytest.skip("s3fs is installed here")
    if manifest is not None:
        fsspec.filesystem("memory").pipe("/odd/manifest.json", manifest)
    with pytest.raises(error, match=message):
        fetch_folder(url, tmp_path / "cache", LIMIT, print)


def test_what_was_used_longest_ago_makes_room_unless_it_is_in_use(tmp_path: Path) -> None:
    files, cache = fsspec.filesystem("memory"), tmp_path / "cache"
    folders = []
    for number in range(4):
        files.put(
            str(write_folder(tmp_path / f"origin{number}", f"rows {number}", 1000)), f"/d{number}", recursive=True
        )
    for number in range(3):
        folders.append(fetch_folder(f"memory://d{number}", cache, 10_000, print))
        os.utime(folders[-1] / MANIFEST, (number, number))
    fetch_folder("memory://d0", cache, 10_000, print)  # now the one used last
    locations._in_use.close()
    size = sum(path.stat().st_size for path in folders[0].rglob("*") if path.is_file())
    with lock_folder(folders[1], shared=True):  # another run reads it
        folders.append(fetch_folder("memory://d3", cache, 3 * size + 100, print))
    assert [folder.exists() for folder in folders] == [True, True, False, True]
    with pytest.raises(UsageError, match=r"the cache holds 5e-07; .*give --cache-gb at least that much"):
        fetch_folder("memory://d2", cache, 500, print)


class QuietHandler(SimpleHTTPRequestHandler):
    """Breaks off in the middle of a file whose name says so."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("broken/report.json"):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{")
            self.wfile.flush()
            self.connection.close()
        else:
            super().do_GET()


@pytest.mark.filterwarnings("ignore")  # those of aiohttp at the end of its loop
def test_a_folder_is_read_from_a_web_server(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp: install electralab[remote]")
    write_folder(tmp_path / "served/data")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(tmp_path / "served")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        folder = fetch_folder(f"{url}/data", tmp_path / "cache", LIMIT, print)
        assert (folder / "shards/train-00000.npy").read_text() == "the rows"
        write_folder(tmp_path / "served/broken", "other rows")
        with pytest.raises(
            (InputError, DamagedArtifact), match=r"report\.json: (the download broke off|does not match)"
        ):
            fetch_folder(f"{url}/broken", tmp_path / "cache", LIMIT, print)
        with pytest.raises(InputError, match=r"/other/manifest\.json: cannot be opened \(.*404"):
            fetch_folder(f"{url}/other", tmp_path / "cache", LIMIT, print)
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(InputError, match=r"/data/manifest\.json: cannot be opened \(.*onnect"):
        fetch_folder(f"{url}/data", tmp_path / "cache", LIMIT, print)


@pytest.mark.flow
def test_pretraining_reads_data_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("\n\n".join(f"document {n} walks under the old river" for n in range(300)))
    settings = {"tokenizer": {"vocab_size": 120}, "packing": {"sequence_length": 16}}
    electralab.prepare([tmp_path / "text.txt"], tmp_path / "data", settings=settings)
    fsspec.filesystem("memory").put(str(tmp_path / "data"), "/prepared", recursive=True)
    losses: list[object] = []
    for data in (tmp_path / "data", "memory://prepared"):
        results = electralab.pretrain(data, tmp_path / f"run{len(losses)}", config="tiny", steps=2, workers=1)
        losses.append(results["heldout"])
    assert losses[0] == losses[1]
