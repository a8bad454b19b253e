"""Our ids are those of Hugging Face's loader on the same folder, and spans point into the original text."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_text import HOSTILE, TEXTS, little_tokenizer
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

from electralab.errors import InputError
from electralab.tokens.tokenizer import PIECE_CHARS, Tokenizer, TokenizerConfig, TokenizerKind, cut_text
from electralab.tokens.tokenizer_training import train_symbol_vocab

KINDS: tuple[TokenizerKind, ...] = ("wordpiece", "bpe", "unigram")
transformers_logging.set_verbosity_error()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What AutoTokenizer makes of our folder, also beside a model's config.json."""
    loaded: dict[str, Any] = {}
    for kind, model_type in zip(KINDS, ("", "electra", "modernbert"), strict=True):
        folder = tmp_path_factory.mktemp(kind)
        little_tokenizer(kind).save(folder, max_length=100_000)
        if model_type:
            (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        loaded[kind] = AutoTokenizer.from_pretrained(folder)
    return loaded


@pytest.mark.parametrize("kind", KINDS)
def test_auto_tokenizer_gives_our_ids_on_hostile_text(theirs: dict[str, Any], kind: TokenizerKind) -> None:
    for text in (*HOSTILE, *TEXTS):
        assert (
            little_tokenizer(kind).encode(text).ids.tolist() == theirs[kind](text, add_special_tokens=False).input_ids
        )


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(st.characters(codec="utf-8")))
def test_auto_tokenizer_gives_our_ids_on_any_text(theirs: dict[str, Any], kind: TokenizerKind, text: str) -> None:
    assert little_tokenizer(kind).encode(text).ids.tolist() == theirs[kind](text, add_special_tokens=False).input_ids


def test_a_pair_has_segments_zero_and_one(theirs: dict[str, Any]) -> None:
    pair = theirs["wordpiece"]("the cat", "the dog")
    pieces = theirs["wordpiece"].convert_ids_to_tokens(pair.input_ids)
    assert pieces == ["[CLS]", "the", "cat", "[SEP]", "the", "dog", "[SEP]"]
    assert pair.token_type_ids == [0, 0, 0, 0, 1, 1, 1]
    assert theirs["wordpiece"].model_max_length == 100_000


def test_a_model_without_segments_gets_no_token_types(tmp_path: Path) -> None:
    little_tokenizer().save(tmp_path, has_segments=False)
    assert sorted(AutoTokenizer.from_pretrained(tmp_path)("the cat")) == ["attention_mask", "input_ids"]


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(min_size=1))
def test_spans_lie_inside_the_text_and_never_go_back(kind: TokenizerKind, text: str) -> None:
    encoded = little_tokenizer(kind).encode(text)
    assert len(encoded.offsets) == len(encoded.ids)
    starts = [start for start, _ in encoded.offsets]
    assert starts == sorted(starts)
    assert all(0 <= start <= end <= len(text) for start, end in encoded.offsets)


def test_spans_point_at_the_words_in_their_original_form() -> None:
    text = "The  CAFÉ\u200b sat"
    encoded = little_tokenizer().encode(text)
    words = {text[start:end] for start, end in encoded.offsets}
    assert {"The", "sat"} <= words


def test_a_lone_surrogate_is_taken_as_unreadable() -> None:
    assert little_tokenizer().encode("cat \ud800").ids.tolist() == little_tokenizer().encode("cat").ids.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_gives_the_same_ids_in_pieces(kind: TokenizerKind) -> None:
    tokenizer = little_tokenizer(kind)
    text = " ".join(TEXTS[place % len(TEXTS)] for place in range(300))
    assert len(text) > 2 * PIECE_CHARS
    whole = tokenizer._backend.encode(text, add_special_tokens=False)
    encoded = tokenizer.encode(text)
    assert encoded.ids.tolist() == whole.ids
    assert encoded.offsets == whole.offsets
    assert tokenizer.encode_many([text])[0].tolist() == whole.ids


@given(st.text("ab \n"), st.integers(2, 6))
def test_a_cut_is_the_last_possible_one_where_a_word_ends(text: str, limit: int) -> None:
    bounds = cut_text(text, limit)
    assert "".join(text[start:end] for start, end in bounds) == text
    for start, end in bounds[:-1]:
        window = range(start + 1, start + limit + 1)
        ends = [place for place in window if text[place].isspace() and not text[place - 1].isspace()]
        assert end == (ends[-1] if ends else start + limit)


def test_special_tokens_written_in_a_corpus_stay_text() -> None:
    for kind in KINDS:
        tokenizer = little_tokenizer(kind)
        (ids,) = tokenizer.encode_many(["the cat [SEP] [PAD] [MASK] [CLS]"])
        assert not set(ids.tolist()) & {0, 2, 3, 4}, kind


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_strangers_keeps_its_spans_and_never_holds_a_special_token(kind: TokenizerKind) -> None:
    tokenizer = little_tokenizer(kind)
    for text in (*HOSTILE, *TEXTS, "the cat [SEP] [PAD] [MASK] [CLS]"):
        encoded = tokenizer.encode_literal(text)
        assert encoded.ids.tolist() == tokenizer.encode_many([text])[0].tolist()
        assert len(encoded.offsets) == len(encoded.ids)
        assert not {tokenizer.special.sep, tokenizer.special.mask, tokenizer.special.cls} & set(encoded.ids.tolist())
    assert tokenizer.encode_literal(TEXTS[0]).offsets == tokenizer.encode(TEXTS[0]).offsets


