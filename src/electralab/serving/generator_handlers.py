"""What a generator writes: guesses for masks, and pre-training on one text, to look at.

TextInput -> MaskedText -> FillResult;  TextInput -> PlayInput -> PlayResult
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Electra, TokenModel
from electralab.objective.corruption import SamplingConfig, special_token_bias
from electralab.objective.electra import electra_forward
from electralab.objective.masking import MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.metrics import RtdScores, token_probs, top_candidates
from electralab.randomness import Rng
from electralab.records.answers import FillResult, MaskSlot, PlayedToken, PlayResult, PlayScores
from electralab.records.run import GuessedToken
from electralab.serving.inputs import Ids, TextInput, TokenizedText, WindowConfig, add_special_ids, tokenize_known
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length, make_batch
from electralab.tokens.tokenizer import Tokenizer

Slot = tuple[int, int]
"""Which text, and which of its masks."""

# Each may be a row of its own.
_MOST_MASKS = 256
# In the demo masks are drawn as if at this step, which training never reaches.
_STEP = -3
_SHOWN_GUESSES = 3


@dataclass(frozen=True, slots=True)
class MaskedText:
    """Rows that hide something, and for each mask its row and column."""

    text: str
    spans: Sequence[tuple[int, int]]
    rows: list[Ids]
    cells: list[tuple[int, int]]
    top: int


class MaskFiller:
    def __init__(self, generator: TokenModel, tokenizer: Tokenizer, config: WindowConfig) -> None:
        self.generator = generator.eval()
        self.tokenizer = tokenizer
        self.config = config
        self.device = next(generator.parameters()).device
        self.logit_bias = special_token_bias(tokenizer, self.device, generator.config.vocab_size)

    def parse(self, given: TextInput, at: Sequence[Sequence[int]] | None = None, top: int = 5) -> MaskedText:
        """`at`: spans of characters to guess, each hidden by itself; None for every [MASK] written in the text."""
        special, size = self.tokenizer.special, self.generator.config.sequence_length - 2
        tokenized = tokenize_known(self.tokenizer, given)
        if top < 1:
            raise InputError(f"top: is how many guesses to give, at least 1, got {top}")
        # The first and the last token of what each mask hides.
        stretches: list[tuple[int, int]] = []
        if at is None:
            stretches = [(index, index) for index in np.flatnonzero(tokenized.ids == special.mask).tolist()]
            if not stretches:
                mask = self.tokenizer.token(special.mask)
                raise InputError(f"has no {mask}, so there is nothing to fill; write one, or say where with 'at'")
            if len(stretches) > _MOST_MASKS:
                raise InputError(
                    f"has {len(stretches):,} masks, at most {_MOST_MASKS} are filled at once; cut the text"
                )
        starts, ends = np.array(tokenized.offsets, dtype=np.int64).reshape(-1, 2).T
        for index, (start, end) in enumerate(at or ()):
            inside = np.flatnonzero((starts < end) & (ends > start) & (start < end))
            if not len(inside):
                raise InputError(
                    f"at {index}: no token stands between characters {start} and {end} of the text's "
                    f"{len(tokenized.text)}; give the span of one"
                )
            stretches.append((int(inside[0]), int(inside[-1])))
        rows: list[Ids] = []
        numbers: dict[bytes, int] = {}
        cells = []
        for first, last in stretches:
            # The tokens from first to last become one [MASK], in the middle of as much text as fits a row.
            hidden = np.concatenate([tokenized.ids[:first], [special.mask], tokenized.ids[last + 1 :]])
            start = min(max(first - size // 2, 0), max(len(hidden) - size, 0))
            row = add_special_ids(hidden[start : start + size], special)
            # Masks that were written in the text share their row.
            number = numbers.setdefault(row.tobytes(), len(rows))
            if number == len(rows):
                rows.append(row)
            cells.append((number, first - start + 1))
        spans = [(tokenized.offsets[first][0], tokenized.offsets[last][1]) for first, last in stretches]
        return MaskedText(tokenized.text, spans, rows, cells, top)

    def answer(self, texts: Sequence[MaskedText], stop: StopSignal = NO_STOP) -> list[FillResult]:
        top = max(text.top for text in texts)
        ranked: dict[Slot, tuple[GuessedToken, ...]] = {}
        for slots, probs in self.probs(texts, stop):
            ranked |= zip(slots, top_candidates(probs, self.tokenizer, top), strict=True)
        results = []
        for number, masked in enumerate(texts):
            blanks = [
                MaskSlot(start=start, end=end, text=masked.text[start:end], guesses=ranked[number, slot][: masked.top])
                for slot, (start, end) in enumerate(masked.spans)
            ]
            results.append(FillResult(text=masked.text, blanks=tuple(blanks)))
        return results

    @torch.inference_mode()
    def probs(self, texts: Sequence[MaskedText], stop: StopSignal = NO_STOP) -> Iterator[tuple[list[Slot], Tensor]]:
        """(M, V) probabilities of the vocabulary, some masks at a time: for all masks they are too large to keep."""
        rows: list[Ids] = []
        by_row: dict[int, list[tuple[int, Slot]]] = {}
        for number, text in enumerate(texts):
            for slot, (row, column) in enumerate(text.cells):
                by_row.setdefault(len(rows) + row, []).append((column, (number, slot)))
            rows += text.rows
        for batch in batch_by_length(rows, self.tokenizer.special, self.config.batch_tokens, self.device):
            stop.check()
            width = batch.input_ids.shape[1]
            cells = [
                (index * width + column, slot) for index, row in enumerate(batch.rows) for column, slot in by_row[row]
            ]
            positions = torch.tensor([position for position, _ in cells], device=self.device)
            inputs = batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad
            logits = self.generator(*inputs, positions)  # (M, V)
            yield [slot for _, slot in cells], token_probs(logits, self.logit_bias)


@dataclass(frozen=True, slots=True)
class PlayInput:
    text: TokenizedText
    mask_share: float
    temperature: float
    seed: int


class CorruptionDemo:
    """Some tokens are masked, the generator fills them, the discriminator scores all."""

    def __init__(self, filler: MaskFiller, discriminator: Discriminator) -> None:
        import sklearn.metrics  # noqa: F401  which a score needs: the first request must not wait for it

        self.filler = filler
        self.tokenizer = filler.tokenizer
        self.discriminator = discriminator.eval()
        self._pair = Electra(filler.generator, self.discriminator, "none")
        self._vocabulary = mask_vocabulary(filler.tokenizer)

    def parse(self, given: TextInput, mask_share: float = 0.15, temperature: float = 1.0, seed: int = 0) -> PlayInput:
        if not 0 < mask_share < 1:
            raise InputError(f"mask_share: is a share between 0 and 1, got {mask_share}")
        if not 0 < temperature < float("inf"):
            raise InputError(f"temperature: is a number above 0, got {temperature}")
        return PlayInput(tokenize_known(self.tokenizer, given, is_literal=True), mask_share, temperature, seed)

    def answer(self, plays: Sequence[PlayInput], stop: StopSignal = NO_STOP) -> list[PlayResult]:
        """One after the other: which tokens are masked must depend on the text and its seed alone."""
        return [self._play(play, stop) for play in plays]

    @torch.inference_mode()
    def _play(self, play: PlayInput, stop: StopSignal) -> PlayResult:
        ids, special, device = play.text.ids, self.tokenizer.special, self.filler.device
        size = min(self.filler.generator.config.sequence_length, self.discriminator.config.sequence_length) - 2
        # As in pre-training, a long text is rows one after the other.
        rows = [add_special_ids(ids[start : start + size], special) for start in range(0, len(ids), size)]
        width = max(map(len, rows))
        padded = np.full((len(rows), width), special.pad, dtype=np.int64)
        for padded_row, row in zip(padded, rows, strict=True):
            padded_row[: len(row)] = row
        batch = make_batch(padded, self.tokenizer, is_pairs=False)
        sampling, rng = SamplingConfig(temperature=play.temperature), Rng(play.seed, _STEP)
        # By the position of a masked token in the flattened rows of the text.
        ranked: dict[int, tuple[GuessedToken, ...]] = {}
        outputs = []
        for part in batch.split(max(1, self.filler.config.batch_tokens // width)):
            stop.check()
            masking = MaskingConfig(mask_share=play.mask_share)
            masked = mask_tokens(part, self._vocabulary, masking, play.mask_share, rng).to(device)
            output = electra_forward(self._pair, masked, self.filler.logit_bias, sampling)
            probs = token_probs(output.generator_logits, self.filler.logit_bias, play.temperature)
            positions = masked.positions + width * int(part.row_numbers[0])
            ranked |= zip(positions.tolist(), top_candidates(probs, self.filler.tokenizer, _SHOWN_GUESSES), strict=True)
            outputs.append(output)
        # Where the text's tokens stand in the flattened rows. (n,)
        places = np.concatenate([np.arange(1, len(row) - 1) + number * width for number, row in enumerate(rows)])
        logits, is_replaced, drawn_ids = (
            torch.cat([values.flatten() for values in column]).cpu().numpy()[places]
            for column in (
                [output.discriminator_logits.float() for output in outputs],
                [output.corrupted.is_replaced for output in outputs],
                [output.corrupted.input_ids for output in outputs],
            )
        )
        p_replaced = 1 / (1 + np.exp(-logits.astype(np.float64)))
        columns = (places.tolist(), drawn_ids.tolist(), is_replaced.tolist(), p_replaced.tolist())
        tokens = tuple(
            PlayedToken(
                text=play.text.text[start:end],
                start=start,
                end=end,
                is_masked=place in ranked,
                guesses=ranked.get(place, ()),
                drawn=self.tokenizer.decode_token(drawn) if place in ranked else None,
                is_replaced=replaced,
                p_replaced=p,
                p_original=1.0 - p,
            )
            for (start, end), place, drawn, replaced, p in zip(play.text.offsets, *columns, strict=True)
        )
        replaced, is_suspected = int(is_replaced.sum()), p_replaced > 0.5
        scores = PlayScores(
            masked=len(ranked),
            replaced=replaced,
            restored=len(ranked) - replaced,
            detected=int((is_suspected & is_replaced).sum()),
            false_alarms=int((is_suspected & ~is_replaced).sum()),
            auc=RtdScores(logits, is_replaced).auc if 0 < replaced < len(is_replaced) else None,
        )
        corrupted = self._write(play.text, drawn_ids.tolist(), is_replaced.tolist())
        return PlayResult(text=play.text.text, corrupted=corrupted, tokens=tokens, scores=scores)

    def _write(self, tokenized: TokenizedText, drawn_ids: list[int], is_replaced: list[bool]) -> str:
        """The text with the replacements in it, joined to what stands before as their tokens say."""
        continues = self.tokenizer.continues_word
        written, end = [], 0
        columns = (tokenized.ids.tolist(), drawn_ids, is_replaced)
        for (start, stop), original, drawn, replaced in zip(tokenized.offsets, *columns, strict=True):
            # A drawn word may stand where a piece of a word stood, and the other way round.
            gap = tokenized.text[end:start]
            if replaced and continues[drawn]:
                gap = gap.rstrip()
            elif replaced and continues[original]:
                gap = gap or " "
            written += [gap, self.tokenizer.decode_token(drawn) if replaced else tokenized.text[start:stop]]
            end = stop
        return "".join([*written, tokenized.text[end:]])
