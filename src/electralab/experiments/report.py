"""What a study found, to read: a table, comparisons, curves.

results -> report.md, README.md, curves.png, curves.svg
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from electralab.artifacts import read_json, write_file
from electralab.errors import DamagedArtifact
from electralab.experiments.picture import draw_study
from electralab.experiments.results import AVERAGE, Results

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


def write_report(out: Path, results: Results) -> None:
    draw_study(out, results)
    command = results["provenance"].get("command") or f"electra study {results['name']}"
    write_file(out / "README.md", _README.format(title=results["title"], command=command))
    write_file(out / "report.md", "\n".join(_lines(results)) + "\n")


def read_results(out: Path) -> Results:
    """Empty where there are none yet; refused where they could not be told."""
    path = out / "results.json"
    results = read_json(path, "run the study's command again") if path.is_file() else {}
    try:
        if results != {}:
            list(_lines(results))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise DamagedArtifact(f"{path}: not the results of a study; run the study's command again") from None
    return results


def _lines(results: Results) -> Iterator[str]:
    yield f"# {results['title']}\n"
    (kind, amount), *_ = results["budget"].items()
    seeds = results["seeds"]
    yield (
        f"{len(results['table'])} arms, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}, a budget of {amount:.4g} "
        f"{'FLOPs' if kind == 'flops' else kind} each. Scores in points: mean over the seeds"
        + (" ± half the 95 % interval (Student's t)." if len(seeds) > 1 else "; one seed tells nothing of the spread.")
        + "\n"
    )
    yield from table(*score_rows(results))
    if AVERAGE in score_names(results):
        metrics = {results["scores"][name] for name in list_averaged(results)}
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
        yield f"## {name_unit(results)} to reach the final score of {results['baseline']}\n"
        yield from table(head, rows)
    if any(points for lines in results["curves"].values() for points in lines.values()):
        yield "\n![scores](curves.png)"
    failed = [cell for cell in results["cells"] if cell["status"] != "finished"]
    if failed:
        yield "\n## Not finished\n"
        yield from (f"- {cell['arm']} seed {cell['seed']}: {cell['error'] or 'not run to its end'}" for cell in failed)
    if results["notes"]:
        yield "\n## Notes\n"
        yield from (f"- {note}" for note in results["notes"])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---', *['---:'] * (len(head) - 1)])}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def score_names(results: Results) -> list[str]:
    names = list(results["scores"])
    return [*names, *([AVERAGE] if len(list_averaged(results)) > 1 else [])]


def list_averaged(results: Results) -> list[str]:
    """The scores that the average is of: all, in results from before some arms could have scores of their own."""
    return list(results["averaged"] if "averaged" in results else results["scores"])


def score_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    names = score_names(results)
    head = ["arm", *(f"{name} ({metric})" if (metric := results["scores"].get(name)) else name for name in names)]
    rows = []
    for row in results["table"]:
        label = row["arm"] + (" (baseline)" if row["arm"] == results["baseline"] else "")
        rows.append([label, *(format_estimate(row["scores"][name]) for name in names)])
    return head, rows


def cost_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Of pre-training one seed."""
    keys = ("steps", "tokens", "flops", "parameters")
    rows = []
    for row in results["table"]:
        minutes = "" if row["pretraining_seconds"] is None else f"{row['pretraining_seconds'] / 60:.1f}"
        rows.append([row["arm"], *("" if row[key] is None else format_count(row[key]) for key in keys), minutes])
    return ["arm", "steps", "tokens", "FLOPs", "parameters", "minutes"], rows


def comparison_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    rows = []
    for row in results["comparisons"]:
        low, high = row["low"], row["high"]
        interval = "" if low is None else f"[{100 * low:+.1f}, {100 * high:+.1f}]"
        over = row["over"] if row["n"] > 1 else row["over"].removesuffix("s")
        test = f"{row['test'].removeprefix('paired ')}, {row['n']} {over}"
        rows.append(
            [
                row["arm"],
                row["versus"],
                row["score"],
                f"{100 * row['mean'] + 0.0:+.2f}",
                interval,
                test,
                *map(format_p, (row["p"], row["p_holm"])),
            ]
        )
    return ["arm", "against", "score", "difference", "95 % interval", "test", "p", "p (Holm)"], rows


def reach_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    names = [name for name in score_names(results) if results["reach"].get(name)]
    head = ["", *(f"{name} {100 * results['reach'][name]['target']:.1f}" for name in names)]
    lines = list(dict.fromkeys(line for name in names for line in results["reach"][name]["lines"]))
    of_names = [results["reach"][name]["lines"] for name in names]
    return head, [[line, *(_reached(of.get(line), results["x"]) for of in of_names)] for line in lines]


def name_unit(results: Results) -> str:
    return "Tokens" if results["x"] == "tokens" else "Compute"


def _reached(of: Results | None, unit: str) -> str:
    if of is None:
        return ""
    if of[unit] is None:
        return "not reached"
    return f"{'≤ ' if of['is_upper_bound'] else ''}{of[unit]:.3g} ({of['share']:.0%})"


def _list_metrics(results: Results) -> list[str]:
    named = {name: results["scores"][name].replace("_", " ") for name in list_averaged(results)}
    return [f"{name} ({metric})" if metric else name for name, metric in named.items()]


def _join(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def format_estimate(of: Results | None) -> str:
    if of is None:
        return ""
    return f"{100 * of['mean']:.1f}" + ("" if of["low"] is None else f" ± {100 * (of['high'] - of['mean']):.1f}")


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
