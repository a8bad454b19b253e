"""Held-out rows with masks and luck that depend on the seed alone: verdicts on them, and guesses beside frequencies."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from little_models import TEXT, TOKENIZER, build_pair, finish, run, save_pair
from torch import Tensor

from electralab.config import ConfigLayer, resolve
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError, UsageError
from electralab.evaluation.context import EvalContext, EvalModel, SuiteResult, load_eval_model
from electralab.evaluation.heldout import (
    HeldoutConfig,
    bootstrap_rows,
    count_characters,
    evaluate_rtd,
    mask_rows,
    read_rows,
)
from electralab.evaluation.stage import EvaluateConfig, evaluate
from electralab.model.electra import Discriminator
from electralab.objective.metrics import RtdScores
from electralab.records.evaluation import Suite
from electralab.statistics import bootstrap_indices, subsample
from electralab.stopping import StopSignal
from electralab.tokens.prepare import prepare
from electralab.tokens.prepare_settings import PrepareConfig
from electralab.tokens.shards import open_data
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs `a` and `b` with one tokenizer, and a text."""
    folder = tmp_path_factory.mktemp("rtd")
    for name, seed in (("a", 1), ("b", 2)):
        save_pair(folder / name, build_pair(seed))
    words = TEXT.split()
    lines = (" ".join(words[(start * 7 + step * 3) % len(words)] for step in range(9)) for start in range(30))
    (folder / "text.txt").write_text("\n\n".join(lines))
    return folder


def test_equal_seeds_give_equal_scores_and_other_ones_other(place: Path) -> None:
    once, again, other = (
        run(place / "a", "rtd", place / "text.txt", seed=seed, heldout={"bootstrap": 9}) for seed in (3, 3, 4)
    )
    assert once == again
    assert once.scores["auc"] != other.scores["auc"]


def test_batches_change_no_mask_and_no_luck(place: Path) -> None:
    one, many = (
        run(place / "a", "rtd", place / "text.txt", batch_tokens=tokens, heldout={"bootstrap": 0})
        for tokens in (60, 8192)
    )
    assert one.counts == many.counts
    assert one.scores["replaced_share"] == many.scores["replaced_share"]
    assert one.scores["loss"] == pytest.approx(many.scores["loss"])


class PerfectDiscriminator(Discriminator):
    """Knows the originals, and remembers what it was shown."""

    def know(self, rows: Tensor) -> "PerfectDiscriminator":
        self.rows = rows
        self.shown = rows[:0]
        return self

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, trace: object = None) -> Tensor:
        assert segment_ids.shape == input_ids.shape
        assert trace is None
        assert is_pad is None or is_pad.shape == input_ids.shape
        originals = self.rows[len(self.shown) :][: len(input_ids)]
        self.shown = torch.cat([self.shown, input_ids])
        return torch.where(input_ids != originals, 9.0, -9.0)


def judge_perfectly(place: Path, model: str, generator: str | None) -> tuple[SuiteResult, Tensor]:
    subject = load_eval_model(place / model, CPU)
    assert subject.discriminator is not None
    rows = read_rows(place / "text.txt", TOKENIZER, 24, 0, ReadingConfig())
    perfect = PerfectDiscriminator(subject.discriminator.config).know(torch.from_numpy(rows.ids))
    knowing = EvalModel(subject.path, TOKENIZER, perfect, subject.generator)
    path = place / generator if generator else None
    config, conditions = HeldoutConfig(bootstrap=5), EvalContext(batch_tokens=100)
    return finish(evaluate_rtd(knowing, place / "text.txt", config, conditions, generator=path)), perfect.shown


def test_a_given_generator_is_the_one_that_replaces(place: Path) -> None:
    (own, shown_own), (against_b, shown_a), (b_itself, shown_b) = (
        judge_perfectly(place, model, generator)
        for model, generator in (("a", None), ("a", "b"), ("b", "b/export/generator"))
    )
    assert torch.equal(shown_a, shown_b)
    assert against_b.identity == b_itself.identity != own.identity
    assert not torch.equal(shown_own, shown_a)
    assert "not comparable" in own.notes[0]
    assert not any("not comparable" in note for note in against_b.notes)


class KnowsSpecials(Discriminator):
    """Sure of [CLS], [SEP] and [PAD], and of nothing else."""

    def forward(self, input_ids: Tensor, *_: object) -> Tensor:
        is_ordinary = torch.from_numpy(TOKENIZER.is_ordinary)[input_ids]
        return torch.where(is_ordinary, 0.0, -20.0)


