"""A verb as it was asked for, and the way its result gets to a person or a program.

argparse.Namespace, dotted words -> Call -> standard output
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from electralab.config import SettingsTree, parse_overrides
from electralab.display import Display, TameConsole
from electralab.errors import UsageError
from electralab.records.record import Record
from electralab.reporting.blocks import Block, Table
from electralab.reporting.terminal import print_blocks
from electralab.terminal import escape_json, tame

_MOST_ITEMS = 20


@dataclass(frozen=True)
class Call:
    flags: argparse.Namespace
    """What stood after each flag; a verb's own file knows its names."""
    dotted: Sequence[str] = ()
    """`--section.name VALUE`."""

    @cached_property
    def console(self) -> Console:
        """Standard output; in a terminal lines are broken between words, a file or pipe keeps them whole."""
        console = TameConsole(quiet=self.flags.json, highlight=False, markup=False, emoji=False)
        console.soft_wrap = not console.is_terminal
        return console

    @cached_property
    def display(self) -> Display:
        """Standard error, where a program that reads JSON hears of progress too."""
        return Display()

    @cached_property
    def settings(self) -> SettingsTree:
        """Flags that are settings under a shorter name, and above them the dotted ones."""
        given: SettingsTree = {}
        for dest, value in vars(self.flags).items():
            if dest.startswith(".") and value is not None:
                *sections, name = dest[1:].split(".")
                branch = given
                for section in sections:
                    branch = branch.setdefault(section, {})
                branch[name] = value
        for section, value in parse_overrides(self.dotted).values.items():
            above = given.get(section, {})
            if isinstance(value, dict) and not isinstance(above, dict):
                raise UsageError(f"--{section.replace('_', '-')}: is given both as a value and as a section; keep one")
            given[section] = {**above, **value} if isinstance(value, dict) else value
        return given

    def print(self, *blocks: Block) -> None:
        print_blocks(self.console, blocks)

    def print_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.console.print(tame(line))

    def print_plan(self, lines: Iterable[str]) -> None:
        """What would be done."""
        self.print_lines(lines)
        if not self.flags.verbose:
            self.console.print("nothing was done: this is a dry run; --verbose prints the whole plan", style="dim")

    def say_loading(self, *models: str) -> None:
        """Before a silence of seconds; a program that reads JSON needs no such word."""
        if not self.flags.json and all(Path(model).exists() or "=" in model for model in models):
            self.display.say(f"loading {', '.join(models)}")


def to_json(result: Any) -> Any:
    if isinstance(result, Record):
        return result.to_json()
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else result


def print_json(result: Any) -> None:
    """One line on standard output; where that knows only ASCII, escaped instead of replaced by stand-ins."""
    is_utf8 = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    sys.stdout.write(escape_json(json.dumps(to_json(result), ensure_ascii=not is_utf8)) + "\n")


def settings_table(title: str, values: Mapping[str, Any]) -> Table:
    """A nested result, one dotted name per line."""
    return Table(title, ["", ""], [list(leaf) for leaf in _leaves(values)])


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            more = f", and {len(value) - _MOST_ITEMS:,} more" if len(value) > _MOST_ITEMS else ""
            yield f"{prefix}{key}", ", ".join(map(_format_item, value[:_MOST_ITEMS])) + more
        else:
            is_count = isinstance(value, int) and not isinstance(value, bool)
            yield f"{prefix}{key}", f"{value:,}" if is_count else str(value)


def _format_item(item: Any) -> str:
    """{"word": "garden", "characters": 6} -> garden (6 characters)."""
    if not isinstance(item, Mapping):
        return str(item)
    (_, name), *rest = item.items()
    return f"{name} ({', '.join(f'{value} {key}' for key, value in rest)})"
