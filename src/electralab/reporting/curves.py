"""Logged steps -> charts: which figures belong together, and over what they are drawn.

Artifact... -> Chart...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from electralab.records.run import StepRecord
from electralab.reporting.artifact import About, Artifact, explain_unlike
from electralab.reporting.blocks import Chart, Line, ReferenceLine
from electralab.reporting.charts import AXES
from electralab.reporting.format import format_key, is_number
from electralab.reporting.run_pages import baseline_scores

# More points than a chart has pixels only make the page heavy.
_MOST_POINTS = 800


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """Figures of one chart: the same question asked of different objectives, or of parts of one."""

    name: str
    title: str
    unit: str
    section: Literal["learning", "balance", "pace"]
    keys: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The line of each key, where one run has several of them."""
    note: str = ""
    is_exact: bool = False
    """Set, not measured: there is nothing to smooth."""
    scale: float = 1.0


# fmt: off
_GUESSERS = ("generator", "model", "model", "model")
_CONFIDENCE = ("unsure", "middling", "sure")
CHARTS = (
    ChartSpec("guessing-loss", "Loss of guesses", "nats", "learning",
              ("generator_loss", "masked_loss", "permuted_loss", "next_loss"), _GUESSERS),
    ChartSpec("guessing-accuracy", "Guesses that are right", "share", "learning",
              ("generator_accuracy", "masked_accuracy", "permuted_accuracy", "next_accuracy"), _GUESSERS),
    ChartSpec("judging-loss", "Loss of verdicts", "nats", "learning", ("discriminator_loss",)),
    ChartSpec("loss", "Loss as trained", "nats, weighted", "learning", ("loss",)),
    ChartSpec("auc", "Verdicts: AUC", "0.5 is chance", "balance", ("auc",),
              note="How often a replaced token looks more suspicious than an original one."),
    ChartSpec("recall", "Replaced tokens found", "share", "balance", ("recall",),
              note="A token counts as found at p > 0.5."),
    ChartSpec("precision", "Right when calling replaced", "share", "balance", ("precision",)),
    ChartSpec("entropy", "How unsure the guesses are", "nats of entropy", "balance",
              ("generator_entropy", "masked_entropy", "permuted_entropy", "next_entropy"), _GUESSERS),
    ChartSpec("replaced", "Tokens replaced, and called so", "share", "balance",
              ("replaced_share", "called_replaced"), ("are replaced", "called replaced")),
    ChartSpec("auc-by-confidence", "AUC by the generator's confidence", "0.5 is chance", "balance",
              ("heldout_auc_unsure", "heldout_auc_middling", "heldout_auc_sure"), _CONFIDENCE,
              note="A guess that the generator was sure of is hard to tell from the original."),
    ChartSpec("recall-by-confidence", "Found, by the generator's confidence", "share", "balance",
              ("heldout_recall_unsure", "heldout_recall_middling", "heldout_recall_sure"), _CONFIDENCE),
    ChartSpec("gradients", "Gradient norms", "before clipping", "balance",
              ("gradient_norm", "generator_gradient_norm", "discriminator_gradient_norm"),
              ("all", "generator", "discriminator")),
    ChartSpec("speed", "Throughput", "tokens per second", "pace", ("tokens_per_second",)),
    ChartSpec("rate", "Learning rate", "", "pace", ("learning_rate",), is_exact=True),
    ChartSpec("skipped", "Skipped steps", "so far", "pace", ("skipped_steps",), is_exact=True),
)
# fmt: on
_TOPICS: dict[str, About] = {
    **dict.fromkeys(("guessing-loss", "guessing-accuracy", "entropy"), "guesses"),
    **dict.fromkeys(
        ("judging-loss", "auc", "recall", "precision", "auc-by-confidence", "recall-by-confidence"), "verdicts"
    ),
}
_KNOWN = {key for spec in CHARTS for key in spec.keys} | {*AXES}


class _Log(NamedTuple):
    number: int
    """Its colour, the same in every chart."""
    artifact: Artifact
    seed: str
    records: list[StepRecord]

    def has(self, key: str) -> bool:
        return any(is_number(record.get(key)) for record in self.records)


def plot_logs(artifacts: Sequence[Artifact], axis: str = "step") -> list[Chart]:
    """Of one run, or of several over each other; figures nobody foresaw have charts of their own."""
    begun = [(artifact, seed, records) for artifact in artifacts for seed, records in artifact.logs.items() if records]
    logs = [_Log(number, *log) for number, log in enumerate(begun)]
    keys = dict.fromkeys(
        key for log in logs for record in log.records for key, value in record.values.items() if is_number(value)
    )
    plain = dict.fromkeys(key.removeprefix("heldout_") for key in keys if key not in _KNOWN)
    others = [_name_chart(key) for key in plain if key not in _KNOWN]
    charts = [_plot(spec, logs, axis) for spec in (*CHARTS, *others)]
    # Steps are hardly ever skipped.
    shown = [chart for chart in charts if chart.lines and not (chart.name == "skipped" and chart.is_zero)]
    return sorted(shown, key=lambda chart: not chart.name.startswith("key-dev_"))


