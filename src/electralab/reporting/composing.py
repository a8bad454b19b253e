"""The page: sections in order, charts as still pictures, and the data and script that make them move.

Subject... -> HTML

It fetches nothing, and its own policy allows nothing but the one style and the one script that it carries.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from electralab.reporting import findings, scores
from electralab.reporting.claims import show_claims
from electralab.reporting.curves import AXES, Chart, Part, draw_charts, draw_study
from electralab.reporting.differences import find_differences, flatten
from electralab.reporting.drawing import COLORS, draw_still
from electralab.reporting.examples import show_all_examples
from electralab.reporting.glossary import show_words
from electralab.reporting.headlines import find_headlines
from electralab.reporting.likeness import tell_comparison
from electralab.reporting.markup import absent, bullets, fold, heading, long_table, paragraph, section, table
from electralab.reporting.questions import tell_answers
from electralab.reporting.subjects import Subject
from electralab.reporting.summary import is_finished, measure_progress, summarise
from electralab.reporting.tuning import show_mistakes, show_tuning

Advice = Callable[[Subject], Sequence[str]]
"""What is out of balance in a run, and what to do about it."""


_PARTS: Mapping[Part, tuple[str, str]] = {
    "study": ("scores-over-compute", "Scores over compute"),
    "learning": ("learning", "Learning"),
    "balance": ("balance", "Balance of the two networks"),
    "pace": ("pace", "Throughput and schedule"),
}


def advise_nothing(_: Subject) -> Sequence[str]:
    return ()


def compose_page(subjects: Sequence[Subject], advise: Advice = advise_nothing, *, live_seconds: float = 0.0) -> str:
    """`live_seconds`: how often the page asks its server for news; 0 for a page that stands alone."""
    charts = gather_charts(subjects)
    sections = compose_sections(subjects, charts, advise)
    title = " · ".join(subject.name for subject in subjects)
    is_over = all(map(is_finished, subjects))
    style, script = read_style_and_script()
    data = {
        "axes": AXES,
        "charts": [chart.as_data() for chart in charts],
        "clouds": {name: cloud for one in subjects for name, cloud in findings.describe_clouds(one).items()},
        "live": 0 if is_over else live_seconds,
        "axis": choose_axis(subjects),
    }
    state = f' <span id="live">{"finished" if is_over else "live"}</span>' if live_seconds else ""
    links = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text, inner in sections if inner)
    kind = subjects[0].kind if len(subjects) == 1 else f"comparison of {len(subjects)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(write_policy(style, script, is_live=live_seconds > 0))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(title)}: report</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#summary">To the report</a>
<header><div class="wrap"><p class="kind">{escape(kind)}{state}</p>
<h1>{escape(title)}</h1>
<button id="theme" type="button" hidden>Dark</button></div></header>
<nav aria-label="Sections"><ul class="wrap">{links}</ul></nav>
<main class="wrap">
{"".join(inner for _, _, inner in sections)}
</main>
<footer class="wrap"><p>Written by electralab from the files of {escape(title)}; it needs no network.</p></footer>
<script type="application/json" id="data">{json_in_html(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def news(subjects: Sequence[Subject], advise: Advice) -> dict[str, Any]:
    """What a live page asks for: its charts and the sections that change while training goes on."""
    charts = gather_charts(subjects)
    moving = ("summary", "warnings", "scores", "mistakes", "examples", "compute")
    inner = {name: html for name, _, html in compose_sections(subjects, charts, advise) if name in moving and html}
    is_over = all(map(is_finished, subjects))
    return {"charts": [chart.as_data() for chart in charts], "sections": inner, "is_finished": is_over}


def gather_charts(subjects: Sequence[Subject]) -> list[Chart]:
    studies = [chart for subject in subjects if subject.kind == "study" for chart in draw_study(subject.results)]
    return [*studies, *draw_charts(subjects)]


def choose_axis(subjects: Sequence[Subject]) -> str:
    """What is compared is compared at equal compute."""
    return "flops" if len(subjects) > 1 or subjects[0].kind == "study" else "step"


def compose_sections(
    subjects: Sequence[Subject], charts: Sequence[Chart], advise: Advice
) -> list[tuple[str, str, str]]:
    """Name, title and HTML of each, empty ones included."""
    found = [
        ("summary", "Summary", section("summary", "Summary", _summaries(subjects))),
        ("warnings", "Warnings", section("warnings", "Warnings", *(_warnings(one, advise) for one in subjects))),
        ("differences", "What differs", section("differences", "What differs", *_differences(subjects))),
        (
            "claims",
            "Claims",
            section("claims", "What holds of the claims", *(_attempt(show_claims, one) for one in subjects)),
        ),
        ("scores", "Scores", section("scores", "Scores", *_scores(subjects))),
        ("mistakes", "Mistakes", section("mistakes", "Examples it got wrong", *_mistakes(subjects))),
    ]
    controls = _CONTROLS
    is_pair = any(chart.name == "auc" for chart in charts)
    for part, (name, full_title) in _PARTS.items():
        title = full_title if part != "balance" or is_pair else "Inside training"
        of_part = [chart for chart in charts if chart.part == part]
        figures = "".join(_figure(chart, choose_axis(subjects)) for chart in of_part if not chart.is_zero)
        shown = f'<div class="charts">{figures}</div>' if figures else ""
        inner = section(name, title, controls, shown, _fold_zeros(of_part, subjects)) if of_part else ""
        controls = "" if inner else controls
        found.append((name, title, inner))
    if not charts and any(subject.logs for subject in subjects):
        missing = absent("No curves", "metrics.jsonl holds no step yet; they appear with the first logged step.")
        found.append(("learning", "Learning", section("learning", "Learning", missing)))
    several = len(subjects) > 1
    examples = section("examples", "Hidden, guessed, judged", show_all_examples(subjects))
    # A run is best known by seeing it at work; what is compared, by its scores.
    place = len(found) if several or not subjects[0].examples else 1
    found.insert(place, ("examples", "Examples", examples))
    found += [
        (
            "findings",
            "Analysis",
            section("findings", "Analysis", *(_attempt(findings.show_findings, one) for one in subjects)),
        ),
        (
            "pictures",
            "Pictures",
            section("pictures", "Pictures", *(_attempt(scores.show_pictures, one) for one in subjects)),
        ),
        ("compute", "Compute", section("compute", "Compute", scores.show_compute(subjects))),
        (
            "environment",
            "Environment",
            section("environment", "Environment", scores.show_environment(subjects), is_folded=True),
        ),
        (
            "settings",
            "Settings",
            section("settings", "All settings" if several else "Settings", *map(_settings, subjects), is_folded=True),
        ),
        ("words", "Words", section("words", "Words used here", show_words(), is_folded=True)),
    ]
    if all(subject.kind == "fine-tuning run" for subject in subjects):
        # Of a tuned model nobody looks for gradient norms and throughput first.
        order = [name for name, *_ in found if name not in ("balance", "pace")]
        place = order.index("environment")
        order[place:place] = ["balance", "pace"]
        found.sort(key=lambda of: order.index(of[0]))
    return found


def _mistakes(subjects: Sequence[Subject]) -> Iterator[str]:
    for subject in subjects:
        shown = _attempt(show_mistakes, subject)
        yield heading(subject.name) + shown if shown and len(subjects) > 1 else shown


def _summaries(subjects: Sequence[Subject]) -> str:
    if len(subjects) == 1:
        return _summary(subjects[0], is_one_of_many=False)
    cards = "".join(f"<div>{_summary(subject, is_one_of_many=True)}</div>" for subject in subjects)
    told = [text for group in _group(subjects) if len(group) > 1 for text in _compare(group)]
    return "".join(paragraph(text, "lead") for text in told) + f'<div class="cards">{cards}</div>'


def _group(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Those of one kind together: others have nothing to compare."""
    kinds = dict.fromkeys(subject.kind for subject in subjects)
    return [[subject for subject in subjects if subject.kind == kind] for kind in kinds]


