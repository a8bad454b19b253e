"""A crash leaves the old or the new, damage is named, a full disk loses nothing, and a folder has one owner."""

import errno
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from electralab.artifacts import (
    MANIFEST,
    Verification,
    describe_files,
    lock_folder,
    new_folder,
    read_json,
    sha256_json,
    storage_errors,
    verify_below,
    verify_folder,
    write_file,
    write_json,
    write_manifest,
)
from electralab.errors import DamagedArtifact, FolderInUse, InputError, StorageError

REMEDY = "write it again"


class PowerCut(BaseException):
    """What no handler expects: the process is gone."""


def write_folder(path: Path, content: str) -> None:
    with new_folder(path, step=3) as folder:
        (folder / "weights.bin").write_text(content)
        (folder / "inner").mkdir()
        (folder / "inner" / MANIFEST).write_text("{}")


def content_of(path: Path) -> str:
    verify_folder(path, REMEDY)
    return (path / "weights.bin").read_text()


def cut_power_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process die at the given call that touches the disk; nothing afterwards, no clean-up, reaches it."""
    calls = 0

    def count(real: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls >= call:
                raise PowerCut
            return real(*args, **kwargs)

        return counted

    with monkeypatch.context() as patch:
        for owner, name in [(os, "fsync"), (Path, "rename"), (Path, "unlink"), (Path, "mkdir"), (shutil, "rmtree")]:
            patch.setattr(owner, name, count(getattr(owner, name)))
        yield


def crash_while(write: Callable[[], None], call: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the write came to its end before the cut."""
    for _ in cut_power_at(call, monkeypatch):
        try:
            write()
        except PowerCut:
            return False
    return True


@pytest.mark.parametrize(
    ("write", "read", "fewest"),
    [(write_file, Path.read_text, 4), (write_folder, content_of, 10)],
    ids=["file", "folder"],
)
def test_what_is_written_is_old_or_new_after_a_crash_at_any_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, read: Any, fewest: int
) -> None:
    path = tmp_path / "state"
    for call in itertools.count(1):
        write(path, "old")
        assert [file.name for file in tmp_path.iterdir()] == ["state"]
        finished = crash_while(lambda: write(path, "new"), call, monkeypatch)
        assert read(path) in ({"new"} if finished else {"old", "new"})
        if finished:
            break
    assert call > fewest


def test_failure_inside_the_body_leaves_the_old_folder_alone(tmp_path: Path) -> None:
    path = tmp_path / "step-3"
    write_folder(path, "old")
    with pytest.raises(ZeroDivisionError), new_folder(path) as folder:
        (folder / "weights.bin").write_text(str(1 // 0))
    assert content_of(path) == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["step-3"]


def test_reader_sees_no_folder_before_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "step-3"
    with new_folder(path) as folder:
        (folder / "weights.bin").write_text("half")
        assert not path.exists()
        assert folder.name.startswith(".")
    assert path.is_dir()


def test_manifest_holds_the_facts_and_every_file(tmp_path: Path) -> None:
    write_folder(tmp_path / "step-3", "new")
    manifest = verify_folder(tmp_path / "step-3", REMEDY)
    assert manifest.facts == {"step": 3}
    assert manifest.files["weights.bin"]["bytes"] == 3
    assert set(manifest.files) == {"weights.bin", f"inner/{MANIFEST}"}


def test_manifest_in_place_leaves_out_locks_and_temporaries(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        (tmp_path / "shard.bin").write_text("rows")
        (tmp_path / ".next.tmp").write_text("half")
        (tmp_path / ".build").mkdir()
        (tmp_path / ".build" / "part-0.json").write_text("{}")
        write_manifest(tmp_path, order={2: "b", 10: "a"}, shape=(1, 2))
    manifest = verify_folder(tmp_path, REMEDY)
    assert set(manifest.files) == {"shard.bin"}
    assert manifest.facts["order"] == {"2": "b", "10": "a"}


def damage(path: Path, blow: str) -> None:
    content = path.read_bytes()
    match blow:
        case "removed":
            path.unlink()
        case "truncated":
            path.write_bytes(content[:-1])
        case "lengthened":
            path.write_bytes(content + b"x")
        case "flipped":
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


@pytest.mark.parametrize(
    ("blow", "sentence"),
    [
        ("removed", "{folder}: manifest names weights.bin but it is missing; write it again"),
        ("truncated", "{folder}/weights.bin: has 2 bytes, its manifest says 3; write it again"),
        ("lengthened", "{folder}/weights.bin: has 4 bytes, its manifest says 3; write it again"),
        (
            "flipped",
            "{folder}/weights.bin: does not match its manifest (sha256 1150… expected, d887… found); write it again",
        ),
    ],
)
def test_damaged_file_is_named(tmp_path: Path, blow: str, sentence: str) -> None:
    folder = tmp_path / "step-3"
    write_folder(folder, "new")
    damage(folder / "weights.bin", blow)
    with pytest.raises(DamagedArtifact) as caught:
        verify_folder(folder, REMEDY)
    assert str(caught.value) == sentence.format(folder=folder)


def seal(files: dict[str, object]) -> str:
    return json.dumps({"files": files, "sha256": sha256_json({"files": files})})


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("", "not valid JSON"),
        ("[]", "not a manifest"),
        ('{"files": []}', "not a manifest"),
        ('{"files": {}, "step": 4, "sha256": "00"}', "was changed after it was written"),
        ('{"files": {}, "step": 4, "sha257": "00"}', "was changed after it was written"),
        ("[" * 100_000, "not valid JSON"),
        # One that is sealed is still not believed everything.
        (seal({"../secret": {"bytes": 1, "sha256": ""}}), "names a file outside its folder ('../secret')"),
        (seal({"/etc/hostname": {"bytes": 1, "sha256": ""}}), "names a file outside its folder"),
        (seal({"a\0": {"bytes": 1, "sha256": ""}}), "names a file outside its folder"),
        (seal({"weights.bin": 3}), "says nothing about the size and hash of 'weights.bin'"),
    ],
)
def test_damaged_manifest_is_named(tmp_path: Path, manifest: str, sentence: str) -> None:
    (tmp_path / "secret").write_text("x")
    folder = tmp_path / "step-3"
    write_folder(folder, "new")
    (folder / MANIFEST).write_text(manifest)
    with pytest.raises(DamagedArtifact) as caught:
        verify_folder(folder, REMEDY)
    assert str(caught.value).startswith(f"{folder / MANIFEST}: {sentence}")
    assert str(caught.value).endswith(f"; {REMEDY}")


def test_files_whose_hashes_are_known_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "shard.bin", "x")
    known = describe_files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("electralab.artifacts.sha256_file", lambda _: pytest.fail("read again"))
        write_manifest(tmp_path, files=known, step=3)
    assert verify_folder(tmp_path, REMEDY).facts["step"] == 3


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("name", ["weights.bin", MANIFEST])
def test_a_file_that_cannot_be_read_is_damage_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """So that a run falls back to its checkpoint before."""
    folder = tmp_path / "step-3"
    write_folder(folder, "new")
    real = Path.open

    def refuse(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path == folder / name:
            raise OSError(number, os.strerror(number))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DamagedArtifact) as caught:
        verify_folder(folder, REMEDY)
    assert str(caught.value) == f"{folder / name}: cannot be read ({os.strerror(number)}); {REMEDY}"


