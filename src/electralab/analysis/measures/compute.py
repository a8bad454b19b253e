"""M39: what a token of training costs, counted from shapes and checked by torch's own count.

Specimen -> FLOPs per token in two conventions, against a masked language model of the same shape
"""

from collections.abc import Iterator
from functools import partial

import torch

from electralab.analysis.finding import Estimate, Finding, Missing, attempt
from electralab.analysis.material import Material
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.errors import InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import EncoderConfig
from electralab.model.flops import (
    count_masked,
    discriminator_flops,
    encoder_flops,
    generator_flops,
    paper_discriminator_flops,
    paper_generator_flops,
)

CLAIM = "M39"
_MEGA = 1e6
_COUNT = "a count: exact, without an interval"
_MLM = "a masked language model of the shape of the model's main network"


def measure_compute(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    del material
    if specimen.control_of is None:  # training changes no shape
        yield from attempt("training FLOPs", CLAIM, partial(_tell, specimen, settings.mask_share))


def _tell(specimen: Specimen, share: float) -> Iterator[Finding]:
    if specimen.flops_per_token is None:
        raise InputError(f"{specimen.name}: nothing says what a step of its training is; give a run of electra or mlm")
    config = specimen.encoder.config
    length = config.sequence_length
    masked = count_masked(length, share)
    mlm = 3 * generator_flops(config, 1, length, masked) / length
    meaning = "forward and backward of all networks, a backward pass as two forward ones, matrix products only"
    yield _count("FLOPs per token", "MFLOP", meaning, specimen.flops_per_token / _MEGA, mlm / _MEGA)
    yield from _tell_paper(specimen)
    reading = encoder_flops(config, 1, length)
    meaning = (
        "what a masked language model spends on its encoder, over 0.15 of it: it reads every token, not 15 % of them"
    )
    yield _count("MLM's encoder over O(0.15 n d²)", "×", meaning, 1 / 0.15, None)
    meaning = "the guesses' share of a masked language model's FLOPs: all that depends on how much is masked"
    guesses = generator_flops(config, 1, length, masked) - reading
    yield _count("MLM's cost that masking less would save", "share", meaning, guesses / (reading + guesses), None)
    if specimen.discriminator is not None and isinstance(specimen.generator, Generator):
        guessing = generator_flops(specimen.generator.config, 1, length, masked)
        judging = discriminator_flops(config, 1, length, specimen.discriminator.head.kind)
        yield _count("generator's share", "share", "of the pair's FLOPs", guessing / (guessing + judging), None)
        meaning = "the discriminator's forward pass over one row: torch's own count over ours"
        yield _count("torch's count over ours", "×", meaning, _profile(specimen.discriminator) / judging, None)


def _tell_paper(specimen: Specimen) -> Iterator[Finding]:
    """Defined for pairs and masked language models whose network is a plain transformer."""
    config = specimen.encoder.config
    length = config.sequence_length
    mlm = paper_generator_flops(config, 1, length) / length / _MEGA
    paper = _find_paper(specimen, length)
    if paper is not None:
        meaning = "the paper's convention: a backward pass as one forward one, embeddings looked up by a product"
        yield _count("FLOPs per token, the paper's way", "MFLOP", meaning, paper / length / _MEGA, mlm)


def _find_paper(specimen: Specimen, length: int) -> float | None:
    if specimen.kind == "mlm":
        return paper_generator_flops(specimen.encoder.config, 1, length)
    if specimen.kind not in ("electra", "electra-15") or not isinstance(specimen.generator, Generator):
        return None
    guessing: EncoderConfig = specimen.generator.config
    return paper_generator_flops(guessing, 1, length) + paper_discriminator_flops(specimen.encoder.config, 1, length)


def _profile(judge: Discriminator) -> float:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    ids = torch.zeros(1, judge.config.sequence_length, dtype=torch.int64, device=next(judge.parameters()).device)
    # Only the plain way of attending is made of products that torch counts.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        judge(ids, ids, None)
    return float(counter.get_total_flops())


def _count(name: str, unit: str, meaning: str, value: float, control: float | None) -> Finding:
    beside = None if control is None else Estimate(control, control, control)
    return Finding(
        name, CLAIM, unit, meaning, Estimate(value, value, value), beside, "" if beside is None else _MLM, _COUNT
    )
