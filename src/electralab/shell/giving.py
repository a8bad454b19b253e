"""Parsed words -> a verb that hands a model on, and its result on standard output."""

import argparse

from rich.console import Console

from electralab import verbs
from electralab.config import Tree
from electralab.errors import InputError
from electralab.shell.flag_settings import Result, collect
from electralab.shell.json_line import print_json
from electralab.tables import (
    describe_miss,
    tradeoff_tables,
    tree_table,
)

_COMPRESS_FLAGS = {
    **{name: name for name in ("storage", "prune", "drop_layers", "graphs", "seed")},
    "recovery_steps": "recovery.steps",
}


def _export(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    result = verbs.export(
        arguments.model,
        arguments.out,
        settings=collect(arguments, {name: name for name in ("activations", "storage")}, dotted),
        **{name: getattr(arguments, name) for name in ("format", "data", "license", "config", "threads", "dry_run")},
    )
    console.print(tree_table("plan" if arguments.dry_run else arguments.out, result))
    return result


def _compress(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    names = ["generator", "task", "config", "target_speedup", "max_loss", "license", "threads", "dry_run"]
    result = verbs.compress(
        arguments.model,
        arguments.data,
        arguments.out,
        settings=collect(arguments, _COMPRESS_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
        return result
    for table in tradeoff_tables(result):
        console.print(table)
    console.print(f"report  {arguments.out}/report.md")
    result = {"out": arguments.out, **result}
    is_asked = any(value is not None for value in result["asked"].values())
    if is_asked and result["picked"] is None:
        if arguments.json:
            print_json(result)
        raise InputError(describe_miss(result))
    if is_asked:
        console.print(f"model  {arguments.out}, the variant {result['picked']}")
    return result


def _import(arguments: argparse.Namespace, _: Tree, console: Console) -> Result:
    if arguments.dry_run:
        plan = {"old": arguments.old, "out": arguments.out}
        console.print(tree_table("plan", plan))
        return plan
    result = verbs.import_model(arguments.old, arguments.out)
    console.print(tree_table(arguments.out, result))
    return result


VERBS = {
    "export": _export,
    "compress": _compress,
    "import": _import,
}
