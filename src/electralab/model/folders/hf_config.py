"""config.json in Hugging Face's words, checked as a whole before anything is built from it: JSON -> typed settings.

A folder from elsewhere may say anything. Types are taken strictly, and sizes have bounds, so that no loop and no
tensor is larger than a network can be; whether they are those of the weights is checked against the weights' header.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeGuard, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from electralab.config import SettingsTree
from electralab.errors import InputError, quote
from electralab.model.electra import Discriminator, Generator
from electralab.model.settings import MAX_LAYERS, MAX_POSITIONS, MAX_SIZE, EncoderConfig
from electralab.model.task_model import HeadConfig, HeadShape, TaskModel

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


HeadKind = Literal["guesses", "verdicts", "plain verdicts"]
LABELS = {"0": "original", "1": "replaced"}

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

_DECODER = "modernbert-decoder"
_MODEL_TYPE = {"electra": "electra", "modern": "modernbert"}
_CAUSAL_CLASS_NAME = {"electra": "ElectraForCausalLM", "modern": "ModernBertDecoderForCausalLM"}
_CLASS_NAME: dict[tuple[str, HeadKind], str] = {
    ("electra", "guesses"): "ElectraForMaskedLM",
    ("electra", "verdicts"): "ElectraForPreTraining",
    ("electra", "plain verdicts"): "ElectraForTokenClassification",
    ("modern", "guesses"): "ModernBertForMaskedLM",
    ("modern", "verdicts"): "ModernBertForTokenClassification",
}


def head_kind(network: Generator | Discriminator) -> HeadKind:
    if isinstance(network, Generator):
        return "guesses"
    return "verdicts" if network.head.dense is not None else "plain verdicts"


def class_name(network: Generator | Discriminator) -> str:
    """The class of `transformers` that loads the network with its head."""
    backbone, kind = network.config.backbone, head_kind(network)
    is_speaking = network.config.is_causal and kind == "guesses"
    return _CAUSAL_CLASS_NAME[backbone] if is_speaking else _CLASS_NAME[backbone, kind]


def is_two_classes(config: EncoderConfig, kind: HeadKind) -> bool:
    return kind == "plain verdicts" or (kind == "verdicts" and config.is_modern)


def export_config(
    network: Generator | Discriminator, *, pad_id: int, cls_id: int | None = None, sep_id: int | None = None
) -> SettingsTree:
    tree: SettingsTree = {"architectures": [class_name(network)]}
    tree |= export_encoder_config(network.config, pad_id=pad_id, cls_id=cls_id, sep_id=sep_id)
    return tree | export_labels(LABELS.values()) if is_two_classes(network.config, head_kind(network)) else tree


def export_labels(labels: Iterable[str]) -> SettingsTree:
    names = dict(enumerate(labels))
    return {
        "id2label": {str(index): name for index, name in names.items()},
        "label2id": {name: index for index, name in names.items()},
    }


def export_encoder_config(
    config: EncoderConfig, *, pad_id: int, cls_id: int | None = None, sep_id: int | None = None
) -> SettingsTree:
    tree: SettingsTree = {
        "model_type": _MODEL_TYPE[config.backbone],
        "dtype": "float32",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.feedforward_size,
        "max_position_embeddings": config.sequence_length,
        "initializer_range": config.init_std,
        "pad_token_id": pad_id,
        "tie_word_embeddings": True,
    }
    if config.share_layers:
        tree[SHARED_LAYERS] = True
    if config.is_modern:
        return tree | _modern_tree(config, cls_id, sep_id)
    if config.is_causal:
        tree |= {"is_decoder": True, "bos_token_id": cls_id, "eos_token_id": sep_id}
    return tree | {
        "embedding_size": config.embedding_size,
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout": config.dropout,
        "type_vocab_size": config.num_segments,
        "layer_norm_eps": config.norm_eps,
    }


def _modern_tree(config: EncoderConfig, cls_id: int | None, sep_id: int | None) -> SettingsTree:
    kinds = ("full_attention", "sliding_attention")
    special: SettingsTree = {
        "cls_token_id": cls_id,
        "sep_token_id": sep_id,
        "bos_token_id": cls_id,
        "eos_token_id": sep_id,
    }
    if config.is_causal:  # their decoder takes no null for them
        special = {"model_type": _DECODER} | {name: index for name, index in special.items() if index is not None}
    return {
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "norm_eps": config.norm_eps,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
        "embedding_dropout": config.dropout,
        "mlp_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "classifier_dropout": 0.0,
        "layer_types": [kinds[config.is_local(index)] for index in range(config.num_layers)],
        # Theirs needs some window even where no layer is local.
        "local_attention": config.local_attention or 128,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": config.global_rope_theta},
            "sliding_attention": {"rope_type": "default", "rope_theta": config.local_rope_theta},
        },
        **special,
    }


def import_config(tree: Mapping[str, Any], where: str) -> EncoderConfig:
    """Their config.json -> ours; a variant that we do not build is refused by the name of the setting."""
    match str(tree.get("model_type")).removeprefix(OURS):
        case "electra":
            fields = _electra_fields(tree, where)
        case "modernbert":
            fields = _modern_fields(tree, where)
        case "modernbert-decoder":
            fields = _modern_fields(tree, where) | {"is_causal": True}
        case _:
            other, known = quote(tree.get("model_type")), f"'electra', 'modernbert' and '{_DECODER}'"
            raise InputError(f"{where}: model_type is {other}; models of type {known} can be read")
    try:
        return EncoderConfig(**fields)
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error)}; this model cannot be built") from None


def require(tree: Mapping[str, Any], where: str, **allowed: tuple[Any, ...]) -> None:
    """Each named setting is absent or has one of the values that our architecture is."""
    for name, values in allowed.items():
        if name in tree and tree[name] not in values:
            raise InputError(
                f"{where}: {name} is {quote(tree[name])}, but only {' or '.join(map(repr, values))} is supported; "
                "this variant of the architecture cannot be read"
            )


def _electra_fields(tree: Mapping[str, Any], where: str) -> SettingsTree:
    # "gelu_python" is the same erf-gelu; the tanh approximations differ by 1e-3 and are refused, not approximated.
    require(
        tree,
        where,
        hidden_act=("gelu", "gelu_python"),
        position_embedding_type=("absolute",),
        is_decoder=(False, True),
        add_cross_attention=(False,),
        tie_word_embeddings=(True,),
    )
    file = read_config_file(ElectraFile, tree, where)
    return {
        "backbone": "electra",
        "vocab_size": file.vocab_size,
        "sequence_length": file.max_position_embeddings,
        "embedding_size": file.embedding_size,
        "hidden_size": file.hidden_size,
        "num_layers": file.num_hidden_layers,
        "num_heads": file.num_attention_heads,
        "feedforward_size": file.intermediate_size,
        "dropout": file.hidden_dropout_prob,
        "attention_dropout": file.attention_probs_dropout_prob,
        "norm_eps": file.layer_norm_eps,
        "init_std": file.initializer_range,
        "num_segments": file.type_vocab_size,
        "is_causal": file.is_decoder,
        "share_layers": file.share_layers,
    }


def _modern_fields(tree: Mapping[str, Any], where: str) -> SettingsTree:
    require(
        tree,
        where,
        hidden_activation=("gelu",),
        classifier_activation=("gelu",),
        norm_bias=(False,),
        attention_bias=(False,),
        mlp_bias=(False,),
        classifier_bias=(False,),
        decoder_bias=(True,),
        tie_word_embeddings=(True,),
    )
    file = read_config_file(ModernBertFile, tree, where)
    global_every = _find_global_every(file, where)
    global_theta, local_theta = _read_thetas(file, where)
    return {
        "backbone": "modern",
        "vocab_size": file.vocab_size,
        "sequence_length": file.max_position_embeddings,
        "embedding_size": file.hidden_size,
        "hidden_size": file.hidden_size,
        "num_layers": file.num_hidden_layers,
        "num_heads": file.num_attention_heads,
        "feedforward_size": file.intermediate_size,
        "dropout": file.mlp_dropout,
        "attention_dropout": file.attention_dropout,
        "norm_eps": file.norm_eps,
        "init_std": file.initializer_range,
        "local_attention": 0 if global_every == 1 else file.local_attention,
        "global_every": global_every,
        "global_rope_theta": global_theta,
        "local_rope_theta": local_theta,
        "share_layers": file.share_layers,
    }


def _find_global_every(file: ModernBertFile, where: str) -> int:
    kinds = file.layer_types
    if kinds is None:
        return file.global_attn_every_n_layers
    full, sliding = "full_attention", "sliding_attention"
    every = kinds.index(full, 1) if full in kinds[1:] else max(1, len(kinds))
    if kinds != [sliding if index % every else full for index in range(file.num_hidden_layers)]:
        raise InputError(f"{where}: layer_types is not {full!r} in every n-th layer from the first; cannot be read")
    return every


def _read_thetas(file: ModernBertFile, where: str) -> tuple[float, float]:
    """The bases of rotary positions in global and in local layers."""
    by_layer = file.rope_parameters or RopeByLayerType()
    full, sliding = by_layer.full_attention or RopeParameters(), by_layer.sliding_attention or RopeParameters()
    for parameters in (full, sliding):
        if parameters.rope_type != "default" or file.rope_scaling:
            other = quote(file.rope_scaling or parameters.rope_type)
            raise InputError(f"{where}: rotary positions of type {other} cannot be read, only 'default'")
    return full.rope_theta or file.global_rope_theta, sliding.rope_theta or file.local_rope_theta


def is_expressible(network: nn.Module) -> TypeGuard[Generator | Discriminator]:
    """Whether a class of `transformers` gives the same logits as this pre-trained network."""
    if isinstance(network, Discriminator) and network.head.adds_cls:
        return False
    if isinstance(network, Generator) and network.config.own_head_projection:
        return False
    return type(network) in (Generator, Discriminator) and has_plain_encoder(network)


def has_plain_encoder(network: nn.Module) -> bool:
    """Whether the classes of `transformers` have the network's encoder; a causal one only below a head that guesses."""
    config = network.config
    if isinstance(config, EncoderConfig) and config.is_causal and not isinstance(network, Generator):
        return False
    return isinstance(config, EncoderConfig) and not (
        config.discrepancy_attention
        or config.adaptive_norm
        or config.qk_norm
        or config.shapes
        or config.is_gated != config.is_modern
    )


