"""One process, several workers or parts in any number, killed and repeated: the same bytes."""

import gzip
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from watching_events import result_of

import electralab
from electralab.artifacts import describe_files
from electralab.corpus.documents import FilterConfig
from electralab.errors import DamagedArtifact, FolderInUse, InputError, Stopped, UsageError, WorkerFailed
from electralab.events import Progress
from electralab.processes import map_in_order
from electralab.records.prepared import PassName
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens import prepare as stage
from electralab.tokens import shards
from electralab.tokens.packing import PackingConfig
from electralab.tokens.prepare import prepare
from electralab.tokens.prepare_settings import Part, PrepareConfig
from electralab.tokens.tokenizer import TokenizerConfig

CONFIG = PrepareConfig(
    tokenizer=TokenizerConfig(vocab_size=300),
    packing=PackingConfig(sequence_length=16, kind="pairs"),
    filters=FilterConfig(near_duplicates=True, min_characters=3),
    heldout_share=0.1,
)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nine files in four formats, with duplicates and near-duplicates in other files than their first, and a table
    without text; pieces are small, so that every part has some."""
    monkeypatch.setattr(shards, "SHARD_SIZE", 5000)
    monkeypatch.setattr("electralab.corpus.documents.BATCH_CHARS", 1000)
    monkeypatch.setattr(stage, "GROUP_BYTES", 2500)
    folder = tmp_path / "text"
    folder.mkdir()
    words = ["river", "stone", "cloud", "green", "walks", "under", "seven", "old", "bread", "north"]
    texts = [
        f"document {n}\n" + " ".join(words[(n * step * step + step) % 10] + str(n % 7) for step in range(1, 40))
        for n in range(90)
    ]
    for number in range(9):
        part = [*texts[number::9], texts[0], f"{texts[5]} end", "xy"]
        if number % 3 == 0:
            (folder / f"{number}.txt").write_bytes("\n\n".join(part).encode() + b"\n\nb\xffd")
        elif number % 3 == 1:
            lines = "\n".join(json.dumps({"text": text}) for text in part)
            (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
        else:
            rows = "\n".join(text.replace("\n", " ") for text in part)
            (folder / f"{number}.tsv").write_text(f"text\n{rows}\n")
    (folder / "table.csv").write_text("id,name\n1,x\n")
    return folder


def run(corpus: Path, out: Path, name: PassName | None = None, part: str = "", **given: Any) -> Any:
    part_of = Part.parse(part) if part else None
    return result_of(list(prepare([str(corpus)], out, CONFIG, NO_STOP, only=name, part=part_of, **given)))


def run_parts(corpus: Path, out: Path, count: int) -> None:
    for number in range(1, count + 1):
        run(corpus, out, "count", f"{number}/{count}")
    run(corpus, out, "merge")
    for number in range(count, 0, -1):
        run(corpus, out, "encode", f"{number}/{count}")
    run(corpus, out)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_any_number_of_parts_gives_the_bytes_of_one_process(tmp_path: Path, corpus: Path, count: int) -> None:
    report = run(corpus, tmp_path / "whole")
    # Copies of the first text, and of what is nearly the fifth, in six files as they are, in three without line breaks.
    assert report.dropped["duplicate"] == (7 - 1) + (3 - 1) + (6 - 1) + (3 - 1)
    assert report.dropped["near_duplicate"] >= 3
    assert len(list((tmp_path / "whole/shards").iterdir())) >= 6
    run_parts(corpus, tmp_path / "parts", count)
    assert describe_files(tmp_path / "parts") == describe_files(tmp_path / "whole")
    manifests = [(tmp_path / name / "manifest.json").read_bytes() for name in ("whole", "parts")]
    assert manifests[0] == manifests[1]
    assert not (tmp_path / "parts/.build").exists()


def test_the_number_of_parts_may_change_and_a_part_be_repeated_or_stopped(tmp_path: Path, corpus: Path) -> None:
    run(corpus, tmp_path / "whole")
    out = tmp_path / "parts"
    assert run(corpus, out, part="1/3").missing > 0
    stop = StopSignal()
    counting = prepare([str(corpus)], out, CONFIG, stop, only="count", part=Part(2, 3))
    next(event for event in counting if isinstance(event, Progress) and event.phase == "counting")
    stop.number = 15
    with pytest.raises(Stopped):
        list(counting)
    for number in range(1, 6):
        done = run(corpus, out, part=f"{number}/5")
    assert (done.name, done.missing) == ("count", 0)
    run(corpus, out, "merge")
    assert run(corpus, out, part="2/2").name == "encode"
    records = {path: path.stat().st_mtime_ns for path in (out / ".build").glob("part-*.json")}
    for number in range(1, 5):
        done = run(corpus, out, part=f"{number}/4")
    assert (done.name, done.missing) == ("encode", 0)
    assert {path: path.stat().st_mtime_ns for path in records} == records, "encoded again"
    assert run(corpus, out).counts.documents == run(corpus, out, part="1/4").counts.documents
    assert describe_files(out) == describe_files(tmp_path / "whole")


def test_a_pass_before_its_turn_is_one_sentence(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "data"
    run(corpus, out, "count", "2/3")
    with pytest.raises(
        UsageError, match=r"groups of files are not counted yet .*; run all parts of --pass count first"
    ):
        run(corpus, out, "merge")
    with pytest.raises(UsageError, match=r"is not merged yet .*; run --pass merge, after all parts of --pass count"):
        run(corpus, out, "encode", "1/3")
    with pytest.raises(UsageError, match="standard input cannot be read by several parts"):
        list(prepare(["-"], out, CONFIG, NO_STOP, part=Part(1, 2)))
    for text in ("0/3", "4/3", "3", "a/b", "1/", "-1/2"):
        with pytest.raises(UsageError, match="is no part; give its number and how many there are, as in 3/8"):
            Part.parse(text)
    with pytest.raises(UsageError, match="--pass merge is done once"):
        electralab.prepare([corpus], out, only="merge", part="1/2")


def test_a_file_that_changed_since_it_was_counted_is_counted_again(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "data"
    run(corpus, out, "count")
    with (corpus / "3.txt").open("a") as file:
        file.write("\n\nanother document of the third file")
    with pytest.raises(UsageError, match="not counted yet"):
        run(corpus, out, "merge")
    run(corpus, out)
    run(corpus, tmp_path / "fresh")
    assert describe_files(out) == describe_files(tmp_path / "fresh")


def test_damaged_counts_are_found_before_anything_is_decided(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "data"
    run(corpus, out, "count")
    path = out / ".build/count-00001.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(DamagedArtifact, match=r"count-00001\.bin: was changed .*; count its part again"):
        run(corpus, out, "merge")
    run(corpus, tmp_path / "whole")
    run_parts(corpus, out, 2)
    assert describe_files(out) == describe_files(tmp_path / "whole")


def test_parts_work_side_by_side_but_not_beside_the_merge(tmp_path: Path, corpus: Path) -> None:
    counting = prepare([str(corpus)], tmp_path / "data", CONFIG, NO_STOP, part=Part(1, 2))
    next(counting)
    run(corpus, tmp_path / "data", part="2/2")
    with pytest.raises(FolderInUse):
        run(corpus, tmp_path / "data", "merge")
    list(counting)
    run(corpus, tmp_path / "data", "merge")


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_bytes(
    tmp_path: Path, corpus: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_WORKER_BYTES", 100)
    run(corpus, tmp_path / "whole")
    run(corpus, tmp_path / "workers", workers=workers)
    assert describe_files(tmp_path / "workers") == describe_files(tmp_path / "whole")


def answer(how: str) -> Any:
    def respond(task: int) -> int:
        if how == "refuse" and task == 3:
            raise InputError(f"task {task} is wrong")
        if how == "die" and task == 3:
            sys.exit(7)
        time.sleep(0.02 * (task % 3))
        return task * task

    return respond


def test_answers_come_in_order_and_what_goes_wrong_in_a_worker_is_told() -> None:
    sys.modules["test_prepare_parts"] = sys.modules[__name__]
    answer.__module__ = "test_prepare_parts"
    assert list(map_in_order(answer, ("well",), range(20), NO_STOP, workers=3)) == [n * n for n in range(20)]
    for how, error, message in (
        ("refuse", InputError, "^task 3 is wrong$"),
        ("die", WorkerFailed, "worker . ended with status 7; run the same command again"),
    ):
        with pytest.raises(error, match=message):
            list(map_in_order(answer, (how,), range(20), NO_STOP, workers=2))


PART = """
import sys
from pathlib import Path
from electralab.tokens import prepare as stage, shards
from electralab.corpus import documents
from electralab.stopping import NO_STOP
shards.SHARD_SIZE, documents.BATCH_CHARS, stage.GROUP_BYTES, stage._WORKER_BYTES = 5000, 1000, 2500, 100
sys.path += [sys.argv[1], f"{sys.argv[1]}/../support"]
from electralab.tokens.prepare_settings import Part
from test_prepare_parts import CONFIG
part = Part.parse(sys.argv[4])
for _ in stage.prepare([sys.argv[2]], Path(sys.argv[3]), CONFIG, NO_STOP, part=part, workers=2):
    pass
"""


@pytest.mark.flow
def test_parts_that_are_killed_are_repeated(tmp_path: Path, corpus: Path) -> None:
    run(corpus, tmp_path / "whole")
    out = tmp_path / "parts"

    def start(part: str) -> subprocess.Popen[bytes]:
        folders = (str(Path(__file__).parent), str(corpus), str(out))
        return subprocess.Popen([sys.executable, "-c", PART, *folders, part])

    for name, count in (("count", 3), ("encode", 8)):
        for delay in (0.3, 0.8, 1.2, 1.6, 2.0):
            process = start(f"1/{count}")
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert [start(f"{number}/{count}").wait() for number in range(1, count + 1)] == [0] * count
        if name == "count":
            run(corpus, out, "merge")
    run(corpus, out)
    assert describe_files(out) == describe_files(tmp_path / "whole")
    shutil.rmtree(out)
