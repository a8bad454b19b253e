"""What an analysis found, claim by claim: pictures, clouds of points to turn, tables, and what could not be measured.

Subject -> HTML
"""

from collections.abc import Iterator
from html import escape

from electralab.reporting.format import is_number
from electralab.reporting.markup import absent, bullets, fold, heading, links, long_table, paragraph, picture, table
from electralab.reporting.questions import QUESTIONS, find_twins, list_of, list_own, tell_estimate
from electralab.reporting.subjects import Subject, Tree

_CLOUD_COLORS = 8
_BEFORE = "Before training"
# Pictures of more are opened one by one.
_MOST_MODELS = 3
_HEAD = ("measure", "model", "layer", "value", "control", "untrained", "unit")


def show_findings(subject: Subject) -> str:
    told = (*list_of(subject.analysis, "findings"), *list_of(subject.analysis, "missing"))
    titles = {claim: _title(subject.analysis, claim) for claim in sorted({str(one.get("claim", "")) for one in told})}
    top = links({_name(subject, claim): title for claim, title in titles.items()}) if len(titles) > 1 else ""
    return top + "".join(part for claim, title in titles.items() for part in _show_claim(subject, claim, title))


def _name(subject: Subject, claim: str) -> str:
    return "-".join(f"{subject.name} {claim}".split())


def _title(found: Tree, claim: str) -> str:
    of_all = (one for one in list_of(found, "drawings") if one.get("claim") == claim and one.get("model") is None)
    return next((str(one.get("title", claim)) for one in of_all), claim)


def _show_claim(subject: Subject, claim: str, title: str) -> Iterator[str]:
    found = subject.analysis
    yield heading(title, _name(subject, claim))
    yield paragraph(QUESTIONS[claim]) if claim in QUESTIONS else ""
    yield from _show_pictures(subject, claim)
    rows = [one for one in list_of(found, "findings") if one.get("claim") == claim]
    if rows:
        last = {one.get("model"): one["layer"] for one in rows if is_number(one.get("layer"))}
        # Of one figure for each domain or width the picture tells more than a table.
        short = [one for one in rows if one.get("layer") in (None, last.get(one.get("model"))) and not one.get("part")]
        twins = find_twins(found)
        where = ", those of layers at the last one" if last else ""
        yield long_table(f"Values with 95 % intervals{where}", _HEAD, _list_cells(short, twins)) if short else ""
        if len(short) < len(rows):
            caption = "All layers; layer 0 enters the first" if last else "All figures"
            yield fold(caption.partition(";")[0], table(caption, _HEAD, _list_cells(rows, twins)))
        yield bullets(list(_explain([one for one in short if one.get("model") not in twins])), "note")
    for (model, reason), names in _group_missing(found, claim).items():
        yield absent(f"{'; '.join(names)} ({model})", reason)


def _group_missing(found: Tree, claim: str) -> dict[tuple[str, str], list[str]]:
    """(model, reason) -> what it has no figure of; of a model, its twin says nothing new."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in list_own(found, "missing"):
        if one.get("claim") == claim:
            groups.setdefault((str(one.get("model", "")), str(one.get("reason", ""))), []).append(
                str(one.get("name", ""))
            )
    return groups


def _show_pictures(subject: Subject, claim: str) -> Iterator[str]:
    """Those of all models together and of each; folded, those of many models and of networks before training."""
    twins = find_twins(subject.analysis)
    owners = [str(one.get("name")) for one in list_of(subject.analysis, "models") if str(one.get("name")) not in twins]
    shown: dict[str, list[str]] = {"": [], **{owner: [] for owner in owners}, _BEFORE: []}
    clouds: dict[str, list[str]] = {name: [] for name in shown}

    def place(one: Tree) -> str:
        model = str(one.get("model") or "")
        return _BEFORE if model in twins else model if model in shown else ""

    for one in list_of(subject.analysis, "drawings"):
        name = str(one.get("file", "")).rpartition(".")[0]
        if one.get("claim") == claim and name in subject.pictures:
            drawn = picture(str(one.get("title", name)), subject.pictures[name], str(one.get("meaning", "")))
            shown[place(one)].append(drawn)
    for number, cloud in enumerate(subject.clouds):
        if cloud.get("claim") == claim:
            clouds[place(cloud)].append(_show_cloud(number, subject, cloud))
    for name in shown:
        inner = "".join(shown[name])
        inner += f'<div class="clouds">{"".join(clouds[name])}</div>' if clouds[name] else ""
        is_folded = name == _BEFORE or (name and len(owners) > _MOST_MODELS)
        count = len(shown[name]) + len(clouds[name])
        yield fold(f"{name}: {count} picture{'s' * (count > 1)}", inner) if is_folded and inner else inner


def _list_cells(rows: list[Tree], twins: dict[str, str]) -> list[tuple[str, ...]]:
    drawn = {
        (twins[str(one.get("model"))], one.get("name"), one.get("layer")): one
        for one in rows
        if one.get("model") in twins
    }
    return [
        (
            str(one.get("name", "")),
            str(one.get("model", "")),
            "" if one.get("layer") is None else str(one["layer"]),
            tell_estimate(one),
            tell_estimate(one.get("control")),
            tell_estimate(drawn.get((str(one.get("model")), one.get("name"), one.get("layer")))),
            str(one.get("unit", "")),
        )
        for one in rows
        if one.get("model") not in twins
    ]


def _explain(rows: list[Tree]) -> Iterator[str]:
    """What each measure and its control mean; a note that several share is said once, with whose it is."""
    names = list(dict.fromkeys(str(one.get("name", "")) for one in rows))
    for name in names:
        of_name = [one for one in rows if str(one.get("name", "")) == name]
        control: Tree = next((one["control"] for one in of_name if isinstance(one.get("control"), dict)), {})
        beside = f" Control: {control['meaning']}." if control.get("meaning") else ""
        yield f"{name}: {of_name[0].get('meaning', '')}.{beside}"
    notes: dict[str, list[Tree]] = {}
    for one in rows:
        if one.get("note"):
            notes.setdefault(str(one["note"]), []).append(one)
    models = {str(one.get("model")) for one in rows}
    for note, owners in notes.items():
        measured = list(dict.fromkeys(str(one.get("name", "")) for one in owners))
        whose = list(dict.fromkeys(str(one.get("model")) for one in owners))
        what = "" if len(measured) == len(names) else f" on {', '.join(measured)}"
        of = f" of {', '.join(whose)}" if len(whose) < len(models) else ""
        yield f"Note{what}{of}: {note}."


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
