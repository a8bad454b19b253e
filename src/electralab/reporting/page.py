"""The page about one folder or several: its sections, in the order in which a reader asks.

path... -> report.html
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from electralab.artifacts import write_file
from electralab.errors import Stopped, TrainingDiverged, WorkerFailed
from electralab.events import Event, Note, R, Result
from electralab.records.fitted import FitResults
from electralab.records.kinds import find_kind
from electralab.records.record import PlanRecord, Record
from electralab.records.run import ExampleRow
from electralab.records.study import StudyResults
from electralab.reporting import artifact as reading
from electralab.reporting import blocks as b
from electralab.reporting import fit_page, run_pages, study_page
from electralab.reporting import format as fmt
from electralab.reporting.analysis_page import claim_blocks, finding_blocks, tell_answers
from electralab.reporting.artifact import Artifact, ReportKind, find_report_kind, name_artifacts, read_artifact
from electralab.reporting.curves import plot_logs
from electralab.reporting.html import Section, describe_data, render_blocks, render_page, render_section

PAGE = "report.html"
Advice = Callable[[Artifact], Sequence[str]]
"""What is out of balance in a run, and what to do about it."""
Blocks = Iterable[b.PageBlock]

_CHART_SECTIONS: dict[Literal["study", "learning", "balance", "pace"], tuple[str, str]] = {
    "study": ("scores-over-compute", "Scores over compute"),
    "learning": ("learning", "Learning"),
    "balance": ("balance", "Balance of the two networks"),
    "pace": ("pace", "Throughput and schedule"),
}
_LIVE_SECTIONS = ("summary", "warnings", "scores", "mistakes", "examples", "compute")
# Kinds whose scores fit beside each other.
_COMPARED: tuple[ReportKind, ...] = ("run", "fine-tuning run", "fit", "GLUE run")
# Pictures of curves that the page draws itself.
_REDRAWN: dict[ReportKind, str] = {"study": "curves", "fine-tuning run": "learning-curve"}
# For each kind: its scores.
_SCORES: dict[ReportKind, Callable[[Artifact], Blocks]] = {
    "run": run_pages.heldout_table,
    "fine-tuning run": run_pages.tuned_scores,
    "fit": lambda each: fit_page.fit_scores(each.fit),
    "GLUE run": lambda each: study_page.glue_blocks(each.glue) if each.glue else (),
    "study": lambda each: study_page.study_scores(each.study),
    "trade-off": lambda each: study_page.tradeoff_blocks(each.tradeoff),
    "analysis": lambda _: (),
}


class ReportSubject(Record):
    name: str
    kind: str
    path: str


class ReportWritten(Record):
    """What `report` answers: where the page is, what it is about, and what could not be read."""

    out: str
    bytes: int
    subjects: tuple[ReportSubject, ...]
    warnings: tuple[str, ...]


class ReportPlan(PlanRecord):
    """`report --dry-run`."""

    subjects: dict[str, str]
    out: str | None


def advise_nothing(_: Artifact) -> Sequence[str]:
    return ()


def read_artifacts(paths: Sequence[Path], examples: Sequence[ExampleRow] = ()) -> list[Artifact]:
    """`examples` are those of the first, in place of what its folder holds."""
    artifacts = [read_artifact(path, name) for path, name in zip(paths, name_artifacts(paths), strict=True)]
    return [replace(artifacts[0], examples=examples), *artifacts[1:]] if examples else artifacts


def write_report(
    paths: Sequence[Path], out: Path, advise: Advice = advise_nothing, examples: Sequence[ExampleRow] = ()
) -> ReportWritten:
    """The page of one folder or the comparison of several."""
    artifacts = read_artifacts(paths, examples)
    # Whole before it is written: what cannot be composed must not replace the page that is there.
    page = compose_page(artifacts, advise)
    write_file(out, page)
    subjects = [ReportSubject(name=each.name, kind=each.kind, path=str(each.path)) for each in artifacts]
    warnings = [text for artifact in artifacts for text in (*advise(artifact), *artifact.troubles)]
    return ReportWritten(out=str(out), bytes=len(page.encode()), subjects=tuple(subjects), warnings=tuple(warnings))


def plan_report(paths: Sequence[Path], out: Path | None) -> ReportPlan:
    kinds: dict[str, str] = {str(path): find_report_kind(path) for path in paths}
    return ReportPlan(subjects=kinds, out=None if out is None else str(out))


def write_page(folder: Path, advise: Advice = advise_nothing) -> Note:
    """The page that a stage leaves in its folder. One that fails is told of, and costs the work nothing."""
    page = folder / PAGE
    try:
        write_report([folder], page, advise)
    except Exception as error:  # noqa: BLE001  whatever it was, hours of training must not end with it
        again = f"'electra report {folder} --out {page}' tries again"
        reason = str(error) or type(error).__name__
        return Note(f"warning: {page}: could not be written ({reason}); {again}", "warning")
    return Note(f"page  {page}")


def with_page(folder: Path, events: Iterable[Event[R]], advise: Advice = advise_nothing) -> Iterator[Event[R]]:
    """The events of a stage, and the page of its folder however it ends, unless the work was refused: then nothing in
    the folder is ours to show."""
    try:
        for event in events:
            if isinstance(event, Result):
                yield write_page(folder, advise)
            yield event
    except (Stopped, TrainingDiverged, WorkerFailed):
        if find_kind(folder) is not None:
            yield write_page(folder, advise)
        raise


def compose_page(artifacts: Sequence[Artifact], advise: Advice = advise_nothing, *, live_seconds: float = 0.0) -> str:
    """`live_seconds`: how often the page asks its server for news; 0 for a page that stands alone."""
    is_over = all(artifact.is_finished for artifact in artifacts)
    return render_page(
        " · ".join(artifact.name for artifact in artifacts),
        artifacts[0].kind if len(artifacts) == 1 else f"comparison of {len(artifacts)}",
        compose_sections(artifacts, advise),
        axis=_choose_axis(artifacts),
        state=("finished" if is_over else "live") if live_seconds else "",
        live_seconds=0.0 if is_over else live_seconds,
    )


def compose_update(artifacts: Sequence[Artifact], advise: Advice) -> dict[str, object]:
    """What a live page asks for: its charts and the sections that change while training goes on."""
    charts = {chart.name: chart for chart in _plot(artifacts)}
    sections = [section for section in compose_sections(artifacts, advise) if section.name in _LIVE_SECTIONS]
    return {
        "charts": {name: describe_data(chart) for name, chart in charts.items()},
        "figures": {name: render_blocks([chart]) for name, chart in charts.items()},
        "sections": {section.name: render_section(section) for section in sections},
        "is_finished": all(artifact.is_finished for artifact in artifacts),
    }


def _choose_axis(artifacts: Sequence[Artifact]) -> str:
    """What is compared is compared at equal compute."""
    if artifacts[0].kind == "fit" and len(artifacts) == 1:
        return "rows"
    return "flops" if len(artifacts) > 1 or artifacts[0].kind == "study" else "step"


def _plot(artifacts: Sequence[Artifact]) -> list[b.Chart]:
    axis = _choose_axis(artifacts)
    studies = [artifact.study for artifact in artifacts if artifact.study]
    return [
        *(chart for study in studies for chart in study_page.study_charts(study, axis)),
        *(chart for each in artifacts if each.fit for chart in fit_page.fit_charts(each.fit)),
        *plot_logs(artifacts, axis),
    ]


def compose_sections(artifacts: Sequence[Artifact], advise: Advice) -> list[Section]:
    """Those that have something to say. A run is best known by seeing it at work; what is compared, by its scores;
    a tuned model by its score, its confusions and its mistakes."""
    several, charts = len(artifacts) > 1, _plot(artifacts)
    is_shown_early = not several and bool(artifacts[0].examples)
    examples = Section("examples", "Hidden, guessed, judged", [*run_pages.example_blocks(artifacts)], "Examples")
    mistakes: list[b.PageBlock] = []
    for artifact in artifacts:
        blocks = list(run_pages.mistake_blocks(artifact))
        mistakes += [b.Heading(artifact.name), *blocks] if blocks and several else blocks
    claims = [block for artifact in artifacts for block in claim_blocks(artifact.claims)]
    findings = [block for artifact in artifacts for block in finding_blocks(artifact)]
    sections = [
        Section("summary", "Summary", [*_summary(artifacts)]),
        *([examples] if is_shown_early else []),
        Section("warnings", "Warnings", [b.Bullets(list(_warnings(artifacts, advise)), "warning")]),
        Section("differences", "What differs", [*_differences(artifacts)]),
        Section("claims", "What holds of the claims", claims, "Claims"),
        Section("scores", "Scores", [*_scores(artifacts)]),
        Section("mistakes", "Examples it got wrong", mistakes, "Mistakes"),
        *_chart_sections(charts, artifacts),
        *([] if is_shown_early else [examples]),
        Section("findings", "Analysis", findings),
        Section("pictures", "Pictures", [*_pictures(artifacts)]),
        Section("compute", "Compute", [*_compute(artifacts)]),
        Section("environment", "Environment", [*_environment(artifacts)], is_folded=True),
        Section("settings", "All settings" if several else "Settings", [*_settings(artifacts)], "Settings", True),
        Section("words", "Words used here", [b.Definitions(fmt.read_texts().words)], "Words", is_folded=True),
    ]
    if all(artifact.kind == "fine-tuning run" for artifact in artifacts):
        # Of a tuned model nobody looks for gradient norms and throughput first.
        late = [section for section in sections if section.name in ("balance", "pace")]
        sections = [section for section in sections if section not in late]
        place = next(index for index, section in enumerate(sections) if section.name == "environment")
        sections[place:place] = late
    shown = [
        section
        for section in sections
        if any(not isinstance(block, b.Bullets) or block.items for block in section.blocks)
    ]
    # The controls of all charts stand above the first.
    names = [name for name, _ in _CHART_SECTIONS.values()]
    first = next((section.name for section in shown if charts and section.name in names), "")
    return [section._replace(has_controls=section.name == first) for section in shown]


def _group(artifacts: Sequence[Artifact]) -> list[list[Artifact]]:
    """Those of one kind together: others have nothing to compare."""
    kinds = dict.fromkeys(artifact.kind for artifact in artifacts)
    return [[artifact for artifact in artifacts if artifact.kind == kind] for kind in kinds]


def summarise(artifact: Artifact) -> list[str]:
    """What it is and how good it became, in sentences."""
    match artifact:
        case Artifact(kind="run"):
            return fmt.tell(artifact, "run", objective=fmt.read_texts().objectives.get(artifact.objective))
        case Artifact(kind="fine-tuning run", tuned=results):
            return fmt.tell(artifact, "tuned", trivial=run_pages.constant_score(results) if results else None)
        case Artifact(fit=FitResults() as fitted):
            return fmt.tell(fitted, "fit", names=fit_page.ENTRY_NAMES)
        case Artifact(study=StudyResults() as study):
            return study_page.tell_study(study)
    named = {"glue": artifact.glue, "tradeoff": artifact.tradeoff, "analysis": artifact.analysis}
    return next((fmt.tell(record, name) for name, record in named.items() if record), [])


def _summary(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    """Of one its few numbers and its sentences; of several who is ahead, then the sentences of each on a card."""
    cards: list[list[b.PageBlock]] = []
    for artifact in artifacts:
        cards.append([b.Paragraph(text, "lead") for text in summarise(artifact)])
        if artifact.kind == "analysis" and artifact.analysis:
            cards[-1].append(b.Bullets(list(tell_answers(artifact.analysis))))
        taken, total = artifact.steps
        if artifact.kind == "run" and taken < total:
            cards[-1].append(b.StepsTaken(taken, total))
    if len(artifacts) > 1:
        for group in _group(artifacts):
            if len(group) > 1 and group[0].kind in _COMPARED:
                for text in reading.tell_comparison(group, [find_scores(artifact) for artifact in group]):
                    yield b.Paragraph(text, "lead")
        named = zip(artifacts, cards, strict=True)
        yield b.Group("cards", [b.Group("card", [b.Heading(each.name), *card]) for each, card in named])
        return
    artifact = artifacts[0]
    if artifact.kind == "run":
        yield b.Tiles(list(run_pages.run_tiles(artifact)))
    elif artifact.tuned:
        yield b.Tiles(list(run_pages.tuned_tiles(artifact.tuned)))
    elif artifact.fit:
        yield b.Tiles(list(fit_page.fit_tiles(artifact.fit)))
    yield from cards[0]


def _warnings(artifacts: Sequence[Artifact], advise: Advice) -> Iterator[str]:
    for artifact in artifacts:
        texts = [*advise(artifact), *artifact.troubles]
        if skipped := artifact.pretrained.skipped_steps if artifact.pretrained else 0:
            texts.append(f"{skipped} steps were skipped because their gradients were not finite")
        yield from (f"{artifact.name}: {text}" for text in texts)


def _differences(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    """Settings of artifacts of one kind, and of a study's arms."""
    tables: dict[str, Mapping[str, Mapping[str, JsonValue]]] = {}
    for artifact in artifacts:
        if artifact.study and len(artifact.study.arms) > 1:
            tables[f"Settings that are not the same in all arms of {artifact.name}"] = artifact.study.arms
    groups = _group(artifacts)
    for group in groups:
        # Data go by their paths. The hash decides whether they are the same, and tells apart what lay in one place in
        # turn.
        names: dict[str, str] = {}
        trees: dict[str, dict[str, JsonValue]] = {}
        for each in group:
            tree = dict(each.settings)
            if each.run:
                tree |= {"total_steps": each.run.total_steps, "threads": each.run.threads}
            elif each.tuned_run:
                tree |= {"threads": each.tuned_run.threads, "task": each.tuned_run.task}
            if key := each.data_hash:
                if key not in names:
                    mark, path = f"fingerprint {key[:8]}", each.data_path
                    names[key] = (f"{path}, {mark}" if path in names.values() else path) or mark
                tree["data"] = names[key]
            trees[each.name] = tree
        if len(group) > 1:
            kind = f" ({group[0].kind}s)" if len(groups) > 1 else ""
            tables[f"Settings that are not the same in all{kind}"] = trees
    for title, compared in tables.items():
        different = reading.find_differences(list(compared.values()))
        rows = [(key, *map(fmt.format_value, values)) for key, values in different.items()]
        same = b.Paragraph("All their settings are the same.")
        yield b.long_table(title, ["setting", *compared], rows) if rows else same


