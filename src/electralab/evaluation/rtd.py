"""Replaced-token detection on held-out rows, against a generator that stays the same from model to model.

HeldoutRows, discriminator, generator -> Findings
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.evaluation.heldout_rows import HeldoutConfig, mask_rows, read_rows
from electralab.evaluation.outcome import Conditions, Findings, Scores, Steps
from electralab.evaluation.resampling import draw_again, find_interval
from electralab.evaluation.subject import Subject, load_subject
from electralab.events import Progress
from electralab.model.electra import Electra
from electralab.objective.corruption import SamplingConfig, special_token_bias
from electralab.objective.electra import ElectraOutput, electra_forward
from electralab.objective.metrics import RtdScores, join_verdicts

_INTERVALS = ("auc", "loss", "recall", "precision")
# Part of the identity: scores of other tokens are not comparable, though the same text was asked about.
_SCORED = b"ordinary tokens"


def evaluate_rtd(
    subject: Subject, data: Path, config: HeldoutConfig, conditions: Conditions, *, generator: Path | None
) -> Steps[Findings]:
    discriminator = subject.need_discriminator("replaced-token detection")
    if subject.has_energies:
        raise InputError(
            f"{subject.path}: says energies, not how likely a token was replaced, so there are no verdicts to score; "
            "evaluate it by --suite blimp"
        )
    rival, notes = _choose_generator(subject, generator, conditions)
    guesser = rival.need_generator("replaced-token detection")
    length = min(discriminator.config.sequence_length, guesser.config.sequence_length)
    rows = read_rows(data, subject.tokenizer, length, config.limit, conditions.reading)
    # Nothing is shared any more: the two may come from different runs.
    pair = Electra(guesser, discriminator, "none").eval()
    prohibition = special_token_bias(subject.tokenizer, torch.device(conditions.device), guesser.config.vocab_size)
    sampling = SamplingConfig(temperature=config.temperature)
    tables: list[_Table] = []
    asked = hashlib.sha256(_SCORED)
    guessed = right = done = 0
    for masked in mask_rows(rows, subject.tokenizer, config, conditions):
        conditions.check()
        with torch.inference_mode():
            trial = electra_forward(pair, masked, prohibition, sampling)
        guessed += len(masked.target_ids)
        right += int((trial.guesses.argmax(dim=-1) == masked.target_ids).sum())
        tables.append(_read_table(trial))
        asked.update(trial.corrupted.input_ids.cpu().numpy().tobytes())
        done += len(masked.input_ids)
        yield Progress("rows", done, len(rows.ids))
    by_row = [verdicts for table in tables for verdicts in table.split_rows()]
    whole = join_verdicts(by_row)
    scores = score_verdicts(whole) | {"generator_accuracy": right / max(guessed, 1)}
    scores |= bootstrap_rows(by_row, config.bootstrap, conditions.seed)
    counts = {"rows": len(by_row), "tokens": len(whole.logits), "masked": guessed}
    return Findings(scores, {"part": _score_parts(tables)}, counts, asked.hexdigest(), (*notes, *rows.notes))


def _choose_generator(subject: Subject, path: Path | None, conditions: Conditions) -> tuple[Subject, tuple[str, ...]]:
    if path is None:
        note = "judged against the model's own generator: not comparable with another model, give --generator for that"
        return subject, (note,)
    rival = load_subject(path, torch.device(conditions.device))
    if rival.tokenizer.to_json() != subject.tokenizer.to_json():
        raise InputError(
            f"{path}: its tokenizer is not that of {subject.path}, so its guesses mean nothing there; "
            "give a generator with the same tokenizer"
        )
    return rival, ()


@dataclass(frozen=True, slots=True)
class _Table:
    """A batch's verdicts in their rows. (B, T)"""

    logits: NDArray[np.float32]
    is_replaced: NDArray[np.bool_]
    is_masked: NDArray[np.bool_]
    is_ordinary: NDArray[np.bool_]
    """The tokens that count: [CLS] and [SEP] are never replaced, so that knowing them would beat guessing."""

    def select(self, is_selected: NDArray[np.bool_]) -> RtdScores:
        return RtdScores(self.logits[is_selected], self.is_replaced[is_selected])

    def split_rows(self) -> list[RtdScores]:
        table = zip(self.logits, self.is_replaced, self.is_ordinary, strict=True)
        return [RtdScores(logits[scored], is_replaced[scored]) for logits, is_replaced, scored in table]


def _read_table(trial: ElectraOutput) -> _Table:
    is_masked = torch.zeros_like(trial.corrupted.is_replaced)
    is_masked.view(-1)[trial.masked.positions] = True
    return _Table(
        trial.verdicts.float().cpu().numpy(),
        trial.corrupted.is_replaced.cpu().numpy(),
        is_masked.cpu().numpy(),
        trial.masked.batch.is_ordinary.cpu().numpy(),
    )


def score_verdicts(verdicts: RtdScores) -> Scores:
    names = ("auc", "recall", "precision", "loss", "called_replaced", "replaced_share")
    return {name: getattr(verdicts, name) for name in names}


def bootstrap_rows(rows: Sequence[RtdScores], times: int, seed: int) -> Scores:
    """95 % intervals: rows are drawn again with replacement, for their tokens hang together."""
    if not times:
        return {}
    again = [join_verdicts([rows[row] for row in draw]) for draw in draw_again(len(rows), times, seed)]
    return {f"{name}_interval": find_interval(getattr(verdicts, name) for verdicts in again) for name in _INTERVALS}


def _score_parts(tables: Sequence[_Table]) -> dict[str, Scores]:
    """Tokens that were replaced, that were masked but guessed rightly, and that nobody touched."""
    parts = {
        "replaced": [table.select(table.is_replaced) for table in tables],
        "restored": [table.select(table.is_masked & ~table.is_replaced) for table in tables],
        "untouched": [table.select(table.is_ordinary & ~table.is_masked) for table in tables],
    }
    joined = {name: join_verdicts(verdicts) for name, verdicts in parts.items()}
    total = sum(len(verdicts.logits) for verdicts in joined.values())
    return {
        name: {"share": len(part.logits) / total, "loss": part.loss, "called_replaced": part.called_replaced}
        for name, part in joined.items()
        if len(part.logits)
    }
