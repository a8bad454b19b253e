"""A vocabulary of ten and rows of eight: small enough to check by eye."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from electralab.objective.masking import MaskVocabulary
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import SpecialIds

PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB = 10
ORDINARY = np.array([False] * 5 + [True] * 5)
CONTINUES = np.arange(VOCAB) >= 8  # 8 and 9 are pieces like "##ing"
VOCABULARY = MaskVocabulary(MASK, np.flatnonzero(ORDINARY), CONTINUES)
PROHIBITION = torch.from_numpy(np.where(ORDINARY, 0.0, -np.inf).astype(np.float32))


@dataclass(frozen=True)
class ToyTokenizer:
    special: SpecialIds = field(default_factory=lambda: SpecialIds(pad=PAD, unk=UNK, cls=CLS, sep=SEP, mask=MASK))
    is_ordinary: NDArray[np.bool_] = field(default_factory=lambda: ORDINARY)
    continues_word: NDArray[np.bool_] = field(default_factory=lambda: CONTINUES)


def toy_batch(*rows: list[int]) -> Batch:
    from electralab.tokens.batches import make_batch

    return make_batch(np.array(rows, dtype=np.int64), ToyTokenizer(), is_pairs=False)  # type: ignore[arg-type]


def full_rows(count: int, length: int = 8) -> Batch:
    inner = [[5 + (row + column) % 5 for column in range(length - 2)] for row in range(count)]
    return toy_batch(*([CLS, *ids, SEP] for ids in inner))


class PerfectGenerator(nn.Module):
    """Knows every answer: its guess is the original."""

    reads_masked = True

    def __init__(self, original_ids: Tensor) -> None:
        super().__init__()
        self.original_ids = original_ids

    def forward(self, _ids: Tensor, _segments: Tensor, _pad: Tensor | None, positions: Tensor) -> Tensor:
        answers = self.original_ids.flatten()[positions]
        return nn.functional.one_hot(answers, VOCAB).float() * 100


class StubbornGenerator(nn.Module):
    """Always guesses the same token."""

    reads_masked = True

    def __init__(self, answer: int) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, _ids: Tensor, _segments: Tensor, _pad: Tensor | None, positions: Tensor) -> Tensor:
        return nn.functional.one_hot(torch.full_like(positions, self.answer), VOCAB).float() * 100


class RecordingDiscriminator(nn.Module):
    """Says nothing (logit 0) and remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, _trace: object = None) -> Tensor:
        self.seen.append((input_ids, segment_ids, is_pad))
        return torch.zeros(input_ids.shape)


class ToyPair(nn.Module):
    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator = generator
        self.discriminator = discriminator
