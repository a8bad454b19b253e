"""Stage: text in any form -> a folder of packed rows with its tokenizer, report and manifest.

    inputs, PrepareConfig -> data_dir

Three passes, each of which leaves records in the folder, so that it is done once, whoever does it and however often it
is interrupted:

    count     a few numbers and a hash of every document, by groups of files
    merge     which documents are kept and held out, where shards begin, and the tokenizer, from these numbers
    encode    the rows, by shards

One process does all of it, with workers for what takes long. Several machines share the first and the last pass: each
takes a part of the groups and of the shards, and neither depends on the number of parts. The folder counts as written
when its manifest is there, which whoever comes last writes.
"""

import hashlib
import itertools
import shutil
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from pathlib import Path
from threading import Thread
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from electralab import artifacts
from electralab.artifacts import MANIFEST, FileHash, describe_files, read_json, sha256_json, write_json
from electralab.config import SettingsTree
from electralab.corpus import documents
from electralab.corpus.documents import (
    REASONS,
    DocumentFilter,
    DocumentSample,
    DocumentStream,
    DuplicateFilter,
    FilterConfig,
    counted_dtype,
    read_numbered,
)
from electralab.corpus.readers import Content, Raw
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
from electralab.processes import map_in_order
from electralab.records import prepared as records
from electralab.records.kinds import find_model
from electralab.records.logs import LOG
from electralab.records.series import SeriesSymbols
from electralab.stopping import StopSignal
from electralab.tokens.build_records import (
    CountedSource,
    CountRecord,
    MergeRecord,
    find_warnings,
    nothing_left,
    report_tokenizer,
)
from electralab.tokens.prepare_settings import (
    WHOLE,
    Part,
    PrepareConfig,
    dump_settings,
    fingerprint_data,
    first_difference,
    read_made_from,
    without_rule,
)
from electralab.tokens.series import SERIES_LENGTH, prepare_series
from electralab.tokens.shards import (
    BUILD,
    FORMAT,
    KIND,
    SHARDS,
    EncodedTexts,
    ShardBatch,
    ShardPlan,
    ShardRecord,
    ShardSpan,
    ShardWriter,
    make_encoder,
    own_path,
    read_sealed,
    split_ranks,
    write_sealed,
)
from electralab.tokens.tokenizer import TOKENIZER, Tokenizer
from electralab.tokens.tokenizer_training import train_symbol_vocab, train_tokenizer

_REPORT_SAMPLE = 2 << 20
_MAX_SYMBOLS = 1 << 22

# For the plan: typical of English text on a core of the 2020s.
_UNPACKED: dict[Compression, float] = {"": 1.0, "gz": 2.7, "bz2": 3.5, "xz": 3.7, "zst": 3.0}
_BYTES_PER_TOKEN = 4
_BYTES_PER_DOCUMENT = 1000
_BYTES_PER_SECOND = 4e6  # encoded by a core, or learned from
_MEMORY = 512 << 20

GROUP_BYTES = 4 << 20  # of files that are counted together
_WORKER_BYTES = 1 << 20  # less than this, for each, is done before a process has started
_MERGED_AT_ONCE = 1 << 14  # documents
_COUNT_FORMAT = 1
_REPORTED = 50  # documents, between two reports of progress where they come singly

_PHASES = {
    "hashing": "checking the files",
    "counting": "counting documents",
    "merging": "looking for duplicates",
    "sampling": "sampling text for the tokenizer",
    "learning": "learning the tokenizer",
    "encoding": "encoding documents",
}
_AGAIN = "the data is built again"
_OVER = "the build starts over"

