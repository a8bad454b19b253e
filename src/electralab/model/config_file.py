"""config.json in Hugging Face's words, checked as a whole before anything is built from it: JSON -> typed settings.

A folder from elsewhere may say anything. Types are taken strictly, and sizes have bounds, so that no loop and no
tensor is larger than a network can be; whether they are those of the weights is checked against the weights' header.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from electralab.errors import InputError, quote
from electralab.model.encoder import MAX_LAYERS, MAX_POSITIONS, MAX_SIZE

CONFIG = "config.json"

Size = Annotated[int, Field(gt=0, le=MAX_SIZE)]
Positions = Annotated[int, Field(gt=0, le=MAX_POSITIONS)]
Layers = Annotated[int, Field(gt=0, le=MAX_LAYERS)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]

F = TypeVar("F", bound="ConfigFile")


class ConfigFile(BaseModel):
    """What both architectures have; names that are not declared here mean nothing to us and are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)

    initializer_range: Positive = 0.02
    share_layers: bool = Field(default=False, alias="electralab_share_layers")


class ElectraFile(ConfigFile):
    vocab_size: Size = 30522
    max_position_embeddings: Positions = 512
    embedding_size: Size = 128
    hidden_size: Size = 256
    num_hidden_layers: Layers = 12
    num_attention_heads: Size = 4
    intermediate_size: Size = 1024
    hidden_dropout_prob: Dropout = 0.1
    attention_probs_dropout_prob: Dropout = 0.1
    layer_norm_eps: Positive = 1e-12
    type_vocab_size: Size = 2
    is_decoder: bool = False


class RopeParameters(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)

    rope_type: str = "default"
    rope_theta: Positive | None = None


class RopeByLayerType(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    full_attention: RopeParameters | None = None
    sliding_attention: RopeParameters | None = None


class ModernBertFile(ConfigFile):
    vocab_size: Size = 50368
    max_position_embeddings: Positions = 8192
    hidden_size: Size = 768
    num_hidden_layers: Layers = 22
    num_attention_heads: Size = 12
    intermediate_size: Size = 1152
    mlp_dropout: Dropout = 0.0
    attention_dropout: Dropout = 0.0
    norm_eps: Positive = 1e-5
    local_attention: Annotated[int, Field(ge=0, le=2 * MAX_POSITIONS)] = 128
    layer_types: list[str] | None = Field(default=None, max_length=MAX_LAYERS)
    global_attn_every_n_layers: Size = 3
    rope_parameters: RopeByLayerType | None = None
    rope_scaling: Any = None
    global_rope_theta: Positive = 160_000.0
    local_rope_theta: Positive = 10_000.0


def read_config_file(kind: type[F], tree: Mapping[str, Any], where: str) -> F:
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error)}; this model cannot be built") from None


def describe(error: ValidationError) -> str:
    """What is wrong in config.json, in half a sentence."""
    first = error.errors()[0]
    name = quote(".".join(str(part) for part in first["loc"])).strip("'")
    message = first["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
    got = "" if isinstance(first["input"], dict) else f" (got {quote(first['input'])})"
    return f"{CONFIG}: {name + ': ' if name else ''}{message[:1].lower()}{message[1:]}{got}"
