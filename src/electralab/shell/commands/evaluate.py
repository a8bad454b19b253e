"""`electra evaluate`, `electralab.evaluate`: scores of a model as it is, without tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from electralab.shell.call import Call, Parser, as_model, open_display, positive_int, settle

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.evaluation import EvaluationPlan, EvaluationResult, Scores, Suite
    from electralab.reporting.blocks import Block

SUMMARY = "score a model without fine-tuning"
EXAMPLE = "electra evaluate runs/mine --suite blimp --data blimp.tar.xz"
SETTINGS = "electralab.evaluation.stage:EvaluateConfig"

# Those of records/evaluation.py, which would load pydantic here; a test holds that they are the same.
SUITES = ("blimp", "rtd", "mlm", "sts", "probe")
_SUITE = "minimal pairs, replaced tokens, masked tokens, sentence similarity, linear probe"
_MOST_GROUPS = 15


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run, a model folder of ours or of Hugging Face, or hour-en")
    add("--suite", required=True, choices=SUITES, help=_SUITE)
    add("--data", required=True, metavar="PATH", help="the suite's file or folder")
    add("--out", metavar="FILE", help="also write the result as JSON to this file")
    add("--generator", metavar="MODEL", help="for rtd: the fixed generator that replaces tokens")
    add("--task", metavar="NAME", help="for probe: the task of the files in --data")
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed of masks, samples and subsets")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


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
            model=str(locate_encoder(as_model(model))),
            suite=suite,
            data=str(data),
            generator=str(generator) if generator else None,
            task=task,
            settings=resolved.model_dump(mode="json"),
        )
    use_threads(threads)
    judge, chosen = as_model(generator) if generator else None, cast("Suite", suite)
    return display.run(
        lambda stop: stage.evaluate(
            as_model(model), chosen, Path(data), resolved, generator=judge, task=task, stop=stop
        )
    )


def run(call: Call) -> None:
    from electralab.artifacts import write_json
    from electralab.reporting.format import tell

    result, out = call.ask(evaluate), call.flags.out
    if not call.prints_plan(result):
        if out:
            write_json(Path(out), result.to_json())
        call.print(*tell(result, result.suite), *score_blocks(result))
    call.answer(result)


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
