"""The HTTP API: what is asked in JSON is answered in JSON, and what is wrong is told in words with its status."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from html import unescape
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from little_server import Start, get, post, tell
from pydantic import ValidationError
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi.schemas import OpenApiSchema

from electralab.records.answers import Capability, Detection, Embedding, FillResult, PlayResult
from electralab.records.record import Record
from electralab.records.tuned import PredictionRow
from electralab.serving.app import read_page, write_policy
from electralab.serving.guard import RequestGuard
from electralab.serving.model import Model
from electralab.serving.service import Body, DetectBody, EmbedBody, FillBody, PlayBody, PredictBody

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def gate(start: Start) -> RequestGuard:
    return start(text_characters=200, batch_texts=4, body_bytes=4096, body_seconds=0.3)


def error_of(response: httpx.Response) -> tuple[int, str, str]:
    error = response.json()["error"]
    assert set(error) == {"code", "message"}
    assert "\n" not in error["message"]
    return response.status_code, error["code"], error["message"]


def test_one_text_is_answered_and_several_in_order(gate: RequestGuard, little_models: dict[str, Model]) -> None:
    one = post(gate, "/v1/detect", {"text": TEXT})
    assert one.status_code == 200
    assert one.headers["content-type"] == "application/json"
    found = little_models["pair"].detect(TEXT)
    assert one.json() == {"model": "pair", **found.to_json()}
    many = post(gate, "/v1/detect", {"texts": ["a dog", TEXT], "model": "pair"}).json()
    assert [result["text"] for result in many["results"]] == ["a dog", TEXT]
    assert [token["p_replaced"] for token in many["results"][1]["tokens"]] == pytest.approx(
        [token["p_replaced"] for token in one.json()["tokens"]], abs=1e-6
    )


def test_every_ability_says_what_python_says(gate: RequestGuard, little_models: dict[str, Model]) -> None:
    pair, reviews = little_models["pair"], little_models["reviews"]
    filled = post(gate, "/v1/fill", {"text": TEXT, "at": [[4, 7]], "top": 2}).json()
    (blank,) = pair.fill(TEXT, [(4, 7)], 2).blanks
    assert filled["blanks"] == [blank.to_json()]
    played = post(gate, "/v1/play", {"text": TEXT, "mask_share": 0.4, "seed": 3}).json()
    assert played == {"model": "pair", **pair.play(TEXT, 0.4, 1.0, 3).to_json()}
    embedded = post(gate, "/v1/embed", {"text": TEXT, "pooling": "last", "model": "pair"}).json()
    assert embedded["embedding"] == pytest.approx(pair.embed(TEXT, "last").tolist(), abs=1e-6)
    predicted = post(gate, "/v1/predict", {"texts": [TEXT, "a dog"], "model": "reviews"}).json()
    rows = reviews.predict([TEXT, "a dog"])
    assert [one["prediction"] for one in predicted["results"]] == [row["prediction"] for row in rows]
    assert set(predicted["results"][0]) == {"prediction", "probabilities"}
    asked = {"question": "who sat", "context": TEXT}
    answered = post(gate, "/v1/predict", {"text": asked, "model": "questions"}).json()
    assert answered["prediction"] == little_models["questions"].predict([asked])[0]["prediction"]


def test_a_text_of_unknown_tokens_is_answered_as_in_python(gate: RequestGuard, little_models: dict[str, Model]) -> None:
    pair = little_models["pair"]
    found = post(gate, "/v1/detect", {"texts": ["日本語", TEXT]}).json()["results"]
    ours: dict[str, Any] = pair.detect("日本語").to_json()
    # In one batch with a longer text or alone: then sums differ in their last bits.
    for token, expected in zip(found[0].pop("tokens"), ours.pop("tokens"), strict=True):
        floats = {name: pytest.approx(value, abs=1e-6) for name, value in expected.items() if isinstance(value, float)}
        assert token == expected | floats
        assert token["unknown"]
    assert found[0] == ours
    assert "holds nothing that the model's vocabulary knows" in found[0]["warning"]
    assert found[1]["warning"] is None
    embedded = post(gate, "/v1/embed", {"text": "日本語", "model": "pair"}).json()["embedding"]
    assert embedded == pytest.approx(pair.embed("日本語").tolist(), abs=1e-6)


def test_no_request_reads_a_file(gate: RequestGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model can do is known since it was loaded: the event loop must not wait for a disk."""
    assert post(gate, "/v1/detect", {"text": TEXT}).status_code == 200

    def refuse(path: Path, *_: Any, **__: Any) -> Any:
        raise AssertionError(path)

    monkeypatch.setattr(Path, "open", refuse)
    for path, body in {"detect": {"text": TEXT}, "predict": {"text": TEXT, "model": "reviews"}}.items():
        assert post(gate, f"/v1/{path}", body).status_code == 200
    assert get(gate, "/v1/models").status_code == 200


