"""Who is let in, who has left, what those hear who wait when the server stops; and connections that ask nothing, ask
without end, do not read, or are too many: each ends, and others are answered."""

import asyncio
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from little_server import Start, ask, get, post, tell

from electralab.runtime import count_descriptors
from electralab.serving.guard import _REFUSED_AT_ONCE, Listener, RequestGuard
from electralab.serving.server import ServeConfig, build_server, listen
from electralab.serving.service import InferenceService


@pytest.fixture
def waiting(start: Start) -> RequestGuard:
    """So long is the window that whoever asks certainly waits."""
    return start(batching={"window_ms": 60_000})


POSTED = {"method": "POST", "path": "/v1/detect", "headers": [(b"content-type", b"application/json")]}


async def ask_by_hand(gate: RequestGuard, messages: "asyncio.Queue[dict[str, Any]]") -> list[dict[str, Any]]:
    """A request whose every message is ours to send -> what came back."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {"type": "http", "query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": "", **POSTED}
    await gate(scope, messages.get, send)
    return sent


async def until_waiting(service: InferenceService, count: int) -> None:
    async with asyncio.timeout(10):
        while service.batcher.waiting_texts != count:
            await asyncio.sleep(0.005)


def test_a_client_that_leaves_leaves_the_queue_too(waiting: RequestGuard) -> None:
    gate, service = waiting, waiting.service

    async def story() -> None:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        asking = asyncio.create_task(ask_by_hand(gate, messages))
        messages.put_nowait({"type": "http.request", "body": b'{"text": "the cat"}', "more_body": False})
        await until_waiting(service, 1)
        messages.put_nowait({"type": "http.disconnect"})
        assert await asyncio.wait_for(asking, 10) == []
        assert service.batcher.waiting_texts == 0

    asyncio.run(story())
    assert 'electralab_requests_total{path="/v1/detect",status="499"} 1' in get(gate, "/metrics").text
    assert gate.open_requests == 0


def test_who_waits_when_the_time_is_over_hears_that_the_server_stops(waiting: RequestGuard) -> None:
    gate, service = waiting, waiting.service

    async def story(client: httpx.AsyncClient) -> None:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        asking = asyncio.create_task(client.post("/v1/detect", json={"text": "the cat"}))
        # Another has sent half of its body.
        messages.put_nowait({"type": "http.request", "body": b'{"text": ', "more_body": True})
        sending = asyncio.create_task(ask_by_hand(gate, messages))
        await until_waiting(service, 1)
        gate.stop()
        refused = await asyncio.wait_for(asking, 10)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "stopping")
        assert int(refused.headers["retry-after"]) > 0
        head, body = await asyncio.wait_for(sending, 10)
        assert head["status"] == 503
        assert b'"code":"stopping"' in body["body"]
        assert service.batcher.waiting_texts == 0

    tell(gate, story)


HOSTS = ("127.0.0.1", "localhost", "::1", "127.3.2.1", "Lab.example")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "127.0.0.1:8000"}, None),
        ({"host": "localhost"}, None),
        ({"host": "LOCALHOST:1"}, None),
        ({"host": "[::1]:8000"}, None),
        ({"host": "127.3.2.1:8000"}, None),
        ({"host": "lab.example"}, None),
        ({"host": "evil.example"}, "foreign_host"),
        ({"host": "evil.example:8000"}, "foreign_host"),
        ({"host": "localhost.evil.example"}, "foreign_host"),
        ({"host": "127.0.0.1@evil.example"}, "foreign_host"),
        ({"host": "[::1"}, "foreign_host"),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}, None),
        ({"host": "127.0.0.1:8000", "origin": "https://lab.example"}, None),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:9000"}, "foreign_origin"),
        ({"host": "127.0.0.1:8000", "origin": "http://localhost:8000"}, "foreign_origin"),
        ({"host": "127.0.0.1:8000", "origin": "https://evil.example"}, "foreign_origin"),
        ({"host": "127.0.0.1:8000", "origin": "null"}, "foreign_origin"),
    ],
)
def test_without_keys_only_pages_of_our_own_may_ask(start: Start, headers: Any, code: str | None) -> None:
    gate = start(hosts=HOSTS)
    detected = post(gate, "/v1/detect", {"text": "the cat"}, headers=headers)
    for response in (detected, get(gate, "/v1/models", headers=headers)):
        if code is None:
            assert response.status_code == 200
        else:
            assert (response.status_code, response.json()["error"]["code"]) == (403, code)
            assert "--allow-host NAME" in response.json()["error"]["message"]


def test_with_keys_the_key_decides(start: Start) -> None:
    headers = {"host": "lab.example", "authorization": "Bearer sesame"}
    assert post(start(["sesame"], ["localhost"]), "/v1/detect", {"text": "the cat"}, headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/v1/models", "/v1/detect", "/nowhere"])
def test_head_is_get_without_the_body(start: Start, path: str) -> None:
    gate = start()
    head, whole = ask("HEAD", gate, path), get(gate, path)
    assert (head.status_code, dict(head.headers)) == (whole.status_code, dict(whole.headers))
    assert (head.content, len(whole.content)) == (b"", int(head.headers["content-length"]))


ASKED = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Connection]]


@asynccontextmanager
async def serve(gate: RequestGuard) -> AsyncIterator[Connect]:
    """On a real socket, in this process."""
    with listen(ServeConfig(port=0)) as listener:
        host, port = listener.getsockname()
        server = build_server(gate, gate.service)
        serving = asyncio.ensure_future(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.005)
        opened: list[Connection] = []

        async def connect() -> Connection:
            opened.append(await asyncio.open_connection(host, port))
            return opened[-1]

        try:
            async with asyncio.timeout(60):
                yield connect
        finally:
            for _, writer in opened:
                writer.transport.abort()
            server.should_exit = True
            await serving


async def ask_health(connection: Connection) -> bytes:
    reader, writer = connection
    writer.write(ASKED)
    return (await reader.readuntil(b"\r\n"))[:-2]


async def read_rest(reader: asyncio.StreamReader) -> bytes:
    """Until the server ends it, in order or not."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_a_connection_that_asks_nothing_is_closed_and_half_a_header_is_told_why(start: Start) -> None:
    gate = start(header_seconds=0.3)

    async def story() -> None:
        async with serve(gate) as connect:
            silent, half, dripping, after = [await connect() for _ in range(4)]
            started = time.monotonic()
            half[1].write(ASKED[:-2])
            assert await ask_health(after) == b"HTTP/1.1 200 OK"
            after[1].write(ASKED[:9])  # the headers of its second request do not end either

            async def drip() -> None:
                for place in range(len(ASKED) - 2):
                    dripping[1].write(ASKED[place : place + 1])
                    await asyncio.sleep(0.05)

            dripped = asyncio.ensure_future(drip())
            assert await read_rest(silent[0]) == b""
            for reader, _ in (half, dripping, after):
                said = await read_rest(reader)
                assert b"HTTP/1.1 408 Request Timeout\r\n" in said
                assert b'"code":"headers_too_slow"' in said
                assert b"the headers were not here after 0.3 s" in said
            # Far less than the two seconds and more that the drip takes.
            assert time.monotonic() - started < 10
            dripped.cancel()
            assert await ask_health(await connect()) == b"HTTP/1.1 200 OK"

    asyncio.run(story())
    assert 'electralab_refused_total{code="headers_too_slow"} 3' in get(gate, "/metrics").text


