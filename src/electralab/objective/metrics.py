"""What is worth knowing of an output beside its loss: how often it was right, how sure, and against whom.

logits, CorruptedBatch -> BatchMetrics -> scores by name

Rows at work, to be looked at: what was hidden, predicted, put there, and how replaced it looks.

ExampleRows -> a row's tokens, candidates and probabilities, position by position
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.objective.corruption import CorruptedBatch, special_token_bias
from electralab.objective.losses import Counts, Losses
from electralab.records.run import GuessedToken
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class RtdScores:
    """Replaced-token detection: the discriminator's logit of each token, and whether it was replaced."""

    logits: NDArray[np.float32]
    is_replaced: NDArray[np.bool_]

    @classmethod
    def from_logits(cls, logits: Tensor, corrupted: CorruptedBatch, *, only_masked: bool = False) -> "RtdScores":
        """Of every ordinary token, or of those at masked positions, where a discriminator was taught there alone.

        [CLS], [SEP] and the unknown token are never replaced: whoever knows only that would beat chance. The loss that
        is learned from counts them, as in the released code.
        """
        masked = corrupted.masked
        selected = masked.positions if only_masked else masked.batch.is_ordinary.flatten()
        scores = logits.detach().float().flatten()[selected].cpu().numpy()
        return cls(scores, corrupted.is_replaced.flatten()[selected].cpu().numpy())

    @classmethod
    def concat(cls, parts: Sequence["RtdScores"]) -> "RtdScores":
        return cls(
            np.concatenate([part.logits for part in parts]), np.concatenate([part.is_replaced for part in parts])
        )

    @property
    def auc(self) -> float:
        """The chance that a replaced token looks more replaced than an original.

        1/2, knowing nothing, where one kind is absent or a logit is not a finite number.
        """
        if self.is_replaced.all() or not self.is_replaced.any() or not np.isfinite(self.logits).all():
            return 0.5
        # Imported here: sklearn takes long to load, and most commands compute no AUC.
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(self.is_replaced, self.logits))

    @property
    def recall(self) -> float:
        return float(((self.logits > 0) & self.is_replaced).sum() / max(int(self.is_replaced.sum()), 1))

    @property
    def precision(self) -> float:
        return float(((self.logits > 0) & self.is_replaced).sum() / max(int((self.logits > 0).sum()), 1))

    @property
    def loss(self) -> float:
        """The mean binary cross-entropy, in nats."""
        # By logaddexp: log(1 + exp(x)) as it is written overflows for the logits of a network that has diverged.
        logits = self.logits.astype(np.float64)
        return float((np.logaddexp(0.0, logits) - logits * self.is_replaced).mean())

    @property
    def called_replaced(self) -> float:
        return float((self.logits > 0).mean())

    @property
    def replaced_share(self) -> float:
        return float(self.is_replaced.mean())


_CONFIDENCES = ("unsure", "middling", "sure")


