"""What a run would cost: against torch's own counter, against networks with weights, and against the paper."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from electralab.config import ConfigLayer
from electralab.errors import UsageError
from electralab.objective.losses import add_counts
from electralab.objective.objective import StepInfo
from electralab.objective.registry import build_objective
from electralab.pretraining.cost import choose_rows, estimate_cost, paper_runs, placeholder_data
from electralab.pretraining.settings import PretrainConfig, resolve_pretrain
from electralab.randomness import Rng
from electralab.records.run import Budget, CostEstimate
from electralab.tokens.batches import make_batch

ROWS, LENGTH, VOCABULARY = 4, 32, 100
PAIR = {"sharing": "embeddings"}


def configure(**changes: Any) -> PretrainConfig:
    small: dict[str, Any] = {
        "steps": 50,
        "model": {"num_layers": 2, "hidden_size": 32, "embedding_size": 32, "num_heads": 2, "feedforward_size": 48},
        "batch": {"size": ROWS},
    }
    for section, values in changes.items():
        small[section] = {**small.get(section, {}), **values} if isinstance(values, dict) else values
    return resolve_pretrain([ConfigLayer("test", small)])


def account_of(config: PretrainConfig, budget: Budget | None = None) -> CostEstimate:
    data = placeholder_data(config, VOCABULARY, LENGTH)
    return estimate_cost(config, data, budget or Budget("steps", float(config.steps)))


def count_by_torch(config: PretrainConfig) -> int:
    """One real step, its matrix products counted as they happen."""
    data = placeholder_data(config, VOCABULARY, LENGTH)
    device = torch.device("cpu")
    objective = build_objective(config, data, 0, device)
    special = data.tokenizer.special
    ids = np.random.default_rng(0).integers(10, VOCABULARY, (ROWS, LENGTH))
    ids[:, 0], ids[:, -1] = special.cls, special.sep
    batch = make_batch(ids, data.tokenizer, is_pairs=False)
    (question,) = objective.make_inputs(batch, ROWS, config.masking.mask_share, Rng(0, 1))
    moment = StepInfo(1, 100)
    objective.on_step_start(moment)
    counts = add_counts([objective.count_targets(question)])
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        loss = objective.training_step(question, moment).losses.weigh(counts, objective.weights)
        loss.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


@pytest.mark.parametrize(
    "changes",
    [
        {"model": PAIR, "generator": {"width_share": 0.5}},
        {"model": PAIR | {"backbone": "electra", "embedding_size": 16}, "generator": {"width_share": 0.5}},
        {"model": {"adaptive_norm": True, "sharing": "token"}},
        {"model": {"adaptive_norm": True, "sharing": "token", "backbone": "electra"}},
        {"model": {"share_layers": True, "sharing": "none"}},
        {"model": {"sharing": "disentangled"}},
        {"objective": "mlm"},
        {"objective": "mlm", "model": {"backbone": "electra", "embedding_size": 16}},
        {"objective": "causal"},
        {"generator": {"kind": "causal"}},
        {"generator": {"kind": "two-tower", "width_share": 0.5}},
        {"generator": {"kind": "unigram"}},
    ],
    ids=str,
)
def test_torch_counts_the_same_in_a_real_step(changes: dict[str, Any]) -> None:
    config = configure(**changes)
    account = account_of(config)
    assert account.step_flops == pytest.approx(count_by_torch(config), rel=0.01)
    # What is spent on each part, three times over, is the step: nothing was left out or counted twice.
    parts = sum(sum(of.values()) for of in account.forward.values())
    assert 3 * parts * ROWS * LENGTH == pytest.approx(account.step_flops, rel=1e-3)
    assert account.other == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"model": PAIR, "generator": {"width_share": 0.5}},
        {"objective": "mlm", "model": {"share_layers": True}},
        {"generator": {"kind": "two-tower"}},
    ],
    ids=str,
)
def test_an_outline_has_the_parameters_of_the_networks(changes: dict[str, Any]) -> None:
    config = configure(**changes)
    built = build_objective(config, placeholder_data(config, VOCABULARY, LENGTH), 0, torch.device("cpu"))
    account = account_of(config)
    assert account.total_parameters == sum(parameter.numel() for parameter in built.networks.parameters())


def test_parameters_are_counted_by_network_and_part() -> None:
    """Vocabulary 100, width 32: the table and its norm; a shared one is the discriminator's."""
    parts = account_of(configure(model=PAIR, generator={"width_share": 0.5})).parameters
    assert parts["discriminator"]["embeddings"] == 100 * 32 + 32
    assert parts["generator"]["embeddings"] == 32 * 16 + 16  # the way from the table to its width, and its norm
    assert parts["discriminator"]["head"] == 32 * 32 + 32 + 33


