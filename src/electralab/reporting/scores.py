"""Results of every kind as tables.

Subject -> HTML
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from electralab.reporting.markup import absent, bullets, paragraph, table
from electralab.reporting.subjects import Subject
from electralab.reporting.summary import find_majority, last_scores, name_metric
from electralab.reporting.wording import is_number, name_key, say_count, say_flops, say_seconds, say_value

_CHANCE = {"auc": 0.5}


def points(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def show_heldout(subject: Subject) -> str:
    scores, baselines = last_scores(subject), _CHANCE | subject.results.get("baselines", {})
    if not scores:
        return absent("No held-out scores", "They come with the first evaluation of the run.") if subject.logs else ""
    if "called_replaced" in scores:
        baselines = {**baselines, "recall": scores["called_replaced"]}
    rows = [(name_key(key), value, baselines.get(key)) for key, value in scores.items()]
    return table("On rows that training does not see", ["score", "model", "trivial baseline"], rows)


def show_tuning(subject: Subject) -> str:
    results = subject.results
    if not results:
        return absent("No scores", "They are written when the last seed is finished.")
    spread, ensemble = results.get("spread", {}), results.get("ensemble") or {}
    rows = [
        (
            name_metric(key),
            points(one["median"]),
            points(one["mean"]),
            points(one["sd"]),
            points(one["best"]),
            points(results.get("test", {}).get(key)),
            points(ensemble.get(key)),
        )
        for key, one in spread.items()
    ]
    head = ["metric", "median", "mean", "s.d.", "best", "test", "ensemble"]
    parts = [table(f"{results.get('task', 'Task')}: dev set over {len(subject.logs)} seeds, in points", head, rows)]
    report = results.get("report") or {}
    if classes := report.get("classes"):
        by_class = [
            (one["name"], points(one["precision"]), points(one["recall"]), points(one["f1"]), one["support"])
            for one in classes
        ]
        parts.append(table("By class, best seed", ["class", "precision", "recall", "F1", "examples"], by_class))
    if (confusion := report.get("confusion")) and len(confusion) <= 12:
        names = [one["name"] for one in report["classes"]]
        truths = [(name, *row) for name, row in zip(names, confusion, strict=False)]
        parts.append(table("Confusion: rows are true, columns predicted", ["", *names], truths))
    trivial = find_majority(results)
    parts.append(paragraph(f"Most frequent class: {points(trivial)} %.", "note") if trivial else "")
    return "".join(parts)


def show_suite(subject: Subject) -> str:
    results = subject.results
    paper = results.get("paper", {})
    rows: list[tuple[Any, ...]] = [
        (
            task,
            name_metric(one["metric"]),
            points(one["median"]),
            points(one["mean"]),
            points(one["sd"]),
            one["n"],
            points(paper.get(task)),
        )
        for task, one in results.get("tasks", {}).items()
    ]
    average = results.get("average", {})
    if average:
        rows.append(
            ("average", "", points(average.get("median")), points(average.get("mean")), points(average.get("sd")))
        )
        rows[-1] += ("", points(average.get("paper")))
    head = ["task", "metric", "median", "mean", "s.d.", "seeds", "ELECTRA-Small (paper)"]
    return table("Dev sets, in points", head, rows, marked=len(rows) - 1 if average else -1)


def show_study(subject: Subject) -> str:
    results = subject.results
    if not results:
        return absent("No table", "results.json of the study is missing or damaged; 'electra study' writes it again.")
    scores = list(dict.fromkeys(name for row in results.get("table", []) for name in row.get("scores", {})))
    rows = [
        (
            _name_arm(row, results),
            *(_interval(row.get("scores", {}).get(score)) for score in scores),
            say_count(row.get("tokens") or 0),
            say_flops(row.get("flops") or 0),
            say_count(row.get("parameters") or 0),
        )
        for row in results.get("table", [])
    ]
    head = ["arm", *scores, "tokens", "FLOPs", "parameters"]
    best = max(range(len(rows)), key=lambda i: _mean(results["table"][i]), default=-1)
    parts = [table("Points: mean over seeds ± half the 95 % interval", head, rows, marked=best)]
    comparisons = [
        (
            f"{one['arm']} – {one['versus']}",
            one["score"],
            f"{100 * one['mean']:+.1f}",
            f"{100 * one['low']:+.1f} to {100 * one['high']:+.1f}",
            one.get("p"),
            one.get("p_holm"),
            one.get("over", ""),
        )
        for one in results.get("comparisons", [])
        if all(is_number(one.get(key)) for key in ("mean", "low", "high"))
    ]
    if comparisons:
        head = ["difference", "score", "points", "95 % interval", "p", "p (Holm)", "over"]
        inner = table("Differences between arms", head, comparisons)
        parts.append(f"<details><summary>All {len(comparisons)} comparisons</summary>{inner}</details>")
    return "".join(parts) + bullets(results.get("notes", []), "note")


def _name_arm(row: dict[str, Any], results: dict[str, Any]) -> str:
    return f"{row['line']} (baseline)" if row.get("arm") == results.get("baseline") else str(row["line"])


def _mean(row: dict[str, Any]) -> float:
    return float((row.get("scores", {}).get("average") or {}).get("mean", 0.0))


def _interval(score: dict[str, Any] | None) -> str:
    if not score or not is_number(score.get("mean")):
        return "–"
    if not is_number(score.get("low")) or not is_number(score.get("high")):
        return points(score["mean"])
    return f"{points(score['mean'])} ± {50 * (score['high'] - score['low']):.1f}"


def show_tradeoff(subject: Subject) -> str:
    results = subject.results
    variants = results.get("variants", [])
    if not variants:
        return absent("No variants", "tradeoff.json is missing or damaged; 'electra compress' writes it again.")
    rows = [
        (
            one["name"],
            points(one["score"]),
            f"{one['loss']:+.2f}",
            f"{one['bytes'] / 1000000.0:.2f}",
            f"{one['speedup']:.2f}×",
            *tuple(f"{milliseconds:.1f}" for milliseconds in one["milliseconds"].values()),
        )
        for one in variants
    ]
    batches = [f"ms, batch {size}" for size in variants[0]["milliseconds"]]
    head = ["variant", str(results.get("metric", "score")), "points lost", "MB", "speed", *batches]
    best = next((place for place, one in enumerate(variants) if one.get("is_best")), -1)
    return table("Size, speed and score", head, rows, marked=best) + bullets(results.get("notes", []), "note")


def show_evaluations(subject: Subject) -> str:
    parts = []
    for name, one in subject.evaluations.items():
        scores = one["scores"]
        rows = []
        for key, value in scores.items():
            if key.endswith("_interval") or not is_number(value):
                continue
            interval = scores.get(f"{key}_interval")
            between = (
                f"{interval[0]:.4g} to {interval[1]:.4g}" if isinstance(interval, list) and len(interval) == 2 else "–"
            )
            rows.append((name_key(key), value, between))
        parts.append(table(f"{one['suite']} ({name}.json)", ["score", "value", "95 % interval"], rows))
        for kind, groups in list(one.get("groups", {}).items())[:1]:
            keys = [key for key in next(iter(groups.values()), {}) if not key.endswith("_interval")]
            rows = [(group, *(found.get(key) for key in keys)) for group, found in groups.items()]
            parts.append(table(f"{one['suite']} by {name_key(kind)}", [name_key(kind), *map(name_key, keys)], rows))
        parts.append(bullets(one.get("notes", []), "note"))
    return "".join(parts)


def show_pictures(subject: Subject) -> str:
    """All that do not stand with the findings they belong to."""
    placed = {str(one.get("file", "")).rpartition(".")[0] for one in subject.analysis.get("drawings", [])}
    return "".join(
        f'<figure class="picture"><img src="{address}" alt="{escape(name_key(name))}">'
        f"<figcaption>{escape(name_key(name).replace('-', ' '))}</figcaption></figure>"
        for name, address in subject.pictures.items()
        if name not in placed
    )


def show_compute(subjects: Sequence[Subject]) -> str:
    columns = [_compute(subject) for subject in subjects]
    keys = dict.fromkeys(key for one in columns for key in one)
    rows = [(key, *(one.get(key) for one in columns)) for key in keys]
    return table("What it took", ["", *(subject.name for subject in subjects)], rows) if rows else ""


def _compute(subject: Subject) -> dict[str, Any]:
    last = next((records[-1] for records in subject.logs.values() if records), {}) | subject.results
    sayings: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        ("step", "steps", say_value),
        ("tokens", "tokens", say_count),
        ("flops", "FLOPs", say_flops),
        ("seconds", "time", say_seconds),
        ("skipped_steps", "skipped steps", say_value),
    )
    found: dict[str, Any] = {name: say(last[key]) for key, name, say in sayings if is_number(last.get(key))}
    return found | {f"parameters of the {name}": count for name, count in subject.parameters.items()}


def show_environment(subject: Subject) -> str:
    environment = subject.environment or subject.results.get("provenance", {})
    if not environment:
        return ""
    packages = environment.get("packages", {})
    command = environment.get("command", "")
    command = " ".join(map(str, command)) if isinstance(command, list) else str(command)
    rows = [
        (name_key(key), value) for key, value in environment.items() if not isinstance(value, dict) and key != "command"
    ]
    rows += [(name, version) for name, version in packages.items()]
    said = f"<pre><code>{escape(command)}</code></pre>" if command else ""
    return said + table(f"Environment of {subject.name}", ["", ""], rows)


def show_final(subjects: list[Subject]) -> str:
    """One table of the last scores of all."""
    scores = [_final_scores(subject) for subject in subjects]
    keys = dict.fromkeys(key for one in scores for key in one)
    if not keys:
        return absent("No scores to compare", "None of the runs has been evaluated yet.")
    rows = [(name_key(key), *(one.get(key) for one in scores)) for key in keys]
    return table("Last scores", ["", *(subject.name for subject in subjects)], rows)


def _name_alike(key: str) -> str:
    """The same question asked of different objectives has one name."""
    who, _, what = key.partition("_")
    return f"{what} of guesses" if who in ("generator", "masked", "next") else key


def _final_scores(subject: Subject) -> dict[str, Any]:
    results = subject.results
    found: dict[str, Any] = {}
    if subject.kind == "run":
        found = {_name_alike(key): value for key, value in last_scores(subject).items()}
    elif subject.kind == "fine-tuning run":
        found = {f"{key} (dev, median)": one["median"] for key, one in results.get("spread", {}).items()}
        found |= {f"{key} (test)": value for key, value in results.get("test", {}).items() if is_number(value)}
    elif subject.kind == "GLUE run":
        found = {key: one["median"] for key, one in results.get("tasks", {}).items()}
    for name, one in subject.evaluations.items():
        found |= {f"{name}: {key}": value for key, value in one["scores"].items() if is_number(value)}
    return found
