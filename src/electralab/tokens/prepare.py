"""Stage: text in any form -> a folder of packed rows with its tokenizer, report and manifest.

    inputs, PrepareConfig -> data_dir

A restart reads the sources again, which is cheap, and encodes only what is missing; the folder counts as written when
its manifest is there.
"""

import math
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from pydantic import Field

from electralab.artifacts import (
    MANIFEST,
    describe_files,
    lock_folder,
    read_json,
    sha256_file,
    storage_errors,
    write_json,
    write_manifest,
)
from electralab.config import Settings, SettingsTree
from electralab.corpus.documents import Document, DocumentSample, DocumentStream, FilterConfig
from electralab.corpus.readers import ReadingConfig
from electralab.corpus.sources import (
    STANDARD_INPUT,
    Sources,
    find_sources,
    hash_source,
    is_unchanged,
    spool_standard_input,
)
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError, UsageError
from electralab.events import Event, Note, Progress, Result, Update, warn
from electralab.stopping import StopSignal
from electralab.tokens.identity import begun_path, is_finished, make_identity, read_begun, read_made_from, write_begun
from electralab.tokens.packing import PackingConfig
from electralab.tokens.shard_writer import ShardRecord, ShardWriter, split_ranks
from electralab.tokens.shards import BUILD, FORMAT, KIND, REPORT, SHARDS
from electralab.tokens.tokenizer import TOKENIZER, Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_report import describe_tokenizer
from electralab.tokens.tokenizer_training import train_symbol_vocab, train_tokenizer

_REPORT_SAMPLE = 2 << 20
_MAX_SYMBOLS = 1 << 22
_WORST = 3  # sources to name
_FEW_HELDOUT = 10  # documents: fewer tell little about text that was not trained on
_MOST_HELDOUT = 0.25  # a larger share than this is not proposed

A = TypeVar("A")


