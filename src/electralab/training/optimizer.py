"""Parameters -> groups -> one optimizer whose state can be written down tensor by tensor.

named parameters, depths -> ParameterGroup... -> Optimizer
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from electralab.config import Settings

# Adam's bias correction 1 - beta ** step is exactly 1 in float32 from here on: an optimizer born at this age corrects
# nothing, and the fused kernel needs no second version.
_AGE_WITHOUT_CORRECTION = float(2**24)


class OptimizerConfig(Settings):
    kind: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = Field(1e-3, gt=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.98, ge=0, lt=1)
    epsilon: float = Field(1e-6, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    bias_correction: bool = True
    clip_norm: float = Field(1.0, ge=0)
    """The largest global gradient norm; 0 means no clipping."""
    max_skipped_in_a_row: int = Field(20, ge=1)
    """Steps with a loss or gradient that is not finite change nothing; this many in a row may pass."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Each layer learns this much slower than the one above; the heads learn at the full rate."""
    layer_decay_as_released: bool = False
    """The released code's off-by-one: the top layer gets decay squared."""
    muon_learning_rate: float = Field(0.02, gt=0)
    muon_momentum: float = Field(0.95, ge=0, lt=1)
    muon_iterations: int = Field(5, ge=1, le=10)
    """Of Newton–Schulz: fewer are cheaper and leave the singular values further from 1."""
    average_decay: float = Field(0.0, ge=0, lt=1)
    """Scores and exports are of a running average of the weights, each step of which keeps this much; 0: of none."""
    table_learning_rate: float = Field(0.0, ge=0)
    """Of the token table; 0 means learning_rate."""
    head_learning_rate: float = Field(0.0, ge=0)
    """Of the heads; 0 means learning_rate."""
    generator_rate_factor: float = Field(1.0, gt=0)
    """The rates of what belongs to the generator alone are multiplied by it."""


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that are updated alike."""

    method: Literal["adamw", "muon"]
    parameters: tuple[tuple[str, nn.Parameter], ...]
    weight_decay: float
    rate_factor: float


def group_parameters(
    named: Iterable[tuple[str, nn.Parameter]],
    depths: Mapping[str, int],
    matrices: frozenset[str],
    config: OptimizerConfig,
    rate_factors: Mapping[str, float] = MappingProxyType({}),
) -> list[ParameterGroup]:
    """Every parameter in exactly one group. Vectors (biases, norms) are not decayed; tables and matrices are.

    `depths` gives each name its height in its own network, `matrices` the names that Muon may orthogonalise,
    `rate_factors` what the learning rate of a name is multiplied by, where it is not 1.
    """
    parameters = list(named)  # named_parameters() is an iterator: read twice, its second reading is empty
    top = max(depths.values(), default=0)
    groups: dict[tuple[str, float, float], list[tuple[str, nn.Parameter]]] = {}
    for name, parameter in parameters:
        method = "muon" if config.kind == "muon" and name in matrices else "adamw"
        decay = config.weight_decay if parameter.ndim > 1 else 0.0
        # decay ** (distance from the heads), so that the top layer, one below the heads, gets decay ** 1.
        distance = top - depths[name]
        distance += config.layer_decay_as_released and distance > 0
        factor = float(config.layer_decay**distance) * rate_factors.get(name, 1.0)
        groups.setdefault((method, decay, factor), []).append((name, parameter))

    seen = [id(parameter) for members in groups.values() for _, parameter in members]
    assert len(seen) == len(set(seen)), "a parameter with two names would be stepped twice"
    return [
        ParameterGroup("muon" if method == "muon" else "adamw", tuple(members), decay, factor)
        for (method, decay, factor), members in groups.items()
    ]


# Muon: momentum whose matrices are orthogonalised before they are applied; Newton–Schulz in float32 unless the run
# computes in bfloat16, which without hardware support is many times slower than what it saves.
# The quintic whose iteration drives singular values into a band around 1 in few steps (Jordan, 2024).
_MUON_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrix: Tensor, iterations: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """U Vᵀ of the matrix's singular value decomposition, approximately; `dtype` is what the products are in."""
    a, b, c = _MUON_COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if is_tall else matrix
    x = (x / (x.norm() + 1e-7)).to(dtype)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if is_tall else x


def orthogonalise_flops(rows: int, columns: int, iterations: int) -> int:
    """Two products of the Gram matrix with itself and one with the matrix, each iteration."""
    short, long = sorted((rows, columns))
    return iterations * (2 * (2 * short * short * long) + 2 * short**3)