def test_the_models_are_listed_with_what_they_can_do(gate: RequestGuard) -> None:
    listed = get(gate, "/v1/models").json()
    assert [(model["name"], model["can"], model["task"]) for model in listed["models"]] == [
        ("pair", ["detect", "fill", "play", "embed"], None),
        ("reviews", ["embed", "predict"], "classify"),
        ("questions", ["embed", "predict"], "qa"),
    ]
    assert listed["models"][1]["labels"] == ["no", "yes", "maybe"]
    assert [(model["heldout"], model["warning"]) for model in listed["models"]] == [(None, None)] * 3
    assert [model["num_texts"] for model in listed["models"]] == [1, 1, 2]
    assert listed["limits"] == {"body_bytes": 4096, "text_characters": 200, "batch_texts": 4, "seconds": 10.0}
    assert listed["needs_key"] is False


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("detect", {"text": ""}, (400, "text_empty", "text: is empty; give a text")),
        ("detect", {"text": " \n"}, (400, "text_empty", "text: is empty; give a text")),
        ("detect", {"texts": ["a", ""]}, (400, "text_empty", "texts[1]: is empty; give a text")),
        ("detect", {"texts": []}, (400, "bad_value", "texts: list should have at least 1 item")),
        ("detect", {"text": "a" * 201}, (400, "text_too_long", "text: has 201 characters, at most 200 are taken")),
        ("detect", {"texts": ["a"] * 5}, (400, "too_many_texts", "texts: are 5, at most 4 go in one body")),
        ("play", {"text": "日本語"}, (400, "bad_text", "text: holds nothing that the model's vocabulary knows")),
        ("play", {"texts": ["a", "日本"]}, (400, "bad_text", "texts[1]: holds nothing that the model's")),
        ("detect", {}, (400, "bad_value", "give either 'text' or 'texts'")),
        ("detect", {"text": "a", "texts": ["a"]}, (400, "bad_value", "give either 'text' or 'texts', not both")),
        ("detect", {"text": 7}, (400, "bad_value", "text: input should be a valid string (got '7')")),
        ("detect", {"texts": ["a", None]}, (400, "bad_value", "texts[1]: input should be a valid string")),
        ("detect", {"txt": "a"}, (400, "bad_value", "no field named 'txt'")),
        ("detect", [1], (400, "bad_value", "the body: ")),
        ("detect", "text", (400, "bad_value", "the body: ")),
        ("detect", {"text": "a", "model": "pear"}, (404, "unknown_model", "model: none is named 'pear'; did you mean")),
        ("detect", {"text": "a", "model": "reviews"}, (400, "model_cannot", "model: 'reviews' cannot detect; it can")),
        ("embed", {"text": "a"}, (400, "model_needed", "model: pair, reviews, questions can all embed; say which")),
        ("embed", {"text": "a", "pooling": "max"}, (400, "bad_value", "pooling: input should be 'first', 'last' or")),
        ("fill", {"text": "the cat"}, (400, "bad_text", "text: has no [MASK], so there is nothing to fill")),
        ("fill", {"text": "a", "at": [[5, 9]]}, (400, "bad_text", "text: at 0: no token stands between")),
        ("fill", {"text": "a", "at": [[0]]}, (400, "bad_value", "at[0]: list should have at least 2 items")),
        ("fill", {"text": "a", "at": [[0, 1.5]]}, (400, "bad_value", "at[0][1]: input should be a valid integer")),
        ("fill", {"text": "a [MASK]", "top": 0}, (400, "bad_value", "top: input should be greater than")),
        ("play", {"text": "a", "mask_share": 1}, (400, "bad_value", "mask_share: input should be less than 1")),
        ("play", {"text": "a", "seed": 2**64}, (400, "bad_value", "seed: input should be less than")),
        ("predict", {"text": ["a", "b"], "model": "reviews"}, (400, "bad_text", "text: has 2 texts, the model was")),
        (
            "predict",
            {"texts": [["a", "b"], "a"], "model": "questions"},
            (400, "bad_text", "texts[1]: a question needs"),
        ),
        ("predict", {"text": {"a": "b"}, "model": "reviews"}, (400, "bad_text", "text: has 'a'; give 'text_a' and")),
    ],
)
def test_a_bad_body_is_told_in_a_sentence(
    gate: RequestGuard, path: str, body: Any, expected: tuple[int, str, str]
) -> None:
    status, code, message = error_of(post(gate, f"/v1/{path}", content=json.dumps(body), headers=JSON))
    assert (status, code) == expected[:2]
    assert expected[2] in message


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "bad_json"),
        (b"", "bad_value"),
        (b"\x00\xff\xfe binary \x80", "bad_json"),
        (b'{"text": "\xff\xff"}', "bad_json"),
        (b"[" * 2000, "bad_json"),
        (b'{"text": "half \\ud83d"}', "bad_text"),
        (b'{"text": "a", "model": "\\ud83d"}', "unknown_model"),
        (b'{"text": "a", "\\ud83d": 1}', "bad_value"),
        (b'{"text": NaN}', "bad_value"),
        (b'{"text": "the cat", "temperature": NaN}', "bad_value"),
    ],
)
def test_what_is_no_json_or_no_text_is_told(gate: RequestGuard, content: bytes, code: str) -> None:
    path = "play" if b"temperature" in content else "detect"
    status, found, _ = error_of(post(gate, f"/v1/{path}", content=content, headers=JSON))
    assert (400 <= status < 500, found) == (True, code)


