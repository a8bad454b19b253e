"""What a sitting does around its steps, with a network of one number to learn."""

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import torch
import watching_events
from torch import Tensor, nn
from watching_events import notes, step_records, warnings

from electralab.errors import TrainingDiverged
from electralab.events import Progress, Update
from electralab.records.run import StepRecord, read_metrics
from electralab.stopping import StopSignal
from electralab.training.checkpoint import TrainingProgress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters
from electralab.training.schedule import ScheduleConfig, lr_schedule
from electralab.training.trainer import EvalRecord, LoopConfig, StepStats, Trainer, every_n_steps


class Number(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(2))


class Climb:
    """The number is to become one; at the steps named its loss is not a number."""

    def __init__(self, number: Number, lost_at: frozenset[int], factor: float = 1.0) -> None:
        self.number = number
        self.factor = factor
        self.lost_at = lost_at
        self.judged: list[int] = []
        self.part_metrics: dict[int, None] = {}
        self.stats = StepStats(tokens=10, flops=100)

    def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
        del choose
        yield ((self.number.value - 1) ** 2).sum() * (math.nan if step in self.lost_at else 1.0)

    def step_metrics(self) -> dict[str, float]:
        return {"value": self.number.value.tolist()[0]}

    def evaluate(self, record: StepRecord) -> EvalRecord:
        step = record["step"]
        self.judged.append(step)
        return EvalRecord({"score": float(step) * self.factor}, [f"step {step} was judged"])


def sit(
    run: Path,
    *,
    steps: int = 6,
    lost_at: tuple[int, ...] = (),
    score: float = 1.0,
    evaluate_every: int = 0,
    kind: type[Climb] = Climb,
    **pace: int,
) -> tuple[Climb, list[Update]]:
    number = Number()
    config = OptimizerConfig(learning_rate=0.1, max_skipped_in_a_row=2)
    optimizer = Optimizer(group_parameters(number.named_parameters(), {"value": 0}, frozenset(), config), config)
    state = TrainingState(number, optimizer, LossScale(), TrainingProgress(), None)
    work = kind(number, frozenset(lost_at), score)
    often = {"log_every": 2, "save_every": 2, "keep": 9} | pace
    paces = LoopConfig(steps, evaluate_every, snapshot_steps=frozenset(), **often)
    session = Trainer(run, state, work, paces, config, lr_schedule(ScheduleConfig(), steps), StopSignal())
    return work, list(session.run())


def saved(events: list[Update]) -> list[str]:
    return [path.name for path in watching_events.saved(events)]


def test_progress_adds_up_what_the_work_counts(tmp_path: Path) -> None:
    work, events = sit(tmp_path)
    records = step_records(events)
    assert work.judged == []  # nobody asked
    assert not any("value_gradient_norm" in record for record in records)  # one network has no norms of parts
    assert [(record["step"], record["tokens"], record["flops"]) for record in records] == [
        (2, 20, 200),
        (4, 40, 400),
        (6, 60, 600),
    ]
    assert [record.to_json() for record in read_metrics(tmp_path / "metrics.jsonl")] == records
    assert 0 < records[0]["value"] < records[2]["value"]


def test_several_networks_have_a_gradient_norm_each(tmp_path: Path) -> None:
    """Gradients 3 and 4 at one network, 12 at the other: 5, 12 and 13 together; the third learns nothing yet."""
    network = nn.ModuleDict({name: nn.Linear(1, 1) for name in ("judge", "guesser", "idle")})
    config = OptimizerConfig()
    depths = dict.fromkeys(dict(network.named_parameters()), 0)
    optimizer = Optimizer(group_parameters(network.named_parameters(), depths, frozenset(), config), config)

    class Pull(Climb):
        def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
            del step, choose
            value = network.get_parameter
            yield (3 * value("judge.weight") + 4 * value("judge.bias") + 12 * value("guesser.weight")).sum()

        def step_metrics(self) -> dict[str, float]:
            return {}

    state = TrainingState(network, optimizer, LossScale(), TrainingProgress(), None)
    pace = LoopConfig(1, 0, log_every=1, save_every=0, keep=1)
    work = Pull(Number(), frozenset())
    list(Trainer(tmp_path, state, work, pace, config, lr_schedule(ScheduleConfig(), 1), StopSignal()).run())
    (record,) = read_metrics(tmp_path / "metrics.jsonl")
    norms = {key: value for key, value in record.values.items() if key.endswith("gradient_norm")}
    assert norms == pytest.approx({"gradient_norm": 13, "judge_gradient_norm": 5, "guesser_gradient_norm": 12})


