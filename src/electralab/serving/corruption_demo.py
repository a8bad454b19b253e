"""The pre-training game on a text: hide some tokens, let the generator put others there, let the discriminator judge.

PlayRequest -> EncodedPlay -> PlayResult
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.model.electra import Discriminator
from electralab.objective.corruption import SamplingConfig, sampling_prohibition
from electralab.objective.electra import judge_guesses, make_guesses
from electralab.objective.exhibit import Guess
from electralab.objective.masking import MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.verdicts import Verdicts
from electralab.randomness import Rng
from electralab.serving.inputs import Given, TokenizedText, tokenize_known
from electralab.serving.mask_filler import MaskFiller
from electralab.serving.windows import frame
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import Batch, make_batch

# Masks are drawn as if at this step, which training never reaches.
_STEP = -3
_SHOWN_GUESSES = 3


@dataclass(frozen=True, slots=True)
class PlayRequest:
    given: Given
    mask_share: float = 0.15
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EncodedPlay:
    reading: TokenizedText
    asked: PlayRequest


@dataclass(frozen=True, slots=True)
class PlayedToken:
    text: str
    start: int
    end: int
    is_masked: bool
    guesses: tuple[Guess, ...]
    """The generator's best, of a masked token."""
    drawn: str | None
    """What it put there; the original, if it was lucky."""
    is_replaced: bool
    p_replaced: float
    p_original: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "p_original", 1.0 - self.p_replaced)


@dataclass(frozen=True, slots=True)
class PlayScores:
    masked: int
    replaced: int
    restored: int
    """Masked tokens that the generator guessed right, so that nothing was replaced."""
    found: int
    """Replaced tokens that the discriminator thinks replaced rather than original."""
    false_alarms: int
    auc: float | None
    """None where nothing, or everything, was replaced."""


@dataclass(frozen=True, slots=True)
class PlayResult:
    text: str
    corrupted: str
    tokens: tuple[PlayedToken, ...]
    scores: PlayScores


@dataclass(frozen=True, slots=True)
class RowOutputs:
    """What was said of some rows of the text, flattened."""

    ranked: dict[int, tuple[Guess, ...]]
    """By the place of a masked token in all rows."""
    logits: NDArray[np.float32]
    is_replaced: NDArray[np.bool_]
    drawn_ids: NDArray[np.int64]


