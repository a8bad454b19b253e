"""A little text of several scripts to learn tokenizers from."""

from functools import cache

from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig, TokenizerKind
from electralab.tokens.tokenizer_training import train_tokenizer

SENTENCES = (
    "The cat sat on the mat and the dog sat on the log.",
    "Naïve café owners, in 1999, sold 25 cakes; nobody knew why!",
    "한국어 문장은 낱말 사이를 띄어 쓴다.",
    "中文句子没有空格。",
    "Ein Mädchen ißt Äpfel, der Hund frißt Würste.",
    "שלום עולם والعالم العربي",
)
TEXTS = [" ".join(SENTENCES[(start + step * 5) % 6] for step in range(4)) for start in range(6) for _ in range(3)]

HOSTILE = (
    "a\u200bb zero\u200dwidth\ufeff",
    "e\u0301 cafe\u0301 \u0301x",
    "\u202eright to left\u202c שלום",
    "👩‍👩‍👧‍👦 🏳️‍🌈 \U00020000",
    "a\x00b\x01c\x7f\x85d",
    "ｈａｌｆ ﾊﾝｶｸ ﬁ ﬂ Ⅷ",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8",
    "Iİıi ſẞß ǅ",
    "[MASK] x[SEP]y [CLS] [PAD] [UNK] [mask]",
    "  lead  trail  \t\r\n \u00a0\u3000x",
    "▁under ▁ Ġbyte Ċ ##piece",
    "." * 900,
    "x" * 300,
    "",
)


@cache
def little_tokenizer(
    kind: TokenizerKind = "wordpiece", *, lowercase: bool = True, strip_accents: bool = False
) -> Tokenizer:
    config = TokenizerConfig(
        kind=kind, vocab_size=400, lowercase=lowercase, strip_accents=strip_accents, character_coverage=1.0
    )
    return train_tokenizer(TEXTS, config)
