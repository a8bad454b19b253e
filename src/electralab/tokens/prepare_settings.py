"""What prepared data is made from: the settings, the part of the work that a process takes, the identity of the result.

settings, hashes of the files, tokenizer -> fingerprint; two fingerprints -> what differs, in words
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from electralab.artifacts import read_json, sha256_json
from electralab.config import Settings, SettingsTree, differences
from electralab.corpus.documents import NEAR_DUPLICATE_RULE, FilterConfig
from electralab.corpus.readers import ReadingConfig
from electralab.corpus.sources import Source
from electralab.errors import DamagedArtifact, InputError, UsageError
from electralab.tokens.packing import PackingConfig
from electralab.tokens.series import SeriesConfig
from electralab.tokens.shards import FORMAT
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig

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
    series: SeriesConfig = SeriesConfig()
    seed: int = 0

    def with_symbol_defaults(self) -> "PrepareConfig":
        """What nobody set, as it suits sequences of symbols."""
        filters, packing = self.filters, self.packing
        if self.series.enabled and "heldout_share" not in self.model_fields_set:
            # Rows of a series are few.
            return self.model_copy(update={"heldout_share": 0.1}).with_symbol_defaults()
        # How often a session occurs is what a log says, so equal ones are kept.
        if self.symbols and "duplicates" not in filters.model_fields_set:
            filters = filters.model_copy(update={"duplicates": False})
        # A model is asked about whole sessions, so it is trained on them: one a row.
        if self.symbols and "kind" not in packing.model_fields_set:
            packing = packing.model_copy(update={"kind": "documents"})
        return self.model_copy(update={"filters": filters, "packing": packing})


@dataclass(frozen=True, slots=True)
class Part:
    """The `number`th of `count` parts of the work, from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Part":
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise UsageError(f"--part: {text!r} is no part; give its number and how many there are, as in 3/8")
        return cls(int(number), int(count))

    def take(self, pieces: Sequence[A]) -> Sequence[A]:
        """A run of neighbours, so that a part reads few files."""
        first, last = (place * len(pieces) // self.count for place in (self.number - 1, self.number))
        return pieces[first:last]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


WHOLE = Part(1, 1)


def dump_settings(config: PrepareConfig) -> SettingsTree:
    """As it is stored: without what was no setting when most data was prepared, where it is not used."""
    return config.model_dump(mode="json", exclude=set() if config.series.enabled else {"series"})


def fingerprint_data(
    config: PrepareConfig, files: Sequence[Source], hashes: Sequence[str], given: Tokenizer | None
) -> SettingsTree:
    """What data is made from, by content: neither the paths of the sources nor that of a given tokenizer belong to it.

    Its form is stored in every folder of prepared data, and stays as it is.
    """
    tokenizer = config.tokenizer.model_copy(update={"path": ""})
    fingerprint = {
        "format": FORMAT,
        "settings": dump_settings(config.model_copy(update={"tokenizer": tokenizer})),
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


def read_made_from(path: Path) -> SettingsTree | None:
    """What a manifest or the state of a build, even a damaged one, says that the data is made from, if anything."""
    try:
        stored = read_json(path)
    except (DamagedArtifact, InputError):
        return None
    made_from = stored.get("made_from") if isinstance(stored, dict) else None
    return made_from if isinstance(made_from, dict) else None


def first_difference(made_from: object, fingerprint: SettingsTree) -> str:
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
