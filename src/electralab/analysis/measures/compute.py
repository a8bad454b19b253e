"""What a token of training costs, counted from shapes and checked by torch's own count.

AnalysisModel -> FLOPs per token in two conventions, against a masked language model of the same shape
"""

import torch

from electralab.analysis.finding import Finding, exact, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.errors import InputError
from electralab.model import flops
from electralab.model.electra import Generator

_MEGA = 1e6
_MLM = "a masked language model of the shape of the model's main network"


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """What does a token of training cost?"""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    if model.control_of is not None:  # training changes no shape
        return
    with skip_on_error("flops", "training FLOPs") as skipped:
        if model.flops_per_token is None:
            raise InputError(f"{model.name}: nothing says what a step of its training is; give a run of electra or mlm")
        config, discriminator = model.encoder.config, model.discriminator
        length = config.sequence_length
        masked = flops.count_masked(length, data.settings.mask_share)
        # A masked language model reads the whole row whatever is masked: that is the claim's weak point.
        reading = flops.encoder_flops(config, 1, length)
        mlm = flops.generator_flops(config, 1, length, masked)
        meaning = "forward and backward of all networks, a backward pass as two forward ones, matrix products only"
        per_token, control = model.flops_per_token / _MEGA, 3 * mlm / length / _MEGA
        yield count_finding("flops", "FLOPs per token", "MFLOP", meaning, per_token, control)
        # The paper's convention is defined for pairs and masked language models whose network is a plain transformer.
        generator = model.generator if isinstance(model.generator, Generator) else None
        paper_mlm = flops.paper_generator_flops(config, 1, length)
        paper = paper_mlm if model.kind == "mlm" else None
        if model.kind in ("electra", "electra-15") and generator is not None:
            paper = flops.paper_generator_flops(generator.config, 1, length)
            paper += flops.paper_discriminator_flops(config, 1, length)
        if paper is not None:
            meaning = "the paper's convention: a backward pass as one forward one, embeddings looked up by a product"
            per_token, control = paper / length / _MEGA, paper_mlm / length / _MEGA
            name = "FLOPs per token, the paper's way"
            yield count_finding("paper_flops", name, "MFLOP", meaning, per_token, control)
        meaning = "what a masked language model costs over 0.15 of its encoder: it reads every token, not 15 % of them"
        yield count_finding("mlm_over_claim", "MLM's cost over O(0.15 n d²)", "×", meaning, mlm / (0.15 * reading))
        meaning = "the guesses' share of a masked language model's FLOPs: all that depends on how much is masked"
        name = "MLM's cost that masking less would save"
        yield count_finding("mlm_head_share", name, "share", meaning, (mlm - reading) / mlm)
        if discriminator is not None and generator is not None:
            ours = flops.discriminator_flops(config, 1, length, discriminator.head.kind)
            theirs = flops.generator_flops(generator.config, 1, length, masked)
            meaning = "of the pair's FLOPs"
            yield count_finding("generator_share", "generator's share", "share", meaning, theirs / (theirs + ours))
            meaning = "the discriminator's forward pass over one row: torch's own count over ours"
            ids = torch.zeros(1, length, dtype=torch.int64, device=model.device)
            # Only the plain way of attending is made of products that torch counts.
            with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
                discriminator(ids, ids, None)
            ratio = counter.get_total_flops() / ours
            yield count_finding("torch_over_ours", "torch's count over ours", "×", meaning, ratio)
    yield from skipped


def count_finding(id: str, name: str, unit: str, meaning: str, value: float, control: float | None = None) -> Finding:
    """A count is exact.

    >>> count_finding("flops", "FLOPs per token", "MFLOP", "", 2.5).estimate
    Interval(value=2.5, low=2.5, high=2.5)
    """
    beside = None if control is None else exact(control)
    note = "a count: exact, without an interval"
    return Finding(id, name, unit, meaning, exact(value), beside, _MLM if beside else "", note)


MEASURE = Measure("M39", "FLOPs", measure)
