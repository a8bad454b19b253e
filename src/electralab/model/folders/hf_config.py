"""config.json in Hugging Face's words: network -> JSON -> typed settings, checked before anything is built from them.

A folder from elsewhere may say anything. Types are taken strictly, and sizes have bounds, so that no loop and no
tensor is larger than a network can be; whether they are those of the weights is checked against the weights' header.

The classes of `transformers` that give the same logits as a tuned network:

    electra, classify or regress   ElectraForSequenceClassification; a plain linear head is folded into its two layers
    electra, label or qa           ElectraForTokenClassification, ElectraForQuestionAnswering; both styles are one head
    modern, huggingface            ModernBertFor{SequenceClassification, TokenClassification, QuestionAnswering};
                                   the first with mean pooling too
    modern, released               none: a norm stands in the way
    electra, mean pooling          none
    causal                         none that answers from the last token with such a head

Where none fits, the head keeps our names, no class is named, and the model_type begins with "electralab-": Auto classes
refuse it. A class of theirs asked for by name warns of that type and of a head it had to draw anew.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from electralab.config import first_complaint
from electralab.errors import InputError, quote
from electralab.model.electra import Discriminator, Generator
from electralab.model.settings import MAX_LAYERS, MAX_POSITIONS, MAX_SIZE, Backbone, EncoderConfig
from electralab.model.task_model import KIND_OF_SHAPE, HeadConfig, HeadShape, TaskModel

CONFIG = "config.json"

# The part of config.json in which a tuned model says what only we understand.
MARK = "electralab"
# Says that the layers, copies of each other in the file, are one; `ConfigFile.share_layers` reads it.
SHARED_LAYERS = f"{MARK}_share_layers"
# Before the model_type of a folder that no class of `transformers` can load, so that none tries to.
OURS = f"{MARK}-"
# What a pre-trained network was taught by, in its config.json.
OBJECTIVE = f"{MARK}_objective"
# Says that no row of pre-training had a second segment, so that its embedding is as it was drawn.
UNTRAINED_SEGMENTS = f"{MARK}_untrained_segments"

# What config.json holds: anything, until it is validated.
ConfigTree = dict[str, object]

Size = Annotated[int, Field(gt=0, le=MAX_SIZE)]
Positions = Annotated[int, Field(gt=0, le=MAX_POSITIONS)]
Layers = Annotated[int, Field(gt=0, le=MAX_LAYERS)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class SpecialTokenIds(NamedTuple):
    """The ids that config.json names; a network itself knows of none."""

    pad: int
    cls: int | None = None
    sep: int | None = None


class FilePart(BaseModel):
    """Names that are not declared mean nothing to us and are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


class AnyFile(FilePart):
    """What says which network a file holds. Another library may have put anything there, which is then not ours."""

    model_type: object = None
    architectures: object = None
    id2label: object = None
    classifier_dropout: object = None
    classifier_pooling: object = None
    max_position_embeddings: object = None
    mark: object = Field(default=None, alias=MARK)
    objective: object = Field(default="", alias=OBJECTIVE)
    untrained_segments: object = Field(default=None, alias=UNTRAINED_SEGMENTS)


class HeadMark(FilePart):
    """What only we understand of a tuned model."""

    task: str = ""
    shape: str = ""


class ConfigFile(FilePart):
    """What both architectures have."""

    initializer_range: Positive = 0.02
    share_layers: bool = Field(default=False, alias=SHARED_LAYERS)


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


class RopeParameters(FilePart):
    rope_type: str = "default"
    rope_theta: Positive | None = None


class RopeByLayerType(FilePart):
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


# Our setting -> theirs, where they mean the same.
_COMMON_NAMES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "feedforward_size": "intermediate_size",
    "sequence_length": "max_position_embeddings",
    "init_std": "initializer_range",
}
_NAMES = {
    "electra": _COMMON_NAMES
    | {
        "embedding_size": "embedding_size",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "num_segments": "type_vocab_size",
        "norm_eps": "layer_norm_eps",
    },
    "modern": _COMMON_NAMES
    | {"norm_eps": "norm_eps", "dropout": "mlp_dropout", "attention_dropout": "attention_dropout"},
}
# What our architecture is, in settings of theirs that could also say something else: absent, or one of these. The first
# is what we write. "gelu_python" is the same erf-gelu; the tanh approximations differ by 1e-3 and are refused.
_FIXED: dict[str, dict[str, tuple[Any, ...]]] = {
    "electra": {
        "hidden_act": ("gelu", "gelu_python"),
        "position_embedding_type": ("absolute",),
        "add_cross_attention": (False,),
        "tie_word_embeddings": (True,),
    },
    "modern": {
        "hidden_activation": ("gelu",),
        "classifier_activation": ("gelu",),
        "norm_bias": (False,),
        "attention_bias": (False,),
        "mlp_bias": (False,),
        "classifier_bias": (False,),
        "decoder_bias": (True,),
        "tie_word_embeddings": (True,),
    },
}
_DECODER = "modernbert-decoder"
_MODEL_TYPE = {"electra": "electra", "modern": "modernbert"}
_ATTENTION_KINDS = ("full_attention", "sliding_attention")


