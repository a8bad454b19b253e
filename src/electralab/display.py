"""What long work looks like: a live line in a terminal, plain lines in a pipe; always on standard error.

Event... -> the eye, result
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from electralab.events import Event, Note, Progress, Result, Style
from electralab.stopping import StopSignal, handle_signals
from electralab.terminal import tame, tame_line

R = TypeVar("R")

_STYLES: dict[Style, str] = {
    "plain": "",
    "dim": "dim",
    "strong": "bold",
    "heading": "bold underline",
    "good": "green",
    "score": "cyan",
    "warning": "yellow",
    "error": "red",
}


class TameConsole(Console):
    """A console on which no string, whoever wrote it, gives orders to the terminal; only styles of our own do."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(tame(text), **options)


class _DescriptionColumn(TextColumn):
    """What is being done, which may name a file or a model."""

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.plain = tame_line(text.plain)
        return text


class Display:
    def __init__(self, *, quiet: bool = False) -> None:
        self.console = TameConsole(stderr=True, quiet=quiet, highlight=False, emoji=False)

    def say(self, text: str, style: str = "") -> None:
        self.console.print(tame_line(text), style=style, markup=False, soft_wrap=True)

    def tell_loading(self, *, only_live: bool = False) -> None:
        """Before a verb imports PyTorch, which takes seconds; nothing where that is done already.

        `only_live`: of verbs that answer at once, often in a pipe, where nobody waits before a silent terminal.
        """
        if "torch" not in sys.modules and (self.console.is_terminal or not only_live):
            self.say("loading PyTorch", style="dim")

    def run(self, stage: Callable[[StopSignal], Iterable[Event[R]]]) -> R:
        """Follow a stage that a signal to stop may end."""
        with handle_signals() as stop:
            return self.follow(stage(stop))

    def follow(self, events: Iterable[Event[R]]) -> R:
        """Draw any stage to its end and return its result: live a bar and notes, in a pipe plain lines."""
        is_live, phase, results = self.console.is_terminal, "", []
        columns = (
            SpinnerColumn(),
            _DescriptionColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(elapsed_when_finished=False),
        )
        with Bar(*columns, console=self.console, transient=True, disable=not is_live) as bar:
            task = bar.add_task("", total=None, visible=False)
            for event in events:
                match event:
                    case Progress():
                        total = event.total or None
                        if event.phase != phase:
                            # A new phase has a clock of its own.
                            phase = event.phase
                            bar.reset(task, description=escape(phase), total=total, visible=True)
                        bar.update(task, completed=event.done, total=total, description=escape(event.text) or None)
                        if event.line and not is_live:
                            self.say(event.line)
                    case Note(text, style):
                        self.say(text, _STYLES[style])
                    case Result(value):
                        # Not the end yet: behind it the stage gives back its locks.
                        results.append(value)
        (result,) = results
        return result
