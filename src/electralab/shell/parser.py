"""A parser of words that answers what it does not know in one sentence, with the nearest word it does.

words -> argparse.Namespace, or UsageError

A flag says where its value goes by its `dest`: `save_every` is an argument of the verb's Python function, whose
signature has the default; `.masking.mask_share` is a setting, whose default and choices setting_defaults.json has.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

from electralab.errors import UsageError, suggest

Words = list[str]

SETTING_DEFAULTS = Path(__file__).parent / "setting_defaults.json"
"""Written by `python tools/setting_defaults.py`: settings are pydantic, which costs more than a whole --help."""


class Parser(argparse.ArgumentParser):
    """Errors as one sentence with the nearest known word, status 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self._where}{message}; see '{self.prog} --help'")

    @property
    def _where(self) -> str:
        """The verb, before what is wrong with it."""
        return "".join(f"{verb}: " for verb in self.prog.split()[1:])

    @property
    def flags(self) -> Words:
        return [option for action in self._actions for option in action.option_strings]

    def refuse_unknown(self, words: Words) -> None:
        for word in words:
            flag = word.partition("=")[0]
            what = "no flag named" if flag.startswith("-") else "unexpected argument"
            nearest = suggest(flag, self.flags, f"see '{self.prog} --help'")
            raise UsageError(f"{self._where}{what} '{flag}'; {nearest}")

    def check_flags(self, words: Words) -> None:
        """Before argparse complains about what a misspelt flag was meant to give."""
        until = words.index("--") if "--" in words else len(words)
        flags = [word for word in words[:until] if word.startswith("--")]
        self.refuse_unknown([flag for flag in flags if flag.partition("=")[0] not in self.flags])

    def flags_first(self, words: Words) -> Words:
        """Flags, then the rest: argparse would take a verb's other words from one place only."""
        takes_value = {flag: action.nargs != 0 for action in self._actions for flag in action.option_strings}
        flags: Words = []
        others: Words = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                return [*flags, "--", *others, *rest]
            is_flag = word.startswith("-") and word != "-"
            (flags if is_flag else others).append(word)
            if takes_value.get(word) and rest:
                flags.append(rest.pop(0))
        return [*flags, *others]

    def take_defaults(self, function: FunctionType, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Defaults from where each is written once, said behind the help of its flag unless that names one itself."""
        # Not `inspect.signature`: that module alone takes as long as the rest of --help.
        positional = function.__code__.co_varnames[: function.__code__.co_argcount]
        arguments = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
        arguments |= function.__kwdefaults__ or {}
        for action in self._actions:
            known: Mapping[str, Any] = {}
            if action.dest.startswith("."):
                known = settings.get(action.dest[1:], {})
                action.default = None  # what is not given is left to presets and files
                if "choices" in known:
                    action.help = (action.help or "").replace("{choices}", ", ".join(known["choices"]))
                    # With a metavar more than these is taken, as objectives under their published names.
                    if action.metavar is None and action.nargs != 0:
                        action.choices = known["choices"]
            elif action.dest in arguments and action.option_strings:
                known = {"default": arguments[action.dest]}
                if known["default"] is not True:
                    action.default = known["default"]
            default, text = known.get("default"), action.help or ""
            is_said = action.nargs == 0 or "default" in text or text.endswith(")")
            if default not in (None, "", (), []) and not isinstance(default, bool) and not is_said:
                values = default if isinstance(default, list | tuple) else [default]
                shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
                action.help = f"{text} ({shown})"


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
    return _whole(text, least=1)


def count(text: str) -> int:
    return _whole(text, least=0)


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
    return value
