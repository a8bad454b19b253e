"""What a run was and how good it became, in sentences.

Subject -> sentence...
"""

from collections.abc import Iterator
from typing import Any

from electralab.reporting.subjects import Subject
from electralab.reporting.wording import is_number, say_count, say_flops, say_seconds, say_share

_KINDS = {
    "electra": ("an ELECTRA pair", "a generator guesses hidden tokens, a discriminator says which were replaced"),
    "mlm": ("a masked language model", "it guesses hidden tokens"),
    "causal": ("a causal language model", "it guesses the next token"),
}
_GUESSES = {
    "generator": ("The generator restores", "hidden tokens"),
    "masked": ("The model restores", "hidden tokens"),
    "next": ("The model guesses", "next tokens"),
}


def summarise(subject: Subject) -> list[str]:
    tellers = {
        "run": _tell_run,
        "fine-tuning run": _tell_tuning,
        "GLUE run": _tell_suite,
        "study": _tell_study,
        "trade-off": _tell_tradeoff,
        "analysis": _tell_analysis,
    }
    return list(tellers[subject.kind](subject))


def measure_progress(subject: Subject) -> tuple[int, int]:
    """Steps taken, and steps in all (0 where nobody wrote it down)."""
    records = next((records for records in subject.logs.values() if records), [])
    taken = subject.results.get("step") or (records[-1]["step"] if records else 0)
    return int(taken), int(subject.identity.get("total_steps") or 0)


def last_scores(subject: Subject) -> dict[str, float]:
    """On held-out rows: those of the end, or the latest on the way."""
    if isinstance(found := subject.results.get("heldout"), dict) and found:
        return found
    for record in reversed(subject.logs.get("", [])):
        scores = {key.removeprefix("heldout_"): value for key, value in record.items() if key.startswith("heldout_")}
        if scores:
            return {key: value for key, value in scores.items() if is_number(value)}
    return {}


def _tell_run(subject: Subject) -> Iterator[str]:
    settings, (taken, total) = subject.settings, measure_progress(subject)
    objective = str(settings.get("objective") or subject.results.get("objective") or "")
    other = (f"a model with the objective {objective}" if objective else "a model", "")
    what, how = _KINDS.get(objective, other)
    size = f" of size {settings['size']}" if settings.get("size") else ""
    backbone = settings.get("model", {}).get("backbone")
    on = f" on the {backbone} backbone" if backbone else ""
    yield f"{subject.name} is {what}{size}{on}{how and f': {how}'}."
    yield _tell_amount(subject, taken, total)
    yield from _tell_guesses(subject)
    yield from _tell_verdicts(subject)


def _tell_amount(subject: Subject, taken: int, total: int) -> str:
    last = next((records[-1] for records in subject.logs.values() if records), {}) | subject.results
    done = (
        f"It was trained for {taken:,} steps"
        if not total or taken >= total
        else (f"It is at step {taken:,} of {total:,} ({say_share(taken / total)})")
    )
    if is_number(last.get("tokens")):
        done += f" on {say_count(last['tokens'])} tokens"
    if is_number(last.get("seconds")):
        done += f" in {say_seconds(last['seconds'])}"
    if is_number(last.get("flops")):
        done += f", {say_flops(last['flops'])} FLOPs"
    data = subject.identity.get("data")
    return f"{done}." + (f" Its data has the fingerprint {str(data)[:12]}…" if data else "")


def _tell_guesses(subject: Subject) -> Iterator[str]:
    scores, baselines = last_scores(subject), subject.results.get("baselines", {})
    for who, (does, what) in _GUESSES.items():
        accuracy, trivial = scores.get(f"{who}_accuracy"), baselines.get(f"{who}_accuracy")
        if accuracy is None:
            continue
        said = f"{does} {say_share(accuracy)} of the {what} of text it has not seen"
        if trivial is not None:
            said += f"; always saying the most frequent one gets {say_share(trivial)}"
        loss, frequency = scores.get(f"{who}_loss"), baselines.get(f"{who}_loss")
        if loss is not None and frequency is not None:
            said += f". Its loss there is {loss:.2f} nats, that of knowing only how frequent tokens are {frequency:.2f}"
        yield f"{said}."


def _tell_verdicts(subject: Subject) -> Iterator[str]:
    scores, baselines = last_scores(subject), subject.results.get("baselines", {})
    if "auc" not in scores:
        return
    said = f"The discriminator ranks a replaced token above an original one {say_share(scores['auc'])} of the time"
    said += " (chance: 50.0 %)"
    if "recall" in scores and "called_replaced" in scores:
        said += (
            f"; it finds {say_share(scores['recall'])} of the replaced tokens, where as many calls at random "
            f"would find {say_share(scores['called_replaced'])}"
        )
    loss, trivial = scores.get("discriminator_loss"), baselines.get("discriminator_loss")
    if loss is not None and trivial is not None:
        better = "better" if loss < trivial else "no better"
        said += f". Its loss is {loss:.3f}, {better} than {trivial:.3f} of knowing only their share"
    yield f"{said}."


