"""Parsed words -> a verb that hands a model on, and its result on standard output."""

import argparse

from rich.console import Console

from electralab import summaries, verbs
from electralab.config import SettingsTree
from electralab.errors import InputError
from electralab.shell.flag_settings import Result, collect
from electralab.shell.json_line import print_json
from electralab.shell.summary import print_summary
from electralab.tables import (
    describe_miss,
    tradeoff_tables,
)

_COMPRESS_FLAGS = {
    **{name: name for name in ("storage", "prune", "drop_layers", "graphs", "seed")},
    "recovery_steps": "recovery.steps",
}


def _export(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    result = verbs.export(
        arguments.model,
        arguments.out,
        settings=collect(arguments, {name: name for name in ("activations", "storage")}, dotted),
        **{name: getattr(arguments, name) for name in ("format", "data", "license", "config", "threads", "dry_run")},
    )
    lines = summaries.describe_export_plan(result) if arguments.dry_run else summaries.describe_export(result)
    print_summary(lines, arguments, console)
    return result


def _compress(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    names = ["generator", "task", "config", "target_speedup", "max_loss", "license", "threads", "dry_run"]
    result = verbs.compress(
        arguments.model,
        arguments.data,
        arguments.out,
        settings=collect(arguments, _COMPRESS_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        print_summary(summaries.describe_compress_plan(result, arguments.out), arguments, console)
        return result
    for table in tradeoff_tables(result):
        console.print(table)
    print_summary(summaries.describe_folder(arguments.out), arguments, console)
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


def _import(arguments: argparse.Namespace, _: SettingsTree, console: Console) -> Result:
    if arguments.dry_run:
        plan = {"old": arguments.old, "out": arguments.out}
        print_summary(summaries.describe_import_plan(plan), arguments, console)
        return plan
    result = verbs.import_model(arguments.old, arguments.out)
    print_summary(summaries.describe_import(result), arguments, console)
    return result


VERBS = {
    "export": _export,
    "compress": _compress,
    "import": _import,
}
