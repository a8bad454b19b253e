"""Where attention heads look: how widely, how far, and at which of the positions that a rule could name.

AnalysisModel, rows -> attention weights -> HeadPatterns -> means by layer, the strongest head, a map of all heads
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electralab.analysis.arrays import FloatArray, require_count
from electralab.analysis.data import reinitialise
from electralab.analysis.finding import Finding, Resampler, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import UNTRAINED
from electralab.model.attention import build_attention_mask, measure_discrepancies
from electralab.model.encoder import FIRST_STATES, Encoder, EncoderLayer, HiddenStates
from electralab.reporting.plots import HeatmapFigure
from electralab.statistics import Interval
from electralab.tokens.batches import make_batch

# Entropy in nats, distance in tokens, the others shares of the weight: on the token itself, its neighbours, the first
# of the row, any [SEP], and the same token elsewhere in the row.
PATTERNS = ("entropy", "distance", "self", "previous", "next", "first", "separator", "same")
_BY_LAYER = {
    "entropy": ("nats", "of the weights that a token gives the others, mean over heads; ln T where all are equal"),
    "distance": ("tokens", "how far from itself a token looks, mean over heads"),
}
_STRONGEST = {
    "self": "itself",
    "previous": "the token before it",
    "next": "the token after it",
    "first": "the first token of the row",
    "separator": "[SEP]",
    "same": "the same token elsewhere in the row",
}


@dataclass(frozen=True, slots=True)
class HeadPatterns:
    """Means over the tokens of each row, of every head of every layer."""

    values: FloatArray  # (N, heads, len(PATTERNS))
    layers: tuple[int, ...]  # of each head
    names: tuple[str, ...]
    """Such as "2.0": the first head of layer 2, counted from 0."""

    def of_pattern(self, name: str, layer: int | None = None) -> FloatArray:
        """(N, heads) of one layer, or of all."""
        require_count("attention heads", len(self.values), 2, "rows", self.values)
        is_kept = [layer in (None, own) for own in self.layers]
        return self.values[:, is_kept, PATTERNS.index(name)]


def attention_weights(
    encoder: Encoder, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None
) -> Iterator[tuple[EncoderLayer, Tensor, Tensor]]:
    """Every layer, what its attention reads (B, T, D), and what each query gives each key (B, H, T, T)."""
    length, config = input_ids.shape[1], encoder.config
    trace = HiddenStates()
    encoder(input_ids, segment_ids, is_pad, trace)
    for index, layer in enumerate(encoder.layers):
        assert isinstance(layer, EncoderLayer)
        attention, rotary = layer.attention, encoder.local_rotary if layer.is_local else encoder.global_rotary
        rotation = None if rotary is None else rotary(length)
        window = config.local_attention if layer.is_local else 0
        is_visible = build_attention_mask(length, window, is_pad, config.is_causal, input_ids.device)
        if is_visible is None and config.is_causal:
            is_visible = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
        # Weights are computed again from what each layer reads: the fused attention does not hand them out.
        read = layer.prepare(trace[FIRST_STATES if index == 0 else f"layers.{index - 1}"])
        queries, (keys, _) = attention.ask(read, rotation), attention.offer(read, rotation)
        scores: Tensor = queries @ keys.mT * keys.shape[-1] ** -0.5  # (B, H, T, T)
        if attention.discrepancy_weights is not None:
            discrepancies = measure_discrepancies(read, is_pad)[:, None, None, :]
            scores = scores + attention.discrepancy_weights[:, None, None] * discrepancies
        if is_visible is not None:
            scores = scores.masked_fill(~is_visible, -torch.inf)
        # A query that sees nothing, far inside padding, looks nowhere.
        yield layer, read, scores.softmax(dim=-1).nan_to_num(0.0)


@torch.inference_mode()
def attention_patterns(
    encoder: Encoder, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor, separator_id: int
) -> HeadPatterns:
    """Padding neither looks nor is looked at."""
    is_token, (batch, length) = ~is_pad, input_ids.shape
    # How far each key is from each query, and 1 where it is what a pattern is named for.
    places = torch.arange(length, device=input_ids.device)
    steps = places - places[:, None]  # (T, T) key less query
    is_same = (input_ids[:, None, :] == input_ids[:, :, None]) & (steps != 0) & ~is_pad[:, None, :]  # (B, T, T)
    is_separator = (input_ids == separator_id)[:, None, :].expand_as(is_same)
    fixed = [steps.abs(), steps == 0, steps == -1, steps == 1, (places == 0).expand(length, -1)]
    marks = [*(mark.expand(batch, -1, -1) for mark in fixed), is_separator, is_same]
    stacked = torch.stack([mark.float() for mark in marks], dim=1)  # (B, L - 1, T, T)
    values, names, layers = [], [], []
    for index, (_, _, weights) in enumerate(attention_weights(encoder, input_ids, segment_ids, is_pad)):
        entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)  # (B, H, T)
        marked = torch.einsum("bhqk,blqk->bhql", weights, stacked)
        patterns = torch.cat([entropy[..., None], marked], dim=-1) * is_token[:, None, :, None]  # (B, H, T, L)
        values.append(patterns.double().sum(dim=2) / is_token.sum(dim=1)[:, None, None])  # (B, H, L)
        names += [f"{index}.{head}" for head in range(weights.shape[1])]
        layers += [index] * weights.shape[1]
    return HeadPatterns(torch.cat(values, dim=1).cpu().numpy(), tuple(layers), tuple(names))


def mean_over_heads(patterns: HeadPatterns, name: str, draws: Resampler, layer: int | None = None) -> Interval:
    """One pattern, the mean over the heads of a layer, or over all.

    >>> even = HeadPatterns(np.full((3, 2, len(PATTERNS)), 0.5), (0, 0), ("0.0", "0.1"))
    >>> mean_over_heads(even, "self", Resampler(np.random.default_rng(0)))
    Interval(value=0.5, low=0.5, high=0.5)
    """
    return draws.mean(patterns.of_pattern(name, layer).mean(axis=1))


def max_over_heads(patterns: HeadPatterns, name: str, draws: Resampler) -> Interval:
    """One pattern in the head that has it most, chosen in every draw: the highest of many is high by chance too."""
    values = patterns.of_pattern(name)
    return draws.interval(lambda indices: float(values[indices].mean(axis=0).max()), len(values), centred=True)


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """Where do attention heads look?"""
    with skip_on_error("entropy", "attention heads") as skipped:
        settings, rows, networks = data.settings, data.read_rows(model), [model]
        batch = make_batch(rows.ids, model.tokenizer, is_pairs=rows.is_pairs).to(model.device)
        if model.control_of is None and settings.untrained:
            networks.append(reinitialise(model, settings.seed))
        control_meaning = UNTRAINED if len(networks) > 1 else ""
        looks = []
        for network in networks:
            parts, separator = [], model.tokenizer.special.sep
            for given in batch.split(max(1, settings.batch_tokens // rows.ids.shape[1])):
                data.conditions.check()
                inputs = given.original_ids, given.segment_ids, given.is_pad
                parts.append(attention_patterns(network.encoder, *inputs, separator))
            values = np.concatenate([part.values for part in parts])
            looks.append(HeadPatterns(values, parts[0].layers, parts[0].names))
        patterns, draws = looks[0], settings.resampler("heads")
        # Estimate and control draw in turn from one stream, so that their order matters.
        for name, (unit, meaning) in _BY_LAYER.items():
            for layer in range(model.encoder.config.num_layers):
                estimate, *control = (mean_over_heads(heads, name, draws, layer) for heads in looks)
                beside = control[0] if control else None
                title = f"attention {name}"
                yield Finding(name, title, unit, meaning, estimate, beside, control_meaning, layer=layer + 1)
        means = patterns.values.mean(axis=0)  # (heads, len(PATTERNS))
        for name, target in _STRONGEST.items():
            estimate, *control = (max_over_heads(heads, name, draws) for heads in looks)
            beside = control[0] if control else None
            meaning = f"the weight that a token gives {target}, in the head that gives it most"
            head = patterns.names[int(means[:, PATTERNS.index(name)].argmax())]
            note, title = f"head {head} (layer.head, counted from 0)", f"keenest head, {name}"
            yield Finding(f"strongest.{name}", title, "share", meaning, estimate, beside, control_meaning, note)
        # Layers from below, heads from the left; a square stays empty where pruning took the head away.
        layers = np.array(patterns.layers)
        counts = np.bincount(layers)
        columns = np.concatenate([np.arange(count) for count in counts if count])
        panels = {}
        for index, name in enumerate(PATTERNS):
            panels[name] = np.full((len(counts), int(counts.max())), np.nan)
            panels[name][layers, columns] = means[:, index]
        meaning = "Each square a head, dark the most: entropy in nats, distance in tokens, shares of the weight"
        yield HeatmapFigure(f"attention heads, {model.name}", "heads", meaning, "head", "layer", panels)
    yield from skipped


MEASURE = Measure("heads", "attention heads", measure)
