"""Logged steps -> charts: which figures belong together, and over what they are drawn.

Subject... -> Chart...

A line carries every x that its records have; the page chooses among them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from electralab.reporting.format import format_key, format_score_name, is_number
from electralab.reporting.likeness import About, explain_unlike, name_objective
from electralab.reporting.subjects import Record, Subject
from electralab.reporting.tuning import read_baselines

Part = Literal["learning", "balance", "pace", "study"]
AXES = {"step": "steps", "tokens": "tokens", "flops": "FLOPs", "seconds": "time"}
# More points than a chart has pixels only make the page heavy.
_MOST_POINTS = 800
_MOST_DOTS = 60


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    color: int
    x: dict[str, list[float | None]]
    y: list[float | None]
    dash: int = 0
    """Tells lines of one run apart where colours tell runs apart."""
    is_noisy: bool = False
    """Single batches, which smoothing may average; scores of held-out rows are shown as they are."""

    @property
    def has_dots(self) -> bool:
        return not self.is_noisy and len(self.y) <= _MOST_DOTS


@dataclass(frozen=True, slots=True)
class Level:
    """What a trivial answer reaches: a line across."""

    name: str
    color: int
    y: float


@dataclass(frozen=True, slots=True)
class Chart:
    name: str
    title: str
    unit: str
    part: Part
    lines: tuple[Line, ...]
    levels: tuple[Level, ...] = ()
    note: str = ""

    @property
    def is_zero(self) -> bool:
        """Nothing happened yet that it would show."""
        return not any(value for line in self.lines for value in line.y)

    def as_data(self) -> dict[str, Any]:
        return asdict(self) | {"is_zero": self.is_zero}


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one chart: the same question asked of different objectives, or of parts of one."""

    name: str
    title: str
    unit: str
    part: Part
    keys: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Of each key's line, where one run has several of them."""
    note: str = ""
    is_exact: bool = False
    """Set, not measured: there is nothing to smooth."""
    scale: float = 1.0


FAMILIES = (
    Family(
        "guessing-loss",
        "Loss of guesses",
        "nats",
        "learning",
        ("generator_loss", "masked_loss", "permuted_loss", "next_loss"),
        ("generator", "model", "model", "model"),
    ),
    Family(
        "guessing-accuracy",
        "Guesses that are right",
        "share",
        "learning",
        ("generator_accuracy", "masked_accuracy", "permuted_accuracy", "next_accuracy"),
        ("generator", "model", "model", "model"),
    ),
    Family("judging-loss", "Loss of verdicts", "nats", "learning", ("discriminator_loss",)),
    Family("loss", "Loss as trained", "nats, weighted", "learning", ("loss",)),
    Family(
        "auc",
        "Verdicts: AUC",
        "0.5 is chance",
        "balance",
        ("auc",),
        note="How often a replaced token looks more suspicious than an original one.",
    ),
    Family(
        "recall",
        "Replaced tokens found",
        "share",
        "balance",
        ("recall",),
        note="A token counts as found at p > 0.5.",
    ),
    Family("precision", "Right when calling replaced", "share", "balance", ("precision",)),
    Family(
        "entropy",
        "How unsure the guesses are",
        "nats of entropy",
        "balance",
        ("generator_entropy", "masked_entropy", "permuted_entropy", "next_entropy"),
        ("generator", "model", "model", "model"),
    ),
    Family(
        "replaced",
        "Tokens replaced, and called so",
        "share",
        "balance",
        ("replaced_share", "called_replaced"),
        ("are replaced", "called replaced"),
    ),
    Family(
        "auc-by-confidence",
        "AUC by the generator's confidence",
        "0.5 is chance",
        "balance",
        ("heldout_auc_unsure", "heldout_auc_middling", "heldout_auc_sure"),
        ("unsure", "middling", "sure"),
        note="A guess that the generator was sure of is hard to tell from the original.",
    ),
    Family(
        "recall-by-confidence",
        "Found, by the generator's confidence",
        "share",
        "balance",
        ("heldout_recall_unsure", "heldout_recall_middling", "heldout_recall_sure"),
        ("unsure", "middling", "sure"),
    ),
    Family(
        "gradients",
        "Gradient norms",
        "before clipping",
        "balance",
        ("gradient_norm", "generator_gradient_norm", "discriminator_gradient_norm"),
        ("all", "generator", "discriminator"),
    ),
    Family("speed", "Throughput", "tokens per second", "pace", ("tokens_per_second",)),
    Family("rate", "Learning rate", "", "pace", ("learning_rate",), is_exact=True),
    Family("skipped", "Skipped steps", "so far", "pace", ("skipped_steps",), is_exact=True),
)
_TOPICS: dict[str, About] = {
    **dict.fromkeys(("guessing-loss", "guessing-accuracy", "entropy"), "guesses"),
    **dict.fromkeys(
        ("judging-loss", "auc", "recall", "precision", "auc-by-confidence", "recall-by-confidence"), "verdicts"
    ),
}
_KNOWN = {key for family in FAMILIES for key in family.keys} | {*AXES}


