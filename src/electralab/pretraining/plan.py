"""What a run would take on many devices: memory, time and communication by mode, from counts and a few assumptions.

PretrainConfig, data or its placeholder, DeviceSpec, devices -> RunPlan

Parameters, moments and activations are those of the run's own networks, built without weights; operations are those of
`cost.py`. The rest is arithmetic on what a device can do, said in `assumptions`, and held against two ranks on one
machine by benchmarks/plan.py. Nothing beyond that was measured.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import ceil, log2

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from electralab.model.encoder import Encoder, EncoderLayer
from electralab.model.flops import encoder_parts
from electralab.objective.objective import Network
from electralab.objective.registry import assemble_objective
from electralab.pretraining.cost import estimate_cost, logit_bytes, paper_runs
from electralab.pretraining.settings import PretrainConfig
from electralab.pretraining.task import build_state, hidden_matrices
from electralab.records.plan import DeviceMemory, DeviceSpec, ModePlan, ParallelMode, PublishedRun, RunPlan
from electralab.records.run import Budget
from electralab.runtime import Precision, autocast, default_threads, estimate_speed, find_memory
from electralab.tokens.shards import PreparedData

MODES: tuple[ParallelMode, ...] = ("ddp", "fsdp", "tensor")  # the simplest first
MOST_DEVICES = 4096
_PROGRAM = 500 * 2**20  # Python, torch and what they keep for later, as a rank here holds
_ROOM = 0.9  # of a device's memory: allocators leave gaps
_CALLS = 4  # messages of a step beside gradients: three commands, and losses and metrics

# Tokens/s of a GPU among 8 and among 128, with as many rows each; from the benchmark named in `assumptions`.
_TITAN_8, _TITAN_128 = 5762, 5605
TITAN_EFFICIENCY = _TITAN_128 / _TITAN_8
_LOSS_PER_DOUBLING = (_TITAN_8 / _TITAN_128) ** (1 / log2(128 / 8)) - 1
# Days, devices and their kind, as the paper's tables of runs have it; of its large ones they name operations only.
_PAPER_HARDWARE = {"ELECTRA-Small": (4, 1, "V100"), "ELECTRA-Base": (4, 16, "TPUv3")}

# Peaks by precision, memory (GB), then GB/s: memory, to a device of the same host, to another host.
_KNOWN: dict[str, tuple[dict[Precision, float], float, float, float, float, str]] = {
    "a100": ({"fp32": 19.5, "bf16": 312, "fp16": 312}, 80, 2039, 300, 25, "NVIDIA's data sheet of the A100 80GB SXM4"),
    "h100": ({"fp32": 66.9, "bf16": 989.4, "fp16": 989.4}, 80, 3350, 450, 50, "NVIDIA's data sheet of the H100 SXM5"),
}
DEVICES = (*_KNOWN, "here")


def describe_device(name: str, precision: Precision) -> DeviceSpec:
    """A device of the table, or a core of this machine."""
    shared = {"row_us": 50.0, "price_per_hour": 0.0}
    if name == "here":
        cores = default_threads()
        torch.set_num_threads(1)
        return DeviceSpec(
            **{"name": name, "tflops": 2 * estimate_speed() / 1e12, "utilisation": 0.5, "overlaps": False},
            **{"memory_gb": find_memory() / cores / 1e9, "memory_bandwidth": 5.0, "per_host": cores},
            **{"bandwidth": 1.0, "network_bandwidth": 0.1, "latency_us": 500.0, **shared},
            source="a core of this machine, its products measured now; links as assumed, unless given",
        )
    peaks, memory, memory_bandwidth, link, network, source = _KNOWN[name]
    return DeviceSpec(
        **{"name": name, "tflops": peaks["bf16" if precision == "auto" else precision], "utilisation": 0.35},
        **{"memory_gb": memory, "memory_bandwidth": memory_bandwidth, "bandwidth": link, "network_bandwidth": network},
        **{"latency_us": 20.0, "per_host": 8, "overlaps": True, "source": source, **shared},
    )


# ------------------------------------------------------------------------------------------------------ what is counted


@dataclass(frozen=True, slots=True)
class EncoderWork:
    """An encoder as tensor parallelism may divide it: the matrices of its layers, and the operations with them."""

    num_layers: int
    hidden_size: int
    num_heads: int
    feedforward_size: int
    matrices: int
    row_flops: float

    def divides(self, degree: int) -> bool:
        return self.num_heads % degree == 0 and self.feedforward_size % degree == 0


@dataclass(frozen=True, slots=True)
class Workload:
    """A step, and the networks that take it, counted."""

    steps: int
    rows: int
    micro_rows: int
    length: int
    row_flops: float
    number_bytes: int
    """Of what products are made of."""
    slices: int
    parameters: int
    outside_layers: int
    largest_layer: int
    num_layers: int
    moment_bytes: int
    logit_bytes: int
    """Of a row, as what a forward pass keeps: of a row, the part of it that is as wide as attention and feed-forward
    layers are inside, and what does not depend on rows."""
    kept_bytes: int
    kept_inside: int
    kept_always: int
    encoders: tuple[EncoderWork, ...]


def count_workload(config: PretrainConfig, data: PreparedData, steps: int, step_flops: float) -> Workload:
    """From networks that have shapes and no weights."""
    meta, length, batch = torch.device("meta"), data.sequence_length, config.batch
    with nullcontext() if config.generator.kind == "frozen" else meta:
        objective = assemble_objective(config, data, meta)
    networks, exports = objective.networks, objective.exports()
    moments = build_state(objective, config).optimizer.tensors()
    layers = {layer: _numel(layer) for layer in networks.modules() if isinstance(layer, EncoderLayer)}
    matrices = {networks.get_parameter(name) for name in hidden_matrices(networks)}
    encoders = []
    for network in exports.values():
        for encoder in _encoders(network):
            sizes, parts = encoder.config, encoder_parts(encoder.config, length)
            own = matrices & {*encoder.layers.parameters()}
            matrices -= own  # what two networks share is counted with the first
            passes = 3 if any(parameter.requires_grad for parameter in encoder.parameters()) else 1
            encoders.append(
                EncoderWork(
                    sizes.num_layers,
                    sizes.hidden_size,
                    sizes.num_heads,
                    sizes.feedforward_size,
                    matrices=sum(matrix.numel() for matrix in own),
                    row_flops=passes * length * (parts["attention"] + parts["feed_forward"]),
                )
            )
    _make_fake(networks)
    one_row, two_rows = (_count_kept(exports.values(), rows, length, config.runtime.precision) for rows in (1, 2))
    return Workload(
        steps=steps,
        rows=batch.size,
        micro_rows=batch.rows_at_once,
        length=length,
        row_flops=step_flops / batch.mean_rows,
        number_bytes=4 if config.runtime.precision == "fp32" else 2,
        slices=batch.slices,
        parameters=sum(parameter.numel() for parameter in networks.parameters() if parameter.requires_grad),
        outside_layers=_numel(networks) - _numel(nn.ModuleList(layers)),
        largest_layer=max(layers.values()),
        num_layers=len(layers),
        moment_bytes=sum(tensor.numel() * tensor.element_size() for tensor in moments.values()),
        logit_bytes=logit_bytes(objective, config, length),
        kept_bytes=two_rows[0] - one_row[0],
        kept_inside=two_rows[1] - one_row[1],
        kept_always=max(0, 2 * one_row[0] - two_rows[0]),
        encoders=tuple(encoders),
    )


def _numel(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _encoders(network: nn.Module) -> list[Encoder]:
    return [module for module in network.modules() if isinstance(module, Encoder)]


def _make_fake(networks: nn.Module) -> None:
    """Tensors that say of themselves that they lie on a CPU and have no storage: kernels are chosen as in a run."""
    fakes: dict[Tensor, Tensor] = {}
    with FakeTensorMode():
        for module in networks.modules():
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items():
                    if tensor is None:
                        continue
                    if tensor not in fakes:
                        fake = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
                        is_parameter = isinstance(tensor, nn.Parameter)
                        fakes[tensor] = nn.Parameter(fake, tensor.requires_grad) if is_parameter else fake
                    tensors[name] = fakes[tensor]  # type: ignore[assignment]


def _count_kept(networks: Iterable[Network], rows: int, length: int, precision: Precision) -> tuple[int, int]:
    """Bytes that the encoders of these networks keep for the backward pass, and how many of them in tensors that are
    not as wide as the states that go from layer to layer."""
    device, total, inside = torch.device("cpu"), 0, 0
    for network in networks:
        for encoder in _encoders(network):
            kept: dict[int, Tensor] = {}  # by storage; the tensors stay, or a storage's place would be taken again

            def keep(tensor: Tensor, kept: dict[int, Tensor] = kept) -> Tensor:
                kept[tensor.untyped_storage()._cdata] = tensor
                return tensor

            mode = next(encoder.parameters()).fake_mode  # type: ignore[attr-defined]
            hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
            with mode, hooks, autocast(device, "bf16" if precision == "auto" else precision):
                ids = torch.zeros(rows, length, dtype=torch.int64)
                encoder.train()(ids, ids, None)
            weights = {parameter.untyped_storage()._cdata for parameter in encoder.parameters()}
            for place, tensor in kept.items():
                if place not in weights:
                    total += tensor.untyped_storage().nbytes()
                    is_state = tensor.shape[-1] == encoder.config.hidden_size
                    inside += 0 if is_state else tensor.untyped_storage().nbytes()
    return total, inside


# ----------------------------------------------------------------------------------------------------------- arithmetic


@dataclass(frozen=True, slots=True)
class Layout:
    """How devices share a step, as `training/ranks.py` and `training/sharded.py` do it."""

    mode: ParallelMode
    devices: int
    slices: int
    """Parts of a step; each is computed at once, on one device or, divided inside its layers, on all."""
    problem: str = ""
    """Why it cannot be."""

    @property
    def degree(self) -> int:
        """By how much the layers are divided."""
        return self.devices if self.mode == "tensor" else 1

    @property
    def rounds(self) -> int:
        """Slices that a device computes one after the other."""
        return ceil(self.slices * self.degree / self.devices)


def lay_out(work: Workload, mode: ParallelMode, devices: int) -> Layout:
    """With as many slices as the settings' rows at once make, a power of two, and one for each device at least."""
    slices = 2 ** ceil(log2(max(work.rows / work.micro_rows, 1 if mode == "tensor" else min(devices, work.rows))))
    undivided = [encoder for encoder in work.encoders if not encoder.divides(devices)]
    problem = ""
    if mode == "tensor" and undivided:
        shape = f"{undivided[0].num_heads} heads and a feed-forward of {undivided[0].feedforward_size}"
        problem = f"{shape} cannot be shared out over {devices} devices"
    return Layout(mode, devices, slices, problem)


