"""An encoder with the head of one task: (B, T) ids -> logits.

    row     (B, L)      from the first token's state: classes, or a number where L is 1
    token   (B, T, L)   from every token's
    span    SpanLogits  from every token's, whether there is an answer at all from the first's

On a causal encoder, whose first token has seen nothing, the last token before the padding stands for the first. With
mean pooling the mean of all tokens does, [CLS] and [SEP] included, as ModernBERT's `classifier_pooling: mean` has it.

A head of the style `released` is a dropout and one linear map; `huggingface` is whatever the classes of `transformers`
for the same backbone put there.
"""

from typing import Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from electralab.config import Settings
from electralab.model.encoder import Encoder, dense_std, make_norm
from electralab.model.settings import EncoderConfig, Positive, Probability
from electralab.model.weights import init_weights, linear

HeadShape = Literal["row", "token", "span"]
KIND_OF_SHAPE: dict[HeadShape, str] = {"row": "classify", "token": "label", "span": "qa"}
"""The kind of task that a head of this shape is for where its folder does not say more."""
_SHAPES: dict[str, HeadShape] = {"regress": "row", **{kind: shape for shape, kind in KIND_OF_SHAPE.items()}}
HeadStyle = Literal["released", "huggingface"]
Pooling = Literal["first", "last", "mean"]


class HeadConfig(Settings):
    kind: str
    """The kind of task, as the part that knows kinds names it."""
    shape: HeadShape = "row"
    """What an answer is for; that of the kind, where it is one of the four that folders of before know."""
    labels: tuple[str, ...] = ()
    """In the order of the logits; none for regress and qa."""
    style: HeadStyle = "released"
    has_answerability: bool = False
    """Of qa only: a logit for whether the text holds an answer."""
    origin: float = 0.0
    unit: Positive = 1.0
    """Of regress: its number is origin + unit * output, so that a head begins at the mean of what it is to learn, and
    steps of a usual size reach its spread. Saved, both are folded into the weights."""
    dropout: Probability = 0.1
    pooling: Pooling = "first"
    """Whose state answers for the row: one token's, or the mean of all that are not padding."""

    @model_validator(mode="before")
    @classmethod
    def _find_shape(cls, values: Any) -> Any:
        match values:
            case {"kind": str(kind)} if kind in _SHAPES:
                return {"shape": _SHAPES[kind]} | values
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("two labels have the same name; name each once")
        if self.kind in ("classify", "label") and len(self.labels) < 2:
            raise ValueError(f"the task {self.kind!r} needs two labels or more, not {len(self.labels)}; name them")
        if (self.kind == "regress" or self.shape == "span") and self.labels:
            raise ValueError(f"the task {self.kind!r} has no labels; leave them out")
        if self.has_answerability and self.shape != "span":
            raise ValueError(f"has_answerability belongs to the task 'qa', not {self.kind!r}; unset it")
        if self.pooling == "mean" and not self.is_pooled:
            raise ValueError(f"mean pooling belongs to one answer a row, which the task {self.kind!r} is not; unset it")
        if (self.origin, self.unit) != (0.0, 1.0) and (self.shape != "row" or self.labels):
            raise ValueError(f"origin and unit belong to the task 'regress', not {self.kind!r}; unset them")
        return self

    @property
    def num_outputs(self) -> int:
        return 2 if self.shape == "span" else len(self.labels) or 1

    @property
    def is_pooled(self) -> bool:
        """One answer a row, not one a token."""
        return self.shape == "row"


class SpanLogits(NamedTuple):
    start: Tensor  # (B, T)
    end: Tensor  # (B, T)
    answerable: Tensor | None  # (B,), above 0 means that there is an answer; None without such a head


