"""A run of pre-training or fine-tuning: what it was, how good it became, and rows of text that it got right or wrong.

Artifact of a run, TunedResults, predictions -> sentence..., Block...
"""

import heapq
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from electralab.records.run import ExampleRow
from electralab.records.tuned import ClassReport, PredictionRow, TunedResults, choose_split, read_rows
from electralab.reporting import blocks as b
from electralab.reporting import format as fmt
from electralab.reporting.artifact import Artifact
from electralab.reporting.format import format_percent, format_points

# By the first word of the names of scores.
_GUESSERS = {
    **dict.fromkeys(("generator", "masked", "permuted"), "guesses right"),
    "next": "next tokens right",
}
BASELINE_NAMES = {"commonest": "commonest answer", "linear": "linear model"}
_ROWS_COMPARED = 2
# What comes below the first rows should not be out of sight.
_ROWS_SHOWN = 3
_LONGEST_TEXT = 280
_WIDEST_CONFUSION = 12
_MOST_MISTAKES = 12
_MOST_POINTS = 400
_NO_ANSWER = "no\N{NO-BREAK SPACE}answer"


def run_tiles(artifact: Artifact) -> Iterator[b.Tile]:
    scores, baselines = artifact.heldout_scores, artifact.baselines
    if "auc" in scores:
        yield b.Tile("replacements told apart", format_percent(scores["auc"]), "AUC; chance 50 %")
    for who, name in _GUESSERS.items():
        if (key := f"{who}_accuracy") in scores:
            beside = f"trivial {format_percent(baselines[key])}" if key in baselines else ""
            yield b.Tile(name, format_percent(scores[key]), beside)
    taken, total = artifact.steps
    yield b.Tile("steps", f"{taken:,}", f"of {total:,}" if total > taken else "finished" if total else "")
    tokens, flops, seconds = artifact.amounts
    if tokens is not None:
        yield b.Tile("tokens", fmt.format_count(tokens), f"{fmt.format_flops(flops or 0)} FLOPs")
    if seconds:
        yield b.Tile("time", fmt.format_seconds(seconds), f"{fmt.format_count((tokens or 0) / seconds)} tokens/s")


def heldout_table(artifact: Artifact) -> Iterator[b.PageBlock]:
    scores = artifact.heldout_scores
    if not scores:
        if artifact.logs:
            yield b.Absent("No held-out scores", "They come with the first evaluation of the run.")
        return
    # As many calls at random would find that share of the replaced tokens, and be right as often as one is replaced.
    baselines = {"auc": 0.5} | artifact.baselines
    for key, trivial in (("recall", "called_replaced"), ("precision", "replaced_share")):
        if trivial in scores:
            baselines[key] = scores[trivial]
    rows = [(fmt.format_key(key), value, baselines.get(key)) for key, value in scores.items()]
    yield b.Table("On rows that training does not see", ["score", "model", "trivial baseline"], rows)


