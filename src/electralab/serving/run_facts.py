"""What a run wrote down goes along with its networks: held-out scores, and held-out rows to try the model with.

a network's folder -> HeldoutScores, ExampleText...
"""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from electralab.errors import ElectraError
from electralab.records.answers import ExampleText, HeldoutScores
from electralab.records.run import PretrainResults, RunExamples, RunFingerprint
from electralab.records.tuned import read_rows

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


def find_run(folder: Path) -> Path | None:
    """The run whose `export`, or whose `onnx` beside it, holds this network."""
    run = folder.resolve().parent.parent
    return run if (run / RunFingerprint.FILE).is_file() else None


def read_heldout_scores(folder: Path) -> HeldoutScores | None:
    run = find_run(folder)
    if run is None:
        return None
    try:
        heldout = PretrainResults.read(run).heldout
    except ElectraError:
        return None  # the model answers without them: they are missing, damaged, or of a fine-tuning run
    auc, recall, precision = (heldout.get(name) for name in ("auc", "recall", "precision"))
    if auc is None or recall is None or precision is None:
        return None
    return HeldoutScores(auc=auc, recall=recall, precision=precision)


def read_examples(folder: Path, *, is_symbols: bool = False) -> tuple[ExampleText, ...]:
    run = find_run(folder)
    if run is None:
        return ()
    try:
        examples = [*_read_pretrained(run, is_symbols=is_symbols), *_read_tuned(run)]
    except (ElectraError, OSError):
        return ()  # examples are a courtesy: a damaged file of them keeps no model from being served
    return tuple(example for example in examples if all(0 < len(text) <= _MOST_CHARACTERS for text in example.texts))[
        :_MOST
    ]


def _read_pretrained(run: Path, *, is_symbols: bool) -> list[ExampleText]:
    if not (run / RunExamples.FILE).is_file():
        return []
    return [
        ExampleText(
            texts=(join_pieces(row.pieces, is_symbols=is_symbols),),
            truth=None,
            corrupted=join_pieces(row.corrupted, is_symbols=is_symbols) if row.corrupted is not None else None,
        )
        for row in RunExamples.read(run).rows
    ]


def _read_tuned(run: Path) -> list[ExampleText]:
    """One of each class, as many as there is room for; of other tasks the first rows."""
    paths = sorted(run.glob("seed-*/predictions/dev.jsonl"))
    rows = list(islice(read_rows(paths[0]), _ROWS_READ)) if paths else []
    if all(isinstance(row.truth, str) for row in rows):
        rows = list({row.truth: row for row in reversed(rows)}.values())[::-1]
    examples = []
    for row in rows[:_MOST]:
        # A question stands there without the text that answers it, so it is no example.
        if row.texts:
            truth = str(row.truth) if isinstance(row.truth, str | float) else None
            examples.append(ExampleText(texts=row.texts, truth=truth, corrupted=None))
        elif row.words:
            examples.append(ExampleText(texts=(" ".join(row.words),), truth=None, corrupted=None))
    return examples


def join_pieces(pieces: Sequence[str], *, is_symbols: bool = False) -> str:
    """Tokens as a person would write them, as far as can be told: `##` continues the word before.

    >>> join_pieces(["[CLS]", "the", "cat", "##s", "sat", ".", "[SEP]"])
    'the cats sat.'
    """
    kept = [piece for piece in pieces if not _SPECIAL.fullmatch(piece)]
    if is_symbols:
        return " ".join(kept)
    text = "".join(piece[2:] if piece.startswith("##") and len(piece) > 2 else f" {piece}" for piece in kept)
    text = _NO_SPACE_BEFORE.sub("", text.strip())
    return _UNSPACED.sub("", _NO_SPACE_AFTER.sub(r"\1", text))
