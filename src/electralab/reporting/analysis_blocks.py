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
from electralab.reporting.format import format_estimate

_HEAD = ("measure", "model", "layer", "value", "control", "untrained", "unit")
FindingPairs = Sequence[tuple[FindingRecord, FindingRecord | None]]
_VERDICTS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not", "do not"),
    "undecided": ("is undecided at this scale", "are undecided at this scale"),
}
"""Of one claim, of several."""
_BEFORE = "Before training"
# Pictures of more are opened one by one.
_MOST_MODELS = 3
# What analyses did not yet write down themselves: the question of each claim, and the figures that answer it first.
_QUESTIONS_BEFORE = {
    "M30": "How many bits does a token of input, and a FLOP, teach?",
    "M31": "At which tokens does the loss pull?",
    "M32": "Are generator and discriminator a match?",
    "M33": "What shape has the cloud of states, and do parts of speech and entities lie apart in it?",
    "M34": "Do analogies hold in the table of embeddings and in the states?",
    "M35": "How much does a state depend on its context, and how smoothly does that come?",
    "M36": "Does a state stay as it is when its row is moved?",
    "M37": "Is a change of the sentence a linear map of its vector?",
    "M38": "How many neighbours does a verdict or a guess take into account?",
    "M39": "What does a token of training cost?",
    "M40": "What do more parameters, data and compute buy?",
    "M42": "What do smaller variants of the model gain and cost?",
    "M43": "How much noise can a linear classifier on the states fit?",
    "M44": "How far are other domains, and what is lost there?",
    "M46": "How plausible are replacements, and how hard to tell?",
    "M47": "What does damage to the input leave of a tuned model's accuracy?",
    "heads": "Where do attention heads look?",
}
_ANSWERS_BEFORE = {
    "M32": ("verdict AUC",),
    "M33": ("part of speech probe",),
    "M36": ("rotation sameness",),
    "M38": ("verdict AUC, gain by context", "guess loss, gain by context"),
}


def analysis_blocks(analysis: Analysis) -> list[b.Block]:
    """The README.md of an analysis."""
    return [
        b.Heading(f"Analysis of {', '.join(analysis.model_names)}", level=1),
        b.Paragraph(
            f"Seed {analysis.seed}. Each figure with its 95 % interval, beside what the same measure says of something "
            "that cannot hold the answer, and of the same network before training. Layer 0 enters the first layer."
        ),
        *(
            block
            for claim, pairs in analysis.pair_with_control().items()
            for block in _claim_blocks(claim, pairs, analysis)
        ),
        *_missing_blocks(analysis),
    ]


def _claim_blocks(claim: str, pairs: FindingPairs, analysis: Analysis) -> Iterator[b.Block]:
    yield b.Heading(claim)
    ordered = sorted(pairs, key=lambda pair: pair[0].name)
    yield b.Table("", _HEAD, [_cells(finding, control) for finding, control in ordered])
    explained = {finding.name: finding for finding, _ in pairs}
    yield b.Bullets([_explain(finding) for finding in explained.values()])
    for picture in analysis.drawings:
        if picture.claim == claim:
            yield b.Picture(picture.title, picture.file, picture.meaning)


def _cells(finding: FindingRecord, control: FindingRecord | None) -> list[str]:
    layer = "" if finding.layer is None else str(finding.layer)
    values = (format_figure(figure) for figure in (finding, finding.control, control))
    return [finding.name, finding.model, layer, *values, finding.unit]


def _explain(finding: FindingRecord) -> str:
    control = f" Control: {finding.control.meaning}." if finding.control else ""
    note = f" {finding.note[:1].upper()}{finding.note[1:]}." if finding.note else ""
    return f"*{finding.name}*: {finding.meaning}.{control}{note}"


def _missing_blocks(analysis: Analysis) -> Iterator[b.Block]:
    if analysis.missing:
        yield b.Heading("What could not be measured")
        yield b.Bullets([f"{gap.claim} {gap.name} ({gap.model}): {gap.reason}" for gap in analysis.missing])


def format_figure(figure: FindingRecord | EstimateRecord | None) -> str:
    return "–" if figure is None else format_estimate(figure.value, figure.low, figure.high)


