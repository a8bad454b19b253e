"""What was frozen stays: numbers to the last bit, findings to the sixth digit, keys, texts; old folders resume."""

import hashlib
import json
import shutil
from pathlib import Path

import golden
import pytest
from electra_process import Shell
from golden_folders import COMMANDS, make_folders, unpack
from little_runs import assert_equal_runs, exports_of, forget_after, metrics_of
from snapshots import FOLDER, take_snapshots, write_snapshot

pytestmark = pytest.mark.flow


@pytest.fixture
def old(tmp_path: Path) -> Shell:
    """The folders as an earlier commit wrote them."""
    unpack(tmp_path)
    return Shell(tmp_path)


# Whether the bits of the old folders can be expected here. They do not say which kernels wrote them, only on which kind
# of processor; kernels that are known to give other bits are listed.
MACHINE = golden.describe_machine()
OTHER_KERNELS = golden.FOLDER.joinpath("folders-other-kernels.txt").read_text().split()
IS_OF_THE_KIND = (MACHINE["torch"], MACHINE["cpu"]) == ("2.13.0", "AVX512")
IS_LIKE_THE_WRITER = IS_OF_THE_KIND and MACHINE["kernels"] not in OTHER_KERNELS


def hash_weights(folder: Path) -> dict[str, str]:
    """Of every network but the one that was picked: which variant is fastest changes with the machine's load."""
    paths = [path for path in sorted(folder.rglob("*.safetensors")) if "small/export" not in str(path)]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.parametrize("path", golden.LOSSES, ids=lambda path: path.stem)
def test_losses_are_the_golden_ones(shell: Shell, path: Path) -> None:
    is_exact, frozen = golden.read_lines(path)
    measured = golden.measure_losses(shell, path)
    assert measured.keys() == frozen.keys()
    for step, values in measured.items():
        golden.assert_near(values, frozen[step], 0 if is_exact else 1e-4, f"step {step}")


def test_first_weights_and_losses_of_everything_that_can_be_trained(old: Shell) -> None:
    is_exact, frozen = golden.read_lines(golden.OBJECTIVE_LOSSES)
    measured = golden.measure_objectives(old)
    assert measured.keys() == frozen.keys()
    for name, values in measured.items():
        if is_exact:
            assert values == frozen[name], name
        else:
            golden.assert_near(values[3:], frozen[name][3:], 1e-4, name)


def test_findings_are_the_golden_ones(tmp_path: Path) -> None:
    is_exact, frozen = golden.read_lines(golden.FINDINGS)
    measured = golden.measure_findings(Shell(tmp_path))
    assert list(measured) == list(frozen)
    for name, values in measured.items():
        if is_exact:
            golden.assert_near(values, frozen[name], 1e-6, name)


def read_snapshot(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if line.startswith("=== "):
            lines = sections.setdefault(line.removeprefix("=== "), [])
        else:
            lines.append(line)
    # A file like another one is written as "as OTHER".
    return {
        name: sections[lines[0].removeprefix("as ")] if lines and lines[0].startswith("as ") else lines
        for name, lines in sections.items()
    }


def test_what_others_read_has_the_keys_and_texts_that_it_had(tmp_path: Path) -> None:
    snapshots = take_snapshots(Shell(tmp_path), make_folders(tmp_path))
    for kind, sections in snapshots.items():
        frozen, current = read_snapshot((FOLDER / f"{kind}.txt").read_text()), read_snapshot(write_snapshot(sections))
        if kind not in ("answers", "disk", "wire"):
            assert current == frozen, kind
            continue
        # JSON may gain keys and order them otherwise; it loses none, and a number stays a number.
        for name, lines in frozen.items():
            keys, now = {line.split(" ")[0] for line in lines}, current[name]
            assert keys <= {line.split(" ")[0] for line in now}, f"{kind}, {name}"
            assert {line for line in lines if line.endswith((" int", " float"))} <= set(now), f"{kind}, {name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_old_folder_is_shown(old: Shell, name: str) -> None:
    assert old.must("show", name).out
    assert old.must("show", name, "--json").json


def test_old_folders_are_reported(old: Shell) -> None:
    for name in ("run", "tuned", "study", "analysis", "small"):
        warnings = old.must("report", name, "--out", "page.html", "--json").json["warnings"]
        assert name == "small" or not [text for text in warnings if "read" in text]
        assert name in (old.folder / "page.html").read_text()


def test_old_models_are_used(old: Shell) -> None:
    for name in ("run", "small", "exported", "exported/discriminator"):
        assert old.must("detect", name, "Anna sees the horse.", "--json").json["tokens"]
    assert old.must("predict", "tuned", "new.csv").out


@pytest.mark.parametrize("name", ["run", "tuned", "study", "analysis", "small"])
def test_an_old_folder_that_is_finished_stays_as_it_is(old: Shell, name: str) -> None:
    before = hash_weights(old.folder / name)
    old.must(*COMMANDS[name])
    assert hash_weights(old.folder / name) == before


def test_an_old_run_is_resumed_bit_for_bit(old: Shell) -> None:
    run, whole = old.folder / "run", old.folder / "whole"
    shutil.copytree(run, whole)
    forget_after(run, 3)
    assert "resuming at step 4" in old.must(*COMMANDS["run"]).err
    if IS_LIKE_THE_WRITER:
        assert_equal_runs(old.folder, "run", "whole", 6)
    losses = [[record["loss"] for record in metrics_of(folder)] for folder in (run, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_an_old_fine_tuning_goes_on_bit_for_bit(old: Shell) -> None:
    tuned, whole = old.folder / "tuned", old.folder / "whole"
    shutil.copytree(tuned, whole)
    for later in ("seed-1", "export"):
        shutil.rmtree(tuned / later)
    (tuned / "results.json").unlink()
    old.must(*COMMANDS["tuned"])
    # Files may gain keys; they lose none.
    results = json.loads((whole / "results.json").read_text())
    assert results.keys() <= json.loads((tuned / "results.json").read_text()).keys()
    if IS_LIKE_THE_WRITER:
        assert exports_of(tuned) == exports_of(whole)
        assert metrics_of(tuned / "seed-1") == metrics_of(whole / "seed-1")
    losses = [[record["loss"] for record in metrics_of(folder / "seed-1")] for folder in (tuned, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_an_old_compression_goes_on(old: Shell) -> None:
    whole = hash_weights(old.folder / "small")
    shutil.rmtree(old.folder / "small/variants/pruned-50-drop-1-recovered")
    old.must(*COMMANDS["small"])
    if IS_LIKE_THE_WRITER:
        assert hash_weights(old.folder / "small") == whole
