"""A variant as a graph of ONNX, in 32 bits or in 8, tried against the network it was made of.

model folder -> model folder
"""

from collections.abc import Sequence
from pathlib import Path

from electralab.artifacts import new_folder, write_json
from electralab.compression.settings import Graph
from electralab.compression.variant_writer import VariantWriter, copy_files
from electralab.exporting.fidelity import TOLERANCE, require_equal
from electralab.exporting.onnx_graphs import write_graph
from electralab.exporting.quantisation import Activations, quantize_folder
from electralab.exporting.samples import Sample
from electralab.model.config_file import CONFIG
from electralab.model.electra import Discriminator
from electralab.model.folder import WEIGHTS, load_any, read_config
from electralab.model.graph import GRAPH
from electralab.model.own_folder import export_own_config
from electralab.model.tuned import Tuned

_ACTIVATIONS: dict[Graph, Activations] = {"onnx-dynamic-int8": "dynamic", "onnx-static-int8": "static"}


def write_graph_variant(
    source: Path, target: Path, graph: Graph, samples: Sequence[Sample], writer: VariantWriter
) -> None:
    """All that the source's folder holds, with a graph for its weights; the samples calibrate a static one."""
    network = load_any(source)
    assert isinstance(network, Discriminator | Tuned)
    with new_folder(target, kind="model") as temporary:
        copy_files(source, temporary, WEIGHTS, CONFIG)
        write_json(temporary / CONFIG, export_own_config(network, read_config(source)))
        write_graph(network, temporary / GRAPH)
        require_equal(writer.compare(temporary, network), TOLERANCE, str(target))
        facts = {"format": "onnx", "of": f"the variant {source.name}"}
        if graph != "onnx":
            quantize_folder(temporary, _ACTIVATIONS[graph], samples)
            facts |= {"format": "onnx-int8", "activations": _ACTIVATIONS[graph]}
        writer.sign(temporary, facts, network)
