"""How plausible the generator's replacements are, whether they keep the part of speech, and how hard they are to tell.

AnalysisModel, rows, snapshots, metrics.jsonl -> log p, rank, agreement, AUC, each over the course of training
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from electralab.analysis.arrays import (
    BoolArray,
    FloatArray,
    Indices,
    IntArray,
    Matrix,
    auc,
    require_count,
    require_finite,
)
from electralab.analysis.correlation import measure_correlation
from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, exact, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.measures.balance import CHANCE, measure_auc
from electralab.analysis.model import AnalysisModel, load_analysis_model
from electralab.analysis.pair import PairOutputs, run_pair, target_rows
from electralab.analysis.probe_sets import TaggedSentence
from electralab.errors import InputError
from electralab.objective.electra import ElectraOutput
from electralab.records.run import Snapshot, read_metrics, snapshot_folder
from electralab.statistics import Interval, Statistic, null_interval
from electralab.tokens.tokenizer import Tokenizer

HARDENING = "AUC lost since the first snapshot"
_PURPOSE = "judging replacements"
_DEALT = "the same replacements, dealt to other places"
_UNKNOWN = -1
_EXCHANGES = 20
_LOGGED = {
    "heldout_generator_loss": ("generator_loss", "generator loss", "plausible: falls"),
    "heldout_auc": ("rtd_auc", "verdict AUC", "difficulty that keeps up: does not rise to 1"),
}


@dataclass(frozen=True, slots=True)
class Replacements:
    """Of the sampled tokens that are not the original: what the generator thought of each, and of any token."""

    log_probs: FloatArray  # (R,) nats
    ranks: Indices  # (R,) from 1
    random_log_probs: FloatArray
    """Of a token dealt from another replacement: as frequent, but not meant for this position."""
    random_ranks: Indices
    is_kept: BoolArray
    """(M,) which of the sampled tokens these are."""

    @classmethod
    def concat(cls, parts: Sequence["Replacements"]) -> "Replacements":
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def score_replacements(logits: Matrix, sampled_ids: IntArray, original_ids: IntArray, draws: Resampler) -> Replacements:
    """From the generator's logits (M, V); a sample that hits the original replaces nothing.

    >>> flat = np.zeros((2, 4))
    >>> score_replacements(flat, np.array([1, 2]), np.array([0, 0]), Resampler(np.random.default_rng(0))).ranks
    array([1, 1])
    """
    require_finite("plausibility of replacements", logits)
    is_kept = sampled_ids != original_ids
    require_count("plausibility of replacements", int(is_kept.sum()), 2, "replaced tokens")
    wide = logits[is_kept].astype(np.float64)
    # Less the highest, so that no exponential overflows.
    highest = wide.max(axis=1, keepdims=True)
    log_probs = wide - highest - np.log(np.exp(wide - highest).sum(axis=1, keepdims=True))
    rows, sampled = np.arange(len(wide)), sampled_ids[is_kept]
    # As frequent as the replacements themselves, which tokens of the whole vocabulary would not be.
    dealt = draws.rng.permutation(sampled)

    def rank(ids: IntArray) -> Indices:
        return np.asarray((wide > wide[rows, ids][:, None]).sum(axis=1) + 1, dtype=np.int64)

    return Replacements(log_probs[rows, sampled], rank(sampled), log_probs[rows, dealt], rank(dealt), is_kept)


@dataclass(frozen=True, slots=True)
class ReplacementPlausibility:
    """Controls: the same of tokens dealt from other positions."""

    log_prob: Controlled
    """The mean ln p_G of the replacement."""
    median_rank: Controlled


def measure_plausibility(
    replacements: Replacements, draws: Resampler, *, rows: IntArray | None = None
) -> ReplacementPlausibility:
    """`rows` are the rows of text of all M sampled tokens."""
    groups = None if rows is None else rows[replacements.is_kept]
    count = len(replacements.ranks)

    def estimate(statistic: Statistic) -> Interval:
        return draws.interval(statistic, count, groups=groups)

    def mean(values: FloatArray) -> Interval:
        return estimate(lambda indices: float(values[indices].mean()))

    def median(values: Indices) -> Interval:
        return estimate(lambda indices: float(np.median(values[indices])))

    return ReplacementPlausibility(
        Controlled(mean(replacements.log_probs), mean(replacements.random_log_probs)),
        Controlled(median(replacements.ranks), median(replacements.random_ranks)),
    )


def measure_agreement(
    originals: IntArray, replacements: IntArray, draws: Resampler, *, rows: IntArray | None = None
) -> Controlled:
    """The share of replacements of the original's category (part of speech). Control: replacements shuffled."""
    require_count("agreement of categories", len(originals), 2, "replacements")
    is_same = originals == replacements
    estimate = draws.mean(is_same, rows)
    control = draws.shuffled(lambda order: float((originals == replacements[order]).mean()), len(is_same))
    return Controlled(estimate, control)


