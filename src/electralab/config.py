"""Settings <-> TOML, and layers of them: preset, file, flags -> one validated object.

A layer is a plain nested dict with the name of where it came from, so that an error can say which file or flag to mend.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError

from electralab.errors import InputError, UsageError, suggest

SettingsTree = dict[str, object]
"""Sections and values by name, to be changed."""
GivenSettings = Mapping[str, object]
"""What a caller gives: sections and values by name, whatever they are; `resolve` says what is wrong with them."""


class Settings(BaseModel):
    """The settings of one component: immutable, and closed to names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


class Complaint(NamedTuple):
    """A thing that is wrong with a value."""

    path: tuple[str, ...]
    """Of the part that is wrong; empty for the value as a whole."""
    message: str
    given: object
    kind: str
    """As pydantic calls it."""
    expected: str
    """The words that would do, in quotes, where the value is to be one of several."""

    @property
    def name(self) -> str:
        return ".".join(self.path)


def first_complaint(error: ValidationError, rank: Callable[[str], int] = lambda _: 0) -> Complaint:
    """The first of the kind with the lowest rank."""
    details = min(error.errors(), key=lambda details: rank(details["type"]))
    message, expected = details["msg"].removeprefix("Value error, "), details.get("ctx", {}).get("expected", "")
    return Complaint(tuple(map(str, details["loc"])), message, details["input"], details["type"], str(expected))


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name by which files and flags may give a setting: `times: Annotated[int, Alias("num_resamples")]`.

    What is stored, and with it the identity of a run, has the setting's own name.
    """

    name: str


@dataclass(frozen=True, slots=True)
class ConfigLayer:
    source: str
    values: GivenSettings


def read_toml(path: Path) -> ConfigLayer:
    try:
        return ConfigLayer(str(path), tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        raise InputError(f"{path}: no such settings file; give a TOML file or the name of a preset") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; --config takes a TOML file or the name of a preset") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give another file") from None
    except (ValueError, RecursionError) as error:  # ValueError also for an integer of too many digits
        raise InputError(f"{path}: not valid TOML ({error}); correct the file") from None


def list_bundled(folder: str) -> list[str]:
    """The names of the settings files in one of the package's own folders."""
    entries = (resources.files("electralab") / folder).iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml"))


def find_bundled(folder: str, name: str, where: str) -> GivenSettings | None:
    """What a file that comes with the package says; None where the name can only be that of a user's own."""
    known = list_bundled(folder)
    if name in known:
        with resources.as_file(resources.files("electralab") / folder / f"{name}.toml") as path:
            return read_toml(path).values
    if Path(name).suffix != ".toml" and not Path(name).exists():
        hint = suggest(name, known, f"{folder} are {', '.join(known)}")
        raise UsageError(f"{where} or file named {name!r}; {hint}")
    return None


def to_toml(settings: Settings) -> str:
    return tomli_w.dumps(settings.model_dump(mode="json", exclude_none=True))


