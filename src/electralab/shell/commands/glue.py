"""`electra glue`: a model tuned and scored on every task of GLUE."""

from typing import TYPE_CHECKING, Any

from electralab import api
from electralab.shell.commands.finetune import add_tuning_flags
from electralab.shell.parser import Parser, names

if TYPE_CHECKING:
    from electralab.records.tuned import GluePlan
    from electralab.shell.call import Call

SUMMARY = "tune and score a model on every task of GLUE; the same command again goes on"
EXAMPLE = "electra glue runs/mine --data glue/ --tasks cola,sst2,rte --seeds 3 --out runs/mine-glue"
FUNCTION = api.glue
SETTINGS = "electralab.finetuning.settings:FinetuneConfig"
CONFIG_HELP = "a TOML file of settings"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    add("--data", required=True, metavar="DIR", help="the GLUE folder, with CoLA/, SST-2/, … in it")
    add("--tasks", type=names, metavar="NAME,NAME", help="default: every task whose files are there, but WNLI")
    add_tuning_flags(parser)


def run(call: "Call") -> dict[str, Any]:
    from electralab.records.tuned import GluePlan
    from electralab.reporting.study_page import glue_blocks
    from electralab.shell.commands.pretrain import format_folder

    flags = call.flags
    result = api.glue(
        flags.model,
        flags.data,
        flags.out,
        tasks=flags.tasks,
        config=flags.config,
        settings=call.settings,
        seeds=flags.seeds,
        threads=flags.threads,
        save_every=flags.save_every,
        log_every=flags.log_every,
        allow_inexact=flags.allow_inexact,
        baseline=flags.baseline,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, GluePlan):
        call.print_plan(format_plan(result, flags.model, flags.out))
    else:
        call.print(*glue_blocks(result))
        call.print_lines(format_folder(flags.out))
    return {"run": flags.out, **result.to_json()}


def format_plan(plan: "GluePlan", model: str, out: str) -> list[str]:
    from electralab.reporting.format import format_number_of, format_time

    minutes = sum(task.estimated_minutes for task in plan.tasks.values())
    number = format_number_of(len(plan.tasks), "task")
    return [
        f"would fine-tune {model} for {number} of GLUE into {out}; {format_time(minutes)}",
        *(
            f"{name}: {task.examples['train']:,} training examples, {format_number_of(task.seeds, 'seed')} of "
            f"{format_number_of(task.steps_per_seed, 'step')}, {format_time(task.estimated_minutes)}"
            for name, task in plan.tasks.items()
        ),
    ]
