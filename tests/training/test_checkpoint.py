"""What is saved comes back bit for bit; what does not verify does not count; the only good one is never let go."""

from pathlib import Path

import pytest
import torch
from little_runs import damage
from torch import nn

from electralab.errors import DamagedArtifact
from electralab.records.run import StepRecord
from electralab.training.checkpoint import (
    TrainingProgress,
    TrainingState,
    find_latest,
    list_checkpoints,
    load_checkpoint,
    read_weights,
    save_checkpoint,
)
from electralab.training.loop import LossScale
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters


class Tied(nn.Module):
    """Two names for one table, as generator and discriminator have."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Linear(3, 5, bias=False)
        self.other = nn.Linear(3, 5)
        self.other.weight = self.table.weight


def make_state(seed: int, kind: str = "adamw") -> TrainingState:
    torch.manual_seed(seed)
    model = Tied()
    config = OptimizerConfig.model_validate({"kind": kind})
    depths = {name: 0 for name, _ in model.named_parameters()}
    matrices = frozenset(["table.weight"])
    optimizer = Optimizer(group_parameters(model.named_parameters(), depths, matrices, config), config)
    return TrainingState(model, optimizer, LossScale(), TrainingProgress(), None)


def take_steps(state: TrainingState, count: int) -> None:
    for _ in range(count):
        state.optimizer.clear_gradients()
        state.model.get_submodule("other")(torch.ones(3)).square().sum().backward()
        state.optimizer.set_rates(1.0)
        state.optimizer.step()
        state.progress.step += 1


def tensors_of(state: TrainingState) -> dict[str, torch.Tensor]:
    weights = dict(state.model.named_parameters())
    return {name: tensor.detach().clone() for name, tensor in (weights | state.optimizer.tensors()).items()}


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_everything_comes_back_bit_for_bit(tmp_path: Path, kind: str) -> None:
    state = make_state(0, kind)
    take_steps(state, 3)
    state.progress = TrainingProgress(step=3, tokens=96, flops=10**15, skipped_steps=2, skipped_in_a_row=1, seconds=0.1)
    state.pending = StepRecord(step=3, values={"loss": 0.1 + 0.2, "auc": 0.5})
    state.scale = LossScale(value=512.0, good_steps=7)
    path = save_checkpoint(tmp_path, state, keep=1)
    assert path == tmp_path / "step-3"

    other = make_state(1, kind)
    assert any(not torch.equal(tensor, tensors_of(state)[name]) for name, tensor in tensors_of(other).items())
    load_checkpoint(path, other)
    assert tensors_of(other).keys() == tensors_of(state).keys()
    assert all(torch.equal(tensor, tensors_of(state)[name]) for name, tensor in tensors_of(other).items())
    assert (other.progress, other.pending, other.scale) == (state.progress, state.pending, state.scale)


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    whole, half = make_state(0), make_state(0)
    take_steps(whole, 10)
    take_steps(half, 5)
    resumed = make_state(7)
    load_checkpoint(save_checkpoint(tmp_path, half, keep=1), resumed)
    take_steps(resumed, 5)
    assert all(torch.equal(tensor, tensors_of(whole)[name]) for name, tensor in tensors_of(resumed).items())


def test_a_shared_table_is_stored_once_and_stays_shared(tmp_path: Path) -> None:
    state = make_state(0)
    path = save_checkpoint(tmp_path, state, keep=1)
    assert sorted(read_weights(path)) == ["other.bias", "table.weight"]
    other = make_state(1)
    load_checkpoint(path, other)
    assert other.model.get_parameter("other.weight") is other.model.get_parameter("table.weight")


def save_steps(folder: Path, *steps: int, keep: int = 9) -> TrainingState:
    state = make_state(0)
    for step in steps:
        state.progress.step = step
        save_checkpoint(folder, state, keep)
    return state


def test_latest_is_the_highest_step_and_not_the_last_name(tmp_path: Path) -> None:
    save_steps(tmp_path, 9, 10, 100)
    (tmp_path / ".step-200.tmp").mkdir()
    (tmp_path / "step-x").mkdir()
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-100", "step-10", "step-9"]
    assert find_latest(tmp_path, pytest.fail) == tmp_path / "step-100"


def test_old_checkpoints_are_let_go(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2, 3, 4, keep=2)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-4", "step-3"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("how", ["flipped", "truncated", "missing"])
def test_the_one_before_a_damaged_checkpoint_is_found_and_the_damage_named(tmp_path: Path, name: str, how: str) -> None:
    save_steps(tmp_path, 10, 20)
    file = tmp_path / "step-20" / name
    if how == "flipped":
        damage(file)
    elif how == "truncated":
        file.write_bytes(file.read_bytes()[:-5])
    else:
        file.unlink()
    said: list[str] = []
    assert find_latest(tmp_path, said.append) == tmp_path / "step-10"
    assert len(said) == 1
    assert str(tmp_path / "step-20") in said[0]
    assert name in said[0]
    assert (tmp_path / "step-20").is_dir()


def test_the_only_good_checkpoint_outlives_a_damaged_newer_one(tmp_path: Path) -> None:
    """Keeping one: were it the newest by name, the good one would go and the damaged one stay."""
    state = save_steps(tmp_path, 10, 20)
    damage(tmp_path / "step-20" / "model.safetensors")
    latest = find_latest(tmp_path, lambda _: None)
    assert latest == tmp_path / "step-10"
    state.progress.step = 11
    save_checkpoint(tmp_path, state, keep=1)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-11"]
    assert find_latest(tmp_path, pytest.fail) == tmp_path / "step-11"


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = save_steps(tmp_path, 10)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("electralab.training.checkpoint.save_file", fail)
    state.progress.step = 20
    with pytest.raises(Exception, match="the disk is full"):
        save_checkpoint(tmp_path, state, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-10"]
    assert find_latest(tmp_path, pytest.fail) == tmp_path / "step-10"


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, make_state(0), keep=1)
    other = make_state(0)
    other.model.register_parameter("extra", nn.Parameter(torch.zeros(1)))
    with pytest.raises(DamagedArtifact, match="first difference 'extra'"):
        load_checkpoint(path, other)
