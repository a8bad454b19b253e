"""A variant as a graph of ONNX, in 32 or in 8 bits.

model folder -> model folder
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electralab.compression.settings import Graph
from electralab.errors import UsageError

GRAPH = "model.onnx"


def write_graph_variant(source: Path, target: Path, graph: Graph, rows: Sequence[Any]) -> None:
    del source, target, rows
    raise UsageError(f"--graphs: {graph} is not there yet; leave it out")
