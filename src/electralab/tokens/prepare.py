"""Stage: text in any form -> a folder of packed rows with its tokenizer, report and manifest.

    inputs, PrepareConfig -> data_dir

A restart reads the sources again, which is cheap, and encodes only what is missing; the folder counts as written when
its manifest is there.
"""

import math
import re
import shutil
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Literal, TypeVar

import numpy as np
from pydantic import Field

from electralab import artifacts
from electralab.artifacts import MANIFEST, describe_files, read_json, sha256_json, write_json
from electralab.config import Settings, SettingsTree, differences
from electralab.corpus.documents import (
    NEAR_DUPLICATE_RULE,
    Document,
    DocumentFilter,
    DocumentSample,
    DocumentStream,
    FilterConfig,
)
from electralab.corpus.readers import ReadingConfig
from electralab.corpus.scripts import SPACELESS, UNIT, WIDE_PUNCTUATION
from electralab.corpus.sources import (
    STANDARD_INPUT,
    Compression,
    Source,
    Sources,
    find_sources,
    hash_source,
    spool_standard_input,
)
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError, UsageError
from electralab.events import Event, Note, Progress, Result, Update, warn
from electralab.records import prepared as records
from electralab.stopping import StopSignal
from electralab.tokens.packing import PackingConfig
from electralab.tokens.shards import BUILD, FORMAT, KIND, SHARDS, ShardRecord, ShardWriter, split_ranks
from electralab.tokens.tokenizer import TOKENIZER, Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab, train_tokenizer

_REPORT_SAMPLE = 2 << 20
_MAX_SYMBOLS = 1 << 22
_WORST = 3  # sources to name
_FEW_HELDOUT = 10  # documents: fewer tell little about text that was not trained on
_MOST_HELDOUT = 0.25  # a larger share than this is not proposed

# For the plan: typical of English text on a core of the 2020s.
_UNPACKED: dict[Compression, float] = {"": 1.0, "gz": 2.7, "bz2": 3.5, "xz": 3.7, "zst": 3.0}
_BYTES_PER_TOKEN = 4
_BYTES_PER_DOCUMENT = 1000
_BYTES_PER_SECOND = 4e6  # encoded by a core, or learned from
_MEMORY = 512 << 20

# For the report: in scripts without spaces no word is among the longest.
_LONGEST_WORDS = 10
_SPACED_WORD = re.compile(f"[^\\s{SPACELESS}{WIDE_PUNCTUATION}]+")

_PHASES = {
    "hashing": "checking the files",
    "sampling": "sampling text for the tokenizer",
    "learning": "learning the tokenizer",
    "encoding": "encoding documents",
}
_AGAIN = "the data is built again"
_OVER = "the build starts over"

A = TypeVar("A")
_Phase = Generator[Update, None, A]


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

    def with_symbol_defaults(self) -> "PrepareConfig":
        """What nobody set, as it suits sequences of symbols."""
        filters, packing = self.filters, self.packing
        # How often a session occurs is what a log says, so equal ones are kept.
        if self.symbols and "duplicates" not in filters.model_fields_set:
            filters = filters.model_copy(update={"duplicates": False})
        # A model is asked about whole sessions, so it is trained on them: one a row.
        if self.symbols and "kind" not in packing.model_fields_set:
            packing = packing.model_copy(update={"kind": "documents"})
        return self.model_copy(update={"filters": filters, "packing": packing})


def plan_prepare(inputs: Sequence[str], out: Path, config: PrepareConfig, *, cores: int) -> records.PreparePlan:
    """Estimates from typical ratios and speeds; reads no content and writes nothing."""
    sources = find_sources(inputs, symbols=config.symbols)
    text = int(sum(source.bytes * _UNPACKED[source.compression] for source in sources.files))
    learned = 0.0 if config.tokenizer.path else min(text, config.tokenizer.sample_mb * 2**20)
    return records.PreparePlan(
        out=str(out),
        sources=[str(source.path) for source in sources.files],
        passed_over=sources.passed_over,
        bytes=sources.bytes,
        text_bytes=text,
        tokens=text // _BYTES_PER_TOKEN,
        seconds=text / (_BYTES_PER_SECOND * cores) + learned / _BYTES_PER_SECOND,
        memory_bytes=_MEMORY + 8 * text // _BYTES_PER_DOCUMENT,
    )


