"""Tables of many runs: a study, GLUE, the variants of a compressed model, the scores of an evaluation.

record -> sentence..., Block...

The same blocks are printed by the shell, written as report.md and shown on the page.
"""

from collections.abc import Iterator
from dataclasses import replace

from electralab.records.compression import Tradeoff
from electralab.records.evaluation import EvaluationResult
from electralab.records.study import AVERAGE, ArmRow, Comparison, ComputeToTarget, SeedMean, StudyResults
from electralab.records.tuned import GlueResults
from electralab.reporting import blocks as b
from electralab.reporting.charts import AXES
from electralab.reporting.format import (
    format_bytes,
    format_count,
    format_estimate,
    format_flops,
    format_key,
    format_metric,
    format_number_of,
    format_points,
    format_score_name,
    format_signed,
)

_MOST_SIGNIFICANT = 4


def _budget(study: StudyResults) -> str:
    kind = "FLOPs" if study.budget.kind == "flops" else study.budget.kind
    return f"{format_flops(study.budget.amount)} {kind}"


def is_significant(comparison: Comparison) -> bool:
    """At 5 %, after Holm."""
    return comparison.p_holm is not None and comparison.p_holm < 0.05


def tell_study(study: StudyResults) -> Iterator[str]:
    yield f"{study.title or study.name}."
    yield f"{len(study.arms)} arms, {len(study.seeds)} seeds, a budget of {_budget(study)} each."
    if failed := [cell for cell in study.cells if cell.error]:
        yield f"{len(failed)} of {len(study.cells)} cells failed: {failed[0].arm}: {failed[0].error}."
    if best := find_best(study):
        row, mean = best
        text = f"The best average is that of {row.line}, {100 * mean:.1f} points"
        lead = find_lead(study, row)
        if row.arm == study.baseline:
            yield f"{text}, the baseline."
        elif lead is None:
            yield f"{text}; no test holds it against the baseline {study.baseline}."
        else:
            by = f"{format_signed(100 * lead.mean)} points, p = {lead.p_holm:.2g} after Holm"
            told = "better than" if is_significant(lead) else "which cannot be told apart from"
            yield f"{text}, {told} the baseline {study.baseline} ({by})."
    if not study.comparisons:
        return
    significant = sorted(
        filter(is_significant, study.comparisons),
        key=lambda comparison: -abs(comparison.mean),
    )
    if not significant:
        yield f"None of {len(study.comparisons)} comparisons is significant (Holm, 5 %)."
        return
    told = "; ".join(
        f"{row.arm} {format_signed(100 * row.mean)} against {row.versus} on {row.score} (over {row.over})"
        for row in significant[:_MOST_SIGNIFICANT]
    )
    more = f"; and {len(significant) - _MOST_SIGNIFICANT} more" if len(significant) > _MOST_SIGNIFICANT else ""
    yield f"Significant (Holm, 5 %), in points, {len(significant)} of {len(study.comparisons)}: {told}{more}."


def find_best(study: StudyResults) -> tuple[ArmRow, float] | None:
    """The arm of the best average, and that average."""
    rows = [(row, average.mean) for row in study.table if (average := row.scores.get(AVERAGE)) is not None]
    return max(rows, key=lambda pair: pair[1], default=None)


def find_lead(study: StudyResults, row: ArmRow) -> Comparison | None:
    """The test of its average against the baseline's."""
    wanted = (row.arm, study.baseline, AVERAGE)
    tests = (comparison for comparison in study.comparisons if comparison.p_holm is not None)
    return next((test for test in tests if (test.arm, test.versus, test.score) == wanted), None)


def score_table(study: StudyResults, title: str = "") -> b.Table:
    """An arm that is surely better than the baseline, and has the best average, stands out."""
    names = study.score_names
    rows = [
        [
            row.arm + (" (baseline)" if row.arm == study.baseline else ""),
            *(format_mean(row.scores.get(name)) for name in names),
        ]
        for row in study.table
    ]
    best = find_best(study)
    lead = find_lead(study, best[0]) if best else None
    marked = study.table.index(best[0]) if best and lead and is_significant(lead) else -1
    return b.Table(title, ["arm", *(format_score_name(name, study.scores.get(name)) for name in names)], rows, marked)


def format_mean(score: SeedMean | None) -> str:
    if score is None:
        return "–"
    half = f" ± {50 * (score.high - score.low):.1f}" if score.low is not None and score.high is not None else ""
    return f"{format_points(score.mean)}{half}"


