"""Our ids are those of Hugging Face's loader on the same folder, and spans point into the original text.

A tokenizer from elsewhere cannot make a flood of a text, and one that does nothing of the kind is left alone.
"""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_text import HOSTILE, SENTENCES, TEXTS, little_tokenizer
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

from electralab.errors import InputError
from electralab.tokens.tokenizer import PIECE_CHARS, PipelineStep, Tokenizer, TokenizerConfig, TokenizerKind, cut_text
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


def test_spans_point_at_the_words_in_their_original_form_and_half_a_character_is_none() -> None:
    text = "The  CAFÉ\u200b sat"
    words = {text[start:end] for start, end in little_tokenizer().encode(text).offsets}
    assert {"The", "sat"} <= words
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


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_strangers_keeps_its_spans_and_never_holds_a_special_token(kind: TokenizerKind) -> None:
    tokenizer = little_tokenizer(kind)
    for text in (*HOSTILE, *TEXTS, "the cat [SEP] [PAD] [MASK] [CLS]"):
        encoded = tokenizer.encode_literal(text)
        assert encoded.ids.tolist() == tokenizer.encode_many([text])[0].tolist()
        assert len(encoded.offsets) == len(encoded.ids)
        assert not {0, 2, 3, 4} & set(encoded.ids.tolist())  # [PAD], [CLS], [SEP], [MASK]
    assert tokenizer.encode_literal(TEXTS[0]).offsets == tokenizer.encode(TEXTS[0]).offsets


