"""A server that dies under the benchmark is told in a sentence, and counted as lost where requests leave regardless."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve.py"


@pytest.fixture
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("serve_benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Half of an answer."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    writer.close()


def test_an_answer_that_breaks_off_is_a_lost_one(benchmark: ModuleType) -> None:
    async def story() -> None:
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionError, match=f"the server on port {port} hung up before its answer was whole"):
                await (await benchmark.Line(port).open()).ask("the cat")
            tally = await benchmark.ask_open(port, ["the cat"], rate=50.0, seconds=0.2)
            assert tally.lost > 0
            assert not tally.statuses

    asyncio.run(story())


def test_a_server_that_does_not_start_is_named(benchmark: ModuleType) -> None:
    with (
        pytest.raises(ConnectionError, match=r"import sys; sys.exit\(3\)' ended with status 3"),
        benchmark.start(sys.executable, "-c", "import sys; sys.exit(3)"),
    ):
        pass
