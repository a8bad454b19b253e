"""Does the exported network answer like the one it was made of? In the terms of what it is asked for.

two networks, samples -> ProbabilityFidelity | ValueFidelity
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.errors import AnswersDiffer
from electralab.exporting.onnx_graphs import Exportable
from electralab.exporting.samples import Sample
from electralab.model.electra import Discriminator, Generator
from electralab.model.task_model import SpanLogits, TaskModel
from electralab.records.export import NUMBERS, Fidelity, OutputKind, ProbabilityFidelity, ValueFidelity

# How far a logit of weights or a graph in 32 bits may be from the model's.
TOLERANCE = 1e-4
# Rows that go through the networks together: few enough that long ones fit, and padding is tried as well.
_BATCH = 8
_MASKED = 4


def compare_networks(
    ours: Exportable,
    theirs: Exportable,
    samples: Sequence[Sample],
    pad_id: int,
    mask_id: int,
    *,
    outputs_energies: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Fidelity:
    """`outputs_energies`: a discriminator of Electric; `check` may end the work between two batches."""
    subject = output_kind(ours, outputs_energies=outputs_energies)
    differences, shifts, agreements = [], [], []
    values: list[Tensor] = []
    for batch in _batches(samples, pad_id, mask_id, is_masking=subject == "guesses"):
        check()
        first, second = _run(ours, batch, subject), _run(theirs, batch, subject)
        differences.append((first.logits - second.logits).abs().max())
        if subject in NUMBERS:
            values.append(torch.stack([first.logits, second.logits]))  # (2, L)
        else:
            shifts.append((first.probs - second.probs).abs().amax(dim=-1))  # (N,)
            agreements.append(first.choices == second.choices)
    largest = float(torch.stack(differences).max())
    if values:
        return _compare_values(subject, len(samples), largest, *torch.cat(values, dim=1))
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


def output_kind(network: Exportable, *, outputs_energies: bool) -> OutputKind:
    if isinstance(network, Discriminator):
        return "energies" if outputs_energies else "verdicts"
    if isinstance(network, Generator):
        return "guesses"
    head = network.head_config
    if head.shape == "row":
        return "classes" if head.labels else "numbers"
    return "tags" if head.shape == "token" else "spans"


def require_equal(fidelity: Fidelity, limit: float, where: str) -> None:
    if not fidelity.largest_difference <= limit:
        raise AnswersDiffer(
            f"{where}: the exported network's answers differ by {fidelity.largest_difference:.2g} from those of the "
            f"model, more than {limit:g}; nothing was written, report this with the model's config.json"
        )


@dataclass(frozen=True, slots=True)
class _SampleBatch:
    input_ids: Tensor  # (B, T)
    segment_ids: Tensor  # (B, T)
    is_pad: Tensor  # (B, T)
    positions: Tensor
    """(M,) flat: which tokens a generator is asked for."""


def _batches(samples: Sequence[Sample], pad_id: int, mask_id: int, *, is_masking: bool) -> Iterator[_SampleBatch]:
    for start in range(0, len(samples), _BATCH):
        chosen = samples[start : start + _BATCH]
        shape = len(chosen), max(len(sample.ids) for sample in chosen)
        ids, segments = np.full(shape, pad_id, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        positions = []
        for row, sample in enumerate(chosen):
            count = len(sample.ids)
            ids[row, :count], segments[row, :count] = sample.ids, sample.segment_ids
            # Never the first token: a causal network predicts nothing there.
            columns = np.unique(np.linspace(1, count - 1, min(_MASKED, count - 1)).astype(np.int64))
            positions += [row * shape[1] + int(column) for column in columns]
            if is_masking:
                ids[row, columns] = mask_id
        lengths = torch.tensor([len(sample.ids) for sample in chosen])
        is_pad = torch.arange(shape[1]) >= lengths[:, None]
        yield _SampleBatch(torch.from_numpy(ids), torch.from_numpy(segments), is_pad, torch.tensor(positions))


@dataclass(frozen=True, slots=True)
class _Outputs:
    logits: Tensor
    """(L,) all of them, padding left out."""
    probs: Tensor  # (N, C)
    choices: Tensor  # (N,), for spans fewer: one a row


@torch.inference_mode()
def _run(network: Exportable, batch: _SampleBatch, subject: OutputKind) -> _Outputs:
    device = next(network.parameters()).device
    is_pad = batch.is_pad.to(device) if batch.is_pad.any() else None
    inputs = batch.input_ids.to(device), batch.segment_ids.to(device), is_pad
    outputs = network(*inputs, batch.positions.to(device)) if isinstance(network, Generator) else network(*inputs)
    if isinstance(outputs, SpanLogits):
        return _span_outputs(outputs, batch)
    logits: Tensor = outputs.double().cpu()
    is_by_row = isinstance(network, TaskModel) and network.head_config.is_pooled
    if not is_by_row and not isinstance(network, Generator):
        logits = logits[~batch.is_pad]
    if subject in ("verdicts", "numbers", "energies"):
        probs = logits.reshape(-1, 1).sigmoid()
        return _Outputs(logits.flatten(), probs, probs[:, 0] > 0.5)
    return _Outputs(logits.flatten(), logits.softmax(dim=-1), logits.argmax(dim=-1))


def _span_outputs(outputs: SpanLogits, batch: _SampleBatch) -> _Outputs:
    """Where a span begins and ends is chosen among the tokens of the second text, or of the only one, and [CLS]."""
    first, last = outputs.start.double().cpu(), outputs.end.double().cpu()  # (B, T) each
    is_pair = batch.segment_ids.any(dim=1, keepdim=True)
    is_hidden = batch.is_pad | (is_pair & (batch.segment_ids == 0))  # (B, T)
    is_hidden[:, 0] = False
    start, end = (logits.masked_fill(is_hidden, float("-inf")) for logits in (first, last))
    spans = start[:, :, None] + end[:, None, :]  # (B, T, T)
    is_backward = torch.ones(spans.shape[1:], dtype=torch.bool).tril(-1)
    choices = spans.masked_fill(is_backward, float("-inf")).flatten(1).argmax(dim=1)
    probs = [start.softmax(dim=-1), end.softmax(dim=-1)]
    kept = [logits[~batch.is_pad] for logits in (first, last)]
    if outputs.answerable is not None:
        answerable = outputs.answerable.double().cpu()  # (B,)
        probs.append(F.pad(answerable.sigmoid()[:, None], (0, start.shape[1] - 1)))
        kept.append(answerable)
        choices = torch.where(answerable > 0, choices, -1)
    return _Outputs(torch.cat(kept), torch.cat(probs), choices)
