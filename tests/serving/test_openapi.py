"""The server does what /openapi.json says: only documented statuses, answers of the documented shape."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from little_server import open_guard, open_service, save_models
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi.schemas import OpenApiSchema

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenApiSchema]:
    service = open_service(save_models(tmp_path_factory.mktemp("models")), batching={"window_ms": 0})
    yield schemathesis.openapi.from_asgi("/openapi.json", open_guard(service))
    service.batcher.close(1)


POSTED = ("/v1/detect", "/v1/fill", "/v1/play", "/v1/embed", "/v1/predict")
GOT = ("/v1/models", "/v1/examples", "/health", "/ready", "/metrics")


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *(("POST", path, mode) for path in POSTED for mode in GenerationMode),
        *(("GET", path, GenerationMode.POSITIVE) for path in GOT),
    ],
)
def test_every_answer_is_one_that_the_description_allows(
    schema: OpenApiSchema, method: str, path: str, mode: GenerationMode
) -> None:
    @given(schema[path][method].as_strategy(generation_mode=mode))
    @settings(max_examples=30, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def ask(case: "schemathesis.Case[Any]") -> None:
        case.validate_response(case.call(), checks=CHECKS)

    ask()


@pytest.mark.parametrize("path", POSTED)
def test_the_examples_of_the_description_are_answered(schema: OpenApiSchema, path: str) -> None:
    operation = schema[path]["POST"]
    kind = schema.raw_schema["components"]["schemas"][f"{path.rpartition('/')[2].capitalize()}Body"]
    assert len(kind["examples"]) == 2
    for example in kind["examples"]:
        body = example | {"model": "reviews" if path == "/v1/predict" else "pair"}
        case = operation.Case(body=body, media_type="application/json")
        response = case.call()
        assert response.status_code == 200, response.text
        case.validate_response(response, checks=CHECKS)
