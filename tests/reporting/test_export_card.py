"""The card of an exported network: what it gives, how it is loaded, how it was checked."""

import pytest

from electralab.records.export import ExportRecord
from electralab.reporting.cards import CardConfig, render_export_card

CONFIG = CardConfig(
    architectures=("ElectraForPreTraining",),
    num_hidden_layers=2,
    hidden_size=64,
    vocab_size=30522,
    max_position_embeddings=128,
    id2label={"0": "no", "1": "yes"},
)


def export(**more: object) -> ExportRecord:
    facts = {"format": "hf", "network": "discriminator", "kind": "discriminator", "subject": "verdicts"}
    return ExportRecord.model_validate({**facts, **more})


def test_a_folder_for_transformers_is_loaded_by_its_class() -> None:
    card = render_export_card(export(), CONFIG, "mit")
    assert card.startswith("---\nlicense: mit\nlibrary_name: transformers\n")
    assert "2 layers, hidden size 64, 30,522 tokens, as a folder for `transformers`. Exported with electralab." in card
    assert 'network = ElectraForPreTraining.from_pretrained("FOLDER")' in card
    assert "Labels, in the order of the logits: `no`, `yes`." in card
    assert "Checked when" not in card


def test_a_graph_says_what_goes_in_and_comes_out() -> None:
    words = {"largest difference of a logit": "0.1"}
    made = export(format="onnx", rows=1200, answers=3, words=words, of="fp32")
    card = render_export_card(made, CONFIG, "unknown")
    assert "up to 128 tokens\n- out come `logits`, rows × length, and `states`" in card
    assert "On 1,200 rows of text (3 answers) against fp32:\n\n| | |\n|---|---|\n| largest difference" in card


@pytest.mark.parametrize("subject", ["numbers", "energies"])
def test_one_number_has_no_label(subject: str) -> None:
    assert "Labels" not in render_export_card(export(subject=subject), CONFIG, "mit")