def describe_invalid(error: ValidationError) -> str:
    """What is wrong in config.json, in half a sentence."""
    wrong = first_complaint(error)
    name, message = quote(wrong.name).strip("'"), wrong.message.partition(" or instance of ")[0]
    got = "" if isinstance(wrong.given, dict) else f" (got {quote(wrong.given)})"
    return f"{CONFIG}: {name + ': ' if name else ''}{message[:1].lower()}{message[1:]}{got}"


V = TypeVar("V", bound=BaseModel)


def validate(kind: type[V], tree: Any, where: str, remedy: str = "this model cannot be built") -> V:
    """Settings of a file, or one sentence."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise InputError(f"{where}: {describe_invalid(error)}; {remedy}") from None


def require(tree: Mapping[str, object], where: str, allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Each named setting is absent or has one of the values that our architecture is."""
    for name, values in allowed.items():
        if name in tree and tree[name] not in values:
            raise InputError(
                f"{where}: {name} is {quote(tree[name])}, but only {' or '.join(map(repr, values))} is supported; "
                "this variant of the architecture cannot be read"
            )


# ----------------------------------------------------------------------------------------- encoders, pre-trained heads

HeadKind = Literal["mlm", "rtd", "linear rtd"]
LABELS = {"0": "original", "1": "replaced"}
_CLASS_NAME: dict[tuple[str, HeadKind], str] = {
    ("electra", "mlm"): "ElectraForMaskedLM",
    ("electra", "rtd"): "ElectraForPreTraining",
    ("electra", "linear rtd"): "ElectraForTokenClassification",
    ("modern", "mlm"): "ModernBertForMaskedLM",
    ("modern", "rtd"): "ModernBertForTokenClassification",
}
_CAUSAL_CLASS_NAME = {"electra": "ElectraForCausalLM", "modern": "ModernBertDecoderForCausalLM"}


def is_expressible(network: nn.Module) -> TypeGuard[Generator | Discriminator]:
    """Whether a class of `transformers` gives the same logits as this pre-trained network."""
    if isinstance(network, Discriminator) and network.head.adds_cls:
        return False
    if isinstance(network, Generator) and network.config.own_head_projection:
        return False
    return type(network) in (Generator, Discriminator) and has_plain_encoder(network)


def has_plain_encoder(network: nn.Module) -> bool:
    """Whether the classes of `transformers` have the network's encoder; a causal one only below a head over tokens."""
    config = network.config
    if not isinstance(config, EncoderConfig) or (config.is_causal and not isinstance(network, Generator)):
        return False
    has_own_parts = config.discrepancy_attention or config.adaptive_norm or config.qk_norm or config.shapes
    return not has_own_parts and config.is_gated == config.is_modern


def head_kind(network: Generator | Discriminator) -> HeadKind:
    if isinstance(network, Generator):
        return "mlm"
    return "linear rtd" if network.head.dense is None else "rtd"


def is_two_classes(config: EncoderConfig, kind: HeadKind) -> bool:
    return kind == "linear rtd" or (kind == "rtd" and config.is_modern)


def export_config(network: Generator | Discriminator, ids: SpecialTokenIds) -> ConfigTree:
    """With the class of `transformers` that loads the network with its head."""
    config, kind = network.config, head_kind(network)
    is_causal_lm = config.is_causal and kind == "mlm"
    name = _CAUSAL_CLASS_NAME[config.backbone] if is_causal_lm else _CLASS_NAME[config.backbone, kind]
    tree: ConfigTree = {"architectures": [name]}
    tree |= export_encoder_config(config, ids)
    return tree | export_labels(LABELS.values()) if is_two_classes(config, kind) else tree


def export_labels(labels: Iterable[str]) -> ConfigTree:
    names = dict(enumerate(labels))
    return {
        "id2label": {str(index): name for index, name in names.items()},
        "label2id": {name: index for index, name in names.items()},
    }


