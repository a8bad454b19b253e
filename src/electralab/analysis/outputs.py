"""What a model makes of text: its states at every layer, and what its networks say of masked and corrupted rows.

AnalysisModel, text -> [(N, D)] from what enters the first layer to what leaves the last
AnalysisModel, AnalysisData -> MaskedBatch..., ElectraOutput... -> PairOutputs, LmLosses

Rows are masked at the same positions with the same uniforms for every model.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F

from electralab.analysis.arrays import BoolArray, FloatArray, Indices, IntArray, Matrix
from electralab.analysis.data import AnalysisData, AnalysisModel, reinitialise
from electralab.analysis.finding import Finding
from electralab.analysis.probe_sets import TaggedSentence
from electralab.errors import InputError
from electralab.evaluation import context as states
from electralab.evaluation.context import Progressive
from electralab.evaluation.heldout import HeldoutConfig, mask_rows
from electralab.model.electra import Electra
from electralab.model.encoder import FIRST_STATES, LAST_STATES
from electralab.objective.corruption import SamplingConfig, special_token_bias
from electralab.objective.electra import ElectraOutput, electra_forward, generator_forward
from electralab.objective.masking import MaskedBatch
from electralab.statistics import subsample
from electralab.tasks.features import FeatureEncoder
from electralab.tasks.kinds import tagging

UNTRAINED = "the same network before training, on the same rows"
T = TypeVar("T")


class WordStates(NamedTuple):
    """The words of tagged sentences, one after the other."""

    layers: list[Matrix]
    texts: list[str]
    tags: list[str]
    entities: list[str]
    sentences: IntArray


class TokenStates(NamedTuple):
    """Ordinary tokens of rows of text."""

    layers: list[Matrix]
    ids: IntArray
    rows: IntArray


def embed_words(model: AnalysisModel, sentences: Sequence[TaggedSentence], data: AnalysisData) -> WordStates:
    """Each word by its first token, by its last where only that has seen all of it (a causal model)."""
    examples = [tagging.TaggingExample(str(number), row.words, row.tags) for number, row in enumerate(sentences)]
    encoder = FeatureEncoder(model.tokenizer, (), model.sequence_length)
    features = tagging.KIND.encode(encoder, examples, is_labelled=False).features
    rows, columns = [feature.ids for feature in features], [feature.word_starts for feature in features]
    if model.encoder.config.is_causal:
        columns = [np.append(begins[1:], len(ids) - 1) - 1 for begins, ids in zip(columns, rows, strict=True)]
    return WordStates(
        token_layers(model, data, rows, columns, "words"),
        [word for row in sentences for word in row.words],
        [tag for row in sentences for tag in row.tags],
        [entity for row in sentences for entity in row.entities],
        np.repeat(np.arange(len(sentences)), [len(row.words) for row in sentences]),
    )


def embed_texts(model: AnalysisModel, texts: Sequence[str], data: AnalysisData) -> list[Matrix]:
    """The mean of a text's tokens. (N, D) at every layer"""
    sentences = states.encode_sentences(model.tokenizer, texts, model.sequence_length)
    frozen = states.FrozenEncoder(model.encoder, model.tokenizer)
    return _list_layers(model, _finish(states.pooled_states(frozen, sentences, "mean", data.conditions, "texts")))


def embed_rows(model: AnalysisModel, data: AnalysisData, count: int, *, is_spread: bool) -> TokenStates:
    """At most `count` ordinary tokens: spread over all rows, or all of the first rows so that they stand together."""
    ids = data.read_rows(model).ids
    is_taken = model.tokenizer.is_ordinary[ids]
    if is_spread:
        ordinary = np.flatnonzero(is_taken)
        chosen = ordinary[subsample(len(ordinary), count, data.settings.seed)]
        is_taken = np.zeros_like(is_taken)
        is_taken.flat[chosen] = True
    else:
        # Whole rows, since what asks for neighbours needs them all.
        enough = int(np.searchsorted(is_taken.sum(axis=1).cumsum(), count)) + 1
        ids, is_taken = ids[:enough], is_taken[:enough]
    rows, columns = np.nonzero(is_taken)
    kept = np.unique(rows)
    trimmed = [trim(ids[row], model) for row in kept]
    layers = token_layers(model, data, trimmed, [np.flatnonzero(is_taken[row]) for row in kept], "rows")
    return TokenStates(layers, ids[rows, columns], rows)


