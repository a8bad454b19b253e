"""Killed without warning at any moment, and run again: the same bytes."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from electralab.artifacts import describe_files
from electralab.tokens.shards import open_data

KILLS = 8

# Small parts and batches, so that there is much to be interrupted.
PREPARE = """
import sys
from pathlib import Path
from electralab.corpus import documents
from electralab.stopping import StopSignal
from electralab.tokens import shards
from electralab.tokens.prepare import prepare
from electralab.tokens.prepare_settings import PrepareConfig
from electralab.tokens.tokenizer import TokenizerConfig
shards.SHARD_SIZE = 100_000
documents.BATCH_CHARS = 10_000
config = PrepareConfig(tokenizer=TokenizerConfig(vocab_size=2000), heldout_share=0.05)
for _ in prepare([sys.argv[1]], Path(sys.argv[2]), config, StopSignal()):
    pass
"""


def start(source: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PREPARE, str(source), str(out)])


def write_corpus(path: Path) -> None:
    rng = random.Random(0)
    letters = "abcdefghijklmnoprstuvw"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(5000)]
    documents = (" ".join(rng.choices(words, k=rng.randint(5, 120))) for _ in range(8000))
    path.write_text("\n\n".join(documents))


@pytest.mark.flow
def test_a_build_killed_at_random_moments_ends_in_the_same_bytes(tmp_path: Path) -> None:
    source = tmp_path / "corpus.txt"
    write_corpus(source)
    began = time.monotonic()
    assert start(source, tmp_path / "whole").wait() == 0
    duration = time.monotonic() - began
    rng = random.Random(1)
    kills = 0
    while kills < KILLS:
        process = start(source, tmp_path / "broken")
        try:
            process.wait(rng.uniform(0.1, 0.9) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += process.wait() == -9
        if (tmp_path / "broken/manifest.json").is_file():
            # What was left took less time than thought: once more from the start.
            assert describe_files(tmp_path / "broken") == describe_files(tmp_path / "whole")
            shutil.rmtree(tmp_path / "broken")
    assert start(source, tmp_path / "broken").wait() == 0
    assert describe_files(tmp_path / "broken") == describe_files(tmp_path / "whole")
    assert open_data(tmp_path / "broken").identity == open_data(tmp_path / "whole").identity
