"""What a network would miss: for each head and each neuron, gradient times activation on the user's rows.

CompressionTask, network -> Importance -> KeptLayer...

If a head wrote nothing, the loss of an example would change by about sum_t a_t · dL/da_t, where a_t is what the head
hands to the output matrix at token t: its gradient with respect to a factor before a. The size of that change, summed
over examples, is the head's importance (Michel et al., 2019); a neuron's likewise, before the matrix that leads down.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from electralab.compression.task import CompressionTask, Network, evenly_spaced
from electralab.model.encoder import Layer
from electralab.model.pruning import KeptLayer

# Rows are corrupted as if at this step, which training never reaches.
_STEP = -3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """Of every layer."""

    heads: list[Floats]  # (H,) each
    neurons: list[Floats]  # (F,) each

    @property
    def layers(self) -> Floats:
        """Of a layer: what its heads and neurons have together."""
        return np.array([heads.sum() + neurons.sum() for heads, neurons in zip(self.heads, self.neurons, strict=True)])


def measure_importance(
    task: CompressionTask, network: Network, rows: int, batch_size: int, check: Callable[[], None]
) -> Generator[int, None, Importance]:
    """Yields how many rows are done."""
    chosen = evenly_spaced(len(task.lengths), rows)
    # Like lengths together: what a row says does not depend on its neighbours.
    chosen = chosen[np.argsort(task.lengths[chosen], kind="stable")]
    layers = [layer for layer in network.encoder.layers if isinstance(layer, Layer)]
    heads = [np.zeros(layer.attention.num_heads) for layer in layers]
    neurons = [np.zeros(layer.feedforward.down.in_features) for layer in layers]
    for start in range(0, len(chosen), batch_size):
        check()
        question = task.pose(chosen[start : start + batch_size], _STEP - start)
        with _watch(layers) as seen:
            loss = task.loss(task.answer(network, question), question)
            gradients = torch.autograd.grad(loss, seen)
        products = [activation.detach() * gradient for activation, gradient in zip(seen, gradients, strict=True)]
        for index, layer in enumerate(layers):
            mixed, risen = products[2 * index], products[2 * index + 1]  # (B, T, H * K), (B, T, F)
            by_head = mixed.view(*mixed.shape[:2], layer.attention.num_heads, -1).sum(dim=(1, 3))  # (B, H)
            heads[index] += _add_up(by_head)
            neurons[index] += _add_up(risen.sum(dim=1))
        yield min(start + batch_size, len(chosen))
    return Importance(heads, neurons)


def _add_up(changes: Tensor) -> Floats:
    """(B, N) -> (N,)"""
    total: Floats = changes.abs().sum(dim=0).double().cpu().numpy()
    return total


@contextmanager
def _watch(layers: Sequence[Layer]) -> Iterator[list[Tensor]]:
    """What enters each layer's output matrix and its matrix down, in this order, as the network computes."""
    seen: list[Tensor] = []

    def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0])

    watched = [module for layer in layers for module in (layer.attention.output, layer.feedforward.down)]
    hooks = [module.register_forward_pre_hook(note) for module in watched]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def choose_kept(importance: Importance, share: float, drop_layers: int) -> list[KeptLayer]:
    """Without the least important layers, and of the others' heads, and of their neurons, without this share.

    Heads of all layers stand in one line, as do neurons. A layer keeps its best head and its best neuron.
    """
    order = 1 + np.argsort(importance.layers[1:], kind="stable")
    dropped = set(order[:drop_layers].tolist())
    layers = [index for index in range(len(importance.heads)) if index not in dropped]
    heads = _keep_best([importance.heads[index] for index in layers], share)
    neurons = _keep_best([importance.neurons[index] for index in layers], share)
    return [KeptLayer(*parts) for parts in zip(layers, heads, neurons, strict=True)]


def _keep_best(scores: Sequence[Floats], share: float) -> list[tuple[int, ...]]:
    """The numbers that stay of each layer, in their order."""
    wanted = round(share * sum(map(len, scores)))
    best = [int(of.argmax()) for of in scores]
    line = sorted(
        (float(score), layer, number)
        for layer, of in enumerate(scores)
        for number, score in enumerate(of)
        if number != best[layer]
    )
    gone = {(layer, number) for _, layer, number in line[:wanted]}
    return [
        tuple(number for number in range(len(of)) if (layer, number) not in gone) for layer, of in enumerate(scores)
    ]
