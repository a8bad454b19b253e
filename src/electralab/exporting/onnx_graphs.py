"""A network -> model.onnx, with any number of rows of any length up to its longest, in 32 bits or in 8.

Discriminator | Generator | TaskModel -> ONNX file -> ONNX file of whole numbers

In 8 bits the matrices, and what they multiply, are whole numbers. `dynamic` finds the range of the activations anew in
every call; `static` finds it once, on the rows of a calibration text.
"""

import importlib
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from electralab.errors import InputError
from electralab.exporting.fidelity import Exportable, Sample
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import HiddenStates
from electralab.model.folders.native_format import ANSWERABLE, GRAPH, INPUTS, LOGITS, POSITIONS, STATES
from electralab.model.task_model import SpanLogits, TaskModel

Activations = Literal["dynamic", "static"]

# More than one, and unlike any other size: torch.export takes a size of 0 or 1 for a constant of the graph.
_ROWS = 3
# The graph in 32 bits, while the one in 8 is made of it.
_WHOLE = ".whole.onnx"
_QUANTIZED = ["MatMul", "Gemm", "Gather"]


class _NetworkGraph(nn.Module):
    """The network as the exporter traces it: tensors in, a tuple of tensors out."""

    def __init__(self, network: Exportable) -> None:
        super().__init__()
        self.network = network
        self.outputs = [LOGITS]
        if isinstance(network, Discriminator):
            self.outputs.append(STATES)
        elif isinstance(network, TaskModel) and network.head_config.has_answerability:
            self.outputs.append(ANSWERABLE)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, positions: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        network, inputs = self.network, (input_ids, token_type_ids, attention_mask == 0)
        if isinstance(network, Discriminator):
            hidden_states: HiddenStates = {}
            logits = network(*inputs, hidden_states)
            return logits, hidden_states[STATES]
        if isinstance(network, Generator):
            assert positions is not None
            states: Tensor = network.encoder(*inputs)  # (B, T, D)
            # A causal network predicts a token from the state before it.
            positions = positions - 1 if network.config.is_causal else positions
            return (network.logits(states.flatten(0, 1).index_select(0, positions)),)  # (M, V)
        outputs = network(*inputs)
        if not isinstance(outputs, SpanLogits):
            return (outputs,)
        logits = torch.stack([outputs.start, outputs.end], dim=-1)  # (B, T, 2)
        return (logits,) if outputs.answerable is None else (logits, outputs.answerable)


def write_graph(network: Exportable, path: Path) -> None:
    require_onnx()
    graph = _NetworkGraph(network).eval()
    # As long as can be: a shorter row might fit a local window whole, and the graph would know no window.
    ids = torch.zeros((_ROWS, network.config.sequence_length), dtype=torch.int64)
    attention_mask = torch.ones_like(ids)
    attention_mask[1, ids.shape[1] // 2 :] = 0
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=network.config.sequence_length)
    inputs, shapes, names = [ids, attention_mask, torch.zeros_like(ids)], [{0: batch, 1: length}] * 3, list(INPUTS)
    if isinstance(network, Generator):
        # Never 0: a causal network reads the state before a position.
        inputs.append(torch.arange(1, 4))
        shapes.append({0: torch.export.Dim(POSITIONS)})
        names.append(POSITIONS)
    # The exporter warns of its own future and of libraries that are not there; what matters is checked afterwards.
    with _without_warnings("torch.onnx"), torch.no_grad():
        program = torch.onnx.export(
            graph,
            tuple(inputs),
            dynamo=True,
            input_names=names,
            output_names=graph.outputs,
            dynamic_shapes=shapes,
            verbose=False,
        )
    assert program is not None
    # They hold the exporter's stack traces, with the paths of this machine.
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.save(path, external_data=False)


def require_onnx(flag: str = "--format onnx") -> None:
    """`flag`: what asked for it."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            raise InputError(f"{flag}: needs {name}, which is not installed; pip install 'electralab[onnx]'") from None


@contextmanager
def _without_warnings(logger_name: str) -> Iterator[None]:
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def quantize_folder(folder: Path, activations: Activations, samples: Sequence[Sample]) -> None:
    """The graph of a folder, in its place."""
    whole = folder / _WHOLE
    (folder / GRAPH).rename(whole)
    quantize(whole, folder / GRAPH, activations, samples)
    whole.unlink()


def quantize(source: Path, target: Path, activations: Activations, samples: Sequence[Sample]) -> None:
    """The samples calibrate a static graph."""
    import onnx
    from onnxruntime import quantization

    # The quantizer advises on the root logger what was done already.
    with tempfile.TemporaryDirectory() as scratch, _without_warnings(""):
        inferred = Path(scratch) / source.name
        model = onnx.load(source)
        graph = model.graph
        # What the exporter noted of shapes on the way is not all true any more; the quantizer infers them itself.
        del graph.value_info[:]
        # A table that is looked up and multiplied by becomes two: the quantizer would turn the one and spoil the other.
        tables = {table.name: table for table in graph.initializer}
        looked_up = {node.input[0] for node in graph.node if node.op_type == "Gather"}
        for node in graph.node:
            for index, name in enumerate(node.input):
                if node.op_type != "Gather" and name in looked_up and name in tables:
                    copy = type(tables[name])()
                    copy.CopyFrom(tables[name])
                    copy.name = f"{name}.{node.name}"
                    graph.initializer.append(copy)
                    node.input[index] = copy.name
        onnx.save(model, inferred)
        if activations == "dynamic":
            quantization.quantize_dynamic(inferred, target, weight_type=quantization.QuantType.QInt8)
            return
        quantization.quantize_static(
            inferred,
            target,
            _CalibrationReader(samples, [node.name for node in graph.input]),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=_QUANTIZED,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )


class _CalibrationReader:
    """What the quantizer asks for: one row after the other, each as the inputs of the graph."""

    def __init__(self, samples: Sequence[Sample], names: Sequence[str]) -> None:
        self._feeds = iter([{name: feed(sample)[name] for name in names} for sample in samples])

    def get_next(self) -> dict[str, NDArray[np.int64]] | None:
        return next(self._feeds, None)


def feed(sample: Sample) -> dict[str, NDArray[np.int64]]:
    """All inputs that a graph may have, for one row."""
    ids = sample.ids[None]
    inputs = dict(zip(INPUTS, (ids, np.ones_like(ids), sample.segment_ids[None]), strict=True))
    return inputs | {POSITIONS: np.arange(1, ids.shape[1])}