def test_the_last_step_is_logged_judged_and_saved_whatever_the_pace(tmp_path: Path) -> None:
    work, events = sit(tmp_path, steps=7, evaluate_every=4, save_every=5, log_every=0)
    assert work.judged == [4, 7]
    assert saved(events) == ["step-5", "step-7"]
    assert warnings(events) == ["step 4 was judged", "step 7 was judged"]
    assert [record["score"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [4.0, 7.0]


def test_a_step_that_is_not_finite_changes_nothing_and_is_told(tmp_path: Path) -> None:
    work, events = sit(tmp_path, lost_at=(3,))
    assert warnings(events) == ["step 3 was not finite (loss nan, gradient norm nan) and changed nothing; 1 so far"]
    assert saved(sit(tmp_path / "other", lost_at=(4,))[1]) == ["step-2", "step-6"]  # a skipped step is not saved
    assert math.isfinite(work.number.value.tolist()[0])
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["skipped_steps"] == 1


def test_too_many_skipped_steps_in_a_row_end_it_and_name_what_is_left(tmp_path: Path) -> None:
    with pytest.raises(TrainingDiverged, match=r"3 steps in a row were not finite; .*step-2; lower"):
        sit(tmp_path, lost_at=(3, 4, 5))


@pytest.mark.parametrize("lost_at", [(6,), (5, 6)])
def test_a_last_step_that_is_not_finite_costs_no_more_than_any_other(tmp_path: Path, lost_at: tuple[int, ...]) -> None:
    work, events = sit(tmp_path, lost_at=lost_at)
    assert saved(events)[-1] == "step-6"
    assert [text for text in warnings(events) if text.startswith("step 6 was not finite")]
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["step"] == 6
    assert work.number.value.tolist()[0] > 0
    # The same command again has nothing left to do.
    assert saved(sit(tmp_path, lost_at=lost_at)[1]) == []


def test_a_run_does_not_end_with_weights_whose_scores_are_not_finite(tmp_path: Path) -> None:
    with pytest.raises(TrainingDiverged, match=r"1 steps in a row were not finite; .*step-4"):
        sit(tmp_path, lost_at=(6,), score=math.inf)


def test_without_an_intact_checkpoint_it_begins_again_and_says_so(tmp_path: Path) -> None:
    sit(tmp_path, keep=1)
    (tmp_path / "checkpoints/step-6/state.json").write_text("{}")
    _, events = sit(tmp_path, keep=1)
    first, second = warnings(events)
    assert "state.json" in first
    assert second == f"{tmp_path / 'checkpoints'}: no checkpoint is intact; starting again from step 1"
    assert saved(events) == ["step-2", "step-4", "step-6"]


def test_a_finished_run_takes_no_step(tmp_path: Path) -> None:
    sit(tmp_path)
    work, events = sit(tmp_path)
    assert (saved(events), warnings(events), work.judged) == ([], [], [])
    assert [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [2, 4, 6]


@pytest.mark.parametrize(
    ("times", "steps", "every"), [(0, 100, 0), (1, 100, 100), (3, 100, 34), (4, 100, 25), (200, 100, 1)]
)
def test_so_many_times_in_a_run_are_every_so_many_steps(times: int, steps: int, every: int) -> None:
    assert every_n_steps(times, steps) == every


def lines(events: list[Update]) -> list[str]:
    """What a pipe gets."""
    told = [event.line if isinstance(event, Progress) else event.text for event in events]
    return [line for line in told if line]


def test_a_pipe_is_told_how_far_it_is_and_what_was_saved(tmp_path: Path) -> None:
    told = lines(sit(tmp_path, steps=4, save_every=0)[1])
    assert told[0] == "starting at step 1 of 4, 2 parameters, 1 thread"
    assert [line[:13] for line in told[1:3]] == ["step      2/4", "step      4/4"]
    assert all(" tok/s  eta 0:0" in line for line in told[1:3])
    assert told[3] == f"saved {tmp_path / 'checkpoints/step-4'}"
    assert lines(sit(tmp_path, steps=4)[1]) == ["already finished: 4 steps"]


class Scored(Climb):
    """Step 17 is the only one with a score."""

    def evaluate(self, record: StepRecord) -> EvalRecord:
        return EvalRecord({"dev_accuracy": 0.5}, []) if record["step"] == 17 else EvalRecord({}, [])


def test_a_pipe_gets_a_few_lines_of_many_steps_and_every_score(tmp_path: Path) -> None:
    _, events = sit(tmp_path, kind=Scored, steps=36, evaluate_every=17, log_every=1, save_every=0, most_lines=4)
    told = [line for line in lines(events) if line.startswith("step")]
    assert [int(line.split()[1].partition("/")[0]) for line in told] == [9, 17, 18, 27, 36]
    assert notes(events, "score") == ["       dev  accuracy 0.5000"]
    assert len(step_records(events)) == 36
    _, events = sit(tmp_path / "all", kind=Scored, steps=36, evaluate_every=17, log_every=1, save_every=0)
    assert sum(line.startswith("step") for line in lines(events)) == 36
