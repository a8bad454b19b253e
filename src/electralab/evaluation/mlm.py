"""How well the generator guesses hidden tokens of held-out rows.

HeldoutRows, generator -> Findings

A causal one guesses the same tokens from those before them, towers from all others: nothing need be hidden.
"""

import hashlib
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from electralab.evaluation.heldout_rows import HeldoutConfig, HeldoutRows, mask_rows, read_rows
from electralab.evaluation.outcome import Conditions, Findings, Scores, Steps
from electralab.evaluation.subject import Subject
from electralab.events import Progress
from electralab.model.token_models import TwoTower
from electralab.objective.electra import generator_forward
from electralab.tokens.tokenizer import Tokenizer


def evaluate_mlm(subject: Subject, data: Path, config: HeldoutConfig, conditions: Conditions) -> Steps[Findings]:
    generator = subject.need_generator("guessing masked tokens")
    rows = read_rows(data, subject.tokenizer, generator.config.sequence_length, config.limit, conditions.reading)
    loss = unigram_loss = 0.0
    targets_seen = right = unigram_right = done = 0
    asked = hashlib.sha256()
    for masked in mask_rows(rows, subject.tokenizer, config, conditions):
        conditions.check()
        targets = masked.target_ids.cpu().numpy()
        with torch.inference_mode():
            guesses = generator_forward(generator, masked)
            loss += float(F.cross_entropy(guesses.float(), masked.target_ids, reduction="sum"))
            right += int((guesses.argmax(dim=-1) == masked.target_ids).sum())
        unigram_loss -= float(rows.unigram[targets].sum())
        unigram_right += int((targets == rows.unigram.argmax()).sum())
        targets_seen += len(targets)
        asked.update(masked.input_ids.cpu().numpy().tobytes())
        done += len(masked.input_ids)
        yield Progress("rows", done, len(rows.ids))
    count = max(targets_seen, 1)
    per_token = count_characters(rows, subject.tokenizer)
    scores = _score(loss / count, right / count, per_token)
    unigram = _score(unigram_loss / count, unigram_right / count, per_token)
    counts = {"rows": len(rows.ids), "masked": targets_seen}
    groups = {"by": {"generator": scores, "unigram": unigram}}
    notes = rows.notes
    if not generator.reads_masked:
        seen = "all others" if isinstance(generator, TwoTower) else "those before it"
        notes += (f"the network read the rows as they are and guessed each token from {seen}",)
    return Findings(scores | {"characters_per_token": per_token}, groups, counts, asked.hexdigest(), notes)


def _score(loss: float, accuracy: float, characters_per_token: float) -> Scores:
    """Bits per character let models with different tokenizers be compared, bits per token do not."""
    bits = loss / math.log(2)
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
