"""An analysis as blocks: tables by claim, what figures mean, pictures, what is missing; and verdicts on claims.

Analysis, ClaimsResult -> Block...
"""

from collections.abc import Iterator, Sequence

from electralab.records.claims import ClaimsResult, ClaimVerdictRecord
from electralab.records.findings import Analysis, EstimateRecord, FindingRecord
from electralab.reporting.blocks import Block, Bullets, Heading, Paragraph, Picture, Table
from electralab.reporting.format import format_estimate

_HEAD = ("measure", "model", "layer", "value", "control", "untrained", "unit")
FindingPairs = Sequence[tuple[FindingRecord, FindingRecord | None]]


def analysis_blocks(analysis: Analysis) -> list[Block]:
    """The README.md of an analysis."""
    return [
        Heading(f"Analysis of {', '.join(analysis.model_names)}", level=1),
        Paragraph(
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


def _claim_blocks(claim: str, pairs: FindingPairs, analysis: Analysis) -> Iterator[Block]:
    yield Heading(claim)
    ordered = sorted(pairs, key=lambda pair: pair[0].name)
    yield Table("", _HEAD, [_cells(finding, control) for finding, control in ordered])
    explained = {finding.name: finding for finding, _ in pairs}
    yield Bullets([_explain(finding) for finding in explained.values()])
    for picture in analysis.drawings:
        if picture.claim == claim:
            yield Picture(picture.title, picture.file, picture.meaning)


def _cells(finding: FindingRecord, control: FindingRecord | None) -> list[str]:
    layer = "" if finding.layer is None else str(finding.layer)
    values = (format_figure(figure) for figure in (finding, finding.control, control))
    return [finding.name, finding.model, layer, *values, finding.unit]


def _explain(finding: FindingRecord) -> str:
    control = f" Control: {finding.control.meaning}." if finding.control else ""
    note = f" {finding.note[:1].upper()}{finding.note[1:]}." if finding.note else ""
    return f"*{finding.name}*: {finding.meaning}.{control}{note}"


def _missing_blocks(analysis: Analysis) -> Iterator[Block]:
    if analysis.missing:
        yield Heading("What could not be measured")
        yield Bullets([f"{gap.claim} {gap.name} ({gap.model}): {gap.reason}" for gap in analysis.missing])


def format_figure(figure: FindingRecord | EstimateRecord | None) -> str:
    return "–" if figure is None else format_estimate(figure.value, figure.low, figure.high)


def last_layer_tables(analysis: Analysis) -> list[Table]:
    """A table for each claim: values beside controls, those of layers at the last one."""
    last = {finding.model: finding.layer for finding in analysis.findings if finding.layer is not None}
    head = [name for name in _HEAD if name != "layer"]
    tables = []
    for claim, pairs in analysis.pair_with_control().items():
        shown = [pair for pair in pairs if pair[0].layer in (None, last.get(pair[0].model))]
        rows = [[cell for column, cell in enumerate(_cells(*pair)) if column != 2] for pair in shown]
        tables.append(Table(f"{claim}, last layer", head, rows))
    return tables


def claims_blocks(result: ClaimsResult) -> list[Block]:
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
    blocks: list[Block] = [
        Heading("What holds of the claims about ELECTRA", level=1),
        Paragraph(f"Models of the study `{result.study}`; minutes of pre-training: {minutes}; seeds: {seeds}."),
        Paragraph(
            "Intervals are 95 %, of seeds and of examples together. A claim holds or does not where "
            "its interval leaves no other answer; otherwise it is undecided at this scale. ELECTRA is judged in each "
            "arrangement that the study has: as in the paper, with a generator of its own, and with one encoder for "
            "both heads."
        ),
        Table("", ["claim", "measured by", *columns, "verdict"], rows),
        Bullets([f"**{claim.number}: {format_verdicts(claim)}.** {claim.why}" for claim in result.claims]),
        Paragraph("What the verdicts rest on, seed by seed, stands in `claims.json`; made by"),
        Paragraph(commands),
    ]
    if result.domains:
        blocks.append(Paragraph("Texts of other domains (SHA-256):"))
        blocks.append(Bullets([f"{domain.file} {domain.sha256}" for domain in result.domains]))
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
