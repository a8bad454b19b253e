"""How plausible the generator's replacements are, whether they keep the part of speech, and how hard they are to tell.

AnalysisModel, rows, snapshots, metrics.jsonl -> log p, rank, agreement, AUC, each over the course of training
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from electralab.analysis.arrays import BoolArray, FloatArray, IntArray, Matrix, auc, require_count
from electralab.analysis.data import load_analysis_model
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, measure_correlation, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.measures.balance import CHANCE, KNOWS_NOTHING, measure_auc
from electralab.analysis.outputs import PairOutputs, pair_outputs, run_pair
from electralab.analysis.probe_sets import TaggedSentence
from electralab.errors import InputError
from electralab.records.run import Snapshot, read_metrics, snapshot_folder
from electralab.statistics import Interval, null_interval
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
    ranks: IntArray  # (R,) from 1
    random_log_probs: FloatArray
    """Of a token dealt from another replacement: as frequent, but not meant for this position."""
    random_ranks: IntArray
    is_kept: BoolArray
    """(M,) which of the sampled tokens these are."""


def score_replacements(logits: Matrix, sampled_ids: IntArray, original_ids: IntArray, draws: Resampler) -> Replacements:
    """From the generator's logits (M, V); a sample that hits the original replaces nothing.

    >>> flat = np.zeros((2, 4))
    >>> score_replacements(flat, np.array([1, 2]), np.array([0, 0]), Resampler(np.random.default_rng(0))).ranks
    array([1, 1])
    """
    is_kept = sampled_ids != original_ids
    require_count("plausibility of replacements", int(is_kept.sum()), 2, "replaced tokens", logits)
    wide = logits[is_kept].astype(np.float64)
    # Less the highest, so that no exponential overflows.
    highest = wide.max(axis=1, keepdims=True)
    log_probs = wide - highest - np.log(np.exp(wide - highest).sum(axis=1, keepdims=True))
    rows, sampled = np.arange(len(wide)), sampled_ids[is_kept]
    # As frequent as the replacements themselves, which tokens of the whole vocabulary would not be.
    dealt = draws.rng.permutation(sampled)
    ranks = [np.asarray((wide > wide[rows, ids][:, None]).sum(axis=1) + 1, dtype=np.int64) for ids in (sampled, dealt)]
    return Replacements(log_probs[rows, sampled], ranks[0], log_probs[rows, dealt], ranks[1], is_kept)


def measure_plausibility(
    replacements: Replacements, draws: Resampler, *, rows: IntArray | None = None
) -> tuple[Controlled, Controlled]:
    """The mean ln p_G and the median rank of the replacements; `rows` are the rows of text of all M sampled tokens.

    Controls: the same of tokens dealt from other positions.
    """
    groups, count = None if rows is None else rows[replacements.is_kept], len(replacements.ranks)

    def median(values: IntArray) -> Interval:
        return draws.interval(lambda indices: float(np.median(values[indices])), count, groups)

    log_probs = draws.mean(replacements.log_probs, groups), draws.mean(replacements.random_log_probs, groups)
    return Controlled(*log_probs), Controlled(median(replacements.ranks), median(replacements.random_ranks))


def measure_agreement(
    originals: IntArray, replacements: IntArray, draws: Resampler, *, rows: IntArray | None = None
) -> Controlled:
    """The share of replacements of the original's category (part of speech). Control: replacements shuffled."""
    require_count("agreement of categories", len(originals), 2, "replacements")
    estimate = draws.mean(originals == replacements, rows)
    control = draws.shuffled(lambda order: float((originals == replacements[order]).mean()), len(originals))
    return Controlled(estimate, control)