def test_knowing_only_special_tokens_scores_as_guessing(place: Path) -> None:
    subject = load_eval_model(place / "a", CPU)
    assert subject.discriminator is not None
    knowing = EvalModel(subject.path, TOKENIZER, KnowsSpecials(subject.discriminator.config), subject.generator)
    config, conditions = HeldoutConfig(bootstrap=5), EvalContext(batch_tokens=100)
    found = finish(evaluate_rtd(knowing, place / "text.txt", config, conditions, generator=None))
    assert found.scores["auc"] == 0.5
    assert found.scores["auc_interval"] == [0.5, 0.5]
    assert found.scores["loss"] == pytest.approx(np.log(2))
    assert found.groups["part"]["untouched"]["loss"] == pytest.approx(np.log(2))


def test_a_perfect_discriminator_scores_one(place: Path) -> None:
    found, _ = judge_perfectly(place, "a", None)
    assert (found.scores["auc"], found.scores["recall"], found.scores["precision"]) == (1.0, 1.0, 1.0)
    assert found.scores["auc_interval"] == [1.0, 1.0]
    assert found.groups["part"]["replaced"]["called_replaced"] == 1.0
    assert found.groups["part"]["untouched"]["called_replaced"] == 0.0
    shares = [part["share"] for part in found.groups["part"].values()]
    assert sum(share for share in shares if isinstance(share, float)) == pytest.approx(1.0)
    assert found.groups["part"]["replaced"]["share"] == pytest.approx(found.scores["replaced_share"])


def test_intervals_hold_the_score_and_come_from_rows() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random((50, 20)) < 0.3
    rows = [RtdScores((rng.normal(size=20) + row).astype(np.float32), row) for row in truth]
    whole, intervals = RtdScores.concat(rows), bootstrap_rows(rows, 100, seed=0)
    for name in ("auc", "loss", "recall", "precision"):
        interval = intervals[f"{name}_interval"]
        assert isinstance(interval, list)
        low, high = interval
        assert low is not None
        assert high is not None
        assert low < getattr(whole, name) < high
    assert bootstrap_rows(rows, 0, seed=0) == {}


def test_loss_is_the_binary_cross_entropy() -> None:
    assert RtdScores(np.zeros(4, np.float32), np.array([True, False, True, True])).loss == pytest.approx(np.log(2))
    sure = RtdScores(np.array([1000.0, -1000.0], np.float32), np.array([True, True]))
    assert sure.loss == 500.0


def test_masks_are_those_of_the_seed_whatever_the_model(place: Path) -> None:
    rows = read_rows(place / "text.txt", TOKENIZER, 24, 0, ReadingConfig())
    (whole,) = mask_rows(rows, TOKENIZER, HeldoutConfig(), EvalContext())
    parts = mask_rows(rows, TOKENIZER, HeldoutConfig(), EvalContext(batch_tokens=60))
    assert torch.equal(whole.input_ids, torch.cat([part.input_ids for part in parts]))
    assert torch.equal(whole.sampling_uniforms, torch.cat([part.sampling_uniforms for part in parts]))


def test_another_tokenizer_is_refused(place: Path, tmp_path: Path) -> None:
    other = train_tokenizer(["other words entirely"] * 20, TokenizerConfig(vocab_size=100, character_coverage=1.0))
    save_pair(tmp_path / "other", build_pair(tokenizer=other), other)
    with pytest.raises(InputError, match=r"its tokenizer is not that of .*give a generator with the same tokenizer"):
        run(place / "a", "rtd", place / "text.txt", generator=tmp_path / "other")


def prepare_rows(place: Path, out: Path, length: int) -> Path:
    tokenizer = place / "a" / "export" / "discriminator"
    layers = {
        "tokenizer": {"path": str(tokenizer)},
        "packing": {"sequence_length": length},
        "heldout_share": 0.3,
    }
    list(prepare([str(place / "text.txt")], out, resolve(PrepareConfig, [ConfigLayer("test", layers)]), StopSignal()))
    return out


def test_of_prepared_data_the_held_out_rows_are_judged(place: Path, tmp_path: Path) -> None:
    data = prepare_rows(place, tmp_path / "data", 16)
    heldout = open_data(data).heldout
    rows = read_rows(data, TOKENIZER, 24, 0, ReadingConfig())
    np.testing.assert_array_equal(rows.ids, heldout.take(np.arange(len(heldout))))
    found = run(place / "a", "rtd", data, heldout={"bootstrap": 0})
    assert found.counts["rows"] == len(heldout)
    assert run(place / "a", "mlm", data).counts["masked"] == found.counts["masked"]
    with pytest.raises(InputError, match="has rows of 16 tokens, the model takes 8"):
        read_rows(data, TOKENIZER, 8, 0, ReadingConfig())
    other = train_tokenizer(["other words entirely"] * 20, TokenizerConfig(vocab_size=100, character_coverage=1.0))
    with pytest.raises(InputError, match="was prepared with another tokenizer"):
        read_rows(data, other, 24, 0, ReadingConfig())


