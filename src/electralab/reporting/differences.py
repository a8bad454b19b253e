"""Settings side by side, and only where they differ.

settings... -> setting -> value of each
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ABSENT = "–"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def find_differences(trees: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A setting that one of them does not know counts as a difference."""
    flat = [dict(flatten(tree)) for tree in trees]
    keys = dict.fromkeys(key for one in flat for key in one)
    values = {key: [one.get(key, ABSENT) for one in flat] for key in keys}
    return {key: found for key, found in values.items() if any(one != found[0] for one in found)}
