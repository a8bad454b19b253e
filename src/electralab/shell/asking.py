"""Parsed words -> a verb that uses a model, and its result on standard output."""

import argparse
import codecs
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from electralab import summaries, verbs
from electralab.config import SettingsTree
from electralab.display import Display
from electralab.errors import InputError, UsageError
from electralab.shell.flag_settings import COLUMN_FLAGS, Result, collect
from electralab.shell.json_line import print_json
from electralab.shell.summary import print_summary
from electralab.showing import print_proofs
from electralab.tables import (
    colour_tokens,
    damage_table,
    describe_suspects,
    tame,
)


def _detect(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Any:
    texts = list(_read_texts(arguments))
    if arguments.dry_run:
        plan = {"model": arguments.model, "texts": len(texts), "characters": sum(map(len, texts))}
        print_summary(summaries.describe_detect_plan(plan), arguments, console)
        return plan
    _say_loading(arguments, arguments.model)
    found = verbs.detect(arguments.model, texts, config=arguments.config, settings=dotted)
    for result in found:
        if console.is_terminal:
            console.print(colour_tokens(result))
        else:
            console.file.write("" if console.quiet else _tabulate(result))
    _tell_suspects(found, Display(quiet=arguments.json))
    if not arguments.lines:
        return found[0]
    if arguments.json:
        # One object a line: the last is left to the caller, who ends the line.
        for result in found[:-1]:
            print_json(result)
    return found[-1] if found else {}


def _tell_suspects(found: Sequence[Result], display: Display) -> None:
    """On standard error, beside what a pipe takes; of many texts only what holds of all."""
    if found and found[0]["warning"]:
        display.say(f"warning: {found[0]['warning']}", style="yellow")
    if len(found) == 1 and (told := describe_suspects(found[0])):
        display.say(told)


def _say_loading(arguments: argparse.Namespace, *models: str) -> None:
    """Before a silence of seconds; a program that reads JSON needs no such word."""
    if all(Path(model).exists() or "=" in model for model in models):
        Display(quiet=arguments.json).say(f"loading {tame(', '.join(models))}")


def _tabulate(result: Result) -> str:
    """For a pipe, which shows no colours: a token a line."""
    rows = [
        f"{token['start']}\t{token['end']}\t{token['p_replaced']:.4f}\t{tame(token['text'])}"
        for token in result["tokens"]
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
        text = _decode(arguments.text.encode(errors="surrogateescape"), "TEXT", may_be_cut=False)
    if arguments.lines:
        yield from (line for line in text.splitlines() if line.strip())
    else:
        yield text


def _read_source(source: str) -> str:
    if source == "-":
        return _decode(sys.stdin.buffer.read(), "standard input")
    return _read_file(Path(source))


def _read_file(path: Path) -> str:
    try:
        return _decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a text file") from None


def _decode(data: bytes, source: str, *, may_be_cut: bool = True) -> str:
    """Text in UTF-8; `head -c` and a broken download cut inside a character, which costs that character only."""
    try:
        text, used = codecs.utf_8_decode(data, "strict", not may_be_cut)
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 at byte {error.start}; convert it, for example with iconv") from None
    if used < len(data):
        Display().say(f"{source}: ends inside a character, which is left out", style="yellow")
    return text.removeprefix("\ufeff")


def _predict(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    settings = collect(arguments, {name: f"data.{name}" for name in COLUMN_FLAGS}, dotted)
    _say_loading(arguments, arguments.model)
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
        print_summary(summaries.describe_predict_plan(result, arguments.input), arguments, console)
    elif arguments.out:
        bad = f", {result['bad_rows']:,} bad rows" if result["bad_rows"] else ""
        console.print(f"{arguments.out}: {len(result['predictions']) - result['bad_rows']:,} predictions{bad}")
        result = {"out": arguments.out, **result}
    elif not arguments.json:
        for row in result["predictions"]:
            print_json(row)
    return result


def _proofread(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    sources = ["-"] if not arguments.files else arguments.files
    texts = {source: _read_source(source) for source in sources}
    if arguments.dry_run:
        plan = {"model": arguments.model, "documents": {source: len(text) for source, text in texts.items()}}
        print_summary(summaries.describe_proofread_plan(plan), arguments, console)
        return plan
    _say_loading(arguments, arguments.model)
    result = verbs.proofread(
        texts,
        settings=collect(arguments, {name: name for name in ("threshold", "limit", "suggestions")}, dotted),
        **{name: getattr(arguments, name) for name in ("model", "measure", "seed", "html", "config", "threads")},
    )
    if arguments.measure:
        print_summary(summaries.describe_damage(result), arguments, console)
        console.print(damage_table(result))
    elif arguments.html:
        if result["warning"]:
            console.print(f"warning: {result['warning']}", style="yellow")
        console.print(f"page  {arguments.html}")
    else:
        print_proofs(result, console)
    return result


def _serve(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    # With --json standard output is for the result, which comes at the end.
    ready = sys.stderr if arguments.json else sys.stdout
    _say_loading(arguments, *arguments.models)
    result = verbs.serve(
        arguments.models,
        config=arguments.config,
        settings=collect(
            arguments,
            {name: name for name in ("host", "port", "allow_hosts", "key_file", "runtime", "drain_seconds")},
            dotted,
        ),
        threads=arguments.threads,
        dry_run=arguments.dry_run,
        on_ready=lambda address: print(address, file=ready, flush=True),
    )
    if arguments.dry_run:
        print_summary(summaries.describe_serve_plan(result), arguments, console)
    else:
        _leave(result if arguments.json else None)
    return result


def _leave(result: Result | None) -> NoReturn:
    """At once: Python's own way out takes its time, and would tear a thread out of its network, which aborts."""
    if result is not None:
        print_json(result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


VERBS = {
    "detect": _detect,
    "predict": _predict,
    "proofread": _proofread,
    "serve": _serve,
}
