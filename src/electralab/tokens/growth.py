"""What a tokenizer's own steps may make of a text: a `tokenizer.json` from elsewhere must not fill the memory.

    tokenizers.Tokenizer -> GrowthGuard

Each step of a normaliser that replaces text says how much it may add at most. Where all of them together cannot add
much, nothing is done. Otherwise a text goes through them one by one before it is encoded, and is refused as soon as it
has grown beyond all reason: `tokenizers` itself cannot be stopped once it works.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers

from electralab.errors import InputError

# By how much the bytes of a text may grow. Compatibility forms make up to 12 times as much of single characters, and
# byte-level spelling doubles what it touches; a whole text that grows as much is none.
MAX_GROWTH = 64
_SLACK = 1024  # bytes, for what is added to every text however short

# What forms of Unicode do to single characters at most, in bytes.
_FORMS = {"NFC": 3, "NFD": 3, "NFKC": 12, "NFKD": 12, "Lowercase": 3, "BertNormalizer": 9, "ByteLevel": 2}


class GrowthGuard:
    """The steps of a normaliser through which a text is led before it is encoded; none where there is no danger."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        steps = list(_flatten(_state(backend.normalizer)))
        self._steps: list[normalizers.Normalizer] = []
        if _product(map(_growth, steps)) > MAX_GROWTH:
            # A step by itself is the normaliser of a tokenizer that does nothing else.
            template = json.loads(tokenizers.Tokenizer(models.WordLevel({}, unk_token="")).to_str())
            for step in steps:
                alone = tokenizers.Tokenizer.from_str(json.dumps({**template, "normalizer": step}))
                self._steps.append(alone.normalizer)

    def check(self, pieces: Sequence[str]) -> None:
        for piece in pieces if self._steps else ():
            limit = MAX_GROWTH * len(piece.encode()) + _SLACK
            text = piece
            for step in self._steps:
                text = step.normalize_str(text)
                if len(text.encode()) > limit:
                    raise InputError(
                        f"the tokenizer's normaliser makes more than {MAX_GROWTH} times as much of a text of "
                        f"{len(piece):,} characters; give another tokenizer"
                    )


def refuse_growth(backend: tokenizers.Tokenizer, path: Path) -> None:
    """A single step that may add too much at once, and a decoder, whose steps nobody watches."""
    for step in _flatten(_state(backend.normalizer)):
        if _growth(step) > MAX_GROWTH:
            raise InputError(
                f"{path}: a step of its normaliser ({step['type']}) may make more than {MAX_GROWTH} times as much of "
                "a text; give another tokenizer"
            )
    if _product(map(_growth, _flatten(_state(backend.decoder)))) > MAX_GROWTH:
        raise InputError(
            f"{path}: its decoder may make more than {MAX_GROWTH} times as much of a text; give another tokenizer"
        )


def _state(part: Any) -> dict[str, Any]:
    """What a part says of itself in tokenizer.json."""
    return json.loads(part.__getstate__()) if part is not None else {"type": "Sequence"}


def _flatten(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if part["type"] == "Sequence":
        for inner in (*part.get("normalizers", ()), *part.get("decoders", ())):
            yield from _flatten(inner)
    else:
        yield part


def _product(growths: Iterable[float]) -> float:
    """Bounded: many steps of a hostile file must not end in infinity times zero."""
    product = 1.0
    for growth in growths:
        product = min(product * growth, 1e300)
    return product


def _growth(step: dict[str, Any]) -> float:
    """How many times as many bytes the step makes of a text at most."""
    match step["type"]:
        case "Replace":
            content = len(step["content"].encode())
            pattern = len(step["pattern"].get("String", "").encode())
            # An expression, or nothing at all, may be found between any two characters.
            return max(1.0, content / pattern) if pattern else 1.0 + content
        case "Prepend":
            return 1.0 + len(step["prepend"].encode())
        case "Precompiled":
            # SentencePiece's table: the size of a trie, the trie, and replacements with a zero byte after each.
            charsmap = step["precompiled_charsmap"]
            try:
                data = base64.b64decode(charsmap)
            except binascii.Error:
                return max(1.0, len(charsmap))
            size = int.from_bytes(data[:4], "little")
            return max(1.0, *map(len, data[4 + size :].split(b"\0")))
        case kind:
            return _FORMS.get(kind, 1)
