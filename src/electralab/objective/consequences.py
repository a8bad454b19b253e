"""What choosing an objective, a procedure and a generator brings along, and what it leaves without effect.

Choice -> implied settings; ObjectiveConfig, names of settings -> complaints
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from electralab.config import SettingsTree
from electralab.objective.settings import MENDING, REPLACING, UNTAUGHT, ObjectiveConfig

# ALBERT's own table, whatever its width; narrower where a network is so narrow that this would factorise nothing.
_TABLE_WIDTH = 128
_TABLE_SHARE = 4


@dataclass(frozen=True, slots=True)
class Choice:
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


def implied_settings(choice: Choice, usual_width: float) -> SettingsTree:
    """What a choice brings with it unless the user says otherwise: a layer between the preset and the user's own.

    `usual_width` is the generator's share of the width where it is a network of its own.
    """
    objective, kind = choice.objective, choice.kind
    masking: SettingsTree = {}
    generator: SettingsTree = {}
    more: SettingsTree = {}
    if objective in ("mlm", "bert"):
        masking["appearance"] = "mask-keep-random"
    if objective == "bert":
        masking["fixed_masks"] = True
        more["sentence_task"] = "next-sentence"
    if objective == "electric" and kind == "transformer":
        kind = generator["kind"] = "two-tower"
    if objective == "permutation" or (objective in REPLACING and kind in ("causal", "two-tower")):
        masking["appearance"] = "mask"
    sharing = choice.sharing or _imply_sharing(objective, choice.procedure, kind)
    model: SettingsTree = {"sharing": sharing} if sharing else {}
    if choice.published == "albert":
        more["sentence_task"] = "sentence-order"
        width = min(_TABLE_WIDTH, choice.hidden_size // _TABLE_SHARE)
        model |= {"share_layers": True, "embedding_size": max(1, width)}
    if choice.procedure == "two-stage" and choice.init_from_generator:
        generator |= {"width_share": 1.0, "depth_share": 1.0}
    elif sharing == "lower-layers":
        generator |= {"width_share": 1.0, "num_heads": 0}
    elif sharing not in ("", "everything"):  # a preset's width may be that of one encoder for both
        generator |= {"width_share": usual_width, "num_heads": 0}
    return more | {"masking": masking, "model": model, "generator": generator}


def _imply_sharing(objective: str, procedure: str, kind: str) -> str:
    if procedure == "two-stage" or kind in UNTAUGHT:
        return "none"
    if kind in ("causal", "two-tower"):
        return "token"
    return "embeddings" if procedure != "joint" or objective in MENDING else ""


@dataclass(frozen=True, slots=True)
class _Idle:
    """Settings without effect, and where; a name that ends in a dot means the whole section."""

    names: tuple[str, ...]
    reason: str
    holds: Callable[[ObjectiveConfig], bool]

    def covers(self, name: str) -> bool:
        return any(name == one or (one.endswith(".") and name.startswith(one)) for one in self.names)


_VERDICTS = ("model.verdict_head", "loss.discriminator_weight")
_PAIR = ("generator.", "sampling.", "model.sharing", "loss.generator_weight")
_SIZES = ("width_share", "depth_share", "num_heads", "feedforward_share", "dropout", "attention_dropout")
_TURNS = ("procedure_options.discriminator_updates", "procedure_options.generator_updates")

_IDLE = (
    _Idle(("masking.",), "objective {objective!r} masks nothing", lambda c: c.objective == "causal"),
    _Idle(_PAIR, "objective {objective!r} has no generator", lambda c: c.objective not in REPLACING),
    _Idle(
        _VERDICTS,
        "objective {objective!r} passes no verdicts",
        lambda c: c.objective not in REPLACING or c.objective in MENDING,
    ),
    _Idle(
        tuple(f"generator.{name}" for name in _SIZES),
        "generator.kind {kind!r} is not built by these settings",
        lambda c: c.generator.kind in UNTAUGHT,
    ),
    _Idle(
        ("procedure_options.init_from_generator",),
        "procedure {procedure!r} has no second stage",
        lambda c: c.procedure != "two-stage",
    ),
    _Idle(_TURNS, "procedure {procedure!r} takes no turns", lambda c: not c.procedure.startswith("minimax")),
    _Idle(("loss.sentence_weight",), "sentence_task is 'none'", lambda c: c.sentence_task == "none"),
    _Idle(("loss.correction_gate",), "loss.correction_weight is 0", lambda c: not c.loss.correction_weight),
    _Idle(("loss.selection_negatives",), "loss.selection_weight is 0", lambda c: not c.loss.selection_weight),
    _Idle(("loss.contrast_temperature",), "loss.contrast_weight is 0", lambda c: not c.loss.contrast_weight),
    _Idle(("loss.sequence_temperature",), "loss.sequence_weight is 0", lambda c: not c.loss.sequence_weight),
)


def find_idle(config: ObjectiveConfig, names: Iterable[str]) -> Iterator[str]:
    """Of the settings with these dotted names, those that change nothing, as complaints."""
    words = {"objective": config.objective, "procedure": config.procedure, "kind": config.generator.kind}
    for name in names:
        for idle in _IDLE:
            if idle.covers(name) and idle.holds(config):
                yield f"{name} has no effect, for {idle.reason.format(**words)}; leave it out"
