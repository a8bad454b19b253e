"""Games won, lost, and won except where the generator is sure."""

import numpy as np
import pytest
import torch
from little_analysis import draws
from little_models import TOKENIZER
from planted_networks import build_networks, mask_some

from electralab.analysis.measures.balance import measure_auc, measure_auc_by_confidence
from electralab.analysis.measures.replacements import measure_hardening
from electralab.analysis.outputs import PairOutputs
from electralab.errors import InputError
from electralab.objective.corruption import SamplingConfig, special_token_bias
from electralab.objective.electra import ElectraOutput, electra_forward
from electralab.objective.metrics import RtdScores

RNG = np.random.default_rng


def make_game(logits: list[float], is_replaced: list[bool], confidences: list[float], rows: int = 4) -> PairOutputs:
    """The same tokens in every row."""
    said, truth = np.tile(logits, rows), np.tile(is_replaced, rows)
    sure = np.where(truth, np.tile(confidences, rows), np.nan)
    nothing = np.zeros(2)
    owners = np.repeat(np.arange(rows), len(logits))
    return PairOutputs(
        owners, said, truth, truth, sure, np.arange(2), nothing > 0, nothing, nothing, *[np.arange(2)] * 2
    )


@pytest.fixture(scope="module")
def trial() -> ElectraOutput:
    pair, masked = build_networks(), mask_some(6, lengths=(9,))
    prohibition = special_token_bias(TOKENIZER, torch.device("cpu"))
    return electra_forward(pair, masked, prohibition, SamplingConfig())


def test_a_sure_generator_hides_what_an_unsure_one_gives_away() -> None:
    # Originals at 0, replacements the higher the less sure the generator was, the last below the originals.
    game = make_game([0, 0, 3, 2, -1], [False, False, True, True, True], [0, 0, -9, -5, -1])
    found = measure_auc_by_confidence(game, draws(0))
    assert [found[name].value for name in ("unsure", "middling", "sure")] == [1, 1, 0]
    assert measure_auc(game, draws(0)).value == pytest.approx(2 / 3)


def test_what_is_watched_is_what_was_said(trial: ElectraOutput) -> None:
    game = PairOutputs.from_batch(trial)
    verdicts = RtdScores.from_logits(trial.discriminator_logits, trial.corrupted)
    assert RtdScores(game.logits.astype(np.float32), game.is_replaced).auc == verdicts.auc
    assert measure_auc(game, draws(0)).value == pytest.approx(verdicts.auc)
    assert len(game.logits) == int(trial.masked.batch.is_ordinary.sum())
    probabilities = trial.generator_logits.detach().softmax(dim=-1).double().numpy()
    expected = -(probabilities * np.log(probabilities)).sum(axis=1)
    assert game.entropies == pytest.approx(expected, abs=1e-4)
    targets = trial.masked.target_ids.numpy()
    assert game.losses == pytest.approx(-np.log(probabilities[np.arange(len(targets)), targets]), abs=1e-4)
    assert game.is_hit.tolist() == (probabilities.argmax(axis=1) == targets).tolist()
    assert np.isfinite(game.confidences).tolist() == game.is_replaced.tolist()


def test_the_confidence_of_a_replacement_is_that_of_its_draw(trial: ElectraOutput) -> None:
    game, masked = PairOutputs.from_batch(trial), trial.masked
    position = int(masked.positions[-1])  # in the last row, which has no padding before it but that of the first
    drawn = int(trial.corrupted.input_ids.flatten()[position])
    expected = float(trial.generator_logits.detach().log_softmax(dim=-1)[-1, drawn])
    is_ordinary = masked.batch.is_ordinary.numpy().ravel()
    assert game.confidences[is_ordinary[:position].sum()] == pytest.approx(expected, abs=1e-5)


def test_nothing_replaced_is_said() -> None:
    with pytest.raises(InputError, match="balance: needs at least 2 replaced tokens, got 0"):
        measure_auc(make_game([0, 1], [False, False], [0, 0]), draws(0))
    with pytest.raises(InputError, match="balance by confidence: needs at least 6 replaced tokens, got 4"):
        measure_auc_by_confidence(make_game([0, 1], [False, True], [0, 0]), draws(0))


def test_replacements_that_fool_the_judge_later_are_harder_and_the_other_way_round() -> None:
    truth = [True, True, False, False]
    told, fooled = make_game([2, 1, -1, -2], truth, [0] * 4, 40), make_game([-2, 1, -1, 2], truth, [0] * 4, 40)
    found = measure_hardening(told, fooled, draws(0))
    assert found.estimate.value == pytest.approx(1 - 0.25)
    assert found.control.low < 0 < found.control.high
    assert measure_hardening(fooled, told, draws(0)).estimate.value == pytest.approx(0.25 - 1)
    assert measure_hardening(told, told, draws(0)).estimate.value == 0
