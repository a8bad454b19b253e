"""What a run was and how good it became, in sentences.

Subject -> sentence...
"""

from collections.abc import Iterator

from electralab.reporting.format import (
    format_count,
    format_flops,
    format_percent,
    format_seconds,
    format_signed,
    is_number,
)
from electralab.reporting.questions import find_twins, list_own
from electralab.reporting.subjects import Subject, Tree
from electralab.reporting.tuning import tell_tuning

_KINDS = {
    "electra": ("an ELECTRA pair", "a generator guesses hidden tokens, a discriminator says which were replaced"),
    "electra-15": ("an ELECTRA pair", "a discriminator says which of the hidden tokens a generator replaced"),
    "electric": (
        "an Electric pair",
        "a discriminator gives each token an energy, learned against a generator's noise",
    ),
    "replace-mlm": ("a model that mends", "a generator replaces hidden tokens, the model says what stood there"),
    "all-tokens-mlm": (
        "a model that mends",
        "a generator replaces hidden tokens, the model says what stood where",
    ),
    "mlm": ("a masked language model", "it guesses hidden tokens"),
    "bert": ("a masked language model", "it guesses hidden tokens"),
    "permutation": ("a permutation language model", "it guesses hidden tokens one after the other, in any order"),
    "causal": ("a causal language model", "it guesses the next token"),
}
_GUESSES = {
    "generator": ("The generator restores", "hidden tokens"),
    "masked": ("The model restores", "hidden tokens"),
    "permuted": ("The model restores", "hidden tokens"),
    "next": ("The model foresees", "next tokens"),
}

_MOST_SURE = 4


def summarise(subject: Subject) -> list[str]:
    tellers = {
        "run": _tell_run,
        "fine-tuning run": tell_tuning,
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


def is_finished(subject: Subject) -> bool:
    """Nothing will be added to it."""
    taken, total = measure_progress(subject)
    if subject.kind == "run":
        return bool(subject.results) and taken >= total
    if subject.kind == "study":
        cells = subject.results.get("cells", [])
        return bool(cells) and all(cell.get("status") == "finished" or cell.get("error") for cell in cells)
    return bool(subject.results or subject.analysis)


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
    if text := subject.results.get("verdict", {}).get("text"):
        yield f"Verdict: {text}."
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
        else (f"It is at step {taken:,} of {total:,} ({format_percent(taken / total)})")
    )
    if is_number(last.get("tokens")):
        done += f" on {format_count(last['tokens'])} tokens" + (f" of {subject.data_path}" if subject.data_path else "")
    if is_number(last.get("seconds")):
        done += f" in {format_seconds(last['seconds'])}"
    if is_number(last.get("flops")):
        done += f", {format_flops(last['flops'])} FLOPs"
    return f"{done}."


def _tell_guesses(subject: Subject) -> Iterator[str]:
    scores, baselines = last_scores(subject), subject.results.get("baselines", {})
    for who, (does, what) in _GUESSES.items():
        accuracy, trivial = scores.get(f"{who}_accuracy"), baselines.get(f"{who}_accuracy")
        if accuracy is None:
            continue
        said = f"{does} {format_percent(accuracy)} of the {what} of text it has not seen"
        if trivial is not None:
            said += f"; always saying the most frequent one gets {format_percent(trivial)}"
            said += "" if accuracy > trivial else ", which is no worse"
        loss, frequency = scores.get(f"{who}_loss"), baselines.get(f"{who}_loss")
        if loss is not None and frequency is not None:
            better = "better" if loss < frequency else "no better"
            said += f". Its loss there is {loss:.2f} nats, {better} than {frequency:.2f} of knowing only how frequent "
            said += "tokens are"
        yield f"{said}."


def _tell_verdicts(subject: Subject) -> Iterator[str]:
    scores, baselines = last_scores(subject), subject.results.get("baselines", {})
    if "auc" not in scores:
        return
    other = "noise" if subject.settings.get("objective") == "electric" else "a replaced token"
    said = f"The discriminator ranks {other} above an original token {format_percent(scores['auc'])} of the time"
    said += " (chance: 50.0 %)"
    if "recall" in scores and "called_replaced" in scores:
        said += (
            f"; it finds {format_percent(scores['recall'])} of the replaced tokens, where as many calls at random "
            f"would find {format_percent(scores['called_replaced'])}"
        )
    loss, trivial = scores.get("discriminator_loss"), baselines.get("discriminator_loss")
    if loss is not None and trivial is not None:
        better = "better" if loss < trivial else "no better"
        said += f". Its loss is {loss:.3f}, {better} than {trivial:.3f} of knowing only their share"
    yield f"{said}."