def test_missing_networks_and_files_are_one_sentence(place: Path) -> None:
    with pytest.raises(InputError, match="holds no generator, which guessing masked tokens needs"):
        run(place / "a" / "export" / "discriminator", "mlm", place / "text.txt")
    with pytest.raises(InputError, match="holds no discriminator, which replaced-token detection needs"):
        run(place / "a" / "export" / "generator", "rtd", place / "text.txt")
    with pytest.raises(InputError, match="no such file or folder"):
        run(place / "a", "rtd", place / "absent.txt")
    with pytest.raises(UsageError, match="no suite named 'glue'; known are blimp, rtd"):
        run(place / "a", "glue", place / "text.txt")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--generator: belongs to the suite 'rtd'"):
        run(place / "a", "mlm", place / "text.txt", generator=place / "b")


def test_energies_are_no_verdicts(place: Path, tmp_path: Path) -> None:
    electric = save_pair(tmp_path / "electric", build_pair(), objective="electric")
    with pytest.raises(InputError, match=r"electric: says energies, .*; evaluate it by --suite blimp"):
        run(electric, "rtd", place / "text.txt")


def test_a_signal_ends_it_between_batches(place: Path) -> None:
    from electralab.errors import Stopped

    stop = StopSignal()
    events = evaluate(place / "a", "rtd", place / "text.txt", EvaluateConfig(batch_tokens=24), stop=stop)
    next(events)
    stop.number = 15
    with pytest.raises(Stopped):
        next(events)


@pytest.fixture(scope="module")
def mlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and a text of equal lines."""
    folder = tmp_path_factory.mktemp("mlm")
    save_pair(folder / "run", build_pair())
    (folder / "text.txt").write_text("\n\n".join([TEXT] * 6))
    return folder


def test_loss_and_accuracy_are_those_of_the_hidden_tokens(mlm: Path) -> None:
    found = run(mlm / "run", "mlm", mlm / "text.txt", batch_tokens=50)
    generator = build_pair().generator
    (masked,) = mask_rows(
        read_rows(mlm / "text.txt", TOKENIZER, 24, 0, ReadingConfig()),
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


def test_bits_per_character_divide_by_the_text_that_a_token_stands_for(mlm: Path) -> None:
    rows = read_rows(mlm / "text.txt", TOKENIZER, 512, 0, ReadingConfig())
    (ids,) = TOKENIZER.encode_many([TEXT])
    expected = len(" ".join([TEXT] * 6)) / (6 * len(ids))
    assert count_characters(rows, TOKENIZER) == pytest.approx(expected)


def test_a_limit_takes_the_first_rows_of_a_text(mlm: Path) -> None:
    whole, part = (read_rows(mlm / "text.txt", TOKENIZER, 24, limit, ReadingConfig()) for limit in (0, 2))
    assert len(whole.ids) > 2
    np.testing.assert_array_equal(part.ids, whole.ids[:2])


@pytest.mark.parametrize("suite", ["mlm", "rtd"])
def test_a_text_in_which_every_word_is_unknown_is_refused(mlm: Path, suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "greek.txt").write_text("αβγ δεζ")
    with pytest.raises(InputError, match=r"greek\.txt: holds nothing that the model's vocabulary knows"):
        run(mlm / "run", suite, tmp_path / "greek.txt")


def test_the_column_of_the_text_may_be_named(mlm: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"body\n{TEXT}\n")
    with pytest.raises(InputError, match=r"choose it with --field \(the setting reading\.field\)"):
        run(mlm / "run", "mlm", tmp_path / "in.csv")
    assert run(mlm / "run", "mlm", tmp_path / "in.csv", reading={"field": "body"}).counts["rows"] == 1


def test_choosing_and_drawing_again_depend_on_the_seed_alone() -> None:
    assert subsample(5, 0, 1).tolist() == subsample(5, 9, 1).tolist() == [0, 1, 2, 3, 4]
    chosen = subsample(100, 10, 1).tolist()
    assert len(set(chosen)) == 10
    assert chosen == sorted(chosen) == subsample(100, 10, 1).tolist()
    assert chosen != subsample(100, 10, 2).tolist()
    draws = bootstrap_indices(7, 50, 3)
    assert draws.shape == (50, 7)
    assert set(draws.ravel().tolist()) == set(range(7))
