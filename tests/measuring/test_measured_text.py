"""Labelled files and planted errors are measured, with and without a calibration, and both verbs say the same."""

import lzma
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
from little_models import build_pair, save_pair

import electralab
from electralab.detection.calibration import load_calibration
from electralab.errors import ElectraError
from electralab.measuring.inputs.text import join_sentences, join_words
from electralab.measuring.items import DetectorValues, MeasuredItems, MeasuringConfig, compare
from electralab.records.calibration import Calibration
from electralab.records.measurement import Measurement, MeasuringResult
from electralab.reporting.format import tell

STEMS = [a + b + c for a in ("bar", "cal", "dor", "fen", "gul", "hop") for b in "aeiou" for c in ("min", "tel", "rod")]


def write_sentences(count: int, seed: int) -> list[list[str]]:
    rng = Random(seed)
    return [[*(rng.choice(STEMS) for _ in range(12)), "."] for _ in range(count)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pair(tmp_path_factory.mktemp("pair") / "run", build_pair())


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n\n".join(" ".join(words) for words in write_sentences(1200, 0)))
    return path


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory, texts: Path) -> Path:
    folder = save_pair(tmp_path_factory.mktemp("calibrated") / "run", build_pair())
    electralab.calibrate(folder, [texts], settings={"words": 6000}, threads=1)
    return folder


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every twelfth word has two letters exchanged, which no other word has."""
    lines = ["token\tlabel"]
    for words in write_sentences(80, 1):
        wrong = words[3][:3] + words[3][4] + words[3][3] + words[3][5:]
        lines += [f"{wrong if index == 3 else word}\t{'ci'[index == 3]}" for index, word in enumerate(words)]
        lines.append("")
    path = tmp_path_factory.mktemp("labels") / "essays.tsv.xz"
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    return path


def measure(model: Path, *files: Path, **settings: float) -> tuple[Measurement, ...]:
    result = electralab.measure(model, files, settings={"resamples": 20, **settings}, threads=1)
    assert isinstance(result, MeasuringResult)
    return result.measurements


def test_labelled_words_are_the_items_whatever_the_tokenizer_makes_of_them(calibrated: Path, labelled: Path) -> None:
    (found,) = measure(calibrated, labelled)
    assert (found.truth, found.items, found.wrong, found.groups) == ("labels", 80 * 13, 80, 80)
    by_name = {scores.name: scores for scores in found.detectors}
    # The networks are random; what the calibration and counting know is that such words never stood anywhere.
    assert (by_name["p_wrong"].auc.value or 0) > 0.99
    assert by_name["unseen"].auc.value == 1.0
    assert (by_name["p_wrong"].f, by_name["p_wrong"].threshold) != (None, None)
    assert by_name["rarity"].threshold is None
    assert found.best == "either"
    assert found.use in ("rarity", "unseen")


def test_without_a_calibration_words_are_counted_in_the_reference_or_in_the_file(
    pair: Path, labelled: Path, texts: Path
) -> None:
    (alone,) = measure(pair, labelled)
    assert "p_wrong" not in [scores.name for scores in alone.detectors]
    # In the file itself every word was counted at least once.
    assert next(scores for scores in alone.detectors if scores.name == "unseen").auc.value == 0.5
    result = electralab.measure(pair, [labelled], reference=[texts], settings={"resamples": 20}, threads=1)
    assert isinstance(result, MeasuringResult)
    (beside,) = result.measurements
    assert next(scores for scores in beside.detectors if scores.name == "unseen").auc.value == 1.0
    assert (beside.best, beside.use) == ("counting", "rarity")


def test_errors_are_planted_in_plain_text_by_either_verb(calibrated: Path, texts: Path) -> None:
    found = measure(calibrated, texts, words=10_000, error_rate=0.1)
    kinds = [measurement.source for measurement in found]
    # No word of these texts has another form.
    assert kinds == ["typo", "sound", "ocr", "word", "all kinds"]
    assert found[-1].wrong == sum(measurement.wrong for measurement in found[:-1])
    assert all(0.05 < measurement.wrong / measurement.items < 0.12 for measurement in found)
    # Each kind is planted in paragraphs of its own: no right word counts twice.
    assert found[-1].groups == sum(measurement.groups for measurement in found[:-1]) <= 1200
    typo = found[0]
    assert 0 <= typo.more["corrected"] <= typo.more["among_suggestions"] <= 1
    by_proofread = electralab.proofread(
        {"a": texts.read_text()}, model=calibrated, measure=True, damage_share=0.1, threads=1
    )
    assert isinstance(by_proofread, MeasuringResult)
    assert [measurement.source for measurement in by_proofread.measurements] == kinds
    by_rate = electralab.proofread(
        {"a": texts.read_text()},
        model=calibrated,
        measure=True,
        settings={"windows": {"error_rate": 0.1}},
        threads=1,
    )
    assert isinstance(by_rate, MeasuringResult)
    assert [part.wrong for part in by_rate.measurements] == [part.wrong for part in by_proofread.measurements]


def test_of_few_paragraphs_that_all_kinds_share_each_is_drawn_once(calibrated: Path, tmp_path: Path) -> None:
    path = tmp_path / "few.txt"
    path.write_text("\n\n".join(" ".join(words) for words in write_sentences(60, 2)))
    *kinds, together = measure(calibrated, path, words=4000, error_rate=0.2)
    assert {measurement.groups for measurement in (*kinds, together)} == {60}


def test_without_resamples_it_says_what_is_better_here(calibrated: Path, labelled: Path) -> None:
    (found,) = measure(calibrated, labelled, resamples=0)
    assert (found.gain.value, found.best) == (0, "either")
    assert found.gain.low is None
    wrong = np.array([False, True] * 20)
    sure = DetectorValues("p", "a model", wrong * 0.9, is_model=True)
    items = MeasuredItems("a", "labels", "word", wrong, np.arange(40), [sure, DetectorValues("n", "", np.arange(40.0))])
    better = compare(items, 0.5, MeasuringConfig(resamples=0))
    assert (better.best, better.use) == ("model", "p")
    assert "use p, which does better than counting" in tell(better)[0]
    assert "without an interval" in tell(better)[0]


def test_sentences_are_read_together_with_their_neighbours() -> None:
    sentences = [["Ann", "sat", "."], ["It", "rained", "."], ["word"] * 99, ["end", "."]]
    (first, places), (second, _), (third, _) = join_sentences(sentences)
    assert first == "Ann sat. It rained."
    assert [first[start:end] for start, end in places] == ["Ann", "sat", ".", "It", "rained", "."]
    assert (second, third) == (" ".join(["word"] * 99), "end.")


def test_labels_fit_a_calibrated_model_anew(calibrated: Path, tmp_path: Path) -> None:
    """Here the wrong words are those that end in "tel", which the planted errors taught nothing of."""
    essays = tmp_path / "essays.tsv"
    sentences = [
        [f"{word}\t{'i' if word.endswith('tel') else 'c'}" for word in words] for words in write_sentences(150, 3)
    ]
    essays.write_text("\n\n".join("\n".join(lines) for lines in sentences))
    folder = tmp_path / "run"
    shutil.copytree(calibrated, folder)
    before, frequencies = load_calibration(folder / "export" / "calibration")
    result = electralab.calibrate(folder, [essays], threads=1)
    assert isinstance(result, Calibration)
    after, kept = load_calibration(folder / "export" / "calibration")
    assert kept.counts == frequencies.counts
    assert (after.fitted_words, set(after.scores)) == (150 * 12, {"labels"})
    assert after.error_rate == pytest.approx(1 / 3, abs=0.05)
    scores = after.scores["labels"]
    # The random networks see the letters; what was planted is another thing.
    assert scores.auc > max(scores.without_kind_auc or 0, 0.6)
    assert after.calibration_error < 0.1
    (found,) = measure(folder, essays)
    assert (found.detectors[0].auc.value or 0) > 0.6
    assert before.scores.keys() != after.scores.keys()


def test_labels_need_a_calibration_of_their_own_folder(pair: Path, labelled: Path, tmp_path: Path) -> None:
    essays = tmp_path / "essays.tsv"
    essays.write_bytes(lzma.decompress(labelled.read_bytes()))
    with pytest.raises(ElectraError, match="has no calibration, whose counted words labels need"):
        electralab.calibrate(pair, [essays], threads=1)
    with pytest.raises(ElectraError, match="hour-en"):
        electralab.calibrate("hour-en", [essays], threads=1)


def test_higher_error_rate_names_more_words(calibrated: Path, labelled: Path) -> None:
    (few,), (many,) = (measure(calibrated, labelled, error_rate=rate) for rate in (0.001, 0.4))
    assert (few.detectors[0].recall or 0) <= (many.detectors[0].recall or 0)
    assert few.detectors[0].auc == many.detectors[0].auc


def test_what_cannot_be_measured_is_named(pair: Path, tmp_path: Path) -> None:
    short, odd = tmp_path / "short.txt", tmp_path / "odd.tsv"
    short.write_text("the cat sat on the mat")
    odd.write_text("\n".join(["the\tc"] * 200 + ["cat\tx"]))
    other = tmp_path / "other.txt"
    other.write_text("\n".join(["the\t0", "cat\t1"] * 50))
    with pytest.raises(ElectraError, match=r"other\.txt: .*label '0'; labels are c and i"):
        measure(pair, other)
    with pytest.raises(ElectraError, match="too few words to plant errors in"):
        measure(pair, short)
    with pytest.raises(ElectraError, match=r"odd\.tsv: .*label 'x'; labels are c and i"):
        measure(pair, odd)
    with pytest.raises(ElectraError, match="no such file"):
        electralab.measure(pair, [tmp_path / "nowhere.txt"], dry_run=True)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ElectraError, match="say with --kind which of"):
        measure(pair, tmp_path / "table.csv")
    with pytest.raises(ElectraError, match="no kind of input named 'tekst'"):
        electralab.measure(pair, [short], kind="tekst", threads=1)


def test_sentences_are_joined_as_people_write_them() -> None:
    text, places = join_words(["(", "Ann", "'s", "cat", ",", "it", "ca", "n't", "swim", ")", "!"])
    assert text == "(Ann's cat, it can't swim)!"
    assert [text[start:end] for start, end in places] == [
        "(",
        "Ann",
        "'s",
        "cat",
        ",",
        "it",
        "ca",
        "n't",
        "swim",
        ")",
        "!",
    ]
