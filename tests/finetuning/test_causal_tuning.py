"""A causal encoder is tuned from its last token on, and learns."""

from pathlib import Path

import pytest
from little_tasks import make_request, tune, write_animals
from little_words import word_tokenizer

from electralab.finetuning.task import load_pretrained
from electralab.finetuning.task_model import load_model
from electralab.model.electra import Generator
from electralab.model.folders.folder import save_network
from electralab.model.settings import EncoderConfig
from electralab.model.weights import init_weights
from electralab.serving.model import Model


def save_causal_run(folder: Path, backbone: str) -> Path:
    """As pre-training would leave it: one network, in export/model."""
    tokenizer = word_tokenizer()
    special = tokenizer.special
    config = EncoderConfig(
        backbone="modern" if backbone == "modern" else "electra",
        vocab_size=tokenizer.vocab_size,
        sequence_length=24,
        embedding_size=32,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        feedforward_size=64,
        dropout=0.0,
        attention_dropout=0.0,
        norm_eps=1e-5,
        is_causal=True,
    )
    generator = Generator(config)
    init_weights(generator, 1)
    target = folder / "export" / "model"
    target.mkdir(parents=True)
    save_network(target, generator, pad_id=special.pad, cls_id=special.cls, sep_id=special.sep, objective="causal")
    tokenizer.save(target)
    return folder


@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_causal_run_is_tuned_and_its_model_answers_as_it_was_judged(backbone: str, tmp_path: Path) -> None:
    model = save_causal_run(tmp_path / "pretrained", backbone)
    assert load_pretrained(model, None).encoder.config.is_causal
    data = write_animals(tmp_path / "data")
    results = tune(make_request(model, "classify", data, tmp_path / "tuned"))
    assert results["dev"] == {"accuracy": 1.0, "macro_f1": 1.0}
    assert load_model(tmp_path / "tuned").network.head_config.pooling == "last"
    cat, dog = Model(tmp_path / "tuned").predict(["the cat sat", "a dog on the mat"])
    assert (cat["prediction"], dog["prediction"]) == ("yes", "no")
