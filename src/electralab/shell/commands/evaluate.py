"""`electra evaluate`, `electralab.evaluate`: scores of a model as it is, without tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from electralab.shell.call import Call, as_path, open_display, settle
from electralab.shell.parser import Parser, positive_int

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.evaluation import EvaluationPlan, EvaluationResult, Scores, Suite
    from electralab.reporting.blocks import Block

SUMMARY = "score a model as it is, without tuning"
EXAMPLE = "electra evaluate runs/mine --suite blimp --data blimp.tar.xz"
SETTINGS = "electralab.evaluation.stage:EvaluateConfig"

# Those of records/evaluation.py, which would load pydantic here; a test holds that they are the same.
SUITES = ("blimp", "rtd", "mlm", "sts", "probe")
_SUITE = "minimal pairs, replaced tokens, masked tokens, sentence similarity, or a linear probe"
_MOST_GROUPS = 15


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    add("--suite", required=True, choices=SUITES, help=_SUITE)
    add("--data", required=True, metavar="PATH", help="the suite's file or folder")
    add("--out", metavar="FILE", help="write the result as JSON here too")
    add("--generator", metavar="MODEL", help="of rtd: the fixed generator that replaces tokens")
    add("--task", metavar="NAME", help="of probe: the task whose files --data holds")
    add("--seed", dest=".seed", type=int, metavar="S", help="of what is masked, drawn and left out")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


def evaluate(
    model: str | Path,
    suite: str,
    data: str | Path,
    *,
    generator: str | Path | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> EvaluationResult | EvaluationPlan:
    """Scores of a model as it is: minimal pairs, replaced tokens, masked tokens, similarity, linear probes.

    >>> electralab.evaluate("run", "rtd", "data", threads=1).suite
    'rtd'
    """
    display = open_display(display)
    from electralab.evaluation import stage
    from electralab.model.folders.folder import locate_encoder
    from electralab.records.evaluation import EvaluationPlan
    from electralab.runtime import use_threads

    resolved = settle(stage.EvaluateConfig, config, settings)
    if dry_run:
        return EvaluationPlan(
            model=str(locate_encoder(Path(model))),
            suite=suite,
            data=str(data),
            generator=str(generator) if generator else None,
            task=task,
            settings=resolved.model_dump(mode="json"),
        )
    use_threads(threads)
    judge, chosen = as_path(generator), cast("Suite", suite)
    return display.run(
        lambda stop: stage.evaluate(Path(model), chosen, Path(data), resolved, generator=judge, task=task, stop=stop)
    )


def run(call: Call) -> None:
    from electralab.artifacts import write_json
    from electralab.records.evaluation import EvaluationPlan

    flags = call.flags
    result = evaluate(
        flags.model,
        flags.suite,
        flags.data,
        generator=flags.generator,
        task=flags.task,
        threads=flags.threads,
        **call.common,
    )
    if isinstance(result, EvaluationPlan):
        against = f", against the generator of {result.generator}" if result.generator else ""
        task = f", task {result.task}" if result.task else ""
        call.print_plan(f"would score {result.model} by {result.suite} on {result.data}{against}{task}")
    else:
        if flags.out:
            write_json(Path(flags.out), result.to_json())
        call.print(*format_result(result), *score_blocks(result))
    call.answer(result)


def format_result(result: EvaluationResult) -> list[str]:
    """The score that people look for, beside what it must beat."""
    from electralab.reporting.format import format_number_of, format_percent

    def percent(scores: Scores, name: str) -> str:
        value = scores[name]
        return format_percent(value) if isinstance(value, int | float) else "n/a"

    scores, counts = result.scores, result.counts
    match result.suite:
        case "blimp":
            return [
                f"the {role} prefers the acceptable sentence in {percent(scores, role)} of "
                f"{format_number_of(counts[f'{role}_pairs'], 'pair')} (chance: 50 %)"
                for role in ("discriminator", "generator")
                if role in scores
            ]
        case "rtd":
            return [
                f"replaced tokens are told from original ones with AUC {scores['auc']:.3f} (chance: 0.5); "
                f"{percent(scores, 'recall')} of them are found, as many calls at random would find "
                f"{percent(scores, 'called_replaced')}"
            ]
        case "mlm":
            return [
                f"{percent(scores, 'accuracy')} of the hidden tokens are guessed right "
                f"(the most frequent one: {percent(result.groups['by']['unigram'], 'accuracy')}); "
                f"loss {scores['loss']:.3f}"
            ]
        case "sts":
            return [
                f"similarity agrees with people's by Spearman {scores['spearman']:.3f} on "
                f"{format_number_of(counts['pairs'], 'pair')} (untrained encoder: {scores['random_spearman']:.3f})"
            ]
        case "probe":
            controls = result.groups["control"].items()
            beside = ", ".join(f"{name} {percent(control, 'accuracy')}" for name, control in controls)
            return [
                f"a linear probe of layer {scores['layer']} is right in {percent(scores, 'accuracy')} of "
                f"{format_number_of(counts['dev'], 'example')} ({beside})"
            ]


def score_blocks(result: EvaluationResult) -> list[Block]:
    """The scores of the suite, an interval, where there is one, behind its score; then those of its groups."""
    from electralab.reporting.blocks import Table

    def cells(scores: Scores) -> dict[str, str]:
        """`auc` and `auc_interval` as one cell."""
        texts = {}
        for name, value in scores.items():
            interval = scores.get(f"{name}_interval")
            if name.endswith("_interval"):
                continue
            parts = value if isinstance(value, list) else [value]
            text = "  ".join(f"{part:.4f}" if isinstance(part, float) else str(part) for part in parts)
            if isinstance(value, float) and isinstance(interval, list):
                text += f" [{', '.join('n/a' if end is None else f'{end:.4f}' for end in interval)}]"
            texts[name.replace("_", " ")] = text
        return texts

    rows = [*map(list, cells(result.scores).items())]
    rows += [[name.replace("_", " "), f"{number:,}"] for name, number in result.counts.items()]
    blocks: list[Block] = [Table(f"{result.suite}  {result.model}", ["", ""], rows)]
    for kind, groups in result.groups.items():
        # The 67 paradigms of BLiMP are for a file, not for a terminal.
        if not 0 < len(groups) <= _MOST_GROUPS:
            continue
        shown = {group: cells(scores) for group, scores in groups.items()}
        names = list(dict.fromkeys(name for texts in shown.values() for name in texts))
        rows = [[group.replace("_", " "), *(texts.get(name, "") for name in names)] for group, texts in shown.items()]
        blocks.append(Table(kind.replace("_", " "), ["", *names], rows))
    return blocks
