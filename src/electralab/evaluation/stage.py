"""One suite on one model.

MODEL, data -> Event... -> Evaluation
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.readers import ReadingConfig
from electralab.errors import UsageError
from electralab.evaluation.blimp import BlimpConfig, evaluate_blimp
from electralab.evaluation.heldout_rows import HeldoutConfig
from electralab.evaluation.mlm import evaluate_mlm
from electralab.evaluation.outcome import Conditions, Evaluation, Findings, Steps, Suite, T
from electralab.evaluation.probes import ProbeConfig, evaluate_probe
from electralab.evaluation.rtd import evaluate_rtd
from electralab.evaluation.states import StatesConfig
from electralab.evaluation.sts import evaluate_sts
from electralab.evaluation.subject import load_subject
from electralab.events import Event, Note, Result, warn
from electralab.runtime import choose_device
from electralab.stopping import StopSignal
from electralab.tasks.load import TaskDataConfig

BAD_ROWS_SHOWN = 20


class EvaluateConfig(Settings):
    seed: int = Field(0, ge=0, lt=2**31)
    batch_tokens: int = Field(8192, ge=1)
    """Tokens that go through a network at once, padding included."""
    device: str = "auto"
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
) -> Iterator[Event[Evaluation]]:
    """The phases of the suite, what to know of its scores, and the evaluation."""
    if suite not in get_args(Suite):
        raise UsageError(f"--suite: no suite named {suite!r}; known are {', '.join(get_args(Suite))}")
    if generator is not None and suite != "rtd":
        raise UsageError(f"--generator: belongs to the suite 'rtd', not to {suite!r}; leave it out")
    if task is not None and suite != "probe":
        raise UsageError(f"--task: belongs to the suite 'probe', not to {suite!r}; leave it out")
    conditions = Conditions(
        seed=config.seed,
        batch_tokens=config.batch_tokens,
        max_bad_share=config.data.max_bad_share,
        device=str(choose_device(config.device)),
        reading=config.reading,
        check=(stop or StopSignal()).check,
    )
    findings = yield from _name_phases(_run(model, suite, data, config, conditions, generator, task))
    for text in findings.notes:
        yield Note(text, "warning")
    bad_rows = findings.bad_rows[:BAD_ROWS_SHOWN]
    yield from map(warn, bad_rows)
    evaluation = Evaluation(
        suite=suite,
        model=str(model),
        data=str(data),
        scores=findings.scores,
        groups=findings.groups,
        counts=findings.counts,
        identity=findings.identity,
        notes=findings.notes,
        bad_rows=bad_rows,
        settings=config.model_dump(mode="json") | {"generator": str(generator or ""), "task": task or ""},
    )
    yield Result(evaluation)


def _name_phases(steps: Steps[T]) -> Steps[T]:
    """In a pipe a line when a phase begins."""
    phase = ""
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            outcome: T = end.value
            return outcome
        yield event if event.phase == phase else replace(event, line=event.phase)
        phase = event.phase


def _run(
    model: Path,
    suite: Suite,
    data: Path,
    config: EvaluateConfig,
    conditions: Conditions,
    generator: Path | None,
    task: str | None,
) -> Steps[Findings]:
    if suite == "sts":
        return (yield from evaluate_sts(model, data, config.states, config.data, conditions))
    if suite == "probe":
        return (yield from evaluate_probe(model, data, task, config.states, config.probe, config.data, conditions))
    subject = load_subject(model, torch.device(conditions.device))
    if suite == "blimp":
        return (yield from evaluate_blimp(subject, data, config.blimp, conditions))
    if suite == "rtd":
        return (yield from evaluate_rtd(subject, data, config.heldout, conditions, generator=generator))
    return (yield from evaluate_mlm(subject, data, config.heldout, conditions))
