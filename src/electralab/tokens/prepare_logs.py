"""Stage: files of a log -> sessions of events -> a folder of packed rows, which keeps the templates of the lines.

lines -> OUT/log/{templates.json, sessions.jsonl, lines.csv.gz} -> `prepare` with symbols
"""

import gzip
import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from electralab.artifacts import MANIFEST, new_folder, sha256_json, verify_folder
from electralab.config import SettingsTree
from electralab.corpus.logs import HeadCounts, LineReader, SessionCutter, read_lines
from electralab.corpus.sources import STANDARD_INPUT, ByteCounter, find_sources, hash_source
from electralab.corpus.templates import Pieces, TemplateMiner, TemplateTree
from electralab.errors import DamagedArtifact, InputError, UsageError
from electralab.events import Event, Note, Progress
from electralab.records.logs import LOG, SESSIONS, LogTemplates, SessionRule
from electralab.records.prepared import PreparedPass, PreparedReport
from electralab.stopping import StopSignal
from electralab.tokens.prepare import prepare, require_own_folder
from electralab.tokens.prepare_settings import PrepareConfig

LINES = "lines.csv.gz"
_REPORTED = 1 << 14
_FORMAT = 1


def prepare_logs(
    inputs: Sequence[str],
    out: Path,
    config: PrepareConfig,
    line_format: str,
    sessions: SessionRule,
    stop: StopSignal,
    *,
    workers: int = 1,
) -> Iterator[Event[PreparedReport | PreparedPass]]:
    """As `prepare` with symbols, of the sessions that the lines make."""
    if STANDARD_INPUT in inputs:
        raise UsageError("a log cannot be read from standard input, because it is read twice; write it to a file")
    require_own_folder(out)
    sources = find_sources(inputs)
    made_from: SettingsTree = {
        "format": _FORMAT,
        "sources": [hash_source(source, stop) for source in sources.files],
        "line_format": line_format,
        "sessions": sessions.model_dump(mode="json"),
    }
    identity = sha256_json(made_from)
    if _read_identity(out / LOG) != identity:
        reader, miner, cutter = LineReader(line_format), TemplateMiner(), SessionCutter(sessions)
        heads = HeadCounts(line_format, sessions)
        # Of each line the number of its pieces, of which there are far fewer; 0 are none.
        numbers: dict[Pieces, int] = {}
        lines = array("L", [0])
        counter = ByteCounter()
        size = sum(source.bytes for source in sources.files)
        for number, line in enumerate(read_lines(sources.files, stop, counter), start=1):
            read = reader.read(line)
            lines.append(numbers.setdefault(miner.add(read.message), len(numbers) + 1) if read.message else 0)
            if read.message:
                heads.add(number, read)
                cutter.add(number, line, read.seconds)
            if number % _REPORTED == 0:
                yield Progress("reading lines", counter.done, size, f"{number:,} lines")
        cutter.finish()
        if not cutter.sessions:
            hint = f"no line holds {sessions.key!r}; give another --session-key" if sessions.key else "give a log"
            raise InputError(f"{inputs[0]}: no session of {len(lines) - 1:,} lines; {hint}")
        if not heads.fitting:
            raise InputError(
                f"{inputs[0]}: --line-format {line_format!r} fits none of {heads.lines:,} lines; name the parts of a "
                "line as they stand there, or leave it out to have heads found"
            )
        if sessions.gap and not heads.timed:
            raise InputError(
                f"{inputs[0]}: --session-gap: none of {heads.lines:,} lines has a time that is known; give "
                "--session-lines or --session-key"
            )
        for complaint in heads.find_complaints():
            yield Note(f"{inputs[0]}: {complaint}", "warning")
        templates = LogTemplates(line_format=line_format, sessions=sessions, templates=tuple(miner.find()))
        tree = TemplateTree(templates.templates)
        events = ["", *(tree.find_pieces(pieces) or "" for pieces in numbers)]
        with new_folder(out / LOG, kind="log", made_from=identity) as folder:
            templates.write(folder)
            owners: dict[int, list[str]] = {}
            with (folder / SESSIONS).open("w", encoding="utf-8") as file:
                for name, own in cutter.sessions.items():
                    row = {"session": name, "symbols": [events[lines[number]] for number in own]}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                    for number in own:
                        owners.setdefault(number, []).append(name)
            # Without the time, so that equal logs make equal files.
            with gzip.GzipFile(folder / LINES, "wb", mtime=0) as packed:
                packed.write(b"line,event,session\n")
                for number in range(1, len(lines)):
                    for name in owners.get(number, [""]):
                        packed.write(f'{number},{events[lines[number]]},"{name}"\n'.encode())
        yield Note(
            f"{len(lines) - 1:,} lines, {len(templates.templates):,} events, {len(cutter.sessions):,} sessions: "
            f"{out / LOG}"
        )
    symbols = config.model_copy(update={"symbols": True})
    yield from prepare([str(out / LOG / SESSIONS)], out, symbols, stop, workers=workers)


def _read_identity(folder: Path) -> object:
    """What a finished folder was made from; None where there is none that is whole."""
    if not (folder / MANIFEST).exists():
        return None
    try:
        return verify_folder(folder, "prepare the log again").facts.get("made_from")
    except DamagedArtifact:
        return None
