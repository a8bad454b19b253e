"""Pre-training on one text, to look at: some tokens are masked, the generator fills them, the discriminator scores all.

PlayRequest -> EncodedPlay -> PlayResult
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Electra
from electralab.objective.corruption import SamplingConfig, special_token_bias
from electralab.objective.electra import electra_forward
from electralab.objective.masking import MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.metrics import RtdScores
from electralab.randomness import Rng
from electralab.records.answers import PlayedToken, PlayResult, PlayScores
from electralab.records.run import GuessedToken
from electralab.serving.inputs import Ids, TextInput, TokenizedText, add_special_ids, tokenize_known
from electralab.serving.mask_filler import MaskFiller
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import Batch, make_batch

# Masks are drawn as if at this step, which training never reaches.
_STEP = -3
_SHOWN_GUESSES = 3


@dataclass(frozen=True, slots=True)
class PlayRequest:
    given: TextInput
    mask_share: float = 0.15
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EncodedPlay:
    text: TokenizedText
    request: PlayRequest


@dataclass(frozen=True, slots=True)
class RowOutputs:
    """What the networks say of some rows, flattened."""

    ranked: dict[int, tuple[GuessedToken, ...]]
    """By the position of a masked token in all rows of the text."""
    logits: NDArray[np.float32]
    is_replaced: NDArray[np.bool_]
    input_ids: Ids


class CorruptionDemo:
    def __init__(self, filler: MaskFiller, discriminator: Discriminator) -> None:
        import sklearn.metrics  # noqa: F401  which a score needs: the first request must not wait for it

        self.filler = filler
        self.discriminator = discriminator.eval()
        self.tokenizer = filler.tokenizer
        self._vocabulary = mask_vocabulary(filler.tokenizer)
        self._logit_bias = special_token_bias(filler.tokenizer, filler.device, filler.generator.config.vocab_size)

    def play(self, given: TextInput, mask_share: float = 0.15, temperature: float = 1.0, seed: int = 0) -> PlayResult:
        return self.answer([self.parse(PlayRequest(given, mask_share, temperature, seed))])[0]

    def parse(self, request: PlayRequest) -> EncodedPlay:
        if not 0 < request.mask_share < 1:
            raise InputError(f"mask_share: is a share between 0 and 1, got {request.mask_share}")
        if not 0 < request.temperature < float("inf"):
            raise InputError(f"temperature: is a number above 0, got {request.temperature}")
        return EncodedPlay(tokenize_known(self.tokenizer, request.given, is_literal=True), request)

    def answer(self, plays: Sequence[EncodedPlay], stop: StopSignal = NO_STOP) -> list[PlayResult]:
        """One after the other: which tokens are masked must depend on the text and its seed alone."""
        return [self._play(play, stop) for play in plays]

    @torch.inference_mode()
    def _play(self, play: EncodedPlay, stop: StopSignal) -> PlayResult:
        ids, special = play.text.ids, self.tokenizer.special
        size = min(net.config.sequence_length for net in (self.filler.generator, self.discriminator)) - 2
        # As in pre-training, a long text is rows one after the other.
        rows = [add_special_ids(ids[start : start + size], special) for start in range(0, len(ids), size)]
        width = max(map(len, rows))
        padded = np.full((len(rows), width), special.pad, dtype=np.int64)
        for padded_row, row in zip(padded, rows, strict=True):
            padded_row[: len(row)] = row
        outputs: list[RowOutputs] = []
        first = 0
        batch = make_batch(padded, self.tokenizer, is_pairs=False)
        for part in batch.split(max(1, self.filler.config.batch_tokens // width)):
            stop.check()
            outputs.append(self._corrupt(part, play.request, first))
            first += len(outputs[-1].logits)
        # Where the text's tokens stand in the flattened rows. (n,)
        positions = np.concatenate([np.arange(1, len(row) - 1) + number * width for number, row in enumerate(rows)])
        return self._describe(play.text, outputs, positions)

    def _corrupt(self, batch: Batch, request: PlayRequest, first: int) -> RowOutputs:
        """`first` is the position of these rows' first token in the flattened rows of the text."""
        masking = MaskingConfig(mask_share=request.mask_share)
        masked = mask_tokens(batch, self._vocabulary, masking, request.mask_share, Rng(request.seed, _STEP))
        masked = masked.to(self.filler.device)
        sampling = SamplingConfig(temperature=request.temperature)
        output = electra_forward(
            Electra(self.filler.generator, self.discriminator, "none"), masked, self._logit_bias, sampling
        )
        ranked = self.filler.rank(output.generator_logits, _SHOWN_GUESSES, request.temperature)
        return RowOutputs(
            {first + position: guesses for position, guesses in zip(masked.positions.tolist(), ranked, strict=True)},
            output.discriminator_logits.float().flatten().cpu().numpy(),
            output.corrupted.is_replaced.flatten().cpu().numpy(),
            output.corrupted.input_ids.flatten().cpu().numpy(),
        )

    def _describe(self, tokenized: TokenizedText, outputs: Sequence[RowOutputs], positions: Ids) -> PlayResult:
        ranked = {position: guesses for output in outputs for position, guesses in output.ranked.items()}
        logits = np.concatenate([output.logits for output in outputs])[positions]
        is_replaced = np.concatenate([output.is_replaced for output in outputs])[positions]
        drawn_ids = np.concatenate([output.input_ids for output in outputs])[positions]
        p_replaced = 1 / (1 + np.exp(-logits.astype(np.float64)))
        tokens = tuple(
            PlayedToken(
                text=tokenized.text[start:end],
                start=start,
                end=end,
                is_masked=position in ranked,
                guesses=ranked.get(position, ()),
                drawn=self.tokenizer.decode_token(drawn) if position in ranked else None,
                is_replaced=replaced,
                p_replaced=p,
                p_original=1.0 - p,
            )
            for position, (start, end), drawn, replaced, p in zip(
                positions.tolist(),
                tokenized.offsets,
                drawn_ids.tolist(),
                is_replaced.tolist(),
                p_replaced.tolist(),
                strict=True,
            )
        )
        replaced, is_suspected = int(is_replaced.sum()), p_replaced > 0.5
        return PlayResult(
            text=tokenized.text,
            corrupted=self._write(tokenized, drawn_ids.tolist(), is_replaced.tolist()),
            tokens=tokens,
            scores=PlayScores(
                masked=len(ranked),
                replaced=replaced,
                restored=len(ranked) - replaced,
                detected=int((is_suspected & is_replaced).sum()),
                false_alarms=int((is_suspected & ~is_replaced).sum()),
                auc=RtdScores(logits, is_replaced).auc if 0 < replaced < len(is_replaced) else None,
            ),
        )

    def _write(self, tokenized: TokenizedText, drawn_ids: list[int], is_replaced: list[bool]) -> str:
        """The text with the replacements in it, joined to what stands before as their tokens say."""
        continues = self.tokenizer.continues_word
        written, end = [], 0
        for (start, stop), original, drawn, replaced in zip(
            tokenized.offsets, tokenized.ids.tolist(), drawn_ids, is_replaced, strict=True
        ):
            # A drawn word may stand where a piece of a word stood, and the other way round.
            gap = tokenized.text[end:start]
            if replaced and continues[drawn]:
                gap = gap.rstrip()
            elif replaced and continues[original]:
                gap = gap or " "
            written += [gap, self.tokenizer.decode_token(drawn) if replaced else tokenized.text[start:stop]]
            end = stop
        return "".join([*written, tokenized.text[end:]])
