"""The page about one folder or several: its sections, in the order in which a reader asks.

path... -> report.html
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from electralab.artifacts import write_file
from electralab.errors import Stopped, TrainingDiverged, WorkerFailed
from electralab.events import Event, Note, R, Result
from electralab.records.kinds import find_kind
from electralab.records.record import Record
from electralab.records.run import ExampleRow
from electralab.reporting import blocks as b
from electralab.reporting.analysis_blocks import claim_blocks, finding_blocks, tell_analysis, tell_answers
from electralab.reporting.artifact import (
    Artifact,
    ReportKind,
    explain_unlike,
    find_better,
    find_differences,
    find_report_kind,
    find_topic,
    flatten,
    name_artifacts,
    read_artifact,
    tell_comparison,
)
from electralab.reporting.curves import plot_logs
from electralab.reporting.format import format_count, format_flops, format_key, format_seconds, format_value, is_number
from electralab.reporting.html import Section, describe_data, render_blocks, render_page, render_section
from electralab.reporting.run_pages import (
    example_blocks,
    heldout_table,
    mistake_blocks,
    run_tiles,
    tell_run,
    tell_tuned,
    tuned_scores,
    tuned_tiles,
)
from electralab.reporting.study_page import (
    evaluation_blocks,
    glue_blocks,
    study_charts,
    study_scores,
    tell_glue,
    tell_study,
    tell_tradeoff,
    tradeoff_blocks,
)

PAGE = "report.html"
Advice = Callable[[Artifact], Sequence[str]]
"""What is out of balance in a run, and what to do about it."""

_CHART_SECTIONS: dict[Literal["study", "learning", "balance", "pace"], tuple[str, str]] = {
    "study": ("scores-over-compute", "Scores over compute"),
    "learning": ("learning", "Learning"),
    "balance": ("balance", "Balance of the two networks"),
    "pace": ("pace", "Throughput and schedule"),
}
_LIVE_SECTIONS = ("summary", "warnings", "scores", "mistakes", "examples", "compute")
_COMPARED: tuple[ReportKind, ...] = ("run", "fine-tuning run", "GLUE run")
"""Kinds whose scores fit beside each other."""
# Pictures of curves that the page draws itself.
_REDRAWN: dict[ReportKind, str] = {"study": "curves", "fine-tuning run": "learning-curve"}
_WORDS = {
    "token": "a word or a piece of one: what a model reads and writes.",
    "generator, discriminator": "two networks that are trained together: one fills in hidden tokens, the other says "
    "which tokens were filled in wrongly.",
    "loss": "how far answers are from the truth, in nats (natural units of information); smaller is better.",
    "AUC": "how often a replaced token looks more suspicious than an original one; 0.5 is chance, 1 is always.",
    "FLOPs": "arithmetic operations that training took: its cost, whatever the machine.",
    "seed": "what all luck of a run comes from; the same seed gives the same run, several show what is luck.",
    "held-out rows, dev set": "text or examples that training does not see, kept to judge by.",
    "trivial baseline": "what an answer reaches that needs no model, such as always the most frequent one.",
    "95 % interval": "where the true value is likely to lie; made so, 95 of 100 such intervals hold it.",
    "significant (Holm)": "unlikely to be luck, at 5 %, counted together with all other comparisons of the table.",
    "control": "the same measure of something that cannot hold the answer: only what exceeds it counts.",
    "untrained twin": "the same network before training: what it shows too was not learned.",
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


class ReportPlan(Record):
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


def choose_axis(artifacts: Sequence[Artifact]) -> str:
    """What is compared is compared at equal compute."""
    return "flops" if len(artifacts) > 1 or artifacts[0].kind == "study" else "step"


def compose_page(artifacts: Sequence[Artifact], advise: Advice = advise_nothing, *, live_seconds: float = 0.0) -> str:
    """`live_seconds`: how often the page asks its server for news; 0 for a page that stands alone."""
    is_over = all(artifact.is_finished for artifact in artifacts)
    return render_page(
        " · ".join(artifact.name for artifact in artifacts),
        artifacts[0].kind if len(artifacts) == 1 else f"comparison of {len(artifacts)}",
        compose_sections(artifacts, advise),
        axis=choose_axis(artifacts),
        state=("finished" if is_over else "live") if live_seconds else "",
        live_seconds=0.0 if is_over else live_seconds,
    )


def compose_update(artifacts: Sequence[Artifact], advise: Advice) -> dict[str, JsonValue]:
    """What a live page asks for: its charts and the sections that change while training goes on."""
    charts = {chart.name: chart for chart in _plot(artifacts)}
    sections = [section for section in compose_sections(artifacts, advise) if section.name in _LIVE_SECTIONS]
    return {
        "charts": {name: describe_data(chart) for name, chart in charts.items()},
        "figures": {name: render_blocks([chart]) for name, chart in charts.items()},
        "sections": {section.name: render_section(section) for section in sections},
        "is_finished": all(artifact.is_finished for artifact in artifacts),
    }


def _plot(artifacts: Sequence[Artifact]) -> list[b.Chart]:
    axis = choose_axis(artifacts)
    studies = [chart for artifact in artifacts if artifact.study for chart in study_charts(artifact.study, axis)]
    return [*studies, *plot_logs(artifacts, axis)]


def compose_sections(artifacts: Sequence[Artifact], advise: Advice) -> list[Section]:
    """Those that have something to say. A run is best known by seeing it at work; what is compared, by its scores;
    a tuned model by its score, its confusions and its mistakes."""
    several = len(artifacts) > 1
    charts = _plot(artifacts)
    each = partial(_for_each, artifacts)
    examples = Section("examples", "Hidden, guessed, judged", list(example_blocks(artifacts)), "Examples")
    settings = [block for artifact in artifacts for block in _settings(artifact)]
    sections = [
        Section("summary", "Summary", list(_summaries(artifacts))),
        *([examples] if not several and artifacts[0].examples else []),
        Section("warnings", "Warnings", [b.Bullets(list(_warnings(artifacts, advise)), "warning")]),
        Section("differences", "What differs", list(_differences(artifacts))),
        Section("claims", "What holds of the claims", each(lambda a: claim_blocks(a.claims)), "Claims"),
        Section("scores", "Scores", list(_scores(artifacts))),
        Section("mistakes", "Examples it got wrong", each(mistake_blocks, is_named=True), "Mistakes"),
        *_chart_sections(charts, artifacts),
        *([] if not several and artifacts[0].examples else [examples]),
        Section("findings", "Analysis", each(finding_blocks)),
        Section("pictures", "Pictures", each(_pictures)),
        Section("compute", "Compute", list(_compute(artifacts))),
        Section("environment", "Environment", list(_environment(artifacts)), is_folded=True),
        Section("settings", "All settings" if several else "Settings", settings, "Settings", is_folded=True),
        Section("words", "Words used here", [b.Definitions(_WORDS)], "Words", is_folded=True),
    ]
    if all(artifact.kind == "fine-tuning run" for artifact in artifacts):
        # Of a tuned model nobody looks for gradient norms and throughput first.
        late = [section for section in sections if section.name in ("balance", "pace")]
        sections = [section for section in sections if section not in late]
        place = next(index for index, section in enumerate(sections) if section.name == "environment")
        sections[place:place] = late
    shown = [section for section in sections if any(map(_says_something, section.blocks))]
    # The controls of all charts stand above the first.
    names = [name for name, _ in _CHART_SECTIONS.values()]
    first = next((section.name for section in shown if charts and section.name in names), "")
    return [replace(section, has_controls=section.name == first) for section in shown]


def _says_something(block: b.Block) -> bool:
    return not isinstance(block, b.Bullets) or bool(block.items)


def _for_each(
    artifacts: Sequence[Artifact], show: Callable[[Artifact], Iterable[b.Block]], *, is_named: bool = False
) -> list[b.Block]:
    """The blocks of each, where there are several and `is_named` under its name."""
    blocks: list[b.Block] = []
    for artifact in artifacts:
        shown = list(filter(_says_something, show(artifact)))
        blocks += [b.Heading(artifact.name)] if shown and is_named and len(artifacts) > 1 else []
        blocks += shown
    return blocks


def _summaries(artifacts: Sequence[Artifact]) -> Iterator[b.Block]:
    if len(artifacts) == 1:
        artifact = artifacts[0]
        tiles = run_tiles(artifact) if artifact.kind == "run" else tuned_tiles(artifact.tuned) if artifact.tuned else ()
        if shown := list(tiles):
            yield b.Tiles(shown)
        yield from _summary(artifact)
        return
    for group in _group(artifacts):
        if len(group) > 1 and group[0].kind in _COMPARED:
            for text in tell_comparison(group, [find_scores(artifact) for artifact in group]):
                yield b.Paragraph(text, "lead")
    yield b.Group("cards", [b.Group("card", [b.Heading(each.name), *_summary(each)]) for each in artifacts])


def _group(artifacts: Sequence[Artifact]) -> list[list[Artifact]]:
    """Those of one kind together: others have nothing to compare."""
    kinds = dict.fromkeys(artifact.kind for artifact in artifacts)
    return [[artifact for artifact in artifacts if artifact.kind == kind] for kind in kinds]


def summarise(artifact: Artifact) -> list[str]:
    """What it is and how good it became, in sentences."""
    match artifact.kind:
        case "run":
            return list(tell_run(artifact))
        case "fine-tuning run":
            return list(tell_tuned(artifact))
        case "GLUE run":
            return list(tell_glue(artifact.glue)) if artifact.glue else []
        case "study":
            return list(tell_study(artifact.study)) if artifact.study else []
        case "trade-off":
            return list(tell_tradeoff(artifact.tradeoff)) if artifact.tradeoff else []
        case "analysis":
            return list(tell_analysis(artifact.analysis)) if artifact.analysis else []


def _summary(artifact: Artifact) -> Iterator[b.Block]:
    yield from (b.Paragraph(text, "lead") for text in summarise(artifact))
    if artifact.kind == "analysis" and artifact.analysis:
        yield b.Bullets(list(tell_answers(artifact.analysis)))
    taken, total = artifact.steps
    if artifact.kind == "run" and taken < total:
        yield b.StepsTaken(taken, total)


def _warnings(artifacts: Sequence[Artifact], advise: Advice) -> Iterator[str]:
    for artifact in artifacts:
        texts = [*advise(artifact), *artifact.troubles]
        if skipped := artifact.pretrained.skipped_steps if artifact.pretrained else 0:
            texts.append(f"{skipped} steps were skipped because their gradients were not finite")
        yield from (f"{artifact.name}: {text}" for text in texts)


def _differences(artifacts: Sequence[Artifact]) -> Iterator[b.Block]:
    """Settings of artifacts of one kind, and of a study's arms."""
    for artifact in artifacts:
        if artifact.study and len(artifact.study.arms) > 1:
            title = f"Settings that are not the same in all arms of {artifact.name}"
            yield _show_differences(title, artifact.study.arms)
    groups = _group(artifacts)
    for group in groups:
        if len(group) > 1:
            kind = f" ({group[0].kind}s)" if len(groups) > 1 else ""
            data = _name_data(group)
            trees = {each.name: each.settings | _identity(each) | data[each.name] for each in group}
            yield _show_differences(f"Settings that are not the same in all{kind}", trees)


