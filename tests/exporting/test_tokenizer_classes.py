"""ElectraTokenizer, which rebuilds the normaliser, gives our ids on the folders that an export writes."""

from pathlib import Path

import pytest
from little_exports import LENGTH, SIZES
from transformers import AutoTokenizer, ElectraTokenizer
from transformers.utils import logging as transformers_logging

import electralab
from electralab.model.electra import build_electra
from electralab.model.folders.folder import save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

transformers_logging.set_verbosity_error()

TEXTS = {
    "english": ["The cat sat on THE mat, and Anna saw it.", "A dog barked at Ben's café in Zürich; nobody answered."],
    "portuguese": ["Não há razão para isso, disse José à irmã.", "A AÇÃO começou às três da manhã, em São João."],
    "chinese": ["电影院里的人很多, 我们看了 ABC 频道。", "中国的首都是北京，上海是最大的城市。"],
    "korean": ["한국어는 한반도에서 쓰이는 언어이다.", "서울은 대한민국의 수도이며 IBM 지사가 있다."],
}


def export_with(tokenizer: Tokenizer, folder: Path) -> Path:
    pair = build_electra(
        ModelConfig(**SIZES), GeneratorConfig(), vocab_size=tokenizer.vocab_size, sequence_length=LENGTH, seed=1
    )
    for role in ("discriminator", "generator"):
        target = folder / "run" / "export" / role
        target.mkdir(parents=True)
        save_network(target, getattr(pair, role), pad_id=tokenizer.special.pad, objective="electra")
        tokenizer.save(target)
    electralab.export(folder / "run", folder / "out")
    return folder / "out" / "discriminator"


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
@pytest.mark.parametrize("language", TEXTS)
def test_electra_tokenizer_gives_our_ids_on_an_export(language: str, lowercase: bool, tmp_path: Path) -> None:
    texts = TEXTS[language]
    ours = train_tokenizer(texts, TokenizerConfig(vocab_size=400, lowercase=lowercase, character_coverage=1.0))
    folder = export_with(ours, tmp_path)
    theirs, auto = ElectraTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for text in texts:
        expected = ours.encode(text).ids.tolist()
        assert ours.special.unk not in expected
        assert theirs(text, add_special_tokens=False).input_ids == expected
        assert theirs(text).input_ids == auto(text).input_ids
    assert ours.encode(texts[0].upper()).ids.tolist() == theirs(texts[0].upper(), add_special_tokens=False).input_ids


def test_electra_tokenizer_strips_accents_where_ours_does(tmp_path: Path) -> None:
    texts = TEXTS["portuguese"]
    ours = train_tokenizer(texts, TokenizerConfig(vocab_size=400, lowercase=False, strip_accents=True))
    theirs = ElectraTokenizer.from_pretrained(export_with(ours, tmp_path))
    for text in texts:
        assert theirs(text, add_special_tokens=False).input_ids == ours.encode(text).ids.tolist()


def test_a_tokenizer_that_is_not_berts_claims_nothing_about_berts_normaliser(tmp_path: Path) -> None:
    train_tokenizer(TEXTS["english"], TokenizerConfig(kind="unigram", vocab_size=100)).save(tmp_path)
    assert "do_lower_case" not in (tmp_path / "tokenizer_config.json").read_text()
