"""What a study file may say, and what is said of one that says something else."""

from pathlib import Path
from typing import Any

import pytest

from electralab.analysis.claims.evidence import ONE_ENCODER, PAPER, find_arrangements
from electralab.config import ConfigLayer
from electralab.errors import InputError, UsageError
from electralab.experiments.settings import (
    choose_arms,
    read_study,
    resolve_arms,
    resolve_study,
    study_names,
)
from electralab.model.settings import derive_encoders
from electralab.records.run import Budget

STUDY: dict[str, Any] = {
    "name": "two",
    "baseline": "plain",
    "seeds": [0, 1],
    "budget": {"flops": 1e12},
    "pretrain": {"config": "tiny", "batch": {"size": 4}},
    "arms": {"plain": {}, "wide": {"masking": {"mask_share": 0.3}}},
    "scores": [{"suite": "blimp", "data": "blimp"}, {"task": "cola", "data": "glue"}],
}
SHIPPED = (
    *("paper-objectives", "generator-size", "weight-tying", "training-procedure", "mask-share", "head-to-head"),
    *("sample-efficiency", "model-size", "discriminator-options", "claims", "family"),
    *("cpu-hour", "cpu-hour-search"),
)
SIZED = ("model-size", "claims", "family", "cpu-hour", "cpu-hour-search")
"""With sizes of their own."""


def refusal(**changes: Any) -> str:
    with pytest.raises(UsageError) as caught:
        resolve_arms(resolve_study(ConfigLayer("s.toml", STUDY | changes), {}), "s.toml")
    return str(caught.value)


def test_an_arm_changes_what_all_share() -> None:
    plain, wide = resolve_arms(resolve_study(ConfigLayer("s.toml", STUDY), {}), "s.toml")
    assert (plain.config.masking.mask_share, wide.config.masking.mask_share) == (0.15, 0.3)
    assert plain.config.batch.size == wide.config.batch.size == 4
    assert plain.budget == wide.budget == Budget("flops", 1e12)


def test_what_all_share_may_be_without_effect_in_some() -> None:
    changes = {"pretrain": {"sampling": {"top_k": 5}}, "arms": {"plain": {}, "masked": {"objective": "mlm"}}}
    plain, _ = resolve_arms(resolve_study(ConfigLayer("s.toml", STUDY | changes), {}), "s.toml")
    assert plain.config.sampling.top_k == 5


def test_a_budget_of_the_command_line_replaces_the_files() -> None:
    study = resolve_study(ConfigLayer("s.toml", STUDY), {"budget": {"steps": 10}, "seeds": [7]})
    assert (study.budget.part(1.0), study.seeds) == (Budget("steps", 10.0), (7,))