def prepare(
    inputs: Sequence[str], out: Path, config: PrepareConfig, stop: StopSignal
) -> Iterator[Event[records.PreparedReport]]:
    """Build `out`, or finish what an interrupted run began there; the result is the report."""
    find_sources(inputs, symbols=config.symbols)
    given = None
    if path := config.tokenizer.path:
        given = Tokenizer.load(Path(path), config.tokenizer)
        if given.is_symbols != config.symbols:
            kind = "symbols" if given.is_symbols else "text"
            raise UsageError(f"{path}: is a tokenizer for {kind}; give another, or none")
    with artifacts.storage_errors(out):
        names = {path.name for path in out.iterdir()} - {".lock"} if out.is_dir() else set()
    if names and not names & {MANIFEST, BUILD}:
        raise UsageError(f"{out}: holds files that are not prepared data; choose another --out")
    with artifacts.lock_folder(out), artifacts.storage_errors(out):
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
    yield Result(records.PreparedReport.read(out))


def fingerprint_data(
    config: PrepareConfig, files: Sequence[Source], hashes: Sequence[str], given: Tokenizer | None
) -> SettingsTree:
    """What data is made from, by content: neither the paths of the sources nor that of a given tokenizer belong to it.

    Its form is stored in every folder of prepared data, and stays as it is.
    """
    tokenizer = config.tokenizer.model_copy(update={"path": ""})
    fingerprint = {
        "format": FORMAT,
        "settings": config.model_copy(update={"tokenizer": tokenizer}).model_dump(mode="json"),
        "tokenizer": "learned" if given is None else sha256_json(given.to_json()),
        "sources": [
            {"sha256": digest, "format": source.format, "compression": source.compression}
            for source, digest in zip(files, hashes, strict=True)
        ],
    }
    return fingerprint | ({"near_duplicates": NEAR_DUPLICATE_RULE} if config.filters.near_duplicates else {})


def without_rule(fingerprint: SettingsTree) -> SettingsTree:
    """As of data whose near-duplicates were found before the threshold was heeded, which names no rule for them."""
    return {key: value for key, value in fingerprint.items() if key != "near_duplicates"}


def _read_made_from(path: Path) -> SettingsTree | None:
    """What a manifest or the state of a build, even a damaged one, says that the data is made from, if anything."""
    try:
        stored = read_json(path)
    except (DamagedArtifact, InputError):
        return None
    made_from = stored.get("made_from") if isinstance(stored, dict) else None
    return made_from if isinstance(made_from, dict) else None


def _first_difference(made_from: object, fingerprint: SettingsTree) -> str:
    """The first setting that differs, by its dotted name, with both values."""
    every = differences(made_from, fingerprint) if isinstance(made_from, Mapping) else iter(())
    name, was, now = next(every, ("", made_from, fingerprint))
    name = name.removeprefix("settings.")
    words = {
        "sources": "other sources",
        "near_duplicates": "another rule for near-duplicates",
        "tokenizer": "another tokenizer",
    }
    return words.get(name, f"{name} = {was!r}, not {now!r}")


@dataclass(frozen=True, slots=True)
class _Encoding:
    """All shards of one pass, and what the pass left out."""

    shards: list[ShardRecord]
    counts: records.PreparedCounts
    stream: DocumentStream
    lowest_rank: int
    highest_rank: int
    sample: list[str]


