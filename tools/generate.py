"""Writes what is generated from the verbs and settings: `make generate`; a test holds that nothing was forgotten.

shell/setting_defaults.json  defaults and choices of settings that flags stand for: settings are pydantic, whose
                             import costs more than a whole `electra --help`
__init__.pyi                 the verbs as functions of `electralab`, which finds them only when one is used, so that
                             type checkers and editors see their signatures
"""

import json
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import electralab
from electralab.config import Settings
from electralab.shell.call import SETTING_DEFAULTS
from electralab.shell.cli import build_parser
from electralab.shell.commands import list_verbs, load_command, python_name


def find_defaults() -> dict[str, dict[str, dict[str, Any]]]:
    """Verb -> setting -> its default and, where it is one of several words, all of them."""
    _, verbs = build_parser()
    described = {}
    for verb, parser in verbs.items():
        paths = dict.fromkeys(action.dest[1:] for action in parser._actions if action.dest.startswith("."))
        if paths:
            module, _, name = load_command(verb).SETTINGS.partition(":")
            settings = getattr(import_module(module), name)
            described[verb] = {path: _describe(settings, path) for path in paths}
    return described


def _describe(settings: type[Settings], path: str) -> dict[str, Any]:
    *sections, name = path.split(".")
    for section in sections:
        annotation = settings.model_fields[section].annotation
        settings = next(
            part
            for part in (annotation, *get_args(annotation))
            if isinstance(part, type) and issubclass(part, Settings)
        )
    field = settings.model_fields[name]
    described: dict[str, Any] = {}
    if not field.is_required():  # settings that depend on the task have no default of their own
        default = field.get_default(call_default_factory=True)
        described["default"] = list(default) if isinstance(default, tuple) else default
    choices = [part for part in _parts(field.annotation) if get_origin(part) is Literal]
    if choices:
        described["choices"] = list(get_args(choices[0]))
    return described


def _parts(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


_STUB = '''"""Written by tools/generate.py: the verbs, with their signatures."""

from pathlib import Path

from electralab.serving.model import Model
{imports}

__version__: str
__all__: list[str]
ALIASES: dict[str, str]
{aliases}

def load(path: str | Path) -> Model: ...
'''


def write_stub() -> str:
    verbs = sorted(python_name(verb) for verb in list_verbs() if verb != "completion")
    imports = [f"from electralab.shell.commands.{verb} import {verb} as {verb}" for verb in verbs]
    aliases = [f"{alias} = {verb}" for alias, verb in electralab.ALIASES.items()]
    return _STUB.format(imports="\n".join(imports), aliases="\n".join(aliases))


STUB = Path(electralab.__file__).with_suffix(".pyi")

if __name__ == "__main__":
    SETTING_DEFAULTS.write_text(json.dumps(find_defaults(), indent=1) + "\n", encoding="utf-8")
    STUB.write_text(write_stub(), encoding="utf-8")
