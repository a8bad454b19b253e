"""A service with models that nobody trained behind it, and a client that speaks to it without a network."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import httpx
from little_tuned import make_tuned, save_pretrained, save_tuned_folder

from electralab.serving.app import build_app
from electralab.serving.batching import BatchingConfig
from electralab.serving.guard import RequestGuard
from electralab.serving.model import Model
from electralab.serving.service import InferenceService, LimitsConfig

Story = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


def save_models(folder: Path) -> dict[str, Model]:
    return {
        "pair": Model(save_pretrained(folder / "pair")),
        "reviews": Model(save_tuned_folder(folder / "reviews", make_tuned())),
        "questions": Model(save_tuned_folder(folder / "questions", make_tuned("qa", num_texts=2))),
    }


def open_service(models: dict[str, Model], *, needs_key: bool = False, **settings: Any) -> InferenceService:
    batching = BatchingConfig.model_validate(settings.pop("batching", {}))
    return InferenceService(models, LimitsConfig.model_validate(settings), batching, needs_key=needs_key)


def open_guard(service: InferenceService, keys: Sequence[str] = ()) -> RequestGuard:
    return build_app(service, keys)


def tell(gate: RequestGuard, story: Story) -> None:
    async def run() -> None:
        transport = httpx.ASGITransport(gate)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            await story(client)

    asyncio.run(run())


def post(gate: RequestGuard, path: str, body: Any = None, **more: Any) -> httpx.Response:
    """One request, whole."""
    found: list[httpx.Response] = []

    async def story(client: httpx.AsyncClient) -> None:
        asked = {"json": body} | more if body is not None else more
        found.append(await client.post(path, **asked))

    tell(gate, story)
    return found[0]


def get(gate: RequestGuard, path: str, **more: Any) -> httpx.Response:
    found: list[httpx.Response] = []

    async def story(client: httpx.AsyncClient) -> None:
        found.append(await client.get(path, **more))

    tell(gate, story)
    return found[0]