def test_other_media_paths_and_methods_are_refused(gate: RequestGuard) -> None:
    form = post(gate, "/v1/detect", data={"text": "a"})
    assert error_of(form)[:2] == (415, "wrong_media_type")
    assert error_of(post(gate, "/v1/detect", content=b"{}"))[:2] == (415, "wrong_media_type")
    assert error_of(get(gate, "/v2/detect"))[:2] == (404, "unknown_path")
    wrong = get(gate, "/v1/detect")
    assert error_of(wrong)[:2] == (405, "wrong_method")
    assert wrong.headers["allow"] == "POST"


async def drip(parts: list[bytes], seconds: float) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(seconds)
        yield part


def test_a_body_is_not_read_beyond_its_limit_however_it_comes(gate: RequestGuard) -> None:
    large = json.dumps({"text": "a" * 5000}).encode()
    assert error_of(post(gate, "/v1/detect", content=large, headers=JSON))[:2] == (413, "body_too_large")
    sent: list[int] = []

    async def count() -> AsyncIterator[bytes]:
        for part in range(1000):
            sent.append(part)
            yield b" " * 1000

    assert error_of(post(gate, "/v1/detect", content=count(), headers=JSON))[:2] == (413, "body_too_large")
    assert len(sent) < 10


def test_a_body_that_drips_in_too_slowly_is_given_up(gate: RequestGuard) -> None:
    slow = post(gate, "/v1/detect", content=drip([b'{"text"', b': "a"', b"}"], 0.2), headers=JSON)
    assert error_of(slow)[:2] == (408, "body_too_slow")
    assert post(gate, "/v1/detect", content=drip([b'{"text"', b': "a"}'], 0.02), headers=JSON).status_code == 200


