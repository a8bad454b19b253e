"""The result of a verb as a few lines of words."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from electralab.tables import tame


def print_summary(lines: Sequence[str], arguments: argparse.Namespace, console: Console) -> None:
    for line in lines:
        # In a terminal broken between words; a file or pipe keeps a line whole.
        console.print(tame(line), soft_wrap=not console.is_terminal)
    if arguments.dry_run and not arguments.verbose:
        console.print("nothing was done: this is a dry run; --verbose prints the whole plan", style="dim")
