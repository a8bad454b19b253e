"""The HTTP API, version 1: paths, and what is said where something is wrong.

InferenceService -> an ASGI application
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic import create_model
from starlette.exceptions import HTTPException

from electralab import __version__
from electralab.records import answers
from electralab.serving.api_errors import REASONS, ApiError, encode_json, internal_error, shutting_down
from electralab.serving.guard import OPEN_PATHS, RequestGuard
from electralab.serving.pages import find_address, read_page, render_docs, write_policy
from electralab.serving.service import (
    UNKNOWN_FIELD,
    DetectBody,
    EmbedBody,
    FillBody,
    InferenceService,
    PlayBody,
    PredictBody,
)

_ABOUT = "Which tokens look replaced, what could stand there instead, and what tuned models say of a text."
_NO_PAGE = "The server of electralab is up. This installation has no page; GET /docs says what can be asked.\n"


def build_app(service: InferenceService, keys: Sequence[str], hosts: Sequence[str] = ()) -> RequestGuard:
    app = FastAPI(
        title="electralab",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # FastAPI's own page loads its parts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    _add_capabilities(app, service)
    _add_states(app, service)
    _add_pages(app, service)
    _add_errors(app)
    paths = [route.path for route in app.routes if hasattr(route, "path")]
    return RequestGuard(app, service, keys, paths, hosts)


def _respond(content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(content, status, headers, "application/json")


def _describe_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": answers.ErrorAnswer, "description": REASONS[status]} for status in statuses}


def _add_capabilities(app: FastAPI, service: InferenceService) -> None:
    # The docstrings are the descriptions in /docs and /openapi.json.
    async def detect(body: DetectBody) -> Response:
        """Each token with its span of characters and the probability that it was replaced."""
        return _respond(await service.answer("detect", body))

    async def fill(body: FillBody) -> Response:
        """The generator's best guesses for every [MASK] in the text, or for each of the spans in `at`."""
        return _respond(await service.answer("fill", body))

    async def play(body: PlayBody) -> Response:
        """The game of pre-training: tokens are hidden, the generator puts others there, the discriminator judges."""
        return _respond(await service.answer("play", body))

    async def embed(body: EmbedBody) -> Response:
        """One vector for the text."""
        return _respond(await service.answer("embed", body))

    async def predict(body: PredictBody) -> Response:
        """What a tuned model says: a class with probabilities, a number, tags of words, or an answer."""
        return _respond(await service.answer("predict", body))

    for endpoint in (detect, fill, play, embed, predict):
        kind = type(answers.EXAMPLE_ANSWERS[endpoint.__name__])  # type: ignore[index]  # each is a capability
        # An answer with the name of the model that gave it, or the answers to several texts.
        single: Any = create_model(f"{kind.__name__}One", __base__=kind, model=(str, ...))
        several: Any = create_model(f"{kind.__name__}Many", model=(str, ...), results=(list[kind], ...))  # type: ignore[valid-type]
        answered: dict[int | str, dict[str, Any]] = {
            200: {"model": single | several, "description": "The answer, or one for each text."}
        }
        app.post(
            f"/v1/{endpoint.__name__}",
            responses=answered | _describe_errors(*(set(REASONS) - {405})),
            response_class=Response,
            summary=endpoint.__name__.capitalize(),
        )(endpoint)


