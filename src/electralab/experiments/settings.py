"""A study as it is written down: arms that differ in settings, the budget they share, the scores they are compared by.

study file, flags -> StudyConfig -> Arm...
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from electralab.config import ConfigLayer, GivenSettings, Settings, find_bundled, list_bundled, read_toml, resolve
from electralab.errors import InputError, UsageError, suggest
from electralab.pretraining.settings import Common, Preset, PretrainConfig, read_settings, resolve_pretrain
from electralab.records.evaluation import Suite
from electralab.records.record import JsonTree
from electralab.records.run import Budget, BudgetKind

Share = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**20)]

# Where a score's data would be named: what the arms are trained on, as far as it is held out.
CORPUS = "@corpus"
# Of a network; what a preset stands for in the first place.
_SIZES = ("num_layers", "hidden_size", "embedding_size", "num_heads", "feedforward_size")
# Names become folders.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class StudyBudget(Settings):
    """The same for every arm; exactly one of the three."""

    flops: float | None = Field(None, gt=0)
    tokens: float | None = Field(None, gt=0)
    steps: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _is_one(self) -> "StudyBudget":
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of flops, tokens and steps (got {', '.join(given) or 'none'})")
        return self

    def part(self, fraction: float) -> Budget:
        kinds: tuple[BudgetKind, ...] = ("flops", "tokens", "steps")
        kind, amount = next((kind, amount) for kind in kinds if (amount := getattr(self, kind)) is not None)
        return Budget(kind, float(max(1, round(fraction * amount))) if kind == "steps" else fraction * amount)


class ScoreConfig(Settings):
    """An evaluation suite, or a task to be tuned on."""

    suite: Suite | Literal[""] = ""
    task: str = ""
    """To tune on; with the suite `probe`, the task that is probed."""
    name: str = ""
    """In tables; without it, that of the task or suite."""
    data: str = "."
    """Relative to the data folder of the study; `@corpus`: the rows that the corpus holds out."""
    metric: str = ""
    """Which of the scores that come out; without it, the first of the task, or the usual one of the suite."""
    seeds: int = Field(1, ge=1)
    """Of fine-tuning, for each seed of pre-training; their median counts."""
    generator: str = ""
    """Of the suite `rtd`, the one that replaces tokens for all arms: a model's path, or an arm, of the same seed."""
    arms: tuple[str, ...] = ()
    """Those that are measured by it, where others cannot be asked; it is then left out of the average."""
    settings: JsonTree = Field(default_factory=dict)
    hard_half_of: str = ""
    """Another score, of classes, on the half of its dev rows that the linear baseline gets wrong or doubts most."""

    @model_validator(mode="after")
    def _is_one(self) -> "ScoreConfig":
        if self.hard_half_of and len(self.model_fields_set - {"name", "metric", "arms"}) > 1:
            raise ValueError("hard_half_of: takes task, data and settings of that score; leave them out here")
        if not self.suite and not self.task and not self.hard_half_of:
            raise ValueError("needs a suite or a task")
        if self.suite and self.task and self.suite != "probe":
            raise ValueError(f"names both the suite {self.suite!r} and the task {self.task!r}; keep one")
        if self.suite == "probe" and not self.task:
            raise ValueError("the suite 'probe' needs a task whose examples are probed; add task = \"sst2\" or another")
        if self.suite and "seeds" in self.model_fields_set:
            raise ValueError(f"seeds: are those of tuning, and the suite {self.suite!r} tunes nothing; leave them out")
        if self.suite == "rtd" and not self.generator:
            raise ValueError(
                "generator: the suite 'rtd' needs one generator for all arms, or their scores are not comparable; "
                "name a model's path or an arm"
            )
        if self.generator and self.suite != "rtd":
            raise ValueError("generator: belongs to the suite 'rtd'; leave it out")
        if not _NAME.fullmatch(self.label) or self.label in ("pretrain", "tuning", "average", "headline"):
            raise ValueError(f"cannot be named {self.label!r}; use letters, digits, '.', '_' and '-'")
        return self

    @property
    def label(self) -> str:
        hard = f"{self.hard_half_of}-hard" if self.hard_half_of else ""
        return self.name or hard or "-".join(part for part in (self.suite, self.task) if part)


class SnapshotConfig(Settings):
    at: tuple[Share, ...] = ()
    """Shares of the run after which the model is kept and scored too."""
    scores: tuple[str, ...] | None = None
    """Which of the scores; without it, all."""


