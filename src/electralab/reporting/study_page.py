"""Tables of many runs: a study, GLUE, the variants of a compressed model, the scores of an evaluation.

record -> sentence..., Block...

The same blocks are printed by the shell, written as report.md and shown on the page.
"""

from collections.abc import Iterator

from electralab.records.compression import Tradeoff
from electralab.records.evaluation import EvaluationResult
from electralab.records.study import ArmRow, Comparison, StudyResults
from electralab.records.tuned import GlueResults
from electralab.reporting import blocks as b
from electralab.reporting import format as fmt
from electralab.reporting.charts import AXES

_MOST_SIGNIFICANT = 4


def _budget(study: StudyResults) -> str:
    kind = "FLOPs" if study.budget.kind == "flops" else study.budget.kind
    return f"{fmt.format_flops(study.budget.amount)} {kind}"


def _find_leader(study: StudyResults) -> tuple[ArmRow, float, Comparison | None] | None:
    """The arm of the best average or headline, that number, and its test against the baseline's."""
    rows = [(row, score.mean) for row in study.table if (score := row.scores.get(study.summary)) is not None]
    if not rows:
        return None
    row, mean = max(rows, key=lambda pair: pair[1])
    wanted = (row.arm, study.baseline, study.summary)
    tests = (test for test in study.comparisons if test.p_holm is not None)
    return row, mean, next((test for test in tests if (test.arm, test.versus, test.score) == wanted), None)


def tell_study(study: StudyResults) -> Iterator[str]:
    yield f"{study.title or study.name}."
    yield f"{len(study.arms)} arms, {len(study.seeds)} seeds, a budget of {_budget(study)} each."
    if failed := [cell for cell in study.cells if cell.error]:
        yield f"{len(failed)} of {len(study.cells)} cells failed: {failed[0].arm}: {failed[0].error}."
    if leader := _find_leader(study):
        row, mean, test = leader
        text = f"The best {study.summary} is that of {row.line}, {100 * mean:.1f} points"
        if row.arm == study.baseline:
            yield f"{text}, the baseline."
        elif test is None:
            yield f"{text}; no test holds it against the baseline {study.baseline}."
        else:
            by = f"{fmt.format_signed(100 * test.mean)} points, p = {test.p_holm:.2g} after Holm"
            told = "better than" if test.is_significant else "which cannot be told apart from"
            yield f"{text}, {told} the baseline {study.baseline} ({by})."
    count, most = len(study.comparisons), _MOST_SIGNIFICANT
    significant = sorted((row for row in study.comparisons if row.is_significant), key=lambda row: -abs(row.mean))
    if significant:
        told = "; ".join(
            f"{row.arm} {fmt.format_signed(100 * row.mean)} against {row.versus} on {row.score} (over {row.over})"
            for row in significant[:most]
        )
        more = f"; and {len(significant) - most} more" if len(significant) > most else ""
        yield f"Significant (Holm, 5 %), in points, {len(significant)} of {count}: {told}{more}."
    elif count:
        yield f"None of {count} comparisons is significant (Holm, 5 %)."


def _score_table(study: StudyResults, title: str) -> b.Table:
    """An arm that is surely better than the baseline, and has the best average, stands out."""
    rows = []
    for row in study.table:
        cells = [row.arm + (" (baseline)" if row.arm == study.baseline else "")]
        for name in study.score_names:
            score = row.scores.get(name)
            half = None if score is None or score.low is None or score.high is None else 50 * (score.high - score.low)
            cells.append(fmt.format_points(score.mean if score else None) + ("" if half is None else f" ± {half:.1f}"))
        rows.append(cells)
    leader = _find_leader(study)
    marked = study.table.index(leader[0]) if leader and leader[2] and leader[2].is_significant else -1
    names = [fmt.format_score_name(name, study.scores.get(name)) for name in study.score_names]
    return b.Table(title, ["arm", *names], rows, marked)


def _cost_table(study: StudyResults) -> b.Table:
    """What pre-training one seed took."""
    rows = []
    for row in study.table:
        steps, tokens, parameters = (
            None if amount is None else fmt.format_count(amount) for amount in (row.steps, row.tokens, row.parameters)
        )
        flops = None if row.flops is None else fmt.format_flops(row.flops)
        minutes = None if row.pretraining_seconds is None else f"{row.pretraining_seconds / 60:.1f}"
        rows.append([row.arm, steps, tokens, flops, parameters, minutes])
    title = "what it took, in the mean over the seeds"
    return b.Table(title, ["arm", "steps", "tokens", "FLOPs", "parameters", "minutes"], rows)


