"""Numbers as people say them.

number -> words
"""

from typing import Any

_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


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
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.1f} h" if minutes < 48 * 60 else f"{minutes / 1440:.1f} days"


def say_share(share: float) -> str:
    return f"{100 * share:.1f} %"


def say_flops(flops: float) -> str:
    return f"{flops:.3g}".replace("e+", "e")


def say_value(value: Any) -> str:
    """Whatever stands in a cell."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(say_value, value))
    return str(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def name_key(key: str) -> str:
    """'generator_loss' -> 'generator loss', 'auc_sure' -> 'AUC sure'."""
    return " ".join({"auc": "AUC", "mcc": "MCC", "f1": "F1"}.get(word, word) for word in key.split("_"))
