"""Presets, files and flags -> one set of settings, or one sentence.

A run goes on with the settings that it stored, whatever its preset and the defaults have become since.
"""

import json
import math
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from little_pretraining import SMALL

import electralab
from electralab.config import ConfigLayer, list_bundled, parse_overrides, to_toml
from electralab.display import Display
from electralab.errors import IdentityMismatch, UsageError
from electralab.model.settings import SIZES, derive_encoders
from electralab.objective.settings import ObjectiveName
from electralab.pretraining import settings
from electralab.pretraining.settings import BatchConfig, Common, read_settings, resolve_pretrain, settle_settings
from electralab.records.run import RunLength
from electralab.training.schedule import learning_rate_factor

PRESETS = list_bundled("presets")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_builds_both_encoders(name: str) -> None:
    config = resolve_pretrain([read_settings(name)])
    generator, discriminator = derive_encoders(config.model, config.generator, vocab_size=100, sequence_length=128)
    assert generator.hidden_size <= discriminator.hidden_size
    assert config.size in name or name == "hour"  # whose own sizes lie above those of tiny


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_opens_with_its_command(name: str) -> None:
    path = Path(__file__).parents[2] / "src/electralab/presets" / f"{name}.toml"
    assert path.read_text().startswith(f"# electra pretrain --data DATA --out RUN --config {name}")


def test_the_contract_names_its_presets() -> None:
    assert {"tiny", "hour", "small", "base", "large", "paper-small"} <= set(PRESETS)


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
    config = resolve_pretrain([ConfigLayer("file", {"size": "tiny", "model": {"num_heads": 8}}), flags])
    assert (config.size, config.model.hidden_size) == ("small", SIZES["small"]["model"]["hidden_size"])
    assert (config.model.num_heads, config.model.num_layers) == (8, 3)


@pytest.mark.parametrize(
    ("name", "alias", "value"),
    [
        ("model.verdict-head", "model.rtd-head", "linear"),
        ("model.verdict-adds-cls", "model.rtd-adds-cls", "true"),
        ("masking.fixed-masks", "masking.static-masks", "true"),
        ("evaluation.times", "evaluation.num-evaluations", "4"),
    ],
)
def test_the_fields_word_for_a_setting_gives_the_same_run(tmp_path: Path, name: str, alias: str, value: str) -> None:
    """Files and fingerprints have the setting's own name, whichever was given."""
    section, key = alias.replace("-", "_").split(".")
    (tmp_path / "own.toml").write_text(f"[{section}]\n{key} = {value if value != 'linear' else repr(value)}\n")
    size = parse_overrides(["--size", "small"])
    layers = [parse_overrides([f"--{name}", value]), parse_overrides([f"--{alias}", value])]
    configs = [resolve_pretrain([size, layer]) for layer in (*layers, read_settings(str(tmp_path / "own.toml")))]
    fingerprints = [config.model_dump(mode="json", exclude={"steps"}) for config in configs]
    assert fingerprints[0] == fingerprints[1] == fingerprints[2] != resolve_pretrain([size]).model_dump(mode="json")
    assert [to_toml(config) for config in configs] == [to_toml(configs[0])] * 3
    with pytest.raises(UsageError, match="are two names of one setting; keep one of them"):
        resolve_pretrain([size, parse_overrides([f"--{name}", value, f"--{alias}", value])])


def test_settings_survive_their_own_file(tmp_path: Path) -> None:
    config = resolve_pretrain([read_settings("paper-base"), parse_overrides(["--masking.final-mask-share", "0.3"])])
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert resolve_pretrain([read_settings(str(tmp_path / "config.toml"))]) == config


