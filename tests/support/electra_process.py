"""`electra` in a process of its own that starts in no time: forked from a server that has torch loaded already."""

import contextlib
import json
import multiprocessing
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "electralab.shell.call",
        "electralab.pretraining.stage",
        "electralab.finetuning.stage",
        "electralab.serving.model",
        "electralab.inspection",
        "electralab.shell.commands.quickstart",
        "matplotlib.figure",
        "matplotlib.backends.backend_agg",
        "sklearn.metrics",
        "torch._dynamo",
        "torch._inductor.config",
        "torch.utils.tensorboard",
    ]
)


def _run(words: tuple[str, ...], folder: Path, log: str, file_bytes: int) -> None:
    from electralab.shell.cli import main

    os.chdir(folder)
    for number, name in ((1, f"{log}.out"), (2, f"{log}.err")):
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    sys.argv = ["electra", *words]
    sys.exit(main())


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        parsed = json.loads(self.out)
        assert isinstance(parsed, dict)
        return parsed


class Running:
    def __init__(self, process: ForkServerProcess, folder: Path, log: str) -> None:
        self._process = process
        self._folder = folder
        self._log = log

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def send(self, number: int) -> None:
        """A signal, if there is still someone to receive it.

        The fork server buries the process before it says so: `is_alive` may hold of one that is gone already.
        """
        assert self._process.pid is not None
        if self._process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _until(self, has_come: Callable[[], object], what: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not has_come():
            assert self._process.is_alive(), self.wait().err
            assert time.monotonic() < end, f"{what} has not come"
            time.sleep(0.002)

    def wait_for(self, path: str) -> None:
        """Until a file or folder has appeared."""
        self._until((self._folder / path).exists, path)

    def wait_for_text(self, text: str) -> None:
        """Until it has said something on standard error."""
        self._until(lambda: text in (self._folder / f"{self._log}.err").read_text(), text)

    def wait_for_step(self, run: str, step: int) -> None:
        """Until a checkpoint of this step, or a later one, is there."""
        folder = self._folder / run / "checkpoints"
        self._until(
            lambda: any(int(path.name.removeprefix("step-")) >= step for path in folder.glob("step-*")), f"step {step}"
        )

    def wait_for_address(self) -> str:
        """Until a server has said where it listens."""
        out, address = self._folder / f"{self._log}.out", re.compile(r"^(http://127\.0\.0\.1:\d+)/?$", re.M)
        self._until(lambda: address.search(out.read_text()), "the address", seconds=120.0)
        return str(address.findall(out.read_text())[0])

    def wait(self, seconds: float = 300) -> Ended:
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"still running after {seconds} seconds"
        out, err = ((self._folder / f"{self._log}.{end}").read_text() for end in ("out", "err"))
        return Ended(self._process.exitcode, out, err)


Words = tuple[str | Path | int, ...]


class Shell:
    """A folder in which `electra` is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def start(self, *words: str | Path | int, file_bytes: int = 0) -> Running:
        self._count += 1
        log = f".log-{self._count}"
        (self.folder / f"{log}.err").touch()
        (self.folder / f"{log}.out").touch()
        process = _context.Process(target=_run, args=(tuple(map(str, words)), self.folder, log, file_bytes))
        process.start()
        return Running(process, self.folder, log)

    def run(self, *words: str | Path | int, file_bytes: int = 0) -> Ended:
        return self.start(*words, file_bytes=file_bytes).wait()

    def must(self, *words: str | Path | int) -> Ended:
        """Run what has to succeed."""
        ended = self.run(*words)
        assert ended.status == 0, ended.err
        return ended

    def refuse(self, *words: str | Path | int, status: int = 1) -> str:
        """Run what has to be refused; returned is the one sentence that is said, without the program's name."""
        ended = self.run(*words)
        assert "Traceback" not in ended.err, ended.err
        assert (ended.status, ended.out) == (status, ""), ended.err
        last = ended.err.splitlines()[-1]
        assert last.startswith("electra: ")
        return last.removeprefix("electra: ")


def run_page(folder: Path, text: str) -> str:
    """The commands of a page in its order -> what they say on standard error; only what needs a shell gets one."""
    told = ""
    for language, block in re.findall(r"```(bash|python)\n(.*?)```", text, re.DOTALL):
        for line in [block] if language == "python" else block.replace("\\\n", "").splitlines():
            if line.startswith("electra "):
                # Exports and fine-tuning take minutes on a busy machine.
                ended = Shell(folder).start(*shlex.split(line)[1:]).wait(1800)
                assert ended.status == 0, f"{line}\n{ended.err}"
                told += ended.err
                continue
            line = re.sub(r"\belectra\b", f"{sys.executable} -m electralab", line) if language == "bash" else line
            command = ["bash", "-euo", "pipefail", "-c"] if language == "bash" else [sys.executable, "-c"]
            done = subprocess.run([*command, line], cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
    return told
