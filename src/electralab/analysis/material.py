"""What models are asked about: rows of text, and sentences of which something is known.

DATA | TEXT, settings -> Material
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from electralab.analysis.probe_sets import (
    Analogy,
    ClassedText,
    SenseSentence,
    SentencePair,
    TaggedSentence,
    read_analogies,
    read_classes,
    read_pairs,
    read_senses,
    read_tagged,
)
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.artifacts import sha256_json
from electralab.errors import InputError
from electralab.evaluation.heldout_rows import HeldoutRows, read_rows
from electralab.evaluation.outcome import Conditions
from electralab.runtime import choose_device
from electralab.tokens.tokenizer import Tokenizer

T = TypeVar("T")
# A vocabulary that knows the language has pieces of several letters, and few unknown ones.
_PIECES_PER_LETTER = 0.6
_UNKNOWN_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class LabelledSet(Generic[T]):
    """Examples, and where from: those that come along are English."""

    flag: str
    """The setting that names a file instead."""
    source: str
    items: T
    texts: tuple[str, ...]
    """What a model has to be able to read."""

    def read_by(self, specimen: Specimen) -> T:
        """Refused where our English would be read letter by letter; what the user gives is taken as it is."""
        tokenizer = specimen.tokenizer
        if tokenizer.is_symbols:
            raise InputError(f"{specimen.name}: is a model of symbols, which cannot read sentences; give another model")
        if not self.source and not _knows(tokenizer, self.texts):
            raise InputError(
                f"{specimen.name}: its vocabulary does not read the English sentences that come along; "
                f"give some of its language as --{self.flag} FILE"
            )
        return self.items


def _knows(tokenizer: Tokenizer, texts: Sequence[str]) -> bool:
    ids = [index for row in tokenizer.encode_many(texts[:200]) for index in row.tolist()]
    letters = sum(len(text.replace(" ", "")) for text in texts[:200])
    unknown = ids.count(tokenizer.special.unk)
    return len(ids) < _PIECES_PER_LETTER * letters and unknown < _UNKNOWN_SHARE * len(ids)


@dataclass(frozen=True, slots=True)
class Material:
    data: Path
    tagged: LabelledSet[tuple[TaggedSentence, ...]]
    pairs: LabelledSet[dict[str, tuple[SentencePair, ...]]]
    analogies: LabelledSet[tuple[Analogy, ...]]
    senses: LabelledSet[tuple[SenseSentence, ...]]
    classes: tuple[ClassedText, ...]
    """Of the user's alone; none come along."""
    settings: AnalysisSettings
    conditions: Conditions
    _rows: dict[str, HeldoutRows] = field(default_factory=dict)

    def read_rows(self, specimen: Specimen) -> HeldoutRows:
        """The same rows for all models with one tokenizer and length."""
        length = specimen.sequence_length
        if not (self.data / "manifest.json").is_file():
            length = min(length, self.settings.row_length)
        key = sha256_json([specimen.tokenizer.to_json(), length])
        if key not in self._rows:
            reading = self.settings.reading
            self._rows[key] = read_rows(self.data, specimen.tokenizer, length, self.settings.rows, reading)
        return self._rows[key]

    def identify(self, specimen: Specimen) -> str:
        """A hash of all that this model is asked about."""
        try:
            rows = sha256_json(self.read_rows(specimen).ids.tolist())
        except InputError as error:
            rows = str(error)
        sets = (self.tagged.items, self.pairs.items, self.analogies.items, self.senses.items, self.classes)
        # The class of pairs was once called Pair: what was measured then need not be measured again.
        return sha256_json([rows, *(repr(items).replace("SentencePair(", "Pair(") for items in sets)])


def gather_material(data: Path, settings: AnalysisSettings, check: Callable[[], None] = lambda: None) -> Material:
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give prepared data or text")
    conditions = Conditions(
        seed=settings.seed,
        batch_tokens=settings.batch_tokens,
        device=str(choose_device(settings.device)),
        reading=settings.reading,
        check=check,
    )
    tagged = read_tagged(Path(settings.tagged)) if settings.tagged else read_tagged()
    pairs = read_pairs(Path(settings.pairs)) if settings.pairs else read_pairs()
    analogies = read_analogies(Path(settings.analogies)) if settings.analogies else read_analogies()
    senses = read_senses(Path(settings.senses)) if settings.senses else read_senses()
    return Material(
        data,
        LabelledSet("tagged", settings.tagged, tagged, tuple(" ".join(one.words) for one in tagged)),
        LabelledSet("pairs", settings.pairs, pairs, tuple(_list_sources(pairs.values()))),
        LabelledSet("analogies", settings.analogies, analogies, tuple(f"{one.a} {one.b}" for one in analogies)),
        LabelledSet("senses", settings.senses, senses, tuple(one.sentence for one in senses)),
        read_classes(Path(settings.classes)) if settings.classes else (),
        settings,
        conditions,
    )


def _list_sources(pairs: Iterable[Sequence[SentencePair]]) -> Iterable[str]:
    return (pair.source for of_kind in pairs for pair in of_kind)
