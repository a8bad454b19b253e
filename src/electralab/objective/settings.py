"""Which objective, by which procedure, with which networks: the settings of what is learned.

preset, file, flags -> ObjectiveConfig
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from electralab.config import Settings, SettingsTree
from electralab.model.settings import ONE_NETWORK, GeneratorConfig, ModelConfig, derive_encoders
from electralab.objective.corruption import SamplingConfig
from electralab.objective.losses import LossConfig
from electralab.objective.masking import MaskingConfig

ObjectiveName = Literal[
    "electra", "electra-15", "electric", "replace-mlm", "all-tokens-mlm", "mlm", "bert", "causal", "permutation"
]
# Published models by the names that people look for: what is learned there, by its name here.
PUBLISHED: Mapping[str, ObjectiveName] = {"roberta": "mlm", "gpt": "causal", "albert": "mlm", "xlnet": "permutation"}
Procedure = Literal["joint", "two-stage", "adversarial", "minimax", "minimax-literal"]
SentenceTask = Literal["none", "next-sentence", "sentence-order"]

# Objectives whose discriminator tells replaced tokens from original ones.
JUDGED = ("electra", "electra-15")
# Those with a generator and a discriminator.
PAIRS = (*JUDGED, "electric")
# Those whose model predicts what was there before it was replaced.
MENDING = ("replace-mlm", "all-tokens-mlm")
# Those whose generator only makes the inputs of another network.
REPLACING = (*PAIRS, *MENDING)
# Generators that have nothing to learn.
UNTAUGHT = ("unigram", "uniform", "frozen")


class ProcedureConfig(Settings):
    """What some of the procedures leave open."""

    init_from_generator: bool = True
    """two-stage: the discriminator begins as a copy of the trained generator, which then has its size."""
    discriminator_updates: int = Field(1, ge=1)
    generator_updates: int = Field(1, ge=1)
    """minimax: how many steps each network learns before it is the other's turn."""


class ObjectiveConfig(Settings):
    objective: ObjectiveName = "electra"
    procedure: Procedure = "joint"
    procedure_options: ProcedureConfig = ProcedureConfig()
    sentence_task: SentenceTask = "none"
    model: ModelConfig
    generator: GeneratorConfig
    masking: MaskingConfig = MaskingConfig()
    sampling: SamplingConfig = SamplingConfig()
    loss: LossConfig = LossConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for complaint in _complaints(self):
            raise ValueError(complaint)
        if self.objective in REPLACING:  # sizes that do not fit together are refused before there is any data
            derive_encoders(self.model, self.generator, vocab_size=8, sequence_length=8)
        return self


