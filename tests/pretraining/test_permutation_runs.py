"""A run that guesses in random orders goes on as if never stopped, and leaves an encoder that reads both ways."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from little_pretraining import make_request, prepare_sentences
from watching_events import step_records

from electralab.model.electra import TwoStream
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import load_any, load_encoder, locate_encoder
from electralab.pretraining.stage import pretrain
from electralab.stopping import StopSignal

SMALL = (
    *("--objective", "permutation", "--model.num-layers", "2", "--model.hidden-size", "16"),
    *("--model.embedding-size", "8", "--model.num-heads", "2", "--model.feedforward-size", "16"),
    *("--model.local-attention", "4", "--model.global-every", "2", "--model.dropout", "0.1"),
    *("--batch.size", "4", "--batch.micro-size", "3", "--evaluation.rows", "4", "--evaluation.times", "2"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("turns"))


def run(data: Path, run_dir: Path, *words: str, steps: int = 6, init_from: Path | None = None) -> list[dict[str, Any]]:
    request = make_request(data, run_dir, (*SMALL, *words), steps=steps, init_from=init_from)
    return step_records(pretrain(request, StopSignal()))


def test_three_steps_and_three_steps_are_six(data: Path, tmp_path: Path) -> None:
    whole = run(data, tmp_path / "six")
    assert [record["step"] for record in whole] == [1, 2, 3, 4, 5, 6]
    assert {"permuted_loss", "permuted_accuracy", "permuted_entropy"} <= whole[0].keys()
    assert "heldout_permuted_loss" in whole[-1]
    # A twin that knows only the first three: what came after is taken away, as if it had never been.
    shutil.copytree(tmp_path / "six", tmp_path / "half")
    for later in ("checkpoints/step-6", "export"):
        shutil.rmtree(tmp_path / "half" / later)
    (tmp_path / "half/results.json").unlink()
    again = run(data, tmp_path / "half")
    assert [record["step"] for record in again] == [4, 5, 6]
    for name in ("checkpoints/step-6/model.safetensors", "checkpoints/step-6/optimizer.safetensors"):
        assert (tmp_path / "six" / name).read_bytes() == (tmp_path / "half" / name).read_bytes()
    for key in ("loss", "permuted_loss", "permuted_entropy"):
        assert [record[key] for record in again] == [record[key] for record in whole[3:]]


def test_a_finished_run_leaves_both_streams_and_others_can_start_from_it(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "first", steps=2)
    folder = locate_encoder(tmp_path / "first")
    assert folder == tmp_path / "first/export/model"
    streams = load_any(folder)
    assert isinstance(streams, TwoStream)
    assert type(load_encoder(folder)) is Encoder

    # From the checkpoint, from the exported network, and as the encoder of another objective.
    run(data, tmp_path / "second", steps=1, init_from=tmp_path / "first")
    run(data, tmp_path / "third", steps=1, init_from=folder)
    weights = [load_any(tmp_path / name / "export/model").state_dict() for name in ("second", "third")]
    assert all(torch.equal(one, weights[1][name]) for name, one in weights[0].items())
    run(data, tmp_path / "masked", "--objective", "mlm", steps=1, init_from=folder)
