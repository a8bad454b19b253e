"""An analysis and the verdicts on the claims: sentences, tables, pictures, and what could not be measured.

Analysis, ClaimsResult -> sentence..., Block...

The page, README.md, claims.md and the terminal show parts of the same.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from electralab.records.findings import (
    Analysis,
    ClaimsResult,
    ClaimVerdictRecord,
    EstimateRecord,
    FindingRecord,
    PictureRecord,
    PointCloud,
)
from electralab.reporting import blocks as b
from electralab.reporting.artifact import Artifact
from electralab.reporting.format import format_estimate, read_texts

_HEAD = ("measure", "model", "layer", "value", "control", "untrained", "unit")
# Of one claim, of several.
_VERDICTS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not", "do not"),
    "undecided": ("is undecided at this scale", "are undecided at this scale"),
}
_BEFORE = "Before training"
# Pictures of more are opened one by one.
_MOST_MODELS = 3
# The figures that answer a claim first, where analyses did not yet write it down themselves.
_ANSWERS_BEFORE = {
    "M32": ("verdict AUC",),
    "M33": ("part of speech probe",),
    "M36": ("rotation sameness",),
    "M38": ("verdict AUC, gain by context", "guess loss, gain by context"),
}


def _format_figure(figure: FindingRecord | EstimateRecord | None) -> str:
    return "–" if figure is None else format_estimate(figure.value, figure.low, figure.high)


def _cells(finding: FindingRecord, control: FindingRecord | None) -> list[str]:
    """As `_HEAD` names them."""
    layer = "" if finding.layer is None else str(finding.layer)
    values = map(_format_figure, (finding, finding.control, control))
    return [finding.name, finding.model, layer, *values, finding.unit]


def finding_tables(analysis: Analysis) -> dict[str, b.Table]:
    """Claim -> all its figures."""
    tables = {}
    for claim, pairs in analysis.pair_with_control().items():
        rows = [_cells(*pair) for pair in sorted(pairs, key=lambda pair: pair[0].name)]
        tables[claim] = b.Table("", _HEAD, rows)
    return tables


def last_layer_tables(analysis: Analysis) -> list[b.Table]:
    """A table for each claim: values beside controls, those of layers at the last one."""
    last = {finding.model: finding.layer for finding in analysis.findings if finding.layer is not None}
    head = [name for name in _HEAD if name != "layer"]
    tables = []
    for claim, pairs in analysis.pair_with_control().items():
        shown = [pair for pair in pairs if pair[0].layer in (None, last.get(pair[0].model))]
        rows = [[cell for column, cell in enumerate(_cells(*pair)) if _HEAD[column] != "layer"] for pair in shown]
        tables.append(b.Table(f"{claim}, last layer", head, rows))
    return tables


def claims_table(result: ClaimsResult) -> b.Table:
    columns = [column for column in result.columns if any(column in claim.values for claim in result.claims)]
    rows = []
    for claim in result.claims:
        values = [_format_claim_value(claim.values.get(column)) for column in columns]
        measure = f"{claim.measure} ({claim.unit})"
        rows.append([f"{claim.number} {claim.sentence}", measure, *values, format_verdicts(claim)])
    return b.Table("", ["claim", "measured by", *columns, "verdict"], rows)


def _format_claim_value(value: EstimateRecord | None) -> str:
    if value is None or value.value is None:
        return ""
    text = f"{value.value:.3g}"
    return text if value.low is None else f"{text} [{value.low:.3g}, {value.high:.3g}]"


def format_claim_values(claim: ClaimVerdictRecord) -> str:
    values = (f"{column} {text}" for column, value in claim.values.items() if (text := _format_claim_value(value)))
    return f"{claim.measure}, {claim.unit}: {', '.join(values) or 'no figures'}"


def format_verdicts(claim: ClaimVerdictRecord) -> str:
    """One verdict for both arrangements, or each with its own."""
    if len(set(claim.verdicts.values())) < 2:
        return claim.verdict
    return "; ".join(f"{column}: {verdict}" for column, verdict in claim.verdicts.items())


def tell_answers(analysis: Analysis) -> Iterator[str]:
    """A sentence for each claim: its first figure, at the last layer, beside the untrained control's."""
    controls = analysis.controls
    asked = {measure.claim: measure.answers for measure in analysis.measures}
    for claim in sorted({finding.claim for finding in analysis.findings}):
        rows = [finding for finding in analysis.findings if finding.claim == claim]
        names = {finding.id or finding.name: finding.name for finding in rows if finding.model not in controls}
        names |= {name: name for name in names.values()}
        if not names:
            continue
        answers = (*asked.get(claim, ()), *_ANSWERS_BEFORE.get(claim, ()))
        name = next((names[answer] for answer in answers if answer in names), next(iter(names.values())))
        # Layers come in order: the last one stays.
        last = {finding.model: finding for finding in rows if finding.name == name}
        untrained = {model: last[control] for control, model in controls.items() if control in last}
        told = []
        for model, finding in last.items():
            if model not in controls:
                beside = f", untrained {_format_figure(untrained[model])}" if model in untrained else ""
                told.append(f"{model} {_format_figure(finding)}{beside}")
        unit = next(iter(last.values())).unit
        yield f"{claim}, {name}{f' ({unit})' if unit and unit not in name else ''}: {'; '.join(told)}."


