"""`electra glue`, `electralab.glue`: a model tuned and scored on every task of GLUE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electralab.shell.call import Call, Parser, as_model, names, open_display
from electralab.shell.commands.finetune import add_tuning_flags
from electralab.shell.commands.pretrain import format_folder

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.tuned import GluePlan, GlueResults

SUMMARY = "fine-tune and score a model on every task of GLUE; the same command resumes"
EXAMPLE = "electra glue runs/mine --data glue/ --tasks cola,sst2,rte --seeds 3 --out runs/mine-glue"
SETTINGS = "electralab.finetuning.settings:FinetuneConfig"
RUNS_ON_RANKS = True


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run, a model folder of ours or of Hugging Face, or hour-en")
    add("--data", required=True, metavar="DIR", help="the GLUE folder, with CoLA/, SST-2/, … in it")
    add("--tasks", type=names, metavar="NAME,NAME", help="default: every task whose files are there, except WNLI")
    add_tuning_flags(parser)


def glue(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    tasks: Sequence[str] = (),
    config: str | None = None,
    settings: GivenSettings | None = None,
    seeds: int = 1,
    workers: int = 0,
    parallel: Literal["ddp", "fsdp", "tensor"] = "ddp",
    threads: int = 0,
    save_every: int = 500,
    log_every: int = 0,
    allow_inexact: bool = False,
    baseline: bool = True,
    dry_run: bool = False,
    display: Display | None = None,
) -> GlueResults | GluePlan:
    """A model tuned on every task of GLUE, and the scores as one table; the same call again goes on.

    >>> electralab.glue("run", "glue", "runs/glue", tasks=["cola"], dry_run=True).tasks["cola"].labels
    ('0', '1')
    """
    display = open_display(display)
    from dataclasses import replace

    from electralab.config import config_layers
    from electralab.finetuning.glue import choose_tasks, run_suite
    from electralab.finetuning.stage import FinetuneRequest, plan_finetune
    from electralab.records.tuned import GluePlan

    chosen = choose_tasks(Path(data), tasks)
    # One request for all tasks: the suite changes task and folder. Checkpoints of a finished task are not kept.
    request = FinetuneRequest(
        model=as_model(model),
        task=chosen[0],
        data_dir=Path(data),
        run_dir=Path(out),
        layers=config_layers(config, settings),
        seeds=seeds,
        init_from=None,
        workers=workers,
        parallel=parallel,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=0,
        allow_inexact=allow_inexact,
        has_baselines=baseline,
    )
    if dry_run:
        requests = {task.name: replace(request, task=task, run_dir=Path(out) / task.name) for task in chosen}
        return GluePlan(tasks={name: plan_finetune(task_request) for name, task_request in requests.items()})
    return display.run(lambda stop: run_suite(request, chosen, stop))


def run(call: Call) -> None:
    from electralab.reporting.study_page import glue_blocks
    from electralab.runtime import find_rank

    result, out = call.ask(glue), call.flags.out
    if find_rank()[0] > 0:
        return  # the first rank prints
    if not call.prints_plan(result):
        call.print(*glue_blocks(result), *format_folder(out))
    call.answer(result, run=out)
