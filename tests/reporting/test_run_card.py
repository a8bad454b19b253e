"""The card of a pre-training run says what the run wrote down, for an objective with two networks or with one."""

from typing import Any, get_args

import pytest

from electralab.objective.settings import ObjectiveName
from electralab.records.run import Budget, PretrainResults, RunFingerprint
from electralab.reporting.cards import describe_scores, render_run_card

SETTINGS: dict[str, Any] = {
    "size": "tiny",
    "model": {"backbone": "modern", "num_layers": 4, "hidden_size": 128, "num_heads": 2},
    "batch": {"size": 32},
    "masking": {"mask_share": 0.25},
    "loss": {"discriminator_weight": 50.0},
    "optimizer": {"kind": "adamw", "learning_rate": 0.001},
    "seed": 3,
}
PAIR = {
    "generator_loss": 5.5,
    "discriminator_loss": 0.25,
    "generator_accuracy": 0.2,
    "generator_entropy": 4.0,
    "auc": 0.8,
    "precision": 0.6,
    "recall": 0.5,
    "called_replaced": 0.125,
    "replaced_share": 0.2,
    "auc_unsure": 0.9,
    "recall_unsure": 0.7,
}
PAIR_BASELINES = {"generator_loss": 6.5, "generator_accuracy": 0.05, "discriminator_loss": 0.5}


def results(heldout: dict[str, float], baselines: dict[str, float]) -> PretrainResults:
    amounts = {"step": 1000, "tokens": 4096000, "flops": 15 * 10**14, "seconds": 60.0}
    return PretrainResults.model_validate({"objective": "x", "heldout": heldout, "baselines": baselines, **amounts})


def card(objective: str, networks: dict[str, str], scores: PretrainResults) -> str:
    run = RunFingerprint(
        settings=SETTINGS | {"objective": objective},
        threads=2,
        data="0123456789abcdef0123",
        init_from="",
        budget=Budget("steps", 1000),
        total_steps=1000,
    )
    return render_run_card("mine", run, scores, networks)


def test_a_pair_is_loaded_by_two_classes_and_asked_by_detect() -> None:
    networks = {"discriminator": "ElectraForPreTraining", "generator": "ElectraForMaskedLM"}
    text = card("electra", networks, results(PAIR, PAIR_BASELINES))
    for line in (
        "objective `electra`: a generator guesses masked tokens, a discriminator says for every token whether it was "
        "replaced.",
        "| discriminator | 4 layers, hidden 128, 2 heads |",
        "| steps, tokens, FLOPs | 1,000, 4,096,000, 1.5e+15 |",
        "| batch, mask share, λ | 32, 0.25, 50 |",
        "| generator loss | 5.500 | 6.500, token frequencies |",
        "| generator accuracy | 20.0% | 5.0%, always the most frequent token |",
        "| discriminator loss | 0.2500 | 0.5000, knowing only how many are replaced |",
        "| discriminator AUC | 0.800 | 0.500, guessing |",
        "| AUC, generator unsure | 0.900 | 0.500, guessing |",
        "| recall on replaced | 0.500 | 0.125, calling as many replaced, at random |",
        "| precision | 0.600 | 0.200, calling at random |",
        "from transformers import AutoTokenizer, ElectraForMaskedLM, ElectraForPreTraining",
        'tokenizer = AutoTokenizer.from_pretrained("export/discriminator")',
        'generator = ElectraForMaskedLM.from_pretrained("export/generator")',
        'Or in the shell: `electra detect mine "some text"`.',
    ):
        assert line in text.splitlines(), line


def test_one_network_has_neither_a_discriminator_nor_verdicts() -> None:
    scores = results({"masked_loss": 4.0, "masked_accuracy": 0.25, "masked_entropy": 3.0}, {"masked_loss": 6.0})
    text = card("mlm", {"model": "ElectraForMaskedLM"}, scores)
    assert "| model | 4 layers, hidden 128, 2 heads |" in text
    assert "| batch, mask share | 32, 0.25 |" in text
    assert "| masked loss | 4.000 | 6.000, token frequencies |" in text
    assert "| masked accuracy | 25.0% |  |" in text
    assert 'model = ElectraForMaskedLM.from_pretrained("export/model")' in text
    assert "discriminator" not in text
    assert "AUC" not in text
    assert "detect" not in text


def test_energies_are_not_asked_by_detect() -> None:
    networks = {"discriminator": "ElectraForPreTraining", "generator": ""}
    text = card("electric", networks, results({"generator_loss": 4.0, "discriminator_loss": 0.4}, {}))
    assert "Or in the shell: `electra finetune mine --task TASK --data FOLDER --out RUN`." in text
    assert "detect" not in text
    assert "p_replaced" not in text


@pytest.mark.parametrize(
    ("objective", "line"), [("permutation", "| batch, mask share | 32, 0.25 |"), ("causal", "| batch | 32 |")]
)
def test_the_mask_share_is_said_where_there_is_one(objective: str, line: str) -> None:
    assert line in card(objective, {"model": ""}, results({"masked_loss": 4.0}, {})).splitlines()


def test_a_network_that_transformers_cannot_express_says_so() -> None:
    networks = {"discriminator": "ElectraForPreTraining", "generator": ""}
    text = card("electra", networks, results(PAIR, PAIR_BASELINES))
    assert "from transformers import AutoTokenizer, ElectraForPreTraining\n" in text
    assert "```\n\nNo class of transformers expresses `export/generator`; the verbs" in text
    text = card("causal", {"model": ""}, results({"next_loss": 4.0}, {}))
    assert "library_name: electralab" in text
    assert "```" not in text


@pytest.mark.parametrize("objective", get_args(ObjectiveName))
def test_every_objective_has_a_card(objective: str) -> None:
    assert f"objective `{objective}`: " in card(objective, {"model": ""}, results({"masked_loss": 4.0}, {}))


def test_a_loss_stands_before_its_accuracy_and_verdicts_come_last() -> None:
    names = [line.name for line in describe_scores(results(PAIR, PAIR_BASELINES))]
    assert names == [
        "generator loss",
        "generator accuracy",
        "discriminator loss",
        "discriminator AUC",
        "AUC, generator unsure",
        "recall on replaced",
        "precision",
    ]
