"""Generators that know frequencies or nothing: their chances by hand, and that nothing else is drawn."""

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from toy import CLS, MASK, ORDINARY, PAD, PROHIBITION, SEP, UNK, VOCAB, ToyTokenizer

from electralab.model.electra import FixedGenerator
from electralab.model.settings import EncoderConfig, GeneratorConfig, ModelConfig
from electralab.objective import registry
from electralab.objective.corruption import SamplingConfig, sample_ids
from electralab.objective.registry import build_generator, measure_unigram
from electralab.objective.settings import ObjectiveConfig
from electralab.tokens.shards import PreparedData

ROWS = [[CLS, 5, 6, 5, 5, SEP], [CLS, 6, 5, SEP, PAD, PAD], [CLS, 8, UNK, MASK, 5, SEP]]


class ToyRows(list[list[int]]):
    def take(self, places: Any) -> Any:
        return np.array(self)[places]


def make_data(rows: list[list[int]]) -> PreparedData:
    """A data set as far as its tokens are counted."""
    tokenizer = SimpleNamespace(**vars(ToyTokenizer()), vocab_size=VOCAB)
    return cast(PreparedData, SimpleNamespace(train=ToyRows(rows), tokenizer=tokenizer))


def build(kind: str) -> FixedGenerator:
    generator = GeneratorConfig.model_validate({"kind": kind})
    config = ObjectiveConfig(model=ModelConfig(sharing="none"), generator=generator)
    made = build_generator(config, make_data(ROWS), cast(EncoderConfig, None))
    assert isinstance(made, FixedGenerator)
    return made


def chances(kind: str) -> list[float]:
    ids = torch.zeros((2, 6), dtype=torch.int64)
    guesses = build(kind)(ids, ids, None, torch.tensor([1, 4, 9]))
    assert guesses.shape == (3, VOCAB)
    assert torch.equal(guesses[0], guesses[2])
    return [round(share, 6) for share in guesses[0].exp().tolist()]


def test_a_unigram_generator_guesses_as_often_as_it_has_seen_and_once_more() -> None:
    """Ordinary are 5 to 9; 5 is there five times, 6 twice, 8 once: eight, and one more of each of the five."""
    assert chances("unigram") == [0] * 5 + [round(count / 13, 6) for count in (6, 3, 1, 2, 1)]


def test_a_uniform_generator_guesses_every_ordinary_token_alike() -> None:
    assert chances("uniform") == [0] * 5 + [0.2] * 5


def test_a_slow_count_over_all_rows_agrees() -> None:
    rows = np.random.default_rng(0).integers(0, VOCAB, (40, 6)).tolist()
    counts = Counter(token for row in rows for token in row if ORDINARY[token])
    total = sum(counts.values()) + 5
    expected = [math.log((counts[token] + 1) / total) if ORDINARY[token] else -math.inf for token in range(VOCAB)]
    assert measure_unigram(make_data(rows)).tolist() == pytest.approx(expected)


def test_of_many_rows_some_are_counted_from_all_over_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_COUNTED_ROWS", 3)
    rows = [[CLS, token, SEP] for token in (5, 5, 6, 6, 7)]  # the first, the middle and the last
    assert np.exp(measure_unigram(make_data(rows)))[5:].tolist() == pytest.approx([0.25, 0.25, 0.25, 0.125, 0.125])


@pytest.mark.parametrize("kind", ["unigram", "uniform"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 4.0}, {"top_p": 0.9}, {"allow_original": False}], ids=str)
def test_what_is_not_ordinary_is_never_drawn(kind: str, sampling: dict[str, Any]) -> None:
    guesses = build(kind)(torch.zeros(0), torch.zeros(0), None, torch.arange(2000))
    luck = torch.cat([torch.tensor([0.0, 1 - 2**-24]), torch.linspace(0, 1 - 2**-24, 1998)])
    targets = torch.full((2000,), 5)
    drawn = sample_ids(guesses, luck, PROHIBITION, SamplingConfig(**sampling), target_ids=targets)
    allowed = set(range(5, 10)) - ({5} if "allow_original" in sampling else set())
    assert set(drawn.tolist()) == allowed


def test_draws_come_as_often_as_guessed() -> None:
    guesses = build("unigram")(torch.zeros(0), torch.zeros(0), None, torch.arange(1300))
    luck = (torch.arange(1300) + 0.5) / 1300
    drawn = sample_ids(guesses, luck, PROHIBITION, SamplingConfig())
    counted = torch.bincount(drawn, minlength=VOCAB).tolist()
    assert counted == pytest.approx([0] * 5 + [600, 300, 100, 200, 100], abs=1)