def _tuning_table(study: StudyResults) -> b.Table:
    """The settings that every arm is tuned with, and what they scored on held-out training rows."""
    names = list(dict.fromkeys(name for choice in study.tuning.values() for name in choice.settings))
    rows = []
    for arm, choice in study.tuning.items():
        values = (choice.settings.get(name, "") for name in names)
        best = fmt.format_points(max((trial.mean for trial in choice.trials), default=None))
        rows.append([arm, *(f"{value:g}" if isinstance(value, float) else value for value in values), best])
    return b.Table("fine-tuning chosen for each arm", ["arm", *names, "held-out score"], rows)


def _comparison_table(study: StudyResults) -> b.Table:
    rows = []
    for row in study.comparisons:
        interval = ""
        if row.low is not None and row.high is not None:
            interval = f"{fmt.format_signed(100 * row.low)} to {fmt.format_signed(100 * row.high)}"
        p, p_holm = ("" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}" for p in (row.p, row.p_holm))
        over = row.over if row.n > 1 else row.over.removesuffix("s")
        test = f"{row.test.removeprefix('paired ')}, {row.n} {over}"
        difference = fmt.format_signed(100 * row.mean, 2)
        rows.append([f"{row.arm} – {row.versus}", row.score, difference, interval, test, p, p_holm])
    head = ["arms", "score", "difference", "95 % interval", "test", "p", "p (Holm)"]
    return b.Table("differences in points", head, rows)


def _reach_table(study: StudyResults) -> b.Table:
    """How much compute each line needs for the final score of the baseline."""
    known = {name: study.reach[name] for name in study.score_names if name in study.reach}
    reaches = {name: reach for name, reach in known.items() if reach.target is not None}
    rows = []
    for line in dict.fromkeys(line for reach in reaches.values() for line in reach.lines):
        cells = [line]
        for reach in reaches.values():
            reached = reach.lines.get(line)
            amount = reached and (reached.flops if study.x == "flops" else reached.tokens)
            if reached is None:
                cells.append("")
            elif amount is None or reached.share is None:
                cells.append("not reached")
            else:
                cells.append(f"{'≤ ' if reached.is_upper_bound else ''}{amount:.3g} ({reached.share:.0%})")
        rows.append(cells)
    unit = "tokens" if study.x == "tokens" else "compute"
    head = ["", *(f"{name} {100 * (reach.target or 0):.1f}" for name, reach in reaches.items())]
    return b.Table(f"{unit} to reach the final score of {study.baseline}", head, rows)


def study_tables(study: StudyResults) -> list[b.Table]:
    """The arms side by side, what each cost, how each compares with the one it is held against."""
    tables = [_score_table(study, study.title), _cost_table(study), _comparison_table(study), _reach_table(study)]
    return [table for table in tables if table.rows]


def study_scores(study: StudyResults | None) -> Iterator[b.Block]:
    """The page's section: comparisons are many, and folded."""
    if study is None:
        yield b.Absent("No table", "results.json of the study is missing or damaged; 'electra study' writes it again.")
        return
    yield _score_table(study, "Points: mean over seeds ± half the 95 % interval")
    if study.tuning:
        yield _tuning_table(study)
    yield _cost_table(study)
    if study.comparisons:
        yield b.Fold(f"All {len(study.comparisons)} comparisons", [_comparison_table(study)])
    if (reach := _reach_table(study)).rows:
        yield reach
    yield b.Bullets(study.notes, "note")


