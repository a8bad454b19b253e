"""Results in human form: tables, tokens in the colour of their suspicion, a curve in one line.

result -> the eye
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from rich.table import Table
from rich.text import Text

from electralab.exporting.scores import describe_scores
from electralab.exporting.tuned_scores import choose_report, describe_tuned
from electralab.terminal import tame as tame

Record = dict[str, Any]

_WIDEST_CONFUSION = 6
_MOST_GROUPS = 15
_MOST_ITEMS = 20
_NARROW = 80
"""Columns of a terminal that nobody has widened."""


def results_table(results: Record) -> Table:
    """Held-out scores, each beside what knowing only frequencies achieves."""
    table = Table(
        title=f"held out, after {results['step']:,} steps and {results['tokens']:,} tokens",
        title_justify="left",
        caption=Text("\n".join(_conclude(results))),
        caption_justify="left",
    )
    table.add_column("")
    table.add_column("model", justify="right")
    table.add_column("baseline", justify="right")
    table.add_column("baseline is", style="dim")
    for line in describe_scores(results):
        table.add_row(line.name, line.value, line.baseline, line.meaning)
    return table


def _conclude(results: Record) -> Iterator[str]:
    """What a run is good for and was warned of; nothing of runs that did not write it down."""
    if verdict := results.get("verdict"):
        yield f"verdict: {verdict['text']}"
    for warning in results.get("warnings", []):
        yield f"warned at step {warning['step']}: {warning['text']}"


def tuned_tables(results: Record) -> Iterator[Table]:
    """The scores of a fine-tuning run over its seeds and beside baselines; dev first, then other labelled files."""
    count = len(results["seeds"])
    head, rows = describe_tuned(results)
    yield from _fold(f"{results['task']}, {'one seed' if count == 1 else f'{count} seeds'}", head, rows)


def class_tables(results: Record) -> Iterator[Table]:
    """What was found of each class and, where there is room, what its examples were taken for."""
    split, report = choose_report(results)
    classes, confusion = report.get("classes", []), report.get("confusion", [])
    if classes:
        rows = [
            [of["name"], *(f"{of[name]:.3f}" for name in ("precision", "recall", "f1")), f"{of['support']:,}"]
            for of in classes
        ]
        yield _grid(f"by class, {split}", ["", "precision", "recall", "f1", "examples"], rows)
    if confusion and len(classes) <= _WIDEST_CONFUSION:
        names = [of["name"] for of in classes]
        rows = [[name, *map(str, counts)] for name, counts in zip(names, confusion, strict=True)]
        yield _grid(f"true classes, and what they were taken for, {split}", ["", *names], rows)


def _grid(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(head):
        table.add_column(Text(name), justify="right" if place else "left")
    for row in rows:
        table.add_row(*(Text(tame(cell)) for cell in row))
    return table


def _fold(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Table]:
    """As many tables as it takes for none to be cut in a narrow terminal; each repeats the first column."""
    widths = [max(map(len, column)) + 3 for column in zip(head, *rows, strict=True)]
    first = 1
    while first < len(head):
        last = first + 1
        while last < len(head) and 1 + widths[0] + sum(widths[first : last + 1]) <= _NARROW:
            last += 1
        yield _grid(title, [head[0], *head[first:last]], [[row[0], *row[first:last]] for row in rows])
        title, first = "", last


def _transpose(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """What were rows are columns: names are long, and there may be many."""
    turned = [list(column) for column in zip(head, *rows, strict=True)]
    return turned[0], turned[1:]


def glue_table(results: Record) -> Table:
    """One row a task, in points, the released ELECTRA-Small beside it for orientation."""
    told = "\n".join(_describe_submissions(results.get("submissions", {})))
    table = Table(title="GLUE, dev", title_justify="left", caption=Text(told), caption_justify="left")
    for name, justify in (("task", "left"), ("metric", "left"), ("median", "right"), ("mean ± sd", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("best", justify="right")
    table.add_column("ELECTRA-Small, released", justify="right", style="dim")
    for name, of in results["tasks"].items():
        paper = results["paper"][name]
        table.add_row(
            name,
            of["metric"],
            _points(of["median"]),
            _spread(of),
            _points(of["best"]),
            _points(paper),
        )
    for name, of in results.get("diagnostics", {}).items():
        # Answered by MNLI's model, and no part of the average.
        table.add_row(f"{name} (mnli)", of["metric"], _points(of["median"]), _spread(of), _points(of["best"]), "")
    average = results["average"]
    table.add_section()
    table.add_row("average", "", _points(average["median"]), _spread(average), "", _points(average["paper"]))
    return table


def _describe_submissions(zips: Record) -> Iterator[str]:
    for packed in zips.values():
        held, missing = len(packed["holds"]), packed["missing"]
        lacks = f", missing are {', '.join(missing)}" if missing else ""
        yield f"{packed['file']}: {held} of the {held + len(missing)} files that GLUE's server takes{lacks}"


def _points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _spread(of: Record) -> str:
    """One seed has none."""
    if of["mean"] is None:
        return ""
    return _points(of["mean"]) if of.get("n") == 1 else f"{_points(of['mean'])} ± {_points(of['sd'])}"


def evaluation_tables(result: Record) -> Iterator[Table]:
    """The scores of a suite, an interval, where there is one, behind its score; then those of its groups."""
    rows = [[name, value] for name, value in _flatten(_with_intervals(result["scores"]))]
    rows += [[name.replace("_", " "), f"{count:,}"] for name, count in result["counts"].items()]
    yield _grid(f"{result['suite']}  {result['model']}", ["", ""], rows)
    for kind, groups in result["groups"].items():
        if not 0 < len(groups) <= _MOST_GROUPS:
            continue
        shown = {group: dict(_flatten(_with_intervals(scores))) for group, scores in groups.items()}
        names = list(dict.fromkeys(name for scores in shown.values() for name in scores))
        rows = [[group.replace("_", " "), *(scores.get(name, "") for name in names)] for group, scores in shown.items()]
        yield _grid(kind.replace("_", " "), ["", *names], rows)


def analysis_tables(result: Any) -> Iterator[Table]:
    """A table for each claim: values beside controls, those of layers at the last one."""
    from electralab.records.findings import Analysis
    from electralab.reporting.analysis_blocks import last_layer_tables

    for block in last_layer_tables(Analysis.model_validate(result)):
        yield _grid(block.title, block.head, block.texts())


def _with_intervals(scores: Record) -> Record:
    """`auc` and `auc_interval` as one cell."""
    return {
        name: f"{value:.4f} [{scores[f'{name}_interval'][0]:.4f}, {scores[f'{name}_interval'][1]:.4f}]"
        if f"{name}_interval" in scores and isinstance(value, float)
        else value
        for name, value in scores.items()
        if not name.endswith("_interval")
    }


def _flatten(tree: Record, prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from _flatten(value, f"{name} ")
        elif isinstance(value, list | tuple):
            yield name, "  ".join(f"{one:.4f}" if isinstance(one, float) else str(one) for one in value)
        else:
            yield name, f"{value:.4f}" if isinstance(value, float) else str(value)


def flops_tables(result: Record) -> Iterator[Table]:
    """The account of a run: networks by their parts, then a step and the run."""
    for title, parts in (("parameters", result["parameters"]), ("forward, FLOPs a token", result["forward"])):
        names = list(dict.fromkeys(name for of in parts.values() for name in of))
        rows = [
            [name.replace("_", " "), *(f"{of[name]:,}" if name in of else "" for of in parts.values())]
            for name in names
        ]
        yield from _fold(
            title, ["", *parts], [*rows, ["together", *(f"{sum(of.values()):,}" for of in parts.values())]]
        )
    paper = [result["paper_step_flops"], result["paper_flops"]]
    rows = [
        ["FLOPs, a step", f"{result['step_flops']:.3e}", *map(_scientific, paper[:1])],
        ["FLOPs, the run", f"{result['flops']:.3e}", *map(_scientific, paper[1:])],
    ]
    yield _grid(f"{result['objective']}, forward and backward", ["", "matrix products", "as the paper counts"], rows)
    rows = [
        ["parameters", f"{result['total_parameters']:,}"],
        ["vocabulary, row length", f"{result['vocab_size']:,}, {result['sequence_length']:,}"],
        ["steps of rows", f"{result['steps']:,} of {result['batch_size']:,}"],
        ["tokens", f"{result['tokens']:,}"],
        *([["other tasks, FLOPs a token", f"{result['other']:,}"]] if result["other"] else []),
        ["memory, about", f"{result['memory_bytes'] / 2**30:.1f} GB"],
        ["time here, about", _duration(result["estimated_minutes"])],
    ]
    yield _grid("the run", ["", ""], rows)


def _scientific(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3e}"


def _duration(minutes: float) -> str:
    if minutes < 120:
        return f"{minutes:.1f} minutes"
    return f"{minutes / 60:.1f} hours" if minutes < 48 * 60 else f"{minutes / 60 / 24:,.0f} days"


def paper_table(result: Record) -> Table:
    """The runs of the paper, total training FLOPs."""
    rows = [
        [
            model,
            f"{of['parameters'] / 1e6:.1f}M",
            f"{of['paper_flops']:.3e}",
            f"{of['published_flops']:.2e}",
            f"{of['ratio']:.4f}",
            f"{of['flops']:.3e}",
        ]
        for model, of in result.items()
    ]
    head = ["", "parameters", "counted", "published", "ratio", "our FLOPs"]
    return _grid("total training FLOPs of the paper's runs, counted as the paper does; and as we do", head, rows)


def study_tables(results: Record) -> Iterator[Table]:
    """The arms side by side, what each cost, and how each compares with the one it is held against."""
    from electralab.experiments.report import comparison_rows, cost_rows, name_unit, reach_rows, score_rows
    from electralab.records.study import StudyResults

    study = StudyResults.model_validate(results)
    (_, *head), rows = score_rows(study)
    yield from _fold(study.title, *_transpose(["", *head], rows))
    yield from _fold("what it took", *cost_rows(study))
    _, rows = comparison_rows(study)
    for arm, versus in dict.fromkeys((row[0], row[1]) for row in rows):
        # The report has the test's name and its p before correction too, for which there is no room here.
        of_arm = [
            [score, difference, interval, test.partition(", ")[2], p]
            for *pair, score, difference, interval, test, _, p in rows
            if pair == [arm, versus]
        ]
        head = ["", "difference", "95 % interval", "over", "p (Holm)"]
        yield from _fold(f"{arm} against {versus}", head, of_arm)
    head, rows = reach_rows(study)
    if rows:
        title = f"{name_unit(study).lower()} to reach the final score of {study.baseline}"
        yield from _fold(title, *_transpose(head, rows))


def claims_tables(results: Any) -> Iterator[Table]:
    """A line for each claim with its verdict, and below it the figures that the verdict rests on."""
    from electralab.records.claims import ClaimsResult
    from electralab.reporting.analysis_blocks import format_claim_values, format_verdicts

    table = Table(title="what holds of the claims, at this scale", title_justify="left")
    table.add_column("")
    table.add_column("claim", ratio=3)
    table.add_column("verdict", no_wrap=True)
    colours = {"holds": "green", "does not hold": "red", "undecided": "yellow"}
    for claim in ClaimsResult.model_validate(results).claims:
        verdicts = format_verdicts(claim).replace("; ", "\n").replace(": ", ":\n  ")
        table.add_row(claim.number, Text(claim.sentence), Text(verdicts, style=colours[claim.verdict]))
        for line in (format_claim_values(claim), claim.why):
            table.add_row("", Text(line, style="dim"), "")
    yield table


def damage_table(result: Record) -> Table:
    """What proofreading finds of each kind of planted damage."""
    names = {
        **{"damaged": "damaged", "precision": "precision", "recall": "recall", "auc": "AUC"},
        **{"precision_at_damaged": "worst", "corrected": "first", "among_suggestions": "among"},
    }
    rows = [
        [kind, *(f"{of[name]:,}" if name == "damaged" else f"{of[name]:.3f}" for name in names)]
        for kind, of in result["scores"].items()
    ]
    return _grid(f"planted damage, threshold {result['threshold']:g}", ["", *names.values()], rows)


def tradeoff_tables(results: Record) -> Iterator[Table]:
    """The variants of a model with what each costs and saves, and below what the columns mean."""
    from electralab.compression.report import HEAD, explain, tradeoff_rows

    yield from _fold("", HEAD, tradeoff_rows(results))
    notes = Table.grid()
    for line in explain(results):
        notes.add_row(Text(line, style="dim"))
    yield notes


def describe_miss(results: Record) -> str:
    """Why no variant was picked, and which come nearest."""
    fastest = max(results["variants"], key=lambda point: point["speedup"])
    best = min(results["variants"][1:] or results["variants"], key=lambda point: point["loss"])
    return (
        f"{results['out']}: no variant is as was asked; the fastest is {fastest['name']} "
        f"({fastest['speedup']:.2f}×, {fastest['loss']:+.2f} points lost), the best {best['name']} "
        f"({best['speedup']:.2f}×, {best['loss']:+.2f}); ask for less, or add variants with --prune and --graphs"
    )


def colour_tokens(result: Record) -> Text:
    """The text as it is, each token in the colour of its suspicion; those named for another reason underlined."""
    text = Text(tame(result["text"]))
    for token in result["tokens"]:
        text.stylize(suspicion(token["p_replaced"]), token["start"], token["end"])
    for place in result["suspicious"]:
        token = result["tokens"][place]
        if token["p_replaced"] <= 0.5:
            text.stylize("underline", token["start"], token["end"])
    return text


def describe_suspects(result: Record) -> str:
    """In words, what colours cannot say: the most suspicious where none passes, and tokens that are unknown."""
    tokens = [result["tokens"][place] for place in result["suspicious"]]
    if result["is_relative"]:
        named = ", ".join(f"{tame(_widen(result['text'], token))} ({token['p_replaced']:.2f})" for token in tokens)
        return f"none of {len(result['tokens']):,} tokens passes 0.5; the most suspicious of this text: {named}"
    unknown = [token["text"] for token in tokens if token["unknown"] and token["p_replaced"] <= 0.5]
    if not unknown:
        return ""
    named = ", ".join(map(tame, unknown[:5])) + (f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else "")
    return f"never seen in training, and suspicious for that alone: {named}"


def _widen(text: str, token: Record) -> str:
    """The word that a token is a piece of, in scripts that put spaces between words; else the token itself."""
    start, end = token["start"], token["end"]
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return text[start:end] if end - start <= _LONGEST_WORD else token["text"]


_LONGEST_WORD = 24


def suspicion(chance: float) -> str:
    """Green up to what any token has: in training about one in seven is replaced, so 0.2 is already news."""
    if chance > 0.5:
        return "bold white on red"
    if chance > 0.3:
        return "bold red"
    if chance > 0.2:
        return "yellow"
    return "green"


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """The curve in one line, each bar the mean of its part of the run."""
    bars = "▁▂▃▄▅▆▇█"
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    return "".join(bars[int((mean - low) / (high - low or 1) * (len(bars) - 1))] for mean in means)


def tree_table(title: str, values: Record) -> Table:
    """A nested result, one dotted name per line."""
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    for name, value in _name_leaves(values):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        table.add_row(Text(tame(name)), Text(tame(f"{value:,}" if is_number else str(value))))
    return table


def _name_leaves(values: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _name_leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            more = f", and {len(value) - _MOST_ITEMS:,} more" if len(value) > _MOST_ITEMS else ""
            yield f"{prefix}{key}", ", ".join(map(_describe_item, value[:_MOST_ITEMS])) + more
        else:
            yield f"{prefix}{key}", value


def _describe_item(item: Any) -> str:
    """{"word": "garden", "characters": 6} -> garden (6 characters)."""
    if not isinstance(item, dict):
        return str(item)
    (_, name), *rest = item.items()
    return f"{name} ({', '.join(f'{value} {key}' for key, value in rest)})"
