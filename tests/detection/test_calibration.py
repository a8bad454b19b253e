"""A calibration finds planted damage in texts it was not fitted on, is what it says, and comes back from its folder."""

import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
from little_models import build_pair, save_pair

import electralab
from electralab.detection.calibration import load_calibration, probabilities, smooth_steps
from electralab.detection.words import FEATURES, WordFrequencies
from electralab.errors import DamagedArtifact, ElectraError
from electralab.records.answers import ProofreadResult
from electralab.serving.model import Model
from electralab.serving.proofreader import render_proofs


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of a small vocabulary of real-looking words: what is misspelt in them is not among them."""
    rng = Random(0)
    stems = [
        a + b + c for a in ("bar", "cal", "dor", "fen", "gul", "hop") for b in "aeiou" for c in ("min", "tel", "rod")
    ]
    lines = [" ".join(rng.choice(stems) for _ in range(12)).capitalize() + "." for _ in range(1200)]
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n\n".join(lines))
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, texts: Path) -> Path:
    folder = save_pair(tmp_path_factory.mktemp("pair") / "run", build_pair())
    electralab.calibrate(folder, [texts], settings={"words": 6000}, threads=1)
    return folder


def test_misspelt_words_are_told_from_words_that_were_seen(pair: Path) -> None:
    calibration, frequencies = load_calibration(pair / "export" / "calibration")
    # The networks are random: what finds them is that such words were never counted.
    assert calibration.scores["typo"].auc > 0.95
    assert calibration.scores["word"].auc < 0.7
    assert calibration.calibration_error < 0.05
    # 1,200 sentences of 12 words: those in which errors were planted are not among the counted ones.
    assert 7_200 <= frequencies.total < 14_400
    assert {feature.name for feature in calibration.features} <= set(FEATURES)


def test_words_of_one_step_are_not_all_alike() -> None:
    at, shares = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 5.5]), np.array([0.1, 0.1, 0.4, 0.4, 0.9, 0.9])
    knots = np.array(smooth_steps(at, shares))
    assert knots[:, 0].tolist() == [0.5, 3.0, 5.25]
    np.testing.assert_allclose(1 / (1 + np.exp(-knots[:, 1])), [0.1, 0.4, 0.9])
    # Between the middles the line rises; a share of 0 or 1 has an end.
    assert (np.diff(np.interp([2.5, 3.0, 3.5], *knots.T)) > 0).all()
    assert np.isfinite(smooth_steps(np.array([0.0, 1.0]), np.array([0.0, 1.0]))).all()


def test_no_word_is_wrong_for_sure_because_all_of_a_few_were(pair: Path) -> None:
    calibration, _ = load_calibration(pair / "export" / "calibration")
    highest = 1 / (1 + np.exp(-calibration.knots[-1][1]))
    wrong = sum(scores.damaged for scores in calibration.scores.values())
    # About as many wrong words were fitted on as measure it: of so many plus one right one.
    assert 0.9 < highest <= 1 - 1 / (2 * wrong)


def test_words_are_not_counted_where_errors_are_planted(tmp_path: Path) -> None:
    """Else every right word would have been seen, and every misspelt one would be known by that it was not."""
    names = [a + b + c + d for a in "bcdfg" for b in "aeiou" for c in "klmnp" for d in ("rat", "sol", "vin", "wex")]
    lines = [" ".join([name, *("calm water near the harbour wall",) * 2]) for name in names]
    (tmp_path / "names.txt").write_text("\n\n".join(lines))
    folder = save_pair(tmp_path / "run", build_pair())
    electralab.calibrate(folder, [tmp_path / "names.txt"], settings={"words": 5000}, threads=1)
    _, frequencies = load_calibration(folder / "export" / "calibration")
    counted = [name for name in names if frequencies.is_seen(name)]
    assert len(names) / 2 <= len(counted) < len(names)
    assert frequencies.total == 13 * len(counted)


def test_probability_follows_the_error_rate(pair: Path) -> None:
    calibration, _ = load_calibration(pair / "export" / "calibration")
    features = np.random.default_rng(0).normal(size=(20, len(FEATURES)))
    few, many = (probabilities(calibration, features, rate) for rate in (0.01, 0.2))
    assert (few < many).all()
    np.testing.assert_allclose(probabilities(calibration, features), probabilities(calibration, features, 0.05))


def test_detections_follow_the_error_rate_that_is_given(pair: Path) -> None:
    text = "Baramin calotel fenurdo barimin."
    few, usual, many = (
        [token.p_wrong or 0.0 for token in electralab.detect(pair, [text], settings=settings)[0].tokens]
        for settings in ({"error_rate": 0.01}, {}, {"error_rate": 0.3})
    )
    assert all(a < b < c for a, b, c in zip(few, usual, many, strict=True) if b)
    assert max(usual) > 0
    proofs = electralab.proofread({"a": text}, model=pair, settings={"windows": {"error_rate": 0.3}}, threads=1)
    assert isinstance(proofs, ProofreadResult)
    (proof,) = proofs.proofs
    named = {finding.word.text: finding.word.suspicion for finding in proof.findings or proof.most_suspicious}
    assert named["fenurdo"] == pytest.approx(max(many))


def test_detections_have_both_probabilities_unless_raw(pair: Path) -> None:
    (detection,) = electralab.detect(pair, ["Baramin calotel fenurdo barimin."])
    (raw,) = electralab.detect(pair, ["Baramin calotel fenurdo barimin."], raw=True)
    assert all(token.p_wrong is None for token in raw.tokens)
    assert [token.p_replaced for token in raw.tokens] == [token.p_replaced for token in detection.tokens]
    by_word = {detection.text[token.start : token.end]: token.p_wrong for token in detection.tokens}
    assert all(p is not None and 0 <= p <= 1 for p in by_word.values())
    # Tokens of one word have one probability; what holds no letter is no word.
    assert detection.tokens[-1].p_wrong == 0.0
    wrong = max(token.p_wrong or 0 for token in detection.tokens if 16 <= token.start < 23)
    right = max(token.p_wrong or 0 for token in detection.tokens if token.start < 16)
    assert wrong > right


def test_suspicious_words_have_reasons_and_others_none(pair: Path) -> None:
    (detection,) = electralab.detect(pair, ["Baramin calotel fenurdo barimin."])
    reasons = {token.text: token.reasons for token in detection.tokens if 16 <= token.start < 23}
    assert len(set(reasons.values())) == 1
    (why,) = set(reasons.values())
    assert "never seen in the training text" in why
    assert 1 <= len(why) <= 3
    # What no letter is in is never named, and has no key in JSON.
    assert "reasons" not in detection.tokens[-1].to_json()
    (raw,) = electralab.detect(pair, ["Baramin calotel fenurdo barimin."], raw=True)
    assert all(token.reasons == () for token in raw.tokens)
    result = electralab.proofread({"a": "Baramin calotel fenurdo barimin."}, model=pair, threads=1)
    assert isinstance(result, ProofreadResult)
    (proof,) = result.proofs
    named = {finding.word.text: finding for finding in proof.findings or proof.most_suspicious}
    assert named["fenurdo"].word.reasons == why
    page = render_proofs([proof])
    assert "never seen in the training text" in page
    assert '<th scope="col" class="why">why</th>' in page
    assert " words look wrong" in page or " passes the threshold" in page
    assert "never seen in the training text" in detection._repr_html_()


def test_the_word_that_a_reason_expects_is_the_first_suggestion(pair: Path) -> None:
    text = "Baramin calotel fenurdo barimin. Guleten hoparod dorutal feniron."
    (detection,) = electralab.detect(pair, [text], settings={"error_rate": 0.4})
    expected = {token.expected for token in detection.tokens if token.expected}
    named = {reason for token in detection.tokens for reason in token.reasons if "expects" in reason}
    assert named == {f"the context expects '{word}'" for word in expected}
    result = electralab.proofread({"a": text}, model=pair, settings={"windows": {"error_rate": 0.4}}, threads=1)
    assert isinstance(result, ProofreadResult)
    findings = result.proofs[0].findings or result.proofs[0].most_suspicious
    assert any(finding.word.expected for finding in findings)
    for finding in findings:
        if finding.word.expected:
            assert finding.suggestions[0].text.casefold() == finding.word.expected
        else:
            assert "expected" not in finding.word.to_json()


def test_what_was_seen_too_seldom_to_be_kept_is_not_called_never_seen(pair: Path) -> None:
    detector = Model(pair).detector
    assert detector.scorer is not None
    frequencies = detector.scorer.reader.frequencies
    for total, said in ((frequencies.total, "never seen in the training text"), (10**6, "seen fewer than")):
        rare = WordFrequencies(frequencies.counts, total)
        detector.scorer.reader.frequencies = rare
        (detection,) = detector.detect_many(["Baramin calotel fenurdo barimin."])
        reasons = {reason for token in detection.tokens if 16 <= token.start < 23 for reason in token.reasons}
        assert any(reason.startswith(said) for reason in reasons), reasons


def test_proofreading_marks_words_by_the_calibrated_probability(pair: Path) -> None:
    result = electralab.proofread({"a": "Baramin calotel fenurdo barimin."}, model=pair, threads=1)
    assert isinstance(result, ProofreadResult)
    (proof,) = result.proofs
    named = proof.findings or proof.most_suspicious
    assert "fenurdo" in [finding.word.text for finding in named]


def test_damaged_calibration_is_named(pair: Path, tmp_path: Path) -> None:
    copy = save_pair(tmp_path / "run", build_pair())
    shutil.copytree(pair / "export" / "calibration", copy / "export" / "calibration")
    path = copy / "export" / "calibration" / "calibration.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(DamagedArtifact, match="calibrate the model again"):
        Model(copy).detect("the cat")


def test_too_little_text_is_refused(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("the cat sat on the mat")
    with pytest.raises(ElectraError, match="too few words"):
        electralab.calibrate(pair, [tmp_path / "short.txt"], threads=1)
