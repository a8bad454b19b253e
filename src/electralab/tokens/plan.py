"""What preparing these inputs would read and roughly take, before anything is written.

inputs, PrepareConfig -> PreparePlan
"""

from collections.abc import Sequence
from dataclasses import dataclass

from electralab.corpus.sources import Compression, Source, find_sources
from electralab.tokens.prepare import PrepareConfig

# Typical of English text on a core of the 2020s.
_UNPACKED: dict[Compression, float] = {"": 1.0, "gz": 2.7, "bz2": 3.5, "xz": 3.7, "zst": 3.0}
_BYTES_PER_TOKEN = 4
_BYTES_PER_DOCUMENT = 1000
_ENCODED_PER_SECOND = 4e6
_LEARNED_PER_SECOND = 4e6
_MEMORY = 512 << 20


@dataclass(frozen=True, slots=True)
class PreparePlan:
    """What a run would read, and what it would roughly take; standard input is not counted."""

    sources: list[Source]
    passed_over: list[str]
    bytes: int
    text_bytes: int
    tokens: int
    seconds: float
    memory_bytes: int


def plan_prepare(inputs: Sequence[str], config: PrepareConfig, *, cores: int) -> PreparePlan:
    """Estimates from typical ratios and speeds; reads no content and writes nothing."""
    sources = find_sources(inputs, symbols=config.symbols)
    text = int(sum(source.bytes * _UNPACKED[source.compression] for source in sources.files))
    learning = 0.0 if config.tokenizer.path else min(text, config.tokenizer.sample_mb * 2**20) / _LEARNED_PER_SECOND
    return PreparePlan(
        sources=sources.files,
        passed_over=sources.passed_over,
        bytes=sources.bytes,
        text_bytes=text,
        tokens=text // _BYTES_PER_TOKEN,
        seconds=text / (_ENCODED_PER_SECOND * cores) + learning,
        memory_bytes=_MEMORY + 8 * text // _BYTES_PER_DOCUMENT,
    )
