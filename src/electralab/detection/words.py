"""What is known of each word of a text: what both networks make of it, how often it was seen, what it may have been.

ScoredText -> Words: their places and (W, F) features
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import category

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.corpus.scripts import SPACELESS
from electralab.detection.lexicon import Lexicon, Slip
from electralab.model.electra import TokenModel
from electralab.objective.corruption import special_token_bias
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_COUNTED = re.compile(f"[{SPACELESS}]|[^\\W{SPACELESS}]+")
# Accents written by themselves and invisible characters.
_MARKS = ("Mn", "Me", "Cf")
# Words that are hidden in one pass of the generator stand so far apart: the context of each is nearly whole.
_HIDDEN_EVERY = 6
# How surprising a token may be, in nats, and how replaced it may look, before words close to it are looked for.
_DOUBTFUL_SURPRISE, _DOUBTFUL_LOGIT = 3.0, -1.5
# What is said of a word that was not looked at so closely, or has no word close to it.
_NO_SLIP = -12.0


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A text as tokens, and what the discriminator says of each."""

    text: str
    ids: Ids  # (n,)
    offsets: Sequence[tuple[int, int]]
    logits: Floats  # (n,) above 0 means "replaced"


@dataclass(frozen=True, slots=True)
class WordSpan:
    """A word's characters, and its tokens."""

    start: int
    end: int
    first: int
    after: int


def split_words(text: str, ids: Ids, offsets: Sequence[tuple[int, int]], tokenizer: Tokenizer) -> list[WordSpan]:
    """Tokens that continue the one before are one word with it, and so are tokens on the same characters."""
    words: list[WordSpan] = []
    for index, ((start, end), continues) in enumerate(zip(offsets, tokenizer.continues_word[ids], strict=True)):
        first = index
        if words:
            last = words[-1]
            # Marks that the tokenizer leaves out, such as accents written by themselves, do not separate words.
            is_next = continues and all(category(char) in _MARKS for char in text[last.end : start])
            if start < last.end or is_next:
                words.pop()
                start, end, first = last.start, max(last.end, end), last.first
        while end < len(text) and category(text[end]) in _MARKS:
            end += 1
        words.append(WordSpan(start, end, first, index + 1))
    return words


class WordFrequencies:
    """How often each word stood in the text that a model learned from, case aside.

    >>> frequencies = WordFrequencies.count(["The sea, the Sea."])
    >>> round(frequencies.rarity("the"), 2), frequencies.rarity("ship") > frequencies.rarity("sea")
    (0.69, True)
    """

    def __init__(self, counts: dict[str, int], total: int) -> None:
        self.counts, self.total = counts, total

    @classmethod
    def count(cls, texts: Iterable[str], most_words: int = 100_000) -> "WordFrequencies":
        counts = Counter(word for text in texts for word in _COUNTED.findall(text.lower()))
        return cls(dict(counts.most_common(most_words)), counts.total())

    def is_seen(self, word: str) -> bool:
        return word.lower() in self.counts

    def rarity(self, word: str) -> float:
        """Minus the logarithm of its share of all words; of one that was never seen, of half a word."""
        return -math.log((self.counts.get(word.lower(), 0) + 0.5) / (self.total + 1))


FEATURES = (
    "replaced",  # the discriminator's logit: the highest of the word's tokens
    "replaced_mean",  # and their mean
    "replaced_and_rare",
    "surprise",  # -log p of the generator with the whole word hidden, summed over its tokens
    "surprise_mean",
    "surprise_beyond_rarity",  # what the context adds to how rare the word is
    "rank",  # log of how many tokens the generator finds likelier, the worst of the word
    "entropy_left",  # how unsure the generator is, less its surprise
    "rarity",
    "rarity_of_names",  # the same for words that begin with a capital, which are names more often
    "rarity_of_letters",  # and for words of letters alone
    "unseen",
    "unseen_name",
    "pieces",  # whether it is cut into several tokens
    "pieces_and_rare",
    "pieces_per_letter",
    "unknown",  # whether the vocabulary has no such token
    "digits",
    "capital",
    "slip",  # how much likelier a word is that differs in a letter or two, the slip paid for
    "likely_slip",
)


@dataclass(frozen=True, slots=True)
class Words:
    spans: list[WordSpan]
    features: Floats  # (W, F), in the order of FEATURES
    slips: Sequence[Slip] = ()
    """Of each word."""