def test_keys_guard_what_costs_and_nothing_else(start: Start) -> None:
    gate = start(["first key", "sécond"])
    for path in ("/", "/health", "/ready", "/v1/models"):
        assert get(gate, path).status_code == 200
    assert get(gate, "/v1/models").json()["needs_key"] is True
    refused = post(gate, "/v1/detect", {"text": "a"})
    assert error_of(refused)[:2] == (401, "wrong_key")
    assert refused.headers["www-authenticate"] == "Bearer"
    for wrong in ("Bearer", "Bearer first", "Basic first key", "first key", "Bearer first key2"):
        assert get(gate, "/metrics", headers={"authorization": wrong}).status_code == 401
    for right in (b"Bearer first key", "Bearer sécond".encode(), b"bearer first key"):
        assert post(gate, "/v1/detect", {"text": "a"}, headers={"authorization": right}).status_code == 200
    key = {"authorization": "Bearer first key"}
    # Examples are rows of somebody's data; these folders belong to no run.
    assert error_of(get(gate, "/v1/examples"))[:2] == (401, "wrong_key")
    names = ("pair", "reviews", "questions")
    told = get(gate, "/v1/examples", headers=key).json()
    assert told == {"models": [{"name": name, "examples": []} for name in names]}
    schema = get(gate, "/openapi.json", headers=key).json()
    assert schema["paths"]["/v1/detect"]["post"]["security"] == [{"key": []}]
    assert "security" not in schema["paths"]["/v1/models"]["get"]


def test_requests_that_come_together_go_together(start: Start) -> None:
    gate = start(batching={"window_ms": 200})
    texts = ["the cat", "a dog sat", TEXT, "near the old log"]

    async def story(client: httpx.AsyncClient) -> None:
        found = await asyncio.gather(*(client.post("/v1/detect", json={"text": text}) for text in texts))
        assert [response.json()["text"] for response in found] == texts

    tell(gate, story)
    lines = get(gate, "/metrics").text.splitlines()
    assert 'electralab_batch_texts_sum{ability="detect"} 4.0' in lines
    assert 'electralab_batch_texts_count{ability="detect"} 1.0' in lines
    assert 'electralab_requests_total{path="/v1/detect",status="200"} 4.0' in lines


def test_overload_and_slowness_are_answered_with_when_to_come_back(start: Start) -> None:
    gate = start(seconds=0.3, batching={"window_ms": 5000, "queue_texts": 1})

    async def story(client: httpx.AsyncClient) -> None:
        asking = [asyncio.create_task(client.post("/v1/detect", json={"text": "a"})) for _ in range(2)]
        answers = sorted(await asyncio.gather(*asking), key=lambda answer: answer.status_code)
        assert [error_of(answer)[:2] for answer in answers] == [(429, "busy"), (503, "too_slow")]
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)

    tell(gate, story)
    assert 'electralab_refused_total{code="busy"} 1' in get(gate, "/metrics").text


def test_a_server_that_stops_says_so_and_takes_nothing_new(start: Start) -> None:
    gate = start()
    gate.service.is_stopping = True
    assert error_of(get(gate, "/ready"))[:2] == (503, "stopping")
    assert error_of(post(gate, "/v1/detect", {"text": "a"}))[:2] == (503, "stopping")
    assert get(gate, "/health").status_code == 200


