"""Presets, files and flags -> one set of settings, or one sentence."""

from pathlib import Path

import pytest

from electralab.config import Layer, parse_overrides, to_toml
from electralab.errors import UsageError
from electralab.model.settings import SIZES, derive_encoders
from electralab.pretraining.settings import preset_names, read_settings, resolve_pretrain


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_builds_both_encoders(name: str) -> None:
    config = resolve_pretrain([read_settings(name)])
    generator, discriminator = derive_encoders(config.model, config.generator, vocab_size=100, sequence_length=128)
    assert generator.hidden_size <= discriminator.hidden_size
    assert config.size in name


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_opens_with_its_command(name: str) -> None:
    path = Path(__file__).parents[2] / "src/electralab/presets" / f"{name}.toml"
    assert path.read_text().startswith(f"# electra pretrain --data DATA --out RUN --config {name}")


def test_the_contract_names_its_presets() -> None:
    assert {"tiny", "small", "base", "large", "paper-small"} <= set(preset_names())


def test_paper_small_follows_the_released_details() -> None:
    config = resolve_pretrain([read_settings("paper-small")])
    model, optimizer = config.model, config.optimizer
    assert model.backbone == "electra"
    assert (model.num_layers, model.hidden_size, model.feedforward_size) == (12, 256, 1024)
    assert (model.num_heads, model.embedding_size, config.generator.width_share) == (4, 128, 0.25)
    assert (model.dropout, model.attention_dropout, config.masking.appearance) == (0.1, 0.1, "mask-keep")
    assert (optimizer.learning_rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (5e-4, 0.9, 0.999, 1e-6)
    assert (optimizer.bias_correction, optimizer.weight_decay, optimizer.clip_norm) == (False, 0.01, 1.0)
    assert (config.batch.size, config.steps, config.schedule.warmup_steps) == (128, 1_000_000, 10_000)
    assert (config.masking.mask_share, config.loss.discriminator_weight) == (0.15, 50.0)


def test_large_masks_a_quarter() -> None:
    assert resolve_pretrain([read_settings("large")]).masking.mask_share == 0.25


def test_later_layers_win_and_the_size_lies_below_them_all() -> None:
    flags = parse_overrides(["--size", "small", "--model.num-layers", "3"])
    config = resolve_pretrain([Layer("file", {"size": "tiny", "model": {"num_heads": 8}}), flags])
    assert (config.size, config.model.hidden_size) == ("small", SIZES["small"]["model"]["hidden_size"])
    assert (config.model.num_heads, config.model.num_layers) == (8, 3)


def test_settings_survive_their_own_file(tmp_path: Path) -> None:
    config = resolve_pretrain([read_settings("paper-base"), parse_overrides(["--masking.final-mask-share", "0.3"])])
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert resolve_pretrain([read_settings(str(tmp_path / "config.toml"))]) == config


def test_a_misspelt_preset_is_guessed() -> None:
    with pytest.raises(UsageError) as caught:
        read_settings("paper-smal")
    assert str(caught.value) == "--config: no preset or file named 'paper-smal'; did you mean 'paper-small'?"
    with pytest.raises(UsageError, match="presets are base, large, paper-base, "):
        read_settings("qqqq")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--size", "huge"], "command line: size: input should be 'tiny', 'small', 'base' or 'large' (got 'huge')"),
        (["--objective", "elektra"], "command line: objective: input should be 'electra', "),
        (["--optimizer.lr", "1"], "command line: optimizer: no setting named 'lr'; known are kind, learning_rate, "),
        (["--learning-rate", "1"], "command line: no setting named 'learning_rate'; did you mean "),
    ],
)
def test_a_wrong_setting_is_named(words: list[str], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_pretrain([parse_overrides(words)])
    assert str(caught.value).startswith(expected)


def test_another_backbone_leaves_behind_what_a_preset_chose_for_its_own() -> None:
    config = resolve_pretrain([read_settings("tiny"), parse_overrides(["--model.backbone", "electra"])])
    assert (config.model.backbone, config.model.local_attention, config.model.sharing) == ("electra", 0, "embeddings")
    assert config.batch.size == resolve_pretrain([read_settings("tiny")]).batch.size


def test_a_size_alone_brings_its_preset() -> None:
    assert resolve_pretrain([parse_overrides(["--size", "small"])]) == resolve_pretrain([read_settings("small")])


def test_a_preset_of_another_size_gives_way_to_the_size_asked_for() -> None:
    config = resolve_pretrain([read_settings("tiny"), parse_overrides(["--size", "small"])])
    assert (config.model.hidden_size, config.model.backbone) == (256, "electra")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--objective", "elektra"], "(got 'elektra'); did you mean 'electra'?"),
        (["--generator.kind", "casual"], "(got 'casual'); did you mean 'causal'?"),
        (
            ["--generator.kind", "causal", "--masking.appearance", "mask-keep-random"],
            "command line: generator.kind 'causal' reads the original row, so masking.appearance 'mask-keep-random' "
            "shows it nothing; set masking.appearance to 'mask'",
        ),
        (
            ["--model.sharing", "everything", "--generator.width-share", "0.5"],
            "model.sharing: 'everything' needs a generator of the discriminator's size",
        ),
        (["--generator.kind", "unigram", "--model.sharing", "token"], "learns nothing, so there is nothing to share"),
        (["--objective", "mlm", "--procedure", "adversarial"], "objective 'mlm' has no such pair"),
        (["--objective", "electric", "--generator.kind", "causal"], "set generator.kind to 'two-tower'"),
        (["--procedure", "two-stage", "--model.sharing", "token"], "so they can share nothing"),
        (["--procedure", "adversarial", "--model.sharing", "everything"], "which cannot be one encoder"),
        (["--procedure", "minimax", "--generator.kind", "uniform"], "trains the generator"),
        (["--sentence-task", "next-sentence"], "belongs to the objectives 'mlm' and 'bert'"),
        (["--generator.kind", "frozen"], "go together"),
        (["--generator.kind", "two-tower", "--model.sharing", "embeddings"], "means nothing between two towers"),
    ],
)
def test_what_makes_no_sense_together_is_refused_by_name(words: list[str], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_pretrain([parse_overrides(words)])
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["--objective", "bert"],
        ["--objective", "electric"],
        ["--procedure", "two-stage"],
        ["--procedure", "adversarial"],
        ["--generator.kind", "causal"],
        ["--generator.kind", "two-tower"],
        ["--generator.kind", "unigram"],
    ],
)
@pytest.mark.parametrize("size", ["tiny", "small"])
def test_a_choice_brings_along_what_it_needs(size: str, words: list[str]) -> None:
    config = resolve_pretrain([parse_overrides(["--size", size, *words])])
    derive_encoders(config.model, config.generator, vocab_size=100, sequence_length=128)


def test_a_generator_that_is_no_longer_the_discriminator_has_its_usual_size() -> None:
    assert resolve_pretrain([]).generator.width_share == 1.0
    assert resolve_pretrain([parse_overrides(["--procedure", "adversarial"])]).generator.width_share == 0.5
    words = ["--procedure", "two-stage", "--procedure-options.init-from-generator", "false"]
    assert resolve_pretrain([parse_overrides(words)]).generator.width_share == 0.5
    assert resolve_pretrain([parse_overrides(words[:2])]).generator.width_share == 1.0


def test_what_a_choice_implies_lies_above_the_preset_and_below_the_user() -> None:
    assert resolve_pretrain([]).masking.appearance == "mask"
    assert resolve_pretrain([parse_overrides(["--objective", "mlm"])]).masking.appearance == "mask-keep-random"
    words = ["--objective", "mlm", "--masking.appearance", "mask-keep"]
    assert resolve_pretrain([read_settings("tiny"), parse_overrides(words)]).masking.appearance == "mask-keep"
