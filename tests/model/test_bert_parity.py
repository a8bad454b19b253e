"""BERT folders are read as what `transformers` say they are: the encoder, and the head that guesses."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from electralab.model.electra import Generator
from electralab.model.folders.folder import load_any, load_encoder

IDS = torch.tensor([[2, 5, 6, 7, 3], [2, 8, 9, 3, 0]])
IS_PAD = IDS == 0


def save_theirs(folder: Path, name: str) -> Any:
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=12,
        initializer_range=0.3,
    )
    torch.manual_seed(3)
    theirs: Any = getattr(transformers, name)(config)
    theirs.eval().save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_the_encoder_says_what_theirs_says(tmp_path: Path, name: str) -> None:
    theirs = save_theirs(tmp_path, name)
    body = getattr(theirs, "bert", theirs)
    with torch.inference_mode():
        expected = body(input_ids=IDS, attention_mask=(~IS_PAD).long()).last_hidden_state
        ours = load_encoder(tmp_path)(IDS, torch.zeros_like(IDS), IS_PAD)
    torch.testing.assert_close(ours[~IS_PAD], expected[~IS_PAD], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining"])
def test_the_head_guesses_what_theirs_guesses(tmp_path: Path, name: str) -> None:
    theirs = save_theirs(tmp_path, name)
    ours = load_any(tmp_path)
    assert isinstance(ours, Generator)
    with torch.inference_mode():
        said = theirs(input_ids=IDS, attention_mask=(~IS_PAD).long())
        expected = said.logits if name == "BertForMaskedLM" else said.prediction_logits
        guesses = ours(IDS, torch.zeros_like(IDS), IS_PAD, torch.tensor([1, 6]))
    torch.testing.assert_close(guesses, expected.flatten(0, 1)[[1, 6]], atol=1e-5, rtol=1e-4)
