"""`electra finetune`, `electralab.finetune`: a pre-trained model and labelled files -> a tuned model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electralab.shell.call import Call, Parser, as_model, count, open_display, positive, positive_int
from electralab.shell.commands.pretrain import PARALLEL_HELP, format_folder

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.tuned import FinetunePlan, TunedResults
    from electralab.reporting.blocks import Block

SUMMARY = "fine-tune a pre-trained model on a task; the same command resumes"
EXAMPLE = "electra finetune runs/mine --task classify --data reviews/ --out runs/reviews --seeds 3"
SETTINGS = "electralab.finetuning.settings:FinetuneConfig"
RUNS_ON_RANKS = True

_TASKS = (
    "cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli; squad1, squad2; ner, chunking; "
    "own data: classify, pair, regress, label, errors, qa"
)
_DOUBLE = "train on each pair in both orders"
_LABEL = "the column of the class, the number, the tags or answers"
_TEXT = "the column of the text; without it, found by name or content"
_TEXT_A = "the column of the first text of a pair, or the question"
_MIN_STEPS = "minimum for small data, unless --epochs or --steps is given (by the size)"
_RATE = "default: the paper's value for this size"
_SCRATCH = "start from random weights instead of MODEL's, as a baseline"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run, a model folder of ours or of Hugging Face, or hour-en")
    add("--task", required=True, metavar="NAME", help=_TASKS)
    add("--data", required=True, metavar="DIR", help="a folder with train.*, dev.*, test.*, or a file")
    add_tuning_flags(parser)
    add("--keep", type=count, metavar="N", help="checkpoints of a finished seed to keep")
    add("--double-pairs", dest=".double_pairs", action=argparse.BooleanOptionalAction, help=_DOUBLE)
    add("--init-from", metavar="DIR", help="start with the encoder of another tuned model")
    add_column_flags(parser)
    add("--label", dest=".data.label", metavar="COLUMN", help=_LABEL)


def add_column_flags(parser: Parser) -> None:
    """Where the texts of a table are; `predict` has the same."""
    add = parser.add_argument
    add("--text", dest=".data.text", metavar="COLUMN", help=_TEXT)
    add("--text-a", dest=".data.text_a", metavar="COLUMN", help=_TEXT_A)
    add("--text-b", dest=".data.text_b", metavar="COLUMN", help="the column of the second, or the context")


def add_tuning_flags(parser: Parser) -> None:
    """How a task is tuned; `glue` has the same."""
    add, rows = parser.add_argument, "use at most N training rows (all)"
    add("--out", required=True, metavar="RUN", help="the run folder")
    add("--seeds", type=positive_int, metavar="N", help="number of seeds; each is trained on its own")
    add("--seed", dest=".seed", type=int, metavar="S", help="the first seed")
    add("--epochs", dest=".epochs", type=positive, metavar="X", help="default: the paper's, more for few rows")
    add("--steps", dest=".steps", type=positive_int, metavar="N", help="number of steps, instead of epochs (none)")
    add("--train-rows", dest=".train_rows", type=positive_int, metavar="N", help=rows)
    add("--min-steps", dest=".min_steps", type=count, metavar="N", help=_MIN_STEPS)
    add("--learning-rate", dest=".optimizer.learning_rate", type=positive, metavar="X", help=_RATE)
    add("--batch-size", dest=".batch.size", type=positive_int, metavar="N", help="rows in a step")
    add("--sequence-length", dest=".sequence_length", type=positive_int, metavar="N", help="tokens in a row")
    add("--head", dest=".head.style", help="dropout and linear (default), or that of transformers")
    add("--from-scratch", dest=".from_scratch", action="store_true", help=_SCRATCH)
    add("--encoder-dropout", dest=".encoder_dropout", type=float, metavar="P", help="default: as in pre-training")
    add("--save-every", type=count, metavar="N", help="steps between checkpoints")
    add("--log-every", type=count, metavar="N", help="steps between log lines (10 lines)")
    add("--no-baseline", dest="baseline", action="store_false", help="do not score simple baselines")
    add("--workers", type=positive_int, metavar="N", help="processes that share a step; default: one for each core")
    add("--parallel", choices=("ddp", "fsdp", "tensor"), help=PARALLEL_HELP)
    add("--threads", type=positive_int, metavar="N", help="threads of a worker; default: 1, without slices all cores")
    add("--allow-inexact", action="store_true", help="resume with another number of threads")


def finetune(
    model: str | Path,
    task: str,
    data: str | Path,
    out: str | Path,
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    seeds: int = 1,
    init_from: str | Path | None = None,
    workers: int = 0,
    parallel: Literal["ddp", "fsdp", "tensor"] = "ddp",
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 0,
    keep: int = 1,
    allow_inexact: bool = False,
    baseline: bool = True,
    dry_run: bool = False,
    display: Display | None = None,
) -> TunedResults | FinetunePlan:
    """A pre-trained model and labelled files -> a run folder with a tuned model; the same call again resumes.

    >>> electralab.finetune("run", "classify", "messages.csv", "tuned", settings={"steps": 2}, threads=1).task
    'classify'
    """
    display = open_display(display)
    from electralab.config import config_layers
    from electralab.finetuning import stage
    from electralab.tasks.catalog import find_task

    # Settings stay layers until the task and the size of the model have said their defaults.
    request = stage.FinetuneRequest(
        model=as_model(model),
        task=find_task(task),
        data_dir=Path(data),
        run_dir=Path(out),
        layers=config_layers(config, settings),
        seeds=seeds,
        init_from=as_model(init_from) if init_from else None,
        workers=workers,
        parallel=parallel,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        allow_inexact=allow_inexact,
        has_baselines=baseline,
    )
    if dry_run:
        return stage.plan_finetune(request)
    return display.run(lambda stop: stage.finetune(request, stop))


def run(call: Call) -> None:
    from electralab.records.tuned import FinetunePlan
    from electralab.runtime import find_rank

    flags = call.flags
    result = call.ask(finetune)
    if find_rank()[0] > 0:
        return  # the first rank prints
    if isinstance(result, FinetunePlan):
        call.print_plan(*_format_plan(result, flags.model, flags.data))
    else:
        call.print(*score_blocks(result), *format_folder(flags.out, *result.notes))
        call.print(f"model  {flags.out}/export/model")
    call.answer(result, run=flags.out)


def _format_plan(plan: FinetunePlan, model: str, data: str) -> list[str]:
    from electralab.finetuning.settings import FinetuneConfig
    from electralab.reporting.format import format_effort, format_names, format_number_of

    examples = ", ".join(f"{number:,} {name}" for name, number in plan.examples.items())
    labels = f"; {len(plan.labels)} labels: {format_names(plan.labels, 8)}" if plan.labels else ""
    columns = ", ".join(f"{part} from '{column}'" for part, column in plan.columns.items())
    config = FinetuneConfig.model_validate(plan.settings)
    lines = [
        f"would fine-tune {model} for {plan.task} on {data} into {plan.out}",
        f"examples: {examples}" + (f" ({columns})" if columns else "") + labels,
        f"{format_number_of(plan.seeds, 'seed')} of {format_number_of(plan.steps_per_seed, 'step')}, "
        f"{config.batch.size} rows a step, learning rate {config.optimizer.learning_rate:g}; "
        f"{format_effort(plan.estimated_minutes, plan.estimated_memory_mb)}",
    ]
    if plan.too_long:
        longer = f"longer than a row of {config.sequence_length} tokens"
        lines.append(f"{format_number_of(plan.too_long, 'training example')} {longer}")
    if bad := sum(plan.bad_rows.values()):
        lines.append(f"{format_number_of(bad, 'row')} cannot be used")
    return [*lines, *plan.notes]


def score_blocks(results: TunedResults) -> list[Block]:
    """Scores over the seeds and beside baselines, what was found of each class, and what to know of both."""
    from electralab.reporting.blocks import Paragraph
    from electralab.reporting.run_pages import class_blocks, tuned_score_table

    notes = (Paragraph(note, "warning") for note in results.notes)
    by_class = class_blocks(results.class_report, results.report_split)
    return [tuned_score_table(results, in_points=False), *by_class, *notes]
