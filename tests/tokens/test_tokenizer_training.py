"""The same text gives the same tokenizer file, in this process and in any other."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from little_text import little_tokenizer

from electralab.errors import InputError
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig, TokenizerKind
from electralab.tokens.tokenizer_training import train_symbol_vocab, train_tokenizer

KINDS: tuple[TokenizerKind, ...] = ("wordpiece", "bpe", "unigram")


@pytest.mark.parametrize("kind", KINDS)
def test_another_process_learns_the_same_file(kind: TokenizerKind) -> None:
    support = Path(__file__).parents[1] / "support"
    code = (
        f"import sys; sys.path.insert(0, {str(support)!r})\n"
        "from little_text import little_tokenizer\n"
        f"sys.stdout.buffer.write(little_tokenizer({kind!r}).to_json().encode())"
    )
    for _ in range(2):
        other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
        assert other.decode() == little_tokenizer(kind).to_json()


def test_the_vocabulary_has_the_asked_size_where_the_text_can_fill_it() -> None:
    words = [f"{a}{b}{c}{a}" for a in "abcdefgh" for b in "ijklmn" for c in "opqrst"]
    assert train_tokenizer([" ".join(words * 3)], TokenizerConfig(vocab_size=200)).vocab_size == 200


def test_rare_characters_are_unknown_and_common_ones_are_not() -> None:
    texts = ["aaaa bbbb " * 500 + "☃"]
    tokenizer = train_tokenizer(texts, TokenizerConfig(vocab_size=64, character_coverage=0.999))
    unknown = tokenizer.special.unk
    assert tokenizer.encode("☃").ids.tolist() == [unknown]
    assert unknown not in tokenizer.encode("abba").ids


def test_ideographs_leave_room_for_other_pieces() -> None:
    texts = ["".join(chr(0x4E00 + place) for place in range(3000)), "word " * 100]
    tokenizer = train_tokenizer(texts, TokenizerConfig(vocab_size=1000, character_coverage=1.0))
    pieces = [tokenizer.token(index) for index in range(tokenizer.vocab_size)]
    assert sum(len(piece) == 1 and piece >= "\u4e00" for piece in pieces) <= 800
    assert "word" in pieces


def test_no_text_is_an_error_with_a_remedy() -> None:
    with pytest.raises(InputError, match="no text to learn a vocabulary from"):
        train_tokenizer(["", " "], TokenizerConfig())


def test_symbols_keep_their_spaces_and_rank_by_count_then_name(tmp_path: Path) -> None:
    counts = Counter({"GET /a b": 3, "x": 1, "a": 1, "[MASK]": 9})
    tokenizer = train_symbol_vocab(counts, TokenizerConfig())
    assert [tokenizer.token(index) for index in range(5, tokenizer.vocab_size)] == ["GET /a b", "a", "x"]
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.is_symbols
    assert loaded.encode_symbols(["GET /a b", "never seen", "[MASK]", "x"]).tolist() == [5, 1, 1, 7]
    assert loaded.decode([2, 5, 7, 3]) == "GET /a b x"


def test_an_integer_symbol_is_its_digits() -> None:
    tokenizer = train_symbol_vocab(Counter({"7": 2}), TokenizerConfig())
    assert tokenizer.encode_symbols([7, "7"]).tolist() == [5, 5]