def export_encoder_config(config: EncoderConfig, ids: SpecialTokenIds) -> ConfigTree:
    tree: ConfigTree = {"model_type": _MODEL_TYPE[config.backbone], "dtype": "float32", "pad_token_id": ids.pad}
    tree |= {theirs: getattr(config, ours) for ours, theirs in _NAMES[config.backbone].items()}
    unsaid = ("position_embedding_type", "add_cross_attention")  # of which other values are no longer known to them
    tree |= {name: values[0] for name, values in _FIXED[config.backbone].items() if name not in unsaid}
    if config.share_layers:
        tree[SHARED_LAYERS] = True
    if not config.is_modern:
        if config.is_causal:
            tree |= {"is_decoder": True, "bos_token_id": ids.cls, "eos_token_id": ids.sep}
        return tree | {"classifier_dropout": config.dropout}
    special: ConfigTree = dict.fromkeys(("cls_token_id", "bos_token_id"), ids.cls)
    special |= dict.fromkeys(("sep_token_id", "eos_token_id"), ids.sep)
    if config.is_causal:  # their decoder takes no null for them
        special = {"model_type": _DECODER} | {name: index for name, index in special.items() if index is not None}
    thetas = dict(zip(_ATTENTION_KINDS, (config.global_rope_theta, config.local_rope_theta), strict=True))
    return tree | {
        "embedding_dropout": config.dropout,
        "classifier_dropout": 0.0,
        "layer_types": [_ATTENTION_KINDS[config.is_local(index)] for index in range(config.num_layers)],
        # Theirs needs some window even where no layer is local.
        "local_attention": config.local_attention or 128,
        "rope_parameters": {name: {"rope_type": "default", "rope_theta": theta} for name, theta in thetas.items()},
        **special,
    }


def import_config(tree: Mapping[str, object], where: str) -> EncoderConfig:
    """Their config.json -> ours; a variant that we do not build is refused by the name of the setting."""
    told_type = AnyFile.model_validate(tree).model_type
    model_type = str(told_type).removeprefix(OURS)
    backbone: Backbone = "electra" if model_type == "electra" else "modern"
    names, fixed = _NAMES[backbone], _FIXED[backbone]
    if backbone == "electra":
        require(tree, where, fixed | {"is_decoder": (False, True)})
        electra = validate(ElectraFile, tree, where)
        fields: dict[str, object] = {ours: getattr(electra, theirs) for ours, theirs in names.items()}
        fields |= {"backbone": "electra", "is_causal": electra.is_decoder, "share_layers": electra.share_layers}
        return validate(EncoderConfig, fields, where)
    if model_type not in ("modernbert", _DECODER):
        other, known = quote(told_type), f"'electra', 'modernbert' and '{_DECODER}'"
        raise InputError(f"{where}: model_type is {other}; models of type {known} can be read")

    require(tree, where, fixed)
    file = validate(ModernBertFile, tree, where)
    kinds, (full, sliding) = file.layer_types, _ATTENTION_KINDS
    global_every = file.global_attn_every_n_layers
    if kinds is not None:
        global_every = kinds.index(full, 1) if full in kinds[1:] else max(1, len(kinds))
        if kinds != [sliding if index % global_every else full for index in range(file.num_hidden_layers)]:
            raise InputError(f"{where}: layer_types is not {full!r} in every n-th layer from the first; cannot be read")
    by_layer = file.rope_parameters or RopeByLayerType()
    ropes = [by_layer.full_attention or RopeParameters(), by_layer.sliding_attention or RopeParameters()]
    for rope in ropes:
        if rope.rope_type != "default" or file.rope_scaling:
            other = quote(file.rope_scaling or rope.rope_type)
            raise InputError(f"{where}: rotary positions of type {other} cannot be read, only 'default'")
    fields = {ours: getattr(file, theirs) for ours, theirs in names.items()}
    fields |= {
        "backbone": "modern",
        "embedding_size": file.hidden_size,
        "local_attention": 0 if global_every == 1 else file.local_attention,
        "global_every": global_every,
        "global_rope_theta": ropes[0].rope_theta or file.global_rope_theta,
        "local_rope_theta": ropes[1].rope_theta or file.local_rope_theta,
        "share_layers": file.share_layers,
        "is_causal": model_type == _DECODER,
    }
    return validate(EncoderConfig, fields, where)


# ----------------------------------------------------------------------------------------------------- heads of a task

_FAMILY = {"electra": "Electra", "modern": "ModernBert"}
_CLASS: dict[HeadShape, str] = {
    "row": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}
# In a file: a head that no class of theirs has.
OWN_OUTPUT = "head.output.weight"
# By these tensors a file is known as one of a tuned network.
TUNED_OUTPUTS = frozenset({"classifier.weight", "classifier.out_proj.weight", "qa_outputs.weight", OWN_OUTPUT})


def has_verdicts(tree: Mapping[str, object], tensors: Mapping[str, Tensor]) -> bool:
    """A discriminator in the shape of a tagger; one tuned here to find tokens so named says what it was tuned for."""
    return "classifier.weight" in tensors and AnyFile.model_validate(tree).id2label == LABELS and MARK not in tree


