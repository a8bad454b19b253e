"""Does the exported network answer like the one it was made of? In the terms of what it is asked for.

two networks, samples -> ProbabilityFidelity | ValueFidelity
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.errors import AnswersDiffer
from electralab.exporting.onnx_graphs import Exportable
from electralab.exporting.samples import Sample
from electralab.model.electra import Discriminator, Generator
from electralab.model.tuned import SpanLogits, Tuned

# How far a logit of weights or a graph in 32 bits may be from the model's.
TOLERANCE = 1e-4
# Rows that go through the networks together: few enough that long ones fit, and padding is tried as well.
_BATCH = 8
_GUESSED = 4

OutputKind = Literal["verdicts", "guesses", "classes", "tags", "spans", "numbers", "energies"]
"""What a network is asked for."""

_AGREEING: dict[OutputKind, str] = {
    "verdicts": "tokens with the same verdict, replaced or not",
    "guesses": "masked tokens with the same likeliest guess",
    "classes": "texts of the same class",
    "tags": "tokens with the same tag",
    "spans": "texts with the same best span",
}
_CHANCE: dict[OutputKind, str] = {
    "verdicts": "the probability that a token was replaced",
    "guesses": "the probability of a guess",
    "classes": "the probability of a class",
    "tags": "the probability of a tag",
    "spans": "the probability that the span begins, or ends, at a token",
}
_AMOUNT: dict[OutputKind, str] = {"numbers": "a number, in the units of the label", "energies": "an energy"}


@dataclass(frozen=True, slots=True)
class ProbabilityFidelity:
    """Of answers that are chosen by their probability."""

    subject: OutputKind
    rows: int
    answers: int
    """What was chosen: a verdict or tag for each token, a class or span for each text."""
    largest_difference: float
    """Of two logits."""
    mean_probability_difference: float
    largest_probability_difference: float
    agreement: float
    """The share of the answers that are the same."""

    @property
    def words(self) -> dict[str, str]:
        """What was measured, for people, and its value."""
        chance = _CHANCE[self.subject]
        return {
            "largest difference of a logit": f"{self.largest_difference:.2g}",
            f"largest difference of {chance}": f"{self.largest_probability_difference:.2g}",
            f"mean difference of {chance}": f"{self.mean_probability_difference:.2g}",
            _AGREEING[self.subject]: f"{100 * self.agreement:.2f} %",
        }


@dataclass(frozen=True, slots=True)
class ValueFidelity:
    """Of answers that are numbers themselves."""

    subject: OutputKind
    rows: int
    answers: int
    largest_difference: float
    mean_difference: float
    spread: float
    """The standard deviation of the model's own answers."""
    share_of_spread: float | None
    """The mean difference by it; None, as the correlation, where all answers are one."""
    correlation: float | None

    @property
    def words(self) -> dict[str, str]:
        amount = _AMOUNT[self.subject]
        said = {
            f"largest difference of {amount}": f"{self.largest_difference:.2g}",
            f"mean difference of {amount}": f"{self.mean_difference:.2g}",
        }
        if self.share_of_spread is not None:
            said["the mean difference by the standard deviation of the model's answers"] = f"{self.share_of_spread:.2%}"
        if self.correlation is not None:
            said["correlation with the model's answers"] = f"{self.correlation:.6f}"
        return said


Fidelity = ProbabilityFidelity | ValueFidelity