def last_layer_tables(analysis: Analysis) -> list[b.Table]:
    """A table for each claim: values beside controls, those of layers at the last one."""
    last = {finding.model: finding.layer for finding in analysis.findings if finding.layer is not None}
    head = [name for name in _HEAD if name != "layer"]
    tables = []
    for claim, pairs in analysis.pair_with_control().items():
        shown = [pair for pair in pairs if pair[0].layer in (None, last.get(pair[0].model))]
        rows = [[cell for column, cell in enumerate(_cells(*pair)) if column != 2] for pair in shown]
        tables.append(b.Table(f"{claim}, last layer", head, rows))
    return tables


def claims_blocks(result: ClaimsResult) -> list[b.Block]:
    """The claims.md of a study."""
    minutes = ", ".join(f"{arm} {took:g}" for arm, took in result.minutes.items())
    seeds = ", ".join(f"{arm} {count}" for arm, count in result.seeds.items())
    columns = [column for column in result.columns if any(column in claim.values for claim in result.claims)]
    rows = [
        [
            f"{claim.number} {claim.sentence}",
            f"{claim.measure} ({claim.unit})",
            *(format_claim_value(claim.values.get(column)) for column in columns),
            format_verdicts(claim),
        ]
        for claim in result.claims
    ]
    commands = "\n".join(f"    {command}" for command in (result.study_command, result.command) if command)
    blocks: list[b.Block] = [
        b.Heading("What holds of the claims about ELECTRA", level=1),
        b.Paragraph(f"Models of the study `{result.study}`; minutes of pre-training: {minutes}; seeds: {seeds}."),
        b.Paragraph(
            "Intervals are 95 %, of seeds and of examples together. A claim holds or does not where "
            "its interval leaves no other answer; otherwise it is undecided at this scale. ELECTRA is judged in each "
            "arrangement that the study has: as in the paper, with a generator of its own, and with one encoder for "
            "both heads."
        ),
        b.Table("", ["claim", "measured by", *columns, "verdict"], rows),
        b.Bullets([f"**{claim.number}: {format_verdicts(claim)}.** {claim.why}" for claim in result.claims]),
        b.Paragraph("What the verdicts rest on, seed by seed, stands in `claims.json`; made by"),
        b.Paragraph(commands),
    ]
    if result.domains:
        blocks.append(b.Paragraph("Texts of other domains (SHA-256):"))
        blocks.append(b.Bullets([f"{domain.file} {domain.sha256}" for domain in result.domains]))
    return blocks


def format_claim_value(value: EstimateRecord | None) -> str:
    if value is None or value.value is None:
        return ""
    text = f"{value.value:.3g}"
    return text if value.low is None else f"{text} [{value.low:.3g}, {value.high:.3g}]"


def format_claim_values(claim: ClaimVerdictRecord) -> str:
    values = (f"{column} {text}" for column, value in claim.values.items() if (text := format_claim_value(value)))
    return f"{claim.measure}, {claim.unit}: {', '.join(values) or 'no figures'}"


def format_verdicts(claim: ClaimVerdictRecord) -> str:
    """One verdict for both arrangements, or each with its own."""
    if len(set(claim.verdicts.values())) < 2:
        return claim.verdict
    return "; ".join(f"{column}: {verdict}" for column, verdict in claim.verdicts.items())


def tell_analysis(analysis: Analysis) -> Iterator[str]:
    controls = analysis.controls
    models = analysis.model_names
    own = [finding for finding in analysis.findings if finding.model not in controls]
    missing = sum(skipped.model not in controls for skipped in analysis.missing)
    controlled = sum(finding.control is not None for finding in own)
    beside = " and each model beside its untrained twin" if controls else ""
    yield (
        f"{', '.join(models) or 'Models'}: {len(own)} figures, {controlled} of them beside a control{beside}; "
        f"{missing} could not be measured."
    )


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
        told = "; ".join(
            f"{model} {format_figure(finding)}"
            + (f", untrained {format_figure(untrained[model])}" if model in untrained else "")
            for model, finding in last.items()
            if model not in controls
        )
        unit = next(iter(last.values())).unit
        yield f"{claim}, {name}{f' ({unit})' if unit and unit not in name else ''}: {told}."


