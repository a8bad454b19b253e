"""Logged steps -> charts: which figures belong together, and over what they are drawn.

Artifact... -> Chart...
"""

import tomllib
from collections.abc import Sequence
from typing import Literal, NamedTuple

from electralab.records.record import Record
from electralab.records.run import StepRecord
from electralab.reporting.artifact import Artifact, Topic, explain_unlike
from electralab.reporting.blocks import Chart, Line, ReferenceLine
from electralab.reporting.charts import AXES
from electralab.reporting.format import format_key, is_number, read_asset
from electralab.reporting.run_pages import baseline_scores

# More points than a chart has pixels only make the page heavy.
_MOST_POINTS = 800


class ChartSpec(Record):
    """Figures of one chart: the same question asked of different objectives, or of parts of one (charts.toml)."""

    name: str
    title: str
    unit: str = ""
    section: Literal["learning", "balance", "pace"]
    keys: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The line of each key, where one run has several of them."""
    note: str = ""
    is_exact: bool = False
    """Set, not measured: there is nothing to smooth."""
    scale: float = 1.0


CHARTS = [ChartSpec.model_validate(chart) for chart in tomllib.loads(read_asset("charts.toml"))["charts"]]
_TOPICS: dict[Topic, tuple[str, ...]] = {
    "guesses": ("guessing-loss", "guessing-accuracy", "entropy"),
    "verdicts": ("judging-loss", "auc", "recall", "precision", "auc-by-confidence", "recall-by-confidence"),
}
_KNOWN = {key for spec in CHARTS for key in spec.keys} | {*AXES}


class _Log(NamedTuple):
    number: int
    """Its colour, the same in every chart."""
    artifact: Artifact
    seed: str
    records: list[StepRecord]

    def logged(self, key: str) -> list[str]:
        """Its names in the log: in training, and on held-out rows."""
        return [name for name in (key, f"heldout_{key}") if any(is_number(record.get(name)) for record in self.records)]


def plot_logs(artifacts: Sequence[Artifact], axis: str = "step") -> list[Chart]:
    """Of one run, or of several over each other; figures nobody foresaw have charts of their own."""
    begun = [(artifact, seed, records) for artifact in artifacts for seed, records in artifact.logs.items() if records]
    logs = [_Log(number, *log) for number, log in enumerate(begun)]
    numbers = [item for log in logs for record in log.records for item in record.values.items()]
    plain = dict.fromkeys(
        key.removeprefix("heldout_") for key, value in numbers if is_number(value) and key not in _KNOWN
    )
    others = []
    for key in plain:
        if key not in _KNOWN:
            title = f"{format_key(key)[:1].upper()}{format_key(key)[1:]}"
            section: Literal["learning", "balance"] = "balance" if key.endswith("gradient_norm") else "learning"
            spec = ChartSpec(name=f"key-{key}", title=title, section=section, keys=(key,))
            # Scores of a dev set are in points, as its table has them.
            is_score = key.startswith("dev_") and not key.endswith(("loss", "threshold"))
            others.append(spec.model_copy(update={"unit": "points", "scale": 100.0}) if is_score else spec)
    charts = [_plot(spec, logs, axis) for spec in (*CHARTS, *others)]
    # Steps are hardly ever skipped: a chart of none says nothing.
    shown = [chart for chart in charts if chart.lines and not (chart.name == "skipped" and chart.is_zero)]
    return sorted(shown, key=lambda chart: not chart.name.startswith("key-dev_"))


def _plot(spec: ChartSpec, logs: Sequence[_Log], axis: str) -> Chart:
    """Colours tell runs apart; where one run alone has such figures, they tell the figures apart."""
    asked = [log for log in logs if any(map(log.logged, spec.keys))]
    is_compared = len({log.artifact.name for log in logs}) > 1
    lines: list[Line] = []
    trivial: dict[tuple[str, float], list[tuple[int, str]]] = {}
    for log in asked:
        artifact = log.artifact
        who = " ".join(name for name in (artifact.name * is_compared, log.seed * (len(logs) > 1)) if name)
        has_several = sum(bool(log.logged(key)) for key in spec.keys) > 1
        for place, key in enumerate(spec.keys):
            # One of several keys of a run goes by its own name.
            logged, what = log.logged(key), spec.names[place] if spec.names and has_several else ""
            for name in logged:
                is_heldout = name.startswith(("heldout_", "dev_"))
                part = ("held out" if is_heldout else "training") if len(logged) > 1 else ""
                color, dash = log.number, 0
                if what and len(asked) > 1:
                    dash = place
                elif what:
                    # The colours of other runs are not taken.
                    color = len(logs) + place - 1 if place and len(logs) > 1 else log.number + place
                elif len(logs) == 1:
                    color = int(is_heldout and len(logged) > 1)
                x, y = _thin(log.records, name, spec.scale)
                title = ", ".join(word for word in (who, what, part) if word) or spec.title
                lines.append(Line(title, color, x, y, dash, is_noisy=not is_heldout and not spec.is_exact))
            # What the figure is to be better than.
            if artifact.tuned and key.startswith("dev_"):
                baselines = baseline_scores(artifact.tuned, "dev", key.removeprefix("dev_"))
            else:
                known = {} if artifact.tuned else artifact.baselines
                baselines = {"baseline": known[key]} if key in known else {}
            for name, score in baselines.items():
                trivial.setdefault((name, spec.scale * score), []).append((log.number, who))
    # Several in one chart have colours of their own.
    is_own, levels = len(trivial) > 1 and not is_compared, []
    for place, ((name, score), owners) in enumerate(trivial.items()):
        named = f"{name} of {', '.join(who for _, who in owners)}" if is_compared else name
        levels.append(ReferenceLine(named, len(logs) + place if is_own else owners[0][0], score))
    # Why its levels are not to be compared.
    warning = ""
    if spec.section != "pace" and asked:
        weights = [(log.artifact.setting("loss"), log.artifact.objective) for log in asked]
        if spec.name == "loss" and any(other != weights[0] for other in weights):
            warning = "Each run's own sum of losses with its own weights: compare shapes, not levels."
        else:
            topics: list[Topic] = [topic for topic, names in _TOPICS.items() if spec.name in names]
            warning = explain_unlike([log.artifact for log in asked], topics[0] if topics else "other")
    note = " ".join(text for text in (spec.note, warning) if text)
    return Chart(spec.name, spec.title, spec.unit, spec.section, lines, levels, note, axis)


def _thin(
    records: Sequence[StepRecord], key: str, scale: float
) -> tuple[dict[str, list[float | None]], list[float | None]]:
    """The points of a line: every x that the records have, and y.

    A null in the log is a gap in the line; a record without the key is none of its points. Of a long log each point is
    the mean of its neighbours, and stands where the last of them does.
    """
    known = [record for record in records if key in record.values]
    # Rounded up, so that there are never more points than that.
    size = -(-len(known) // _MOST_POINTS) or 1
    groups = [known[start : start + size] for start in range(0, len(known), size)]
    y: list[float | None] = []
    for group in groups:
        values = [value for record in group if is_number(value := record.get(key))]
        y.append(scale * sum(values) / len(values) if values else None)
    axes: dict[str, list[float | None]] = {axis: [group[-1].get(axis) for group in groups] for axis in AXES}
    axes["step"] = [group[-1].step for group in groups]
    return {axis: places for axis, places in axes.items() if any(place is not None for place in places)}, y