def compare_networks(
    ours: Exportable,
    theirs: Exportable,
    samples: Sequence[Sample],
    pad_id: int,
    mask_id: int,
    *,
    has_energies: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Fidelity:
    """`has_energies`: the discriminator says no verdicts; `check` may end the work between two batches."""
    subject = output_kind(ours, has_energies=has_energies)
    differences, shifts, agreements = [], [], []
    amounts: list[Tensor] = []
    for batch in _batch(samples, pad_id, mask_id, is_guessing=subject == "guesses"):
        check()
        one, other = _answer(ours, batch, subject), _answer(theirs, batch, subject)
        differences.append((one.logits - other.logits).abs().max())
        if subject in _AMOUNT:
            amounts.append(torch.stack([one.logits, other.logits]))  # (2, L)
        else:
            shifts.append((one.chances - other.chances).abs().amax(dim=-1))  # (N,)
            agreements.append(one.choices == other.choices)
    largest = float(torch.stack(differences).max())
    if amounts:
        return _compare_values(subject, len(samples), largest, *torch.cat(amounts, dim=1))
    shift, is_same = torch.cat(shifts), torch.cat(agreements)
    return ProbabilityFidelity(
        subject=subject,
        rows=len(samples),
        answers=len(is_same),
        largest_difference=largest,
        mean_probability_difference=float(shift.mean()),
        largest_probability_difference=float(shift.max()),
        agreement=float(is_same.double().mean()),
    )


def _compare_values(subject: OutputKind, rows: int, largest: float, ours: Tensor, theirs: Tensor) -> ValueFidelity:
    mean, spread = float((ours - theirs).abs().mean()), float(ours.std(correction=0))
    is_varied = spread > 0 and float(theirs.std(correction=0)) > 0
    return ValueFidelity(
        subject=subject,
        rows=rows,
        answers=len(ours),
        largest_difference=largest,
        mean_difference=mean,
        spread=spread,
        share_of_spread=mean / spread if spread > 0 else None,
        correlation=float(torch.corrcoef(torch.stack([ours, theirs]))[0, 1]) if is_varied else None,
    )


def output_kind(network: Exportable, *, has_energies: bool) -> OutputKind:
    if isinstance(network, Discriminator):
        return "energies" if has_energies else "verdicts"
    if isinstance(network, Generator):
        return "guesses"
    subjects: dict[str, OutputKind] = {"classify": "classes", "label": "tags", "qa": "spans", "regress": "numbers"}
    return subjects[network.head_config.kind]


def require_equal(fidelity: Fidelity, limit: float, where: str) -> None:
    if not fidelity.largest_difference <= limit:
        raise AnswersDiffer(
            f"{where}: the exported network's answers differ by {fidelity.largest_difference:.2g} from those of the "
            f"model, more than {limit:g}; nothing was written, report this with the model's config.json"
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    input_ids: Tensor  # (B, T)
    segment_ids: Tensor  # (B, T)
    is_pad: Tensor  # (B, T)
    positions: Tensor
    """(M,) flat: which guesses are asked for."""


def _batch(samples: Sequence[Sample], pad_id: int, mask_id: int, *, is_guessing: bool) -> Iterator[_Batch]:
    for start in range(0, len(samples), _BATCH):
        chosen = samples[start : start + _BATCH]
        shape = len(chosen), max(len(sample.ids) for sample in chosen)
        ids, segments = np.full(shape, pad_id, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        positions = []
        for place, sample in enumerate(chosen):
            count = len(sample.ids)
            ids[place, :count], segments[place, :count] = sample.ids, sample.segment_ids
            # Never the first token: a causal network guesses nothing there.
            columns = np.unique(np.linspace(1, count - 1, min(_GUESSED, count - 1)).astype(np.int64))
            positions += [place * shape[1] + int(column) for column in columns]
            if is_guessing:
                ids[place, columns] = mask_id
        lengths = torch.tensor([len(sample.ids) for sample in chosen])
        is_pad = torch.arange(shape[1]) >= lengths[:, None]
        yield _Batch(torch.from_numpy(ids), torch.from_numpy(segments), is_pad, torch.tensor(positions))


@dataclass(frozen=True, slots=True)
class _Answers:
    logits: Tensor
    """(L,) all of them, padding left out."""
    chances: Tensor  # (N, C)
    choices: Tensor  # (N,), of spans fewer: one a row


@torch.inference_mode()
def _answer(network: Exportable, batch: _Batch, subject: OutputKind) -> _Answers:
    device = next(network.parameters()).device
    is_pad = batch.is_pad.to(device) if batch.is_pad.any() else None
    inputs = batch.input_ids.to(device), batch.segment_ids.to(device), is_pad
    said = network(*inputs, batch.positions.to(device)) if isinstance(network, Generator) else network(*inputs)
    if isinstance(said, SpanLogits):
        return _read_spans(said, batch)
    logits: Tensor = said.double().cpu()
    is_by_row = isinstance(network, Tuned) and network.head_config.is_pooled
    if not is_by_row and not isinstance(network, Generator):
        logits = logits[~batch.is_pad]
    if subject in ("verdicts", "numbers", "energies"):
        chances = logits.reshape(-1, 1).sigmoid()
        return _Answers(logits.flatten(), chances, chances[:, 0] > 0.5)
    return _Answers(logits.flatten(), logits.softmax(dim=-1), logits.argmax(dim=-1))


def _read_spans(said: SpanLogits, batch: _Batch) -> _Answers:
    """Where a span begins and ends is chosen among the tokens of the second text, or of the only one, and [CLS]."""
    first, last = said.start.double().cpu(), said.end.double().cpu()  # (B, T) each
    is_pair = batch.segment_ids.any(dim=1, keepdim=True)
    is_hidden = batch.is_pad | (is_pair & (batch.segment_ids == 0))  # (B, T)
    is_hidden[:, 0] = False
    start, end = (part.masked_fill(is_hidden, float("-inf")) for part in (first, last))
    spans = start[:, :, None] + end[:, None, :]  # (B, T, T)
    is_backward = torch.ones(spans.shape[1:], dtype=torch.bool).tril(-1)
    choices = spans.masked_fill(is_backward, float("-inf")).flatten(1).argmax(dim=1)
    chances = [start.softmax(dim=-1), end.softmax(dim=-1)]
    logits = [part[~batch.is_pad] for part in (first, last)]
    if said.answerable is not None:
        answerable = said.answerable.double().cpu()  # (B,)
        chances.append(F.pad(answerable.sigmoid()[:, None], (0, start.shape[1] - 1)))
        logits.append(answerable)
        choices = torch.where(answerable > 0, choices, -1)
    return _Answers(torch.cat(logits), torch.cat(chances), choices)
