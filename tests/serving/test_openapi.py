"""The server does what /openapi.json says: only documented statuses, answers of the documented shape."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from little_server import open_desk, open_gate, save_models
from schemathesis import checks


@pytest.fixture(scope="module")
def api_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    desk = open_desk(save_models(tmp_path_factory.mktemp("models")), batching={"window_ms": 0})
    yield schemathesis.openapi.from_asgi("/openapi.json", open_gate(desk))
    desk.batcher.close(1)


schema = schemathesis.pytest.from_fixture("api_schema")


@schema.parametrize()
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_one_that_the_description_allows(case: schemathesis.Case) -> None:
    response = case.call()
    case.validate_response(
        response,
        checks=[
            checks.not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
            checks.negative_data_rejection,
        ],
    )