class _Build:
    """One run of the stage over fixed sources."""

    def __init__(
        self, sources: Sources, out: Path, config: PrepareConfig, given: Tokenizer | None, stop: StopSignal
    ) -> None:
        self._sources, self._out, self._given, self._stop = sources, out, given, stop
        self._config, self._requested = config.with_symbol_defaults(), config
        self._state_path = out / BUILD / "build.json"
        self._hashes: list[str] = []
        self._documents = self._tokens = 0
        self._shown = ("", -1)

    def run(self) -> _Phase[None]:
        for source in self._sources.files:
            yield self._progress("hashing", sum(file.bytes for file in self._sources.files[: len(self._hashes)]))
            self._hashes.append(hash_source(source, self._stop))
        fingerprint, requested = (
            fingerprint_data(config, self._sources.files, self._hashes, self._given)
            for config in (self._config, self._requested)
        )
        made_from = _read_made_from(self._out / MANIFEST) or _read_made_from(self._state_path)
        if requested != fingerprint and made_from == requested:
            # Prepared before symbols had defaults of their own: the folder stays what it is.
            self._config, fingerprint = self._requested, requested
        state = yield from self._find_state(fingerprint)
        if state == "finished":
            yield self._progress("finished", self._sources.bytes)
            yield Note("the data is there already, nothing to do", "warning")
            return
        if state == "new":
            (self._out / MANIFEST).unlink(missing_ok=True)
            for name in (SHARDS, TOKENIZER):
                shutil.rmtree(self._out / name, ignore_errors=True)
            for record in (self._out / BUILD).glob("*.json"):
                record.unlink()
            write_json(self._state_path, {"made_from": fingerprint, "sha256": sha256_json(fingerprint)})
        tokenizer = yield from self._get_tokenizer()
        threshold = int(self._config.heldout_share * 2**64)
        encoding = yield from self._encode(tokenizer, threshold)
        # Both sides get at least one document where there are two; only a small corpus can need this second pass.
        documents, heldout = encoding.counts.documents, encoding.counts.heldout_documents
        if heldout == documents:
            encoding = yield from self._encode(tokenizer, encoding.highest_rank)
        elif heldout == 0 and threshold and documents > 1:
            encoding = yield from self._encode(tokenizer, encoding.lowest_rank + 1)
        if not encoding.counts.train_rows:
            count = encoding.counts.documents - encoding.counts.heldout_documents
            raise InputError(
                f"no token left to train on ({count} documents for training gave none); "
                "give more text or another tokenizer"
            )
        warnings = list(_find_warnings(encoding, self._config.heldout_share))
        self._finish(fingerprint, tokenizer, encoding, warnings)
        yield from map(warn, warnings)
        yield self._progress("finished", self._sources.bytes)

    def _find_state(self, fingerprint: SettingsTree) -> _Phase[Literal["finished", "begun", "new"]]:
        """Whether the data is there whole, or was begun from the same sources with the same settings."""
        if (self._out / MANIFEST).is_file():
            damage: DamagedArtifact | None = None
            try:
                made_from = artifacts.verify_folder(self._out, _AGAIN).facts.get("made_from")
            except DamagedArtifact as error:
                damage, made_from = error, _read_made_from(self._out / MANIFEST)
            if damage is None and made_from in (fingerprint, without_rule(fingerprint)):
                return "finished"
            # Made from something else it is refused, even damaged: its owner must decide.
            difference = _first_difference(made_from, fingerprint)
            if damage is None:
                raise IdentityMismatch(f"{self._out}: was prepared with {difference}; choose another --out")
            if made_from not in (None, fingerprint):
                reason = str(damage).removesuffix(f"; {_AGAIN}")
                raise IdentityMismatch(
                    f"{self._out}: is damaged ({reason}) and was prepared with {difference}; "
                    "choose another --out, or delete it"
                ) from None
            yield Note(str(damage), "warning")
        if not self._state_path.is_file():
            return "new"
        try:
            state = read_json(self._state_path, _OVER)
        except DamagedArtifact as damaged:
            yield Note(str(damaged), "warning")
            return "new"
        made_from = _read_made_from(self._state_path)
        if made_from is None or state.get("sha256") != sha256_json(made_from):
            yield Note(f"{self._state_path}: was changed after it was written; {_OVER}", "warning")
            return "new"
        if made_from != fingerprint:
            difference = _first_difference(made_from, fingerprint)
            yield Note(f"{self._out}: the unfinished build was begun with {difference}; {_OVER}", "warning")
            return "new"
        return "begun"

    def _progress(self, phase: str, done: int) -> Progress:
        """In bytes of the source files on disk. In a pipe a line when a phase begins and at each further fifth."""
        total = self._sources.bytes
        done = min(done, total)
        counts = [f"{self._documents:,} documents"] if self._documents else []
        counts += [f"{self._tokens:,} tokens"] if self._tokens else []
        text = _PHASES.get(phase, phase) + (f": {', '.join(counts)}" if counts else "")
        reached = (phase, 5 * done // max(total, 1))
        line = "" if reached == self._shown else f"{text} ({done / max(total, 1):.0%})"
        self._shown = reached
        return Progress(phase, done, total, text, line, {"documents": self._documents, "tokens": self._tokens})

    def _stream(self) -> DocumentStream:
        config = self._config
        kept = DocumentFilter(config.filters, repair=config.repair)
        return DocumentStream(self._sources, config.reading, kept, symbols=config.symbols, stop=self._stop)

    def _get_tokenizer(self) -> _Phase[Tokenizer]:
        folder = self._out / TOKENIZER
        record = self._out / BUILD / "tokenizer.json"
        try:
            if record.is_file() and read_json(record) == describe_files(folder):
                return Tokenizer.load(folder)
        except DamagedArtifact:
            pass  # without a record that can be read it is written again
        tokenizer = self._given
        if tokenizer is None:
            tokenizer = yield from (self._count_symbols() if self._config.symbols else self._train_tokenizer())
        # The hashes of these files are part of the data's fingerprint: they stay as they have always been written.
        tokenizer.save(folder, max_length=self._config.packing.sequence_length, with_bert_options=False)
        write_json(record, describe_files(folder))
        return tokenizer

    def _train_tokenizer(self) -> _Phase[Tokenizer]:
        limit = int(self._config.tokenizer.sample_mb * 2**20)
        sample, heldout = (DocumentSample(limit, self._config.seed) for _ in range(2))
        threshold = int(self._config.heldout_share * 2**64)
        stream = self._stream()
        for batch in stream:
            is_heldout = split_ranks(batch, self._config.seed) < threshold
            for documents, wanted in ((sample, False), (heldout, True)):
                documents.offer([batch[index] for index in np.flatnonzero(is_heldout == wanted)])
            yield self._progress("sampling", stream.counter.done)
        # Held-out text must be new to the tokenizer too, unless a tiny corpus has nothing else.
        texts = sample.texts() or heldout.texts()
        if not texts:
            raise _nothing_left(stream)
        future: Future[Tokenizer] = Future()

        def train() -> None:
            try:
                future.set_result(train_tokenizer(texts, self._config.tokenizer))
            except BaseException as error:  # noqa: BLE001  handed to whoever waits
                future.set_exception(error)

        # Training cannot be interrupted, so it goes aside: a signal is still obeyed at once.
        Thread(target=train, daemon=True).start()
        while not future.done():
            yield self._progress("learning", self._sources.bytes)
            self._stop.check()
            wait_for([future], timeout=0.2)
        return future.result()

    def _count_symbols(self) -> _Phase[Tokenizer]:
        counts: Counter[str] = Counter()
        stream = self._stream()
        for batch in stream:
            for document in batch:
                counts.update(document.content)
            if len(counts) > _MAX_SYMBOLS:
                raise InputError(f"more than {_MAX_SYMBOLS} different symbols; make them coarser")
            yield self._progress("sampling", stream.counter.done)
        return train_symbol_vocab(counts, self._config.tokenizer)

    def _encode(self, tokenizer: Tokenizer, threshold: int) -> _Phase[_Encoding]:
        stream, seed = self._stream(), self._config.seed
        sample = DocumentSample(_REPORT_SAMPLE, seed)
        lowest, highest = 1 << 64, -1

        def watched() -> Iterator[list[Document]]:
            nonlocal lowest, highest
            for batch in filter(None, stream):
                ranks = split_ranks(batch, seed)
                lowest, highest = min(lowest, int(ranks.min())), max(highest, int(ranks.max()))
                if not self._config.symbols:
                    sample.offer(batch)
                yield batch

        writer = ShardWriter(self._out, tokenizer, self._config.packing, seed, threshold)
        for self._documents, self._tokens in writer.write(watched()):
            yield self._progress("encoding", stream.counter.done)
        if not self._documents:
            raise _nothing_left(stream)
        names = records.PreparedCounts.model_fields
        counts = {name: sum(getattr(record, name) for record in writer.records) for name in names}
        counted = records.PreparedCounts(**counts)
        return _Encoding(writer.records, counted, stream, lowest, highest, sample.texts())

    def _finish(
        self, fingerprint: SettingsTree, tokenizer: Tokenizer, encoding: _Encoding, warnings: list[str]
    ) -> None:
        for source in self._sources.files:
            status = source.path.stat()
            if (status.st_size, status.st_mtime_ns) != (source.bytes, source.modified_ns):
                raise InputError(f"{source.path}: changed while it was read; run the same command again")
        records.PreparedReport(
            counts=encoding.counts,
            dropped=encoding.stream.dropped,
            passed_over=encoding.stream.passed_over,
            warnings=warnings,
            tokenizer=_report_tokenizer(tokenizer, encoding),
        ).write(self._out)
        files = {f"{TOKENIZER}/{name}": entry for name, entry in describe_files(self._out / TOKENIZER).items()}
        for record in encoding.shards:
            files |= record.files
        report = self._out / records.PreparedReport.FILE
        files[report.name] = {"bytes": report.stat().st_size, "sha256": artifacts.sha256_file(report)}
        for path in (self._out / SHARDS).glob("*"):  # a pass with another threshold may have left one not needed now
            if path.relative_to(self._out).as_posix() not in files:
                path.unlink()
        facts = records.PreparedManifest(
            kind=KIND,
            format=FORMAT,
            sequence_length=self._config.packing.sequence_length,
            packing=self._config.packing.kind,
            vocab_size=tokenizer.vocab_size,
            counts=encoding.counts,
            settings=self._config.model_dump(mode="json"),
            sources=[
                records.PreparedSource(path=str(source.path), bytes=source.bytes, sha256=digest)
                for source, digest in zip(self._sources.files, self._hashes, strict=True)
            ],
            made_from=fingerprint,
        )
        artifacts.write_manifest(self._out, files=files, **facts.to_json())


def _report_tokenizer(tokenizer: Tokenizer, encoding: _Encoding) -> records.TokenizerReport:
    """Fertility per word and per character on a sample, and what becomes of the longest words."""
    report = records.TokenizerReport(
        vocab_size=tokenizer.vocab_size,
        ordinary_pieces=int(tokenizer.is_ordinary.sum()),
        unknown_share=encoding.counts.unknown_tokens / max(1, encoding.counts.tokens),
    )
    texts = encoding.sample
    if tokenizer.is_symbols or not texts:
        return report
    tokens = sum(len(ids) for ids in tokenizer.encode_many(texts))
    words = [word for text in texts for word in UNIT.findall(text)]
    characters = sum(len(word) for word in words)
    spaced = {word for text in texts for word in _SPACED_WORD.findall(text)}
    longest = sorted(spaced, key=lambda word: (-len(word), word))[:_LONGEST_WORDS]
    return report.model_copy(
        update={
            "sampled_words": len(words),
            "tokens_per_word": tokens / max(1, len(words)),
            "tokens_per_character": tokens / max(1, characters),
            "characters_per_word": characters / max(1, len(words)),
            "longest_words": [
                records.LongWord(word=word[:80], characters=len(word), tokens=len(ids))
                for word, ids in zip(longest, tokenizer.encode_many(longest), strict=True)
            ],
        }
    )


def _nothing_left(stream: DocumentStream) -> InputError:
    dropped = ", ".join(f"{count} {reason}" for reason, count in stream.dropped.items()) or "none found"
    remedy = "give text, name its encoding with --reading.encoding, or mend it with --repair"
    if not (worst := _name_undecodable(stream)):
        worst = ", ".join(f"{count:,} in {name}" for name, count in stream.read.most_common(_WORST))
        remedy = "give other text or loosen the filters"
    return InputError(f"no document left to prepare ({dropped}{f': {worst}' if worst else ''}); {remedy}")


def _name_undecodable(stream: DocumentStream) -> str:
    """The sources with the most documents whose bytes are no text, and how many of theirs that is."""
    every = [(name, count) for name, count in stream.undecodable.most_common() if count]
    named = ", ".join(f"{count:,} of {stream.read[name]:,} in {name}" for name, count in every[:_WORST])
    return named + (f" and {len(every) - _WORST:,} more files" if len(every) > _WORST else "")


def _find_warnings(encoding: _Encoding, heldout_share: float) -> Iterator[str]:
    """What a person should know before trusting the data, as sentences."""
    stream, counts = encoding.stream, encoding.counts
    if undecodable := stream.dropped.get("undecodable"):
        yield (
            f"{undecodable:,} documents are no text in the expected encoding and were dropped "
            f"({_name_undecodable(stream)}); name it with --reading.encoding, or mend them with --repair"
        )
    if not heldout_share:
        return
    if counts.heldout_documents < _FEW_HELDOUT:
        what = f"only {counts.heldout_documents:,}" if counts.heldout_documents else "none"
        needed = math.ceil(100 * _FEW_HELDOUT / counts.documents) / 100
        advice = f"--heldout-share {needed:g} holds out about {_FEW_HELDOUT}"
        if needed > _MOST_HELDOUT:
            advice = "more, or shorter, documents are needed (of plain text --documents lines makes one of each line)"
        yield f"{what} of {counts.documents:,} documents held out, so scores on held-out text say little; {advice}"
    fraction = counts.heldout_rows / max(1, counts.train_rows + counts.heldout_rows)
    if fraction > max(2 * heldout_share, heldout_share + 0.05):
        yield (
            f"{fraction:.0%} of the rows are held out where {heldout_share:.2g} was asked for, because documents are "
            "held out whole, equal ones together; cut them into shorter ones, or leave it if that much may be spared"
        )
