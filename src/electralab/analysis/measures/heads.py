"""Where attention heads look: entropy, distance, and the share on places that a rule could name.

Specimen, rows -> means by layer, the keenest head, a map of all heads
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from electralab.analysis.drawing import INK, PALE, Drawing, make_figure
from electralab.analysis.finding import Finding, Missing, attempt
from electralab.analysis.heads import (
    LOOKS,
    HeadLooks,
    average_looks,
    join_looks,
    look_at_heads,
    measure_keenest,
    measure_look,
    select_layer,
)
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen, draw_untrained
from electralab.analysis.trials import UNTRAINED
from electralab.model.encoder import Encoder
from electralab.tokens.batches import Batch, make_batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = "heads"
_LAYERED = {
    "entropy": ("nats", "of the weights that a token gives the others, mean over heads; ln T where all are equal"),
    "distance": ("tokens", "how far from itself a token looks, mean over heads"),
}
_KEENEST = {
    "self": "itself",
    "previous": "the token before it",
    "next": "the token after it",
    "first": "the first token of the row",
    "separator": "[SEP]",
    "same": "the same token elsewhere in the row",
}


def measure_heads(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing | Drawing]:
    yield from attempt("attention heads", CLAIM, partial(_tell, specimen, material, settings))


def _tell(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Drawing]:
    rows = material.read_rows(specimen)
    size = max(1, settings.batch_tokens // rows.ids.shape[1])
    batches = make_batch(rows.ids, specimen.tokenizer, is_pairs=rows.is_pairs).split(size)
    separator = specimen.tokenizer.special.sep
    looks = _look(specimen.encoder, batches, separator, material)
    is_alone = specimen.control_of is not None or not settings.untrained
    fresh = None if is_alone else _look(draw_untrained(specimen, settings.seed).encoder, batches, separator, material)
    rng, times = settings.make_rng("heads"), settings.times
    control_meaning = UNTRAINED if fresh else ""
    for name, (unit, meaning) in _LAYERED.items():
        for layer in range(specimen.num_layers):
            estimate = measure_look(select_layer(looks, layer), name, rng, times=times)
            control = None if fresh is None else measure_look(select_layer(fresh, layer), name, rng, times=times)
            yield Finding(
                f"attention {name}", CLAIM, unit, meaning, estimate, control, control_meaning, layer=layer + 1
            )
    means = average_looks(looks)
    for name, target in _KEENEST.items():
        estimate = measure_keenest(looks, name, rng, times=times)
        control = None if fresh is None else measure_keenest(fresh, name, rng, times=times)
        meaning = f"the weight that a token gives {target}, in the head that gives it most"
        head = looks.names[int(means[:, LOOKS.index(name)].argmax())]
        note = f"head {head} (layer.head, counted from 0)"
        yield Finding(f"keenest head, {name}", CLAIM, "share", meaning, estimate, control, control_meaning, note)
    meaning = "Each square a head, dark the most: entropy in nats, distance in tokens, shares of the weight"
    yield Drawing(CLAIM, f"attention heads, {specimen.name}", "heads", meaning, draw_heads(looks))


def _look(encoder: Encoder, batches: list[Batch], separator: int, material: Material) -> HeadLooks:
    parts = []
    for batch in batches:
        material.conditions.check()
        given = batch.to(next(encoder.parameters()).device)
        parts.append(look_at_heads(encoder, given.original_ids, given.segment_ids, given.is_pad, separator))
    return join_looks(parts)


def draw_heads(looks: HeadLooks) -> "Figure":
    """Layers from below, heads from the left; a square stays empty where pruning took the head away."""
    means = average_looks(looks)
    layers = np.array(looks.layers)
    widest = int(np.bincount(layers).max())
    columns = np.concatenate([np.arange(count) for count in np.bincount(layers) if count])
    figure = make_figure(10.0, 2.0 + 0.5 * len(np.unique(layers)))
    panels = figure.subplots(2, len(LOOKS) // 2, squeeze=False).flatten()
    for place, (name, axes) in enumerate(zip(LOOKS, panels, strict=True)):
        table = np.full((int(layers.max()) + 1, widest), np.nan)
        table[layers, columns] = means[:, place]
        shown = axes.imshow(table, cmap="GnBu", origin="lower", aspect="auto", vmin=0)
        axes.set_title(name, loc="left", fontsize=10, color=INK)
        axes.set_xticks(range(widest))
        axes.set_yticks(range(len(table)))
        axes.tick_params(length=0, labelsize=8, labelcolor=PALE)
        bar = figure.colorbar(shown, ax=axes, shrink=0.85)
        bar.ax.tick_params(length=0, labelsize=7, labelcolor=PALE)
        bar.outline.set_visible(False)
    panels[0].set_ylabel("layer", fontsize=8.5, color=PALE)
    panels[len(LOOKS) // 2].set_xlabel("head", fontsize=8.5, color=PALE)
    return figure
