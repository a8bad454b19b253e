"""A model is opened as far as its folder goes, its twin is the same network before training; what both are called."""

from pathlib import Path

import pytest
import torch
from little_analysis import save_one, save_two
from little_models import LENGTH, TOKENIZER, build_pair

from electralab.analysis.data import load_analysis_model, name_models, reinitialise, slug
from electralab.errors import InputError, UsageError
from electralab.model.flops import count_masked, generator_flops, step_flops
from electralab.model.folders.folder import load_any, save_network


def test_a_run_of_two_networks_is_an_electra_with_both(tmp_path: Path) -> None:
    specimen = load_analysis_model(save_two(tmp_path / "pair"))
    assert (specimen.name, specimen.kind, specimen.control_of) == ("pair", "electra", None)
    assert specimen.discriminator is not None
    assert specimen.encoder is specimen.discriminator.encoder
    judge, guesser = specimen.discriminator.config, specimen.require_generator("a test").config
    step = step_flops(guesser, judge, 1, LENGTH, count_masked(LENGTH, 0.15))
    assert specimen.flops_per_token == step / LENGTH


@pytest.mark.parametrize(("is_causal", "kind"), [(False, "mlm"), (True, "causal")])
def test_a_run_of_one_network_is_what_its_objective_says(tmp_path: Path, is_causal: bool, kind: str) -> None:
    specimen = load_analysis_model(save_one(tmp_path / "one", is_causal=is_causal))
    assert specimen.kind == kind
    assert specimen.discriminator is None
    config = specimen.require_generator("a test").config
    asked = LENGTH - 1 if is_causal else count_masked(LENGTH, 0.15)
    assert specimen.flops_per_token == 3 * generator_flops(config, 1, LENGTH, asked) / LENGTH
    with pytest.raises(InputError, match="one: holds no discriminator, which judging needs; give a run with one"):
        specimen.require_discriminator("judging")


def test_a_body_without_a_head_has_an_encoder_all_the_same(tmp_path: Path) -> None:
    import safetensors.torch

    folder = save_two(tmp_path / "pair") / "export" / "discriminator"
    (folder / "manifest.json").unlink(missing_ok=True)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "classifier" not in name and "head" not in name}
    kept = {name: tensor for name, tensor in kept.items() if "discriminator_predictions" not in name}
    safetensors.torch.save_file(kept, folder / "model.safetensors")
    specimen = load_analysis_model(folder)
    assert specimen.kind == "encoder"
    assert specimen.generator is None
    assert specimen.flops_per_token is None


def test_a_twin_has_the_same_shape_other_weights_and_follows_the_seed(tmp_path: Path) -> None:
    folder = save_two(tmp_path / "pair")
    specimen = load_analysis_model(folder)
    twin, again, other = (reinitialise(specimen, seed) for seed in (5, 5, 6))
    assert (twin.name, twin.control_of) == ("pair, untrained", "pair")
    assert twin.discriminator is not None
    assert twin.encoder is twin.discriminator.encoder
    ours, theirs = dict(specimen.encoder.named_parameters()), dict(twin.encoder.named_parameters())
    assert {name: one.shape for name, one in ours.items()} == {name: one.shape for name, one in theirs.items()}
    table = twin.encoder.embeddings.tokens.weight
    assert not torch.equal(table, specimen.encoder.embeddings.tokens.weight)
    assert torch.equal(table, again.encoder.embeddings.tokens.weight)
    assert not torch.equal(table, other.encoder.embeddings.tokens.weight)
    # The model itself stays as it was.
    stored = load_any(folder / "export" / "discriminator").state_dict()
    assert specimen.discriminator is not None
    assert all(torch.equal(stored[name], tensor) for name, tensor in specimen.discriminator.state_dict().items())


def test_networks_with_different_tokenizers_are_refused(tmp_path: Path) -> None:
    folder = save_two(tmp_path / "pair")
    text = (folder / "export" / "generator" / "tokenizer.json").read_text()
    (folder / "export" / "generator" / "tokenizer.json").write_text(text.replace('"cat"', '"cot"'))
    with pytest.raises(InputError, match="its two networks have different tokenizers"):
        load_analysis_model(folder)


def test_a_network_smaller_than_its_tokenizer_is_refused(tmp_path: Path) -> None:
    network = build_pair().discriminator
    small = type(network)(network.config.model_copy(update={"vocab_size": 20}))
    for parameter in small.parameters():
        torch.nn.init.zeros_(parameter)
    save_network(tmp_path, small, pad_id=0)
    TOKENIZER.save(tmp_path)
    with pytest.raises(InputError, match="the folder mixes files of two models"):
        load_analysis_model(tmp_path)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ("/runs/a /other/b", "a b"),
        ("/s/electra/seed-0/run /s/mlm/seed-0/run /x/ko", "electra mlm ko"),
        ("/s/e/seed-0/run /s/e/seed-1/run /s/mlm/seed-0/run", "e/seed-0 e/seed-1 mlm/seed-0"),
        ("/a/mlm/run /b/mlm/run /c/a", "a/mlm/run b/mlm/run c/a"),
    ],
)
def test_names_are_what_differs(paths: str, names: str) -> None:
    assert name_models(list(map(Path, paths.split()))) == names.split()


def test_files_have_harmless_names_that_differ() -> None:
    assert slug("electra/seed-0, untrained") == "electra-seed-0.untrained"
    assert slug("a, untrained") != slug("a-untrained")
    assert name_models([Path("/a/run 1"), Path("/a/run-1")]) == ["run 1", "run-1 (2)"]
    with pytest.raises(UsageError, match="/a/b is given twice; give it once"):
        name_models([Path("/a/b"), Path("/a/b")])