def test_an_arm_may_have_a_part_of_the_budget() -> None:
    arms = STUDY["arms"] | {"short": {"budget_share": 0.25}}
    study = resolve_study(ConfigLayer("s.toml", STUDY | {"arms": arms, "budget": {"steps": 10}}), {})
    budgets = {arm.name: arm.budget.amount for arm in resolve_arms(study, "s.toml")}
    assert budgets == {"plain": 10.0, "wide": 10.0, "short": 2.0}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such baseline": ({"baseline": "plane"}, "baseline: no arm named 'plane'; did you mean 'plain'?"),
    "two budgets": ({"budget": {"steps": 1, "flops": 1e9}}, "needs exactly one of flops, tokens and steps"),
    "no budget": ({"budget": {}}, "needs exactly one of flops, tokens and steps (got none)"),
    "a misspelt setting": ({"arms": {"plain": {"maskng": {}}}}, "s.toml: arms.plain: no setting named 'maskng'"),
    "an objective with a near name": ({"arms": {"plain": {"objective": "elektra"}}}, "did you mean 'electra'?"),
    "a misspelt section": ({"bugdet": {}}, "no setting named 'bugdet'; did you mean 'budget'?"),
    "a seed of an arm": (
        {"arms": {"plain": {"seed": 1}}},
        "seed: is no setting of an arm; give the seeds of the study",
    ),
    "a name that is no folder": ({"arms": {"plain": {}, "a/b": {}}}, "the name 'a/b' cannot be a folder"),
    "a score of nothing": ({"scores": [{"data": "x"}]}, "needs a suite or a task"),
    "a score of two things": ({"scores": [{"suite": "blimp", "task": "cola"}]}, "names both the suite"),
    "a probe of nothing": ({"scores": [{"suite": "probe"}]}, "the suite 'probe' needs a task"),
    "seeds of what is not tuned": ({"scores": [{"suite": "blimp", "seeds": 3}]}, "the suite 'blimp' tunes nothing"),
    "replacements of nobody": ({"scores": [{"suite": "rtd"}]}, "needs one generator for all arms"),
    "a generator of a task": ({"scores": [{"task": "cola", "generator": "plain"}]}, "belongs to the suite 'rtd'"),
    "the same score twice": ({"scores": [{"task": "cola"}, {"task": "cola"}]}, "the score 'cola' is there twice"),
    "a score of an unknown arm": (
        {"scores": [{"task": "cola", "arms": ["plane"]}]},
        "scores.cola: arms: no arm named 'plane'; did you mean 'plain'?",
    ),
    "the same seed twice": ({"seeds": [1, 1]}, "the seed 1 is there twice"),
    "no seeds": ({"seeds": []}, "seeds: there are none"),
    "an unknown snapshot score": ({"snapshots": {"at": [0.5], "scores": ["rte"]}}, "no score named 'rte'"),
    "a snapshot after the end": ({"snapshots": {"at": [1.5]}}, "snapshots.at"),
    "no part of a budget": (
        {"arms": {"plain": {"budget_share": 0}}},
        "s.toml: arms.plain: budget_share: input should be greater than 0 (got 0)",
    ),
    "an arm's setting without effect": (
        {"arms": {"plain": {"objective": "mlm", "sampling": {"top_k": 5}}}},
        "s.toml: arms.plain: sampling.top_k has no effect, for objective 'mlm' has no generator; leave it out",
    ),
    "settings of all that fail in one arm": (
        {"pretrain": {"batch": {"size": 1}}, "arms": {"plain": {}, "nsp": {"objective": "bert"}}},
        "s.toml: arms.nsp: ",
    ),
    "a branch of nothing": (
        {"arms": {"plain": {}, "b": {"start": "branch"}}},
        "arms.b: a branch needs the arm that it is",
    ),
    "a blend of an unknown arm": (
        {"arms": {"plain": {}, "b": {"start": "blend", "parent": "plane"}}},
        "arms.b: parent: no arm named 'plane'; did you mean 'plain'?",
    ),
    "a blend with nothing": (
        {"arms": {"plain": {}, "b": {"start": "blend", "parent": "plain"}}},
        's.toml: arms.b: a blend needs exactly one arm with start = "baseline" (got 0)',
    ),
    "a hard half for nobody": (
        {"scores": [{"task": "cola"}, {"hard_half_of": "cola"}]},
        "scores.cola-hard: a hard half needs exactly one arm",
    ),
    "a blend of a blend": (
        {"arms": {"plain": {}, "l": {"start": "baseline"}, "b": {"start": "blend", "parent": "l"}}},
        "arms.b: parent: 'l' has no network of its own",
    ),
    "a baseline with settings": (
        {"arms": {"plain": {}, "l": {"start": "baseline", "objective": "mlm"}}},
        "arms.l: a baseline pre-trains nothing; leave out 'objective'",
    ),
    "a network with another's": (
        {"arms": {"plain": {}, "b": {"parent": "plain"}}},
        "arms.b: parent: belongs to a random, branch or blend arm",
    ),
    "a hard half with a task": (
        {"scores": [{"task": "cola"}, {"hard_half_of": "cola", "task": "cola"}]},
        "takes task, data and settings of that score",
    ),
    "a headline of nothing": ({"headline": ["rte"]}, "headline: no score named 'rte'; known are blimp, cola"),
    "a choice by a suite": (
        {"tuning": {"grid": {"head.pooling": ["first"]}, "scores": ["blimp"]}},
        "tuning.scores: no score named 'blimp'; known are cola",
    ),
    "a choice by nothing": ({"tuning": {"grid": {"head.pooling": ["first"]}}}, "has a grid but no scores to choose by"),
    "a choice twice": (
        {"tuning": {"grid": {"head.pooling": ["first"]}, "scores": ["cola"], "choices": "x"}},
        "grid chooses anew and choices takes over",
    ),
    "an unknown preset": ({"pretrain": {"config": "tinny"}}, "did you mean 'tiny'?"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_study_that_makes_no_sense_is_refused_by_name(case: str) -> None:
    changes, said = REFUSED[case]
    assert said in refusal(**changes)


def test_only_some_arms_are_chosen_in_their_order() -> None:
    assert choose_arms(["c", "a"], ["a", "b", "c"]) == ["a", "c"]
    assert choose_arms([], ["a", "b"]) == ["a", "b"]
    with pytest.raises(UsageError, match="--only: no arm named 'electre'; did you mean 'electra'"):
        choose_arms(["electre"], ["electra", "mlm"])


def test_a_study_with_a_near_name_is_suggested() -> None:
    with pytest.raises(UsageError, match="no study or file named 'head-to-haed'; did you mean 'head-to-head'"):
        read_study("head-to-haed")
    with pytest.raises(
        InputError, match=r"nowhere.toml: no such study file; give a TOML file or one of claims, cpu-hour"
    ):
        read_study("nowhere.toml")


def test_a_folder_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; give a TOML file or one of"):
        read_study(str(tmp_path))


def test_all_studies_of_the_contract_are_there() -> None:
    assert set(study_names()) == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_study_resolves(name: str) -> None:
    layer = read_study(name)
    study = resolve_study(layer, {})
    arms = resolve_arms(study, layer.source)
    assert study.name == name
    assert len(study.seeds) >= (1 if name in ("family", "cpu-hour", "cpu-hour-search") else 2)
    assert "blimp" in {score.suite for score in study.scores} or name == "cpu-hour-search"
    assert sum(bool(score.task) for score in study.scores) >= 3
    settings = [(arm.config, arm.budget, arm.start) for arm in arms]
    assert all(settings.count(one) == 1 for one in settings), "two arms are the same"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_study_says_how_it_is_run_and_what_the_paper_found(name: str) -> None:
    import electralab

    text = (Path(electralab.__file__).parent / "studies" / f"{name}.toml").read_text()
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert head[0].startswith(f"# electra study {name} --corpus ")
    assert "hour" in text or "minutes" in text
    assert "aper" in "".join(head)


@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in SIZED])
def test_every_shipped_study_but_those_of_sizes_is_one_of_the_released_size_too(name: str) -> None:
    layer = read_study(name)
    study = resolve_study(layer, {"pretrain": {"config": "small"}, "budget": {"flops": 1e18}})
    for arm in resolve_arms(study, layer.source):
        _, judging = derive_encoders(arm.config.model, arm.config.generator, vocab_size=30522, sequence_length=128)
        assert (judging.hidden_size, judging.num_layers) == (256, 12)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_study_names_the_sizes_of_its_networks(name: str) -> None:
    """A preset may come to mean another size; what a study compares, and what was found by it, must not change."""
    sizes = {"num_layers", "hidden_size", "embedding_size", "num_heads", "feedforward_size"}
    study = resolve_study(read_study(name), {})
    for arm in study.arms.values():
        models = [model for tree in (study.pretrain, arm) if isinstance(model := tree.get("model"), dict)]
        assert sizes <= {name for model in models for name in model}


