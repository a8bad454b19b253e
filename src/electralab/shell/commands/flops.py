"""`electra flops`, `electralab.flops`: what a pre-training run would cost, and what the paper's runs did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, positive, positive_int

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.records.run import CostEstimate, FlopsPlan, PaperTable
    from electralab.reporting.blocks import Block

SUMMARY = "count parameters, FLOPs, memory and time of a pre-training run before it starts"
EXAMPLE = "electra flops --config paper-small --vocab-size 30522 --objective mlm --steps 1450000"
SETTINGS = "electralab.pretraining.settings:PretrainConfig"
CONFIG_HELP = "a preset (tiny, hour, small, base, large, paper-small, …) or a TOML file"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--table", action="store_true", help="compare the published FLOPs of the paper's runs with our count")
    add("--data", metavar="DIR", help="what 'electra prepare' wrote; without it, the next two flags count")
    add("--vocab-size", type=positive_int, metavar="N", help="entries of the vocabulary (8192)")
    add("--sequence-length", type=positive_int, metavar="N", help="tokens per row (128)")
    add("--size", dest=".size", help="sizes of both networks")
    spend = parser.add_mutually_exclusive_group().add_argument
    spend("--steps", type=positive_int, metavar="N", help="count a run of this many steps")
    spend("--tokens", type=positive, metavar="N", help="count a run on this many tokens: 1e7")
    spend("--flops", type=positive, metavar="X", help="count a run of this many operations: 1e14")
    add("--objective", dest=".objective", metavar="NAME", help="as for pretrain")
    add("--procedure", dest=".procedure", metavar="NAME", help="as for pretrain")
    add("--sentence-task", dest=".sentence_task", metavar="NAME", help="as for pretrain")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def flops(
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    data: str | Path | None = None,
    vocab_size: int | None = None,
    sequence_length: int | None = None,
    steps: int | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    table: bool = False,
    threads: int = 0,
    dry_run: bool = False,
) -> CostEstimate | PaperTable | FlopsPlan:
    """What a run would cost: parameters, FLOPs in two conventions, memory, time; `table`: those of the paper.

    >>> electralab.flops(config="tiny", vocab_size=100, sequence_length=16, steps=10).tokens
    1280
    """
    from electralab.config import ConfigLayer
    from electralab.errors import UsageError
    from electralab.pretraining.cost import choose_budget, choose_rows, estimate_cost, paper_runs
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.records.run import Budget, FlopsPlan
    from electralab.runtime import estimate_speed, use_threads

    layers = [*([read_settings(config)] if config else []), ConfigLayer("command line", dict(settings or {}))]
    resolved = resolve_pretrain(layers)
    asked = {"steps": steps, "tokens": tokens, "flops": flops}
    budget = choose_budget("flops", asked, Budget("steps", float(resolved.steps)))  # type: ignore[arg-type]
    if table and (config or settings or any((data, vocab_size, sequence_length, steps, tokens, flops))):
        raise UsageError("flops: --table is of the paper's runs, whatever else is given; give it alone")
    # Before a dry run says that all is well: data that is not there fails it too.
    rows = choose_rows(resolved, data, vocab_size, sequence_length)
    if dry_run:
        return FlopsPlan(settings=resolved.model_dump(mode="json"), budget=str(budget))
    use_threads(threads)
    return paper_runs() if table else estimate_cost(resolved, rows, budget, estimate_speed())


def run(call: Call) -> None:
    from electralab.records.run import PaperTable
    from electralab.reporting.format import tell

    # An answer that takes a second is often piped; only who sits before a terminal is told what it waits for.
    call.display.tell_loading(only_live=True)
    result = call.ask(flops)
    if isinstance(result, PaperTable):
        call.print(paper_block(result))
    elif not call.prints_plan(result):
        call.print(*tell(result), *cost_blocks(result))
    call.answer(result)


def cost_blocks(cost: CostEstimate) -> list[Block]:
    """The networks by their parts, then a step and the run."""
    from electralab.reporting.blocks import Table

    blocks: list[Block] = []
    for title, networks in (("parameters", cost.parameters), ("forward, FLOPs a token", cost.forward)):
        names = list(dict.fromkeys(name for parts in networks.values() for name in parts))
        rows = [[name.replace("_", " "), *(parts.get(name, "") for parts in networks.values())] for name in names]
        rows.append(["together", *(sum(parts.values()) for parts in networks.values())])
        blocks.append(Table(title, ["", *networks], rows))
    # The paper's convention says nothing of some objectives.
    amounts = {"a step": (cost.step_flops, cost.paper_step_flops), "the run": (cost.flops, cost.paper_flops)}
    counted = [
        [f"FLOPs, {what}", f"{ours:.3e}", "not defined" if paper is None else f"{paper:.3e}"]
        for what, (ours, paper) in amounts.items()
    ]
    title = f"{cost.objective}, forward and backward"
    blocks.append(Table(title, ["", "matrix products", "as the paper counts"], counted))
    minutes = cost.estimated_minutes
    hours = f"{minutes / 60:.1f} hours" if minutes < 48 * 60 else f"{minutes / 60 / 24:,.0f} days"
    facts: dict[str, str | int] = {
        "parameters": cost.total_parameters,
        "vocabulary, row length": f"{cost.vocab_size:,}, {cost.sequence_length:,}",
        "steps of rows": f"{cost.steps:,} of {cost.batch_size:,}",
        "tokens": cost.tokens,
        **({"other tasks, FLOPs a token": cost.other} if cost.other else {}),
        "memory, about": f"{cost.memory_bytes / 2**30:.1f} GB",
        "time here, about": f"{minutes:.1f} minutes" if minutes < 120 else hours,
    }
    return [*blocks, Table("the run", ["", ""], [*map(list, facts.items())])]


def paper_block(table: PaperTable) -> Block:
    from electralab.reporting.blocks import Table

    rows = []
    for name, paper in table.runs.items():
        counted = [f"{paper.paper_flops:.3e}", f"{paper.published_flops:.2e}", f"{paper.ratio:.4f}"]
        rows.append([name, f"{paper.parameters / 1e6:.1f}M", *counted, f"{paper.flops:.3e}"])
    title = "total training FLOPs of the paper's runs, counted as the paper does; and as we do"
    return Table(title, ["", "parameters", "counted", "published", "ratio", "our FLOPs"], rows)