class WordReader:
    """Computes the features. Without a generator those that it gives are 0."""

    def __init__(
        self, tokenizer: Tokenizer, generator: TokenModel | None, frequencies: WordFrequencies, batch_tokens: int = 4096
    ) -> None:
        self.tokenizer, self.generator, self.frequencies = tokenizer, generator, frequencies
        self.batch_tokens = batch_tokens

    @cached_property
    def _lexicon(self) -> Lexicon:
        return Lexicon(self.tokenizer)

    def read(self, texts: Sequence[ScoredText], stop: StopSignal = NO_STOP) -> list[Words]:
        spans = [split_words(text.text, text.ids, text.offsets, self.tokenizer) for text in texts]
        counts = [len(text.ids) for text in texts]
        # Of each token: minus log p, how many tokens are likelier, the entropy there.
        guessed = [np.zeros((count, 3)) for count in counts]
        slips = [[Slip(_NO_SLIP)] * len(words) for words in spans]
        if self.generator is not None:
            self._guess_tokens(texts, spans, guessed, stop)
            self._find_slips(texts, spans, guessed, slips, stop)
        return [
            Words(
                words,
                np.array(
                    [self._describe(text, word, rows, slip.gain) for word, slip in zip(words, near, strict=True)]
                ).reshape(-1, len(FEATURES)),
                near,
            )
            for text, words, rows, near in zip(texts, spans, guessed, slips, strict=True)
        ]

    def _describe(self, text: ScoredText, word: WordSpan, guessed: Floats, slip: float) -> list[float]:
        written = text.text[word.start : word.end]
        tokens = slice(word.first, word.after)
        logits, count = text.logits[tokens], word.after - word.first
        surprise, ranks, entropies = guessed[tokens].T
        rarity, is_seen = self.frequencies.rarity(written), self.frequencies.is_seen(written)
        is_name, is_cut = written[:1].isupper(), count > 1
        values: dict[str, float] = {
            "replaced": logits.max(),
            "replaced_mean": logits.mean(),
            "replaced_and_rare": logits.max() * rarity,
            "surprise": surprise.sum(),
            "surprise_mean": surprise.mean(),
            "surprise_beyond_rarity": surprise.sum() - rarity,
            "rank": math.log1p(ranks.max()),
            "entropy_left": entropies.mean() - surprise.mean(),
            "rarity": rarity,
            "rarity_of_names": rarity * is_name,
            "rarity_of_letters": rarity * written.isalpha(),
            "unseen": not is_seen,
            "unseen_name": not is_seen and is_name,
            "pieces": is_cut,
            "pieces_and_rare": rarity * is_cut,
            "pieces_per_letter": count / len(written),
            "unknown": bool((text.ids[tokens] == self.tokenizer.special.unk).any()),
            "digits": any(map(str.isdigit, written)),
            "capital": is_name,
            "slip": slip,
            "likely_slip": max(slip, 0.0),
        }
        return [float(values[name]) for name in FEATURES]

    def _guess_tokens(
        self, texts: Sequence[ScoredText], spans: Sequence[Sequence[WordSpan]], guessed: list[Floats], stop: StopSignal
    ) -> None:
        """With whole words hidden, by as many masks as they have tokens."""
        mask, size = self.tokenizer.special.mask, self._row_size
        rows: list[Ids] = []
        places: list[list[tuple[int, int]]] = []  # of each row, (column, token of the text) of what is hidden
        owners: list[int] = []
        for number, (text, words) in enumerate(zip(texts, spans, strict=True)):
            for chunk in _cut(words, size):
                start, after = chunk[0].first, min(chunk[-1].after, chunk[0].first + size)
                for offset in range(min(_HIDDEN_EVERY, len(chunk))):
                    hidden = [
                        index
                        for word in chunk[offset::_HIDDEN_EVERY]
                        for index in range(word.first, min(word.after, after))
                    ]
                    row = text.ids[start:after].copy()
                    row[np.array(hidden) - start] = mask
                    rows.append(row)
                    places.append([(index - start, index) for index in hidden])
                    owners.append(number)
        for cells, log_probs in self._log_probs(rows, places, stop):
            true_ids = torch.tensor([int(texts[owners[number]].ids[index]) for number, index in cells])
            own = log_probs.gather(1, true_ids[:, None])  # (m, 1)
            # A token that nothing may sample, such as [UNK], is as surprising as can be, not infinitely so.
            surprise = (-own.squeeze(1)).clamp(max=_MOST_SURPRISING)
            ranks = (log_probs > own).sum(dim=1)
            entropies = -(log_probs.exp() * log_probs.clamp(min=-_MOST_SURPRISING)).sum(dim=1)
            values = torch.stack([surprise, ranks.float(), entropies], dim=1).double().numpy()
            for (number, index), value in zip(cells, values, strict=True):
                guessed[owners[number]][index] = value

    def _find_slips(
        self,
        texts: Sequence[ScoredText],
        spans: Sequence[Sequence[WordSpan]],
        guessed: Sequence[Floats],
        slips: list[list[Slip]],
        stop: StopSignal,
    ) -> None:
        """Of doubtful words, each hidden by one mask: log p of the best word close to it, less its own."""
        mask, size = self.tokenizer.special.mask, self._row_size
        rows: list[Ids] = []
        places: list[list[tuple[int, int]]] = []
        owners: list[int] = []
        for number, (text, words) in enumerate(zip(texts, spans, strict=True)):
            order = {word: index for index, word in enumerate(words)}
            for chunk in _cut(words, size):
                doubtful = [word for word in chunk if self._is_doubtful(text, word, guessed[number])]
                for offset in range(min(_HIDDEN_EVERY, len(doubtful))):
                    hidden = set(doubtful[offset::_HIDDEN_EVERY])
                    ids: list[int] = []
                    at: list[tuple[int, int]] = []
                    for word in chunk:
                        if word in hidden:
                            at.append((len(ids), order[word]))
                        ids += [mask] if word in hidden else text.ids[word.first : word.after].tolist()
                    rows.append(np.array(ids[:size], dtype=np.int64))
                    places.append([place for place in at if place[0] < size])
                    owners.append(number)
        for cells, log_probs in self._log_probs(rows, places, stop):
            for (row, index), word_log_probs in zip(cells, log_probs.double().numpy(), strict=True):
                word = spans[owners[row]][index]
                written = texts[owners[row]].text[word.start : word.end]
                slips[owners[row]][index] = self._lexicon.find_slip(written, word_log_probs, _NO_SLIP)

    def _is_doubtful(self, text: ScoredText, word: WordSpan, guessed: Floats) -> bool:
        written, tokens = text.text[word.start : word.end], slice(word.first, word.after)
        if not written.isalpha():
            return False
        is_surprising = float(guessed[tokens, 0].mean()) > _DOUBTFUL_SURPRISE
        return is_surprising or float(text.logits[tokens].max()) > _DOUBTFUL_LOGIT

    @property
    def _row_size(self) -> int:
        assert self.generator is not None
        return self.generator.config.sequence_length - 2

    @torch.inference_mode()
    def _log_probs(
        self, rows: Sequence[Ids], places: Sequence[Sequence[tuple[int, int]]], stop: StopSignal
    ) -> Iterator[tuple[list[tuple[int, int]], Tensor]]:
        """Of rows without [CLS] and [SEP], at their places: [(row, what the place stands for)], (m, V) log p."""
        assert self.generator is not None
        special, generator = self.tokenizer.special, self.generator.eval()
        device = next(generator.parameters()).device
        bias = special_token_bias(self.tokenizer, device, generator.config.vocab_size)
        framed = [np.concatenate([[special.cls], row, [special.sep]]) for row in rows]
        for batch in batch_by_length(framed, special, self.batch_tokens, device):
            stop.check()
            width = batch.input_ids.shape[1]
            cells, positions = [], []
            for index, row in enumerate(batch.rows.tolist()):
                for column, meaning in places[row]:
                    positions.append(index * width + column + 1)
                    cells.append((row, meaning))
            inputs = batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad
            logits = generator(*inputs, torch.tensor(positions, dtype=torch.int64, device=device))  # (m, V)
            yield cells, torch.log_softmax(logits.float() + bias, dim=-1).cpu()


# Nats: beyond it a guess says no more.
_MOST_SURPRISING = 30.0


def _cut(words: Sequence[WordSpan], size: int) -> Iterator[list[WordSpan]]:
    """Words one after the other that fit a row together; one that fits no row is alone."""
    chunk: list[WordSpan] = []
    for word in words:
        if chunk and word.after - chunk[0].first > size:
            yield chunk
            chunk = []
        chunk.append(word)
    if chunk:
        yield chunk
