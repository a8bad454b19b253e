"""Whether two tokenizers give a text the same ids, and which tokens they have in common where they do not.

Tokenizer, Tokenizer -> half a sentence about the difference; row of each token in the other's table

Their files may differ while these agree: Hugging Face writes the pipeline of a released vocab.txt in other words.
"""

import json
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from electralab.tokens.tokenizer import Tokenizer, list_steps

# Of a token in `match_tokens` that the other tokenizer lacks.
ABSENT = -1


def find_difference(mine: Tokenizer, theirs: Tokenizer) -> str:
    """What `theirs` does otherwise; "" where every text has the same ids."""
    my_ids, their_ids = _read_ids(mine), _read_ids(theirs)
    moved = [token for token in my_ids if my_ids[token] != their_ids.get(token)]
    if moved:
        example = next((token for token in moved if token in their_ids), moved[0])
        there = f"is {their_ids[example]}" if example in their_ids else "does not exist"
        return (
            f"gives other ids: {example!r} {there} there, {my_ids[example]} here, "
            f"and {len(moved):,} of {len(my_ids):,} tokens differ"
        )
    if len(their_ids) > len(my_ids):
        example = next(token for token in their_ids if token not in my_ids)
        return f"has more tokens ({len(their_ids):,}, here {len(my_ids):,}; such as {example!r})"
    if mine.special != theirs.special:
        return "has other special tokens"
    my_rules, their_rules = _read_rules(mine), _read_rules(theirs)
    for part, words in _PARTS.items():
        if my_rules[part] != their_rules[part]:
            return f"has the same tokens but {words}"
    return ""


def match_tokens(mine: Tokenizer, theirs: Tokenizer) -> NDArray[np.int64]:
    """(V,) for each of my ids the id of the same token there, told by its text, or ABSENT.

    Vocabularies of one kind write a token alike. Of two kinds (WordPiece marks what continues a word, SentencePiece
    what begins one) the spelling without marks must agree, and whether it continues a word. Special tokens go by role.
    """
    rows = np.full(mine.vocab_size, ABSENT, dtype=np.int64)
    their_ids = _read_ids(theirs)
    is_one_kind = mine.kind == theirs.kind
    spelt: dict[tuple[str, bool], int] = {}
    for index in np.flatnonzero(theirs.is_ordinary):
        spelt.setdefault((theirs.decode_token(int(index)), bool(theirs.continues_word[index])), int(index))
    for index in np.flatnonzero(mine.is_ordinary):
        token, spelling = mine.token(int(index)), mine.decode_token(int(index))
        if is_one_kind and token in their_ids:
            rows[index] = their_ids[token]
        elif spelling:
            rows[index] = spelt.get((spelling, bool(mine.continues_word[index])), ABSENT)
    for role, index in asdict(mine.special).items():
        rows[index] = asdict(theirs.special)[role]
    return rows


# Parts of a pipeline, and what it means where two differ in one.
_PARTS = {
    "normalizer": "normalises text in another way (case, accents, white space)",
    "pre_tokenizer": "splits text into words in another way",
    "model": "splits words into tokens in another way",
    "added": "takes other words as they are",
    "is_symbols": "takes lists of symbols, not text, or the other way round",
}


def _read_ids(tokenizer: Tokenizer) -> dict[str, int]:
    ids = {tokenizer.token(index): index for index in range(tokenizer.vocab_size)}
    return {token: index for token, index in ids.items() if token}


def _read_rules(tokenizer: Tokenizer) -> dict[str, object]:
    """How text becomes tokens, in one form for what can be written in several."""
    pipeline = json.loads(tokenizer.to_json())
    steps: dict[str, list[dict[str, object]]] = {"normalizer": [], "pre_tokenizer": []}
    for name, written in steps.items():
        for step in list_steps(pipeline.get(name)):
            is_open = step.type == "BertNormalizer" and step.strip_accents is None
            # As BERT does where nothing is said.
            written.append(step.to_json() | ({"strip_accents": step.lowercase} if is_open else {}))
    model = pipeline["model"]
    if isinstance(model.get("vocab"), dict):  # ids alone; as a list, that of Unigram, it holds scores too
        del model["vocab"]
    added = sorted(token["content"] for token in pipeline.get("added_tokens", []) if not token.get("special"))
    return {**steps, "model": model, "added": added, "is_symbols": tokenizer.is_symbols}
