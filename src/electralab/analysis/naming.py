"""What models are called, by where they lie.

paths -> names, and names that files can have
"""

from collections.abc import Sequence
from pathlib import Path

from electralab.artifacts import real_path
from electralab.errors import UsageError

Parts = tuple[str, ...]


def name_models(models: Sequence[Path]) -> list[str]:
    """By the last part of a path; of those that have it in common (a/run, b/run), by what comes before."""
    parts = [real_path(path).parts for path in models]
    if len(set(parts)) < len(parts):
        twice = next(str(path) for place, path in enumerate(models) if parts[place] in parts[:place])
        raise UsageError(f"analyze: {twice} is given twice; give it once")
    names = [_name(one, [other for other in parts if other[-1:] == one[-1:]]) for one in parts]
    names = names if len(set(names)) == len(names) else ["/".join(one[1:]) for one in parts]
    files = [slug(name) for name in names]
    # Where files would have one name ("run 1" and "run-1"), the later is numbered.
    return [f"{name} ({place + 1})" if files[place] in files[:place] else name for place, name in enumerate(names)]


def _name(one: Parts, alike: Sequence[Parts]) -> str:
    if len(alike) == 1:
        return one[-1] if one else "model"
    while len({other[-1:] for other in alike}) == 1:
        one, alike = one[:-1], [other[:-1] for other in alike]
    depth = next(depth for depth in range(1, 1 + max(map(len, alike))) if _are_apart(alike, depth))
    return "/".join(one[-depth:])


def _are_apart(alike: Sequence[Parts], depth: int) -> bool:
    return len({other[-depth:] for other in alike}) == len(alike)


def slug(name: str) -> str:
    """For files: letters, digits and what is harmless."""
    parted = name.replace(", ", ".")
    kept = "".join(letter if letter.isalnum() or letter in "_." else "-" for letter in parted)
    return "-".join(part for part in kept.split("-") if part)