def trim(ids: IntArray, model: AnalysisModel) -> Indices:
    """A row without the padding at its end."""
    return np.asarray(ids[: int((ids != model.tokenizer.special.pad).sum())], dtype=np.int64)


def token_layers(
    model: AnalysisModel, data: AnalysisData, rows: Sequence[Indices], columns: Sequence[Indices], what: str
) -> list[Matrix]:
    """The states at these columns of each row, one after the other. (N, D) at every layer"""
    frozen = states.FrozenEncoder(model.encoder, model.tokenizer)
    return _list_layers(model, _finish(states.token_states(frozen, rows, columns, data.conditions, what)))


def trace_batch(model: AnalysisModel, ids: IntArray, is_pad: BoolArray) -> list[Matrix]:
    """All states of one batch (B, T) whose padding may stand anywhere. (B, T, D) at every layer"""
    trace: dict[str, torch.Tensor] = {}
    input_ids = torch.from_numpy(np.asarray(ids, dtype=np.int64)).to(model.device)
    hidden = torch.from_numpy(is_pad).to(model.device) if is_pad.any() else None
    with torch.inference_mode():
        model.encoder(input_ids, torch.zeros_like(input_ids), hidden, trace)
    return _list_layers(model, {name: layer.float().cpu().numpy() for name, layer in trace.items()})


def _list_layers(model: AnalysisModel, layers: states.Layers) -> list[Matrix]:
    """In their order; the last as the heads read it, after the final norm where there is one."""
    names = [FIRST_STATES, *(f"layers.{index}" for index in range(model.encoder.config.num_layers))]
    # A final norm belongs to what the heads read, not to a layer of its own.
    if LAST_STATES in layers:
        names[-1] = LAST_STATES
    listed: list[Matrix] = [layers[name] for name in names]
    if not all(np.isfinite(layer).all() for layer in listed):
        raise InputError(f"{model.name}: its states are not finite; see whether training diverged")
    return listed


def _finish(steps: Progressive[T]) -> T:
    """Run work to its end; `EvalContext.check` abandons it on a signal."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def masked_batches(model: AnalysisModel, data: AnalysisData) -> Iterator[MaskedBatch]:
    config = HeldoutConfig(mask_share=data.settings.mask_share)
    for masked in mask_rows(data.read_rows(model), model.tokenizer, config, data.conditions):
        data.conditions.check()
        yield masked


def run_pair(model: AnalysisModel, data: AnalysisData, purpose: str) -> Iterator[ElectraOutput]:
    """Each batch through the model's own generator and discriminator."""
    discriminator, generator = model.require_discriminator(purpose), model.require_generator(purpose)
    # "none": sharing was settled when the networks were loaded; both are whole.
    pair = Electra(generator, discriminator, "none").eval()
    prohibition = special_token_bias(model.tokenizer, model.device, generator.config.vocab_size)
    for masked in masked_batches(model, data):
        with torch.no_grad():
            yield electra_forward(pair, masked, prohibition, SamplingConfig())


class LmLosses(NamedTuple):
    """What naming tokens costs a generator. (M,) each"""

    losses: FloatArray  # nats
    target_ids: IntArray
    rows: IntArray


