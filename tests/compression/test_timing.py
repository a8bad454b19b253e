"""A clock is read when the device has done its work."""

import time

import pytest
import torch
from little_models import build_pair

from electralab.compression import timing


def test_clocks_are_read_between_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def read_clock() -> float:
        said.append("clock")
        return float(len(said))

    network = build_pair().discriminator
    network.register_forward_pre_hook(lambda *_: said.append("call"))
    ids = torch.ones(1, 3, dtype=torch.long)
    with monkeypatch.context() as patch:
        patch.setattr(timing, "wait_for", lambda device: said.append(f"wait for {device}"))
        patch.setattr(time, "perf_counter", read_clock)
        timing.time_networks({"one": network}, {1: (ids, torch.zeros_like(ids), None)}, 1, lambda: None)
    assert said[-5:] == ["wait for cpu", "clock", "call", "wait for cpu", "clock"]