def _tell_tuning(subject: Subject) -> Iterator[str]:
    results, seeds = subject.results, len(subject.logs)
    task = results.get("task") or subject.identity.get("task") or "a task"
    yield f"{subject.name} was tuned for {task}, {seeds} seed{'s' if seeds != 1 else ''}."
    metric = results.get("metric", "")
    spread = results.get("spread", {}).get(metric)
    if spread:
        said = f"Median {name_metric(metric)} on the dev set is {100 * spread['median']:.1f}"
        if spread.get("n", 1) > 1:
            said += f" over {spread['n']} seeds (standard deviation {100 * spread['sd']:.1f})"
        test = results.get("test", {}).get(metric)
        said += f"; on the test set {100 * test:.1f}" if is_number(test) else ""
        yield f"{said}."
    trivial = find_majority(results)
    if metric == "accuracy" and trivial is not None:
        yield f"Always answering the most frequent class would be right {say_share(trivial)} of the time."
    if is_number(results.get("seconds")):
        yield f"It took {say_seconds(results['seconds'])} in all, {results.get('steps', 0):,} steps a seed."


def name_metric(metric: str) -> str:
    return {"f1": "F1", "mcc": "Matthews correlation", "em": "exact match"}.get(metric, metric)


def find_majority(results: dict[str, Any]) -> float | None:
    """The share of the most frequent class, where each example has one class."""
    report = results.get("report") or {}
    if not report.get("confusion"):
        return None
    supports = [one["support"] for one in report.get("classes", [])]
    return max(supports) / sum(supports) if sum(supports) else None


def _tell_suite(subject: Subject) -> Iterator[str]:
    tasks, average = subject.results.get("tasks", {}), subject.results.get("average", {})
    yield f"{subject.name} was tuned for {len(tasks)} tasks of {str(subject.results.get('suite', '')).upper()}."
    if is_number(average.get("median")):
        said = f"The average of the median scores is {100 * average['median']:.1f}"
        paper = average.get("paper")
        yield f"{said}; ELECTRA-Small of the paper has {100 * paper:.1f} on these." if paper else f"{said}."


def _tell_study(subject: Subject) -> Iterator[str]:
    results = subject.results
    cells, seeds = results.get("cells", []), len(results.get("seeds", []))
    budget = ", ".join(
        f"{say_flops(amount)} {'FLOPs' if kind == 'flops' else kind}"
        for kind, amount in results.get("budget", {}).items()
    )
    yield f"{results.get('title') or subject.name}."
    yield f"{len(results.get('arms', {}))} arms, {seeds} seeds, a budget of {budget} each."
    if failed := [cell for cell in cells if cell.get("error")]:
        yield f"{len(failed)} of {len(cells)} cells failed: {failed[0]['arm']}: {failed[0]['error']}."
    rows = [row for row in results.get("table", []) if row.get("scores", {}).get("average")]
    if rows:
        best = max(rows, key=lambda row: float(row["scores"]["average"]["mean"]))
        said = f"The best average is that of {best['line']}, {100 * best['scores']['average']['mean']:.1f} points"
        sure = [one for one in results.get("comparisons", []) if (one.get("p_holm") or 1.0) < 0.05]
        yield f"{said}; {len(sure)} of {len(results.get('comparisons', []))} comparisons are significant (Holm, 5 %)."


def _tell_tradeoff(subject: Subject) -> Iterator[str]:
    results = subject.results
    variants = results.get("variants", [])
    judged = f"{results.get('metric', 'a score')} on {say_count(results.get('examples', 0))} examples"
    yield f"{len(variants)} variants of one model, judged by {judged}."
    if variants:
        fastest = max(variants, key=lambda one: float(one.get("speedup", 0)))
        change = f"{'loses' if fastest['loss'] > 0 else 'gains'} {abs(fastest['loss']):.2f} points"
        yield (
            f"The fastest, {fastest['name']}, is {fastest['speedup']:.1f} times as fast as {results.get('baseline')} "
            f"and {change}."
        )


def _tell_analysis(subject: Subject) -> Iterator[str]:
    models = [one for one in subject.analysis.get("models", []) if one.get("control_of") is None]
    count, missing = (len(subject.analysis.get(key, [])) for key in ("findings", "missing"))
    named = ", ".join(str(one.get("name", "")) for one in models)
    yield f"{named or 'Models'}: {count} figures, each beside its control; {missing} could not be measured."
