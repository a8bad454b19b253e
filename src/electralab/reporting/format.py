"""Numbers and names as people say them, and the sentences and reports that records have in `page/`.

number -> words; record -> sentence..., Markdown

A template says what is said of a record. Here is how its numbers are written: `format_count` is the filter `count`.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TypeGuard

from jinja2 import Environment, FunctionLoader, StrictUndefined

from electralab.records.record import Record
from electralab.records.study import SharedBudget
from electralab.records.tuned import choose_split

_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_WORDS = {"auc": "AUC", "mcc": "MCC", "f1": "F1", "f05": "F0.5", "spearman": "Spearman", "pearson": "Pearson"}
_METRICS = {
    "mcc": "Matthews correlation",
    "em": "exact match",
    "spearman": "Spearman correlation",
    "pearson": "Pearson correlation",
}


class ObjectiveText(Record):
    what: str
    """What was trained: "an ELECTRA pair"."""
    learned: str
    """What it learned to do."""


class Texts(Record):
    """texts.toml, which says what its tables are by."""

    words: dict[str, str]
    objectives: dict[str, ObjectiveText]
    outputs: dict[str, str]
    forms: dict[str, str]
    questions: dict[str, str]


@cache
def read_asset(name: str) -> str:
    return files("electralab.reporting").joinpath("page", name).read_text(encoding="utf-8")


@cache
def read_texts() -> Texts:
    return Texts.model_validate(tomllib.loads(read_asset("texts.toml")))


def format_count(number: float) -> str:
    """
    >>> format_count(11366345)
    '11.4 million'

    Below a million every digit is said.
    """
    for size, name in _LARGE:
        if number >= size:
            return f"{number / size:.3g} {name}" if number < 1000 * size else f"{number:.3g}"
    return f"{number:,.0f}"


def format_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 90:
        return f"{minutes:.2g} min"
    return f"{minutes / 60:.1f} h" if minutes < 48 * 60 else f"{minutes / 1440:.1f} days"


def format_bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def format_percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def format_points(fraction: float | None) -> str:
    """A score between 0 and 1 as points of a hundred; a dash where it is not known."""
    if fraction is None or math.isnan(fraction):
        return "–"
    return f"{100 * fraction:z.1f}".replace("-", "\N{MINUS SIGN}")


def format_interval(low: float, high: float) -> str:
    """In points; a dash where there is none."""
    return "–" if math.isnan(low) else f"{format_points(low)} to {format_points(high)}"


def format_flops(flops: float) -> str:
    return f"{flops:.3g}".replace("e+0", "e").replace("e+", "e")


def format_signed(number: float, digits: int = 1) -> str:
    """With its sign, which is no hyphen."""
    return f"{number:+z.{digits}f}".replace("-", "\N{MINUS SIGN}")


def format_estimate(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A value with its 95 % interval, to two digits of that interval's width: more would say what is not known.

    >>> format_estimate(0.12345, 0.05, 0.2)
    '0.12 (0.05 to 0.20)'
    """
    if value is None:
        return "–"
    if low is None or high is None:
        return format_value(float(value))
    width = high - low
    if not 1e-9 < width < 1e6:
        # Sums of floating-point numbers that should be 0 are not.
        return format_value(round(float(value), 9))
    digits = max(0, 1 - math.floor(math.log10(width)))
    texts = [f"{number:z.{digits}f}".replace("-", "\N{MINUS SIGN}") for number in (value, low, high)]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def format_value(value: object) -> str:
    """Whatever stands in a cell."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        text = f"{value:z.4g}"
        return f"\N{MINUS SIGN}{text[1:]}" if value < 0 else text
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    return str(value)


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_key(key: str) -> str:
    """
    >>> format_key("auc_sure")
    'AUC sure'
    """
    return " ".join(_WORDS.get(word, word) for word in key.split("_"))


def format_metric(metric: str) -> str:
    """As it is said inside a sentence."""
    return _METRICS.get(metric, format_key(metric))


def format_score_name(score: str, metrics: Mapping[str, str]) -> str:
    """
    >>> format_score_name("cola", {"cola": "mcc"})
    'cola (MCC)'
    """
    metric = metrics.get(score)
    return f"{score} ({format_key(metric)})" if metric and metric != score else score


def format_number_of(count: int, noun: str) -> str:
    """
    >>> format_number_of(1, "row"), format_number_of(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_names(names: Sequence[str], most: int = 3) -> str:
    """
    >>> format_names(["a.txt", "b.txt", "c.txt", "d.txt"])
    'a.txt, b.txt, c.txt and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def format_time(minutes: float) -> str:
    """What work that was not started takes."""
    return "less than a minute" if minutes < 1 else f"about {format_seconds(60 * minutes)}"


def format_effort(minutes: float, memory_mb: float) -> str:
    """Time and memory that training takes."""
    return f"{format_time(minutes)}, {format_bytes(memory_mb * 2**20)} of memory"


def format_budget(budget: SharedBudget) -> str:
    return f"{format_flops(budget.amount)} {'FLOPs' if budget.kind == 'flops' else budget.kind}"


def format_share(value: object) -> str:
    """A percentage, also of what could not be measured."""
    return format_percent(value) if is_number(value) else "n/a"


def escape_cell(text: str) -> str:
    """A bar would end a cell of Markdown, also behind a backslash, and a line break its row."""
    return " ".join(text.replace("|", "&#124;").split())


@cache
def _templates() -> Environment:
    # Markdown is no HTML: cells are escaped where a name could leave them.
    environment = Environment(
        loader=FunctionLoader(read_asset),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    named = {name.removeprefix("format_"): value for name, value in globals().items() if name.startswith("format_")}
    environment.filters |= named | {"cell": escape_cell, "split": choose_split}
    return environment


def render_text(template: str, /, **values: object) -> str:
    """A card or report in Markdown: one blank line between its parts, and a line end behind the last."""
    return re.sub(r"\n{3,}", "\n\n", _templates().get_template(template).render(**values)).strip("\n") + "\n"


@cache
def _sentences() -> object:
    # A name with a line break in it must not become two sentences.
    environment = _templates().overlay(finalize=lambda value: str(value).replace("\n", " "))
    return environment.get_template("sentences.txt").module


def tell(subject: object, name: str = "", **beside: object) -> list[str]:
    """What is said of a record, by its class, or under another name; `beside` is what else a sentence speaks of."""
    text: str = getattr(_sentences(), name or type(subject).__name__)(subject, **beside)
    return [line for line in text.split("\n") if line.strip()]