def test_a_misspelt_preset_is_guessed() -> None:
    with pytest.raises(UsageError) as caught:
        read_settings("paper-smal")
    assert str(caught.value) == "--config: no preset or file named 'paper-smal'; did you mean 'paper-small'?"
    with pytest.raises(UsageError, match="presets are base, hour, large, paper-base, "):
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
        (["--objective", "albrt"], "'albert' or 'xlnet' (got 'albrt'); did you mean 'albert'?"),
        (["--objective", "5"], "(got 5); correct this setting"),
        (["--objective", "albert", "--model.hidden-size", "wide"], "model: hidden_size: input should be a valid int"),
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
        (["--objective", "bert", "--batch.size", "1"], "from another row of the step, of which there is one only"),
        (["--generator.kind", "two-tower", "--model.sharing", "embeddings"], "means nothing between two towers"),
        (["--objective", "replace-mlm", "--model.sharing", "everything"], "it would see [MASK] after all"),
        (["--objective", "all-tokens-mlm", "--model.sharing", "everything"], "it would see [MASK] after all"),
        (["--size", "small", "--objective", "electric", "--masking.appearance", "mask-keep"], "shows it nothing"),
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
        ["--objective", "replace-mlm"],
        ["--objective", "all-tokens-mlm"],
        ["--procedure", "two-stage"],
        ["--procedure", "two-stage", "--generator.kind", "causal", "--procedure-options.init-from-generator", "false"],
        ["--procedure", "two-stage", "--generator.kind", "two-tower", "--procedure-options.init-from-generator=false"],
        ["--procedure", "adversarial"],
        ["--generator.kind", "causal"],
        ["--generator.kind", "two-tower"],
        ["--generator.kind", "unigram"],
    ],
)
@pytest.mark.parametrize("preset", ["tiny", "small", "paper-small"])
def test_a_choice_brings_along_what_it_needs(preset: str, words: list[str]) -> None:
    config = resolve_pretrain([read_settings(preset), parse_overrides(words)])
    guessing, judging = derive_encoders(config.model, config.generator, vocab_size=100, sequence_length=128)
    reads_original = config.generator.kind in ("causal", "two-tower")
    assert guessing.is_causal == reads_original
    assert not reads_original or config.masking.appearance == "mask"
    is_copied = config.procedure == "two-stage" and config.procedure_options.init_from_generator
    assert not is_copied or guessing.hidden_size == judging.hidden_size
    assert config.procedure != "two-stage" or config.model.sharing == "none"


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("roberta", ["--objective", "mlm"]),
        ("gpt", ["--objective", "causal"]),
        ("xlnet", ["--objective", "permutation"]),
        (
            "albert",
            [
                *("--objective", "mlm", "--sentence-task", "sentence-order", "--model.share-layers", "true"),
                *("--model.embedding-size", "32"),
            ],
        ),
    ],
)
def test_a_published_model_is_an_objective_with_its_settings(name: str, flags: list[str]) -> None:
    """What a run stores has no word of it, so that both are the same run."""
    assert resolve_pretrain([parse_overrides(["--objective", name])]) == resolve_pretrain([parse_overrides(flags)])


@pytest.mark.parametrize(("size", "width"), [("tiny", 32), ("small", 64), ("base", 128), ("large", 128)])
def test_the_table_of_albert_is_narrower_than_its_layers(size: str, width: int) -> None:
    model = resolve_pretrain([parse_overrides(["--size", size, "--objective", "albert"])]).model
    assert model.embedding_size == width < model.hidden_size


def test_what_a_published_model_brings_can_be_overruled() -> None:
    words = ["--objective", "albert", "--sentence-task", "none", "--model.hidden-size", "64"]
    config = resolve_pretrain([parse_overrides(words)])
    assert (config.sentence_task, config.model.share_layers, config.model.embedding_size) == ("none", True, 16)
    words += ["--model.embedding-size", "48", "--model.share-layers", "false"]
    config = resolve_pretrain([parse_overrides(words)])
    assert (config.model.share_layers, config.model.embedding_size) == (False, 48)


def test_the_last_name_counts() -> None:
    """As where an arm of a study says otherwise than what the arms have in common."""
    albert, bert = ConfigLayer("file", {"objective": "albert"}), ConfigLayer("arm", {"objective": "bert"})
    config = resolve_pretrain([albert, bert])
    assert (config.objective, config.sentence_task, config.model.share_layers) == ("bert", "next-sentence", False)
    assert resolve_pretrain([bert, albert]) == resolve_pretrain([albert])


