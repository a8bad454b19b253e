"""Prepared data is opened whole or not at all: no damage of its manifest, and no lack of rows, reaches training."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from little_text import little_tokenizer

from electralab.artifacts import MANIFEST, read_json, sha256_json, write_file, write_json, write_manifest
from electralab.errors import DamagedArtifact, InputError
from electralab.tokens.shards import FORMAT, KIND, open_data, shard_bytes, shard_name
from electralab.tokens.tokenizer import TOKENIZER

FACTS: dict[str, Any] = {"kind": KIND, "format": FORMAT, "sequence_length": 4, "packing": "pairs", "vocab_size": 400}


def write_data(folder: Path, train_rows: int = 3, **changes: Any) -> Path:
    tokenizer = little_tokenizer()
    tokenizer.save(folder / TOKENIZER)
    for part, count in (("train", train_rows), ("heldout", 1)):
        rows = np.arange(count * 4).reshape(count, 4)
        write_file(folder / shard_name(part, 0), shard_bytes(rows, tokenizer.vocab_size))  # type: ignore[arg-type]
    write_manifest(folder, **{**FACTS, **changes})
    return folder


def test_data_opens_with_its_rows_and_packing(tmp_path: Path) -> None:
    data = open_data(write_data(tmp_path / "data"))
    assert (len(data.train), len(data.heldout), data.packing, data.sequence_length) == (3, 1, "pairs", 4)
    assert data.train.take(np.array([1])).tolist() == [[4, 5, 6, 7]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("whole") / "data")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_of_the_manifest_trains_with_something_else(whole: Path, place: int, bit: int) -> None:
    path = whole / MANIFEST
    intact = path.read_bytes()
    content = bytearray(intact)
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)
    try:
        opened = open_data(whole)
    except DamagedArtifact:
        return
    finally:
        path.write_bytes(intact)
    assert read_json(opened.path / MANIFEST) == json.loads(intact)


@pytest.mark.parametrize("name", ["packing", "sequence_length", "kind", "format"])
@pytest.mark.parametrize("value", [None, "pairz", 0, True, [], {"a": 1}])
def test_a_sealed_manifest_with_a_field_we_do_not_know_is_refused(tmp_path: Path, name: str, value: object) -> None:
    folder = write_data(tmp_path / "data")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest.pop("sha256")
    manifest[name] = value
    write_json(folder / MANIFEST, {**manifest, "sha256": sha256_json(manifest)})
    if (name, value) == ("format", True):
        return  # 1 == True: the same format
    with pytest.raises(DamagedArtifact, match="rerun 'electra prepare'"):
        open_data(folder)


def test_data_without_a_training_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no training row; prepare it again from more text"):
        open_data(write_data(tmp_path / "data", train_rows=0))