def measure_hardening(early: PairOutputs, late: PairOutputs, draws: Resampler) -> Controlled:
    """By how much one discriminator's AUC is lower against late replacements than against early ones, in the same rows.

    Control: rows of the two exchanged at random, which leaves nothing early or late about either.
    """
    assert np.array_equal(early.rows, late.rows), "both are about the same tokens"
    for outputs in (early, late):
        require_count("hardening of replacements", int(outputs.is_replaced.sum()), 2, "replaced tokens")
        require_finite("hardening of replacements", outputs.logits)

    def lost(indices: Indices) -> float:
        first, second = (auc(side.logits[indices], side.is_replaced[indices]) for side in (early, late))
        return first - second

    def exchange() -> float:
        names = np.unique(early.rows)
        is_exchanged = np.isin(early.rows, names[draws.rng.random(len(names)) < 0.5])
        sides = []
        for first, second in ((early, late), (late, early)):
            logits = np.where(is_exchanged, second.logits, first.logits)
            truth = np.where(is_exchanged, second.is_replaced, first.is_replaced)
            sides.append(auc(logits, truth))
        return sides[0] - sides[1]

    estimate = draws.interval(lost, len(early.rows), groups=early.rows)
    return Controlled(estimate, null_interval(exchange() for _ in range(_EXCHANGES)))


def tag_tokens(tokenizer: Tokenizer, sentences: tuple[TaggedSentence, ...]) -> IntArray:
    """(V,) the usual tag of each token that is a whole word of the sentences, as a number; -1 of the others."""
    tagged = Counter(pair for sentence in sentences for pair in zip(sentence.words, sentence.tags, strict=True))
    words = list(dict.fromkeys(word for word, _ in tagged))
    encoded = dict(zip(words, tokenizer.encode_many(words), strict=True))
    counts: dict[int, Counter[str]] = {}
    for (word, tag), count in tagged.items():
        if len(encoded[word]) == 1 and tokenizer.is_ordinary[encoded[word][0]]:
            counts.setdefault(int(encoded[word][0]), Counter())[tag] += count
    numbers = {tag: number for number, tag in enumerate(sorted({tag for tags in counts.values() for tag in tags}))}
    usual = np.full(len(tokenizer.is_ordinary), _UNKNOWN, dtype=np.int64)
    for token, tags in counts.items():
        usual[token] = numbers[max(tags, key=lambda tag: (tags[tag], tag))]
    return usual


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if not model.is_pair:
        yield Skipped("log_prob", "replacements", f"{model.name}: replaces no tokens; give a run of electra")
        return
    yield from skip_on_error("log_prob", "plausibility of replacements", _quality_findings, model, data)
    yield from skip_on_error("part_of_speech_kept", "part of speech kept", _agreement_findings, model, data)
    if model.control_of is None:
        yield from skip_on_error("hardening", HARDENING, _hardening_findings, model, data)
        yield from skip_on_error("course", "course of training", _course_findings, model, data)


def _quality_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    plausibility, difficulty = _score_quality(model, data)
    note = "by the generator's own opinion"
    meaning = "mean ln p of the replacement, as the generator saw it"
    yield plausibility.log_prob.to_finding("log_prob", "log p of replacements", "nats", meaning, _DEALT, note)
    meaning = "how many tokens the generator found as likely or likelier, median"
    yield plausibility.median_rank.to_finding("rank", "rank of replacements", "rank", meaning, _DEALT, note)
    meaning = "verdict AUC against these replacements: how hard they are to tell"
    yield Controlled(difficulty, exact(0.5)).to_finding("difficulty", "difficulty", "AUC", meaning, CHANCE)


def _score_quality(model: AnalysisModel, data: AnalysisData) -> tuple[ReplacementPlausibility, Interval]:
    draws = data.settings.resampler("replacements")
    parts, outputs = [], []
    for trial in run_pair(model, data, _PURPOSE):
        outputs.append(PairOutputs.from_batch(trial))
        parts.append(score_replacements(trial.generator_logits.float().cpu().numpy(), *_sampled_ids(trial), draws))
    pair = PairOutputs.concat(outputs)
    plausibility = measure_plausibility(Replacements.concat(parts), draws, rows=pair.target_rows)
    return plausibility, measure_auc(pair, draws)


