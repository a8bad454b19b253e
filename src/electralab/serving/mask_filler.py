"""What would the generator write here?

FillRequest -> MaskedText -> FillResult
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import TokenModel
from electralab.objective.corruption import special_token_bias
from electralab.objective.metrics import token_probs, top_candidates
from electralab.records.answers import FillResult, MaskSlot
from electralab.records.run import GuessedToken
from electralab.serving.inputs import Ids, TextInput, TokenizedText, WindowConfig, add_special_ids, tokenize_known
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Span = tuple[int, int]
Slot = tuple[int, int]
"""Which text, and which of its masks."""

# Each may be a row of its own.
_MOST_MASKS = 256


@dataclass(frozen=True, slots=True)
class FillRequest:
    given: TextInput
    at: Sequence[Span] | None = None
    """Spans of characters to guess, each hidden by itself; None for every [MASK] written in the text."""
    top: int = 5


@dataclass(frozen=True, slots=True)
class MaskedText:
    """Rows that hide something, and for each mask its row and column."""

    text: str
    spans: Sequence[Span]
    rows: list[Ids]
    cells: list[tuple[int, int]]
    top: int


class MaskFiller:
    def __init__(self, generator: TokenModel, tokenizer: Tokenizer, config: WindowConfig) -> None:
        self.generator = generator.eval()
        self.tokenizer = tokenizer
        self.config = config
        self.device = next(generator.parameters()).device
        self._logit_bias = special_token_bias(tokenizer, self.device, generator.config.vocab_size)

    def fill(self, given: TextInput, at: Sequence[Span] | None = None, top: int = 5) -> FillResult:
        return self.answer([self.parse(FillRequest(given, at, top))])[0]

    def parse(self, request: FillRequest) -> MaskedText:
        special, size = self.tokenizer.special, self.generator.config.sequence_length - 2
        tokenized = tokenize_known(self.tokenizer, request.given)
        if request.top < 1:
            raise InputError(f"top: is how many guesses to give, at least 1, got {request.top}")
        if request.at is None:
            stretches = self._find_masks(tokenized)
        else:
            stretches = _find_tokens(tokenized, request.at)
        rows: dict[bytes, int] = {}
        masked: list[Ids] = []
        cells = []
        for first, last in stretches:
            # The tokens from first to last become one [MASK], in the middle of as much text as fits a row.
            hidden = np.concatenate([tokenized.ids[:first], [special.mask], tokenized.ids[last + 1 :]])
            start = min(max(first - size // 2, 0), max(len(hidden) - size, 0))
            row = add_special_ids(hidden[start : start + size], special)
            # Masks that were written in the text share their row.
            number = rows.setdefault(row.tobytes(), len(masked))
            if number == len(masked):
                masked.append(row)
            cells.append((number, first - start + 1))
        spans = [(tokenized.offsets[first][0], tokenized.offsets[last][1]) for first, last in stretches]
        return MaskedText(tokenized.text, spans, masked, cells, request.top)

    def _find_masks(self, tokenized: TokenizedText) -> list[Span]:
        mask = self.tokenizer.special.mask
        masks = np.flatnonzero(tokenized.ids == mask).tolist()
        if not masks:
            raise InputError(
                f"has no {self.tokenizer.token(mask)}, so there is nothing to fill; write one, or say where with 'at'"
            )
        if len(masks) > _MOST_MASKS:
            raise InputError(f"has {len(masks):,} masks, at most {_MOST_MASKS} are filled at once; cut the text")
        return [(index, index) for index in masks]

    def answer(self, texts: Sequence[MaskedText], stop: StopSignal = NO_STOP) -> list[FillResult]:
        top = max(text.top for text in texts)
        ranked: dict[Slot, tuple[GuessedToken, ...]] = {}
        for slots, logits in self.logits(texts, stop):
            ranked |= zip(slots, self.rank(logits, top), strict=True)
        return [
            FillResult(
                text=masked.text,
                blanks=tuple(
                    MaskSlot(
                        start=start, end=end, text=masked.text[start:end], guesses=ranked[number, slot][: masked.top]
                    )
                    for slot, (start, end) in enumerate(masked.spans)
                ),
            )
            for number, masked in enumerate(texts)
        ]

    def logits(
        self, texts: Sequence[MaskedText], stop: StopSignal = NO_STOP
    ) -> Iterator[tuple[Sequence[Slot], Tensor]]:
        """(M, V) logits over the vocabulary, some masks at a time: for all masks they are too large to keep."""
        firsts = np.cumsum([0, *(len(text.rows) for text in texts)])
        by_row: dict[int, list[tuple[int, Slot]]] = {}
        for number, text in enumerate(texts):
            for slot, (row, column) in enumerate(text.cells):
                by_row.setdefault(int(firsts[number]) + row, []).append((column, (number, slot)))
        rows = [row for text in texts for row in text.rows]
        for batch in batch_by_length(rows, self.tokenizer.special, self.config.batch_tokens, self.device):
            width = batch.input_ids.shape[1]
            here = [
                (index * width + column, slot) for index, row in enumerate(batch.rows) for column, slot in by_row[row]
            ]
            positions = torch.tensor([position for position, _ in here], device=self.device)
            stop.check()
            with torch.inference_mode():
                logits = self.generator(
                    batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad, positions
                )  # (M, V)
            yield [slot for _, slot in here], logits

    def probs(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """(M, V) logits -> probabilities; special tokens have none."""
        return token_probs(logits, self._logit_bias, temperature)

    def rank(self, logits: Tensor, top: int, temperature: float = 1.0) -> list[tuple[GuessedToken, ...]]:
        """(M, V) logits -> for each mask the likeliest tokens, likeliest first."""
        return [
            tuple(GuessedToken(text=token.text, p=token.p, continues_word=token.continues_word) for token in best)
            for best in top_candidates(self.probs(logits, temperature), self.tokenizer, top)
        ]


def _find_tokens(tokenized: TokenizedText, at: Sequence[Span]) -> list[Span]:
    """For each span of characters the first and the last token that has a part in it."""
    stretches = []
    starts, ends = np.array(tokenized.offsets, dtype=np.int64).reshape(-1, 2).T
    for index, (start, end) in enumerate(at):
        inside = np.flatnonzero((starts < end) & (ends > start) & (start < end))
        if not len(inside):
            raise InputError(
                f"at {index}: no token stands between characters {start} and {end} of the text's "
                f"{len(tokenized.text)}; give the span of one"
            )
        stretches.append((int(inside[0]), int(inside[-1])))
    return stretches
