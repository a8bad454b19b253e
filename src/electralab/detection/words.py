"""What is known of each word of a text: what both networks make of it, how often it was seen, what it may have been.

ScoredText -> Words: their places and (W, F) features
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import category, normalize

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
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
# What may stand between the end of a sentence and the first word of the next, and what ends one.
_OPENING = "\"'“”„‘’«»‹›([{*_-–—¿¡"
_ENDING = ".!?…:。！？"
_LONGEST_ABBREVIATION = 3
# So many tokens of a long text are read again on each side of those that are asked about, as their context.
_MARGIN = 16
# Accents written by themselves and invisible characters.
_MARKS = ("Mn", "Me", "Cf")
# Of so many words one is hidden in a pass of the generator: the context of each is nearly whole.
_HIDDEN_EVERY = 6
# How surprising a token may be, in nats, and how replaced it may look, before words close to it are looked for.
_DOUBTFUL_SURPRISE, _DOUBTFUL_LOGIT = 3.0, -1.5
# Of a word that is one token, so frequent (minus the logarithm of its share) and so unlikely replaced the generator is
# not asked: to hide each word is what costs, and half of all words are such.
_SURE_RARITY, _SURE_LOGIT = 9.0, -2.0
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
        counts = Counter(word for text in texts for word in _COUNTED.findall(fold(text)))
        return cls(dict(counts.most_common(most_words)), counts.total())

    def times(self, word: str) -> int:
        """How often it was seen; 0 of one that was seen less often than `least`."""
        return self.counts.get(fold(word), 0)

    @cached_property
    def least(self) -> int:
        """How often a word must have stood there to be kept: 1 where all words are."""
        kept = self.counts.values()
        return min(kept, default=1) if sum(kept) < self.total else 1

    def is_seen(self, word: str) -> bool:
        return fold(word) in self.counts

    def rarity(self, word: str) -> float:
        """Minus the logarithm of its share of all words; of one that was never seen, of half a word."""
        return -math.log((self.times(word) + 0.5) / (self.total + 1))


def fold(text: str) -> str:
    """As words are counted: small, accents on their letters, ligatures spelt out, without invisible characters.

    >>> fold("E\\u0301t\\u00e9"), fold("ef\\ufb01\\u00adcient")
    ('été', 'efficient')
    """
    return text.lower() if text.isascii() else _INVISIBLE.sub("", normalize("NFKC", text).lower())


def begins_sentence(text: str, start: int) -> bool:
    """Whether a capital there says nothing of the word. What ends in a short word with a capital, such as "Mr.", is no
    sentence.

    >>> text = 'He saw Mr. Bell. "Come in," he said.'
    >>> [text[at : at + 4] for at, letter in enumerate(text) if letter.isupper() and begins_sentence(text, at)]
    ['He s', 'Come']
    """
    at = start
    while at and (text[at - 1].isspace() or text[at - 1] in _OPENING):
        at -= 1
        if text[at] == "\n":
            return True
    if not at or text[at - 1] not in _ENDING:
        return not at
    before = at = at - 1
    while at and text[at - 1].isalpha() and before - at <= _LONGEST_ABBREVIATION:
        at -= 1
    return not (text[before] == "." and 0 < before - at <= _LONGEST_ABBREVIATION and text[at].isupper())


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
    "rarity_of_names",  # the same for words with a capital within a sentence, which are names more often
    "rarity_of_letters",  # and for words that are no numbers
    "unseen",
    "unseen_name",
    "unseen_first",  # with a capital that begins a sentence, which may be a name or not
    "pieces",  # whether it is cut into several tokens
    "pieces_and_rare",
    "pieces_per_letter",
    "unknown",  # whether the vocabulary has no such token
    "number",  # whether it has digits and no letters
    "capital",  # within a sentence
    "slip",  # how much likelier a word is that differs in a letter or two, the slip paid for
    "likely_slip",
)


GUESSED = ("surprise", "rank", "best", "p_best")
"""What a generator says of a symbol that is hidden: minus log p of it, how many are likelier, the id of the likeliest
and its probability."""


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
        return Lexicon(self.tokenizer, self.frequencies)

    def read(self, texts: Sequence[ScoredText], stop: StopSignal = NO_STOP) -> list[Words]:
        spans = [split_words(text.text, text.ids, text.offsets, self.tokenizer) for text in texts]
        counts = [len(text.ids) for text in texts]
        # Of each token: minus log p, how many tokens are likelier, the entropy there.
        guessed = [np.zeros((count, 3)) for count in counts]
        slips = [[Slip(_NO_SLIP)] * len(words) for words in spans]
        if self.generator is not None:
            self._guess_tokens(texts, spans, guessed, slips, stop)
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
        is_first = begins_sentence(text.text, word.start)
        has_capital, is_cut = written[:1].isupper(), count > 1
        is_name = has_capital and not is_first
        # A letter misread as a digit makes no number of a word.
        is_number = any(map(str.isdigit, written)) and not any(map(str.isalpha, written))
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
            "rarity_of_letters": rarity * (not is_number),
            "unseen": not is_seen,
            "unseen_name": not is_seen and is_name,
            "unseen_first": not is_seen and has_capital and is_first,
            "pieces": is_cut,
            "pieces_and_rare": rarity * is_cut,
            "pieces_per_letter": count / len(written),
            "unknown": bool((text.ids[tokens] == self.tokenizer.special.unk).any()),
            "number": is_number,
            "capital": is_name,
            "slip": slip,
            "likely_slip": max(slip, 0.0),
        }
        return [float(values[name]) for name in FEATURES]

    def _guess_tokens(
        self,
        texts: Sequence[ScoredText],
        spans: Sequence[Sequence[WordSpan]],
        guessed: list[Floats],
        slips: list[list[Slip]],
        stop: StopSignal,
    ) -> None:
        """With whole words hidden, by as many masks as they have tokens; one mask also shows what may be meant."""
        mask, size = self.tokenizer.special.mask, self._row_size
        rows: list[Ids] = []
        places: list[list[tuple[int, int]]] = []  # of each row, (column, token of the text) of what is hidden
        owners: list[int] = []
        single: list[dict[int, int]] = []  # of each text, the token of a word that is one, and which word it is
        for number, (text, words) in enumerate(zip(texts, spans, strict=True)):
            single.append({word.first: index for index, word in enumerate(words) if word.after - word.first == 1})
            for chunk, inner in cut_stretches(words, size, _MARGIN):
                start, after = chunk[0].first, min(chunk[-1].after, chunk[0].first + size)
                asked = [word for word in chunk[inner] if not self._is_sure(text, word)]
                passes = count_passes(len(asked), len(chunk))
                for offset in range(passes):
                    hidden = [
                        index for word in asked[offset::passes] for index in range(word.first, min(word.after, after))
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
            doubtful: list[tuple[int, int, int]] = []  # (cell, text, word)
            for cell, ((row_number, index), value) in enumerate(zip(cells, values, strict=True)):
                number = owners[row_number]
                guessed[number][index] = value
                place = single[number].get(index)
                if place is not None and self._is_doubtful(texts[number], spans[number][place], guessed[number]):
                    doubtful.append((cell, number, place))
            self._compare(texts, spans, doubtful, log_probs, slips)

    def _compare(
        self,
        texts: Sequence[ScoredText],
        spans: Sequence[Sequence[WordSpan]],
        doubtful: Sequence[tuple[int, int, int]],
        log_probs: Tensor,
        slips: list[list[Slip]],
    ) -> None:
        """(cell of the log probabilities, text, word) -> what else may have been meant by the word."""
        written = []
        for _, number, place in doubtful:
            span = spans[number][place]
            written.append(texts[number].text[span.start : span.end])
        self._lexicon.learn_distances(written)
        rows = log_probs[[cell for cell, _, _ in doubtful]].double().numpy()
        for (_, number, place), word, row in zip(doubtful, written, rows, strict=True):
            slips[number][place] = self._lexicon.find_slip(word, row, _NO_SLIP)

    def _is_sure(self, text: ScoredText, word: WordSpan) -> bool:
        if word.after - word.first > 1 or float(text.logits[word.first]) > _SURE_LOGIT:
            return False
        written = text.text[word.start : word.end]
        return not any(map(str.isalnum, written)) or self.frequencies.rarity(written) < _SURE_RARITY

    def _find_slips(
        self,
        texts: Sequence[ScoredText],
        spans: Sequence[Sequence[WordSpan]],
        guessed: Sequence[Floats],
        slips: list[list[Slip]],
        stop: StopSignal,
    ) -> None:
        """Of doubtful words of several tokens, each hidden by one mask: log p of the best close word, less its own."""
        mask, size = self.tokenizer.special.mask, self._row_size
        rows: list[Ids] = []
        places: list[list[tuple[int, int]]] = []
        owners: list[int] = []
        for number, (text, words) in enumerate(zip(texts, spans, strict=True)):
            order = {word: index for index, word in enumerate(words)}
            for chunk, inner in cut_stretches(words, size, _MARGIN):
                doubtful = [
                    word
                    for word in chunk[inner]
                    if word.after - word.first > 1 and self._is_doubtful(text, word, guessed[number])
                ]
                passes = count_passes(len(doubtful), len(chunk))
                for offset in range(passes):
                    hidden = set(doubtful[offset::passes])
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
            compared = [(cell, owners[row], index) for cell, (row, index) in enumerate(cells)]
            self._compare(texts, spans, compared, log_probs, slips)

    def guess_symbols(self, rows: Sequence[Ids], stop: StopSignal) -> list[Floats]:
        """(n, len(GUESSED)) of the symbols of each row, each hidden by itself; 0 without a generator."""
        guessed = [np.zeros((len(ids), len(GUESSED))) for ids in rows]
        if self.generator is None:
            return guessed
        masked: list[Ids] = []
        places: list[list[tuple[int, int]]] = []
        owners: list[int] = []
        for number, ids in enumerate(rows):
            for start in range(0, len(ids), self._row_size):
                chunk = ids[start : start + self._row_size]
                for offset in range(min(_HIDDEN_EVERY, len(chunk))):
                    row = chunk.copy()
                    row[offset::_HIDDEN_EVERY] = self.tokenizer.special.mask
                    masked.append(row)
                    places.append([(column, start + column) for column in range(offset, len(chunk), _HIDDEN_EVERY)])
                    owners.append(number)
        for cells, log_probs in self._log_probs(masked, places, stop):
            true_ids = torch.tensor([int(rows[owners[number]][index]) for number, index in cells])
            own = log_probs.gather(1, true_ids[:, None])  # (m, 1)
            best, best_ids = log_probs.max(dim=1)
            surprise = (-own.squeeze(1)).clamp(max=_MOST_SURPRISING)
            columns = [surprise, (log_probs > own).sum(dim=1).float(), best_ids.float(), best.exp()]
            for (number, index), values in zip(cells, torch.stack(columns, dim=1).double().numpy(), strict=True):
                guessed[owners[number]][index] = values
        return guessed

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


def count_passes(hidden: int, words: int) -> int:
    """In how many passes so many of the words are hidden, so that in each no more than one in six is.

    >>> [count_passes(hidden, 60) for hidden in (60, 30, 3, 0)]
    [6, 3, 1, 0]
    """
    return min(hidden, math.ceil(_HIDDEN_EVERY * hidden / words))


# Nats: beyond it a guess says no more.
_MOST_SURPRISING = 30.0


def cut_stretches(words: Sequence[WordSpan], size: int, margin: int) -> Iterator[tuple[Sequence[WordSpan], slice]]:
    """Words one after the other that fit a row together, and which of them to ask about: each word in one stretch, with
    about `margin` tokens of context on both sides where the text has them. A word that fits no row is alone.

    >>> words = [WordSpan(index, index + 1, index, index + 1) for index in range(10)]
    >>> [(words[0].first, words[-1].after, inner) for words, inner in cut_stretches(words, 6, 1)]
    [(0, 6, slice(0, 5, None)), (4, 10, slice(1, 6, None))]
    """
    asked = 0
    while asked < len(words):
        first = asked
        while first and words[asked].first - words[first - 1].first <= margin:
            first -= 1
        if words[asked].after - words[first].first > size:
            first = asked
        after = asked + 1
        while after < len(words) and words[after].after - words[first].first <= size:
            after += 1
        end = after
        while after < len(words) and end - 1 > asked and words[after - 1].after - words[end - 1].first <= margin:
            end -= 1
        yield words[first:after], slice(asked - first, end - first)
        asked = end
