"""`electra pretrain`: prepared data -> a run folder with a generator and a discriminator."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab import api
from electralab.shell.parser import Parser, count, positive, positive_int, shares

if TYPE_CHECKING:
    from electralab.records.run import PretrainPlan, PretrainResults
    from electralab.reporting.blocks import Block
    from electralab.shell.call import Call

SUMMARY = "train a generator and a discriminator; the same command again resumes"
EXAMPLE = "electra pretrain --data data/mine --out runs/mine --config tiny --minutes 10 --masking.mask-share 0.2"
FUNCTION = api.pretrain
SETTINGS = "electralab.pretraining.settings:PretrainConfig"
CONFIG_HELP = "a preset (tiny, small, base, large, paper-small, …) or a TOML file"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--data", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    add("--out", required=True, metavar="RUN", help="the run folder")
    add("--size", dest=".size", help="sizes of both networks")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=positive_int, metavar="N", help="train for this many steps")
    budget.add_argument("--tokens", type=positive, metavar="N", help="train on this many tokens: 1e7")
    budget.add_argument(
        "--flops", type=positive, metavar="X", help="train for this many floating-point operations: 1e14"
    )
    budget.add_argument(
        "--minutes",
        type=positive,
        metavar="M",
        help="train for about this long; turned into steps by a short probe, once",
    )
    add("--seed", dest=".seed", type=int, metavar="S", help="of first weights, masks and all else that is random")
    add("--save-every", type=count, metavar="N", help="steps between checkpoints")
    add("--log-every", type=count, metavar="N", help="steps between log lines")
    add("--keep", type=positive_int, metavar="N", help="checkpoints to keep")
    add("--snapshots", type=shares, metavar="P,P", help="export at these shares of the run too: 0.25,0.5")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")
    add(
        "--objective",
        dest=".objective",
        metavar="NAME",
        help="{choices}; or as published: roberta, albert, gpt, xlnet",
    )
    add(
        "--procedure",
        dest=".procedure",
        metavar="NAME",
        help="how two networks are trained: {choices}",
    )
    add(
        "--sentence-task",
        dest=".sentence_task",
        metavar="NAME",
        help="of mlm and bert: {choices}",
    )
    add("--init-from", metavar="DIR", help="start new training from this model's weights")
    add("--init-generator", metavar="DIR", help="start the generator from this one, and the rest from --init-from")
    add("--match-tokens", action="store_true", help="with another tokenizer, start with the tokens that both have")
    add("--branch-from", metavar="DIR", help="go on from this checkpoint of another run, with this run's schedule")
    add("--extend", action="store_true", help="go on with a larger budget")
    add("--allow-inexact", action="store_true", help="resume with another number of threads")


def run(call: "Call") -> dict[str, Any]:
    from electralab.records.run import PretrainPlan

    flags = call.flags
    result = api.pretrain(
        flags.data,
        flags.out,
        config=flags.config,
        settings=call.settings,
        steps=flags.steps,
        tokens=flags.tokens,
        flops=flags.flops,
        minutes=flags.minutes,
        init_from=flags.init_from,
        init_generator=flags.init_generator,
        match_tokens=flags.match_tokens,
        branch_from=flags.branch_from,
        threads=flags.threads,
        save_every=flags.save_every,
        log_every=flags.log_every,
        keep=flags.keep,
        snapshots=flags.snapshots,
        extend=flags.extend,
        allow_inexact=flags.allow_inexact,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, PretrainPlan):
        call.print_plan(format_plan(result, flags.data, flags.out))
    else:
        call.print(*result_blocks(result))
        call.print_lines(format_folder(flags.out, result.verdict.text if result.verdict else ""))
        folders = sorted(path.parent for path in Path(flags.out).glob("export/*/config.json"))
        call.print_lines([f"export  {', '.join(map(str, folders))}"])
    return {"run": flags.out, **result.to_json()}


def format_plan(plan: "PretrainPlan", data: str, out: str) -> list[str]:
    from electralab.reporting.format import format_count, format_effort, format_flops, format_number_of

    objective, procedure, size, batch = (plan.settings[name] for name in ("objective", "procedure", "size", "batch"))
    if plan.resumes_at > plan.steps:
        begins = "every step is taken already"
    else:
        begins = f"would go on at step {plan.resumes_at:,}" if plan.resumes_at > 1 else "would begin at step 1"
    return [
        f"would pre-train {out} on {data}: {objective}{'' if procedure == 'joint' else f', {procedure}'}, "
        f"size {size}, {format_count(plan.parameters)} parameters",
        f"{format_number_of(plan.steps, 'step')} of {format_number_of(batch['size'], 'row')}: "
        f"{format_count(plan.tokens)} tokens, {plan.epochs:g} times through {format_number_of(plan.rows, 'row')}, "
        f"{format_flops(plan.flops)} FLOPs; {format_effort(plan.estimated_minutes, plan.estimated_memory_mb)}",
        begins,
    ]


def result_blocks(results: "PretrainResults") -> list["Block"]:
    """Held-out scores, each beside what knowing only frequencies achieves, and what the run was warned of."""
    from electralab.reporting.blocks import Paragraph, Table
    from electralab.reporting.cards import describe_scores

    rows = [[line.name, line.value, line.baseline, line.meaning] for line in describe_scores(results)]
    title = f"held out, after {results.step:,} steps and {results.tokens:,} tokens"
    conclusions = [f"verdict: {results.verdict.text}"] if results.verdict else []
    conclusions += [f"warned at step {warning.step}: {warning.text}" for warning in results.warnings]
    return [Table(title, ["", "model", "baseline", "baseline is"], rows), *map(Paragraph, conclusions)]


def format_folder(path: str, *printed: str) -> list[str]:
    """A run, study, trade-off or analysis in the words of its page, without what was printed already."""
    from electralab.reporting.artifact import read_artifact
    from electralab.reporting.page import summarise

    def bare(text: str) -> str:
        return text.lower().removeprefix("verdict: ").rstrip(".")

    known = set(map(bare, printed))
    return [line for line in summarise(read_artifact(Path(path))) if bare(line) not in known]