def _compare(group: Sequence[Subject]) -> list[str]:
    return list(tell_comparison(group, [scores.find_scores(one) for one in group])) if group[0].kind in _SCORED else []


def _summary(subject: Subject, is_one_of_many: bool) -> str:
    taken, total = measure_progress(subject)
    bar = ""
    if subject.kind == "run" and total and taken < total:
        bar = f'<progress max="{total}" value="{taken}" aria-label="Steps taken">{taken} of {total}</progress>'
    words = _attempt(lambda one: "".join(paragraph(text, "lead") for text in summarise(one)), subject)
    words += _attempt(lambda one: bullets(list(tell_answers(one))), subject) if subject.kind == "analysis" else ""
    return (heading(subject.name) if is_one_of_many else _attempt(_tiles, subject)) + words + bar


def _tiles(subject: Subject) -> str:
    """The few numbers that a reader looks for first."""
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd>{escape(beside)}</dd></div>"
        for name, value, beside in find_headlines(subject)
    )
    return f'<dl class="tiles">{shown}</dl>' if shown else ""


def _warnings(subject: Subject, advise: Advice) -> str:
    skipped = subject.results.get("skipped_steps") or 0
    said = [*advise(subject), *subject.troubles]
    if skipped:
        said.append(f"{skipped} steps were skipped because their gradients were not finite")
    return bullets([f"{subject.name}: {text}" for text in said], "warnings")


def _differences(subjects: Sequence[Subject]) -> list[str]:
    """Settings of subjects of one kind, and of a study's arms."""
    parts = [_attempt(_differing_arms, subject) for subject in subjects if subject.kind == "study"]
    groups = _group(subjects)
    for group in groups:
        if len(group) > 1:
            kind = f" ({group[0].kind}s)" if len(groups) > 1 else ""
            data = _name_data(group)
            trees = {one.name: one.settings | _identity(one) | data[one.name] for one in group}
            parts.append(_show_differences(f"Settings that are not the same in all{kind}", trees))
    return parts