def test_a_generator_that_is_no_longer_the_discriminator_has_its_usual_size() -> None:
    assert resolve_pretrain([]).generator.width_share == 1.0
    assert resolve_pretrain([parse_overrides(["--procedure", "adversarial"])]).generator.width_share == 0.5
    words = ["--procedure", "two-stage", "--procedure-options.init-from-generator", "false"]
    assert resolve_pretrain([parse_overrides(words)]).generator.width_share == 0.5
    assert resolve_pretrain([parse_overrides(words[:2])]).generator.width_share == 1.0


@pytest.mark.parametrize("sharing", ["none", "token", "embeddings", "disentangled"])
def test_a_generator_that_the_user_makes_a_network_of_its_own_has_its_usual_size(sharing: str) -> None:
    flags = ["--model.sharing", sharing]
    generator = resolve_pretrain([read_settings("tiny"), parse_overrides(flags)]).generator
    assert (generator.width_share, generator.num_heads) == (0.5, 0)
    flags += ["--generator.width-share", "0.25"]
    assert resolve_pretrain([read_settings("tiny"), parse_overrides(flags)]).generator.width_share == 0.25


@pytest.mark.parametrize("objective", ["replace-mlm", "all-tokens-mlm"])
def test_a_model_that_is_not_to_see_masks_has_a_generator_beside_it(objective: str) -> None:
    config = resolve_pretrain([read_settings("tiny"), parse_overrides(["--objective", objective])])
    assert (config.model.sharing, config.generator.width_share) == ("embeddings", 0.5)


IDLE = [
    (["--objective", "mlm", "--generator.kind", "causal"], "generator.kind", "objective 'mlm' has no generator"),
    (["--objective", "bert", "--sampling.top-k", "5"], "sampling.top_k", "objective 'bert' has no generator"),
    (["--objective", "causal", "--model.sharing", "none"], "model.sharing", "objective 'causal' has no generator"),
    (
        ["--objective", "mlm", "--loss.generator-weight", "1"],
        "loss.generator_weight",
        "objective 'mlm' has no generator",
    ),
    (
        ["--objective", "permutation", "--loss.discriminator-weight", "50"],
        "loss.discriminator_weight",
        "objective 'permutation' passes no verdicts",
    ),
    (
        ["--objective", "replace-mlm", "--model.verdict-head", "dense"],
        "model.verdict_head",
        "objective 'replace-mlm' passes no verdicts",
    ),
    (
        ["--objective", "causal", "--masking.mask-share", "0.2"],
        "masking.mask_share",
        "objective 'causal' masks nothing",
    ),
    (
        ["--procedure-options.init-from-generator", "true"],
        "procedure_options.init_from_generator",
        "procedure 'joint' has no second stage",
    ),
    (
        ["--procedure", "adversarial", "--procedure-options.generator-updates", "2"],
        "procedure_options.generator_updates",
        "procedure 'adversarial' takes no turns",
    ),
    (
        ["--generator.kind", "unigram", "--generator.width-share", "0.5"],
        "generator.width_share",
        "generator.kind 'unigram' is not built by these settings",
    ),
    (
        ["--generator.kind", "frozen", "--generator.path", "g", "--generator.dropout", "0"],
        "generator.dropout",
        "generator.kind 'frozen' is not built by these settings",
    ),
    (["--loss.sentence-weight", "2"], "loss.sentence_weight", "sentence_task is 'none'"),
    (["--loss.selection-negatives", "9"], "loss.selection_negatives", "loss.selection_weight is 0"),
    (["--loss.contrast-temperature", "1"], "loss.contrast_temperature", "loss.contrast_weight is 0"),
    (["--loss.sequence-temperature", "2"], "loss.sequence_temperature", "loss.sequence_weight is 0"),
]


