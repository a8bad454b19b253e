"""A tokenizer from elsewhere cannot make a flood of a text, and one that does nothing of the kind is left alone."""

import base64
from pathlib import Path
from typing import Any

import pytest
from little_text import SENTENCES, little_tokenizer
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from electralab.errors import InputError
from electralab.tokens.growth import GrowthGuard, _growth
from electralab.tokens.tokenizer import Tokenizer

TENFOLD = normalizers.Replace("a", "a" * 10)


def save(path: Path, normalizer: Any, decoder: Any = None) -> Path:
    vocab = {piece: place for place, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])}
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
    tokenizer = Tokenizer.load(save(tmp_path / "tokenizer.json", chain))
    for encode in (tokenizer.encode, tokenizer.encode_literal, lambda text: tokenizer.encode_many(["b", text])):
        with pytest.raises(InputError, match="normaliser makes more than 64 times as much of a text of 2,000 char"):
            encode("a " * 1000)
        assert encode("b b") is not None  # a text that does not grow is encoded


def test_forms_that_feed_replacements_are_counted_too(tmp_path: Path) -> None:
    # One character becomes eighteen, five of which become that one again.
    pair = [normalizers.Replace("\u0644", "\ufdfa"), normalizers.NFKD()]
    tokenizer = Tokenizer.load(save(tmp_path / "tokenizer.json", normalizers.Sequence(pair * 10)))
    with pytest.raises(InputError, match="normaliser makes more than 64 times as much"):
        tokenizer.encode("\u0644" * 100)


@pytest.mark.parametrize(
    "step",
    [
        normalizers.Replace("a", "a" * 100),
        normalizers.Replace("", "a" * 100),
        normalizers.Prepend("a" * 100),
    ],
)
def test_a_step_that_adds_too_much_at_once_is_refused_when_loaded(tmp_path: Path, step: Any) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json: a step of its normaliser \(\w+\) may make more than 64"):
        Tokenizer.load(save(tmp_path / "tokenizer.json", step))


def test_a_precompiled_table_is_judged_by_its_longest_replacement() -> None:
    def growth(replacement: bytes) -> float:
        table = base64.b64encode((4).to_bytes(4, "little") + bytes(4) + replacement + b"\0x\0").decode()
        return _growth({"type": "Precompiled", "precompiled_charsmap": table})

    assert growth(b"a" * 500) == 500
    assert growth(b"abc") == 3


def test_a_decoder_that_multiplies_is_refused_when_loaded(tmp_path: Path) -> None:
    decoder = decoders.Sequence([decoders.Replace("a", "a" * 10)] * 2)
    with pytest.raises(InputError, match=r"tokenizer\.json: its decoder may make more than 64 times"):
        Tokenizer.load(save(tmp_path / "tokenizer.json", normalizers.Lowercase(), decoder))


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_our_own_tokenizers_are_encoded_without_a_check(kind: Any) -> None:
    assert GrowthGuard(little_tokenizer(kind)._backend)._steps == []


def test_a_watched_tokenizer_gives_the_ids_it_gave(tmp_path: Path) -> None:
    usual = [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    doubled = normalizers.Replace(" ", " a ")
    path = save(tmp_path / "tokenizer.json", normalizers.Sequence([*usual, doubled]))
    tokenizer = Tokenizer.load(path)
    assert tokenizer._guard._steps
    for text in SENTENCES:
        assert tokenizer.encode(text).ids.tolist() == Backend.from_file(str(path)).encode(text).ids
