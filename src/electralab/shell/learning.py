"""Parsed words -> a verb that teaches, and its result on standard output."""

import argparse
from pathlib import Path

from rich.console import Console

from electralab import summaries, verbs
from electralab.config import SettingsTree
from electralab.display import Display
from electralab.shell.flag_settings import COLUMN_FLAGS, Result, collect
from electralab.shell.summary import print_summary
from electralab.showing import print_scores
from electralab.tables import (
    flops_tables,
    glue_table,
    paper_table,
    results_table,
)

# Flags that are settings under a shorter name.
_PREPARE_FLAGS = {
    "vocab_size": "tokenizer.vocab_size",
    "sequence_length": "packing.sequence_length",
    "tokenizer": "tokenizer.path",
    "tokenizer_kind": "tokenizer.kind",
    "lowercase": "tokenizer.lowercase",
    "strip_accents": "tokenizer.strip_accents",
    "documents": "reading.documents",
    "field": "reading.field",
    "packing": "packing.kind",
    "drop_duplicates": "filters.duplicates",
    "repair": "repair",
    "symbols": "symbols",
    "heldout_share": "heldout_share",
    "seed": "seed",
}
_TUNING_FLAGS = {
    "seed": "seed",
    "epochs": "epochs",
    "train_rows": "train_rows",
    "steps": "steps",
    "min_steps": "min_steps",
    "encoder_dropout": "encoder_dropout",
    "sequence_length": "sequence_length",
    "learning_rate": "optimizer.learning_rate",
    "batch_size": "batch.size",
    "head": "head.style",
    "from_scratch": "from_scratch",
}
_FINETUNE_FLAGS = (
    _TUNING_FLAGS | {"double_pairs": "double_pairs"} | {name: f"data.{name}" for name in (*COLUMN_FLAGS, "label")}
)
_FLOPS_FLAGS = {name: name for name in ("size", "objective", "procedure", "sentence_task")}
_PRETRAIN_FLAGS = _FLOPS_FLAGS | {"seed": "seed"}


def _quickstart(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    from electralab.story import quickstart

    return quickstart(
        arguments.inputs,
        arguments.out,
        minutes=arguments.minutes,
        seed=arguments.seed,
        config=arguments.config,
        settings=dotted,
        dry_run=arguments.dry_run,
        console=console,
        display=Display(),
    )


def _prepare(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    settings = collect(arguments, _PREPARE_FLAGS, dotted)
    report = verbs.prepare(
        arguments.inputs, arguments.out, config=arguments.config, settings=settings, dry_run=arguments.dry_run
    )
    lines = (
        summaries.describe_prepare_plan(report) if arguments.dry_run else summaries.describe_data(arguments.out, report)
    )
    print_summary(lines, arguments, console)
    return report


def _pretrain(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    names = ["steps", "tokens", "flops", "minutes", "init_from", "threads", "save_every", "log_every", "keep"]
    names += [
        "init_generator",
        "match_tokens",
        "branch_from",
        "snapshots",
        "extend",
        "allow_inexact",
        "dry_run",
        "config",
    ]
    result = verbs.pretrain(
        arguments.data,
        arguments.out,
        settings=collect(arguments, _PRETRAIN_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        lines = summaries.describe_pretrain_plan(result, arguments.data, arguments.out)
        print_summary(lines, arguments, console)
    else:
        console.print(results_table(result))
        print_summary(summaries.describe_folder(arguments.out, result), arguments, console)
        folders = sorted(path.parent for path in Path(arguments.out).glob("export/*/config.json"))
        console.print(f"export  {', '.join(map(str, folders))}")
    return {"run": arguments.out, **result}


def _finetune(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    names = ["seeds", "init_from", "threads", "save_every", "log_every", "keep", "allow_inexact", "baseline"]
    names += ["dry_run", "config"]
    result = verbs.finetune(
        arguments.model,
        arguments.task,
        arguments.data,
        arguments.out,
        settings=collect(arguments, _FINETUNE_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        lines = summaries.describe_finetune_plan(result, arguments.model, arguments.data)
        print_summary(lines, arguments, console)
    else:
        print_scores(result, console)
        print_summary(summaries.describe_folder(arguments.out, result), arguments, console)
        console.print(f"model  {arguments.out}/export/model")
    return {"run": arguments.out, **result}


def _glue(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    names = ["seeds", "threads", "save_every", "log_every", "allow_inexact", "baseline", "dry_run", "config"]
    result = verbs.glue(
        arguments.model,
        arguments.data,
        arguments.out,
        tasks=[name for name in (arguments.tasks or "").split(",") if name],
        settings=collect(arguments, _TUNING_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        print_summary(summaries.describe_glue_plan(result, arguments.model, arguments.out), arguments, console)
    else:
        console.print(glue_table(result))
        print_summary(summaries.describe_folder(arguments.out), arguments, console)
    return {"run": arguments.out, **result}


def _flops(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    names = ["table", "data", "vocab_size", "sequence_length", "steps", "tokens", "flops", "threads", "dry_run"]
    Display().tell_loading(only_live=True)
    result = verbs.flops(
        config=arguments.config,
        settings=collect(arguments, _FLOPS_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        print_summary(summaries.describe_flops_plan(result), arguments, console)
        return result
    if not arguments.table:
        print_summary(summaries.describe_flops(result), arguments, console)
    for table in [paper_table(result)] if arguments.table else flops_tables(result):
        console.print(table)
    return result


VERBS = {
    "quickstart": _quickstart,
    "prepare": _prepare,
    "pretrain": _pretrain,
    "finetune": _finetune,
    "glue": _glue,
    "flops": _flops,
}
