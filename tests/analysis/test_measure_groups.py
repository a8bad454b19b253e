"""What counts as one sentence, and which pairs must not be on both sides of a split."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from little_analysis import save_one

from electralab.analysis.measures.contextuality import number_sentences
from electralab.analysis.measures.equivariance import group_pairs
from electralab.analysis.measures.geometry import Categories
from electralab.analysis.model import load_analysis_model
from electralab.analysis.probe_sets import SentencePair, read_pairs
from electralab.analysis.states import TokenStates
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer


def test_pairs_of_one_changed_word_stay_together() -> None:
    pairs = [
        SentencePair("She writes a letter.", "She wrote a letter."),
        SentencePair("He runs home.", "He ran home."),
        SentencePair("Anna writes to us.", "Anna wrote to us."),
        SentencePair("They laugh.", "They laugh."),
    ]
    groups = group_pairs(pairs).tolist()
    assert groups[0] == groups[2]
    assert len(set(groups)) == 3


def test_a_word_of_many_pairs_does_not_tie_them_together() -> None:
    nouns = [f"noun{chr(97 + i)}" for i in range(26)]
    pairs = [SentencePair(f"The {noun} is old.", f"The {noun} was old.") for noun in nouns for _ in range(2)]
    groups = group_pairs(pairs)
    assert len(set(groups.tolist())) == 26
    assert (groups[::2] == groups[1::2]).all()


@pytest.mark.parametrize("kind", tuple(read_pairs()))
def test_no_group_of_our_pairs_is_more_than_a_tenth(kind: str) -> None:
    groups = group_pairs(read_pairs()[kind])
    assert np.bincount(groups).max() <= 300 // 10


def test_words_of_one_spelling_are_one_word() -> None:
    told = Categories("part of speech", [], ("NOUN", "VERB"), np.array([0, 0, 1, 0]), ["Saw", "saw", "saw", "cat"])
    assert told.spellings.tolist() == [1, 1, 1, 0]
    assert sorted(told.distinct.tolist()) == [0, 2, 3], "the noun once, the verb, the cat"


def test_a_sentence_ends_with_its_mark_or_its_row(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["the cat sat ."] * 20, TokenizerConfig(vocab_size=64, character_coverage=1.0))
    specimen = replace(load_analysis_model(save_one(tmp_path / "mlm")), tokenizer=tokenizer)
    ids = np.concatenate(tokenizer.encode_many(["the cat . the cat", "the"]))
    sentences = number_sentences(specimen, TokenStates([], ids, np.array([0, 0, 0, 0, 0, 1]), np.arange(6)))
    assert sentences.tolist() == [1, 1, 1, 2, 2, 3]