def differences(
    stored: Mapping[str, object], asked: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Where two trees of settings differ: dotted name, stored value, asked value."""
    for key in sorted(stored.keys() | asked.keys()):
        was, now = stored.get(key), asked.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            yield from differences(was, now, f"{prefix}{key}.")
        elif was != now:
            yield f"{prefix}{key}", was, now


def parse_overrides(words: Sequence[str]) -> ConfigLayer:
    """`--masking.mask-share 0.25 --schedule.kind=cosine` -> {"masking": {"mask_share": 0.25}, ...}.

    A value is read as TOML where it is TOML (numbers, true/false, lists) and as a string otherwise.
    """
    values: SettingsTree = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise UsageError(f"unexpected argument {word!r}; settings are given as --section.name VALUE")
        flag, equals, text = word[2:].partition("=")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise UsageError(f"--{flag}: has no value; give --{flag} VALUE")
            text = rest.pop(0)
        branch = values
        *sections, name = flag.replace("-", "_").split(".")
        for section in sections:
            inner = branch.setdefault(section, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--{flag}: {section!r} is given both as a value and as a section; keep one")
            branch = inner
        if isinstance(branch.get(name), dict):
            raise UsageError(f"--{flag}: {name!r} is given both as a value and as a section; keep one")
        branch[name] = text
        with suppress(ValueError, RecursionError):
            # A line break could smuggle in more keys, and a date is only ever meant as text.
            match tomllib.loads(f"value = {text}"):
                case {"value": bool() | int() | float() | str() | list() as value, **more} if not more:
                    branch[name] = value
    return ConfigLayer("command line", values)


def resolve(kind: type[S], layers: Iterable[ConfigLayer]) -> S:
    """Merge the layers, later ones winning key by key, and validate; a wrong key or value is one sentence."""
    stack = [canonical_names(kind, layer) for layer in layers]
    merged: SettingsTree = {}
    for layer in stack:
        _merge(merged, layer.values)
    try:
        return kind.model_validate(merged)
    except ValidationError as error:
        # A misspelt name first, a missing one last: the one may be why the other.
        ranks = {"extra_forbidden": 0, "missing": 2}
        first = first_complaint(error, lambda kind: ranks.get(kind, 1))
        raise UsageError(_explain(kind, first, stack)) from None


L = TypeVar("L", bound=ConfigLayer)


def canonical_names(kind: type[Settings], layer: L) -> L:
    """The layer with each setting under its own name where it was given by an alias; by both is one too many."""

    def rename(kind: type[Settings], values: GivenSettings, sections: tuple[str, ...]) -> SettingsTree:
        names = _aliases(kind)
        renamed: SettingsTree = {}
        for key, value in values.items():
            name = names.get(key, key)
            if name != key and name in values:
                where = ": ".join([layer.source, *([".".join(sections)] if sections else [])])
                raise UsageError(f"{where}: {key!r} and {name!r} are two names of one setting; keep one of them")
            renamed[name] = value
            if isinstance(value, dict) and (section := _settings_of(kind, name)):
                renamed[name] = rename(section, value, (*sections, name))
        return renamed

    return replace(layer, values=rename(kind, layer.values, ()))


def _aliases(kind: type[Settings]) -> dict[str, str]:
    """Alias -> the setting's own name."""
    metadata = {name: field.metadata for name, field in kind.model_fields.items()}
    return {mark.name: name for name, marks in metadata.items() for mark in marks if isinstance(mark, Alias)}


def _merge(into: SettingsTree, values: GivenSettings) -> None:
    for key, value in values.items():
        if not isinstance(value, dict):
            into[key] = value
        else:
            before = into.get(key)
            # A tree of our own: what is merged into it later must not change the layer's.
            branch: SettingsTree = before if isinstance(before, dict) else {}
            _merge(branch, value)
            into[key] = branch


def _explain(kind: type[Settings], wrong: Complaint, layers: Sequence[ConfigLayer]) -> str:
    """One sentence: which file or flag to mend, which setting, what is wrong with it, what would do."""
    path, given = wrong.path, wrong.given
    message = wrong.message[:1].lower() + wrong.message[1:]
    if not path:  # of several settings together, of which the last layer speaks last
        return f"{next((layer.source for layer in reversed(layers) if layer.values), 'settings')}: {message}"
    *sections, name = path
    where = ": ".join([_sources(layers, path), *([".".join(sections)] if sections else [])])
    if wrong.kind == "extra_forbidden":
        for section in sections:
            kind = _settings_of(kind, section) or kind
        known = list(kind.model_fields)
        inner = {field: _settings_of(kind, field) for field in known}
        # A name may be right but lack its section: mask_share for masking.mask_share.
        inside = [f"{field}.{name}" for field, settings in inner.items() if settings and name in settings.model_fields]
        otherwise = f"did you mean {inside[0]!r}?" if inside else f"known are {', '.join(known)}"
        return f"{where}: no setting named {name!r}; {suggest(name, [*known, *_aliases(kind)], otherwise)}"
    if wrong.kind == "missing":
        return f"{where}: {name}: has no value and no default; give one"
    if wrong.kind == "model_type":
        return f"{where}: {name}: is a section with settings of its own (got {given!r}); name one of them"
    got = "" if isinstance(given, dict) else f" (got {given!r})"
    # Of a word that is not among those that would do, the nearest of them.
    words = re.findall(r"'([^']*)'", wrong.expected) if wrong.kind == "literal_error" else []
    hint = suggest(str(given), words, "correct this setting")
    return f"{where}: {name}: {message}{got}; {hint}"


def _sources(layers: Sequence[ConfigLayer], path: Sequence[str]) -> str:
    """Where to mend: the layer whose value won; for a section, or something missing in it, all that speak of it."""
    for length in range(len(path), -1, -1):
        values: list[tuple[str, Any]] = []
        for layer in layers:
            branch: Any = layer.values
            for part in path[:length]:
                branch = branch.get(part, {}) if isinstance(branch, dict) else {}
            if branch != {}:  # it says something there
                values.append((layer.source, branch))
        if values:
            is_section = isinstance(values[-1][1], dict)
            return ", ".join(dict.fromkeys(source for source, _ in values)) if is_section else values[-1][0]
    return "settings"


def _settings_of(kind: type[Settings], field: str) -> type[Settings] | None:
    """The settings class of a field that is a section, `Section` or `Section | None`; None for any other."""
    if field not in kind.model_fields:
        return None
    annotation = kind.model_fields[field].annotation
    candidates = [annotation, *get_args(annotation)]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Settings)), None)


def config_layers(config: str | None, settings: GivenSettings | None) -> tuple[ConfigLayer, ...]:
    """A file, if one is named, and above it what the command line says."""
    return (*([read_toml(Path(config))] if config else []), ConfigLayer("command line", dict(settings or {})))