class CorruptionDemo:
    def __init__(self, filler: MaskFiller, discriminator: Discriminator) -> None:
        import sklearn.metrics  # noqa: F401  which a score needs: the first game must not wait for it

        self.filler = filler
        self.discriminator = discriminator.eval()
        self.tokenizer = filler.tokenizer
        self._vocabulary = mask_vocabulary(filler.tokenizer)
        self._prohibition = sampling_prohibition(filler.tokenizer, filler.device, filler.generator.config.vocab_size)

    def play(self, given: Given, mask_share: float = 0.15, temperature: float = 1.0, seed: int = 0) -> PlayResult:
        return self.answer([self.parse(PlayRequest(given, mask_share, temperature, seed))])[0]

    def parse(self, asked: PlayRequest) -> EncodedPlay:
        if not 0 < asked.mask_share < 1:
            raise InputError(f"mask_share: is a share between 0 and 1, got {asked.mask_share}")
        if not 0 < asked.temperature < float("inf"):
            raise InputError(f"temperature: is a number above 0, got {asked.temperature}")
        return EncodedPlay(tokenize_known(self.tokenizer, asked.given, is_literal=True), asked)

    def answer(self, boards: Sequence[EncodedPlay], stop: StopSignal = NO_STOP) -> list[PlayResult]:
        """One after the other: which tokens are hidden must depend on the text and its seed alone."""
        return [self._play(board, stop) for board in boards]

    @torch.inference_mode()
    def _play(self, board: EncodedPlay, stop: StopSignal) -> PlayResult:
        ids, special, asked = board.reading.ids, self.tokenizer.special, board.asked
        configs = (self.filler.generator.config, self.discriminator.config)
        size = min(config.sequence_length for config in configs) - 2
        # As in pre-training, a long text is rows of text one after the other.
        rows = [frame(ids[start : start + size], special) for start in range(0, len(ids), size)]
        padded = np.full((len(rows), max(map(len, rows))), special.pad, dtype=np.int64)
        for row, framed in zip(padded, rows, strict=True):
            row[: len(framed)] = framed
        batch = make_batch(padded, self.tokenizer, is_pairs=False)
        turns: list[RowOutputs] = []
        for part in batch.split(max(1, self.filler.config.batch_tokens // padded.shape[1])):
            stop.check()
            turns.append(self._take_turn(part, asked, first=sum(map(len, (turn.logits for turn in turns)))))
        columns = np.concatenate(
            [np.arange(1, len(row) - 1) + number * padded.shape[1] for number, row in enumerate(rows)]
        )
        return self._describe(board, turns, columns)

    def _take_turn(self, part: Batch, asked: PlayRequest, *, first: int) -> RowOutputs:
        """`first` is the place of these rows' first token in the flattened rows of the text."""
        masking = MaskingConfig(mask_share=asked.mask_share)
        masked = mask_tokens(part, self._vocabulary, masking, asked.mask_share, Rng(asked.seed, _STEP))
        masked = masked.to(self.filler.device)
        guesses = make_guesses(self.filler.generator, masked)
        sampling = SamplingConfig(temperature=asked.temperature)
        trial = judge_guesses(self.discriminator, masked, guesses, self._prohibition, sampling)
        ranked = self.filler.rank(trial.guesses, _SHOWN_GUESSES, asked.temperature)
        return RowOutputs(
            {first + place: guess for place, guess in zip(masked.positions.tolist(), ranked, strict=True)},
            trial.verdicts.float().flatten().cpu().numpy(),
            trial.corrupted.is_replaced.flatten().cpu().numpy(),
            trial.corrupted.input_ids.flatten().cpu().numpy(),
        )

    def _describe(self, board: EncodedPlay, turns: Sequence[RowOutputs], columns: NDArray[np.int64]) -> PlayResult:
        """`columns` are the places of the text's tokens in the flattened rows. (n,)"""
        reading = board.reading
        ranked = {place: guesses for turn in turns for place, guesses in turn.ranked.items()}
        logits = np.concatenate([turn.logits for turn in turns])[columns]
        is_replaced = np.concatenate([turn.is_replaced for turn in turns])[columns]
        drawn_ids = np.concatenate([turn.drawn_ids for turn in turns])[columns]
        chances = 1 / (1 + np.exp(-logits.astype(np.float64)))
        tokens = tuple(
            PlayedToken(
                reading.text[start:end],
                start,
                end,
                is_masked=column in ranked,
                guesses=ranked.get(column, ()),
                drawn=self.tokenizer.decode_token(drawn) if column in ranked else None,
                is_replaced=replaced,
                p_replaced=chance,
            )
            for column, (start, end), drawn, replaced, chance in zip(
                columns.tolist(),
                reading.offsets,
                drawn_ids.tolist(),
                is_replaced.tolist(),
                chances.tolist(),
                strict=True,
            )
        )
        return PlayResult(
            reading.text,
            self._write(reading, drawn_ids.tolist(), is_replaced.tolist()),
            tokens,
            _score(Verdicts(logits, is_replaced), chances > 0.5, len(ranked)),
        )

    def _write(self, reading: TokenizedText, drawn_ids: list[int], is_replaced: list[bool]) -> str:
        """The text with the replacements in it, joined to what stands before as their pieces say."""
        continues = self.tokenizer.continues_word
        written, end = [], 0
        for (start, stop), original, drawn, replaced in zip(
            reading.offsets, reading.ids.tolist(), drawn_ids, is_replaced, strict=True
        ):
            gap = reading.text[end:start]
            if replaced and continues[drawn]:
                gap = gap.rstrip()
            elif replaced and continues[original]:
                gap = gap or " "
            written += [gap, self.tokenizer.decode_token(drawn) if replaced else reading.text[start:stop]]
            end = stop
        return "".join([*written, reading.text[end:]])


def _score(verdicts: Verdicts, is_suspected: NDArray[np.bool_], masked: int) -> PlayScores:
    replaced = int(verdicts.is_replaced.sum())
    has_both = 0 < replaced < len(verdicts.is_replaced)
    return PlayScores(
        masked=masked,
        replaced=replaced,
        restored=masked - replaced,
        found=int((is_suspected & verdicts.is_replaced).sum()),
        false_alarms=int((is_suspected & ~verdicts.is_replaced).sum()),
        auc=verdicts.auc if has_both else None,
    )