def _show_differences(caption: str, trees: Mapping[str, Mapping[str, JsonValue]]) -> b.Block:
    rows = [(key, *map(format_value, row)) for key, row in find_differences(list(trees.values())).items()]
    return b.long_table(caption, ["setting", *trees], rows) if rows else b.Paragraph("All their settings are the same.")


def _identity(artifact: Artifact) -> dict[str, JsonValue]:
    if artifact.run:
        return {"total_steps": artifact.run.total_steps, "threads": artifact.run.threads}
    if artifact.tuned_run:
        return {"threads": artifact.tuned_run.threads, "task": artifact.tuned_run.task}
    return {}


def _name_data(group: Sequence[Artifact]) -> dict[str, dict[str, JsonValue]]:
    """By their paths. The hash decides whether data are the same, and tells apart what lay in one place in turn."""
    names: dict[str, str] = {}
    for artifact in group:
        if (key := artifact.data_hash) and key not in names:
            mark, path = f"fingerprint {key[:8]}", artifact.data_path
            names[key] = (f"{path}, {mark}" if path in names.values() else path) or mark
    return {each.name: {"data": names[each.data_hash]} if each.data_hash else {} for each in group}


def _scores(artifacts: Sequence[Artifact]) -> Iterator[b.Block]:
    """Of several of one kind side by side; of others each its own, under its name."""
    for group in _group(artifacts):
        if len(group) > 1 and group[0].kind in _COMPARED:
            yield from _compare_scores(group)
            continue
        for artifact in group:
            blocks = [*_own_scores(artifact)]
            for name, result in artifact.evaluations.items():
                blocks += evaluation_blocks(name, result)
            if blocks and len(artifacts) > 1:
                yield b.Heading(artifact.name)
            yield from blocks


