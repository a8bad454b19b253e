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


def learn_tokenizer(samples: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    lowercase = config.lowercase is not False
    normalizer = make_normalizer(config.kind, lowercase=lowercase, strip_accents=config.strip_accents is True)
    texts = [normalizer.normalize_str(text[start:end]) for text in samples for start, end in cut_text(text)]
    if not any(texts):
        raise InputError("no text to learn a vocabulary from; give text, or a tokenizer with --tokenizer")
    # Byte-level pieces spell any character.
    if config.kind != "bpe":
        rare = _rare_characters(texts, config.character_coverage)
        texts = [text.translate(rare) for text in texts]
    learn = {"wordpiece": _learn_wordpiece, "bpe": _learn_bpe, "unigram": _learn_unigram}[config.kind]
    backend = learn(texts, config.vocab_size)
    backend.normalizer = normalizer
    return Tokenizer(backend, _NAMES)


def learn_symbols(counts: Counter[str], config: TokenizerConfig) -> Tokenizer:
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


def _rare_characters(texts: Sequence[str], coverage: float) -> dict[int, str]:
    """What to turn into spaces so that the commonest characters left cover the wished share of the text."""
    counts = np.zeros(0x110000, dtype=np.int64)
    for text in texts:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        found, times = np.unique(codes, return_counts=True)
        counts[found] += times
    order = np.argsort(-counts, kind="stable")
    covered = np.cumsum(counts[order])
    needed = int(np.searchsorted(covered, coverage * counts.sum())) + 1
    return {int(code): " " for code in order[needed:] if counts[code]}


def _learn_wordpiece(texts: Sequence[str], vocab_size: int) -> tokenizers.Tokenizer:
    """Twice: the first run only finds the single characters, whose order of ids, left to chance, decides ties.

    Given as special tokens they get fixed ids in the second run; the result is rebuilt without that role.
    """
    letters = _train_wordpiece(texts, 0, _SPECIAL)
    alphabet = sorted(set(letters) - set(_SPECIAL))
    vocab = _train_wordpiece(texts, vocab_size, [*_SPECIAL, *alphabet])
    return make_wordpiece(vocab, _NAMES)


def _train_wordpiece(texts: Sequence[str], vocab_size: int, first: list[str]) -> dict[str, int]:
    backend = make_wordpiece({_NAMES.unk: 0}, _NAMES)
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=first, show_progress=False)
    backend.train_from_iterator(texts, trainer)
    return backend.get_vocab()


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
    """Scores are sums in random order: rounded, and the pieces sorted by them, they are the same every time."""
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
    pieces = _unigram_scores(backend)
    ranked = sorted(((piece, round(score, 6)) for piece, score in pieces), key=lambda item: (-item[1], item[0]))
    vocab = [*((name, 0.0) for name in _SPECIAL), *((p, s) for p, s in ranked if p not in _SPECIAL)]
    backend.model = models.Unigram(vocab, unk_id=_SPECIAL.index(_NAMES.unk), byte_fallback=False)
    return backend


def _unigram_scores(backend: tokenizers.Tokenizer) -> list[tuple[str, float]]:
    import json

    return [(str(piece), float(score)) for piece, score in json.loads(backend.to_str())["model"]["vocab"]]