def measure_memory(work: Workload, layout: Layout, micro_rows: int) -> DeviceMemory:
    """Of the first device, which has more to hold than the others."""
    inside = sum(encoder.matrices for encoder in work.encoders)
    parameters = work.parameters - inside + inside / layout.degree
    moments = work.moment_bytes * parameters / work.parameters
    activations = work.kept_always + micro_rows * (work.kept_bytes - work.kept_inside * (1 - 1 / layout.degree))
    logits = micro_rows * work.logit_bytes
    weights = gradients = 4 * parameters
    rounds, whole = ceil(work.rows / micro_rows * layout.degree / layout.devices), 0.0
    if layout.mode == "fsdp" and layout.devices > 1:
        # Gathered at once: all outside the layers, one layer, and the next. Sums wait for each other as in a tree.
        weights = weights / layout.devices + 4 * work.outside_layers + 2 * work.number_bytes * work.largest_layer
        moments /= layout.devices
        gradients = gradients / layout.devices * (1 + ceil(log2(rounds)))
        gradients += 4 * (work.outside_layers + work.largest_layer)
    elif layout.mode == "tensor" and layout.devices > 1:
        gradients *= 2 + ceil(log2(rounds))
    elif layout.devices > 1:
        # A place for each slice, and then the larger of: gradients beside activations; own, received and new sums.
        gradients = gradients * rounds + max(gradients, 3 * gradients - activations - logits)
    if layout.mode != "ddp" and layout.devices > 1:
        whole = 4 * work.parameters + work.moment_bytes
    amounts = [weights, gradients, moments, activations, logits, whole, float(_PROGRAM)]
    names = ("weights", "gradients", "moments", "activations", "logits", "whole", "program")
    return DeviceMemory(**dict(zip(names, map(round, amounts), strict=True)), total=round(sum(amounts)))