def _differing_arms(subject: Subject) -> str:
    arms = {name: one for name, one in subject.results.get("arms", {}).items() if isinstance(one, dict)}
    return (
        _show_differences(f"Settings that are not the same in all arms of {subject.name}", arms)
        if len(arms) > 1
        else ""
    )


def _show_differences(caption: str, trees: Mapping[str, Mapping[str, Any]]) -> str:
    found = find_differences(list(trees.values()))
    rows = [(key, *row) for key, row in found.items()]
    return long_table(caption, ["setting", *trees], rows) if rows else paragraph("All their settings are the same.")


def _identity(subject: Subject) -> dict[str, Any]:
    return {key: subject.identity[key] for key in ("total_steps", "threads", "task") if key in subject.identity}


def _name_data(group: Sequence[Subject]) -> dict[str, dict[str, str]]:
    """By their paths. The hash decides whether data are the same, and tells apart what lay in one place in turn."""
    named: dict[Any, str] = {}
    for subject in group:
        if (key := subject.identity.get("data")) and key not in named:
            mark = f"fingerprint {str(key)[:8]}"
            path = subject.data_path
            named[key] = (f"{path}, {mark}" if path in named.values() else path) or mark
    return {one.name: {"data": named[key]} if (key := one.identity.get("data")) else {} for one in group}


_SCORED = ("run", "fine-tuning run", "GLUE run")
"""Kinds whose scores fit beside each other."""
_OWN: Mapping[str, Callable[[Subject], str]] = {
    "run": scores.show_heldout,
    "fine-tuning run": show_tuning,
    "GLUE run": scores.show_suite,
    "study": scores.show_study,
    "trade-off": scores.show_tradeoff,
}


def _scores(subjects: Sequence[Subject]) -> Iterator[str]:
    """Of several of one kind side by side; of others each its own, under its name."""
    for group in _group(subjects):
        if len(group) > 1 and group[0].kind in _SCORED:
            yield scores.show_final(group)
            continue
        for subject in group:
            show = _OWN.get(subject.kind)
            shown = (_attempt(show, subject) if show else "") + _attempt(scores.show_evaluations, subject)
            yield heading(subject.name) + shown if shown and len(subjects) > 1 else shown


def _attempt(show: Callable[[Subject], str], subject: Subject) -> str:
    """Files come from anywhere: one of another shape than ours costs its own figure and no other."""
    try:
        return show(subject)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return absent("Cannot be shown", f"A file of {subject.name} is not as electralab writes it ({error!r}).")


def _fold_zeros(charts: Sequence[Chart], subjects: Sequence[Subject]) -> str:
    zeros = [chart for chart in charts if chart.is_zero]
    if not zeros:
        return ""
    figures = "".join(_figure(chart, choose_axis(subjects)) for chart in zeros)
    return fold(f"Always 0: {', '.join(chart.title for chart in zeros)}", f'<div class="charts">{figures}</div>')


def _figure(chart: Chart, axis: str) -> str:
    legend = "".join(
        f'<li class="c{line.color % COLORS} d{line.dash}{" steady" if line.has_dots else ""}">{escape(line.name)}</li>'
        for line in chart.lines
    )
    legend += "".join(f'<li class="c{one.color % COLORS} level">{escape(one.name)}</li>' for one in chart.levels)
    unit = f' <span class="unit">{escape(chart.unit)}</span>' if chart.unit else ""
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    return (
        f'<figure class="chart" data-chart="{escape(chart.name)}"><figcaption>{escape(chart.title)}{unit}</figcaption>'
        f'<div class="plot">{draw_still(chart, axis)}</div><ul class="legend">{legend}</ul>{note}</figure>'
    )


def _settings(subject: Subject) -> str:
    rows = [(key, value) for key, value in flatten(subject.settings)]
    return table(f"Settings of {subject.name}", ["setting", "value"], rows) if rows else ""


def json_in_html(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def read_asset(name: str) -> str:
    return files("electralab.reporting").joinpath("page", name).read_text(encoding="utf-8")


def read_style_and_script() -> tuple[str, str]:
    return read_asset("report.css"), read_asset("report.js") + read_asset("cloud.js")


def write_policy(style: str, script: str, *, is_live: bool) -> str:
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)]
    connect = "'self'" if is_live else "'none'"
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


_CONTROLS = """<div class="controls" hidden>
<label>Over <select id="axis"></select></label>
<label>Smoothing <input id="smoothing" type="range" min="0" max="0.99" step="0.01" value="0.8">
<output for="smoothing">0.80</output></label>
<label><input id="log" type="checkbox"> Logarithmic</label>
</div>"""
