"""The HTTP API, version 1: paths, pages, and what is said where something is wrong.

InferenceService -> an ASGI application
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import partial
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic import create_model
from starlette.exceptions import HTTPException

from electralab import __version__
from electralab.records import answers
from electralab.records.record import Record
from electralab.records.tuned import PredictionRow
from electralab.serving import service as bodies
from electralab.serving.guard import OPEN_PATHS, RequestGuard
from electralab.serving.outcomes import INTERNAL, REASONS, STOPPING, ApiError, encode_json
from electralab.serving.proofreader import load_template
from electralab.serving.service import InferenceService

_DETECT = "Each token with its span of characters and the probability that it was replaced."
_FILL = "The generator's best guesses for every [MASK] in the text, or for each of the spans in `at`."
_PLAY = "The game of pre-training: tokens are hidden, the generator puts others there, the discriminator judges."
_PREDICT = "What a tuned model says: a class with probabilities, a number, tags of words, or an answer."
_ABOUT = "Which tokens look replaced, what could stand there instead, and what tuned models say of a text."
_NO_PAGE = "The server of electralab is up. This installation has no page; GET /docs says what can be asked.\n"
_ADDRESS = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")

# What each path under /v1 takes and gives, and what /docs and /openapi.json say of it.
_CAPABILITIES: dict[answers.Capability, tuple[type[bodies.Body], type[Record], str]] = {
    "detect": (bodies.DetectBody, answers.Detection, _DETECT),
    "fill": (bodies.FillBody, answers.FillResult, _FILL),
    "play": (bodies.PlayBody, answers.PlayResult, _PLAY),
    "embed": (bodies.EmbedBody, answers.Embedding, "One vector for the text."),
    "predict": (bodies.PredictBody, PredictionRow, _PREDICT),
}

_Responses = dict[int | str, dict[str, Any]]
_json_response = partial(Response, media_type="application/json")


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
    refusals: _Responses = {
        status: {"model": answers.ErrorAnswer, "description": reason} for status, reason in REASONS.items()
    }
    for capability in _CAPABILITIES:
        _add_capability(app, service, capability, refusals)
    model_list, example_list = (encode_json(record.to_json()) for record in (service.model_list, service.example_list))

    # The docstrings are the descriptions in /docs and /openapi.json.
    @app.get("/v1/models", responses={200: {"model": answers.ModelList}}, response_class=Response)
    async def models() -> Response:
        """The models of this server, what each can do, and the limits of a request. Needs no key."""
        return _json_response(model_list)

    listed: _Responses = {200: {"model": answers.ExampleList}, 401: refusals[401]}

    @app.get("/v1/examples", responses=listed, response_class=Response)
    async def examples() -> Response:
        """Texts to try each model with: a few rows that its run held out of training, where its folder has them."""
        return _json_response(example_list)

    @app.get("/health", response_model=answers.ServerState)
    async def health() -> Response:
        """Whether the process is up. Needs no key."""
        return _json_response(encode_json({"status": "up"}))

    @app.get("/ready", response_model=answers.ServerState, responses={503: refusals[503]})
    async def ready() -> Response:
        """Whether new requests are taken now: not while shutting down or with a full queue. Needs no key."""
        if service.is_stopping:
            raise ApiError(*STOPPING)
        if not service.is_ready:
            raise ApiError("too_slow", "the queue is full; ask later", service.batcher.estimate_wait())
        return _json_response(encode_json({"status": "ready"}))

    @app.get("/metrics", response_class=PlainTextResponse, responses={401: refusals[401]})
    async def metrics() -> Response:
        """Counts of requests, batches and refusals in the format of Prometheus."""
        from prometheus_client import generate_latest

        content = generate_latest(service.metrics.registry)
        return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")

    _add_pages(app, service)

    async def refuse(request: Request, error: Exception) -> Response:
        path, headers = request.url.path, {}
        match error:
            case ApiError():
                refusal = error
            case RequestValidationError():
                refusal = explain_invalid(error.errors())
            case HTTPException(status_code=404):
                refusal = ApiError("unknown_path", f"{path[:80]}: no such path; GET /docs lists them")
            case HTTPException(status_code=405):
                headers = dict(error.headers or {})
                allowed = headers.get("Allow", "another method")
                refusal = ApiError("wrong_method", f"{path}: is not for {request.method}; use {allowed}")
            case HTTPException():
                refusal = ApiError("bad_json", "the body cannot be read as JSON in UTF-8; correct it")
            case _:
                refusal = ApiError(*INTERNAL)
        service.metrics.refused.labels(refusal.code).inc()
        return Response(refusal.body, refusal.status, headers | refusal.headers)

    for kind_of_error in (ApiError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind_of_error, refuse)
    paths = [route.path for route in app.routes if hasattr(route, "path")]
    return RequestGuard(app, service, keys, paths, hosts)


def _add_capability(app: FastAPI, service: InferenceService, name: answers.Capability, refusals: _Responses) -> None:
    body_type, kind, about = _CAPABILITIES[name]

    async def answer(body: bodies.Body) -> Response:
        return _json_response(await service.answer(name, body))

    # FastAPI reads a body by the type that stands here.
    answer.__annotations__["body"] = body_type
    # An answer with the name of the model that gave it, or the answers to several texts.
    single: Any = create_model(f"{kind.__name__}One", __base__=kind, model=(str, ...))
    several: Any = create_model(f"{kind.__name__}Many", model=(str, ...), results=(list[kind], ...))  # type: ignore[valid-type]
    answered: _Responses = {200: {"model": single | several, "description": "The answer, or one for each text."}}
    app.post(
        f"/v1/{name}",
        name=name,
        summary=name.capitalize(),
        description=about,
        responses=answered | {status: refusal for status, refusal in refusals.items() if status != 405},
        response_class=Response,
    )(answer)


def _add_pages(app: FastAPI, service: InferenceService) -> None:
    """None of them needs anything from elsewhere."""
    # Read now: no request may wait for a disk.
    docs_page = load_template("docs.html")
    page = read_page("index.html")
    schema = _describe_api(app, needs_key=service.needs_key)
    # Answers that the server gives now, by their paths.
    current = {"/v1/models": service.model_list.to_json()}
    current |= {"/health": {"status": "up"}, "/ready": {"status": "ready"}}
    page_headers = write_policy(page)

    @app.get("/", include_in_schema=False)
    async def show_page() -> Response:
        return Response(page or _NO_PAGE, media_type="text/html" if page else "text/plain", headers=page_headers)

    @app.get("/docs", include_in_schema=False)
    async def show_docs(request: Request) -> Response:
        # By which whoever reads the page has reached the server; another where the header is no address.
        host = request.headers.get("host", "")
        address = f"http://{host}" if _ADDRESS.fullmatch(host) else "http://127.0.0.1:8000"
        to_json = partial(json.dumps, ensure_ascii=False)
        docs = docs_page.render(schema=schema, address=address, current=current, to_json=to_json)
        return Response(docs, media_type="text/html", headers=write_policy(docs))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json_response(encode_json(schema))


def read_page(name: str) -> str:
    """A file that comes along; nothing where the installation was made without it."""
    file = resources.files("electralab") / "serving" / "page" / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def write_policy(page: str) -> dict[str, str]:
    """Headers by which a page may run and wear what it brings along, and talk to its own server; nothing else."""
    # Hashes instead of 'unsafe-inline': a script that somebody's text smuggled into the page would not run.
    hashes = {
        tag: " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
            for inside in re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", page, re.DOTALL)
        )
        for tag in ("script", "style")
    }
    sources = {
        "default-src": "'none'",
        "script-src": hashes["script"] or "'none'",
        "style-src": hashes["style"] or "'none'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
    }
    policy = "; ".join(f"{name} {allowed}" for name, allowed in sources.items())
    return {"content-security-policy": policy, "referrer-policy": "no-referrer"}


def explain_invalid(errors: Sequence[Any]) -> ApiError:
    """What FastAPI finds wrong with a body, as one sentence about the first thing."""
    error = errors[0]
    _, *path = error["loc"] or ("body",)
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if error["type"] == "json_invalid":
        reason = error.get("ctx", {}).get("error", "it cannot be read")
        return ApiError("bad_json", f"the body is not JSON ({reason}); correct it")
    if error["type"] == bodies.UNKNOWN_FIELD:
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
    return ApiError("bad_value", f"{where[:80]}: {message} (got {got}); correct it")


def _describe_api(app: FastAPI, *, needs_key: bool) -> dict[str, Any]:
    """FastAPI's description, without the status that we never answer with, and with the key where one is needed."""
    schema = app.openapi()
    # FastAPI's own shape of an error, which ours replaces.
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    for capability, example in json.loads(read_page("answers.json")).items():
        # Not by FastAPI, which leaves out what is null.
        answer = schema["paths"][f"/v1/{capability}"]["post"]["responses"]["200"]["content"]["application/json"]
        answer["example"] = {"model": "mine", **example}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            if needs_key and path not in OPEN_PATHS:
                operation["security"] = [{"key": []}]
    if needs_key:
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return schema
