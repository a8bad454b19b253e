"""A fine-tuned run: its score beside its baselines, what was taken for what, and the examples it got wrong.

Subject -> HTML
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from electralab.reporting.format import format_key, format_percent, format_seconds, format_value, is_number
from electralab.reporting.markup import absent, matrix, paragraph, table
from electralab.reporting.predictions import Predictions, Row
from electralab.reporting.subjects import Subject, Tree, choose_split

_BASELINES = {"commonest": "commonest answer", "linear": "linear model"}
_METRICS = {
    "mcc": "Matthews correlation",
    "em": "exact match",
    "spearman": "Spearman correlation",
    "pearson": "Pearson correlation",
}
_LONGEST_TEXT = 280
_WIDEST_CONFUSION = 12
_NO_ANSWER = "no\N{NO-BREAK SPACE}answer"
_SIDE = 300.0
_EDGE = 44.0


def points(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:z.1f}".replace("-", "\N{MINUS SIGN}")


def name_metric(metric: str) -> str:
    """As it is said inside a sentence."""
    return _METRICS.get(metric, format_key(metric))


def read_spread(results: Mapping[str, Any]) -> dict[str, dict[str, Tree]]:
    """By split and metric what the seeds have: median, mean, sd, best and n; the metric that ranks them first.

    Thresholds are no scores, and what is of another shape is left out.
    """
    found = {}
    for split, metrics in (results.get("spread") or {}).items():
        known = {
            metric: of
            for metric, of in (metrics.items() if isinstance(metrics, dict) else ())
            if isinstance(of, dict) and is_number(of.get("median")) and not metric.endswith("_threshold")
        }
        if known:
            found[split] = dict(sorted(known.items(), key=lambda of: of[0] != results.get("metric")))
    return found


def read_baselines(results: Mapping[str, Any], split: str, metric: str) -> dict[str, float]:
    """By name, the score of each that has one."""
    found = {}
    for name, of in (results.get("baselines") or {}).items():
        scores = of.get("scores") if isinstance(of, dict) else None
        score = scores.get(split, {}).get(metric) if isinstance(scores, dict) else None
        if is_number(score):
            found[_BASELINES.get(name, name)] = float(score)
    return found


def find_majority(results: Mapping[str, Any]) -> float | None:
    """The share of the most frequent class, where each example has one class: of runs that have no baselines."""
    _, report = _choose_report(results)
    if not report.get("confusion"):
        return None
    supports = [of["support"] for of in report.get("classes", [])]
    return max(supports) / sum(supports) if sum(supports) else None


def _choose_report(results: Mapping[str, Any]) -> tuple[str, Tree]:
    """By class, of the split that says most; older runs have that of dev alone."""
    reports = results.get("reports") or {"dev": results.get("report") or {}}
    split = choose_split(reports)
    return split, reports.get(split) or {}


def find_tuned_headlines(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """Name, value, and what stands beside it."""
    results, spread = subject.results, read_spread(subject.results)
    metric, split = str(results.get("metric", "")), choose_split(spread)
    for name in dict.fromkeys((split, "dev")):
        of = spread.get(name, {}).get(metric)
        if of:
            beside = "one seed" if of.get("n", 1) == 1 else f"median of {of['n']} seeds"
            yield f"{name_metric(metric)}, {name}", points(of["median"]), beside
        if name == split:
            for baseline, score in read_baselines(results, split, metric).items():
                yield baseline, points(score), "a baseline"
    trivial = find_majority(results)
    if metric == "accuracy" and trivial is not None and "baselines" not in results:
        yield "most frequent class", points(trivial), "what a constant answer gets"
    if is_number(results.get("seconds")):
        yield "time", format_seconds(results["seconds"]), "all seeds" if len(subject.logs) > 1 else "of tuning"


def tell_tuning(subject: Subject) -> Iterator[str]:
    results, seeds, spread = subject.results, len(subject.logs), read_spread(subject.results)
    task = results.get("task") or subject.identity.get("task") or "a task"
    often = "once" if seeds == 1 else f"{seeds} times, each with another seed"
    trained = (results.get("data") or {}).get("train", {}).get("examples")
    on = f" on {trained:,} examples" if isinstance(trained, int) else ""
    yield f"A pre-trained model was fine-tuned for the task {task}{on}, {often}."
    metric, split = str(results.get("metric", "")), choose_split(spread)
    if of := spread.get(split, {}).get(metric):
        median = "Median " if of.get("n", 1) > 1 else "The "
        said = f"{median}{name_metric(metric)} on the {split} set is {points(of['median'])}"
        if of.get("n", 1) > 1:
            said += f" over {of['n']} seeds (standard deviation {points(of['sd'])})"
        dev = spread.get("dev", {}).get(metric)
        yield f"{said}; on the dev set {points(dev['median'])}." if dev and split != "dev" else f"{said}."
    for note in results.get("notes") or ():
        yield f"{note[:1].upper()}{note[1:]}."
    trivial = find_majority(results)
    if metric == "accuracy" and trivial is not None and "baselines" not in results:
        yield f"Always answering the most frequent class would be right {format_percent(trivial)} of the time."
    if is_number(results.get("seconds")):
        yield f"It took {format_seconds(results['seconds'])} in all, {results.get('steps', 0):,} steps a seed."


def show_tuning(subject: Subject) -> str:
    """Scores beside baselines, then which classes were taken for which."""
    results = subject.results
    if not results:
        return absent("No scores", "They are written when the last seed is finished.")
    split, report = _choose_report(results)
    by_class = _show_confusion(split, report) + _show_classes(split, report)
    return _show_scores(subject) + (f'<div class="beside">{by_class}</div>' if by_class else "")


def _show_scores(subject: Subject) -> str:
    results, spread = subject.results, read_spread(subject.results)
    ensemble, seeds = results.get("ensemble") or {}, len(results.get("seeds") or subject.logs)
    more = {} if seeds == 1 else {"mean": "mean", "sd": "s.d.", "best": "best"}
    baselines = results.get("baselines") or {}
    names = [_BASELINES.get(name, name) for name in baselines]
    rows = []
    for split, metrics in spread.items():
        for metric, of in metrics.items():
            theirs = read_baselines(results, split, metric)
            values = [of["median"], *(theirs.get(name) for name in names), *(of.get(column) for column in more)]
            values += [ensemble.get(metric) if split == "dev" else None] if ensemble else []
            rows.append((f"{split} {name_metric(metric)}", *map(points, values)))
    head = ["", "model" if seeds == 1 else "median", *names, *more.values(), *(["ensemble"] if ensemble else [])]
    over = "one seed" if seeds == 1 else f"{seeds} seeds"
    shown = table(f"{results.get('task', 'Task')}, {over}, in points", head, rows)
    told = [f"{_BASELINES.get(name, name)}: {of.get('what', '')}" for name, of in baselines.items()]
    return shown + (paragraph(f"Baselines: {'; '.join(told)}.", "note") if told else "")


def _show_confusion(split: str, report: Tree) -> str:
    confusion = report.get("confusion") or []
    if not confusion or len(confusion) > _WIDEST_CONFUSION:
        return ""
    names = [str(of["name"]) for of in report["classes"]]
    return matrix(f"What was taken for what, {split} set: rows are true, columns predicted", names, confusion)


def _show_classes(split: str, report: Tree) -> str:
    rows = [
        (of["name"], points(of["precision"]), points(of["recall"]), points(of["f1"]), of["support"])
        for of in report.get("classes") or []
    ]
    caption = f"By class, {split} set, best seed"
    return table(caption, ["class", "precision", "recall", "F1", "examples"], rows) if rows else ""


def show_mistakes(subject: Subject) -> str:
    found = subject.predictions
    if found is None:
        return ""
    if not found.wrong:
        return paragraph(f"All {found.count:,} examples of the {found.split} set are right.")
    match found.kind:
        case "classify":
            return _list_classes(found)
        case "regress":
            return _draw_numbers(found) + _list_numbers(found)
        case "label":
            return _list_sentences(found)
        case "qa":
            return _list_answers(found)


def _say_wrong(found: Predictions, order: str) -> str:
    share = format_percent(found.wrong / found.count)
    return f"{found.wrong:,} of {found.count:,} examples of the {found.split} set are wrong ({share}); {order} first"


def _list_classes(found: Predictions) -> str:
    pairs = max(len(_texts_of(row)) for row in found.worst)
    head = [*(("text", "second text")[:pairs] if pairs > 1 else ("text",)), "gold", "predicted", "probability"]
    rows = []
    for row in found.worst:
        chance = (row.get("probabilities") or {}).get(row["prediction"])
        said = format_percent(chance) if is_number(chance) else "–"
        rows.append((*_pad(_texts_of(row), pairs), str(row["truth"]), str(row["prediction"]), said))
    return table(_say_wrong(found, "the surest"), head, rows)


def _list_numbers(found: Predictions) -> str:
    pairs = max(len(_texts_of(row)) for row in found.worst)
    head = [*(("text", "second text")[:pairs] if pairs > 1 else ("text",)), "gold", "predicted"]
    rows = [(*_pad(_texts_of(row), pairs), float(row["truth"]), float(row["prediction"])) for row in found.worst]
    return table(f"Of {found.count:,} examples of the {found.split} set, the largest errors first", head, rows)


def _list_answers(found: Predictions) -> str:
    rows = [
        (
            _cut(str(row["question"])),
            _cut(" / ".join(dict.fromkeys(map(str, row["truth"])))) or _NO_ANSWER,
            _cut(row["prediction"]) or _NO_ANSWER,
        )
        for row in found.worst
    ]
    return table(_say_wrong(found, "as in the file, those at its head"), ["question", "gold", "predicted"], rows)


def _list_sentences(found: Predictions) -> str:
    """The words as they stand, the wrong ones underlined, with the tag they have and the one they were given."""
    shown = []
    for row in found.worst:
        words = []
        for word, tag, said in zip(map(str, row["words"]), row["truth"], row["prediction"], strict=True):
            mark = f' <small class="note">{escape(f"{tag}, not {said}")}</small>'
            words.append(escape(word) if tag == said else f'<span class="put">{escape(word)}</span>{mark}')
        shown.append(f'<div class="example"><p>{" ".join(words)}</p></div>')
    return paragraph(f"{_say_wrong(found, 'those with most wrong tags')}.", "note") + "".join(shown)


def _draw_numbers(found: Predictions) -> str:
    """Truth against prediction: what is right lies on the diagonal."""
    low, high = (pick(value for point in found.points for value in point) for pick in (min, max))
    width = high - low or 1.0

    def place(value: float) -> float:
        return _EDGE + (value - low) / width * (_SIDE - 2 * _EDGE)

    dots = "".join(
        f'<circle class="dots c0" cx="{place(truth):.1f}" cy="{_SIDE - place(said):.1f}" r="2.5"/>'
        for truth, said in found.points
    )
    ends = "".join(
        f'<text class="tick middle" x="{place(value):.1f}" y="{_SIDE - _EDGE + 16:.1f}">{format_value(value)}</text>'
        f'<text class="tick end" x="{_EDGE - 6:.1f}" y="{_SIDE - place(value) + 4:.1f}">{format_value(value)}</text>'
        for value in (low, high)
    )
    near, far = place(low), place(high)
    line = f'<line class="grid" x1="{near:.1f}" y1="{_SIDE - near:.1f}" x2="{far:.1f}" y2="{_SIDE - far:.1f}"/>'
    names = (
        f'<text class="tick middle" x="{_SIDE / 2:.0f}" y="{_SIDE - 8:.0f}">gold</text>'
        f'<text class="tick" x="{_EDGE:.0f}" y="{_EDGE - 14:.0f}">predicted</text>'
    )
    title = f"Gold and predicted numbers, {found.split} set"
    return (
        f'<figure class="chart numbers"><figcaption>{title}</figcaption><div class="plot">'
        f'<svg viewBox="0 0 {_SIDE:.0f} {_SIDE:.0f}" role="img" aria-label="{title}">{line}{dots}{ends}{names}</svg>'
        "</div></figure>"
    )


def _texts_of(row: Row) -> list[str]:
    return [_cut(str(text)) for text in row.get("texts") or [""]]


def _pad(texts: list[str], count: int) -> list[str]:
    return [*texts, *[""] * (count - len(texts))]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
