"""One suite on one model.

MODEL, data -> Event... -> EvaluationResult
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from pydantic import Field
from torch import nn

from electralab.config import Settings
from electralab.corpus.readers import ReadingConfig
from electralab.errors import UsageError
from electralab.evaluation.blimp import BlimpConfig, evaluate_blimp
from electralab.evaluation.context import EvalContext, Progressive, StatesConfig, SuiteResult, load_eval_model
from electralab.evaluation.heldout import HeldoutConfig, evaluate_mlm, evaluate_rtd
from electralab.evaluation.probes import ProbeConfig, evaluate_probe, evaluate_sts
from electralab.events import Event, Note, Result, warn
from electralab.model.encoder import compute_in
from electralab.records.evaluation import EvaluationResult, Suite
from electralab.runtime import Precision, choose_device
from electralab.stopping import StopSignal
from electralab.tasks.load import TaskDataConfig

BAD_ROWS_SHOWN = 20


class EvaluateConfig(Settings):
    seed: int = Field(0, ge=0, lt=2**31)
    batch_tokens: int = Field(8192, ge=1)
    """Tokens that go through a network at once, padding included."""
    device: str = "auto"
    precision: Precision = "fp32"
    """What encoders are multiplied in, by suites that ask whole networks; auto: bf16 where a short probe finds it
    faster on this machine."""
    blimp: BlimpConfig = BlimpConfig()
    heldout: HeldoutConfig = HeldoutConfig()
    """Of rtd and mlm."""
    reading: ReadingConfig = ReadingConfig()
    """How they find text in files that are not prepared."""
    states: StatesConfig = StatesConfig()
    """Of sts and probe."""
    probe: ProbeConfig = ProbeConfig()
    data: TaskDataConfig = TaskDataConfig()
    """How tables are read, and which share of bad rows is too much, in all suites that read examples."""


def evaluate(
    model: Path,
    suite: Suite,
    data: Path,
    config: EvaluateConfig,
    *,
    generator: Path | None = None,
    task: str | None = None,
    stop: StopSignal | None = None,
) -> Iterator[Event[EvaluationResult]]:
    """The phases of the suite, what to know of its scores, and the evaluation."""
    if suite not in get_args(Suite):
        raise UsageError(f"--suite: no suite named {suite!r}; known are {', '.join(get_args(Suite))}")
    if generator is not None and suite != "rtd":
        raise UsageError(f"--generator: belongs to the suite 'rtd', not to {suite!r}; leave it out")
    if task is not None and suite != "probe":
        raise UsageError(f"--task: belongs to the suite 'probe', not to {suite!r}; leave it out")
    context = EvalContext(
        seed=config.seed,
        batch_tokens=config.batch_tokens,
        max_bad_share=config.data.max_bad_share,
        device=str(choose_device(config.device)),
        reading=config.reading,
        check=(stop or StopSignal()).check,
    )
    steps: Progressive[SuiteResult]
    if suite == "sts":
        steps = evaluate_sts(model, data, config.states, config.data, context)
    elif suite == "probe":
        steps = evaluate_probe(model, data, task, config.states, config.probe, config.data, context)
    else:
        loaded = load_eval_model(model, torch.device(context.device))
        for network in (loaded.discriminator, loaded.generator):
            if isinstance(network, nn.Module):
                compute_in(network, config.precision, config.batch_tokens)
        if suite == "blimp":
            steps = evaluate_blimp(loaded, data, config.blimp, context)
        elif suite == "rtd":
            steps = evaluate_rtd(loaded, data, config.heldout, context, generator=generator)
        else:
            steps = evaluate_mlm(loaded, data, config.heldout, context)
    phase = ""
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            result: SuiteResult = end.value
            break
        # In a pipe a line when a phase begins.
        yield event if event.phase == phase else replace(event, line=event.phase)
        phase = event.phase
    for text in result.notes:
        yield Note(text, "warning")
    bad_rows = result.bad_rows[:BAD_ROWS_SHOWN]
    yield from map(warn, bad_rows)
    yield Result(
        EvaluationResult(
            suite=suite,
            model=str(model),
            data=str(data),
            scores=result.scores,
            groups=result.groups,
            counts=result.counts,
            identity=result.identity,
            notes=result.notes,
            bad_rows=bad_rows,
            settings=config.model_dump(mode="json") | {"generator": str(generator or ""), "task": task or ""},
        )
    )
