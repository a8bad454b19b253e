"""Where requests meet models: what a body may hold, which model is asked, whether the texts are fit to ask about.

JSON -> Body -> inputs of a handler -> JSON
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError

from electralab.config import Settings
from electralab.errors import suggest
from electralab.model.task_model import Pooling
from electralab.records.answers import Capability, Embedding, ExampleList, ModelExamples, ModelList, ServerLimits
from electralab.records.record import Record
from electralab.records.tuned import PredictionRow
from electralab.serving.batching import BadText, Batcher, BatchHandler, BatchingConfig, QueuedRequest
from electralab.serving.model import Model
from electralab.serving.outcomes import STOPPING, ApiError, ServerMetrics
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
    """A text or a list of texts, and the name of the model where the server has several that could answer.

    Every other field is an option of the handler that answers.
    """

    model: str | None = Field(None, description="A name of GET /v1/models; needed where several models could answer.")
    text: Any = None
    texts: Any = None

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        # Before anything else, and by the first: a body may name more unknown fields than there is time to list.
        unknown = next((name for name in given if name not in cls.model_fields), None) if type(given) is dict else None
        if unknown is not None:
            raise PydanticCustomError(UNKNOWN_FIELD, "no field named {name}", {"name": repr(unknown[:80])})
        body = validate(given)
        if (body.text is None) == (body.texts is None):
            raise ValueError(f"give either 'text' or 'texts'{', not both' * (body.text is not None)}")
        return body


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


class PlayBody(TextBody):
    model_config = _body_config(text="The people of the United States are free.", mask_share=0.3, seed=7)

    mask_share: float = Field(0.15, gt=0, lt=1, description="The share of tokens to hide.")
    temperature: float = Field(1.0, ge=0.01, le=100, description="Below 1 the generator plays safe, above 1 wild.")
    seed: int = Field(0, ge=-_SEED, lt=_SEED, description="The same seed hides and draws the same.")


class EmbedBody(TextBody):
    model_config = _body_config(text="The people of the United States are free.", pooling="mean")

    pooling: Pooling = Field("mean", description="The mean of the tokens, or the first or last token's state.")


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


_HANDLERS: dict[Capability, Callable[[Model], BatchHandler]] = {
    "detect": lambda model: model.detector,
    "fill": lambda model: model.filler,
    "play": lambda model: model.demo,
    "embed": lambda model: model.embedder,
    "predict": lambda model: model.predictor,
}


class InferenceService:
    def __init__(
        self, models: Mapping[str, Model], limits: LimitsConfig, batching: BatchingConfig, *, needs_key: bool
    ) -> None:
        from prometheus_client import Gauge

        self.models = models
        self.limits = limits
        self.needs_key = needs_key
        self.is_stopping = False
        self.metrics = ServerMetrics()
        self.batcher = Batcher(batching, self.metrics)
        # Their values are asked for whenever the metrics are read.
        waiting = Gauge("electralab_queue_texts", "Texts that wait for a worker.", registry=self.metrics.registry)
        waiting.set_function(lambda: self.batcher.waiting_texts)
        ready = Gauge("electralab_ready", "1 while new requests are taken.", registry=self.metrics.registry)
        ready.set_function(lambda: float(self.is_ready))
        # Loaded now: the first request must not wait for it, what is wrong with a folder shows at the start, and no
        # request reads a file.
        self._handlers = {
            (name, capability): _HANDLERS[capability](model)
            for name, model in models.items()
            for capability in model.can
        }
        self.model_list = ModelList(
            models=tuple(model.describe(name) for name, model in models.items()),
            limits=ServerLimits(**limits.model_dump(include=set(ServerLimits.model_fields))),
            needs_key=needs_key,
        )
        examples = [ModelExamples(name=name, examples=model.examples) for name, model in models.items()]
        self.example_list = ExampleList(models=tuple(examples))

    @property
    def is_ready(self) -> bool:
        return not self.is_stopping and not self.batcher.is_full

    async def answer(self, capability: Capability, body: Body) -> bytes:
        """The JSON of the answer: `{"model": …, …}`, or `{"model": …, "results": […]}` for several texts."""
        if self.is_stopping:
            raise ApiError(*STOPPING)
        name = self._choose(capability, body.model)
        is_batch = body.texts is not None
        inputs = body.texts if is_batch else [body.text]
        if len(inputs) > self.limits.batch_texts:
            most = self.limits.batch_texts
            raise ApiError("too_many_texts", f"texts: are {len(inputs)}, at most {most} go in one body")
        cost = sum(self._check(f"texts[{index}]" if is_batch else "text", given) for index, given in enumerate(inputs))
        if isinstance(body, PlayBody):
            cost *= 2  # two networks read it
        elif isinstance(body, FillBody):
            # Each mask may be a row of its own.
            rows = [max(1, len(body.at or ()), text.count("[MASK]")) for text in inputs]
            cost = sum((len(text) + _SPECIAL_TOKENS) * count for text, count in zip(inputs, rows, strict=True))
        if cost > self.batcher.config.queue_characters:
            limit = self.batcher.config.queue_characters
            raise ApiError(
                "text_too_long", f"the request is as much work as {cost:,} characters, at most {limit:,} are; send less"
            )
        handler, seconds = self._handlers[name, capability], self.limits.seconds
        options = {field: value for field, value in body if field not in Body.model_fields}
        request = QueuedRequest(capability, handler, inputs, options, cost, seconds)
        self.batcher.submit(request)
        try:
            answers = await asyncio.wait_for(asyncio.wrap_future(request.answers), seconds)
        except asyncio.CancelledError:  # the client left, or the server stops
            self.batcher.give_up(request)
            raise
        except TimeoutError:
            self.batcher.give_up(request)
            raise self.batcher.retry_later("too_slow", f"took over {seconds:g} s") from None
        except BadText as bad:
            index, reason = bad.args
            raise ApiError("bad_text", f"{f'texts[{index}]' if is_batch else 'text'}: {reason}") from None
        parts = []
        for answer in answers:
            record = answer if isinstance(answer, Record) else Embedding(embedding=answer.tolist())
            # Not the inputs: the client knows what it asked about, and texts are most of a row.
            without = {"id", "texts", "words", "question"} if isinstance(record, PredictionRow) else None
            # pydantic writes the bytes, without a dictionary in between: this is most of what the server sends.
            serializer = record.__pydantic_serializer__
            parts.append(serializer.to_json(record, exclude_unset=True, by_alias=True, exclude=without))
        head = b'{"model":' + json.dumps(name).encode()
        return head + (b',"results":[' + b",".join(parts) + b"]}" if is_batch else b"," + parts[0][1:])

    def _check(self, where: str, given: Any) -> int:
        """Refuses what is no text to ask about; else about how many characters go through the model for it."""
        texts = list_strings(given)
        if not any(text.strip() for text in texts):
            raise ApiError("text_empty", f"{where}: is empty; give a text")
        if any(map(is_damaged, texts)):
            raise ApiError("bad_text", f"{where}: holds half a character (a lone surrogate); give whole ones")
        length, limit = sum(map(len, texts)), self.limits.text_characters
        if length > limit:
            raise ApiError("text_too_long", f"{where}: has {length:,} characters, at most {limit:,} are taken; cut it")
        return length + _SPECIAL_TOKENS

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
