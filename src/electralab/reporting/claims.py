"""The claims and what was found of each: a sentence, a verdict, and the figures beside each other.

Subject -> HTML
"""

from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from electralab.reporting.drawing import pad
from electralab.reporting.format import is_number
from electralab.reporting.markup import heading, paragraph
from electralab.reporting.subjects import Subject

VERDICTS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not", "do not"),
    "undecided": ("is undecided at this scale", "are undecided at this scale"),
}
"""Of one claim, of several."""
_COLOURS = {
    **{"electra (paper)": 0, "electra (one encoder)": 3, "electra": 0},
    **{"mlm": 1, "causal": 2, "xlnet": 4, "untrained": 7},
}
# Of a row of the drawing: the name, the interval, the figure.
_NAME, _RIGHT, _WIDTH, _LINE = 140, 300, 500, 22


def show_claims(subject: Subject) -> str:
    claims = subject.claims
    if not claims:
        return ""
    counts = Counter(str(one["verdict"]) for one in claims)
    said = [f"{counts[verdict]} {words[counts[verdict] > 1]}" for verdict, words in VERDICTS.items() if counts[verdict]]
    lead = f"Of {len(claims)} claims {', '.join(said)}."
    explained = (
        "Dots are means over seeds, lines 95 % intervals, of seeds and of examples together. "
        "A claim holds, or does not, where its interval leaves no other answer. Lines that leave the picture are cut."
    )
    cards = "".join(map(_show, claims))
    return f'{paragraph(lead, "lead")}{paragraph(explained, "note")}<div class="charts claims">{cards}</div>'


def _show(claim: Mapping[str, Any]) -> str:
    verdict = str(claim["verdict"])
    kind = verdict.split()[0] if verdict in VERDICTS else "undecided"
    measure = f"{claim['measure']} ({claim['unit']})"
    return (
        f'<article class="chart claim">{heading(str(claim["number"]))}<p class="verdict {kind}">{escape(verdict)}</p>'
        f"{paragraph(str(claim['sentence']))}{paragraph(measure, 'note')}{draw_figures(claim['values'])}"
        f"{_show_arrangements(claim)}{paragraph(str(claim['why']), 'note')}</article>"
    )


def _show_arrangements(claim: Mapping[str, Any]) -> str:
    """Where both arrangements of ELECTRA were judged and differ, the verdict on each; files of before have none."""
    verdicts = claim.get("verdicts", {})
    if len(set(verdicts.values())) < 2:
        return ""
    return paragraph("; ".join(f"{arrangement}: {verdict}" for arrangement, verdict in verdicts.items()), "note")


def draw_figures(values: Mapping[str, Any]) -> str:
    """A dot with its interval for each model; the picture is as wide as the dots and most of their intervals need."""
    known = {name: one for name, one in values.items() if isinstance(one, dict) and is_number(one.get("value"))}
    if not known:
        return ""
    low, high = _choose_span([(one["value"], one.get("low"), one.get("high")) for one in known.values()])
    height = _LINE * len(known)

    def place(value: float) -> float:
        return _NAME + (_RIGHT - _NAME) * (min(max(value, low), high) - low) / (high - low)

    rows = []
    for number, (name, one) in enumerate(known.items()):
        y, colour = _LINE * (number + 0.5), _COLOURS.get(name, 6)
        if has_interval(one):
            start, end = place(one["low"]), place(one["high"])
            rows.append(f'<line class="span c{colour}" x1="{start:.1f}" x2="{end:.1f}" y1="{y}" y2="{y}"/>')
        rows.append(f'<circle class="at c{colour}" cx="{place(one["value"]):.1f}" cy="{y}" r="4.5"/>')
        rows.append(f'<text class="tick" x="0" y="{y + 4}">{escape(name)}</text>')
        rows.append(f'<text class="tick" x="{_RIGHT + 12}" y="{y + 4}">{say_figure(one)}</text>')
    said = "; ".join(f"{name} {say_figure(one)}" for name, one in known.items())
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(said)}">{"".join(rows)}</svg>'


def _choose_span(figures: list[tuple[float, Any, Any]]) -> tuple[float, float]:
    """All values, and of the intervals what is no further from them than they are apart."""
    values = [value for value, *_ in figures]
    apart = max(values) - min(values)
    ends = [end for figure in figures for end in figure[1:] if is_number(end)]
    if apart:
        ends = [min(max(end, min(values) - apart), max(values) + apart) for end in ends]
    return pad((min(values + ends), max(values + ends)))


def say_figure(one: Mapping[str, Any]) -> str:
    interval = f" [{one['low']:.3g}, {one['high']:.3g}]" if has_interval(one) else ""
    return f"{one['value']:.3g}{interval}".replace("-", "\N{MINUS SIGN}")


def has_interval(one: Mapping[str, Any]) -> bool:
    return is_number(one.get("low")) and is_number(one.get("high"))
