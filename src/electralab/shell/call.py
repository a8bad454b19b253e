"""What every verb needs on its way: settings and a display for its function, and the way its result gets printed.

argparse.Namespace, dotted words -> Call -> standard output
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from electralab.errors import UsageError
from electralab.terminal import escape_json, tame

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console

    from electralab.config import GivenSettings, S
    from electralab.display import Display
    from electralab.records.record import Record
    from electralab.reporting.blocks import Block, Table

# Of a list in the table of --verbose; --json has all of them.
_MOST_ITEMS = 20


def as_path(name: str | Path | None) -> Path | None:
    return Path(name) if name else None


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


class CommonArguments(TypedDict):
    """What the functions of nearly all verbs take besides their own arguments; `**call.common` is checked by type."""

    config: str | None
    settings: GivenSettings
    dry_run: bool
    display: Display


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

    @property
    def common(self) -> CommonArguments:
        flags = self.flags
        return {"config": flags.config, "settings": self.settings, "dry_run": flags.dry_run, "display": self.display}

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

    def print(self, *parts: Block | str) -> None:
        """Blocks, and lines as they are."""
        from electralab.reporting.terminal import print_blocks

        for part in parts:
            if isinstance(part, str):
                self.console.print(tame(part))
            else:
                print_blocks(self.console, [part])

    def print_plan(self, *lines: str) -> None:
        """What would be done."""
        self.print(*lines)
        if not self.flags.verbose:
            self.console.print("nothing was done: this is a dry run; --verbose prints the whole plan", style="dim")

    def say_loading(self, *models: str) -> None:
        """Before a silence of seconds; a program that reads JSON needs no such word."""
        if not self.flags.json and all(Path(model).exists() or "=" in model for model in models):
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
    from electralab.reporting.blocks import Table

    return Table(title, ["", ""], [list(leaf) for leaf in _leaves(values)])


def _leaves(values: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            items = []
            for item in value[:_MOST_ITEMS]:
                if isinstance(item, Mapping):  # {"word": "garden", "characters": 6} -> garden (6 characters)
                    (_, name), *rest = item.items()
                    items.append(f"{name} ({', '.join(f'{inner} {inner_key}' for inner_key, inner in rest)})")
                else:
                    items.append(str(item))
            more = f", and {len(value) - _MOST_ITEMS:,} more" if len(value) > _MOST_ITEMS else ""
            yield f"{prefix}{key}", ", ".join(items) + more
        else:
            is_count = isinstance(value, int) and not isinstance(value, bool)
            yield f"{prefix}{key}", f"{value:,}" if is_count else str(value)
