"""What a run promises: its losses, its limits, whom it starts from, and what it refuses."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import safetensors.torch
import torch
from electra_process import Shell
from golden_losses import PATH, measure, read_golden
from little_runs import SMALL, metrics_of, state_of

pytestmark = pytest.mark.flow


def train(run: str, *more: str | int | Path) -> tuple[str | int | Path, ...]:
    return ("pretrain", "--data", "data", "--out", run, *SMALL, "--log-every", 1, *more)


def last_line(text: str) -> str:
    return text.splitlines()[-1]


def test_losses_are_the_golden_ones(shell: Shell) -> None:
    golden, found = read_golden(PATH.read_text()), measure(shell.folder)
    if golden.machine == found.machine:
        assert found.losses == golden.losses
    else:
        assert found.losses.keys() == golden.losses.keys()
        for step, losses in golden.losses.items():
            assert found.losses[step] == pytest.approx(losses, rel=1e-4), f"step {step}"


def test_micro_batches_give_the_loss_of_the_whole_batch(shell: Shell) -> None:
    shell.must(*train("whole", "--steps", 5))
    shell.must(*train("parts", "--steps", 5, "--batch.micro-size", 3))
    for whole, parts in zip(metrics_of(shell.folder / "whole"), metrics_of(shell.folder / "parts"), strict=True):
        assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-5)
        assert parts["gradient_norm"] == pytest.approx(whole["gradient_norm"], rel=1e-4)


def test_bfloat16_runs(shell: Shell) -> None:
    shell.must(*train("full", "--steps", 3))
    shell.must(*train("half", "--steps", 3, "--runtime.precision", "bf16"))
    losses = [[record["loss"] for record in metrics_of(shell.folder / run)] for run in ("full", "half")]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_a_run_that_diverges_names_its_last_good_checkpoint(shell: Shell) -> None:
    wild = ("--steps", 30, "--save-every", 1, "--optimizer.max-skipped-in-a-row", 3, "--schedule.warmup-share", 0)
    ended = shell.run(*train("wild", *wild, "--optimizer.learning-rate", "1e30"))
    assert ended.status == 1
    assert last_line(ended.err) == (
        "electra: wild: 4 steps in a row were not finite; the last good checkpoint is wild/checkpoints/step-1; "
        "lower --optimizer.learning-rate and start a new run from it"
    )
    assert "step 2 was not finite" in ended.err
    assert "Traceback" not in ended.err
    assert not (shell.folder / "wild" / "export").exists()


def test_a_run_does_not_end_amid_broken_steps(shell: Shell) -> None:
    wild = ("--steps", 3, "--schedule.warmup-share", 0, "--optimizer.learning-rate", "1e30")
    ended = shell.run(*train("wild", *wild))
    assert ended.status == 1
    assert "2 steps in a row were not finite; the last good checkpoint is none" in last_line(ended.err)


def test_a_folder_in_use_is_left_alone(shell: Shell) -> None:
    running = shell.start(*train("run", "--steps", 100_000, "--save-every", 0))
    running.wait_for_text("starting at step 1")
    other = shell.run(*train("run", "--steps", 100_000))
    running.send(signal.SIGTERM)
    assert running.wait().status == 143
    assert other.status == 1
    assert other.err.startswith("electra: run: in use by process ")
    assert other.err.endswith("; wait for it, or choose another --out\n")


def test_a_finished_run_is_extended_and_says_what_becomes_of_its_schedule(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 4))
    refused = shell.run(*train("run", "--steps", 8))
    assert refused.status == 1
    assert refused.err == "electra: run: its budget was --steps 4, now --steps 8; give the same, or --extend it\n"
    extended = shell.must(*train("run", "--steps", 8, "--extend"))
    assert "extended from 4 to 8 steps: the schedule (linear) is now that of the longer run" in extended.err
    assert "resuming at step 5 of 8" in extended.err
    assert [record["step"] for record in metrics_of(shell.folder / "run")] == list(range(1, 9))
    assert json.loads((shell.folder / "run/results.json").read_text())["step"] == 8
    shorter = shell.run(*train("run", "--steps", 2, "--extend"))
    assert shorter.status == 2
    assert shorter.err == "electra: --extend: --steps 2 is 2 steps, the run has 8; give more\n"
    assert shell.must(*train("run", "--steps", 8)).err == "already finished: 8 steps\npage  run/report.html\n"


def test_another_command_on_a_run_is_refused_and_the_difference_named(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 2))
    before = state_of(shell.folder / "run", 2)
    shutil.copytree(shell.folder / "data", shell.folder / "other")
    shell.must("prepare", "text.txt", "--out", "third", "--vocab-size", "100", "--sequence-length", "32")

    def refusal(*more: str | int | Path) -> str:
        ended = shell.run(*train("run", "--steps", 2, *more))
        assert ended.status == 1, ended.err
        return ended.err

    assert refusal("--masking.mask-share", "0.3") == (
        "electra: run: masking.mask_share was 0.15, now 0.3; give the same settings or choose another --out for a new "
        "run\n"
    )
    assert refusal("--seed", 1).startswith("electra: run: seed was 0, now 1; give the same settings")
    assert refusal("--threads", 2) == (
        "electra: run: ran with --threads 1, now 2, which changes sums; give the same number, or --allow-inexact\n"
    )
    assert refusal("--init-from", "run").startswith("electra: run: started from nothing, now asked to start from ")
    assert refusal("--data", "third").startswith("electra: run: was trained on other data (")
    assert state_of(shell.folder / "run", 2) == before
    # The same data under another name is the same data.
    shell.must(*train("run", "--steps", 2, "--data", "other"))
    shell.must(*train("run", "--steps", 2, "--threads", 2, "--allow-inexact"))


def test_new_training_starts_from_a_run_of_ours(shell: Shell) -> None:
    words = ("--model.embedding-size", 16, "--optimizer.weight-decay", 0)
    shell.must(*train("first", "--steps", 3, *words))
    still = (*words, "--optimizer.learning-rate", "1e-30")
    started = shell.must(*train("second", "--steps", 1, *still, "--init-from", "first"))
    assert "starting at step 1 of 1" in started.err
    before, after = (
        safetensors.torch.load_file(shell.folder / run / "checkpoints" / step / "model.safetensors")
        for run, step in (("first", "step-3"), ("second", "step-1"))
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    # The same command resumes; it does not start from there again.
    assert (
        shell.must(*train("second", "--steps", 1, *still, "--init-from", "first")).err
        == "already finished: 1 steps\npage  second/report.html\n"
    )


def test_new_training_starts_from_a_hugging_face_folder(shell: Shell) -> None:
    transformers = pytest.importorskip("transformers")
    vocab_size = json.loads((shell.folder / "data/manifest.json").read_text())["vocab_size"]
    config = transformers.ElectraConfig(
        vocab_size=vocab_size,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    theirs = transformers.ElectraForPreTraining(config).eval()
    theirs.save_pretrained(shell.folder / "theirs")
    words = ("--model.backbone", "electra", "--model.embedding-size", 16, "--optimizer.weight-decay", 0)
    still = (*words, "--optimizer.learning-rate", "1e-30", "--steps", 1)
    shell.must(*train("run", *still, "--init-from", "theirs"))
    ours = transformers.ElectraForPreTraining.from_pretrained(shell.folder / "run/export/discriminator").eval()
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        assert torch.allclose(ours(ids).logits, theirs(ids).logits, atol=1e-6)
    wrong = shell.run(*train("other", "--steps", 1, "--model.backbone", "electra", "--init-from", "theirs"))
    assert wrong.status == 1
    assert last_line(wrong.err) == (
        "electra: theirs: its architecture is not that of the settings (it has encoder.embeddings.projection.bias); "
        "give model settings that match it"
    )
    assert not (shell.folder / "other/run.json").exists()


def test_a_disk_that_fills_up_costs_nothing_already_written(shell: Shell) -> None:
    words = ("--steps", 12, "--save-every", 4, "--keep", 5)
    shell.must(*train("whole", *words))
    shutil.copytree(shell.folder / "whole", shell.folder / "full")
    for late in ("step-8", "step-12"):
        shutil.rmtree(shell.folder / "full/checkpoints" / late)
    (shell.folder / "full/results.json").unlink()
    before = state_of(shell.folder / "full", 4)
    ended = shell.run(*train("full", *words), file_bytes=50_000)
    assert ended.status == 1
    assert last_line(ended.err) == (
        "electra: full/checkpoints/step-8: the file system does not take a file this large; choose another --out"
    )
    assert "Traceback" not in ended.err
    assert [path.name for path in (shell.folder / "full/checkpoints").iterdir()] == ["step-4"]
    assert state_of(shell.folder / "full", 4) == before
    shell.must(*train("full", *words))
    assert state_of(shell.folder / "full", 12) == state_of(shell.folder / "whole", 12)


def test_a_full_disk_ends_in_one_sentence(shell: Shell) -> None:
    disk = shell.folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs rights that this process does not have")
    try:
        ended = shell.run(*train("disk/run", "--steps", 200, "--save-every", 2, "--keep", 100))
        assert ended.status == 1, ended.err
        assert "Traceback" not in ended.err
        assert last_line(ended.err).endswith(": the disk is full; free some space and run the same command again")
        checkpoints = sorted((disk / "run/checkpoints").glob("step-*"))
        assert checkpoints
        assert all((path / "manifest.json").is_file() for path in checkpoints)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_start_with_other_heads_is_refused_although_the_shapes_agree(shell: Shell) -> None:
    shell.must(*train("first", "--steps", 1))
    wrong = shell.run(
        *train("second", "--steps", 1, "--init-from", "first", "--model.num-heads", 4, "--generator.num-heads", 4)
    )
    assert wrong.status == 1
    assert "has num_heads 2, the settings say 4" in last_line(wrong.err)


def test_a_run_that_lost_its_exports_writes_them_again(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 2))
    shutil.rmtree(shell.folder / "run/export")
    shell.must(*train("run", "--steps", 2))
    assert (shell.folder / "run/export/discriminator/config.json").is_file()


def test_checkpoints_without_their_identity_are_not_adopted(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 2))
    (shell.folder / "run/run.json").unlink()
    refused = shell.run(*train("run", "--steps", 2))
    assert refused.status == 1
    assert last_line(refused.err) == (
        "electra: run: has checkpoints but no run.json; restore it or choose another --out"
    )