def _pair_seconds(size: float, devices: int, device: DeviceSpec, *, halving: bool) -> float:
    """Rounds in which each exchanges a sum with a partner twice as far away: all of it, or half of what is left."""
    seconds, distance = 0.0, 1
    while distance < devices:
        size = size / 2 if halving else size
        speed = device.bandwidth if distance < device.per_host else device.network_bandwidth
        seconds += size / (speed * 1e9) + device.latency_us / 1e6
        distance *= 2
    return seconds


def _gather_seconds(size: float, devices: int, device: DeviceSpec) -> float:
    """Until all have what each had a part of: `size` bytes together, around a ring."""
    local, hosts = min(devices, device.per_host), ceil(devices / device.per_host)
    seconds = size * (local - 1) / local / (device.bandwidth * 1e9)
    seconds += size * (hosts - 1) / hosts / (device.network_bandwidth * 1e9 * local)
    return seconds + ceil(log2(devices)) * device.latency_us / 1e6


def _communicate(work: Workload, layout: Layout, device: DeviceSpec, compute: float) -> tuple[float, float, float]:
    """Seconds in all, seconds that all wait for, bytes that a device sends; of one step."""
    devices, gradients = layout.devices, 4 * work.parameters
    if devices == 1:
        return 0.0, 0.0, 0.0
    calls = _CALLS * ceil(log2(devices)) * device.latency_us / 1e6
    if layout.mode == "ddp":
        seconds = exposed = _pair_seconds(gradients, devices, device, halving=False)
        sent = log2(devices) * gradients
    elif layout.mode == "fsdp":
        # Weights are gathered for the forward and again for the backward pass of each slice; on an accelerator while
        # the unit before computes. Sums are waited for, each unit's for itself: two in a layer, and what is outside.
        gathered, units = work.number_bytes * work.parameters, 2 * work.num_layers + 1
        gather = layout.rounds * 2 * _gather_seconds(gathered, devices, device)
        reduce = _pair_seconds(gradients, devices, device, halving=True)
        reduce += (units - 1) * ceil(log2(devices)) * device.latency_us / 1e6
        seconds = gather + layout.rounds * reduce
        hidden = min(gather * (1 - 1 / units), compute) if device.overlaps else 0.0
        exposed = seconds - hidden
        sent = layout.rounds * (2 * gathered + gradients) * (devices - 1) / devices
    else:
        # Two sums of states forward and two backward in each layer, and the next product waits for each.
        seconds = sent = 0.0
        for encoder in work.encoders:
            states = work.rows * work.length * encoder.hidden_size * work.number_bytes
            sums = 4 * encoder.num_layers
            seconds += sums * 2 * _gather_seconds(states, devices, device)
            sent += sums * 2 * states * (devices - 1) / devices
        exposed = seconds
    return seconds + calls, exposed + calls, sent


