"""Does the exported network answer like the one it was made of? In the terms of what it is asked for, on rows of many
scripts, short and long, texts and pairs of texts, beside the user's own.

Tokenizer -> Sample...;  two networks, samples -> ProbabilityFidelity | ValueFidelity
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.errors import AnswersDiffer
from electralab.model.electra import Discriminator, Generator
from electralab.model.folders.folder import load_any
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import SpanLogits, TaskModel
from electralab.records.export import NUMBERS, Fidelity, OutputKind, ProbabilityFidelity, ValueFidelity
from electralab.tokens.tokenizer import SpecialIds, Tokenizer

Exportable = Discriminator | Generator | TaskModel
Ids = NDArray[np.int64]

# How far a logit of weights or a graph in 32 bits may be from the model's.
TOLERANCE = 1e-4
# Rows that go through the networks together: few enough that long ones fit, and padding is tried as well.
_BATCH = 8
_MASKED = 4
_DRAWN = 16
# [CLS] A [SEP] B [SEP]
_SHORTEST_PAIR = 5
SENTENCES = (
    "The river rose in the night, and by morning the lower fields were under water.",
    "Nobody had told the new postman that the house at the end of the lane was empty!",
    "In 1998 the harbour was sold for $2.5 million (less than the price of two cranes).",
    "Yes.",
    "Der Zug hielt kurz vor der Grenze, weil ein Baum auf die Gleise gefallen war.",
    "La boulangère connaît tous les enfants du quartier, même ceux qui n'achètent rien.",
    "A cidade antiga tem sete portas, mas só duas ficam abertas depois do pôr do sol.",
    "El médico llegó tarde porque la carretera de la montaña estaba cubierta de nieve.",
    "Поезд опоздал на три часа, и на станции закончился горячий чай.",
    "아침에 비가 그치자 아이들이 운동장으로 뛰어나갔다.",
    "昨天晚上图书馆很安静,只有几个学生在看书。",
    "駅の前の小さな本屋は、来月で五十年になります。",
    "وصلت السفينة إلى الميناء قبل شروق الشمس بقليل.",
    "पहाड़ी गाँव तक जाने वाली सड़क बारिश में बह गई।",
    "Bài hát cũ ấy vẫn được hát trong mỗi đám cưới của làng.",
    "🙂 ok, see you @ 5pm — don't be late!!",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One text or two, with [CLS] and [SEP], without padding."""

    ids: Ids  # (T,)
    segment_ids: Ids  # (T,) 1 in the second text


def sample_rows(tokenizer: Tokenizer, config: EncoderConfig) -> list[Sample]:
    """Each sentence, all of them in one row of full length, pairs of neighbours where the network takes such, and rows
    drawn from the vocabulary, whatever its language."""
    length = config.sequence_length
    encoded = [] if tokenizer.is_symbols else tokenizer.encode_many(SENTENCES)
    texts = [ids for ids in (*encoded, np.concatenate([*encoded, np.empty(0, dtype=np.int64)])) if len(ids)]
    ordinary, rng = np.flatnonzero(tokenizer.is_ordinary), np.random.default_rng(0)
    if len(ordinary):
        # From one token to as many as fit.
        counts = np.unique(np.linspace(1, length - 2, _DRAWN).astype(np.int64))
        texts += [rng.choice(ordinary, count) for count in counts]
    pairs = list(pairwise(texts))[::2] if _takes_pairs(config) else []
    singles = [_add_special_tokens([ids[: length - 2]], tokenizer) for ids in texts]
    return singles + [make_pair(*pair, tokenizer, length) for pair in pairs]


def _takes_pairs(config: EncoderConfig) -> bool:
    return config.sequence_length >= _SHORTEST_PAIR and (config.is_modern or config.num_segments > 1)


