"""The HTTP API, version 1: paths, and what is said where something is wrong.

InferenceService -> an ASGI application
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from electralab import __version__
from electralab.serving import schemas
from electralab.serving.api_errors import STATUS, ApiError, shutting_down
from electralab.serving.docs_page import render_docs
from electralab.serving.guard import OPEN_PATHS, RequestGuard, encode, encode_error, error_headers
from electralab.serving.model import Capability
from electralab.serving.service import InferenceService

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

_TITLE = "electralab"
_SAYS = "Which tokens look replaced, what could stand there instead, and what tuned models say of a text."
_ADDRESS = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_NO_PAGE = "The server of electralab is up. This installation has no page; GET /docs says what can be asked.\n"
_REASONS = {
    400: "A value, a text or the JSON itself is wrong; the message says which and why.",
    401: "The key is missing or wrong.",
    403: "A page of another origin asks, or by a name that the server does not go by.",
    404: "No such path or model.",
    405: "No such method on this path.",
    408: "The headers or the body took too long to arrive.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    429: "Too much is waiting; Retry-After says when to come back.",
    500: "The server failed; it goes on.",
    503: "The server is shutting down, has too many connections, or took too long; see Retry-After.",
}


def build_app(service: InferenceService, keys: Sequence[str], hosts: Sequence[str] = ()) -> RequestGuard:
    from fastapi import FastAPI

    app = FastAPI(
        title=_TITLE,
        version=__version__,
        description=_SAYS,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    _add_abilities(app, service)
    _add_states(app, service)
    _add_pages(app, service)
    _add_errors(app)
    paths = [route.path for route in app.routes if hasattr(route, "path")]
    return RequestGuard(app, service, keys, paths, hosts)


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": schemas.ErrorAnswer, "description": _REASONS[status]} for status in statuses}


def _add_abilities(app: "FastAPI", service: InferenceService) -> None:
    from fastapi import Response

    async def answer(ability: Capability, body: schemas.Body) -> Response:
        return Response(encode(await service.answer(ability, body)), media_type="application/json")

    async def detect(body: schemas.DetectBody) -> Response:
        """Each token with its span of characters and the probability that it was replaced."""
        return await answer("detect", body)

    async def fill(body: schemas.FillBody) -> Response:
        """The generator's best guesses for every [MASK] in the text, or for each of the spans in `at`."""
        return await answer("fill", body)

    async def play(body: schemas.PlayBody) -> Response:
        """The game of pre-training: tokens are hidden, the generator puts others there, the discriminator judges."""
        return await answer("play", body)

    async def embed(body: schemas.EmbedBody) -> Response:
        """One vector for the text."""
        return await answer("embed", body)

    async def predict(body: schemas.PredictBody) -> Response:
        """What a tuned model says: a class with probabilities, a number, tags of words, or an answer."""
        return await answer("predict", body)

    kinds: list[tuple[Any, Any]] = [
        (detect, schemas.Detected),
        (fill, schemas.Filled),
        (play, schemas.PlayedAnswer),
        (embed, schemas.Embedded),
        (predict, schemas.Predicted),
    ]
    for endpoint, kind in kinds:
        model = schemas.single(kind) | schemas.batch(kind)
        answered: dict[int | str, dict[str, Any]] = {
            200: {"model": model, "description": "The answer, or one for each text."}
        }
        app.post(
            f"/v1/{endpoint.__name__}",
            responses=answered | _errors(*(set(_REASONS) - {405})),
            response_class=Response,
            summary=endpoint.__name__.capitalize(),
        )(endpoint)