A = TypeVar("A")
_Phase = Generator[Update, None, A]


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
    inputs: Sequence[str],
    out: Path,
    config: PrepareConfig,
    stop: StopSignal,
    *,
    workers: int = 1,
    only: records.PassName | None = None,
    part: Part | None = None,
) -> Iterator[Event[records.PreparedReport | records.PreparedPass]]:
    """Build `out`, or finish what an interrupted run began there; the result is the report.

    `only` does one pass, `part` a part of it, of counting until all is merged, then of encoding, where no pass is
    named: the result says what is still to be done.
    """
    if config.series.enabled:
        config = _as_series(inputs, config, only is None and part is None)
    find_sources(inputs, symbols=config.symbols)
    given = None
    if path := config.tokenizer.path:
        given = Tokenizer.load(find_model(path), config.tokenizer)
        if given.is_symbols != config.symbols:
            kind = "symbols" if given.is_symbols else "text"
            raise UsageError(f"{path}: is a tokenizer for {kind}; give another, or none")
    is_shared = only != "merge" and (only is not None or part is not None)
    if (is_shared or only) and STANDARD_INPUT in inputs:
        raise UsageError("standard input cannot be read by several parts; write it to a file first")
    require_own_folder(out)
    result: records.PreparedPass | None = None
    with artifacts.lock_folder(out, shared=is_shared), artifacts.storage_errors(out):
        try:
            spool = None
            if STANDARD_INPUT in inputs:
                phase = "reading standard input"
                yield Progress(phase, 0, 0, line=phase)
                spool = out / BUILD / "standard-input"
                spool_standard_input(spool, stop)
            if config.series.enabled:
                phase = "reading the series"
                yield Progress(phase, 0, 0, line=phase)
                rows = out / BUILD / "series.jsonl"
                symbols, notes = prepare_series(inputs, config.series, config.packing.sequence_length, rows)
                symbols.write(out / BUILD)
                yield from (Note(note, "warning") for note in notes)
                inputs = [str(rows)]
            sources = find_sources(inputs, symbols=config.symbols, spool=spool)
            build = _Build(sources, out, config, given, stop, workers)
            if only is None and part is None:
                yield from build.run()
            else:
                result = yield from build.run_pass(only, part or WHOLE)
        finally:
            # Finished data keeps nothing of its making, nor what was piped in only to be compared with it.
            if (out / MANIFEST).is_file():
                shutil.rmtree(out / BUILD, ignore_errors=True)
    yield Result(result or records.PreparedReport.read(out))


def require_own_folder(out: Path) -> None:
    """Nothing of other people's is written over or lies beside what is written."""
    with artifacts.storage_errors(out):
        names = {path.name for path in out.iterdir()} - {".lock"} if out.is_dir() else set()
    if names and not names & {MANIFEST, BUILD, LOG}:
        raise UsageError(f"{out}: holds files that are not prepared data; choose another --out")


def _as_series(inputs: Sequence[str], config: PrepareConfig, is_whole: bool) -> PrepareConfig:
    """As rows of symbols, short ones where nobody says otherwise; what contradicts it is refused."""
    if STANDARD_INPUT in inputs:
        raise UsageError("--series: takes files, not standard input; write it to a file first")
    if config.symbols:
        raise UsageError("--series: makes symbols itself; leave --symbols out")
    if not is_whole:
        raise UsageError("--series: is prepared in one go; leave --pass and --part out")
    packing, given = config.packing, config.packing.model_fields_set
    packing = packing.model_copy(update={} if "sequence_length" in given else {"sequence_length": SERIES_LENGTH})
    return config.model_copy(update={"symbols": True, "packing": packing})


# What becomes of a document: a byte of bits, 0 where it is dropped.
_KEPT, _HELDOUT, _IN_REPORT = 1, 2, 4