def make_pair(first: Ids, second: Ids, tokenizer: Tokenizer, length: int) -> Sample:
    """Of both so much as fits, the longer one cut first."""
    room = length - 3
    first = first[: max(room // 2, room - len(second))]
    return _add_special_tokens([first, second[: room - len(first)]], tokenizer)


def _add_special_tokens(texts: Sequence[Ids], tokenizer: Tokenizer) -> Sample:
    """[CLS] A [SEP], or [CLS] A [SEP] B [SEP]"""
    special = tokenizer.special
    pieces = [np.array([special.cls]), *(np.append(text, special.sep) for text in texts)]
    segments = [np.full(len(piece), max(number - 1, 0)) for number, piece in enumerate(pieces)]
    return Sample(np.concatenate(pieces).astype(np.int64), np.concatenate(segments).astype(np.int64))


def pair_some(
    samples: Sequence[Sample], tokenizer: Tokenizer, config: EncoderConfig, every: int | None = None
) -> list[Sample]:
    """Every n-th row cut into two texts, 0: none. By default as of a network that may be asked about both."""
    if every is None:
        every = 0 if config.is_modern else 2
    paired = list(samples)
    for index in range(0, len(paired), every) if every and _takes_pairs(config) else ():
        ids = paired[index].ids[1:-1]
        if middle := len(ids) // 2:
            paired[index] = make_pair(ids[:middle], ids[middle:], tokenizer, config.sequence_length)
    return paired


def compare_networks(
    ours: Exportable,
    theirs: Exportable | Path,
    samples: Sequence[Sample],
    special: SpecialIds,
    *,
    outputs_energies: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Fidelity:
    """A network beside that of a folder. `outputs_energies`: a discriminator of Electric; `check` may end the work
    between two batches."""
    other = load_any(theirs) if isinstance(theirs, Path) else theirs
    assert isinstance(other, Exportable)
    subject = output_kind(ours, outputs_energies=outputs_energies)
    differences, shifts, agreements = [], [], []
    values: list[Tensor] = []
    for start in range(0, len(samples), _BATCH):
        check()
        batch = _make_batch(samples[start : start + _BATCH], special, is_masking=subject == "guesses")
        first, second = _run(ours, batch, subject), _run(other, batch, subject)
        differences.append((first.logits - second.logits).abs().max())
        if subject in NUMBERS:
            values.append(torch.stack([first.logits, second.logits]))  # (2, L)
        else:
            shifts.append((first.probs - second.probs).abs().amax(dim=-1))  # (N,)
            agreements.append(first.choices == second.choices)
    largest = float(torch.stack(differences).max())
    if not values:
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
    pair = torch.cat(values, dim=1)  # (2, L)
    mean, (spread, other_spread) = float((pair[0] - pair[1]).abs().mean()), pair.std(dim=1, correction=0).tolist()
    return ValueFidelity(
        subject=subject,
        rows=len(samples),
        answers=pair.shape[1],
        largest_difference=largest,
        mean_difference=mean,
        spread=spread,
        share_of_spread=mean / spread if spread > 0 else None,
        correlation=float(torch.corrcoef(pair)[0, 1]) if spread > 0 and other_spread > 0 else None,
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
    # Not ">", which NaN would pass.
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


def _make_batch(samples: Sequence[Sample], special: SpecialIds, *, is_masking: bool) -> _SampleBatch:
    shape = len(samples), max(len(sample.ids) for sample in samples)
    ids, segments = np.full(shape, special.pad, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    is_pad = np.ones(shape, dtype=np.bool_)
    positions: list[int] = []
    for row, sample in enumerate(samples):
        count = len(sample.ids)
        ids[row, :count], segments[row, :count], is_pad[row, :count] = sample.ids, sample.segment_ids, False
        # Never the first token: a causal network predicts nothing there.
        columns = np.unique(np.linspace(1, count - 1, min(_MASKED, count - 1)).astype(np.int64))
        positions += (row * shape[1] + columns).tolist()
        if is_masking:
            ids[row, columns] = special.mask
    tensors = torch.from_numpy(ids), torch.from_numpy(segments), torch.from_numpy(is_pad)
    return _SampleBatch(*tensors, torch.tensor(positions))


@dataclass(frozen=True, slots=True)
class _Outputs:
    logits: Tensor
    """(L,) all of them, padding left out."""
    probs: Tensor  # (N, C)
    choices: Tensor  # (N,), for spans fewer: one a row


@torch.inference_mode()
def _run(network: Exportable, batch: _SampleBatch, subject: OutputKind) -> _Outputs:
    device = next(network.parameters()).device
    # Without padding a network gets no mask and attends by another kernel: both are tried.
    pad = batch.is_pad.to(device) if batch.is_pad.any() else None
    inputs = batch.input_ids.to(device), batch.segment_ids.to(device), pad
    outputs = network(*inputs, batch.positions.to(device)) if isinstance(network, Generator) else network(*inputs)
    if not isinstance(outputs, SpanLogits):
        # In float64, so that the comparison adds no rounding of its own.
        logits: Tensor = outputs.double().cpu()
        is_by_row = isinstance(network, TaskModel) and network.head_config.is_pooled
        if not is_by_row and not isinstance(network, Generator):
            logits = logits[~batch.is_pad]
        if subject in ("verdicts", "numbers", "energies"):
            probs = logits.reshape(-1, 1).sigmoid()
            return _Outputs(logits.flatten(), probs, probs[:, 0] > 0.5)
        return _Outputs(logits.flatten(), logits.softmax(dim=-1), logits.argmax(dim=-1))
    # Where a span begins and ends is chosen among the tokens of the second text, or of the only one, and [CLS].
    ends = outputs.start.double().cpu(), outputs.end.double().cpu()  # (B, T) each
    is_pair = batch.segment_ids.any(dim=1, keepdim=True)
    is_hidden = batch.is_pad | (is_pair & (batch.segment_ids == 0))  # (B, T)
    # [CLS] means that there is no answer.
    is_hidden[:, 0] = False
    start, end = (logits.masked_fill(is_hidden, float("-inf")) for logits in ends)
    spans = start[:, :, None] + end[:, None, :]  # (B, T, T)
    is_backward = torch.ones(spans.shape[1:], dtype=torch.bool).tril(-1)
    choices = spans.masked_fill(is_backward, float("-inf")).flatten(1).argmax(dim=1)
    columns = [start.softmax(dim=-1), end.softmax(dim=-1)]
    kept = [logits[~batch.is_pad] for logits in ends]
    if outputs.answerable is not None:
        answerable = outputs.answerable.double().cpu()  # (B,)
        columns.append(F.pad(answerable.sigmoid()[:, None], (0, start.shape[1] - 1)))
        kept.append(answerable)
        choices = torch.where(answerable > 0, choices, -1)
    return _Outputs(torch.cat(kept), torch.cat(columns), choices)