def cost_table(study: StudyResults) -> b.Table:
    """What pre-training one seed took."""
    rows = []
    for row in study.table:
        flops = None if row.flops is None else format_flops(row.flops)
        minutes = None if row.pretraining_seconds is None else f"{row.pretraining_seconds / 60:.1f}"
        steps, tokens, parameters = (
            None if amount is None else format_count(amount) for amount in (row.steps, row.tokens, row.parameters)
        )
        rows.append([row.arm, steps, tokens, flops, parameters, minutes])
    title = "what it took, in the mean over the seeds"
    return b.Table(title, ["arm", "steps", "tokens", "FLOPs", "parameters", "minutes"], rows)


def comparison_table(study: StudyResults) -> b.Table:
    rows = []
    for row in study.comparisons:
        is_known = row.low is not None and row.high is not None
        interval = (
            f"{format_signed(100 * (row.low or 0))} to {format_signed(100 * (row.high or 0))}" if is_known else ""
        )
        over = row.over if row.n > 1 else row.over.removesuffix("s")
        rows.append(
            [
                f"{row.arm} – {row.versus}",
                row.score,
                format_signed(100 * row.mean, 2),
                interval,
                f"{row.test.removeprefix('paired ')}, {row.n} {over}",
                format_p(row.p),
                format_p(row.p_holm),
            ]
        )
    return b.Table(
        "differences in points", ["arms", "score", "difference", "95 % interval", "test", "p", "p (Holm)"], rows
    )


def format_p(p: float | None) -> str:
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def reach_table(study: StudyResults) -> b.Table:
    """How much compute each line needs for the final score of the baseline."""
    known = {name: study.reach[name] for name in study.score_names if name in study.reach}
    reaches = {name: reach for name, reach in known.items() if reach.target is not None}
    lines = dict.fromkeys(line for reach in reaches.values() for line in reach.lines)

    def cell(reach: ComputeToTarget, line: str) -> str:
        reached = reach.lines.get(line)
        if reached is None:
            return ""
        amount = reached.amount(study.x)
        if amount is None or reached.share is None:
            return "not reached"
        return f"{'≤ ' if reached.is_upper_bound else ''}{amount:.3g} ({reached.share:.0%})"

    rows = [[line, *(cell(reach, line) for reach in reaches.values())] for line in lines]
    unit = "tokens" if study.x == "tokens" else "compute"
    head = ["", *(f"{name} {100 * (reach.target or 0):.1f}" for name, reach in reaches.items())]
    return b.Table(f"{unit} to reach the final score of {study.baseline}", head, rows)


def study_tables(study: StudyResults) -> Iterator[b.Table]:
    """The arms side by side, what each cost, how each compares with the one it is held against."""
    yield score_table(study, study.title)
    yield cost_table(study)
    for table in (comparison_table(study), reach_table(study)):
        if table.rows:
            yield table


def study_scores(study: StudyResults | None) -> Iterator[b.Block]:
    """The page's section: comparisons are many, and folded."""
    if study is None:
        yield b.Absent("No table", "results.json of the study is missing or damaged; 'electra study' writes it again.")
        return
    yield score_table(study, "Points: mean over seeds ± half the 95 % interval")
    yield cost_table(study)
    if study.comparisons:
        yield b.Fold(f"All {len(study.comparisons)} comparisons", [comparison_table(study)])
    if (reach := reach_table(study)).rows:
        yield reach
    yield b.Bullets(study.notes, "note")


def study_report(study: StudyResults) -> Iterator[b.Block]:
    """report.md"""
    yield b.Heading(study.title, level=1)
    several = (
        " ± half the 95 % interval (Student's t)."
        if len(study.seeds) > 1
        else "; one seed tells nothing of the spread."
    )
    yield b.Paragraph(
        f"{len(study.table)} arms, {format_number_of(len(study.seeds), 'seed')}, a budget of {_budget(study)} each. "
        f"Scores in points: mean over the seeds{several}"
    )
    yield score_table(study)
    if AVERAGE in study.score_names:
        averaged = [format_score_name(name, study.scores[name]) for name in study.averaged_scores]
        kinds = ", which are not of one kind" if len({study.scores[name] for name in study.averaged_scores}) > 1 else ""
        names = " and ".join([", ".join(averaged[:-1]), averaged[-1]])
        yield b.Paragraph(f"The average is the plain mean over {names}{kinds}.")
    yield b.Heading("What it took")
    yield replace(cost_table(study), title="")
    yield b.Paragraph("Of pre-training, in the mean over the seeds.")
    if study.comparisons:
        yield b.Heading("Comparisons")
        yield replace(comparison_table(study), title="")
        yield b.Paragraph(
            "Tests are paired: t is Student's over seeds, bootstrap draws paradigms. Holm's correction is within "
            "each kind of test: over seeds, over paradigms, and of the average, which says nothing that its scores do "
            "not."
        )
    if (reach := reach_table(study)).rows:
        yield b.Heading(f"{reach.title[:1].upper()}{reach.title[1:]}")
        yield replace(reach, title="")
    if any(points for lines in study.curves.values() for points in lines.values()):
        yield b.Picture("scores", "curves.png")
    if unfinished := [cell for cell in study.cells if cell.status != "finished"]:
        yield b.Heading("Not finished")
        yield b.Bullets([f"{cell.arm} seed {cell.seed}: {cell.error or 'not run to its end'}" for cell in unfinished])
    if study.notes:
        yield b.Heading("Notes")
        yield b.Bullets(study.notes)