def _name_chart(key: str) -> ChartSpec:
    """The chart of a figure that nobody foresaw; scores of a dev set are in points, as its table has them."""
    title = f"{format_key(key)[:1].upper()}{format_key(key)[1:]}"
    spec = ChartSpec(f"key-{key}", title, "", "balance" if key.endswith("gradient_norm") else "learning", (key,))
    is_score = key.startswith("dev_") and not key.endswith(("loss", "threshold"))
    return replace(spec, unit="points", scale=100.0) if is_score else spec


def _plot(spec: ChartSpec, logs: Sequence[_Log], axis: str) -> Chart:
    """Colours tell runs apart; where one run alone has such figures, they tell the figures apart."""
    asked = [log for log in logs if any(log.has(key) or log.has(f"heldout_{key}") for key in spec.keys)]
    is_compared = len({log.artifact.name for log in logs}) > 1
    lines: list[Line] = []
    trivial: dict[tuple[str, float], list[tuple[int, str]]] = {}
    for log in asked:
        who = " ".join(name for name in (log.artifact.name * is_compared, log.seed * (len(logs) > 1)) if name)
        lines += _plot_log(spec, log, who, len(logs), len(asked))
        for key in spec.keys:
            for name, baseline in _find_baselines(log.artifact, key).items():
                trivial.setdefault((name, spec.scale * baseline), []).append((log.number, who))
    # Several in one chart have colours of their own.
    is_own = len(trivial) > 1 and not is_compared
    levels = [
        ReferenceLine(
            f"{name} of {', '.join(who for _, who in owners)}" if is_compared else name,
            len(logs) + place if is_own else owners[0][0],
            y,
        )
        for place, ((name, y), owners) in enumerate(trivial.items())
    ]
    note = " ".join(text for text in (spec.note, _warn(spec, [log.artifact for log in asked])) if text)
    return Chart(spec.name, spec.title, spec.unit, spec.section, lines, levels, note, axis)


def _find_baselines(artifact: Artifact, key: str) -> dict[str, float]:
    """By name, what a figure is to be better than."""
    if artifact.tuned:
        return baseline_scores(artifact.tuned, "dev", key.removeprefix("dev_")) if key.startswith("dev_") else {}
    return {"baseline": artifact.baselines[key]} if key in artifact.baselines else {}


def _warn(spec: ChartSpec, artifacts: Sequence[Artifact]) -> str:
    """Why its levels are not to be compared."""
    if spec.section == "pace" or not artifacts:
        return ""
    first = (artifacts[0].settings.get("loss"), artifacts[0].objective)
    if spec.name == "loss" and any((other.settings.get("loss"), other.objective) != first for other in artifacts):
        return "Each run's own sum of losses with its own weights: compare shapes, not levels."
    return explain_unlike(artifacts, _TOPICS.get(spec.name, "other"))


def _plot_log(spec: ChartSpec, log: _Log, who: str, num_logs: int, num_asked: int) -> Iterator[Line]:
    """In training, and on held-out rows; one of several keys of a run goes by its own name."""
    has_several = sum(log.has(key) or log.has(f"heldout_{key}") for key in spec.keys) > 1
    for place, key in enumerate(spec.keys):
        logged = [name for name in (key, f"heldout_{key}") if log.has(name)]
        what = spec.names[place] if spec.names and has_several else ""
        for name in logged:
            is_heldout = name.startswith(("heldout_", "dev_"))
            part = ("held out" if is_heldout else "training") if len(logged) > 1 else ""
            color, dash = log.number, 0
            if what and num_asked > 1:
                dash = place
            elif what:
                # The colours of other runs are not taken.
                color = num_logs + place - 1 if place and num_logs > 1 else log.number + place
            elif num_logs == 1:
                color = int(is_heldout and len(logged) > 1)
            yield plot_line(
                ", ".join(word for word in (who, what, part) if word) or spec.title,
                color,
                log.records,
                name,
                dash=dash,
                is_noisy=not is_heldout and not spec.is_exact,
                scale=spec.scale,
            )


def plot_line(
    name: str,
    color: int,
    records: Sequence[StepRecord],
    key: str,
    *,
    dash: int = 0,
    is_noisy: bool = False,
    scale: float = 1.0,
) -> Line:
    """A null in the log is a gap in the line; a record without the key is none of its points.

    Of a long log each point is the mean of its neighbours, and stands where the last of them does.
    """
    known = [record for record in records if key in record.values]
    size = -(-len(known) // _MOST_POINTS) or 1
    groups = [known[start : start + size] for start in range(0, len(known), size)]
    y: list[float | None] = []
    for group in groups:
        values = [value for record in group if is_number(value := record.get(key))]
        y.append(scale * sum(values) / len(values) if values else None)
    axes: dict[str, list[float | None]] = {axis: [group[-1].get(axis) for group in groups] for axis in AXES}
    axes["step"] = [group[-1].step for group in groups]
    x = {axis: values for axis, values in axes.items() if any(value is not None for value in values)}
    return Line(name, color, x, y, dash, is_noisy)
