"""`electra pretrain`, `electralab.pretrain`: prepared data -> a run folder with a generator and a discriminator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electralab.shell.call import Call, Parser, as_model, as_path, count, open_display, positive, positive_int, shares

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.run import PretrainPlan, PretrainResults
    from electralab.reporting.blocks import Block

SUMMARY = "pre-train a model on prepared text; the same command resumes"
EXAMPLE = "electra pretrain --data data/mine --out runs/mine --config tiny --minutes 10 --masking.mask-share 0.2"
SETTINGS = "electralab.pretraining.settings:PretrainConfig"
RUNS_ON_RANKS = True
CONFIG_HELP = "a preset (tiny, hour, small, base, large, paper-small, …) or a TOML file"

_DAY = 24 * 60.0
_MINUTES = "train for M minutes, export included: the run watches the clock"
_CLOCK = (
    "the number of steps is a guess: the run watches the clock, and counts anew every 2 % of its minutes; the learning "
    "rate and all else that changes along a run bend with it"
)
_OBJECTIVE = "{choices}; or as published: roberta, albert, gpt, xlnet"
PARALLEL_HELP = (
    "under torchrun, a rank has: ddp all of the networks, fsdp a shard, tensor heads and columns of each layer"
)
_PROCEDURE = "how two networks are trained: {choices}"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--data", required=True, metavar="DIR", help="what 'electra prepare' wrote: a folder, or its URL")
    add("--cache-gb", type=positive, metavar="G", help="disk space for data that is read from a URL")
    add("--out", required=True, metavar="RUN", help="the run folder")
    add("--size", dest=".size", help="sizes of both networks")
    # A run ends where its budget does, so it has one.
    spend = parser.add_mutually_exclusive_group().add_argument
    spend("--steps", type=positive_int, metavar="N", help="train for this many steps")
    spend("--tokens", type=positive, metavar="N", help="train on this many tokens: 1e7")
    spend("--flops", type=positive, metavar="X", help="train for this many floating-point operations: 1e14")
    spend("--minutes", type=positive, metavar="M", help=_MINUTES)
    add("--min-steps", type=positive_int, metavar="N", help="with --minutes: take at least N steps; default: none")
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed of weights, masks and samples")
    add("--save-every", type=count, metavar="N", help="steps between checkpoints")
    add("--log-every", type=count, metavar="N", help="steps between log lines")
    add("--keep", type=positive_int, metavar="N", help="checkpoints to keep")
    add("--snapshots", type=shares, metavar="P,P", help="also export after these shares of the run: 0.25,0.5")
    add("--workers", type=positive_int, metavar="N", help="processes that share a step; default: one for each core")
    add("--parallel", choices=("ddp", "fsdp", "tensor"), help=PARALLEL_HELP)
    add(
        "--sharded-checkpoints",
        action="store_true",
        help="under torchrun, let each rank write its share of the moments",
    )
    add("--threads", type=positive_int, metavar="N", help="threads of a worker; default: 1, without slices all cores")
    add("--objective", dest=".objective", metavar="NAME", help=_OBJECTIVE)
    add("--procedure", dest=".procedure", metavar="NAME", help=_PROCEDURE)
    add("--sentence-task", dest=".sentence_task", metavar="NAME", help="for mlm and bert: {choices}")
    add("--init-from", metavar="DIR", help="start new training from this model's weights")
    add("--init-generator", metavar="DIR", help="start the generator from this model")
    add("--match-tokens", action="store_true", help="if the tokenizer differs, keep the tokens that both have")
    add("--branch-from", metavar="DIR", help="continue this checkpoint of another run with a new schedule")
    add("--extend", action="store_true", help="train a finished run further, with a larger budget")
    add("--allow-inexact", action="store_true", help="resume with another number of threads")


def pretrain(
    data: str | Path,
    out: str | Path,
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    steps: int | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    minutes: float | None = None,
    min_steps: int = 0,
    init_from: str | Path | None = None,
    init_generator: str | Path | None = None,
    match_tokens: bool = False,
    branch_from: str | Path | None = None,
    workers: int = 0,
    parallel: Literal["ddp", "fsdp", "tensor"] = "ddp",
    sharded_checkpoints: bool = False,
    threads: int = 0,
    cache_gb: float = 20.0,
    save_every: int = 500,
    log_every: int = 20,
    keep: int = 2,
    snapshots: Sequence[float] = (),
    extend: bool = False,
    allow_inexact: bool = False,
    dry_run: bool = False,
    display: Display | None = None,
) -> PretrainResults | PretrainPlan:
    """Prepared data -> a run folder; the same call again resumes, and on a finished run returns its results.

    >>> results = electralab.pretrain("data", "run", config="tiny", steps=2, threads=1)
    >>> results.step, sorted(results.heldout)[:2]
    (2, ['auc', 'auc_middling'])
    """
    display = open_display(display)
    from electralab.config import ConfigLayer
    from electralab.errors import UsageError
    from electralab.locations import find_folder
    from electralab.pretraining import stage
    from electralab.pretraining.cost import choose_budget
    from electralab.pretraining.settings import read_settings, settle_settings
    from electralab.pretraining.warm_start import find_max_positions
    from electralab.records.run import Budget

    # Not `settle`: the choice of an objective brings along settings of its own, and a run that is resumed those it has.
    layers = [*([read_settings(config)] if config else []), ConfigLayer("command line", dict(settings or {}))]
    origin = as_model(init_from) if init_from else None
    settled = settle_settings(layers, Path(out), find_max_positions(origin) if origin else 0)
    if min_steps and minutes is None:
        raise UsageError("--min-steps: goes with --minutes, the budget that says how long; give that, or leave it out")
    asked = {"steps": steps, "tokens": tokens, "flops": flops, "minutes": minutes}
    request = stage.PretrainRequest(
        data_dir=find_folder(data, cache_gb, display.say),
        run_dir=Path(out),
        config=settled.config,
        budget=choose_budget("pretrain", asked, Budget("steps", float(settled.config.steps))),  # type: ignore[arg-type]
        init_from=origin,
        workers=workers,
        parallel=parallel,
        sharded_checkpoints=sharded_checkpoints,
        threads=threads,
        save_every=save_every,
        log_every=log_every,
        keep=keep,
        extend=extend,
        allow_inexact=allow_inexact,
        snapshots=tuple(snapshots),
        init_generator=as_model(init_generator) if init_generator else None,
        match_tokens=match_tokens,
        branch_from=as_path(branch_from),
        preset=settled.preset,
        min_steps=min_steps,
        notes=settled.notes,
    )
    if dry_run:
        return stage.plan_pretrain(request)
    return display.run(lambda stop: stage.pretrain(request, stop))


def run(call: Call) -> None:
    from electralab.records.run import PretrainPlan
    from electralab.reporting import format as f
    from electralab.runtime import find_rank

    flags = call.flags
    result = call.ask(pretrain)
    if find_rank()[0] > 0:
        return  # the first rank prints
    if isinstance(result, PretrainPlan):
        objective, procedure, size = (result.settings[name] for name in ("objective", "procedure", "size"))
        begins = f"would go on at step {result.resumes_at:,}" if result.resumes_at > 1 else "would begin at step 1"
        call.print_plan(
            f"would pre-train {flags.out} on {flags.data}: {objective}"
            f"{'' if procedure == 'joint' else f', {procedure}'}, size {size}, "
            f"{f.format_count(result.parameters)} parameters",
            f"{f.format_number_of(result.steps, 'step')} of {f.format_number_of(result.batch_size, 'row')}: "
            f"{f.format_count(result.tokens)} tokens, {result.epochs:g} times through "
            f"{f.format_number_of(result.rows, 'row')}, {f.format_flops(result.flops)} FLOPs; "
            f"{f.format_effort(result.estimated_minutes, result.estimated_memory_mb)}",
            *([_CLOCK] if flags.minutes else []),
            *([result.expected] if result.expected else []),
            begins if result.resumes_at <= result.steps else "every step is taken already",
            *([_point_to_plan(call, result)] if result.estimated_minutes > _DAY else []),
        )
    else:
        # Which networks there are is up to the objective.
        folders = sorted(path.parent for path in Path(flags.out).glob("export/*/config.json"))
        call.print(*result_blocks(result), *format_folder(flags.out, result.verdict.text if result.verdict else ""))
        call.print(f"export  {', '.join(map(str, folders))}")
    call.answer(result, run=flags.out)


def _point_to_plan(call: Call, planned: PretrainPlan) -> str:
    import shlex

    from electralab.runtime import name_command

    # The flags that both verbs have, and settings as they were given.
    given = {"--config": "config", "--data": "data", "--size": ".size", "--objective": ".objective"}
    given |= {"--procedure": ".procedure", "--sentence-task": ".sentence_task"}
    flags = {flag: getattr(call.flags, dest) for flag, dest in given.items()} | {"--steps": str(planned.steps)}
    words = [word for flag, value in flags.items() if value for word in (flag, value)]
    return f"that is more than a day here; on other devices: {name_command()} plan {shlex.join([*words, *call.dotted])}"


def result_blocks(results: PretrainResults) -> list[Block]:
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
