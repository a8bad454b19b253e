"""Layers of settings become one object; whatever is wrong is one sentence that says where to mend it."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, model_validator

from electralab.analysis.data import AnalysisSettings
from electralab.compression.settings import CompressConfig
from electralab.config import Alias, ConfigLayer, Settings, SettingsTree, parse_overrides, read_toml, resolve, to_toml
from electralab.errors import InputError, UsageError
from electralab.finetuning.settings import TaskEvaluationConfig


class Masking(Settings):
    mask_share: float = Field(default=0.15, gt=0, lt=1)
    selection: Annotated[Literal["fixed", "bernoulli"], Alias("strategy")] = "fixed"


class Schedule(Settings):
    warmup_steps: int = 10
    total_steps: int = 100

    @model_validator(mode="after")
    def _warmup_fits(self) -> "Schedule":
        if self.warmup_steps > self.total_steps:
            raise ValueError("warmup_steps must not exceed total_steps")
        return self


class Recipe(Settings):
    seed: int = 0
    name: str = "plain"
    sizes: tuple[int, ...] = (1, 2)
    masking: Masking = Masking()
    schedule: Schedule = Schedule()
    teacher: Masking | None = None


class Strict(Settings):
    mask_share: float


def complaint(*layers: ConfigLayer, kind: type[Settings] = Recipe) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(kind, layers)
    return str(caught.value)


def test_later_layer_wins_key_by_key_and_no_layer_changes() -> None:
    preset = ConfigLayer("small", {"masking": {"mask_share": 0.25, "selection": "bernoulli"}, "seed": 1})
    flags = ConfigLayer("command line", {"masking": {"mask_share": 0.5}})
    assert resolve(Recipe, [preset, flags]) == Recipe(seed=1, masking=Masking(mask_share=0.5, selection="bernoulli"))
    assert preset.values["masking"] == {"mask_share": 0.25, "selection": "bernoulli"}


def test_an_alias_stands_for_the_setting_and_a_later_layer_wins_by_either_name() -> None:
    preset = ConfigLayer("small", {"masking": {"selection": "fixed"}})
    flags = parse_overrides(["--masking.strategy", "bernoulli", "--teacher.strategy=bernoulli"])
    config = resolve(Recipe, [preset, flags])
    chosen = Masking(selection="bernoulli")
    assert config == Recipe(masking=chosen, teacher=chosen.model_copy())
    assert config.model_dump()["masking"] == {"mask_share": 0.15, "selection": "bernoulli"}
    assert resolve(Recipe, [flags, preset]).masking.selection == "fixed"


@pytest.mark.parametrize(
    ("kind", "own", "alias"),
    [
        (AnalysisSettings, {"times": 9}, {"num_resamples": 9}),
        (CompressConfig, {"verdicts": {"limit": 9}}, {"rtd": {"limit": 9}}),
        (TaskEvaluationConfig, {"times": 9}, {"num_evaluations": 9}),
    ],
)
def test_the_fields_word_for_a_setting_of_a_stage_is_taken(
    kind: type[Settings], own: SettingsTree, alias: SettingsTree
) -> None:
    resolved, aliased = resolve(kind, [ConfigLayer("a.toml", own)]), resolve(kind, [ConfigLayer("a.toml", alias)])
    assert resolved == aliased != kind()
    assert to_toml(resolved) == to_toml(aliased)


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Recipe().seed = 3  # type: ignore[misc]


# In small.toml -> what is said of it there.
WRONG: list[tuple[type[Settings], SettingsTree, str]] = [
    (Recipe, {"masking": {"mask_shares": 0.2}}, "masking: no setting named 'mask_shares'; did you mean 'mask_share'?"),
    (Recipe, {"maskin": {"mask_share": 0.2}}, "no setting named 'maskin'; did you mean 'masking'?"),
    (Recipe, {"teacher": {"selections": "x"}}, "teacher: no setting named 'selections'; did you mean 'selection'?"),
    (Recipe, {"mask_share": 0.2}, "no setting named 'mask_share'; did you mean 'masking.mask_share'?"),
    (Recipe, {"masking": {"zzz": 1}}, "masking: no setting named 'zzz'; known are mask_share, selection"),
    # A misspelling is reported before the gap it causes.
    (Strict, {"mask_shares": 0.2}, "no setting named 'mask_shares'; did you mean 'mask_share'?"),
    (
        Recipe,
        {"masking": {"mask_share": 1.5}},
        "masking: mask_share: input should be less than 1 (got 1.5); correct this setting",
    ),
    (
        Recipe,
        {"masking": {"selection": "all"}},
        "masking: selection: input should be 'fixed' or 'bernoulli' (got 'all'); correct this setting",
    ),
    (Recipe, {"masking": 0.2}, "masking: is a section with settings of its own (got 0.2); name one of them"),
    (
        Recipe,
        {"masking": {"selection": "fixed", "strategy": "fixed"}},
        "masking: 'strategy' and 'selection' are two names of one setting; keep one of them",
    ),
    (Recipe, {"masking": {"strategi": "x"}}, "masking: no setting named 'strategi'; did you mean 'strategy'?"),
    (
        Recipe,
        {"masking": {"strategy": "fix"}},
        "masking: selection: input should be 'fixed' or 'bernoulli' (got 'fix'); did you mean 'fixed'?",
    ),
]


@pytest.mark.parametrize(("kind", "values", "sentence"), WRONG)
def test_what_is_wrong_is_one_sentence_with_its_place(
    kind: type[Settings], values: SettingsTree, sentence: str
) -> None:
    assert complaint(ConfigLayer("small.toml", values), kind=kind) == f"small.toml: {sentence}"


def test_missing_setting_is_named() -> None:
    assert complaint(kind=Strict) == "settings: mask_share: has no value and no default; give one"


def test_wrong_value_is_blamed_on_the_layer_that_won() -> None:
    preset = ConfigLayer("small", {"seed": 1})
    file = ConfigLayer("mine.toml", {"seed": "x"})
    flags = ConfigLayer("command line", {"name": "y"})
    assert complaint(preset, file, flags).startswith("mine.toml: seed: ")


def test_values_that_clash_name_every_layer_that_gave_one() -> None:
    preset = ConfigLayer("small", {"schedule": {"warmup_steps": 50}})
    file = ConfigLayer("mine.toml", {"seed": 2})
    flags = ConfigLayer("command line", {"schedule": {"total_steps": 20}})
    assert complaint(preset, file, flags) == (
        "small, command line: schedule: warmup_steps must not exceed total_steps; correct this setting"
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_must_be_finite(value: str) -> None:
    assert "finite number" in complaint(parse_overrides(["--masking.mask-share", value]))


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], {}),
        (["--seed", "3"], {"seed": 3}),
        (["--seed=3"], {"seed": 3}),
        (["--seed", "-3"], {"seed": -3}),
        (["--masking.mask-share", "0.25"], {"masking": {"mask_share": 0.25}}),
        (["--a.b.c=1e-3", "--a.b.d-e", "true"], {"a": {"b": {"c": 0.001, "d_e": True}}}),
        (["--sizes", "[3, 4]"], {"sizes": [3, 4]}),
        (["--name", "cosine"], {"name": "cosine"}),
        (["--name", "two words"], {"name": "two words"}),
        (["--name", '"3"'], {"name": "3"}),
        (["--name="], {"name": ""}),
        (["--name=a=b"], {"name": "a=b"}),
        (["--name=--dashes"], {"name": "--dashes"}),
        (["--name", "2024-05-01"], {"name": "2024-05-01"}),
        (["--name", "1\nseed = 2"], {"name": "1\nseed = 2"}),
        (["--seed", "3", "--seed", "4"], {"seed": 4}),
    ],
)
def test_overrides_become_a_tree(words: list[str], values: SettingsTree) -> None:
    assert parse_overrides(words) == ConfigLayer("command line", values)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["seed", "3"], "unexpected argument 'seed'; settings are given as --section.name VALUE"),
        (["--seed"], "--seed: has no value; give --seed VALUE"),
        (["--seed", "--name", "x"], "--seed: has no value; give --seed VALUE"),
        (["--a", "1", "--a.b", "2"], "--a.b: 'a' is given both as a value and as a section; keep one"),
        (["--a.b", "2", "--a", "1"], "--a: 'a' is given both as a value and as a section; keep one"),
    ],
)
def test_wrong_overrides_are_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_overrides(words)
    assert str(caught.value) == sentence


def test_file_with_settings_is_read_even_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf[masking]\nmask_share = 0.2\n")
    assert read_toml(path) == ConfigLayer(str(path), {"masking": {"mask_share": 0.2}})


@pytest.mark.parametrize("content", [b"seed = ", b"seed = 1\nseed = 2", b"\xff\xfe"])
def test_a_settings_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    for wrong, sentence in (
        (path, rf"^{path}: not valid TOML \(.+\); correct the file$"),
        (tmp_path / "no.toml", r"no\.toml: no such settings file; give a TOML file or "),
        (tmp_path, "is a folder; --config takes a TOML file"),
        (path / "mine.toml", r"cannot be read \(Not a directory\)"),
    ):
        with pytest.raises(InputError, match=sentence):
            read_toml(wrong)


@given(
    st.builds(
        Recipe,
        seed=st.integers(-(2**63), 2**63 - 1),
        name=st.text(st.characters(exclude_categories=["Cs"])),
        sizes=st.lists(st.integers(0, 9)).map(tuple),
        masking=st.builds(Masking, mask_share=st.floats(0.001, 0.999)),
        teacher=st.none() | st.builds(Masking),
    )
)
def test_settings_survive_the_way_through_toml(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> None:
    path = tmp_path_factory.mktemp("toml") / "recipe.toml"
    path.write_text(to_toml(recipe), encoding="utf-8", newline="")
    assert resolve(Recipe, [read_toml(path)]) == recipe