class TaskHead(nn.Module):
    """(..., D) states -> (..., L): dropout -> linear, behind a dense layer where `transformers` has one."""

    def __init__(self, config: EncoderConfig, head: HeadConfig) -> None:
        super().__init__()
        self.dropout = head.dropout
        self.origin, self.unit = head.origin, head.unit
        size, std = config.hidden_size, config.init_std
        is_deep = head.style == "huggingface" and (config.is_modern or head.is_pooled)
        self.dense = linear(size, size, bias=not config.is_modern, std=dense_std(config)) if is_deep else None
        self.norm = make_norm(config) if is_deep and config.is_modern else None
        self.output = linear(size, head.num_outputs, bias=True, std=std)
        self.answerable = linear(size, 1, bias=True, std=std) if head.has_answerability else None

    def forward(self, states: Tensor) -> Tensor:
        if self.dense is not None:
            if self.norm is None:  # theirs on `electra` drops before the dense layer too
                states = F.dropout(states, self.dropout, self.training)
            states = F.gelu(self.dense(states))
        if self.norm is not None:
            states = self.norm(states)
        logits: Tensor = self.output(F.dropout(states, self.dropout, self.training))
        # Only regression has units; other heads are spared two operations on every logit.
        has_units = (self.origin, self.unit) != (0.0, 1.0)
        return self.origin + self.unit * logits if has_units else logits


class TaskModel(nn.Module):
    def __init__(self, encoder: Encoder, head_config: HeadConfig) -> None:
        super().__init__()
        self.config = encoder.config
        self.head_config = head_config
        self.encoder = encoder
        self.head = TaskHead(encoder.config, head_config)

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None) -> Tensor | SpanLogits:
        """(B, T) ids -> the logits of the task, in the shapes above; `is_pad` of None says that no row is padded."""
        is_pooled = self.head_config.is_pooled
        first_only = is_pooled and self.head_config.pooling == "first"
        states: Tensor = self.encoder(input_ids, segment_ids, is_pad, first_only=first_only)  # (B, T or 1, D)
        logits: Tensor = self.head(self._pool(states, is_pad) if is_pooled else states)
        if self.head_config.shape != "span":
            return logits
        start, end = logits.unbind(-1)  # (B, T) each
        if self.head.answerable is None:
            return SpanLogits(start, end, None)
        pooled = F.dropout(self._pool(states, is_pad), self.head.dropout, self.training)
        return SpanLogits(start, end, self.head.answerable(pooled).squeeze(-1))  # (B,)

    def _pool(self, states: Tensor, is_pad: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, D)"""
        if self.head_config.pooling == "first":
            return states[:, 0]
        if self.head_config.pooling == "mean":
            if is_pad is None:
                return states.mean(dim=1)
            # A product with 0, not an index: rows have different numbers of tokens.
            is_token = (~is_pad).to(states.dtype)[..., None]  # (B, T, 1)
            return (states * is_token).sum(dim=1) / is_token.sum(dim=1)
        if is_pad is None:
            return states[:, -1]
        return states[torch.arange(len(states), device=states.device), (~is_pad).sum(dim=1) - 1]


def build_task_model(encoder: Encoder, head: HeadConfig, seed: int) -> TaskModel:
    """The encoder as it is, and a head whose first weights are a pure function of the seed and their names."""
    network = TaskModel(encoder, head)
    # Under the name that it has in the whole network: first weights are drawn by a parameter's dotted name.
    init_weights(nn.ModuleDict({"head": network.head}), seed)
    return network


def pool_states(states: Tensor, is_pad: Tensor, pooling: Pooling) -> Tensor:
    lengths = (~is_pad).sum(dim=1)
    if pooling == "first":
        return states[:, 0].float()
    if pooling == "last":
        return states[torch.arange(len(states)), lengths - 1].float()
    columns = torch.arange(is_pad.shape[1], device=is_pad.device)
    # Without [CLS] and [SEP], unless there is nothing else.
    is_text = (columns > 0) & (columns < lengths[:, None] - 1) | (lengths[:, None] == 2) & ~is_pad
    weights = is_text.float() / is_text.sum(dim=1, keepdim=True)
    return (states.float() * weights[:, :, None]).sum(dim=1)