def test_a_request_that_is_worked_on_has_no_deadline_for_headers(start: Start) -> None:
    gate = start(header_seconds=0.2, batching={"window_ms": 700})

    async def story() -> None:
        async with serve(gate) as connect:
            reader, writer = await connect()
            body = b'{"text": "the cat"}'
            head = b"POST /v1/detect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"

    asyncio.run(story())


def test_an_answer_that_nobody_reads_does_not_hold_its_connection(start: Start) -> None:
    gate = start(header_seconds=0.3, text_characters=1_000_000)

    async def story() -> None:
        async with serve(gate) as connect:
            loop = asyncio.get_running_loop()
            host, port = (await connect())[1].get_extra_info("peername")
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.setblocking(False)
                await loop.sock_connect(client, (host, port))
                page = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                await loop.sock_sendall(client, page * 100)  # more than the buffers of both sides hold
                while not _count_connections(port):
                    await asyncio.sleep(0.01)
                async with asyncio.timeout(20):
                    while _count_connections(port):
                        await asyncio.sleep(0.05)

    asyncio.run(story())


def _count_connections(port: int) -> int:
    """The server's ends of connections that are established, with bytes that wait to be read."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" and row[4][:8] != "00000000" for row in rows)


def test_a_connection_too_many_hears_so_and_comes_in_when_another_has_left(start: Start) -> None:
    gate = start(connections=3)

    async def story() -> None:
        async with serve(gate) as connect:
            inside = [await connect() for _ in range(3)]
            assert [await ask_health(connection) for connection in inside] == [b"HTTP/1.1 200 OK"] * 3
            reader, writer = await connect()
            writer.write(ASKED)
            said = await read_rest(reader)
            assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"retry-after: 1\r\n" in said
            assert b'"code":"too_many_connections"' in said
            inside[0][1].close()
            await inside[0][1].wait_closed()
            await asyncio.sleep(0.1)
            assert await ask_health(await connect()) == b"HTTP/1.1 200 OK"
            # However many come, only so many are kept until their refusal.
            crowd = [await connect() for _ in range(_REFUSED_AT_ONCE + 20)]
            ended = [asyncio.ensure_future(read_rest(reader)) for reader, _ in crowd]
            _done, open_still = await asyncio.wait(ended, timeout=0.5)
            assert len(open_still) <= _REFUSED_AT_ONCE
            await asyncio.wait(ended)

    asyncio.run(story())


def test_without_descriptors_connections_are_turned_away_and_counted_but_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turned_away: list[None] = []
    with Listener(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.on_accept_error = lambda: turned_away.append(None)
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        clients = [socket.create_connection(listener.getsockname()) for _ in range(5)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The lowest number that is free is that of the next descriptor; the spare one of the listener stands below.
        with socket.socket() as probe:
            lowest = probe.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            for _ in clients:
                with pytest.raises(BlockingIOError):
                    listener.accept()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(turned_away) == 5
        assert caplog.text.count("connections are turned away (Too many open files)") == 1
        for client in clients:
            assert client.recv(1) == b""
            client.close()
        late = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.close()
        late.close()
    before = set(Path("/proc/self/fd").iterdir())
    Listener(socket.AF_INET, socket.SOCK_STREAM).close()
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_there_are_never_more_connections_than_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit, most in ((128, 64), (100, 50), (1024, 960)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            found = count_descriptors()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert found == most
