"""When two tokenizers agree although their files differ, how they differ when they do, and what they have in common."""

import json
from pathlib import Path

import pytest

from electralab.tokens.agreement import ABSENT, find_difference, match_tokens
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig, TokenizerKind
from electralab.tokens.tokenizer_training import train_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["the cat sees the dog and the dog sees the sea", "a small red house by the river, and a garden"] * 20


def write_vocab(folder: Path, *pieces: str, **stored: object) -> Tokenizer:
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *pieces]) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(stored))
    return Tokenizer.load(folder)


def learn(kind: TokenizerKind) -> Tokenizer:
    return train_tokenizer(TEXTS, TokenizerConfig(kind=kind, vocab_size=96))


def test_the_same_vocabulary_in_the_words_of_another_library_agrees(tmp_path: Path) -> None:
    """Hugging Face leaves strip_accents to lowercase, wraps steps in sequences and has a template of its own."""
    mine = write_vocab(tmp_path / "mine", "cat", "##s", "sea")
    tree = json.loads(mine.to_json())
    tree["normalizer"] = {"type": "Sequence", "normalizers": [{**tree["normalizer"], "strip_accents": None}]}
    tree["post_processor"], tree["decoder"] = None, None
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "tokenizer.json").write_text(json.dumps(tree))
    theirs = Tokenizer.load(tmp_path / "theirs")
    assert theirs.to_json() != mine.to_json()
    assert find_difference(mine, theirs) == ""


@pytest.mark.parametrize(
    ("pieces", "stored", "sentence"),
    [
        (["sea", "##s", "cat"], {}, "gives other ids: 'cat' is 7 there, 5 here, and 2 of 8 tokens differ"),
        (["cow", "##s", "sea"], {}, "gives other ids: 'cat' does not exist there, 5 here, and 1 of 8 tokens differ"),
        (["cat", "##s", "sea", "sky"], {}, "has more tokens (9, here 8; such as 'sky')"),
        (["cat", "##s", "sea"], {"do_lower_case": False}, "has the same tokens but normalises text in another way"),
        (["cat", "##s", "sea"], {"strip_accents": False}, "has the same tokens but normalises text in another way"),
    ],
)
def test_the_difference_is_told(pieces: list[str], stored: dict[str, object], sentence: str, tmp_path: Path) -> None:
    mine = write_vocab(tmp_path / "mine", "cat", "##s", "sea")
    assert find_difference(mine, write_vocab(tmp_path / "theirs", *pieces, **stored)).startswith(sentence)


def test_tokens_of_one_kind_are_matched_by_their_text(tmp_path: Path) -> None:
    mine = write_vocab(tmp_path / "mine", "cat", "##s", "s", "sky")
    theirs = write_vocab(tmp_path / "theirs", "s", "sea", "##s", "cat")
    assert match_tokens(mine, theirs).tolist() == [0, 1, 2, 3, 4, 8, 7, 5, ABSENT]


def test_special_tokens_are_matched_by_their_role(tmp_path: Path) -> None:
    mine = write_vocab(tmp_path / "mine", "cat")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "vocab.txt").write_text("cat\n<s>\n<pad>\n</s>\n<unk>\n<mask>\n")
    assert match_tokens(mine, Tokenizer.load(tmp_path / "theirs")).tolist() == [2, 4, 1, 3, 5, 0]


def test_tokens_of_two_kinds_are_matched_by_spelling_and_place_in_the_word() -> None:
    mine, theirs = learn("wordpiece"), learn("unigram")
    rows = match_tokens(mine, theirs)
    matched = {
        mine.token(index): theirs.token(int(row))
        for index, row in enumerate(rows)
        if row != ABSENT and mine.is_ordinary[index]
    }
    assert len(matched) > 10
    for piece, other in matched.items():
        begins = other.startswith("▁") or other in ",."
        assert (piece.startswith("##"), piece.removeprefix("##")) == (not begins, other.removeprefix("▁"))
