"""A disentangled pair starts from two folders as the pair that was saved there."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch

from electralab.config import SettingsTree
from electralab.model.electra import Discriminator, Electra, build_electra
from electralab.model.folders.folder import save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.objective.objective import Objective
from electralab.pretraining.cost import placeholder_data
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.warm_start import load_pretrained

SIZES: SettingsTree = {"embedding_size": 16, "hidden_size": 32, "num_layers": 2, "num_heads": 2, "feedforward_size": 32}

DATA = placeholder_data(resolve_pretrain([]), 64, 8)


class Exporter:
    """Of an objective only what it exports."""

    def __init__(self, pair: Electra) -> None:
        self.pair = pair

    def exports(self) -> dict[str, Any]:
        return {"discriminator": self.pair.discriminator, "generator": self.pair.generator}


def make_pair(seed: int, backbone: str, sharing: str) -> Electra:
    model = ModelConfig.model_validate(SIZES | {"backbone": backbone, "sharing": sharing})
    generator = GeneratorConfig(width_share=0.5)
    return build_electra(model, generator, vocab_size=DATA.tokenizer.vocab_size, sequence_length=8, seed=seed).eval()


def judge(network: Discriminator) -> torch.Tensor:
    ids = torch.arange(16).view(2, 8)
    verdicts: torch.Tensor = network(ids, torch.zeros_like(ids), None)
    return verdicts


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@pytest.mark.parametrize("sharing", ["disentangled", "none"])
@torch.no_grad()
def test_both_tables_are_those_of_the_folders(backbone: str, sharing: str, tmp_path: Path) -> None:
    saved = make_pair(1, backbone, sharing)
    for name in ("discriminator", "generator"):
        save_network(tmp_path / name, getattr(saved, name), pad_id=0)
        DATA.tokenizer.save(tmp_path / name)
    begun = make_pair(2, backbone, "disentangled")
    assert load_pretrained(tmp_path, cast("Objective[Any]", Exporter(begun)), DATA) == []
    assert torch.allclose(judge(begun.discriminator), judge(saved.discriminator), atol=1e-5)
    where = torch.arange(4)
    ids = torch.arange(8)[None]
    rows = (ids, torch.zeros_like(ids), None, where)
    assert torch.allclose(begun.generator(*rows), saved.generator(*rows), atol=1e-5)