@dataclass(frozen=True, slots=True)
class _StepTime:
    """Seconds of a step by what they are spent on."""

    compute: float
    update: float
    host: float
    communication: float
    exposed: float
    """Of communication: what all wait for."""
    waiting: float
    sent_bytes: float

    @property
    def total(self) -> float:
        return self.compute + self.update + self.host + self.exposed + self.waiting


def _time_step(work: Workload, layout: Layout, device: DeviceSpec) -> _StepTime:
    rows = work.rows if layout.degree > 1 else ceil(work.rows / layout.devices)
    divided = sum(encoder.row_flops for encoder in work.encoders)
    compute = rows * (work.row_flops - divided + divided / layout.degree) / device.flops_per_second
    # Weights, gradients and moments are read, weights and moments written.
    touched = 12 * work.parameters + 2 * work.moment_bytes
    update = touched / (1 if layout.mode == "ddp" else layout.devices) / (device.memory_bandwidth * 1e9)
    host = work.rows * device.row_us / 1e6  # every device draws the masks of the whole step
    communication, exposed, sent = _communicate(work, layout, device, compute)
    busy = compute + update + host + exposed
    waiting = busy * ((1 + _LOSS_PER_DOUBLING) ** max(0.0, log2(layout.devices / 8)) - 1)
    return _StepTime(compute, update, host, communication, exposed, waiting, sent)


