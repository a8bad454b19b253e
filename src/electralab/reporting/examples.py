"""Rows of text at work: what was hidden, what was guessed, what was put there, and how suspicious each token looks.

Subject -> HTML
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from electralab.reporting.format import format_percent
from electralab.reporting.markup import absent, fold, heading, paragraph, table
from electralab.reporting.subjects import Subject
from electralab.reporting.summary import last_scores

Row = dict[str, Any]

_SHADES = 10
_ROWS_COMPARED = 2
# What comes below the first rows should not be out of sight.
_ROWS_SHOWN = 3
_NEEDED = "'electra pretrain' writes examples.json with its evaluations; with prepared data, --data shows some now."
_OF_GUESSES = (
    "The text with hidden tokens struck through, and below it the text as the model would have it: its likeliest "
    "guesses, underlined where they are not the original, dotted where they are."
)
_OF_REPLACEMENTS = (
    "The text with hidden tokens struck through, and below it what the generator put there, underlined where it is "
    "not the original, dotted where it is."
)


def show_all_examples(subjects: Sequence[Subject]) -> str:
    """Of several runs the first rows of each, under its name; where none has any, why, each reason once."""
    if len(subjects) == 1:
        return show_examples(subjects[0])
    if not any(subject.examples for subject in subjects):
        return "".join(dict.fromkeys(map(show_examples, subjects)))
    shown = ((subject.name, show_examples(subject, _ROWS_COMPARED)) for subject in subjects)
    return "".join(heading(name) + inner for name, inner in shown if inner)


def show_examples(subject: Subject, most: int | None = None) -> str:
    scores = last_scores(subject)
    if subject.kind != "run" or not (scores or subject.examples):
        return ""
    if not subject.examples:
        if any(key.startswith("next_") for key in scores):
            why = "A causal model guesses each token from those before it; nothing of a text is hidden from it."
            return absent("Nothing is hidden", why)
        return absent("No examples", _NEEDED)
    has = {key for row in subject.examples for key in row}
    note = paragraph(_OF_REPLACEMENTS if "corrupted" in has else _OF_GUESSES, "note")
    shown = [_try_row(row) for row in subject.examples[:most]]
    rest = "".join(shown[_ROWS_SHOWN:])
    more = fold(f"{len(shown) - _ROWS_SHOWN} more", rest) if rest else ""
    return note + (_SCALE if "p_replaced" in has else "") + "".join(shown[:_ROWS_SHOWN]) + more


def _try_row(row: Row) -> str:
    try:
        return _show_row(row)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return absent("Cannot be shown", f"A row of examples.json is not as electralab writes it ({error!r}).")


def _show_row(row: Row) -> str:
    count, is_masked = len(row["pieces"]), row["is_masked"]
    guesses = row.get("guesses") or [[]] * count
    put = row.get("corrupted") or [
        _spell(found[0]) if found else piece for piece, found in zip(row["pieces"], guesses, strict=True)
    ]
    suspicions = row.get("p_replaced") or [None] * count
    is_other = row.get("is_replaced") or [one != other for one, other in zip(put, row["pieces"], strict=True)]
    above, below = [], []
    for piece, is_hidden in zip(row["pieces"], is_masked, strict=True):
        text, space = _join(piece)
        above.append(space + (f"<del>{escape(text)}</del>" if is_hidden else escape(text)))
    for piece, is_hidden, is_new, suspicion in zip(put, is_masked, is_other, suspicions, strict=True):
        text, space = _join(piece)
        below.append(space + _shade(text, suspicion, "put" if is_new else "back" if is_hidden else ""))
    head = paragraph(_count(is_masked, is_other, suspicions), "note")
    lines = f"<p>{''.join(above).strip()}</p><p>{''.join(below).strip()}</p>"
    return f'<div class="example">{lines}{head}{_list_hidden(row)}</div>'


def _shade(text: str, suspicion: float | None, kind: str) -> str:
    heat = 0 if suspicion is None else min(_SHADES - 1, int(_SHADES * suspicion))
    kinds = " ".join(one for one in (f"heat-{heat}" if heat else "", kind) if one)
    said = f' class="{kinds}"' if kinds else ""
    said += "" if suspicion is None else f' title="{format_percent(suspicion)} replaced"'
    return f"<span{said}>{escape(text)}</span>" if said else escape(text)


def _count(is_masked: list[bool], is_other: list[bool], suspicions: list[float | None]) -> str:
    """A token counts as found at p > 0.5."""
    hidden, other = sum(map(bool, is_masked)), sum(map(bool, is_other))
    said = f"{hidden} hidden, {hidden - other} restored"
    judged = [(new, p > 0.5) for new, p in zip(is_other, suspicions, strict=True) if p is not None]
    if not judged:
        return f"{said}."
    found, alarms = sum(new and called for new, called in judged), sum(called and not new for new, called in judged)
    return f"{said}, {other} replaced; {found} of them found, {alarms} false alarm{'' if alarms == 1 else 's'}."


def _list_hidden(row: Row) -> str:
    """For those who want the numbers: a line for each hidden token."""
    if not row.get("guesses"):
        return ""
    columns: dict[str, list[Any]] = {
        "hidden": row["pieces"],
        "likeliest guesses": [" · ".join(map(_say_guess, guesses)) for guesses in row["guesses"]],
    }
    if "corrupted" in row:
        columns["put there"] = row["corrupted"]
    if "p_replaced" in row:
        columns["looks replaced"] = [None if p is None else format_percent(p) for p in row["p_replaced"]]
    lines = [
        cells
        for cells, is_hidden in zip(zip(*columns.values(), strict=True), row["is_masked"], strict=True)
        if is_hidden
    ]
    inner = table("Hidden tokens and what was guessed", list(columns), lines)
    return fold("Guesses", inner) if lines else ""


def _say_guess(guess: Row) -> str:
    return f"“{_spell(guess)}” {format_percent(guess['p'])}"


def _spell(guess: Row) -> str:
    return f"{'##' if guess.get('continues_word') else ''}{guess['text']}"


def _join(piece: str) -> tuple[str, str]:
    """What a piece adds to the text, and what stands before it: nothing where it goes on with a word."""
    return (piece[2:], "") if piece.startswith("##") and len(piece) > 2 else (piece, " ")


_SCALE = (
    '<p class="note scale" aria-hidden="true">Shaded by the discriminator\'s suspicion: original '
    + "".join(f'<span class="heat-{heat}">{10 * heat} %</span>' for heat in range(1, _SHADES, 2))
    + " replaced</p>"
)
