"""Before the first request: names of models, keys, addresses, runtimes; each mistake is one sentence."""

import asyncio
import socket
from pathlib import Path

import pytest
from little_tuned import make_tuned, save_pretrained, save_tuned_folder

import electralab
from electralab.errors import InputError, UsageError
from electralab.serving.batching import _ONE_RUN
from electralab.serving.server import (
    _FAREWELL,
    ServeConfig,
    describe_address,
    find_runtime,
    listen,
    load_models,
    read_keys,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pretrained(tmp_path_factory.mktemp("runs") / "mine")


def test_models_are_named_by_their_folders_or_as_told(run: Path, tmp_path: Path) -> None:
    tuned = save_tuned_folder(tmp_path / "b=c", make_tuned())
    found = load_models([str(run), f"other={run}", str(tuned)], ServeConfig())
    assert {name: model.can for name, model in found.items()} == {
        "mine": ("detect", "fill", "play", "embed"),
        "other": ("detect", "fill", "play", "embed"),
        "b=c": ("embed", "predict"),
    }
    with pytest.raises(UsageError, match="two models are named 'mine'; name them, as in mine-b="):
        load_models([str(run), str(run)], ServeConfig())
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        load_models([str(tmp_path / "nowhere")], ServeConfig())


def test_an_address_for_others_needs_a_key(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.0.7", "example.org"):
        with pytest.raises(UsageError, match="can be reached by others; give --key-file FILE with a key a line"):
            read_keys(ServeConfig(host=host))
    for host in ("127.0.0.1", "127.3.2.1", "::1", "localhost"):
        assert read_keys(ServeConfig(host=host)) == []
    keys = tmp_path / "keys"
    keys.write_text(" first \n\nsecond\n")
    assert read_keys(ServeConfig(host="0.0.0.0", key_file=str(keys))) == ["first", "second"]


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), (b"\n \n", "holds no key"), (b"\xff\xfe", "not UTF-8")]
)
def test_a_file_without_keys_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "keys").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_keys(ServeConfig(key_file=str(tmp_path / "keys")))


def test_a_port_that_is_taken_is_named_and_0_finds_a_free_one() -> None:
    with listen(ServeConfig(port=0)) as first:
        address = describe_address(first)
        port = int(address.rpartition(":")[2])
        assert address == f"http://127.0.0.1:{port}"
        first.listen()
        with (
            pytest.raises(InputError, match=rf"127.0.0.1:{port}: cannot be listened on \(Address already in use\)"),
            listen(ServeConfig(port=port)),
        ):
            pass
    if socket.has_ipv6:
        with listen(ServeConfig(host="::1", port=0)) as sixth:
            assert describe_address(sixth).startswith("http://[::1]:")


def test_an_answer_does_not_wait_for_acknowledgements() -> None:
    async def accept(listener: socket.socket) -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(answer, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            try:
                return await accepted
            finally:
                writer.close()

    with listen(ServeConfig(port=0)) as listener:
        assert asyncio.run(accept(listener)), "Nagle's algorithm is on"


def test_the_end_takes_at_most_five_seconds_by_default() -> None:
    half_a_second_to_notice = 0.5
    assert ServeConfig().drain_seconds + _FAREWELL + _ONE_RUN + half_a_second_to_notice < 5


def test_graphs_are_looked_for_where_they_lie(tmp_path: Path) -> None:
    assert find_runtime(tmp_path, "torch") == tmp_path
    with pytest.raises(InputError, match=r"holds no model\.onnx, which --runtime onnx needs; run 'electra export .*'"):
        find_runtime(tmp_path, "onnx")
    (tmp_path / "onnx").mkdir()
    assert find_runtime(tmp_path, "onnx") == tmp_path / "onnx"
    (tmp_path / "model.onnx").touch()
    assert find_runtime(tmp_path, "onnx") == tmp_path


def test_a_dry_run_says_what_would_be_served(run: Path) -> None:
    plan = electralab.serve([run], settings={"port": 0, "batching": {"window_ms": 5}}, dry_run=True)
    assert plan["models"][0]["name"] == "mine"
    assert plan["settings"]["batching"]["window_ms"] == 5
    assert plan["keys"] == 0
    with pytest.raises(UsageError, match="no setting named 'windw_ms'; did you mean 'window_ms'"):
        electralab.serve([run], settings={"batching": {"windw_ms": 5}}, dry_run=True)
