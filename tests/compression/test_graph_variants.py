"""A pruned network becomes a graph with the same answers, and one of 8 bits with nearly the same."""

from pathlib import Path

import torch
from little_exams import open_pair

from electralab.compression.graphs import write_graph_variant
from electralab.compression.settings import Graph
from electralab.model.electra import Discriminator
from electralab.model.folder import load_network
from electralab.model.pruning import KeptLayer, prune
from electralab.tokens.tokenizer import Tokenizer


def test_a_pruned_network_is_a_graph_that_answers_alike(tmp_path: Path) -> None:
    exam = open_pair(tmp_path)
    pruned = prune(exam.network, [KeptLayer(0, (1,), (0, 3, 5)), KeptLayer(1, (0, 1), tuple(range(20)))])
    exam.save(tmp_path / "pruned", pruned, "fp32")
    rows = exam.list_rows(8)
    ids = torch.from_numpy(rows[0])[None]
    with torch.inference_mode():
        wanted = pruned(ids, torch.zeros_like(ids), None)
        tolerances: dict[Graph, float] = {"onnx": 1e-4, "onnx-static-int8": 1.0}
        for graph, tolerance in tolerances.items():
            write_graph_variant(tmp_path / "pruned", tmp_path / graph, graph, rows)
            network = load_network(tmp_path / graph)
            assert isinstance(network, Discriminator)
            said = network(ids, torch.zeros_like(ids), None)
            torch.testing.assert_close(said, wanted, atol=tolerance, rtol=0.0)
            assert network.config == pruned.config
            assert Tokenizer.load(tmp_path / graph).to_json() == Tokenizer.load(tmp_path / "pruned").to_json()
    assert sorted(path.name for path in (tmp_path / "onnx").iterdir() if "model" in path.name) == ["model.onnx"]
