"""Requests per second: ours against a plain server of transformers and FastAPI; then ours at 80 % load and in overload.

    python benchmarks/serve.py [--model RUN] [--seconds 5] [--turns 3] [--threads N] [--connections 32] [--json]

Each server is a process of its own, and so is whoever asks. Both hold the same discriminator (our export, loaded by its
class of transformers; equal answers are checked first) and are asked the same sentences over the same number of
connections that are kept open, each as fast as it is answered. The peer is what most people write first: tokenise, run,
answer, one request at a time in FastAPI's threads. Servers take turns; the ratio is the median over the turns.

Load and overload are open: requests leave when their time has come, answered or not. Their texts have many windows, so
that whoever asks can ask more than five times as often as the server can answer. Without --model, an untrained pair of
the preset `tiny` is made: the work is the same.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

WORDS = tuple("the people of a state were free to keep peace with old friends and sent letters by river".split())  # noqa: SIM905
SENTENCE, DOCUMENT = 25, 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        serve_peer(arguments.peer, arguments.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or make_pair(Path(folder) / "pair")
        try:
            found = measure(model, arguments)
        except OSError as error:
            sys.exit(f"serve.py: {error}; see above what it said, and try again")
    print(json.dumps(found) if arguments.json else "\n".join(f"{name:<28} {value}" for name, value in found.items()))


def make_pair(folder: Path) -> Path:
    from electralab.config import ConfigLayer
    from electralab.model.electra import build_electra
    from electralab.model.folders.folder import save_network
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.tokens.tokenizer import TokenizerConfig
    from electralab.tokens.tokenizer_training import train_tokenizer

    settings = resolve_pretrain([read_settings("tiny"), ConfigLayer("benchmark", {})])
    tokenizer = train_tokenizer([" ".join(WORDS)], TokenizerConfig(vocab_size=8192))
    pair = build_electra(settings.model, settings.generator, vocab_size=8192, sequence_length=128, seed=0)
    for role in ("discriminator", "generator"):
        target = folder / "export" / role
        target.mkdir(parents=True)
        special = tokenizer.special
        save_network(target, getattr(pair, role), pad_id=special.pad, cls_id=special.cls, sep_id=special.sep)
        tokenizer.save(target, has_segments=False)
    return folder


def serve_peer(folder: Path, threads: int) -> None:
    """Tokenise, run, answer: no batches, no limits."""
    import torch
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()

    class Body(BaseModel):
        text: str

    app = FastAPI()

    @app.post("/v1/detect")
    def detect(body: Body) -> dict[str, object]:
        encoded = tokenizer(
            body.text, return_tensors="pt", return_offsets_mapping=True, truncation=True, max_length=128
        )
        spans = encoded.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            chances = model(**encoded).logits.softmax(-1)[0, :, 1].tolist()
        tokens = [
            {"text": body.text[start:end], "start": start, "end": end, "p_replaced": chance}
            for (start, end), chance in zip(spans[1:-1], chances[1:-1], strict=True)
        ]
        return {"text": body.text, "tokens": tokens}

    config = uvicorn.Config(app, port=0, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    listener = config.bind_socket()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server.run([listener])


@contextlib.contextmanager
def start(*command: str | Path) -> Iterator[int]:
    """A server in a process of its own -> its port."""
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address.startswith("http"):
                raise ConnectionError(f"'{' '.join(map(str, command))}' ended with status {process.wait(120)}")
            port = int(address.rpartition(":")[2])
            wait_for(port)
            yield port
        finally:
            process.terminate()
            process.wait(120)


def wait_for(port: int) -> None:
    """An address may be known before anybody listens there."""
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise ConnectionError(f"nobody listens on port {port} after a minute")


@dataclass
class Tally:
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of the answers with status 200."""
    lost: int = 0

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Line:
    """A connection that stays open."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> "Line":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def ask(self, text: str) -> tuple[int, bytes]:
        body = json.dumps({"text": text}).encode()
        head = "POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        self.writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
        try:
            answer = await self.reader.readuntil(b"\r\n\r\n")
            lines = answer.lower().split(b"\r\n")
            length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            return int(answer[9:12]), await self.reader.readexactly(length)
        except (EOFError, ConnectionError):
            self.writer.close()
            raise ConnectionError(f"the server on port {self.port} hung up before its answer was whole") from None


def make_texts(words: int, count: int = 512) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(words // 2, words * 3 // 2))) for _ in range(count)]


async def ask_closed(port: int, texts: list[str], connections: int, seconds: float) -> float:
    """Every connection asks again as soon as it is answered -> answers per second."""
    lines = [await Line(port).open() for _ in range(connections)]
    end = time.monotonic() + seconds
    done = 0

    async def keep_asking(number: int, line: Line) -> None:
        nonlocal done
        turn = number
        while time.monotonic() < end:
            status, _ = await line.ask(texts[turn % len(texts)])
            assert status == 200, status
            done += 1
            turn += connections

    started = time.monotonic()
    await asyncio.gather(*(keep_asking(number, line) for number, line in enumerate(lines)))
    took = time.monotonic() - started
    for line in lines:
        line.writer.close()
    return done / took


async def ask_open(port: int, texts: list[str], rate: float, seconds: float) -> Tally:
    """Requests leave at their times, whatever has become of those before."""
    rng, tally, free = random.Random(1), Tally(), list[Line]()
    running: set[asyncio.Task[None]] = set()

    async def ask(text: str) -> None:
        began = time.monotonic()
        try:
            line = free.pop() if free else await Line(port).open()
            status, _ = await line.ask(text)
        except OSError:
            tally.lost += 1
            return
        tally.statuses[status] += 1
        if status == 200:
            tally.seconds.append(time.monotonic() - began)
        free.append(line)

    at = started = time.monotonic()
    while at < started + seconds:
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        task = asyncio.ensure_future(ask(rng.choice(texts)))
        running.add(task)
        task.add_done_callback(running.discard)
        at += rng.expovariate(rate)
    await asyncio.gather(*running)
    return tally


async def check_equal(ours: int, peer: int, text: str) -> None:
    answers = [json.loads((await (await Line(port).open()).ask(text))[1])["tokens"] for port in (ours, peer)]
    pairs = list(zip(*answers, strict=True))
    assert all((a["start"], a["end"]) == (b["start"], b["end"]) for a, b in pairs)
    worst = max(abs(a["p_replaced"] - b["p_replaced"]) for a, b in pairs)
    assert worst < 1e-4, f"the two servers differ by {worst}"


def measure(model: Path, arguments: argparse.Namespace) -> dict[str, object]:
    threads, seconds = arguments.threads, arguments.seconds
    sentences, documents = make_texts(SENTENCE), make_texts(DOCUMENT, 64)
    electra = (sys.executable, "-m", "electralab", "serve", model, "--port", "0", "--threads", str(threads))
    peer = (sys.executable, __file__, "--peer", model / "export" / "discriminator", "--threads", str(threads))
    ours_per_second, theirs_per_second = [], []
    with start(*electra) as our_port, start(*peer) as peer_port:
        asyncio.run(check_equal(our_port, peer_port, sentences[0]))
        for port in (our_port, peer_port):
            asyncio.run(ask_closed(port, sentences, arguments.connections, seconds / 4))
        for _ in range(arguments.turns):
            theirs_per_second.append(asyncio.run(ask_closed(peer_port, sentences, arguments.connections, seconds)))
            ours_per_second.append(asyncio.run(ask_closed(our_port, sentences, arguments.connections, seconds)))
            print(f"turn: peer {theirs_per_second[-1]:.1f}/s, ours {ours_per_second[-1]:.1f}/s", file=sys.stderr)
    with start(*electra) as our_port:
        capacity = asyncio.run(ask_closed(our_port, documents, 8, seconds))
        loaded = asyncio.run(ask_open(our_port, documents, 0.8 * capacity, 2 * seconds))
        flooded = asyncio.run(ask_open(our_port, documents, 5 * capacity, 2 * seconds))
        alive = asyncio.run(ask_closed(our_port, documents, 1, 1.0))
    ratios = [ours / theirs for ours, theirs in zip(ours_per_second, theirs_per_second, strict=True)]
    assert set(loaded.statuses) <= {200, 429, 503}, f"statuses at 80 % load: {loaded.statuses}"
    assert set(flooded.statuses) <= {200, 429, 503}, f"statuses in overload: {flooded.statuses}"
    assert min(loaded.statuses[200], flooded.statuses[200]) > 0, "load or overload left nobody answered"
    return {
        "threads": threads,
        "peer requests/s": round(statistics.median(theirs_per_second), 1),
        "ours requests/s": round(statistics.median(ours_per_second), 1),
        "ratio": round(statistics.median(ratios), 2),
        "documents/s at most": round(capacity, 1),
        "80 % load: statuses": dict(loaded.statuses),
        "80 % load: lost": loaded.lost,
        "80 % load: p50, p99 ms": [round(1000 * loaded.quantile(share), 1) for share in (0.5, 0.99)],
        "5x overload: statuses": dict(flooded.statuses),
        "5x overload: lost": flooded.lost,
        "5x overload: p50, p99 ms": [round(1000 * flooded.quantile(share), 1) for share in (0.5, 0.99)],
        "answered after overload": alive > 0,
    }


if __name__ == "__main__":
    main()