# By these a model tuned for a task is known.
TUNED_OUTPUTS = frozenset(
    {"classifier.weight", "classifier.out_proj.weight", "qa_outputs.weight", "head.output.weight"}
)


def has_verdicts(tree: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    """A discriminator in the shape of a tagger; one tuned here to find tokens so named says what it was tuned for."""
    return "classifier.weight" in tensors and tree.get("id2label") == LABELS and MARK not in tree


_FAMILY = {"electra": "Electra", "modern": "ModernBert"}


_CLASS: dict[HeadShape, str] = {
    "row": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}


# What a folder that does not say more is for.
_KINDS: dict[HeadShape, str] = {"row": "classify", "token": "label", "span": "qa"}


# In a file: a head that no class of theirs has.
OWN_OUTPUT = "head.output.weight"


def task_class_name(network: TaskModel) -> str:
    """The class of `transformers` with the same logits; "" where there is none."""
    config, head = network.config, network.head_config
    if not has_plain_encoder(network) or head.pooling == "last":
        return ""
    if head.pooling == "mean" and not config.is_modern:
        return ""
    can_fold = 2 * head.num_outputs <= config.hidden_size
    is_plain_fine = not config.is_modern and (can_fold or not head.is_pooled)
    return _FAMILY[config.backbone] + _CLASS[head.shape] if is_plain_fine or network.head.dense is not None else ""


def export_task_config(network: TaskModel, *, pad_id: int, cls_id: int, sep_id: int) -> SettingsTree:
    head, name = network.head_config, task_class_name(network)
    tree = export_encoder_config(network.config, pad_id=pad_id, cls_id=cls_id, sep_id=sep_id)
    tree["classifier_dropout"] = head.dropout
    if name:
        tree = {"architectures": [name]} | tree
    else:
        tree["model_type"] = OURS + tree["model_type"]
    if head.shape != "span":
        tree |= export_labels(head.labels or ["LABEL_0"])
    # The four kinds are told by the head itself; another is named with the shape of its head.
    is_told = head.kind in ("regress", *_KINDS.values())
    if head.is_pooled and is_told:
        tree["problem_type"] = "single_label_classification" if head.labels else "regression"
    if head.pooling == "mean":
        tree["classifier_pooling"] = "mean"
    return tree | {MARK: {"task": head.kind} | ({} if is_told else {"shape": head.shape})}


def read_task_head(
    config: EncoderConfig, tree: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str
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
    count = tensors[min(outputs)].shape[:1].numel()
    shape = _find_shape(config, tree, tensors, where)
    kind, mark = _KINDS[shape], tree.get(MARK)
    is_pooled = shape == "row"
    if is_pooled:
        known = (None, "regression") if count == 1 else (None, "single_label_classification")
        require(tree, where, problem_type=known, classifier_pooling=("cls", "mean"))
        kind = "regress" if count == 1 else "classify"
    if isinstance(mark, dict) and mark.get("shape") == shape:
        kind = str(mark.get("task"))
    has_labels = shape == "token" or (is_pooled and count > 1)
    has_own_names = OWN_OUTPUT in tensors
    is_deep = "head.dense.weight" in tensors if has_own_names else config.is_modern or is_pooled
    dropout = tree.get("classifier_dropout")
    if dropout is None:
        dropout = 0.0 if config.is_modern else config.dropout
    try:
        return HeadConfig(
            kind=kind,
            shape=shape,
            labels=_read_labels(tree, count, where) if has_labels else (),
            style="huggingface" if is_deep else "released",
            has_answerability=shape == "span" and "head.answerable.weight" in tensors,
            dropout=dropout,
            pooling="mean" if is_pooled and tree.get("classifier_pooling") == "mean" else "first",
        )
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error)}; this model cannot be built") from None


