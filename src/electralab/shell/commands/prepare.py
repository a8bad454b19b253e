"""`electra prepare`, `electralab.prepare`: text in any form -> tokenized, packed rows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.errors import UsageError
from electralab.shell.call import Call, Parser, count, open_display, positive, positive_int, settle

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.prepared import PassName, PreparedPass, PreparedReport, PreparePlan

SUMMARY = "turn text files into a tokenizer and rows of tokens"
EXAMPLE = "electra prepare books/ news.jsonl.gz --out data/mine --vocab-size 8192"
SETTINGS = "electralab.tokens.prepare_settings:PrepareConfig"

_DROPPED = {
    "near_duplicate": "nearly duplicate",
    "too_short": "too short",
    "undecodable": "not UTF-8",
    "language": "in another language",
}
_NEXT = {
    "count": "with --pass merge, once",
    "merge": "with --pass encode --part I/N, for each part",
    "encode": "without --pass and --part, once, which writes report and manifest",
}
_WINDOW_LINES = 100  # of a log whose sessions nobody described
# Long sentences of the help, so that each flag below is one line. Two of them name a default that the settings do not
# have, because --symbols changes it.
_TOKENIZER = "a vocab.txt, tokenizer.json, model folder or prepared data"
_FIELD = "the field of .jsonl, the column of tables (default: text)"
_PACKING = "full rows (default), the paper's two segments, or one document a row (default with --symbols)"
_LINE_FORMAT = "where the message stands, as '<Date> <Time> <Level>: <Content>' (default: it is looked for)"
_SESSION_LINES = "so many lines are a session (default: 100 without --session-key and --session-gap)"
_PASS = "do one pass only: count (in parts), merge (once) or encode (in parts)"
_PART = "do the I-th of N parts of a pass; without --pass: count before the merge, encode after it"
_DUPLICATES = "drop documents that equal an earlier one (default: yes; with --symbols no)"


def add_flags(parser: Parser) -> None:
    add, choose = parser.add_argument, argparse.BooleanOptionalAction
    add("inputs", nargs="+", metavar="INPUT", help="files, folders, globs, or - for standard input")
    add("--out", required=True, metavar="DIR", help="the folder to write")
    add("--vocab-size", dest=".tokenizer.vocab_size", type=int, metavar="N", help="entries of the learned vocabulary")
    add("--sequence-length", dest=".packing.sequence_length", type=int, metavar="N", help="tokens per row")
    add("--tokenizer", dest=".tokenizer.path", metavar="PATH", help=_TOKENIZER)
    add("--tokenizer-kind", dest=".tokenizer.kind", help="the tokenizer to learn")
    add("--lowercase", dest=".tokenizer.lowercase", action=choose, help="convert text to lower case")
    add("--strip-accents", dest=".tokenizer.strip_accents", action=choose, help="remove accents")
    add("--documents", dest=".reading.documents", help="what separates documents in .txt files")
    add("--field", dest=".reading.field", metavar="NAME", help=_FIELD)
    add("--packing", dest=".packing.kind", help=_PACKING)
    add("--drop-duplicates", dest=".filters.duplicates", action=choose, help=_DUPLICATES)
    add("--repair", dest=".repair", action=choose, help="repair broken encodings")
    add("--symbols", dest=".symbols", action="store_true", help="read JSONL lists, each symbol is one token")
    add("--logs", action="store_true", help="read lines of a log, whose templates are found and are the tokens")
    add("--line-format", metavar="FORMAT", help=_LINE_FORMAT)
    add("--session-key", metavar="REGEX", help="lines in which it finds the same are a session, as 'blk_-?[0-9]+'")
    add("--session-lines", type=count, metavar="N", help=_SESSION_LINES)
    add("--session-gap", type=positive, metavar="SECONDS", help="a session ends where nothing is logged for so long")
    add("--series", dest=".series.enabled", action="store_true", help="read CSV tables of times and values")
    add(
        "--heldout-share",
        dest=".heldout_share",
        type=float,
        metavar="P",
        help="share of the documents that is kept for evaluation",
    )
    add("--workers", type=positive_int, metavar="N", help="processes that share the work; default: one for each core")
    add("--pass", dest="only", choices=("count", "merge", "encode"), help=_PASS)
    add("--part", metavar="I/N", help=_PART)
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed, also of what is held out")


def prepare(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    logs: bool = False,
    line_format: str = "",
    session_key: str = "",
    session_lines: int = 0,
    session_gap: float = 0.0,
    workers: int = 0,
    only: PassName | None = None,
    part: str = "",
    dry_run: bool = False,
    display: Display | None = None,
) -> PreparedReport | PreparePlan | PreparedPass:
    """Text, in any language -> tokenizer and packed rows in `out`; returns the report.

    With `logs` the files are those of a log: templates of its lines are found, and its sessions are the rows.
    Several machines share the work with `only` and `part`; what is returned then says what is still missing.

    >>> report = electralab.prepare(["speeches.txt"], "data", settings={"tokenizer": {"vocab_size": 150}})
    >>> report.counts.documents
    40
    """
    # Nothing here loads torch: the workers that tokenize would each pay for it.
    from electralab.runtime import count_cores
    from electralab.tokens import prepare as stage
    from electralab.tokens.prepare_settings import Part, PrepareConfig

    names = [str(name) for name in inputs]
    resolved = settle(PrepareConfig, config, settings)
    work = Part.parse(part) if part else None
    if work and only == "merge":
        raise UsageError("--pass merge is done once, for all parts; leave --part out")
    number = workers or count_cores()
    if not logs and (line_format or session_key or session_lines or session_gap):
        raise UsageError(
            "--line-format, --session-key, --session-lines and --session-gap go with --logs; give that too"
        )
    if logs and (only or part):
        raise UsageError("--logs: a log is prepared in one go; leave --pass and --part out")
    if dry_run:
        return stage.plan_prepare(names, Path(out), resolved, cores=number)
    if logs:
        from electralab.records.logs import SessionRule
        from electralab.tokens.prepare_logs import prepare_logs

        is_whole = bool(session_key or session_gap)
        rule = SessionRule(key=session_key, lines=session_lines or (0 if is_whole else _WINDOW_LINES), gap=session_gap)
        return open_display(display, loads_torch=False).run(
            lambda stop: prepare_logs(names, Path(out), resolved, line_format, rule, stop, workers=number)
        )
    return open_display(display, loads_torch=False).run(
        lambda stop: stage.prepare(names, Path(out), resolved, stop, workers=number, only=only, part=work)
    )


def run(call: Call) -> None:
    from electralab.records.prepared import PreparedPass, PreparePlan
    from electralab.reporting import format as f

    flags = call.flags
    result = call.ask(prepare)
    if isinstance(result, PreparePlan):
        files = f"{f.format_number_of(len(result.sources), 'file')} ({f.format_names(result.sources)})"
        time, memory = f.format_time(result.seconds / 60), f.format_bytes(result.memory_bytes)
        unread = f.format_names(result.passed_over)
        call.print_plan(
            f"would prepare {files}, {f.format_bytes(result.bytes)}, into {result.out}",
            f"about {f.format_count(result.tokens)} tokens, {time}, {memory} of memory",
            *([f"would not read, because it is no text that can be read: {unread}"] if unread else []),
        )
    elif isinstance(result, PreparedPass):
        what = {"count": "file group", "merge": "corpus", "encode": "shard"}[result.name]
        call.print(
            f"{flags.out}: {result.name}: part {result.part} is done ({f.format_number_of(result.pieces, what)}); "
            + (
                f"{f.format_number_of(result.missing, what)} of other parts still to be done"
                if result.missing
                else f"all parts are done; next, the same command {_NEXT[result.name]}"
            )
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
