"""What the generator predicts is sampled from and put into the original row.

MaskedBatch, generator_logits -> CorruptedBatch
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from electralab.config import Settings
from electralab.objective.masking import MaskedBatch
from electralab.tokens.tokenizer import Tokenizer

# Rows of the vocabulary-wide softmax that are sampled at once: enough to fill the cores, few enough to stay in cache.
_CHUNK = 64
# Likeliest ids that mostly hold the share of top-p: finding them takes a quarter of the time of sorting all.
_HEAD = 1024


class SamplingConfig(Settings):
    method: Literal["sample", "argmax"] = "sample"
    temperature: float = Field(1.0, gt=0)
    final_temperature: float | None = Field(None, gt=0)
    """Where the temperature ends, linearly over the run; unset means that it stays."""
    top_k: int = Field(0, ge=0)
    """Draw from this many of the likeliest ids, and their equals, only; 0 means from all."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Draw from the fewest likeliest ids that have this much probability together; 1 means from all."""
    allow_original: bool = True
    """Whether a draw may be the token that was hidden; if not, every masked position is a replacement."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = {
            "temperature": self.temperature != 1.0,
            "final_temperature": self.final_temperature is not None,
            "top_k": self.top_k != 0,
            "top_p": self.top_p != 1.0,
        }
        idle = [name for name, is_given in given.items() if is_given]
        if self.method == "argmax" and idle:
            raise ValueError(f"method 'argmax' draws nothing that {idle[0]} could change; unset it, or sample")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether every id allowed in a row may be drawn at every position."""
        return self.top_k == 0 and self.top_p == 1.0 and self.allow_original

    def temperature_at(self, progress: float) -> float:
        final = self.temperature if self.final_temperature is None else self.final_temperature
        return self.temperature + (final - self.temperature) * progress


@dataclass(frozen=True, slots=True)
class CorruptedBatch:
    """What the discriminator reads: the original rows with the generator's samples put in."""

    masked: MaskedBatch
    input_ids: Tensor  # (B, T)
    is_replaced: Tensor  # (B, T) a sample that equals the original is not a replacement


def special_token_bias(tokenizer: Tokenizer, device: torch.device, vocab_size: int = 0) -> Tensor:
    """(V,) 0 where an id may be sampled, minus infinity where it is special or padding: to be added to logits.

    A network may have more ids than its tokenizer; `vocab_size` says how many.
    """
    known = len(tokenizer.is_ordinary)
    logit_bias = np.full(max(vocab_size, known), -np.inf, dtype=np.float32)
    logit_bias[:known][tokenizer.is_ordinary] = 0.0
    return torch.from_numpy(logit_bias).to(device)


@torch.no_grad()
def sample_ids(
    generator_logits: Tensor,
    uniforms: Tensor,
    logit_bias: Tensor,
    config: SamplingConfig,
    *,
    progress: float = 0.0,
    target_ids: Tensor | None = None,
) -> Tensor:
    """One id per row of (M, V) logits by inverting the cumulative softmax at that row's uniform.

    In float32 whatever their type. `logit_bias` (V,) is 0, or minus infinity at ids never to be sampled: special and
    padding ones. It acts before the softmax, so that what is left sums to 1 however likely they were.
    `progress` through the run sets the temperature; `target_ids` (M,) are what was hidden.
    """
    temperature = config.temperature_at(progress)
    sampled = torch.zeros(len(generator_logits), dtype=torch.int64, device=generator_logits.device)
    for start in range(0, len(generator_logits), _CHUNK):
        rows = slice(start, start + _CHUNK)
        targets = None if target_ids is None else target_ids[rows]
        logits = _shape_logits(generator_logits[rows], logit_bias, config, temperature, targets)
        is_argmax = config.method == "argmax"
        sampled[rows] = logits.argmax(dim=-1) if is_argmax else invert_cumulative(logits, uniforms[rows, None])
    return sampled


def invert_cumulative(logits: Tensor, uniforms: Tensor) -> Tensor:
    """(C, V) logits and (C, 1) uniforms -> (C,) ids."""
    cumulative = torch.softmax(logits, dim=-1).cumsum(dim=-1)  # (C, V)
    total = cumulative[:, -1:]
    # Rounding must not push the target up to the total: the search would then run past the last allowed id.
    below_total = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(uniforms * total, below_total)
    ids = torch.searchsorted(cumulative, target, right=True).squeeze(1)
    # Logits that are not numbers lie below nothing; the step will be skipped, but must get that far.
    return ids.clamp_(max=logits.shape[1] - 1)


def sampled_log_probs(
    generator_logits: Tensor,
    ids: Tensor,
    logit_bias: Tensor,
    temperature: float = 1.0,
    *,
    config: SamplingConfig | None = None,
    target_ids: Tensor | None = None,
) -> Tensor:
    """(M,) log-probabilities of ids under the distribution that `sample_ids` draws from, with gradient to the logits.

    Without a config the draw was from all allowed ids.
    """
    config = config or SamplingConfig()
    assert config.method == "sample", "argmax draws from no distribution"
    logits = _shape_logits(generator_logits, logit_bias, config, temperature, target_ids)
    return logits.gather(1, ids[:, None]).squeeze(1) - logits.logsumexp(dim=-1)


def _shape_logits(
    generator_logits: Tensor, logit_bias: Tensor, config: SamplingConfig, temperature: float, target_ids: Tensor | None
) -> Tensor:
    """(C, V) in float32, minus infinity at ids not to be sampled: special ones, the original, beyond top k or p."""
    logits = generator_logits.float() + logit_bias
    if temperature != 1.0:
        logits = logits / temperature
    if config.is_plain:
        return logits
    if not config.allow_original:
        assert target_ids is not None, "what was hidden must be known to be avoided"
        logits = logits.scatter(1, target_ids[:, None], -torch.inf)
    # By value, so that what is equally likely is kept or left together and no order of ties is needed.
    if config.top_k:
        least = logits.detach().topk(min(config.top_k, logits.shape[1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if config.top_p < 1.0:
        whole = logits.detach()
        log_total = whole.logsumexp(dim=-1, keepdim=True)
        for count in (min(_HEAD, whole.shape[1]), whole.shape[1]):
            likeliest = whole.topk(count, dim=-1).values
            reached = (likeliest - log_total).exp().cumsum(dim=-1)
            if bool((reached[:, -1] >= config.top_p).all()):
                break
        # (C, 1) the logit with which the likeliest ids together reach the share.
        passing = (reached < config.top_p).sum(dim=-1, keepdim=True).clamp_(max=count - 1)
        logits = logits.masked_fill(logits < likeliest.gather(1, passing), -torch.inf)
    return logits


def corrupt(masked: MaskedBatch, sampled_ids: Tensor) -> CorruptedBatch:
    original_ids = masked.batch.original_ids
    input_ids = original_ids.flatten().index_copy(0, masked.positions, sampled_ids).view_as(original_ids)
    return CorruptedBatch(masked, input_ids, input_ids != original_ids)
