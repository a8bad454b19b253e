"""What every verb needs on its way: words become flags, flags the call of its function, and its result gets printed.

words -> Parser -> Call -> standard output

A flag says where its value goes by its `dest`: `save_every` is an argument of the verb's Python function, whose
signature has the default; `.masking.mask_share` is a setting, whose default and choices setting_defaults.json has.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, TypeVar

from electralab.errors import UsageError, suggest
from electralab.terminal import escape_json, tame

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console
    from typing_extensions import TypeIs

    from electralab.config import GivenSettings, S
    from electralab.display import Display
    from electralab.records.record import PlanRecord, Record
    from electralab.reporting.blocks import Block, Table

N = TypeVar("N", int, float)
R = TypeVar("R")

SETTING_DEFAULTS = Path(__file__).parent / "setting_defaults.json"
"""Written by tools/generate.py: settings are pydantic, which costs more than a whole --help."""
# Of a list in the table of --verbose; --json has all of them.
_MOST_ITEMS = 20


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


def _checked(kind: Callable[[str], N], is_valid: Callable[[N], bool], what: str) -> Callable[[str], N]:
    """What a flag takes, as argparse's `type`: a value, or a sentence about what it must be."""

    def convert(text: str) -> N:
        try:
            if is_valid(value := kind(text)):
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"must be {what}, got {text!r}")

    return convert


number = _checked(float, math.isfinite, "a number")
positive = _checked(float, lambda value: 0 < value < math.inf, "a number above 0")
count = _checked(int, lambda value: value >= 0, "a whole number of at least 0")
positive_int = _checked(int, lambda value: value >= 1, "a whole number of at least 1")


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


def as_path(name: str | Path | None) -> Path | None:
    return Path(name) if name else None


def as_model(name: str | Path) -> Path:
    """A folder, or the name of a model that comes with the package."""
    from electralab.records.kinds import find_model

    return find_model(name)


def open_display(display: Display | None, *, loads_torch: bool = True) -> Display:
    """The one that was given, or a new one; where PyTorch is still to be loaded it says what takes seconds now."""
    from electralab.display import Display

    display = display or Display()
    if loads_torch:
        display.tell_loading()
    return display


def settle(kind: type[S], config: str | None, settings: GivenSettings | None) -> S:
    """The settings of a verb: a file, if one is named, and above it what was given beside it."""
    from electralab.config import config_layers, resolve

    return resolve(kind, config_layers(config, settings))


class Call:
    """A verb as it was asked for in a shell."""

    def __init__(self, flags: argparse.Namespace, dotted: Sequence[str] = ()) -> None:
        """`flags`: what stood after each; a verb's own file knows their names. `dotted`: `--section.name VALUE`."""
        self.flags, self.dotted = flags, dotted

    @cached_property
    def console(self) -> Console:
        """Standard output; in a terminal lines are broken between words, a file or pipe keeps them whole."""
        from electralab.display import TameConsole

        console = TameConsole(quiet=self.flags.json, highlight=False, markup=False, emoji=False)
        console.soft_wrap = not console.is_terminal
        return console

    @cached_property
    def display(self) -> Display:
        """Standard error, where a program that reads JSON hears of progress too."""
        from electralab.display import Display

        return Display()

    @cached_property
    def settings(self) -> GivenSettings:
        """Flags that are settings under a shorter name, and above them the dotted ones."""
        from electralab.config import parse_overrides

        given: dict[str, Any] = {}
        for dest, value in vars(self.flags).items():
            if dest.startswith(".") and value is not None:
                *sections, name = dest[1:].split(".")
                branch = given
                for section in sections:
                    branch = branch.setdefault(section, {})
                branch[name] = value
        # A section that is given both ways is one section, in which the dotted name wins.
        for section, value in parse_overrides(self.dotted).values.items():
            above = given.get(section, {})
            if isinstance(value, dict) and not isinstance(above, dict):
                raise UsageError(f"--{section.replace('_', '-')}: is given both as a value and as a section; keep one")
            given[section] = {**above, **value} if isinstance(value, dict) else value
        return given

    def ask(self, function: Callable[..., R], **given: object) -> R:
        """Call the verb's function with what the shell was told. A flag has the name of the argument that it is for,
        which a test holds; `given` are arguments under other names."""
        code = function.__code__
        wanted = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        flags = vars(self.flags)
        arguments = {name: flags[name] for name in wanted if name in flags}
        for name in ("settings", "display"):
            if name in wanted:
                arguments[name] = getattr(self, name)
        return function(**arguments | given)

    def print(self, *parts: Block | str) -> None:
        """Blocks, and lines as they are."""
        from electralab.reporting.terminal import print_blocks

        for part in parts:
            if isinstance(part, str):
                self.console.print(tame(part))
            else:
                print_blocks(self.console, [part])

    def prints_plan(self, result: Record) -> TypeIs[PlanRecord]:
        """Whether it is what a dry run says, which is then printed."""
        from electralab.records.record import PlanRecord
        from electralab.reporting.format import tell

        if isinstance(result, PlanRecord):
            self.print_plan(*tell(result, flags=self.flags))
        return isinstance(result, PlanRecord)

    def print_plan(self, *lines: str) -> None:
        """What would be done."""
        self.print(*lines)
        if not self.flags.verbose:
            self.console.print("nothing was done: this is a dry run; --verbose prints the whole plan", style="dim")

    def say_loading(self, *models: str) -> None:
        """Before a silence of seconds; a program that reads JSON needs no such word."""
        if not self.flags.json and all("=" in model or as_model(model).exists() for model in models):
            self.display.say(f"loading {', '.join(models)}")

    def answer(self, result: Record | None = None, **beside: JsonValue) -> None:
        """The whole result, for `--verbose` as a table and for `--json` as one object; `beside` comes first in it."""
        values = beside | (result.to_json() if result else {})
        if self.flags.verbose:
            self.print(settings_table("everything", values))
        if self.flags.json:
            print_json(values)


def print_json(values: Mapping[str, JsonValue]) -> None:
    """One line on standard output; where that knows only ASCII, escaped instead of replaced by stand-ins."""
    import json

    is_utf8 = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    sys.stdout.write(escape_json(json.dumps(values, ensure_ascii=not is_utf8)) + "\n")


def settings_table(title: str, values: Mapping[str, JsonValue]) -> Table:
    """A nested result, one dotted name per line."""
    from electralab.reporting.artifact import flatten
    from electralab.reporting.blocks import Table

    rows = []
    for key, value in flatten(values):
        if isinstance(value, list | tuple):
            items = []
            for item in value[:_MOST_ITEMS]:
                if isinstance(item, Mapping):  # {"word": "garden", "characters": 6} -> garden (6 characters)
                    (_, name), *rest = item.items()
                    items.append(f"{name} ({', '.join(f'{inner} {inner_key}' for inner_key, inner in rest)})")
                else:
                    items.append(str(item))
            more = f", and {len(value) - _MOST_ITEMS:,} more" if len(value) > _MOST_ITEMS else ""
            rows.append([key, ", ".join(items) + more])
        else:
            is_count = isinstance(value, int) and not isinstance(value, bool)
            rows.append([key, f"{value:,}" if is_count else str(value)])
    return Table(title, ["", ""], rows)