def _add_states(app: "FastAPI", service: InferenceService) -> None:
    from fastapi import Response
    from fastapi.responses import JSONResponse, PlainTextResponse

    @app.get("/v1/models", responses={200: {"model": schemas.ModelsAnswer}}, response_class=Response)
    async def models() -> Response:
        """The models of this server, what each can do, and the limits of a request. Needs no key."""
        return Response(encode(service.list_models()), media_type="application/json")

    @app.get(
        "/v1/examples", responses={200: {"model": schemas.ExamplesAnswer}, **_errors(401)}, response_class=Response
    )
    async def examples() -> Response:
        """Texts to try each model with: a few rows that its run held out of training, where its folder has them."""
        return Response(encode(service.list_examples()), media_type="application/json")

    @app.get("/health", response_model=schemas.StateAnswer)
    async def health() -> Response:
        """Whether the process is up. Needs no key."""
        return JSONResponse({"status": "up"})

    @app.get("/ready", response_model=schemas.StateAnswer, responses=_errors(503))
    async def ready() -> Response:
        """Whether new requests are taken now: not while shutting down or with a full queue. Needs no key."""
        if service.is_stopping:
            raise shutting_down()
        if not service.is_ready:
            raise ApiError("too_slow", "the queue is full; ask later", service.batcher.estimate_wait())
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", response_class=PlainTextResponse, responses=_errors(401))
    async def metrics() -> Response:
        """Counts of requests, batches and refusals in the format of Prometheus."""
        return PlainTextResponse(service.render_metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: "FastAPI", service: InferenceService) -> None:
    from fastapi import Response
    from starlette.requests import Request

    page = read_page()
    schema = describe_api(app, needs_key=service.needs_key)
    seen = {"/v1/models": service.list_models(), "/health": {"status": "up"}, "/ready": {"status": "ready"}}

    def guard(content: str) -> dict[str, str]:
        return {"content-security-policy": write_policy(content), "referrer-policy": "no-referrer"}

    page_headers = guard(page or "")

    async def show_page() -> Response:
        return Response(page or _NO_PAGE, media_type="text/html" if page else "text/plain", headers=page_headers)

    async def show_docs(request: Request) -> Response:
        docs = render_docs(schema, find_address(request.headers.get("host", "")), seen)
        return Response(docs, media_type="text/html", headers=guard(docs))

    app.get("/", include_in_schema=False)(show_page)
    app.get("/docs", include_in_schema=False)(show_docs)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(encode(schema), media_type="application/json")


def find_address(host: str) -> str:
    """By which whoever reads the page has reached the server; another where the header is no address."""
    return f"http://{host}" if _ADDRESS.fullmatch(host) else "http://127.0.0.1:8000"


def read_page() -> str | None:
    """The page, where it comes with the package."""
    page = resources.files("electralab") / "serving" / "page" / "index.html"
    return page.read_text(encoding="utf-8") if page.is_file() else None


def write_policy(page: str) -> str:
    """A page may run and wear what it brings along, as it stands, and talk to its own server; nothing else."""
    hashes = {
        tag: " ".join(_hash(inside) for inside in re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", page, re.DOTALL))
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
    return "; ".join(f"{name} {allowed}" for name, allowed in sources.items())


def _hash(inside: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"


def _add_errors(app: "FastAPI") -> None:
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    def respond(refusal: ApiError, headers: dict[str, str] | None = None) -> "Response":
        from fastapi import Response

        told = {name.decode(): value.decode() for name, value in error_headers(refusal)}
        return Response(encode_error(refusal), refusal.status, {**(headers or {}), **told}, "application/json")

    async def refuse(_: "Request", error: Exception) -> "Response":
        assert isinstance(error, ApiError)
        return respond(error)

    async def explain(_: "Request", error: Exception) -> "Response":
        assert isinstance(error, RequestValidationError)
        return respond(explain_invalid(error.errors()))

    async def answer_status(request: "Request", error: Exception) -> "Response":
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

    async def internal_error(_: "Request", _error: Exception) -> "Response":
        """Our bug; the gate notes it."""
        return respond(ApiError("internal", "the server failed on this request, and has noted how"))

    app.add_exception_handler(ApiError, refuse)
    app.add_exception_handler(Exception, internal_error)
    app.add_exception_handler(RequestValidationError, explain)
    app.add_exception_handler(HTTPException, answer_status)


def explain_invalid(errors: Sequence[Any]) -> ApiError:
    """What FastAPI found wrong with a body, as one sentence about the first thing."""
    error = errors[0]
    _, *path = error["loc"] or ("body",)
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if error["type"] == "json_invalid":
        reason = error.get("ctx", {}).get("error", "it cannot be read")
        return ApiError("bad_json", f"the body is not JSON ({reason}); mend it")
    if error["type"] == schemas.UNKNOWN_FIELD:
        return ApiError("bad_value", f"{error['msg']}; GET /docs lists them")
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if not path:
        return ApiError("bad_value", f"the body: {message}; send a JSON object")
    return ApiError("bad_value", f"{where[:80]}: {message} (got {_preview(error['input'])}); mend it")


def _preview(given: Any) -> str:
    """In a few characters, without writing all of it out first."""
    match given:
        case str():
            return repr(given[:40])
        case list():
            return f"a list of {len(given):,}"
        case dict():
            return f"an object of {len(given):,}"
        case _:
            return repr(str(given)[:40])


def describe_api(app: "FastAPI", *, needs_key: bool) -> dict[str, Any]:
    """FastAPI's description, without the status that we never answer with, and with the key where one is needed."""
    schema = app.openapi()
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            if example := schemas.EXAMPLE_ANSWERS.get(path.removeprefix("/v1/")):
                # Not by FastAPI, which leaves out what is null.
                operation["responses"]["200"]["content"]["application/json"]["example"] = example
            if needs_key and path not in OPEN_PATHS:
                operation["security"] = [{"key": []}]
    if needs_key:
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    assert set(_REASONS) == set(STATUS.values())
    return schema
