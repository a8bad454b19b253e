"""Generators that know frequencies or nothing: their chances by hand, and that nothing else is drawn."""

import doctest
import importlib
import inspect
import math
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from little_objectives import TOKENIZER, configure, make_masked
from little_pairs import FIRST, VOCAB, WORDS, counting_rows
from procedure_pairs import make, weights_of
from pydantic import ValidationError
from torch import nn
from toy import CLS, MASK, ORDINARY, PAD, PROHIBITION, SEP, UNK, ToyTokenizer
from toy import VOCAB as TOY_VOCAB

from electralab.model.electra import CopyMLM, Electra, FixedGenerator, Generator, TwoStream, build_electra
from electralab.model.settings import EncoderConfig, GeneratorConfig, ModelConfig, derive_encoders
from electralab.objective import registry
from electralab.objective.corruption import SamplingConfig, sample_ids
from electralab.objective.electra import ElectraObjective, electra_forward
from electralab.objective.losses import add_counts
from electralab.objective.metrics import loss_metrics
from electralab.objective.objective import Objective, StepInfo
from electralab.objective.registry import build_generator, measure_unigram
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.shards import PreparedData

ROWS = [[CLS, 5, 6, 5, 5, SEP], [CLS, 6, 5, SEP, PAD, PAD], [CLS, 8, UNK, MASK, 5, SEP]]


class ToyRows(list[list[int]]):
    def take(self, places: Any) -> Any:
        return np.array(self)[places]


def make_data(rows: list[list[int]]) -> PreparedData:
    """A data set as far as its tokens are counted."""
    tokenizer = SimpleNamespace(**vars(ToyTokenizer()), vocab_size=TOY_VOCAB)
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
    assert guesses.shape == (3, TOY_VOCAB)
    assert torch.equal(guesses[0], guesses[2])
    return [round(share, 6) for share in guesses[0].exp().tolist()]


def test_a_unigram_generator_guesses_as_often_as_it_has_seen_and_once_more() -> None:
    """Ordinary are 5 to 9; 5 is there five times, 6 twice, 8 once: eight, and one more of each of the five."""
    assert chances("unigram") == [0] * 5 + [round(count / 13, 6) for count in (6, 3, 1, 2, 1)]


def test_a_uniform_generator_guesses_every_ordinary_token_alike() -> None:
    assert chances("uniform") == [0] * 5 + [0.2] * 5


def test_a_slow_count_over_all_rows_agrees() -> None:
    rows = np.random.default_rng(0).integers(0, TOY_VOCAB, (40, 6)).tolist()
    counts = Counter(token for row in rows for token in row if ORDINARY[token])
    total = sum(counts.values()) + 5
    expected = [math.log((counts[token] + 1) / total) if ORDINARY[token] else -math.inf for token in range(TOY_VOCAB)]
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
    counted = torch.bincount(drawn, minlength=TOY_VOCAB).tolist()
    assert counted == pytest.approx([0] * 5 + [600, 300, 100, 200, 100], abs=1)


# -------------------- Each kind of network learns rows that count, where frequencies know nothing: all are equal

SHARE = 0.2


def guessing(kind: str, sharing: str = "token") -> ElectraObjective:
    return make("joint", sharing=sharing, width=1.0, kind=kind, model={"num_layers": 1})


def judging(**model: Any) -> ElectraObjective:
    """Against draws by frequency, as counted in the rows."""
    objective = make("joint", width=0.5, model={"num_layers": 1} | model)
    counts = np.bincount(counting_rows(WORDS).original_ids.flatten().numpy(), minlength=VOCAB)[FIRST:]
    log_shares = torch.full((VOCAB,), -torch.inf)
    log_shares[FIRST:] = torch.from_numpy(counts / counts.sum()).log()
    objective.networks.generator = FixedGenerator(log_shares)
    return objective


GUESSING: dict[str, Callable[[], Objective[Any]]] = {
    "mlm": lambda: make_masked(model={"num_layers": 1, "init_std": 0.1}),
    "causal generator": lambda: guessing("causal"),
    "two towers": lambda: guessing("two-tower"),
    "disentangled": lambda: guessing("transformer", "disentangled"),
}
JUDGING: dict[str, Callable[[], ElectraObjective]] = {
    "unigram generator": judging,
    "discrepancy attention": lambda: judging(discrepancy_attention=True),
    "adaptive norm": lambda: judging(adaptive_norm=True),
}