def finding_blocks(artifact: Artifact) -> Iterator[b.PageBlock]:
    """Claim by claim: its question, its pictures, its figures, and what could not be measured."""
    analysis = artifact.analysis
    if analysis is None:
        return
    claims = sorted({row.claim for row in analysis.findings} | {skipped.claim for skipped in analysis.missing})
    titles = {claim: claim for claim in claims}
    titles |= {picture.claim: picture.title for picture in reversed(analysis.drawings) if not picture.model}
    anchors = {claim: "-".join(f"{artifact.name} {claim}".split()) for claim in claims}
    if len(claims) > 1:
        yield b.Links({anchors[claim]: titles[claim] for claim in claims})
    # What analyses of before did not write down themselves.
    questions = read_texts().questions | {measure.claim: measure.question for measure in analysis.measures}
    for claim in claims:
        yield b.Heading(titles[claim], anchors[claim])
        if claim in questions:
            yield b.Paragraph(questions[claim])
        yield from _pictures(artifact, analysis, claim)
        yield from _figures(analysis, claim)


def _figures(analysis: Analysis, claim: str) -> Iterator[b.PageBlock]:
    controls = analysis.controls
    pairs = analysis.pair_with_control().get(claim, [])
    if pairs:
        last = {row.model: row.layer for row, _ in pairs if row.layer is not None}
        # Of one figure for each domain or width the picture tells more than a table.
        short = [pair for pair in pairs if pair[0].layer in (None, last.get(pair[0].model)) and not pair[0].part]
        where = ", those of layers at the last one" if last else ""
        if short:
            rows = [_cells(*pair) for pair in short]
            yield b.long_table(f"Values with 95 % intervals{where}", _HEAD, rows)
        if len(short) < len(pairs):
            caption = "All layers; layer 0 enters the first" if last else "All figures"
            table = b.Table(caption, _HEAD, [_cells(*pair) for pair in pairs])
            yield b.Fold(caption.partition(";")[0], [table])
        yield b.Bullets(list(_explain_figures([row for row, _ in short])), "note")
    # Of a model, its untrained control says nothing new.
    groups: dict[tuple[str, str], list[str]] = {}
    for skipped in analysis.missing:
        if skipped.claim == claim and skipped.model not in controls:
            groups.setdefault((skipped.model, skipped.reason), []).append(skipped.name)
    for (model, reason), names in groups.items():
        yield b.Absent(f"{'; '.join(names)} ({model})", reason)