def test_encode_many_agrees_with_encode_and_takes_empty_lists() -> None:
    tokenizer = little_tokenizer()
    assert tokenizer.encode_many([]) == []
    many = tokenizer.encode_many(["", *TEXTS[:3], ""])
    assert [ids.tolist() for ids in many] == [tokenizer.encode(text).ids.tolist() for text in ("", *TEXTS[:3], "")]


@pytest.mark.parametrize("kind", KINDS)
def test_korean_comes_back_whole_even_where_accents_are_stripped(kind: TokenizerKind) -> None:
    tokenizer = little_tokenizer(kind, strip_accents=True)
    composed, decomposed = "한국어 문장은", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165 문장은"
    assert tokenizer.decode(tokenizer.encode(composed).ids) == composed
    assert tokenizer.encode(decomposed).ids.tolist() == tokenizer.encode(composed).ids.tolist()


def test_case_and_accents_are_switches() -> None:
    def text(tokenizer: Tokenizer) -> str:
        return tokenizer.decode(tokenizer.encode("Naïve").ids)

    assert text(little_tokenizer("bpe")) == "naïve"
    assert text(little_tokenizer("bpe", strip_accents=True)) == "naive"
    assert text(little_tokenizer("bpe", lowercase=False)) == "Naïve"


def write_vocab(path: Path, *pieces: str) -> Path:
    path.write_text("".join(piece + "\n" for piece in pieces), encoding="utf-8")
    return path


def test_special_unused_and_missing_ids_are_never_ordinary(tmp_path: Path) -> None:
    path = write_vocab(
        tmp_path / "my-vocab.txt", "[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat"
    )
    assert Tokenizer.load(path).is_ordinary.tolist() == [False] * 6 + [True, True]
    tokenizer = Tokenizer.load(path)
    content = json.loads(tokenizer.to_json())
    content["model"]["vocab"]["far"] = 11
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    padded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert padded.vocab_size == 12
    assert np.flatnonzero(padded.is_ordinary).tolist() == [6, 7, 11]


def test_a_vocab_file_is_cased_if_it_holds_capitals(tmp_path: Path) -> None:
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    uncased = Tokenizer.load(write_vocab(tmp_path / "u.txt", *special, "cafe"))
    cased = Tokenizer.load(write_vocab(tmp_path / "c.txt", *special, "Café", "cafe"))
    assert uncased.encode("Café").ids.tolist() == [5]
    assert cased.encode("Café cafe").ids.tolist() == [5, 6]
    told = Tokenizer.load(tmp_path / "c.txt", TokenizerConfig(lowercase=True))
    assert told.encode("CAFE").ids.tolist() == [6]


def test_a_hugging_face_folder_with_other_names_is_understood(tmp_path: Path) -> None:
    path = write_vocab(tmp_path / "vocab.txt", "<pad>", "<unk>", "<s>", "</s>", "<mask>", "The")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "mask_token": "<mask>"}))
    tokenizer = Tokenizer.load(path.parent)
    assert tokenizer.encode("The the").ids.tolist() == [5, 1]
    assert (tokenizer.special.cls, tokenizer.special.mask) == (2, 4)


def test_save_and_load_give_the_same_tokenizer(tmp_path: Path) -> None:
    for kind in KINDS:
        little_tokenizer(kind).save(tmp_path / kind)
        assert Tokenizer.load(tmp_path / kind).to_json() == little_tokenizer(kind).to_json()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{}", "not a tokenizer.json"),
        ("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n", "has no mask token"),
        ("vocab.txt", "[PAD]\n[PAD]\n", "holds a piece twice"),
    ],
)
def test_a_tokenizer_that_cannot_serve_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        Tokenizer.load(tmp_path / name)
    with pytest.raises(InputError, match="no such tokenizer"):
        Tokenizer.load(tmp_path / "absent")


def words_by_pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """The pieces of a text, those of one word joined by a stroke."""
    joined = ""
    for index in tokenizer.encode(text).ids:
        joined += ("|" if tokenizer.continues_word[index] else " ") + tokenizer.token(int(index))
    return joined.split()


def test_wordpiece_marks_the_pieces_that_continue_a_word(tmp_path: Path) -> None:
    vocab = write_vocab(
        tmp_path / "vocab.txt", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sing", "##ing", "##s", ","
    )
    tokenizer = Tokenizer.load(vocab)
    assert words_by_pieces(tokenizer, "singing, sings") == ["sing|##ing", ",", "sing|##s"]
    assert not tokenizer.continues_word[:5].any()


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_join_to_the_words_between_spaces_with_punctuation_apart(kind: TokenizerKind) -> None:
    words = words_by_pieces(little_tokenizer(kind), "the nobodycat sold, in 25 mats; catlog!")
    plain = [word.translate(str.maketrans("", "", "|#▁Ġ")) for word in words]
    expected = ["the", "nobodycat", "sold", ",", "in", "25", "mats", ";", "catlog", "!"]
    assert [word for word in plain if word] == expected
    assert any("|" in word for word in words)


def test_bytes_of_one_letter_are_never_torn_apart() -> None:
    words = words_by_pieces(little_tokenizer("bpe"), "çözüm çöp")
    assert len(words) == 2


def test_ideographs_without_spaces_are_words_of_their_own() -> None:
    tokenizer = little_tokenizer("unigram")
    ids = [int(index) for index in tokenizer.encode("中文句子没有空格。").ids]
    assert not any(tokenizer.continues_word[index] for index in ids)


def test_every_symbol_is_a_word() -> None:
    tokenizer = train_symbol_vocab(Counter({"##a": 3, "▁b": 2, "c": 1}), TokenizerConfig(vocab_size=64))
    assert not tokenizer.continues_word.any()
