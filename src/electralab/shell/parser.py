"""A parser of words that answers what it does not know in one sentence, with the nearest word it does.

words -> argparse.Namespace, or UsageError

A flag says where its value goes by its `dest`: `save_every` is an argument of the verb's Python function, whose
signature has the default; `.masking.mask_share` is a setting, whose default and choices setting_defaults.json has.
"""

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import NoReturn, TypedDict, TypeVar

from electralab.errors import UsageError, suggest

N = TypeVar("N", int, float)

SETTING_DEFAULTS = Path(__file__).parent / "setting_defaults.json"
"""Written by tools/generate.py: settings are pydantic, which costs more than a whole --help."""


class SettingDefault(TypedDict, total=False):
    """What setting_defaults.json says of a setting."""

    default: str | float | bool | list[str | float] | None
    choices: list[str]


class Parser(argparse.ArgumentParser):
    """Errors are one sentence with the nearest known word, status 2."""

    def error(self, message: str) -> NoReturn:
        verb = "".join(f"{word}: " for word in self.prog.split()[1:])
        raise UsageError(f"{verb}{message}; see '{self.prog} --help'")

    def refuse_unknown(self, words: list[str]) -> None:
        for word in words:
            flag, known = word.partition("=")[0], [flag for action in self._actions for flag in action.option_strings]
            what = f"{'no flag named' if flag.startswith('-') else 'unexpected argument'} '{flag}'"
            nearest = suggest(flag, known, "")
            if not nearest:
                self.error(what)
            raise UsageError(f"{self.prog.split()[-1]}: {what}; {nearest}")

    def flags_first(self, words: list[str]) -> list[str]:
        """Flags, then the rest: argparse would take a verb's other words from one place only."""
        takes_value = {flag: action.nargs != 0 for action in self._actions for flag in action.option_strings}
        # A misspelt flag is named before argparse complains about what it was meant to give.
        until = words.index("--") if "--" in words else len(words)
        named = [word for word in words[:until] if word.startswith("--")]
        self.refuse_unknown([word for word in named if word.partition("=")[0] not in takes_value])
        flags: list[str] = []
        others: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                return [*flags, "--", *others, *rest]
            # A single dash is standard input.
            (flags if word.startswith("-") and word != "-" else others).append(word)
            if takes_value.get(word) and rest:
                flags.append(rest.pop(0))
        return [*flags, *others]

    def take_defaults(self, function: FunctionType, settings: Mapping[str, SettingDefault]) -> None:
        """Defaults from where each is written once, said behind the help of its flag unless that names one itself."""
        # Not `inspect.signature`: that module alone takes as long as the rest of --help.
        positional = function.__code__.co_varnames[: function.__code__.co_argcount]
        arguments = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
        arguments |= function.__kwdefaults__ or {}
        for action in self._actions:
            default, text = None, action.help or ""
            if action.dest.startswith("."):
                known = settings.get(action.dest[1:], {})
                default, choices = known.get("default"), known.get("choices")
                action.default = None  # what is not given is left to presets and files
                if choices:
                    text = text.replace("{choices}", ", ".join(choices))
                    # With a metavar more than these is taken, as objectives under their published names.
                    if action.metavar is None and action.nargs != 0:
                        action.choices = choices
            elif action.dest in arguments and action.option_strings:
                default = arguments[action.dest]
                if default is not True:  # a flag that turns something off
                    action.default = default
            is_said = action.nargs == 0 or "default" in text or text.endswith(")")
            if default not in (None, "", (), []) and not isinstance(default, bool) and not is_said:
                values = default if isinstance(default, list | tuple) else [default]
                text += f" ({', '.join(f'{value:g}' if isinstance(value, float) else str(value) for value in values)})"
            action.help = text


# What a flag takes, as argparse's `type`: a value, or a sentence about what it must be.


def _convert(text: str, kind: Callable[[str], N], is_valid: Callable[[N], bool], what: str) -> N:
    try:
        if is_valid(value := kind(text)):
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be {what}, got {text!r}")


def number(text: str) -> float:
    return _convert(text, float, math.isfinite, "a number")


def positive(text: str) -> float:
    return _convert(text, float, lambda value: 0 < value < math.inf, "a number above 0")


def count(text: str) -> int:
    return _convert(text, int, lambda value: value >= 0, "a whole number of at least 0")


def positive_int(text: str) -> int:
    return _convert(text, int, lambda value: value >= 1, "a whole number of at least 1")


def whole_numbers(text: str) -> list[int]:
    return [count(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    if names := [name for name in text.split(",") if name]:
        return names
    raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")


def shares(text: str) -> list[float]:
    shares = [positive(share) for share in text.split(",")]
    if max(shares) < 1:
        return shares
    raise argparse.ArgumentTypeError(f"must be shares between 0 and 1, got {text!r}")
