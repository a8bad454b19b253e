"""Where requests meet models: what a body may hold, which model is asked, whether the texts are fit to ask about.

JSON -> Body -> inputs of a handler -> JSON
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from electralab.config import Settings
from electralab.errors import suggest
from electralab.model.task_model import Pooling
from electralab.records.answers import (
    Capability,
    Embedding,
    ExampleList,
    ModelExamples,
    ModelList,
    ServerLimits,
)
from electralab.records.record import Record
from electralab.records.tuned import PredictionRow
from electralab.serving.api_errors import ApiError, shutting_down
from electralab.serving.batching import BadText, Batcher, BatchHandler, BatchingConfig
from electralab.serving.corruption_demo import PlayRequest
from electralab.serving.embedder import EmbedRequest
from electralab.serving.mask_filler import FillRequest
from electralab.serving.metrics import ServerMetrics
from electralab.serving.model import Model
from electralab.tasks.table import is_damaged

_MOST_SPANS = 256
# Named parts of one input: a question and its context are two, and a row of a table has few columns.
_MOST_PARTS = 32
_SEED = 2**63
# [CLS] and [SEP] go through the model too.
_SPECIAL_TOKENS = 2

UNKNOWN_FIELD = "unknown_field"


def _check_input(given: Any) -> Any:
    """The first wrong part ends it: for a union pydantic collects an error for every part of every alternative."""
    # pydantic takes a ValueError for a fault of the input, and a TypeError for one of ours.
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list):
        parts = {"a list": given}
    elif not isinstance(given, dict):
        raise ValueError("should be a string, a list of strings or an object of named parts")  # noqa: TRY004
    elif len(given) > _MOST_PARTS:
        raise ValueError(f"has {len(given):,} named parts, at most {_MOST_PARTS} are read")
    else:
        parts = {f"part {name[:40]!r}": part for name, part in given.items()}
    for where, part in parts.items():
        if isinstance(part, list):
            odd = next((index for index, item in enumerate(part) if not isinstance(item, str)), None)
            if odd is not None:
                raise ValueError(f"{where} should hold strings only, item {odd} is not one")
        elif not isinstance(part, str):
            raise ValueError(f"{where} should be a string or a list of strings")  # noqa: TRY004
    return given


PredictInput = Annotated[str | list[str] | dict[str, str | list[str]], BeforeValidator(_check_input)]


def _body_config(**example: Any) -> ConfigDict:
    """A body gives either `text` or `texts`; the example shows both ways."""
    batch = {"texts": [example["text"]]} | {key: value for key, value in example.items() if key not in ("text", "at")}
    extra: dict[str, Any] = {"oneOf": [{"required": ["text"]}, {"required": ["texts"]}], "examples": [example, batch]}
    return ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True, json_schema_extra=extra)


class Body(BaseModel):
    """A text or a list of texts, and the name of the model where the server has several that could answer."""

    model: str | None = Field(None, description="A name of GET /v1/models; needed where several models could answer.")

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, given: Any) -> Any:
        """Before anything else, and by the first: a body may name more unknown fields than there is time to list."""
        unknown = next((name for name in given if name not in cls.model_fields), None) if type(given) is dict else None
        if unknown is not None:
            raise PydanticCustomError(UNKNOWN_FIELD, "no field named {name}", {"name": repr(unknown[:80])})
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in ("text", "texts") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give either 'text' or 'texts'{', not both' * bool(given)}")
        return self

    @property
    def is_batch(self) -> bool:
        return getattr(self, "text") is None  # noqa: B009  every body has one, of its own type

    def inputs(self) -> Sequence[Any]:
        single, several = (getattr(self, name) for name in ("text", "texts"))
        return several if several is not None else [single]

    def make_request(self, given: Any) -> Any:
        """What the handler is asked about one of the inputs."""
        return given

    def cost(self, given: Any) -> int:
        """About how many characters go through the model for one of the inputs."""
        return sum(map(len, list_strings(given))) + _SPECIAL_TOKENS


class TextBody(Body):
    text: str | None = Field(None, description="The text; a JSON list of symbols for a model of symbols.")
    texts: list[str] | None = Field(None, min_length=1, fail_fast=True, description="Several texts, answered in order.")


class DetectBody(TextBody):
    model_config = _body_config(text="The people of the United elephants are free.")


class FillBody(TextBody):
    model_config = _body_config(text="The people of the [MASK] States are free.", top=3)

    at: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = Field(
        None,
        fail_fast=True,
        min_length=1,
        max_length=_MOST_SPANS,
        description="Spans of characters, [start, end), each hidden by itself. Without it: every [MASK] in the text.",
    )
    top: int = Field(5, ge=1, le=100, description="How many guesses.")

    def make_request(self, given: str) -> FillRequest:
        spans = None if self.at is None else [(start, end) for start, end in self.at]
        return FillRequest(given, spans, self.top)

    def cost(self, given: str) -> int:
        # Each mask may be a row of its own.
        return super().cost(given) * max(1, len(self.at or ()), given.count("[MASK]"))


class PlayBody(TextBody):
    model_config = _body_config(text="The people of the United States are free.", mask_share=0.3, seed=7)

    mask_share: float = Field(0.15, gt=0, lt=1, description="The share of tokens to hide.")
    temperature: float = Field(1.0, ge=0.01, le=100, description="Below 1 the generator plays safe, above 1 wild.")
    seed: int = Field(0, ge=-_SEED, lt=_SEED, description="The same seed hides and draws the same.")

    def make_request(self, given: str) -> PlayRequest:
        return PlayRequest(given, self.mask_share, self.temperature, self.seed)

    def cost(self, given: str) -> int:
        # Two networks read it.
        return 2 * super().cost(given)


class EmbedBody(TextBody):
    model_config = _body_config(text="The people of the United States are free.", pooling="mean")

    pooling: Pooling = Field("mean", description="The mean of the tokens, or the first or last token's state.")

    def make_request(self, given: str) -> EmbedRequest:
        return EmbedRequest(given, self.pooling)


class PredictBody(Body):
    model_config = _body_config(text="a gripping story, well told")

    text: PredictInput | None = Field(
        None,
        description="A text, a pair of texts, or named parts such as {'question': …, 'context': …}; for a model of "
        "symbols a list of strings, or a JSON list as a string.",
    )
    texts: list[PredictInput] | None = Field(
        None, min_length=1, fail_fast=True, description="Several of them, answered in order."
    )


def list_strings(given: Any) -> list[str]:
    """A text, or all the parts of an input."""
    if isinstance(given, str):
        return [given]
    parts = given.values() if isinstance(given, dict) else given
    return [text for part in parts for text in list_strings(part)]


class LimitsConfig(Settings):
    body_bytes: int = Field(2**20, ge=1)
    text_characters: int = Field(100_000, ge=1)
    batch_texts: int = Field(256, ge=1)
    seconds: float = Field(10.0, gt=0)
    """Until a request without an answer is given up."""
    body_seconds: float = Field(10.0, gt=0)
    """Until the whole body must be here."""
    header_seconds: float = Field(10.0, gt=0)
    """Until a connection must have sent all headers of a request: since it began, or since its last answer."""
    connections: int = Field(1000, ge=1)
    """At once; fewer where the process may not open so many files."""
    open_requests: int = Field(1024, ge=1)


class InferenceService:
    def __init__(
        self, models: Mapping[str, Model], limits: LimitsConfig, batching: BatchingConfig, *, needs_key: bool
    ) -> None:
        self.models = models
        self.limits = limits
        self.needs_key = needs_key
        self.is_stopping = False
        self.metrics = ServerMetrics()
        self.batcher = Batcher(batching, self.metrics)
        self.metrics.add_gauge(
            "electralab_queue_texts", "Texts that wait for a worker.", lambda: self.batcher.waiting_texts
        )
        self.metrics.add_gauge("electralab_ready", "1 while new requests are taken.", lambda: float(self.is_ready))
        # Loaded now: the first request must not wait for it, and what is wrong with a folder shows at the start.
        self._handlers = {
            (name, capability): _handler(model, capability)
            for name, model in models.items()
            for capability in model.can
        }

    async def answer(self, capability: Capability, body: Body) -> bytes:
        """The JSON of the answer: `{"model": …, …}`, or `{"model": …, "results": […]}` for several texts."""
        if self.is_stopping:
            raise shutting_down()
        name = self._choose(capability, body.model)
        inputs = body.inputs()
        if len(inputs) > self.limits.batch_texts:
            raise ApiError(
                "too_many_texts", f"texts: are {len(inputs)}, at most {self.limits.batch_texts} go in one body"
            )
        for index, given in enumerate(inputs):
            self._check(f"texts[{index}]" if body.is_batch else "text", given)
        cost, limit = sum(map(body.cost, inputs)), self.batcher.config.queue_characters
        if cost > limit:
            raise ApiError(
                "text_too_long", f"the request is as much work as {cost:,} characters, at most {limit:,} are; send less"
            )
        request = self.batcher.submit(
            capability,
            self._handlers[name, capability],
            [body.make_request(given) for given in inputs],
            cost=cost,
            seconds=self.limits.seconds,
        )
        try:
            answers = await asyncio.wait_for(asyncio.wrap_future(request.answers), self.limits.seconds)
        except asyncio.CancelledError:  # the client left, or the server stops
            self.batcher.give_up(request)
            raise
        except TimeoutError:
            self.batcher.give_up(request)
            wait = self.batcher.estimate_wait()
            raise ApiError("too_slow", f"took over {self.limits.seconds:g} s; try again in {wait} s", wait) from None
        except BadText as bad:
            where = f"texts[{bad.index}]" if body.is_batch else "text"
            raise ApiError("bad_text", f"{where}: {bad.reason}") from None
        parts = list(map(_encode, answers))
        head = b'{"model":' + json.dumps(name).encode()
        return head + (b',"results":[' + b",".join(parts) + b"]}" if body.is_batch else b"," + parts[0][1:])

    def _check(self, where: str, given: Any) -> None:
        texts = list_strings(given)
        if not any(text.strip() for text in texts):
            raise ApiError("text_empty", f"{where}: is empty; give a text")
        if any(map(is_damaged, texts)):
            raise ApiError("bad_text", f"{where}: holds half a character (a lone surrogate); give whole ones")
        length, limit = sum(map(len, texts)), self.limits.text_characters
        if length > limit:
            raise ApiError("text_too_long", f"{where}: has {length:,} characters, at most {limit:,} are taken; cut it")

    def _choose(self, capability: Capability, name: str | None) -> str:
        able = [known for known, model in self.models.items() if capability in model.can]
        if name is None:
            if len(able) == 1:
                return able[0]
            if able:
                raise ApiError("model_needed", f"model: {', '.join(able)} can all {capability}; say which")
            raise ApiError("model_cannot", f"no model here can {capability}; GET /v1/models says what they can")
        if name not in self.models:
            hint = suggest(name[:80], self.models, f"known are {', '.join(self.models)}")
            raise ApiError("unknown_model", f"model: none is named {name[:80]!r}; {hint}")
        if name not in able:
            can = ", ".join(self.models[name].can)
            raise ApiError("model_cannot", f"model: {name!r} cannot {capability}; it can {can}")
        return name

    def list_models(self) -> ModelList:
        limits = self.limits.model_dump(include=set(ServerLimits.model_fields))
        return ModelList(
            models=tuple(model.describe(name) for name, model in self.models.items()),
            limits=ServerLimits(**limits),
            needs_key=self.needs_key,
        )

    def list_examples(self) -> ExampleList:
        return ExampleList(
            models=tuple(ModelExamples(name=name, examples=model.examples) for name, model in self.models.items())
        )

    @property
    def is_ready(self) -> bool:
        return not self.is_stopping and not self.batcher.is_full


def _handler(model: Model, capability: Capability) -> BatchHandler:
    match capability:
        case "detect":
            return model.detector
        case "fill":
            return model.filler
        case "play":
            return model.demo
        case "embed":
            return model.embedder
        case "predict":
            return model.predictor


def _encode(answer: Any) -> bytes:
    """pydantic writes the bytes, without a dictionary in between: this is most of what the server sends."""
    record = answer if isinstance(answer, Record) else Embedding(embedding=answer.tolist())
    # Not the inputs: the client knows what it asked about, and texts are most of a row.
    without = {"id", "texts", "words", "question"} if isinstance(record, PredictionRow) else None
    return record.__pydantic_serializer__.to_json(record, exclude_unset=True, by_alias=True, exclude=without)
