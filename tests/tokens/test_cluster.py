"""datatrove's local executor runs the passes, some tasks side by side: the bytes of one process."""

from pathlib import Path

import pytest

from electralab.artifacts import describe_files
from electralab.events import run_to_end
from electralab.records.prepared import PassName
from electralab.stopping import NO_STOP
from electralab.tokens.prepare import prepare
from electralab.tokens.prepare_settings import PrepareConfig
from electralab.tokens.tokenizer import TokenizerConfig


@pytest.mark.filterwarnings("ignore")  # those of datatrove and what it imports are not ours
def test_datatrove_runs_the_passes(tmp_path: Path) -> None:
    pytest.importorskip("datatrove", reason="needs datatrove: install electralab[cluster]")
    from datatrove.executor import LocalPipelineExecutor

    from electralab.tokens.cluster import PreparingBlock

    texts = [f"document {number} walks under the old river {number % 7} times" for number in range(400)]
    (tmp_path / "text").mkdir()
    for number in range(4):
        (tmp_path / f"text/{number}.txt").write_text("\n\n".join(texts[number::4]))
    config, inputs = PrepareConfig(tokenizer=TokenizerConfig(vocab_size=200)), [str(tmp_path / "text")]
    run_to_end(prepare(inputs, tmp_path / "whole", config, NO_STOP))

    def executor(only: PassName | None, tasks: int, depends: LocalPipelineExecutor | None) -> LocalPipelineExecutor:
        block = PreparingBlock(inputs, tmp_path / "data", config, only)
        logs = str(tmp_path / f"logs/{only}")
        return LocalPipelineExecutor([block], tasks, workers=2, logging_dir=logs, depends=depends)

    count = executor("count", 3, None)
    encode = executor("encode", 3, executor("merge", 1, count))
    executor(None, 1, encode).run()
    assert describe_files(tmp_path / "data") == describe_files(tmp_path / "whole")
