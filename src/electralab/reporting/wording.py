"""Numbers as people say them.

number -> words
"""

import math
from typing import Any, TypeGuard

_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_WORDS = {"auc": "AUC", "mcc": "MCC", "f1": "F1", "spearman": "Spearman", "pearson": "Pearson"}


def say_count(number: float) -> str:
    """11366345 -> '11.4 million'; below a million every digit is said."""
    for size, name in _LARGE:
        if number >= size:
            return f"{number / size:.3g} {name}" if number < 1000 * size else f"{number:.3g}"
    return f"{number:,.0f}"


def say_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 90:
        return f"{minutes:.2g} min"
    return f"{minutes / 60:.1f} h" if minutes < 48 * 60 else f"{minutes / 1440:.1f} days"


def say_share(share: float) -> str:
    return f"{100 * share:.1f} %"


def say_flops(flops: float) -> str:
    return f"{flops:.3g}".replace("e+0", "e").replace("e+", "e")


def say_signed(number: float, digits: int = 1) -> str:
    """With its sign, which is no hyphen."""
    return f"{number:+z.{digits}f}".replace("-", "\N{MINUS SIGN}")


def say_estimate(found: Any) -> str:
    """A value with its 95 % interval, to two digits of that interval's width: more would say what is not known."""
    if not isinstance(found, dict) or not is_number(found.get("value")):
        return "–"
    value, low, high = found["value"], found.get("low"), found.get("high")
    if not is_number(low) or not is_number(high):
        return say_value(float(value))
    width = high - low
    if not 1e-9 < width < 1e6:
        # Sums of floating-point numbers that should be 0 are not.
        return say_value(round(float(value), 9))
    digits = max(0, 1 - math.floor(math.log10(width)))
    said = [f"{one:z.{digits}f}".replace("-", "\N{MINUS SIGN}") for one in (value, low, high)]
    return f"{said[0]} ({said[1]} to {said[2]})"


def say_value(value: Any) -> str:
    """Whatever stands in a cell."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        said = f"{value:z.4g}"
        return f"\N{MINUS SIGN}{said[1:]}" if value < 0 else said
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(say_value, value))
    return str(value)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def name_key(key: str) -> str:
    """'generator_loss' -> 'generator loss', 'auc_sure' -> 'AUC sure'."""
    return " ".join(_WORDS.get(word, word) for word in key.split("_"))


def name_score(score: str, metric: Any) -> str:
    """'cola' counted by 'mcc' -> 'cola (MCC)'"""
    return f"{score} ({name_key(str(metric))})" if metric and metric != score else score