def task_class_name(network: TaskModel) -> str:
    """The class of `transformers` with the same logits; "" where there is none."""
    config, head = network.config, network.head_config
    if not has_plain_encoder(network) or head.pooling == "last" or (head.pooling == "mean" and not config.is_modern):
        return ""
    can_fold = 2 * head.num_outputs <= config.hidden_size
    is_plain_fine = not config.is_modern and (can_fold or not head.is_pooled)
    return _FAMILY[config.backbone] + _CLASS[head.shape] if is_plain_fine or network.head.dense is not None else ""


def export_task_config(network: TaskModel, ids: SpecialTokenIds) -> ConfigTree:
    head, name = network.head_config, task_class_name(network)
    tree = export_encoder_config(network.config, ids)
    tree["classifier_dropout"] = head.dropout
    if name:
        tree = {"architectures": [name]} | tree
    else:
        tree |= {"model_type": f"{OURS}{_MODEL_TYPE[network.config.backbone]}"}
    if head.shape != "span":
        tree |= export_labels(head.labels or ["LABEL_0"])
    # The four kinds are told by the head itself; another is named with the shape of its head.
    is_told = head.kind in ("regress", *KIND_OF_SHAPE.values())
    if head.is_pooled and is_told:
        tree["problem_type"] = "single_label_classification" if head.labels else "regression"
    if head.pooling == "mean":
        tree["classifier_pooling"] = "mean"
    return tree | {MARK: {"task": head.kind} | ({} if is_told else {"shape": head.shape})}


def read_task_head(
    config: EncoderConfig, tree: Mapping[str, object], tensors: Mapping[str, Tensor], where: str
) -> HeadConfig:
    """Of two styles that are one head the released one is named."""
    outputs = TUNED_OUTPUTS & tensors.keys()
    if has_verdicts(tree, tensors) or not outputs:
        raise InputError(
            f"{where}: is not tuned for a task (it has the head of pre-training, or none); "
            f"run 'electra finetune {where}' and give its result"
        )
    if config.is_causal and config.is_modern:
        raise InputError(f"{where}: is a decoder tuned with transformers, which cannot be read; give what it began as")

    # The shape: by the tensors where they differ; else by what config.json says: our mark, or the class of theirs.
    file = AnyFile.model_validate(tree)
    is_marked = isinstance(file.mark, dict)
    mark = validate(HeadMark, file.mark, where) if is_marked else HeadMark()
    classes = file.architectures
    told: object
    shapes: dict[str, HeadShape]
    if OWN_OUTPUT in tensors:
        told = (mark.shape or mark.task) if is_marked else None
        shapes = {name: shape for shape, kind in KIND_OF_SHAPE.items() for name in (kind, shape)}
        shapes["regress"] = "row"
    elif config.is_modern:
        told = classes[0] if isinstance(classes, list) and classes else None
        shapes = {f"ModernBert{name}": shape for shape, name in _CLASS.items()}
    else:
        told = min(outputs)
        shapes = {"classifier.out_proj.weight": "row", "classifier.weight": "token", "qa_outputs.weight": "span"}
    if str(told) not in shapes:
        raise InputError(f"{where}: config.json does not say what its head is for (got {quote(told)}); restore it")
    shape = shapes[str(told)]

    count, is_pooled = tensors[min(outputs)].shape[:1].numel(), shape == "row"
    kind = KIND_OF_SHAPE[shape]
    if is_pooled:
        problem = "regression" if count == 1 else "single_label_classification"
        require(tree, where, {"problem_type": (None, problem), "classifier_pooling": ("cls", "mean")})
        kind = "regress" if count == 1 else "classify"
    if mark.shape == shape:
        kind = mark.task
    labels: tuple[str, ...] = ()
    if shape == "token" or (is_pooled and count > 1):
        keys = [str(index) for index in range(count)]
        names = file.id2label or {key: f"LABEL_{key}" for key in keys}
        if not isinstance(names, dict) or names.keys() != set(keys):
            raise InputError(
                f"{where}: id2label in config.json does not name the {count} outputs of its head; correct it"
            )
        labels = tuple(str(names[key]) for key in keys)
    is_deep = "head.dense.weight" in tensors if OWN_OUTPUT in tensors else config.is_modern or is_pooled
    dropout = file.classifier_dropout
    if dropout is None:
        dropout = 0.0 if config.is_modern else config.dropout
    head = {
        "kind": kind,
        "shape": shape,
        "labels": labels,
        "style": "huggingface" if is_deep else "released",
        "has_answerability": shape == "span" and "head.answerable.weight" in tensors,
        "dropout": dropout,
        "pooling": "mean" if is_pooled and file.classifier_pooling == "mean" else "first",
    }
    return validate(HeadConfig, head, where)
