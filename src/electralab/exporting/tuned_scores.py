"""The scores of a fine-tuning run in words, over its seeds and beside its baselines.

results.json -> rows of a table
"""

from typing import Any

from electralab.records.tuned import choose_split

Results = dict[str, Any]

BASELINE_COLUMNS = {"commonest": "commonest", "linear": "linear model"}


def describe_tuned(results: Results) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a row for each labelled split and metric. One seed has a score; several have a spread."""
    is_single, together, baselines = len(results["seeds"]) == 1, results.get("ensemble"), results.get("baselines", {})
    more = {} if is_single else {"mean": "mean", "sd": "± sd", "best": "best"}
    names = [BASELINE_COLUMNS.get(name, name) for name in baselines]
    head = ["", "score" if is_single else "median", *names, *more.values(), *(["ensemble"] if together else [])]
    rows = []
    for split, metrics in results["spread"].items():
        for metric, spread in metrics.items():
            values = [spread["median"], *(of["scores"].get(split, {}).get(metric) for of in baselines.values())]
            values += [spread[column] for column in more]
            values += [together.get(metric) if split == "dev" else None] if together else []
            cells = ["" if value is None else f"{value:.4f}" for value in values]
            rows.append([f"{split} {metric.replace('_', ' ')}", *cells])
    return head, rows


def choose_report(results: Results) -> tuple[str, Results]:
    """The report by class of the labelled split that says most, and its name; of older runs that of dev."""
    reports = results.get("reports") or {"dev": results["report"]}
    split = choose_split(reports)
    return split, reports[split]