def finding_blocks(artifact: Artifact) -> Iterator[b.Block]:
    analysis = artifact.analysis
    if analysis is None:
        return
    claims = sorted({row.claim for row in analysis.findings} | {skipped.claim for skipped in analysis.missing})
    titles = {
        claim: next(
            (picture.title for picture in analysis.drawings if picture.claim == claim and not picture.model), claim
        )
        for claim in claims
    }
    anchors = {claim: "-".join(f"{artifact.name} {claim}".split()) for claim in claims}
    if len(claims) > 1:
        yield b.Links({anchors[claim]: titles[claim] for claim in claims})
    questions = _QUESTIONS_BEFORE | {measure.claim: measure.question for measure in analysis.measures}
    for claim in claims:
        yield b.Heading(titles[claim], anchors[claim])
        if claim in questions:
            yield b.Paragraph(questions[claim])
        yield from _pictures(artifact, analysis, claim)
        yield from _figures(analysis, claim)


def _figures(analysis: Analysis, claim: str) -> Iterator[b.Block]:
    controls = analysis.controls
    rows = [finding for finding in analysis.findings if finding.claim == claim]
    if rows:
        last = {finding.model: finding.layer for finding in rows if finding.layer is not None}
        # Of one figure for each domain or width the picture tells more than a table.
        short = [row for row in rows if row.layer in (None, last.get(row.model)) and not row.part]
        where = ", those of layers at the last one" if last else ""
        if short:
            yield b.long_table(f"Values with 95 % intervals{where}", _HEAD, finding_rows(short, controls))
        if len(short) < len(rows):
            caption = "All layers; layer 0 enters the first" if last else "All figures"
            yield b.Fold(caption.partition(";")[0], [b.Table(caption, _HEAD, finding_rows(rows, controls))])
        yield b.Bullets(list(explain_figures([row for row in short if row.model not in controls])), "note")
    # Of a model, its untrained control says nothing new.
    groups: dict[tuple[str, str], list[str]] = {}
    for skipped in analysis.missing:
        if skipped.claim == claim and skipped.model not in controls:
            groups.setdefault((skipped.model, skipped.reason), []).append(skipped.name)
    for (model, reason), names in groups.items():
        yield b.Absent(f"{'; '.join(names)} ({model})", reason)


def finding_rows(rows: Sequence[FindingRecord], controls: dict[str, str]) -> list[list[str]]:
    """A row for each figure of a model, the same of its untrained control beside it."""
    untrained = {(controls[row.model], row.name, row.layer): row for row in rows if row.model in controls}
    return [_cells(row, untrained.get((row.model, row.name, row.layer))) for row in rows if row.model not in controls]


def explain_figures(rows: Sequence[FindingRecord]) -> Iterator[str]:
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
        measured = list(dict.fromkeys(owner.name for owner in owners))
        models = list(dict.fromkeys(owner.model for owner in owners))
        what = "" if len(measured) == len(by_name) else f" on {', '.join(measured)}"
        whose = f" of {', '.join(models)}" if len(models) < len({row.model for row in rows}) else ""
        yield f"Note{what}{whose}: {note}."


def _pictures(artifact: Artifact, analysis: Analysis, claim: str) -> Iterator[b.Block]:
    """Those of all models together and of each; folded, those of many models and of networks before training."""
    controls = analysis.controls
    models = analysis.model_names
    pictures: dict[str, list[b.Block]] = {"": [], **{model: [] for model in models}, _BEFORE: []}
    clouds: dict[str, list[b.Block]] = {name: [] for name in pictures}

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


def claim_blocks(result: ClaimsResult | None) -> Iterator[b.Block]:
    if result is None or not result.claims:
        return
    counts = Counter(str(claim.verdict) for claim in result.claims)
    told = [
        f"{counts[verdict]} {words[counts[verdict] > 1]}" for verdict, words in _VERDICTS.items() if counts[verdict]
    ]
    yield b.Paragraph(f"Of {len(result.claims)} claims {', '.join(told)}.", "lead")
    yield b.Paragraph(
        "Dots are means over seeds, lines 95 % intervals, of seeds and of examples together. "
        "A claim holds, or does not, where its interval leaves no other answer. Lines that leave the picture are cut.",
        "note",
    )
    yield b.Group("claims", [_claim_card(claim) for claim in result.claims])


def _claim_card(claim: ClaimVerdictRecord) -> b.ClaimCard:
    figures = {
        name: (figure.value, figure.low, figure.high)
        for name, figure in claim.values.items()
        if figure.value is not None
    }
    # Where both arrangements of ELECTRA were judged and differ, the verdict on each.
    notes = [*([verdicts] if (verdicts := format_verdicts(claim)) != claim.verdict else []), claim.why]
    return b.ClaimCard(claim.number, claim.verdict, claim.sentence, f"{claim.measure} ({claim.unit})", figures, notes)