def _explain_figures(rows: Sequence[FindingRecord]) -> Iterator[str]:
    """What each measure and its control mean; a note that several share is said once, with whose it is."""
    by_name: dict[str, list[FindingRecord]] = {}
    notes: dict[str, list[FindingRecord]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
        if row.note:
            notes.setdefault(row.note, []).append(row)
    for name, figures in by_name.items():
        meaning = next((figure.control.meaning for figure in figures if figure.control), "")
        yield f"{name}: {figures[0].meaning}.{f' Control: {meaning}.' if meaning else ''}"
    for note, owners in notes.items():
        measured = dict.fromkeys(owner.name for owner in owners)
        models = dict.fromkeys(owner.model for owner in owners)
        what = "" if len(measured) == len(by_name) else f" on {', '.join(measured)}"
        whose = f" of {', '.join(models)}" if len(models) < len({row.model for row in rows}) else ""
        yield f"Note{what}{whose}: {note}."


def _pictures(artifact: Artifact, analysis: Analysis, claim: str) -> Iterator[b.PageBlock]:
    """Those of all models together and of each; folded, those of many models and of networks before training."""
    controls, models = analysis.controls, analysis.model_names
    pictures: dict[str, list[b.PageBlock]] = {"": [], **{model: [] for model in models}, _BEFORE: []}
    clouds: dict[str, list[b.PageBlock]] = {name: [] for name in pictures}

    def place(figure: PictureRecord | PointCloud) -> str:
        model = figure.model or ""
        return _BEFORE if model in controls else model if model in pictures else ""

    for picture in analysis.drawings:
        name = picture.file.rpartition(".")[0]
        if picture.claim == claim and name in artifact.pictures:
            shown = b.Picture(picture.title or name, artifact.pictures[name], picture.meaning)
            pictures[place(picture)].append(shown)
    for number, cloud in enumerate(artifact.clouds.clouds if artifact.clouds else ()):
        if cloud.claim == claim:
            name = f"{artifact.name}/{number}"
            figure = b.CloudFigure(name, cloud.title, cloud.points, cloud.categories, cloud.words)
            clouds[place(cloud)].append(figure)
    for name in pictures:
        blocks = [*pictures[name], *([b.Group("clouds", clouds[name])] if clouds[name] else [])]
        count = len(pictures[name]) + len(clouds[name])
        if blocks and (name == _BEFORE or (name and len(models) > _MOST_MODELS)):
            yield b.Fold(f"{name}: {count} picture{'s' * (count > 1)}", blocks)
        else:
            yield from blocks


def claim_blocks(result: ClaimsResult | None) -> Iterator[b.PageBlock]:
    """The page's section: a card for each claim."""
    if result is None or not result.claims:
        return
    counts = Counter(str(claim.verdict) for claim in result.claims)
    told = [f"{counts[name]} {words[counts[name] > 1]}" for name, words in _VERDICTS.items() if counts[name]]
    yield b.Paragraph(f"Of {len(result.claims)} claims {', '.join(told)}.", "lead")
    yield b.Paragraph(
        "Dots are means over seeds, lines 95 % intervals, of seeds and of examples together. "
        "A claim holds, or does not, where its interval leaves no other answer. Lines that leave the picture are cut.",
        "note",
    )
    cards = []
    for claim in result.claims:
        known = {name: figure for name, figure in claim.values.items() if figure.value is not None}
        figures = {name: (figure.value or 0.0, figure.low, figure.high) for name, figure in known.items()}
        # Where both arrangements of ELECTRA were judged and differ, the verdict on each.
        notes = [*([verdicts] if (verdicts := format_verdicts(claim)) != claim.verdict else []), claim.why]
        measure = f"{claim.measure} ({claim.unit})"
        cards.append(b.ClaimCard(claim.number, claim.verdict, claim.sentence, measure, figures, notes))
    yield b.Group("claims", cards)
