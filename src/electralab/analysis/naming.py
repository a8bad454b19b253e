"""What models are called, by where they lie.

paths -> names, and names that files can have
"""

from collections.abc import Sequence
from pathlib import Path

from electralab.artifacts import real_path
from electralab.errors import UsageError


def name_models(models: Sequence[Path]) -> list[str]:
    """By the last part of a path; of those that have it in common (a/run, b/run), by what comes before.

    >>> name_models([Path("/a/run"), Path("/b/run"), Path("/c/small")])
    ['a', 'b', 'small']
    """
    paths = [real_path(path).parts for path in models]
    if len(set(paths)) < len(paths):
        twice = next(str(path) for index, path in enumerate(models) if paths[index] in paths[:index])
        raise UsageError(f"analyze: {twice} is given twice; give it once")
    names = [_shortest_name(parts, [other for other in paths if other[-1:] == parts[-1:]]) for parts in paths]
    if len(set(names)) < len(names):
        names = ["/".join(parts[1:]) for parts in paths]
    files = [slug(name) for name in names]
    # Where files would have one name ("run 1" and "run-1"), the later is numbered.
    return [f"{name} ({index + 1})" if files[index] in files[:index] else name for index, name in enumerate(names)]


def _shortest_name(parts: tuple[str, ...], alike: Sequence[tuple[str, ...]]) -> str:
    """The fewest parts that tell a path from those that end alike, without the end that all of them have."""
    if len(alike) == 1:
        return parts[-1] if parts else "model"
    while len({other[-1:] for other in alike}) == 1:
        parts, alike = parts[:-1], [other[:-1] for other in alike]
    depth = 1
    while len({other[-depth:] for other in alike}) < len(alike):
        depth += 1
    return "/".join(parts[-depth:])


def slug(name: str) -> str:
    """For files: letters, digits and what is harmless."""
    kept = "".join(letter if letter.isalnum() or letter in "_." else "-" for letter in name.replace(", ", "."))
    return "-".join(part for part in kept.split("-") if part)
