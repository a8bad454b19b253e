"""One vector for a text, from the states of its tokens.

(B, T, D) -> (B, D)
"""

from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["mean", "first", "last"]
"""The mean of the tokens, or the state of the first ([CLS]) or last token ([SEP])."""


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
