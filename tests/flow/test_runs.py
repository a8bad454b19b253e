"""What a run promises: its losses, its limits, whom it starts from, and what it refuses."""

import json
import shutil
import signal

import pytest
import safetensors.torch
import torch
from electra_process import Shell, Words
from little_runs import metrics_of, state_of, train

pytestmark = pytest.mark.flow


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
    said = shell.refuse(*train("wild", *wild, "--optimizer.learning-rate", "1e30"))
    assert said == (
        "wild: 4 steps in a row were not finite; the last good checkpoint is wild/checkpoints/step-1; "
        "lower --optimizer.learning-rate and start a new run from it"
    )
    assert not (shell.folder / "wild" / "export").exists()


def test_a_folder_in_use_is_left_alone(shell: Shell) -> None:
    running = shell.start(*train("run", "--steps", 100_000, "--save-every", 0))
    running.wait_for_text("starting at step 1")
    said = shell.refuse(*train("run", "--steps", 100_000))
    running.send(signal.SIGTERM)
    assert running.wait().status == 143
    assert said.startswith("run: in use by process ")
    assert said.endswith("; wait for it, or choose another --out")


def test_a_finished_run_is_extended_and_says_what_becomes_of_its_schedule(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 4))
    said = shell.refuse(*train("run", "--steps", 8))
    assert said == "run: its budget was --steps 4, now --steps 8; give the same, or --extend it"
    extended = shell.must(*train("run", "--steps", 8, "--extend"))
    assert "extended from 4 to 8 steps: the schedule (linear) is now that of the longer run" in extended.err
    assert "resuming at step 5 of 8" in extended.err
    assert [record["step"] for record in metrics_of(shell.folder / "run")] == list(range(1, 9))
    assert json.loads((shell.folder / "run/results.json").read_text())["step"] == 8
    said = shell.refuse(*train("run", "--steps", 2, "--extend"), status=2)
    assert said == "--extend: --steps 2 is 2 steps, the run has 8; give more"
    assert shell.must(*train("run", "--steps", 8)).err == "already finished: 8 steps\npage  run/report.html\n"


def test_another_command_on_a_run_is_refused_and_the_difference_named(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 2))
    before = state_of(shell.folder / "run", 2)
    shutil.copytree(shell.folder / "data", shell.folder / "other")
    shell.must("prepare", "text.txt", "--out", "third", "--vocab-size", "100", "--sequence-length", "32")

    refused: dict[Words, str] = {
        ("--masking.mask-share", "0.3"): (
            "masking.mask_share was 0.15, now 0.3; give the same settings or choose another --out for a new run"
        ),
        ("--seed", 1): "seed was 0, now 1; give the same settings",
        ("--threads", 2): "ran with --threads 1, now 2, which changes sums; give the same number, or --allow-inexact",
        ("--init-from", "run"): "started from nothing, now asked to start from ",
        ("--data", "third"): "was trained on other data (",
    }
    for more, sentence in refused.items():
        assert shell.refuse(*train("run", "--steps", 2, *more)).startswith(f"run: {sentence}")
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
    again = shell.must(*train("second", "--steps", 1, *still, "--init-from", "first"))
    assert again.err == "already finished: 1 steps\npage  second/report.html\n"


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
    assert ended.err.splitlines()[-1] == (
        "electra: full/checkpoints/step-8: the file system does not take a file this large; choose another --out"
    )
    assert "Traceback" not in ended.err
    assert [path.name for path in (shell.folder / "full/checkpoints").iterdir()] == ["step-4"]
    assert state_of(shell.folder / "full", 4) == before
    shell.must(*train("full", *words))
    assert state_of(shell.folder / "full", 12) == state_of(shell.folder / "whole", 12)


def test_a_start_with_other_heads_is_refused_although_the_shapes_agree(shell: Shell) -> None:
    shell.must(*train("first", "--steps", 1))
    heads = ("--model.num-heads", 4, "--generator.num-heads", 4)
    said = shell.refuse(*train("second", "--steps", 1, "--init-from", "first", *heads))
    assert "has num_heads 2, the settings say 4" in said


def test_a_run_that_lost_its_exports_writes_them_again(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 2))
    shutil.rmtree(shell.folder / "run/export")
    shell.must(*train("run", "--steps", 2))
    assert (shell.folder / "run/export/discriminator/config.json").is_file()


def test_checkpoints_without_their_identity_are_not_adopted(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 2))
    (shell.folder / "run/run.json").unlink()
    said = shell.refuse(*train("run", "--steps", 2))
    assert said == "run: has checkpoints but no run.json; restore it or choose another --out"
