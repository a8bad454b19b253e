"""The few numbers that a reader looks for first, each with what to hold it against.

Subject -> (name, value, beside)...
"""

from collections.abc import Iterator

from electralab.reporting.format import format_count, format_flops, format_percent, format_seconds, is_number
from electralab.reporting.subjects import Subject
from electralab.reporting.summary import last_scores, measure_progress
from electralab.reporting.tuning import find_tuned_headlines

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
        return [*find_tuned_headlines(subject)]
    return []


def _of_scores(subject: Subject) -> Iterator[Headline]:
    scores, baselines = last_scores(subject), subject.results.get("baselines", {})
    if "auc" in scores:
        yield "replacements told apart", format_percent(scores["auc"]), "AUC; chance 50 %"
    for key, name in _GUESSES.items():
        if key in scores:
            trivial = baselines.get(key)
            yield name, format_percent(scores[key]), "" if trivial is None else f"trivial {format_percent(trivial)}"


def _of_amounts(subject: Subject) -> Iterator[Headline]:
    taken, total = measure_progress(subject)
    records = subject.logs.get("", [])
    last = (records[-1] if records else {}) | subject.results
    yield "steps", f"{taken:,}", f"of {total:,}" if total > taken else "finished" if total else ""
    if is_number(last.get("tokens")):
        yield "tokens", format_count(last["tokens"]), f"{format_flops(last.get('flops') or 0)} FLOPs"
    if is_number(last.get("seconds")) and last["seconds"] > 0:
        pace = f"{format_count(last.get('tokens', 0) / last['seconds'])} tokens/s"
        yield "time", format_seconds(last["seconds"]), pace