def _tell_suite(subject: Subject) -> Iterator[str]:
    tasks, average = subject.results.get("tasks", {}), subject.results.get("average", {})
    suite = str(subject.results.get("suite", "")).upper()
    yield f"A pre-trained model was fine-tuned for {len(tasks)} tasks of {suite}, each by itself."
    if is_number(average.get("median")):
        said = f"The average of the median scores is {100 * average['median']:.1f}"
        paper = average.get("paper")
        yield f"{said}; ELECTRA-Small of the paper has {100 * paper:.1f} on these." if paper else f"{said}."


def _tell_study(subject: Subject) -> Iterator[str]:
    results = subject.results
    cells, seeds = results.get("cells", []), len(results.get("seeds", []))
    budget = ", ".join(
        f"{format_flops(amount)} {'FLOPs' if kind == 'flops' else kind}"
        for kind, amount in results.get("budget", {}).items()
    )
    yield f"{results.get('title') or subject.name}."
    yield f"{len(results.get('arms', {}))} arms, {seeds} seeds, a budget of {budget} each."
    if failed := [cell for cell in cells if cell.get("error")]:
        yield f"{len(failed)} of {len(cells)} cells failed: {failed[0]['arm']}: {failed[0]['error']}."
    yield from _tell_best(results)
    yield from _tell_sure(results)


def _tell_best(results: Tree) -> Iterator[str]:
    """Who has the best average, and whether that can be told from the baseline's."""
    best, baseline = find_best(results), results.get("baseline")
    if best is None:
        return
    said = f"The best average is that of {best['line']}, {100 * best['scores']['average']['mean']:.1f} points"
    lead = find_lead(results, best)
    if best.get("arm") == baseline:
        yield f"{said}, the baseline."
    elif lead is None:
        yield f"{said}; no test holds it against the baseline {baseline}."
    else:
        by = f"{format_signed(100 * lead['mean'])} points, p = {lead['p_holm']:.2g} after Holm"
        told = "better than" if is_sure(lead) else "which cannot be told apart from"
        yield f"{said}, {told} the baseline {baseline} ({by})."


def _tell_sure(results: Tree) -> Iterator[str]:
    """The comparisons that are more than luck, the largest first."""
    comparisons = results.get("comparisons", [])
    sure = sorted(filter(is_sure, comparisons), key=lambda one: -abs(one["mean"]))
    if not comparisons:
        return
    if not sure:
        yield f"None of {len(comparisons)} comparisons is significant (Holm, 5 %)."
        return
    told = [
        f"{one['arm']} {format_signed(100 * one['mean'])} against {one['versus']} "
        f"on {one['score']} (over {one['over']})"
        for one in sure[:_MOST_SURE]
    ]
    more = f"; and {len(sure) - _MOST_SURE} more" if len(sure) > _MOST_SURE else ""
    yield f"Significant (Holm, 5 %), in points, {len(sure)} of {len(comparisons)}: {'; '.join(told)}{more}."


def find_best(results: Tree) -> Tree | None:
    """The row of the best average."""
    rows = [row for row in results.get("table", []) if is_number((row["scores"].get("average") or {}).get("mean"))]
    return max(rows, key=lambda row: float(row["scores"]["average"]["mean"]), default=None)


def find_lead(results: Tree, best: Tree) -> Tree | None:
    """The test of its average against the baseline's."""
    wanted = (best.get("arm"), results.get("baseline"), "average")
    tests = (one for one in results.get("comparisons", []) if is_number(one.get("p_holm")))
    return next((one for one in tests if (one.get("arm"), one.get("versus"), one.get("score")) == wanted), None)


def is_sure(comparison: Tree) -> bool:
    return is_number(comparison.get("p_holm")) and comparison["p_holm"] < 0.05 and is_number(comparison.get("mean"))


def _tell_tradeoff(subject: Subject) -> Iterator[str]:
    results = subject.results
    variants = results.get("variants", [])
    judged = f"{results.get('metric', 'a score')} on {format_count(results.get('examples', 0))} examples"
    yield f"{len(variants)} variants of one model, judged by {judged}."
    if variants:
        fastest = max(variants, key=lambda one: float(one.get("speedup", 0)))
        change = f"{'loses' if fastest['loss'] > 0 else 'gains'} {abs(fastest['loss']):.2f} points"
        yield (
            f"The fastest, {fastest['name']}, is {fastest['speedup']:.1f} times as fast as {results.get('baseline')} "
            f"and {change}."
        )


def _tell_analysis(subject: Subject) -> Iterator[str]:
    models = [str(one.get("name", "")) for one in subject.analysis.get("models", []) if one.get("control_of") is None]
    rows, missing = (list_own(subject.analysis, key) for key in ("findings", "missing"))
    controlled = sum(isinstance(one.get("control"), dict) for one in rows)
    twins = " and each model beside its untrained twin" if find_twins(subject.analysis) else ""
    yield (
        f"{', '.join(models) or 'Models'}: {len(rows)} figures, {controlled} of them beside a control{twins}; "
        f"{len(missing)} could not be measured."
    )