def plan_mode(work: Workload, mode: ParallelMode, device: DeviceSpec, devices: int, share_rows: int = 0) -> ModePlan:
    """A run in one mode. `share_rows`: of a device, where the batch is to grow with the devices."""
    layout, alone = lay_out(work, mode, devices), lay_out(work, "ddp", 1)
    rows = work.rows if layout.degree > 1 else ceil(work.rows / devices)
    micro_rows = ceil(work.rows / layout.slices)
    room = _ROOM * device.memory_gb * 1e9
    memory = measure_memory(work, layout, micro_rows)
    candidates = [2**power for power in range(rows.bit_length()) if 2**power <= rows]
    fitting = [count for count in candidates if measure_memory(work, layout, count).total <= room]
    times = _time_step(work, layout, device)
    alone_seconds = _time_step(work, alone, device).total
    share_rows = share_rows or ceil(work.rows / devices)
    grown, one_grown = replace(work, rows=share_rows * devices), replace(work, rows=share_rows)
    weak = _time_step(one_grown, lay_out(one_grown, "ddp", 1), device).total
    weak /= _time_step(grown, lay_out(grown, mode, devices), device).total
    hours = work.steps * times.total / 3600
    return ModePlan(
        **{"mode": mode, "devices": devices, "slices": layout.slices, "problem": layout.problem},
        **{"rows": rows, "micro_rows": micro_rows, "memory": memory},
        fits=memory.total <= room and not layout.problem,
        most_micro_rows=0 if layout.problem else max(fitting, default=0),
        compute_seconds=times.compute,
        update_seconds=times.update,
        host_seconds=times.host,
        communication_seconds=times.communication,
        exposed_seconds=times.exposed,
        waiting_seconds=times.waiting,
        step_seconds=times.total,
        sent_bytes=round(times.sent_bytes),
        efficiency=alone_seconds / devices / times.total,
        weak_efficiency=weak,
        hours=hours,
        cost=hours * devices * device.price_per_hour,
        is_verified=device.name == "here" and mode == "ddp" and devices <= 2,
    )


def choose_mode(modes: Iterable[ModePlan]) -> tuple[ParallelMode | None, str]:
    """The fastest that fits; within two hundredths, the simplest."""
    plans = list(modes)
    fitting = [plan for plan in plans if plan.fits]
    needs = ", ".join(f"{plan.mode} {plan.memory.total / 1e9:.1f} GB" for plan in plans if not plan.problem)
    if not fitting:
        smaller = max(plans, key=lambda plan: plan.most_micro_rows)
        total = smaller.rows * (1 if smaller.mode == "tensor" else smaller.devices)
        advice = (
            f"{smaller.mode} fits with --batch.slices {total // smaller.most_micro_rows}"
            if smaller.most_micro_rows
            else "take devices with more memory, or more of them"
        )
        return None, f"nothing fits ({needs}); {advice}"
    fastest = min(plan.step_seconds for plan in fitting)
    best = next(plan for plan in fitting if plan.step_seconds <= 1.02 * fastest)
    if best is plans[0]:
        return best.mode, f"it fits ({needs}), and no other is more than 2 % faster"
    if not plans[0].fits:
        return best.mode, f"{plans[0].mode} does not fit ({needs})"
    return best.mode, f"a step takes {best.step_seconds:.3g} s, by {plans[0].mode} {plans[0].step_seconds:.3g} s"


