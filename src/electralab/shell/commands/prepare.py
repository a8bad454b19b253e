"""`electra prepare`, `electralab.prepare`: text in any form -> tokenized, packed rows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, open_display, settle
from electralab.shell.parser import Parser

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.prepared import PreparedReport, PreparePlan

SUMMARY = "turn text into tokenized, packed rows"
EXAMPLE = "electra prepare books/ news.jsonl.gz --out data/mine --vocab-size 8192"
SETTINGS = "electralab.tokens.prepare:PrepareConfig"

_DROPPED = {
    "near_duplicate": "nearly duplicate",
    "too_short": "too short",
    "undecodable": "not UTF-8",
    "language": "in another language",
}
# Long sentences of the help, so that each flag below is one line. Two of them name a default that the settings do not
# have, because --symbols changes it.
_TOKENIZER = "a vocab.txt, tokenizer.json, model folder or prepared data"
_FIELD = "the field of .jsonl, the column of tables (default: text)"
_PACKING = "full rows (default), the paper's two segments, or one document a row (default with --symbols)"
_DUPLICATES = "drop documents exactly like an earlier one (default: yes; with --symbols no)"


def add_flags(parser: Parser) -> None:
    add, choose = parser.add_argument, argparse.BooleanOptionalAction
    add("inputs", nargs="+", metavar="INPUT", help="files, folders, globs, or - for standard input")
    add("--out", required=True, metavar="DIR", help="the folder to write")
    add("--vocab-size", dest=".tokenizer.vocab_size", type=int, metavar="N", help="entries of the learned vocabulary")
    add("--sequence-length", dest=".packing.sequence_length", type=int, metavar="N", help="tokens per row")
    add("--tokenizer", dest=".tokenizer.path", metavar="PATH", help=_TOKENIZER)
    add("--tokenizer-kind", dest=".tokenizer.kind", help="the tokenizer to learn")
    add("--lowercase", dest=".tokenizer.lowercase", action=choose, help="fold case")
    add("--strip-accents", dest=".tokenizer.strip_accents", action=choose, help="remove accents")
    add("--documents", dest=".reading.documents", help="where a .txt document ends")
    add("--field", dest=".reading.field", metavar="NAME", help=_FIELD)
    add("--packing", dest=".packing.kind", help=_PACKING)
    add("--drop-duplicates", dest=".filters.duplicates", action=choose, help=_DUPLICATES)
    add("--repair", dest=".repair", action=choose, help="mend broken encodings before anything else")
    add("--symbols", dest=".symbols", action="store_true", help="JSONL lists taken as tokens as they are")
    add("--heldout-share", dest=".heldout_share", type=float, metavar="P", help="of the documents, kept for evaluation")
    add("--seed", dest=".seed", type=int, metavar="S", help="of what is held out and of all else that is random")


def prepare(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    dry_run: bool = False,
    display: Display | None = None,
) -> PreparedReport | PreparePlan:
    """Text, in any language -> tokenizer and packed rows in `out`; returns the report.

    >>> report = electralab.prepare(["speeches.txt"], "data", settings={"tokenizer": {"vocab_size": 150}})
    >>> report.counts.documents
    40
    """
    # Nothing here loads torch: the workers that tokenize would each pay for it.
    from electralab.runtime import default_threads
    from electralab.tokens import prepare as stage

    names = [str(name) for name in inputs]
    resolved = settle(stage.PrepareConfig, config, settings)
    if dry_run:
        return stage.plan_prepare(names, Path(out), resolved, cores=default_threads())
    return open_display(display, loads_torch=False).run(lambda stop: stage.prepare(names, Path(out), resolved, stop))


def run(call: Call) -> None:
    from electralab.records.prepared import PreparePlan
    from electralab.reporting import format as f

    flags = call.flags
    result = prepare(flags.inputs, flags.out, **call.common)
    if isinstance(result, PreparePlan):
        files = f"{f.format_number_of(len(result.sources), 'file')} ({f.format_names(result.sources)})"
        time, memory = f.format_time(result.seconds / 60), f.format_bytes(result.memory_bytes)
        unread = f.format_names(result.passed_over)
        call.print_plan(
            f"would prepare {files}, {f.format_bytes(result.bytes)}, into {result.out}",
            f"about {f.format_count(result.tokens)} tokens, {time}, {memory} of memory",
            *([f"would not read, because it is no text that can be read: {unread}"] if unread else []),
        )
    else:
        call.print(*format_report(flags.out, result))
    call.answer(result)


def format_report(path: str, report: PreparedReport) -> list[str]:
    """What lies in a folder of prepared data; `show` says the same."""
    from electralab.reporting.format import format_names, format_number_of

    counts, tokenizer = report.counts, report.tokenizer
    heldout = format_number_of(counts.heldout_documents, "document")
    words = f", {tokenizer.tokens_per_word:.2f} tokens a word" if tokenizer.tokens_per_word is not None else ""
    fraction = tokenizer.unknown_share
    unknown = f"{100 * fraction:.2g} % of the tokens are unknown" if fraction else "no token is unknown"
    lines = [
        f"{path}: {format_number_of(counts.documents, 'document')} became {format_number_of(counts.tokens, 'token')} "
        f"in {format_number_of(counts.train_rows, 'training row')}",
        f"held out for evaluation: {format_number_of(counts.heldout_rows, 'row')} of {heldout}",
        f"vocabulary: {tokenizer.vocab_size:,} entries{words}; {unknown}",
    ]
    if report.dropped:
        reasons = ", ".join(f"{count:,} {_DROPPED.get(name, name)}" for name, count in report.dropped.items())
        lines.append(f"left out: {format_number_of(sum(report.dropped.values()), 'document')} ({reasons})")
    if report.passed_over:
        lines.append(f"not read, because it is no text that can be read: {format_names(report.passed_over)}")
    return lines