def study_readme(study: StudyResults) -> Iterator[b.Block]:
    """README.md"""
    yield b.Heading(study.title, level=1)
    yield b.Paragraph("Made by the command below; given again it goes on where it stopped and runs again what failed.")
    yield b.Code(study.provenance.command or f"electra study {study.name}", "bash")
    yield b.Bullets(
        [
            "`report.md`: table, comparisons and curves",
            "`results.json`: all numbers, cell by cell",
            "`environment.json`: the command, the machine, the versions",
            "`study.toml`, `arms/`, `scores/`: every setting, resolved",
            "`cells/ARM/seed-S/`: the run, the result of each score (`NAME.json`), its logs",
        ]
    )


def study_charts(study: StudyResults, axis: str = "flops") -> Iterator[b.Chart]:
    """Scores over compute, of those that were taken along the way."""
    for score, curves in study.curves.items():
        lines = [
            b.Line(
                name,
                color,
                {key: [getattr(point, key) for point in points] for key in AXES if hasattr(points[0], key)},
                [100 * point.mean for point in points],
            )
            for color, (name, points) in enumerate(curves.items())
            if points
        ]
        if any(len(line.y) > 1 for line in lines):
            note = "Means over the seeds; their intervals stand in the table."
            title = format_score_name(score, study.scores.get(score))
            yield b.Chart(f"study-{score}", title, "points", "study", lines, (), note, axis)


def tell_glue(glue: GlueResults) -> Iterator[str]:
    yield f"A pre-trained model was fine-tuned for {len(glue.tasks)} tasks of {glue.suite.upper()}, each by itself."
    if glue.average.median is not None:
        text = f"The average of the median scores is {100 * glue.average.median:.1f}"
        paper = glue.average.paper
        yield f"{text}; ELECTRA-Small of the paper has {100 * paper:.1f} on these." if paper else f"{text}."


def glue_table(glue: GlueResults) -> b.Table:
    """One row a task, in points, the released ELECTRA-Small beside it for orientation."""
    rows = []
    for task, spread in (glue.tasks | glue.diagnostics).items():
        # Diagnostics are answered by MNLI's model, and no part of the average.
        name = task if task in glue.tasks else f"{task} (mnli)"
        points = (spread.median, spread.mean, spread.sd if spread.n > 1 else None, spread.best)
        paper = format_points(glue.paper.get(task))
        rows.append([name, format_metric(spread.metric), *map(format_points, points), spread.n, paper])
    average = glue.average
    means = map(format_points, (average.median, average.mean, average.sd))
    rows.append(["average", "", *means, "", average.n, format_points(average.paper)])
    head = ["task", "metric", "median", "mean", "s.d.", "best", "seeds", "ELECTRA-Small (paper)"]
    return b.Table("GLUE, dev sets, in points", head, rows, marked=len(rows) - 1)


def glue_blocks(glue: GlueResults) -> Iterator[b.Block]:
    yield glue_table(glue)
    if glue.submissions:
        yield b.Bullets(
            [
                f"{packed.file}: {len(packed.holds)} of the {len(packed.holds) + len(packed.missing)} files that "
                "GLUE's server takes" + (f", missing are {', '.join(packed.missing)}" if packed.missing else "")
                for packed in glue.submissions.values()
            ],
            "note",
        )


def tell_tradeoff(tradeoff: Tradeoff) -> Iterator[str]:
    variants = tradeoff.variants
    yield (
        f"{len(variants)} variants of one model, judged by {tradeoff.metric} on "
        f"{format_count(tradeoff.examples)} examples."
    )
    if variants:
        fastest = max(variants, key=lambda variant: variant.speedup)
        change = f"{'loses' if fastest.loss > 0 else 'gains'} {abs(fastest.loss):.2f} points"
        times = f"{fastest.speedup:.1f} times as fast as {tradeoff.baseline}"
        yield f"The fastest, {fastest.name}, is {times} and {change}."


