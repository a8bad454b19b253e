"""A service with models that nobody trained behind it, and a client that speaks to it without a network."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import httpx
import pytest
from little_tuned import make_tuned, save_pretrained, save_tuned_folder

from electralab.serving.app import build_app
from electralab.serving.batching import BatchingConfig
from electralab.serving.guard import RequestGuard
from electralab.serving.model import Model
from electralab.serving.service import InferenceService, LimitsConfig

T = TypeVar("T")
Start = Callable[..., RequestGuard]


@pytest.fixture(scope="session")
def little_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "pair": Model(save_pretrained(folder / "pair")),
        "reviews": Model(save_tuned_folder(folder / "reviews", make_tuned())),
        "questions": Model(save_tuned_folder(folder / "questions", make_tuned("qa", num_texts=2))),
    }


@pytest.fixture(scope="module")
def start(little_models: dict[str, Model]) -> Iterator[Start]:
    """A server without a socket; settings are those of its limits, `batching` those of its batches."""
    started: list[InferenceService] = []

    def begin(keys: Sequence[str] = (), hosts: Sequence[str] = (), **settings: Any) -> RequestGuard:
        batching = BatchingConfig.model_validate(settings.pop("batching", {}))
        limits = LimitsConfig.model_validate(settings)
        started.append(InferenceService(little_models, limits, batching, needs_key=bool(keys)))
        return build_app(started[-1], keys, hosts)

    yield begin
    for service in started:
        service.batcher.close(0)


def tell(gate: RequestGuard, story: Callable[[httpx.AsyncClient], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://here") as client:
            return await story(client)

    return asyncio.run(run())


def ask(method: str, gate: RequestGuard, path: str, body: Any = None, **more: Any) -> httpx.Response:
    """One request, whole."""
    sent = more if body is None else {"json": body} | more
    return tell(gate, lambda client: client.request(method, path, **sent))


get, post = partial(ask, "GET"), partial(ask, "POST")