def learn(objective: Objective[Any], steps: int) -> None:
    optimizer = torch.optim.Adam(objective.networks.parameters(), lr=1e-2)
    for step in range(1, steps + 1):
        moment = StepInfo(step, steps)
        objective.on_step_start(moment)
        questions = objective.make_inputs(counting_rows(WORDS), WORDS, SHARE, Rng(3, step))
        counts = add_counts(objective.count_targets(question) for question in questions)
        optimizer.zero_grad()
        for question in questions:
            objective.training_step(question, moment).losses.weigh(counts, objective.weights).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(objective.networks.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def judge(objective: Objective[Any]) -> dict[str, float]:
    """By masks and draws that training has not seen."""
    (question,) = objective.make_inputs(counting_rows(WORDS), WORDS, SHARE, Rng(3, 999))
    answer = objective.evaluation_step(question)
    seen = answer.metrics + loss_metrics(answer.losses, objective.count_targets(question))
    return seen.describe("auc")


@pytest.mark.parametrize("kind", GUESSING)
def test_guesses_learn_to_count(kind: str) -> None:
    objective = GUESSING[kind]()
    loss = f"{objective.lm_loss_name}_loss"
    assert judge(objective)[loss] > 0.9 * math.log(WORDS)
    learn(objective, 60)
    assert judge(objective)[loss] < 0.5 * math.log(WORDS)


@pytest.mark.parametrize("kind", JUDGING)
def test_verdicts_learn_what_does_not_count(kind: str) -> None:
    objective = JUDGING[kind]()
    before = weights_of(objective.networks)
    assert judge(objective)["auc"] < 0.6
    learn(objective, 60)
    assert judge(objective)["auc"] > 0.85
    # Among them what the option adds, which begins as nothing.
    assert all(not torch.equal(weight, before[name]) for name, weight in weights_of(objective.networks).items())


# -------------------- What is written about objectives is so: their examples run, and ARCHITECTURE.md quotes the

ROOT = Path(__file__).parents[2]


def tiny_encoder(**more: Any) -> EncoderConfig:
    config = configure("mlm")
    _, encoder = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=16)
    return encoder.model_copy(update=more)


def tiny_pair(kind: Any = "transformer") -> Electra:
    sharing = "token" if kind == "two-tower" else "embeddings"
    model = configure("electra", model={"sharing": sharing}).model
    generator = GeneratorConfig(width_share=0.5, kind=kind)
    return build_electra(model, generator, vocab_size=VOCAB, sequence_length=16, seed=0)


def tiny_objective(name: str, **more: Any) -> ObjectiveConfig:
    if name == "electric":
        two_tower = GeneratorConfig(width_share=0.5, kind="two-tower")
        sharing = configure("electra", model={"sharing": "token"}).model
        return ObjectiveConfig(objective="electric", model=sharing, generator=two_tower, **more)
    return configure(name, **more)


def tiny_batch() -> Batch:
    return counting_rows(4, 8)


NAMES = {
    **{name: value for name, value in globals().items() if name.startswith("tiny_")},
    "tiny_tokenizer": lambda: TOKENIZER,
    **{thing.__name__: thing for thing in (Generator, CopyMLM, TwoStream, Rng, StepInfo)},
    "torch": torch,
}


@pytest.mark.parametrize("module", ["electra", "electric", "language_models", "procedures"])
def test_the_examples_of_objectives_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"electralab.objective.{module}"), extraglobs=NAMES)
    assert results.attempted > 0
    assert results.failed == 0


def test_no_objective_is_without_an_example() -> None:
    kinds, lacking = [*Objective.__subclasses__()], []
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("electralab.") and ">>>" not in (kind.__doc__ or ""):
            lacking.append(kind.__name__)
    assert lacking == ["LanguageModelObjective"]  # what language models share, and no objective by itself


def test_the_architecture_quotes_the_heart_as_it_is() -> None:
    lines = inspect.getsource(electra_forward).splitlines()
    body = lines[next(number for number, line in enumerate(lines) if line.startswith('    """')) + 1 :]
    assert textwrap.dedent("\n".join(body)) in (ROOT / "ARCHITECTURE.md").read_text()


# ---------------------------------------- An option of the discriminator where there is none is refused by name


@pytest.mark.parametrize("option", ["discrepancy_attention", "adaptive_norm"])
@pytest.mark.parametrize("objective", ["mlm", "bert", "causal", "replace-mlm", "all-tokens-mlm", "permutation"])
def test_an_option_of_the_discriminator_needs_one(objective: Any, option: str) -> None:
    expected = (
        f"model.{option} is an option of the discriminator, which objective '{objective}' does not have; unset it"
    )
    with pytest.raises(ValidationError, match=expected):
        ObjectiveConfig(objective=objective, model=ModelConfig(**{option: True}), generator=GeneratorConfig())


@pytest.mark.parametrize("objective", ["electra", "electra-15"])
def test_a_pair_takes_all_of_them(objective: Any) -> None:
    model = ModelConfig(discrepancy_attention=True, adaptive_norm=True, share_layers=True, sharing="disentangled")
    assert ObjectiveConfig(objective=objective, model=model, generator=GeneratorConfig()).model == model


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("unigram", "nothing to share"), ("two-tower", "model.sharing 'disentangled' means nothing between two towers")],
)
def test_a_table_is_disentangled_from_that_of_one_encoder(kind: Any, expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        ObjectiveConfig(model=ModelConfig(sharing="disentangled"), generator=GeneratorConfig(kind=kind))
