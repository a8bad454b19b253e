"""What `plan` answers: a run on devices that are not here, by mode and by their number."""

from typing import Literal

from electralab.records.record import JsonTree, Record
from electralab.records.run import CostEstimate

ParallelMode = Literal["ddp", "fsdp", "tensor"]


class DeviceSpec(Record):
    """What a plan knows of a device and of what lies between two of them. Gigabytes a second, in one direction."""

    name: str
    tflops: float
    """The peak in the run's precision."""
    utilisation: float
    """The part of it that training reaches."""
    memory_gb: float
    memory_bandwidth: float
    bandwidth: float
    """Of a device to others of its host."""
    network_bandwidth: float
    """Of a device to other hosts."""
    latency_us: float
    """Of one message."""
    row_us: float
    """To draw the masks of one row, on the processor beside the device."""
    per_host: int
    price_per_hour: float
    overlaps: bool
    """Whether it can receive what comes next while it computes."""
    source: str

    @property
    def flops_per_second(self) -> float:
        return self.tflops * 1e12 * self.utilisation


class DeviceMemory(Record):
    """Bytes on the first device, at the moment of a step that needs most."""

    weights: int
    gradients: int
    moments: int
    activations: int
    """What the networks keep of a micro-batch until the backward pass."""
    logits: int
    """Over the vocabulary, with their gradients."""
    whole: int
    """The run's whole state, which the first device holds where each has a part."""
    program: int
    total: int


class ModePlan(Record):
    """A run on so many devices in one mode."""

    mode: ParallelMode
    devices: int
    slices: int
    problem: str
    """Why it cannot be; empty where it can."""
    rows: int
    """Of a step, on one device."""
    micro_rows: int
    """Of a slice, which is computed at once."""
    memory: DeviceMemory
    fits: bool
    most_micro_rows: int
    """Rows of the largest slice, a power of two, that fits; 0: not even one row."""
    compute_seconds: float
    host_seconds: float
    update_seconds: float
    communication_seconds: float
    """Of a step, whether or not something else goes on in the meantime."""
    exposed_seconds: float
    """The part of it that all wait for."""
    waiting_seconds: float
    """For the slowest of many."""
    step_seconds: float
    sent_bytes: int
    """By one device in one step."""
    efficiency: float
    """Speed beside as many times that of one device, with the run's own batch."""
    weak_efficiency: float
    """The same where every device has as many rows as one alone would have: the batch grows with the devices."""
    hours: float
    cost: float
    is_verified: bool
    """Whether this case was held against measurements (benchmarks/plan.py)."""


class PublishedRun(Record):
    """A run of the paper on the planned devices, beside what was published of it."""

    name: str
    flops: float
    """As published, in the paper's convention."""
    hardware: str
    """As published; empty where it was not."""
    reached_tflops: float
    """What that makes for each of these devices; 0 where it is not known."""
    hours: float
    """As planned here."""
    cost: float


class RunPlan(Record):
    """`plan`: memory, time, cost and communication of a run, by mode and by number of devices."""

    run: CostEstimate
    device: DeviceSpec
    modes: list[ModePlan]
    chosen: ParallelMode | None
    """None: in no mode does it fit."""
    reason: str
    scaling: list[ModePlan]
    """The best mode for each number of devices."""
    published: list[PublishedRun]
    torchtitan: float
    """The efficiency that this model gives for torchtitan's published measurement."""
    assumptions: list[str]
    notes: list[str]


class PlanRequest(Record):
    """`plan --dry-run`."""

    settings: JsonTree
    device: DeviceSpec
    budget: str