def draw_charts(subjects: Sequence[Subject]) -> list[Chart]:
    """Of one run, or of several over each other; figures nobody foresaw have charts of their own."""
    logs = [(subject, seed, records) for subject in subjects for seed, records in subject.logs.items() if records]
    if not logs:
        return []
    keys = dict.fromkeys(
        key for _, _, records in logs for record in records for key, value in record.items() if is_number(value)
    )
    plain = [key.removeprefix("heldout_") for key in keys if key not in _KNOWN]
    others = [_name_family(key) for key in dict.fromkeys(plain) if key not in _KNOWN]
    charts = (_draw_family(family, logs) for family in (*FAMILIES, *others))
    shown = [chart for chart in charts if chart.lines and not _is_idle(chart)]
    return sorted(shown, key=lambda chart: not chart.name.startswith("key-dev_"))


def _name_family(key: str) -> Family:
    """Of a figure that nobody foresaw; scores of a dev set are in points, as its table has them."""
    part: Part = "balance" if key.endswith("gradient_norm") else "learning"
    family = Family(f"key-{key}", f"{format_key(key)[:1].upper()}{format_key(key)[1:]}", "", part, (key,))
    is_score = key.startswith("dev_") and not key.endswith(("loss", "threshold"))
    return replace(family, unit="points", scale=100.0) if is_score else family


def _is_idle(chart: Chart) -> bool:
    return chart.name == "skipped" and chart.is_zero


Log = tuple[Subject, str, list[Record]]


def _draw_family(family: Family, logs: Sequence[Log]) -> Chart:
    """Colours tell runs apart; where one run alone has such figures, they tell the figures apart."""
    wanted = [one for key in family.keys for one in (key, f"heldout_{key}")]
    asked = [(number, *log) for number, log in enumerate(logs) if any(_has(log[2], one) for one in wanted)]
    is_compared = len({one[0].name for one in logs}) > 1
    lines: list[Line] = []
    trivial: dict[tuple[str, float], list[tuple[int, str]]] = {}
    for number, subject, seed, records in asked:
        who = " ".join(one for one in (subject.name if is_compared else "", seed if len(logs) > 1 else "") if one)
        for place, key in enumerate(family.keys):
            lines += _trace_key(family, place, records, who, _Colors(number, len(logs), len(asked)))
            for name, baseline in _find_baselines(subject, key).items():
                trivial.setdefault((name, family.scale * baseline), []).append((number, who))
    # Several in one chart have colours of their own.
    first = len(logs) if len(trivial) > 1 and not is_compared else None
    levels = [
        Level(
            f"{name} of {', '.join(who for _, who in owners)}" if is_compared else name,
            owners[0][0] if first is None else first + place,
            y,
        )
        for place, ((name, y), owners) in enumerate(trivial.items())
    ]
    note = " ".join(one for one in (family.note, _warn(family, [subject for _, subject, *_ in asked])) if one)
    return Chart(family.name, family.title, family.unit, family.part, tuple(lines), tuple(levels), note)


def _find_baselines(subject: Subject, key: str) -> dict[str, float]:
    """By name, what a figure is to be better than."""
    if subject.kind == "fine-tuning run":
        return read_baselines(subject.results, "dev", key.removeprefix("dev_")) if key.startswith("dev_") else {}
    baseline = subject.results.get("baselines", {}).get(key)
    return {"baseline": baseline} if is_number(baseline) else {}


