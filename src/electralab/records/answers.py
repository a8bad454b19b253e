"""What a model answers: the same types that Python returns, `--json` prints and HTTP sends.

Model -> Detection, FillResult, PlayResult, Embedding, Proof

The docstrings of the fields are the descriptions in /openapi.json.
"""

from html import escape
from typing import Literal

from pydantic import ConfigDict, Field

from electralab.records.record import JsonTree, PlanRecord, Record
from electralab.records.run import GuessedToken

Capability = Literal["detect", "fill", "play", "embed", "predict"]

# Below it a discriminator has learned little but which tokens are rare: errors planted by hand stay unnoticed.
USEFUL_AUC = 0.65
# Below it most replaced tokens stay under the threshold, so that only the order of the probabilities says something.
USEFUL_RECALL = 0.25


class AnswerRecord(Record):
    model_config = ConfigDict(use_attribute_docstrings=True)


class TokenScore(AnswerRecord):
    text: str
    start: int
    """In Unicode code points."""
    end: int
    p_replaced: float
    p_original: float
    """1 - p_replaced."""
    unknown: bool = False
    """Whether the vocabulary has no such token, so that the network saw [UNK]. A model of symbols suspects it for that
    alone."""
    p_wrong: float | None = None
    """The calibrated probability that the token's word is wrong; absent where the model was not calibrated."""

    reasons: tuple[str, ...] = ()
    """Why it is suspected, the strongest reason first: of a symbol what speaks against it, of a word such as "the
    context expects 'their'". Absent of unsuspicious words, and where the model was not calibrated."""
    expected: str = ""
    """The word that such a reason names."""
    template: str | None = None
    """Of a log: what the lines of this event have in common."""

    @property
    def suspicion(self) -> float:
        """The better of both probabilities."""
        return self.p_replaced if self.p_wrong is None else self.p_wrong


class Detection(AnswerRecord):
    """A text and a score for each of its tokens but [CLS], [SEP] and [PAD], in order."""

    text: str
    tokens: tuple[TokenScore, ...]
    suspicious: tuple[int, ...] = ()
    """Indices into `tokens` of the suspicious ones, the most suspicious first."""
    is_relative: bool = False
    """Whether none passes 0.5, so that `suspicious` names the most suspicious of this text."""
    warning: str | None = None
    """What speaks against these scores: the model's held-out scores, or that it knows no token of the text."""
    p_wrong: float | None = None
    """Of a calibrated model of symbols: the probability that the sequence is not normal."""
    suspicion: float | None = None
    """The same before its curve, in which hardly two sequences are equal: by it sequences are put in order."""
    is_alarm: bool | None = None
    """Whether that is above what so many normal sequences pass as the stated rate of false alarms says."""
    reasons: tuple[str, ...] = ()
    """Why, in words."""
    session: str | None = None
    """Of a log: the key that the lines share, or which lines they are."""
    lines: tuple[int, ...] = ()
    """Of a log: the line of each token, counted from 1."""

    def _repr_html_(self) -> str:
        """In a notebook: the text with each token shaded by its suspicion; a tooltip gives it and the reasons."""
        parts = [f"<p>{escape(self.warning)}</p>"] if self.warning else []
        parts.append('<div style="white-space: pre-wrap; line-height: 1.8">')
        end = 0
        for index, token in enumerate(self.tokens):
            # Translucent red keeps the notebook's own text colour readable in light and dark themes.
            style = f"background: rgba(230, 60, 40, {0.75 * token.suspicion:.3f}); border-radius: 3px"
            style += "; border-bottom: 2px dotted" * (index in self.suspicious)
            title = f"p_replaced {token.p_replaced:.3f}{', unknown' * token.unknown}"
            if token.p_wrong is not None:
                title = escape("; ".join([f"p_wrong {token.p_wrong:.3f}", *token.reasons]))
            parts.append(escape(self.text[end : token.start]))
            parts.append(f'<span style="{style}" title="{title}">{escape(self.text[token.start : token.end])}</span>')
            end = token.end
        return "".join([*parts, escape(self.text[end:]), "</div>"])


class MaskSlot(AnswerRecord):
    start: int
    end: int
    text: str
    guesses: tuple[GuessedToken, ...]


class FillResult(AnswerRecord):
    text: str
    blanks: tuple[MaskSlot, ...]


class PlayedToken(AnswerRecord):
    text: str
    start: int
    """In Unicode code points."""
    end: int
    is_masked: bool
    guesses: tuple[GuessedToken, ...]
    """The generator's best guesses for a masked token."""
    drawn: str | None
    """The token that the generator put there, which may be the original one; null where nothing was masked."""
    is_replaced: bool
    p_replaced: float
    p_original: float
    """1 - p_replaced."""


