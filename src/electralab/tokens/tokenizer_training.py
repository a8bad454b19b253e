"""A sample of text -> a tokenizer; the same sample gives the same file, byte for byte, in every process.

The trainers of `tokenizers` walk hash maps with random order where ids are given out or floats are summed; what they
would decide by chance is fixed here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from electralab.errors import InputError
from electralab.tokens.tokenizer import (
    SpecialTokens,
    Tokenizer,
    TokenizerConfig,
    cut_text,
    make_normalizer,
    make_wordpiece,
)

_NAMES = SpecialTokens()
_SPECIAL = list(asdict(_NAMES).values())

_CHARACTER_SHARE = 0.4
_WORD_CHARS = {"wordpiece": 4_000_000, "bpe": 2_000_000, "unigram": 1_000_000}
_ROUNDS = 4


def train_tokenizer(samples: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    lowercase = config.lowercase is not False
    normalizer = make_normalizer(config.kind, lowercase=lowercase, strip_accents=config.strip_accents is True)
    texts: Sequence[str] = [
        normalizer.normalize_str(text[start:end]) for text in samples for start, end in cut_text(text)
    ]
    if not any(text.strip() for text in texts):
        raise InputError("no text to learn a vocabulary from; give text, or a tokenizer with --tokenizer")
    # Byte-level pieces spell any character, so that none is too rare for them.
    if config.kind != "bpe":
        rare = _rare_characters(texts, config)
        texts = [text.translate(rare) for text in texts]
    # Time and memory of a trainer go with the different words, and in text without spaces every word is new.
    words: set[str] = set()
    size = 0
    for place, text in enumerate(texts):
        fresh = set(text.split()) - words
        words |= fresh
        size += sum(map(len, fresh))
        if size > _WORD_CHARS[config.kind]:
            texts = texts[: place + 1]
            break
    learn = {"wordpiece": _learn_wordpiece, "bpe": _learn_bpe, "unigram": _learn_unigram}[config.kind]
    backend = learn(texts, config.vocab_size)
    backend.normalizer = normalizer
    return Tokenizer(backend, _NAMES)


def train_symbol_vocab(counts: Counter[str], config: TokenizerConfig) -> Tokenizer:
    """The most frequent symbols as they are; ties by the symbol itself."""
    for name in _SPECIAL:
        del counts[name]
    if not counts:
        raise InputError("no symbols to learn a vocabulary from; give JSON lists of strings or integers")
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kept = [symbol for symbol, _ in ranked[: config.vocab_size - len(_SPECIAL)]]
    vocab = {symbol: index for index, symbol in enumerate([*_SPECIAL, *kept])}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token=_NAMES.unk))
    return Tokenizer(backend, _NAMES, is_symbols=True)


def _rare_characters(texts: Sequence[str], config: TokenizerConfig) -> dict[int, str]:
    """What to turn into spaces: all but the commonest characters that cover the wished share of the text.

    Where there are thousands of them they may fill only a part of the vocabulary. A letter takes two pieces, at the
    start of a word and inside; an ideograph is a word by itself and earns its piece sooner.
    """
    counts = np.zeros(0x110000, dtype=np.int64)
    for text in texts:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        present, times = np.unique(codes, return_counts=True)
        counts[present] += times
    counts[ord(" ")] = 0
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    needed = int(np.searchsorted(np.cumsum(counts[order]), config.character_coverage * counts.sum())) + 1
    is_ideograph = ((order >= 0x3400) & (order <= 0x9FFF)) | ((order >= 0x20000) & (order <= 0x3FFFF))
    cost = np.cumsum(np.where(is_ideograph, 0.5, 2.0))
    affordable = int(np.searchsorted(cost, _CHARACTER_SHARE * config.vocab_size, side="right"))
    return {int(code): " " for code in order[min(needed, affordable) :]}


def _learn_wordpiece(texts: Sequence[str], vocab_size: int) -> tokenizers.Tokenizer:
    """Twice: the first run only finds the single characters, whose order of ids, left to chance, decides ties.

    Given as special tokens they get fixed ids in the second run; the result is rebuilt without that role.
    """
    vocab: dict[str, int] = {}
    for size in (0, vocab_size):
        alphabet = sorted(set(vocab) - set(_SPECIAL))
        backend = make_wordpiece({_NAMES.unk: 0}, _NAMES)
        first = [*_SPECIAL, *alphabet]
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=first, show_progress=False)
        backend.train_from_iterator(texts, trainer)
        vocab = backend.get_vocab()
    return make_wordpiece(vocab, _NAMES)


def _learn_bpe(texts: Sequence[str], vocab_size: int) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=max(vocab_size, len(alphabet) + len(_SPECIAL)),
        special_tokens=_SPECIAL,
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def _learn_unigram(texts: Sequence[str], vocab_size: int) -> tokenizers.Tokenizer:
    """The trainer's pieces with scores of our own: its scores are sums in random order."""
    backend = tokenizers.Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(prepend_scheme="always"),
            pre_tokenizers.Punctuation(),
        ]
    )
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size, special_tokens=_SPECIAL, unk_token=_NAMES.unk, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    pieces = sorted(set(backend.get_vocab()) - set(_SPECIAL))
    counted = Counter(word for text in texts for word, _ in backend.pre_tokenizer.pre_tokenize_str(text))
    words = sorted(counted.items())
    times = np.array([count for _, count in words])
    # Log frequencies from the best segmentation of every word, found anew a few times, first as if all were equal.
    scores = np.full(len(pieces), -1.0)
    for _ in range(_ROUNDS):
        model = tokenizers.Tokenizer(_unigram(zip(pieces, scores.tolist(), strict=True)))
        encodings = model.encode_batch_fast([word for word, _ in words], add_special_tokens=False)
        ids = [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]
        weights = np.repeat(times, [len(own) for own in ids])
        counts = np.bincount(np.concatenate(ids), weights, minlength=len(pieces) + len(_SPECIAL))[len(_SPECIAL) :]
        # A piece that no word needs any more stays possible. Rounded, so that a last bit cannot decide a tie.
        scores = np.round(np.log(np.maximum(counts, 0.5) / counts.sum()), 6)
    backend.model = _unigram(sorted(zip(pieces, scores.tolist(), strict=True), key=lambda item: (-item[1], item[0])))
    return backend


def _unigram(pieces: Iterable[tuple[str, float]]) -> models.Unigram:
    vocab = [*((name, 0.0) for name in _SPECIAL), *pieces]
    return models.Unigram(vocab, unk_id=_SPECIAL.index(_NAMES.unk), byte_fallback=False)
