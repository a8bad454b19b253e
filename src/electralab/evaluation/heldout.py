"""Rows of text that every model with the same tokenizer is asked about, hidden at the same positions by the same draws.

prepared data | text files -> HeldoutRows -> SuiteResult of `mlm` and `rtd`
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from electralab.artifacts import MANIFEST
from electralab.config import Settings
from electralab.corpus.readers import DecodeError, ReadingConfig, read_documents
from electralab.corpus.sources import find_sources
from electralab.errors import InputError
from electralab.evaluation import context as evaluation
from electralab.evaluation.context import EvalContext, EvalModel, Progressive, SuiteResult
from electralab.events import Progress
from electralab.model.electra import Electra, TwoTower
from electralab.objective.corruption import SamplingConfig, special_token_bias
from electralab.objective.electra import electra_forward, generator_forward
from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.metrics import RtdScores
from electralab.objective.registry import unigram_log_probs
from electralab.randomness import Rng
from electralab.records.evaluation import Scores
from electralab.statistics import percentile_interval, resample
from electralab.tokens.batches import make_batch
from electralab.tokens.packing import pack_contiguous
from electralab.tokens.shards import open_data
from electralab.tokens.tokenizer import Tokenizer

# Masks are drawn as if at this step, which training never reaches.
_STEP = -2
_UNIGRAM_ROWS = 20_000
_OWN_GENERATOR = (
    "judged against the model's own generator: not comparable with another model, give --generator for that"
)


class HeldoutConfig(Settings):
    limit: int = Field(1024, ge=0)
    """The most rows to judge: spread evenly over held-out ones, the first of a text; 0 means all."""
    mask_share: float = Field(0.15, gt=0, lt=1)
    temperature: float = Field(1.0, gt=0)
    bootstrap: int = Field(100, ge=0)
    """How often the rows are drawn again for the intervals; 0 for no intervals."""


@dataclass(frozen=True, slots=True)
class HeldoutRows:
    ids: NDArray[np.int64]  # (N, T)
    is_pairs: bool
    unigram: NDArray[np.float64]
    """(V,) log shares of the tokens: in the training rows of prepared data, in a text's own rows."""
    notes: tuple[str, ...]


def read_rows(
    data: Path, tokenizer: Tokenizer, sequence_length: int, limit: int, reading: ReadingConfig
) -> HeldoutRows:
    """Held-out rows of prepared data, spread evenly; or the first rows of a text, packed as training packs them."""
    notes: tuple[str, ...] = ()
    is_pairs = False
    if (data / MANIFEST).is_file():
        prepared = open_data(data)
        if prepared.tokenizer.to_json() != tokenizer.to_json():
            raise InputError(f"{data}: was prepared with another tokenizer than the model's; give text files instead")
        if prepared.sequence_length > sequence_length:
            raise InputError(
                f"{data}: has rows of {prepared.sequence_length} tokens, the model takes {sequence_length}; "
                "give text files instead"
            )
        if not len(prepared.heldout):
            raise InputError(f"{data}: holds no held-out rows; prepare it with a held-out share, or give text files")
        ids, known = (
            rows.take(np.unique(np.linspace(0, len(rows) - 1, min(most or len(rows), len(rows))).astype(np.int64)))
            for rows, most in ((prepared.heldout, limit), (prepared.train, _UNIGRAM_ROWS))
        )
        is_pairs = prepared.packing == "pairs"
    else:
        evaluation.require_text(tokenizer, "the model")
        documents: list[NDArray[np.int64]] = []
        # Of each row [CLS] and [SEP] take two places.
        wanted = limit * (sequence_length - 2) if limit else np.inf
        size = undecodable = 0
        for raw in (raw for source in find_sources([str(data)]).files for raw in read_documents(source, reading)):
            if isinstance(raw, DecodeError):
                undecodable += 1
                continue
            documents += tokenizer.encode_many([str(raw)])
            # With the [SEP] behind it.
            size += len(documents[-1]) + 1
            if size >= wanted:
                break
        known = ids = pack_contiguous(documents, sequence_length, tokenizer.special)[: limit or None].astype(np.int64)
        if not len(ids):
            raise InputError(f"{data}: holds no text; give prepared data or files with text")
        notes = (f"{undecodable:,} documents are not UTF-8 and were left out",) if undecodable else ()
    if not tokenizer.is_ordinary[ids].any():
        raise InputError(f"{data}: holds nothing that the model's vocabulary knows; give text of its language")
    return HeldoutRows(ids, is_pairs, unigram_log_probs(known, tokenizer), notes)