class PrepareConfig(Settings):
    reading: ReadingConfig = ReadingConfig()
    repair: bool = False
    """Mend broken encodings and the like (ftfy) before anything else looks at the text."""
    filters: FilterConfig = FilterConfig()
    heldout_share: float = Field(default=0.01, ge=0.0, lt=1.0)
    """The share of documents, chosen by a hash of their content, kept for evaluation."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    packing: PackingConfig = PackingConfig()
    symbols: bool = False
    """The input is JSON lists of strings or integers, taken as tokens as they are."""
    seed: int = 0


def settle_defaults(config: PrepareConfig) -> PrepareConfig:
    """What nobody set, as it suits sequences of symbols.

    How often a session occurs is what a log says, so equal ones are kept; and a model is asked about whole sessions,
    so it is trained on them: one a row.
    """
    if not config.symbols:
        return config
    filters, packing = config.filters, config.packing
    if "duplicates" not in filters.model_fields_set:
        filters = filters.model_copy(update={"duplicates": False})
    if "kind" not in packing.model_fields_set:
        packing = packing.model_copy(update={"kind": "documents"})
    return config.model_copy(update={"filters": filters, "packing": packing})


def prepare(inputs: Sequence[str], out: Path, config: PrepareConfig, stop: StopSignal) -> Iterator[Event[SettingsTree]]:
    """Build `out`, or finish what an interrupted run began there; the result is the report."""
    find_sources(inputs, symbols=config.symbols)
    given = _load_given(config)
    _refuse_foreign(out)
    with lock_folder(out), storage_errors(out):
        try:
            spool = None
            if STANDARD_INPUT in inputs:
                phase = "reading standard input"
                yield Progress(phase, 0, 0, line=phase)
                spool = out / BUILD / "standard-input"
                spool_standard_input(spool, stop)
            sources = find_sources(inputs, symbols=config.symbols, spool=spool)
            yield from _Build(sources, out, config, given, stop).run()
        finally:
            # Finished data keeps nothing of its making, nor what was piped in only to be compared with it.
            if (out / MANIFEST).is_file():
                shutil.rmtree(out / BUILD, ignore_errors=True)
    yield Result(read_report(out))


def read_report(out: Path) -> dict[str, Any]:
    report: dict[str, Any] = read_json(out / REPORT)
    return report


def _load_given(config: PrepareConfig) -> Tokenizer | None:
    path = config.tokenizer.path
    if not path:
        return None
    tokenizer = Tokenizer.load(Path(path), config.tokenizer)
    if tokenizer.is_symbols != config.symbols:
        kind = "symbols" if tokenizer.is_symbols else "text"
        raise UsageError(f"{path}: is a tokenizer for {kind}; give another, or none")
    return tokenizer


def _refuse_foreign(out: Path) -> None:
    with storage_errors(out):
        names = {path.name for path in out.iterdir()} - {".lock"} if out.is_dir() else set()
    if names and not names & {MANIFEST, BUILD}:
        raise UsageError(f"{out}: holds files that are not prepared data; choose another --out")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """All parts of one pass, and what the pass left out."""

    records: list[ShardRecord]
    dropped: dict[str, int]
    passed_over: list[str]
    undecodable: str
    """The sources with the most documents that are no text, in words."""
    lowest_rank: int
    highest_rank: int
    sample: list[str]

    def total(self, name: str) -> int:
        return sum(getattr(record, name) for record in self.records)


_Phase = Generator[Update, None, A]
_PHASES = {
    "hashing": "checking the files",
    "sampling": "sampling text for the tokenizer",
    "learning": "learning the tokenizer",
    "encoding": "encoding documents",
}


class _Build:
    """One run of the stage over fixed sources."""

    def __init__(
        self, sources: Sources, out: Path, config: PrepareConfig, given: Tokenizer | None, stop: StopSignal
    ) -> None:
        self._sources = sources
        self._out = out
        self._config = settle_defaults(config)
        self._asked = config
        self._given = given
        self._stop = stop
        self._hashes: list[str] = []
        self._documents = 0
        self._tokens = 0
        self._told = ("", -1)

    def run(self) -> _Phase[None]:
        yield from self._hash()
        identity = self._identify(self._config)
        before = self._identify(self._asked)
        if before != identity and read_made_from(self._out) == before:
            # Prepared before symbols had defaults of their own: the folder stays what it is.
            self._config, identity = self._asked, before
        try:
            if is_finished(self._out, identity):
                yield self._progress("finished", self._sources.bytes)
                yield Note("the data is there already, nothing to do", "warning")
                return
        except DamagedArtifact as damage:
            yield Note(str(damage), "warning")
        yield from self._begin(identity)
        tokenizer = yield from self._get_tokenizer()
        bar = int(self._config.heldout_share * 2**64)
        outcome = yield from self._encode(tokenizer, bar)
        if (better := _better_bar(outcome, bar)) != bar:
            outcome = yield from self._encode(tokenizer, better)
        if not outcome.total("train_rows"):
            count = outcome.total("documents") - outcome.total("heldout_documents")
            raise InputError(
                f"no token left to train on ({count} documents for training gave none); "
                "give more text or another tokenizer"
            )
        warnings = _find_warnings(outcome, self._config.heldout_share)
        self._finish(identity, tokenizer, outcome, warnings)
        yield from map(warn, warnings)
        yield self._progress("finished", self._sources.bytes)

    def _identify(self, config: PrepareConfig) -> SettingsTree:
        return make_identity(config.model_dump(mode="json"), self._sources.files, self._hashes, self._given)

    def _progress(self, phase: str, done: int) -> Progress:
        """In bytes of the source files on disk. In a pipe a line when a phase begins and at each further fifth."""
        total = self._sources.bytes
        done = min(done, total)
        counts = [f"{self._documents:,} documents"] if self._documents else []
        counts += [f"{self._tokens:,} tokens"] if self._tokens else []
        text = _PHASES.get(phase, phase) + (f": {', '.join(counts)}" if counts else "")
        reached = (phase, 5 * done // max(total, 1))
        line = "" if reached == self._told else f"{text} ({done / max(total, 1):.0%})"
        self._told = reached
        return Progress(phase, done, total, text, line, {"documents": self._documents, "tokens": self._tokens})

    def _stream(self) -> DocumentStream:
        config = self._config
        return DocumentStream(
            self._sources,
            config.reading,
            config.filters,
            repair=config.repair,
            symbols=config.symbols,
            stop=self._stop,
        )

    def _hash(self) -> _Phase[None]:
        done = 0
        for source in self._sources.files:
            yield self._progress("hashing", done)
            self._hashes.append(hash_source(source, self._stop.check))
            done += source.bytes

    def _begin(self, identity: SettingsTree) -> _Phase[None]:
        """Go on with what lies there if it was begun from the same sources with the same settings; else start over."""
        path = begun_path(self._out)
        try:
            if read_begun(path, identity):
                return
        except (DamagedArtifact, IdentityMismatch) as reason:
            yield Note(str(reason), "warning")
        (self._out / MANIFEST).unlink(missing_ok=True)
        for name in (SHARDS, TOKENIZER):
            shutil.rmtree(self._out / name, ignore_errors=True)
        for record in (self._out / BUILD).glob("*.json"):
            record.unlink()
        write_begun(path, identity)

    def _get_tokenizer(self) -> _Phase[Tokenizer]:
        folder = self._out / TOKENIZER
        done = self._out / BUILD / "tokenizer.json"
        if _is_recorded(folder, done):
            return Tokenizer.load(folder)
        tokenizer = self._given
        if tokenizer is None:
            tokenizer = yield from (self._learn_symbols() if self._config.symbols else self._learn_text())
        # The hashes of these files are part of the data's identity: they stay as they have always been written.
        tokenizer.save(folder, max_length=self._config.packing.sequence_length, with_bert_options=False)
        write_json(done, describe_files(folder))
        return tokenizer

    def _learn_text(self) -> _Phase[Tokenizer]:
        sample, heldout = (
            DocumentSample(int(self._config.tokenizer.sample_mb * 2**20), self._config.seed) for _ in range(2)
        )
        bar = int(self._config.heldout_share * 2**64)
        stream = self._stream()
        for batch in stream:
            is_heldout = split_ranks(batch, self._config.seed) < bar
            for documents, wanted in ((sample, False), (heldout, True)):
                documents.offer([batch[place] for place in np.flatnonzero(is_heldout == wanted)])
            yield self._progress("sampling", stream.counter.done)
        # Held-out text must be new to the tokenizer too, unless a tiny corpus has nothing else.
        texts = sample.texts() or heldout.texts()
        if not texts:
            raise _nothing_left(stream)
        return (yield from self._wait("learning", lambda: train_tokenizer(texts, self._config.tokenizer)))

    def _wait(self, phase: str, work: Callable[[], A]) -> _Phase[A]:
        """Work that cannot be interrupted goes aside, so that a signal is still obeyed at once."""
        future: Future[A] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  handed to whoever waits
                future.set_exception(error)

        Thread(target=run, daemon=True).start()
        while not future.done():
            yield self._progress(phase, self._sources.bytes)
            self._stop.check()
            wait_for([future], timeout=0.2)
        return future.result()

    def _learn_symbols(self) -> _Phase[Tokenizer]:
        counts: Counter[str] = Counter()
        stream = self._stream()
        for batch in stream:
            for document in batch:
                counts.update(document.content)
            if len(counts) > _MAX_SYMBOLS:
                raise InputError(f"more than {_MAX_SYMBOLS} different symbols; make them coarser")
            yield self._progress("sampling", stream.counter.done)
        return train_symbol_vocab(counts, self._config.tokenizer)

    def _encode(self, tokenizer: Tokenizer, bar: int) -> _Phase[_Outcome]:
        stream = self._stream()
        sample = DocumentSample(_REPORT_SAMPLE, self._config.seed)
        lowest, highest = 1 << 64, -1

        def watched() -> Iterator[list[Document]]:
            nonlocal lowest, highest
            for batch in stream:
                if not batch:
                    continue
                ranks = split_ranks(batch, self._config.seed)
                lowest, highest = min(lowest, int(ranks.min())), max(highest, int(ranks.max()))
                if not self._config.symbols:
                    sample.offer(batch)
                yield batch

        writer = ShardWriter(self._out, tokenizer, self._config.packing, seed=self._config.seed, heldout_threshold=bar)
        for progress in writer.write(watched()):
            self._documents, self._tokens = progress.documents, progress.tokens
            yield self._progress("encoding", stream.counter.done)
        if not self._documents:
            raise _nothing_left(stream)
        return _Outcome(
            writer.records,
            stream.dropped,
            stream.passed_over,
            name_undecodable(stream.undecodable, stream.read) if "undecodable" in stream.dropped else "",
            lowest,
            highest,
            sample.texts(),
        )

    def _finish(self, identity: SettingsTree, tokenizer: Tokenizer, outcome: _Outcome, warnings: list[str]) -> None:
        changed = [source.path for source in self._sources.files if not is_unchanged(source)]
        if changed:
            raise InputError(f"{changed[0]}: changed while it was read; run the same command again")
        counts = {name: outcome.total(name) for name in _COUNTS}
        sources = [
            {"path": str(source.path), "bytes": source.bytes, "sha256": digest}
            for source, digest in zip(self._sources.files, self._hashes, strict=True)
        ]
        report = {
            "counts": counts,
            "dropped": outcome.dropped,
            "passed_over": outcome.passed_over,
            "warnings": warnings,
            "tokenizer": {
                "vocab_size": tokenizer.vocab_size,
                "ordinary_pieces": int(tokenizer.is_ordinary.sum()),
                "unknown_share": counts["unknown_tokens"] / max(1, counts["tokens"]),
                **describe_tokenizer(tokenizer, outcome.sample),
            },
        }
        write_json(self._out / REPORT, report)
        files = {f"{TOKENIZER}/{name}": entry for name, entry in describe_files(self._out / TOKENIZER).items()}
        for record in outcome.records:
            files |= record.files
        files[REPORT] = {"bytes": (self._out / REPORT).stat().st_size, "sha256": sha256_file(self._out / REPORT)}
        _remove_strays(self._out, files)
        write_manifest(
            self._out,
            files=files,
            kind=KIND,
            format=FORMAT,
            sequence_length=self._config.packing.sequence_length,
            packing=self._config.packing.kind,
            vocab_size=tokenizer.vocab_size,
            counts=counts,
            settings=self._config.model_dump(mode="json"),
            sources=sources,
            made_from=identity,
        )


def _is_recorded(folder: Path, record: Path) -> bool:
    """Whether the folder holds what its record says; without one that can be read it is written again."""
    try:
        return record.is_file() and bool(read_json(record) == describe_files(folder))
    except DamagedArtifact:
        return False


def _nothing_left(stream: DocumentStream) -> InputError:
    dropped = ", ".join(f"{count} {reason}" for reason, count in stream.dropped.items()) or "none found"
    if worst := name_undecodable(stream.undecodable, stream.read):
        remedy = "give text, name its encoding with --reading.encoding, or mend it with --repair"
    else:
        worst = ", ".join(f"{count:,} in {name}" for name, count in stream.read.most_common(_WORST))
        remedy = "give other text or loosen the filters"
    return InputError(f"no document left to prepare ({dropped}{f': {worst}' if worst else ''}); {remedy}")


def name_undecodable(undecodable: Counter[str], read: Counter[str]) -> str:
    """The sources with the most documents whose bytes are no text, and how many of theirs that is."""
    worst = [(name, count) for name, count in undecodable.most_common(_WORST) if count]
    named = ", ".join(f"{count:,} of {read[name]:,} in {name}" for name, count in worst)
    more = sum(1 for count in undecodable.values() if count) - len(worst)
    return f"{named} and {more:,} more files" if more > 0 else named


def _find_warnings(outcome: _Outcome, heldout_share: float) -> list[str]:
    """What a person should know before trusting the data, as sentences."""
    warnings = []
    if outcome.undecodable:
        warnings.append(
            f"{outcome.dropped['undecodable']:,} documents are no text in the expected encoding and were dropped "
            f"({outcome.undecodable}); name it with --reading.encoding, or mend them with --repair"
        )
    documents, heldout = outcome.total("documents"), outcome.total("heldout_documents")
    rows, heldout_rows = (outcome.total(name) for name in ("train_rows", "heldout_rows"))
    got = heldout_rows / max(1, rows + heldout_rows)
    if not heldout_share:
        return warnings
    if heldout < _FEW_HELDOUT:
        what = f"only {heldout:,}" if heldout else "none"
        needed = math.ceil(100 * _FEW_HELDOUT / documents) / 100
        advice = f"--heldout-share {needed:g} holds out about {_FEW_HELDOUT}"
        if needed > _MOST_HELDOUT:
            advice = "more, or shorter, documents are needed (of plain text --documents lines makes one of each line)"
        warnings.append(f"{what} of {documents:,} documents held out, so scores on held-out text say little; {advice}")
    if got > max(2 * heldout_share, heldout_share + 0.05):
        warnings.append(
            f"{got:.0%} of the rows are held out where {heldout_share:.2g} was asked for, because documents are held "
            "out whole, equal ones together; cut them into shorter ones, or leave it if that much may be spared"
        )
    return warnings


_COUNTS = (
    "documents",
    "heldout_documents",
    "characters",
    "tokens",
    "unknown_tokens",
    "train_rows",
    "heldout_rows",
)


def _remove_strays(out: Path, files: SettingsTree) -> None:
    """A pass with another bar may have left a shard that this one does not need."""
    for path in (out / SHARDS).glob("*"):
        if path.relative_to(out).as_posix() not in files:
            path.unlink()


def _better_bar(outcome: _Outcome, bar: int) -> int:
    """Both sides get at least one document where there are two; only a small corpus can need this second pass."""
    heldout, documents = outcome.total("heldout_documents"), outcome.total("documents")
    if heldout == documents:
        return outcome.highest_rank
    return outcome.lowest_rank + 1 if heldout == 0 and bar and documents > 1 else bar