class _Build:
    """One run of the stage over fixed sources."""

    def __init__(
        self,
        sources: Sources,
        out: Path,
        config: PrepareConfig,
        given: Tokenizer | None,
        stop: StopSignal,
        workers: int,
    ) -> None:
        self._sources, self._out, self._given, self._stop = sources, out, given, stop
        self._config, self._requested = config.with_symbol_defaults(), config
        # A process that encodes less than this is not worth its start.
        self._workers = max(1, min(workers, sources.bytes // _WORKER_BYTES))
        self._groups = _group_files(sources.files)
        self._state_path = out / BUILD / "build.json"
        self._documents = self._tokens = 0
        self._shown = ("", -1)

    def run(self) -> _Phase[None]:
        """All that is missing."""
        every = range(len(self._groups))
        hashes = yield from self._hash(every)
        fingerprint = self._fingerprint(hashes)
        state = yield from self._find_state(fingerprint)
        if state == "finished":
            yield self._progress("finished", self._sources.bytes)
            yield Note("the data is there already, nothing to do", "warning")
            return
        self._begin(fingerprint, state)
        yield from self._count(every, hashes)
        merged = yield from self._merge(fingerprint)
        tokenizer = yield from self._get_tokenizer(merged)
        shards = yield from self._encode(merged, tokenizer, merged.spans)
        yield from map(warn, self._finish(fingerprint, merged, tokenizer, shards))
        yield self._progress("finished", self._sources.bytes)

    def run_pass(self, name: records.PassName | None, part: Part) -> _Phase[records.PreparedPass | None]:
        """One pass, or a part of it; None where the data is there already."""
        if (self._out / MANIFEST).is_file():
            yield from self.run()  # which compares, and says what it finds
            return None
        merged, tokenizer = self._read_merge(), self._read_tokenizer()
        if name == "count" or (name is None and not (merged and tokenizer)):
            own = part.take(range(len(self._groups)))
            yield from self._count(own, (yield from self._hash(own)))
            missing = sum(self._read_count(place) is None for place in range(len(self._groups)))
            return records.PreparedPass(name="count", part=str(part), pieces=len(own), missing=missing)
        if name == "merge":
            if missing := sum(self._read_count(place) is None for place in range(len(self._groups))):
                raise UsageError(
                    f"{self._out}: {missing:,} of {len(self._groups):,} groups of files are not counted yet with these "
                    "files and settings; run all parts of --pass count first"
                )
            fingerprint = self._fingerprint((yield from self._hash(range(len(self._groups)))))
            self._begin(fingerprint, (yield from self._find_state(fingerprint)))
            yield from self._get_tokenizer((yield from self._merge(fingerprint)))
            return records.PreparedPass(name=name, part=str(WHOLE), pieces=1, missing=0)
        if merged is None or tokenizer is None:
            raise UsageError(
                f"{self._out}: is not merged yet with these files and settings; run --pass merge, after all parts of "
                "--pass count"
            )
        spans = part.take(merged.spans)
        yield from self._encode(merged, tokenizer, spans)
        missing = sum(not (self._out / BUILD / f"part-{span.number:05d}.json").is_file() for span in merged.spans)
        return records.PreparedPass(name="encode", part=str(part), pieces=len(spans), missing=missing)

    def _fingerprint(self, hashes: Mapping[Path, str]) -> SettingsTree:
        digests = [hashes[source.path] for source in self._sources.files]
        fingerprint, requested = (
            fingerprint_data(config, self._sources.files, digests, self._given)
            for config in (self._config, self._requested)
        )
        made_from = read_made_from(self._out / MANIFEST) or read_made_from(self._state_path)
        if requested != fingerprint and made_from == requested:
            # Prepared before symbols had defaults of their own: the folder stays what it is.
            self._config, fingerprint = self._requested, requested
        return fingerprint

    def _begin(self, fingerprint: SettingsTree, state: str) -> None:
        """Remove what was made from something else; counts are known by what they were counted from, and stay."""
        if state != "new":
            return
        (self._out / MANIFEST).unlink(missing_ok=True)
        for name in (SHARDS, TOKENIZER):
            shutil.rmtree(self._out / name, ignore_errors=True)
        for pattern in ("part-*.json", "merge.json", "tokenizer.json"):
            for record in (self._out / BUILD).glob(pattern):
                record.unlink()
        write_json(self._state_path, {"made_from": fingerprint, "sha256": sha256_json(fingerprint)})

    def _find_state(self, fingerprint: SettingsTree) -> _Phase[Literal["finished", "begun", "new"]]:
        """Whether the data is there whole, or was begun from the same sources with the same settings."""
        if (self._out / MANIFEST).is_file():
            damage: DamagedArtifact | None = None
            try:
                made_from = artifacts.verify_folder(self._out, _AGAIN).facts.get("made_from")
            except DamagedArtifact as error:
                damage, made_from = error, read_made_from(self._out / MANIFEST)
            if damage is None and made_from in (fingerprint, without_rule(fingerprint)):
                return "finished"
            # Made from something else it is refused, even damaged: its owner must decide.
            difference = first_difference(made_from, fingerprint)
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
        made_from = read_made_from(self._state_path)
        if made_from is None or state.get("sha256") != sha256_json(made_from):
            yield Note(f"{self._state_path}: was changed after it was written; {_OVER}", "warning")
            return "new"
        if made_from != fingerprint:
            difference = first_difference(made_from, fingerprint)
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

    @property
    def _count_settings(self) -> str:
        filters = self._config.filters.model_dump(
            mode="json", include={"min_characters", "near_duplicates", "languages"}
        )
        reading, repair, symbols = (
            self._config.reading.model_dump(mode="json"),
            self._config.repair,
            self._config.symbols,
        )
        return sha256_json([_COUNT_FORMAT, filters, reading, repair, symbols])

    def _read_count(self, place: int) -> CountRecord | None:
        """The record of a group, if its files are those that were counted, by size and time, in the same way."""
        record = read_sealed(self._out, f"count-{place:05d}.json", CountRecord)
        if (
            record is None
            or record.settings != self._count_settings
            or not _are_same(record.sources, self._groups[place])
        ):
            return None
        numbers = self._out / BUILD / f"count-{place:05d}.bin"
        return record if numbers.is_file() and numbers.stat().st_size == record.numbers["bytes"] else None

    def _hash(self, places: Iterable[int]) -> _Phase[dict[Path, str]]:
        """The hash of each file of these groups; one that was counted was hashed then."""
        hashes: dict[Path, str] = {}
        missing: list[Source] = []
        for place in places:
            group, record = self._groups[place], self._read_count(place)
            missing += [] if record else group
            counted = record.sources if record else ()
            hashes |= {source.path: entry.sha256 for source, entry in zip(group, counted, strict=False)}
        done = 0
        yield self._progress("hashing", 0)
        with ThreadPoolExecutor(self._workers) as pool:  # hashing gives up Python's lock
            for source, digest in zip(
                missing, pool.map(lambda source: hash_source(source, self._stop), missing), strict=True
            ):
                hashes[source.path] = digest
                done += source.bytes
                yield self._progress("hashing", done)
        return hashes

    def _count(self, places: Iterable[int], hashes: Mapping[Path, str]) -> _Phase[None]:
        config, done = self._config, 0
        # Reading takes longer than counting, unless documents are looked at closely.
        workers = self._workers if config.repair or config.filters.near_duplicates or config.filters.languages else 1
        for place in places:
            group = self._groups[place]
            if self._read_count(place) is None:
                stream = DocumentStream(group, config.reading, symbols=config.symbols, stop=self._stop)
                digest, size = hashlib.sha256(), 0
                own = own_path(self._out)
                own.parent.mkdir(parents=True, exist_ok=True)
                with own.open("wb") as file:
                    arguments = (config.filters, config.repair, config.symbols)
                    for counted in map_in_order(make_counter, arguments, stream, self._stop, workers=workers):
                        file.write(data := counted.tobytes())
                        digest.update(data)
                        size += len(data)
                        yield self._progress("counting", done + stream.counter.done)
                own.rename(self._out / BUILD / f"count-{place:05d}.bin")
                sources = [
                    CountedSource(
                        path=str(source.path),
                        bytes=source.bytes,
                        modified_ns=source.modified_ns,
                        sha256=hashes[source.path],
                        documents=stream.read[str(source.path)],
                        undecodable=stream.undecodable[str(source.path)],
                        is_passed_over=str(source.path) in stream.passed_over,
                    )
                    for source in group
                ]
                self._require_unchanged(group)
                numbers: FileHash = {"bytes": size, "sha256": digest.hexdigest()}
                record = CountRecord(settings=self._count_settings, sources=sources, numbers=numbers)
                write_sealed(self._out, f"count-{place:05d}.json", record)
            done += sum(source.bytes for source in group)
            yield self._progress("counting", done)

    def _numbers(self) -> Iterator[NDArray[np.void]]:
        """What was counted, of all documents in their order."""
        config = self._config
        dtype = counted_dtype(has_sketch=config.filters.near_duplicates and not config.symbols)
        for place in range(len(self._groups)):
            path = self._out / BUILD / f"count-{place:05d}.bin"
            with path.open("rb") as file:
                while len(counted := np.fromfile(file, dtype, _MERGED_AT_ONCE)):
                    self._stop.check()
                    yield counted

    def _merge(self, fingerprint: SettingsTree) -> _Phase[MergeRecord]:
        if (merged := self._read_merge()) and merged.made_from == sha256_json(fingerprint):
            return merged
        counts = [self._read_count(place) for place in range(len(self._groups))]
        for place, record in enumerate(counts):
            assert record is not None, "merged before all was counted"
            if artifacts.sha256_file(path := self._out / BUILD / f"count-{place:05d}.bin") != record.numbers["sha256"]:
                path.unlink()
                raise DamagedArtifact(f"{path}: was changed after it was written; count its part again")
        sources = [source for record in counts if record for source in record.sources]
        starts = [0, *itertools.accumulate(source.documents for source in sources)]
        yield self._progress("merging", 0)
        fates = np.zeros(starts[-1], dtype=np.uint8)
        seed, plan, dropped = self._config.seed, ShardPlan(), np.zeros(len(REASONS), dtype=np.int64)
        duplicates = DuplicateFilter(self._config.filters)
        threshold, heldout, lowest, highest, place = int(self._config.heldout_share * 2**64), 0, 1 << 64, -1, 0
        for counted in self._numbers():
            reasons = duplicates.decide(counted)
            dropped += np.bincount(reasons, minlength=len(REASONS))
            is_kept = reasons == 0
            plan.add(counted["size"], counted["characters"], is_kept)
            fates[place : place + len(counted)] = is_kept * _KEPT
            place += len(counted)
            if is_kept.any():
                ranks = split_ranks(counted["key"][is_kept], seed)
                heldout += int(np.count_nonzero(ranks < threshold))
                lowest, highest = min(lowest, int(ranks.min())), max(highest, int(ranks.max()))
            yield self._progress("merging", self._sources.bytes * place // (2 * max(1, len(fates))))
        plan.end_batch()
        self._documents = int(dropped[0])
        # Both sides get at least one document where there are two; only a small corpus can need this.
        if heldout == self._documents:
            threshold = highest
        elif heldout == 0 and threshold and self._documents > 1:
            threshold = lowest + 1
        sample, place = DocumentSample(_REPORT_SAMPLE, seed), 0
        for counted in self._numbers():
            own = fates[place : place + len(counted)]
            kept = np.flatnonzero(own)
            keys = counted["key"][kept]
            own[kept] |= np.where(split_ranks(keys, seed) < threshold, _HELDOUT, 0).astype(np.uint8)
            sample.offer(keys, counted["bytes"][kept], kept + place)
            place += len(counted)
            yield self._progress("merging", self._sources.bytes * (len(fates) + place) // (2 * max(1, len(fates))))
        if not self._config.symbols:
            fates[sample.places()] |= _IN_REPORT
        merged = MergeRecord(
            made_from=sha256_json(fingerprint),
            settings=sha256_json(self._config.model_dump(mode="json")),
            sources=sources,
            starts=starts,
            dropped={
                name: int(dropped[REASONS.index(name)]) for name in sorted(REASONS[1:]) if dropped[REASONS.index(name)]
            },
            spans=plan.spans,
            heldout_threshold=threshold,
            fates={"bytes": len(fates), "sha256": hashlib.sha256(fates.tobytes()).hexdigest()},
        )
        if not self._documents:
            raise nothing_left(merged)
        artifacts.write_file(self._out / BUILD / "fates.bin", fates.tobytes())
        write_sealed(self._out, "merge.json", merged)
        return merged

    def _read_merge(self) -> MergeRecord | None:
        """What was decided, if it was for these files and settings."""
        merged, path = read_sealed(self._out, "merge.json", MergeRecord), self._out / BUILD / "fates.bin"
        settings = sha256_json(self._config.model_dump(mode="json"))
        if merged is None or merged.settings != settings or not _are_same(merged.sources, self._sources.files):
            return None
        is_whole = path.is_file() and artifacts.sha256_file(path) == merged.fates["sha256"]
        return merged if is_whole else None

    def _read_fates(self) -> NDArray[np.uint8]:
        return np.fromfile(self._out / BUILD / "fates.bin", dtype=np.uint8)

    def _read_kept(
        self, merged: MergeRecord, fates: NDArray[np.uint8], spans: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, Content]]:
        """The documents of these spans that are kept, by their numbers."""
        config = self._config
        cleaner = DocumentFilter(config.filters, repair=config.repair, symbols=config.symbols)
        numbered = read_numbered(self._sources.files, merged.starts, spans, config.reading, symbols=config.symbols)
        for number, raw in numbered:
            if fates[number]:
                yield number, cleaner.clean(raw)[0]

    def _read_tokenizer(self) -> Tokenizer | None:
        folder, record = self._out / TOKENIZER, self._out / BUILD / "tokenizer.json"
        try:
            if record.is_file() and read_json(record) == describe_files(folder):
                return Tokenizer.load(folder)
        except DamagedArtifact:
            pass  # without a record that can be read it is written again
        return None

    def _get_tokenizer(self, merged: MergeRecord) -> _Phase[Tokenizer]:
        if tokenizer := self._read_tokenizer():
            return tokenizer
        tokenizer = self._given
        if tokenizer is None:
            learn = self._count_symbols if self._config.symbols else self._train_tokenizer
            tokenizer = yield from learn(merged, self._read_fates())
        folder = self._out / TOKENIZER
        # The hashes of these files are part of the data's fingerprint: they stay as they have always been written.
        tokenizer.save(folder, max_length=self._config.packing.sequence_length, with_bert_options=False)
        write_json(self._out / BUILD / "tokenizer.json", describe_files(folder))
        return tokenizer

    def _train_tokenizer(self, merged: MergeRecord, fates: NDArray[np.uint8]) -> _Phase[Tokenizer]:
        limit, seed = int(self._config.tokenizer.sample_mb * 2**20), self._config.seed
        sample, heldout = (DocumentSample(limit, seed) for _ in range(2))
        threshold, first = int(self._config.heldout_share * 2**64), 0
        for counted in self._numbers():
            kept = np.flatnonzero(fates[first : first + len(counted)])
            keys, sizes = counted["key"][kept], counted["bytes"][kept]
            is_heldout = split_ranks(keys, seed) < threshold
            for candidates, chosen in ((sample, ~is_heldout), (heldout, is_heldout)):
                candidates.offer(keys[chosen], sizes[chosen], kept[chosen] + first)
            first += len(counted)
        # Held-out text must be new to the tokenizer too, unless a tiny corpus has nothing else.
        places = sample.places() if len(sample.places()) else heldout.places()
        by_number: dict[int, str] = {}
        for number, content in self._read_kept(
            merged, fates, ((place, place + 1) for place in sorted(places.tolist()))
        ):
            by_number[number] = str(content)
            if len(by_number) % _REPORTED == 1:
                self._stop.check()
                yield self._progress("sampling", self._sources.bytes * number // len(fates))
        texts = [by_number[place] for place in places.tolist()]
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

    def _count_symbols(self, merged: MergeRecord, fates: NDArray[np.uint8]) -> _Phase[Tokenizer]:
        counts: Counter[str] = Counter()
        for number, content in self._read_kept(merged, fates, [(0, len(fates))]):
            counts.update(content)
            if len(counts) > _MAX_SYMBOLS:
                raise InputError(f"more than {_MAX_SYMBOLS} different symbols; make them coarser")
            if number % _REPORTED == 0:
                self._stop.check()
                yield self._progress("sampling", self._sources.bytes * number // len(fates))
        return train_symbol_vocab(counts, self._config.tokenizer)

    def _shard_writer(self, merged: MergeRecord, tokenizer: Tokenizer) -> ShardWriter:
        packing, seed = self._config.packing, self._config.seed
        return ShardWriter(self._out, tokenizer.vocab_size, tokenizer.special, packing, seed, merged.heldout_threshold)

    def _encode(
        self, merged: MergeRecord, tokenizer: Tokenizer, spans: Sequence[ShardSpan]
    ) -> _Phase[list[ShardRecord]]:
        """The shards of these spans; the records of all of them, in their order."""
        fates, writer = self._read_fates(), self._shard_writer(merged, tokenizer)
        written = {span.number: writer.read_record(span.number) for span in spans}
        missing = [span for span in spans if written[span.number] is None]
        self._documents = self._tokens = 0
        for record in filter(None, written.values()):
            self._documents += record.documents
            self._tokens += record.tokens
        total = sum(span.documents for span in spans)
        sent: deque[tuple[ShardSpan, list[int], list[Content]]] = deque()

        def make_batches() -> Iterator[list[Content]]:
            """Of one shard each; what they are is remembered until their ids come back."""
            kept = self._read_kept(merged, fates, ((span.first, span.last) for span in missing))
            for span in missing:
                remaining = span.documents
                while remaining:
                    numbers: list[int] = []
                    contents: list[Content] = []
                    size = 0
                    for number, content in itertools.islice(kept, min(remaining, documents.BATCH_DOCUMENTS)):
                        numbers.append(number)
                        contents.append(content)
                        size += len(content)
                        if size >= documents.BATCH_CHARS:
                            break
                    assert numbers, "fewer documents than were counted"
                    remaining -= len(numbers)
                    sent.append((span, numbers, contents))
                    yield contents

        batches: list[ShardBatch] = []
        arguments = (self._out / TOKENIZER, self._config.packing.kind)
        answers: Iterable[EncodedTexts] = ()
        if missing:
            answers = map_in_order(make_encoder, arguments, make_batches(), self._stop, workers=self._workers)
        yield self._progress("encoding", self._sources.bytes * self._documents // max(1, total))
        for texts in answers:
            span, numbers, contents = sent.popleft()
            own = fates[numbers]
            sample = [str(content) for content, fate in zip(contents, own, strict=True) if fate & _IN_REPORT]
            batches.append(ShardBatch(texts, (own & _HELDOUT) > 0, sum(map(len, contents)), sample))
            self._documents += len(numbers)
            self._tokens += len(texts.ids)
            if sum(len(batch.is_heldout) for batch in batches) == span.documents:
                written[span.number] = writer.write(span.number, batches)
                batches = []
            yield self._progress("encoding", self._sources.bytes * self._documents // total)
        return [record for record in written.values() if record]

    def _require_unchanged(self, files: Iterable[Source]) -> None:
        for source in files:
            status = source.path.stat()
            if (status.st_size, status.st_mtime_ns) != (source.bytes, source.modified_ns):
                raise InputError(f"{source.path}: changed while it was read; run the same command again")

    def _finish(
        self,
        fingerprint: SettingsTree,
        merged: MergeRecord,
        tokenizer: Tokenizer,
        shards: Sequence[ShardRecord],
    ) -> list[str]:
        """Write report and manifest; returns the warnings."""
        names = records.PreparedCounts.model_fields
        counts = records.PreparedCounts(**{name: sum(getattr(shard, name) for shard in shards) for name in names})
        if not counts.train_rows:
            raise InputError(
                f"no token left to train on ({counts.documents - counts.heldout_documents} documents for training gave "
                "none); give more text or another tokenizer"
            )
        self._require_unchanged(self._sources.files)
        warnings = list(find_warnings(merged, counts, self._config.heldout_share))
        records.PreparedReport(
            counts=counts,
            dropped=merged.dropped,
            passed_over=[
                *self._sources.passed_over,
                *(source.path for source in merged.sources if source.is_passed_over),
            ],
            warnings=warnings,
            tokenizer=report_tokenizer(tokenizer, counts, [text for shard in shards for text in shard.sample or ()]),
        ).write(self._out)
        files = {f"{TOKENIZER}/{name}": entry for name, entry in describe_files(self._out / TOKENIZER).items()}
        for shard in shards:
            files |= shard.files
        described = [records.PreparedReport.FILE]
        if series := SeriesSymbols.find(self._out / BUILD):
            series.write(self._out)
            described.append(series.FILE)
        for name in described:
            path = self._out / name
            files[name] = {"bytes": path.stat().st_size, "sha256": artifacts.sha256_file(path)}
        for path in (self._out / SHARDS).glob("*"):  # an earlier version may have left one not needed now
            if path.relative_to(self._out).as_posix() not in files:
                path.unlink()
        facts = records.PreparedManifest(
            kind=KIND,
            format=FORMAT,
            sequence_length=self._config.packing.sequence_length,
            packing=self._config.packing.kind,
            vocab_size=tokenizer.vocab_size,
            counts=counts,
            settings=dump_settings(self._config),
            sources=[
                records.PreparedSource(path=source.path, bytes=source.bytes, sha256=source.sha256)
                for source in merged.sources
            ],
            made_from=fingerprint,
        )
        artifacts.write_manifest(self._out, files=files, **facts.to_json())
        return warnings


def make_counter(filters: FilterConfig, repair: bool, symbols: bool) -> Callable[[list[Raw]], NDArray[np.void]]:
    """What a worker answers with: the numbers of the documents it is given."""
    return DocumentFilter(filters, repair=repair, symbols=symbols).count


def _group_files(files: Sequence[Source]) -> list[list[Source]]:
    """Neighbouring files, as many as make a piece of work worth its record: what a part counts."""
    groups: list[list[Source]] = []
    size = GROUP_BYTES
    for source in files:
        if size >= GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(source)
        size += source.bytes
    return groups


def _are_same(counted: Sequence[CountedSource], files: Sequence[Source]) -> bool:
    known = [(source.path, source.bytes, source.modified_ns) for source in counted]
    return known == [(str(source.path), source.bytes, source.modified_ns) for source in files]
