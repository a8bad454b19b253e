"""A tuned network in Hugging Face's words, and back: TaskModel <-> config.json and named tensors.

The classes of `transformers` that give the same logits:

    electra, classify or regress   ElectraForSequenceClassification; a plain linear head is folded into its two layers
    electra, label or qa           ElectraForTokenClassification, ElectraForQuestionAnswering; both styles are one head
    modern, huggingface            ModernBertFor{SequenceClassification, TokenClassification, QuestionAnswering};
                                   the first with mean pooling too
    modern, released               none: a norm stands in the way
    electra, mean pooling          none
    causal                         none that answers from the last token with such a head

Where none fits, the head keeps our names, no class is named, and the model_type begins with "electralab-": Auto classes
refuse it. A class of theirs asked for by name warns of that type and of a head it had to draw anew.

A logit for answerability goes along as two more tensors, which theirs leave aside.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from electralab.config import SettingsTree
from electralab.errors import InputError, quote
from electralab.model.encoder import Encoder, EncoderConfig
from electralab.model.folders.hf_config import MARK, OURS, describe, export_encoder_config, export_labels, require
from electralab.model.folders.hf_weights import (
    PREFIX,
    TUNED_OUTPUTS,
    collect_weights,
    fill,
    find_prefix,
    gather,
    has_verdicts,
    name_network,
    read_encoder_config,
    rename_weights,
)
from electralab.model.folders.native_format import has_plain_encoder
from electralab.model.task_model import HeadConfig, HeadShape, TaskHead, TaskModel

_FAMILY = {"electra": "Electra", "modern": "ModernBert"}
_CLASS: dict[HeadShape, str] = {
    "row": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}
# What a folder that does not say more is for.
_KINDS: dict[HeadShape, str] = {"row": "classify", "token": "label", "span": "qa"}
# In a file: a head that no class of theirs has.
_OWN_OUTPUT = "head.output.weight"
# In the network.
_DENSE = ("head.dense.weight", "head.dense.bias")
_OUTPUT = ("head.output.weight", "head.output.bias")


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


def export_task_weights(network: TaskModel) -> dict[str, Tensor]:
    """Their names -> tensors, each in storage of its own."""
    config = network.config
    weights = collect_weights(network, network.encoder)
    weight, bias = _OUTPUT
    weights[weight] = weights[weight] * network.head.unit
    weights[bias] = weights[bias] * network.head.unit + network.head.origin
    has_class = bool(task_class_name(network))
    if has_class and network.head_config.is_pooled and network.head.dense is None:
        weights |= _fold(weights, config.hidden_size)
    ours = [name.removeprefix("head.") for name in weights if name.startswith("head.")]
    head = _name_head(config, network.head_config, ours, has_class=has_class)
    return rename_weights(name_network(config, head, PREFIX[config.backbone]), weights)


def _name_head(config: EncoderConfig, head: HeadConfig, ours: Iterable[str], *, has_class: bool) -> dict[str, str]:
    """Our names below the head -> theirs."""
    theirs = {"dense": "head.dense", "norm": "head.norm", "output": "classifier", "answerable": "head.answerable"}
    if not has_class:
        theirs["output"] = "head.output"
    elif not config.is_modern and head.is_pooled:
        theirs |= {"dense": "classifier.dense", "output": "classifier.out_proj"}
    elif not config.is_modern and head.shape == "span":
        theirs["output"] = "qa_outputs"
    return {name: f"{theirs[module]}.{part}" for name in ours for module, part in [name.split(".")]}


def _fold(linear: Mapping[str, Tensor], hidden_size: int) -> dict[str, Tensor]:
    """dense -> gelu -> output that is the linear map: gelu(z) - gelu(-z) = z."""
    weight, bias = (linear[name] for name in _OUTPUT)  # (L, D), (L,)
    count = len(weight)
    idle = hidden_size - 2 * count
    signs = torch.eye(count, dtype=weight.dtype)
    return {
        "head.dense.weight": torch.cat([weight, -weight, weight.new_zeros(idle, hidden_size)]),  # (D, D)
        "head.dense.bias": torch.cat([bias, -bias, bias.new_zeros(idle)]),
        "head.output.weight": torch.cat([signs, -signs, signs.new_zeros(count, idle)], dim=1),  # (L, D)
        "head.output.bias": torch.zeros_like(bias),
    }


def _unfold(network: TaskModel) -> TaskModel:
    """With its linear head again, if one was folded into two layers.

    Told by the values: whoever trains it further with `transformers` changes them and leaves config.json as it was.
    """
    count, hidden_size = network.head_config.num_outputs, network.config.hidden_size
    weights = {name: weight.detach() for name, weight in network.named_parameters() if name.startswith("head.")}
    if weights.keys() != {*_DENSE, *_OUTPUT} or 2 * count > hidden_size:
        return network
    linear = {output: weights[dense][:count] for output, dense in zip(_OUTPUT, _DENSE, strict=True)}
    if not all(torch.equal(weights[name], part) for name, part in _fold(linear, hidden_size).items()):
        return network
    plain = TaskModel(network.encoder, network.head_config.model_copy(update={"style": "released"}))
    with torch.no_grad():
        for name in _OUTPUT:
            plain.get_parameter(name).copy_(linear[name])
    return plain


def import_task_model(tree: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> TaskModel:
    """A tuned network with the head its tensors have; `where` begins every error."""
    config = read_encoder_config(tree, tensors, where)
    head = _read_head(config, tree, tensors, where)
    prefix = find_prefix(config, tensors)
    with torch.device("meta"):
        ours = [name for name, _ in TaskHead(config, head).named_parameters()]
    names = name_network(config, _name_head(config, head, ours, has_class=_OWN_OUTPUT not in tensors), prefix)
    weights = gather(names, tensors, prefix, where)
    return _unfold(fill(lambda: TaskModel(Encoder(config), head), weights, where))


def _read_head(config: EncoderConfig, tree: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> HeadConfig:
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
    has_own_names = _OWN_OUTPUT in tensors
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
    if _OWN_OUTPUT in tensors:
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