def test_a_folder_that_may_not_be_searched_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "step-3"
    write_folder(folder, "new")
    real = Path.stat

    def refuse(path: Path, **kwargs: Any) -> os.stat_result:
        if path.parent == folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, **kwargs)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(DamagedArtifact, match=r"step-3: cannot be read \(Permission denied\); write it again"):
        verify_folder(folder, REMEDY)


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, '{"a": '])
def test_what_cannot_be_read_as_json_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    for path, sentence in (
        (tmp_path / "a.json", r"a\.json: not valid JSON \(.*\); correct or replace the file"),
        (tmp_path / "absent", "absent: no such file"),
        (tmp_path, r"cannot be read \(Is a directory\)"),
    ):
        with pytest.raises((DamagedArtifact, InputError), match=sentence):
            read_json(path)


@given(st.data())
def test_no_changed_byte_of_a_folder_passes_unseen(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("run") / "step-3"
    write_folder(folder, "weights of a small model")
    intact = verify_folder(folder, REMEDY)
    victim = folder / data.draw(st.sampled_from([MANIFEST, "weights.bin"]))
    content = bytearray(victim.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    victim.write_bytes(content)
    try:
        survived = verify_folder(folder, REMEDY)
    except DamagedArtifact:
        return
    # What is left are changes that mean nothing: the same byte again, or another kind of white space.
    assert survived == intact


def test_folder_without_a_manifest_was_never_finished(tmp_path: Path) -> None:
    with pytest.raises(DamagedArtifact, match=r"has no manifest\.json, so it was never finished; write it again"):
        verify_folder(tmp_path, REMEDY)
    with pytest.raises(DamagedArtifact, match="absent: no such folder; write it again"):
        verify_folder(tmp_path / "absent", REMEDY)


def test_json_survives_the_disk_and_a_name_that_is_not_utf8_seals_a_manifest(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.txt")
    write_json(tmp_path / "new" / "f.json", {"path": name, "ñ": [1, 2.5, None]})
    assert (tmp_path / "new" / "f.json").read_text(encoding="utf-8").count(r"\udcff\udcfe.txt") == 1
    assert read_json(tmp_path / "new" / "f.json") == {"path": name, "ñ": [1, 2.5, None]}
    write_manifest(tmp_path, sources=[name])
    assert verify_folder(tmp_path, "restore it").facts["sources"] == [name]


def test_json_is_indented_by_two_and_keeps_the_letters_of_every_script(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ä": [1]})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n  "ä": [\n    1\n  ]\n}\n'


def test_every_manifest_below_a_folder_is_verified_and_what_none_names_is_told(tmp_path: Path) -> None:
    for name in ("run", "run/export/model", "run/export/other"):
        (tmp_path / name).mkdir(parents=True)
        write_file(tmp_path / name / "weights", name)
    write_file(tmp_path / "run" / ".hidden", "")
    write_manifest(tmp_path / "run" / "export" / "model", kind="model")
    verified = ("export/model/manifest.json", "export/model/weights")
    told = verify_below(tmp_path / "run", "restore it")
    assert told == Verification(verified, ("export/other/weights", "weights"))
    write_file(tmp_path / "run" / "export" / "model" / "weights", "other")
    with pytest.raises(DamagedArtifact, match="restore it"):
        verify_below(tmp_path / "run", "restore it")


def test_a_link_to_itself_in_the_place_of_a_file_is_damage(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x")
    write_manifest(tmp_path)
    (tmp_path / "a.bin").unlink()
    (tmp_path / "a.bin").symlink_to("a.bin")
    with pytest.raises(DamagedArtifact, match=r"manifest names a\.bin but it is missing"):
        verify_folder(tmp_path, "restore it")


def test_identity_does_not_depend_on_the_order_of_keys() -> None:
    assert sha256_json({"a": 1, "b": {"c": 2, "d": 3}}) == sha256_json({"b": {"d": 3, "c": 2}, "a": 1})
    assert sha256_json({"a": 1}) != sha256_json({"a": 2})


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "the disk is full; free some space and run the same command again"),
        (errno.EROFS, "the file system is read-only; choose another --out"),
        (errno.EIO, "the disk reports an input/output error; check the disk and run the same command again"),
    ],
)
def test_failing_disk_is_one_sentence_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str
) -> None:
    path = tmp_path / "state.json"
    write_file(path, "old")

    def fail(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StorageError) as caught:
            write_file(path, "new")
    assert str(caught.value) == f"{path}: {sentence}"
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """A limit of the process stands for a disk that refuses: what lies beyond 1,000 bytes of a file is not taken."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files_only")
def test_refused_weights_leave_the_old_folder_alone(tmp_path: Path) -> None:
    path = tmp_path / "step-3"
    write_folder(path, "old")
    with pytest.raises(StorageError) as caught, new_folder(path) as folder:
        save_file({"weights": np.zeros(1000)}, folder / "weights.safetensors")
    assert str(caught.value) == f"{path}: the file system does not take a file this large; choose another --out"
    assert content_of(path) == "old"


def test_full_disk_leaves_the_old_folder_and_no_rubbish(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        path = tmp_path / "step-3"
        write_folder(path, "old")
        with pytest.raises(StorageError, match="step-3: the disk is full; free some space"):
            write_folder(path, "x" * 200_000)
        assert content_of(path) == "old"
        write_folder(path, "y" * 50_000)
        assert content_of(path)[0] == "y"
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_file_in_the_way_of_a_folder_is_kept_and_a_folder_in_the_way_of_a_file_named(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    sentence = "notes: is a file where a folder is needed; choose another path"
    with pytest.raises(StorageError, match=sentence):
        write_folder(tmp_path / "notes", "new")
    with pytest.raises(StorageError, match=sentence):
        lock_folder(tmp_path / "notes").__enter__()
    with pytest.raises(StorageError, match="a part of this path is a file, not a folder; choose another path"):
        write_folder(tmp_path / "notes" / "step-3", "new")
    assert (tmp_path / "notes").read_text() == "mine"
    with pytest.raises(StorageError, match="is a folder where a file is needed; choose another path"):
        write_file(tmp_path, "new")


def test_trouble_with_a_file_that_is_only_read_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with pytest.raises(IsADirectoryError), storage_errors(tmp_path / "out"):
        (tmp_path / "source").read_text()


HOLDER = """
import os, sys, time
from pathlib import Path
from electralab.artifacts import lock_folder
with lock_folder(Path(sys.argv[1])):
    worker = os.fork() if sys.argv[2] == "with a worker" else 1
    if worker:
        print(worker, flush=True)
    time.sleep(60)
"""


def hold(folder: Path, company: str = "alone") -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, folder, company], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_second_process_is_refused_and_told_who_holds_the_folder_until_that_is_killed(tmp_path: Path) -> None:
    process, _ = hold(tmp_path)
    try:
        with pytest.raises(FolderInUse, match=f"in use by process {process.pid} on .+; wait for it, or choose another"):
            lock_folder(tmp_path).__enter__()
    finally:
        kill(process)
    with lock_folder(tmp_path):
        assert f"process {os.getpid()} on" in (tmp_path / ".lock").read_text()


def test_worker_that_outlives_its_killed_parent_does_not_keep_the_folder(tmp_path: Path) -> None:
    process, worker = hold(tmp_path, "with a worker")
    try:
        time.sleep(0.1)
        process.kill()
        process.wait()
        os.kill(worker, 0)
        with lock_folder(tmp_path):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)
        kill(process)


def test_folder_is_free_again_after_use_and_taken_within(tmp_path: Path) -> None:
    for _ in range(2):
        with lock_folder(tmp_path):
            with pytest.raises(FolderInUse):
                lock_folder(tmp_path).__enter__()
            # A refused attempt closes its own descriptor, which must not free the holder's lock.
            with pytest.raises(FolderInUse):
                lock_folder(tmp_path).__enter__()
