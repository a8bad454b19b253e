"""What a study found, to read: a table, comparisons, curves.

results -> report.md, README.md, curves.png, curves.svg
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from electralab.artifacts import write_file
from electralab.experiments.picture import draw_study
from electralab.records.study import AVERAGE, Amount, ReachedTarget, SeedMean, StudyResults

_README = """# {title}

Made by the command below; given again it goes on where it stopped and runs again what failed.

```bash
{command}
```

- `report.md`: table, comparisons and curves
- `results.json`: all numbers, cell by cell
- `environment.json`: the command, the machine, the versions
- `study.toml`, `arms/`, `scores/`: every setting, resolved
- `cells/ARM/seed-S/`: the run, the result of each score (`NAME.json`), its logs
"""


def write_report(out: Path, results: StudyResults) -> None:
    draw_study(out, results)
    command = results.provenance.command or f"electra study {results.name}"
    write_file(out / "README.md", _README.format(title=results.title, command=command))
    write_file(out / "report.md", "\n".join(_lines(results)) + "\n")


def _lines(results: StudyResults) -> Iterator[str]:
    yield f"# {results.title}\n"
    kind, amount = results.budget.kind, results.budget.amount
    seeds = results.seeds
    yield (
        f"{len(results.table)} arms, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}, a budget of {amount:.4g} "
        f"{'FLOPs' if kind == 'flops' else kind} each. Scores in points: mean over the seeds"
        + (" ± half the 95 % interval (Student's t)." if len(seeds) > 1 else "; one seed tells nothing of the spread.")
        + "\n"
    )
    yield from table(*score_rows(results))
    if AVERAGE in results.score_names:
        metrics = {results.scores[name] for name in results.averaged_scores}
        kinds = ", which are not of one kind" if len(metrics) > 1 else ""
        yield f"\nThe average is the plain mean over {_join(_list_metrics(results))}{kinds}."
    yield "\n## What it took\n"
    yield from table(*cost_rows(results))
    yield "\nOf pre-training, in the mean over the seeds.\n"
    head, rows = comparison_rows(results)
    if rows:
        yield "## Comparisons\n"
        yield from table(head, rows)
        yield (
            "\nTests are paired: t is Student's over seeds, bootstrap draws paradigms. Holm's correction is within "
            "each kind of test: over seeds, over paradigms, and of the average, which says nothing that its scores do "
            "not.\n"
        )
    head, rows = reach_rows(results)
    if rows:
        yield f"## {name_unit(results)} to reach the final score of {results.baseline}\n"
        yield from table(head, rows)
    if any(points for lines in results.curves.values() for points in lines.values()):
        yield "\n![scores](curves.png)"
    failed = [cell for cell in results.cells if cell.status != "finished"]
    if failed:
        yield "\n## Not finished\n"
        yield from (f"- {cell.arm} seed {cell.seed}: {cell.error or 'not run to its end'}" for cell in failed)
    if results.notes:
        yield "\n## Notes\n"
        yield from (f"- {note}" for note in results.notes)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---', *['---:'] * (len(head) - 1)])}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def score_rows(results: StudyResults) -> tuple[list[str], list[list[str]]]:
    names = results.score_names
    head = ["arm", *(f"{name} ({metric})" if (metric := results.scores.get(name)) else name for name in names)]
    rows = []
    for row in results.table:
        label = row.arm + (" (baseline)" if row.arm == results.baseline else "")
        rows.append([label, *(format_estimate(row.scores[name]) for name in names)])
    return head, rows


def cost_rows(results: StudyResults) -> tuple[list[str], list[list[str]]]:
    """Of pre-training one seed."""
    keys = ("steps", "tokens", "flops", "parameters")
    rows = []
    for row in results.table:
        minutes = "" if row.pretraining_seconds is None else f"{row.pretraining_seconds / 60:.1f}"
        rows.append(
            [row.arm, *("" if (value := getattr(row, key)) is None else format_count(value) for key in keys), minutes]
        )
    return ["arm", "steps", "tokens", "FLOPs", "parameters", "minutes"], rows


def comparison_rows(results: StudyResults) -> tuple[list[str], list[list[str]]]:
    rows = []
    for row in results.comparisons:
        low, high = row.low, row.high
        interval = "" if low is None or high is None else f"[{100 * low:+.1f}, {100 * high:+.1f}]"
        over = row.over if row.n > 1 else row.over.removesuffix("s")
        test = f"{row.test.removeprefix('paired ')}, {row.n} {over}"
        rows.append(
            [
                row.arm,
                row.versus,
                row.score,
                f"{100 * row.mean + 0.0:+.2f}",
                interval,
                test,
                *map(format_p, (row.p, row.p_holm)),
            ]
        )
    return ["arm", "against", "score", "difference", "95 % interval", "test", "p", "p (Holm)"], rows


def reach_rows(results: StudyResults) -> tuple[list[str], list[list[str]]]:
    targets = {
        name: target
        for name in results.score_names
        if (target := results.reach.get(name)) and target.target is not None
    }
    head = ["", *(f"{name} {100 * (target.target or 0.0):.1f}" for name, target in targets.items())]
    lines = list(dict.fromkeys(line for target in targets.values() for line in target.lines))
    return head, [[line, *(_reached(to.lines.get(line), results.x) for to in targets.values())] for line in lines]


def name_unit(results: StudyResults) -> str:
    return "Tokens" if results.x == "tokens" else "Compute"


def _reached(reached: ReachedTarget | None, unit: Amount) -> str:
    if reached is None:
        return ""
    amount = reached.amount(unit)
    if amount is None:
        return "not reached"
    return f"{'≤ ' if reached.is_upper_bound else ''}{amount:.3g} ({reached.share:.0%})"


def _list_metrics(results: StudyResults) -> list[str]:
    named = {name: results.scores[name].replace("_", " ") for name in results.averaged_scores}
    return [f"{name} ({metric})" if metric else name for name, metric in named.items()]


def _join(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def format_estimate(mean: SeedMean | None) -> str:
    if mean is None:
        return ""
    return f"{100 * mean.mean:.1f}" + ("" if mean.high is None else f" ± {100 * (mean.high - mean.mean):.1f}")


def format_p(p: float | None) -> str:
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_count(value: float) -> str:
    """1,234; 12.3 M; 4e+13 as it is."""
    if value >= 1e12:
        return f"{value:.3g}"
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:,.0f}"
