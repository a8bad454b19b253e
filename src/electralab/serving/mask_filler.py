"""What would the generator write here?

FillRequest -> Question -> FillResult
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Guesser
from electralab.objective.corruption import sampling_prohibition
from electralab.objective.exhibit import Guess, rank_guesses, weigh_guesses
from electralab.serving.inputs import Given, TokenizedText, tokenize_known
from electralab.serving.windows import Ids, WindowConfig, frame
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Span = tuple[int, int]
# Which question, and which of its blanks.
Place = tuple[int, int]

# Each may be a row of its own.
_MOST_MASKS = 256


@dataclass(frozen=True, slots=True)
class FillRequest:
    given: Given
    at: Sequence[Span] | None = None
    """Spans of characters to guess, each hidden by itself; None for every [MASK] written in the text."""
    top: int = 5


@dataclass(frozen=True, slots=True)
class MaskSlot:
    start: int
    end: int
    text: str
    guesses: tuple[Guess, ...]


@dataclass(frozen=True, slots=True)
class FillResult:
    text: str
    blanks: tuple[MaskSlot, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Rows that hide something, and for each blank its row and column."""

    text: str
    spans: Sequence[Span]
    rows: list[Ids]
    places: list[tuple[int, int]]
    top: int


class MaskFiller:
    def __init__(self, generator: Guesser, tokenizer: Tokenizer, config: WindowConfig) -> None:
        self.generator = generator.eval()
        self.tokenizer = tokenizer
        self.config = config
        self.device = next(generator.parameters()).device
        self._prohibition = sampling_prohibition(tokenizer, self.device, generator.config.vocab_size)

    def fill(self, given: Given, at: Sequence[Span] | None = None, top: int = 5) -> FillResult:
        return self.answer([self.parse(FillRequest(given, at, top))])[0]

    def parse(self, asked: FillRequest) -> Question:
        reading = tokenize_known(self.tokenizer, asked.given)
        if asked.top < 1:
            raise InputError(f"top: is how many guesses to give, at least 1, got {asked.top}")
        stretches = _find_masks(reading, self.tokenizer) if asked.at is None else _find_spans(reading, asked.at)
        if asked.at is None and len(stretches) > _MOST_MASKS:
            raise InputError(f"has {len(stretches):,} masks, at most {_MOST_MASKS} are filled at once; cut the text")
        rows: dict[bytes, int] = {}
        framed: list[Ids] = []
        places = []
        for first, last in stretches:
            row, column = self._hide(reading.ids, first, last)
            number = rows.setdefault(row.tobytes(), len(framed))
            if number == len(framed):
                framed.append(row)
            places.append((number, column))
        spans = [(reading.offsets[first][0], reading.offsets[last][1]) for first, last in stretches]
        return Question(reading.text, spans, framed, places, asked.top)

    def _hide(self, ids: Ids, first: int, last: int) -> tuple[Ids, int]:
        """The tokens from first to last become one [MASK], in the middle of as much text as fits a row."""
        hidden = np.concatenate([ids[:first], [self.tokenizer.special.mask], ids[last + 1 :]])
        size = self.generator.config.sequence_length - 2
        start = min(max(first - size // 2, 0), max(len(hidden) - size, 0))
        return frame(hidden[start : start + size], self.tokenizer.special), first - start + 1

    def answer(self, questions: Sequence[Question], stop: StopSignal = NO_STOP) -> list[FillResult]:
        most = max(question.top for question in questions)
        ranked: dict[Place, tuple[Guess, ...]] = {}
        for places, logits in self.weigh(questions, stop):
            ranked |= zip(places, self.rank(logits, most), strict=True)
        return [
            FillResult(
                question.text,
                tuple(
                    MaskSlot(start, end, question.text[start:end], ranked[owner, blank][: question.top])
                    for blank, (start, end) in enumerate(question.spans)
                ),
            )
            for owner, question in enumerate(questions)
        ]

    def weigh(
        self, questions: Sequence[Question], stop: StopSignal = NO_STOP
    ) -> Iterator[tuple[Sequence[Place], Tensor]]:
        """The (M, V) logits of all tokens, some blanks at a time: of all of them they are too large to keep."""
        firsts = np.cumsum([0, *(len(question.rows) for question in questions)])
        by_row: dict[int, list[tuple[int, int, int]]] = {}
        for owner, question in enumerate(questions):
            for blank, (row, column) in enumerate(question.places):
                by_row.setdefault(int(firsts[owner]) + row, []).append((column, owner, blank))
        rows = [row for question in questions for row in question.rows]
        for batch in batch_by_length(rows, self.tokenizer.special, self.config.batch_tokens, self.device):
            width = batch.input_ids.shape[1]
            here = [(place, *one) for place, row in enumerate(batch.rows) for one in by_row[int(row)]]
            positions = torch.tensor([place * width + column for place, column, _, _ in here], device=self.device)
            stop.check()
            with torch.inference_mode():
                said = self.generator(
                    batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad, positions
                )  # (M, V)
            yield [(owner, blank) for _, _, owner, blank in here], said

    def to_chances(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """(M, V) logits -> probabilities, of which special tokens have none."""
        return weigh_guesses(logits, self._prohibition, temperature)

    def rank(self, logits: Tensor, top: int, temperature: float = 1.0) -> list[tuple[Guess, ...]]:
        """(M, V) logits -> for each blank the likeliest tokens, likeliest first."""
        return rank_guesses(self.to_chances(logits, temperature), self.tokenizer, top)


def _find_masks(reading: TokenizedText, tokenizer: Tokenizer) -> list[Span]:
    masks = np.flatnonzero(reading.ids == tokenizer.special.mask).tolist()
    if not masks:
        mark = tokenizer.token(tokenizer.special.mask)
        raise InputError(f"has no {mark}, so there is nothing to fill; write one, or say where with 'at'")
    return [(place, place) for place in masks]


def _find_spans(reading: TokenizedText, at: Sequence[Span]) -> list[Span]:
    """For each span of characters the first and the last token that has a part in it."""
    found = []
    starts, ends = (np.array(side, dtype=np.int64) for side in (list(zip(*reading.offsets, strict=True)) or [(), ()]))
    for place, (start, end) in enumerate(at):
        inside = np.flatnonzero((starts < end) & (ends > start) & (start < end))
        if not len(inside):
            raise InputError(
                f"at {place}: no token stands between characters {start} and {end} of the text's {len(reading.text)}; "
                "give the span of one"
            )
        found.append((int(inside[0]), int(inside[-1])))
    return found
