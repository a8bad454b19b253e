"""A network -> model.onnx, with any number of rows of any length up to its longest.

Discriminator | Generator | Tuned -> ONNX file
"""

import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import Trace
from electralab.model.graph import ANSWERABLE, INPUTS, LOGITS, POSITIONS, STATES
from electralab.model.tuned import SpanLogits, Tuned

Exportable = Discriminator | Generator | Tuned

_ROWS = 3


class _DiscriminatorGraph(nn.Module):
    outputs = (LOGITS, STATES)

    def __init__(self, network: Discriminator) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        trace: Trace = {}
        verdicts = self.network(input_ids, token_type_ids, attention_mask == 0, trace)
        return verdicts, trace[STATES]


class _GeneratorGraph(nn.Module):
    outputs = (LOGITS,)

    def __init__(self, network: Generator) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, positions: Tensor
    ) -> tuple[Tensor, ...]:
        states: Tensor = self.network.encoder(input_ids, token_type_ids, attention_mask == 0)  # (B, T, D)
        asked = positions - 1 if self.network.config.is_causal else positions
        return (self.network.guess(states.flatten(0, 1).index_select(0, asked)),)  # (M, V)


class _TaskGraph(nn.Module):
    def __init__(self, network: Tuned) -> None:
        super().__init__()
        self.network = network
        self.outputs = (LOGITS, ANSWERABLE) if network.head_config.has_answerability else (LOGITS,)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        said = self.network(input_ids, token_type_ids, attention_mask == 0)
        if not isinstance(said, SpanLogits):
            return (said,)
        logits = torch.stack([said.start, said.end], dim=-1)  # (B, T, 2)
        return (logits,) if said.answerable is None else (logits, said.answerable)


def write_graph(network: Exportable, path: Path) -> None:
    require_onnx()
    asked = _ask(network).eval()
    # As long as can be: a shorter row might fit a local window whole, and the graph would know no window.
    ids = torch.zeros((_ROWS, network.config.sequence_length), dtype=torch.int64)
    is_seen = torch.ones_like(ids)
    is_seen[1, ids.shape[1] // 2 :] = 0
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=network.config.sequence_length)
    inputs, shapes, names = [ids, is_seen, torch.zeros_like(ids)], [{0: batch, 1: length}] * 3, list(INPUTS)
    if isinstance(network, Generator):
        inputs.append(torch.arange(1, 4))
        shapes.append({0: torch.export.Dim(POSITIONS)})
        names.append(POSITIONS)
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            asked,
            tuple(inputs),
            dynamo=True,
            input_names=names,
            output_names=list(asked.outputs),
            dynamic_shapes=shapes,
            verbose=False,
        )
    assert program is not None
    # They hold the exporter's stack traces, with the paths of this machine.
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.save(path, external_data=False)


def _ask(network: Exportable) -> Any:
    if isinstance(network, Discriminator):
        return _DiscriminatorGraph(network)
    return _GeneratorGraph(network) if isinstance(network, Generator) else _TaskGraph(network)


def require_onnx(flag: str = "--format onnx") -> None:
    """`flag`: what asked for it."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            raise InputError(f"{flag}: needs {name}, which is not installed; pip install 'electralab[onnx]'") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks of its own future and of libraries that are not there; what matters is checked afterwards."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
