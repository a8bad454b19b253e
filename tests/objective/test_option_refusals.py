"""An option of the discriminator where there is none is refused by name."""

from typing import Any

import pytest
from pydantic import ValidationError

from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.objective.settings import ObjectiveConfig


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
