"""The copy mechanism: a mixture of what stands there and a guess, in logarithms, against probabilities in loops."""

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import exaggerate, make_pair, make_rows

from electralab.errors import ElectraError
from electralab.evaluation.blimp import choose_scoring
from electralab.model import electra
from electralab.model.electra import CopyMLM
from electralab.model.folders.folder import load_any, load_encoder, load_network, save_network
from electralab.model.weights import init_weights

ROWS = make_rows()
IS_TOKEN = (~ROWS[2]).flatten().nonzero().squeeze(1)
backbones = pytest.mark.parametrize("backbone", ["electra", "modern"])


def make_copying(backbone: str = "modern") -> CopyMLM:
    network = CopyMLM(make_pair("tiny", backbone=backbone, num_layers=2, embedding_size=48).discriminator.config)
    init_weights(network, 1)
    exaggerate(network)
    return network.eval()


def slow_probability(network: CopyMLM, state: torch.Tensor, seen: int, wanted: int) -> float:
    keep = 1 / (1 + math.exp(-float(network.gate(state))))
    scores = [math.exp(float(score)) for score in network.head(state[None], network.encoder.embeddings)[0].double()]
    return keep * (seen == wanted) + (1 - keep) * scores[wanted] / sum(scores)


@backbones
@torch.no_grad()
def test_a_token_is_what_stands_there_or_what_is_guessed(backbone: str) -> None:
    network = make_copying(backbone)
    ids, segments, is_pad = ROWS
    states = network.encoder(ids, segments, is_pad).flatten(0, 1)
    positions = torch.tensor([0, 3, 25, 30, 49])
    log_probs = network(ids, segments, is_pad, positions)
    for place, log_prob in zip(positions.tolist(), log_probs, strict=True):
        seen = int(ids.flatten()[place])
        expected = [slow_probability(network, states[place], seen, token) for token in range(100)]
        assert log_prob.exp().tolist() == pytest.approx(expected, rel=1e-4, abs=1e-9)
        assert sum(expected) == pytest.approx(1)


@backbones
@torch.no_grad()
def test_the_chance_of_targets_alone_is_that_among_all_tokens(backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_copying(backbone)
    targets = ROWS[0].flatten()[IS_TOKEN].clone()
    targets[::3] = 7  # not what stands there
    everything = network(*ROWS, IS_TOKEN).gather(1, targets[:, None]).squeeze(1)
    for chunk in (1, 5, 1024):
        monkeypatch.setattr(electra, "_CHUNK", chunk)
        alone = network.log_probs(network.encoder(*ROWS), ROWS[0], IS_TOKEN, targets)
        assert torch.allclose(alone, everything, rtol=1e-5, atol=1e-6)


def test_chunks_do_not_change_what_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_copying()
    targets = ROWS[0].flatten()[IS_TOKEN].roll(1)
    gradients = []
    for chunk in (5, 1024):
        monkeypatch.setattr(electra, "_CHUNK", chunk)
        network.zero_grad()
        network.log_probs(network.encoder(*ROWS), ROWS[0], IS_TOKEN, targets).mean().backward()  # type: ignore[no-untyped-call]
        gradients.append([parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5)


@settings(deadline=None, max_examples=15)
@given(gate=st.sampled_from([-1e4, -200.0, 0.0, 200.0, 1e4]), score=st.sampled_from([-1e4, 0.0, 1e4]))
def test_no_certainty_is_so_great_that_numbers_are_lost(gate: float, score: float) -> None:
    """A gate that is sure, and a guess that is sure, of the right token or of another."""
    network = make_copying()
    with torch.no_grad():
        network.gate.bias.fill_(gate)
        network.head.bias[9] = score
    targets = ROWS[0].flatten()[IS_TOKEN].clone()
    targets[:4] = 9
    log_probs = network.log_probs(network.encoder(*ROWS), ROWS[0], IS_TOKEN, targets)
    log_probs.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(log_probs).all()
    assert all(torch.isfinite(one.grad).all() for one in network.parameters() if one.grad is not None)


@backbones
@torch.no_grad()
def test_the_folder_is_our_own_and_comes_back_bit_for_bit(backbone: str, tmp_path: Path) -> None:
    network = make_copying(backbone)
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3, objective="all-tokens-mlm")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"].startswith("electralab-")
    assert config["electralab_objective"] == "all-tokens-mlm"
    loaded = load_any(tmp_path)
    assert isinstance(loaded, CopyMLM)
    assert torch.equal(loaded(*ROWS, IS_TOKEN), network(*ROWS, IS_TOKEN))
    assert torch.equal(load_encoder(tmp_path)(*ROWS), network.encoder(*ROWS))
    with pytest.raises(ElectraError, match="holds a copying; give a generator or a discriminator"):
        load_network(tmp_path)


def test_it_is_asked_about_the_row_as_it_is() -> None:
    assert choose_scoring(make_copying(), "all-tokens-mlm") == "unmasked"