def plan_run(config: PretrainConfig, data: PreparedData, budget: Budget, device: DeviceSpec, devices: int) -> RunPlan:
    """Every mode on so many devices, the best mode on 1 to 4,096 of them, and what the paper's runs would take."""
    run = estimate_cost(config, data, budget, device.flops_per_second)
    work = count_workload(config, data, run.steps, run.step_flops)
    modes = [plan_mode(work, mode, device, devices) for mode in MODES]
    chosen, reason = choose_mode(modes)
    scaling = []
    for power in range(MOST_DEVICES.bit_length()):
        each = [plan_mode(work, mode, device, 2**power, modes[0].rows) for mode in MODES]
        best, _ = choose_mode(each)
        scaling.append(next(plan for plan in each if plan.mode == (best or "fsdp")))
    efficiency = next(plan for plan in modes if plan.mode == (chosen or "fsdp")).efficiency
    published = []
    for name, paper in paper_runs().runs.items():
        hours = paper.flops / device.flops_per_second / devices / efficiency / 3600
        cost, total = hours * devices * device.price_per_hour, paper.published_flops
        days, count, kind = _PAPER_HARDWARE.get(name, (0, 0, ""))
        hardware = f"{days} days on {count} {kind}" if kind else ""
        reached = total / (days * 86400 * count) / 1e12 if kind else 0.0
        published.append(
            PublishedRun(name=name, flops=total, hardware=hardware, reached_tflops=reached, hours=hours, cost=cost)
        )
    notes = []
    if device.name in _KNOWN and config.runtime.precision == "fp32":
        ratio = _KNOWN[device.name][0]["bf16"] / _KNOWN[device.name][0]["fp32"]
        notes.append(f"in fp32 ({device.tflops:g} TFLOP/s); --runtime.precision bf16 has {ratio:.0f} times the peak")
    if work.rows < devices:
        notes.append(
            f"a step has {work.rows} rows, so that {devices - work.rows} devices have none; give a larger --batch.size"
        )
    return RunPlan(
        **{"run": run, "device": device, "modes": modes, "chosen": chosen, "reason": reason, "scaling": scaling},
        **{"published": published, "torchtitan": TITAN_EFFICIENCY, "notes": notes},
        assumptions=_list_assumptions(work, device, config),
    )


def _list_assumptions(work: Workload, device: DeviceSpec, config: PretrainConfig) -> list[str]:
    hidden = "while another layer computes" if device.overlaps else "and is waited for (gloo)"
    return [
        f"a device ({device.source}): {device.tflops:.3g} TFLOP/s in {config.runtime.precision}, of which training "
        f"reaches {device.utilisation:.0%}, however few rows it has; {device.memory_gb:.3g} GB, of which {_ROOM:.0%} "
        "can be used",
        f"links: {device.bandwidth:g} GB/s to the {device.per_host} devices of a host, {device.network_bandwidth:g} to "
        f"other hosts, {device.latency_us:g} µs a message; all sums are taken in pairs of ranks, in the one order that "
        f"keeps the bits, after the backward pass: nothing hides them; what fsdp gathers travels {hidden}",
        f"every device draws the masks of all {work.rows:,} rows of a step, {device.row_us:g} µs each",
        f"a step stays as large as the settings say: {work.rows:,} rows of {work.length:,} tokens; evaluation, saving "
        "and lost devices are not counted",
        f"above 8 devices each doubling costs {_LOSS_PER_DOUBLING:.1%} of waiting, which is what torchtitan published "
        "(Llama 3.1 8B by FSDP: 5,762 tokens/s of each of 8 H100, 5,605 of 128; "
        "benchmarks/llama3_h100_202412_torchtitan.md of its repository; there 33 to 39 % of the peak is reached)",
        "activations are what the run's own encoders keep of a row, counted without weights; memory is that of the "
        "first device, which under fsdp and tensor also holds the whole state, to evaluate and save it",
        "measured: two ranks on one machine beside one (benchmarks/plan.py); all else here is unverified",
    ]
