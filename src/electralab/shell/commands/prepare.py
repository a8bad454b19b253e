"""`electra prepare`: text in any form -> tokenized, packed rows."""

import argparse
from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.parser import Parser

if TYPE_CHECKING:
    from electralab.records.prepared import PreparedReport, PreparePlan
    from electralab.shell.call import Call

SUMMARY = "turn text into tokenized, packed rows"
EXAMPLE = "electra prepare books/ news.jsonl.gz --out data/mine --vocab-size 8192"
FUNCTION = api.prepare
SETTINGS = "electralab.tokens.prepare:PrepareConfig"
CONFIG_HELP = "a TOML file of settings"

_DROPPED = {
    "near_duplicate": "nearly duplicate",
    "too_short": "too short",
    "undecodable": "not UTF-8",
    "language": "in another language",
}


def add_flags(parser: Parser) -> None:
    add, choose = parser.add_argument, argparse.BooleanOptionalAction
    add("inputs", nargs="+", metavar="INPUT", help="files, folders, globs, or - for standard input")
    add("--out", required=True, metavar="DIR", help="the folder to write")
    add("--vocab-size", dest=".tokenizer.vocab_size", type=int, metavar="N", help="entries of the learned vocabulary")
    add("--sequence-length", dest=".packing.sequence_length", type=int, metavar="N", help="tokens per row")
    add(
        "--tokenizer",
        dest=".tokenizer.path",
        metavar="PATH",
        help="a vocab.txt, tokenizer.json, model folder or prepared data",
    )
    add("--tokenizer-kind", dest=".tokenizer.kind", help="the tokenizer to learn")
    add("--lowercase", dest=".tokenizer.lowercase", action=choose, help="fold case")
    add("--strip-accents", dest=".tokenizer.strip_accents", action=choose, help="remove accents")
    add("--documents", dest=".reading.documents", help="where a .txt document ends")
    add(
        "--field",
        dest=".reading.field",
        metavar="NAME",
        help="the field of .jsonl, the column of tables (default: text)",
    )
    add(
        "--packing",
        dest=".packing.kind",
        help="full rows (default), the paper's two segments, or one document a row (default with --symbols)",
    )
    add(
        "--drop-duplicates",
        dest=".filters.duplicates",
        action=choose,
        help="drop documents exactly like an earlier one (default: yes; with --symbols no)",
    )
    add("--repair", dest=".repair", action=choose, help="mend broken encodings before anything else")
    add("--symbols", dest=".symbols", action="store_true", help="JSONL lists taken as tokens as they are")
    add("--heldout-share", dest=".heldout_share", type=float, metavar="P", help="of the documents, kept for evaluation")
    add("--seed", dest=".seed", type=int, metavar="S", help="of what is held out and of all else that is random")


def run(call: "Call") -> "PreparedReport | PreparePlan":
    from electralab.records.prepared import PreparePlan

    flags = call.flags
    result = api.prepare(
        flags.inputs,
        flags.out,
        config=flags.config,
        settings=call.settings,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, PreparePlan):
        call.print_plan(format_plan(result))
    else:
        call.print_lines(format_report(flags.out, result))
    return result


def format_plan(plan: "PreparePlan") -> list[str]:
    from electralab.reporting.format import format_bytes, format_count, format_names, format_number_of, format_time

    lines = [
        f"would prepare {format_number_of(len(plan.sources), 'file')} ({format_names(plan.sources)}), "
        f"{format_bytes(plan.bytes)}, into {plan.out}",
        f"about {format_count(plan.tokens)} tokens, {format_time(plan.seconds / 60)}, "
        f"{format_bytes(plan.memory_bytes)} of memory",
    ]
    if plan.passed_over:
        lines.append(f"would not read, because it is no text that can be read: {format_names(plan.passed_over)}")
    return lines


def format_report(path: str, report: "PreparedReport") -> list[str]:
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
