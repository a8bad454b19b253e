"""A run on many devices: counted on real networks, arithmetic by hand, and what is said of what was not measured."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import electralab
from electralab.config import ConfigLayer, SettingsTree
from electralab.errors import UsageError
from electralab.model.encoder import Encoder
from electralab.objective.registry import build_objective
from electralab.pretraining.cost import estimate_cost, placeholder_data
from electralab.pretraining.plan import (
    TITAN_EFFICIENCY,
    Workload,
    choose_mode,
    count_workload,
    describe_device,
    lay_out,
    plan_mode,
)
from electralab.pretraining.settings import PretrainConfig, resolve_pretrain
from electralab.pretraining.task import build_state
from electralab.records.plan import DeviceSpec, ModePlan, RunPlan
from electralab.records.run import Budget
from electralab.runtime import autocast
from electralab.shell.cli import main

LENGTH, VOCABULARY = 16, 100
SMALL: SettingsTree = {
    "steps": 50,
    "model": {
        **{"num_layers": 2, "hidden_size": 32, "embedding_size": 32, "num_heads": 2, "feedforward_size": 64},
        "sharing": "embeddings",
    },
    "generator": {"width_share": 0.5, "num_heads": 1},
    "batch": {"size": 8},
}
DEVICE = DeviceSpec(
    **{"name": "test", "tflops": 1e-3, "utilisation": 0.5, "memory_gb": 1.0, "memory_bandwidth": 1.0},
    **{"bandwidth": 1.0, "network_bandwidth": 0.1, "latency_us": 10.0, "row_us": 0.0, "per_host": 4},
    **{"price_per_hour": 2.0, "overlaps": True, "source": "made up"},
)


def configure(**changes: Any) -> PretrainConfig:
    return resolve_pretrain([ConfigLayer("sizes", SMALL), ConfigLayer("test", changes)])


def count(config: PretrainConfig) -> Workload:
    data = placeholder_data(config, VOCABULARY, LENGTH)
    run = estimate_cost(config, data, Budget("steps", 50.0))
    return count_workload(config, data, run.steps, run.step_flops)


@pytest.fixture(scope="module")
def work() -> Workload:
    return count(configure())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": {"backbone": "electra", "dropout": 0.1}, "optimizer": {"kind": "muon"}},
        {"runtime": {"precision": "bf16"}},
        {"model": {"sharing": "everything"}, "generator": {"width_share": 1.0, "num_heads": 2}},
        {"generator": {"kind": "two-tower"}, "model": {"sharing": "token"}},
    ],
    ids=str,
)
def test_what_is_counted_without_weights_is_what_networks_with_weights_have(changes: dict[str, Any]) -> None:
    config = configure(**changes)
    work = count(config)
    device = torch.device("cpu")
    objective = build_objective(config, placeholder_data(config, VOCABULARY, LENGTH), 0, device)
    assert work.parameters == sum(parameter.numel() for parameter in objective.networks.parameters())
    moments = build_state(objective, config).optimizer.tensors().values()
    assert work.moment_bytes == sum(tensor.numel() * tensor.element_size() for tensor in moments)
    kept = 0
    for network in objective.exports().values():
        for encoder in (module for module in network.modules() if isinstance(module, Encoder)):
            seen: dict[int, Tensor] = {}
            ids = torch.zeros(3, LENGTH, dtype=torch.int64)

            def keep(tensor: Tensor, seen: dict[int, Tensor] = seen) -> Tensor:
                seen[tensor.untyped_storage().data_ptr()] = tensor
                return tensor

            hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
            with hooks, autocast(device, config.runtime.precision):
                encoder.train()(ids, ids, None)
            weights = {parameter.untyped_storage().data_ptr() for parameter in encoder.parameters()}
            kept += sum(tensor.untyped_storage().nbytes() for place, tensor in seen.items() if place not in weights)
    assert 3 * work.kept_bytes + work.kept_always == pytest.approx(kept, rel=0.02)


def test_a_device_alone_sends_nothing_and_wastes_nothing(work: Workload) -> None:
    plan = plan_mode(work, "ddp", DEVICE, 1)
    assert (plan.efficiency, plan.weak_efficiency, plan.sent_bytes, plan.exposed_seconds) == (1.0, 1.0, 0, 0.0)
    assert plan.compute_seconds == pytest.approx(8 * work.row_flops / 0.5e9)
    assert plan.hours == pytest.approx(work.steps * plan.step_seconds / 3600)
    assert plan.cost == pytest.approx(2 * plan.hours)
    assert plan.memory.weights == plan.memory.gradients == 4 * work.parameters


def test_ddp_exchanges_all_gradients_in_pairs_once_for_each_doubling(work: Workload) -> None:
    gradients = 4 * work.parameters
    # Four devices share a host; the third doubling goes over the network, at a tenth of the speed.
    for devices, seconds in ((2, 1e-9), (4, 2e-9), (8, 2e-9 + 1e-8)):
        plan = plan_mode(work, "ddp", DEVICE, devices)
        rounds = devices.bit_length() - 1
        expected = gradients * seconds + rounds * 10e-6 + 4 * rounds * 10e-6
        assert plan.exposed_seconds == plan.communication_seconds == pytest.approx(expected)
        assert plan.sent_bytes == rounds * gradients
        assert plan.rows == plan.micro_rows == 8 // devices
    slow = DEVICE.model_copy(update={"row_us": 1000.0})
    assert plan_mode(work, "ddp", slow, 4).host_seconds == pytest.approx(8e-3)


def test_slices_are_as_many_as_devices_or_as_the_settings_make() -> None:
    work = count(configure(batch={"size": 8, "micro_size": 1}))
    assert [lay_out(work, "ddp", devices).slices for devices in (1, 2, 8)] == [8, 8, 8]
    two = plan_mode(work, "ddp", DEVICE, 2)
    assert (two.slices, two.micro_rows) == (8, 1)
    assert two.memory.gradients >= 4 * work.parameters * (8 // 2 + 1)  # a place for each of its slices
    assert lay_out(count(configure()), "ddp", 4).slices == 4


def test_fsdp_divides_what_ddp_copies_and_the_first_device_holds_the_whole(work: Workload) -> None:
    ddp, fsdp = (plan_mode(work, mode, DEVICE, 4) for mode in ("ddp", "fsdp"))
    assert fsdp.memory.moments == pytest.approx(ddp.memory.moments / 4, abs=1)
    assert fsdp.memory.activations == ddp.memory.activations
    assert fsdp.memory.whole == 4 * work.parameters + work.moment_bytes
    assert ddp.memory.whole == 0
    assert fsdp.update_seconds == pytest.approx(ddp.update_seconds / 4)
    assert fsdp.sent_bytes == pytest.approx(12 * work.parameters * 3 / 4, abs=1)  # weights twice, gradients once
    blocking = plan_mode(work, "fsdp", DEVICE.model_copy(update={"overlaps": False}), 4)
    assert blocking.exposed_seconds == blocking.communication_seconds == fsdp.communication_seconds
    assert fsdp.exposed_seconds < fsdp.communication_seconds


def test_tensor_parallelism_divides_layers_and_stops_at_heads() -> None:
    work = count(configure(generator={"width_share": 0.5, "num_heads": 2}))
    ddp, tensor = (plan_mode(work, mode, DEVICE, 2) for mode in ("ddp", "tensor"))
    assert (tensor.problem, tensor.rows, tensor.fits) == ("", 8, True)  # all rows of a step on each
    assert tensor.compute_seconds > ddp.compute_seconds  # heads and embeddings are not divided
    assert tensor.memory.weights == 4 * work.parameters - 2 * sum(encoder.matrices for encoder in work.encoders)
    assert tensor.memory.activations < plan_mode(work, "ddp", DEVICE, 1).memory.activations
    four = plan_mode(work, "tensor", DEVICE, 4)
    assert "2 heads and a feed-forward of 64 cannot be shared out over 4 devices" in four.problem
    assert not four.fits


def with_memory(plans: list[ModePlan], **totals: int) -> list[ModePlan]:
    return [
        plan.model_copy(
            update={
                "memory": plan.memory.model_copy(update={"total": totals[plan.mode]}),
                **{"fits": totals[plan.mode] <= 10, "most_micro_rows": 0 if totals[plan.mode] > 50 else 2},
            }
        )
        for plan in plans
    ]


def test_the_simplest_mode_that_fits_is_chosen_and_the_reason_said(work: Workload) -> None:
    plans = [plan_mode(work, mode, DEVICE, 2) for mode in ("ddp", "fsdp", "tensor")]
    plans = [
        plan.model_copy(update={"step_seconds": seconds}) for plan, seconds in zip(plans, (1.0, 0.99, 3.0), strict=True)
    ]
    chosen, reason = choose_mode(with_memory(plans, ddp=1, fsdp=1, tensor=1))
    assert chosen == "ddp"
    assert "no other is more than 2 % faster" in reason
    chosen, reason = choose_mode(with_memory(plans, ddp=11, fsdp=1, tensor=1))
    assert (chosen, reason.split(" (")[0]) == ("fsdp", "ddp does not fit")
    faster = [plans[0], plans[1].model_copy(update={"step_seconds": 0.5}), plans[2]]
    assert choose_mode(with_memory(faster, ddp=1, fsdp=1, tensor=1)) == ("fsdp", "a step takes 0.5 s, by ddp 1 s")
    chosen, reason = choose_mode(with_memory(plans, ddp=99, fsdp=20, tensor=99))
    assert chosen is None
    assert reason.endswith("fsdp fits with --batch.slices 4")
    assert "more memory" in choose_mode(with_memory(plans, ddp=99, fsdp=99, tensor=99))[1]


def test_peaks_are_those_of_the_precision() -> None:
    assert describe_device("a100", "bf16").tflops == describe_device("a100", "auto").tflops == 312
    assert describe_device("a100", "fp32").tflops == 19.5
    here = describe_device("here", "fp32")
    assert here.flops_per_second > 1e8
    assert not here.overlaps


def test_a_plan_says_what_it_rests_on_and_that_it_was_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--config", "tiny", "--data-tokens", "1e9", "--devices", "2", "--price-per-hour", "3"]
    assert main([*words, "--json"]) == 0
    planned = RunPlan.model_validate(json.loads(capsys.readouterr().out))
    assert [plan.devices for plan in planned.scaling] == [2**power for power in range(13)]
    assert planned.scaling[0].efficiency == 1
    assert not any(plan.is_verified for plan in [*planned.modes, *planned.scaling])
    assert planned.torchtitan == pytest.approx(0.973, abs=5e-4) == TITAN_EFFICIENCY
    large = {run.name: run for run in planned.published}["ELECTRA-400K"]
    assert large.flops == 7.12e20
    assert large.cost == pytest.approx(2 * 3 * large.hours)
    # 1.29e18 operations in four days on one V100
    small = {run.name: run for run in planned.published}["ELECTRA-Small"]
    assert small.reached_tflops == pytest.approx(3.73, abs=0.01)
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "97.3 % as torchtitan published" in printed
    assert printed.count("unverified") > 13
    for assumption in planned.assumptions:
        assert assumption in printed
    assert "--runtime.precision bf16 has 16 times the peak" in printed


def test_two_ranks_here_were_held_against_measurements() -> None:
    planned = electralab.plan(config="tiny", steps=10, devices=2, device="here", bandwidth=0.5)
    assert isinstance(planned, RunPlan)
    verified = [(plan.devices, plan.mode) for plan in planned.scaling if plan.is_verified]
    assert verified == [(1, "ddp"), (2, "ddp")]
    assert planned.device.bandwidth == 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"device": "abacus"}, "--device is one of a100, h100, here, got 'abacus'"),
        ({"steps": 10, "data_tokens": 1e9}, "give one budget"),
        ({"data": "nowhere", "vocab_size": 10}, "leave out the flags"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        electralab.plan(config="tiny", **arguments)


def test_devices_without_rows_are_told_of() -> None:
    planned = electralab.plan(config="tiny", steps=10, devices=16)
    assert isinstance(planned, RunPlan)
    assert any("16" not in note and "8 devices have none" in note for note in planned.notes)


def test_a_dry_run_of_more_than_a_day_points_to_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("\n\n".join(f"the people of the united states {i}" for i in range(300)))
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "text.txt", "--out", "data", "--vocab-size", "300"]) == 0
    words = ["pretrain", "--data", "data", "--out", "run", "--dry-run", "--batch.size", "8", "--size", "tiny"]
    monkeypatch.setattr("electralab.runtime.estimate_speed", lambda: 1e9)
    capsys.readouterr()
    assert main([*words, "--steps", "10"]) == 0
    assert " plan " not in capsys.readouterr().out
    assert main([*words, "--steps", "900000"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "more than a day here" in line)
    told = line.split(" plan ")[1]
    assert told == "--data data --size tiny --steps 900000 --batch.size 8"
    assert main(["plan", *told.split(), "--dry-run"]) == 0
