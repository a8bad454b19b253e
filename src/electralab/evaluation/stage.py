"""One suite on one model.

MODEL, data -> Progress... -> Evaluation
"""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import torch
from pydantic import Field

from electralab.config import Settings
from electralab.errors import UsageError
from electralab.evaluation.blimp import BlimpConfig, evaluate_blimp
from electralab.evaluation.heldout_rows import HeldoutConfig
from electralab.evaluation.mlm import evaluate_mlm
from electralab.evaluation.outcome import Conditions, Evaluation, Findings, Progress, Steps, Suite
from electralab.evaluation.rtd import evaluate_rtd
from electralab.evaluation.subject import load_subject
from electralab.runtime import choose_device
from electralab.stopping import StopSignal

BAD_ROWS_SHOWN = 20


class EvaluateConfig(Settings):
    seed: int = Field(0, ge=0, lt=2**31)
    batch_tokens: int = Field(8192, ge=1)
    """Tokens that go through a network at once, padding included."""
    max_bad_share: float = Field(0.05, ge=0, le=1)
    """The share of lines without an example above which nothing is evaluated."""
    device: str = "auto"
    blimp: BlimpConfig = BlimpConfig()
    heldout: HeldoutConfig = HeldoutConfig()


def evaluate(
    model: Path,
    suite: Suite,
    data: Path,
    config: EvaluateConfig,
    *,
    generator: Path | None = None,
    stop: StopSignal | None = None,
) -> Iterator[Progress | Evaluation]:
    """Progress as it comes, and at the very end the evaluation."""
    if suite not in get_args(Suite):
        raise UsageError(f"--suite: no suite named {suite!r}; known are {', '.join(get_args(Suite))}")
    if generator is not None and suite != "rtd":
        raise UsageError(f"--generator: belongs to the suite 'rtd', not to {suite!r}; leave it out")
    conditions = Conditions(
        seed=config.seed,
        batch_tokens=config.batch_tokens,
        max_bad_share=config.max_bad_share,
        device=str(choose_device(config.device)),
        check=(stop or StopSignal()).check,
    )
    findings = yield from _run(model, suite, data, config, conditions, generator)
    yield Evaluation(
        suite=suite,
        model=str(model),
        data=str(data),
        scores=findings.scores,
        groups=findings.groups,
        counts=findings.counts,
        notes=findings.notes,
        bad_rows=findings.bad_rows[:BAD_ROWS_SHOWN],
        settings=config.model_dump(mode="json"),
    )


def _run(
    model: Path, suite: Suite, data: Path, config: EvaluateConfig, conditions: Conditions, generator: Path | None
) -> Steps[Findings]:
    subject = load_subject(model, torch.device(conditions.device))
    match suite:
        case "blimp":
            return (yield from evaluate_blimp(subject, data, config.blimp, conditions))
        case "rtd":
            return (yield from evaluate_rtd(subject, data, config.heldout, conditions, generator=generator))
        case _:
            return (yield from evaluate_mlm(subject, data, config.heldout, conditions))
