"""A run by the clock, simulated: a clock of a machine that becomes busy half way, and a task that only counts."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.records.run import Budget, LengthLog, RunFingerprint, RunLength
from electralab.training.schedule import ScheduleConfig, StepPlan, learning_rate_factor
from electralab.training.time_budget import TimeBudget, plan_total


class BusyClock:
    """Steps take twice as long between two moments, in seconds."""

    def __init__(self, step_seconds: float, busy_from: float, busy_to: float = 1e9) -> None:
        self.now = 0.0
        self.step_seconds, self.busy_from, self.busy_to = step_seconds, busy_from, busy_to

    def __call__(self) -> float:
        return self.now

    def work(self, steps: float = 1.0) -> None:
        is_busy = self.busy_from <= self.now < self.busy_to
        self.now += steps * self.step_seconds * (2.0 if is_busy else 1.0)


class GrowingTask:
    """Later steps cost more, as with a ramp of rows: from one operation to `growth`."""

    def __init__(self, plan: StepPlan, growth: float = 1.0) -> None:
        self.plan, self.growth = plan, growth

    def flops_at(self, share: float) -> float:
        return 1e6 * (1 + (self.growth - 1) * share)

    def mean_flops(self, after: float) -> float:
        return self.flops_at((1 + after) / 2)

    def rows_before(self, step: int) -> int:
        return 8 * (step - 1)


def simulate(
    folder: Path,
    clock: BusyClock,
    *,
    minutes: float = 5.0,
    guess: int = 3000,
    growth: float = 1.0,
    evaluation: float = 20.0,
    min_steps: int = 0,
    stop_at: int = 0,
    log: LengthLog | None = None,
    begin: int = 0,
) -> tuple[TimeBudget, list[str]]:
    """Ten evaluations and an export, each worth so many steps; a run that is stopped has taken `stop_at` steps."""
    log = log or LengthLog(minutes=minutes, seconds=0.0, lengths=[RunLength.whole(guess)])
    task = GrowingTask(StepPlan(log.lengths), growth)
    fingerprint = RunFingerprint(
        data="", init_from="", settings={}, budget=Budget("minutes", minutes), total_steps=guess, threads=1
    )
    budget = TimeBudget(
        folder,
        log,
        fingerprint,
        task,
        evaluate_every=guess // 10,
        save_every=0,
        evaluation_steps=evaluation / 2,
        save_seconds=1.0,
        min_steps=min_steps,
        clock=clock,
    )
    budget.start()
    said = []
    for step in itertools.count(begin + 1):
        share = task.plan.span(step)[0] / guess
        flops = task.flops_at(share)
        clock.work(flops / 1e6)
        if task.plan.reaches_multiple(step, guess // 10):
            with budget.measure("evaluation"):
                clock.work(evaluation)
        if task.plan.is_last(step) or step == stop_at:
            break
        said.append(budget.decide(step, round(flops))[1])
    if step != stop_at:
        clock.work(evaluation)  # the export
        clock.now += 1.5
    budget.keep()
    return budget, [text for text in said if text]


@pytest.mark.parametrize("guess", [300, 3000, 30_000])
@pytest.mark.parametrize("busy_from", [0.0, 50.0, 150.0, 250.0, 1e9])
@pytest.mark.parametrize("growth", [1.0, 3.0])
def test_a_run_ends_when_its_time_does_however_busy_the_machine_becomes(
    tmp_path: Path, guess: int, busy_from: float, growth: float
) -> None:
    budget, _ = simulate(tmp_path, BusyClock(0.1, busy_from), guess=guess, growth=growth)
    assert 285 < budget.log.seconds < 315
    log = LengthLog.read(tmp_path)
    assert log == budget.log
    assert RunFingerprint.read(tmp_path).total_steps == log.lengths[-1].total_steps


def test_a_machine_that_is_busy_at_first_costs_the_run_only_that_time(tmp_path: Path) -> None:
    """What used to be measured once, in the worst moment."""
    budget, _ = simulate(tmp_path, BusyClock(0.1, 0.0, 30.0), guess=1400, evaluation=0.0)
    assert budget.task.plan.total_steps == pytest.approx((300 - 30) / 0.1 + 30 / 0.2, rel=0.03)


def test_the_time_is_that_of_all_processes_of_a_run(tmp_path: Path) -> None:
    log, step, clock = None, 0, BusyClock(0.1, 120.0)
    for stop_at in (500, 900, 0):
        budget, _ = simulate(tmp_path, clock, log=log, begin=step, stop_at=stop_at)
        log, step = LengthLog.read(tmp_path), stop_at
        clock.now += 1000.0  # nothing runs
    assert 285 < budget.log.seconds < 315


def test_a_floor_of_steps_wins_over_the_clock_and_says_so_once(tmp_path: Path) -> None:
    budget, said = simulate(tmp_path, BusyClock(0.5, 1e9), guess=3000, min_steps=1200, evaluation=0.0)
    assert budget.task.plan.total_steps == 1200
    (sentence,) = said
    assert sentence.startswith("there is time for about 5")
    assert "the run takes at least 1,200 (--min-steps): about 10" in sentence


def test_users_hear_of_a_number_of_steps_that_is_far_from_the_last(tmp_path: Path) -> None:
    _, said = simulate(tmp_path, BusyClock(0.1, 1e9), guess=30_000, evaluation=0.0)
    assert len(said) == 1
    assert said[0].endswith("steps now, before 30,000")


def test_where_no_time_is_left_the_learning_rate_comes_down_over_a_few_steps_more() -> None:
    length = RunLength.whole(1000)
    assert plan_total(length, 500, -60.0, 0.1) == 510
    # At the next decision it has as little time, and is not sent further.
    landing = RunLength(step=500, position=500, planned_steps=1000, total_steps=510, rows=0)
    assert plan_total(landing, 505, -61.0, 0.1) == 510


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 200)), max_size=5)


@given(st.integers(2, 100), lengths, st.sampled_from(["linear", "cosine", "stable-decay"]))
def test_a_schedule_bends_without_a_jump(planned: int, decisions: list[tuple[int, int]], kind: str) -> None:
    """Progress never falls, goes on where it was and ends at 1; the rate is that of the progress."""
    plan = StepPlan.whole(planned)
    for later, more in decisions:
        last = plan.lengths[-1]
        step = last.step + later
        if step >= last.total_steps:
            break
        plan.add(
            RunLength(
                step=step,
                position=last.position_after(step),
                planned_steps=planned,
                total_steps=step + more,
                rows=0,
            )
        )
    spans = [plan.span(step) for step in range(1, plan.total_steps + 1)]
    assert spans[0][0] == 0
    assert spans[-1][1] == planned
    assert all(before < after for before, after in spans)
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(spans))
    schedule = ScheduleConfig.model_validate({"kind": kind, "warmup_share": 0.0, "floor": 0.1})
    rates = [learning_rate_factor(begin + 1, planned, schedule) for begin, _ in spans]
    assert rates == sorted(rates, reverse=True)
    for (before, rate), (after, later_rate) in itertools.pairwise(zip(spans, rates, strict=True)):
        # No steeper than the schedule is anywhere, for this part of the planned steps.
        assert rate - later_rate <= 5 * (after[0] - before[0]) / planned + 1e-9
