"""Parsed words -> a verb, and its result in human form on standard output.

argparse.Namespace -> result
"""

import argparse
from collections.abc import Sequence
from typing import Any

from electralab.config import parse_overrides
from electralab.display import TameConsole
from electralab.shell import asking, giving, judging, learning
from electralab.shell.json_line import print_json
from electralab.tables import tree_table

__all__ = ["print_json", "run_verb"]

# Their answers are printed as they are, often into a pipe: nothing may follow.
_PRINTED_WHOLE = ("detect", "predict")
_VERBS = learning.VERBS | judging.VERBS | asking.VERBS | giving.VERBS


def run_verb(arguments: argparse.Namespace, dotted: Sequence[str]) -> Any:
    run = _VERBS[arguments.verb]
    # Names of files and labels are shown as they are; only the story brings markup of its own.
    is_story = arguments.verb == "quickstart"
    console = TameConsole(quiet=arguments.json, highlight=False, soft_wrap=True, markup=is_story, emoji=False)
    result = run(arguments, parse_overrides(dotted).values, console)
    if arguments.verbose and (arguments.dry_run or arguments.verb not in _PRINTED_WHOLE):
        console.print(tree_table("everything", result))
    return result