def test_a_bug_of_ours_is_a_500_and_the_next_request_is_answered(
    start: Start, little_models: dict[str, Model], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = start()
    with monkeypatch.context() as patch:
        patch.setattr(little_models["pair"].detector, "_describe", None)
        status, code, message = error_of(post(gate, "/v1/detect", {"text": "a"}))
    assert (status, code) == (500, "internal")
    assert "NoneType" not in message
    assert "NoneType" in caplog.text
    assert post(gate, "/v1/detect", {"text": "a"}).status_code == 200


def test_pages_may_do_nothing_but_what_they_bring_along(gate: RequestGuard) -> None:
    docs = get(gate, "/docs")
    assert docs.headers["content-type"].startswith("text/html")
    policy = docs.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in docs.text.replace("http://here", "")
    for path in ("/v1/detect", "/v1/fill", "/v1/play", "/v1/embed", "/v1/predict"):
        assert f"curl http://here{path}" in docs.text
    # echo -n 'let a = 1' | openssl dgst -sha256 -binary | base64
    policy = write_policy("<script>let a = 1</script>")["content-security-policy"]
    assert "script-src 'sha256-LAfYd7pbFUgwfQu8b4q135PeTG2z+/coPEUYCd74eCQ='" in policy
    assert get(gate, "/").status_code == 200
    assert get(gate, "/").headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in get(gate, "/", headers={"origin": "http://elsewhere"}).headers


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1:8123", "http://127.0.0.1:8123"),
        ("lab.example", "http://lab.example"),
        ("[::1]:80", "http://[::1]:80"),
        ("evil'; rm -rf ~ #", "http://127.0.0.1:8000"),
    ],
)
def test_the_docs_name_the_address_by_which_they_were_asked(gate: RequestGuard, host: str, address: str) -> None:
    docs = get(gate, "/docs", headers={"host": host}).text
    assert f"curl {address}/v1/models" in docs
    assert "evil" not in docs
    assert '<a href="/">' in docs


def test_the_docs_show_an_answer_to_every_question(gate: RequestGuard) -> None:
    """Those that are written by hand have exactly the keys of a real one."""
    kinds: dict[Capability, tuple[type[Record], Any]] = {
        "detect": (Detection, {"text": TEXT, "model": "pair"}),
        "fill": (FillResult, {"text": "the [MASK]", "model": "pair"}),
        "play": (PlayResult, {"text": TEXT, "model": "pair", "mask_share": 0.5}),
        "embed": (Embedding, {"text": TEXT, "model": "pair"}),
        "predict": (PredictionRow, {"text": TEXT, "model": "reviews"}),
    }
    docs = unescape(get(gate, "/docs").text)
    examples = json.loads(read_page("answers.json"))
    for ability, (kind, body) in kinds.items():
        assert kind.model_validate(examples[ability]).to_json() == examples[ability]
        example: dict[str, Any] = {"model": "mine", **examples[ability]}
        real = post(gate, f"/v1/{ability}", body).json()
        assert example.keys() == real.keys()
        for name in ("tokens", "blanks"):
            assert [item.keys() for item in example.get(name, [])[:1]] == [
                item.keys() for item in real.get(name, [])[:1]
            ]
        assert json.dumps(example, indent=1) in docs
    assert json.dumps(get(gate, "/v1/models").json(), indent=1) in docs
    schema = get(gate, "/openapi.json").json()
    answers = schema["paths"]["/v1/detect"]["post"]["responses"]["200"]["content"]["application/json"]
    assert answers["example"] == {"model": "mine", **examples["detect"]}
    assert answers["schema"]