def _find_shape(config: EncoderConfig, tree: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> HeadShape:
    """By the tensors where they differ; else by what config.json says: our mark, or the class of `transformers`."""
    mark, classes = tree.get(MARK), tree.get("architectures")
    shapes: dict[str, HeadShape]
    if OWN_OUTPUT in tensors:
        told = mark.get("shape", mark.get("task")) if isinstance(mark, dict) else None
        shapes = {"regress": "row"}
        shapes |= {name: shape for shape, kind in _KINDS.items() for name in (kind, shape)}
    elif config.is_modern:
        told = classes[0] if isinstance(classes, list) and classes else None
        shapes = {f"ModernBert{name}": shape for shape, name in _CLASS.items()}
    else:
        told = min(TUNED_OUTPUTS & tensors.keys())
        shapes = {"classifier.out_proj.weight": "row", "classifier.weight": "token", "qa_outputs.weight": "span"}
    if str(told) not in shapes:
        raise InputError(f"{where}: config.json does not say what its head is for (got {quote(told)}); restore it")
    return shapes[str(told)]


def _read_labels(tree: Mapping[str, Any], count: int, where: str) -> tuple[str, ...]:
    keys = [str(index) for index in range(count)]
    names = tree.get("id2label") or {key: f"LABEL_{key}" for key in keys}
    if not isinstance(names, dict) or names.keys() != set(keys):
        raise InputError(f"{where}: id2label in config.json does not name the {count} outputs of its head; mend it")
    return tuple(str(names[key]) for key in keys)
