"""M46: how plausible the generator's replacements are, whether they keep the part of speech, and how hard they are.

Specimen, rows, snapshots, metrics.jsonl -> log p, rank, agreement, AUC, each over the course of training
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from electralab.analysis.balance import Game, join_games, measure_auc, measure_hardening, watch
from electralab.analysis.correlation import measure_correlation
from electralab.analysis.finding import Contrast, Estimate, Finding, Labels, Missing, attempt, require
from electralab.analysis.material import Material
from electralab.analysis.probe_sets import TaggedSentence
from electralab.analysis.replacements import (
    Plausibility,
    join_replacements,
    judge_replacements,
    measure_agreement,
    measure_plausibility,
)
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen, open_specimen
from electralab.analysis.trials import hold_trials, need_judge
from electralab.errors import InputError
from electralab.objective.electra import Trial
from electralab.pretraining.exports import read_snapshots, snapshot_folder
from electralab.tokens.tokenizer import Tokenizer
from electralab.training.metrics import read_metrics

CLAIM = "M46"
HARDENING = "AUC lost since the first snapshot"
_DEALT = "the same replacements, dealt to other places"
_UNKNOWN = -1
_COURSES = {
    "heldout_generator_loss": ("generator loss", "plausible: falls"),
    "heldout_auc": ("verdict AUC", "difficulty that keeps up: does not rise to 1"),
}


@dataclass(frozen=True, slots=True)
class _Quality:
    plausibility: Plausibility
    auc: Estimate


def measure_replacements(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    if specimen.kind in ("mlm", "causal", "encoder", "all-tokens-mlm", "other"):
        yield Missing("replacements", CLAIM, f"{specimen.name}: replaces no tokens; give a run of electra")
        return
    yield from attempt("plausibility of replacements", CLAIM, partial(_tell_quality, specimen, material, settings))
    yield from attempt("part of speech kept", CLAIM, partial(_tell_agreement, specimen, material, settings))
    if specimen.control_of is None:
        yield from attempt(HARDENING, CLAIM, partial(_tell_hardening, specimen, material, settings))
        yield from attempt("course of training", CLAIM, partial(_tell_course, specimen, material, settings))


def _tell_quality(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    quality = _judge(specimen, material, settings)
    found = quality.plausibility
    note = "by the generator's own opinion"
    meaning = "mean ln p of the replacement, as the generator saw it"
    yield found.log_prob.tell("log p of replacements", CLAIM, "nats", meaning, _DEALT, note)
    meaning = "how many tokens the generator found as likely or likelier, median"
    yield found.median_rank.tell("rank of replacements", CLAIM, "rank", meaning, _DEALT, note)
    meaning = "verdict AUC against these replacements: how hard they are to tell"
    chance = Estimate(0.5, 0.5, 0.5)
    yield Contrast(quality.auc, chance).tell("difficulty", CLAIM, "AUC", meaning, "a judge that knows nothing: 1/2")


def _judge(specimen: Specimen, material: Material, settings: AnalysisSettings) -> _Quality:
    rng, times = settings.make_rng("replacements"), settings.times
    parts, rows, games = [], [], []
    for trial in hold_trials(specimen, material, settings, "judging replacements"):
        sampled, originals, owners = _list_draws(trial)
        rows.append(owners)
        games.append(watch(trial))
        parts.append(judge_replacements(trial.guesses.float().cpu().numpy(), sampled, originals, rng))
    plausibility = measure_plausibility(join_replacements(parts), rng, rows=np.concatenate(rows), times=times)
    return _Quality(plausibility, measure_auc(join_games(games), rng, times=times))


def _list_draws(trial: Trial) -> tuple[Labels, Labels, Labels]:
    """(M,) what was drawn, what was hidden, and the row."""
    masked = trial.masked
    positions = masked.positions.cpu().numpy()
    sampled = trial.corrupted.input_ids.flatten().cpu().numpy()[positions]
    return sampled, masked.target_ids.cpu().numpy(), masked.batch.row_numbers[positions // masked.input_ids.shape[1]]


def _tell_agreement(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    tags = tag_tokens(specimen.tokenizer, material.tagged.read_by(specimen))
    rng = settings.make_rng("agreement")
    columns = [_list_draws(trial) for trial in hold_trials(specimen, material, settings, "judging replacements")]
    sampled, originals, rows = (np.concatenate(column) for column in zip(*columns, strict=True))
    is_told = (sampled != originals) & (tags[sampled] != _UNKNOWN) & (tags[originals] != _UNKNOWN)
    require("part of speech kept", int(is_told.sum()), 20, "replacements of which both words are tagged")
    known = (tags[originals[is_told]], tags[sampled[is_told]])
    found = measure_agreement(*known, rng, rows=rows[is_told], times=settings.times)
    meaning = "replacements of the part of speech of the token they replace"
    note = f"{int(is_told.sum()):,} replacements of which both words are in the tagged sentences, by a word's usual tag"
    yield found.tell("part of speech kept", CLAIM, "share", meaning, _DEALT, note)


def tag_tokens(tokenizer: Tokenizer, sentences: tuple[TaggedSentence, ...]) -> Labels:
    """(V,) the usual tag of each token that is a whole word of the sentences, as a number; -1 of the others."""
    counts: dict[int, dict[str, int]] = {}
    spellings = {word: tag for one in sentences for word, tag in zip(one.words, one.tags, strict=True)}
    encoded = dict(zip(spellings, tokenizer.encode_many(list(spellings)), strict=True))
    for one in sentences:
        for word, tag in zip(one.words, one.tags, strict=True):
            if len(encoded[word]) == 1 and tokenizer.is_ordinary[encoded[word][0]]:
                of_token = counts.setdefault(int(encoded[word][0]), {})
                of_token[tag] = of_token.get(tag, 0) + 1
    numbers = {tag: number for number, tag in enumerate(sorted({tag for of in counts.values() for tag in of}))}
    tags = np.full(len(tokenizer.is_ordinary), _UNKNOWN, dtype=np.int64)
    for token, of_token in counts.items():
        tags[token] = numbers[max(of_token, key=lambda tag: (of_token[tag], tag))]
    return tags


def _tell_hardening(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    """One judge, the final discriminator, for both: its own progress must not pass for easier replacements."""
    judge = need_judge(specimen, HARDENING)
    steps = [progress["step"] for progress in read_snapshots(specimen.folder)]
    if not steps:
        raise InputError(
            f"{specimen.name}: kept no snapshot, whose replacements could be judged beside the last; "
            "give a run folder with one (pretrain --snapshots 0.25)"
        )
    early = open_specimen(snapshot_folder(specimen.folder, steps[0]), device=specimen.device)

    def judge_draws(drawing: Specimen) -> Game:
        pair = replace(specimen, generator=drawing.need_generator(HARDENING), discriminator=judge)
        return join_games(watch(trial) for trial in hold_trials(pair, material, settings, HARDENING))

    rng = settings.make_rng("hardening")
    found = measure_hardening(judge_draws(early), judge_draws(specimen), rng, times=settings.times)
    meaning = "how much lower the final discriminator's AUC is against the final generator than against the earlier one"
    note = f"the generator after step {steps[0]:,}, on the same rows, hidden at the same places"
    yield found.tell(HARDENING, CLAIM, "AUC", meaning, "rows of both exchanged at random", note)


def _tell_course(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    """By what the run logged, and by its snapshots where it kept some."""
    rng = settings.make_rng("course")
    steps = [progress["step"] for progress in read_snapshots(specimen.folder)]
    if len(steps) >= 4:
        folders = [snapshot_folder(specimen.folder, step) for step in steps]
        found = [_judge(open_specimen(folder, device=specimen.device), material, settings) for folder in folders]
        courses = {
            "log p of replacements": [one.plausibility.log_prob.estimate.value for one in found],
            "rank of replacements": [one.plausibility.median_rank.estimate.value for one in found],
            "difficulty": [one.auc.value for one in found],
        }
        for name, course in courses.items():
            yield _tell_trend(name, np.array(steps), np.array(course), f"over {len(steps)} snapshots of the run", rng)
    records = [one for one in read_metrics(specimen.folder / "metrics.jsonl") if one.get("heldout_auc") is not None]
    if len(records) < 4:
        if len(steps) >= 4:
            return
        raise InputError(
            f"{specimen.name}: has {len(steps)} snapshots and {len(records)} held-out scores in its log; "
            "give a run folder with four of either (pretrain --evaluation.times)"
        )
    logged = np.array([record["step"] for record in records])
    for key, (name, expected) in _COURSES.items():
        scores = np.array([float(record[key]) for record in records])
        note = f"over {len(records)} held-out scores of the run's log; {expected}"
        yield _tell_trend(name, logged, scores, note, rng)


def _tell_trend(name: str, steps: Labels, course: np.ndarray, note: str, rng: np.random.Generator) -> Finding:
    found = measure_correlation(steps.astype(np.float64), course.astype(np.float64), rng)
    meaning = f"Spearman's rho of the {name} with the step: 1 rises, -1 falls"
    span = f"from {course[0]:.3g} to {course[-1]:.3g} {note}; p = {found.p:.2g}"
    return found.rho.tell(f"course of the {name}", CLAIM, "rho", meaning, "the steps shuffled", span)