class Muon(torch.optim.Optimizer):
    """For hidden matrices only; `lr`, `weight_decay` and the momentum buffers are set by their owner."""

    def __init__(
        self, params: ParamsT, *, momentum: float, iterations: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(params, {"momentum": momentum, "iterations": iterations})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    direction = self.advance(parameter, group["momentum"])
                    update = orthogonalise(direction, group["iterations"], self._dtype).to(parameter.dtype)
                    self.move(parameter, group["lr"], group["weight_decay"], update, parameter.shape)

    def advance(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        """Take the gradient into the momentum; the direction before it is orthogonalised."""
        assert parameter.grad is not None
        buffer: Tensor = self.state[parameter]["momentum"]
        buffer.lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(buffer, momentum)

    def move(self, parameter: nn.Parameter, lr: float, weight_decay: float, update: Tensor, shape: torch.Size) -> None:
        """`shape`: of the whole matrix, of which the parameter may be a part."""
        # Tall matrices take larger steps so that the change of the output has the same size (per RMS).
        scale = max(1.0, shape[0] / shape[1]) ** 0.5
        parameter.mul_(1 - lr * weight_decay)
        parameter.add_(update, alpha=-lr * scale)


class Optimizer:
    """AdamW (fused), with Muon beside it where asked for, behind one step and one flat state."""

    def __init__(
        self,
        groups: list[ParameterGroup],
        config: OptimizerConfig,
        product_dtype: torch.dtype = torch.float32,
        muon_kind: type[Muon] = Muon,
    ) -> None:
        """`product_dtype`: what Muon's matrix products are in; weights and moments stay in float32."""
        self._groups = groups
        self._config = config
        self._product_dtype = product_dtype
        self._parts: list[torch.optim.Optimizer] = []
        torch_groups: dict[str, list[dict[str, Any]]] = {"adamw": [], "muon": []}
        for group in groups:
            parameters = [parameter for _, parameter in group.parameters]
            options = {"weight_decay": group.weight_decay, "rate_factor": group.rate_factor, "lr": 0.0}
            torch_groups[group.method].append({"params": parameters, **options})
        adamw, muon = torch_groups["adamw"], torch_groups["muon"]
        if adamw:
            betas = (config.beta1, config.beta2)
            self._parts.append(torch.optim.AdamW(adamw, betas=betas, eps=config.epsilon, fused=True))
        if muon:
            iterations, dtype = config.muon_iterations, product_dtype
            self._parts.append(muon_kind(muon, momentum=config.muon_momentum, iterations=iterations, dtype=dtype))
        self._names = {id(parameter): name for group in groups for name, parameter in group.parameters}
        self._fill_state()
        self._averages = {} if config.average_decay == 0 else self._copy_weights()
        self._averaged_steps = torch.zeros(())
        self.is_averaged = False
        """Whether the parameters have their running averages now."""
        self.owned = frozenset(self.names)
        """The names that are updated here: all of them, where a run has one worker."""

    def rebuild(self, parameters: Mapping[str, nn.Parameter], muon_kind: type[Muon]) -> "Optimizer":
        """The same rules for other tensors of the same names, with a state that begins anew."""
        groups = [
            replace(group, parameters=tuple((name, parameters[name]) for name, _ in group.parameters))
            for group in self._groups
        ]
        return Optimizer(groups, self._config, self._product_dtype, muon_kind)

    @property
    def muon(self) -> Muon | None:
        return next((part for part in self._parts if isinstance(part, Muon)), None)

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self._groups for _, parameter in group.parameters]

    @property
    def names(self) -> list[str]:
        """Of the parameters, in their order."""
        return [name for group in self._groups for name, _ in group.parameters]

    def _fill_state(self) -> None:
        """Give every parameter its state now, so that a checkpoint before the first update is like any other."""
        age = 0.0 if self._config.bias_correction else _AGE_WITHOUT_CORRECTION
        for part in self._parts:
            for group in part.param_groups:
                for parameter in group["params"]:
                    state = part.state[parameter]
                    if isinstance(part, Muon):
                        state["momentum"] = torch.zeros_like(parameter)
                    else:
                        state["step"] = torch.tensor(age, dtype=torch.float32, device=parameter.device)
                        state["exp_avg"] = torch.zeros_like(parameter)
                        state["exp_avg_sq"] = torch.zeros_like(parameter)

    def set_rates(self, factor: float) -> None:
        for part in self._parts:
            base = self._config.muon_learning_rate if isinstance(part, Muon) else self._config.learning_rate
            for group in part.param_groups:
                group["lr"] = base * group["rate_factor"] * factor

    def step(self) -> None:
        self.update_owned()
        self.count_step()

    def count_step(self) -> None:
        """After a step, once for all who share the state."""
        if self._averages:
            self._averaged_steps += 1

    def update_owned(self) -> None:
        for part in self._parts:
            part.step()
        if self._averages:
            # Of the first few steps the plain mean: what the weights were at the start is soon forgotten.
            count = self._averaged_steps.item() + 1
            weight = 1 - min(self._config.average_decay, count / (count + 9))
            with torch.no_grad():
                for parameter in self.parameters:
                    if (name := self._names[id(parameter)]) in self.owned:
                        self._averages[name].lerp_(parameter, weight)

    def _copy_weights(self) -> dict[str, Tensor]:
        return {self._names[id(parameter)]: parameter.detach().clone() for parameter in self.parameters}

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The parameters have their running averages inside, where there are any, and their own values again after."""
        if not self._averages:
            yield
            return
        own = self._copy_weights()
        self._assign(self._averages)
        self.is_averaged = True
        try:
            yield
        finally:
            self._assign(own)
            self.is_averaged = False

    @torch.no_grad()
    def _assign(self, weights: Mapping[str, Tensor]) -> None:
        for parameter in self.parameters:
            parameter.copy_(weights[self._names[id(parameter)]])

    def clear_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The state as `exp_avg/<parameter name>` -> tensor; live, not copied."""
        moments = {
            f"{key}/{self._names[id(parameter)]}": value
            for part in self._parts
            for parameter, state in part.state.items()
            for key, value in state.items()
        }
        if not self._averages:
            return moments
        averages = {f"average/{name}": average for name, average in self._averages.items()}
        return {**moments, **averages, "averaged_steps": self._averaged_steps}

    def relocate(self, places: Mapping[str, Tensor]) -> None:
        """The state of `tensors` lies in these places from now on; what is in them is the state."""
        for part in self._parts:
            for parameter, state in part.state.items():
                for key in state:
                    state[key] = places[f"{key}/{self._names[id(parameter)]}"]
        if self._averages:
            self._averages = {name: places[f"average/{name}"] for name in self._averages}
            self._averaged_steps = places["averaged_steps"]
