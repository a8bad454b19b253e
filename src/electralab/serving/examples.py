"""Texts to try a model with: rows that its run held out of training, as the run wrote them down.

a network's folder -> ExampleText...
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from electralab.artifacts import read_json
from electralab.errors import ElectraError

_MOST = 6
_MOST_CHARACTERS = 1000
# Rows of a file of predictions in which one of each class is looked for.
_ROWS_READ = 500
_SPECIAL = re.compile(r"\[(CLS|SEP|PAD|MASK|UNK)\]")
_NO_SPACE_BEFORE = re.compile(r" (?=[,.;:!?%)\]}’”])")
_NO_SPACE_AFTER = re.compile(r"(?<=[(\[{‘“$]) |(?<=\d,) (?=\d{3}\b)| ?(?<=\w) ?([-’']) ?(?=\w)")
# Chinese and Japanese, whose words stand side by side.
_WIDE = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"
_UNSPACED = re.compile(f"(?<={_WIDE}) (?={_WIDE})")


@dataclass(frozen=True, slots=True)
class ExampleText:
    texts: tuple[str, ...]
    truth: str | None = None
    """What is right, where the row has a class or a number."""
    corrupted: str | None = None
    """The same with the generator's words in it, where a pair was pre-trained."""


def read_examples(folder: Path, *, is_symbols: bool = False) -> list[ExampleText]:
    """Of a network of a run, in its `export`; none of any other, or where the files are not as a run leaves them."""
    run = folder.resolve().parent.parent
    if not (run / "run.json").is_file():
        return []
    try:
        found = [*_read_pretrained(run, is_symbols=is_symbols), *_read_tuned(run)]
    except (ElectraError, OSError, ValueError, KeyError, TypeError):
        return []  # examples are a courtesy: a damaged file of them keeps no model from being served
    return [one for one in found if all(0 < len(text) <= _MOST_CHARACTERS for text in one.texts)][:_MOST]


def _read_pretrained(run: Path, *, is_symbols: bool) -> Iterator[ExampleText]:
    path = run / "examples.json"
    for row in read_json(path)["rows"] if path.is_file() else ():
        original = join_pieces(row["pieces"], is_symbols=is_symbols)
        corrupted = join_pieces(row["corrupted"], is_symbols=is_symbols) if "corrupted" in row else None
        yield ExampleText((original,), corrupted=corrupted)


def _read_tuned(run: Path) -> list[ExampleText]:
    """One of each class, as many as there is room for; of other tasks the first rows."""
    paths = sorted(run.glob("seed-*/predictions/dev.jsonl"))
    if not paths:
        return []
    with paths[0].open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, _ROWS_READ)]
    if all(isinstance(row.get("truth"), str) for row in rows):
        rows = list({row["truth"]: row for row in reversed(rows)}.values())[::-1]
    return [example for row in rows[:_MOST] if (example := _describe(row)) is not None]


def _describe(row: dict[str, Any]) -> ExampleText | None:
    truth = row.get("truth")
    shown = str(truth) if isinstance(truth, str | int | float) else None
    if "texts" in row:
        return ExampleText(tuple(map(str, row["texts"])), shown)
    # A question stands there without the text that answers it.
    return ExampleText((" ".join(map(str, row["words"])),)) if "words" in row else None


def join_pieces(pieces: Sequence[str], *, is_symbols: bool = False) -> str:
    """Pieces as a person would write them, as far as can be told: `##` goes on with the word before."""
    kept = [piece for piece in pieces if not _SPECIAL.fullmatch(piece)]
    if is_symbols:
        return " ".join(kept)
    text = "".join(piece[2:] if piece.startswith("##") and len(piece) > 2 else f" {piece}" for piece in kept)
    text = _NO_SPACE_BEFORE.sub("", text.strip())
    return _UNSPACED.sub("", _NO_SPACE_AFTER.sub(r"\1", text))
