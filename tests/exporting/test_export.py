"""Graphs answer like the networks they were made of, at every length; an export is whole, and says what it is."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from little_exports import LENGTH, SIZES, TEXT, TOKENIZER, save_task
from torch import Tensor

import electralab
from electralab.artifacts import write_json
from electralab.errors import DamagedArtifact, ElectraError, InputError, UsageError
from electralab.exporting import fidelity
from electralab.exporting.export import read_license
from electralab.exporting.fidelity import compare_networks, require_equal, sample_rows
from electralab.finetuning.task_model import LoadedTaskModel, TaskModelConfig, save_model
from electralab.model.electra import Discriminator, Electra, Generator, TwoTower, build_electra
from electralab.model.folders.folder import load_encoder, load_network, load_task_model, save_network
from electralab.model.folders.native_format import OnnxDiscriminator, OnnxGenerator, OnnxTaskModel
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.model.task_model import HeadConfig, SpanLogits, build_task_model
from electralab.model.weight_transfer import PrunedLayer, prune
from electralab.records.export import Fidelity, ProbabilityFidelity
from electralab.shell.cli import main
from electralab.stopping import stop_signals


def build_pair() -> Electra:
    """With a local layer, whose window of four a graph must not forget, and weights so wide that a mistake shows."""
    model = ModelConfig(backbone="modern", **SIZES, init_std=0.5, local_attention=4, global_every=2)
    generator = GeneratorConfig(width_share=0.5, num_heads=1)
    pair = build_electra(model, generator, vocab_size=TOKENIZER.vocab_size, sequence_length=LENGTH, seed=1)
    return pair.eval()


def save_pair(folder: Path) -> Path:
    pair = build_pair()
    for role in ("discriminator", "generator"):
        target = folder / "export" / role
        target.mkdir(parents=True)
        save_network(target, getattr(pair, role), pad_id=TOKENIZER.special.pad, objective="electra")
        TOKENIZER.save(target)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pair(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def graphs(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("graphs") / "onnx"
    electralab.export(model, out, format="onnx")
    return out


def rows_of(count: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, segments, and padding over the second half of every second row."""
    ids = torch.randint(5, TOKENIZER.vocab_size, (count, length), generator=torch.Generator().manual_seed(length))
    is_pad = torch.zeros_like(ids, dtype=torch.bool)
    is_pad[1::2, (length + 1) // 2 :] = True
    return ids, torch.zeros_like(ids), is_pad


@pytest.mark.parametrize(("count", "length"), [(1, 1), (1, 2), (2, 3), (3, 5), (2, 9), (4, LENGTH)])
def test_graph_passes_the_verdicts_of_its_network_at_any_length(graphs: Path, count: int, length: int) -> None:
    ids, segments, is_pad = rows_of(count, length)
    graph = load_network(graphs / "discriminator")
    assert isinstance(graph, OnnxDiscriminator)
    trace: dict[str, Tensor] = {}
    ours: dict[str, Tensor] = {}
    with torch.inference_mode():
        expected = build_pair().discriminator(ids, segments, is_pad, ours)
    torch.testing.assert_close(graph(ids, segments, is_pad, trace)[~is_pad], expected[~is_pad], atol=1e-4, rtol=0)
    torch.testing.assert_close(trace["states"][~is_pad], ours["states"][~is_pad], atol=1e-4, rtol=0)


def test_graph_guesses_like_its_network_at_the_positions_asked_for(graphs: Path) -> None:
    ids, segments, is_pad = rows_of(3, 11)
    positions = torch.tensor([0, 5, 13, 22])
    graph = load_network(graphs / "generator")
    assert isinstance(graph, OnnxGenerator)
    with torch.inference_mode():
        expected = build_pair().generator(ids, segments, is_pad, positions)
    torch.testing.assert_close(graph(ids, segments, is_pad, positions), expected, atol=1e-4, rtol=0)


def test_detection_by_a_graph_is_that_of_the_model(model: Path, graphs: Path) -> None:
    text = TEXT * 4  # longer than a row: by windows
    first, second = (electralab.detect(path, [text])[0]["tokens"] for path in (model, graphs))
    assert [token["text"] for token in first] == [token["text"] for token in second]
    np.testing.assert_allclose(
        [token["p_replaced"] for token in first], [token["p_replaced"] for token in second], atol=1e-4
    )


def test_graphs_are_evaluated_like_models(model: Path, graphs: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(f"{TEXT}\n\n" * 30)
    first, second = (
        electralab.evaluate(path, "rtd", tmp_path / "text.txt", generator=model)["scores"] for path in (model, graphs)
    )
    assert first["auc"] == pytest.approx(second["auc"], abs=1e-3)


def test_graph_says_nothing_of_the_machine_it_was_made_on(graphs: Path) -> None:
    for role in ("discriminator", "generator"):
        data = (graphs / role / "model.onnx").read_bytes()
        assert b"site-packages" not in data
        assert os.fsencode(Path(electralab.__file__).parent) not in data


def test_graph_teaches_nobody(graphs: Path) -> None:
    with pytest.raises(InputError, match=r"is a graph, which only answers; give the model"):
        load_encoder(graphs / "discriminator")
    with pytest.raises(InputError, match=r"is a graph already"):
        electralab.export(graphs, graphs.parent / "again", format="onnx")


def test_damaged_graph_is_named_before_it_runs(graphs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "discriminator"
    folder.mkdir()
    for file in (graphs / "discriminator").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    data = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DamagedArtifact, match=r"model\.onnx: does not match its manifest"):
        load_network(folder)
    (folder / "manifest.json").unlink()
    (folder / "model.onnx").write_bytes(data[:100])
    with pytest.raises(DamagedArtifact, match=r"model\.onnx: cannot be run"):
        load_network(folder)


def test_answers_to_questions_are_exported_with_their_doubt(tmp_path: Path) -> None:
    head = HeadConfig(kind="qa", has_answerability=True)
    source = save_task(tmp_path / "qa", head)
    electralab.export(source, tmp_path / "out", format="onnx")
    graph, network = load_task_model(tmp_path / "out" / "model"), load_task_model(source)
    assert isinstance(graph, OnnxTaskModel)
    ids, segments, is_pad = rows_of(2, 7)
    with torch.inference_mode():
        said, expected = graph(ids, segments, is_pad), network(ids, segments, is_pad)
    assert isinstance(said, SpanLogits)
    assert isinstance(expected, SpanLogits)
    assert said.answerable is not None
    assert expected.answerable is not None
    torch.testing.assert_close(said.start[~is_pad], expected.start[~is_pad], atol=1e-4, rtol=0)
    torch.testing.assert_close(said.end[~is_pad], expected.end[~is_pad], atol=1e-4, rtol=0)
    torch.testing.assert_close(said.answerable, expected.answerable, atol=1e-4, rtol=0)


@pytest.mark.parametrize("activations", ["dynamic", "static"])
def test_eight_bits_are_smaller_and_say_what_they_cost(tmp_path: Path, activations: str) -> None:
    source = save_task(tmp_path / "task", HeadConfig(kind="classify", labels=("no", "yes", "maybe")))
    (tmp_path / "text.txt").write_text(f"{TEXT}\n\n" * 30)
    settings = {"activations": activations}
    result = electralab.export(
        source, tmp_path / "out", format="onnx-int8", data=tmp_path / "text.txt", settings=settings
    )
    folder = tmp_path / "out" / "model"
    said = json.loads((folder / "export.json").read_text())
    assert said["activations"] == activations
    assert 0 < said["mean_probability_difference"] <= said["largest_probability_difference"] < 0.5
    assert result["networks"]["model"]["fidelity"]["agreement"] == said["agreement"] > 0.8
    assert "| texts of the same class |" in (folder / "README.md").read_text()
    assert [path.name for path in folder.iterdir() if path.suffix == ".onnx"] == ["model.onnx"]
    answers = electralab.load(tmp_path / "out").predict([TEXT, "a dog"])
    assert {answer["prediction"] for answer in answers} <= {"no", "yes", "maybe"}


def test_export_for_transformers_is_the_same_network_with_all_its_papers(model: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForTokenClassification

    result = electralab.export(model, tmp_path / "out", license="MIT")
    for role, of in result["networks"].items():
        folder = tmp_path / "out" / role
        assert of["fidelity"]["largest_difference"] == 0
        assert {"LICENSE", "README.md", "config.json", "export.json", "manifest.json", "tokenizer.json"} <= {
            path.name for path in folder.iterdir()
        }
        assert "license: mit" in (folder / "README.md").read_text()
    ids, segments, _ = rows_of(2, 9)
    theirs = AutoModelForTokenClassification.from_pretrained(tmp_path / "out" / "discriminator").eval()
    with torch.inference_mode():
        logits = theirs(ids).logits
        expected = build_pair().discriminator(ids, segments, None)
    torch.testing.assert_close(logits[..., 1] - logits[..., 0], expected, atol=1e-5, rtol=0)


def test_pruned_network_gets_zeros_for_transformers_and_the_same_answers(tmp_path: Path) -> None:
    from transformers import AutoModelForTokenClassification

    whole = build_pair().discriminator
    layers = [PrunedLayer(0, (1,), tuple(range(0, 32, 2))), PrunedLayer(1, (0, 1), tuple(range(5)))]
    pruned = prune(whole, layers).eval()
    (tmp_path / "pruned").mkdir()
    save_network(tmp_path / "pruned", pruned, pad_id=TOKENIZER.special.pad)
    TOKENIZER.save(tmp_path / "pruned")
    electralab.export(tmp_path / "pruned", tmp_path / "out")
    ids, segments, _ = rows_of(2, 9)
    theirs = AutoModelForTokenClassification.from_pretrained(tmp_path / "out" / "discriminator").eval()
    with torch.inference_mode():
        logits, expected = theirs(ids).logits, pruned(ids, segments, None)
    torch.testing.assert_close(logits[..., 1] - logits[..., 0], expected, atol=1e-5, rtol=0)


def test_sixteen_bits_halve_the_weights_and_say_what_they_cost(model: Path, tmp_path: Path) -> None:
    whole = electralab.export(model, tmp_path / "whole")["networks"]["discriminator"]
    half = electralab.export(model, tmp_path / "half", settings={"storage": "bf16"})["networks"]["discriminator"]
    sizes = [(tmp_path / name / "discriminator" / "model.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    assert whole["fidelity"]["largest_difference"] == 0 < half["fidelity"]["largest_difference"]
    said = json.loads((tmp_path / "half" / "discriminator" / "export.json").read_text())
    assert said["storage"] == "bf16"
    with pytest.raises(UsageError, match=r"--storage bf16: belongs to the format hf, not to onnx; leave it out"):
        electralab.export(model, tmp_path / "graph", format="onnx", settings={"storage": "bf16"})


def test_wrong_requests_are_refused_before_any_work(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--format: no format named 'onx'; known are hf, onnx, onnx-int8"):
        electralab.export(model, tmp_path / "out", format="onx")
    with pytest.raises(UsageError, match=r"--activations static: is calibrated on text; give some with --data"):
        electralab.export(model, tmp_path / "out", format="onnx-int8", settings={"activations": "static"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").write_text("mine")
    with pytest.raises(InputError, match=r"exists and is not empty; choose another --out"):
        electralab.export(model, tmp_path / "full", format="onnx")
    with pytest.raises(InputError, match=r"neither a file nor an identifier that we know; known are apache-2.0"):
        electralab.export(model, tmp_path / "out", license="my own words")
    assert not (tmp_path / "out").exists()


def test_network_that_nobody_else_has_is_refused_with_the_reason(tmp_path: Path) -> None:
    config = build_pair().discriminator.config
    towers = TwoTower(config.model_copy(update={"is_causal": True}))
    (tmp_path / "towers").mkdir()
    save_network(tmp_path / "towers", towers, pad_id=0)
    TOKENIZER.save(tmp_path / "towers")
    with pytest.raises(InputError, match=r"holds a twotower, which neither transformers nor a graph expresses"):
        electralab.export(tmp_path / "towers", tmp_path / "out", format="onnx")
    head = HeadConfig(kind="classify", labels=("no", "yes"))
    plain = build_task_model(build_pair().discriminator.encoder, head, seed=1)
    card = TaskModelConfig(task="classify", num_texts=1, sequence_length=LENGTH)
    save_model(tmp_path / "plain", LoadedTaskModel(plain, TOKENIZER, card))
    with pytest.raises(InputError, match=r"with its head; tune it with --head huggingface, or export it as onnx"):
        electralab.export(tmp_path / "plain", tmp_path / "out", format="hf")


def test_plan_names_networks_and_writes_nothing(model: Path, tmp_path: Path) -> None:
    plan = electralab.export(model, tmp_path / "out", format="onnx", dry_run=True)
    assert {role: of["kind"] for role, of in plan["networks"].items()} == {
        "discriminator": "discriminator",
        "generator": "generator",
    }
    assert not (tmp_path / "out").exists()


def test_stopped_export_leaves_nothing_and_says_so(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal comes while the first network is tried; after it, further ones are ignored until the process ends."""

    def interrupt(*arguments: Any, **named: Any) -> Fidelity:
        signal.raise_signal(signal.SIGINT)
        return compare_networks(*arguments, **named)

    monkeypatch.setattr(fidelity, "compare_networks", interrupt)
    before = {number: signal.getsignal(number) for number in stop_signals()}
    try:
        status = main(["export", str(model), "--out", str(tmp_path / "out"), "--threads", "1"])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert status == 130
    left = f"electra: stopped; {tmp_path / 'out'} was not written, the same command starts again\n"
    assert capsys.readouterr().err.endswith(left)
    assert list(tmp_path.iterdir()) == []


def test_comparison_finds_a_difference_that_was_planted() -> None:
    pair, other = build_pair(), build_pair()
    rows = sample_rows(TOKENIZER, build_pair().discriminator.config)
    special = TOKENIZER.special
    same = compare_networks(pair.discriminator, other.discriminator, rows, special)
    assert isinstance(same, ProbabilityFidelity)
    assert (same.largest_difference, same.agreement) == (0.0, 1.0)
    with torch.no_grad():
        other.discriminator.head.verdict.bias.add_(0.25)
    off = compare_networks(pair.discriminator, other.discriminator, rows, special)
    assert off.largest_difference == pytest.approx(0.25, abs=1e-4)
    assert off.answers == sum(len(row.ids) for row in rows)
    with pytest.raises(ElectraError, match=r"a/model: the exported network's answers differ by 0\.25"):
        require_equal(off, 1e-4, "a/model")
    with torch.no_grad():
        other.discriminator.head.verdict.bias.fill_(float("nan"))
    with pytest.raises(ElectraError, match="differ by nan"):
        require_equal(compare_networks(pair.discriminator, other.discriminator, rows, special), 1e-4, "a/model")


def test_samples_fit_the_rows_of_any_model() -> None:
    for length in (4, 9, LENGTH):
        config = build_pair().discriminator.config.model_copy(update={"sequence_length": length})
        rows = [sample.ids for sample in sample_rows(TOKENIZER, config)]
        assert max(map(len, rows)) == length
        assert all((row[0], row[-1]) == (TOKENIZER.special.cls, TOKENIZER.special.sep) for row in rows)


def test_licence_is_a_file_an_identifier_or_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "TERMS").write_text("do no harm")
    assert read_license(str(tmp_path / "TERMS")) == type(read_license(""))("other", "do no harm")
    assert read_license("Apache-2.0").name == "apache-2.0"
    assert read_license("").name == "unknown"
    assert "the rights are with those who trained them" in read_license("").text


def test_objective_goes_along(graphs: Path) -> None:
    config = json.loads((graphs / "discriminator" / "config.json").read_text())
    assert config["electralab_objective"] == "electra"
    assert config["model_type"].startswith("electralab-")
    write_json(graphs.parent / "seen.json", config)
    assert isinstance(load_network(graphs / "discriminator"), Discriminator)
    assert isinstance(load_network(graphs / "generator"), Generator)
