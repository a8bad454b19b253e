"""A probe finds what lies there in a straight line, and nothing where labels are shuffled."""

from pathlib import Path

import numpy as np
import pytest
from little_models import TEXT, build_pair, finish, run, save_pair

from electralab.errors import InputError, UsageError
from electralab.evaluation.context import EvalContext
from electralab.evaluation.probes import LinearProbe, ProbeConfig, ProbeData, join_pair

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
