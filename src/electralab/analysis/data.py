"""What models are asked about, and how closely: rows of text, and sentences of which something is known.

file, flags -> AnalysisSettings; DATA | TEXT, settings -> AnalysisData
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import numpy as np
from pydantic import Field

from electralab.analysis import probe_sets
from electralab.analysis.finding import Resampler
from electralab.analysis.model import AnalysisModel
from electralab.artifacts import sha256_json
from electralab.config import Alias, Settings
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError
from electralab.evaluation.context import EvalContext
from electralab.evaluation.heldout import HeldoutRows, read_rows
from electralab.randomness import mix
from electralab.runtime import choose_device

T = TypeVar("T")
# A vocabulary that knows the language has pieces of several letters, and few unknown ones.
_PIECES_PER_LETTER = 0.6
_UNKNOWN_SHARE = 0.2


class AnalysisSettings(Settings):
    seed: int = Field(0, ge=0, lt=2**31)
    rows: int = Field(256, ge=1)
    """The most rows of text to look at."""
    row_length: int = Field(128, ge=8)
    """Of rows made of text, where the model could take longer ones; prepared rows have a length of their own."""
    vectors: int = Field(1000, ge=8)
    """The most states of a layer that enter one figure."""
    points: int = Field(600, ge=8)
    """The most points of a picture."""
    mask_share: float = Field(0.15, gt=0, lt=1)
    times: Annotated[int, Alias("num_resamples")] = Field(200, ge=1)
    """How often rows, words or pairs are drawn again for an interval."""
    untrained: bool = True
    """Whether the same network as first drawn is measured beside each model."""
    tagged: str = ""
    """Sentences of words with tags in CoNLL columns; empty for the English ones that come along."""
    pairs: str = ""
    """A table of sentences and changed ones, likewise."""
    analogies: str = ""
    """A table of a, b, c, d, likewise."""
    senses: str = ""
    """A table of words, their senses and sentences, likewise."""
    domains: tuple[str, ...] = ()
    """Texts of other domains, to see how far they are and what a model loses there."""
    runs: str = ""
    """A folder of pre-training runs of several sizes, for the law that they follow."""
    tradeoff: str = ""
    """The folder of an 'electra compress', for what the model's smaller variants cost and gain."""
    examples: str = ""
    """The data of the task that a tuned model was tuned on, to be damaged."""
    classes: str = ""
    """A table of texts with labels; empty for none."""
    batch_tokens: int = Field(4096, ge=1)
    """Tokens that go through a network at once, padding included."""
    device: str = "auto"
    reading: ReadingConfig = ReadingConfig()
    """How text is found in files that are not prepared."""

    def make_rng(self, *stream: str) -> np.random.Generator:
        """By the seed and what it is for, so that no figure depends on which others are asked for."""
        # Stream names are seeds: another name gives other intervals.
        return np.random.default_rng(int(mix(self.seed, *(zlib.crc32(name.encode()) for name in stream))))

    def resampler(self, *stream: str) -> Resampler:
        return Resampler(self.make_rng(*stream), self.times)


@dataclass(frozen=True, slots=True)
class ProbeSet(Generic[T]):
    """Examples, and where they are from: those that come along are English."""

    flag: str
    """The setting that names a file instead."""
    source: str
    items: T
    texts: tuple[str, ...]
    """What a model has to be able to read."""

    def read_by(self, model: AnalysisModel) -> T:
        """Refused where our English would be read letter by letter; what the user gives is taken as it is."""
        tokenizer = model.tokenizer
        if tokenizer.is_symbols:
            raise InputError(f"{model.name}: is a model of symbols, which cannot read sentences; give another model")
        if self.source:
            return self.items
        texts = self.texts[:200]
        ids = [index for row in tokenizer.encode_many(texts) for index in row.tolist()]
        letters = sum(len(text.replace(" ", "")) for text in texts)
        unknown = ids.count(tokenizer.special.unk)
        if len(ids) >= _PIECES_PER_LETTER * letters or unknown >= _UNKNOWN_SHARE * len(ids):
            raise InputError(
                f"{model.name}: its vocabulary does not read the English sentences that come along; "
                f"give some of its language as --{self.flag} FILE"
            )
        return self.items


@dataclass(frozen=True, slots=True)
class AnalysisData:
    data: Path
    tagged: ProbeSet[tuple[probe_sets.TaggedSentence, ...]]
    pairs: ProbeSet[dict[str, tuple[probe_sets.SentencePair, ...]]]
    analogies: ProbeSet[tuple[probe_sets.Analogy, ...]]
    senses: ProbeSet[tuple[probe_sets.SenseSentence, ...]]
    classes: tuple[probe_sets.ClassedText, ...]
    """The user's alone; none come along."""
    settings: AnalysisSettings
    conditions: EvalContext
    _rows: dict[str, HeldoutRows] = field(default_factory=dict)

    def read_rows(self, model: AnalysisModel) -> HeldoutRows:
        """The same rows for all models with one tokenizer and length."""
        length = model.sequence_length
        # Prepared rows have a length of their own; rows made of text may be shorter than what the model takes.
        if not (self.data / "manifest.json").is_file():
            length = min(length, self.settings.row_length)
        # By content and not by model: several runs with one tokenizer read the text once.
        key = sha256_json([model.tokenizer.to_json(), length])
        if key not in self._rows:
            reading = self.settings.reading
            self._rows[key] = read_rows(self.data, model.tokenizer, length, self.settings.rows, reading)
        return self._rows[key]

    def fingerprint(self, model: AnalysisModel) -> str:
        """A hash of all that this model is asked about."""
        try:
            rows = sha256_json(self.read_rows(model).ids.tolist())
        except InputError as error:
            rows = str(error)
        sets = (self.tagged.items, self.pairs.items, self.analogies.items, self.senses.items, self.classes)
        # The class of pairs was once called Pair: what was measured then need not be measured again.
        return sha256_json([rows, *(repr(items).replace("SentencePair(", "Pair(") for items in sets)])


def load_analysis_data(
    data: Path, settings: AnalysisSettings, check: Callable[[], None] = lambda: None
) -> AnalysisData:
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give prepared data or text")
    conditions = EvalContext(
        seed=settings.seed,
        batch_tokens=settings.batch_tokens,
        device=str(choose_device(settings.device)),
        reading=settings.reading,
        check=check,
    )
    tagged = probe_sets.read_tagged(settings.tagged)
    pairs = probe_sets.read_pairs(settings.pairs)
    analogies = probe_sets.read_analogies(settings.analogies)
    senses = probe_sets.read_senses(settings.senses)
    sources = tuple(pair.source for group in pairs.values() for pair in group)
    return AnalysisData(
        data,
        ProbeSet("tagged", settings.tagged, tagged, tuple(" ".join(sentence.words) for sentence in tagged)),
        ProbeSet("pairs", settings.pairs, pairs, sources),
        ProbeSet("analogies", settings.analogies, analogies, tuple(f"{four.a} {four.b}" for four in analogies)),
        ProbeSet("senses", settings.senses, senses, tuple(sentence.sentence for sentence in senses)),
        probe_sets.read_classes(Path(settings.classes)) if settings.classes else (),
        settings,
        conditions,
    )