def study_report(study: StudyResults) -> Iterator[b.Block]:
    """report.md"""
    yield b.Heading(study.title, level=1)
    spread = "; one seed tells nothing of the spread."
    if len(study.seeds) > 1:
        spread = " ± half the 95 % interval (Student's t)."
    yield b.Paragraph(
        f"{len(study.table)} arms, {fmt.format_number_of(len(study.seeds), 'seed')}, a budget of {_budget(study)} "
        f"each. Scores in points: mean over the seeds{spread}"
    )
    yield _score_table(study, "")
    if study.summary in study.score_names:
        averaged = [fmt.format_score_name(name, study.scores[name]) for name in study.averaged_scores]
        kinds = ", which are not of one kind" if len({study.scores[name] for name in study.averaged_scores}) > 1 else ""
        names = " and ".join(filter(None, [", ".join(averaged[:-1]), averaged[-1]]))
        yield b.Paragraph(f"The {study.summary} is the plain mean over {names}{kinds}.")
    if study.tuning:
        yield b.Heading("Fine-tuning chosen for each arm")
        yield _tuning_table(study)._replace(title="")
        yield b.Paragraph("By the mean over held-out training rows; dev rows had no part in it.")
    yield b.Heading("What it took")
    yield _cost_table(study)._replace(title="")
    yield b.Paragraph("Of pre-training, in the mean over the seeds.")
    if study.comparisons:
        yield b.Heading("Comparisons")
        yield _comparison_table(study)._replace(title="")
        yield b.Paragraph(
            "Tests are paired: t is Student's over seeds, bootstrap draws paradigms. Holm's correction is within each "
            f"kind of test: over seeds, over paradigms, and of the {study.summary}, which says nothing that its scores "
            "do not."
        )
    if (reach := _reach_table(study)).rows:
        yield b.Heading(f"{reach.title[:1].upper()}{reach.title[1:]}")
        yield reach._replace(title="")
    if any(points for lines in study.curves.values() for points in lines.values()):
        yield b.Picture("scores", "curves.png")
    if unfinished := [cell for cell in study.cells if cell.status != "finished"]:
        yield b.Heading("Not finished")
        yield b.Bullets([f"{cell.arm} seed {cell.seed}: {cell.error or 'not run to its end'}" for cell in unfinished])
    if study.notes:
        yield b.Heading("Notes")
        yield b.Bullets(study.notes)


def study_readme(study: StudyResults) -> list[b.Block]:
    """README.md"""
    files = (
        "`report.md`: table, comparisons and curves",
        "`results.json`: all numbers, cell by cell",
        "`environment.json`: the command, the machine, the versions",
        "`study.toml`, `arms/`, `scores/`: every setting, resolved",
        "`cells/ARM/seed-S/`: the run, the result of each score (`NAME.json`), its logs",
    )
    return [
        b.Heading(study.title, level=1),
        b.Paragraph("Made by the command below; given again it goes on where it stopped and runs again what failed."),
        b.Code(study.provenance.command or f"electra study {study.name}", "bash"),
        b.Bullets(files),
    ]


def study_charts(study: StudyResults, axis: str = "flops") -> Iterator[b.Chart]:
    """Scores over compute, of those that were taken along the way."""
    for score, curves in study.curves.items():
        lines = []
        for color, (name, points) in enumerate(curves.items()):
            if points:
                x = {key: [getattr(point, key) for point in points] for key in AXES if hasattr(points[0], key)}
                lines.append(b.Line(name, color, x, [100 * point.mean for point in points]))
        if any(len(line.y) > 1 for line in lines):
            note = "Means over the seeds; their intervals stand in the table."
            title = fmt.format_score_name(score, study.scores.get(score))
            yield b.Chart(f"study-{score}", title, "points", "study", lines, (), note, axis)


def tell_glue(glue: GlueResults) -> Iterator[str]:
    yield f"A pre-trained model was fine-tuned for {len(glue.tasks)} tasks of {glue.suite.upper()}, each by itself."
    if glue.average.median is not None:
        text = f"The average of the median scores is {100 * glue.average.median:.1f}"
        paper = glue.average.paper
        yield f"{text}; ELECTRA-Small of the paper has {100 * paper:.1f} on these." if paper else f"{text}."


def glue_blocks(glue: GlueResults) -> Iterator[b.Block]:
    """One row a task, in points, the released ELECTRA-Small beside it for orientation; what can be submitted."""
    rows = []
    for task, spread in (glue.tasks | glue.diagnostics).items():
        # Diagnostics are answered by MNLI's model, and no part of the average.
        name = task if task in glue.tasks else f"{task} (mnli)"
        points = (spread.median, spread.mean, spread.sd if spread.n > 1 else None, spread.best)
        paper = fmt.format_points(glue.paper.get(task))
        rows.append([name, fmt.format_metric(spread.metric), *map(fmt.format_points, points), spread.n, paper])
    average = glue.average
    means = map(fmt.format_points, (average.median, average.mean, average.sd))
    rows.append(["average", "", *means, "", average.n, fmt.format_points(average.paper)])
    head = ["task", "metric", "median", "mean", "s.d.", "best", "seeds", "ELECTRA-Small (paper)"]
    yield b.Table("GLUE, dev sets, in points", head, rows, marked=len(rows) - 1)
    files = []
    for packed in glue.submissions.values():
        text = f"{packed.file}: {len(packed.holds)} of the {len(packed.holds) + len(packed.missing)} files that "
        text += "GLUE's server takes"
        files.append(text + (f", missing are {', '.join(packed.missing)}" if packed.missing else ""))
    yield b.Bullets(files, "note")