def _add_states(app: FastAPI, service: InferenceService) -> None:
    @app.get("/v1/models", responses={200: {"model": answers.ModelList}}, response_class=Response)
    async def models() -> Response:
        """The models of this server, what each can do, and the limits of a request. Needs no key."""
        return _respond(encode_json(service.list_models().to_json()))

    listed: dict[int | str, dict[str, Any]] = {200: {"model": answers.ExampleList}, **_describe_errors(401)}

    @app.get("/v1/examples", responses=listed, response_class=Response)
    async def examples() -> Response:
        """Texts to try each model with: a few rows that its run held out of training, where its folder has them."""
        return _respond(encode_json(service.list_examples().to_json()))

    @app.get("/health", response_model=answers.ServerState)
    async def health() -> Response:
        """Whether the process is up. Needs no key."""
        return _respond(encode_json({"status": "up"}))

    @app.get("/ready", response_model=answers.ServerState, responses=_describe_errors(503))
    async def ready() -> Response:
        """Whether new requests are taken now: not while shutting down or with a full queue. Needs no key."""
        if service.is_stopping:
            raise shutting_down()
        if not service.is_ready:
            raise ApiError("too_slow", "the queue is full; ask later", service.batcher.estimate_wait())
        return _respond(encode_json({"status": "ready"}))

    @app.get("/metrics", response_class=PlainTextResponse, responses=_describe_errors(401))
    async def metrics() -> Response:
        """Counts of requests, batches and refusals in the format of Prometheus."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI, service: InferenceService) -> None:
    page = read_page()
    schema = describe_api(app, needs_key=service.needs_key)
    current = {
        "/v1/models": service.list_models().to_json(),
        "/health": {"status": "up"},
        "/ready": {"status": "ready"},
    }

    def guard_headers(content: str) -> dict[str, str]:
        return {"content-security-policy": write_policy(content), "referrer-policy": "no-referrer"}

    page_headers = guard_headers(page or "")

    @app.get("/", include_in_schema=False)
    async def show_page() -> Response:
        return Response(page or _NO_PAGE, media_type="text/html" if page else "text/plain", headers=page_headers)

    @app.get("/docs", include_in_schema=False)
    async def show_docs(request: Request) -> Response:
        docs = render_docs(schema, find_address(request.headers.get("host", "")), current)
        return Response(docs, media_type="text/html", headers=guard_headers(docs))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _respond(encode_json(schema))


def _add_errors(app: FastAPI) -> None:
    def respond(error: ApiError, headers: dict[str, str] | None = None) -> Response:
        own = {name.decode(): value.decode() for name, value in error.headers}
        return _respond(error.encode(), error.status, {**(headers or {}), **own})

    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return respond(error)

    async def explain(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return respond(explain_invalid(error.errors()))

    async def answer_status(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, headers = request.url.path, dict(error.headers or {})
        match error.status_code:
            case 404:
                return respond(ApiError("unknown_path", f"{path[:80]}: no such path; GET /docs lists them"))
            case 405:
                allowed = headers.get("Allow", "another method")
                return respond(ApiError("wrong_method", f"{path}: is not for {request.method}; use {allowed}"), headers)
            case _:
                return respond(ApiError("bad_json", "the body cannot be read as JSON in UTF-8; mend it"))

    async def fail(_: Request, _error: Exception) -> Response:
        return respond(internal_error())

    app.add_exception_handler(ApiError, refuse)
    app.add_exception_handler(Exception, fail)
    app.add_exception_handler(RequestValidationError, explain)
    app.add_exception_handler(HTTPException, answer_status)


def explain_invalid(errors: Sequence[Any]) -> ApiError:
    """What FastAPI finds wrong with a body, as one sentence about the first thing."""
    error = errors[0]
    _, *path = error["loc"] or ("body",)
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if error["type"] == "json_invalid":
        reason = error.get("ctx", {}).get("error", "it cannot be read")
        return ApiError("bad_json", f"the body is not JSON ({reason}); mend it")
    if error["type"] == UNKNOWN_FIELD:
        return ApiError("bad_value", f"{error['msg']}; GET /docs lists them")
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if not path:
        return ApiError("bad_value", f"the body: {message}; send a JSON object")
    # In a few characters, without writing all of a large value out first.
    match error["input"]:
        case str() as given:
            got = repr(given[:40])
        case list() as given:
            got = f"a list of {len(given):,}"
        case dict() as given:
            got = f"an object of {len(given):,}"
        case given:
            got = repr(str(given)[:40])
    return ApiError("bad_value", f"{where[:80]}: {message} (got {got}); mend it")


def describe_api(app: FastAPI, *, needs_key: bool) -> dict[str, Any]:
    """FastAPI's description, without the status that we never answer with, and with the key where one is needed."""
    schema = app.openapi()
    # FastAPI's own shape of an error, which _add_errors replaces by ours.
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    for capability, example in answers.EXAMPLE_ANSWERS.items():
        # Not by FastAPI, which leaves out what is null.
        answer = schema["paths"][f"/v1/{capability}"]["post"]["responses"]["200"]["content"]["application/json"]
        answer["example"] = {"model": "mine", **example.to_json()}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            if needs_key and path not in OPEN_PATHS:
                operation["security"] = [{"key": []}]
    if needs_key:
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return schema
