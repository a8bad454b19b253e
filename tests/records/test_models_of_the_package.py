"""What comes with the package is whole, small, stored in 16 bits, licensed, and installed with it."""

import tomllib
from pathlib import Path

import pytest
from safetensors import safe_open

import electralab
from electralab.artifacts import MANIFEST, describe_files, verify_below
from electralab.records.kinds import MODELS, find_kind, list_models
from electralab.records.run import PretrainResults

ROOT = Path(__file__).parents[2]


def test_the_english_model_comes_along() -> None:
    assert "hour-en" in list_models()


@pytest.mark.parametrize("folder", list_models().values(), ids=lambda folder: folder.name)
def test_a_model_is_whole_and_small(folder: Path) -> None:
    verification = verify_below(folder, "make it again")
    assert verification.unverified == ()
    assert f"export/discriminator/{MANIFEST}" in verification.verified
    assert sum(file["bytes"] for file in describe_files(folder).values()) <= 16_000_000
    kind = find_kind(folder)
    assert kind is not None
    assert kind.name == "run"
    for role in ("discriminator", "generator"):
        with safe_open(folder / "export" / role / "model.safetensors", framework="pt") as file:
            names = file.keys()
            assert {file.get_slice(name).get_dtype() for name in names} <= {"F16", "BF16"}


@pytest.mark.parametrize("folder", list_models().values(), ids=lambda folder: folder.name)
def test_its_card_has_its_scores_and_the_licences_of_its_texts(folder: Path) -> None:
    card, results = (folder / "README.md").read_text(), PretrainResults.read(folder)
    auc = results.heldout["auc"]
    assert auc is not None
    assert f"| {auc:.3f} |" in card
    assert f"{results.tokens:,} tokens" in card
    assert "CC BY-SA" in card
    assert "public domain" in card
    assert "reuters" not in card.lower()
    assert "CC-BY-SA-4.0" in (folder / "LICENSE").read_text()


@pytest.mark.parametrize("folder", list_models().values(), ids=lambda folder: folder.name)
def test_it_is_calibrated_and_suspects_a_wrong_word(folder: Path) -> None:
    (detection,) = electralab.detect(folder.name, ["The goverment moved to there new house in 1902."])
    p_wrong = {token.text: token.p_wrong for token in detection.tokens}
    assert None not in p_wrong.values()
    assert (p_wrong["there"] or 0) > 0.5 > (p_wrong["moved"] or 0)


def test_every_file_of_them_is_installed() -> None:
    package = MODELS.parent
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["electralab"]
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    assert {path for path in MODELS.rglob("*") if path.is_file()} <= installed
    assert not [path for path in MODELS.rglob(".*") if path.is_file()]