def test_encode_many_agrees_with_encode_and_takes_empty_lists() -> None:
    tokenizer, texts = little_tokenizer(), ["", *TEXTS[:3], ""]
    assert tokenizer.encode_many([]) == []
    assert [ids.tolist() for ids in tokenizer.encode_many(texts)] == [tokenizer.encode(t).ids.tolist() for t in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_korean_comes_back_whole_even_where_accents_are_stripped(kind: TokenizerKind) -> None:
    tokenizer = little_tokenizer(kind, strip_accents=True)
    composed, decomposed = "한국어 문장은", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165 문장은"
    assert tokenizer.decode(tokenizer.encode(composed).ids) == composed
    assert tokenizer.encode(decomposed).ids.tolist() == tokenizer.encode(composed).ids.tolist()


@pytest.mark.parametrize(
    ("options", "text"), [({}, "naïve"), ({"strip_accents": True}, "naive"), ({"lowercase": False}, "Naïve")]
)
def test_case_and_accents_are_switches(options: dict[str, bool], text: str) -> None:
    tokenizer = little_tokenizer("bpe", **options)
    assert tokenizer.decode(tokenizer.encode("Naïve").ids) == text


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_vocab(path: Path, *pieces: str) -> Path:
    path.write_text("".join(piece + "\n" for piece in pieces), encoding="utf-8")
    return path


def test_special_unused_and_missing_ids_are_never_ordinary(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_vocab(tmp_path / "my-vocab.txt", *SPECIAL, "[unused0]", "the", "cat"))
    assert tokenizer.is_ordinary.tolist() == [False] * 6 + [True, True]
    content = json.loads(tokenizer.to_json())
    content["model"]["vocab"]["far"] = 11
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    padded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert padded.vocab_size == 12
    assert np.flatnonzero(padded.is_ordinary).tolist() == [6, 7, 11]


def test_a_vocab_file_is_cased_if_it_holds_capitals(tmp_path: Path) -> None:
    uncased = Tokenizer.load(write_vocab(tmp_path / "u.txt", *SPECIAL, "cafe"))
    cased = Tokenizer.load(write_vocab(tmp_path / "c.txt", *SPECIAL, "Café", "cafe"))
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
    tokenizer = Tokenizer.load(write_vocab(tmp_path / "vocab.txt", *SPECIAL, "sing", "##ing", "##s", ","))
    assert words_by_pieces(tokenizer, "singing, sings") == ["sing|##ing", ",", "sing|##s"]
    assert not tokenizer.continues_word[:5].any()


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_join_to_the_words_between_spaces_with_punctuation_apart(kind: TokenizerKind) -> None:
    words = words_by_pieces(little_tokenizer(kind), "the nobodycat sold, in 25 mats; catlog!")
    plain = [word.translate(str.maketrans("", "", "|#▁Ġ")) for word in words]
    expected = ["the", "nobodycat", "sold", ",", "in", "25", "mats", ";", "catlog", "!"]
    assert [word for word in plain if word] == expected
    assert any("|" in word for word in words)


def test_bytes_of_one_letter_are_never_torn_apart_and_ideographs_are_words_of_their_own() -> None:
    assert len(words_by_pieces(little_tokenizer("bpe"), "çözüm çöp")) == 2
    tokenizer = little_tokenizer("unigram")
    assert not tokenizer.continues_word[tokenizer.encode("中文句子没有空格。").ids].any()


def test_every_symbol_is_a_word() -> None:
    tokenizer = train_symbol_vocab(Counter({"##a": 3, "▁b": 2, "c": 1}), TokenizerConfig(vocab_size=64))
    assert not tokenizer.continues_word.any()


TENFOLD = normalizers.Replace("a", "a" * 10)


def save_backend(path: Path, normalizer: Any, decoder: Any = None) -> Path:
    vocab = {piece: place for place, piece in enumerate([*SPECIAL, "a", "b"])}
    backend = Backend(models.WordLevel(vocab, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.normalizer = normalizer
    if decoder is not None:
        backend.decoder = decoder
    backend.save(str(path))
    return path


@pytest.mark.parametrize("length", [4, 12])
def test_a_chain_of_replacements_is_refused_before_the_text_has_grown(tmp_path: Path, length: int) -> None:
    chain = normalizers.Sequence([normalizers.Sequence([TENFOLD] * (length // 2)), *[TENFOLD] * (length // 2)])
    tokenizer = Tokenizer.load(save_backend(tmp_path / "tokenizer.json", chain))
    for encode in (tokenizer.encode, tokenizer.encode_literal, lambda text: tokenizer.encode_many(["b", text])):
        with pytest.raises(InputError, match="normaliser makes more than 64 times as much of a text of 2,000 char"):
            encode("a " * 1000)
        assert encode("b b") is not None  # a text that does not grow is encoded


def test_forms_that_feed_replacements_are_counted_too(tmp_path: Path) -> None:
    # One character becomes eighteen, five of which become that one again.
    pair = [normalizers.Replace("\u0644", "\ufdfa"), normalizers.NFKD()]
    tokenizer = Tokenizer.load(save_backend(tmp_path / "tokenizer.json", normalizers.Sequence(pair * 10)))
    with pytest.raises(InputError, match="normaliser makes more than 64 times as much"):
        tokenizer.encode("\u0644" * 100)


STEP = r"a step of its normaliser \(\w+\) may make more than 64"


@pytest.mark.parametrize(
    ("step", "decoder", "sentence"),
    [
        (normalizers.Replace("a", "a" * 100), None, STEP),
        (normalizers.Replace("", "a" * 100), None, STEP),
        (normalizers.Prepend("a" * 100), None, STEP),
        (
            normalizers.Lowercase(),
            decoders.Sequence([decoders.Replace("a", "a" * 10)] * 2),
            "its decoder may make more",
        ),
    ],
)
def test_what_adds_too_much_at_once_is_refused_when_loaded(
    tmp_path: Path, step: Any, decoder: Any, sentence: str
) -> None:
    with pytest.raises(InputError, match=rf"tokenizer\.json: {sentence}"):
        Tokenizer.load(save_backend(tmp_path / "tokenizer.json", step, decoder))


def test_a_precompiled_table_is_judged_by_its_longest_replacement() -> None:
    def growth(replacement: bytes) -> float:
        table = base64.b64encode((4).to_bytes(4, "little") + bytes(4) + replacement + b"\0x\0").decode()
        return PipelineStep(type="Precompiled", precompiled_charsmap=table).max_growth()

    assert growth(b"a" * 500) == 500
    assert growth(b"abc") == 3


def test_a_watched_tokenizer_gives_the_ids_it_gave_and_ours_are_not_watched(tmp_path: Path) -> None:
    usual = [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    doubled = normalizers.Replace(" ", " a ")
    path = save_backend(tmp_path / "tokenizer.json", normalizers.Sequence([*usual, doubled]))
    tokenizer = Tokenizer.load(path)
    assert tokenizer._watched_steps
    assert not any(little_tokenizer(kind)._watched_steps for kind in KINDS)
    for text in SENTENCES:
        assert tokenizer.encode(text).ids.tolist() == Backend.from_file(str(path)).encode(text).ids
