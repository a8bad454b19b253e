"""What an exported network says of itself: which form, made of what, and how far its answers are from the model's.

export.json <-> ExportRecord
"""

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record

OutputKind = Literal["verdicts", "guesses", "classes", "tags", "spans", "numbers", "energies"]
"""What a network is asked for."""

_AGREEING: dict[OutputKind, str] = {
    "verdicts": "tokens with the same verdict, replaced or not",
    "guesses": "masked tokens with the same likeliest guess",
    "classes": "texts of the same class",
    "tags": "tokens with the same tag",
    "spans": "texts with the same best span",
}
_PROBABILITY: dict[OutputKind, str] = {
    "verdicts": "the probability that a token was replaced",
    "guesses": "the probability of a guess",
    "classes": "the probability of a class",
    "tags": "the probability of a tag",
    "spans": "the probability that the span begins, or ends, at a token",
}
_VALUE: dict[OutputKind, str] = {"numbers": "a number, in the units of the label", "energies": "an energy"}


class ProbabilityFidelity(Record):
    """How alike two networks answer whose answers are chosen by their probability."""

    subject: OutputKind
    rows: int
    answers: int
    """What was chosen: a verdict or tag for each token, a class or span for each text."""
    largest_difference: float
    """Of two logits."""
    mean_probability_difference: float
    largest_probability_difference: float
    agreement: float
    """The fraction of the answers that are the same."""

    @property
    def words(self) -> dict[str, str]:
        """What was measured, for people, and its value."""
        probability = _PROBABILITY[self.subject]
        return {
            "largest difference of a logit": f"{self.largest_difference:.2g}",
            f"largest difference of {probability}": f"{self.largest_probability_difference:.2g}",
            f"mean difference of {probability}": f"{self.mean_probability_difference:.2g}",
            _AGREEING[self.subject]: f"{100 * self.agreement:.2f} %",
        }


class ValueFidelity(Record):
    """How alike two networks answer whose answers are numbers themselves."""

    subject: OutputKind
    rows: int
    answers: int
    largest_difference: float
    mean_difference: float
    spread: float
    """The standard deviation of the model's own answers."""
    share_of_spread: float | None
    """The mean difference by it; None, as the correlation, where all answers are the same."""
    correlation: float | None

    @property
    def words(self) -> dict[str, str]:
        value = _VALUE[self.subject]
        words = {
            f"largest difference of {value}": f"{self.largest_difference:.2g}",
            f"mean difference of {value}": f"{self.mean_difference:.2g}",
        }
        if self.share_of_spread is not None:
            by = "the mean difference by the standard deviation of the model's answers"
            words[by] = f"{self.share_of_spread:.2%}"
        if self.correlation is not None:
            words["correlation with the model's answers"] = f"{self.correlation:.6f}"
        return words


Fidelity = ProbabilityFidelity | ValueFidelity
NUMBERS: frozenset[OutputKind] = frozenset(_VALUE)
"""Outputs that are values, not chosen by a probability."""

ExportForm = Literal["hf", "fp32", "fp16", "bf16", "onnx", "onnx-int8"]


class ExportRecord(FileRecord):
    """Written into the folder of every exported or compressed network. One that was only copied was not compared."""

    model_config = ConfigDict(populate_by_name=True)

    FILE: ClassVar[str] = "export.json"
    format: ExportForm
    network: str
    """The name of its folder in a run."""
    kind: Literal["discriminator", "generator", "tuned"]
    subject: OutputKind
    activations: Literal["dynamic", "static"] | None = None
    storage: Literal["fp32", "fp16", "bf16"] | None = None
    compared_with: str = Field("the model it was made of", alias="of")
    rows: int | None = None
    answers: int | None = None
    largest_difference: float | None = None
    mean_probability_difference: float | None = None
    largest_probability_difference: float | None = None
    agreement: float | None = None
    mean_difference: float | None = None
    spread: float | None = None
    share_of_spread: float | None = None
    correlation: float | None = None
    words: dict[str, str] = Field(default_factory=dict)
    """What was compared, for people, and its value."""

    @classmethod
    def compared(cls, fidelity: Fidelity, **facts: Any) -> "ExportRecord":
        """`facts` are the fields that say what the network is; the others come from the comparison."""
        return cls(**facts, **fidelity.to_json(), words=fidelity.words)


class ExportedNetwork(Record):
    role: Literal["discriminator", "generator", "model"]
    bytes: int
    fidelity: Fidelity
    note: str = ""
    """What was left out beside it, and why."""
    words: dict[str, str]


class ExportResult(Record):
    """The answer of `export`."""

    out: str
    format: str
    networks: dict[str, ExportedNetwork]


class ExportSource(Record):
    model_config = ConfigDict(populate_by_name=True)

    origin: str = Field(alias="from")
    kind: str


class ExportPlan(PlanRecord):
    """`export --dry-run`: what would be written, from what."""

    out: str
    format: str
    license: str
    data: str
    left_out: str = ""
    networks: dict[str, ExportSource]
    settings: JsonTree
