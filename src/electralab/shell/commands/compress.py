"""`electra compress`, `electralab.compress`: smaller and faster variants of a model, measured side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import (
    Call,
    Parser,
    as_model,
    count,
    names,
    number,
    open_display,
    positive,
    positive_int,
    shares,
)
from electralab.shell.commands.pretrain import format_folder

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.compression import CompressPlan, Tradeoff

SUMMARY = "make smaller and faster variants of a model and measure them; the same command resumes"
EXAMPLE = "electra compress runs/reviews --data reviews/ --out compressed/ --prune 0.3,0.5 --max-loss 1"
SETTINGS = "electralab.compression.settings:CompressConfig"

_RECOVERY = "training steps after pruning; 0 for none"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or model folder: a tuned model, or a pre-trained pair")
    add(
        "--data",
        required=True,
        metavar="PATH",
        help="for a tuned model the files of its task; else prepared data or text",
    )
    add("--out", required=True, metavar="DIR", help="the folder of the variants")
    add("--storage", dest=".storage", type=names, metavar="NAME,NAME", help="fp16, bf16; fp32 for neither (both)")
    add("--prune", dest=".prune", type=shares, metavar="P,P", help="shares of heads and neurons to remove")
    add("--no-prune", dest=".prune", action="store_const", const=[], help="do not prune")
    add(
        "--drop-layers",
        dest=".drop_layers",
        type=count,
        metavar="N",
        help="number of layers to remove from pruned models",
    )
    add("--recovery-steps", dest=".recovery.steps", type=count, metavar="N", help=_RECOVERY)
    add("--graphs", dest=".graphs", type=names, metavar="NAME,NAME", help="onnx, onnx-dynamic-int8, onnx-static-int8")
    add("--target-speedup", type=positive, metavar="X", help="pick the best variant that is X times as fast")
    add("--max-loss", type=number, metavar="X", help="pick the fastest variant that loses at most X points")
    add("--license", metavar="NAME", help="license of the weights: apache-2.0, mit, …, or a file")
    add("--generator", metavar="MODEL", help="for a pair: the fixed generator that replaces tokens")
    add("--task", metavar="NAME", help="the task of a tuned model, if its folder does not say")
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed of recovery training")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def compress(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    generator: str | Path | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: GivenSettings | None = None,
    target_speedup: float | None = None,
    max_loss: float | None = None,
    license: str = "",
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Tradeoff | CompressPlan:
    """Smaller and faster variants of a model, and what each costs; the same call again goes on.

    With `target_speedup` or `max_loss` one of them becomes the model of `out`; "picked" is None where none fits.

    >>> electralab.compress("run", "data", "small", dry_run=True).metric
    'auc'
    """
    display = open_display(display)
    from electralab.compression import stage
    from electralab.compression.settings import CompressConfig, CompressRequest
    from electralab.config import config_layers, resolve

    request = CompressRequest(
        model=as_model(model),
        data=Path(data),
        out=Path(out),
        config=resolve(CompressConfig, (stage.saved_reading_config(as_model(model)), *config_layers(config, settings))),
        generator=as_model(generator) if generator else None,
        task=task,
        target_speedup=target_speedup,
        max_loss=max_loss,
        license=license,
        threads=threads,
    )
    return stage.plan_compress(request) if dry_run else display.run(lambda stop: stage.compress(request, stop))


def run(call: Call) -> None:
    from electralab.errors import InputError
    from electralab.reporting.study_page import tradeoff_blocks

    result, out = call.ask(compress), call.flags.out
    if call.prints_plan(result):
        call.answer(result)
        return
    call.print(*tradeoff_blocks(result), *format_folder(out), f"report  {out}/report.md")
    if result.picked is not None:
        call.print(f"model  {out}, the variant {result.picked}")
    call.answer(result, out=out)
    # The table is there all the same: what was asked for does not exist, and scripts must not go on without it.
    if result.picked is None and (result.asked.target_speedup is not None or result.asked.max_loss is not None):
        fastest = max(result.variants, key=lambda point: point.speedup)
        best = min(result.variants[1:] or result.variants, key=lambda point: point.loss)
        raise InputError(
            f"{out}: no variant is as was asked; the fastest is {fastest.name} ({fastest.speedup:.2f}×, "
            f"{fastest.loss:+.2f} points lost), the best {best.name} ({best.speedup:.2f}×, {best.loss:+.2f}); "
            "ask for less, or add variants with --prune and --graphs"
        )
