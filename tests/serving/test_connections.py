"""Connections that ask nothing, ask without end, do not read, or are too many: each ends, and others are answered."""

import asyncio
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from little_server import get, open_guard, open_service, save_models

from electralab.runtime import count_descriptors
from electralab.serving.connections import _REFUSED_AT_ONCE, Listener
from electralab.serving.model import Model
from electralab.serving.server import ServeConfig, build_server, listen
from electralab.serving.service import InferenceService

ASKED = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Connection]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    return save_models(tmp_path_factory.mktemp("models"))


@asynccontextmanager
async def serve(service: InferenceService) -> AsyncIterator[Connect]:
    """On a real socket, in this process."""
    with listen(ServeConfig(port=0)) as listener:
        listener.on_accept_error = service.metrics.count_accept_error
        host, port = listener.getsockname()
        server = build_server(open_guard(service), service)
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
            service.batcher.close(0)


async def ask(connection: Connection) -> bytes:
    reader, writer = connection
    writer.write(ASKED)
    return (await reader.readuntil(b"\r\n"))[:-2]


async def read_rest(reader: asyncio.StreamReader) -> bytes:
    """Until the server ends it, in order or not."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_a_connection_that_asks_nothing_is_closed_and_half_a_header_is_told_why(models: dict[str, Model]) -> None:
    service = open_service(models, header_seconds=0.3)

    async def story() -> None:
        async with serve(service) as connect:
            silent, half, dripping, after = [await connect() for _ in range(4)]
            started = time.monotonic()
            half[1].write(ASKED[:-2])
            assert await ask(after) == b"HTTP/1.1 200 OK"
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
            assert await ask(await connect()) == b"HTTP/1.1 200 OK"

    asyncio.run(story())
    assert 'electralab_refused_total{code="headers_too_slow"} 3' in get(open_guard(service), "/metrics").text


def test_a_request_that_is_worked_on_has_no_deadline_for_headers(models: dict[str, Model]) -> None:
    service = open_service(models, header_seconds=0.2, batching={"window_ms": 700})

    async def story() -> None:
        async with serve(service) as connect:
            reader, writer = await connect()
            body = b'{"text": "the cat"}'
            head = b"POST /v1/detect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"

    asyncio.run(story())


def test_an_answer_that_nobody_reads_does_not_hold_its_connection(models: dict[str, Model]) -> None:
    service = open_service(models, header_seconds=0.3, text_characters=1_000_000)

    async def story() -> None:
        async with serve(service) as connect:
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


def test_a_connection_too_many_hears_so_and_comes_in_when_another_has_left(models: dict[str, Model]) -> None:
    service = open_service(models, connections=3)

    async def story() -> None:
        async with serve(service) as connect:
            inside = [await connect() for _ in range(3)]
            assert [await ask(connection) for connection in inside] == [b"HTTP/1.1 200 OK"] * 3
            reader, writer = await connect()
            writer.write(ASKED)
            said = await read_rest(reader)
            assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"retry-after: 1\r\n" in said
            assert b'"code":"too_many_connections"' in said
            inside[0][1].close()
            await inside[0][1].wait_closed()
            await asyncio.sleep(0.1)
            assert await ask(await connect()) == b"HTTP/1.1 200 OK"
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
