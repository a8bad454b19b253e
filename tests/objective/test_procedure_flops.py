"""What a step of each procedure costs, against torch's own counter: what learns counts three times, what plays once."""

from collections.abc import Callable
from typing import Any

import pytest
from little_pairs import counting_rows
from procedure_pairs import TINY, assemble, make
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.objective.electra import ElectraObjective
from electralab.objective.electric import ElectricObjective
from electralab.objective.objective import StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng

ROWS, LENGTH, SHARE = 3, 16, 0.25
FIRST, LAST = StepInfo(1, 4), StepInfo(4, 4)


def electric() -> ElectraObjective:
    config = ObjectiveConfig(
        objective="electric",
        model=ModelConfig(**TINY, sharing="token"),
        generator=GeneratorConfig(kind="two-tower", width_share=0.5),
    )
    return assemble(config, ElectricObjective)


def frozen() -> ElectraObjective:
    objective = make("joint", width=0.5)
    objective.networks.generator.requires_grad_(False)
    return objective


def procedure(name: str, **settings: Any) -> Callable[[], ElectraObjective]:
    return lambda: make(name, **{"width": 0.5} | settings)


OLD = {"model": {"backbone": "electra", "embedding_size": 24}}
STEPS: dict[str, tuple[Callable[[], ElectraObjective], StepInfo]] = {
    "two-stage, first": (procedure("two-stage", width=1.0), FIRST),
    "two-stage, second": (procedure("two-stage", width=1.0), LAST),
    "two-stage anew, first": (procedure("two-stage", init_from_generator=False), FIRST),
    "two-stage anew, second": (procedure("two-stage", init_from_generator=False), LAST),
    "adversarial": (procedure("adversarial"), FIRST),
    "adversarial, embeddings": (procedure("adversarial", sharing="embeddings", **OLD), FIRST),
    "adversarial, two towers": (procedure("adversarial", kind="two-tower"), FIRST),
    "minimax, discriminator": (procedure("minimax"), FIRST),
    "minimax, generator": (procedure("minimax"), LAST),
    "minimax-literal, generator": (procedure("minimax-literal", sharing="embeddings"), LAST),
    "electric": (electric, FIRST),
    "frozen": (frozen, FIRST),
}


def count_by_torch(objective: ElectraObjective, moment: StepInfo) -> int:
    objective.on_step_start(moment)
    (question,) = objective.make_inputs(counting_rows(ROWS, LENGTH), ROWS, SHARE, Rng(3, 1))
    counts = objective.count_targets(question)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        objective.training_step(question, moment).losses.weigh(counts, objective.weights).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


@pytest.mark.parametrize("step", STEPS)
def test_torch_counts_the_same_operations(step: str) -> None:
    build, moment = STEPS[step]
    objective = build()
    counted = count_by_torch(objective, moment)
    assert objective.count_flops(moment, ROWS, LENGTH, SHARE) == pytest.approx(counted, rel=0.01)