def _sampled_ids(trial: ElectraOutput) -> tuple[IntArray, IntArray]:
    """(M,) what was sampled, and what was masked."""
    sampled = trial.corrupted.input_ids.flatten()[trial.masked.positions]
    return sampled.cpu().numpy(), trial.masked.target_ids.cpu().numpy()


def _agreement_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    tags = tag_tokens(model.tokenizer, data.tagged.read_by(model))
    columns = [(*_sampled_ids(trial), target_rows(trial.masked)) for trial in run_pair(model, data, _PURPOSE)]
    sampled, originals, rows = (np.concatenate(column) for column in zip(*columns, strict=True))
    is_known = (sampled != originals) & (tags[sampled] != _UNKNOWN) & (tags[originals] != _UNKNOWN)
    require_count("part of speech kept", int(is_known.sum()), 20, "replacements of which both words are tagged")
    result = measure_agreement(
        tags[originals[is_known]], tags[sampled[is_known]], data.settings.resampler("agreement"), rows=rows[is_known]
    )
    meaning = "replacements of the part of speech of the token they replace"
    note = (
        f"{int(is_known.sum()):,} replacements of which both words are in the tagged sentences, by a word's usual tag"
    )
    yield result.to_finding("part_of_speech_kept", "part of speech kept", "share", meaning, _DEALT, note)


def _hardening_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    """One judge, the final discriminator, for both: its own progress must not pass for easier replacements."""
    discriminator = model.require_discriminator(HARDENING)
    steps = [snapshot.step for snapshot in Snapshot.read_all(model.folder)]
    if not steps:
        raise InputError(
            f"{model.name}: kept no snapshot, whose replacements could be judged beside the last; "
            "give a run folder with one (pretrain --snapshots 0.25)"
        )
    early = load_analysis_model(snapshot_folder(model.folder, steps[0]), device=model.device)

    def outputs(sampler: AnalysisModel) -> PairOutputs:
        pair = replace(model, generator=sampler.require_generator(HARDENING), discriminator=discriminator)
        return PairOutputs.concat(map(PairOutputs.from_batch, run_pair(pair, data, HARDENING)))

    draws = data.settings.resampler("hardening")
    result = measure_hardening(outputs(early), outputs(model), draws)
    meaning = "how much lower the final discriminator's AUC is against the final generator than against the earlier one"
    note = f"the generator after step {steps[0]:,}, on the same rows, hidden at the same places"
    yield result.to_finding("hardening", HARDENING, "AUC", meaning, "rows of both exchanged at random", note)


def _course_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    """By what the run logged, and by its snapshots where it kept some."""
    draws = data.settings.resampler("course")
    steps = [snapshot.step for snapshot in Snapshot.read_all(model.folder)]
    if len(steps) >= 4:
        folders = [snapshot_folder(model.folder, step) for step in steps]
        scores = [_score_quality(load_analysis_model(folder, device=model.device), data) for folder in folders]
        courses = {
            ("log_prob", "log p of replacements"): [score.log_prob.estimate.value for score, _ in scores],
            ("rank", "rank of replacements"): [score.median_rank.estimate.value for score, _ in scores],
            ("difficulty", "difficulty"): [difficulty.value for _, difficulty in scores],
        }
        for (id, name), course in courses.items():
            note = f"over {len(steps)} snapshots of the run"
            yield _trend_finding(id, name, steps, course, note, draws)
    records = [row for row in read_metrics(model.folder / "metrics.jsonl") if row.get("heldout_auc") is not None]
    if len(records) < 4:
        if len(steps) >= 4:
            return
        raise InputError(
            f"{model.name}: has {len(steps)} snapshots and {len(records)} held-out scores in its log; "
            "give a run folder with four of either (pretrain --evaluation.times)"
        )
    logged = [record["step"] for record in records]
    for key, (id, name, expected) in _LOGGED.items():
        note = f"over {len(records)} held-out scores of the run's log; {expected}"
        yield _trend_finding(id, name, logged, [float(record[key]) for record in records], note, draws)


def _trend_finding(
    id: str, name: str, steps: Sequence[int], course: Sequence[float], note: str, draws: Resampler
) -> Finding:
    result = measure_correlation(np.array(steps, dtype=np.float64), np.array(course, dtype=np.float64), draws)
    meaning = f"Spearman's rho of the {name} with the step: 1 rises, -1 falls"
    span = f"from {course[0]:.3g} to {course[-1]:.3g} {note}; p = {result.p:.2g}"
    return result.rho.to_finding(f"course.{id}", f"course of the {name}", "rho", meaning, "the steps shuffled", span)


MEASURE = Measure(
    "replacements", "M46", "replacements", "How plausible are replacements, and how hard to tell?", measure, version=2
)
