"""A vocabulary of a few words, so that rows can be read by eye."""

from dataclasses import asdict

from electralab.tokens.tokenizer import SpecialTokens, Tokenizer, make_normalizer, make_wordpiece

WORDS = ("who", "sat", "the", "cat", "dog", "on", "mat", "##s", "a", "##b", "##c", "b", "c", ".", "é", "中", "[", "]")


def word_tokenizer() -> Tokenizer:
    names = SpecialTokens()
    pieces = [*asdict(names).values(), *WORDS]
    backend = make_wordpiece({piece: index for index, piece in enumerate(pieces)}, names)
    backend.normalizer = make_normalizer("wordpiece", lowercase=True, strip_accents=False)
    return Tokenizer(backend, names)
