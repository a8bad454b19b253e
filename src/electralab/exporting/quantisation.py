"""A graph of 32-bit numbers -> one whose matrices, and what they multiply, are whole numbers of 8 bits.

model.onnx, samples -> model.onnx

`dynamic` finds the range of the activations anew in every call; `static` once, on the rows of a calibration text.
"""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from electralab.exporting.samples import Sample
from electralab.model.graph import GRAPH, INPUTS, POSITIONS

Activations = Literal["dynamic", "static"]

# The graph in 32 bits, while the one in 8 is made of it.
_WHOLE = ".whole.onnx"
_QUANTISED = ["MatMul", "Gemm", "Gather"]


class _Calibration:
    """What the quantiser asks for: one row after the other, each as the inputs of the graph."""

    def __init__(self, samples: Sequence[Sample], names: Sequence[str]) -> None:
        self._feeds: Iterator[dict[str, NDArray[np.int64]]] = iter(
            [{name: feed for name, feed in _feed(sample).items() if name in names} for sample in samples]
        )

    def get_next(self) -> dict[str, NDArray[np.int64]] | None:
        return next(self._feeds, None)


def _feed(sample: Sample) -> dict[str, NDArray[np.int64]]:
    ids = sample.ids[None]
    inputs = dict(zip(INPUTS, (ids, np.ones_like(ids), sample.segment_ids[None]), strict=True))
    return inputs | {POSITIONS: np.arange(1, ids.shape[1])}


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

    with tempfile.TemporaryDirectory() as scratch, _without_warnings():
        inferred = Path(scratch) / source.name
        graph = onnx.load(source)
        # What the exporter noted of shapes on the way is not all true any more; the quantiser infers them itself.
        del graph.graph.value_info[:]
        _untie(graph.graph)
        onnx.save(graph, inferred)
        if activations == "dynamic":
            quantization.quantize_dynamic(inferred, target, weight_type=quantization.QuantType.QInt8)
            return
        quantization.quantize_static(
            inferred,
            target,
            _Calibration(samples, [one.name for one in graph.graph.input]),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=_QUANTISED,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )


def _untie(graph: Any) -> None:
    """A table that is looked up and multiplied by becomes two: the quantiser would turn the one and spoil the other."""
    tables = {table.name: table for table in graph.initializer}
    looked_up = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    for node in graph.node:
        for place, name in enumerate(node.input):
            if node.op_type != "Gather" and name in looked_up and name in tables:
                copy = type(tables[name])()
                copy.CopyFrom(tables[name])
                copy.name = f"{name}.{node.name}"
                graph.initializer.append(copy)
                node.input[place] = copy.name


class _without_warnings:  # noqa: N801 a context, named for what is true inside
    """The quantiser advises on the root logger what was done already."""

    def __enter__(self) -> None:
        self._level = logging.getLogger().level
        logging.getLogger().setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().setLevel(self._level)
