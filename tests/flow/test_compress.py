"""`electra compress` on a little pair: a table, a model to detect with; killed, it goes on; nonsense is refused."""

import signal

import pytest
from electra_process import Shell
from little_runs import SMALL

pytestmark = pytest.mark.flow

BRIEF = (
    *("--recovery-steps", "40", "--recovery.batch-size", "4", "--importance.rows", "16", "--measure.rounds", "2"),
    *("--measure.bootstrap", "5", "--verdicts.limit", "16", "--threads", "1"),
)


def test_a_pair_is_compressed_killed_picked_and_used(shell: Shell) -> None:
    layers = ("--model.num-layers", "2")
    shell.must("pretrain", "--data", "data", "--out", "run", "--config", "tiny", "--steps", 2, *SMALL, *layers)
    asked = ("--prune", "0.5", "--drop-layers", 1, "--storage", "bf16", "--license", "mit")
    words = ("compress", "run", "--data", "data", "--out", "small", *asked, *BRIEF)
    plan = shell.must(*words, "--dry-run", "--json").json
    assert plan["variants"] == ["fp32", "bf16", "pruned-50-drop-1", "pruned-50-drop-1-recovered"]

    running = shell.start(*words)
    running.wait_for_text("step     10/40")
    running.send(signal.SIGTERM)
    stopped = running.wait()
    assert stopped.status == 143, stopped.err
    assert "the same command continues from here" in stopped.err

    ended = shell.must(*words, "--max-loss", 100)
    assert "resuming at step" in ended.err
    assert "pruned-50-drop-1-recovered" in ended.out
    assert "efficiency" in ended.out
    assert shell.must("detect", "small", "Anna sees the house.", "--json").json["tokens"]
    assert "license: mit" in (shell.folder / "small/export/generator/README.md").read_text()
    found = shell.must("show", "small/variants/pruned-50-drop-1", "--json").json
    assert (found["network"], found["encoder"]["num_layers"]) == ("discriminator", 1)

    assert "pruned-50-drop-1-recovered" in shell.must("show", "small").out
    missed = shell.run(*words, "--target-speedup", 1000, "--json")
    assert (missed.status, missed.json["picked"]) == (1, None)
    assert "small: no variant is as was asked; the fastest is" in missed.err


def test_what_cannot_be_is_refused_before_work_starts(shell: Shell) -> None:
    shell.must("pretrain", "--data", "data", "--out", "run", "--config", "tiny", "--steps", 1, *SMALL)
    for words, complaint in (
        (("--prune", "1.0"), "must be shares between 0 and 1, got '1.0'"),
        (("--drop-layers", "9"), "--drop-layers: the model has 1 layers, of which the first stays"),
        (("--graphs", "tflite"), "graphs"),
    ):
        ended = shell.run("compress", "run", "--data", "data", "--out", "small", *words)
        assert ended.status == 2, ended.err
        assert complaint in ended.err
        assert not (shell.folder / "small").exists()