def mask_rows(
    rows: HeldoutRows, tokenizer: Tokenizer, config: HeldoutConfig, context: EvalContext
) -> list[MaskedBatch]:
    """By (seed, place of the row) alone: the same for every model, whatever the batches."""
    batch = make_batch(rows.ids, tokenizer, is_pairs=rows.is_pairs)
    masking = MaskingConfig(mask_share=config.mask_share)
    vocabulary, rng = mask_vocabulary(tokenizer), Rng(context.seed, _STEP)
    size = max(1, context.batch_tokens // rows.ids.shape[1])
    device = torch.device(context.device)
    return [mask_tokens(part, vocabulary, masking, config.mask_share, rng).to(device) for part in batch.split(size)]


def evaluate_mlm(model: EvalModel, data: Path, config: HeldoutConfig, context: EvalContext) -> Progressive[SuiteResult]:
    """How well the generator predicts hidden tokens.

    A causal one predicts the same tokens from those before them, towers from all others: nothing need be hidden.
    """
    generator = model.require_generator("guessing masked tokens")
    rows = read_rows(data, model.tokenizer, generator.config.sequence_length, config.limit, context.reading)
    loss = unigram_loss = 0.0
    num_targets = right = unigram_right = done = 0
    asked = hashlib.sha256()
    for masked in mask_rows(rows, model.tokenizer, config, context):
        context.check()
        target_ids = masked.target_ids.cpu().numpy()
        with torch.inference_mode():
            logits = generator_forward(generator, masked)
            loss += float(F.cross_entropy(logits.float(), masked.target_ids, reduction="sum"))
            right += int((logits.argmax(dim=-1) == masked.target_ids).sum())
        unigram_loss -= float(rows.unigram[target_ids].sum())
        unigram_right += int((target_ids == rows.unigram.argmax()).sum())
        num_targets += len(target_ids)
        asked.update(masked.input_ids.cpu().numpy().tobytes())
        done += len(masked.input_ids)
        yield Progress("rows", done, len(rows.ids))
    count = max(num_targets, 1)
    per_token = count_characters(rows, model.tokenizer)
    scores = _token_scores(loss / count, right / count, per_token)
    unigram = _token_scores(unigram_loss / count, unigram_right / count, per_token)
    notes = rows.notes
    if not generator.reads_masked:
        seen = "all others" if isinstance(generator, TwoTower) else "those before it"
        notes += (f"the network read the rows as they are and guessed each token from {seen}",)
    return SuiteResult(
        scores | {"characters_per_token": per_token},
        {"by": {"generator": scores, "unigram": unigram}},
        {"rows": len(rows.ids), "masked": num_targets},
        asked.hexdigest(),
        notes,
    )


def _token_scores(loss: float, accuracy: float, characters_per_token: float) -> Scores:
    """Bits per character let models with different tokenizers be compared, bits per token do not."""
    bits = loss / math.log(2)
    # The exponential of more than 709 is no float any more.
    return {
        "loss": loss,
        "accuracy": accuracy,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_token": bits,
        "bits_per_character": bits / characters_per_token,
    }


def count_characters(rows: HeldoutRows, tokenizer: Tokenizer) -> float:
    """Characters of readable text, spaces included, that an ordinary token stands for on average."""
    characters = sum(len(tokenizer.decode(row)) for row in rows.ids)
    return characters / max(int(np.count_nonzero(tokenizer.is_ordinary[rows.ids])), 1)


def evaluate_rtd(
    model: EvalModel, data: Path, config: HeldoutConfig, context: EvalContext, *, generator: Path | None
) -> Progressive[SuiteResult]:
    """Replaced-token detection, against a generator that stays the same from model to model."""
    discriminator = model.require_discriminator("replaced-token detection")
    if model.outputs_energies:
        raise InputError(
            f"{model.path}: says energies, not how likely a token was replaced, so there are no verdicts to score; "
            "evaluate it by --suite blimp"
        )
    rival, notes = model, [_OWN_GENERATOR]
    if generator is not None:
        rival, notes = evaluation.load_eval_model(generator, torch.device(context.device)), []
        if rival.tokenizer.to_json() != model.tokenizer.to_json():
            raise InputError(
                f"{generator}: its tokenizer is not that of {model.path}, so its guesses mean nothing there; "
                "give a generator with the same tokenizer"
            )
    replacing = rival.require_generator("replaced-token detection")
    length = min(discriminator.config.sequence_length, replacing.config.sequence_length)
    rows = read_rows(data, model.tokenizer, length, config.limit, context.reading)
    # Nothing is shared any more: the two may come from different runs.
    pair = Electra(replacing, discriminator, "none").eval()
    bias = special_token_bias(model.tokenizer, torch.device(context.device), replacing.config.vocab_size)
    sampling = SamplingConfig(temperature=config.temperature)
    by_row: list[RtdScores] = []
    # Tokens that were replaced, that were masked but guessed rightly, and that nobody touched.
    parts: dict[str, list[RtdScores]] = {"replaced": [], "restored": [], "untouched": []}
    # Part of the identity: scores of other tokens are not comparable, though the same text was asked about.
    asked = hashlib.sha256(b"ordinary tokens")
    num_targets = right = done = 0
    for masked in mask_rows(rows, model.tokenizer, config, context):
        context.check()
        with torch.inference_mode():
            output = electra_forward(pair, masked, bias, sampling)
        num_targets += len(masked.target_ids)
        right += int((output.generator_logits.argmax(dim=-1) == masked.target_ids).sum())
        masks = torch.zeros_like(output.corrupted.is_replaced)
        masks.view(-1)[output.masked.positions] = True
        logits = output.discriminator_logits.float().cpu().numpy()  # (B, T)
        is_replaced, is_masked = output.corrupted.is_replaced.cpu().numpy(), masks.cpu().numpy()
        # The tokens that count: [CLS] and [SEP] are never replaced, so that knowing them would beat guessing.
        is_ordinary = output.masked.batch.is_ordinary.cpu().numpy()
        for name, is_part in (
            ("replaced", is_replaced),
            ("restored", is_masked & ~is_replaced),
            ("untouched", is_ordinary & ~is_masked),
        ):
            parts[name].append(RtdScores(logits[is_part], is_replaced[is_part]))
        table = zip(logits, is_replaced, is_ordinary, strict=True)
        by_row += [RtdScores(row[is_counted], replaced[is_counted]) for row, replaced, is_counted in table]
        asked.update(output.corrupted.input_ids.cpu().numpy().tobytes())
        done += len(masked.input_ids)
        yield Progress("rows", done, len(rows.ids))
    whole, joined = RtdScores.concat(by_row), {name: RtdScores.concat(scores) for name, scores in parts.items()}
    names = ("auc", "recall", "precision", "loss", "called_replaced", "replaced_share")
    scores: Scores = {name: getattr(whole, name) for name in names}
    scores |= {"generator_accuracy": right / max(num_targets, 1)}
    scores |= bootstrap_rows(by_row, config.bootstrap, context.seed)
    total = sum(len(part.logits) for part in joined.values())
    by_part: dict[str, Scores] = {
        name: {"share": len(part.logits) / total, "loss": part.loss, "called_replaced": part.called_replaced}
        for name, part in joined.items()
        if len(part.logits)
    }
    counts = {"rows": len(by_row), "tokens": len(whole.logits), "masked": num_targets}
    return SuiteResult(scores, {"part": by_part}, counts, asked.hexdigest(), (*notes, *rows.notes))


def bootstrap_rows(rows: Sequence[RtdScores], num_resamples: int, seed: int) -> Scores:
    """95 % intervals: rows are drawn again with replacement, for their tokens depend on each other."""
    if not num_resamples:
        return {}
    drawn = [RtdScores.concat([rows[row] for row in draw]) for draw in resample(len(rows), num_resamples, seed)]
    intervals: Scores = {}
    for name in ("auc", "loss", "recall", "precision"):
        interval = percentile_interval(math.nan, (getattr(scores, name) for scores in drawn))
        intervals[f"{name}_interval"] = [interval.low, interval.high]
    return intervals
