"""What an analysis found, claim by claim: pictures, clouds of points to turn, tables, and what could not be measured.

Subject -> HTML
"""

from collections.abc import Iterator
from html import escape
from typing import Any

from electralab.reporting.markup import absent, bullets, heading, table
from electralab.reporting.subjects import Subject, Tree
from electralab.reporting.wording import is_number

_CLOUD_COLORS = 8
_HEAD = ("measure", "model", "layer", "value", "control", "untrained", "unit")


def show_findings(subject: Subject) -> str:
    told = (*_list(subject.analysis, "findings"), *_list(subject.analysis, "missing"))
    claims = sorted({str(one.get("claim", "")) for one in told})
    return "".join(part for claim in claims for part in _show_claim(subject, claim))


def _show_claim(subject: Subject, claim: str) -> Iterator[str]:
    found = subject.analysis
    drawings = [one for one in _list(found, "drawings") if one.get("claim") == claim]
    yield heading(next((str(one.get("title", claim)) for one in drawings if one.get("model") is None), claim))
    yield from _show_pictures(subject, claim, drawings)
    rows = [one for one in _list(found, "findings") if one.get("claim") == claim]
    if rows:
        last = {one.get("model"): one["layer"] for one in rows if is_number(one.get("layer"))}
        short = [one for one in rows if one.get("layer") in (None, last.get(one.get("model")))]
        yield _show_table("Values with 95 % intervals, those of layers at the last one", short, _find_twins(found))
        if len(short) < len(rows):
            inner = _show_table("All layers; layer 0 enters the first", rows, _find_twins(found))
            yield f"<details><summary>All layers</summary>{inner}</details>"
        yield bullets(list(_explain(rows)), "note")
    for one in _list(found, "missing"):
        if one.get("claim") == claim:
            yield absent(f"{one.get('name', '')} ({one.get('model', '')})", str(one.get("reason", "")))


def _show_pictures(subject: Subject, claim: str, drawings: list[Tree]) -> Iterator[str]:
    """Those of models, and, folded, those of the same networks before training."""
    twins = _find_twins(subject.analysis)
    shown: list[str] = []
    folded: list[str] = []
    for one in drawings:
        name = str(one.get("file", "")).rpartition(".")[0]
        if name in subject.pictures:
            picture = _show_picture(str(one.get("title", name)), str(one.get("meaning", "")), subject.pictures[name])
            (folded if one.get("model") in twins else shown).append(picture)
    for number, cloud in enumerate(subject.clouds):
        if cloud.get("claim") == claim:
            (folded if cloud.get("model") in twins else shown).append(_show_cloud(number, subject, cloud))
    yield from shown
    if folded:
        yield f"<details><summary>Before training: {len(folded)} pictures</summary>{''.join(folded)}</details>"


def _find_twins(found: Tree) -> dict[str, str]:
    """Untrained twin -> its model."""
    return {str(one.get("name")): str(one["control_of"]) for one in _list(found, "models") if one.get("control_of")}


def _list(tree: Tree, key: str) -> list[Tree]:
    found = tree.get(key, [])
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _show_table(caption: str, rows: list[Tree], twins: dict[str, str]) -> str:
    drawn = {
        (twins[str(one.get("model"))], one.get("name"), one.get("layer")): one
        for one in rows
        if one.get("model") in twins
    }
    cells = [
        (
            one.get("name", ""),
            one.get("model", ""),
            "" if one.get("layer") is None else one["layer"],
            say_estimate(one),
            say_estimate(one.get("control")),
            say_estimate(drawn.get((str(one.get("model")), one.get("name"), one.get("layer")))),
            one.get("unit", ""),
        )
        for one in rows
        if one.get("model") not in twins
    ]
    return table(caption, _HEAD, cells)


def say_estimate(found: Any) -> str:
    if not isinstance(found, dict) or not is_number(found.get("value")):
        return "–"
    if not is_number(found.get("low")) or not is_number(found.get("high")):
        return f"{found['value']:.4g}"
    # Sums of floating-point numbers that should be 0 are not.
    value = found["value"] if abs(found["value"]) > 1e-3 * (found["high"] - found["low"]) else 0
    return f"{value:.4g} ({found['low']:.4g} to {found['high']:.4g})"


def _explain(rows: list[Tree]) -> Iterator[str]:
    for name, one in {str(one.get("name", "")): one for one in rows}.items():
        control = one.get("control")
        beside = f" Control: {control.get('meaning', '')}." if isinstance(control, dict) else ""
        note = f" Note: {one['note']}." if one.get("note") else ""
        yield f"{name}: {one.get('meaning', '')}.{beside}{note}"


def _show_picture(title: str, meaning: str, address: str) -> str:
    return (
        f'<figure class="picture"><img src="{address}" alt="{escape(title)}">'
        f"<figcaption><strong>{escape(title)}</strong> {escape(meaning)}</figcaption></figure>"
    )


def _show_cloud(number: int, subject: Subject, cloud: Tree) -> str:
    """Without a script there is nothing to turn: the still picture above says the same."""
    title = str(cloud.get("title", ""))
    names = order_categories(cloud)
    legend = "".join(
        f'<li class="c{place % _CLOUD_COLORS} steady{" second" if place >= _CLOUD_COLORS else ""}">{escape(name)}</li>'
        for place, name in enumerate(names)
    )
    return (
        f'<figure class="cloud" data-cloud="{escape(subject.name)}/{number}" hidden>'
        f"<figcaption>{escape(title)}</figcaption>"
        f'<canvas tabindex="0" role="img" aria-label="{escape(title)}: turn with the arrow keys"></canvas>'
        f'<ul class="legend">{legend}</ul><p class="note">Drag or use the arrow keys to turn; point at a dot to read '
        "its word.</p></figure>"
    )


def order_categories(cloud: Tree) -> list[str]:
    """The most frequent first."""
    names = list(map(str, cloud.get("categories", [])))
    return sorted(set(names), key=lambda name: (-names.count(name), name))


def describe_clouds(subject: Subject) -> dict[str, Tree]:
    """What the script draws, by the name that a figure has."""
    found: dict[str, Tree] = {}
    for number, cloud in enumerate(subject.clouds):
        names = order_categories(cloud)
        found[f"{subject.name}/{number}"] = {
            "points": cloud["points"],
            "kinds": [names.index(str(one)) for one in cloud["categories"]],
            "names": names,
            "words": list(map(str, cloud["words"])),
        }
    return found