def lm_losses(model: AnalysisModel, data: AnalysisData, purpose: str, *, is_causal: bool = False) -> LmLosses:
    """Of masked tokens; with `is_causal` of every ordinary token but the first of a row."""
    generator = model.require_generator(purpose)
    parts = []
    for masked in masked_batches(model, data):
        batch, positions = masked.batch, masked.positions
        with torch.inference_mode():
            if is_causal:
                is_target = batch.is_ordinary.clone()
                # Nothing stands before the first token that it could be named from.
                is_target[:, 0] = False
                positions = is_target.view(-1).nonzero().squeeze(1)
                logits = generator(batch.original_ids, batch.segment_ids, batch.attention_pad, positions)
            else:
                logits = generator_forward(generator, masked)
        targets = batch.original_ids.view(-1)[positions]
        losses = F.cross_entropy(logits.float(), targets, reduction="none").double().cpu().numpy()
        rows = batch.row_numbers[positions.cpu().numpy() // masked.input_ids.shape[1]]
        parts.append((losses, targets.cpu().numpy(), rows))
    if not parts:
        raise InputError(f"{data.data}: holds no row to ask about; give more text")
    return LmLosses(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, slots=True)
class PairOutputs:
    """All ordinary tokens (N,), and all masked ones (M,); [CLS] and [SEP], never replaced, would flatter the
    discriminator."""

    rows: IntArray  # (N,)
    logits: FloatArray  # (N,) of the discriminator, above 0 means "replaced"
    is_replaced: BoolArray  # (N,)
    is_masked: BoolArray  # (N,)
    confidences: FloatArray  # (N,) ln p_G of a replacement, NaN of other tokens
    target_rows: IntArray  # (M,)
    is_hit: BoolArray  # (M,) whether the likeliest token is the original
    entropies: FloatArray  # (M,) nats
    losses: FloatArray  # (M,) nats
    target_ids: IntArray  # (M,)
    sampled_ids: IntArray  # (M,) what stands there instead

    @classmethod
    @torch.no_grad()
    def from_batch(cls, output: ElectraOutput) -> "PairOutputs":
        masked, corrupted, positions = output.masked, output.corrupted, output.masked.positions
        log_probs = torch.log_softmax(output.generator_logits.float(), dim=-1)  # (M, V)
        # A probability of 0 has no logarithm, and 0 times minus infinity is no number.
        entropies = -(log_probs.exp() * log_probs.clamp(min=-1e4)).sum(dim=-1)
        sampled = corrupted.input_ids.flatten()[positions]
        drawn = log_probs.gather(1, sampled[:, None]).squeeze(1)
        confidences = torch.full(corrupted.is_replaced.shape, torch.nan, device=drawn.device).flatten()
        confidences[positions] = torch.where(corrupted.is_replaced.flatten()[positions], drawn, torch.nan)
        is_masked = torch.zeros_like(corrupted.is_replaced).flatten().index_fill(0, positions, True)
        is_ordinary = masked.batch.is_ordinary.cpu().numpy().ravel()
        row_numbers, length = masked.batch.row_numbers, masked.input_ids.shape[1]
        return cls(
            np.repeat(row_numbers, length)[is_ordinary],
            output.discriminator_logits.float().flatten().double().cpu().numpy()[is_ordinary],
            corrupted.is_replaced.flatten().cpu().numpy()[is_ordinary],
            is_masked.cpu().numpy()[is_ordinary],
            confidences.double().cpu().numpy()[is_ordinary],
            np.asarray(row_numbers[positions.cpu().numpy() // length]),
            (output.generator_logits.argmax(dim=-1) == masked.target_ids).cpu().numpy(),
            entropies.double().cpu().numpy(),
            -log_probs.gather(1, masked.target_ids[:, None]).squeeze(1).double().cpu().numpy(),
            masked.target_ids.cpu().numpy(),
            sampled.cpu().numpy(),
        )

    @classmethod
    def concat(cls, parts: Iterable["PairOutputs"]) -> "PairOutputs":
        batches = list(parts)
        return cls(*(np.concatenate([getattr(batch, field.name) for batch in batches]) for field in fields(cls)))


def pair_outputs(model: AnalysisModel, data: AnalysisData, purpose: str) -> PairOutputs:
    """Of all rows."""
    return PairOutputs.concat(map(PairOutputs.from_batch, run_pair(model, data, purpose)))


def with_untrained_control(
    model: AnalysisModel, data: AnalysisData, compute: Callable[[AnalysisModel], Iterable[Finding]]
) -> Iterator[Finding]:
    """Each finding with that of the untrained network as its control; an untrained one has none."""
    # The model first, whole: its control may fail only where it did not.
    findings = list(compute(model))
    is_alone = model.control_of is not None or not data.settings.untrained
    untrained = () if is_alone else compute(reinitialise(model, data.settings.seed))
    controls = {(finding.id, finding.layer): finding.estimate for finding in untrained}
    for finding in findings:
        control = controls.get((finding.id, finding.layer))
        yield replace(finding, control=control, control_meaning=UNTRAINED if control else "")
