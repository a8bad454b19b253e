"""Results of every kind as tables.

Subject -> HTML
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from electralab.reporting.format import (
    format_count,
    format_flops,
    format_key,
    format_score_name,
    format_seconds,
    format_signed,
    format_value,
    is_number,
)
from electralab.reporting.likeness import explain_unlike, find_better, find_topic
from electralab.reporting.markup import Best, absent, bullets, fold, long_table, picture, table
from electralab.reporting.questions import tell_estimate
from electralab.reporting.subjects import Subject
from electralab.reporting.summary import find_best, find_lead, is_sure, last_scores
from electralab.reporting.tuning import name_metric, points, read_spread

_CHANCE = {"auc": 0.5}


def show_heldout(subject: Subject) -> str:
    scores, baselines = last_scores(subject), _CHANCE | subject.results.get("baselines", {})
    if not scores:
        return absent("No held-out scores", "They come with the first evaluation of the run.") if subject.logs else ""
    if "called_replaced" in scores:
        baselines = {**baselines, "recall": scores["called_replaced"]}
    if "replaced_share" in scores:
        baselines = {**baselines, "precision": scores["replaced_share"]}
    rows = [(format_key(key), value, baselines.get(key)) for key, value in scores.items()]
    return table("On rows that training does not see", ["score", "model", "trivial baseline"], rows)


def show_suite(subject: Subject) -> str:
    results = subject.results
    paper = results.get("paper", {})
    rows: list[tuple[Any, ...]] = [
        (
            task,
            name_metric(one["metric"]),
            points(one["median"]),
            points(one["mean"]),
            points(one["sd"] if one["n"] > 1 else None),
            one["n"],
            points(paper.get(task)),
        )
        for task, one in (results.get("tasks", {}) | results.get("diagnostics", {})).items()
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
            format_count(row.get("tokens") or 0),
            format_flops(row.get("flops") or 0),
            format_count(row.get("parameters") or 0),
        )
        for row in results.get("table", [])
    ]
    metrics = results.get("scores", {})
    head = ["arm", *(format_score_name(score, metrics.get(score)) for score in scores), "tokens", "FLOPs", "parameters"]
    best = find_best(results)
    lead = find_lead(results, best) if best else None
    marked = results["table"].index(best) if lead and is_sure(lead) else -1
    parts = [table("Points: mean over seeds ± half the 95 % interval", head, rows, marked=marked)]
    comparisons = [
        (
            f"{one['arm']} – {one['versus']}",
            one["score"],
            format_signed(100 * one["mean"]),
            f"{format_signed(100 * one['low'])} to {format_signed(100 * one['high'])}",
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
        parts.append(fold(f"All {len(comparisons)} comparisons", inner))
    return "".join(parts) + bullets(results.get("notes", []), "note")


def _name_arm(row: dict[str, Any], results: dict[str, Any]) -> str:
    return f"{row['line']} (baseline)" if row.get("arm") == results.get("baseline") else str(row["line"])


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
            format_signed(one["loss"], 2),
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
            low, high = interval if isinstance(interval := scores.get(f"{key}_interval"), list) else (None, None)
            rows.append((format_key(key), tell_estimate({"value": value, "low": low, "high": high})))
        parts.append(table(f"{one['suite']} ({name}.json)", ["score", "value (95 % interval)"], rows))
        for kind, groups in list(one.get("groups", {}).items())[:1]:
            keys = [key for key in next(iter(groups.values()), {}) if not key.endswith("_interval")]
            rows = [(group, *(found.get(key) for key in keys)) for group, found in groups.items()]
            parts.append(
                long_table(f"{one['suite']} by {format_key(kind)}", [format_key(kind), *map(format_key, keys)], rows)
            )
        parts.append(bullets(one.get("notes", []), "note"))
    return "".join(parts)


# Pictures of curves that the page draws itself.
_REDRAWN = {"study": "curves", "fine-tuning run": "learning-curve"}


def show_pictures(subject: Subject) -> str:
    """All that say more than the page, and do not stand with the findings they belong to."""
    placed = {str(one.get("file", "")).rpartition(".")[0] for one in subject.analysis.get("drawings", [])}
    placed.add(_REDRAWN.get(subject.kind, ""))
    return "".join(
        picture(format_key(name).replace("-", " "), address)
        for name, address in subject.pictures.items()
        if name not in placed
    )


def show_compute(subjects: Sequence[Subject]) -> str:
    columns = [_compute(subject) for subject in subjects]
    return _show_columns("What it took", subjects, columns) if any(columns) else ""


def _show_columns(
    caption: str,
    subjects: Sequence[Subject],
    columns: Sequence[Mapping[str, Any]],
    better: Mapping[str, int | None] | None = None,
) -> str:
    """A column for each subject, a row for whatever one of them has; `better`: the place of the best in a row."""
    keys = dict.fromkeys(key for one in columns for key in one)
    rows = [
        (
            key,
            *(
                Best(one[key]) if place == (better or {}).get(key) else one.get(key)
                for place, one in enumerate(columns)
            ),
        )
        for key in keys
    ]
    return table(caption, ["", *(subject.name for subject in subjects)], rows)


def _compute(subject: Subject) -> dict[str, Any]:
    """Of all seeds together."""
    ends = [records[-1] for records in subject.logs.values() if records]
    sayings: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        ("step", "steps", format_value),
        ("tokens", "tokens", format_count),
        ("flops", "FLOPs", format_flops),
        ("seconds", "time", format_seconds),
        ("skipped_steps", "skipped steps", format_value),
    )
    known = [key for key, *_ in sayings if ends and all(is_number(end.get(key)) for end in ends)]
    total = {key: sum(end[key] for end in ends) for key in known} | subject.results
    found: dict[str, Any] = {name: say(total[key]) for key, name, say in sayings if is_number(total.get(key))}
    if len(ends) > 1:
        found = {"seeds, all counted": len(ends)} | found
    return found | {f"parameters of the {name}": count for name, count in subject.parameters.items()}


def show_environment(subjects: Sequence[Subject]) -> str:
    columns, commands = [], []
    for subject in subjects:
        environment = subject.environment or subject.results.get("provenance", {})
        command = environment.get("command", "")
        commands.append(" ".join(map(str, command)) if isinstance(command, list) else str(command))
        kept = {
            format_key(key): one for key, one in environment.items() if not isinstance(one, dict) and key != "command"
        }
        data = subject.identity.get("data")
        columns.append(
            kept | environment.get("packages", {}) | ({"fingerprint of the data": str(data)[:12]} if data else {})
        )
    said = "".join(f"<pre><code>{escape(command)}</code></pre>" for command in commands if command)
    return said + _show_columns("Environment", subjects, columns) if any(columns) else ""


def show_final(subjects: Sequence[Subject]) -> str:
    """One table of the last scores of all."""
    scores = [find_scores(subject) for subject in subjects]
    if not any(scores):
        return absent("No scores to compare", "None of the runs has been evaluated yet.")
    named = [{format_key(key): value for key, value in one.items()} for one in scores]
    better = {format_key(key): find_better(subjects, scores, key) for one in scores for key in one}
    is_marked = any(place is not None for place in better.values())
    caption = f"Last scores; the {'better' if len(subjects) == 2 else 'best'} in bold" if is_marked else "Last scores"
    shared = {find_topic(key) for one in scores for key in one if sum(key in other for other in scores) > 1}
    notes = {topic: explain_unlike(subjects, topic) for topic in sorted(shared)}
    said = [f"{topic.capitalize()}. {note}" for topic, note in notes.items() if note]
    return _show_columns(caption, subjects, named, better) + bullets(said, "note")


def _name_alike(key: str) -> str:
    """The same question asked of different objectives has one name."""
    who, _, what = key.partition("_")
    return f"{what} of guesses" if who in ("generator", "masked", "permuted", "next") else key


def find_scores(subject: Subject) -> dict[str, Any]:
    results = subject.results
    found: dict[str, Any] = {}
    if subject.kind == "run":
        found = {_name_alike(key): value for key, value in last_scores(subject).items()}
    elif subject.kind == "fine-tuning run":
        found = {
            f"{metric} ({split}, median)": of["median"]
            for split, metrics in read_spread(results).items()
            for metric, of in metrics.items()
        }
    elif subject.kind == "GLUE run":
        found = {key: one["median"] for key, one in results.get("tasks", {}).items()}
    for name, one in subject.evaluations.items():
        found |= {f"{name}: {key}": value for key, value in one["scores"].items() if is_number(value)}
    return found
