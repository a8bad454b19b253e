"""Who is let in, who has left, and what those hear who wait when the server stops."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from little_server import get, open_guard, open_service, post, save_models, tell

from electralab.serving.app import build_app
from electralab.serving.guard import RequestGuard
from electralab.serving.model import Model
from electralab.serving.service import InferenceService


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def waiting(models: dict[str, Model]) -> Iterator[InferenceService]:
    """So long is the window that whoever asks certainly waits."""
    service = open_service(models, batching={"window_ms": 60_000})
    yield service
    service.batcher.close(0)


ASKED = {"method": "POST", "path": "/v1/detect", "headers": [(b"content-type", b"application/json")]}


async def ask_by_hand(gate: RequestGuard, messages: "asyncio.Queue[dict[str, Any]]") -> list[dict[str, Any]]:
    """A request whose every message is ours to send -> what came back."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {"type": "http", "query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": "", **ASKED}
    await gate(scope, messages.get, send)
    return sent


async def until_waiting(service: InferenceService, count: int) -> None:
    async with asyncio.timeout(10):
        while service.batcher.waiting_texts != count:
            await asyncio.sleep(0.005)


def test_a_client_that_leaves_leaves_the_queue_too(waiting: InferenceService) -> None:
    gate = open_guard(waiting)

    async def story() -> None:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        asking = asyncio.create_task(ask_by_hand(gate, messages))
        messages.put_nowait({"type": "http.request", "body": b'{"text": "the cat"}', "more_body": False})
        await until_waiting(waiting, 1)
        messages.put_nowait({"type": "http.disconnect"})
        assert await asyncio.wait_for(asking, 10) == []
        assert waiting.batcher.waiting_texts == 0

    asyncio.run(story())
    assert 'electralab_requests_total{path="/v1/detect",status="499"} 1' in get(gate, "/metrics").text
    assert gate.open_requests == 0


def test_who_waits_when_the_time_is_over_hears_that_the_server_stops(waiting: InferenceService) -> None:
    gate = open_guard(waiting)

    async def story(client: httpx.AsyncClient) -> None:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        asking = asyncio.create_task(client.post("/v1/detect", json={"text": "the cat"}))
        # Another has sent half of its body.
        messages.put_nowait({"type": "http.request", "body": b'{"text": ', "more_body": True})
        sending = asyncio.create_task(ask_by_hand(gate, messages))
        await until_waiting(waiting, 1)
        gate.stop()
        refused = await asyncio.wait_for(asking, 10)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "stopping")
        assert int(refused.headers["retry-after"]) > 0
        head, body = await asyncio.wait_for(sending, 10)
        assert head["status"] == 503
        assert b'"code":"stopping"' in body["body"]
        assert waiting.batcher.waiting_texts == 0

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
def test_without_keys_only_pages_of_our_own_may_ask(models: dict[str, Model], headers: Any, code: str | None) -> None:
    service = open_service(models)
    for response in (
        post(build_app(service, (), HOSTS), "/v1/detect", {"text": "the cat"}, headers=headers),
        get(build_app(service, (), HOSTS), "/v1/models", headers=headers),
    ):
        if code is None:
            assert response.status_code == 200
        else:
            assert (response.status_code, response.json()["error"]["code"]) == (403, code)
            assert "--allow-host NAME" in response.json()["error"]["message"]
    service.batcher.close(0)


def test_with_keys_the_key_decides(models: dict[str, Model]) -> None:
    service = open_service(models, needs_key=True)
    headers = {"host": "lab.example", "authorization": "Bearer sesame"}
    gate = build_app(service, ["sesame"], ["localhost"])
    assert post(gate, "/v1/detect", {"text": "the cat"}, headers=headers).status_code == 200
    service.batcher.close(0)


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/v1/models", "/v1/detect", "/nowhere"])
def test_head_is_get_without_the_body(models: dict[str, Model], path: str) -> None:
    service = open_service(models)
    gate, found = open_guard(service), list[httpx.Response]()

    async def story(client: httpx.AsyncClient) -> None:
        found.extend([await client.head(path), await client.get(path)])

    tell(gate, story)
    head, whole = found
    assert (head.status_code, dict(head.headers)) == (whole.status_code, dict(whole.headers))
    assert (head.content, len(whole.content)) == (b"", int(head.headers["content-length"]))
    service.batcher.close(0)