@pytest.mark.parametrize(("words", "name", "reason"), IDLE)
def test_a_setting_of_the_users_without_effect_is_refused_by_name(words: list[str], name: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_pretrain([read_settings("tiny"), parse_overrides(words)])
    assert str(caught.value) == f"command line: {name} has no effect, for {reason}; leave it out"


def test_what_a_preset_or_a_common_part_says_in_vain_is_let_be() -> None:
    """The preset speaks of sharing, a generator and lambda."""
    common = Common("study", {"generator": {"width_share": 0.5}, "model": {"sharing": "token"}})
    assert resolve_pretrain([read_settings("tiny"), common, parse_overrides(["--objective", "causal"])])


@pytest.mark.parametrize("objective", get_args(ObjectiveName))
def test_settings_of_every_objective_survive_the_file_of_their_run(tmp_path: Path, objective: str) -> None:
    config = resolve_pretrain([read_settings("tiny"), parse_overrides(["--objective", objective])])
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert resolve_pretrain([read_settings(str(tmp_path / "config.toml"))]) == config


def test_what_a_choice_implies_lies_above_the_preset_and_below_the_user() -> None:
    assert resolve_pretrain([]).masking.appearance == "mask"
    assert resolve_pretrain([parse_overrides(["--objective", "mlm"])]).masking.appearance == "mask-keep-random"
    words = ["--objective", "mlm", "--masking.appearance", "mask-keep"]
    assert resolve_pretrain([read_settings("tiny"), parse_overrides(words)]).masking.appearance == "mask-keep"


@pytest.mark.parametrize("name", [name for name in PRESETS if name in ("base", "large") or "paper" in name])
def test_the_warm_up_of_a_preset_shrinks_with_the_run_and_is_exact_at_its_own_length(name: str) -> None:
    config = resolve_pretrain([read_settings(name)])
    assert config.schedule.warmup_reference_steps == config.steps
    assert config.schedule.at_length(config.steps).warmup_steps == 10_000
    assert config.schedule.at_length(3 * config.steps).warmup_steps == 10_000
    assert config.schedule.at_length(config.steps // 10).warmup_steps == 1_000
    assert config.schedule.at_length(1).warmup_steps == 1
    factors = [learning_rate_factor(step, 1_000, config.schedule.at_length(1_000)) for step in range(1, 1_001)]
    assert max(factors) > 0.95


def test_a_warm_up_of_the_users_own_holds_at_any_length() -> None:
    flags = parse_overrides(["--schedule.warmup-steps", "700"])
    assert resolve_pretrain([read_settings("base"), flags]).schedule.at_length(1_000).warmup_steps == 700
    # A file that a run wrote before presets named a length.
    written = ConfigLayer("old.toml", {"schedule": {"warmup_steps": 10_000}})
    assert resolve_pretrain([read_settings("base"), written]).schedule.at_length(1_000).warmup_steps == 10_000
    both = parse_overrides(["--schedule.warmup-steps", "700", "--schedule.warmup-reference-steps", "2000"])
    assert resolve_pretrain([read_settings("base"), both]).schedule.at_length(1_000).warmup_steps == 350


def test_micro_batches_of_a_preset_fit_a_smaller_batch_and_the_users_own_are_checked() -> None:
    smaller = parse_overrides(["--batch.size", "4"])
    assert resolve_pretrain([read_settings("base"), smaller]).batch.micro_size == 4
    assert resolve_pretrain([read_settings("base")]).batch.micro_size == 16
    assert resolve_pretrain([read_settings("base"), parse_overrides(["--batch.size", "64"])]).batch.micro_size == 16
    both = parse_overrides(["--batch.size", "4", "--batch.micro-size", "8"])
    with pytest.raises(UsageError, match=r"batch.micro_size 8 is larger than batch.size 4"):
        resolve_pretrain([read_settings("base"), both])


@pytest.mark.parametrize(
    ("preset", "words", "slices", "micro_size"),
    [
        ("tiny", "", 2, 0),
        ("tiny", "--batch.size 16", 4, 0),
        ("tiny", "--batch.size 3", 2, 0),
        ("tiny", "--batch.size 1", 1, 0),
        ("tiny", "--batch.size 500", 8, 0),
        ("tiny", "--batch.micro-size 4", 1, 4),
        ("tiny", "--batch.micro-size 0", 1, 0),
        ("tiny", "--loss.sequence-weight 1", 1, 0),
        ("small", "", 8, 0),
        ("small", "--batch.slices 1", 1, 32),
        ("base", "--batch.slices 16", 16, 0),
        ("paper-small", "", 1, 32),
    ],
)
def test_slices_of_a_preset_fit_the_step_and_the_users_word_on_how_it_is_cut_holds(
    preset: str, words: str, slices: int, micro_size: int
) -> None:
    batch = resolve_pretrain([read_settings(preset), parse_overrides(words.split())]).batch
    assert (batch.slices, batch.micro_size) == (slices, micro_size)


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 60), st.sampled_from([0.1, 0.5, 1.0]))
def test_rows_before_a_step_are_those_of_all_earlier_steps(first: int, more: int, total: int, share: float) -> None:
    batch = BatchConfig(size=first + more, first_size=first, ramp_share=share)
    sizes = [batch.rows_at(begin, total) for begin in range(total)]
    assert [batch.rows_before(step, RunLength.whole(total)) for step in range(1, total + 2)] == [
        sum(sizes[:step]) for step in range(total + 1)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == first
    assert batch.rows_at(math.ceil(share * total), total) == first + more
    assert sum(sizes) / total == pytest.approx(batch.mean_rows, abs=1 + more / total)


def test_without_a_ramp_every_step_takes_as_many_rows() -> None:
    batch = BatchConfig(size=8)
    assert [batch.rows_before(step, RunLength.whole(100)) for step in (1, 2, 51)] == [0, 8, 400]
    assert batch.mean_rows == 8


def train(data: Path, run: Path, *words: str, **options: Any) -> Any:
    asked: dict[str, Any] = {"config": "base", "steps": 4, "threads": 1, "log_every": 1} | options
    own = parse_overrides([*SMALL, "--generator.num-heads", "1", *words]).values
    return electralab.pretrain(data, run, settings=own, display=Display(quiet=True), **asked)


def rates(run: Path) -> list[float]:
    return [json.loads(line)["learning_rate"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def settle(run: Path, *words: str, config: str = "base") -> tuple[str, ...]:
    return settle_settings(
        [read_settings(config), parse_overrides([*SMALL, "--generator.num-heads", "1", *words])], run, 0
    ).notes


def test_a_run_from_before_a_setting_goes_on_as_it_was(data: Path, tmp_path: Path) -> None:
    """Its warm-up was 10,000 steps at any length, and stays so; a new run of the same command has a shorter one."""
    run = tmp_path / "run"
    train(data, run, "--schedule.warmup-reference-steps", "0")
    old_rates = rates(run)

    identity = json.loads((run / "run.json").read_text())
    del identity["settings"]["schedule"]["warmup_reference_steps"], identity["preset"]
    (run / "run.json").write_text(json.dumps(identity))
    file = tomllib.loads((run / "config.toml").read_text())
    del file["schedule"]["warmup_reference_steps"]
    (run / "config.toml").write_text(tomli_w.dumps(file))
    (note,) = settle(run)
    assert note == (
        f"{run}: goes on with the settings that it stored: schedule.warmup_reference_steps is 0 (a new run: 766000)"
    )
    train(data, run, steps=8, extend=True)
    assert rates(run)[:4] == old_rates
    assert max(rates(run)) < 2e-4 * 8 / 10_000
    train(data, tmp_path / "new", steps=8)
    assert max(rates(tmp_path / "new")) == 2e-4


def test_a_preset_that_has_changed_since_does_not_matter(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its settings nor its number of steps."""
    preset = dict(read_settings("base").values)

    def change_preset(**values: Any) -> None:
        monkeypatch.setattr(settings, "find_bundled", lambda *_: preset | values)

    run = tmp_path / "run"
    change_preset(steps=4)
    train(data, run, steps=None)
    before = (run / "results.json").read_text()
    change_preset(steps=6, optimizer={"learning_rate": 1e-3}, masking={"mask_share": 0.3})
    assert "optimizer.learning_rate is 0.0002 (a new run: 0.001)" in settle(run)[0]
    train(data, run, steps=None)
    assert (run / "results.json").read_text() == before
    with pytest.raises(IdentityMismatch, match=r"mask_share was 0.15, now 0.3"):
        train(data, run, "--masking.mask-share", "0.3", steps=None)


def test_what_the_user_asks_for_in_so_many_words_is_still_refused(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(data, run)
    with pytest.raises(IdentityMismatch, match=r"masking.mask_share was 0.15, now 0.3"):
        train(data, run, "--masking.mask-share", "0.3")
    with pytest.raises(IdentityMismatch, match=r"was .*, now "):
        train(data, run, config="paper-base")
