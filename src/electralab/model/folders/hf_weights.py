"""Our weights in Hugging Face's words, and back: network <-> named tensors.

What their classes cannot say is merged on the way out: the two parts of a disentangled table become one, as do, on
`modern`, the token table and its projection; layers that share their weights become copies; and a discriminator's logit
becomes two classes, original with the score 0 and replaced with ours, so that their softmax is the sigmoid of it.

A logit for answerability goes along as two more tensors, which theirs leave aside.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from electralab.errors import InputError, shorten
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import Encoder, merge_tables
from electralab.model.folders import hf_config
from electralab.model.folders.hf_config import ConfigTree, HeadKind, is_two_classes
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import HeadConfig, TaskHead, TaskModel

Shape = tuple[int, ...]
# Our name -> theirs; several names where our matrix is theirs, stacked.
Names = dict[str, tuple[str, ...]]

M = TypeVar("M", bound=nn.Module)
V = TypeVar("V")

PREFIX = {"electra": "electra.", "modern": "model."}
_ELECTRA_LAYER = {
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}
_ELECTRA_EMBEDDINGS = {
    "tokens.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "segments.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
}
_MODERN_LAYER = {
    "attention.qkv": "attn.Wqkv",
    "attention.output": "attn.Wo",
    "attention_norm": "attn_norm",
    "feedforward.up": "mlp.Wi",
    "feedforward.down": "mlp.Wo",
    "feedforward_norm": "mlp_norm",
}
_DECODER_QKV = ("attn.q_proj", "attn.k_proj", "attn.v_proj")
_DECODER_HEAD = {"dense.weight": "lm_head.dense.weight", "norm.weight": "lm_head.norm.weight", "bias": "decoder.bias"}
_HEADS: dict[tuple[str, HeadKind], dict[str, str]] = {
    ("electra", "mlm"): {
        "dense.weight": "generator_predictions.dense.weight",
        "dense.bias": "generator_predictions.dense.bias",
        "norm.weight": "generator_predictions.LayerNorm.weight",
        "norm.bias": "generator_predictions.LayerNorm.bias",
        "bias": "generator_lm_head.bias",
    },
    ("electra", "rtd"): {
        "dense.weight": "discriminator_predictions.dense.weight",
        "dense.bias": "discriminator_predictions.dense.bias",
        "verdict.weight": "discriminator_predictions.dense_prediction.weight",
        "verdict.bias": "discriminator_predictions.dense_prediction.bias",
    },
    ("electra", "linear rtd"): {"verdict.weight": "classifier.weight", "verdict.bias": "classifier.bias"},
    ("modern", "mlm"): {"dense.weight": "head.dense.weight", "norm.weight": "head.norm.weight", "bias": "decoder.bias"},
    ("modern", "rtd"): {
        "dense.weight": "head.dense.weight",
        "norm.weight": "head.norm.weight",
        "verdict.weight": "classifier.weight",
        "verdict.bias": "classifier.bias",
    },
}
# By these tensors a file is known as one of a network that predicts or classifies tokens.
_PRETRAINING_OUTPUTS = frozenset(
    {"generator_predictions.dense.weight", "decoder.bias", "discriminator_predictions.dense.weight"}
)
# Copies of what is already there under another name, or counters that older versions saved.
_REDUNDANT = ("generator_lm_head.weight", "decoder.weight", "embeddings.position_ids", "embeddings.token_type_ids")
_RTD_OUTPUT = ("head.verdict.weight", "head.verdict.bias")
_TASK_DENSE = ("head.dense.weight", "head.dense.bias")
_TASK_OUTPUT = ("head.output.weight", "head.output.bias")


# --------------------------------------------------------------------------------------------------- names and tensors


def _encoder_names(config: EncoderConfig) -> Names:
    names: Names = {}
    if config.is_modern:
        names["embeddings.tokens.weight"] = ("embeddings.tok_embeddings.weight",)
        names["embeddings.norm.weight"] = ("embeddings.norm.weight",)
        names["final_norm.weight"] = ("final_norm.weight",)
        for index in range(config.num_layers):
            for ours, theirs in _MODERN_LAYER.items():
                if index or ours != "attention_norm":
                    parts = _DECODER_QKV if config.is_causal and ours == "attention.qkv" else (theirs,)
                    names[f"layers.{index}.{ours}.weight"] = tuple(f"layers.{index}.{part}.weight" for part in parts)
        return names
    names.update({f"embeddings.{ours}": (theirs,) for ours, theirs in _ELECTRA_EMBEDDINGS.items()})
    for part in ("weight", "bias"):
        if config.embedding_size != config.hidden_size:
            names[f"embeddings.projection.{part}"] = (f"embeddings_project.{part}",)
        for index in range(config.num_layers):
            ours, theirs = f"layers.{index}", f"encoder.layer.{index}"
            queries_keys_values = (f"{theirs}.attention.self.{name}.{part}" for name in ("query", "key", "value"))
            names[f"{ours}.attention.qkv.{part}"] = tuple(queries_keys_values)
            for inner, outer in _ELECTRA_LAYER.items():
                names[f"{ours}.{inner}.{part}"] = (f"{theirs}.{outer}.{part}",)
    return names


def _network_names(config: EncoderConfig, head: Mapping[str, str], prefix: str) -> Names:
    """What an encoder and a head are called outside."""
    encoder = {f"encoder.{ours}": tuple(prefix + n for n in theirs) for ours, theirs in _encoder_names(config).items()}
    return encoder | {f"head.{ours}": (theirs,) for ours, theirs in head.items()}


def _pretraining_head(config: EncoderConfig, kind: HeadKind) -> dict[str, str]:
    is_decoder = config.is_modern and config.is_causal and kind == "mlm"
    return _DECODER_HEAD if is_decoder else _HEADS[config.backbone, kind]


def _task_head(config: EncoderConfig, head: HeadConfig, ours: Iterable[str], *, has_class: bool) -> dict[str, str]:
    theirs = {"dense": "head.dense", "norm": "head.norm", "output": "classifier", "answerable": "head.answerable"}
    if not has_class:
        theirs["output"] = "head.output"
    elif not config.is_modern and head.is_pooled:
        theirs |= {"dense": "classifier.dense", "output": "classifier.out_proj"}
    elif not config.is_modern and head.shape == "span":
        theirs["output"] = "qa_outputs"
    return {name: f"{theirs[module]}.{part}" for name in ours for module, part in [name.split(".")]}


def _find_prefix(config: EncoderConfig, tensors: Mapping[str, object]) -> str:
    """Their encoder saved alone has no prefix."""
    prefix = PREFIX[config.backbone]
    return prefix if any(name.startswith(prefix) for name in tensors) else ""


def gather(names: Names, tensors: Mapping[str, Tensor], prefix: str, where: str) -> dict[str, Tensor]:
    """Our name -> tensor. All that the names want must be there, and no more than that in the encoder: a tensor that
    we would leave out means that it is not the encoder we would build."""
    known = {name for theirs in names.values() for name in theirs}
    missing = sorted(known - tensors.keys())
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"{where}: lacks the tensor {missing[0]}{more}; the weights do not belong to config.json")
    for name in tensors.keys() - known if prefix else ():
        if name.startswith(prefix) and not name.endswith(_REDUNDANT):
            raise InputError(
                f"{where}: holds the tensor {shorten(name)}, which this architecture lacks; cannot be read"
            )
    gathered = {ours: [tensors[name] for name in theirs] for ours, theirs in names.items()}
    # One alone as it is: a wrong one may have no dimension to stack along.
    return {ours: torch.cat(parts) if len(parts) > 1 else parts[0] for ours, parts in gathered.items()}


def fill(build: Callable[[], M], weights: Mapping[str, Tensor], where: str) -> M:
    """Build a module and copy the weights into its storage: a mapped file's alignment can change the bits of a matmul.

    Shapes are compared on a module without storage first, because a wrong config.json may ask for any amount of it.
    """
    with torch.device("meta"):
        blueprint = dict(build().named_parameters(remove_duplicate=False))
    assert blueprint.keys() == weights.keys(), f"no weights for {blueprint.keys() ^ weights.keys()}"
    for name, parameter in blueprint.items():
        if parameter.shape != weights[name].shape:
            raise InputError(
                f"{where}: {name} has the shape {tuple(weights[name].shape)} where config.json says "
                f"{tuple(parameter.shape)}; the weights do not belong to it"
            )
    module = build()
    with torch.no_grad():
        for name, parameter in module.named_parameters(remove_duplicate=False):
            parameter.copy_(weights[name])
    return module


# ----------------------------------------------------------------------------------------------------------------- out


def export_weights(network: nn.Module) -> dict[str, Tensor]:
    """Their names -> tensors, each in storage of its own."""
    assert isinstance(network, Generator | Discriminator | TaskModel)
    config, encoder = network.config, network.encoder
    named = network.named_parameters(remove_duplicate=False)  # theirs has a copy where our layers share
    weights = merge_tables(network, {name: parameter.detach() for name, parameter in named})
    projection = encoder.embeddings.projection
    if config.is_modern and projection is not None:  # theirs has one table in their place
        del weights["encoder.embeddings.projection.weight"]
        weights["encoder.embeddings.tokens.weight"] = projection(encoder.embeddings.tokens.weight).detach()
    if isinstance(network, TaskModel):
        weight, bias = _TASK_OUTPUT
        weights[weight] = weights[weight] * network.head.unit
        weights[bias] = weights[bias] * network.head.unit + network.head.origin
        has_class = bool(hf_config.task_class_name(network))
        if has_class and network.head_config.is_pooled and network.head.dense is None:
            weights |= _fold(weights, config.hidden_size)
        ours = [name.removeprefix("head.") for name in weights if name.startswith("head.")]
        head = _task_head(config, network.head_config, ours, has_class=has_class)
    else:
        kind = hf_config.head_kind(network)
        for name in _RTD_OUTPUT if is_two_classes(config, kind) else ():
            weights[name] = torch.cat([torch.zeros_like(weights[name]), weights[name]])
        head = _pretraining_head(config, kind)
    names = _network_names(config, head, PREFIX[config.backbone])
    assert names.keys() == weights.keys(), f"no name outside for {names.keys() ^ weights.keys()}"
    tensors: dict[str, Tensor] = {}
    for name, theirs in names.items():
        for their_name, part in zip(theirs, weights[name].chunk(len(theirs)), strict=True):
            tensors[their_name] = part.clone(memory_format=torch.contiguous_format)
    return tensors


def _fold(linear: Mapping[str, Tensor], hidden_size: int) -> dict[str, Tensor]:
    """dense -> gelu -> output that is the linear map: gelu(z) - gelu(-z) = z."""
    weight, bias = (linear[name] for name in _TASK_OUTPUT)  # (L, D), (L,)
    count = len(weight)
    idle = hidden_size - 2 * count
    signs = torch.eye(count, dtype=weight.dtype)
    return {
        "head.dense.weight": torch.cat([weight, -weight, weight.new_zeros(idle, hidden_size)]),  # (D, D)
        "head.dense.bias": torch.cat([bias, -bias, bias.new_zeros(idle)]),
        "head.output.weight": torch.cat([signs, -signs, signs.new_zeros(count, idle)], dim=1),  # (L, D)
        "head.output.bias": torch.zeros_like(bias),
    }


# ------------------------------------------------------------------------------------------------------------------ in


def require_sizes(tree: Mapping[str, object], shapes: Mapping[str, Shape], where: str) -> None:
    """The sizes in config.json are those of the weights, as far as the header of their file shows without reading them.

    A tensor that is missing, and the shape of a head, is named when the weights are read.
    """
    config = _read_encoder_config(tree, shapes, where)
    prefix = _find_prefix(config, shapes)
    with torch.device("meta"):
        blueprint = dict(Encoder(config).named_parameters(remove_duplicate=False))
    for ours, theirs in _encoder_names(config).items():
        first, *others = blueprint[ours].shape
        shape = (first // len(theirs), *others)
        for name in theirs:
            actual = shapes.get(prefix + name, shape)
            if actual != shape:
                raise InputError(
                    f"{where}: {prefix}{name} has the shape {actual} where config.json says {shape}; "
                    "the weights do not belong to it"
                )


def _read_encoder_config(tree: Mapping[str, object], tensors: Mapping[str, object], where: str) -> EncoderConfig:
    config = hf_config.import_config(tree, where)
    if config.num_layers > len(tensors):
        raise InputError(f"{where}: config.json says {config.num_layers} layers, but the weights are fewer")
    if not config.share_layers:
        return config
    # Whoever trains shared layers further with `transformers` trains each on its own, and leaves config.json as it was.
    # So each layer is compared with the first that has such a part; a missing tensor is named later.
    prefix, firsts = _find_prefix(config, tensors), dict[str, tuple[str, ...]]()
    for ours, theirs in _encoder_names(config).items():
        if ours.startswith("layers."):
            first = firsts.setdefault(ours.split(".", 2)[2], theirs)
            for names in zip(first, theirs, strict=True):
                pair = [tensors.get(prefix + name) for name in names]
                weights = [weight for weight in pair if isinstance(weight, Tensor)]
                if len(weights) == 2 and not (
                    weights[0].dtype == weights[1].dtype and torch.equal(weights[0], weights[1])
                ):
                    return config.model_copy(update={"share_layers": False})
    return config


def import_encoder(tree: Mapping[str, object], tensors: Mapping[str, Tensor], where: str) -> Encoder:
    """The encoder alone, whatever head the tensors have."""
    config = _read_encoder_config(tree, tensors, where)
    prefix = _find_prefix(config, tensors)
    names = {ours: tuple(prefix + name for name in theirs) for ours, theirs in _encoder_names(config).items()}
    return fill(lambda: Encoder(config), gather(names, tensors, prefix, where), where)


def import_network(tree: Mapping[str, object], tensors: Mapping[str, Tensor], where: str) -> Generator | Discriminator:
    """A network with the head its tensors have; `where` begins every error."""
    config = _read_encoder_config(tree, tensors, where)
    # By the tensors, because a config may name another class, or none.
    kind: HeadKind
    if "generator_predictions.dense.weight" in tensors or "decoder.bias" in tensors:
        kind = "mlm"
    elif "discriminator_predictions.dense.weight" in tensors:
        kind = "rtd"
    elif hf_config.has_verdicts(tree, tensors):
        kind = "rtd" if config.is_modern else "linear rtd"
    elif not hf_config.TUNED_OUTPUTS.isdisjoint(tensors):
        labels = hf_config.AnyFile.model_validate(tree).id2label
        names = list(labels.values()) if isinstance(labels, dict) else ["unnamed"]
        shown = ", ".join(shorten(str(name)) for name in names[:3]) + (", …" if len(names) > 3 else "")
        raise InputError(
            f"{where}: is a tuned model (its classes are {shown}, not original and replaced); give a pre-trained one"
        )
    else:
        raise InputError(
            f"{where}: holds an encoder without a head that guesses or judges tokens; give a model with its head"
        )

    prefix = _find_prefix(config, tensors)
    network_names = _network_names(config, _pretraining_head(config, kind), prefix)
    table = network_names["encoder.embeddings.tokens.weight"][0]
    for name in ("generator_lm_head.weight", "decoder.weight"):
        if name in tensors and table in tensors and not torch.equal(tensors[name], tensors[table]):
            raise InputError(f"{where}: {name} differs from {table}, but here they are one table; cannot be read")
    weights = gather(network_names, tensors, prefix, where)
    if is_two_classes(config, kind):
        for name in _RTD_OUTPUT:
            weights[name] = weights[name][1:] - weights[name][:1]
    if kind == "mlm":
        return fill(lambda: Generator(config), weights, where)
    return fill(lambda: Discriminator(config, "dense" if kind == "rtd" else "linear"), weights, where)


def import_task_model(tree: Mapping[str, object], tensors: Mapping[str, Tensor], where: str) -> TaskModel:
    """A tuned network with the head its tensors have; `where` begins every error."""
    config = _read_encoder_config(tree, tensors, where)
    head = hf_config.read_task_head(config, tree, tensors, where)
    prefix = _find_prefix(config, tensors)
    with torch.device("meta"):
        ours = [name for name, _ in TaskHead(config, head).named_parameters()]
    has_class = hf_config.OWN_OUTPUT not in tensors
    names = _network_names(config, _task_head(config, head, ours, has_class=has_class), prefix)
    network = fill(lambda: TaskModel(Encoder(config), head), gather(names, tensors, prefix, where), where)

    # Its linear head again, if one was folded into two layers. Told by the values: whoever trains it further with
    # `transformers` changes them and leaves config.json as it was.
    count = head.num_outputs
    weights = {name: weight.detach() for name, weight in network.named_parameters() if name.startswith("head.")}
    if weights.keys() != {*_TASK_DENSE, *_TASK_OUTPUT} or 2 * count > config.hidden_size:
        return network
    linear = {output: weights[dense][:count] for output, dense in zip(_TASK_OUTPUT, _TASK_DENSE, strict=True)}
    if not all(torch.equal(weights[name], part) for name, part in _fold(linear, config.hidden_size).items()):
        return network
    plain = TaskModel(network.encoder, head.model_copy(update={"style": "released"}))
    with torch.no_grad():
        for name in _TASK_OUTPUT:
            plain.get_parameter(name).copy_(linear[name])
    return plain


def has_head(tensors: Mapping[str, object]) -> bool:
    """Whether there is more than an encoder: a head of pre-training or of a task."""
    return not {*hf_config.TUNED_OUTPUTS, *_PRETRAINING_OUTPUTS}.isdisjoint(tensors)


# --------------------------------------------------------------------------------------- BERT, in the words of ELECTRA

_BERT_HEAD = {
    "cls.predictions.transform.dense.": "generator_predictions.dense.",
    "cls.predictions.transform.LayerNorm.": "generator_predictions.LayerNorm.",
    "cls.predictions.decoder.weight": "generator_lm_head.weight",
    "cls.predictions.decoder.bias": "generator_lm_head.bias",
    "cls.predictions.bias": "generator_lm_head.bias",
    "bert.": "electra.",
}
# What says whether two sentences follow each other, of which ELECTRA has nothing.
_LEFT_OUT = ("bert.pooler.", "pooler.", "cls.seq_relationship.")
# The sizes that BERT has by itself are written out: ELECTRA's are others.
_BERT_SIZES = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}


def translate_config(tree: Mapping[str, object]) -> ConfigTree:
    described = {**_BERT_SIZES, **tree, "model_type": "electra"}
    return described | {"embedding_size": described["hidden_size"]}


def translate_names(tensors: Mapping[str, V]) -> dict[str, V]:
    """Of tensors, or of their shapes."""
    translated = {}
    for name, tensor in tensors.items():
        if name.startswith(_LEFT_OUT):
            continue
        # The oldest files call the parts of a norm gamma and beta.
        new = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        old = next((prefix for prefix in _BERT_HEAD if new.startswith(prefix)), "")
        translated[_BERT_HEAD[old] + new.removeprefix(old) if old else new] = tensor
    return translated
