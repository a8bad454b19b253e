"""What models are asked about: rows of text, and sentences of which something is known.

DATA | TEXT, settings -> AnalysisData
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from electralab.analysis.model import AnalysisModel
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
from electralab.artifacts import sha256_json
from electralab.errors import InputError
from electralab.evaluation.context import EvalContext
from electralab.evaluation.heldout import HeldoutRows, read_rows
from electralab.runtime import choose_device

T = TypeVar("T")
# A vocabulary that knows the language has pieces of several letters, and few unknown ones.
_PIECES_PER_LETTER = 0.6
_UNKNOWN_SHARE = 0.2


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
    tagged: ProbeSet[tuple[TaggedSentence, ...]]
    pairs: ProbeSet[dict[str, tuple[SentencePair, ...]]]
    analogies: ProbeSet[tuple[Analogy, ...]]
    senses: ProbeSet[tuple[SenseSentence, ...]]
    classes: tuple[ClassedText, ...]
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
    tagged = read_tagged(Path(settings.tagged)) if settings.tagged else read_tagged()
    pairs = read_pairs(Path(settings.pairs)) if settings.pairs else read_pairs()
    analogies = read_analogies(Path(settings.analogies)) if settings.analogies else read_analogies()
    senses = read_senses(Path(settings.senses)) if settings.senses else read_senses()
    sources = tuple(pair.source for group in pairs.values() for pair in group)
    return AnalysisData(
        data,
        ProbeSet("tagged", settings.tagged, tagged, tuple(" ".join(sentence.words) for sentence in tagged)),
        ProbeSet("pairs", settings.pairs, pairs, sources),
        ProbeSet("analogies", settings.analogies, analogies, tuple(f"{four.a} {four.b}" for four in analogies)),
        ProbeSet("senses", settings.senses, senses, tuple(sentence.sentence for sentence in senses)),
        read_classes(Path(settings.classes)) if settings.classes else (),
        settings,
        conditions,
    )
