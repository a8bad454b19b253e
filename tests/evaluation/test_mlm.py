"""The generator's guesses against a twin, beside knowing only frequencies."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from little_models import TEXT, TOKENIZER, build_pair, run, save_pair

from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError
from electralab.evaluation.context import EvalContext
from electralab.evaluation.heldout import HeldoutConfig, count_characters, mask_rows, read_rows
from electralab.records.evaluation import Suite
from electralab.statistics import bootstrap_indices, subsample


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlm")
    save_pair(folder / "run", build_pair())
    (folder / "text.txt").write_text("\n\n".join([TEXT] * 6))
    return folder


def test_loss_and_accuracy_are_those_of_the_hidden_tokens(place: Path) -> None:
    found = run(place / "run", "mlm", place / "text.txt", batch_tokens=50)
    generator = build_pair().generator
    (masked,) = mask_rows(
        read_rows(place / "text.txt", TOKENIZER, 24, 0, ReadingConfig()),
        TOKENIZER,
        HeldoutConfig(),
        EvalContext(batch_tokens=10**6),
    )
    with torch.no_grad():
        guesses = generator(masked.input_ids, masked.batch.segment_ids, masked.batch.is_pad, masked.positions)
        expected = float(torch.nn.functional.cross_entropy(guesses, masked.target_ids))
    assert (masked.input_ids.flatten()[masked.positions] == TOKENIZER.special.mask).all()
    assert found.scores["loss"] == pytest.approx(expected, rel=1e-4)
    assert found.scores["perplexity"] == pytest.approx(math.exp(expected), rel=1e-3)
    assert found.scores["bits_per_token"] == pytest.approx(expected / math.log(2), rel=1e-4)
    assert found.counts["masked"] == len(masked.positions)
    assert found.groups["by"]["unigram"]["loss"] < found.scores["loss"]  # weights drawn at random know nothing


def test_bits_per_character_divide_by_the_text_that_a_token_stands_for(place: Path) -> None:
    rows = read_rows(place / "text.txt", TOKENIZER, 512, 0, ReadingConfig())
    (ids,) = TOKENIZER.encode_many([TEXT])
    expected = len(" ".join([TEXT] * 6)) / (6 * len(ids))
    assert count_characters(rows, TOKENIZER) == pytest.approx(expected)


def test_a_limit_takes_the_first_rows_of_a_text(place: Path) -> None:
    whole, part = (read_rows(place / "text.txt", TOKENIZER, 24, limit, ReadingConfig()) for limit in (0, 2))
    assert len(whole.ids) > 2
    np.testing.assert_array_equal(part.ids, whole.ids[:2])


@pytest.mark.parametrize("suite", ["mlm", "rtd"])
def test_a_text_in_which_every_word_is_unknown_is_refused(place: Path, suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "greek.txt").write_text("αβγ δεζ")
    with pytest.raises(InputError, match=r"greek\.txt: holds nothing that the model's vocabulary knows"):
        run(place / "run", suite, tmp_path / "greek.txt")


def test_the_column_of_the_text_may_be_named(place: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"body\n{TEXT}\n")
    with pytest.raises(InputError, match=r"choose it with --field \(the setting reading\.field\)"):
        run(place / "run", "mlm", tmp_path / "in.csv")
    assert run(place / "run", "mlm", tmp_path / "in.csv", reading={"field": "body"}).counts["rows"] == 1


def test_choosing_and_drawing_again_depend_on_the_seed_alone() -> None:
    assert subsample(5, 0, 1).tolist() == subsample(5, 9, 1).tolist() == [0, 1, 2, 3, 4]
    chosen = subsample(100, 10, 1).tolist()
    assert len(set(chosen)) == 10
    assert chosen == sorted(chosen) == subsample(100, 10, 1).tolist()
    assert chosen != subsample(100, 10, 2).tolist()
    draws = bootstrap_indices(7, 50, 3)
    assert draws.shape == (50, 7)
    assert set(draws.ravel().tolist()) == set(range(7))
