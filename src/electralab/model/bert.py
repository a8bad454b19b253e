"""Hugging Face's BERT in the words of their ELECTRA, whose encoder and guessing head are the same networks.

config.json, tensors of BERT -> config.json, tensors of ELECTRA
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from electralab.config import SettingsTree

MODEL_TYPE = "bert"
_GUESSES = "cls.predictions."
_NAMES = {
    "transform.dense.": "generator_predictions.dense.",
    "transform.LayerNorm.": "generator_predictions.LayerNorm.",
    "decoder.weight": "generator_lm_head.weight",
    "decoder.bias": "generator_lm_head.bias",
    "bias": "generator_lm_head.bias",
}
# What says whether two sentences follow each other, of which ELECTRA has nothing.
_LEFT_OUT = ("bert.pooler.", "pooler.", "cls.seq_relationship.")
# What the oldest files call the parts of a norm.
_OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


V = TypeVar("V")


def is_bert(tree: Mapping[str, Any]) -> bool:
    return tree.get("model_type") == MODEL_TYPE


def translate_config(tree: Mapping[str, Any]) -> SettingsTree:
    """The sizes that BERT has by itself are written out: ELECTRA's are others."""
    sizes: SettingsTree = {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    }
    described = {**sizes, **tree, "model_type": "electra"}
    described["embedding_size"] = described["hidden_size"]
    return described


def translate_names(tensors: Mapping[str, V]) -> dict[str, V]:
    """Of tensors, or of their shapes."""
    return {_translate(name): tensor for name, tensor in tensors.items() if not name.startswith(_LEFT_OUT)}


def _translate(name: str) -> str:
    for old, new in _OLD.items():
        name = name.replace(old, new)
    if name.startswith(_GUESSES):
        inner = name.removeprefix(_GUESSES)
        return next((new + inner.removeprefix(old) for old, new in _NAMES.items() if inner.startswith(old)), name)
    return "electra." + name.removeprefix("bert.") if name.startswith("bert.") else name
