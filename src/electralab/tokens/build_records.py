"""What the passes of preparing leave for one another in the folder, and what a person is told of it.

documents that were counted -> CountRecord; all of them together -> MergeRecord -> report of the tokenizer, warnings
"""

import math
import re
from collections.abc import Iterator, Sequence

from electralab.artifacts import FileHash
from electralab.corpus.scripts import SPACELESS, UNIT, WIDE_PUNCTUATION
from electralab.errors import InputError
from electralab.records import prepared as records
from electralab.records.record import Record
from electralab.tokens.shards import ShardSpan
from electralab.tokens.tokenizer import Tokenizer

_WORST = 3  # sources to name
_FEW_HELDOUT = 10  # documents: fewer tell little about text that was not trained on
_MOST_HELDOUT = 0.25  # a larger share than this is not proposed

# In scripts without spaces no word is among the longest.
_LONGEST_WORDS = 10
_SPACED_WORD = re.compile(f"[^\\s{SPACELESS}{WIDE_PUNCTUATION}]+")


class CountedSource(Record):
    """What counting found in a file, and by what it is known again."""

    path: str
    bytes: int
    modified_ns: int
    sha256: str
    documents: int = 0
    undecodable: int = 0
    is_passed_over: bool = False


class CountRecord(Record):
    """A group of files that was counted; the numbers of its documents lie in a file beside it."""

    settings: str
    """The hash of all that the numbers depend on beside the files."""
    sources: list[CountedSource]
    numbers: FileHash


class MergeRecord(Record):
    """What was decided of all documents together; what becomes of each lies in a file beside it, a byte for each."""

    made_from: str
    settings: str
    sources: list[CountedSource]
    starts: list[int]
    """The number of the first document of each source, and at the end the number of all."""
    dropped: dict[str, int]
    spans: list[ShardSpan]
    heldout_threshold: int
    fates: FileHash


def report_tokenizer(
    tokenizer: Tokenizer, counts: records.PreparedCounts, texts: Sequence[str]
) -> records.TokenizerReport:
    """Fertility per word and per character on a sample, and what becomes of the longest words."""
    report = records.TokenizerReport(
        vocab_size=tokenizer.vocab_size,
        ordinary_pieces=int(tokenizer.is_ordinary.sum()),
        unknown_share=counts.unknown_tokens / max(1, counts.tokens),
    )
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


def nothing_left(merged: MergeRecord) -> InputError:
    dropped = ", ".join(f"{count} {reason}" for reason, count in merged.dropped.items()) or "none found"
    remedy = "give text, name its encoding with --reading.encoding, or repair it with --repair"
    if not (worst := _name_undecodable(merged)):
        most = sorted(merged.sources, key=lambda source: -source.documents)[:_WORST]
        worst = ", ".join(f"{source.documents:,} in {source.path}" for source in most if source.documents)
        remedy = "give other text or loosen the filters"
    return InputError(f"no document left to prepare ({dropped}{f': {worst}' if worst else ''}); {remedy}")


def _name_undecodable(merged: MergeRecord) -> str:
    """The sources with the most documents whose bytes are no text, and how many of theirs that is."""
    every = sorted((source for source in merged.sources if source.undecodable), key=lambda source: -source.undecodable)
    named = ", ".join(f"{source.undecodable:,} of {source.documents:,} in {source.path}" for source in every[:_WORST])
    return named + (f" and {len(every) - _WORST:,} more files" if len(every) > _WORST else "")


def find_warnings(merged: MergeRecord, counts: records.PreparedCounts, heldout_share: float) -> Iterator[str]:
    """What a person should know before trusting the data, as sentences."""
    if undecodable := merged.dropped.get("undecodable"):
        yield (
            f"{undecodable:,} documents are no text in the expected encoding and were dropped "
            f"({_name_undecodable(merged)}); name it with --reading.encoding, or repair them with --repair"
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
