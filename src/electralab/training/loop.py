"""The one training loop: a generator that yields after each step; the caller logs, evaluates, saves and stops.

micro losses of a step -> gradients -> StepReport
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from electralab.records.run import RunLength
from electralab.stopping import StopSignal
from electralab.training.optimizer import Optimizer

# A step's micro-batches: each is one scalar to go backward through, already weighted by its share of the targets. The
# second argument is told how many there are and says which of them are computed here, and in which order.
MicroLosses = Callable[[int, Callable[[int], Iterable[int]]], Iterable[Tensor]]


@dataclass(frozen=True, slots=True)
class StepReport:
    step: int
    loss: float
    gradient_norm: float
    gradient_norms: Mapping[str, float]
    """Before clipping, of each parameter that has a gradient, by its name."""
    lr_factor: float
    is_skipped: bool
    """A loss or gradient was not finite: weights and optimizer are as before the step."""


@dataclass(slots=True)
class LossScale:
    """Keeps fp16 gradients inside their range: halved after an overflow, doubled after many good steps."""

    value: float = 1.0
    good_steps: int = 0
    is_adaptive: bool = False

    _PATIENCE = 2000

    def adapt(self, is_finite: bool) -> None:
        if not self.is_adaptive:
            return
        self.good_steps = self.good_steps + 1 if is_finite else 0
        if not is_finite:
            self.value /= 2
        elif self.good_steps % self._PATIENCE == 0:
            self.value *= 2


class TrainStep:
    """The parts of a step in one process: micro-batches one after the other, gradients added up as they come."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, micro_losses: MicroLosses) -> None:
        self.model, self.optimizer, self.micro_losses = model, optimizer, micro_losses

    @property
    def description(self) -> str:
        threads = torch.get_num_threads()
        return f"{threads} thread{'s' if threads > 1 else ''}"

    def backward(self, step: int, scale: float) -> float:
        """Leave the gradients of a step, multiplied by `scale`; give its loss."""
        self.optimizer.clear_gradients()
        self.model.train()
        loss = 0.0
        for loss_part in self.micro_losses(step, range):
            (loss_part * scale if scale != 1.0 else loss_part).backward()  # type: ignore[no-untyped-call]
            loss += loss_part.item()
        return loss

    def norms(self, scale: float) -> dict[str, float]:
        """Of each parameter's gradient, by its name, freed of the scale; each counts once however many names it has."""
        named = zip(self.optimizer.names, self.optimizer.parameters, strict=True)
        gradients = {name: parameter.grad for name, parameter in named if parameter.grad is not None}
        return measure_norms(gradients, scale)

    def update(self, lr_factor: float, shrink: float) -> None:
        """Change the weights by the gradients, made smaller first where they are clipped."""
        if shrink != 1.0:
            gradients = [parameter.grad for parameter in self.optimizer.parameters if parameter.grad is not None]
            with torch.no_grad():
                torch._foreach_mul_(gradients, shrink)
        self.optimizer.set_rates(lr_factor)
        self.optimizer.step()

    def tell(self, length: RunLength) -> None:
        """The run is so long from its next step on; here its task knows already."""

    def collect(self) -> None:
        """Bring the run's state up to date, where parts of it are elsewhere; here all of it is in place."""

    write_moments: Callable[[Path], None] | None = None
    """Writes the optimizer's state into the folder of a checkpoint, where it is not part of what is collected."""

    def close(self) -> None:
        """Nothing is left open here."""


def train(
    train_step: TrainStep,
    lr_factor: Callable[[int], float],
    *,
    steps: Iterable[int],
    clip_norm: float,
    scale: LossScale,
    stop: StopSignal,
) -> Iterator[StepReport]:
    """Step by step. A stop signal abandons the step under way, before it has changed anything (Stopped)."""
    with _interrupt_on(stop, train_step.model):
        for step in steps:
            loss = train_step.backward(step, scale.value)
            norms = train_step.norms(scale.value)
            norm = join_norms(norms.values())
            factor = lr_factor(step)
            is_finite = math.isfinite(loss) and math.isfinite(norm)
            # The last look: from here on weights change, and a step that has begun to change them is finished.
            stop.check()
            if is_finite:
                train_step.update(factor, clip_norm / norm if clip_norm and norm > clip_norm else 1.0)
            # A step that is not finite is skipped: under fp16 that is how the scale finds its size.
            scale.adapt(is_finite)
            yield StepReport(step, loss, norm, norms, factor, is_skipped=not is_finite)


@torch.no_grad()
def measure_norms(gradients: Mapping[str, Tensor], scale: float) -> dict[str, float]:
    """Of each gradient, by its parameter's name, after it was freed of the scale."""
    if gradients and scale != 1.0:
        torch._foreach_mul_(list(gradients.values()), 1.0 / scale)
    norms = torch._foreach_norm(list(gradients.values())) if gradients else ()
    return dict(zip(gradients, torch.stack(norms).tolist() if norms else [], strict=True))


def join_norms(norms: Iterable[float]) -> float:
    """The norm of all gradients together."""
    # In 32 bits, on any device: the factor of clipping, and so the golden losses, depend on the bits of this sum.
    return float(torch.linalg.vector_norm(torch.tensor(list(norms), dtype=torch.float32)))


@contextmanager
def _interrupt_on(stop: StopSignal, model: nn.Module) -> Iterator[None]:
    """Look for a signal before every module and after every gradient.

    A step can take many seconds inside two calls into C++; these hooks are where Python gets a word in.
    """
    hooks = [module.register_forward_pre_hook(stop.check) for module in model.modules()]
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    hooks += [p.register_post_accumulate_grad_hook(stop.check) for p in learning]  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
