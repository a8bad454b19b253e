"""What a run of `fit` has to show: its leaderboard, what was taken for what, and scores over labelled rows.

FitResults -> Block...
"""

import math
from collections.abc import Iterator

from electralab.records.fitted import EntryName, FitEntry, FitResults
from electralab.reporting import blocks as b
from electralab.reporting import format as fmt
from electralab.reporting.run_pages import class_blocks

ENTRY_NAMES: dict[EntryName, str] = {"encoder": "encoder", "linear": "TF-IDF", "blend": "blend"}


def leaderboard(results: FitResults) -> b.Table:
    """The best first, each with its interval and how far it is behind."""
    metric, others = results.metric, [name for name in results.entries[0].scores if name != results.metric]
    has_test = any(entry.test for entry in results.entries)

    def format_behind(entry: FitEntry) -> str:
        if entry.name == results.best:
            return "–"
        behind = fmt.format_signed(-100 * entry.behind)
        if math.isnan(entry.behind_low):
            return behind
        low, high = (fmt.format_signed(-100 * value) for value in (entry.behind_high, entry.behind_low))
        return f"{behind} ({low} to {high})"

    rows = []
    for entry in results.entries:
        interval = fmt.format_interval(entry.low, entry.high)
        cells = [ENTRY_NAMES[entry.name], fmt.format_points(entry.scores[metric]), interval]
        cells += [fmt.format_points(entry.scores[name]) for name in others]
        rows.append([*cells, format_behind(entry), *([fmt.format_points(entry.test.get(metric))] if has_test else [])])
    head = ["", fmt.format_key(metric), "95 % interval", *map(fmt.format_key, others), "against the best"]
    title = f"{results.task}, in points, by {results.judged_by} ({results.judged_rows:,} rows)"
    return b.Table(title, [*head, *([f"{fmt.format_key(metric)}, test"] if has_test else [])], rows, marked=0)


def fit_blocks(results: FitResults) -> Iterator[b.Block]:
    """As the shell prints it."""
    yield leaderboard(results)
    yield b.Bullets([f"{ENTRY_NAMES[entry.name]}: {entry.what}" for entry in results.entries], "note")


def fit_scores(results: FitResults | None) -> Iterator[b.PageBlock]:
    if results is None:
        yield b.Absent("No scores", "They are written when every entry is finished.")
        return
    yield from fit_blocks(results)
    split = results.judged_by.removeprefix("the ")
    if by_class := list(class_blocks(results.report, split, ENTRY_NAMES[results.best])):
        yield b.Group("beside", by_class)


def fit_tiles(results: FitResults) -> Iterator[b.Tile]:
    for place, entry in enumerate(results.entries):
        beside = "the result" if place == 0 else f"{100 * entry.behind:.1f} points behind"
        yield b.Tile(ENTRY_NAMES[entry.name], fmt.format_points(entry.scores[results.metric]), beside)
    yield b.Tile("labelled rows", f"{results.rows:,}", results.judged_by)
    yield b.Tile("time", fmt.format_seconds(results.seconds), "of the last command")


def fit_charts(results: FitResults) -> Iterator[b.Chart]:
    """Scores over labelled rows."""
    lines = []
    for color, (name, shown) in enumerate(ENTRY_NAMES.items()):
        points = [point for point in results.curve if point.name == name]
        if points:
            x: dict[str, list[float | None]] = {"rows": [point.rows for point in points]}
            lines.append(b.Line(shown, color, x, [100 * point.score for point in points]))
    title = f"{fmt.format_metric(results.metric).capitalize()} over labelled rows"
    note = "Each point is judged by the same rows. Where a curve still rises at its end, more labels help."
    yield b.Chart("labels", title, "points", "learning", lines, (), note, "rows")
