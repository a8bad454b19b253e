"""The sizes of a pair in settings, and the two encoders they mean.

[model] + [generator] -> two encoder configs
"""

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from electralab.config import Alias, Settings, SettingsTree
from electralab.errors import UsageError
from electralab.model.encoder import Backbone, Count, CountOrNone, EncoderConfig, InitRule, Positive, Probability
from electralab.model.heads import RTDHeadKind

GeneratorKind = Literal["transformer", "causal", "two-tower", "unigram", "uniform", "frozen"]
Sharing = Literal["none", "token", "embeddings", "lower-layers", "everything", "disentangled"]

# Where the generator's layers are the discriminator's.
ONE_NETWORK = ("lower-layers", "everything")

# Sizes by name, as layers of settings; small, base and large are the released ones.
SIZES: dict[str, SettingsTree] = {
    "tiny": {
        "model": {
            "backbone": "modern",
            "embedding_size": 128,
            "hidden_size": 128,
            "num_layers": 4,
            "num_heads": 2,
            "feedforward_size": 384,
            "dropout": 0.0,
            "attention_dropout": 0.0,
        },
        "generator": {"width_share": 1 / 2},
    },
    "small": {
        "model": {
            "backbone": "electra",
            "embedding_size": 128,
            "hidden_size": 256,
            "num_layers": 12,
            "num_heads": 4,
            "feedforward_size": 1024,
        },
        "generator": {"width_share": 1 / 4},
    },
    "base": {
        "model": {
            "backbone": "electra",
            "embedding_size": 768,
            "hidden_size": 768,
            "num_layers": 12,
            "num_heads": 12,
            "feedforward_size": 3072,
        },
        "generator": {"width_share": 1 / 3},
    },
    "large": {
        "model": {
            "backbone": "electra",
            "embedding_size": 1024,
            "hidden_size": 1024,
            "num_layers": 24,
            "num_heads": 16,
            "feedforward_size": 4096,
        },
        "generator": {"width_share": 1 / 4},
    },
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
    common: SettingsTree = {
        "backbone": model.backbone,
        "vocab_size": vocab_size,
        "sequence_length": max(sequence_length, model.max_positions),
        "embedding_size": model.embedding_size,
        "norm_eps": 1e-5 if model.backbone == "modern" else 1e-12,
        "init_std": model.init_std,
        "local_attention": model.local_attention,
        "global_every": model.global_every,
        "global_rope_theta": model.global_rope_theta,
        "local_rope_theta": model.local_rope_theta,
        "zero_init_outputs": model.zero_init_outputs,
        "init_rule": model.init_rule,
        "gated_feedforward": model.gated_feedforward,
        "own_head_projection": model.own_head_projection,
        "qk_norm": model.qk_norm,
        "share_layers": model.share_layers,
    }
    judged: SettingsTree = {name: getattr(model, name) for name in _OWN}
    guessing = judged | _shrink(model, generator)
    if model.sharing not in ONE_NETWORK:
        guessing |= dict.fromkeys(_JUDGING, False)
    if model.sharing == "lower-layers" and guessing | {"num_layers": model.num_layers} != judged:
        raise UsageError(
            "model.sharing: 'lower-layers' makes the generator of the discriminator's own first layers; set "
            f"generator.width_share to 1 and generator.num_heads to {model.num_heads}, leave its dropout as the "
            "discriminator's, and choose how many layers by generator.depth_share"
        )
    if model.sharing == "everything" and guessing != judged:
        raise UsageError(
            "model.sharing: 'everything' needs a generator of the discriminator's size; set generator.width_share and "
            f"generator.depth_share to 1 and generator.num_heads to {model.num_heads}, or share 'embeddings'"
        )
    try:
        is_causal = generator.kind in ("causal", "two-tower")
        return EncoderConfig(**common, **guessing, is_causal=is_causal), EncoderConfig(**common, **judged)
    except ValidationError as error:
        first = error.errors()[0]
        where = ": ".join(["model, generator", *(str(name) for name in first["loc"])])
        raise UsageError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None


_JUDGING = ("discrepancy_attention", "adaptive_norm")
_OWN = ("hidden_size", "num_layers", "num_heads", "feedforward_size", "dropout", "attention_dropout", *_JUDGING)


def _shrink(model: ModelConfig, generator: GeneratorConfig) -> SettingsTree:
    width = _scale(model.hidden_size, generator.width_share, multiple=2)
    return {
        "hidden_size": width,
        "num_layers": _scale(model.num_layers, generator.depth_share),
        "num_heads": generator.num_heads or (model.num_heads if width == model.hidden_size else _count_heads(width)),
        "feedforward_size": _scale(model.feedforward_size, generator.feedforward_share or generator.width_share),
        "dropout": model.dropout if generator.dropout is None else generator.dropout,
        "attention_dropout": (
            model.attention_dropout if generator.attention_dropout is None else generator.attention_dropout
        ),
    }


def _scale(size: int, share: float, multiple: int = 1) -> int:
    """The multiple nearest to the share of the size, at least one; a third written as 0.3333 counts as a third."""
    exact = Fraction(share).limit_denominator(1000)
    return max(1, round(size * exact / multiple)) * multiple


def _count_heads(hidden_size: int) -> int:
    """One for every 64 coordinates, or the next smaller number that leaves each head an even, whole share."""
    wanted = max(1, hidden_size // 64)
    return next(heads for heads in range(wanted, 0, -1) if hidden_size % (2 * heads) == 0 or heads == 1)
