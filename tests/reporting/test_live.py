"""The page of a run that still trains, over real sockets: who is answered, who is cut off, what the page may do."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from report_folders import make_run

from electralab.reporting.live import PageHandler, PageServer
from electralab.reporting.page import advise_nothing, read_artifacts

Watch = Callable[..., contextlib.AbstractContextManager[PageServer]]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    run = make_run(tmp_path / "run", steps=20, total=80)

    @contextmanager
    def start(**limits: float) -> Iterator[PageServer]:
        handler = partial(PageHandler, lambda: read_artifacts([run]), advise_nothing, 3.0)
        server = PageServer(("127.0.0.1", 0), handler, **limits)  # type: ignore[arg-type]
        serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            server.server_close()
            serving.join()

    return start


def ask(server: PageServer, path: str = "/", **headers: str) -> tuple[int, dict[str, str], str]:
    """Headers by their names in small letters."""
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), int(port), timeout=30)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, said


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8010", "localhost", "LOCALHOST:1"])
def test_this_machine_is_answered_with_or_without_a_port(watch: Watch, host: str) -> None:
    with watch() as server:
        assert ask(server, Host=host)[0] == 200


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:8010", "127.0.0.1@evil.example", "[::1"])
def test_another_name_is_refused(watch: Watch, host: str) -> None:
    with watch() as server:
        assert ask(server, Host=host)[0] == 403


def test_every_answer_carries_a_policy(watch: Watch) -> None:
    with watch() as server:
        for path, status in (("/", 200), ("/news.json", 200), ("/nowhere", 404)):
            found, headers, said = ask(server, path)
            assert found == status
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'sha256-")
            assert policy.endswith("; frame-ancestors 'none'")
            # The same as the page has in its own head, but for frames, of which a page may say nothing there.
            allowed = policy.removesuffix("; frame-ancestors 'none'").replace("'", "&#39;")
            assert path != "/" or f'http-equiv="Content-Security-Policy" content="{allowed}"' in said


def open_socket(server: PageServer) -> socket.socket:
    host, port = server.server_address[:2]
    return socket.create_connection((str(host), int(port)), timeout=30)


def test_who_sends_nothing_or_half_a_request_is_cut_off(watch: Watch) -> None:
    with watch(seconds=0.4) as server, open_socket(server) as silent, open_socket(server) as dripping:
        started = time.monotonic()

        def drip() -> None:
            with contextlib.suppress(OSError):
                for letter in b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" * 3:
                    dripping.sendall(bytes([letter]))
                    time.sleep(0.05)

        dripper = threading.Thread(target=drip)
        dripper.start()
        assert silent.recv(1) == b""
        with contextlib.suppress(ConnectionResetError):
            assert dripping.recv(1) == b""
        # The drip alone takes five seconds.
        assert time.monotonic() - started < 4
        dripper.join()
        assert ask(server)[0] == 200


def test_a_connection_too_many_hears_so_until_another_has_left(watch: Watch) -> None:
    with watch(most=3, seconds=30) as server:
        held = [open_socket(server) for _ in range(3)]
        wait_until(lambda: len(server._deadlines) == 3)
        status, headers, said = ask(server)
        assert (status, headers["retry-after"]) == (503, "1")
        assert "too many connections" in said
        for connection in held:
            connection.close()
        wait_until(lambda: not server._deadlines)
        assert ask(server)[0] == 200


def test_a_connection_that_cannot_be_taken_is_counted_and_not_tried_at_once(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with watch() as server:
        accept = server.socket.accept
        failures = iter([OSError(24, "Too many open files")] * 2)

        def fail_twice() -> tuple[socket.socket, object]:
            for failure in failures:
                raise failure
            return accept()

        with monkeypatch.context() as patch:
            patch.setattr(server, "socket", _Listening(server.socket, fail_twice))
            started = time.monotonic()
            assert ask(server)[0] == 200
            assert time.monotonic() - started >= 0.4
        assert server.accept_errors == 2
    assert capfd.readouterr().err == ""


class _Listening:
    """A listening socket of which one method is another."""

    def __init__(self, listener: socket.socket, accept: Callable[[], tuple[socket.socket, object]]) -> None:
        self._listener, self.accept = listener, accept

    def __getattr__(self, name: str) -> object:
        return getattr(self._listener, name)


def test_a_client_that_leaves_in_the_middle_is_no_traceback(watch: Watch, capfd: pytest.CaptureFixture[str]) -> None:
    with watch() as server:
        client = open_socket(server)
        # Closed with a reset, while the page is on its way.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        client.close()
        wait_until(lambda: not server._deadlines)
        assert ask(server)[0] == 200
    assert capfd.readouterr().err == ""


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
