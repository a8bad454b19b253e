"""`electra plan`, `electralab.plan`: what a pre-training run would take on devices that are not here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, positive, positive_int

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.records.plan import ModePlan, PlanRequest, RunPlan
    from electralab.reporting.blocks import Block

SUMMARY = "plan a pre-training run on many devices: memory by mode, time, cost, communication"
EXAMPLE = "electra plan --config base --data-tokens 30e9 --devices 8 --device h100 --runtime.precision bf16"
SETTINGS = "electralab.pretraining.settings:PretrainConfig"
CONFIG_HELP = "a preset (tiny, hour, small, base, large, paper-small, …) or a TOML file"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    spend = parser.add_mutually_exclusive_group().add_argument
    spend("--data-tokens", type=positive, metavar="N", help="tokens to train on: 30e9; default: the steps of --config")
    spend("--steps", type=positive_int, metavar="N", help="plan a run of this many steps")
    add("--devices", type=positive_int, metavar="N", help="how many")
    add("--device", metavar="NAME", help="a100, h100, or here: a core of this machine")
    add("--device-tflops", type=positive, metavar="X", help="its peak; default: of that device in the run's precision")
    add("--utilisation", type=positive, metavar="P", help="the part of the peak that training reaches: 0.35")
    add("--device-memory-gb", type=positive, metavar="X", help="its memory")
    add("--bandwidth", type=positive, metavar="X", help="GB/s to another device of its host")
    add("--network-bandwidth", type=positive, metavar="X", help="GB/s to a device of another host")
    add("--latency-us", type=positive, metavar="X", help="microseconds of a message")
    add("--devices-per-host", type=positive_int, metavar="N", help="how many share a host")
    add("--price-per-hour", type=positive, metavar="X", help="of one device, in any currency")
    add("--data", metavar="DIR", help="what 'electra prepare' wrote; or, without any,")
    add("--vocab-size", type=positive_int, metavar="N", help="entries of the vocabulary (8192)")
    add("--sequence-length", type=positive_int, metavar="N", help="tokens per row (128)")
    add("--size", dest=".size", help="sizes of both networks")
    add("--objective", dest=".objective", metavar="NAME", help="what is learned, as named by pretrain")
    add("--procedure", dest=".procedure", metavar="NAME", help="how two networks are trained, as named by pretrain")
    add("--sentence-task", dest=".sentence_task", metavar="NAME", help="a task about sentences, as named by pretrain")


def plan(
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    data_tokens: float | None = None,
    steps: int | None = None,
    devices: int = 8,
    device: str = "a100",
    device_tflops: float | None = None,
    utilisation: float | None = None,
    device_memory_gb: float | None = None,
    bandwidth: float | None = None,
    network_bandwidth: float | None = None,
    latency_us: float | None = None,
    devices_per_host: int | None = None,
    price_per_hour: float | None = None,
    data: str | Path | None = None,
    vocab_size: int | None = None,
    sequence_length: int | None = None,
    dry_run: bool = False,
) -> RunPlan | PlanRequest:
    """What a run would take on so many devices, by mode (ddp, fsdp, tensor), and on 1 to 4,096 of them.

    >>> planned = electralab.plan(config="tiny", data_tokens=1e9, devices=4)
    >>> planned.chosen, [(mode.mode, mode.fits) for mode in planned.modes]
    ('ddp', [('ddp', True), ('fsdp', True), ('tensor', False)])
    """
    from electralab.config import ConfigLayer
    from electralab.errors import UsageError
    from electralab.pretraining.cost import choose_budget, choose_rows
    from electralab.pretraining.plan import DEVICES, describe_device, plan_run
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.records.plan import PlanRequest
    from electralab.records.run import Budget

    layers = [*([read_settings(config)] if config else []), ConfigLayer("command line", dict(settings or {}))]
    resolved = resolve_pretrain(layers)
    asked = {"tokens": data_tokens, "steps": steps}
    budget = choose_budget("plan", asked, Budget("steps", float(resolved.steps)))  # type: ignore[arg-type]
    if device not in DEVICES:
        raise UsageError(f"plan: --device is one of {', '.join(DEVICES)}, got {device!r}; for another give its figures")
    rows = choose_rows(resolved, data, vocab_size, sequence_length)
    known = {
        **{"tflops": device_tflops, "utilisation": utilisation, "memory_gb": device_memory_gb, "bandwidth": bandwidth},
        **{"network_bandwidth": network_bandwidth, "latency_us": latency_us, "per_host": devices_per_host},
        "price_per_hour": price_per_hour,
    }
    spec = describe_device(device, resolved.runtime.precision)
    spec = spec.model_copy(update={name: value for name, value in known.items() if value is not None})
    if dry_run:
        return PlanRequest(settings=resolved.model_dump(mode="json"), device=spec, budget=str(budget))
    return plan_run(resolved, rows, budget, spec, devices)


def run(call: Call) -> None:
    from electralab.records.plan import PlanRequest

    call.display.tell_loading(only_live=True)
    result = call.ask(plan)
    if isinstance(result, PlanRequest):
        objective, size = result.settings["objective"], result.settings["size"]
        call.print_plan(
            f"would plan {objective} of size {size} with {result.budget} on {call.flags.devices} × {result.device.name}"
        )
    else:
        call.print(*plan_blocks(result))
    call.answer(result)


def plan_blocks(planned: RunPlan) -> list[Block]:
    """The choice, every mode, memory, numbers of devices, what was published, and what all of it rests on."""
    from electralab.reporting import format as f
    from electralab.reporting.blocks import Bullets, Paragraph, Table

    cost, has_price, devices = planned.run, planned.device.price_per_hour > 0, planned.modes[0].devices
    best = next((mode for mode in planned.modes if mode.mode == planned.chosen), None)
    choice, taken = "no mode", ""
    if best is not None:
        choice = f"--parallel {best.mode} --batch.slices {best.slices}"
        taken = f": {f.format_seconds(3600 * best.hours)}" + (f", cost {best.cost:,.0f}" if has_price else "")
    blocks: list[Block] = [
        Paragraph(
            f"{cost.objective}, {f.format_count(cost.total_parameters)} parameters, {f.format_count(cost.tokens)} "
            f"tokens in {f.format_number_of(cost.steps, 'step')} of {f.format_number_of(cost.batch_size, 'row')}, "
            f"{f.format_flops(cost.flops)} FLOPs, on {devices} × {planned.device.name}{taken}"
        ),
        Paragraph(f"{choice}: {planned.reason}"),
        *(Paragraph(note, "warning") for note in planned.notes),
    ]

    def times(mode: ModePlan) -> list[object]:
        seconds = (mode.compute_seconds, mode.host_seconds, mode.update_seconds, mode.exposed_seconds)
        return [
            *(f"{1000 * value:,.1f}" for value in (*seconds, mode.waiting_seconds)),
            f.format_bytes(mode.sent_bytes),
            f.format_percent(mode.efficiency),
            f.format_seconds(3600 * mode.hours),
            *([f"{mode.cost:,.0f}"] if has_price else []),
        ]

    price = ["cost"] if has_price else []
    head = ["", "compute", "masks", "update", "communication", "waiting", "sent", "efficiency", "run", *price]
    possible = [mode for mode in planned.modes if not mode.problem]
    rows = [[mode.mode, *times(mode)] for mode in possible]
    blocks.append(Table(f"a step on {devices} devices, ms, and the run (unverified)", head, rows))
    blocks += [Paragraph(f"{mode.mode} cannot be: {mode.problem}") for mode in planned.modes if mode.problem]
    parts = ("weights", "gradients", "moments", "activations", "logits", "whole", "program", "total")
    memory: list[list[object]] = [
        [part.replace("whole", "whole state"), *(f"{mode.memory[part] / 1e9:.2f}" for mode in possible)]
        for part in parts
    ]
    memory.append(["fits", *(mode.fits for mode in possible)])
    memory.append(["rows at once", *(mode.micro_rows for mode in possible)])
    memory.append(["most rows at once", *(mode.most_micro_rows for mode in possible)])
    title = f"memory of the first device, GB of {planned.device.memory_gb:.3g} (unverified)"
    blocks.append(Table(title, ["", *(mode.mode for mode in possible)], memory))
    scaling = [
        [
            f"{mode.devices:,}",
            mode.mode,
            mode.rows,
            f"{mode.memory.total / 1e9:.1f}" + ("" if mode.fits else ", too much"),
            f.format_seconds(3600 * mode.hours),
            *([f"{mode.cost:,.0f}"] if has_price else []),
            f.format_percent(mode.efficiency),
            f.format_percent(mode.weak_efficiency),
            "two ranks measured" if mode.is_verified else "unverified",
        ]
        for mode in planned.scaling
    ]
    head = ["devices", "mode", "rows each", "GB each", "run", *price, "efficiency", "batch grown too", "basis"]
    blocks.append(Table("1 to 4,096 devices", head, scaling))
    by_number = {mode.devices: mode.weak_efficiency for mode in planned.scaling}
    blocks.append(
        Paragraph(
            f"from 8 to 128 devices with as many rows each: {f.format_percent(by_number[128] / by_number[8])} planned "
            f"(unverified), {f.format_percent(planned.torchtitan)} as torchtitan published"
        )
    )
    published = [
        [
            run.name,
            f"{run.flops:.2e}",
            run.hardware or "–",
            run.reached_tflops or None,
            f.format_seconds(3600 * run.hours),
        ]
        + ([f"{run.cost:,.0f}"] if has_price else [])
        for run in planned.published
    ]
    head = [
        "",
        "FLOPs, published",
        "hardware, published",
        "TFLOP/s each",
        f"on {devices} × {planned.device.name}",
        *price,
    ]
    blocks.append(Table("the runs of the paper at the same efficiency (unverified)", head, published))
    return [*blocks, Paragraph("assumptions:"), Bullets(planned.assumptions)]