@dataclass(frozen=True, slots=True)
class RunningMean:
    """A mean that can be added to another."""

    total: float
    count: int

    def __add__(self, other: "RunningMean") -> "RunningMean":
        return RunningMean(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> float:
        return self.total / max(self.count, 1)


@dataclass(frozen=True, slots=True)
class ReplacementScores:
    """The replacements: what the discriminator said of each, and how likely the generator had found it."""

    logits: NDArray[np.float32]
    log_probs: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    ratios: Mapping[str, RunningMean] = field(default_factory=dict)
    rtd: Sequence[RtdScores] = ()
    replacements: Sequence[ReplacementScores] = ()

    def __add__(self, other: "BatchMetrics") -> "BatchMetrics":
        names = [*self.ratios, *(name for name in other.ratios if name not in self.ratios)]
        nothing = RunningMean(0.0, 0)
        ratios = {name: self.ratios.get(name, nothing) + other.ratios.get(name, nothing) for name in names}
        return BatchMetrics(ratios, [*self.rtd, *other.rtd], [*self.replacements, *other.replacements])

    def describe(self, *scores: str) -> dict[str, float]:
        """Every ratio, and where a discriminator was asked, the named scores of it."""
        means = {name: ratio.mean for name, ratio in self.ratios.items()}
        if not self.rtd:
            return means
        rtd = RtdScores.concat(self.rtd)
        return means | {name: float(getattr(rtd, name)) for name in scores}

    def describe_by_confidence(self) -> dict[str, float]:
        """AUC and recall on the third of the replacements that the generator was least, middling and most sure of."""
        parts = self.replacements
        logits = np.concatenate([part.logits for part in parts]) if parts else np.zeros(0, np.float32)
        if len(logits) < len(_CONFIDENCES):
            return {}
        rtd = RtdScores.concat(self.rtd)
        originals = rtd.logits[~rtd.is_replaced]
        # Stable: equal probabilities must be cut into the same thirds on every machine.
        order = np.argsort(np.concatenate([part.log_probs for part in parts]), kind="stable")
        scores: dict[str, float] = {}
        for name, third in zip(_CONFIDENCES, np.array_split(logits[order], len(_CONFIDENCES)), strict=True):
            truth = np.arange(len(third) + len(originals)) < len(third)
            against = RtdScores(np.concatenate([third, originals]), truth)
            scores |= {f"auc_{name}": against.auc, f"recall_{name}": against.recall}
        return scores


def loss_metrics(losses: Losses, counts: Counts) -> BatchMetrics:
    return BatchMetrics(
        {f"{name}_loss": RunningMean(total.item(), counts[name]) for name, total in losses.sums.items()}
    )


@torch.no_grad()
def lm_metrics(
    name: str, logits: Tensor, target_ids: Tensor, is_hidden: Tensor, sample: int | None = None
) -> BatchMetrics:
    """How often the likeliest token is right where the target was truly hidden, and the entropy of the predictions.

    `sample` takes the first so many only: what a step may spend on its own metrics.
    """
    sampled = logits[:sample].float()
    is_hit = (sampled.argmax(dim=-1) == target_ids[:sample]) & is_hidden[:sample]
    log_probs = torch.log_softmax(sampled, dim=-1)
    entropy = -(log_probs.exp() * log_probs.clamp_(min=-1e4)).sum()  # an impossible token adds nothing
    return BatchMetrics(
        {
            f"{name}_accuracy": RunningMean(float(is_hit.sum()), int(is_hidden[:sample].sum())),
            f"{name}_entropy": RunningMean(float(entropy), len(sampled)),
        }
    )


@torch.no_grad()
def replacement_metrics(
    generator_logits: Tensor, discriminator_logits: Tensor, corrupted: CorruptedBatch
) -> BatchMetrics:
    positions = corrupted.masked.positions
    sampled_ids = corrupted.input_ids.flatten()[positions]
    is_replaced = corrupted.is_replaced.flatten()[positions].cpu().numpy()
    log_probs = torch.log_softmax(generator_logits.float(), dim=-1).gather(1, sampled_ids[:, None]).squeeze(1)
    logits = discriminator_logits.detach().float().flatten()[positions]
    scores = ReplacementScores(logits.cpu().numpy()[is_replaced], log_probs.cpu().numpy()[is_replaced])
    return BatchMetrics(replacements=[scores])


Row = dict[str, list[Any]]

_MOST_TOKENS = 64
_SHOWN_CANDIDATES = 3


@dataclass(frozen=True, slots=True)
class ExampleRows:
    batch: Batch
    positions: Tensor  # (M,) of what was hidden, into the flattened (B * T)
    lm_logits: Tensor  # (M, V)
    corrupted: CorruptedBatch | None = None
    """None of an objective that puts nothing into the row."""
    discriminator_logits: Tensor | None = None  # (B, T) above 0 means "replaced", NaN where nobody was asked
    """None of an objective without a discriminator."""


def token_probs(logits: Tensor, logit_bias: Tensor, temperature: float = 1.0) -> Tensor:
    """(..., V) logits -> probabilities, of which special tokens have none."""
    return torch.softmax((logits.float() + logit_bias) / temperature, dim=-1)


def top_candidates(probs: Tensor, tokenizer: Tokenizer, top: int) -> list[tuple[GuessedToken, ...]]:
    """(M, V) probabilities -> for each position the likeliest tokens, likeliest first; none of a network whose weights
    are no longer numbers."""
    # No more than there are tokens to name: special ones have no probability.
    best = probs.topk(min(top, int(tokenizer.is_ordinary.sum())))
    continues = tokenizer.continues_word
    return [
        tuple(
            GuessedToken(text=tokenizer.decode_token(token_id), p=prob, continues_word=bool(continues[token_id]))
            for token_id, prob in zip(*row, strict=True)
            if not isnan(prob)
        )
        for row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def describe_rows(examples: ExampleRows, tokenizer: Tokenizer) -> list[Row]:
    """The beginning of every row as lists of one length, with what the examples have; [CLS] and padding left out."""
    ids = examples.batch.original_ids
    length = ids.shape[1]
    is_shown = ~examples.batch.is_pad & (ids != tokenizer.special.cls)
    probs = token_probs(examples.lm_logits, special_token_bias(tokenizer, ids.device, examples.lm_logits.shape[-1]))
    candidates = [
        [candidate.model_dump() | {"p": round(candidate.p, 4)} for candidate in ranked]
        for ranked in top_candidates(probs, tokenizer, _SHOWN_CANDIDATES)
    ]
    indices = {position: index for index, position in enumerate(examples.positions.tolist())}
    rows = []
    for row, is_shown_here in enumerate(is_shown):
        columns = is_shown_here.nonzero().squeeze(1)[:_MOST_TOKENS]
        hidden = [indices.get(row * length + column) for column in columns.tolist()]
        described: Row = {
            "pieces": [token_text(tokenizer, token_id) for token_id in ids[row, columns].tolist()],
            "is_masked": [index is not None for index in hidden],
            "guesses": [[] if index is None else candidates[index] for index in hidden],
        }
        if examples.corrupted is not None:
            shown_ids = examples.corrupted.input_ids[row, columns].tolist()
            described["corrupted"] = [token_text(tokenizer, token_id) for token_id in shown_ids]
            described["is_replaced"] = examples.corrupted.is_replaced[row, columns].tolist()
        if examples.discriminator_logits is not None:
            p_replaced = torch.sigmoid(examples.discriminator_logits[row, columns].float()).tolist()
            described["p_replaced"] = [None if isnan(prob) else round(prob, 4) for prob in p_replaced]
        rows.append(described)
    return rows


def token_text(tokenizer: Tokenizer, token_id: int) -> str:
    """As a reader would write it, with ## before what goes on with a word, whatever the vocabulary's own mark."""
    text = tokenizer.decode_token(token_id) or tokenizer.token(token_id)
    return f"##{text}" if tokenizer.continues_word[token_id] else text
