"""What a token of training costs, counted from shapes and checked by torch's own count.

AnalysisModel -> FLOPs per token in two conventions, against a masked language model of the same shape
"""

from collections.abc import Iterator

import torch

from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Finding, Skipped, exact, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.model import AnalysisModel
from electralab.errors import InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.flops import (
    count_masked,
    discriminator_flops,
    encoder_flops,
    generator_flops,
    paper_discriminator_flops,
    paper_generator_flops,
)

_MEGA = 1e6
_MLM = "a masked language model of the shape of the model's main network"


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if model.control_of is None:  # training changes no shape
        yield from skip_on_error("flops", "training FLOPs", _findings, model, data.settings.mask_share)


def _findings(model: AnalysisModel, mask_share: float) -> Iterator[Finding]:
    if model.flops_per_token is None:
        raise InputError(f"{model.name}: nothing says what a step of its training is; give a run of electra or mlm")
    config = model.encoder.config
    length = config.sequence_length
    masked = count_masked(length, mask_share)
    # A masked language model reads the whole row whatever is masked: that is the claim's weak point.
    reading = encoder_flops(config, 1, length)
    mlm = generator_flops(config, 1, length, masked)
    meaning = "forward and backward of all networks, a backward pass as two forward ones, matrix products only"
    flops = model.flops_per_token / _MEGA
    yield count_finding("flops", "FLOPs per token", "MFLOP", meaning, flops, 3 * mlm / length / _MEGA)
    # The paper's convention is defined for pairs and masked language models whose network is a plain transformer.
    paper_mlm = paper_generator_flops(config, 1, length)
    paper: float | None = None
    if model.kind == "mlm":
        paper = paper_mlm
    elif model.kind in ("electra", "electra-15") and isinstance(model.generator, Generator):
        paper = paper_generator_flops(model.generator.config, 1, length) + paper_discriminator_flops(config, 1, length)
    if paper is not None:
        meaning = "the paper's convention: a backward pass as one forward one, embeddings looked up by a product"
        name = "FLOPs per token, the paper's way"
        control = paper_mlm / length / _MEGA
        yield count_finding("paper_flops", name, "MFLOP", meaning, paper / length / _MEGA, control)
    meaning = "what a masked language model costs over 0.15 of its encoder: it reads every token, not 15 % of them"
    yield count_finding("mlm_over_claim", "MLM's cost over O(0.15 n d²)", "×", meaning, mlm / (0.15 * reading))
    meaning = "the guesses' share of a masked language model's FLOPs: all that depends on how much is masked"
    name = "MLM's cost that masking less would save"
    yield count_finding("mlm_head_share", name, "share", meaning, (mlm - reading) / mlm)
    if model.discriminator is not None and isinstance(model.generator, Generator):
        generator = generator_flops(model.generator.config, 1, length, masked)
        discriminator = discriminator_flops(config, 1, length, model.discriminator.head.kind)
        share = generator / (generator + discriminator)
        yield count_finding("generator_share", "generator's share", "share", "of the pair's FLOPs", share)
        meaning = "the discriminator's forward pass over one row: torch's own count over ours"
        ratio = profile_flops(model.discriminator) / discriminator
        yield count_finding("torch_over_ours", "torch's count over ours", "×", meaning, ratio)


def profile_flops(discriminator: Discriminator) -> float:
    """torch's own count of a forward pass over one row."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    device = next(discriminator.parameters()).device
    ids = torch.zeros(1, discriminator.config.sequence_length, dtype=torch.int64, device=device)
    # Only the plain way of attending is made of products that torch counts.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        discriminator(ids, ids, None)
    return float(counter.get_total_flops())


def count_finding(id: str, name: str, unit: str, meaning: str, value: float, control: float | None = None) -> Finding:
    """A count is exact.

    >>> count_finding("flops", "FLOPs per token", "MFLOP", "", 2.5).estimate
    Interval(value=2.5, low=2.5, high=2.5)
    """
    beside = None if control is None else exact(control)
    note = "a count: exact, without an interval"
    return Finding(id, name, unit, meaning, exact(value), beside, _MLM if beside else "", note)


MEASURE = Measure("compute", "M39", "FLOPs", "What does a token of training cost?", measure)
