"""A model becomes variants, each a model folder; what was made is not made again; what cannot be is refused."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from little_compression import ask_for, follow, make_config, make_pair_run, make_run, open_pair, open_task, run
from little_models import TOKENIZER, build_pair, save_pair
from little_models import run as evaluate
from little_tasks import QUICK, make_request, save_origin, tune, write_animals, write_rows
from torch import Tensor
from watching_events import notes

import electralab
from electralab.compression import stage
from electralab.compression import task as task_module
from electralab.compression.settings import CompressRequest, Graph, list_variants
from electralab.compression.stage import VariantWriter, check_plan, plan_compress
from electralab.compression.task import score_network
from electralab.errors import (
    AnswersDiffer,
    DamagedArtifact,
    ElectraError,
    IdentityMismatch,
    InputError,
    UsageError,
)
from electralab.exporting.export import find_license
from electralab.exporting.fidelity import Exportable
from electralab.exporting.onnx_graphs import write_graph
from electralab.finetuning.task_model import load_model
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import load_any, load_network, save_network
from electralab.model.weight_transfer import PrunedLayer, prune
from electralab.records.compression import KeptParts, NoiseFloor, Tradeoff, TradeoffPoint
from electralab.reporting.study_page import explain_tradeoff
from electralab.serving.model import Model
from electralab.statistics import bootstrap_indices
from electralab.tokens.tokenizer import Tokenizer

ANIMALS = (("cat", "yes"), ("dog", "no"))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_run(tmp_path_factory.mktemp("tuned"), seeds=2)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_pair_run(tmp_path_factory.mktemp("pair"))


def by_name(results: Tradeoff) -> dict[str, TradeoffPoint]:
    return {point.name: point for point in results.variants}


def check_storage(variants: Path) -> None:
    """Weights of 16 bits are those of 32, rounded, and computed with as 32."""
    whole = dict(load_model(variants / "fp32").network.named_parameters())
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        stored = dict(load_model(variants / name).network.named_parameters())
        for key, weight in whole.items():
            assert torch.equal(stored[key], weight.to(dtype).float())
            assert stored[key].dtype == torch.float32


def check_papers(parent: Path, *names: str) -> None:
    """Every folder says what it is and on what terms, and a file that changed is noticed."""
    for name in names:
        folder = parent / name
        assert "No licence was stated" in (folder / "LICENSE").read_text()
        card = (folder / "README.md").read_text()
        assert "license: unknown" in card
        is_generator = name == "generator"
        assert ("## Checked when it was exported" in card) is not is_generator
        assert json.loads((folder / "export.json").read_text())["subject"] == (
            "guesses" if is_generator else "verdicts"
        )
        assert {"LICENSE", "README.md", "export.json"} <= json.loads((folder / "manifest.json").read_text())[
            "files"
        ].keys()
    before = (parent / names[0] / "README.md").read_text()
    (parent / names[0] / "README.md").write_text("something else")
    with pytest.raises(DamagedArtifact, match=r"README\.md: has 14 bytes"):
        load_any(parent / names[0])
    (parent / names[0] / "README.md").write_text(before)


def test_a_tuned_model_becomes_variants_that_predict(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    results = run(ask_for(*tuned, tmp_path, prune=[0.5]))
    points = by_name(results)
    assert list(points) == ["fp32", "fp16", "bf16", "pruned-50", "pruned-50-recovered"]
    assert (results["metric"], results["examples"]) == ("accuracy", 16)
    assert points["fp16"].bytes < 0.6 * points["fp32"].bytes
    assert points["pruned-50"].parameters < points["fp32"].parameters
    # Both seeds are right about every one of the sixteen examples, so that their deviation is less than one of these.
    assert results.floor == NoiseFloor(points=100 / 16, origin="the weight of one example")
    for name in points:
        (row,) = Model(tmp_path / "variants" / name).predict(["the cat sat on mat"])
        assert row["prediction"] in ("yes", "no")
    check_storage(tmp_path / "variants")
    assert points["fp32"].kept == KeptParts(layers=2, heads=4, neurons=128)
    assert points["pruned-50"].kept == KeptParts(layers=2, heads=2, neurons=64)
    assert json.loads((tmp_path / "tradeoff.json").read_text()) == results.to_json()
    assert Tradeoff.read(tmp_path) == results
    assert "| pruned-50-recovered | 2 | 64 |" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "tradeoff.png").read_bytes().startswith(b"\x89PNG")


def test_a_pair_becomes_discriminators_that_detect_and_evaluate(pair: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = pair
    results = run(ask_for(model, data, tmp_path, prune=[0.5], drop_layers=1, max_loss=100.0))
    points = by_name(results)
    assert list(points)[3:] == ["pruned-50-drop-1", "pruned-50-drop-1-recovered"]
    shallow = load_network(tmp_path / "variants" / "pruned-50-drop-1")
    assert isinstance(shallow, Discriminator)
    assert (shallow.config.num_layers, shallow.config.shapes[0].num_heads) == (1, 1)
    for name in points:
        assert Model(tmp_path / "variants" / name).detect("the cat sat").tokens
    # What was picked makes the folder itself a model, with the generator that it was scored against.
    assert results["picked"] in points
    check_papers(tmp_path / "export", "discriminator", "generator")
    check_papers(tmp_path / "variants", *points)
    found = evaluate(tmp_path, "rtd", data, heldout={"limit": 4})
    assert 0.0 <= found.scores["auc"] <= 1.0


def test_what_is_there_is_not_made_again_and_more_can_be_added(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    run(ask_for(*tuned, tmp_path, prune=[0.5]))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "variants").rglob("*.safetensors")}
    shutil.rmtree(tmp_path / "variants" / "fp16")
    results = run(ask_for(*tuned, tmp_path, prune=[0.5, 0.25], target_speedup=1e-6))
    assert set(by_name(results)) >= {"fp16", "pruned-50", "pruned-25", "pruned-25-recovered"}
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "variants").rglob("*.safetensors")}
    assert {path for path in before if after[path] != before[path]} == {
        tmp_path / "variants" / "fp16" / "model.safetensors"
    }
    assert load_model(tmp_path).config.task == "classify"


def test_a_negative_loss_is_explained(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    results = run(ask_for(*tuned, tmp_path))
    first, *variants = results.variants

    def explain(loss: float) -> list[str]:
        moved = tuple(point.model_copy(update={"loss": loss}) for point in variants)
        lines = explain_tradeoff(results.model_copy(update={"variants": (first, *moved)}))
        return [line for line in lines if "negative loss" in line]

    assert not explain(0.0)
    (line,) = explain(-30.0)
    assert variants[0].name in line
    assert "scored above fp32, not below; most often the model was trained too little" in line


def test_nothing_is_picked_where_nothing_is_as_asked(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    results = run(ask_for(*tuned, tmp_path, prune=[], storage=[], target_speedup=1000.0))
    assert results["picked"] is None
    assert not (tmp_path / "export").exists()


def test_what_was_picked_stays_until_something_else_is_asked_for(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    picked = run(ask_for(*tuned, tmp_path, max_loss=100.0, prune=[], storage=["bf16"]))["picked"]
    assert picked is not None
    assert run(ask_for(*tuned, tmp_path, prune=[], storage=["bf16"]))["picked"] == picked
    assert (tmp_path / "export" / "model" / "config.json").is_file()
    assert run(ask_for(*tuned, tmp_path, target_speedup=1000.0, prune=[], storage=["bf16"]))["picked"] is None
    assert not (tmp_path / "export").exists()


def test_scores_are_told_as_they_come(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    events = follow(ask_for(*tuned, tmp_path, prune=[], storage=["bf16"]))
    assert [text.partition(": accuracy ")[0] for text in notes(events, "good")] == ["fp32", "bf16"]


def test_a_plan_names_the_variants_and_writes_nothing(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    plan = plan_compress(ask_for(*tuned, tmp_path / "out", graphs=["onnx"]))
    assert tuple(plan["variants"]) == (
        *("fp32", "fp16", "bf16", "onnx", "pruned-30", "pruned-30-recovered", "pruned-30-recovered-onnx"),
    )
    assert (plan["recovery_steps"], plan["training_rows"]) == (4, 64)
    assert not (tmp_path / "out").exists()


def test_without_recovery_a_graph_is_made_of_what_was_pruned() -> None:
    variants = list_variants(make_config(recovery={"steps": 0}, graphs=["onnx"], storage=[]))
    assert [(variant.name, variant.origin) for variant in variants] == [
        ("fp32", "fp32"),
        ("onnx", "fp32"),
        ("pruned-30", "fp32"),
        ("pruned-30-onnx", "pruned-30"),
    ]


def refuse(request: CompressRequest, kind: type[ElectraError], words: str) -> None:
    with pytest.raises(kind, match=words):
        follow(request)
    assert not request.out.exists() or request.out == request.model


def test_what_cannot_be_compressed_is_refused_by_name(
    tuned: tuple[Path, Path], pair: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    refuse(ask_for(*tuned, out, drop_layers=2), UsageError, "--drop-layers: the model has 2 layers")
    refuse(ask_for(tuned[0], tmp_path / "none", out), InputError, "none: no such file or folder; give --data")
    refuse(ask_for(*tuned, out, generator=pair[0]), UsageError, "--generator: .* is tuned for a task")
    refuse(ask_for(*pair, out, task="sst2"), UsageError, "--task: .* is not tuned")
    refuse(ask_for(*tuned, out, task="ner"), InputError, "of the kind 'classify'")
    refuse(ask_for(pair[0] / "export" / "discriminator", pair[1], out), InputError, "holds no generator")
    refuse(ask_for(pair[0] / "export" / "generator", pair[1], out), InputError, "neither a discriminator nor a tuned")
    refuse(ask_for(*tuned, tuned[0]), UsageError, "holds a fine-tuning run, not variants of a model")
    short = tmp_path / "short.txt"
    short.write_text("the cat sat on a mat")
    refuse(ask_for(pair[0], short, out), InputError, "too few to learn from some")


def test_a_graph_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(pair[0], tmp_path / "graph")
    (folder / "export" / "discriminator" / "model.safetensors").rename(
        folder / "export" / "discriminator" / "model.onnx"
    )
    refuse(ask_for(folder, pair[1], tmp_path / "out"), InputError, "is an ONNX graph")


def test_layers_that_are_one_are_not_pruned() -> None:
    shared = build_pair().discriminator.config.model_copy(update={"share_layers": True})
    check_plan(shared, make_config(prune=[]))
    with pytest.raises(UsageError, match="--prune: the layers of this model are one"):
        check_plan(shared, make_config())


def test_another_model_or_setting_is_not_mixed_in(
    tuned: tuple[Path, Path], pair: tuple[Path, Path], tmp_path: Path
) -> None:
    run(ask_for(*tuned, tmp_path, prune=[], storage=[]))
    with pytest.raises(IdentityMismatch, match="variants of another model"):
        follow(ask_for(*pair, tmp_path))
    with pytest.raises(IdentityMismatch, match=r"recovery\.steps was 4, now 5"):
        follow(ask_for(*tuned, tmp_path, recovery={"steps": 5, "batch_size": 8}))


def test_a_damaged_variant_is_named(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    run(ask_for(*tuned, tmp_path, prune=[], storage=[]))
    weights = tmp_path / "variants" / "fp32" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ElectraError, match="delete this variant's folder"):
        follow(ask_for(*tuned, tmp_path, prune=[], storage=[]))


def overflow(folder: Path) -> Path:
    """A pair whose discriminator has a weight that fp16 cannot hold."""
    judge = build_pair()
    with torch.no_grad():
        judge.discriminator.head.verdict.bias.fill_(1e6)
    return save_pair(folder, judge)


def test_a_variant_that_cannot_be_made_is_named_and_the_others_go_on(pair: tuple[Path, Path], tmp_path: Path) -> None:
    model = overflow(tmp_path / "large")
    results = run(ask_for(model, pair[1], tmp_path / "out", prune=[], storage=["fp16", "bf16"]))
    assert list(by_name(results)) == ["fp32", "bf16"]
    assert list(results["failed"]) == ["fp16"]
    assert results["failed"]["fp16"].endswith("has weights too large for fp16; store them as bf16 or fp32")
    assert str(tmp_path) not in results["failed"]["fp16"]
    assert "- fp16 failed: " in (tmp_path / "out" / "report.md").read_text()
    assert not (tmp_path / "out" / "variants" / "fp16").exists()


def test_what_is_made_from_a_failed_variant_fails_with_it(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_prune(*_: object) -> None:
        raise AnswersDiffer("a/folder: its answers are others; report this")

    monkeypatch.setattr(stage, "prune", refuse_to_prune)
    results = run(ask_for(*pair, tmp_path, storage=["bf16"], prune=[0.5]))
    assert list(by_name(results)) == ["fp32", "bf16"]
    assert results["failed"] == {
        "pruned-50": "its answers are others; report this",
        "pruned-50-recovered": "is made from pruned-50, which failed",
    }


def test_a_licence_can_be_stated_later_and_goes_on_from_the_model(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    request = ask_for(*tuned, tmp_path / "out", prune=[], storage=[], max_loss=100.0)
    run(request)
    run(replace(request, license="MIT"))
    folder = tmp_path / "out" / "export" / "model"
    assert (folder / "LICENSE").read_text() == "SPDX-License-Identifier: MIT\n"
    assert "license: mit" in (folder / "README.md").read_text()
    assert load_model(tmp_path / "out").config.task == "classify"
    assert find_license("", folder).name == "mit"
    assert find_license("apache-2.0", folder).name == "apache-2.0"


def count_draws(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    drawn: list[int] = []

    def count(rows: int, times: int, seed: int) -> Any:
        drawn.append(times)
        return bootstrap_indices(rows, times, seed)

    monkeypatch.setattr(task_module, "bootstrap_indices", count)
    return drawn


def test_examples_are_drawn_again_once_and_anew_when_asked_for_more(
    tuned: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = count_draws(monkeypatch)
    run(ask_for(*tuned, tmp_path, prune=[], storage=["bf16"]))
    assert drawn == [5, 0]
    run(ask_for(*tuned, tmp_path, prune=[], storage=["bf16"]))
    assert drawn == [5, 0]
    run(ask_for(*tuned, tmp_path, prune=[], storage=["bf16"], measure={"rounds": 1, "bootstrap": 7}))
    assert drawn == [5, 0, 7]


def test_seeds_that_saw_other_data_say_nothing(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    """The same animals in other company: another identity."""
    model, data = tuned
    same, other = (open_task(model, place) for place in (data, write_animals(tmp_path / "others", seed=1)))
    assert same.seed_deviation is not None
    assert other.seed_deviation is None
    said = "not the data that the model was tuned on, or not read as then"
    assert not any(said in note for note in same.notes)
    assert any(said in note for note in other.notes)
    assert open_task(model / "export" / "model", data).seed_deviation == same.seed_deviation


def test_data_are_read_as_the_run_read_them_unless_asked_otherwise(tmp_path: Path) -> None:
    """Of a table that names its columns in its own way, and has no dev file."""
    rows = [{"words": f"the {word} on mat {number}", "kind": kind} for number in range(20) for word, kind in ANIMALS]
    write_rows(tmp_path / "data" / "train.jsonl", rows)
    reading = {"text": "words", "label": "kind", "dev_share": 0.25}
    origin = save_origin(tmp_path / "origin", num_layers=2)
    settings = QUICK | {"epochs": 1, "data": reading}
    tune(make_request(origin, "classify", tmp_path / "data", tmp_path / "run", settings))
    plan = electralab.compress(tmp_path / "run", tmp_path / "data", tmp_path / "out", dry_run=True)
    assert {name: plan["settings"]["data"][name] for name in reading} == reading
    settings = {"data": {"dev_share": 0.5}}
    plan = electralab.compress(tmp_path / "run", tmp_path / "data", tmp_path / "out", settings=settings, dry_run=True)
    assert (plan["settings"]["data"]["text"], plan["settings"]["data"]["dev_share"]) == ("words", 0.5)


def test_weights_too_large_for_16_bits_are_refused(tmp_path: Path) -> None:
    judge = build_pair().discriminator
    with torch.no_grad():
        judge.head.verdict.bias.fill_(1e6)
    with pytest.raises(InputError, match="too large for fp16"):
        save_network(tmp_path, judge, pad_id=TOKENIZER.special.pad, storage="fp16")
    save_network(tmp_path, judge, pad_id=TOKENIZER.special.pad, storage="bf16")
    assert isinstance(load_any(tmp_path), Discriminator)


@pytest.mark.parametrize("settings", [{"prune": [1.0]}, {"prune": [0.0]}, {"prune": [], "drop_layers": 1}])
def test_shares_that_leave_nothing_or_everything_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"prune"):
        make_config(**settings)


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


class KnowsSpecials(Discriminator):
    """Sure of the five special tokens, and of nothing else."""

    def forward(self, input_ids: Tensor, *_: object) -> Tensor:
        return torch.where(input_ids >= 5, 0.0, -20.0)


def test_knowing_only_special_tokens_scores_as_guessing(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    assert isinstance(task.network, Discriminator)
    assert score_network(task, KnowsSpecials(task.network.config), 0).value == 0.5