def _complaints(config: ObjectiveConfig) -> Iterator[str]:
    """What makes no sense together, and what to do about it. Only the first is shown, so the order is part of it."""
    objective, procedure, appearance = config.objective, config.procedure, config.masking.appearance
    kind, sharing = config.generator.kind, config.model.sharing

    if objective in REPLACING:
        if kind in ("causal", "two-tower") and appearance != "mask":
            yield (
                f"generator.kind {kind!r} reads the original row, so masking.appearance {appearance!r} shows it "
                "nothing; set masking.appearance to 'mask'"
            )
        if sharing in ONE_NETWORK and objective in MENDING:
            yield (
                f"objective {objective!r} is for a model that never sees [MASK], and with model.sharing "
                f"{sharing!r}, as its own generator, it would see [MASK] after all; set model.sharing to 'embeddings'"
            )
        if sharing in ONE_NETWORK and kind != "transformer":
            yield (
                f"model.sharing {sharing!r} makes both networks one encoder, which generator.kind {kind!r} is not; "
                "set model.sharing to 'token' or 'none'"
            )
        if kind in UNTAUGHT and sharing != "none":
            yield f"generator.kind {kind!r} learns nothing, so there is nothing to share; set model.sharing to 'none'"
        if kind == "two-tower" and sharing not in ("none", "token"):
            yield (
                f"model.sharing {sharing!r} means nothing between two towers and an encoder that reads both ways; "
                "set model.sharing to 'token' or 'none'"
            )

    if procedure != "joint":
        if objective not in JUDGED:
            yield (
                f"procedure {procedure!r} trains a generator against a discriminator, objective {objective!r} has "
                "no such pair; leave the procedure at 'joint'"
            )
        if kind in UNTAUGHT:
            yield (
                f"procedure {procedure!r} trains the generator, generator.kind {kind!r} learns nothing; "
                "leave the procedure at 'joint'"
            )
    if procedure == "two-stage":
        if sharing != "none":
            yield (
                "procedure 'two-stage' freezes the generator while the discriminator learns, so they can share "
                "nothing; set model.sharing to 'none'"
            )
        if config.procedure_options.init_from_generator:
            yield from _copy_complaints(config.model, config.generator)
    elif procedure != "joint":
        if sharing in ONE_NETWORK:
            yield (
                f"procedure {procedure!r} sets one network against the other, which cannot be one encoder; "
                "set model.sharing to 'embeddings'"
            )
        if config.sampling.method == "argmax":
            yield (
                f"procedure {procedure!r} rewards what the generator draws by chance, sampling.method 'argmax' "
                "leaves nothing to chance; set sampling.method to 'sample'"
            )

    if objective == "electric":
        if not (config.sampling.method == "sample" and config.sampling.is_plain):
            yield (
                "objective 'electric' tells tokens from noise that may be any token; leave sampling.method, top_k, "
                "top_p and allow_original at their defaults"
            )
        if kind != "two-tower":
            yield (
                "objective 'electric' needs the probability of every token in its context, which generator.kind "
                f"{kind!r} does not give; set generator.kind to 'two-tower'"
            )

    if config.sentence_task != "none" and objective not in ("mlm", "bert"):
        yield (
            f"sentence_task {config.sentence_task!r} belongs to the objectives 'mlm' and 'bert', not {objective!r}; "
            "set sentence_task to 'none'"
        )
    if procedure != "joint" or objective not in JUDGED:
        for name in config.loss.auxiliary:
            yield (
                f"loss.{name}_weight gives the discriminator of 'electra' or 'electra-15', trained jointly, one more "
                f"task; objective {objective!r} by procedure {procedure!r} has no place for it; set it to 0"
            )
    for name in ("discrepancy_attention", "adaptive_norm", "verdict_adds_cls") if objective not in PAIRS else ():
        if getattr(config.model, name):
            yield (
                f"model.{name} is an option of the discriminator, which objective {objective!r} does not have; unset it"
            )
    if objective == "permutation" and appearance != "mask":
        yield (
            "objective 'permutation' hides tokens by their turn and shows none in their place, so "
            f"masking.appearance {appearance!r} means nothing; set it to 'mask'"
        )
    if (kind == "frozen") != bool(config.generator.path):
        yield "generator.kind 'frozen' and generator.path, the folder of a trained generator, go together"


def _copy_complaints(model: ModelConfig, generator: GeneratorConfig) -> Iterator[str]:
    """How a generator differs from the discriminator that is to begin as its copy."""
    otherwise = "or let the discriminator start from random weights: set procedure_options.init_from_generator to false"
    if generator.kind != "transformer":
        yield (
            "procedure 'two-stage' begins the discriminator as a copy of a generator that reads masked rows, which "
            f"generator.kind {generator.kind!r} does not; set it to 'transformer', {otherwise}"
        )
    encoders = derive_encoders(model, generator, vocab_size=8, sequence_length=8)
    for name in ("hidden_size", "num_layers", "num_heads", "feedforward_size"):
        generator_size, discriminator_size = (getattr(encoder, name) for encoder in encoders)
        if generator_size != discriminator_size:
            yield (
                f"procedure 'two-stage' begins the discriminator ({name} {discriminator_size}) as a copy of the "
                f"generator ({name} {generator_size}); give the generator its size (width_share and depth_share 1), "
                f"{otherwise}"
            )


# ALBERT's own table, whatever its width; narrower where a network is so narrow that this would factorise nothing.
_TABLE_WIDTH = 128
_TABLE_SHARE = 4


@dataclass(frozen=True, slots=True)
class ObjectiveChoice:
    """What is asked for by name."""

    objective: str = "electra"
    published: str = ""
    """The published model that the objective was asked for by, if any."""
    hidden_size: int = 0
    procedure: str = "joint"
    kind: str = "transformer"
    init_from_generator: bool = True
    sharing: str = ""
    """In the user's own words; "" where only presets speak of it."""