def test_claims_have_runs_of_a_quarter_of_the_budget_in_one_line_with_the_whole() -> None:
    """At three sizes, of both arrangements of ELECTRA and of the masked model: what M40 and M41 are judged by."""
    layer = read_study("claims")
    arms = {arm.name: arm for arm in resolve_arms(resolve_study(layer, {}), layer.source)}
    for kind in ("electra", "electra-quarter", "mlm"):
        for size in ("-half", "", "-double"):
            whole, short = arms[f"{kind}{size}"], arms[f"{kind}{size}-short"]
            assert short.config == whole.config
            assert short.budget.amount == whole.budget.amount / 4
            assert short.line == whole.line
    assert arms["xlnet"].config.objective == "permutation"


def test_the_family_has_all_that_the_notes_compare_with_at_one_budget() -> None:
    layer = read_study("family")
    study = resolve_study(layer, {})
    arms = {arm.name: arm for arm in resolve_arms(study, layer.source)}
    objectives = {name: arm.config.objective for name, arm in arms.items()}
    assert objectives == {
        **{"electra-paper": "electra", "electra-one-encoder": "electra"},
        **{"bert": "bert", "roberta": "mlm", "gpt": "causal", "albert": "mlm", "xlnet": "permutation"},
        **{"electric": "electric", "replace-mlm": "replace-mlm", "all-tokens-mlm": "all-tokens-mlm"},
    }
    assert len({arm.budget for arm in arms.values()}) == 1
    albert = arms["albert"].config
    assert (albert.sentence_task, albert.model.share_layers) == ("sentence-order", True)
    assert albert.model.embedding_size < albert.model.hidden_size
    assert find_arrangements({name: arm.config.model_dump() for name, arm in arms.items()}) == {
        PAPER: "electra-paper",
        ONE_ENCODER: "electra-one-encoder",
    }


def test_budgets_of_tokens_are_compared_with_those_of_the_same_size() -> None:
    layer = read_study("sample-efficiency")
    arms = {arm.name: arm for arm in resolve_arms(resolve_study(layer, {}), layer.source)}
    assert {arms[arm.versus].budget == arm.budget for arm in arms.values()} == {True}
