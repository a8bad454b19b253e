"""Importance is the size of a mask's gradient, example by example; the least important go."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from little_compression import make_run, open_pair, open_task

from electralab.compression.pruning import _STEP, Importance, choose_kept, measure_importance
from electralab.compression.settings import ImportanceConfig
from electralab.compression.task import CompressionTask
from electralab.model.encoder import EncoderLayer
from electralab.model.weight_transfer import PrunedLayer


def measure(task: CompressionTask, rows: int, batch_size: int) -> Importance:
    steps = measure_importance(task, ImportanceConfig(rows=rows, batch_size=batch_size))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Importance = end.value
            return found


def measure_by_masks(task: CompressionTask, rows: int) -> tuple[list[list[float]], list[list[float]]]:
    """The slow twin: each row alone, and the loss differentiated by a factor before every head and neuron."""
    layers = [layer for layer in task.network.encoder.layers if isinstance(layer, EncoderLayer)]
    size = task.network.config.head_size
    totals = [[0.0] * layer.attention.num_heads for layer in layers], [[0.0] * 32 for _ in layers]
    for place in range(rows):
        heads = [torch.ones(layer.attention.num_heads, requires_grad=True) for layer in layers]
        neurons = [torch.ones(32, requires_grad=True) for _ in layers]
        hooks = []
        for layer, head, neuron in zip(layers, heads, neurons, strict=True):
            wide = head.repeat_interleave(size)
            hooks.append(layer.attention.output.register_forward_pre_hook(lambda _, x, by=wide: x[0] * by))
            hooks.append(layer.feedforward.down.register_forward_pre_hook(lambda _, x, by=neuron: x[0] * by))
        question = task.make_inputs(np.array([place]), _STEP - place)
        task.loss(task.forward(task.network, question), question).backward()  # type: ignore[no-untyped-call]
        for hook in hooks:
            hook.remove()
        for total, masks in zip(totals, (heads, neurons), strict=True):
            for of_layer, mask in zip(total, masks, strict=True):
                assert mask.grad is not None
                of_layer[:] = [so_far + abs(float(g)) for so_far, g in zip(of_layer, mask.grad, strict=True)]
    return totals


def test_importance_is_the_gradient_of_a_mask(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    task.network.double()
    count = len(task.lengths)
    found = measure(task, rows=count, batch_size=1)
    heads, neurons = measure_by_masks(task, count)
    np.testing.assert_allclose(found.heads, heads, rtol=1e-6)
    np.testing.assert_allclose(found.neurons, neurons, rtol=1e-6)
    assert np.ptp(found.heads) > 0


def test_a_head_that_writes_nothing_has_no_importance(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    layer = task.network.encoder.layers[1]
    assert isinstance(layer, EncoderLayer)
    with torch.no_grad():
        layer.attention.output.weight[:, :8] = 0.0
        layer.feedforward.down.weight[:, 5] = 0.0
    found = measure(task, rows=4, batch_size=4)
    assert found.heads[1][0] == 0.0 < found.heads[1][1]
    assert list(np.flatnonzero(found.neurons[1] == 0)) == [5]


def make_importance(heads: list[list[float]], neurons: list[list[float]]) -> Importance:
    return Importance([np.array(of) for of in heads], [np.array(of) for of in neurons])


def test_the_least_important_of_all_layers_go() -> None:
    """A third of six heads: 1 and 2. Of six neurons: 10 and 20."""
    importance = make_importance([[3, 1, 5], [9, 2, 4]], [[30, 10, 50], [90, 20, 40]])
    assert choose_kept(importance, 1 / 3, drop_layers=0) == [
        PrunedLayer(0, (0, 2), (0, 2)),
        PrunedLayer(1, (0, 2), (0, 2)),
    ]


def test_a_layer_keeps_its_best_however_little_it_is_worth() -> None:
    importance = make_importance([[1, 2], [8, 9]], [[1, 2], [8, 9]])
    assert choose_kept(importance, 0.9, drop_layers=0) == [PrunedLayer(0, (1,), (1,)), PrunedLayer(1, (1,), (1,))]


def test_the_least_important_layer_goes_but_never_the_first() -> None:
    importance = make_importance([[1], [9], [2], [5]], [[1], [9], [2], [5]])
    kept = choose_kept(importance, 0.1, drop_layers=2)
    assert [layer.index for layer in kept] == [0, 1]


@given(st.floats(0.01, 0.99), st.integers(0, 2), st.integers(0, 10**6))
def test_so_many_go_as_were_asked_for(share: float, drop: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    importance = Importance([rng.random(4) for _ in range(3)], [rng.random(10) for _ in range(3)])
    kept = choose_kept(importance, share, drop)
    assert len(kept) == 3 - drop
    for parts, size in (([layer.heads for layer in kept], 4), ([layer.neurons for layer in kept], 10)):
        total = size * len(kept)
        assert sum(map(len, parts)) == total - min(round(share * total), total - len(kept))
        assert all(first < second for part in parts for first, second in pairwise(part))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_importance_does_not_depend_on_the_neighbours(tmp_path: Path, batch_size: int) -> None:
    """Of a tuned network, whose rows hold no chance: the same whatever the batches."""
    task = open_task(*make_run(tmp_path))
    alone, together = measure(task, rows=6, batch_size=6), measure(task, rows=6, batch_size=batch_size)
    for part, same in zip(alone.heads + alone.neurons, together.heads + together.neurons, strict=True):
        np.testing.assert_allclose(part.sum(), same.sum(), rtol=1e-4)
