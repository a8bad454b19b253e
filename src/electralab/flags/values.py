"""What stands after a flag, as a value, or one sentence on what should.

word -> number, names
"""

import argparse

from electralab.parser import Words


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not float("-inf") < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}")
    return value


def names(text: str) -> Words:
    names = [name for name in text.split(",") if name]
    if not names:
        raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")
    return names


def shares(text: str) -> list[float]:
    shares = [positive(share) for share in text.split(",")]
    if max(shares) >= 1:
        raise argparse.ArgumentTypeError(f"must be shares between 0 and 1, got {text!r}")
    return shares


def whole_numbers(text: str) -> list[int]:
    return [count(number) for number in text.split(",")]


def positive_int(text: str) -> int:
    return whole(text, least=1)


def count(text: str) -> int:
    return whole(text, least=0)


def whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
    return value
