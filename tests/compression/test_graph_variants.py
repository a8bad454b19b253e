"""A pruned network becomes a graph with the same answers, and one of 8 bits with nearly the same."""

import json
import sys
from pathlib import Path

import pytest
import torch
from little_compression import open_pair

from electralab.compression import stage
from electralab.compression.settings import Graph
from electralab.compression.stage import VariantWriter
from electralab.errors import AnswersDiffer, InputError
from electralab.exporting.fidelity import Exportable
from electralab.exporting.onnx_graphs import write_graph
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import load_network
from electralab.model.weight_transfer import PrunedLayer, prune
from electralab.tokens.tokenizer import Tokenizer


def test_a_pruned_network_is_a_graph_that_answers_alike(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    pruned = prune(task.network, [PrunedLayer(0, (1,), (0, 3, 5)), PrunedLayer(1, (0, 1), tuple(range(20)))])
    writer = VariantWriter(task, "mit", tmp_path, lambda: None)
    writer.write_weights(tmp_path / "pruned", pruned, "fp32")
    samples = task.list_samples(8)
    # The backbone has segments, and graphs are calibrated with both.
    assert [bool(sample.segment_ids.any()) for sample in samples[:3]] == [True, False, True]
    ids = torch.from_numpy(samples[0].ids)[None]
    with torch.inference_mode():
        segments = torch.from_numpy(samples[0].segment_ids)[None]
        wanted = pruned(ids, segments, None)
        tolerances: dict[Graph, float] = {"onnx": 1e-4, "onnx-static-int8": 1.0}
        for graph, tolerance in tolerances.items():
            writer.write_graph(tmp_path / "pruned", tmp_path / graph, graph, samples)
            network = load_network(tmp_path / graph)
            assert isinstance(network, Discriminator)
            said = network(ids, segments, None)
            torch.testing.assert_close(said, wanted, atol=tolerance, rtol=0.0)
            assert network.config == pruned.config
            assert Tokenizer.load(tmp_path / graph).to_json() == Tokenizer.load(tmp_path / "pruned").to_json()
            said_of_it = json.loads((tmp_path / graph / "export.json").read_text())
            assert said_of_it["of"] == "the variant pruned"
            assert (said_of_it["largest_difference"] <= 1e-4) is (graph == "onnx")
            assert "license: mit" in (tmp_path / graph / "README.md").read_text()
            assert "tokens with the same verdict, replaced or not" in said_of_it["words"]
    assert sorted(path.name for path in (tmp_path / "onnx").iterdir() if "model" in path.name) == ["model.onnx"]


def test_a_missing_library_is_named_with_the_flag_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"^--graphs: needs onnxscript, which is not installed"):
        open_pair(tmp_path, graphs=["onnx"])


def test_a_graph_that_answers_otherwise_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the tracer had lost a thousandth on the way."""

    def write_wrongly(network: Exportable, path: Path) -> None:
        assert isinstance(network, Discriminator)
        with torch.no_grad():
            network.head.verdict.bias.add_(1e-3)
            write_graph(network, path)
            network.head.verdict.bias.sub_(1e-3)

    task = open_pair(tmp_path)
    writer = VariantWriter(task, "", tmp_path, lambda: None)
    writer.write_weights(tmp_path / "whole", task.network, "fp32")
    monkeypatch.setattr(stage, "write_graph", write_wrongly)
    with pytest.raises(AnswersDiffer, match=r"answers differ by 0\.001 from those of the model, more than 0\.0001"):
        writer.write_graph(tmp_path / "whole", tmp_path / "onnx", "onnx", [])
    assert not (tmp_path / "onnx").exists()
