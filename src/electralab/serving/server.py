"""A process that answers: models, an address, and an orderly end.

MODEL… -> HTTP
"""

import asyncio
import contextlib
import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from electralab.artifacts import real_path
from electralab.config import Settings
from electralab.errors import InputError, UsageError
from electralab.model.folders.native_format import GRAPH
from electralab.records.answers import ServePlan, ServeResult
from electralab.records.kinds import find_model
from electralab.runtime import count_descriptors
from electralab.serving.batching import BatchingConfig
from electralab.serving.inputs import WindowConfig
from electralab.serving.model import Model
from electralab.serving.service import InferenceService, LimitsConfig
from electralab.stopping import handle_signals

if TYPE_CHECKING:  # these need the libraries of the server
    import uvicorn

    from electralab.serving.guard import Listener, RequestGuard

Runtime = Literal["torch", "onnx"]

# Seconds that a client may take to read its last answer.
_FAREWELL = 1


class ServeConfig(Settings):
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    """0 means any that is free."""
    allow_hosts: tuple[str, ...] = ()
    """More names by which a server without keys may be asked, as behind a proxy."""
    key_file: str = ""
    """A file with a key a line, one of which every request must bring; without it all requests are answered."""
    runtime: Runtime = "torch"
    drain_seconds: float = Field(2.0, ge=0)
    """How long a server that is told to stop works on what it has begun; the whole end takes up to 3 seconds more."""
    limits: LimitsConfig = LimitsConfig()
    batching: BatchingConfig = BatchingConfig()
    windows: WindowConfig = WindowConfig()


def serve(models: Sequence[str], config: ServeConfig, on_ready: Callable[[str], None]) -> ServeResult:
    """Until a signal to stop; `on_ready` is told the address. Returns what was done, and whether all work has ended."""
    keys = read_keys(config)
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(f"serve: needs {error.name}; install it with pip install 'electralab[serve]'") from None
    from electralab.serving.app import build_app

    loaded = load_models(models, config)
    with listen(config) as listener:
        service = InferenceService(loaded, config.limits, config.batching, needs_key=bool(keys))
        listener.on_accept_error = service.metrics.accept_errors.inc
        address, started = describe_address(listener), time.monotonic()
        guard = build_app(service, keys, ["127.0.0.1", "localhost", "::1", config.host, *config.allow_hosts])

        async def run() -> None:
            server = build_server(guard, service)
            # A server in a thread that is not the main one never hears a signal, and runs until its thread is gone.
            with handle_signals() as stop:
                serving = asyncio.ensure_future(server.serve([listener]))
                while not server.started and not serving.done():
                    await asyncio.sleep(0.005)
                if server.started:
                    on_ready(address)
                while not stop.number and not serving.done():
                    await asyncio.sleep(0.05)
                # First the word that nothing more is taken, then what was begun, then a refusal of the rest, then the
                # door.
                service.is_stopping = True
                end = time.monotonic() + config.drain_seconds
                while guard.open_requests and time.monotonic() < end and not serving.done():
                    await asyncio.sleep(0.02)
                guard.stop()
                server.should_exit = True
                await serving

        try:
            asyncio.run(run())
        finally:
            has_ended = service.batcher.close(0.0)
    statuses: Counter[str] = Counter()
    for family in service.metrics.requests.collect():
        for sample in family.samples:
            statuses[sample.labels["status"]] += int(sample.value)
    seconds = time.monotonic() - started
    return ServeResult(
        address=address, models=tuple(loaded), seconds=seconds, answers=dict(statuses), has_ended=has_ended
    )


def plan_serve(models: Sequence[str], config: ServeConfig) -> ServePlan:
    keys = read_keys(config)
    described = tuple(model.describe(name) for name, model in load_models(models, config).items())
    return ServePlan(models=described, keys=len(keys), settings=config.model_dump(mode="json"))


def load_models(words: Sequence[str], config: ServeConfig) -> dict[str, Model]:
    """Each word is a path, or NAME=PATH."""
    loaded: dict[str, Model] = {}
    for word in words:
        name, equals, path = word.partition("=")
        # A folder whose own name holds a "=" wins.
        if not equals or Path(word).exists():
            name, path = real_path(Path(word)).name, word
        if not name:
            raise UsageError(f"serve: {word!r} names no model; give MODEL or NAME=MODEL")
        if name in loaded:
            raise UsageError(f"serve: two models are named {name!r}; name them, as in {name}-b={path}")
        model = Model(find_runtime(find_model(path), config.runtime), config.windows)
        if not model.can:
            raise InputError(f"{path}: holds nothing that can be asked; give a pre-trained or tuned model")
        loaded[name] = model
    return loaded


def find_runtime(path: Path, runtime: Runtime) -> Path:
    """Where the networks lie that this runtime runs."""
    if runtime == "torch" or any(path.glob(GRAPH)) or any(path.glob(f"*/{GRAPH}")):
        return path
    if (path / "onnx").is_dir():
        return path / "onnx"
    raise InputError(
        f"{path}: holds no {GRAPH}, which --runtime onnx needs; run 'electra export {path} --format onnx "
        f"--out {path / 'onnx'}' first"
    )


def read_keys(config: ServeConfig) -> list[str]:
    if not config.key_file:
        try:
            is_loopback = ipaddress.ip_address(config.host).is_loopback
        except ValueError:
            is_loopback = config.host == "localhost"
        if not is_loopback:
            raise UsageError(
                f"--host: {config.host} can be reached by others; give --key-file FILE with a key a line, or leave "
                "the host at 127.0.0.1"
            )
        return []
    path = Path(config.key_file)
    try:
        keys = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"{path}: cannot be read ({reason}); give a file with a key a line") from None
    if not keys:
        raise InputError(f"{path}: holds no key; write one a line, for example from 'openssl rand -hex 32'")
    # Such a key could never match, and its owner would look for the mistake elsewhere.
    if not all(key.isascii() and key.isprintable() for key in keys):
        raise InputError(f"{path}: holds a key that no header can carry; use letters, digits and signs of ASCII")
    return keys


@contextlib.contextmanager
def listen(config: ServeConfig) -> Iterator["Listener"]:
    from electralab.serving.guard import Listener

    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # The protocol is named, or asyncio does not see that a connection is of TCP and leaves Nagle's algorithm on: the
    # body of an answer then waits for the client's acknowledgement of its headers, 40 ms on Linux.
    with Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        # A server that is started again at once must not wait until the system has forgotten the old connections.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((config.host, config.port))
        except OSError as error:
            where = f"{config.host}:{config.port}"
            raise InputError(
                f"{where}: cannot be listened on ({error.strerror}); give another --port or --host"
            ) from None
        yield listener


def describe_address(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def build_server(guard: "RequestGuard", service: InferenceService) -> "uvicorn.Server":
    import uvicorn

    from electralab.serving.guard import BoundedProtocol

    server = uvicorn.Server(
        uvicorn.Config(
            guard,
            http=partial(BoundedProtocol, service, min(service.limits.connections, count_descriptors())),
            ws="none",
            log_config=None,
            # A warning for each request that is no HTTP would let anybody fill the disk.
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_FAREWELL,
        )
    )
    # Its own handlers would close the door first and answer afterwards, and end with the signal's status.
    server.capture_signals = contextlib.nullcontext
    return server