def objective_defaults(choice: ObjectiveChoice, usual_width: float) -> SettingsTree:
    """What a choice brings with it unless the user says otherwise: a layer between the preset and the user's own.

    `usual_width` is the generator's share of the width where it is a network of its own.
    """
    objective, procedure, kind = choice.objective, choice.procedure, choice.kind
    top: SettingsTree = {}
    masking: SettingsTree = {}
    generator: SettingsTree = {}
    if objective in ("mlm", "bert"):
        masking["appearance"] = "mask-keep-random"
    if objective == "bert":
        masking["fixed_masks"] = True
        top["sentence_task"] = "next-sentence"
    if objective == "electric" and kind == "transformer":
        kind = generator["kind"] = "two-tower"
    if objective == "permutation" or (objective in REPLACING and kind in ("causal", "two-tower")):
        masking["appearance"] = "mask"

    sharing = choice.sharing
    if not sharing and (procedure == "two-stage" or kind in UNTAUGHT):
        sharing = "none"
    elif not sharing and kind in ("causal", "two-tower"):
        sharing = "token"
    elif not sharing and (procedure != "joint" or objective in MENDING):
        sharing = "embeddings"
    model: SettingsTree = {"sharing": sharing} if sharing else {}
    if choice.published == "albert":
        top["sentence_task"] = "sentence-order"
        width = min(_TABLE_WIDTH, choice.hidden_size // _TABLE_SHARE)
        model |= {"share_layers": True, "embedding_size": max(1, width)}

    if procedure == "two-stage" and choice.init_from_generator:
        generator |= {"width_share": 1.0, "depth_share": 1.0}
    elif sharing == "lower-layers":
        generator |= {"width_share": 1.0, "num_heads": 0}
    elif sharing not in ("", "everything"):  # a preset's width may be that of one encoder for both
        generator |= {"width_share": usual_width, "num_heads": 0}
    return top | {"masking": masking, "model": model, "generator": generator}


_GENERATOR_SIZES = ("width_share", "depth_share", "num_heads", "feedforward_share", "dropout", "attention_dropout")

# Settings without effect (a name that ends in a dot means the whole section), why, and where that holds.
_UNUSED: tuple[tuple[tuple[str, ...], str, Callable[[ObjectiveConfig], bool]], ...] = (
    (("masking.",), "objective {objective!r} masks nothing", lambda c: c.objective == "causal"),
    (
        ("generator.", "sampling.", "model.sharing", "loss.generator_weight"),
        "objective {objective!r} has no generator",
        lambda c: c.objective not in REPLACING,
    ),
    (
        ("model.verdict_head", "loss.discriminator_weight"),
        "objective {objective!r} passes no verdicts",
        lambda c: c.objective not in PAIRS,
    ),
    (
        tuple(f"generator.{name}" for name in _GENERATOR_SIZES),
        "generator.kind {kind!r} is not built by these settings",
        lambda c: c.generator.kind in UNTAUGHT,
    ),
    (
        ("procedure_options.init_from_generator",),
        "procedure {procedure!r} has no second stage",
        lambda c: c.procedure != "two-stage",
    ),
    (
        ("procedure_options.discriminator_updates", "procedure_options.generator_updates"),
        "procedure {procedure!r} takes no turns",
        lambda c: not c.procedure.startswith("minimax"),
    ),
    (("loss.sentence_weight",), "sentence_task is 'none'", lambda c: c.sentence_task == "none"),
    (("loss.correction_gate",), "loss.correction_weight is 0", lambda c: not c.loss.correction_weight),
    (("loss.selection_negatives",), "loss.selection_weight is 0", lambda c: not c.loss.selection_weight),
    (("loss.contrast_temperature",), "loss.contrast_weight is 0", lambda c: not c.loss.contrast_weight),
    (("loss.sequence_temperature",), "loss.sequence_weight is 0", lambda c: not c.loss.sequence_weight),
)


def unused_settings(config: ObjectiveConfig, names: Iterable[str]) -> Iterator[str]:
    """Of the settings with these dotted names, those that change nothing, as complaints."""
    words = {"objective": config.objective, "procedure": config.procedure, "kind": config.generator.kind}
    for name in names:
        for unused, reason, holds in _UNUSED:
            is_meant = any(name == known or (known.endswith(".") and name.startswith(known)) for known in unused)
            if is_meant and holds(config):
                yield f"{name} has no effect, for {reason.format(**words)}; leave it out"
