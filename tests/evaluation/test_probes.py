"""A probe finds what lies there in a straight line, and nothing where labels are shuffled; and cosines of pairs, at a
layer chosen without a look at the part that is told."""

from pathlib import Path

import numpy as np
import pytest
from little_models import TEXT, TOKENIZER, build_pair, finish, run, save_pair

from electralab.errors import InputError, UsageError
from electralab.evaluation.context import (
    EvalContext,
    StatesConfig,
    encode_sentences,
    load_frozen_encoder,
    pooled_states,
)
from electralab.evaluation.probes import LinearProbe, ProbeConfig, ProbeData, find_cosines, join_pair

WORDS = TEXT.split()
QUICK = ProbeConfig(strengths=(0.1,))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pair(tmp_path_factory.mktemp("probe"), build_pair())


def make_judge(config: ProbeConfig = QUICK) -> LinearProbe:
    return LinearProbe(("accuracy",), 2, config, EvalContext())


def planted(count: int, seed: int) -> ProbeData:
    """Noise at one layer, the class along one direction at the other."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, count)
    noise = rng.normal(size=(count, 8)).astype(np.float32)
    line = noise.copy()
    line[:, 3] += 6.0 * truth
    return ProbeData({"noise": noise, "line": line}, truth, np.arange(count))


def test_a_planted_line_is_found_at_its_layer() -> None:
    train, dev = planted(300, 0), planted(200, 1)
    choice = finish(make_judge().choose(train, "x"))
    assert choice.layer == "line"
    assert choice.validation["line"] > 0.95
    assert choice.validation["noise"] < 0.7
    predicted = make_judge().predict(train, dev, choice, train.truth)
    assert (predicted == dev.truth).mean() > 0.95


def test_shuffled_labels_teach_nothing() -> None:
    train, dev = planted(300, 0), planted(200, 1)
    choice = finish(make_judge().choose(train, "x"))
    shuffled = np.random.default_rng(2).permutation(train.truth)
    predicted = make_judge().predict(train, dev, choice, shuffled)
    assert 0.3 < (predicted == dev.truth).mean() < 0.7


def test_words_of_one_sentence_are_kept_aside_together() -> None:
    """Every example has a vector of its own, repeated: only a leak across the split can tell classes apart."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    own = rng.normal(size=(60, 200)).astype(np.float32)
    words = ProbeData({"own": np.repeat(own, 5, axis=0)}, np.repeat(truth, 5), np.repeat(np.arange(60), 5))
    choice = finish(make_judge(ProbeConfig(strengths=(1.0,), validation_share=0.5)).choose(words, "x"))
    assert choice.validation["own"] < 0.75


def test_pairs_do_not_depend_on_which_text_comes_first() -> None:
    one, two = np.array([[1.0, -2.0]], np.float32), np.array([[3.0, 5.0]], np.float32)
    assert join_pair(one, two).tolist() == join_pair(two, one).tolist() == [[2.0, 7.0, 3.0, -10.0]]


def write_texts(path: Path, count: int, seed: int) -> None:
    """The label says whether the first word is 'cat'; the rest is noise."""
    rng = np.random.default_rng(seed)
    rows = ["text,label"]
    for _ in range(count):
        label = int(rng.integers(0, 2))
        rows.append(f"{' '.join(['cat' if label else 'birds', *rng.choice(WORDS[3:], 3)])},{label}")
    path.write_text("\n".join(rows) + "\n")


def test_texts_of_a_table_are_probed_beside_their_controls(model: Path, tmp_path: Path) -> None:
    write_texts(tmp_path / "train.csv", 200, 0)
    write_texts(tmp_path / "dev.csv", 80, 1)
    found = run(model, "probe", tmp_path, task="classify", states={"examples": 150}, probe={"strengths": [0.1]})
    assert found.scores["accuracy"] > 0.9
    assert found.scores["layer"] in found.groups["layer"]
    controls = found.groups["control"]
    assert controls["shuffled labels"]["accuracy"] < 0.75
    assert controls["most frequent"]["accuracy"] < 0.7
    assert controls["random encoder"]["layer"] in found.groups["layer"]
    assert found.counts == {"train": 150, "dev": 80, "vectors": 150, "truncated": 0, "bad_rows": 0}
    assert "trained on 150 of 200 training examples" in found.notes


def test_words_are_probed_by_their_own_vectors(model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("train.txt", 60), ("dev.txt", 20)):
        sentences = (rng.choice(WORDS, 5) for _ in range(count))
        tagged = ("\n".join(f"{word} {'B-X' if word == 'cat' else 'O'}" for word in words) for words in sentences)
        (tmp_path / name).write_text("\n\n".join(tagged) + "\n")
    found = run(model, "probe", tmp_path, task="label", probe={"strengths": [1.0]})
    assert found.counts["vectors"] == 300
    assert found.scores["accuracy"] > 0.97
    assert found.scores["accuracy"] >= found.groups["control"]["most frequent"]["accuracy"]


def test_what_cannot_be_probed_is_one_sentence(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--task: the suite 'probe' needs one"):
        run(model, "probe", tmp_path)
    with pytest.raises(UsageError, match="--task stsb: a probe tells classes apart"):
        run(model, "probe", tmp_path, task="stsb")
    with pytest.raises(UsageError, match="--task: belongs to the suite 'probe'"):
        run(model, "blimp", tmp_path, task="sst2")
    with pytest.raises(InputError, match="too few training examples"):
        finish(make_judge().choose(planted(1, 0), "x"))


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
