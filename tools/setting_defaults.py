"""The defaults and choices of settings that flags stand for -> shell/setting_defaults.json.

Settings are pydantic, whose import costs more than a whole `electra --help`; so what the help says of them lies in a
file. A test holds that it is what this writes: `python tools/setting_defaults.py` writes it again.
"""

import json
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from electralab.config import Settings
from electralab.shell.cli import build_parser
from electralab.shell.commands import load_command
from electralab.shell.parser import SETTING_DEFAULTS


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


if __name__ == "__main__":
    SETTING_DEFAULTS.write_text(json.dumps(find_defaults(), indent=1) + "\n", encoding="utf-8")
