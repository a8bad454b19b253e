"""The few numbers that a reader looks for first, each with what to hold it against.

Subject -> (name, value, beside)...
"""

from collections.abc import Iterator

from electralab.reporting.subjects import Subject
from electralab.reporting.summary import find_majority, last_scores, measure_progress, name_metric
from electralab.reporting.wording import is_number, say_count, say_flops, say_seconds, say_share

Headline = tuple[str, str, str]
_GUESSES = {
    "generator_accuracy": "guesses right",
    "masked_accuracy": "guesses right",
    "permuted_accuracy": "guesses right",
    "next_accuracy": "next tokens right",
}


def find_headlines(subject: Subject) -> list[Headline]:
    if subject.kind == "run":
        return [*_of_scores(subject), *_of_amounts(subject)]
    if subject.kind == "fine-tuning run":
        return [*_of_tuning(subject)]
    return []


def _of_scores(subject: Subject) -> Iterator[Headline]:
    scores, baselines = last_scores(subject), subject.results.get("baselines", {})
    if "auc" in scores:
        yield "replacements told apart", say_share(scores["auc"]), "AUC; chance 50 %"
    for key, name in _GUESSES.items():
        if key in scores:
            trivial = baselines.get(key)
            yield name, say_share(scores[key]), "" if trivial is None else f"trivial {say_share(trivial)}"


def _of_amounts(subject: Subject) -> Iterator[Headline]:
    taken, total = measure_progress(subject)
    records = subject.logs.get("", [])
    last = (records[-1] if records else {}) | subject.results
    yield "steps", f"{taken:,}", f"of {total:,}" if total > taken else "finished" if total else ""
    if is_number(last.get("tokens")):
        yield "tokens", say_count(last["tokens"]), f"{say_flops(last.get('flops') or 0)} FLOPs"
    if is_number(last.get("seconds")) and last["seconds"] > 0:
        pace = f"{say_count(last.get('tokens', 0) / last['seconds'])} tokens/s"
        yield "time", say_seconds(last["seconds"]), pace


def _of_tuning(subject: Subject) -> Iterator[Headline]:
    results = subject.results
    metric = results.get("metric", "")
    if spread := results.get("spread", {}).get(metric):
        yield f"{name_metric(metric)}, dev", f"{100 * spread['median']:.1f}", f"median of {spread['n']} seeds"
    if is_number(test := results.get("test", {}).get(metric)):
        yield f"{name_metric(metric)}, test", f"{100 * test:.1f}", f"seed {results.get('best_seed', '–')}"
    trivial = find_majority(results)
    if metric == "accuracy" and trivial is not None:
        yield "most frequent class", f"{100 * trivial:.1f}", "what a constant answer gets"
    if is_number(results.get("seconds")):
        yield "time", say_seconds(results["seconds"]), "all seeds"