def test_sharing_layers_saves_parameters_and_no_flops() -> None:
    plain, shared = (account_of(configure(objective="mlm", model={"share_layers": share})) for share in (False, True))
    assert shared.total_parameters < plain.total_parameters
    assert shared.step_flops == plain.step_flops


def test_weighing_discrepancies_takes_one_more_coordinate_of_each_head() -> None:
    """Two layers of two heads, in scores and sums of the discriminator, which is also run backward."""
    plain, weighed = (
        account_of(configure(model={"sharing": "token", "discrepancy_attention": weigh})) for weigh in (False, True)
    )
    coordinates = 2 * 2 * LENGTH
    assert weighed.step_flops - plain.step_flops == 3 * ROWS * LENGTH * 2 * 2 * coordinates


@pytest.mark.parametrize(
    ("budget", "steps"), [(Budget("steps", 7.0), 7), (Budget("tokens", 1000.0), 7), (Budget("flops", 1.0), 1)]
)
def test_a_budget_buys_whole_steps_and_at_least_one(budget: Budget, steps: int) -> None:
    account = account_of(configure(), budget)
    assert account.steps == steps
    assert account.tokens == steps * ROWS * LENGTH
    assert account.flops == pytest.approx(steps * account.step_flops, rel=1e-6)


def test_the_paper_has_a_convention_for_electra_and_bert_only() -> None:
    assert account_of(configure()).paper_flops is not None
    assert account_of(configure(objective="mlm")).paper_flops is not None
    assert account_of(configure(objective="causal")).paper_flops is None
    assert account_of(configure(generator={"kind": "unigram"})).paper_flops is None


def test_the_papers_runs_cost_what_was_published() -> None:
    runs = paper_runs().runs
    assert list(runs) == [
        *("ELECTRA-Small", "BERT-Small", "ELECTRA-Base", "BERT-Base", "ELECTRA-400K", "ELECTRA-1.75M"),
    ]
    for model, run in runs.items():
        assert run.ratio == pytest.approx(1.0, abs=0.01), model
    assert runs["ELECTRA-Small"].parameters == pytest.approx(14e6, rel=0.02)


def test_data_and_sizes_are_not_both_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has a vocabulary and a row length of its own"):
        choose_rows(configure(), tmp_path, 100, None)


def test_sizes_that_are_not_given_are_those_of_preparing() -> None:
    price = estimate_cost(configure(), choose_rows(configure(), None, None, None), Budget("steps", 3.0), 1e9)
    assert (price["vocab_size"], price["sequence_length"], price["steps"]) == (8192, 128, 3)
    assert price["estimated_minutes"] > 0
    assert price["memory_bytes"] > 400 * 2**20


@pytest.mark.parametrize("final", [0.05, 0.3])
@pytest.mark.parametrize("objective", ["electra", "mlm"])
def test_a_mask_share_that_changes_is_no_other_task(objective: str, final: float) -> None:
    account = account_of(configure(objective=objective, masking={"mask_share": 0.15, "final_mask_share": final}))
    assert account.other == 0
    typical = account_of(configure(objective=objective, masking={"mask_share": (0.15 + final) / 2}))
    assert account.forward == typical.forward


def table_rows(page: str, columns: int) -> list[list[str]]:
    """The rows of a page's table about sizes, as they are written."""
    text = (Path(__file__).parents[2] / "docs" / "objectives" / page).read_text(encoding="utf-8")
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line]
    rows = [row for row in cells if row[0] in ("tiny", "small", "base") and len(row) == columns]
    assert len(rows) == 3
    return rows


def whole_account(size: str, objective: str, vocabulary: int) -> CostEstimate:
    config = resolve_pretrain([ConfigLayer("test", {"size": size, "objective": objective})])
    return estimate_cost(config, placeholder_data(config, vocabulary, 128), Budget("steps", 1.0))


def test_the_page_of_all_tokens_mlm_says_what_a_step_costs() -> None:
    for size, words, all_tokens, electra in table_rows("all-tokens-mlm.md", 4):
        vocabulary = int(words.replace(",", ""))
        mlm = whole_account(size, "mlm", vocabulary).step_flops
        for objective, written in (("all-tokens-mlm", all_tokens), ("electra", electra)):
            assert f"{whole_account(size, objective, vocabulary).step_flops / mlm:.2f}" == written, (size, objective)


def test_the_page_of_albert_says_what_it_saves() -> None:
    for size, mlm, albert, cost in table_rows("albert.md", 4):
        wide, narrow = whole_account(size, "mlm", 8192), whole_account(size, "albert", 8192)
        assert (f"{wide.total_parameters:,}", f"{narrow.total_parameters:,}") == (mlm, albert)
        assert f"{narrow.step_flops / wide.step_flops:.2f}" == cost
