"""The ranks that torchrun started, as each of them sees the others: messages, and what happens when one falls silent.

environment -> RankGroup

A rank that ends closes its connections, and the others hear of it at once. One that is stopped, or cut off, says
nothing: so every rank counts up a number in the store that all share, from a thread of its own, and looks at that of
the first (the first at all). Where a number stands still, or an exchange takes too long, all ranks print their stacks
and end.
"""

import faulthandler
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store  # torch.distributed has them without types
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.rendezvous import rendezvous

from electralab import runtime
from electralab.errors import WorkerFailed

Parallel = Literal["ddp", "fsdp", "tensor"]
"""How a step is spread over ranks: whole networks on each, sharded between steps, or split inside their layers."""

# An exchange inside a step that takes so long has somebody who hangs. Between steps there is no limit: evaluation takes
# its time, and whoever is alive says so by the beat of its thread.
_PATIENCE = timedelta(seconds=25)
_FOREVER = timedelta(days=30)
_START = timedelta(minutes=10)
_BEAT_SECONDS = 1.0
_SILENCE_SECONDS = 15.0
# For others to print their stacks in.
_GRACE_SECONDS = 3.0
_STDERR = 2
_REMEDY = "the same command goes on from the last checkpoint, with any number of ranks"


class RankGroup:
    def __init__(self, device: torch.device) -> None:
        store, self.rank, self.size = next(iter(rendezvous("env://")))
        self._store = PrefixStore(_meet(store, self.rank, self.size), store)
        backend = (
            "gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:{dist.get_default_backend_for_device(device)}"
        )
        if device.type != "cpu":
            torch.accelerator.set_device_index(runtime.find_local_rank())
        dist.init_process_group(backend, store=self._store, rank=self.rank, world_size=self.size, timeout=_PATIENCE)
        self.device = device
        # Commands come whenever the first rank is ready for a step.
        self._commands = dist.new_group(timeout=_FOREVER, backend="gloo")
        self._places: list[tuple[str, int]] = [("", 0)] * self.size
        dist.all_gather_object(self._places, (socket.gethostname(), os.getpid()), group=self._commands)
        self._over, self._has_printed = threading.Event(), False
        clone = self._store.clone()  # type: ignore[attr-defined]
        self._last_contact = time.monotonic()
        self._threads = [
            threading.Thread(target=self._watch, args=(clone,), daemon=True),
            threading.Thread(target=self._guard, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def mesh(self) -> DeviceMesh:
        return init_device_mesh(self.device.type, (self.size,))

    def command(self, *message: Any) -> tuple[Any, ...]:
        """What the first rank says, to all."""
        box = [message]
        with self.connected():
            dist.broadcast_object_list(box, src=0, group=self._commands)
        return box[0]

    def gather(self, value: Any, *, is_patient: bool = False) -> list[Any]:
        """Everybody's value, on the first rank. Patient: one may come minutes after another."""
        values: list[Any] = [None] * self.size
        with self.connected():
            group = self._commands if is_patient else None
            dist.gather_object(value, values if self.rank == 0 else None, dst=0, group=group)
        return values

    def exchange(self, ours: Tensor | None, theirs: Tensor | None, partner: int) -> None:
        """Send one to the partner and fill the other by what it sends; None where there is nothing to send."""
        with self.connected():
            transfers = [] if ours is None else [dist.P2POp(dist.isend, ours, partner)]
            transfers += [] if theirs is None else [dist.P2POp(dist.irecv, theirs, partner)]
            for work in dist.batch_isend_irecv(transfers) if transfers else ():
                work.wait()

    def close(self) -> None:
        self._over.set()
        # Python ends a thread that is still inside the store by force, and C++ then ends the whole process.
        for thread in self._threads:
            thread.join(_SILENCE_SECONDS)
        dist.destroy_process_group()
        _GROUP.clear()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """What torch.distributed says of a line that broke or hangs, as a sentence."""
        try:
            yield
        except RuntimeError as error:  # gloo has no narrower one
            if not isinstance(error, dist.DistError) and "gloo" not in str(error):
                raise
            reason = str(error).splitlines()[0].rpartition("] ")[2]
            missing = ""
            if "imed out" in reason:
                missing = self._ask_for_stacks(self._store)
            raise WorkerFailed(
                f"rank {self.rank}: another rank ended or does not answer ({reason}){missing}; {_REMEDY}"
            ) from None

    def _watch(self, store: Store) -> None:
        """Say that this process is alive, see who else is, and print where it is when somebody asks for it."""
        store.set_timeout(timedelta(seconds=_SILENCE_SECONDS))
        watched = [rank for rank in range(self.size) if rank != self.rank] if self.rank == 0 else [0]
        seen, last_seen = dict.fromkeys(watched, 0), dict.fromkeys(watched, time.monotonic())
        while not self._over.wait(_BEAT_SECONDS):
            try:
                store.add(f"beat/{self.rank}", 1)
                self._last_contact = time.monotonic()
                if store.check(["stacks"]):
                    self._print_stacks(store)
                for rank in watched:
                    if (beat := store.add(f"beat/{rank}", 0)) != seen[rank]:
                        seen[rank], last_seen[rank] = beat, time.monotonic()
                    elif time.monotonic() - last_seen[rank] > _SILENCE_SECONDS:
                        missing = self._ask_for_stacks(store)
                        self._end(f"rank {rank} has been silent for {_SILENCE_SECONDS:g} seconds{missing}")
            except RuntimeError as error:
                if self._over.is_set():
                    return
                self._print_here()
                reason = str(error).splitlines()[0]
                self._end(f"the store that all ranks share cannot be reached any more ({reason})")

    def _guard(self) -> None:
        """Behind a line that was cut, a question to the store has no answer and no end."""
        while not self._over.wait(_BEAT_SECONDS):
            if time.monotonic() - self._last_contact > _SILENCE_SECONDS + 2 * _GRACE_SECONDS:
                self._print_here()
                self._end("the store that all ranks share has not answered any more")

    def _end(self, sentence: str) -> None:
        """From the thread that watches: the main one waits inside a library, and would wait for ever."""
        if not self._over.is_set():
            _tell(f"electra: rank {self.rank}: {sentence}; {_REMEDY}")
            os._exit(1)

    def _print_stacks(self, store: Store) -> None:
        """Once: several ranks may ask for them, from either thread."""
        if not self._has_printed:
            self._has_printed = True
            store.set(f"stacks/{self.rank}", "printed")
            self._print_here()

    def _print_here(self) -> None:
        host, pid = self._places[self.rank]
        _tell(f"rank {self.rank} (process {pid} on {host}) is here:")
        faulthandler.dump_traceback(file=_STDERR, all_threads=True)

    def _ask_for_stacks(self, store: Store) -> str:
        """All that can print their stacks do so; said is who cannot. A stopped process of this host is ended, since its
        launcher would wait for it."""
        with suppress(RuntimeError):  # the store may be out of reach too, which the caller says
            store.set("stacks", str(self.rank))
            self._print_stacks(store)
            time.sleep(_GRACE_SECONDS)
            silent = [rank for rank in range(self.size) if not store.check([f"stacks/{rank}"])]
            for rank in silent:
                host, pid = self._places[rank]
                if host == self._places[self.rank][0] and rank != self.rank:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if silent := [rank for rank in silent if rank != self.rank]:
                named = ", ".join(
                    f"{rank} (process {self._places[rank][1]} on {self._places[rank][0]})" for rank in silent
                )
                return f"; stopped or out of reach: rank {named}"
        return ""


def _tell(sentence: str) -> None:
    """Past whatever draws progress: the process is about to end."""
    os.write(_STDERR, f"{sentence}\n".encode())


_GROUP: list[RankGroup] = []
"""Of this process, while it is in one."""


def _meet(store: Store, rank: int, size: int) -> str:
    """Wait for all, and agree on a name for what this group keeps in the store.

    The store outlives ranks that torchrun starts again, so names of a group before may be there still: one counts when
    its leader has heard everybody answer to it and says so.
    """
    if rank == 0:
        name = f"electralab {socket.gethostname()} {os.getpid()} {time.time_ns()}"
        store.set("leader", name)
        store.wait([f"{name}/{other}" for other in range(1, size)], _START)
        store.set("leader", "")
        store.set(f"{name}/go", "")
        return name
    name, deadline = "", time.monotonic() + _START.total_seconds()
    while not (name and store.check([f"{name}/go"])):
        if time.monotonic() > deadline:
            raise WorkerFailed(f"rank {rank}: the first rank did not come within {_START}; {_REMEDY}")
        latest = store.get("leader").decode() if store.check(["leader"]) else ""
        if latest and latest != name:
            name = latest
            store.set(f"{name}/{rank}", "")
        time.sleep(0.05)
    return name


def join_ranks(device: torch.device) -> RankGroup:
    if not _GROUP:
        _GROUP.append(RankGroup(device))
    return _GROUP[0]
