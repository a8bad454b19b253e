"""`electra serve` in a process of its own: it answers, and on SIGTERM finishes what it has begun and leaves with 0."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from electra_process import Shell

from electralab.model.electra import build_electra
from electralab.model.folders.folder import save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer


def save_pair(folder: Path, num_layers: int = 1, width: int = 16) -> None:
    tokenizer = train_tokenizer(["the cat sat on the mat and a dog saw it"], TokenizerConfig(vocab_size=80))
    sizes = ModelConfig(
        num_layers=num_layers, hidden_size=width, embedding_size=width, num_heads=2, feedforward_size=2 * width
    )
    vocab_size = tokenizer.vocab_size
    pair = build_electra(sizes, GeneratorConfig(), vocab_size=vocab_size, sequence_length=32, seed=0)
    for role in ("discriminator", "generator"):
        target = folder / "export" / role
        target.mkdir(parents=True)
        save_network(target, getattr(pair, role), pad_id=tokenizer.special.pad)
        tokenizer.save(target)


@pytest.mark.flow
def test_a_server_answers_and_at_the_end_finishes_what_it_has_begun(tmp_path: Path) -> None:
    save_pair(tmp_path / "run")
    shell = Shell(tmp_path)
    # The window is so long that the last request is certainly waiting when the signal comes.
    patient = ("--batching.window-ms", 700, "--drain-seconds", 30)
    running = shell.start("serve", "run", "--port", 0, "--threads", 1, *patient)
    with httpx.Client(base_url=running.wait_for_address(), timeout=60) as client:
        assert client.get("/ready").json() == {"status": "ready"}
        found = client.post("/v1/detect", json={"text": "the cat sat"}).json()
        assert [token["text"] for token in found["tokens"]] == ["the", "cat", "sat"]
        assert client.post("/v1/detect", content=b"{", headers={"content-type": "application/json"}).status_code == 400
        assert client.get("/").status_code == 200
        last: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: last.append(client.post("/v1/detect", json={"text": "a dog"})))
        asking.start()
        time.sleep(0.3)
        running.send(signal.SIGTERM)
        time.sleep(0.1)
        assert client.get("/ready").status_code == 503
        asking.join(60)
    assert last[0].status_code == 200
    ended = running.wait()
    assert (ended.status, ended.err) == (0, "loading run\n")


@pytest.mark.flow
def test_what_outlasts_the_time_to_finish_is_refused_and_the_process_leaves_in_order(tmp_path: Path) -> None:
    save_pair(tmp_path / "run", num_layers=12, width=128)
    # One run of the network for all of it, out of which the worker cannot be called back.
    settings = ("--drain-seconds", "0.3", "--limits.seconds", "100", "--windows.batch-tokens", "10000000")
    words = ("serve", str(tmp_path / "run"), "--port", "0", "--threads", "1", "--json", *settings)
    # Large is far more than can be done in time; the others wait behind it.
    large: dict[str, object] = {"texts": ["the cat sat on the mat and a dog saw it " * 90] * 16}
    bodies = [large] + 3 * [{"text": "the cat"}]
    answers: list[httpx.Response] = []
    # Not forked: how a process that was leaves says nothing of how Python ends.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "electralab", *words], **pipes) as process:  # type: ignore[call-overload]
        address = process.stderr.readline().strip()
        with httpx.Client(base_url=address, timeout=60) as client:

            def ask(body: dict[str, object]) -> None:
                answers.append(client.post("/v1/detect", json=body))

            asking = [threading.Thread(target=ask, args=(body,)) for body in bodies]
            for thread in asking:
                thread.start()
                time.sleep(0.3)
            process.terminate()
            for thread in asking:
                thread.join(60)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert len(answers) == len(bodies)
    for answer in answers:
        assert answer.status_code in (200, 503)
        assert answer.status_code == 200 or answer.json()["error"]["code"] == "stopping"
        assert answer.status_code == 200 or int(answer.headers["retry-after"]) > 0
    assert 503 in [answer.status_code for answer in answers]
    assert set(json.loads(out)["answers"]) <= {"200", "503"}


@pytest.mark.flow
def test_under_load_the_end_comes_soon_at_the_defaults(tmp_path: Path) -> None:
    save_pair(tmp_path / "run", num_layers=12, width=128)
    shell = Shell(tmp_path)
    # One run of the network, out of which the worker cannot be called back, for far longer than it may take.
    running = shell.start("serve", "run", "--port", 0, "--threads", 1, "--windows.batch-tokens", 10_000_000)
    large = {"texts": ["the cat sat on the mat and a dog saw it " * 90] * 32}
    with httpx.Client(base_url=running.wait_for_address(), timeout=60) as client:
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(client.post("/v1/detect", json=large).status_code))
        asking.start()
        time.sleep(1)
        started = time.monotonic()
        running.send(signal.SIGTERM)
        assert running.wait().status == 0
        # Five seconds by the settings, and as much again for a busy machine.
        assert time.monotonic() - started < 10
        asking.join(60)
    assert answers == [503]


@pytest.mark.flow
def test_a_server_for_everybody_needs_a_key(tmp_path: Path) -> None:
    ended = Shell(tmp_path).run("serve", "run", "--host", "0.0.0.0")
    assert ended.status == 2
    assert "give --key-file FILE" in ended.err
