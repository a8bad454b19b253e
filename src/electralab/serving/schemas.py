"""The bodies of version 1 of the API, as the server reads them and as /openapi.json describes them.

JSON -> Body -> what a handler is asked
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from electralab.model.pooling import Pooling
from electralab.serving.corruption_demo import PlayRequest
from electralab.serving.embedder import EmbedRequest
from electralab.serving.mask_filler import FillRequest

_EITHER = {"oneOf": [{"required": ["text"]}, {"required": ["texts"]}]}
_MOST_SPANS = 256
# Named parts of one input: a question and its context are two, and a row of a table has few columns.
_MOST_PARTS = 32
_SEED = 2**63

UNKNOWN_FIELD = "unknown_field"


def _check_input(given: Any) -> Any:
    """The first wrong part ends it: of a union pydantic collects an error for every part of every alternative."""
    if fault := _find_fault(given):
        raise ValueError(fault)
    return given


def _find_fault(given: Any) -> str:
    match given:
        case None | str():
            return ""
        case list():
            return _find_odd_item("a list", given)
        case dict() if len(given) > _MOST_PARTS:
            return f"has {len(given):,} named parts, at most {_MOST_PARTS} are read"
        case dict():
            faults = (_find_odd_part(f"part {name[:40]!r}", part) for name, part in given.items())
            return next(filter(None, faults), "")
        case _:
            return "should be a string, a list of strings or an object of named parts"


def _find_odd_part(where: str, part: Any) -> str:
    if isinstance(part, list):
        return _find_odd_item(where, part)
    return "" if isinstance(part, str) else f"{where} should be a string or a list of strings"


def _find_odd_item(where: str, items: list[Any]) -> str:
    odd = next((place for place, item in enumerate(items) if not isinstance(item, str)), None)
    return "" if odd is None else f"{where} should hold strings only, item {odd} is not one"


TextInput = Annotated[str | list[str] | dict[str, str | list[str]], BeforeValidator(_check_input)]


def _config(**example: Any) -> ConfigDict:
    batch = {"texts": [example["text"]]} | {key: value for key, value in example.items() if key not in ("text", "at")}
    extra: dict[str, Any] = {**_EITHER, "examples": [example, batch]}
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
        one, many = (getattr(self, name) for name in ("text", "texts"))
        return many if many is not None else [one]

    def ask(self, given: Any) -> Any:
        """What the handler is asked about one of the inputs."""
        return given

    def weigh(self, given: Any) -> int:
        """About how many characters go through the model for one of the inputs."""
        return count_characters(given) + _FRAME


_FRAME = 2


class TextBody(Body):
    text: str | None = Field(None, description="The text; a JSON list of symbols for a model of symbols.")
    texts: list[str] | None = Field(None, min_length=1, fail_fast=True, description="Several texts, answered in order.")


class DetectBody(TextBody):
    model_config = _config(text="The people of the United elephants are free.")


class FillBody(TextBody):
    model_config = _config(text="The people of the [MASK] States are free.", top=3)

    at: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = Field(
        None,
        fail_fast=True,
        min_length=1,
        max_length=_MOST_SPANS,
        description="Spans of characters, [start, end), each hidden by itself. Without it: every [MASK] in the text.",
    )
    top: int = Field(5, ge=1, le=100, description="How many guesses.")

    def ask(self, given: str) -> FillRequest:
        spans = None if self.at is None else [(start, end) for start, end in self.at]
        return FillRequest(given, spans, self.top)

    def weigh(self, given: str) -> int:
        return super().weigh(given) * max(1, len(self.at or ()), given.count("[MASK]"))


class PlayBody(TextBody):
    model_config = _config(text="The people of the United States are free.", mask_share=0.3, seed=7)

    mask_share: float = Field(0.15, gt=0, lt=1, description="The share of tokens to hide.")
    temperature: float = Field(1.0, ge=0.01, le=100, description="Below 1 the generator plays safe, above 1 wild.")
    seed: int = Field(0, ge=-_SEED, lt=_SEED, description="The same seed hides and draws the same.")

    def ask(self, given: str) -> PlayRequest:
        return PlayRequest(given, self.mask_share, self.temperature, self.seed)

    def weigh(self, given: str) -> int:
        return 2 * super().weigh(given)


class EmbedBody(TextBody):
    model_config = _config(text="The people of the United States are free.", pooling="mean")

    pooling: Pooling = Field("mean", description="The mean of the tokens, or the first or last token's state.")

    def ask(self, given: str) -> EmbedRequest:
        return EmbedRequest(given, self.pooling)


class PredictBody(Body):
    model_config = _config(text="a gripping story, well told")

    text: TextInput | None = Field(
        None,
        description="A text, a pair of texts, or named parts such as {'question': …, 'context': …}; for a model of "
        "symbols a list of strings, or a JSON list as a string.",
    )
    texts: list[TextInput] | None = Field(
        None, min_length=1, fail_fast=True, description="Several of them, answered in order."
    )


def count_characters(given: Any) -> int:
    """Of a text, or of all the parts of an input."""
    if isinstance(given, str):
        return len(given)
    parts = given.values() if isinstance(given, dict) else given
    return sum(map(count_characters, parts))


def list_strings(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    parts = given.values() if isinstance(given, dict) else given
    return [text for part in parts for text in list_strings(part)]


class Span(BaseModel):
    text: str
    start: int = Field(description="In Unicode code points.")
    end: int
    p_replaced: float
    p_original: float = Field(description="1 - p_replaced.")


class Verdict(Span):
    unknown: bool = Field(
        description="Whether the vocabulary has no such token; of a model of symbols it is suspicious for that alone."
    )


class GuessAnswer(BaseModel):
    text: str
    p: float
    continues_word: bool = Field(description="Whether it is written without a space after what stands before.")


class BlankAnswer(BaseModel):
    start: int
    end: int
    text: str
    guesses: list[GuessAnswer]


class TokenAnswer(Span):
    is_masked: bool
    guesses: list[GuessAnswer]
    drawn: str | None
    is_replaced: bool


class ScoresAnswer(BaseModel):
    masked: int
    replaced: int
    restored: int
    found: int
    false_alarms: int
    auc: float | None


class Detected(BaseModel):
    text: str
    tokens: list[Verdict]
    suspicious: list[int] = Field(description="Places in `tokens` of the suspicious ones, the most suspicious first.")
    is_relative: bool = Field(
        description="Whether none passes 0.5, so that `suspicious` names the most suspicious of this text."
    )
    warning: str | None = Field(description="What the model's held-out scores say against its verdicts.")


class Filled(BaseModel):
    text: str
    blanks: list[BlankAnswer]


class PlayedAnswer(BaseModel):
    text: str
    corrupted: str
    tokens: list[TokenAnswer]
    scores: ScoresAnswer


class Embedded(BaseModel):
    embedding: list[float]


class Predicted(BaseModel):
    model_config = ConfigDict(extra="allow")

    prediction: str | float | list[str] | None
    probabilities: dict[str, float | None] | list[float | None] | None = None


class StrengthView(BaseModel):
    auc: float
    recall: float
    precision: float


class ModelView(BaseModel):
    name: str
    can: list[Literal["detect", "fill", "play", "embed", "predict"]]
    task: Literal["classify", "regress", "label", "qa"] | None
    labels: list[str]
    num_texts: Literal[0, 1, 2]
    is_symbols: bool
    runtime: Literal["torch", "onnx"]
    sequence_length: int
    heldout: StrengthView | None = Field(description="Scores of the discriminator on held-out text, at 0.5.")
    warning: str | None = Field(description="What these scores say against its verdicts.")


class ExampleView(BaseModel):
    texts: list[str]
    truth: str | None
    corrupted: str | None = Field(description="The text with words of the generator in it.")


class ExamplesView(BaseModel):
    name: str
    examples: list[ExampleView]


class ExamplesAnswer(BaseModel):
    models: list[ExamplesView]


class LimitsView(BaseModel):
    body_bytes: int
    text_characters: int
    batch_texts: int
    seconds: float


class ModelsAnswer(BaseModel):
    models: list[ModelView]
    limits: LimitsView
    needs_key: bool


class ErrorView(BaseModel):
    code: str
    message: str


class ErrorAnswer(BaseModel):
    error: ErrorView


class StateAnswer(BaseModel):
    status: str


def single(kind: type[BaseModel]) -> type[BaseModel]:
    """An answer with the name of the model that gave it."""
    return create_model(f"{kind.__name__}One", __base__=kind, model=(str, ...))


def batch(kind: type[BaseModel]) -> type[BaseModel]:
    return create_model(f"{kind.__name__}Many", model=(str, ...), results=(list[kind], ...))  # type: ignore[valid-type]


_TOKENS = [
    {"text": "the", "start": 0, "end": 3, "p_replaced": 0.03, "p_original": 0.97, "unknown": False},
    {"text": "elephants", "start": 4, "end": 13, "p_replaced": 0.82, "p_original": 0.18, "unknown": False},
]
_GUESSES = [
    {"text": "states", "p": 0.61, "continues_word": False},
    {"text": "people", "p": 0.07, "continues_word": False},
]
_PLAYED = [
    {
        **{"text": "the", "start": 0, "end": 3, "is_masked": False, "guesses": [], "drawn": None, "is_replaced": False},
        **{"p_replaced": 0.03, "p_original": 0.97},
    },
    {
        **{"text": "states", "start": 4, "end": 10, "is_masked": True, "guesses": _GUESSES, "drawn": "people"},
        **{"is_replaced": True, "p_replaced": 0.74, "p_original": 0.26},
    },
]

# What an answer looks like, by its path: figures of no model in particular.
EXAMPLE_ANSWERS: dict[str, dict[str, Any]] = {
    "detect": {
        "model": "mine",
        "text": "the elephants",
        "tokens": _TOKENS,
        "suspicious": [1],
        "is_relative": False,
        "warning": None,
    },
    "fill": {
        "model": "mine",
        "text": "the [MASK]",
        "blanks": [{"start": 4, "end": 10, "text": "[MASK]", "guesses": _GUESSES}],
    },
    "play": {
        "model": "mine",
        "text": "the states",
        "corrupted": "the people",
        "tokens": _PLAYED,
        "scores": {"masked": 1, "replaced": 1, "restored": 0, "found": 1, "false_alarms": 0, "auc": 1.0},
    },
    "embed": {"model": "mine", "embedding": [0.12, -0.4, 0.88]},
    "predict": {"model": "reviews", "prediction": "good", "probabilities": {"bad": 0.04, "good": 0.96}},
}
