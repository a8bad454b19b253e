"""Tables of many runs: a study, GLUE, the variants of a compressed model, the scores of an evaluation.

record -> Block...

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


def find_leader(study: StudyResults) -> tuple[ArmRow, float, Comparison | None] | None:
    """The arm of the best average or headline, that number, and its test against the baseline's."""
    rows = [(row, score.mean) for row in study.table if (score := row.scores.get(study.summary)) is not None]
    if not rows:
        return None
    row, mean = max(rows, key=lambda pair: pair[1])
    wanted = (row.arm, study.baseline, study.summary)
    tests = (test for test in study.comparisons if test.p_holm is not None)
    return row, mean, next((test for test in tests if (test.arm, test.versus, test.score) == wanted), None)


def tell_study(study: StudyResults) -> list[str]:
    significant = sorted((row for row in study.comparisons if row.is_significant), key=lambda row: -abs(row.mean))
    return fmt.tell(study, "study", leader=find_leader(study), significant=significant)


def compute_tables(study: StudyResults) -> dict[str, b.Table]:
    """The arms side by side, what each cost, how each compares with the one it is held against; some may be empty."""
    scores, cost, comparisons = [], [], []
    for row in study.table:
        cells = [row.arm + (" (baseline)" if row.arm == study.baseline else "")]
        for name in study.score_names:
            score = row.scores.get(name)
            half = None if score is None or score.low is None or score.high is None else 50 * (score.high - score.low)
            cells.append(fmt.format_points(score.mean if score else None) + ("" if half is None else f" ± {half:.1f}"))
        scores.append(cells)
        counts = [row.steps, row.tokens, row.parameters]
        steps, tokens, parameters = (None if amount is None else fmt.format_count(amount) for amount in counts)
        flops = None if row.flops is None else fmt.format_flops(row.flops)
        minutes = None if row.pretraining_seconds is None else f"{row.pretraining_seconds / 60:.1f}"
        cost.append([row.arm, steps, tokens, flops, parameters, minutes])
    for test in study.comparisons:
        interval = ""
        if test.low is not None and test.high is not None:
            interval = f"{fmt.format_signed(100 * test.low)} to {fmt.format_signed(100 * test.high)}"
        p, p_holm = ("" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}" for p in (test.p, test.p_holm))
        over = test.over if test.n > 1 else test.over.removesuffix("s")
        how = f"{test.test.removeprefix('paired ')}, {test.n} {over}"
        difference = fmt.format_signed(100 * test.mean, 2)
        comparisons.append([f"{test.arm} – {test.versus}", test.score, difference, interval, how, p, p_holm])
    # An arm that is surely better than the baseline, and has the best average, stands out.
    leader = find_leader(study)
    marked = study.table.index(leader[0]) if leader and leader[2] and leader[2].is_significant else -1
    names = [fmt.format_score_name(name, study.scores) for name in study.score_names]
    took = "what it took, in the mean over the seeds"
    test_head = ["arms", "score", "difference", "95 % interval", "test", "p", "p (Holm)"]
    return {
        "scores": b.Table(study.title, ["arm", *names], scores, marked),
        "cost": b.Table(took, ["arm", "steps", "tokens", "FLOPs", "parameters", "minutes"], cost),
        "comparisons": b.Table("differences in points", test_head, comparisons),
        "reach": _reach_table(study),
    }


def study_tables(study: StudyResults) -> list[b.Table]:
    """What the shell prints."""
    return [table for table in compute_tables(study).values() if table.rows]


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


def tuning_table(study: StudyResults) -> b.Table:
    """The settings that every arm is tuned with, and what they scored on held-out training rows."""
    names = list(dict.fromkeys(name for choice in study.tuning.values() for name in choice.settings))
    rows = []
    for arm, choice in study.tuning.items():
        values = (choice.settings.get(name, "") for name in names)
        best = fmt.format_points(max((trial.mean for trial in choice.trials), default=None))
        rows.append([arm, *(f"{value:g}" if isinstance(value, float) else value for value in values), best])
    return b.Table("fine-tuning chosen for each arm", ["arm", *names, "held-out score"], rows)


def study_scores(study: StudyResults | None) -> Iterator[b.PageBlock]:
    """The page's section: comparisons are many, and folded."""
    if study is None:
        yield b.Absent("No table", "results.json of the study is missing or damaged; 'electra study' writes it again.")
        return
    scores, cost, comparisons, reach = compute_tables(study).values()
    yield scores._replace(title="Points: mean over seeds ± half the 95 % interval")
    if study.tuning:
        yield tuning_table(study)
    yield cost
    if study.comparisons:
        yield b.Fold(f"All {len(study.comparisons)} comparisons", [comparisons])
    if reach.rows:
        yield reach
    yield b.Bullets(study.notes, "note")


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
            title = fmt.format_score_name(score, study.scores)
            yield b.Chart(f"study-{score}", title, "points", "study", lines, (), note, axis)


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


def tradeoff_table(tradeoff: Tradeoff) -> b.Table:
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
    return b.Table("Size, speed and score", head, rows, best)


def explain_tradeoff(tradeoff: Tradeoff) -> list[str]:
    """What the columns mean, which variants failed, and what was picked."""
    better = [variant.name for variant in tradeoff.variants if variant.loss < -tradeoff.floor.points]
    return fmt.tell(tradeoff, "columns_of_tradeoff", better=better)


def tradeoff_blocks(tradeoff: Tradeoff | None) -> Iterator[b.Block]:
    """What the shell prints and the page shows."""
    if tradeoff is None or not tradeoff.variants:
        yield b.Absent("No variants", "tradeoff.json is missing or damaged; 'electra compress' writes it again.")
        return
    yield tradeoff_table(tradeoff)
    yield b.Bullets([*explain_tradeoff(tradeoff), *tradeoff.notes], "note")


def evaluation_blocks(name: str, result: EvaluationResult) -> Iterator[b.PageBlock]:
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
