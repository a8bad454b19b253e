"""Cosines of pairs, and a layer chosen without a look at the part that is told."""

from pathlib import Path

import numpy as np
import pytest
from little_models import TEXT, build_pair, run, save_pair

from electralab.evaluation.probes import find_cosines

WORDS = TEXT.split()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pair(tmp_path_factory.mktemp("sts"), build_pair())


def write_pairs(path: Path, start: int, scores: list[float]) -> None:
    """The more words two sentences share, the higher their score."""
    lines = ["text_a,text_b,label"]
    for number, score in enumerate(scores):
        first = [WORDS[(start + number * 5 + step) % len(WORDS)] for step in range(4)]
        second = [word if step < number % 5 else "trees" for step, word in enumerate(first)]
        lines.append(f"{' '.join(first)},{' '.join(second)},{score}")
    path.write_text("\n".join(lines) + "\n")


def test_equal_vectors_have_cosine_one_and_none_has_zero() -> None:
    one = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 0.0]], np.float32)
    two = np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 1.0]], np.float32)
    assert find_cosines(one, two).tolist() == pytest.approx([1.0, 0.0, 0.0])


def test_identical_sentences_have_cosine_one_at_every_layer(model: Path) -> None:
    from little_models import TOKENIZER, finish

    from electralab.evaluation.context import EvalContext
    from electralab.evaluation.states import StatesConfig, encode_sentences, load_frozen_encoder, pooled_states

    sentences = encode_sentences(TOKENIZER, ["the cat sat", "dogs sing", "the cat sat", "dogs sing"], 24)
    layers = finish(
        pooled_states(
            load_frozen_encoder(model, StatesConfig(), "cpu"), sentences, "mean", EvalContext(batch_tokens=1), "x"
        )
    )
    for vectors in layers.values():
        assert find_cosines(*np.split(vectors, 2)).tolist() == pytest.approx([1.0, 1.0])


def test_the_layer_is_chosen_on_the_validation_part_alone(model: Path, tmp_path: Path) -> None:
    shared = [float(number % 5) for number in range(40)]
    write_pairs(tmp_path / "train.csv", 0, shared)
    write_pairs(tmp_path / "dev.csv", 3, shared)
    found = run(model, "sts", tmp_path)
    write_pairs(tmp_path / "dev.csv", 3, [4 - score for score in shared])
    reversed_ = run(model, "sts", tmp_path)
    assert found.counts == {"pairs": 40, "validation_pairs": 40, "truncated": 0, "bad_rows": 0}
    assert found.scores["layer"] == reversed_.scores["layer"]
    assert found.scores["spearman"] == pytest.approx(-reversed_.scores["spearman"])
    chosen = found.groups["layer"][found.scores["layer"]]
    assert chosen["validation_spearman"] == max(
        layer["validation_spearman"] for layer in found.groups["layer"].values()
    )
    assert chosen["spearman"] == found.scores["spearman"]
    low, high = found.scores["spearman_interval"]
    assert low <= found.scores["spearman"] <= high


def test_one_file_is_halved_and_a_random_encoder_stands_beside(model: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.csv", 0, [float(number % 5) for number in range(40)])
    found = run(model, "sts", tmp_path / "pairs.csv")
    assert found.counts["pairs"] + found.counts["validation_pairs"] == 40
    assert found.counts["pairs"] >= 15
    assert found.scores["random_spearman"] != found.scores["spearman"]
    assert set(found.groups) == {"layer", "random layer"}
