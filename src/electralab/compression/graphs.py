"""A variant as a graph of ONNX, in 32 bits or in 8.

model folder -> model folder
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from electralab.artifacts import MANIFEST, new_folder, write_json
from electralab.compression.exam import Places
from electralab.compression.settings import Graph
from electralab.exporting.graphs import write_graph
from electralab.exporting.quantisation import Activations, quantise
from electralab.model.electra import Discriminator
from electralab.model.folder import WEIGHTS, load_any, read_config
from electralab.model.graph import GRAPH
from electralab.model.hf_config import CONFIG
from electralab.model.own_folder import export_own_config
from electralab.model.tuned import Tuned

_ACTIVATIONS: dict[Graph, Activations] = {"onnx-dynamic-int8": "dynamic", "onnx-static-int8": "static"}
# The graph in 32 bits, while the one in 8 is made of it.
_WHOLE = ".whole.onnx"


def write_graph_variant(source: Path, target: Path, graph: Graph, rows: Sequence[Places]) -> None:
    """All that the source's folder holds, with a graph for its weights; the rows calibrate a static one."""
    network = load_any(source)
    assert isinstance(network, Discriminator | Tuned)
    with new_folder(target, kind="model") as temporary:
        for file in source.iterdir():
            if file.is_file() and file.name not in (MANIFEST, WEIGHTS, CONFIG):
                shutil.copyfile(file, temporary / file.name)
        write_json(temporary / CONFIG, export_own_config(network, read_config(source)))
        if graph == "onnx":
            write_graph(network, temporary / GRAPH)
            return
        write_graph(network, temporary / _WHOLE)
        quantise(temporary / _WHOLE, temporary / GRAPH, _ACTIVATIONS[graph], rows)
        (temporary / _WHOLE).unlink()