MANY = 50_000
UNKNOWN = {f"k{number}": 1 for number in range(MANY)}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PredictBody, {"text": [1] * MANY}),
        (PredictBody, {"text": {"words": [1] * MANY}}),
        (PredictBody, {"text": UNKNOWN}),
        (PredictBody, {"texts": [1] * MANY}),
        (PredictBody, {"texts": [[1] * MANY]}),
        (PredictBody, {"texts": [UNKNOWN]}),
        (PredictBody, UNKNOWN),
        (FillBody, {"text": "a", "at": [["x"] * MANY]}),
        (FillBody, {"text": "a", "at": [["x", 1]] * MANY}),
        *((kind, {"text": "a"} | UNKNOWN) for kind in (DetectBody, FillBody, PlayBody, EmbedBody)),
        *((kind, {"texts": [1] * MANY}) for kind in (DetectBody, FillBody, PlayBody, EmbedBody)),
    ],
)
def test_of_very_many_wrong_things_only_the_first_is_noted(kind: type[Body], body: Any) -> None:
    """An error for each of them took seconds, in which the server answered nobody."""
    with pytest.raises(ValidationError) as found:
        kind.model_validate(body)
    assert found.value.error_count() == 1


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("detect", {"text": "a"} | UNKNOWN, "no field named 'k0'; GET /docs lists them"),
        ("detect", {"text": [1] * MANY}, "text: input should be a valid string (got a list of 50,000); correct it"),
        ("predict", {"text": ["a", 1]}, "text: a list should hold strings only, item 1 is not one (got a list of 2)"),
        ("predict", {"texts": ["a", {"words": [7]}]}, "texts[1]: part 'words' should hold strings only, item 0 is not"),
        ("predict", {"text": {"a": None}}, "text: part 'a' should be a string or a list of strings"),
        ("predict", {"text": 7}, "text: should be a string, a list of strings or an object of named parts (got '7')"),
        ("predict", {"text": UNKNOWN}, "text: has 50,000 named parts, at most 32 are read"),
        ("predict", {"text": {"k" * MANY: "a"}, "model": "reviews"}, f"text: has '{'k' * 40}'; give 'text_a' and"),
    ],
)
def test_a_body_of_very_much_that_is_wrong_gets_a_short_answer(start: Start, path: str, body: Any, words: str) -> None:
    refused = post(start(), f"/v1/{path}", body)
    assert refused.status_code == 400
    assert words in refused.json()["error"]["message"]
    assert len(refused.content) < 400


def test_a_request_that_is_too_much_work_is_refused_before_it_waits(start: Start) -> None:
    gate = start()
    masks = post(gate, "/v1/fill", {"text": "the [MASK] sat " * 300, "model": "pair"})
    assert (masks.status_code, masks.json()["error"]["code"]) == (400, "bad_text")
    assert "has 300 masks, at most 256 are filled at once" in masks.json()["error"]["message"]
    spans = post(gate, "/v1/fill", {"texts": ["the cat sat " * 100] * 50, "at": [[0, 3]] * 100, "model": "pair"})
    assert (spans.status_code, spans.json()["error"]["code"]) == (400, "text_too_long")


# The server does what /openapi.json says: only documented statuses, answers of the documented shape

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]


@pytest.fixture(scope="module")
def schema(start: Start) -> OpenApiSchema:
    return schemathesis.openapi.from_asgi("/openapi.json", start(batching={"window_ms": 0}))


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


# The page is one file that needs nothing from elsewhere and runs under a policy that allows it nothing else

PAGE = (resources.files("electralab") / "serving" / "page" / "index.html").read_text(encoding="utf-8")


def test_the_page_brings_everything_along() -> None:
    assert set(re.findall(r"\w+://[^\s'\"]+", PAGE)) == {"http://www.w3.org/2000/svg"}
    assert [len(re.findall(rf"<{tag}\b", PAGE)) for tag in ("script", "style", "link", "img")] == [1, 1, 1, 0]


def test_the_policy_finds_no_inline_style_or_handler() -> None:
    markup = re.sub(r"<(script|style)>.*?</\1>", "", PAGE, flags=re.DOTALL)
    assert re.findall(r"\s(?:style|on\w+)=", markup) == []
    assert not re.search(r"\beval\(|innerHTML|insertAdjacentHTML|document\.write", PAGE)


def test_every_word_of_the_markup_is_in_the_dictionary() -> None:
    said = set(re.findall(r'data-say(?:-\w+)?="(\w+)"', PAGE))
    dictionary = PAGE.split("const STRINGS", 1)[1].split("\n};", 1)[0]
    assert said <= set(re.findall(r"\b(\w+):", dictionary))
    markup = re.sub(r"<(script|style|title|noscript)>.*?</\1>|<!--.*?-->", "", PAGE, flags=re.DOTALL)
    assert set(re.findall(r">\s*([A-Za-z][^<]*?)\s*<", markup)) == {"ELECTRA"}
