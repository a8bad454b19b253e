"""Each loss beside the pair's own, against a slow twin in loops; what it adds, and what it must leave alone."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from little_pairs import CPU, FIRST, VOCAB, WORDS, batch_of, count_row, counting_rows, make_objective
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from toy import CLS, PAD, SEP

from electralab.errors import UsageError
from electralab.model.electra import Generator, copy_log_probs
from electralab.model.flops import count_masked
from electralab.model.settings import GeneratorKind
from electralab.objective.auxiliary import (
    AuxiliaryInputs,
    BagOfWords,
    CorrectiveLM,
    MultiChoiceCloze,
    contrast_loss,
    crop_rows,
    sample_negatives,
    sequence_loss,
)
from electralab.objective.electra import ElectraObjective
from electralab.objective.losses import LossConfig, add_counts
from electralab.objective.masking import MaskedBatch
from electralab.objective.objective import StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng

NAMES = ("correction", "selection", "contrast", "sequence", "bag")
NOW = StepInfo(1, 10)
PROHIBITION = torch.where(torch.arange(VOCAB) < FIRST, -torch.inf, 0.0)
each_task = pytest.mark.parametrize("name", NAMES)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pose(objective: ElectraObjective, rows: int = 6, micro_size: int = 6) -> list[MaskedBatch]:
    return list(objective.make_inputs(counting_rows(rows), micro_size, 0.25, Rng(3, 1)))


def with_task(
    name: str, weight: float = 1.0, *, kind: GeneratorKind = "transformer", model: Any = None, **loss: float
) -> ElectraObjective:
    return make_objective({f"{name}_weight": weight, **loss}, kind=kind, model=model)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


def test_correction_without_a_gate_is_a_language_model_of_the_corrupted_row() -> None:
    objective = make_objective({"correction_weight": 1.0, "correction_gate": False})
    task = objective.auxiliaries["correction"]
    assert not [name for name, _ in task.named_parameters() if "gate" in name]
    seen: list[tuple[AuxiliaryInputs, Tensor]] = []

    def keep(_task: nn.Module, given: tuple[AuxiliaryInputs], loss: Tensor) -> None:
        seen.append((given[0], loss))

    task.register_forward_hook(keep)
    objective.training_step(pose(objective)[0], NOW)
    scene, loss = seen[0]
    assert isinstance(task, CorrectiveLM)
    states = scene.states.flatten(0, 1)[scene.corrupted.masked.positions]
    logits = task.guess(states, objective.networks.discriminator.encoder.embeddings)
    expected = torch.nn.functional.cross_entropy(logits, scene.corrupted.masked.target_ids, reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_correction_keeps_what_is_shown_or_names_a_token() -> None:
    guesses, gates = 2 * noise(6, 5), noise(6, seed=1)
    shown, target = torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([0, 1, 0, 0, 4, 2])
    expected = 0.0
    for row in range(6):
        keep = 1 / (1 + math.exp(-float(gates[row])))
        likely = math.exp(float(guesses[row, target[row]])) / sum(math.exp(float(one)) for one in guesses[row])
        probability = keep * (shown[row] == target[row]).item() + (1 - keep) * likely
        expected -= math.log(probability)
    assert float(-copy_log_probs(guesses, gates, shown, target).sum()) == pytest.approx(expected, rel=1e-5)


def test_a_gate_that_is_sure_leaves_no_infinity() -> None:
    gates = torch.tensor([1e3, 1e3, -1e3], requires_grad=True)
    guesses = torch.zeros(3, 5, requires_grad=True)
    loss = -copy_log_probs(guesses, gates, torch.tensor([0, 1, 2]), torch.tensor([0, 0, 2])).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0 + 1e3 + math.log(5) + math.log(5))
    assert gates.grad is not None
    assert guesses.grad is not None
    assert bool(gates.grad.isfinite().all() & guesses.grad.isfinite().all())


def test_negatives_are_drawn_one_after_the_other_from_those_left() -> None:
    guesses, uniforms = 2 * noise(9, VOCAB), torch.rand(9, 4, generator=torch.Generator().manual_seed(2))
    target_ids = torch.arange(9) + FIRST
    drawn = sample_negatives(guesses, uniforms, PROHIBITION, target_ids)
    for row in range(9):
        left = {token: math.exp(float(guesses[row, token])) for token in range(FIRST, VOCAB)}
        del left[int(target_ids[row])]
        for number in range(4):
            aim = float(uniforms[row, number]) * sum(left.values())
            passed = np.cumsum(list(left.values()))
            expected = [*left][int((passed > aim).argmax())]
            assert int(drawn[row, number]) == expected
            del left[expected]


@given(st.lists(st.floats(0, 1, exclude_max=True, width=32), min_size=6, max_size=6), st.integers(FIRST, VOCAB - 1))
def test_negatives_are_distinct_ordinary_and_not_the_target(luck: list[float], target: int) -> None:
    flat, sure, narrow = torch.zeros(VOCAB), torch.zeros(VOCAB), torch.full((VOCAB,), -torch.inf)
    sure[target] = sure[FIRST] = 200.0  # all else is beyond float32 beside these
    narrow[target] = 0.0  # as of a unigram generator that has seen one token only
    guesses = torch.stack([flat, sure, narrow])
    drawn = sample_negatives(guesses, torch.tensor([luck] * 3), PROHIBITION, torch.full((3,), target))
    for row in drawn.tolist():
        assert len(set(row)) == 6
        assert target not in row
        assert min(row) >= FIRST


def test_selection_chooses_by_dot_products_with_the_candidates_vectors() -> None:
    objective = with_task("selection", selection_negatives=3)
    (question,) = pose(objective)
    head, judge = objective.auxiliaries["selection"], objective.networks.discriminator
    assert isinstance(head, MultiChoiceCloze)
    with torch.no_grad():
        head.projection.weight.copy_(noise(32, 32))
        trial = objective.forward(question, 0.0)
        batch = question.batch
        states = judge.encoder(trial.corrupted.input_ids, batch.segment_ids, None).flatten(0, 1)
        negatives = sample_negatives(
            trial.generator_logits, question.selection_uniforms, PROHIBITION, question.target_ids
        )
        expected = 0.0
        for row, position in enumerate(question.positions.tolist()):
            wanted = head.projection.weight @ states[position]
            candidates = [int(question.target_ids[row]), *negatives[row].tolist()]
            scores = [float(wanted @ judge.encoder.embeddings.tokens.weight[token]) for token in candidates]
            expected -= scores[0] - math.log(sum(math.exp(score) for score in scores))
    assert float(trial.losses.sums["selection"]) == pytest.approx(expected, rel=1e-4)


def test_contrast_sets_the_original_against_the_replaced() -> None:
    states, positives = noise(5, 4), noise(5, 4, seed=1)
    is_replaced = torch.tensor([True, False, True, True, False])
    expected = 0.0
    for i in range(5):
        own = math.exp(cosine(states[i], positives[i]) / 0.3)
        others = [math.exp(cosine(states[i], states[j]) / 0.3) for j in range(5) if is_replaced[j] and j != i]
        expected -= math.log(own / (own + sum(others)))
    assert float(contrast_loss(states, positives, is_replaced, 0.3)) == pytest.approx(expected, rel=1e-5)


def test_without_replaced_tokens_there_is_nothing_to_contrast() -> None:
    states = noise(3, 4).requires_grad_()
    loss = contrast_loss(states, noise(3, 4, seed=1), torch.zeros(3, dtype=torch.bool), 0.1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert states.grad is not None
    assert not states.grad.any()


def test_contrast_looks_at_the_same_places_of_the_original_rows() -> None:
    objective = with_task("contrast", contrast_temperature=0.5)
    (question,) = pose(objective)
    batch = question.batch
    with torch.no_grad():
        trial = objective.forward(question, 0.0)
        encoder = objective.networks.discriminator.encoder
        shown = encoder(trial.corrupted.input_ids, batch.segment_ids, None).flatten(0, 1)[question.positions]
        meant = encoder(batch.original_ids, batch.segment_ids, None).flatten(0, 1)[question.positions]
        is_replaced = trial.corrupted.is_replaced.flatten()[question.positions]
    expected = contrast_loss(shown, meant, is_replaced, 0.5)
    assert float(trial.losses.sums["contrast"]) == pytest.approx(float(expected), rel=1e-5)


def test_sequence_sets_a_rows_crop_against_both_views_of_others() -> None:
    corrupted, cropped = noise(4, 6), noise(4, 6, seed=1)
    expected = 0.0
    for i in range(4):
        own = math.exp(cosine(corrupted[i], cropped[i]) / 0.7)
        others = [
            math.exp(cosine(corrupted[i], view[j]) / 0.7) for j in range(4) for view in (cropped, corrupted) if j != i
        ]
        expected -= math.log(own / (own + sum(others)))
    assert float(sequence_loss(corrupted, cropped, 0.7)) == pytest.approx(expected, rel=1e-5)


def test_a_crop_keeps_both_ends_and_nine_tenths_between() -> None:
    long, short = count_row(0, 12), [*count_row(0, 4), *[PAD] * 8]
    empty = [CLS, SEP, *[PAD] * 10]
    batch = batch_of([long, long, short, empty])
    ids, segments, is_pad = crop_rows(batch, torch.tensor([0.0, 0.99, 0.99, 0.5]), PAD)
    assert ids.tolist() == [
        [CLS, *range(FIRST, FIRST + 9), SEP, PAD],
        [CLS, *range(FIRST + 1, FIRST + 10), SEP, PAD],
        short,
        empty,
    ]
    assert is_pad.tolist() == (ids == PAD).tolist()
    assert not segments.any()


@given(st.integers(2, 16), st.floats(0, 1, exclude_max=True, width=32))
def test_every_crop_is_a_run_of_its_row(length: int, luck: float) -> None:
    row = [*count_row(3, length), *[PAD] * (16 - length)]
    ids, _, is_pad = crop_rows(batch_of([row]), torch.tensor([luck]), PAD)
    kept = ids[0, ~is_pad[0]].tolist()
    assert (kept[0], kept[-1]) == (CLS, SEP)
    assert len(kept) - 2 == math.floor(0.9 * (length - 2) + 0.5)
    between, text = kept[1:-1], row[1 : length - 1]
    assert any(text[start : start + len(between)] == between for start in range(len(text) - len(between) + 1))


def test_a_weight_of_zero_adds_nothing() -> None:
    plain, off = make_objective(), make_objective({f"{name}_weight": 0.0 for name in NAMES})
    names = [name for name, _ in plain.networks.named_parameters()]
    assert [name for name, _ in off.networks.named_parameters()] == names
    assert not any(name.startswith("heads.") for name in names)
    (question,) = pose(off)
    assert question.selection_uniforms.shape == (len(question.positions), 0)
    assert set(off.training_step(question, NOW).losses.sums) == {"generator", "discriminator"} == set(off.weights)


@each_task
def test_a_task_leaves_the_pairs_own_losses_as_they_were(name: str) -> None:
    plain, more = make_objective(), with_task(name, 3.0)
    (question,), (asked,) = pose(plain), pose(more)
    expected, found = plain.training_step(question, NOW).losses.sums, more.training_step(asked, NOW).losses.sums
    assert [*found] == ["generator", "discriminator", name]
    for own in expected:
        assert torch.equal(expected[own], found[own])
    assert more.weights[name] == 3.0


@each_task
def test_targets_are_masked_positions_or_rows_however_a_step_is_split(name: str) -> None:
    objective = with_task(name)
    whole, parts = pose(objective), pose(objective, micro_size=4)
    assert [len(part.input_ids) for part in parts] == [4, 2]
    counts = add_counts(objective.count_targets(part) for part in parts)
    assert counts == add_counts(objective.count_targets(part) for part in whole)
    assert counts[name] == (6 if name in ("sequence", "bag") else len(whole[0].positions))


@pytest.mark.parametrize("name", ["correction", "selection", "bag"])
def test_parts_of_a_step_add_up_to_the_whole(name: str) -> None:
    objective = with_task(name)

    def total(micro_size: int) -> float:
        parts = pose(objective, micro_size=micro_size)
        return sum(float(objective.training_step(part, NOW).losses.sums[name].detach()) for part in parts)

    assert total(6) == pytest.approx(total(4), rel=1e-5)


@pytest.mark.parametrize("name", ["selection", "sequence"])
def test_luck_belongs_to_a_row_and_a_step(name: str) -> None:
    objective = with_task(name)
    (whole,) = pose(objective)
    parts = pose(objective, micro_size=4)
    (later,) = objective.make_inputs(counting_rows(6), 6, 0.25, Rng(3, 2))
    drawn = [getattr(inputs, f"{name}_uniforms") for inputs in (whole, whole.to(CPU), later, *parts)]
    assert torch.equal(drawn[0], torch.cat(drawn[3:]))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("correction", [True]),
        ("selection", [True]),
        ("contrast", [True, False]),
        ("sequence", [True, True]),
        ("bag", [True]),
    ],
)
def test_passes_of_the_discriminator_and_which_of_them_it_learns_from(name: str, passes: list[bool]) -> None:
    objective = with_task(name)
    seen: list[bool] = []
    objective.networks.discriminator.encoder.register_forward_hook(
        lambda _module, _inputs, states: seen.append(states.requires_grad)
    )
    (question,) = pose(objective)
    objective.training_step(question, NOW)
    assert seen == passes


@each_task
@pytest.mark.parametrize("backbone", ["modern", "electra"])
def test_a_task_teaches_the_discriminator_and_the_shared_table_but_not_the_generator(name: str, backbone: str) -> None:
    objective = with_task(name, model={"backbone": backbone, "embedding_size": 16})
    (question,) = pose(objective)
    objective.training_step(question, NOW).losses.sums[name].backward()  # type: ignore[no-untyped-call]

    def is_taught(parameter: nn.Parameter) -> bool:
        return parameter.grad is not None and bool(parameter.grad.any())

    networks = objective.networks
    judge, guesser = networks.discriminator, networks.generator
    assert isinstance(guesser, Generator)
    assert all(is_taught(one) for one in judge.encoder.layers.parameters() if one.ndim == 2)
    assert is_taught(judge.encoder.embeddings.get_parameter("tokens.weight"))
    assert all(is_taught(one) for one in networks.heads.parameters() if one.ndim == 2)
    assert not any(is_taught(one) for one in guesser.encoder.layers.parameters())
    assert not any(is_taught(one) for one in [*guesser.head.parameters(), *judge.head.parameters()])


@each_task
@pytest.mark.parametrize(
    "model", [{}, {"embedding_size": 16}, {"backbone": "electra"}, {"backbone": "electra", "embedding_size": 16}]
)
def test_torch_counts_the_same_operations(name: str, model: dict[str, Any]) -> None:
    objective = with_task(name, model=model)
    (question,) = pose(objective)
    assert len(question.positions) == 6 * count_masked(16, 0.25)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        sums = objective.training_step(question, NOW).losses.sums.values()
        torch.stack([*sums]).sum().backward()  # type: ignore[no-untyped-call]
    # A crop leaves a row padded, whatever it was before; that costs no product.
    assert counter.get_total_flops() == pytest.approx(
        objective.count_flops(NOW, 6, 16, 6 * count_masked(16, 0.25)), rel=0.01
    )


@each_task
@pytest.mark.parametrize(
    ("objective", "procedure"), [("mlm", "joint"), ("electric", "joint"), ("electra", "two-stage"), ("causal", "joint")]
)
def test_only_a_pair_that_learns_jointly_has_more_tasks(name: str, objective: Any, procedure: Any) -> None:
    pair = make_objective().config
    generator: dict[str, Any] = {"kind": "two-tower"} if objective == "electric" else {"width_share": 1.0}
    with pytest.raises(ValueError, match=f"loss.{name}_weight gives the discriminator.*'{procedure}' has no place"):
        ObjectiveConfig(
            objective=objective,
            procedure=procedure,
            model=pair.model.model_copy(update={"sharing": "none"}),
            generator=pair.generator.model_copy(update=generator),
            loss=LossConfig(**{f"{name}_weight": 1.0}),
        )


def test_more_negatives_than_tokens_are_refused() -> None:
    assert with_task("selection", selection_negatives=WORDS - 1).auxiliaries
    with pytest.raises(
        UsageError, match="23 tokens beside the true one, of 23 that the vocabulary has; give at most 22"
    ):
        with_task("selection", selection_negatives=WORDS)


def contrast_chance(objective: ElectraObjective, question: MaskedBatch) -> float:
    """Where all similarities are equal: one of itself and all other replaced ones."""
    corrupted = objective.forward(question, 0.0).corrupted
    is_replaced = corrupted.is_replaced.flatten()[question.positions]
    return float((1 + is_replaced.sum() - is_replaced.long()).float().log().mean())


@each_task
def test_a_task_is_learned(name: str) -> None:
    """From the counting around it a token is certain, and by its start a row is known from all others."""
    torch.manual_seed(0)
    more: dict[str, Any] = {f"{name}_temperature": 0.1} if name in ("contrast", "sequence") else {}
    objective = with_task(
        name, kind="uniform", discriminator_weight=1.0, model={"num_layers": 1, "init_std": 0.1}, **more
    )
    (question,) = objective.make_inputs(counting_rows(16, seed=99), 16, 0.15, Rng(0, -1))
    counts = objective.count_targets(question)

    def measure() -> float:
        with torch.no_grad():
            return float(objective.evaluation_step(question).losses.sums[name]) / counts[name] - least

    # Who knows a row by heart still has to share the probability among its tokens.
    row = question.batch.original_ids[0]
    least = math.log(len(set(row.tolist())) - 2) if name == "bag" else 0.0
    chances = {"correction": math.log(WORDS), "selection": math.log(5), "sequence": math.log(2 * 16 - 1)}
    chances["bag"] = math.log(WORDS) - least
    chance = contrast_chance(objective, question) if name == "contrast" else chances[name]
    before = measure()
    optimizer = torch.optim.AdamW(objective.networks.parameters(), lr=5e-3)
    for step in range(1, 221):
        parts = objective.make_inputs(counting_rows(16, seed=step), 16, 0.15, Rng(0, step))
        asked = add_counts(objective.count_targets(part) for part in parts)
        for part in parts:
            objective.training_step(part, NOW).losses.weigh(asked, objective.weights).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    after = measure()
    assert np.isfinite(before)
    assert after < before
    assert after < 0.6 * chance


@torch.no_grad()
def test_a_bag_is_the_distinct_ordinary_tokens_of_the_original_row() -> None:
    objective = with_task("bag")
    (question,) = pose(objective)
    output = objective.forward(question)
    states: dict[str, Tensor] = {}
    batch = question.batch
    discriminator = objective.networks.discriminator
    discriminator(output.corrupted.input_ids, batch.segment_ids, batch.attention_pad, states)
    task = objective.auxiliaries["bag"]
    assert isinstance(task, BagOfWords)
    total = 0.0
    for row, ids, is_pad in zip(states["states"], batch.original_ids, batch.is_pad, strict=True):
        log_probs = task.guess(row[~is_pad].mean(dim=0)[None], discriminator.encoder.embeddings).log_softmax(dim=-1)[0]
        bag = [token for token in sorted(set(ids.tolist())) if bool(task.is_ordinary[token])]
        total -= float(sum(log_probs[token] for token in bag)) / len(bag)
    assert float(output.losses.sums["bag"]) == pytest.approx(total, rel=1e-5)
