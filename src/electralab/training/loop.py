"""The one training loop: a generator that yields after each step; the caller logs, evaluates, saves and stops.

micro losses of a step -> gradients -> StepReport
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from electralab.stopping import StopSignal
from electralab.training.optimizer import Optimizer

# A step's micro-batches: each is one scalar to go backward through, already weighted by its share of the targets.
MicroLosses = Callable[[int], Iterable[Tensor]]


@dataclass(frozen=True, slots=True)
class StepReport:
    step: int
    loss: float
    gradient_norm: float
    gradient_norms: Mapping[str, Tensor]
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


def train(
    model: nn.Module,
    optimizer: Optimizer,
    micro_losses: MicroLosses,
    lr_factor: Callable[[int], float],
    *,
    first_step: int,
    last_step: int,
    clip_norm: float,
    scale: LossScale,
    stop: StopSignal,
) -> Iterator[StepReport]:
    """Steps first..last. A stop signal abandons the step under way, before it has changed anything (Stopped)."""
    with _interrupt_on(stop, model):
        for step in range(first_step, last_step + 1):
            optimizer.clear_gradients()
            model.train()
            loss = 0.0
            for loss_part in micro_losses(step):
                (loss_part * scale.value if scale.is_adaptive else loss_part).backward()  # type: ignore[no-untyped-call]
                loss += loss_part.item()
            # Each parameter counts once however many names it has.
            named = zip(optimizer.names, optimizer.parameters, strict=True)
            gradients = {name: parameter.grad for name, parameter in named if parameter.grad is not None}
            with torch.no_grad():
                if scale.is_adaptive:
                    torch._foreach_mul_(list(gradients.values()), 1.0 / scale.value)
                norms = dict(zip(gradients, torch._foreach_norm(list(gradients.values())), strict=True))
            norm = join_norms(norms.values())
            factor = lr_factor(step)
            is_finite = math.isfinite(loss) and math.isfinite(norm)
            stop.check()
            if is_finite:
                if clip_norm and norm > clip_norm:
                    with torch.no_grad():
                        torch._foreach_mul_(list(gradients.values()), clip_norm / norm)
                optimizer.set_rates(factor)
                optimizer.step()
            scale.adapt(is_finite)
            yield StepReport(step, loss, norm, norms, factor, is_skipped=not is_finite)


def join_norms(norms: Iterable[Tensor]) -> float:
    """The norm of all gradients together."""
    return float(torch.linalg.vector_norm(torch.stack(list(norms))))


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