def tradeoff_table(tradeoff: Tradeoff, title: str = "") -> b.Table:
    rows, best = [], -1
    for number, variant in enumerate(tradeoff.variants):
        is_baseline, mark = variant.name == tradeoff.baseline, "*" if variant.is_floored else ""
        best = number if variant.is_best and best < 0 else best
        rows.append(
            [
                variant.name + (" ←" if variant.name == tradeoff.picked else ""),
                variant.kept.heads,
                variant.kept.neurons,
                format_bytes(variant.bytes),
                *(f"{milliseconds:.2f}" for milliseconds in variant.milliseconds.values()),
                f"{100 * variant.score:.2f}",
                f"{variant.speedup:.2f}×",
                "" if is_baseline else f"{format_signed(variant.loss, 2)}{mark}",
                "" if is_baseline else f"{variant.efficiency:.2f}{mark}",
            ]
        )
    sizes = tradeoff.variants[0].milliseconds if tradeoff.variants else {}
    timed = [f"ms, {format_number_of(int(size), 'row')}" for size in sizes]
    head = ["variant", "heads", "neurons", "size", *timed, "score", "speed-up", "loss", "efficiency"]
    return b.Table(title, head, rows, best)


def explain_tradeoff(tradeoff: Tradeoff) -> Iterator[str]:
    """What the columns mean, which variants failed, and what was picked."""
    floor = tradeoff.floor
    yield f"speed-up: latency of {tradeoff.baseline} / latency, {tradeoff.speedup_rows}"
    yield f"loss: points of {tradeoff.metric_name} below {tradeoff.baseline}"
    better = [variant.name for variant in tradeoff.variants if variant.loss < -floor.points]
    if better:
        yield (
            f"a negative loss: {', '.join(better)} scored above {tradeoff.baseline}, not below; most often the model "
            "was trained too little for its score to mean much: train it longer and compress it again"
        )
    yield (
        f"efficiency: speed-up / loss; * a loss below {floor.points:.2f} counts as {floor.points:.2f}, {floor.origin}"
    )
    yield "heads, neurons: what all layers together have"
    yield from (f"{name} failed: {reason}" for name, reason in tradeoff.failed.items())
    asked = {"target speedup": tradeoff.asked.target_speedup, "max loss": tradeoff.asked.max_loss}
    if wish := " and ".join(f"a {name} of {value:g}" for name, value in asked.items() if value is not None):
        yield f"picked for {wish}: {tradeoff.picked or 'none, no variant has it'}"


def tradeoff_blocks(tradeoff: Tradeoff | None) -> Iterator[b.Block]:
    """What the shell prints and the page shows."""
    if tradeoff is None or not tradeoff.variants:
        yield b.Absent("No variants", "tradeoff.json is missing or damaged; 'electra compress' writes it again.")
        return
    yield tradeoff_table(tradeoff, "Size, speed and score")
    yield b.Bullets([*explain_tradeoff(tradeoff), *tradeoff.notes], "note")


def tradeoff_report(tradeoff: Tradeoff) -> Iterator[b.Block]:
    """report.md"""
    yield b.Heading(f"{tradeoff.model}, compressed", level=1)
    kind = "row" if tradeoff.metric == "auc" else "example"
    yield b.Paragraph(
        f"Scored by {tradeoff.metric_name} on {format_number_of(tradeoff.examples, kind)} of "
        f"`{tradeoff.data}`, timed on {format_number_of(tradeoff.threads, 'thread')}, variants in turn."
    )
    yield tradeoff_table(tradeoff)
    yield b.Bullets(list(explain_tradeoff(tradeoff)))
    yield b.Picture("speed-up and score", "tradeoff.png")
    if tradeoff.notes:
        yield b.Heading("Notes")
        yield b.Bullets(tradeoff.notes)


def evaluation_blocks(name: str, result: EvaluationResult) -> Iterator[b.Block]:
    rows = [
        (format_key(key), format_estimate(value, *(result.interval(key) or ())))
        for key in result.scores
        if not key.endswith("_interval") and (value := result.score(key)) is not None
    ]
    yield b.Table(f"{result.suite} ({name}.json)", ["score", "value (95 % interval)"], rows)
    for kind, groups in list(result.groups.items())[:1]:
        keys = [key for key in next(iter(groups.values()), {}) if not key.endswith("_interval")]
        cells = [(group, *(scores.get(key) for key in keys)) for group, scores in groups.items()]
        yield b.long_table(f"{result.suite} by {format_key(kind)}", [format_key(kind), *map(format_key, keys)], cells)
    yield b.Bullets(result.notes, "note")
