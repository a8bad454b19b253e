"""`electra flops`: what a pre-training run would cost, and what the paper's runs did."""

from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.parser import Parser, positive, positive_int

if TYPE_CHECKING:
    from electralab.records.run import CostEstimate, FlopsPlan, PaperTable
    from electralab.reporting.blocks import Block
    from electralab.shell.call import Call

SUMMARY = "count the parameters, FLOPs, memory and time of a pre-training run that was not started"
EXAMPLE = "electra flops --config paper-small --vocab-size 30522 --objective mlm --steps 1450000"
FUNCTION = api.flops
SETTINGS = "electralab.pretraining.settings:PretrainConfig"
CONFIG_HELP = "a preset (tiny, small, base, large, paper-small, …) or a TOML file"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--table", action="store_true", help="the runs of the paper, as published and as counted here")
    add("--data", metavar="DIR", help="what 'electra prepare' wrote; or, without any,")
    add("--vocab-size", type=positive_int, metavar="N", help="entries of the vocabulary (8192)")
    add("--sequence-length", type=positive_int, metavar="N", help="tokens per row (128)")
    add("--size", dest=".size", help="sizes of both networks")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=positive_int, metavar="N", help="count a run of this many steps")
    budget.add_argument("--tokens", type=positive, metavar="N", help="count a run on this many tokens: 1e7")
    budget.add_argument("--flops", type=positive, metavar="X", help="count a run of this many operations: 1e14")
    add("--objective", dest=".objective", metavar="NAME", help="what is learned, as named by pretrain")
    add("--procedure", dest=".procedure", metavar="NAME", help="how two networks are trained, as named by pretrain")
    add("--sentence-task", dest=".sentence_task", metavar="NAME", help="a task about sentences, as named by pretrain")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


def run(call: "Call") -> "CostEstimate | PaperTable | FlopsPlan":
    from electralab.records.run import CostEstimate, FlopsPlan

    flags = call.flags
    call.display.tell_loading(only_live=True)
    result = api.flops(
        config=flags.config,
        settings=call.settings,
        data=flags.data,
        vocab_size=flags.vocab_size,
        sequence_length=flags.sequence_length,
        steps=flags.steps,
        tokens=flags.tokens,
        flops=flags.flops,
        table=flags.table,
        threads=flags.threads,
        dry_run=flags.dry_run,
    )
    if isinstance(result, FlopsPlan):
        objective, size = result.settings["objective"], result.settings["size"]
        call.print_plan([f"would count {objective} of size {size} with the budget {result.budget}"])
    elif isinstance(result, CostEstimate):
        call.print(*cost_blocks(result))
    else:
        call.print(paper_block(result))
    return result


def cost_blocks(cost: "CostEstimate") -> list["Block"]:
    """A sentence, the networks by their parts, then a step and the run."""
    from electralab.reporting.blocks import Paragraph, Table
    from electralab.reporting.format import format_bytes, format_count, format_flops, format_number_of, format_time

    blocks: list[Block] = [
        Paragraph(
            f"{cost.objective}: {format_count(cost.total_parameters)} parameters; "
            f"{format_number_of(cost.steps, 'step')} of {format_number_of(cost.batch_size, 'row')} are "
            f"{format_count(cost.tokens)} tokens and {format_flops(cost.flops)} FLOPs; "
            f"here {format_time(cost.estimated_minutes)}, {format_bytes(cost.memory_bytes)} of memory"
        )
    ]
    for title, networks in (("parameters", cost.parameters), ("forward, FLOPs a token", cost.forward)):
        names = list(dict.fromkeys(name for parts in networks.values() for name in parts))
        rows = [[name.replace("_", " "), *(parts.get(name, "") for parts in networks.values())] for name in names]
        rows.append(["together", *(sum(parts.values()) for parts in networks.values())])
        blocks.append(Table(title, ["", *networks], rows))
    by_paper = [
        "not defined" if flops is None else f"{flops:.3e}" for flops in (cost.paper_step_flops, cost.paper_flops)
    ]
    rows = [
        ["FLOPs, a step", f"{cost.step_flops:.3e}", by_paper[0]],
        ["FLOPs, the run", f"{cost.flops:.3e}", by_paper[1]],
    ]
    blocks.append(
        Table(f"{cost.objective}, forward and backward", ["", "matrix products", "as the paper counts"], rows)
    )
    minutes = cost.estimated_minutes
    hours = f"{minutes / 60:.1f} hours" if minutes < 48 * 60 else f"{minutes / 60 / 24:,.0f} days"
    facts: list[list[str | int]] = [
        ["parameters", cost.total_parameters],
        ["vocabulary, row length", f"{cost.vocab_size:,}, {cost.sequence_length:,}"],
        ["steps of rows", f"{cost.steps:,} of {cost.batch_size:,}"],
        ["tokens", cost.tokens],
        ["memory, about", f"{cost.memory_bytes / 2**30:.1f} GB"],
        ["time here, about", f"{minutes:.1f} minutes" if minutes < 120 else hours],
    ]
    if cost.other:
        facts.insert(4, ["other tasks, FLOPs a token", cost.other])
    return [*blocks, Table("the run", ["", ""], facts)]


def paper_block(table: "PaperTable") -> "Block":
    from electralab.reporting.blocks import Table

    rows = [
        [
            name,
            f"{paper.parameters / 1e6:.1f}M",
            f"{paper.paper_flops:.3e}",
            f"{paper.published_flops:.2e}",
            f"{paper.ratio:.4f}",
            f"{paper.flops:.3e}",
        ]
        for name, paper in table.runs.items()
    ]
    title = "total training FLOPs of the paper's runs, counted as the paper does; and as we do"
    return Table(title, ["", "parameters", "counted", "published", "ratio", "our FLOPs"], rows)
