"""Whatever a stranger's config.json says, the answer is a network or one short sentence: no hang, no traceback."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from torch import nn

from electralab.errors import ElectraError
from electralab.model.electra import TwoTower, build_electra
from electralab.model.folders.folder import load_any, load_encoder, save_network
from electralab.model.folders.native_format import OWN
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.model.task_model import HeadConfig, build_task_model

SIZES: dict[str, Any] = {"num_layers": 2, "hidden_size": 8, "embedding_size": 8, "num_heads": 2, "feedforward_size": 16}
# Far below what these folders could be asked to hold, far above what a sentence needs.
LONGEST_SENTENCE = 700
HOSTILE: tuple[Any, ...] = (
    *(10**9, 10**18, -1, 0, 2**20, 1.5, 1e308, float("nan"), True, None),
    *("1", "x" * 100_000, "\x1b[31m", [], [1], ["full_attention"] * 20_000, {}, {"a": [1]}, {"full_attention": [1]}),
    *([[[["deep"]]]], {"x" * 100_000: 1}),
)


def build(kind: str) -> nn.Module:
    backbone, _, part = kind.partition(" ")
    model = ModelConfig.model_validate({**SIZES, "backbone": backbone})
    pair = build_electra(model, GeneratorConfig(width_share=1.0), vocab_size=20, sequence_length=8, seed=0)
    match part:
        case "classifier":
            return build_task_model(pair.discriminator.encoder, HeadConfig(kind="classify", labels=("a", "b")), seed=0)
        case "two towers":
            return TwoTower(pair.discriminator.config.model_copy(update={"is_causal": True}))
        case _:
            return getattr(pair, part)  # type: ignore[no-any-return]


KINDS = (
    *("electra discriminator", "electra generator", "electra classifier"),
    *("modern discriminator", "modern generator", "modern classifier", "modern two towers"),
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("saved")
    for kind in KINDS:
        (root / kind).mkdir()
        network = build(kind)
        if kind.endswith("classifier"):
            save_network(root / kind, network, pad_id=0, cls_id=2, sep_id=3)
        else:
            save_network(root / kind, network, pad_id=0, objective="electra")
    return root


def settings_of(tree: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The path of every setting, of sections as well as of what is in them."""
    for key, value in tree.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *path) for path in settings_of(value))


def change(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    first, *rest = path
    return {**tree, first: change(tree[first], tuple(rest), value) if rest else value}


def refuse(folder: Path) -> str:
    """The sentence, or nothing where the network was loaded after all; anything but an ElectraError is a traceback."""
    try:
        load_any(folder)
    except ElectraError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_may_lie_in_every_way(saved: Path, tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(saved / kind, tmp_path / "model"))
    absent = dict.fromkeys(("rope_scaling", "global_rope_theta", "problem_type", "id2label", "architectures"))
    honest = {**absent, **json.loads((folder / "config.json").read_text())}
    # A network in our own words is built from these alone.
    paths = [path for path in settings_of(honest) if path[0] == OWN or OWN not in honest]
    sentences = []
    for path in paths:
        for value in HOSTILE:
            (folder / "config.json").write_text(json.dumps(change(honest, path, value)))
            sentences.append(refuse(folder))
    assert sum(map(bool, sentences)) > len(paths)
    assert max(map(len, sentences)) < LONGEST_SENTENCE
    assert not any("\n" in sentence or "\x1b" in sentence for sentence in sentences)


def test_a_size_that_is_not_that_of_the_weights_is_refused_before_the_weights_are_read(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(saved / "modern discriminator", tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 2**20, "num_attention_heads": 2**14}))
    monkeypatch.setattr(safetensors.torch, "load_file", None)
    with pytest.raises(ElectraError, match=r"tok_embeddings.weight has the shape \(20, 8\) where config.json says"):
        load_any(folder)


def test_rotary_angles_have_a_bound(saved: Path, tmp_path: Path) -> None:
    """They cost memory for every position, which no tensor of the file would show."""
    folder = Path(shutil.copytree(saved / "modern two towers", tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    encoder = {"sequence_length": 2**20, "hidden_size": 2**20, "num_heads": 1}
    config["electralab_network"]["encoder"] |= encoder
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ElectraError, match="rotary angles; take shorter rows or more heads"):
        load_any(folder)


def test_a_long_name_in_the_weights_is_not_repeated_whole(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved / "modern two towers", tmp_path / "model"))
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file({**tensors, "x" * 100_000: next(iter(tensors.values())).clone()}, path)
    for load in (load_any, load_encoder):
        with pytest.raises(ElectraError) as error:
            load(folder)
        assert len(str(error.value)) < LONGEST_SENTENCE