def _own_scores(artifact: Artifact) -> Iterable[b.Block]:
    match artifact.kind:
        case "run":
            return heldout_table(artifact)
        case "fine-tuning run":
            return tuned_scores(artifact)
        case "GLUE run":
            return glue_blocks(artifact.glue) if artifact.glue else ()
        case "study":
            return study_scores(artifact.study)
        case "trade-off":
            return tradeoff_blocks(artifact.tradeoff)
        case "analysis":
            return ()


def find_scores(artifact: Artifact) -> dict[str, float]:
    """The last scores of a run, by names that different objectives share."""
    scores: dict[str, float] = {}
    if artifact.kind == "run":
        for key, value in artifact.heldout_scores.items():
            who, _, what = key.partition("_")
            # The same question asked of different objectives has one name.
            is_guess = who in ("generator", "masked", "permuted", "next")
            scores[f"{what} of guesses" if is_guess else key] = value
    elif artifact.tuned:
        for split, metrics in artifact.tuned.spread.items():
            ranked = sorted(metrics, key=lambda metric: metric != artifact.tuned.metric)  # type: ignore[union-attr]
            known = [metric for metric in ranked if not metric.endswith("_threshold")]
            scores |= {f"{metric} ({split}, median)": metrics[metric].median for metric in known}
    elif artifact.glue:
        scores = {task: spread.median for task, spread in artifact.glue.tasks.items()}
    for name, result in artifact.evaluations.items():
        scores |= {f"{name}: {key}": value for key, value in result.scores.items() if is_number(value)}
    return scores


