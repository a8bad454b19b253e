"""The settings of networks: of one encoder, and of a pair, which means two of them.

[model] + [generator] -> two encoder configs
"""

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from electralab.config import Alias, Settings, SettingsTree, first_complaint
from electralab.errors import UsageError

Backbone = Literal["electra", "modern"]
InitRule = Literal["normal", "fan-in"]
RTDHeadKind = Literal["dense", "linear"]
GeneratorKind = Literal["transformer", "causal", "two-tower", "unigram", "uniform", "frozen"]
Sharing = Literal["none", "token", "embeddings", "lower-layers", "everything", "disentangled"]

# Where the generator's layers are the discriminator's.
ONE_NETWORK = ("lower-layers", "everything")

# Beyond these no network is meant, but a damaged or hostile file: sizes of tensors stay far from overflowing.
MAX_SIZE = 2**24
MAX_LAYERS = 10_000
MAX_POSITIONS = 2**20
# Rotary angles are held for every position and every coordinate of a head.
_MAX_ANGLES = 2**25

Count = Annotated[int, Field(gt=0, le=MAX_SIZE)]
CountOrNone = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]


class LayerShape(Settings):
    """One layer, where not all are alike: pruning took heads and neurons away, or whole layers around it."""

    num_heads: Count
    feedforward_size: Count
    is_local: bool = False


class EncoderConfig(Settings):
    """Everything one network needs to be built. The rotary and local settings matter to `modern` only."""

    backbone: Backbone
    vocab_size: Count
    sequence_length: Annotated[int, Field(gt=0, le=MAX_POSITIONS)]
    embedding_size: Count
    hidden_size: Count
    num_layers: Annotated[int, Field(gt=0, le=MAX_LAYERS)]
    num_heads: Count
    feedforward_size: Count
    dropout: Probability
    attention_dropout: Probability
    norm_eps: Positive
    init_std: Positive = 0.02
    num_segments: Count = 2
    local_attention: CountOrNone = 0
    global_every: Count = 3
    global_rope_theta: Positive = 160_000.0
    local_rope_theta: Positive = 10_000.0
    zero_init_outputs: bool = False
    # "normal": every matrix is drawn with init_std; "fan-in": all but the tables with 0.5 / sqrt(inputs).
    init_rule: InitRule = "normal"
    # On `modern`: half of the feed-forward multiplies the other half, as in ModernBERT.
    gated_feedforward: bool = True
    # On `modern`: the head over tokens has its own matrix to the embedding size, instead of the embeddings' projection.
    own_head_projection: bool = False
    # Queries and keys are brought to one length, with a learned gain, before they are compared.
    qk_norm: bool = False
    # All layers have one set of weights.
    share_layers: bool = False
    # Attention looks more, or less, at tokens that disagree with their surroundings.
    discrepancy_attention: bool = False
    # The norms after the embeddings scale a token by how replaced it looks.
    adaptive_norm: bool = False
    # A position sees itself and earlier ones only.
    is_causal: bool = False
    # Each layer's own shape; none where all are as the settings above say.
    shapes: tuple[LayerShape, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.is_causal and self.local_attention == 1:
            raise ValueError("a causal window of 1 leaves a position nothing to see, not even itself; give 2 or more")
        if self.is_causal and self.discrepancy_attention:
            raise ValueError("discrepancy_attention looks at both sides of a token, which a causal network must not")
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"a hidden size of {self.hidden_size} does not divide into {self.num_heads} heads; change one of them"
            )
        if self.is_modern and self.head_size % 2:
            raise ValueError(
                f"rotary positions need an even number of coordinates per head, not {self.head_size} "
                f"({self.hidden_size} / {self.num_heads}); change hidden_size or num_heads"
            )
        if self.is_modern and self.sequence_length * self.head_size > _MAX_ANGLES:
            raise ValueError(
                f"{self.sequence_length:,} positions with heads {self.head_size:,} wide are more than {_MAX_ANGLES:,} "
                "rotary angles; take shorter rows or more heads"
            )
        if self.shapes and len(self.shapes) != self.num_layers:
            raise ValueError(f"there are {len(self.shapes)} shapes for {self.num_layers} layers; give one for each")
        if self.shapes and self.share_layers:
            raise ValueError("layers that share their weights cannot have shapes of their own; unset one of them")
        has_local = any(shape.is_local for shape in self.shapes)
        if has_local and not self.local_attention:
            raise ValueError("a local layer needs a window; set local_attention")
        if has_local and self.global_every < 2:
            raise ValueError("a local layer needs a global_every of 2 or more; set it")
        return self

    @property
    def is_modern(self) -> bool:
        return self.backbone == "modern"

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads

    @property
    def is_gated(self) -> bool:
        return self.is_modern and self.gated_feedforward

    @property
    def head_width(self) -> int:
        """Of the head over tokens, before the token table."""
        return self.hidden_size if self.is_modern and not self.own_head_projection else self.embedding_size

    def matrix_std(self, inputs: int) -> float:
        """How widely a matrix with so many inputs is drawn."""
        return 0.5 / inputs**0.5 if self.init_rule == "fan-in" else self.init_std

    @property
    def output_std(self) -> float:
        """How widely the matrices that write into the residual stream are drawn."""
        if self.zero_init_outputs:
            return 0.0
        std = self.matrix_std(self.hidden_size)
        return std / (2 * self.num_layers) ** 0.5 if self.is_modern else std

    def is_local(self, layer: int) -> bool:
        if self.shapes:
            return self.shapes[layer].is_local
        return self.local_attention > 0 and layer % self.global_every > 0

    @property
    def local_layers(self) -> list[int]:
        return [layer for layer in range(self.num_layers) if self.is_local(layer)]

    def shape_of(self, layer: int) -> LayerShape:
        if self.shapes:
            return self.shapes[layer]
        is_local = self.is_local(layer)
        return LayerShape(num_heads=self.num_heads, feedforward_size=self.feedforward_size, is_local=is_local)

    @property
    def layer_shapes(self) -> tuple[LayerShape, ...]:
        return tuple(map(self.shape_of, range(self.num_layers)))


