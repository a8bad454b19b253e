"""Settings <-> TOML, and layers of them: preset, file, flags -> one validated object.

A layer is a plain nested dict with the name of where it came from, so that an error can say which file or flag to mend.
"""

import difflib
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from electralab.errors import InputError, UsageError

Tree = dict[str, Any]


class Settings(BaseModel):
    """The settings of one component: immutable, and closed to names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class Layer:
    source: str
    values: Tree


def read_toml(path: Path) -> Layer:
    try:
        return Layer(str(path), tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InputError(f"{path}: no such settings file; give a TOML file or the name of a preset") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; --config takes a TOML file or the name of a preset") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML ({error}); mend the file") from None


def to_toml(settings: Settings) -> str:
    return tomli_w.dumps(settings.model_dump(mode="json", exclude_none=True))


def parse_overrides(words: Sequence[str]) -> Layer:
    """`--masking.mask-share 0.25 --schedule.kind=cosine` -> {"masking": {"mask_share": 0.25}, ...}.

    A value is read as TOML where it is TOML (numbers, true/false, lists) and as a string otherwise.
    """
    values: Tree = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise UsageError(f"unexpected argument {word!r}; settings are given as --section.name VALUE")
        flag, equals, text = word[2:].partition("=")
        if not equals:
            if not rest:
                raise UsageError(f"--{flag}: has no value; give --{flag} VALUE")
            text = rest.pop(0)
        branch = values
        *sections, name = flag.replace("-", "_").split(".")
        for section in sections:
            branch = branch.setdefault(section, {})
            if not isinstance(branch, dict):
                raise UsageError(f"--{flag}: {section!r} is given both as a value and as a section; keep one")
        branch[name] = _parse_value(text)
    return Layer("command line", values)


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def resolve(kind: type[S], layers: Iterable[Layer]) -> S:
    """Merge the layers, later ones winning key by key, and validate; a wrong key or value is one sentence."""
    stack = list(layers)
    merged: Tree = {}
    for layer in stack:
        _merge(merged, layer.values)
    try:
        return kind.model_validate(merged)
    except ValidationError as error:
        raise UsageError(_explain(kind, error.errors()[0], stack)) from None


def _merge(into: Tree, values: Tree) -> None:
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = _merged_copy(value)


def _merged_copy(value: Any) -> Any:
    return {key: _merged_copy(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _explain(kind: type[Settings], error: ErrorDetails, layers: Sequence[Layer]) -> str:
    path = [str(part) for part in error["loc"]]
    source = next((layer.source for layer in reversed(layers) if _reaches(layer.values, path)), "settings")
    *sections, name = path or [""]
    where = ": ".join([source, *([".".join(sections)] if sections else [])])
    if error["type"] == "extra_forbidden":
        known = list(_section(kind, sections).model_fields)
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
        return f"{where}: no setting named {name!r}; {hint}"
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if not path:
        return f"{where}: {message}"
    got = "" if error["type"] == "missing" else f" (got {error['input']!r})"
    return f"{where}: {name}: {message}{got}; mend this setting"


def _reaches(values: Tree, path: Sequence[str]) -> bool:
    branch: Any = values
    for part in path:
        if not isinstance(branch, dict) or part not in branch:
            return False
        branch = branch[part]
    return True


def _section(kind: type[Settings], sections: Sequence[str]) -> type[Settings]:
    for name in sections:
        annotation = kind.model_fields[name].annotation
        candidates = [annotation, *get_args(annotation)]
        kind = next(c for c in candidates if isinstance(c, type) and issubclass(c, Settings))
    return kind
