"""Networks through which nothing passes from token to token, and one whose gradient is found by pushing."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from little_analysis import draws
from planted_networks import build_networks, deafen, guesser_of, judge_of, mask_some, replace_all

from electralab.analysis.measures import gradients
from electralab.errors import InputError
from electralab.model.electra import Generator, TwoTower
from electralab.model.weights import init_weights

RNG = np.random.default_rng


def make_flow(*rows: list[float]) -> gradients.GradientFlow:
    """Pulls as they are, nothing masked or replaced."""
    norms = np.array(rows, dtype=np.float64)
    pulls = (norms / norms.mean(axis=1, keepdims=True)).ravel()
    nowhere = np.zeros(len(pulls), dtype=bool)
    return gradients.GradientFlow(pulls, np.repeat(np.arange(len(rows)), norms.shape[1]), nowhere, nowhere)


def figures_of(flow: gradients.GradientFlow) -> dict[str, float]:
    return {finding.id: finding.estimate.value for finding in gradients.flow_findings(flow, draws(0))}


@pytest.mark.parametrize("backbone", ["modern", "electra"])
def test_a_guess_pulls_at_masked_tokens_alone_where_no_token_hears_another(backbone: str) -> None:
    pair, masked = build_networks(backbone=backbone), mask_some(lengths=(10,))
    deafen(guesser_of(pair).encoder)
    flow = gradients.lm_gradients(guesser_of(pair), masked)
    assert (flow.grad_norms[~flow.is_masked] == 0).all()
    assert (flow.grad_norms[flow.is_masked] > 0).all()
    assert flow.is_masked.sum() == len(masked.positions)
    figures = figures_of(flow)
    assert figures["tokens_reached"] == pytest.approx(flow.is_masked.mean())
    assert figures["pull_unmasked"] == 0


def test_a_verdict_pulls_at_every_token_where_no_token_hears_another() -> None:
    pair, masked = build_networks(), mask_some(lengths=(10,))
    deafen(judge_of(pair).encoder)
    flow = gradients.rtd_gradients(judge_of(pair), replace_all(masked))
    assert len(flow.grad_norms) == masked.batch.token_count
    assert (flow.grad_norms > 0).all()
    assert (flow.is_replaced == flow.is_masked).all()


def test_a_judge_of_masked_tokens_alone_pulls_there_alone() -> None:
    pair, masked = build_networks(), mask_some()
    deafen(judge_of(pair).encoder)
    flow = gradients.rtd_gradients(judge_of(pair), replace_all(masked), only_masked=True)
    assert ((flow.grad_norms > 0) == flow.is_masked).all()


def test_attention_carries_the_pull_to_tokens_without_a_loss() -> None:
    flow = gradients.lm_gradients(guesser_of(build_networks()), mask_some())
    assert (flow.grad_norms > 0).all()


def test_the_pull_is_what_pushing_a_tokens_vector_changes() -> None:
    pair, masked = build_networks(verdict_head="linear", embedding_size=4, hidden_size=4), mask_some(2)
    judge, corrupted = judge_of(pair).double(), replace_all(masked)
    flow = gradients.rtd_gradients(judge, corrupted)

    embeddings = judge.encoder.embeddings
    plain = embeddings.forward(corrupted.input_ids, masked.batch.segment_ids).detach()

    def find_loss(vectors: torch.Tensor) -> float:
        handle = embeddings.register_forward_hook(lambda *_: vectors)
        with torch.inference_mode():
            verdicts = judge(corrupted.input_ids, masked.batch.segment_ids, None)
        handle.remove()
        return float(F.binary_cross_entropy_with_logits(verdicts, corrupted.is_replaced.double(), reduction="sum"))

    norms = torch.zeros(plain.shape[1], dtype=torch.float64)
    for column in range(plain.shape[1]):
        for coordinate in range(plain.shape[2]):
            push = torch.zeros_like(plain)
            push[0, column, coordinate] = 1e-5
            norms[column] += ((find_loss(plain + push) - find_loss(plain - push)) / 2e-5) ** 2
    norms = norms.sqrt()
    assert flow.grad_norms[flow.rows == 0] == pytest.approx((norms / norms.mean()).numpy(), rel=1e-4)


def test_a_causal_network_has_a_loss_at_all_but_the_last_token() -> None:
    config = guesser_of(build_networks()).config.model_copy(update={"is_causal": True})
    network = Generator(config)
    init_weights(network, 1)
    flow = gradients.lm_gradients(network.eval(), mask_some(2))
    # Nothing is guessed from the last token, and nobody after it could look back at it.
    assert flow.grad_norms.reshape(2, -1)[:, -1].tolist() == [0, 0]
    assert not flow.is_masked.any()


def test_towers_are_refused() -> None:
    towers = TwoTower(guesser_of(build_networks()).config)
    with pytest.raises(InputError, match="gradient flow: a two-tower generator"):
        gradients.lm_gradients(towers, mask_some(2))


def test_an_even_pull_has_every_token_and_an_uneven_one_few() -> None:
    even, uneven = (
        make_flow([2.0] * 8, [3.0] * 8),
        make_flow([1.0, 1.0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 5.0, 5.0, 0, 0]),
    )
    assert figures_of(even) == pytest.approx({"effective_tokens": 1, "tokens_reached": 1})
    assert figures_of(uneven) == pytest.approx({"effective_tokens": 2 / 8, "tokens_reached": 2 / 8})


def test_the_pull_of_all_tokens_is_one() -> None:
    flow = gradients.lm_gradients(guesser_of(build_networks()), mask_some())
    figures, share = figures_of(flow), flow.is_masked.mean()
    assert share * figures["pull_masked"] + (1 - share) * figures["pull_unmasked"] == pytest.approx(1)


def test_batches_one_after_the_other_are_as_one() -> None:
    generator, masked = guesser_of(build_networks()), mask_some(6)
    parts = [make_flow([1.0, 3.0]), make_flow([2.0, 2.0], [4.0, 0.0])]
    assert gradients.GradientFlow.concat(parts).rows.tolist() == [0, 0, 1, 1, 2, 2]
    whole = gradients.lm_gradients(generator, masked)
    assert gradients.GradientFlow.concat([whole, whole]).num_rows == 12