def _size(
    backbone: Backbone, sizes: tuple[int, int, int, int, int], share: float, **more: float
) -> dict[str, SettingsTree]:
    names = ("embedding_size", "hidden_size", "num_layers", "num_heads", "feedforward_size")
    model: SettingsTree = {"backbone": backbone, **dict(zip(names, sizes, strict=True)), **more}
    return {"model": model, "generator": {"width_share": share}}


# Sizes by name, as layers of settings: embeddings, states, layers, heads, feed-forward, and the generator's share of
# the width. small, base and large are the released ones.
SIZES = {
    "tiny": _size("modern", (128, 128, 4, 2, 384), 1 / 2, dropout=0.0, attention_dropout=0.0),
    "small": _size("electra", (128, 256, 12, 4, 1024), 1 / 4),
    "base": _size("electra", (768, 768, 12, 12, 3072), 1 / 3),
    "large": _size("electra", (1024, 1024, 24, 16, 4096), 1 / 4),
}


class ModelConfig(Settings):
    """The discriminator, and what both networks have in common."""

    backbone: Backbone = "electra"
    embedding_size: Count = 128
    hidden_size: Count = 256
    num_layers: Count = 12
    num_heads: Count = 4
    feedforward_size: Count = 1024
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.1
    init_std: Positive = 0.02
    local_attention: CountOrNone = 0
    global_every: Count = 3
    global_rope_theta: Positive = 160_000.0
    local_rope_theta: Positive = 10_000.0
    zero_init_outputs: bool = False
    # Of both networks, see EncoderConfig: how matrices are drawn, and two departures from ModernBERT
    init_rule: InitRule = "normal"
    gated_feedforward: bool = True
    own_head_projection: bool = False
    # Of both networks: queries and keys are normalised before they are compared, with a learned gain.
    qk_norm: bool = False
    # Of both networks: one set of weights for all layers.
    share_layers: bool = False
    # Of both networks: the longest row that they can read; 0, or anything shorter: that of the data
    max_positions: CountOrNone = 0
    # Of the discriminator, and of the generator where it is the same network.
    discrepancy_attention: bool = False
    adaptive_norm: bool = False
    verdict_head: Annotated[RTDHeadKind, Alias("rtd_head")] = "dense"
    # The head reads each token's state plus that of the first, [CLS], so that [CLS] has to know the row.
    verdict_adds_cls: Annotated[bool, Alias("rtd_adds_cls")] = False
    sharing: Sharing = "embeddings"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} does not divide into {self.num_heads} heads; change one of them"
            )
        only_modern = {
            "local_attention": self.local_attention > 0,
            "zero_init_outputs": self.zero_init_outputs,
            "gated_feedforward": not self.gated_feedforward,
            "own_head_projection": self.own_head_projection,
        }
        if self.backbone == "electra" and any(only_modern.values()):
            wrong = next(name for name, is_set in only_modern.items() if is_set)
            raise ValueError(f"{wrong} belongs to the modern backbone; unset it, or set model.backbone to 'modern'")
        if self.backbone == "modern" and self.verdict_head == "linear":
            raise ValueError(
                "the modern backbone has no plain linear verdict head that other libraries could load; "
                "leave verdict_head at 'dense'"
            )
        return self


