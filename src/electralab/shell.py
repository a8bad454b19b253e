"""Parsed words -> a verb, and its result in human form on standard output.

argparse.Namespace -> result
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from electralab import verbs
from electralab.artifacts import write_json
from electralab.config import Tree, parse_overrides
from electralab.display import Display
from electralab.errors import InputError, StudyFailed, UsageError
from electralab.showing import print_artifact, print_proofs, print_scores
from electralab.tables import (
    colour_tokens,
    damage_table,
    describe_miss,
    evaluation_tables,
    flops_tables,
    glue_table,
    paper_table,
    results_table,
    study_tables,
    tradeoff_tables,
    tree_table,
)

Result = dict[str, Any]

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
    "repair": "repair",
    "symbols": "symbols",
    "heldout_share": "heldout_share",
    "seed": "seed",
}
_TUNING_FLAGS = {
    "seed": "seed",
    "epochs": "epochs",
    "steps": "steps",
    "encoder_dropout": "encoder_dropout",
    "sequence_length": "sequence_length",
    "learning_rate": "optimizer.learning_rate",
    "batch_size": "batch.size",
    "head": "head.style",
    "from_scratch": "from_scratch",
}
_COLUMN_FLAGS = ("text", "text_a", "text_b")
_FINETUNE_FLAGS = (
    _TUNING_FLAGS | {"double_pairs": "double_pairs"} | {name: f"data.{name}" for name in (*_COLUMN_FLAGS, "label")}
)
_FLOPS_FLAGS = {name: name for name in ("size", "objective", "procedure", "sentence_task")}
_COMPRESS_FLAGS = {
    **{name: name for name in ("prune", "drop_layers", "graphs", "seed")},
    "recovery_steps": "recovery.steps",
}
_PRETRAIN_FLAGS = _FLOPS_FLAGS | {"seed": "seed"}


def run_verb(arguments: argparse.Namespace, dotted: Sequence[str]) -> Any:
    run = {
        "prepare": _prepare,
        "pretrain": _pretrain,
        "flops": _flops,
        "finetune": _finetune,
        "glue": _glue,
        "evaluate": _evaluate,
        "study": _study,
        "compress": _compress,
        "predict": _predict,
        "detect": _detect,
        "proofread": _proofread,
        "serve": _serve,
        "export": _export,
        "show": _show,
        "import": _import,
        "quickstart": _quickstart,
    }[arguments.verb]
    # Names of files and labels are shown as they are; only the story brings markup of its own.
    is_story = arguments.verb == "quickstart"
    console = Console(quiet=arguments.json, highlight=False, soft_wrap=True, markup=is_story, emoji=False)
    return run(arguments, parse_overrides(dotted).values, console)


def _collect(arguments: argparse.Namespace, flags: dict[str, str], dotted: Tree) -> Tree:
    """The named flags that were given, as settings, with the dotted ones on top."""
    settings: Tree = {}
    for flag, path in flags.items():
        value = getattr(arguments, flag)
        section, dot, name = path.rpartition(".")
        if value is not None:
            branch = settings.setdefault(section, {}) if dot else settings
            branch[name] = value
    for section, value in dotted.items():
        if isinstance(value, dict):
            above = settings.get(section, {})
            if not isinstance(above, dict):
                raise UsageError(f"--{section.replace('_', '-')}: is given both as a value and as a section; keep one")
            settings[section] = {**above, **value}
        else:
            settings[section] = value
    return settings


def _prepare(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    settings = _collect(arguments, _PREPARE_FLAGS, dotted)
    report = verbs.prepare(
        arguments.inputs, arguments.out, config=arguments.config, settings=settings, dry_run=arguments.dry_run
    )
    console.print(tree_table("plan" if arguments.dry_run else arguments.out, report))
    return report


def _pretrain(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    names = ["steps", "tokens", "flops", "minutes", "init_from", "threads", "save_every", "log_every", "keep"]
    names += ["snapshots", "extend", "allow_inexact", "dry_run", "config"]
    result = verbs.pretrain(
        arguments.data,
        arguments.out,
        settings=_collect(arguments, _PRETRAIN_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
    else:
        console.print(results_table(result))
        folders = sorted(path.parent for path in Path(arguments.out).glob("export/*/config.json"))
        console.print(f"export  {', '.join(map(str, folders))}")
    return {"run": arguments.out, **result}


def _flops(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    names = ["table", "data", "vocab_size", "sequence_length", "steps", "tokens", "flops", "threads", "dry_run"]
    result = verbs.flops(
        config=arguments.config,
        settings=_collect(arguments, _FLOPS_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
        return result
    for table in [paper_table(result)] if arguments.table else flops_tables(result):
        console.print(table)
    return result


def _finetune(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    names = ["seeds", "init_from", "threads", "save_every", "log_every", "keep", "allow_inexact", "dry_run", "config"]
    result = verbs.finetune(
        arguments.model,
        arguments.task,
        arguments.data,
        arguments.out,
        settings=_collect(arguments, _FINETUNE_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
    else:
        print_scores(result, console)
        console.print(f"model  {arguments.out}/export/model")
    return {"run": arguments.out, **result}


def _glue(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    names = ["seeds", "threads", "save_every", "log_every", "allow_inexact", "dry_run", "config"]
    result = verbs.glue(
        arguments.model,
        arguments.data,
        arguments.out,
        tasks=[name for name in (arguments.tasks or "").split(",") if name],
        settings=_collect(arguments, _TUNING_FLAGS, dotted),
        **{name: getattr(arguments, name) for name in names},
    )
    console.print(tree_table("plan", result) if arguments.dry_run else glue_table(result))
    return {"run": arguments.out, **result}


def _evaluate(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    result = verbs.evaluate(
        arguments.model,
        arguments.suite,
        arguments.data,
        generator=arguments.generator,
        task=arguments.task,
        config=arguments.config,
        settings=_collect(arguments, {"seed": "seed"}, dotted),
        threads=arguments.threads,
        dry_run=arguments.dry_run,
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
        return result
    if arguments.out:
        write_json(Path(arguments.out), result)
    for table in evaluation_tables(result):
        console.print(table)
    return result


def _study(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    result = verbs.run_study(
        arguments.config,
        arguments.corpus,
        arguments.out,
        settings=dotted,
        **{
            name: getattr(arguments, name)
            for name in ("data", "flops", "tokens", "steps", "seeds", "only", "jobs", "threads", "dry_run")
        },
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
        return result
    for table in study_tables(result):
        console.print(table)
    console.print(f"report  {arguments.out}/report.md")
    result = {"out": arguments.out, **result}
    if arguments.json and any(cell["error"] for cell in result["cells"]):
        print_json(result)
    _require_finished(result)
    return result


def _require_finished(results: Result) -> None:
    """A study whose cells failed has its table all the same, and ends with their names."""
    failed = [f"{cell['arm']} seed {cell['seed']} ({cell['error']})" for cell in results["cells"] if cell["error"]]
    if failed:
        of = f"{len(failed)} of {len(results['cells'])} cells failed"
        raise StudyFailed(f"{results['name']}: {of}: {'; '.join(failed)}; the same command runs them again")


def _compress(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    names = ["generator", "task", "config", "target_speedup", "max_loss", "threads", "dry_run"]
    result = verbs.compress(
        arguments.model,
        arguments.data,
        arguments.out,
        settings=_collect(arguments, _COMPRESS_FLAGS, dotted),
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


def _predict(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    settings = _collect(arguments, {name: f"data.{name}" for name in _COLUMN_FLAGS}, dotted)
    result = verbs.predict(
        arguments.model,
        arguments.input,
        arguments.out,
        ensemble=arguments.ensemble,
        config=arguments.config,
        settings=settings,
        threads=arguments.threads,
        dry_run=arguments.dry_run,
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
    elif arguments.out:
        bad = f", {result['bad_rows']:,} bad rows" if result["bad_rows"] else ""
        console.print(f"{arguments.out}: {len(result['predictions']) - result['bad_rows']:,} predictions{bad}")
        result = {"out": arguments.out, **result}
    elif not arguments.json:
        for row in result["predictions"]:
            print_json(row)
    return result


def _detect(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Any:
    texts = list(_read_texts(arguments))
    if arguments.dry_run:
        plan = {"model": arguments.model, "texts": len(texts), "characters": sum(map(len, texts))}
        console.print(tree_table("plan", plan))
        return plan
    found = verbs.detect(arguments.model, texts, config=arguments.config, settings=dotted)
    for result in found:
        if console.is_terminal:
            console.print(colour_tokens(result))
        else:
            console.file.write("" if console.quiet else _tabulate(result))
    if not arguments.lines:
        return found[0]
    if arguments.json:
        # One object a line: the last is left to the caller, who ends the line.
        for result in found[:-1]:
            print_json(result)
    return found[-1] if found else {}


def print_json(result: Any) -> None:
    """One line on standard output; where that knows only ASCII, escaped instead of replaced by stand-ins."""
    is_utf8 = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    sys.stdout.write(json.dumps(result, ensure_ascii=not is_utf8) + "\n")


def _tabulate(result: Result) -> str:
    """For a pipe, which shows no colours: a token a line."""
    rows = [
        f"{token['start']}\t{token['end']}\t{token['p_replaced']:.4f}\t{token['text']}" for token in result["tokens"]
    ]
    return "".join(f"{row}\n" for row in ["start\tend\tp_replaced\ttoken", *rows])


def _read_texts(arguments: argparse.Namespace) -> Iterator[str]:
    if (arguments.text is None) == (arguments.file is None):
        raise UsageError("detect: give one of TEXT, --file PATH, or - for standard input")
    if arguments.file is not None:
        text = _read_file(Path(arguments.file))
    elif arguments.text == "-":
        text = _decode(sys.stdin.buffer.read(), "standard input")
    else:
        # Bytes that are no text arrive from the shell as lone surrogates.
        text = _decode(arguments.text.encode(errors="surrogateescape"), "TEXT")
    if arguments.lines:
        yield from (line for line in text.splitlines() if line.strip())
    else:
        yield text


def _read_file(path: Path) -> str:
    try:
        return _decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a text file") from None


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 at byte {error.start}; convert it, for example with iconv") from None


def _proofread(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    sources = ["-"] if not arguments.files else arguments.files
    texts = {source: _read_source(source) for source in sources}
    if arguments.dry_run:
        plan = {"model": arguments.model, "documents": {source: len(text) for source, text in texts.items()}}
        console.print(tree_table("plan", plan))
        return plan
    result = verbs.proofread(
        texts,
        settings=_collect(arguments, {name: name for name in ("threshold", "limit", "suggestions")}, dotted),
        **{name: getattr(arguments, name) for name in ("model", "measure", "seed", "html", "config", "threads")},
    )
    if arguments.measure:
        console.print(damage_table(result))
    elif arguments.html:
        console.print(f"page  {arguments.html}")
    else:
        print_proofs(result, console)
    return result


def _read_source(source: str) -> str:
    if source == "-":
        return _decode(sys.stdin.buffer.read(), "standard input")
    return _read_file(Path(source))


def _serve(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    # With --json standard output is for the result, which comes at the end.
    ready = sys.stderr if arguments.json else sys.stdout
    result = verbs.serve(
        arguments.models,
        config=arguments.config,
        settings=_collect(arguments, {name: name for name in ("host", "port", "key_file", "runtime")}, dotted),
        threads=arguments.threads,
        dry_run=arguments.dry_run,
        on_ready=lambda address: print(address, file=ready, flush=True),
    )
    if arguments.dry_run:
        console.print(tree_table("plan", result))
    return result


def _show(arguments: argparse.Namespace, _: Tree, console: Console) -> Result:
    result = verbs.show(arguments.path, row=arguments.row, model=arguments.model)
    if arguments.dry_run:
        console.print(f"{arguments.path}: {result['kind']}")
    else:
        print_artifact(result, console)
    return result


def _export(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
    result = verbs.export(
        arguments.model,
        arguments.out,
        settings=_collect(arguments, {"activations": "activations"}, dotted),
        **{name: getattr(arguments, name) for name in ("format", "data", "license", "config", "threads", "dry_run")},
    )
    console.print(tree_table("plan" if arguments.dry_run else arguments.out, result))
    return result


def _import(arguments: argparse.Namespace, _: Tree, console: Console) -> Result:
    if arguments.dry_run:
        plan = {"old": arguments.old, "out": arguments.out}
        console.print(tree_table("plan", plan))
        return plan
    result = verbs.import_model(arguments.old, arguments.out)
    console.print(tree_table(arguments.out, result))
    return result


def _quickstart(arguments: argparse.Namespace, dotted: Tree, console: Console) -> Result:
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
