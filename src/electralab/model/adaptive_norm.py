"""A layer norm that treats what looks replaced differently: (..., D) -> (..., D).

    z_t = (x_t - mean) / deviation        the normalised state
    g_t = sigmoid(u z_t + c)              a guess of "replaced", from 0 to 1
    y_t = z_t (gamma + g_t delta_gamma) + (beta + g_t delta_beta)

The deltas start at 0, so that the network starts as the plain one, bit for bit. Without biases there is no beta.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AdaptiveNorm(nn.LayerNorm):
    def __init__(self, size: int, *, eps: float, bias: bool) -> None:
        super().__init__(size, eps=eps, bias=bias)
        self.guess_weight = nn.Parameter(torch.zeros(size))
        self.guess_bias = nn.Parameter(torch.zeros(1))
        self.weight_delta = nn.Parameter(torch.zeros(size))
        self.bias_delta = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, states: Tensor) -> Tensor:
        normed = F.layer_norm(states, self.normalized_shape, eps=self.eps)
        guess = torch.sigmoid(F.linear(normed, self.guess_weight[None], self.guess_bias))  # (..., 1)
        delta = normed * self.weight_delta
        if self.bias_delta is not None:
            delta = delta + self.bias_delta
        return super().forward(states) + guess * delta
