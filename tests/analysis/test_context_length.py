"""Windows by eye, a network that hears its neighbours alone, and curves whose reach is planted."""

from functools import partial

import numpy as np
import pytest
import torch
from little_analysis import draws
from planted_networks import LENGTH, build_networks, deafen, guesser_of, judge_of, mask_some, replace_all

from electralab.analysis.measures import context_length
from electralab.analysis.measures.context_length import (
    auc_scores,
    context_widths,
    crop_context,
    find_reach,
    lm_losses_in_context,
    mean_losses,
    measure_curve,
    measure_far,
    rtd_logits_in_context,
    select_tokens,
)
from electralab.model.electra import Generator
from electralab.model.weights import init_weights
from electralab.statistics import Interval

RNG = np.random.default_rng
ROW = torch.tensor([[2, 5, 6, 7, 8, 9, 3, 0]])  # [CLS] a b c d e [SEP] [PAD]


def cut(columns: list[int], width: int, *, is_causal: bool = False) -> list[list[int]]:
    found = crop_context(ROW, ROW * 0, ROW == 0, torch.tensor(columns), width, is_causal=is_causal)
    assert found.input_ids.flatten()[found.positions].tolist() == ROW[0, columns].tolist()
    return [ids[~is_pad].tolist() for ids, is_pad in zip(found.input_ids, found.is_pad, strict=True)]


def test_a_window_is_the_first_token_and_the_nearest() -> None:
    assert cut([3], 0) == [[2, 7]]
    assert cut([3], 1) == [[2, 6, 7, 8]]
    assert cut([1, 3, 6], 2) == [[2, 5, 6, 7], [2, 5, 6, 7, 8, 9], [2, 8, 9, 3]]
    assert cut([3], 100) == [[2, 5, 6, 7, 8, 9, 3]]


def test_a_causal_window_ends_at_the_token_asked_for() -> None:
    assert cut([1, 3, 5], 2, is_causal=True) == [[2, 5], [2, 5, 6, 7], [2, 7, 8, 9]]


@pytest.mark.parametrize("backbone", ["modern", "electra"])
def test_the_widest_window_says_what_the_whole_row_does(backbone: str) -> None:
    pair, masked = build_networks(backbone=backbone), mask_some(lengths=(9,))
    judged = partial(rtd_logits_in_context, judge_of(pair), replace_all(masked), masked.positions)
    guessed = partial(lm_losses_in_context, guesser_of(pair), masked, masked.positions)
    for ask in (judged, guessed):
        assert ask(LENGTH) == pytest.approx(ask(None), abs=1e-4)
    assert judged(1) != pytest.approx(judged(None), abs=1e-2)