def measure_hardening(early: PairOutputs, late: PairOutputs, draws: Resampler) -> Controlled:
    """By how much one discriminator's AUC is lower against late replacements than against early ones, in the same rows.

    Control: rows of the two exchanged at random, which leaves nothing early or late about either.
    """
    assert np.array_equal(early.rows, late.rows), "both are about the same tokens"
    for outputs in (early, late):
        count = int(outputs.is_replaced.sum())
        require_count("hardening of replacements", count, 2, "replaced tokens", outputs.logits)

    def lost(indices: IntArray) -> float:
        first, second = (auc(side.logits[indices], side.is_replaced[indices]) for side in (early, late))
        return first - second

    estimate = draws.interval(lost, len(early.rows), early.rows)
    names, exchanged = np.unique(early.rows), []
    for _ in range(_EXCHANGES):
        is_exchanged = np.isin(early.rows, names[draws.rng.random(len(names)) < 0.5])
        sides = []
        for first, second in ((early, late), (late, early)):
            logits = np.where(is_exchanged, second.logits, first.logits)
            sides.append(auc(logits, np.where(is_exchanged, second.is_replaced, first.is_replaced)))
        exchanged.append(sides[0] - sides[1])
    return Controlled(estimate, null_interval(exchanged))


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


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """How plausible are replacements, and how hard to tell?"""
    if not model.is_pair:
        yield Skipped("log_prob", "replacements", f"{model.name}: replaces no tokens; give a run of electra")
        return
    with skip_on_error("log_prob", "plausibility of replacements") as skipped:
        log_prob, rank, difficulty = _score_quality(model, data)
        note = "by the generator's own opinion"
        meaning = "mean ln p of the replacement, as the generator saw it"
        yield Finding("log_prob", "log p of replacements", "nats", meaning, *log_prob, _DEALT, note)
        meaning = "how many tokens the generator found as likely or likelier, median"
        yield Finding("rank", "rank of replacements", "rank", meaning, *rank, _DEALT, note)
        meaning = "verdict AUC against these replacements: how hard they are to tell"
        yield Finding("difficulty", "difficulty", "AUC", meaning, difficulty, CHANCE, KNOWS_NOTHING)
    yield from skipped
    with skip_on_error("part_of_speech_kept", "part of speech kept") as skipped:
        tags, outputs = tag_tokens(model.tokenizer, data.tagged.read_by(model)), pair_outputs(model, data, _PURPOSE)
        sampled, originals = tags[outputs.sampled_ids], tags[outputs.target_ids]
        is_known = (outputs.sampled_ids != outputs.target_ids) & (sampled != _UNKNOWN) & (originals != _UNKNOWN)
        count = int(is_known.sum())
        require_count("part of speech kept", count, 20, "replacements of which both words are tagged")
        draws, rows = data.settings.resampler("agreement"), outputs.target_rows[is_known]
        kept = measure_agreement(originals[is_known], sampled[is_known], draws, rows=rows)
        meaning = "replacements of the part of speech of the token they replace"
        note = f"{count:,} replacements of which both words are in the tagged sentences, by a word's usual tag"
        yield Finding("part_of_speech_kept", "part of speech kept", "share", meaning, *kept, _DEALT, note)
    yield from skipped
    if model.control_of is not None:
        return
    with skip_on_error("hardening", HARDENING) as skipped:
        # One judge, the final discriminator, for both: its own progress must not pass for easier replacements.
        model.require_discriminator(HARDENING)
        steps = [snapshot.step for snapshot in Snapshot.read_all(model.folder)]
        if not steps:
            raise InputError(
                f"{model.name}: kept no snapshot, whose replacements could be judged beside the last; "
                "give a run folder with one (pretrain --snapshots 0.25)"
            )
        early = load_analysis_model(snapshot_folder(model.folder, steps[0]), device=model.device)
        pair = replace(model, generator=early.require_generator(HARDENING))
        sides = pair_outputs(pair, data, HARDENING), pair_outputs(model, data, HARDENING)
        harder = measure_hardening(*sides, data.settings.resampler("hardening"))
        meaning = (
            "how much lower the final discriminator's AUC is against the final generator than against the earlier one"
        )
        note = f"the generator after step {steps[0]:,}, on the same rows, hidden at the same places"
        yield Finding("hardening", HARDENING, "AUC", meaning, *harder, "rows of both exchanged at random", note)
    yield from skipped
    with skip_on_error("course", "course of training") as skipped:
        yield from _course_findings(model, data)
    yield from skipped


def _score_quality(model: AnalysisModel, data: AnalysisData) -> tuple[Controlled, Controlled, Interval]:
    """ln p and rank of the replacements, and the discriminator's AUC against them."""
    draws, parts, outputs = data.settings.resampler("replacements"), [], []
    for output in run_pair(model, data, _PURPOSE):
        batch, logits = PairOutputs.from_batch(output), output.generator_logits.float().cpu().numpy()
        outputs.append(batch)
        parts.append(score_replacements(logits, batch.sampled_ids, batch.target_ids, draws))
    columns = ([getattr(part, field.name) for part in parts] for field in fields(Replacements))
    pair, replacements = PairOutputs.concat(outputs), Replacements(*map(np.concatenate, columns))
    return *measure_plausibility(replacements, draws, rows=pair.target_rows), measure_auc(pair, draws)


def _course_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    """By what the run logged, and by its snapshots where it kept some."""
    draws = data.settings.resampler("course")

    def trend(id: str, name: str, steps: Sequence[int], course: Sequence[float], note: str) -> Finding:
        rho, p = measure_correlation(np.array(steps, dtype=np.float64), np.array(course, dtype=np.float64), draws)
        meaning = f"Spearman's rho of the {name} with the step: 1 rises, -1 falls"
        span = f"from {course[0]:.3g} to {course[-1]:.3g} {note}; p = {p:.2g}"
        return Finding(f"course.{id}", f"course of the {name}", "rho", meaning, *rho, "the steps shuffled", span)

    steps = [snapshot.step for snapshot in Snapshot.read_all(model.folder)]
    if len(steps) >= 4:
        folders = [snapshot_folder(model.folder, step) for step in steps]
        scores = [_score_quality(load_analysis_model(folder, device=model.device), data) for folder in folders]
        note = f"over {len(steps)} snapshots of the run"
        course = [log_prob.estimate.value for log_prob, _, _ in scores]
        yield trend("log_prob", "log p of replacements", steps, course, note)
        yield trend("rank", "rank of replacements", steps, [rank.estimate.value for _, rank, _ in scores], note)
        yield trend("difficulty", "difficulty", steps, [difficulty.value for _, _, difficulty in scores], note)
    records = [row for row in read_metrics(model.folder / "metrics.jsonl") if row.get("heldout_auc") is not None]
    if len(records) < 4 and len(steps) < 4:
        raise InputError(
            f"{model.name}: has {len(steps)} snapshots and {len(records)} held-out scores in its log; "
            "give a run folder with four of either (pretrain --evaluation.times)"
        )
    for key, (id, name, expected) in _LOGGED.items() if len(records) >= 4 else ():
        note = f"over {len(records)} held-out scores of the run's log; {expected}"
        logged = [record.step for record in records]
        yield trend(id, name, logged, [float(record[key]) for record in records], note)


MEASURE = Measure("M46", "replacements", measure, version=2)