def _warn(family: Family, subjects: Sequence[Subject]) -> str:
    """Why its levels are not to be compared."""
    if family.part not in ("learning", "balance"):
        return ""
    if family.name == "loss" and any(
        one.settings.get("loss") != subjects[0].settings.get("loss")
        or name_objective(one) != name_objective(subjects[0])
        for one in subjects
    ):
        return "Each run's own sum of losses with its own weights: compare shapes, not levels."
    return explain_unlike(subjects, _TOPICS.get(family.name, "other"))


@dataclass(frozen=True, slots=True)
class _Colors:
    number: int
    """Of the run."""
    runs: int
    asked: int
    """Runs that have such figures."""

    def of_key(self, place: int) -> tuple[int, int]:
        """Colour and dash of one of several figures of the run; colours of other runs are not taken."""
        if self.asked > 1:
            return self.number, place
        return (self.runs + place - 1 if place and self.runs > 1 else self.number + place), 0

    def of_part(self, is_second: bool) -> tuple[int, int]:
        return (self.number if self.runs > 1 else int(is_second)), 0


def _trace_key(family: Family, place: int, records: Sequence[Record], who: str, colors: _Colors) -> Iterator[Line]:
    """In training, and on held-out rows; one of several keys of a run goes by its own name."""
    key = family.keys[place]
    found = [one for one in (key, f"heldout_{key}") if _has(records, one)]
    is_one_of = sum(_has(records, one) or _has(records, f"heldout_{one}") for one in family.keys) > 1
    what = family.names[place] if family.names and is_one_of else ""
    for logged in found:
        is_heldout = logged.startswith(("heldout_", "dev_"))
        part = ("held out" if is_heldout else "training") if len(found) > 1 else ""
        name = ", ".join(one for one in (who, what, part) if one) or family.title
        color, dash = colors.of_key(place) if what else colors.of_part(is_heldout and len(found) > 1)
        is_noisy = not is_heldout and not family.is_exact
        line = trace(name, color, records, logged, dash=dash, is_noisy=is_noisy)
        yield line if family.scale == 1 else replace(line, y=_scale(line.y, family.scale))


def _scale(values: Sequence[float | None], by: float) -> list[float | None]:
    return [None if value is None else by * value for value in values]


def _has(records: Iterable[Record], key: str) -> bool:
    return any(is_number(record.get(key)) for record in records)


def trace(name: str, color: int, records: Sequence[Record], key: str, *, dash: int = 0, is_noisy: bool) -> Line:
    """A null in the log is a gap in the line; a record without the key is none of its points."""
    points = list(_thin([record for record in records if key in record], key))
    axes = {axis: [point.get(axis) for point in points] for axis in AXES}
    return Line(
        name,
        color,
        {axis: values for axis, values in axes.items() if any(value is not None for value in values)},
        [point[key] for point in points],
        dash,
        is_noisy,
    )


def _thin(records: Sequence[Record], key: str) -> Iterator[Record]:
    """At most so many points, each the mean of its neighbours and standing where the last of them does."""
    size = -(-len(records) // _MOST_POINTS) or 1
    for start in range(0, len(records), size):
        group = records[start : start + size]
        values = [record[key] for record in group if is_number(record[key])]
        yield {**group[-1], key: sum(values) / len(values) if values else None}


def smooth(values: Sequence[float | None], weight: float) -> list[float | None]:
    """The running mean whose memory fades by `weight` a point, without the pull of its beginning at zero."""
    found: list[float | None] = []
    total = count = 0.0
    for value in values:
        if value is None:
            found.append(None)
            continue
        total, count = weight * total + value, weight * count + 1
        found.append(total / count)
    return found


def draw_study(results: dict[str, Any]) -> list[Chart]:
    """Scores over compute, of those that were taken along the way."""
    charts = []
    for score, arms in results.get("curves", {}).items():
        lines = tuple(_trace_arm(arm, color, points) for color, (arm, points) in enumerate(arms.items()) if points)
        if any(len(line.y) > 1 for line in lines):
            note = "Means over the seeds; their intervals stand in the table."
            title = format_score_name(score, results.get("scores", {}).get(score))
            charts.append(Chart(f"study-{score}", title, "points", "study", lines, (), note))
    return charts


def _trace_arm(arm: str, color: int, points: Sequence[Record]) -> Line:
    axes = {axis: [point.get(axis) for point in points] for axis in AXES}
    return Line(
        arm,
        color,
        {axis: values for axis, values in axes.items() if any(value is not None for value in values)},
        _scale([point.get("mean") for point in points], 100.0),
    )