def example_blocks(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    """Of several runs the first rows of each, under its name; where none has any, why, each reason once."""
    if len(artifacts) == 1:
        yield from _run_examples(artifacts[0], len(artifacts[0].examples))
    elif not any(artifact.examples for artifact in artifacts):
        yield from dict.fromkeys(block for artifact in artifacts for block in _run_examples(artifact, 0))
    else:
        for artifact in artifacts:
            if blocks := list(_run_examples(artifact, _ROWS_COMPARED)):
                yield b.Heading(artifact.name)
                yield from blocks


def _run_examples(artifact: Artifact, most: int) -> Iterator[b.PageBlock]:
    scores, rows = artifact.heldout_scores, artifact.examples[:most]
    if artifact.kind != "run" or not (scores or rows):
        return
    if not rows:
        if any(key.startswith("next_") for key in scores):
            why = "A causal model guesses each token from those before it; nothing of a text is hidden from it."
            yield b.Absent("Nothing is hidden", why)
        else:
            how = "'electra pretrain' writes examples.json with its evaluations"
            yield b.Absent("No examples", f"{how}; with prepared data, --data shows some now.")
        return
    put, where = "what the generator put there", "it is not the original, dotted where it is"
    if not any(row.corrupted for row in rows):
        put = "the text as the model would have it: its likeliest guesses"
        where = "they are not the original, dotted where they are"
    yield b.Paragraph(
        f"The text with hidden tokens struck through, and below it {put}, underlined where {where}.", "note"
    )
    if any(row.p_replaced for row in rows):
        text, spans = "Shaded by the discriminator's suspicion: original", []
        for p_replaced in (0.1, 0.3, 0.5, 0.7, 0.9):
            spans.append(b.TokenSpan(len(text) + 1, len(text) + 5, p_replaced))
            text += f" {100 * p_replaced:.0f} %"
        yield b.MarkedText(f"{text} replaced", spans, "note")
    shown = [b.Group("example", list(_example(row))) for row in rows]
    yield from shown[:_ROWS_SHOWN]
    if rest := shown[_ROWS_SHOWN:]:
        yield b.Fold(f"{len(rest)} more", rest)


def _example(row: ExampleRow) -> Iterator[b.PageBlock]:
    """The row as it was, as it was read by the discriminator or guessed by the model, counts, and the guesses."""
    count = len(row.pieces)
    guesses = [[(f"{'##' * guess.continues_word}{guess.text}", guess.p) for guess in each] for each in row.guesses]
    guesses = guesses or [[]] * count
    best = [tokens[0][0] if tokens else piece for piece, tokens in zip(row.pieces, guesses, strict=True)]
    corrupted, p_replaced = row.corrupted or best, row.p_replaced or [None] * count
    is_other = row.is_replaced or [token != piece for token, piece in zip(corrupted, row.pieces, strict=True)]
    yield b.join_tokens(row.pieces, [(None, "hidden" if is_hidden else "") for is_hidden in row.is_masked])
    marks = zip(p_replaced, is_other, row.is_masked, strict=True)
    yield b.join_tokens(
        corrupted, [(p, "replaced" if is_new else "restored" if is_hidden else "") for p, is_new, is_hidden in marks]
    )
    hidden, other = sum(row.is_masked), sum(is_other)
    text = f"{hidden} hidden, {hidden - other} restored"
    # A token counts as found at p > 0.5.
    if calls := [(is_new, p > 0.5) for is_new, p in zip(is_other, p_replaced, strict=True) if p is not None]:
        hits = sum(is_new and is_called for is_new, is_called in calls)
        alarms = sum(is_called and not is_new for is_new, is_called in calls)
        text += f", {other} replaced; {hits} of them found, {fmt.format_number_of(alarms, 'false alarm')}"
    yield b.Paragraph(f"{text}.", "note")
    texts = [" · ".join(f"“{token}” {format_percent(p)}" for token, p in tokens) for tokens in guesses]
    columns: dict[str, Sequence[b.Cell]] = {"hidden": row.pieces, "likeliest guesses": texts}
    if row.corrupted:
        columns["put there"] = row.corrupted
    if row.p_replaced:
        columns["looks replaced"] = [None if p is None else format_percent(p) for p in p_replaced]
    cells = zip(zip(*columns.values(), strict=True), row.is_masked, strict=True)
    if (lines := [line for line, is_hidden in cells if is_hidden]) and row.guesses:
        yield b.Fold("Guesses", [b.Table("Hidden tokens and what was guessed", list(columns), lines)])


def baseline_scores(results: TunedResults, split: str, metric: str) -> dict[str, float]:
    """By name, the score of each baseline that has one."""
    return {
        BASELINE_NAMES.get(name, name): baseline.scores[split][metric]
        for name, baseline in (results.baselines or {}).items()
        if metric in baseline.scores.get(split, {})
    }


def majority_share(results: TunedResults) -> float | None:
    """The share of the most frequent class, where each example has one class."""
    report = results.class_report
    supports = [scores.support for scores in report.classes]
    return max(supports) / sum(supports) if report.confusion and sum(supports) else None


def constant_score(results: TunedResults) -> float | None:
    """What always answering the most frequent class gets, where no baseline says it."""
    is_known = results.metric != "accuracy" or results.baselines is not None
    return None if is_known else majority_share(results)


def tuned_tiles(results: TunedResults) -> Iterator[b.Tile]:
    """The score that counts, its baselines, and that of dev where a labelled test says more."""
    metric, split = results.metric, choose_split(results.spread)
    for name in dict.fromkeys((split, "dev")):
        if spread := results.spread.get(name, {}).get(metric):
            beside = "one seed" if spread.n == 1 else f"median of {spread.n} seeds"
            yield b.Tile(f"{fmt.format_metric(metric)}, {name}", format_points(spread.median), beside)
        if name == split:
            for baseline, score in baseline_scores(results, split, metric).items():
                yield b.Tile(baseline, format_points(score), "a baseline")
    if (trivial := constant_score(results)) is not None:
        yield b.Tile("most frequent class", format_points(trivial), "what a constant answer gets")
    yield b.Tile("time", fmt.format_seconds(results.seconds), "all seeds" if len(results.seeds) > 1 else "of tuning")


def tuned_score_table(results: TunedResults, *, in_points: bool) -> b.Table:
    """A row for each labelled split and metric, baselines beside it. One seed has a score; several have a spread."""
    is_single, baselines = len(results.seeds) == 1, results.baselines or {}
    rows = []
    for split, metrics in results.spread.items():
        shown = list(metrics)
        if in_points:
            # A card has every number that was written; a page those that people compare, and thresholds are no scores.
            shown = sorted(
                (metric for metric in metrics if not metric.endswith("_threshold")),
                key=lambda metric: metric != results.metric,
            )
        for metric in shown:
            spread = metrics[metric]
            values: list[float | None] = [spread.median]
            values += [baseline.scores.get(split, {}).get(metric) for baseline in baselines.values()]
            values += [] if is_single else [spread.mean, spread.sd, spread.best]
            # Only dev is predicted by all seeds together.
            values += [results.ensemble.get(metric) if split == "dev" else None] if results.ensemble else []
            cells = [format_points(v) if in_points else "" if v is None else f"{v:.4f}" for v in values]
            name = fmt.format_metric(metric) if in_points else metric.replace("_", " ")
            rows.append([f"{split} {name}", *cells])
    first = ("model" if in_points else "score") if is_single else "median"
    short = BASELINE_NAMES if in_points else {"linear": "linear model"}
    names = [short.get(name, name) for name in baselines]
    spread_head = [] if is_single else ["mean", "s.d." if in_points else "± sd", "best"]
    over = "one seed" if is_single else f"{len(results.seeds)} seeds"
    title = f"{results.task}, {over}{', in points' if in_points else ''}"
    return b.Table(title, ["", first, *names, *spread_head, *(["ensemble"] if results.ensemble else [])], rows)


def tuned_scores(artifact: Artifact) -> Iterator[b.PageBlock]:
    """Scores beside baselines, then which classes were taken for which."""
    results = artifact.tuned
    if results is None:
        yield b.Absent("No scores", "They are written when the last seed is finished.")
        return
    yield tuned_score_table(results, in_points=True)
    if results.baselines:
        told = [f"{BASELINE_NAMES.get(name, name)}: {baseline.what}" for name, baseline in results.baselines.items()]
        yield b.Paragraph(f"Baselines: {'; '.join(told)}.", "note")
    if by_class := list(class_blocks(results.class_report, results.report_split)):
        yield b.Group("beside", by_class)


def class_blocks(report: ClassReport, split: str, who: str = "best seed") -> Iterator[b.Block]:
    """Which classes were taken for which, and how well each was found."""
    if report.confusion and len(report.confusion) <= _WIDEST_CONFUSION:
        title = f"What was taken for what, {split} set: rows are true, columns predicted"
        yield b.Matrix(title, [scores.name for scores in report.classes], report.confusion)
    if report.classes:
        rows = [
            (scores.name, *map(format_points, (scores.precision, scores.recall, scores.f1)), scores.support)
            for scores in report.classes
        ]
        head = ["class", "precision", "recall", "F1", "examples"]
        yield b.Table(f"By class, {split} set, {who}", head, rows)


@dataclass(frozen=True, slots=True)
class Mistakes:
    """What the best seed got wrong on the labelled split that says most."""

    split: str
    shape: Literal["class", "number", "tags", "answer"]
    """Of a prediction, whatever the task."""
    count: int
    wrong: int
    """Numbers are never quite right: of those all."""
    worst: tuple[PredictionRow, ...]
    """The surest mistakes first, or the largest."""
    points: tuple[tuple[float, float], ...] = ()
    """Of numbers: truth and prediction, of some examples evenly apart."""


def read_mistakes(path: Path, split: str) -> Mistakes | None:
    """Nothing where no row has the truth beside the prediction; a row of another shape is left out."""

    def plain(text: str) -> str:
        """Without case, punctuation and articles, as SQuAD compares answers."""
        kept = "".join(character for character in text.lower() if character not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())

    count = wrong = 0
    shape: Literal["class", "number", "tags", "answer"] = "class"
    worst: list[tuple[float, int, PredictionRow]] = []
    points: list[tuple[float, float]] = []
    for row in read_rows(path) if path.is_file() else ():
        truth, prediction = row.truth, row.prediction
        if not row.has_truth or prediction is None:
            continue
        if row.words:
            if not isinstance(truth, tuple) or not isinstance(prediction, tuple) or len(truth) != len(prediction):
                continue
            shape, error = "tags", float(sum(tag != given for tag, given in zip(truth, prediction, strict=True)))
        elif row.question:
            if not isinstance(truth, tuple) or not isinstance(prediction, str):
                continue
            shape, error = "answer", float(plain(prediction) not in map(plain, truth or ("",)))
        elif fmt.is_number(truth):
            if not fmt.is_number(prediction):
                continue
            shape, error = "number", abs(truth - prediction)
            points.append((truth, prediction))
        else:
            shape, error = "class", 0.0 if prediction == truth else (_probability(row) or 0.0) + 1e-9
        count, wrong = count + 1, wrong + (error > 0)
        if error > 0:
            # Of equals the first: no two have the same place, so rows are never compared.
            (heapq.heappush if len(worst) < _MOST_MISTAKES else heapq.heappushpop)(worst, (error, -count, row))
    if not count:
        return None
    rows = tuple(row for _, _, row in sorted(worst, key=lambda entry: entry[:2], reverse=True))
    return Mistakes(split, shape, count, wrong, rows, tuple(points[:: -(-len(points) // _MOST_POINTS) or 1]))


def _probability(row: PredictionRow) -> float | None:
    return row.probabilities.get(str(row.prediction)) if isinstance(row.probabilities, dict) else None


def mistake_blocks(artifact: Artifact) -> Iterator[b.PageBlock]:
    if artifact.fit is not None:
        # The predictions of an entry have its name, and are of the rows that it was judged by.
        has_test, folder = bool(artifact.fit.entries[0].test), artifact.path
        split, name = ("test", "test") if has_test else (artifact.fit.judged_by, artifact.fit.best)
    elif artifact.tuned is not None:
        split = name = choose_split(artifact.tuned.spread)
        folder = artifact.path / f"seed-{artifact.tuned.best_seed}"
    else:
        return
    path = folder / "predictions" / f"{name}.jsonl"
    mistakes = read_mistakes(path, split)
    if mistakes is None:
        return
    if not mistakes.wrong:
        yield b.Paragraph(f"All {mistakes.count:,} examples of the {split} set are right.")
        return

    def cut(text: str) -> str:
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"

    share, worst = format_percent(mistakes.wrong / mistakes.count), mistakes.worst
    title = f"{mistakes.wrong:,} of {mistakes.count:,} examples of the {split} set are wrong ({share})"
    texts = zip_longest(*(map(cut, row.texts or ("",)) for row in worst), fillvalue="")
    columns: dict[str, Sequence[b.Cell]] = dict(zip(("text", "second text"), texts, strict=False))
    match mistakes.shape:
        case "class":
            title = f"{title}; the surest first"
            probs = [_probability(row) for row in worst]
            columns |= {"gold": [str(row.truth) for row in worst], "predicted": [str(row.prediction) for row in worst]}
            columns["probability"] = ["–" if prob is None else format_percent(prob) for prob in probs]
        case "number":
            yield b.Scatter(f"Gold and predicted numbers, {split} set", mistakes.points)
            title = f"Of {mistakes.count:,} examples of the {split} set, the largest errors first"
            columns |= {"gold": [row.truth for row in worst], "predicted": [row.prediction for row in worst]}
        case "answer":
            title = f"{title}; as in the file, those at its head first"
            golds = [" / ".join(dict.fromkeys(row.truth if isinstance(row.truth, tuple) else ())) for row in worst]
            columns = {"question": [cut(row.question) for row in worst]}
            columns["gold"] = [cut(gold) or _NO_ANSWER for gold in golds]
            columns["predicted"] = [cut(str(row.prediction)) or _NO_ANSWER for row in worst]
        case "tags":
            yield b.Paragraph(f"{title}; those with most wrong tags first.", "note")
            for row in worst:
                # The words as they stand, the wrong ones underlined, with the right tag and the one they were given.
                assert isinstance(row.truth, tuple)
                assert isinstance(row.prediction, tuple)
                text, spans = "", []
                for word, tag, given in zip(row.words, row.truth, row.prediction, strict=True):
                    text += " " if text else ""
                    if tag != given:
                        note = f"{tag}, not {given}"
                        spans.append(b.TokenSpan(len(text), len(text) + len(word), mark="replaced", note=note))
                    text += word
                yield b.Group("example", [b.MarkedText(text, spans)])
            return
    yield b.Table(title, list(columns), list(zip(*columns.values(), strict=True)))