class PlayScores(AnswerRecord):
    model_config = ConfigDict(populate_by_name=True)

    masked: int
    replaced: int
    restored: int
    """Masked tokens that the generator guessed right, so that nothing was replaced."""
    detected: int = Field(alias="found")
    """Replaced tokens with p_replaced above 0.5."""
    false_alarms: int
    auc: float | None
    """null where nothing, or everything, was replaced."""

    @property
    def found(self) -> int:
        """The name that it has in JSON."""
        return self.detected


class PlayResult(AnswerRecord):
    text: str
    corrupted: str
    tokens: tuple[PlayedToken, ...]
    scores: PlayScores


class Embedding(AnswerRecord):
    embedding: tuple[float, ...]


class Suggestion(AnswerRecord):
    text: str
    p: float
    """The generator's probability of the word there."""


class Word(AnswerRecord):
    """A word, and how likely it is wrong: calibrated, or else p_replaced of the most suspicious of its tokens."""

    text: str
    start: int
    end: int
    suspicion: float
    reasons: tuple[str, ...] = ()
    """As of its tokens."""
    expected: str = ""
    """As of its tokens; it is the first suggestion."""


class WordFinding(AnswerRecord):
    word: Word
    line: int
    column: int
    before: str
    after: str
    suggestions: tuple[Suggestion, ...]


class Proof(AnswerRecord):
    source: str
    text: str
    words: int
    findings: tuple[WordFinding, ...]
    """In the order of the text."""
    most_suspicious: tuple[WordFinding, ...] = ()
    """Where no word passes the threshold: a few that stand out of this text, in its order."""


class ProofreadResult(AnswerRecord):
    model: str
    threshold: float
    warning: str | None
    """What the model's held-out scores say against its findings."""
    proofs: tuple[Proof, ...]


class HeldoutScores(AnswerRecord):
    """How well a discriminator did on held-out rows in which its own generator had replaced tokens.

    >>> HeldoutScores(auc=0.6, recall=0.1, precision=0.5).is_weak
    True
    """

    auc: float
    recall: float
    """The fraction of the replaced tokens with p_replaced above 0.5."""
    precision: float

    @property
    def is_weak(self) -> bool:
        return self.auc < USEFUL_AUC

    @property
    def warning(self) -> str | None:
        """What a reader of p_replaced must know; None where it can be taken as it is."""
        if self.is_weak:
            return (
                f"this model is too weak to use: on held-out text its AUC is {self.auc:.2f}, and guessing has 0.50; "
                "train it longer"
            )
        if self.recall < USEFUL_RECALL:
            return (
                f"this model is unsure: on held-out text only {self.recall:.0%} of the replaced tokens pass 0.5 (AUC "
                f"{self.auc:.2f}); see which words are the most suspicious rather than which pass"
            )
        return None


class ModelInfo(AnswerRecord):
    name: str
    can: tuple[Capability, ...]
    task: str | None
    labels: tuple[str, ...]
    num_texts: Literal[0, 1, 2]
    is_symbols: bool
    runtime: Literal["torch", "onnx"]
    sequence_length: int
    heldout: HeldoutScores | None
    """Scores of the discriminator on held-out text, at 0.5."""
    warning: str | None
    """What these scores say against its answers."""


class ServerLimits(AnswerRecord):
    body_bytes: int
    text_characters: int
    batch_texts: int
    seconds: float


class ModelList(AnswerRecord):
    models: tuple[ModelInfo, ...]
    limits: ServerLimits
    needs_key: bool


class ExampleText(AnswerRecord):
    texts: tuple[str, ...]
    truth: str | None = None
    """What is right, where the row has a class or a number."""
    corrupted: str | None = None
    """The text with words of the generator in it, where a pair was pre-trained."""


class ModelExamples(AnswerRecord):
    name: str
    examples: tuple[ExampleText, ...]


class ExampleList(AnswerRecord):
    models: tuple[ModelExamples, ...]


class ErrorBody(AnswerRecord):
    code: str
    message: str


class ErrorAnswer(AnswerRecord):
    error: ErrorBody


class ServerState(AnswerRecord):
    status: str


class ServePlan(PlanRecord):
    models: tuple[ModelInfo, ...]
    keys: int
    settings: JsonTree


class ServeResult(AnswerRecord):
    """What a server has done, and whether all work has ended."""

    address: str
    models: tuple[str, ...]
    seconds: float
    answers: dict[str, int]
    """How many, by status."""
    has_ended: bool
