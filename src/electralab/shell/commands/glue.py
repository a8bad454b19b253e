"""`electra glue`, `electralab.glue`: a model tuned and scored on every task of GLUE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, open_display
from electralab.shell.commands.finetune import add_tuning_flags
from electralab.shell.commands.pretrain import format_folder
from electralab.shell.parser import Parser, names

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.tuned import GluePlan, GlueResults

SUMMARY = "tune and score a model on every task of GLUE; the same command again goes on"
EXAMPLE = "electra glue runs/mine --data glue/ --tasks cola,sst2,rte --seeds 3 --out runs/mine-glue"
SETTINGS = "electralab.finetuning.settings:FinetuneConfig"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    add("--data", required=True, metavar="DIR", help="the GLUE folder, with CoLA/, SST-2/, … in it")
    add("--tasks", type=names, metavar="NAME,NAME", help="default: every task whose files are there, but WNLI")
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
        model=Path(model),
        task=chosen[0],
        data_dir=Path(data),
        run_dir=Path(out),
        layers=config_layers(config, settings),
        seeds=seeds,
        init_from=None,
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
    from electralab.records.tuned import GluePlan
    from electralab.reporting.format import format_number_of, format_time
    from electralab.reporting.study_page import glue_blocks

    flags = call.flags
    result = glue(
        flags.model,
        flags.data,
        flags.out,
        tasks=flags.tasks,
        seeds=flags.seeds,
        threads=flags.threads,
        save_every=flags.save_every,
        log_every=flags.log_every,
        allow_inexact=flags.allow_inexact,
        baseline=flags.baseline,
        **call.common,
    )
    if isinstance(result, GluePlan):
        tasks, minutes = result.tasks, sum(plan.estimated_minutes for plan in result.tasks.values())
        whole = f"{format_number_of(len(tasks), 'task')} of GLUE into {flags.out}; {format_time(minutes)}"
        call.print_plan(
            f"would fine-tune {flags.model} for {whole}",
            *(
                f"{name}: {plan.examples['train']:,} training examples, {format_number_of(plan.seeds, 'seed')} of "
                f"{format_number_of(plan.steps_per_seed, 'step')}, {format_time(plan.estimated_minutes)}"
                for name, plan in tasks.items()
            ),
        )
    else:
        call.print(*glue_blocks(result), *format_folder(flags.out))
    call.answer(result, run=flags.out)