def _compare_scores(artifacts: Sequence[Artifact]) -> Iterator[b.Block]:
    """One table of the last scores of all."""
    scores = [find_scores(artifact) for artifact in artifacts]
    if not any(scores):
        yield b.Absent("No scores to compare", "None of the runs has been evaluated yet.")
        return
    keys = dict.fromkeys(key for known in scores for key in known)
    better = {key: find_better(artifacts, scores, key) for key in keys}
    is_marked = any(place is not None for place in better.values())
    best = "better" if len(artifacts) == 2 else "best"
    columns: list[dict[str, object]] = [
        {format_key(key): b.Best(value) if better[key] == place else value for key, value in known.items()}
        for place, known in enumerate(scores)
    ]
    yield _side_by_side(f"Last scores; the {best} in bold" if is_marked else "Last scores", artifacts, columns)
    shared = {find_topic(key) for key in keys if sum(key in known for known in scores) > 1}
    notes = {topic: explain_unlike(artifacts, topic) for topic in sorted(shared)}
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
        blocks: list[b.Block] = [b.Group("charts", moving)] if moving else []
        if zeros:
            blocks.append(b.Fold(f"Always 0: {', '.join(chart.title for chart in zeros)}", [b.Group("charts", zeros)]))
        yield Section(name, "Inside training" if part == "balance" and not is_pair else title, blocks)
    if not charts and any(artifact.logs for artifact in artifacts):
        reason = "metrics.jsonl holds no step yet; they appear with the first logged step."
        yield Section("learning", "Learning", [b.Absent("No curves", reason)])


def _pictures(artifact: Artifact) -> Iterator[b.Block]:
    """All that say more than the page, and do not stand with the findings they belong to."""
    drawings = artifact.analysis.drawings if artifact.analysis else ()
    placed = {picture.file.rpartition(".")[0] for picture in drawings} | {_REDRAWN.get(artifact.kind, "")}
    for name, address in artifact.pictures.items():
        if name not in placed:
            yield b.Picture(format_key(name).replace("-", " "), address)


def _compute(artifacts: Sequence[Artifact]) -> Iterator[b.Block]:
    """Of all seeds together."""
    columns: list[dict[str, object]] = []
    for artifact in artifacts:
        ends, column = artifact.last_records, dict[str, object]()
        if len(ends) > 1:
            column["seeds, all counted"] = len(ends)
        if ends or artifact.pretrained:
            steps = artifact.pretrained.step if artifact.pretrained else sum(end.step for end in ends)
            column["steps"] = format_value(steps)
        formats: dict[str, tuple[str, Callable[[float], str]]] = {
            "tokens": ("tokens", format_count),
            "flops": ("FLOPs", format_flops),
            "seconds": ("time", format_seconds),
            "skipped_steps": ("skipped steps", format_value),
        }
        for key, (name, say) in formats.items():
            amounts = [end.get(key) for end in ends]
            total = getattr(artifact.pretrained or artifact.tuned, key, None)
            if total is None and amounts and all(is_number(amount) for amount in amounts):
                total = sum(amount for amount in amounts if amount is not None)
            if total is not None:
                column[name] = say(total)
        column |= {f"parameters of the {name}": count for name, count in artifact.parameters.items()}
        columns.append(column)
    if any(columns):
        yield _side_by_side("What it took", artifacts, columns)


def _environment(artifacts: Sequence[Artifact]) -> Iterator[b.Block]:
    columns: list[dict[str, object]] = []
    for artifact in artifacts:
        environment = artifact.environment or (artifact.study.provenance.to_json() if artifact.study else {})
        command, packages = environment.get("command"), environment.get("packages")
        if text := " ".join(map(str, command)) if isinstance(command, list) else str(command or ""):
            yield b.Code(text)
        column: dict[str, object] = {
            format_key(key): format_value(value)
            for key, value in environment.items()
            if not isinstance(value, dict) and key != "command"
        }
        column |= {name: str(version) for name, version in packages.items()} if isinstance(packages, dict) else {}
        column |= {"fingerprint of the data": artifact.data_hash[:12]} if artifact.data_hash else {}
        columns.append(column)
    if any(columns):
        yield _side_by_side("Environment", artifacts, columns)


def _settings(artifact: Artifact) -> Iterator[b.Block]:
    rows = [(key, format_value(value)) for key, value in flatten(artifact.settings)]
    if rows:
        yield b.Table(f"Settings of {artifact.name}", ["setting", "value"], rows)