class TuningConfig(Settings):
    """Settings of fine-tuning that are chosen for each arm, once, before it is scored."""

    grid: dict[str, tuple[str | float, ...]] = Field(default_factory=dict)
    """Dotted name of a setting -> its values; every combination is tried."""
    scores: tuple[str, ...] = ()
    """The scores whose training rows it is chosen by; the best mean over them is taken."""
    heldout_rows: int = Field(500, ge=1)
    """So many of each score's training rows are not learned from while choosing, but scored."""
    choices: str = ""
    """The folder of another study whose choices, arm by arm, are taken instead of choosing again."""

    @property
    def points(self) -> list[JsonTree]:
        """Every combination of the grid's values; none where nothing is to be chosen."""
        combinations = product(*self.grid.values()) if self.grid else ()
        return [dict(zip(self.grid, values, strict=True)) for values in combinations]


ArmStart = Literal["pretrained", "random", "baseline", "branch", "blend"]


class ArmConfig(Settings):
    """What an arm says beside its settings of pre-training."""

    start: ArmStart = "pretrained"
    """`random`: tuned from first weights; `baseline`: a linear model over the texts, no network; `branch`: a checkpoint
    of another arm whose rate decays at once; `blend`: the answers of another arm stacked with the baseline's."""
    parent: str = ""
    """The other arm of a branch or a blend, or the one whose network is drawn at random."""

    config: str = ""
    """The preset or file that its settings start from."""
    budget_share: float = Field(1.0, gt=0)
    line: str = ""
    """Arms of one line, at different budgets, make one curve."""
    versus: str = ""
    """The arm it is compared with, where that is not the study's baseline."""


class StudyConfig(Settings):
    name: str
    title: str = ""
    baseline: str
    seeds: tuple[Seed, ...] = (0,)
    budget: StudyBudget
    pretrain: JsonTree = Field(default_factory=dict)
    """Of all arms: the settings of pre-training, and `config`, the preset or file they start from."""
    arms: dict[str, JsonTree]
    """What each changes, and the fields of ArmConfig."""
    scores: tuple[ScoreConfig, ...] = ()
    snapshots: SnapshotConfig = SnapshotConfig()
    tuning: TuningConfig = TuningConfig()
    headline: tuple[str, ...] = ()
    """The scores whose mean is what the study is about; without them, the average of all that every arm has."""

    @model_validator(mode="after")
    def _names_fit(self) -> "StudyConfig":
        for name in (self.name, *self.arms):
            if not _NAME.fullmatch(name):
                raise ValueError(f"the name {name!r} cannot be a folder; use letters, digits, '.', '_' and '-'")
        if self.baseline not in self.arms:
            raise ValueError(f"baseline: {_no_arm(self.baseline, list(self.arms))}")
        labels = [score.label for score in self.scores]
        for what, values in (("score", labels), ("seed", self.seeds)):
            if twice := [value for value in values if values.count(value) > 1]:  # type: ignore[arg-type]
                raise ValueError(f"the {what} {twice[0]!r} is there twice; give the second another name")
        for score in self.scores:
            if unknown := [arm for arm in score.arms if arm not in self.arms]:
                raise ValueError(f"scores.{score.label}: arms: {_no_arm(unknown[0], list(self.arms))}")
        if not self.seeds:
            raise ValueError("seeds: there are none; give at least one")
        tuned = [score.label for score in self.scores if not score.suite and not score.hard_half_of]
        for where, names, known in (
            ("snapshots.scores", self.snapshots.scores or (), labels),
            ("headline", self.headline, labels),
            ("tuning.scores", self.tuning.scores, tuned),
            ("scores: hard_half_of", [score.hard_half_of for score in self.scores if score.hard_half_of], tuned),
        ):
            for name in names:
                if name not in known:
                    raise ValueError(f"{where}: no score named {name!r}; known are {', '.join(known)}")
        if self.tuning.grid and not self.tuning.scores:
            raise ValueError("tuning: has a grid but no scores to choose by; add scores = [...]")
        if self.tuning.grid and self.tuning.choices:
            raise ValueError("tuning: grid chooses anew and choices takes over what was chosen; keep one")
        return self


def _no_arm(name: str, known: Sequence[str]) -> str:
    return f"no arm named {name!r}; " + suggest(name, known, f"known are {', '.join(known)}")


def study_names() -> list[str]:
    return list_bundled("studies")


def read_study(name: str) -> ConfigLayer:
    """A study that comes with the package by its name, or a TOML file by its path."""
    values = find_bundled("studies", name, "study: no study")
    if values is not None:
        return ConfigLayer(f"study {name}", values)
    if not Path(name).is_file():
        what = "is a folder" if Path(name).is_dir() else "no such study file"
        raise InputError(f"{name}: {what}; give a TOML file or one of {', '.join(study_names())}")
    return read_toml(Path(name))