class GeneratorConfig(Settings):
    """The generator, relative to the discriminator."""

    kind: GeneratorKind = "transformer"
    # Of a frozen one: the folder of a trained generator.
    path: str = ""
    width_share: Positive = 0.25
    depth_share: Positive = 1.0
    # 0: one for every 64 coordinates of its hidden size, or as the discriminator's where that is the same
    num_heads: CountOrNone = 0
    # 0: as width_share
    feedforward_share: Annotated[float, Field(ge=0)] = 0.0
    # absent: as the discriminator's
    dropout: Probability | None = None
    attention_dropout: Probability | None = None


def derive_encoders(
    model: ModelConfig, generator: GeneratorConfig, *, vocab_size: int, sequence_length: int
) -> tuple[EncoderConfig, EncoderConfig]:
    """The generator's config and the discriminator's."""
    settings: SettingsTree = {name: value for name, value in model if name in EncoderConfig.model_fields}
    settings["vocab_size"] = vocab_size
    settings["sequence_length"] = max(sequence_length, model.max_positions)
    settings["norm_eps"] = 1e-5 if model.backbone == "modern" else 1e-12
    width = _scale(model.hidden_size, generator.width_share, multiple=2)
    # One head for every 64 coordinates, or the next smaller number that leaves each head an even, whole share.
    wanted = max(1, width // 64)
    num_heads = next(heads for heads in range(wanted, 0, -1) if width % (2 * heads) == 0 or heads == 1)
    dropout, attention_dropout = generator.dropout, generator.attention_dropout
    generator_settings = settings | {
        "hidden_size": width,
        "num_layers": _scale(model.num_layers, generator.depth_share),
        "num_heads": generator.num_heads or (model.num_heads if width == model.hidden_size else num_heads),
        "feedforward_size": _scale(model.feedforward_size, generator.feedforward_share or generator.width_share),
        "dropout": model.dropout if dropout is None else dropout,
        "attention_dropout": model.attention_dropout if attention_dropout is None else attention_dropout,
    }
    if model.sharing not in ONE_NETWORK:  # what is an option of the discriminator alone
        generator_settings |= {"discrepancy_attention": False, "adaptive_norm": False}
    if model.sharing == "lower-layers" and generator_settings | {"num_layers": model.num_layers} != settings:
        raise UsageError(
            "model.sharing: 'lower-layers' makes the generator of the discriminator's own first layers; set "
            f"generator.width_share to 1 and generator.num_heads to {model.num_heads}, leave its dropout as the "
            "discriminator's, and choose how many layers by generator.depth_share"
        )
    if model.sharing == "everything" and generator_settings != settings:
        raise UsageError(
            "model.sharing: 'everything' needs a generator of the discriminator's size; set generator.width_share and "
            f"generator.depth_share to 1 and generator.num_heads to {model.num_heads}, or share 'embeddings'"
        )
    try:
        is_causal = generator.kind in ("causal", "two-tower")
        return EncoderConfig(**generator_settings, is_causal=is_causal), EncoderConfig(**settings)
    except ValidationError as error:
        wrong = first_complaint(error)
        raise UsageError(": ".join(["model, generator", *wrong.path, wrong.message])) from None


def _scale(size: int, share: float, multiple: int = 1) -> int:
    """The multiple nearest to the share of the size, at least one; a third written as 0.3333 counts as a third."""
    exact = Fraction(share).limit_denominator(1000)
    return max(1, round(size * exact / multiple)) * multiple
