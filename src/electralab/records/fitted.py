"""What `fit` writes down: the run, its leaderboard, the model that it exports, and the parts of a linear model.

run folder <-> FitRun, FitResults; model folder <-> FittedModel, StoredLinear
"""

from typing import ClassVar, Literal

from pydantic import Field

from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record
from electralab.records.tuned import ClassReport, Score, Scores, SplitSummary

EntryName = Literal["encoder", "linear", "blend"]
"""A tuned encoder, a linear model over TF-IDF, and both together."""


class StoredFeatures(Record):
    """The vocabularies of TF-IDF, each term at the place of its column, and of pairs what scales what they share."""

    words: tuple[str, ...] = ()
    characters: tuple[str, ...] = ()
    rarity: tuple[dict[str, float], ...] = ()
    """Of pairs, by bag: how rare an item is; under the empty string one that was never seen."""
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()


class StoredLinear(FileRecord):
    """A linear model without its numbers, which linear.safetensors has."""

    FILE: ClassVar[str] = "linear.json"
    labels: tuple[str, ...]
    """In the order of its outputs; none of a regression."""
    features: StoredFeatures


class BlendWeights(Record):
    """A linear map of what several models say of a row: (outputs, features) over features scaled by mean and scale."""

    labels: tuple[str, ...]
    """None where numbers are blended."""
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    intercept: tuple[float, ...]


class FittedModel(FileRecord):
    """What a folder with a fitted model holds: `encoder-1/`, … and `linear/`, as far as its entry needs them."""

    FILE: ClassVar[str] = "fitted.json"
    entry: EntryName
    kind: str
    """Of the task: classify or regress."""
    task: str
    labels: tuple[str, ...]
    num_texts: int
    sequence_length: int
    """Of the encoders; 0 without one."""
    encoders: tuple[str, ...] = ()
    """Their folders; they answer by the mean of their probabilities, or of their numbers."""
    temperature: float = 1.0
    """Margins of the linear model are divided by it to be logits."""
    blend: BlendWeights | None = None


class FitRun(FileRecord):
    """What a run of `fit` is, written before its first step."""

    FILE: ClassVar[str] = "run.json"
    kind: str
    """Always "fit"."""
    task: str
    data: str
    """The hash of the rows and how they are read."""
    model: str
    """The hash of the encoder's weights and tokenizer."""
    folds: int
    """Parts of the training rows, each answered by models that learned from the others; 1: the dev rows are."""
    settings: JsonTree


class FitEntry(Record):
    """A row of the leaderboard."""

    name: EntryName
    what: str
    """The method in words."""
    scores: Scores
    """On the rows that it is judged by."""
    low: Score
    """The 95 % interval of the metric that counts."""
    high: Score
    behind: Score = 0.0
    """How far the metric is below that of the best; 0 of the best itself."""
    behind_low: Score = 0.0
    behind_high: Score = 0.0
    test: Scores = Field({})
    """On test rows with labels, where there are any; nothing was chosen by them."""


class LabelPoint(Record):
    """A score after so many labelled rows."""

    name: EntryName
    rows: int
    score: Score
    low: Score
    high: Score


class FitResults(FileRecord):
    """Written last of all files: it says that the run is finished."""

    FILE: ClassVar[str] = "fit.json"
    task: str
    kind: str
    metric: str
    """The one that decides."""
    labels: tuple[str, ...]
    num_texts: int
    model: str
    """Where the encoder came from."""
    rows: int
    """That the result has learned from."""
    judged_rows: int
    judged_by: str
    """In words: "5-fold cross-validation"."""
    best: EntryName
    entries: tuple[FitEntry, ...]
    """The best first."""
    report: ClassReport
    """Of the best, on the rows that it is judged by."""
    curve: tuple[LabelPoint, ...]
    data: dict[str, SplitSummary]
    seconds: float
    notes: tuple[str, ...] = ()

    def entry(self, name: EntryName) -> FitEntry:
        return next(entry for entry in self.entries if entry.name == name)


class FitPlan(PlanRecord):
    """What `fit --dry-run` says."""

    task: str
    kind: str
    out: str
    labels: tuple[str, ...]
    rows: int
    judged_rows: int
    bad_rows: dict[str, int]
    columns: dict[str, str]
    judged_by: str
    tunings: int
    steps: int
    """Of each tuning; 0 where the encoder is not there yet."""
    learning_minutes: float
    """Of pre-training before, where the encoder is learned from text; else 0."""
    estimated_minutes: float
    """Of all that can be told."""
    notes: tuple[str, ...]
    settings: JsonTree