def _scores(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    """Of several of one kind side by side; of others each its own, under its name."""
    for group in _group(artifacts):
        if len(group) > 1 and group[0].kind in _COMPARED:
            yield from _compare_scores(group)
            continue
        for artifact in group:
            blocks = [*_SCORES[artifact.kind](artifact)]
            for name, result in artifact.evaluations.items():
                blocks += study_page.evaluation_blocks(name, result)
            if blocks and len(artifacts) > 1:
                yield b.Heading(artifact.name)
            yield from blocks


def find_scores(artifact: Artifact) -> dict[str, float]:
    """The last scores of a run, by names that different objectives share."""
    scores: dict[str, float] = {}
    if artifact.kind == "run":
        for key, value in artifact.heldout_scores.items():
            who, _, what = key.partition("_")
            # The same question asked of different objectives has one name.
            is_guess = who in ("generator", "masked", "permuted", "next")
            scores[f"{what} of guesses" if is_guess else key] = value
    elif results := artifact.tuned:
        for split, metrics in results.spread.items():
            # The metric that counts stands first; thresholds are no scores.
            for metric in sorted(metrics, key=lambda metric: metric != results.metric):
                if not metric.endswith("_threshold"):
                    scores[f"{metric} ({split}, median)"] = metrics[metric].median
    elif artifact.fit:
        scores = dict(artifact.fit.entries[0].scores)
    elif artifact.glue:
        scores = {task: spread.median for task, spread in artifact.glue.tasks.items()}
    for name, result in artifact.evaluations.items():
        scores |= {f"{name}: {key}": value for key, value in result.scores.items() if fmt.is_number(value)}
    return scores


def _compare_scores(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    """One table of the last scores of all."""
    scores = [find_scores(artifact) for artifact in artifacts]
    if not any(scores):
        yield b.Absent("No scores to compare", "None of the runs has been evaluated yet.")
        return
    keys = dict.fromkeys(key for known in scores for key in known)
    better = {key: reading.find_better(artifacts, scores, key) for key in keys}
    columns: list[dict[str, object]] = [
        {fmt.format_key(key): b.Best(value) if better[key] == place else value for key, value in known.items()}
        for place, known in enumerate(scores)
    ]
    title = "Last scores"
    if any(place is not None for place in better.values()):
        title += f"; the {'better' if len(artifacts) == 2 else 'best'} in bold"
    yield _side_by_side(title, artifacts, columns)
    shared = {reading.find_topic(key) for key in keys if sum(key in known for known in scores) > 1}
    notes = {topic: reading.explain_unlike(artifacts, topic) for topic in sorted(shared)}
    yield b.Bullets([f"{topic.capitalize()}. {note}" for topic, note in notes.items() if note], "note")


def _side_by_side(title: str, artifacts: Sequence[Artifact], columns: Sequence[Mapping[str, object]]) -> b.Table:
    """A column for each artifact, a row for whatever one of them has."""
    keys = dict.fromkeys(key for column in columns for key in column)
    rows = [(key, *(column.get(key) for column in columns)) for key in keys]
    return b.Table(title, ["", *(artifact.name for artifact in artifacts)], rows)


def _chart_sections(charts: Sequence[b.Chart], artifacts: Sequence[Artifact]) -> Iterator[Section]:
    is_pair = any(chart.name == "auc" for chart in charts)
    for part, (name, title) in _CHART_SECTIONS.items():
        mine = [chart for chart in charts if chart.section == part]
        zeros = [chart for chart in mine if chart.is_zero]
        moving = [chart for chart in mine if not chart.is_zero]
        blocks: list[b.PageBlock] = [b.Group("charts", moving)] if moving else []
        if zeros:
            blocks.append(b.Fold(f"Always 0: {', '.join(chart.title for chart in zeros)}", [b.Group("charts", zeros)]))
        yield Section(name, "Inside training" if part == "balance" and not is_pair else title, blocks)
    if not charts and any(artifact.logs for artifact in artifacts):
        reason = "metrics.jsonl holds no step yet; they appear with the first logged step."
        yield Section("learning", "Learning", [b.Absent("No curves", reason)])


def _pictures(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    """All that say more than the page, and do not stand with the findings they belong to."""
    for artifact in artifacts:
        drawings = artifact.analysis.drawings if artifact.analysis else ()
        placed = {picture.file.rpartition(".")[0] for picture in drawings} | {_REDRAWN.get(artifact.kind, "")}
        for name, address in artifact.pictures.items():
            if name not in placed:
                yield b.Picture(fmt.format_key(name).replace("-", " "), address)


def _compute(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    """Of all seeds together."""
    formats: dict[str, tuple[str, Callable[[float], str]]] = {
        "tokens": ("tokens", fmt.format_count),
        "flops": ("FLOPs", fmt.format_flops),
        "seconds": ("time", fmt.format_seconds),
        "skipped_steps": ("skipped steps", fmt.format_value),
    }
    columns: list[dict[str, object]] = []
    for artifact in artifacts:
        ends, column = artifact.last_records, dict[str, object]()
        if len(ends) > 1:
            column["seeds, all counted"] = len(ends)
        if ends or artifact.pretrained:
            steps = artifact.pretrained.step if artifact.pretrained else sum(end.step for end in ends)
            column["steps"] = fmt.format_value(steps)
        for key, (name, say) in formats.items():
            amounts = [end.get(key) for end in ends]
            total = getattr(artifact.pretrained or artifact.tuned, key, None)
            if total is None and amounts and all(fmt.is_number(amount) for amount in amounts):
                total = sum(amount for amount in amounts if amount is not None)
            if total is not None:
                column[name] = say(total)
        column |= {f"parameters of the {name}": count for name, count in artifact.parameters.items()}
        columns.append(column)
    if any(columns):
        yield _side_by_side("What it took", artifacts, columns)


def _environment(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    columns: list[dict[str, object]] = []
    for artifact in artifacts:
        column: dict[str, object] = {}
        if facts := artifact.environment or (artifact.study.provenance if artifact.study else None):
            if command := facts.command if isinstance(facts.command, str) else " ".join(facts.command):
                yield b.Code(command)
            shown = facts.model_copy(update={"command": "", "packages": {}}).to_json()
            for key, value in shown.items():
                if not isinstance(value, dict) and key not in ("command", "version"):
                    column[fmt.format_key(key)] = fmt.format_value(value)
            column |= {name: str(version) for name, version in facts.packages.items()}
        if artifact.data_hash:
            column["fingerprint of the data"] = artifact.data_hash[:12]
        columns.append(column)
    if any(columns):
        yield _side_by_side("Environment", artifacts, columns)


def _settings(artifacts: Sequence[Artifact]) -> Iterator[b.PageBlock]:
    for artifact in artifacts:
        if rows := [(key, fmt.format_value(value)) for key, value in reading.flatten(artifact.settings)]:
            yield b.Table(f"Settings of {artifact.name}", ["setting", "value"], rows)