def test_a_network_that_hears_its_neighbours_has_a_reach_of_one() -> None:
    pair, masked = build_networks(backbone="modern", local_attention=2, global_every=2), mask_some(12)
    judge, corrupted = judge_of(pair), replace_all(masked)
    deafen(judge.encoder, 0)  # the only global layer
    widths = [*context_widths(LENGTH), LENGTH]
    positions = torch.arange(1, 12 * LENGTH)[torch.arange(1, 12 * LENGTH) % LENGTH > 0]
    said = np.stack([rtd_logits_in_context(judge, corrupted, positions, width) for width in widths])
    assert said[1:] == pytest.approx(np.broadcast_to(said[-1], said[1:].shape), abs=1e-5)
    assert said[0] != pytest.approx(said[-1], abs=0.1)
    # What it says is the truth, which is therefore known from the neighbours on.
    truth = said[-1] > np.median(said[-1])
    found = measure_curve(auc_scores(said, truth), positions.numpy() // LENGTH, widths, draws(0))
    assert found.scores[0].value < 0.95
    assert [score.value for score in found.scores[1:]] == pytest.approx([1.0] * (len(widths) - 1))
    assert (found.reach.value, found.reach.low, found.reach.high) == (1, 1, 1)


def test_a_causal_network_is_asked_from_the_left() -> None:
    network = Generator(guesser_of(build_networks()).config.model_copy(update={"is_causal": True}))
    init_weights(network, 1)
    network.eval()
    masked = mask_some(4)
    places = masked.positions
    whole = lm_losses_in_context(network, masked, places, None)
    assert lm_losses_in_context(network, masked, places, LENGTH) == pytest.approx(whole, abs=1e-4)
    assert np.isfinite(lm_losses_in_context(network, masked, places, 0)).all()


def test_small_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, masked = build_networks(), mask_some()
    args = (judge_of(pair), replace_all(masked), masked.positions, 3)
    whole, foreign = rtd_logits_in_context(*args), rtd_logits_in_context(*args, is_foreign=True)
    monkeypatch.setattr(context_length, "_BATCH_TOKENS", 1)
    assert rtd_logits_in_context(*args) == pytest.approx(whole, abs=1e-5)
    assert rtd_logits_in_context(*args, is_foreign=True) == pytest.approx(foreign, abs=1e-5)


def test_widths_double_up_to_the_row() -> None:
    assert context_widths(8) == [0, 1, 2, 4]
    assert context_widths(128) == [0, 1, 2, 4, 8, 16, 32, 64]
    assert context_widths(2) == [0]


def test_as_many_of_both_kinds_are_chosen() -> None:
    is_replaced = np.array([[False, True, True, False, False, False], [False, False, False, False, True, False]])
    is_ordinary = np.array([[False, True, True, True, True, True]] * 2)
    chosen = select_tokens(is_replaced, is_ordinary, 1, draws(0))
    assert is_replaced.ravel()[chosen].sum() == 2
    assert len(chosen) == 4
    assert is_ordinary.ravel()[chosen].all()
    assert (np.diff(chosen) > 0).all()


def test_reach_is_where_most_is_had() -> None:
    assert find_reach([0, 1, 2, 4], np.array([0.5, 0.6, 0.69, 0.7])) == 2
    assert find_reach([0, 1, 2, 4], np.array([0.5, 0.5, 0.5, 0.7])) == 4
    assert np.isnan(find_reach([0, 1], np.array([0.5, 0.5])))


def test_a_planted_loss_has_its_gain_and_reach() -> None:
    falls = np.array([3.0, 2.0, 1.02, 1.0])
    noise = RNG(1).normal(0, 0.5, size=400)
    losses = falls[:, None] + noise - noise.mean()
    found = measure_curve(mean_losses(losses), np.arange(400) // 10, [0, 1, 2, 8], draws(0), is_loss=True)
    assert found.gain.value == pytest.approx(2)
    # The rows are the same at every width, so that their spread is not in the gain.
    assert found.gain.high - found.gain.low < 1e-9
    assert found.reach.value == 2
    assert found.scores[3].low < 1 < found.scores[3].high


def test_far_tokens_of_another_row_are_not_heard_where_only_neighbours_are_heard() -> None:
    pair, masked = build_networks(backbone="modern", local_attention=2, global_every=2), mask_some(12)
    judge, guesser = judge_of(pair), guesser_of(pair)
    judged = partial(rtd_logits_in_context, judge, replace_all(masked), masked.positions)
    guessed = partial(lm_losses_in_context, guesser, masked, masked.positions)
    for network, ask in ((judge, judged), (guesser, guessed)):
        assert ask(1, is_foreign=True) != pytest.approx(ask(None), abs=1e-3)
        deafen(network.encoder, 0)  # the only global layer
        assert ask(1, is_foreign=True) == pytest.approx(ask(None), abs=1e-5)


def test_far_context_that_is_all_there_is_to_know_has_the_whole_gain() -> None:
    truth, rows = np.tile([True, False], 200), np.arange(400) // 10
    alone, whole, astray = RNG(0).normal(size=400), truth.astype(np.float64), RNG(1).normal(size=400)
    gain, share = measure_far(auc_scores(np.stack([alone, whole, astray]), truth), rows, draws(1))
    assert gain.value == pytest.approx(0.5, abs=0.06)
    assert gain.low > 0.3
    assert share.value == pytest.approx(1.0, abs=0.15)
    same = measure_far(auc_scores(np.stack([alone, whole, whole]), truth), rows, draws(1))
    assert same == (Interval(0, 0, 0), Interval(0, 0, 0))


def test_the_share_of_far_context_is_of_what_the_row_adds_whatever_the_unit() -> None:
    """Losses of 5 nats from the token alone, 3 with the row, 3.5 with another's far text: a quarter of what it adds."""
    noise, rows = RNG(0).normal(0, 0.5, size=400), np.arange(400) // 10
    losses = np.array([5.0, 3.0, 3.5])[:, None] + noise
    gain, share = measure_far(mean_losses(losses), rows, draws(1), is_loss=True)
    assert gain.value == pytest.approx(0.5)
    assert share.value == pytest.approx(0.25)
    _, nothing = measure_far(mean_losses(losses[[1, 1, 2]]), rows, draws(1), is_loss=True)
    assert np.isnan(nothing.value), "nobody can say which part of nothing it is"
