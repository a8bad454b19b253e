"""What `electra prepare` writes beside the shards, and what it would read.

report.json, the facts of manifest.json, `prepare --dry-run`
"""

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record


class PreparedCounts(Record):
    documents: int
    heldout_documents: int
    characters: int
    tokens: int
    unknown_tokens: int
    train_rows: int
    heldout_rows: int


class LongWord(Record):
    word: str
    characters: int
    tokens: int


class TokenizerReport(Record):
    """How well a tokenizer fits the text. What is measured on a sample is absent where the data is symbols."""

    vocab_size: int
    ordinary_pieces: int
    unknown_share: float
    sampled_words: int | None = None
    """In scripts without spaces a character counts as a word."""
    tokens_per_word: float | None = None
    tokens_per_character: float | None = None
    characters_per_word: float | None = None
    longest_words: list[LongWord] = Field(default_factory=list)


class PreparedReport(FileRecord):
    """The report of prepared data: what `electra prepare` returns."""

    FILE: ClassVar[str] = "report.json"
    counts: PreparedCounts
    dropped: dict[str, int]
    """Documents by the reason for which they were left out."""
    passed_over: list[str]
    """Files that happened to lie in a folder and are no text that we read."""
    warnings: list[str] = Field(default_factory=list)
    tokenizer: TokenizerReport


PassName = Literal["count", "merge", "encode"]


class PreparedPass(Record):
    """`prepare --pass`: what was done of a pass, and what is missing of it, other parts included."""

    name: PassName = Field(alias="pass")
    part: str
    pieces: int
    """Groups of files that are counted in this part, or shards that are encoded."""
    missing: int
    """Those that no part has done yet."""

    model_config = ConfigDict(populate_by_name=True)


class PreparedSource(Record):
    path: str
    bytes: int
    sha256: str


class PreparedManifest(Record):
    """The facts that the manifest of prepared data has beside its files."""

    kind: str
    format: int
    sequence_length: int
    packing: str
    vocab_size: int
    counts: PreparedCounts
    settings: JsonTree
    sources: list[PreparedSource]
    made_from: JsonTree
    """What the data was made from, by content: another content is other data."""


class PreparePlan(PlanRecord):
    """`prepare --dry-run`: what would be read, and what it would roughly take; standard input is not counted."""

    out: str
    sources: list[str]
    passed_over: list[str]
    bytes: int
    text_bytes: int
    tokens: int
    seconds: float
    memory_bytes: int