def tell_tradeoff(tradeoff: Tradeoff) -> Iterator[str]:
    variants, examples = tradeoff.variants, fmt.format_count(tradeoff.examples)
    yield f"{len(variants)} variants of one model, judged by {tradeoff.metric} on {examples} examples."
    if variants:
        fastest = max(variants, key=lambda variant: variant.speedup)
        change = f"{'loses' if fastest.loss > 0 else 'gains'} {abs(fastest.loss):.2f} points"
        times = f"{fastest.speedup:.1f} times as fast as {tradeoff.baseline}"
        yield f"The fastest, {fastest.name}, is {times} and {change}."


def _tradeoff_table(tradeoff: Tradeoff, title: str) -> b.Table:
    rows, best = [], -1
    for number, variant in enumerate(tradeoff.variants):
        best = number if variant.is_best and best < 0 else best
        name = variant.name + (" ←" if variant.name == tradeoff.picked else "")
        times = [f"{milliseconds:.2f}" for milliseconds in variant.milliseconds.values()]
        loss = efficiency = ""
        if variant.name != tradeoff.baseline:
            mark = "*" if variant.is_floored else ""
            loss, efficiency = f"{fmt.format_signed(variant.loss, 2)}{mark}", f"{variant.efficiency:.2f}{mark}"
        sizes = [variant.kept.heads, variant.kept.neurons, fmt.format_bytes(variant.bytes)]
        scores = [f"{100 * variant.score:.2f}", f"{variant.speedup:.2f}×", loss, efficiency]
        rows.append([name, *sizes, *times, *scores])
    batches = tradeoff.variants[0].milliseconds if tradeoff.variants else {}
    timed = [f"ms, {fmt.format_number_of(int(size), 'row')}" for size in batches]
    head = ["variant", "heads", "neurons", "size", *timed, "score", "speed-up", "loss", "efficiency"]
    return b.Table(title, head, rows, best)


def explain_tradeoff(tradeoff: Tradeoff) -> Iterator[str]:
    """What the columns mean, which variants failed, and what was picked."""
    floor = tradeoff.floor
    yield f"speed-up: latency of {tradeoff.baseline} / latency, {tradeoff.speedup_rows}"
    yield f"loss: points of {tradeoff.metric_name} below {tradeoff.baseline}"
    if better := [variant.name for variant in tradeoff.variants if variant.loss < -floor.points]:
        yield (
            f"a negative loss: {', '.join(better)} scored above {tradeoff.baseline}, not below; most often the model "
            "was trained too little for its score to mean much: train it longer and compress it again"
        )
    points = f"{floor.points:.2f}"
    yield f"efficiency: speed-up / loss; * a loss below {points} counts as {points}, {floor.origin}"
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
    yield _tradeoff_table(tradeoff, "Size, speed and score")
    yield b.Bullets([*explain_tradeoff(tradeoff), *tradeoff.notes], "note")


def tradeoff_report(tradeoff: Tradeoff) -> Iterator[b.Block]:
    """report.md"""
    yield b.Heading(f"{tradeoff.model}, compressed", level=1)
    examples = fmt.format_number_of(tradeoff.examples, "row" if tradeoff.metric == "auc" else "example")
    yield b.Paragraph(
        f"Scored by {tradeoff.metric_name} on {examples} of `{tradeoff.data}`, timed on "
        f"{fmt.format_number_of(tradeoff.threads, 'thread')}, variants in turn."
    )
    yield _tradeoff_table(tradeoff, "")
    yield b.Bullets(list(explain_tradeoff(tradeoff)))
    yield b.Picture("speed-up and score", "tradeoff.png")
    if tradeoff.notes:
        yield b.Heading("Notes")
        yield b.Bullets(tradeoff.notes)


def evaluation_blocks(name: str, result: EvaluationResult) -> Iterator[b.Block]:
    rows = [
        (fmt.format_key(key), fmt.format_estimate(value, *(result.interval(key) or ())))
        for key in result.scores
        if not key.endswith("_interval") and (value := result.score(key)) is not None
    ]
    yield b.Table(f"{result.suite} ({name}.json)", ["score", "value (95 % interval)"], rows)
    for kind, groups in list(result.groups.items())[:1]:
        keys = [key for key in next(iter(groups.values()), {}) if not key.endswith("_interval")]
        cells = [(group, *(scores.get(key) for key in keys)) for group, scores in groups.items()]
        head = [fmt.format_key(kind), *map(fmt.format_key, keys)]
        yield b.long_table(f"{result.suite} by {fmt.format_key(kind)}", head, cells)
    yield b.Bullets(result.notes, "note")