def resolve_study(layer: ConfigLayer, above: GivenSettings) -> StudyConfig:
    """`above` is what the command line says; a budget given there replaces the whole of the file's.

    A preset given there replaces the file's, and with it the sizes that the file names for all arms.
    """
    values = {key: value for key, value in layer.values.items() if not (key == "budget" and "budget" in above)}
    match above, values:
        case {"pretrain": {"config": _}}, {"pretrain": {"model": dict(model), **shared}}:
            sizeless = {name: value for name, value in model.items() if name not in _SIZES}
            values |= {"pretrain": shared | {"model": sizeless}}
    return resolve(StudyConfig, [ConfigLayer(layer.source, values), ConfigLayer("command line", dict(above))])


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    config: PretrainConfig
    budget: Budget
    line: str
    versus: str
    start: ArmStart = "pretrained"
    parent: str = ""

    @property
    def is_tuned(self) -> bool:
        """Whether a network of its own is fine-tuned."""
        return self.start in ("pretrained", "random", "branch")


@contextmanager
def naming_arm(source: str, name: str) -> Iterator[None]:
    """What is wrong with settings is said of the arm whose they are: other arms may share the layer they stand in."""
    try:
        yield
    except UsageError as error:
        where = f"{source}: arms.{name}"
        text = str(error) if where in str(error) else f"{where}: {str(error).removeprefix(f'{source}: ')}"
        raise UsageError(text) from None


def choose_arms(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The arms of `--only`, all where it is not given."""
    for name in names:
        if name not in known:
            raise UsageError(f"--only: {_no_arm(name, known)}")
    return [name for name in known if not names or name in names]


def resolve_arms(study: StudyConfig, source: str) -> list[Arm]:
    """Every arm with its settings: the preset it starts from, then what all arms share, then its own."""
    # All layers mix what ArmConfig takes with settings of pre-training.
    known, options = ArmConfig.model_fields.keys(), {}
    for name, own in study.arms.items():
        with naming_arm(source, name):
            for key, where in (("seed", "seeds"), ("steps", "budget")):
                if key in own or key in study.pretrain:
                    raise UsageError(f"{key}: is no setting of an arm; give the {where} of the study")
            layers = [(f"{source}: pretrain", study.pretrain), (f"{source}: arms.{name}", own)]
            mixed = [ConfigLayer(layer, {key: tree[key] for key in tree if key in known}) for layer, tree in layers]
            options[name] = resolve(ArmConfig, mixed)
    arms = []
    for name, option in options.items():
        with naming_arm(source, name):
            start, parent, versus = option.start, option.parent, option.versus or study.baseline
            trunk = options.get(parent, ArmConfig())
            trees = [
                {key: tree[key] for key in tree if key not in known}
                for tree in (study.pretrain, study.arms.get(parent, {}), study.arms[name])
            ]
            # The arm is named by `naming_arm`.
            for key, other in (("versus", versus), ("parent", parent)):
                if other and other not in options:
                    raise UsageError(f"{key}: {_no_arm(other, list(options))}")
            if start in ("branch", "blend") and not parent:
                raise UsageError(f'a {start} needs the arm that it is of; add parent = "ARM"')
            if parent and start in ("pretrained", "baseline"):
                raise UsageError("parent: belongs to a random, branch or blend arm; leave it out")
            if trunk.start in ("baseline", "blend") or (start != "blend" and trunk.parent):
                raise UsageError(f"parent: {parent!r} has no network of its own; name one that has")
            if start in ("baseline", "blend") and trees[-1]:
                raise UsageError(f"a {start} pre-trains nothing; leave out {next(iter(trees[-1]))!r}")
            settings = [Common(f"{source}: pretrain", trees[0]), ConfigLayer(f"{source}: arms.{name}", trees[-1])]
            if parent:
                settings.insert(1, Common(f"{source}: arms.{parent}", trees[1]))
            if preset_name := option.config or trunk.config:
                # A file of the user's own may set what has no effect in some arm, as what all arms share may.
                preset = read_settings(preset_name)
                settings.insert(0, preset if isinstance(preset, Preset) else Common(preset.source, preset.values))
            # One step makes the folder with sizes and tokenizer; fine-tuning from scratch forgets its weights.
            budget = Budget("steps", 1.0) if start == "random" else study.budget.part(option.budget_share)
            # Cells have a core each, side by side: a step is cut only where the study says so. As it was before presets
            # had slices, so that studies begun then go on.
            first = 1 if isinstance(settings[0], Preset) else 0
            settings.insert(first, Common("study", {"batch": {"slices": 1}}))
            arms.append(Arm(name, resolve_pretrain(settings), budget, option.line or name, versus, start, parent))
    baselines = [arm.name for arm in arms if arm.start == "baseline"]
    needing = [f"arms.{arm.name}: a blend" for arm in arms if arm.start == "blend"]
    needing += [f"scores.{score.label}: a hard half" for score in study.scores if score.hard_half_of]
    if needing and len(baselines) != 1:
        raise UsageError(f'{source}: {needing[0]} needs exactly one arm with start = "baseline" (got {len(baselines)})')
    return arms
