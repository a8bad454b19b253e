"""`electra evaluate`: scores of a model as it is, without tuning."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.parser import Parser, positive_int

if TYPE_CHECKING:
    from electralab.records.evaluation import EvaluationPlan, EvaluationResult, Scores
    from electralab.reporting.blocks import Block
    from electralab.shell.call import Call

SUMMARY = "score a model as it is, without tuning"
EXAMPLE = "electra evaluate runs/mine --suite blimp --data blimp.tar.xz"
FUNCTION = api.evaluate
SETTINGS = "electralab.evaluation.stage:EvaluateConfig"
CONFIG_HELP = "a TOML file of settings"

SUITES = ("blimp", "rtd", "mlm", "sts", "probe")
_MOST_GROUPS = 15


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    add(
        "--suite",
        required=True,
        choices=SUITES,
        help="minimal pairs, replaced tokens, masked tokens, sentence similarity, or a linear probe",
    )
    add("--data", required=True, metavar="PATH", help="the suite's file or folder")
    add("--out", metavar="FILE", help="write the result as JSON here too")
    add("--generator", metavar="MODEL", help="of rtd: the fixed generator that replaces tokens")
    add("--task", metavar="NAME", help="of probe: the task whose files --data holds")
    add("--seed", dest=".seed", type=int, metavar="S", help="of what is masked, drawn and left out")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


def run(call: "Call") -> "EvaluationResult | EvaluationPlan":
    from electralab.artifacts import write_json
    from electralab.records.evaluation import EvaluationPlan

    flags = call.flags
    result = api.evaluate(
        flags.model,
        flags.suite,
        flags.data,
        generator=flags.generator,
        task=flags.task,
        config=flags.config,
        settings=call.settings,
        threads=flags.threads,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, EvaluationPlan):
        against = f", against the generator of {result.generator}" if result.generator else ""
        task = f", task {result.task}" if result.task else ""
        call.print_plan([f"would score {result.model} by {result.suite} on {result.data}{against}{task}"])
        return result
    if flags.out:
        write_json(Path(flags.out), result.to_json())
    call.print_lines(format_result(result))
    call.print(*score_blocks(result))
    return result


def format_result(result: "EvaluationResult") -> Iterator[str]:
    """The score that people look for, beside what it must beat."""
    from electralab.reporting.format import format_number_of, format_percent

    def percent(scores: "Scores", name: str) -> str:
        value = scores[name]
        return format_percent(value) if isinstance(value, int | float) else "n/a"

    scores, counts = result.scores, result.counts
    match result.suite:
        case "blimp":
            for role in ("discriminator", "generator"):
                if role in scores:
                    pairs = format_number_of(counts[f"{role}_pairs"], "pair")
                    better = f"the {role} prefers the acceptable sentence in {percent(scores, role)}"
                    yield f"{better} of {pairs} (chance: 50 %)"
        case "rtd":
            yield (
                f"replaced tokens are told from original ones with AUC {scores['auc']:.3f} (chance: 0.5); "
                f"{percent(scores, 'recall')} of them are found, as many calls at random would find "
                f"{percent(scores, 'called_replaced')}"
            )
        case "mlm":
            yield (
                f"{percent(scores, 'accuracy')} of the hidden tokens are guessed right "
                f"(the most frequent one: {percent(result.groups['by']['unigram'], 'accuracy')}); "
                f"loss {scores['loss']:.3f}"
            )
        case "sts":
            yield (
                f"similarity agrees with people's by Spearman {scores['spearman']:.3f} on "
                f"{format_number_of(counts['pairs'], 'pair')} (untrained encoder: {scores['random_spearman']:.3f})"
            )
        case "probe":
            controls = result.groups["control"]
            beside = ", ".join(f"{name} {percent(control, 'accuracy')}" for name, control in controls.items())
            yield (
                f"a linear probe of layer {scores['layer']} is right in {percent(scores, 'accuracy')} of "
                f"{format_number_of(counts['dev'], 'example')} ({beside})"
            )


def score_blocks(result: "EvaluationResult") -> list["Block"]:
    """The scores of the suite, an interval, where there is one, behind its score; then those of its groups."""
    from electralab.reporting.blocks import Table

    rows = [*map(list, _cells(result.scores).items())]
    rows += [[name.replace("_", " "), f"{number:,}"] for name, number in result.counts.items()]
    blocks: list[Block] = [Table(f"{result.suite}  {result.model}", ["", ""], rows)]
    for kind, groups in result.groups.items():
        if not 0 < len(groups) <= _MOST_GROUPS:
            continue
        shown = {group: _cells(scores) for group, scores in groups.items()}
        names = list(dict.fromkeys(name for cells in shown.values() for name in cells))
        rows = [[group.replace("_", " "), *(cells.get(name, "") for name in names)] for group, cells in shown.items()]
        blocks.append(Table(kind.replace("_", " "), ["", *names], rows))
    return blocks


def _cells(scores: "Scores") -> dict[str, str]:
    """`auc` and `auc_interval` as one cell."""
    cells = {}
    for name, value in scores.items():
        interval = scores.get(f"{name}_interval")
        if name.endswith("_interval"):
            continue
        text = f"{value:.4f}" if isinstance(value, float) else str(value)
        if isinstance(value, list):
            text = "  ".join(f"{part:.4f}" if isinstance(part, float) else str(part) for part in value)
        if isinstance(value, float) and isinstance(interval, list):
            text += f" [{', '.join('n/a' if end is None else f'{end:.4f}' for end in interval)}]"
        cells[name.replace("_", " ")] = text
    return cells
