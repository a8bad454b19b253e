"""Rows of text that every model with the same tokenizer is asked about, hidden at the same places with the same luck.

prepared data | text files -> HeldoutRows
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from electralab.artifacts import MANIFEST
from electralab.config import Settings
from electralab.corpus.readers import DecodeError, Raw, ReadingConfig, read_documents
from electralab.corpus.sources import find_sources
from electralab.errors import InputError
from electralab.evaluation.outcome import Conditions
from electralab.evaluation.subject import require_text
from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.registry import unigram_log_probs
from electralab.randomness import Rng
from electralab.tokens.batches import make_batch
from electralab.tokens.packing import pack_contiguous
from electralab.tokens.shards import open_data
from electralab.tokens.tokenizer import Tokenizer

# Masks are drawn as if at this step, which training never reaches.
_STEP = -2
_UNIGRAM_ROWS = 20_000


class HeldoutConfig(Settings):
    limit: int = Field(1024, ge=0)
    """The most rows to judge: spread evenly over held-out ones, the first of a text; 0 means all."""
    mask_share: float = Field(0.15, gt=0, lt=1)
    temperature: float = Field(1.0, gt=0)
    bootstrap: int = Field(100, ge=0)
    """How often the rows are drawn again for the intervals; 0 for no intervals."""


@dataclass(frozen=True, slots=True)
class HeldoutRows:
    ids: NDArray[np.int64]  # (N, T)
    is_pairs: bool
    unigram: NDArray[np.float64]
    """(V,) log shares of the tokens: in the training rows of prepared data, in a text's own rows."""
    notes: tuple[str, ...]


def read_rows(
    data: Path, tokenizer: Tokenizer, sequence_length: int, limit: int, reading: ReadingConfig
) -> HeldoutRows:
    if (data / MANIFEST).is_file():
        rows = _open_rows(data, tokenizer, sequence_length, limit)
    else:
        rows = _pack_text(data, tokenizer, sequence_length, limit, reading)
    if not tokenizer.is_ordinary[rows.ids].any():
        raise InputError(f"{data}: holds nothing that the model's vocabulary knows; give text of its language")
    return rows


def _open_rows(data: Path, tokenizer: Tokenizer, sequence_length: int, limit: int) -> HeldoutRows:
    prepared = open_data(data)
    if prepared.tokenizer.to_json() != tokenizer.to_json():
        raise InputError(f"{data}: was prepared with another tokenizer than the model's; give text files instead")
    if prepared.sequence_length > sequence_length:
        raise InputError(
            f"{data}: has rows of {prepared.sequence_length} tokens, the model takes {sequence_length}; "
            "give text files instead"
        )
    if not len(prepared.heldout):
        raise InputError(f"{data}: holds no held-out rows; prepare it with a held-out share, or give text files")
    ids = prepared.heldout.take(_spread(len(prepared.heldout), limit))
    known = prepared.train.take(_spread(len(prepared.train), _UNIGRAM_ROWS))
    return HeldoutRows(ids, prepared.packing == "pairs", unigram_log_probs(known, tokenizer), ())


def _spread(count: int, limit: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(limit or count, count)).astype(np.int64))


def _pack_text(
    data: Path, tokenizer: Tokenizer, sequence_length: int, limit: int, reading: ReadingConfig
) -> HeldoutRows:
    require_text(tokenizer, "the model")
    documents: list[NDArray[np.int64]] = []
    wanted = limit * (sequence_length - 2) if limit else np.inf
    size = undecodable = 0
    for raw in _read_files(data, reading):
        if isinstance(raw, DecodeError):
            undecodable += 1
            continue
        documents += tokenizer.encode_many([str(raw)])
        size += len(documents[-1]) + 1
        if size >= wanted:
            break
    ids = pack_contiguous(documents, sequence_length, tokenizer.special)[: limit or None].astype(np.int64)
    if not len(ids):
        raise InputError(f"{data}: holds no text; give prepared data or files with text")
    notes = (f"{undecodable:,} documents are not UTF-8 and were left out",) if undecodable else ()
    return HeldoutRows(ids, False, unigram_log_probs(ids, tokenizer), notes)


def _read_files(data: Path, reading: ReadingConfig) -> Iterator[Raw]:
    for source in find_sources([str(data)]).files:
        yield from read_documents(source, reading)


def mask_rows(
    rows: HeldoutRows, tokenizer: Tokenizer, config: HeldoutConfig, conditions: Conditions
) -> list[MaskedBatch]:
    """By (seed, place of the row) alone: the same for every model, whatever the batches."""
    batch = make_batch(rows.ids, tokenizer, is_pairs=rows.is_pairs)
    masking = MaskingConfig(mask_share=config.mask_share)
    vocabulary, rng = mask_vocabulary(tokenizer), Rng(conditions.seed, _STEP)
    size = max(1, conditions.batch_tokens // rows.ids.shape[1])
    device = torch.device(conditions.device)
    return [mask_tokens(part, vocabulary, masking, config.mask_share, rng).to(device) for part in batch.split(size)]
